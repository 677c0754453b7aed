"""Perfetto's protobuf: what a viewer is shown, and what is read back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.errors import ExportError, ProfframeError, SourceError
from profframe.export.pftrace import interning
from profframe.loaders.trace_files import read_trace
from profframe.trace.trace import Trace
from tests.conftest import Run
from tests.members import few
from tests.pftrace_round_trip import Viewed, differences_of_forms, parsed, pb
from tests.unit.test_export_job import AHEAD, source

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = 'a"b\\c\n\x00\x1f\u2028\U0001f525 /*%s'


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    folder = tmp_path_factory.mktemp("files") / "job"
    folder.mkdir()
    for rank in range(3):
        (folder / f"rank{rank}.json").write_text(source(rank))
    with profframe.load(folder).session() as trace:
        yield trace


def loaded(tmp_path: Path, *events: dict[str, Any], **around: Any) -> Trace:
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"traceEvents": events, **around}))
    return profframe.load(path)


def slice_(name: str, ts: int, dur: int, **keys: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "c", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} | keys


def test_ranks_are_on_one_clock_each_with_its_processes(job: Trace, tmp_path: Path) -> None:
    job.export_chrome_trace(tmp_path / "o.pftrace")
    viewed = Viewed(tmp_path / "o.pftrace")
    assert {line for line, *_ in viewed.slices} == {
        f"rank {rank}: python ({place}"
        for rank in range(3)
        for place in ("CPU)/thread 42", "GPU 0)/stream 7")
    }
    starts = {
        (line[:6], start) for line, start, _, name in viewed.slices if name == "ProfilerStep#5"
    }
    assert starts == {(f"rank {rank}", 0) for rank in range(3)}
    back = profframe.load(tmp_path / "o.pftrace")
    ahead = job.events["rank"].replace_strict(dict(enumerate(AHEAD)), return_dtype=pl.Int64)
    assert (back.events["start_ns"] + ahead).equals(job.events["start_ns"])


def test_a_path_and_blame_are_tracks_for_all_ranks(job: Trace, tmp_path: Path) -> None:
    tracks = ["path_across_ranks", "blame", "critical_path", "queue_depth"]
    options = {"tracks": tracks, "collectives": True}
    assert differences_of_forms(job, tmp_path, **options) == []
    viewed = Viewed(tmp_path / "written.pftrace")
    lines = {line for line, *_ in viewed.slices}
    assert {"profframe/path_across_ranks", "profframe/blame rank 0"} <= lines
    assert "rank 2: profframe/critical_path" in lines
    assert any(line.endswith("queue_depth device 0 stream 7 depth") for line, *_ in viewed.counters)


def test_arrows_begin_and_end_in_the_slices_that_they_join(job: Trace, tmp_path: Path) -> None:
    job.filter(ranks=[1]).export_chrome_trace(tmp_path / "o.pftrace")
    inside = [(phase, name) for phase, _, name, _ in Viewed(tmp_path / "o.pftrace").arrows]
    assert Counter(inside) == {
        ("s", "cudaLaunchKernel"): 2,
        ("f", "ncclDevKernel_AllReduce_Sum_f32"): 2,
    }


def test_an_arrow_finds_a_slice_that_is_beside_its_thread(tmp_path: Path) -> None:
    arrow = {"cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1}
    trace = loaded(
        tmp_path,
        slice_("first", 10, 10),
        slice_("second", 15, 10),
        {"ph": "s", "id": 7, "ts": 10, **arrow},
        {"ph": "f", "id": 7, "ts": 15, "bp": "e", **arrow},
    )
    assert differences_of_forms(trace, tmp_path) == []
    viewed = Viewed(tmp_path / "written.pftrace")
    assert viewed.slices == Counter(
        {("process 1/1", 0, 10_000, "first"): 1, ("process 1/1/1 (2)", 5000, 10_000, "second"): 1}
    )
    assert [(phase, id_, name) for phase, id_, name, _ in viewed.arrows] == [
        ("s", 7, "first"),
        ("f", 7, "second"),
    ]


def test_arguments_have_their_types_and_keep_their_text(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    args = (
        '{"i": -7, "big": 18446744073709551616, "d": 0.25, "e": 1e5, "z": 1.50, "t": true, '
        '"n": null, "s": "x,{\\"y", "half": "\\ud800", "l": [[1, 2], []], "o": {"a": "}"}, "": ""}'
    )
    path.write_text(f'[{{"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":1,"args":{args}}}]')
    trace = profframe.load(path)
    assert differences_of_forms(trace, tmp_path) == []
    (packet,) = (p for p in parsed(tmp_path / "written.pftrace") if p.track_event.type == 1)
    kinds = [a.WhichOneof("value") for a in packet.track_event.debug_annotations]
    assert kinds == [
        "int_value", "legacy_json_value", "double_value", "legacy_json_value", "legacy_json_value",
        "bool_value", "legacy_json_value", "legacy_json_value", "string_value",
        "legacy_json_value", "legacy_json_value", "string_value",
    ]  # fmt: skip
    (seen,) = Viewed(tmp_path / "written.pftrace").args
    assert seen["s"] == 'x,{"y'
    assert (seen["i"], seen["d"], seen["l"], seen["o"]) == (-7, 0.25, [[1, 2], []], {"a": "}"})


@pytest.mark.parametrize("text", ["[1, 2]", '"text"', '{"a\\"b": 1}', '{"a": {"b": "\\\\"}}'])
def test_arguments_that_are_no_plain_object_are_shown_whole(text: str, tmp_path: Path) -> None:
    trace = loaded(tmp_path, slice_("x", 1, 1, args=json.loads(text)))
    assert differences_of_forms(trace, tmp_path) == []
    (seen,) = Viewed(tmp_path / "written.pftrace").args
    value = json.loads(text)
    assert seen in ({"args": value}, value)


def test_hostile_names_survive(tmp_path: Path) -> None:
    label = {"ph": "M", "pid": HOSTILE, "tid": HOSTILE}
    place = {"pid": HOSTILE, "tid": HOSTILE}
    trace = loaded(
        tmp_path,
        {**label, "name": "process_name", "args": {"name": HOSTILE}},
        {**label, "name": "thread_name", "args": {"name": HOSTILE}},
        slice_(HOSTILE, 1, 5, cat=HOSTILE, args={HOSTILE: HOSTILE, "half": "\ud800"}, **place),
        slice_("", 2, 1, cat="", **place),
        {"ph": "i", "name": HOSTILE, "s": "g", "ts": 3, **place},
        {"ph": "C", "name": HOSTILE, "id": HOSTILE, "ts": 3, "args": {HOSTILE: 1.5}, **place},
        {"ph": "s", "name": HOSTILE, "id": HOSTILE, "ts": 3, **place},
    )
    assert differences_of_forms(trace, tmp_path) == []
    viewed = Viewed(tmp_path / "written.pftrace")
    assert (f"{HOSTILE}/{HOSTILE}", 0, 5000, HOSTILE) in viewed.slices


def test_what_has_no_pair_and_no_time_is_kept(tmp_path: Path) -> None:
    place = {"cat": "c", "pid": 1, "tid": 1}
    trace = loaded(
        tmp_path,
        slice_("around", 0, 50),
        {"ph": "B", "name": "open", "ts": 10, **place},
        slice_("inside", 20, 10),
        {"ph": "E", "ts": 5, "pid": 1, "tid": 2},
        {"ph": "b", "name": "op", "id": "0x1f", "ts": 1, **place},
        {"ph": "e", "name": "op", "id": "0x1f", "ts": 9, **place},
        {"ph": "b", "name": "op", "id": 3, "ts": 9, **place},
        {"ph": "X", "name": "never", "pid": 1, "tid": 1},
        {"ph": "C", "name": "two", "pid": 1, "ts": 4, "args": {"a": 1, "b": 2.5}},
        {"ph": "C", "name": "none", "pid": 1, "ts": 4, "args": {"a": "x"}},
    )
    assert differences_of_forms(trace, tmp_path) == []
    viewed = Viewed(tmp_path / "written.pftrace")
    assert viewed.slices == Counter(
        {("process 1/1", 0, 50_000, "around"): 1, ("process 1/1", 20_000, 10_000, "inside"): 1}
    )
    assert viewed.counters == [("process 1/two a", 4000, 1.0), ("process 1/two b", 4000, 2.5)]


@pytest.mark.parametrize("base", [None, 1_700_000_000_000_000_000])
def test_times_before_the_base_are_times_of_the_file(base: int | None, tmp_path: Path) -> None:
    around = {} if base is None else {"baseTimeNanoseconds": base, "schemaVersion": 1}
    trace = loaded(tmp_path, slice_("x", -3, 1), slice_("y", 5, 1), **around)
    assert differences_of_forms(trace, tmp_path) == []
    packets = parsed(tmp_path / "written.pftrace")
    times = [p.timestamp for p in packets if p.HasField("track_event")]
    assert sorted(times) == [0, 1000, 8000, 9000]
    clocks = [[c.timestamp for c in p.clock_snapshot.clocks] for p in packets]
    assert [c for c in clocks if c] == ([] if base is None else [[0, base - 3000]])


def test_the_first_time_of_added_rows_counts(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slice_("x", 5, 1))
    rows = pl.DataFrame({"time_ns": [-9000, 7000], "watts": [1.5, 2.5]})
    assert differences_of_forms(trace, tmp_path, tracks={"power": rows}) == []
    viewed = Viewed(tmp_path / "written.pftrace")
    assert viewed.counters == [
        ("profframe/power watts", 0, 1.5),
        ("profframe/power watts", 16_000, 2.5),
    ]


def test_added_slices_end_whether_they_last_2_ns_or_1_or_none(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slice_("x", 0, 1))
    rows = pl.DataFrame({"start_ns": [100, 200, 300], "dur_ns": [2, 1, 0], "what": ["a", "b", "c"]})
    trace.export_chrome_trace(tmp_path / "o.pftrace", tracks={"short": rows})
    viewed = Viewed(tmp_path / "o.pftrace")
    line = "profframe/short"
    assert viewed.slices == Counter(
        {
            ("process 1/1", 0, 1_000, "x"): 1,
            (line, 100, 2, "a"): 1,
            (line, 200, 1, "b"): 1,
            (line, 300, 0, "c"): 1,
        }
    )
    assert (viewed.lone_ends, viewed.open_at_end) == (0, 0)


@pytest.mark.parametrize("name", few(["gpu_training", "cpu_training_stack"], 1))
def test_examples_read_back(name: str, tmp_path: Path) -> None:
    trace = profframe.load(EXAMPLES / f"{name}.json.gz")
    options = {"highlight": trace.critical_path(), "tracks": ["critical_path", "memory"]}
    assert differences_of_forms(trace, tmp_path, **options) == []
    viewed = Viewed(tmp_path / "written.pftrace")
    assert (viewed.lone_ends, viewed.open_at_end) == (0, 0)
    slices = trace.events.filter(pl.col("dur_ns").is_not_null())
    seen = sum(n for (line, *_), n in viewed.slices.items() if not line.startswith("profframe"))
    assert seen == slices.height


def test_numbers_of_texts_begin_anew_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(interning, "_MOST", 50)
    monkeypatch.setattr("profframe.export.lines.batches._BATCH", 64)
    trace = loaded(tmp_path, *(slice_(f"name {n}", n, 1, args={"n": n}) for n in range(400)))
    assert differences_of_forms(trace, tmp_path) == []
    packets = parsed(tmp_path / "written.pftrace")
    assert sum(packet.sequence_flags & 1 for packet in packets) > 3
    largest = max(e.iid for p in packets for e in p.interned_data.event_names)
    assert largest < 200


def test_every_packet_is_one_of_the_schema(tmp_path: Path) -> None:
    trace = profframe.load(EXAMPLES / "gpu_training.json.gz")
    trace.export_chrome_trace(tmp_path / "o.pftrace.gz")
    for packet in parsed(tmp_path / "o.pftrace.gz"):
        unknown = pb.TracePacket.FromString(packet.SerializeToString())
        unknown.DiscardUnknownFields()
        kind = packet.WhichOneof("data")
        if kind not in ("track_event", "track_descriptor"):  # which have a field of our own
            assert unknown == packet
        assert packet.trusted_packet_sequence_id == 1
    assert profframe.load(tmp_path / "o.pftrace.gz").events.height == trace.events.height


def test_work_is_among_the_arguments_of_an_augmented_file(tmp_path: Path) -> None:
    trace = profframe.load(EXAMPLES / "gpu_training.json.gz")
    for name in ("o.json", "o.pftrace"):
        trace.augment(tmp_path / name)
    one, other = (
        profframe.load(tmp_path / name).events["args"].str.extract(r'"kernel_flop": ?(\d+)')
        for name in ("o.json", "o.pftrace")
    )
    assert one.drop_nulls().len() > 0
    assert one.equals(other, null_equal=True)


def test_a_file_of_several_ranks_goes_into_a_store_by_way_of_load(
    job: Trace, tmp_path: Path
) -> None:
    job.export_chrome_trace(tmp_path / "o.pftrace")
    with pytest.raises(SourceError, match="3 traces in one file, written together by profframe"):
        read_trace(tmp_path / "o.pftrace", spool_folder=tmp_path)
    profframe.load(tmp_path / "o.pftrace").to_parquet(tmp_path / "other")
    assert profframe.load(tmp_path / "other").traces["rank"].to_list() == [0, 1, 2]


def test_a_cut_file_reads_up_to_there(job: Trace, tmp_path: Path) -> None:
    job.export_chrome_trace(tmp_path / "o.pftrace")
    data = (tmp_path / "o.pftrace").read_bytes()
    (tmp_path / "cut.pftrace").write_bytes(data[: len(data) * 3 // 4])
    back = profframe.load(tmp_path / "cut.pftrace")
    assert back.traces["rank"].to_list() == [0, 1, 2]
    assert "truncated" in back.quality["issue"].to_list()
    assert 0 < back.events.height < job.events.height


@pytest.mark.parametrize("seed", few(range(8), 1))
def test_a_damaged_file_is_read_or_refused(seed: int, job: Trace, tmp_path: Path) -> None:
    job.export_chrome_trace(tmp_path / "o.pftrace", tracks=["blame"], collectives=True)
    data = (tmp_path / "o.pftrace").read_bytes()
    random = Random(seed)  # noqa: S311
    for _ in range(8):
        damaged = bytearray(data)
        for _ in range(random.choice((1, 3, 30))):
            at = random.randrange(len(damaged))
            damaged[at : at + random.randrange(3)] = random.randbytes(random.randrange(3))
        (tmp_path / "damaged.pftrace").write_bytes(bytes(damaged))
        try:
            back = profframe.load(tmp_path / "damaged.pftrace")
        except ProfframeError:
            continue
        assert back.sql("SELECT count(args) FROM events").height == 1


def test_metadata_that_is_no_text_is_nothing(job: Trace, tmp_path: Path) -> None:
    job.export_chrome_trace(tmp_path / "o.pftrace")
    data = (tmp_path / "o.pftrace").read_bytes()
    broken = data.replace(b'"clocks"', b'"\xff\xfeocks"')
    (tmp_path / "o.pftrace").write_bytes(broken)
    back = profframe.load(tmp_path / "o.pftrace")
    assert back.events.height == job.events.height


def test_only_whole_traces_are_written_under_a_name_of_protobuf(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slice_("x", 1, 1))
    path = tmp_path / "t.pftrace"
    for write in (
        trace.report,
        lambda path: trace.export_chrome_trace(path, legacy=True),
    ):
        with pytest.raises(ExportError, match=r"t\.pftrace: this ending means Perfetto's protobuf"):
            write(path)
    assert not path.exists()


def test_the_command_writes_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "o.pftrace"
    example = EXAMPLES / "gpu_training.json.gz"
    code, _, error = run("export", example, "--track", "queue_depth", "-o", path)
    assert (code, error.splitlines()[-1]) == (0, f"{path}: written")
    assert {line.split("/")[0] for line, *_ in Viewed(path).counters} == {"profframe"}


def test_a_batch_without_arguments_or_names_is_written(tmp_path: Path) -> None:
    trace = loaded(tmp_path, {"ph": "X", "ts": 1, "dur": 2})
    assert differences_of_forms(trace, tmp_path) == []
    assert sum(Viewed(tmp_path / "written.pftrace").slices.values()) == 1
