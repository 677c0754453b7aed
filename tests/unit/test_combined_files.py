"""A file of several traces, as `combine_with` of torch writes it, loads as its parts."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.cli import run as command_line
from profframe.errors import SourceError
from tests import needs

Event = dict[str, Any]


def part(base: float, *kernels: str, pid: int = 7) -> list[Event]:
    """Events of one trace: an op that launches kernels, with the ids of every other part."""
    label = {"ph": "M", "name": "process_name", "ts": base, "pid": pid, "tid": 0}
    slices: list[Event] = [
        {"ph": "X", "cat": "cpu_op", "name": f"op of {'-'.join(kernels)}", "pid": pid, "tid": pid,
         "ts": base, "dur": 50, "args": {"External id": 1, "Ev Idx": 0}},
    ]  # fmt: skip
    for number, name in enumerate(kernels, 1):
        slices += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": pid,
             "ts": base + number, "dur": 1, "args": {"correlation": number, "External id": 1}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": base + 10 + number,
             "dur": number,
             "args": {"correlation": number, "External id": 1, "device": 0, "stream": 7}},
        ]  # fmt: skip
    flows = [
        {"ph": phase, "id": 1, "pid": at[0], "tid": at[1], "ts": at[2],
         "cat": "ac2g", "name": "ac2g"}
        for phase, at in (("s", (pid, pid, base + 1)), ("f", (0, 7, base + 11)))
    ]  # fmt: skip
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
            "tid": "PyTorch Profiler", "ts": base, "dur": 60, "args": {"Op count": 0}}  # fmt: skip
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": base + 60}
    return [label | {"args": {"name": "python"}}, *slices, *flows, span, end]


HEADER: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
    "with_flops": 1,
    "trace_id": "A",
    "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},
    "baseTimeNanoseconds": 1_700_000_000_000_000_000,
}


def combined(parts: Sequence[Sequence[Event]], header: Mapping[str, Any] = HEADER) -> str:
    """As torch writes it: the events first, the header of the first trace behind them."""
    events = [event for one in parts for event in one]
    return json.dumps({"traceEvents": events, **header})


PARTS = (part(100.0, "a1", "a2"), part(100.5, "b1", pid=9), part(4000.0, "c1", "c2", "c3"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "both.json"
    file.write_text(combined(PARTS))
    return file


def test_each_part_is_a_run_with_its_own_ids(path: Path) -> None:
    trace = profframe.load(path, run="r")
    assert trace.traces.select("run", "rank", "rank_source").rows() == [
        ("r", 3, "distributedInfo"), ("r.1", 3, "assumed"), ("r.2", 3, "assumed"),
    ]  # fmt: skip
    events = trace.events
    kernels = events.filter(pl.col("kind") == "kernel")
    ops = events.select("run", pl.col("event_id").alias("op_id"), pl.col("name").alias("op"))
    owned = kernels.join(ops, on=["run", "op_id"]).select("run", "op", "name").rows()
    assert sorted(owned) == [
        ("r", "op of a1-a2", "a1"), ("r", "op of a1-a2", "a2"), ("r.1", "op of b1", "b1"),
        ("r.2", "op of c1-c2-c3", "c1"), ("r.2", "op of c1-c2-c3", "c2"),
        ("r.2", "op of c1-c2-c3", "c3"),
    ]  # fmt: skip
    assert events.filter(pl.col("kind") == "host_op")["device_ns"].to_list() == [3000, 1000, 6000]


def test_parts_have_the_rows_of_their_own_files(path: Path, tmp_path: Path) -> None:
    whole = profframe.load(path, run="r")
    for number, one in enumerate(PARTS):
        file = tmp_path / f"{number}.json"
        file.write_text(combined([one]))
        alone = profframe.load(file)
        run = whole.filter(runs=f"r.{number}" if number else "r")
        for table in ("events", "flows", "instants", "threads", "devices"):
            left, right = getattr(alone, table).drop("run"), getattr(run, table).drop("run")
            assert left.equals(right), (number, table)


def test_what_only_the_first_has_is_unknown_of_the_others(path: Path) -> None:
    traces = profframe.load(path, run="r").traces
    first, *others = traces.to_dicts()
    assert (first["world_size"], first["backend"]) == (8, "nccl")
    assert json.loads(first["metadata"])["trace_id"] == "A"
    assert first["profiler_flags"] == '{"with_flops": 1}'
    for row in others:
        assert (row["world_size"], row["backend"], row["profiler_flags"]) == (None, None, None)
        assert "trace_id" not in (row["metadata"] or "")
    assert traces["base_ns"].to_list() == [HEADER["baseTimeNanoseconds"]] * 3
    assert traces["format"].to_list() == ["kineto"] * 3


def test_quality_names_the_parts(path: Path) -> None:
    quality = profframe.load(path, run="r").quality
    rows = quality.filter(pl.col("issue") == "combined_file").select("run", "events", "detail")
    details = [(run, events, text.rpartition(": ")[2]) for run, events, text in rows.rows()]
    assert details == [
        ("r", 6, "trace 1 of 3"), ("r.1", 4, "trace 2 of 3"), ("r.2", 8, "trace 3 of 3"),
    ]  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("first", ["header", "events", "sorted keys"])
def test_however_it_is_written(indent: int | None, first: str, tmp_path: Path) -> None:
    document = json.loads(combined(PARTS))
    if first == "header":
        document["traceEvents"] = document.pop("traceEvents")
    file = tmp_path / "t.json.gz"
    text = json.dumps(document, indent=indent, sort_keys=first == "sorted keys")
    file.write_bytes(gzip.compress(text.encode()))
    trace = profframe.load(file)
    assert trace.traces["run"].to_list() == [f"{tmp_path.name}{end}" for end in ("", ".1", ".2")]


def test_parts_longer_than_a_block(tmp_path: Path) -> None:
    long = [part(1.0, *(f"k{n}" for n in range(3000))), part(9e6, "x"), part(2e7, "y" * 9000)]
    file = tmp_path / "t.json"
    file.write_text(combined(long))
    trace = profframe.load(file)
    assert trace.traces["source_events"].to_list() == [6006, 8, 8]


def test_the_mark_in_a_text_is_no_mark(tmp_path: Path) -> None:
    named = part(1.0, '"name": "Record Window End"}, {"ph": "M"')
    file = tmp_path / "t.json"
    file.write_text(combined([named, part(900.0, "b")]))
    trace = profframe.load(file)
    assert trace.traces.height == 2
    assert trace.traces["source_events"].to_list() == [8, 8]


def test_the_names_of_processes_may_be_near_the_end(path: Path, tmp_path: Path) -> None:
    """As most traces of devices have them: slices first, then names, the span and the mark."""
    late = [[*one[1:-2], one[0], *one[-2:]] for one in PARTS]
    file = tmp_path / "late.json"
    file.write_text(combined(late))
    trace = profframe.load(file, run="r")
    assert trace.traces["source_events"].to_list() == [10, 8, 12]
    columns = ["run", "name", "start_ns", "op_id", "device_ns"]
    assert trace.events.select(columns).equals(profframe.load(path, run="r").events.select(columns))


def test_exported_traces_can_be_combined(path: Path, tmp_path: Path) -> None:
    documents = []
    for number in range(3):
        file = tmp_path / f"{number}.json"
        run = "r" + f".{number}" * bool(number)
        profframe.load(path, run="r").filter(runs=run).export_chrome_trace(file)
        documents.append(json.loads(file.read_text()))
    events = [event for document in documents for event in document["traceEvents"]]
    file = tmp_path / "exported.json"
    file.write_text(json.dumps(documents[0] | {"traceEvents": events}))
    columns = ["run", "name", "start_ns", "op_id", "device_ns"]
    exported, own = (profframe.load(one, run="r").events.select(columns) for one in (file, path))
    assert exported.equals(own)


def test_one_trace_stays_one(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(combined([PARTS[0]]))
    trace = profframe.load(file)
    assert trace.traces.height == 1
    assert not trace.quality["issue"].is_in(["combined_file", "mixed_traces"]).any()


def test_traces_that_cannot_be_told_apart_are_one_and_quality_says_so(tmp_path: Path) -> None:
    pairs = itertools.zip_longest(*PARTS[:2])
    shuffled = [event for pair in pairs for event in pair if event is not None]
    own = [one for one in PARTS if one is not PARTS[1]]
    without_marks = [[e for e in one if e["name"] != "Record Window End"] for one in own]
    by_time = sorted((event for one in PARTS[:2] for event in one), key=lambda event: event["ts"])
    behind = [PARTS[0], [*PARTS[1], PARTS[1][1]]]
    spans = [[*PARTS[0][:-1], PARTS[1][-2], PARTS[0][-1]], [*PARTS[1][:-2], PARTS[1][-1]]]
    for number, parts in enumerate(([shuffled], without_marks, [by_time], behind, spans)):
        file = tmp_path / f"{number}.json"
        file.write_text(combined(parts))
        trace = profframe.load(file)
        assert trace.traces.height == 1
        assert "mixed_traces" in trace.quality["issue"].to_list()


def test_those_of_several_processes_are_refused_by_name(tmp_path: Path) -> None:
    without_marks = [[e for e in one if e["name"] != "Record Window End"] for one in PARTS]
    (tmp_path / "own.json").write_text(combined(without_marks))
    with pytest.raises(SourceError, match=r"several ranks in one file.*processes 7 and 9 both"):
        profframe.load(tmp_path / "own.json")


def test_what_can_take_only_one_says_what_to_do(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["convert", str(path), "-o", str(tmp_path / "store")]) != 0
    assert "3 traces in one file" in capsys.readouterr().err
    trace = profframe.load(path)
    trace.to_parquet(tmp_path / "store")
    assert profframe.load(tmp_path / "store").traces.height == 3
    assert command_line(["show", str(path)]) == 0


def test_a_pipe_is_read_once(path: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(path.read_text()))
    writer.start()
    with pytest.raises(SourceError, match=r"3 traces in one file.*write it to a file"):
        profframe.load(pipe)
    writer.join()


def test_torchs_own_combination(tmp_path: Path) -> None:
    torch = needs.torch()
    analysis = needs.module("torch._inductor.analysis.profile_analysis")
    profiles = []
    for number in range(2):
        with torch.profiler.profile(record_shapes=True) as prof:
            torch.ones(2 + number, 2) @ torch.ones(2, 2)
        file = str(tmp_path / f"{number}.json")
        prof.export_chrome_trace(file, use_python_export=bool(number))
        profiles.append(analysis.JsonProfile(file, dtype=None))
    profiles[0].combine_with(profiles[1]).dump(str(tmp_path / "both.json"))
    trace = profframe.load(tmp_path / "both.json", run="r")
    mm = trace.events.filter(pl.col("name") == "aten::mm").select("run", "input_dims").rows()
    assert mm == [("r", "[[2,2],[2,2]]"), ("r.1", "[[3,2],[2,2]]")]
    for number, run in enumerate(("r", "r.1")):
        alone = profframe.load(tmp_path / f"{number}.json").events.drop("run")
        assert alone.equals(trace.filter(runs=run).events.drop("run"))
