"""Several ranks in one file: apart for a viewer, on one clock, and ranks again when loaded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.errors import ParameterError, SourceError, UnknownNameError
from profframe.trace.trace import Trace
from tests.conftest import Run
from tests.members import few
from tests.round_trip import differences, document, faults, unbound_flows

BASE = 1_700_000_000_000_000_000
AHEAD = (0, 5_000_123, -7_001)
"""By how much the clock of each rank is ahead, in nanoseconds."""
LATE = ((0, 30, 0), (40, 0, 10))
"""By how many microseconds each rank is late at each collective."""


def slice_(cat: str, name: str, start: int, end: int, **args: object) -> dict[str, Any]:
    """A slice by nanoseconds since `BASE`; all ranks have the same processes and threads."""
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 42, "tid": 42}
    times = {"ts": f"{start // 1000}.{start % 1000:03}", "dur": f"{(end - start) // 1000}.000"}
    return {"ph": "X", "cat": cat, "name": name, **place, **times, "args": args}


def source(rank: int) -> str:
    """A rank of a job with two collectives, which all ranks leave at the same time."""
    ahead = AHEAD[rank]
    at = 10_000_000 + ahead
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 42, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 42, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_sort_index", "pid": 42, "tid": 0, "args": {"sort_index": 42}},
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "process_sort_index", "pid": 0, "args": {"sort_index": 5000000}},
        {"ph": "M", "name": "thread_name", "pid": 42, "tid": 42, "args": {"name": "thread 42"}},
    ]  # fmt: skip
    for n, late in enumerate(LATE):
        begin, step = at + n * 1_000_000, 5 + n
        start, end = begin + 100_000 + 1000 * late[rank], begin + 200_000
        call = {"correlation": 10 + n}
        events += [
            slice_("user_annotation", f"ProfilerStep#{step}", begin, begin + 300_000),
            slice_("cuda_runtime", "cudaLaunchKernel", begin + 50_000, begin + 60_000, **call),
            slice_(
                "kernel", "ncclDevKernel_AllReduce_Sum_f32", start, end, **call,
                **{"device": 0, "stream": 7, "Collective name": "allreduce", "dtype": "Float",
                   "In msg nelems": 8, "Out msg nelems": 8, "Group size": 3,
                   "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]", "Seq": n},
            ),
        ]  # fmt: skip
        arrow = {"cat": "ac2g", "name": "ac2g", "id": 10 + n}
        events += [
            {"ph": "s", **arrow, "pid": 42, "tid": 42, "ts": events[-2]["ts"]},
            {"ph": "f", **arrow, "pid": 0, "tid": 7, "ts": events[-1]["ts"], "bp": "e"},
        ]
    text = json.dumps(
        {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 3},
            "deviceProperties": [{"id": 0, "name": "H100"}],
            "baseTimeNanoseconds": BASE,
            "traceEvents": events,
        }
    )
    for key in ("ts", "dur"):  # times as numbers, with all their digits
        parts = text.split(f'"{key}": "')
        text = parts[0] + "".join(f'"{key}": ' + part.replace('"', "", 1) for part in parts[1:])
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "job"
    folder.mkdir()
    for rank in range(3):
        (folder / f"rank{rank}.json").write_text(source(rank))
    return folder


@pytest.fixture(scope="module")
def trace(folder: Path) -> Iterator[Trace]:
    with profframe.load(folder).session() as trace:
        yield trace


def again(trace: Trace, path: Path, **options: Any) -> Trace:
    trace.export_chrome_trace(path, **options)
    assert faults(path) == []
    return profframe.load(path)


def events(path: Path, *phases: str) -> list[dict[str, Any]]:
    return [event for event in document(path)["traceEvents"] if event["ph"] in phases]


def test_a_viewer_sees_each_rank_apart_and_in_order(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json")
    labels: dict[int, dict[str, Any]] = {}
    for event in events(tmp_path / "o.json", "M"):
        labels.setdefault(event["pid"], {})[event["name"]] = next(iter(event["args"].values()))
    order = sorted(labels, key=lambda pid: labels[pid]["process_sort_index"])
    assert [labels[pid]["process_name"] for pid in order] == [
        f"rank {rank}: python ({label})" for rank in range(3) for label in ("CPU", "GPU 0")
    ]
    used = {event["pid"] for event in events(tmp_path / "o.json", "X", "s", "f")}
    assert used == {*labels}
    assert all(type(pid) is int and 0 < pid < 1 << 31 for pid in used)


def test_a_stream_without_a_name_gets_one_for_the_viewer_alone(
    trace: Trace, tmp_path: Path
) -> None:
    back = again(trace, tmp_path / "o.json")
    names = [
        (event["pid"], event["tid"], event["args"]["name"])
        for event in events(tmp_path / "o.json", "M")
        if event["name"] == "thread_name"
    ]
    assert [name for _, _, name in names] == ["thread 42", "stream 7"] * 3
    assert back.threads["thread_name"].to_list() == trace.threads["thread_name"].to_list()


def test_a_thread_of_two_streams_is_named_by_the_first(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 5, "dur": 1}
    rows = [{**kernel, "ts": 9 - n, "args": {"device": 0, "stream": n}} for n in (9, 8)]
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"traceEvents": rows}))
    profframe.load(tmp_path).export_chrome_trace(tmp_path / "o.json")
    names = [e["args"]["name"] for e in events(tmp_path / "o.json", "M") if "name" in e["args"]]
    assert [name for name in names if name.startswith("stream")] == ["stream 8"] * 2


def test_ids_of_arrows_are_of_one_rank_and_read_back(trace: Trace, tmp_path: Path) -> None:
    back = again(trace, tmp_path / "o.json")
    pids_of: dict[int, set[int]] = {}
    for event in events(tmp_path / "o.json", "s", "f"):
        pids_of.setdefault(event["id"], set()).add(event["pid"] // 1000)
    assert sorted(map(len, pids_of.values())) == [1] * 6
    assert max(pids_of) < 1 << 53
    assert back.flows["flow_id"].to_list() == ["10", "10", "11", "11"] * 3
    kernels = back.events.filter(pl.col("kind") == "kernel")
    assert kernels["launch_id"].null_count() == 0  # none of another rank has that correlation


def test_times_are_on_one_clock_to_the_nanosecond(trace: Trace, tmp_path: Path) -> None:
    back = again(trace, tmp_path / "o.json")
    assert trace.clock_skew()["offset_ns"].to_list() == [*AHEAD]
    assert back.clock_skew()["offset_ns"].to_list() == [0, 0, 0]
    ahead = trace.events["rank"].replace_strict(dict(enumerate(AHEAD)), return_dtype=pl.Int64)
    assert back.events["start_ns"].equals(trace.events["start_ns"] - ahead)
    assert back.events.drop("start_ns").equals(trace.events.drop("start_ns"))
    times = {"events.start_ns", "flows.time_ns", "traces.start_ns", "traces.end_ns"}
    moments = ("start_ns", "device_start_ns", "began_ns", "completed_ns")
    times |= {f"profiler_steps.{name}" for name in moments}
    assert {found.partition(":")[0] for found in differences(trace, back)} == times

    said = document(tmp_path / "o.json")["profframe job"]
    assert said["clocks"] == "corrected"
    assert [row["offset_ns"] for row in said["traces"]] == [*AHEAD]
    notes = back.quality.filter(pl.col("issue") == "clock_corrected")
    assert notes.select("rank", "events").rows() == [(1, 10), (2, 10)]
    assert "5,000,123 ns" in notes["detail"][0]


def test_clocks_may_stay_as_they_are(trace: Trace, tmp_path: Path) -> None:
    back = again(trace, tmp_path / "o.json", clocks="recorded")
    assert differences(trace, back) == []
    assert back.quality.equals(trace.quality)
    assert back.traces["rank_source"].to_list() == ["distributedInfo"] * 3
    with pytest.raises(UnknownNameError, match="corrected"):
        trace.export_chrome_trace(tmp_path / "no.json", clocks="correct")
    assert not (tmp_path / "no.json").exists()


def test_offsets_are_those_of_whole_traces_whatever_is_written(
    trace: Trace, tmp_path: Path
) -> None:
    part = trace.filter(kinds="annotation", steps=6, ranks=[0, 1])
    back = again(part, tmp_path / "o.json")
    assert back.events.select("rank", "name", "start_ns").rows() == [
        (rank, "ProfilerStep#6", BASE + 11_000_000) for rank in range(2)
    ]


def test_clocks_of_other_origins_need_a_collective(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "job" / "rank9.json"
    other.parent.mkdir()
    other.write_text('[{"ph": "X", "name": "a", "ts": 5, "dur": 1}]')
    trace = profframe.load([folder / "rank0.json", other])
    with pytest.raises(ParameterError, match=r"relative, utc.*rank 0 differs"):
        trace.export_chrome_trace(tmp_path / "o.json")
    assert not (tmp_path / "o.json").exists()
    assert differences(trace, again(trace, tmp_path / "o.json", clocks="recorded")) == []


def test_times_without_a_base_are_written_since_the_first(tmp_path: Path) -> None:
    for rank in range(2):
        times = f"{BASE + rank}"
        event = f'{{"ph":"X","name":"a","ts":{times[:-3]}.{times[-3:]},"dur":1}}'
        (tmp_path / f"rank{rank}.json").write_text(f"[{event}]")
    trace = profframe.load([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    back = again(trace, tmp_path / "o.json")
    assert differences(trace, back) == []
    assert [event["ts"] for event in events(tmp_path / "o.json", "X")] == [
        Decimal("0.000"), Decimal("0.001"),
    ]  # fmt: skip


def test_arrows_lead_from_the_last_rank_of_a_collective_to_the_others(
    trace: Trace, tmp_path: Path
) -> None:
    back = again(trace, tmp_path / "o.json", collectives=True)
    arrows = [e for e in events(tmp_path / "o.json", "s", "f") if e["cat"] == "collective"]
    first, second = Decimal("10130.000"), Decimal("11140.000")
    expected = [(1, 0, first), (1, 2, first), (0, 1, second), (0, 2, second)]
    assert [(e["pid"] // 1000 - 1, e["ts"]) for e in arrows] == [
        end for start, stop, time in expected for end in ((start, time), (stop, time))
    ]
    assert unbound_flows(tmp_path / "o.json") == []
    ends = back.flows.filter(pl.col("category") == "collective")
    assert ends.height == 8
    bound = ends.join(back.events, on=["run", "rank", "event_id"])
    assert set(bound["kind"]) == {"kernel"}
    assert back.events.drop("start_ns").equals(trace.events.drop("start_ns"))


def path_over_ranks(trace: Trace) -> pl.DataFrame:
    """Stretches of all ranks: the annotation of one, the kernels of the others."""
    columns = ["run", "rank", "event_id", "name", "kind", "thread", "device", "stream"]
    rows = trace.events.filter(
        pl.col("step") == 5,
        (pl.col("rank") == 0) & (pl.col("kind") == "annotation")
        | (pl.col("rank") > 0) & (pl.col("kind") == "kernel"),
    )
    edges = {"bound": pl.lit("host"), "edge": pl.lit("rank")}
    return rows.select(*columns, "start_ns", "dur_ns", **edges)


def test_a_path_over_ranks_is_marked_and_joined_and_a_line_of_its_own(
    trace: Trace, tmp_path: Path
) -> None:
    path = path_over_ranks(trace)
    back = again(trace, tmp_path / "o.json", highlight=path, tracks={"path": path})
    marked = back.events.filter(pl.col("args").str.contains('"critical":1'))
    assert marked.select("rank", "event_id").rows() == path.select("rank", "event_id").rows()
    arrows = [e for e in events(tmp_path / "o.json", "s", "f") if e["cat"] == "critical_path"]
    assert [event["pid"] // 1000 - 1 for event in arrows] == [0, 1, 1, 2]
    assert unbound_flows(tmp_path / "o.json") == []

    added = [e for e in events(tmp_path / "o.json", "X") if e["cat"] == "profframe"]
    lines = [(event["pid"], event["name"], event["ts"]) for event in added]
    names = {e["pid"]: e["args"]["name"] for e in events(tmp_path / "o.json", "M")
             if e["name"] == "process_name"}  # fmt: skip
    nccl = "ncclDevKernel_AllReduce_Sum_f32"
    assert [(names[pid], name, time) for pid, name, time in lines] == [
        ("rank 0: profframe", "ProfilerStep#5", Decimal("10000.000")),
        ("rank 1: profframe", nccl, Decimal("10130.000")),
        ("rank 2: profframe", nccl, Decimal("10100.000")),
        ("profframe", "rank 0: ProfilerStep#5", Decimal("10000.000")),
        ("profframe", f"rank 2: {nccl}", Decimal("10100.000")),
        ("profframe", f"rank 1: {nccl}", Decimal("10130.000")),
    ]
    assert back.instants.filter(pl.col("category") == "profframe").height == 6
    assert back.threads.filter(pl.col("pid") != "profframe").equals(trace.threads)


def test_what_is_highlighted_is_in_one_of_the_ranks(trace: Trace, tmp_path: Path) -> None:
    alone = trace.filter(ranks=2).critical_path(5)
    back = again(trace, tmp_path / "o.json", highlight=alone, tracks=[alone, "critical_path"])
    marked = back.events.filter(pl.col("args").str.contains('"critical":1'))
    assert set(marked["rank"]) == {2}
    with pytest.raises(ParameterError, match="none of its events"):
        trace.filter(ranks=[0, 1]).export_chrome_trace(tmp_path / "no.json", highlight=alone)
    assert not (tmp_path / "no.json").exists()


def test_tracks_of_no_rank_and_of_answers_over_all(trace: Trace, tmp_path: Path) -> None:
    watts = pl.DataFrame({"time_ns": [BASE + 10_000_000], "watts": [700]})
    blame = trace.collectives(per="rank").select(
        "run", "rank", "start_ns", "dur_ns", name="collective"
    )
    tracks = {"blame": blame, "watts": watts, "collectives": "collectives"}
    again(trace, tmp_path / "o.json", tracks=tracks)
    added = [e for e in events(tmp_path / "o.json", "X", "C") if e.get("cat") == "profframe"]
    by_process = {pid: [e for e in added if e["pid"] == pid] for pid in {e["pid"] for e in added}}
    assert {pid: len(rows) for pid, rows in by_process.items()} == {
        1000: 2, 2000: 2, 3000: 2, "profframe": 3,
    }  # fmt: skip
    assert [e["ts"] for e in by_process["profframe"] if e["ph"] == "C"] == [Decimal("10000.000")]
    assert [e["ts"] for e in by_process[2000]] == [Decimal("10130.000"), Decimal("11100.000")]


def test_runs_stay_apart(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "later"
    other.mkdir()
    (other / "rank1.json").write_text(source(1))
    trace = profframe.load([folder / "rank0.json", folder / "rank1.json", other / "rank1.json"])
    back = again(trace, tmp_path / "o.json", clocks="recorded")
    assert back.traces.select("run", "rank").rows() == [("job", 0), ("job", 1), ("later", 1)]
    assert back.events["run"].equals(trace.events["run"])
    names = {event["args"].get("name") for event in events(tmp_path / "o.json", "M")}
    assert {"job rank 1: python (CPU)", "later rank 1: python (CPU)"} < names
    renamed = profframe.load(tmp_path / "o.json", run="r").traces
    assert renamed.select("run", "rank").rows() == [("r", 0), ("r", 1), ("r.1", 1)]


def test_one_rank_is_written_as_before(trace: Trace, tmp_path: Path) -> None:
    one = trace.filter(ranks=1)
    back = again(one, tmp_path / "o.json")
    assert differences(one, back) == []
    assert "profframe job" not in document(tmp_path / "o.json")


def test_the_order_of_events_and_of_members_does_not_matter(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json", clocks="recorded")
    value = json.loads((tmp_path / "o.json").read_text())
    by_phase = sorted(value["traceEvents"], key=lambda event: event["ph"] != "M")
    turned = {
        "traceEvents": by_phase[:3] + by_phase[3:],
        **{key: part for key, part in value.items() if key != "traceEvents"},
    }
    (tmp_path / "turned.json").write_text(json.dumps(turned, indent=1))
    back = profframe.load(tmp_path / "turned.json")
    assert differences(trace, back) == []


@pytest.mark.parametrize(
    "spoil",
    few(
        [
            lambda job: job.update(traces=[]),
            lambda job: job.update(traces=5),
            lambda job: job["traces"][0].update(rank="0"),
            lambda job: job["traces"][0].pop("processes"),
            lambda job: job["traces"][0].update(processes=[7]),
            lambda job: job["traces"][0].update(named_threads=3),
            lambda job: job["traces"][0].update(offset_ns=1 << 70),
            lambda job: job["traces"][1].update(rank=0),
        ],
        4,
    ),
)
def test_a_list_of_ranks_that_is_unsound_makes_one_trace(
    trace: Trace, tmp_path: Path, spoil: Any
) -> None:
    trace.export_chrome_trace(tmp_path / "o.json")
    value = json.loads((tmp_path / "o.json").read_text())
    spoil(value["profframe job"])
    (tmp_path / "spoiled.json").write_text(json.dumps(value))
    back = profframe.load(tmp_path / "spoiled.json")
    assert back.traces.height == 1
    assert back.events.height == trace.events.height


def test_a_file_of_several_ranks_is_loaded_and_not_converted(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json")
    with pytest.raises(ParameterError, match="ranks=1"):
        profframe.load(tmp_path / "o.json", rank=1)
    assert profframe.load(tmp_path / "o.json", ranks=1).traces["rank"].to_list() == [1]
    from profframe.loaders.trace_files import read_trace

    with pytest.raises(SourceError, match=r"3 traces in one file, written together by profframe"):
        read_trace(tmp_path / "o.json", spool_folder=tmp_path)


def test_a_store_is_written_on_the_command_line(trace: Trace, tmp_path: Path, run: Run) -> None:
    trace.to_parquet(tmp_path / "store")
    out = tmp_path / "job.json.gz"
    words = ["export", str(tmp_path / "store"), "--rank", "0-63", "--step", "5", "-o", str(out)]
    code, shown, _ = run(
        *words, "--collectives", "--kind", "kernel", "--kind", "annotation", "--kind", "runtime"
    )
    assert (code, shown) == (0, "")
    assert json.loads(gzip.decompress(out.read_bytes()))["profframe job"]["clocks"] == "corrected"
    back = profframe.load(out)
    assert set(back.events["kind"]) == {"kernel", "annotation", "runtime"}
    assert set(back.events["step"]) == {5}
    assert back.traces["rank"].to_list() == [0, 1, 2]
    assert "collective" in back.flows["category"].to_list()

    assert run(*words, "--keep-clocks")[0] == 0
    assert profframe.load(out).clock_skew()["offset_ns"].to_list() == [*AHEAD]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", "3-9"], "no rank from 3 to 9"),
        (["--rank", "2-0"], "'2-0' ends before it begins"),
        (["--rank", "x"], "'x' is neither a number nor a range"),
        (["--rank", "0", "--rank", "7"], "no rank 7"),
        (["--step", "0-99999999", "--step", "5"], "more than 1,000,000 numbers"),
        (["--as", "stacks", "--collectives"], "--collectives works only with chrome"),
        (["--as", "stacks", "--keep-clocks"], "--keep-clocks works only with chrome"),
    ],
)
def test_spans_and_options_that_cannot_be(
    folder: Path, tmp_path: Path, run: Run, words: Sequence[str], message: str
) -> None:
    code, _, error = run("export", str(folder), "-o", str(tmp_path / "o.json"), *words)
    assert code != 0
    assert message in error


def test_a_label_of_another_name_is_none(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json")
    text = (tmp_path / "o.json").read_text().replace('"process_labels": {', '"process_la": {')
    (tmp_path / "o.json").write_text(text)
    back = profframe.load(tmp_path / "o.json")
    assert back.threads["process_labels"].null_count() == back.threads.height
    assert back.threads["process_name"].equals(trace.threads["process_name"], null_equal=True)
