"""The profiler of torch with a trace at its end, and cycles straight into a store."""

from __future__ import annotations

import asyncio
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe import store
from profframe.errors import ParameterError, SourceError
from profframe.facts.torch_compat.releases import installed
from profframe.loaders import torch_profiler
from tests import needs
from tests.event_loop import awaited

torch = needs.torch()
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")

CYCLES = {"wait": 1, "warmup": 1, "active": 2}


def work() -> object:
    return torch.ones(2, 2) @ torch.ones(2, 2)


def calls(trace: profframe.Trace, name: str = "aten::mm") -> int:
    return trace.events.filter(trace.events["name"] == name).height


def steps(trace: profframe.Trace) -> list[int]:
    return trace.step_times()["step"].to_list()


def test_a_block_has_a_trace_when_it_has_ended() -> None:
    with profframe.profile(record_shapes=True) as prof:
        with profframe.record_function("mine"):
            work()
        with pytest.raises(SourceError, match="no trace yet"):
            _ = prof.trace
    assert calls(prof.trace) == calls(prof.trace, "mine") == 1
    assert "[[2,2],[2,2]]" in set(prof.trace.events["input_dims"])
    assert prof.trace is prof.trace


def test_arguments_of_the_export_are_torchs(tmp_path: Path) -> None:
    with profframe.profile() as prof:
        work()
    given: dict[str, object] = {"use_python_export": True}
    if installed() >= (2, 14):
        given |= {"graph_lanes": "none", "default_stream": 3, "cuda_graph_annotations": None}
    prof.export_chrome_trace(str(tmp_path / "torch.json.gz"), **given)
    assert calls(profframe.load(tmp_path / "torch.json.gz")) == 1
    rows = prof.key_averages(group_by_input_shape=True)
    assert {row.key for row in rows} >= {"aten::mm"}


def test_the_rest_is_torchs_own_profiler(tmp_path: Path) -> None:
    with profframe.profile() as prof:
        prof.add_metadata_json("mine", "5")
        work()
    assert {row.key for row in prof.key_averages()} >= {"aten::mm"}
    assert prof.trace.events.height > 0
    prof.export_chrome_trace(str(tmp_path / "torch.json"))  # works once: loading did not use it up
    assert calls(profframe.load(tmp_path / "torch.json")) == 1
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = prof.no_such_thing


READS = {
    "events": (), "export_chrome_trace": ("out.json",), "export_stacks": ("out.txt",),
    "key_averages": (), "table": (), "total_average": (),
}  # fmt: skip


@pytest.mark.parametrize("arguments", [{}, {"use_cpu": True}])
@pytest.mark.parametrize("name", READS)
def test_what_needs_a_recording_says_that_there_is_none_yet(
    name: str, arguments: dict[str, Any]
) -> None:
    prof = profframe.profile(**arguments)
    read = getattr(prof, name)
    assert hasattr(prof, "start" if not arguments else "use_cpu")
    refused = pytest.raises(SourceError, match=f"{name}: nothing to read yet: the profile has not")
    with refused:
        read(*READS[name])
    with prof, refused:
        getattr(prof, name)(*READS[name])


def test_in_a_later_cycle_of_a_schedule_there_is_nothing_to_read_either(tmp_path: Path) -> None:
    with profframe.profile(schedule=profframe.schedule(**CYCLES)) as prof:
        for number in range(7):  # steps 2 and 3 are recorded, and 6
            work()
            if number == 6:
                with pytest.raises(SourceError, match="nothing to read yet"):
                    prof.export_chrome_trace(str(tmp_path / "out.json"))
                assert steps(prof.trace) == [2, 3]
            prof.step()
    prof.export_chrome_trace(str(tmp_path / "out.json"))
    assert calls(profframe.load(tmp_path / "out.json")) == 1


def test_its_repr_says_what_has_been_recorded() -> None:
    prof = profframe.profile()
    assert repr(prof) == "<unfinished profframe.profile>"
    with prof:
        assert repr(prof) == "<unfinished profframe.profile>"
        work()
    assert repr(prof) == "<profframe.profile: 1 finished cycle, see .trace>"
    assert repr(prof.trace).startswith("Trace: 1 run, 1 rank, ")
    assert repr(profframe.profile(enabled=False)) == "<profframe.profile that is not enabled>"


def test_what_is_raised_in_the_block_comes_out_and_the_trace_is_there() -> None:
    prof = profframe.profile()
    with pytest.raises(ZeroDivisionError), prof:  # noqa: PT012 -- work before it is the point
        work()
        raise ZeroDivisionError
    assert calls(prof.trace) == 1


def test_start_and_stop_do_too() -> None:
    prof = profframe.profile()
    prof.start()
    work()
    prof.stop()
    assert calls(prof.trace) == 1


def test_a_second_block_is_a_profile_of_its_own() -> None:
    prof = profframe.profile()
    with prof:
        work()
    first = prof.trace
    with prof:
        work()
        work()
    assert (calls(first), calls(prof.trace)) == (1, 2)


def test_a_block_in_its_own_block_is_refused_and_the_outer_one_goes_on() -> None:
    with profframe.profile() as prof:
        with pytest.raises(ParameterError, match="already running"), prof:
            pass
        work()
    assert calls(prof.trace) == 1


def test_of_a_schedule_the_trace_is_the_last_cycle_that_ended() -> None:
    schedule = profframe.schedule(**CYCLES)
    ready: list[int] = []
    with profframe.profile(
        schedule=schedule, on_trace_ready=lambda p: ready.append(p.step_num)
    ) as p:
        for _ in range(9):  # steps 2, 3 and 6, 7 are recorded; it ends in the third wait
            work()
            p.step()
    assert ready == [4, 8]
    assert steps(p.trace) == [6, 7]


@pytest.mark.parametrize(("count", "expected"), [(5, [2, 3]), (6, [2, 3]), (7, [6])])
def test_leaving_a_schedule_early(count: int, expected: list[int]) -> None:
    with profframe.profile(schedule=profframe.schedule(**CYCLES)) as prof:
        for _ in range(count - 1):
            work()
            prof.step()
        work()
    assert steps(prof.trace) == expected


def test_a_schedule_that_recorded_nothing_has_no_trace() -> None:
    with profframe.profile(schedule=profframe.schedule(wait=5, warmup=1, active=1)) as prof:
        work()
        prof.step()
    with pytest.raises(SourceError, match="no cycle of its schedule has ended"):
        _ = prof.trace


def test_a_decorated_function_is_profiled_at_each_call_and_recursion_is_one() -> None:
    prof = profframe.profile()

    @prof
    def deep(n: int) -> int:
        """Doc."""
        work()
        return 0 if n == 0 else 1 + deep(n - 1)

    assert (deep.__name__, deep.__doc__) == ("deep", "Doc.")
    assert (deep(3), calls(prof.trace)) == (3, 4)
    assert (deep(0), calls(prof.trace)) == (0, 1)


def test_a_decorated_coroutine_is_profiled_to_its_end() -> None:
    prof = profframe.profile()

    @prof
    async def twice() -> str:
        work()
        await asyncio.sleep(0)
        work()
        return "done"

    assert awaited(twice()) == "done"
    assert calls(prof.trace) == 2


def test_a_generator_is_refused_with_what_to_do() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(ParameterError, match=r"numbers is a generator.*profile the loop over it"):
        profframe.profile()(numbers)


def test_each_cycle_is_a_run_of_its_own_in_the_store(tmp_path: Path) -> None:
    handler = profframe.trace_handler(tmp_path, run="night/ly", rank=3)
    with profframe.profile(
        schedule=profframe.schedule(**CYCLES, repeat=2), on_trace_ready=handler
    ) as prof:
        for _ in range(9):
            work()
            prof.step()
    stored = profframe.load(tmp_path)
    found = stored.step_times().select("run", "rank", "step").rows()
    first, second = "night/ly", "night/ly.1"
    assert found == [(first, 3, 2), (first, 3, 3), (second, 3, 6), (second, 3, 7)]
    noted = stored.quality.filter(stored.quality["issue"] == "same_run_and_rank")
    assert noted["run"].to_list() == [second]
    assert prof.key_averages()


def one_cycle(handler: Any) -> None:
    with profframe.profile(on_trace_ready=handler):
        work()


def test_a_spawned_process_can_be_given_the_handler(tmp_path: Path) -> None:
    handler = profframe.trace_handler(tmp_path, run="job", rank=3)
    assert pickle.loads(pickle.dumps(handler)) == handler  # noqa: S301


def test_a_restart_goes_on_behind_what_is_there_and_ranks_do_not_meet(tmp_path: Path) -> None:
    for rank in (0, 0, 1):
        one_cycle(profframe.trace_handler(tmp_path, run="r", rank=rank))
    found = profframe.load(tmp_path).traces.select("run", "rank").rows()
    assert sorted(found) == [("r", 0), ("r", 1), ("r.1", 0)]


def test_another_process_that_was_faster_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_cycle(profframe.trace_handler(tmp_path, run="r", rank=0))
    before = profframe.load(tmp_path).traces["start_ns"].to_list()
    for has in (store, store.writing):
        monkeypatch.setattr(has, "has", lambda *_: False)  # it was not there a moment ago
    one_cycle(profframe.trace_handler(tmp_path, run="r", rank=0))
    after = profframe.load(tmp_path).traces
    assert after["run"].to_list() == ["r", "r.1"]
    assert after["start_ns"].to_list()[:1] == before


def test_torchs_profiler_takes_the_handler_too(tmp_path: Path) -> None:
    seen: list[Any] = []
    handler = profframe.trace_handler(tmp_path / "store", run="r")

    def both(profiler: Any) -> None:
        handler(profiler)
        profiler.export_chrome_trace(str(tmp_path / "torch.json"))
        seen.append(profiler)

    with torch.profiler.profile(on_trace_ready=both) as prof:
        work()
    assert seen == [prof]
    assert calls(profframe.load(tmp_path / "store")) == 1
    assert calls(profframe.load(tmp_path / "torch.json")) == 1


@pytest.mark.parametrize(("variable", "rank"), [(None, 0), ("5", 5), ("x", 0)])
def test_without_a_distributed_job_the_rank_is_of_the_environment(
    variable: str | None, rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if variable is not None:
        monkeypatch.setenv("RANK", variable)
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py"])
    one_cycle(profframe.trace_handler(tmp_path))
    assert profframe.load(tmp_path).traces.select("run", "rank").rows() == [("train", rank)]


def test_in_a_distributed_job_the_rank_is_the_jobs(tmp_path: Path) -> None:
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        one_cycle(profframe.trace_handler(tmp_path, run="r"))
    finally:
        distributed.destroy_process_group()
    (row,) = profframe.load(tmp_path).traces.to_dicts()
    assert (row["rank"], row["world_size"], row["backend"]) == (0, 1, "gloo")


@pytest.mark.parametrize(
    "given", [{"run": ""}, {"run": 3}, {"rank": -1}, {"rank": "0"}, {"rank": True}]
)
def test_a_run_or_rank_that_cannot_be_one_is_refused_at_once(given: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=rf"{next(iter(given))} must be"):
        profframe.trace_handler(tmp_path, **given)


def test_names_of_torch_are_torchs() -> None:
    assert profframe.record_function is torch.profiler.record_function
    assert profframe.schedule is torch.profiler.schedule
    assert profframe.emit_nvtx is torch.autograd.profiler.emit_nvtx
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = torch_profiler.no_such_name


def test_without_torch_the_pip_line_is_named() -> None:
    uses = [
        "profile()", "trace_handler('s')", "record_function('x')", "schedule()", "emit_nvtx()",
        "emit_itt()", "supported_activities()", "ProfilerActivity.CPU", "ProfilerAction.RECORD",
    ]  # fmt: skip
    code = f"""
import sys
sys.modules["torch"] = None
from profframe import *
import profframe
for use in {uses}:
    try:
        eval("profframe." + use)
    except profframe.MissingExtraError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"profframe.{re.split('[(.]', use)[0]} needs PyTorch: pip install 'profframe[torch]'"
        for use in uses
    ]
