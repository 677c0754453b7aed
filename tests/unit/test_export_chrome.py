"""What is written is sound JSON with exact times, and reads back."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.errors import ExportError
from profframe.trace.trace import Trace
from tests.builders import Row, stored
from tests.members import few
from tests.round_trip import content, differences, document, faults, unbound_flows

HOSTILE = 'a"b\\c\nd\te\0f\x7f\u2028 é 🚀 }, {"ph":"X"'


def written(trace: Trace, path: Path) -> list[dict[str, Any]]:
    """The events of the file, but for labels."""
    trace.export_chrome_trace(path)
    assert faults(path) == []
    return [event for event in document(path)["traceEvents"] if event["ph"] != "M"]


def loaded(text: object, folder: Path) -> Trace:
    path = folder / "source.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return profframe.load(path)


def made_of(
    events: Sequence[Row], header: Row | None = None, threads: Sequence[Row] = (), **others: Any
) -> Trace:
    """A trace of a source that is not JSON."""
    head = {"format": "live", "clock": "utc", "rank_source": "assumed", "source": "live"}
    rows = {"traces": [head | dict(header or {})], "events": events, "threads": threads} | others
    rows["threads"] = rows["threads"] or [{"thread": 0, "pid": "1", "tid": "2"}]
    return stored(**rows)


def test_lines_are_as_kineto_writes_them(tmp_path: Path) -> None:
    event = (
        '{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":4.567,"dur":0.100,'
        '"args":{"External id":3,"Sequence number":5}}'
    )
    source = f'{{"schemaVersion":1,"baseTimeNanoseconds":1000,"traceEvents":[{event}]}}'
    out = tmp_path / "out.json"
    loaded(source, tmp_path).export_chrome_trace(out)
    assert event in out.read_text().splitlines()
    assert document(out).keys() == {
        "schemaVersion", "baseTimeNanoseconds", "traceEvents", "profframe",
    }  # fmt: skip
    assert document(out)["baseTimeNanoseconds"] == 1000


@pytest.mark.parametrize(
    "time", ["1712195495519689.047", "0.001", "-0.001", "4503599627370495.999"]
)
def test_times_are_exact_to_the_nanosecond(time: str, tmp_path: Path) -> None:
    event = f'{{"ph":"X","ts":{time},"dur":{time.lstrip("-")}}}'
    (out,) = written(loaded(f"[{event}]", tmp_path), tmp_path / "out.json")
    assert str(out["ts"]) == time


def test_names_of_any_text_are_escaped(tmp_path: Path) -> None:
    events = [{"ph": "X", "name": HOSTILE, "cat": HOSTILE, "pid": HOSTILE, "ts": 1, "dur": 1}]
    events += [{"ph": "M", "name": "process_name", "pid": HOSTILE, "args": {"name": HOSTILE}}]
    trace = loaded(events, tmp_path)
    (event,) = written(trace, tmp_path / "out.json")
    assert {event[key] for key in ("name", "cat", "pid")} == {HOSTILE}
    assert profframe.load(tmp_path / "out.json").threads["process_name"].to_list() == [HOSTILE]


@pytest.mark.parametrize(
    "pid", few(["7", "-7", "007", "-0", "7.0", "stream 7", "", "9" * 30, "٣"], 4)
)
def test_a_process_keeps_its_text_and_a_number_is_one(pid: str, tmp_path: Path) -> None:
    trace = loaded([{"ph": "X", "pid": pid, "ts": 1, "dur": 1}], tmp_path)
    (event,) = written(trace, tmp_path / "out.json")
    assert event["pid"] == (int(pid) if pid in {"7", "-7"} else pid)
    assert profframe.load(tmp_path / "out.json").events["pid"].to_list() == [pid]


def test_what_never_ended_is_a_begin_event_unless_an_end_could_take_it(tmp_path: Path) -> None:
    begin, end = {"ph": "B", "ts": 1, "name": "open"}, {"ph": "E", "ts": 9}
    (event,) = written(loaded([begin], tmp_path), tmp_path / "out.json")
    assert (event["ph"], event.get("dur")) == ("B", None)

    lone = loaded([{"ph": "X", "ts": 1, "name": "open"}, end], tmp_path)
    events = written(lone, tmp_path / "out.json")
    assert [event["ph"] for event in events] == ["E", "X"]
    assert differences(lone, profframe.load(tmp_path / "out.json")) == []


def test_an_event_without_a_time_has_none(tmp_path: Path) -> None:
    (event,) = written(loaded([{"ph": "X", "dur": 2}], tmp_path), tmp_path / "out.json")
    assert "ts" not in event
    assert float(event["dur"]) == 2


def test_labels_are_written_once_for_each_process_and_thread(tmp_path: Path) -> None:
    labels = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "args": {"sort_index": 5}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 3, "args": {"name": "main"}},
        {"ph": "M", "name": "process_labels", "pid": 8, "args": {"labels": "GPU 0"}},
    ]
    slices = [{"ph": "X", "pid": 1, "tid": tid, "ts": tid, "dur": 1} for tid in (4, 3)]
    trace = loaded([*labels, *labels, *slices], tmp_path)
    trace.export_chrome_trace(tmp_path / "out.json")
    found = [e for e in document(tmp_path / "out.json")["traceEvents"] if e["ph"] == "M"]
    assert len(found) == len(labels)
    assert differences(trace, profframe.load(tmp_path / "out.json")) == []


def test_an_overload_goes_back_into_the_name(tmp_path: Path) -> None:
    names = ["aten::add.Tensor", "aten::add", "my.region", "std::f.g.h"]
    trace = loaded(
        [{"ph": "X", "cat": "cpu_op", "name": n, "ts": 1, "dur": 1} for n in names], tmp_path
    )
    assert trace.events["overload_name"].to_list() == ["Tensor", None, None, None]
    events = written(trace, tmp_path / "out.json")
    assert [event["name"] for event in events] == names


@pytest.mark.parametrize("suffix", few(["json", "json.gz", "JSON.GZ", "json.zst"], 2))
def test_the_suffix_decides_the_compression(suffix: str, example: Path, tmp_path: Path) -> None:
    trace = profframe.load(example)
    out = tmp_path / f"out.{suffix}"
    trace.export_chrome_trace(out)
    starts = {"gz": b"\x1f\x8b", "zst": b"\x28\xb5\x2f\xfd"}
    assert out.read_bytes().startswith(starts.get(suffix.lower().rpartition(".")[2], b"{"))
    assert differences(trace, profframe.load(out)) == []


def test_the_example_is_sound_and_its_arrows_start_in_slices(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    profframe.load(example).export_chrome_trace(out)
    assert faults(out) == []
    assert unbound_flows(out) == []
    assert document(out)["schemaVersion"] == 1


def test_a_store_gives_the_same_file(example: Path, tmp_path: Path) -> None:
    trace = profframe.load(example)
    trace.to_parquet(tmp_path / "store")
    profframe.load(tmp_path / "store").export_chrome_trace(tmp_path / "of_store.json")
    trace.export_chrome_trace(tmp_path / "of_memory.json")
    assert content(tmp_path / "of_store.json") == content(tmp_path / "of_memory.json")


def test_writing_again_what_was_written_changes_nothing(example: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    profframe.load(example).export_chrome_trace(first)
    profframe.load(first).export_chrome_trace(second)
    assert first.read_text() == second.read_text()


def test_of_a_filter_what_is_left_is_written(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    part = profframe.load(example).filter(steps=2)
    part.export_chrome_trace(out)
    again = profframe.load(out)
    same = ["name", "category", "start_ns", "dur_ns", "pid", "tid", "external_id", "args"]
    assert again.events.select(same).equals(part.events.select(same), null_equal=True)
    assert again.memory.drop("run", "thread", "op_id").equals(
        part.memory.drop("run", "thread", "op_id")
    )
    counts = json.loads(again.traces["accounted"][0])
    assert counts["events"] == part.events.height
    assert sum(counts.values()) == again.traces["source_events"][0]


def test_one_of_several_ranks_is_written(tmp_path: Path) -> None:
    for rank in (0, 1):
        loaded_text = json.dumps([{"ph": "X", "name": f"of {rank}", "ts": 1, "dur": 1}])
        (tmp_path / f"rank{rank}.json").write_text(loaded_text)
    both = profframe.load([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    both.filter(ranks=1).export_chrome_trace(tmp_path / "out.json")
    again = profframe.load(tmp_path / "out.json")
    assert again.events["name"].to_list() == ["of 1"]
    assert again.traces.select("rank", "rank_source").row(0) == (1, "path")


def test_no_trace_at_all_is_written_as_one_without_events(tmp_path: Path) -> None:
    empty = stored()
    empty.export_chrome_trace(tmp_path / "out.json")
    assert document(tmp_path / "out.json")["traceEvents"] == []
    assert profframe.load(tmp_path / "out.json").events.height == 0


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ExportError, match=r"out\.json: cannot be written: No space left"):
        profframe.load(example).export_chrome_trace(out)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_folder_that_is_not_there_is_an_error(example: Path, tmp_path: Path) -> None:
    trace = profframe.load(example)
    with pytest.raises(ExportError, match="No such file or directory"):
        trace.export_chrome_trace(tmp_path / "no" / "out.json")
    with pytest.raises(ExportError, match="Is a directory"):
        trace.export_chrome_trace(tmp_path)


def test_a_link_and_a_pipe_stay_what_they_are(example: Path, tmp_path: Path) -> None:
    trace = profframe.load(example)
    (tmp_path / "link.json").symlink_to("out.json")
    trace.export_chrome_trace(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert differences(trace, profframe.load(tmp_path / "out.json")) == []

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(pipe.read_bytes)
        trace.export_chrome_trace(pipe)
        assert received.result() == (tmp_path / "out.json").read_bytes()
    assert pipe.is_fifo()


COLUMNS: dict[str, Any] = {
    "category": "cpu_op", "name": "aten::mm", "start_ns": 5000, "dur_ns": 7, "pid": "1", "tid": "2",
    "external_id": 3, "correlation": 4, "sequence_nr": 5, "fwd_thread": 6, "python_id": 7,
    "python_parent_id": 8, "python_module_id": 9, "module_hierarchy": "m.n", "scope": 3,
    "overload_name": "out", "is_async": False, "is_remote": True, "is_legacy": False, "node_id": 2,
    "input_dims": "[[2,3],[]]", "input_types": '["float"]', "input_strides": "[[3,1]]",
    "concrete_inputs": '["","1"]', "torch_flops": 12,
}  # fmt: skip


@pytest.mark.parametrize(
    "args", few([None, "{}", '{"a":1}', "[1,2]", '"text"', '{"External id":3}'], 3)
)
def test_columns_that_the_arguments_lack_are_written_and_the_arguments_kept(
    args: str | None, tmp_path: Path
) -> None:
    trace = made_of([COLUMNS | {"kind": "host_op", "args": args}])
    (event,) = written(trace, tmp_path / "out.json")
    given = event["args"]
    assert (given["External id"], given["correlation"], given["Input Dims"]) == (3, 4, [[2, 3], []])

    again = profframe.load(tmp_path / "out.json")
    read = again.events.select(*COLUMNS, "args").row(0, named=True)
    assert read == COLUMNS | {"args": args}
    assert again.traces.select("format", "clock").row(0) == ("live", "utc")


@pytest.mark.parametrize(("args", "kept"), [("{ }", "{}"), ('{"a":1}\n', '{"a":1}'), (" 5 ", "5")])
def test_arguments_with_spaces_around_them_lose_those(args: str, kept: str, tmp_path: Path) -> None:
    written(made_of([COLUMNS | {"kind": "host_op", "args": args}]), tmp_path / "out.json")
    assert profframe.load(tmp_path / "out.json").events["args"].to_list() == [kept]


def test_device_and_stream_of_any_category_read_back(tmp_path: Path) -> None:
    row = {"category": "work", "device": 1, "stream": 7, "start_ns": 1, "dur_ns": 1}
    written(made_of([row | {"pid": "1", "tid": "2"}]), tmp_path / "out.json")
    again = profframe.load(tmp_path / "out.json").events
    assert again.select("device", "stream", "args").row(0) == (1, 7, None)


def test_a_name_that_is_no_operators_keeps_its_overload_apart(tmp_path: Path) -> None:
    row = {"category": "cpu_op", "kind": "host_op", "start_ns": 1, "dur_ns": 1}
    names = [("aten::add", "Tensor"), ("no operator", "Tensor"), ("aten::add", "")]
    trace = made_of([row | {"name": n, "overload_name": o} for n, o in names])
    events = written(trace, tmp_path / "out.json")
    assert [event["name"] for event in events] == ["aten::add.Tensor", "no operator", "aten::add"]
    again = profframe.load(tmp_path / "out.json").events
    assert again.select("name", "overload_name").rows() == names


def test_arguments_that_are_no_json_become_text(tmp_path: Path) -> None:
    flow = {"phase": "s", "flow_id": "1", "time_ns": 1, "thread": 0, "args": "{broken"}
    trace = made_of([], flows=[flow])
    (event,) = written(trace, tmp_path / "out.json")
    assert event["args"] == "{broken"


def test_counters_without_arguments_have_their_value(tmp_path: Path) -> None:
    rows = [{"name": "c", "series": "s", "value": 1.5, "time_ns": 1, "thread": 0}]
    trace = made_of([], counters=rows)
    written(trace, tmp_path / "out.json")
    again = profframe.load(tmp_path / "out.json").counters
    assert again.select("series", "value").rows() == [("s", 1.5)]


def test_a_file_that_was_edited_is_counted_anew(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    profframe.load(example).export_chrome_trace(out)
    value = json.loads(out.read_text())
    value["traceEvents"] = value["traceEvents"][:-5]
    out.write_text(json.dumps(value))
    (row,) = profframe.load(out).traces.to_dicts()
    assert row["source_events"] == len(value["traceEvents"])


@pytest.mark.parametrize(
    "own",
    few([
        5, [], {}, {"clock": [1], "format": 3, "rank": "x", "accounted": []},
        {"format": "", "clock": "", "events": 1, "accounted": {"events": "many"}},
        {"format": "", "clock": "", "events": 1, "accounted": {"events": -1}},
    ], 3),
)  # fmt: skip
def test_a_member_of_that_name_that_is_not_ours_does_no_harm(own: object, tmp_path: Path) -> None:
    args = {"profframe": own, "x": {"profframe columns": {"a": 1}}}
    event = {"ph": "X", "ts": 1, "dur": 1, "args": args}
    trace = loaded({"profframe": own, "traceEvents": [event]}, tmp_path)
    (row,) = trace.traces.to_dicts()
    assert (row["format"], row["clock"], row["source_events"]) == ("chrome", "relative", 1)
    assert json.loads(trace.events["args"][0]) == args
    is_ours = isinstance(own, dict) and {"format", "clock"} <= own.keys()
    assert json.loads(row["metadata"] or "{}") == ({} if is_ours else {"profframe": own})
    trace.export_chrome_trace(tmp_path / "out.json")
    assert differences(trace, profframe.load(tmp_path / "out.json")) == []


def test_frames_of_another_engine_agree(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    trace = profframe.load(example)
    trace.export_chrome_trace(out)
    events = [e for e in document(out)["traceEvents"] if e["ph"] == "X"]
    total = sum(e["dur"] for e in events) * 1000
    assert int(total) == trace.events.select(pl.col("dur_ns").sum()).item()


@pytest.mark.parametrize("name", few(["t.pftrace", "t.perfetto-trace.gz", "T.PFTRACE"], 2))
def test_text_is_not_written_under_a_name_of_protobuf(name: str, tmp_path: Path) -> None:
    trace = made_of([])
    path = tmp_path / name
    writers = (trace.report, partial(trace.export_chrome_trace, legacy=True))
    for write in writers:
        with pytest.raises(
            ExportError, match=f"{name}: this ending means Perfetto's protobuf, which"
        ):
            write(path)
    assert not path.exists()
