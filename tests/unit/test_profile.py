"""profframe.profile as an object: what is set, listed and taken for torch's, and where it ends."""

from __future__ import annotations

import pickle
import rlcompleter
import subprocess
import sys
from typing import Any

import pytest

import profframe
from profframe.errors import ParameterError
from tests import needs
from tests.live_profiles import CYCLES, calls, work

torch = needs.torch()
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")


def flags(trace: profframe.Trace) -> list[str]:
    return trace.traces["profiler_flags"].to_list()


@pytest.mark.parametrize("arguments", [{}, {"use_cpu": True}])
def test_what_is_set_reaches_torchs_profiler_in_each_block(arguments: dict[str, Any]) -> None:
    prof = profframe.profile(**arguments)
    prof.record_shapes = True
    assert prof.record_shapes
    for _ in range(2):
        with prof:
            work()
        assert "[[2,2],[2,2]]" in set(prof.trace.events["input_dims"])
        assert flags(prof.trace) == ['{"record_shapes": 1}']


def test_what_is_set_in_a_block_counts_from_the_next_cycle_as_with_torch() -> None:
    seen: list[list[str]] = []
    with profframe.profile(
        schedule=profframe.schedule(**CYCLES), on_trace_ready=lambda p: seen.append(flags(p.trace))
    ) as prof:
        for with_stack in (False, True, True, False):  # the second and the last one are recorded
            prof.with_stack = with_stack
            work()
            prof.step()
    assert seen == [[None], ['{"with_stack": 1}']]


def test_a_handler_that_is_set_is_called_and_is_what_one_reads() -> None:
    first: list[Any] = []
    second: list[Any] = []
    prof = profframe.profile(on_trace_ready=first.append)
    with prof:
        prof.on_trace_ready = second.append
        assert prof.on_trace_ready == second.append
    assert (first, second) == ([], [prof])
    prof.on_trace_ready = None
    with prof:
        work()
    assert len(second) == 1


def test_state_of_torchs_own_can_be_set() -> None:
    prof = profframe.profile(schedule=profframe.schedule(**CYCLES))
    prof.preset_metadata_json("mine", "5")
    prof.with_flops = True
    with prof:
        prof.step_num = 4
        for _ in range(2):
            work()
            prof.step()
    assert prof.trace.step_times()["step"].to_list() == [5]
    assert '"mine": 5' in prof.trace.traces["metadata"][0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("schedule", None, r"schedule cannot .* new profile, .*profile\(schedule=\.\.\.\)"),
        ("activities", [], "activities cannot be changed once a profile is made"),
        ("acc_events", True, "acc_events cannot be changed"),
        ("use_device", "cuda", "use_device cannot be changed"),
        ("enabled", False, "enabled cannot be changed"),
        ("trace", 1, "trace cannot be set: it belongs to the profile itself"),
        ("with_stak", True, "'with_stak' cannot be set: .* did you mean 'with_stack'?"),
        ("zzz", True, "'zzz' cannot be set: .* keep it in a variable of your own"),
        ("on_trace_ready", 3, "on_trace_ready must be a function that takes the profile, not 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_and_changes_nothing(
    name: str, value: object, words: str
) -> None:
    prof = profframe.profile()
    with pytest.raises(ParameterError, match=words):
        setattr(prof, name, value)
    with prof:
        work()
    assert calls(prof.trace) == 1


def test_with_one_recorder_for_all_cycles_torch_would_ignore_what_is_set_later() -> None:
    prof = profframe.profile(acc_events=True)
    prof.record_shapes = True
    for _ in range(2):
        with prof:
            work()
        with pytest.raises(ParameterError, match=r"with_stack .* once acc_events=True has begun"):
            prof.with_stack = True
        prof.on_trace_ready = None
    assert flags(prof.trace) == ['{"record_shapes": 1}']


def test_a_handler_that_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="on_trace_ready must be a function"):
        profframe.profile(on_trace_ready="store")


def test_a_profile_that_is_not_enabled_keeps_what_is_set() -> None:
    prof = profframe.profile(enabled=False, with_flops=True)
    prof.with_stack = True
    prof.step_num = 3
    assert (prof.with_flops, prof.with_stack, prof.step_num) == (True, True, 3)
    prof.start()
    prof.step()
    prof.stop()


OWN = {"start", "stop", "trace"}
OF_TORCH = {"add_metadata", "export_chrome_trace", "key_averages", "step", "with_stack"}


def test_names_of_torchs_profiler_are_listed() -> None:
    prof = profframe.profile()
    assert set(dir(prof)) >= OWN | OF_TORCH | {"on_trace_ready", "table", "total_average"}
    assert "self_cpu_time_total" not in dir(prof)  # there is none yet
    with prof:
        work()
    assert {"self_cpu_time_total", "kineto_results"} <= set(dir(prof))
    assert set(dir(profframe.profile(enabled=False))) >= OWN | {"step", "add_metadata"}


@pytest.mark.parametrize("arguments", [{}, {"use_cpu": True}, {"enabled": False}])
def test_python_completes_every_name_that_is_listed(arguments: dict[str, Any]) -> None:
    prof = profframe.profile(**arguments)
    for _ in range(2):
        names = {name for name in dir(prof) if not name.startswith("_")}
        matches = rlcompleter.Completer({"p": prof}).attr_matches("p.")
        assert {match.removeprefix("p.").rstrip("()") for match in matches} >= names
        with prof:
            work()


@pytest.mark.parametrize("use_jedi", [True, False])
def test_ipython_completes_them_and_shows_the_profile(use_jedi: bool) -> None:
    completer = needs.module("IPython.core.completer")
    prof = profframe.profile()
    tab = completer.IPCompleter(namespace={"p": prof}, use_jedi=use_jedi)
    with completer.provisionalcompleter():
        texts = {each.text.removeprefix(".") for each in tab.completions("p.", 2)}
    assert texts >= OWN | OF_TORCH
    assert needs.module("IPython.lib.pretty").pretty(prof) == repr(prof)


def test_isinstance_takes_it_for_torchs_profiler_and_for_its_own() -> None:
    prof = profframe.profile()
    assert isinstance(prof, torch.profiler.profile)
    assert isinstance(prof, profframe.profile)
    assert not isinstance(prof, torch.autograd.profiler.profile)
    plain = profframe.profile(use_cpu=True)
    assert isinstance(plain, torch.autograd.profiler.profile)
    assert not isinstance(plain, torch.profiler.profile)
    assert not isinstance(profframe.profile(enabled=False), torch.profiler.profile)
    assert prof.__class__.__name__ == "profile"


def test_a_profile_can_be_pickled_before_it_has_run() -> None:
    prof = pickle.loads(pickle.dumps(profframe.profile(record_shapes=True)))  # noqa: S301
    with prof:
        work()
    assert flags(prof.trace) == ['{"record_shapes": 1}']


def test_importing_and_a_profile_that_is_not_enabled_do_not_import_torch() -> None:
    code = "import sys, profframe; p = profframe.profile(enabled=False); dir(p); p.x = 1"
    check = f"{code}; isinstance(p, int); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


EVERY = [{}, {"schedule": "cycles"}, {"use_cpu": True}, {"enabled": False}]


@pytest.mark.parametrize("arguments", EVERY)
def test_an_end_without_a_beginning_leaves_the_next_block_usable(arguments: dict[str, Any]) -> None:
    ready: list[Any] = []
    if "schedule" in arguments:
        arguments = {"schedule": profframe.schedule(**CYCLES)}
    prof = profframe.profile(on_trace_ready=ready.append, **arguments)
    for times in (0, 1, 2):
        prof.__exit__(None, None, None)
        with pytest.raises(ParameterError, match=r"stop: this profile is not running; start\(\)"):
            prof.stop()
        assert len(ready) == (times if arguments.get("enabled", True) else 0)
        with prof:
            work()
            if "schedule" in arguments:
                prof.step()
                work()
    if arguments.get("enabled", True):
        assert calls(prof.trace) == 1


@pytest.mark.parametrize("arguments", [{}, {"use_cpu": True}])
def test_start_and_stop_are_a_block(arguments: dict[str, Any]) -> None:
    ready: list[Any] = []
    prof = profframe.profile(on_trace_ready=ready.append, **arguments)
    for _ in range(2):
        prof.start()
        with pytest.raises(ParameterError, match="already running"):
            prof.start()
        with pytest.raises(ParameterError, match="already running"), prof:
            pass
        work()
        prof.stop()
        assert calls(prof.trace) == 1
    assert len(ready) == 2


def test_a_block_that_is_stopped_in_it_ends_there() -> None:
    ready: list[Any] = []
    with profframe.profile(on_trace_ready=ready.append) as prof:
        work()
        prof.stop()
        work()
    assert (calls(prof.trace), len(ready)) == (1, 1)


def test_a_schedule_goes_on_between_stop_and_start_as_with_torch() -> None:
    prof = profframe.profile(schedule=profframe.schedule(wait=2, warmup=1, active=1))
    for _ in range(2):
        prof.start()
        for _ in range(2):
            work()
            prof.step()
        prof.stop()
    assert prof.trace.step_times()["step"].to_list() == [3]
