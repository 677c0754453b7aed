"""profframe.profile with the arguments of both of torch's profilers, and all cycles of one."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.errors import ParameterError, SourceError
from tests import needs
from tests.live_profiles import CYCLES, calls, work

torch = needs.torch()
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")


def accumulated(cycles: int = 3, **arguments: Any) -> profframe.profile:
    weight = torch.ones(3, 3, requires_grad=True)
    with profframe.profile(
        acc_events=True, schedule=profframe.schedule(**CYCLES, repeat=cycles), **arguments
    ) as prof:
        for _ in range(2 * cycles):
            with profframe.record_function("mine"):
                (weight @ weight).mean().backward()
            prof.step()
    return prof


def test_a_trace_of_all_cycles_is_torchs_own_list() -> None:
    prof = accumulated(record_shapes=True)
    trace, events = prof.trace, prof.events()
    ours = trace.events.filter(trace.events["kind"] != "profiler")
    assert ours["name"].str.starts_with("ProfilerStep#").sum() == 3
    assert sorted(trace.step_times()["step"]) == [1, 3, 5]
    theirs = Counter((e.id, round(e.time_range.elapsed_us() * 1000)) for e in events)
    assert not theirs - Counter(ours.select("external_id", "dur_ns").rows())
    averages = {
        row.key: (row.count, round(row.self_cpu_time_total * 1000)) for row in events.key_averages()
    }
    mine = trace.key_averages().select("name", "calls", "self_cpu_ns").rows()
    assert {name: rest for name, *rest in mine} == {k: list(v) for k, v in averages.items()}


def test_cycles_are_apart_in_time_and_arrows_stay_in_theirs() -> None:
    events = accumulated().trace.events
    step_of = dict(events.select("event_id", "step").rows())
    arrows = events.filter(events["fwd_id"].is_not_null())
    assert arrows["step"].n_unique() == 3
    assert all(step_of[row["fwd_id"]] == row["step"] for row in arrows.to_dicts())
    spans = events.filter(events["kind"] == "profiler").sort("start_ns")
    ends = (spans["start_ns"] + spans["dur_ns"]).to_list()
    assert all(
        end < start for end, start in zip(ends, spans["start_ns"].to_list()[1:], strict=False)
    )


def test_blocks_calls_and_starts_add_up() -> None:
    prof = profframe.profile(acc_events=True)
    for count in (1, 2):
        with prof:
            work()
        assert calls(prof.trace) == count
    prof.start()
    work()
    prof.stop()
    assert calls(prof.trace) == 3 == [event.name for event in prof.events()].count("aten::mm")
    both = profframe.profile(acc_events=True, use_cpu=True)
    for _ in range(2):
        with both:
            work()
    assert calls(both.trace) == 2


def test_torchs_profiler_has_lost_earlier_cycles_and_that_is_counted(tmp_path: Path) -> None:
    handler = profframe.trace_handler(tmp_path, run="r")
    with torch.profiler.profile(
        acc_events=True, schedule=profframe.schedule(**CYCLES, repeat=2), on_trace_ready=handler
    ) as prof:
        for _ in range(4):
            work()
            prof.step()
    (row,) = profframe.load(prof).quality.to_dicts()
    assert row["issue"] == "earlier_cycles"
    assert 2 * row["events"] == len(prof.events())
    stored = profframe.load(tmp_path)  # each cycle is a run, and none is lost
    assert "earlier_cycles" not in stored.quality["issue"].to_list()
    assert stored.step_times().select("run", "step").rows() == [("r", 1), ("r.1", 3)]


def test_cycles_of_one_list_do_not_lie_over_one_another() -> None:
    prof = accumulated()
    events = prof.events()
    trace = profframe.load(events)
    mine = trace.key_averages().select("name", "calls", "self_cpu_ns").rows()
    theirs = [
        (row.key, row.count, round(row.self_cpu_time_total * 1000)) for row in events.key_averages()
    ]
    assert sorted(mine) == sorted(theirs)
    # Slices of torch's own may cross by a nanosecond, but not one in ten.
    notes = dict(trace.quality.select("issue", "events").rows())
    assert "several_cycles" in notes
    assert notes.get("crossing_slices", 0) < len(events) / 10


def test_a_list_in_another_order_is_left_as_it_is() -> None:
    with torch.profiler.profile() as prof:
        work()
    events = list(prof.events())
    backwards = profframe.load(events[::-1])
    assert not backwards.quality.height
    same = ["name", "start_ns", "self_ns"]
    in_order = profframe.load(events).events.select(same).rows()
    assert sorted(backwards.events.select(same).rows()) == sorted(in_order)


@pytest.mark.parametrize(
    "arguments",
    [
        {"use_cpu": True},
        {"use_kineto": True, "record_shapes": True},
        {"use_device": None, "with_stack": True},
        {"use_cuda": False, "profile_memory": True},
        {"enabled": True, "use_device": None},
    ],
)
def test_arguments_of_autograds_profiler_give_that_profiler(arguments: Any) -> None:
    ready: list[Any] = []
    with profframe.profile(**arguments, on_trace_ready=ready.append) as prof:
        assert str(prof) == "<unfinished profframe.profile>"
        work()
    assert isinstance(ready[0], torch.autograd.profiler.profile)
    assert calls(prof.trace) == 1
    assert prof.trace.traces["source"].to_list() == ["live torch.autograd.profiler.profile"]
    assert str(prof) == str(ready[0]) == prof.function_events.table()
    assert prof.self_cpu_time_total * 1000 == pytest.approx(prof.trace.self_cpu_time_total)


def test_cuda_without_cuda_is_a_warning_of_torchs() -> None:
    needs.no_device()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        prof = profframe.profile(True, use_cuda=True)
    with prof:
        work()
    assert calls(prof.trace) == 1


def test_a_profile_that_is_not_enabled_does_nothing() -> None:
    ready: list[Any] = []
    prof = profframe.profile(
        enabled=False, schedule=profframe.schedule(**CYCLES), on_trace_ready=ready.append
    )

    @prof
    def twice() -> int:
        prof.step()
        prof.add_metadata("a", "b")
        return 2

    with prof as inner:
        work()
    assert inner is prof
    assert (twice(), ready) == (2, [])
    assert str(prof) == "<profframe.profile that is not enabled>"
    refusal = pytest.raises(SourceError, match="nothing is recorded with enabled=False")
    with refusal:
        _ = prof.trace
    with refusal:
        prof.key_averages()
    with refusal:
        profframe.load(prof)


def test_arguments_of_both_profilers_are_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"use_device belongs to torch\.autograd.*schedule of torch\.profiler"
    ):
        profframe.profile(use_device="cuda", schedule=profframe.schedule(**CYCLES))


def test_printed_it_is_the_table_of_events_and_the_rest_is_there() -> None:
    with profframe.profile(record_shapes=True) as prof:
        assert "unfinished" in str(prof)
        work()
    assert str(prof) == str(prof.events()) == prof.table()
    assert prof.total_average().count == len(prof.events())
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = prof.no_such_thing


def test_it_loads_with_the_arguments_of_load() -> None:
    prof = profframe.profile()
    with pytest.raises(SourceError, match="no trace yet"):
        profframe.load(prof)
    with prof:
        work()
    trace = profframe.load(prof, run="night", rank=3)
    assert trace.traces.select("run", "rank").rows() == [("night", 3)]
    assert calls(trace) == 1


def metadata(trace: profframe.Trace) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(trace.traces["metadata"].item())
    return values


OF_THE_FILE = {"schemaVersion", "displayTimeUnit", "traceName"}


@pytest.mark.parametrize("own", [False, True])
def test_what_was_added_is_there_as_in_the_file(own: bool, tmp_path: Path) -> None:
    handler = profframe.trace_handler(tmp_path / "store", run="r")
    profile = profframe.profile if own else torch.profiler.profile
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        prof = profile(with_flops=True, record_shapes=True, on_trace_ready=handler)
        prof.preset_metadata_json("preset", '{"a": [1, 2.50]}')
        with prof:
            prof.add_metadata("model", "small")
            prof.add_metadata_json("numbers", '{"x": 1e5, "y": [null, true, "t"]}')
            work()
        prof.export_chrome_trace(str(tmp_path / "file.json"))
    finally:
        distributed.destroy_process_group()
    file = profframe.load(tmp_path / "file.json")
    (text,) = file.traces["metadata"].to_list()
    expected = {k: v for k, v in metadata(file).items() if k not in OF_THE_FILE}
    assert expected.keys() == {
        "trace_id", "preset", "model", "numbers", "distributedInfo", "host_name",
    }  # fmt: skip
    same = ["rank", "rank_source", "world_size", "backend", "profiler_flags"]
    for live in (profframe.load(prof), profframe.load(tmp_path / "store")):
        assert metadata(live) == expected
        assert live.traces.select(same[2:]).rows() == file.traces.select(same[2:]).rows()
        assert '"x": 1e5' in live.traces["metadata"][0]
        assert '"x": 1e5' in text
    loaded = profframe.load(prof)  # the group is gone by now
    assert loaded.traces.select(same).rows() == file.traces.select(same).rows()


def test_text_that_is_no_json_is_kept_to_the_letter() -> None:
    said = 'say "hi" to C:\\x\nand é'
    with profframe.profile() as prof:
        prof.add_metadata("text", said)
        prof.add_metadata_json("broken", "{no json")
        prof.add_metadata_json("large", "[1e400, 123456789012345678901234567890]")
    of_trace = metadata(prof.trace)
    assert (of_trace["text"], of_trace["broken"]) == (said, "{no json")
    assert "[1e400, 123456789012345678901234567890]" in prof.trace.traces["metadata"][0]


def test_a_later_cycle_that_has_begun_does_not_hide_what_was_added() -> None:
    with profframe.profile(schedule=profframe.schedule(**CYCLES)) as prof:
        for number in range(2):
            prof.add_metadata(f"step{number}", "v")
            work()
            prof.step()
        prof.add_metadata("late", "v")  # the next cycle warms up
    assert {"step0", "step1"} <= metadata(prof.trace).keys()
    assert "late" not in metadata(prof.trace)


def test_names_of_torch_are_torchs() -> None:
    assert profframe.ProfilerActivity is torch.profiler.ProfilerActivity
    assert profframe.ProfilerAction is torch.profiler.ProfilerAction
    assert profframe.supported_activities is torch.profiler.supported_activities
    assert profframe.emit_itt is torch.autograd.profiler.emit_itt
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profframe.profile(activities=[profframe.ProfilerActivity.CPU]) as prof:
            work()
    assert calls(prof.trace) == 1


def test_a_list_in_an_order_of_ones_own_is_one_cycle() -> None:
    events = accumulated(1).events()
    expected = profframe.load(events)
    for of_name in (True, False):
        events.sort(key=lambda event: event.name if of_name else -event.time_range.start)
        trace = profframe.load(events)
        assert "several_cycles" not in trace.quality["issue"].to_list()
        assert sorted(trace.events["start_ns"]) == sorted(expected.events["start_ns"])


def listed(*ops: tuple[int, float, float]) -> Any:
    """A list of torch's, of ops with these ids, starts and ends in microseconds."""
    events = [
        torch.autograd.profiler_util.FunctionEvent(
            number, f"op {number}", 1, start, end, activity_type="cpu_op"
        )
        for number, start, end in ops
    ]
    return torch.autograd.profiler_util.EventList(events)


@pytest.mark.parametrize(
    ("ops", "starts", "cycles"),
    [
        # The last op of the newest cycle starts before the first one of the cycle behind it.
        ([(5, 1, 9), (6, 2, 4), (3, 3, 8), (4, 5, 6)], [9, 10, 3, 5], "2 cycles"),
        # The newest cycle starts after all of the others, which overlap.
        ([(5, 50, 60), (3, 10, 20), (1, 12, 22)], [92, 32, 12], "3 cycles"),
        # One cycle from its end to its beginning.
        ([(3, 30, 40), (2, 20, 25), (1, 10, 15)], [30, 20, 10], None),
    ],
)
def test_where_a_cycle_of_a_list_ends(
    ops: list[tuple[int, float, float]], starts: list[int], cycles: str | None
) -> None:
    trace = profframe.load(listed(*ops))
    assert trace.events["start_ns"].to_list() == [1000 * start for start in starts]
    detail = trace.quality.filter(trace.quality["issue"] == "several_cycles")["detail"].to_list()
    assert [text.rpartition(": ")[2] for text in detail] == ([cycles] if cycles else [])
