from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import Trace
from profframe.errors import NotATraceError, NoTraceFoundError, ParameterError, SourceError
from profframe.facts.kinds import Rule
from profframe.readers.bytes import ByteSource
from tests.conftest import Run
from tests.members import few

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a trace of one slice; `members` are what else the document has."""

    def write(name: str, start: float = 1, slice_name: str = "op", **members: Any) -> Path:
        event = {"ph": "X", "cat": "cpu_op", "name": slice_name, "ts": start, "dur": 2}
        text = json.dumps(members | {"traceEvents": [event | {"pid": 1, "tid": 1}]}).encode()
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


def names(trace: Trace) -> list[tuple[str, int]]:
    return trace.traces.sort("run", "rank").select("run", "rank").rows()


def slices(trace: Trace) -> dict[tuple[str, int], str]:
    found = trace.events.select("run", "rank", "name").rows()
    return {(run, rank): name for run, rank, name in found}


def checks(trace: Trace) -> dict[str, int]:
    return dict(trace.quality.group_by("issue").agg(pl.len()).rows())


# Run and rank


@pytest.mark.parametrize(
    ("path", "members", "named"),
    [
        ("job/a.json", {"distributedInfo": {"rank": 3}}, ("job", 3, "distributedInfo")),
        ("job/rank7.json", {"distributedInfo": {"rank": 3}}, ("job", 3, "distributedInfo")),
        ("job/rank7.json", {"distributedInfo": {"backend": "nccl"}}, ("job", 7, "path")),
        ("job/rank7.json", {}, ("job", 7, "path")),
        ("job/rank-7.json", {}, ("job", 7, "path")),
        ("job/rank_7.json", {}, ("job", 7, "path")),
        ("job/trace_rank_12_x.json", {}, ("job", 12, "path")),
        ("job/host.worker5.pt.trace.json.gz", {}, ("job", 5, "path")),
        ("job/RANK4.json", {}, ("job", 4, "path")),
        ("job/rank2/trace.json", {}, ("job", 2, "path")),
        ("job/rank_2/trace.json.gz", {}, ("job", 2, "path")),
        ("job/rank2/rank3.json", {}, ("job", 3, "path")),
        ("job_rank2/trace.json", {}, ("job_rank2", 2, "path")),
        ("job/exp[run1]-rank[12].17000000001.pt.trace.json.gz", {}, ("job", 12, "path")),
        ("job/trace rank(2).json", {}, ("job", 2, "path")),
        ("job/trace rank 3.json", {}, ("job", 3, "path")),
        ("job/1782843274.77-TP-3.trace.json.gz", {}, ("job", 3, "path")),
        ("job/1782843274.77-TP-3-EP-3-PP-0-DECODE.trace.json.gz", {}, ("job", 3, "path")),
        ("job/http-3.json", {}, ("http-3", 0, "assumed")),
        ("job/crank3.json", {}, ("crank3", 0, "assumed")),
        ("job/rankless.json", {}, ("rankless", 0, "assumed")),
        ("job/a.pt.trace.json.gz", {}, ("a", 0, "assumed")),
        ("job/host_12.1694128201545.pt.trace.json", {}, ("host_12", 0, "assumed")),
        ("job/DP-2.json", {}, ("job", 2, "path")),
        ("job/17.5-EP-1.trace.json.gz", {}, ("job", 1, "path")),
        ("job/17.5-TP-1-DP-0-PP-0-EP-1.trace.json.gz", {}, ("job", 1, "path")),
        ("job/profile_0.json", {}, ("job", 0, "path")),
        ("job/profile_1.json", {}, ("profile_1", 0, "assumed")),
        ("job/a.json.gz", {}, ("a", 0, "assumed")),
        ("job/a.b.json", {}, ("a.b", 0, "assumed")),
        ("job/a", {}, ("a", 0, "assumed")),
        ("job/.json", {}, (".json", 0, "assumed")),
        ("2024-01-01/rank0.json", {}, ("2024-01-01", 0, "path")),
    ],
)
def test_a_trace_is_named_by_what_it_says_or_by_its_path(
    write: Write, path: str, members: dict[str, Any], named: tuple[str, int, str]
) -> None:
    file = write(path, **members)
    found = profframe.load(file).traces.select("run", "rank", "rank_source", "source")
    assert found.rows() == [(*named, str(file))]


def test_ranks_of_a_pipeline_of_sglang_follow_its_stages(write: Write, tmp_path: Path) -> None:
    """The files beside one tell how many ranks a stage has."""
    for stage in range(2):
        for place in range(3):
            write(f"job/17.5-TP-{place}-EP-{place}-PP-{stage}-DECODE.trace.json.gz")
    trace = profframe.load(tmp_path / "job")
    assert names(trace) == [("job", rank) for rank in range(6)]
    last = profframe.load(tmp_path / "job" / "17.5-TP-2-EP-2-PP-1-DECODE.trace.json.gz")
    assert names(last) == [("job", 5)]


def test_ranks_of_accelerate_are_of_one_run(write: Write, tmp_path: Path) -> None:
    """The first of them tells; a header tells more."""
    for rank in range(3):
        write(f"job/profile_{rank}.json")
    assert names(profframe.load(tmp_path / "job")) == [("job", 0), ("job", 1), ("job", 2)]
    assert names(profframe.load(write("job/profile_4.json", distributedInfo={"rank": 9}))) == [
        ("job", 9)
    ]


@given(
    sizes=st.fixed_dictionaries(
        {axis: st.integers(1, 3) for axis in ("TP", "PP", "DP", "EP", "CP")}
    ).filter(lambda sizes: 1 < prod(sizes.values()) < 25),
    is_derived=st.booleans(),
)
def test_all_places_in_names_together_are_one_rank(sizes: dict[str, int], is_derived: bool) -> None:
    """Each file has its own rank; in a grid, from 0 on without a gap."""
    axes = [axis for axis, size in sizes.items() if size > 1]
    grid = [
        dict(zip(axes, places, strict=True))
        for places in product(*(range(sizes[axis]) for axis in axes))
    ]
    for place in grid if is_derived and "TP" in axes else ():
        place |= {"EP": place["TP"]}
    grid = [dict(pairs) for pairs in dict.fromkeys(tuple(place.items()) for place in grid)]
    with TemporaryDirectory() as folder:
        for place in grid:
            name = "-".join(f"{axis}-{number}" for axis, number in place.items())
            Path(folder, f"17.5-{name}.trace.json").write_text('{"traceEvents": []}')
        trace = profframe.load(folder, run="r")
    assert names(trace) == [("r", rank) for rank in range(len(grid))]


def test_arguments_name_a_trace_before_all_else(write: Write) -> None:
    path = write("job/rank7.json", distributedInfo={"rank": 3})
    trace = profframe.load(path, run="mine", rank=9)
    assert names(trace) == [("mine", 9)]
    assert trace.traces["rank_source"].to_list() == ["argument"]
    assert names(profframe.load(path, run="mine")) == [("mine", 3)]
    assert names(profframe.load(path, rank=9)) == [("job", 9)]


def test_every_table_has_the_run_and_the_rank(write: Write) -> None:
    tables = profframe.load(write("job/rank7.json", a=[{"b": "x"}])).tables
    for name, table in tables.items():
        rows = table.select(["run", "rank"]).to_pylist()
        assert all(row == {"run": "job", "rank": 7} for row in rows), name


@pytest.mark.parametrize("rank", [-1, 1 << 31, "0", 1.0, True])
def test_a_rank_that_can_be_none_is_refused(write: Write, rank: Any) -> None:
    with pytest.raises(ParameterError, match="rank must be an int from 0 to 2147483647, not "):
        profframe.load(write("a.json"), rank=rank)


def test_a_run_that_is_no_text_is_refused(write: Write) -> None:
    with pytest.raises(ParameterError, match="run must be text, not 5"):
        profframe.load(write("a.json"), run=5)  # type: ignore[arg-type]


# Cycles of one run


def test_traces_of_one_run_and_rank_are_its_cycles_by_start(write: Write, tmp_path: Path) -> None:
    write("job/a_rank0.json", 300, "third")
    write("job/b_rank0.json", 100, "first")
    write("job/c_rank0.json", 200, "second")
    write("job/d_rank1.json", 50, "other")
    trace = profframe.load(tmp_path / "job")
    assert slices(trace) == {
        ("job", 0): "first",
        ("job.1", 0): "second",
        ("job.2", 0): "third",
        ("job", 1): "other",
    }
    notes = trace.quality.sort("run").select("run", "rank", "issue", "events", "detail").rows()
    assert [note[:4] for note in notes] == [
        ("job.1", 0, "same_run_and_rank", 1),
        ("job.2", 0, "same_run_and_rank", 1),
    ]
    for note, file in zip(notes, ["c_rank0.json", "a_rank0.json"], strict=True):
        assert str(tmp_path / "job" / file) in note[4]


def test_a_cycle_takes_no_name_that_is_taken(write: Write) -> None:
    paths = [write("x/job.1.json", 1, "taken"), write("y/job.json", 2), write("z/job.json", 3)]
    assert names(profframe.load(paths)) == [("job", 0), ("job.1", 0), ("job.2", 0)]
    assert slices(profframe.load(paths))["job.1", 0] == "taken"


def test_a_glob_of_folders_leads_to_what_is_in_them(write: Write, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(f"{folder}/rank1.json")
    assert names(profframe.load(str(tmp_path / "*"))) == [("a", 1), ("b", 1)]


def test_a_path_that_is_no_text_has_its_bytes_written_out(write: Write) -> None:
    trace = profframe.load(write("a\udcff/rank1.json"))
    assert names(trace) == [(r"a\xff", 1)]
    assert r"a\xff" in trace.traces["source"].item()


def test_cycles_that_start_together_keep_their_order(write: Write) -> None:
    paths = [write(f"{folder}/t.json", 1, folder) for folder in "cab"]
    assert slices(profframe.load(paths)) == {("t", 0): "c", ("t.1", 0): "a", ("t.2", 0): "b"}


def test_one_name_for_all_makes_them_cycles(write: Write) -> None:
    paths = [write("a.json", 2, "late"), write("b.json", 1, "early")]
    trace = profframe.load(paths, run="mine", rank=0)
    assert slices(trace) == {("mine", 0): "early", ("mine.1", 0): "late"}


# Which files


def test_a_directory_is_read_without_what_is_below_it(write: Write, tmp_path: Path) -> None:
    write("job/rank0.json")
    write("job/rank1.json.gz")
    write("job/deeper/rank2.json")
    write("job/.hidden_rank3.json")
    assert names(profframe.load(tmp_path / "job")) == [("job", 0), ("job", 1)]
    assert names(profframe.load(str(tmp_path / "job"))) == [("job", 0), ("job", 1)]


def test_files_of_a_directory_that_are_no_traces_are_skipped_and_listed(
    write: Write, tmp_path: Path
) -> None:
    write("job/rank0.json")
    (tmp_path / "job" / "README.md").write_text("# hello")
    (tmp_path / "job" / "empty.json").write_text("")
    (tmp_path / "job" / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "job" / "numbers.json").write_text("[1, 2, 3]")
    trace = profframe.load(tmp_path / "job")
    assert names(trace) == [("job", 0)]
    notes = trace.quality.filter(pl.col("issue") == "skipped_file")
    assert notes["events"].to_list() == [0] * 4
    details = sorted(notes["detail"].to_list())
    reasons = {
        "README.md": "it is not JSON",
        "config.json": "it has no 'traceEvents'",
        "empty.json": "the file is empty",
        "numbers.json": "no element of the JSON array is an event",
    }
    for detail, (name, reason) in zip(details, sorted(reasons.items()), strict=True):
        assert f"{tmp_path / 'job' / name}: not a trace: {reason}" in detail


def test_a_directory_in_which_nothing_is_a_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "b.txt").write_text("hello")
    with pytest.raises(NoTraceFoundError, match="none of 2 files is a trace; the first: ") as e:
        profframe.load(tmp_path)
    assert str(tmp_path / "a.txt") in str(e.value)


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    with pytest.raises(NoTraceFoundError) as caught:
        profframe.load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: the directory holds no files")


def test_globs_find_what_they_match(write: Write, tmp_path: Path) -> None:
    for rank in range(12):
        write(f"job/rank{rank}.json")
    write("job/deeper/rank20.json")
    write("other/rank30.json")

    def ranks(pattern: str) -> list[int]:
        return sorted(rank for _, rank in names(profframe.load(tmp_path / pattern)))

    assert ranks("job/*.json") == list(range(12))
    assert ranks("job/rank1?.json") == [10, 11]
    assert ranks("job/rank[0-2].json") == [0, 1, 2]
    assert ranks("job/**/*.json") == [*range(12), 20]
    assert ranks("**/rank*0.json") == [0, 10, 20, 30]
    assert ranks("*/deeper/*") == [20]


def test_a_glob_skips_and_lists_what_is_no_trace(write: Write, tmp_path: Path) -> None:
    write("job/a.json")
    (tmp_path / "job" / "b.json").write_text("{}")
    trace = profframe.load(tmp_path / "job" / "*.json")
    assert names(trace) == [("a", 0)]
    assert checks(trace) == {"skipped_file": 1}


def test_a_glob_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoTraceFoundError) as caught:
        profframe.load(tmp_path / "*.json")
    assert str(caught.value) == (
        f"{tmp_path}/*.json: no file matches the pattern (** searches below a folder)"
    )


def test_a_file_whose_name_looks_like_a_glob_is_a_file(write: Write) -> None:
    assert names(profframe.load(write("a[1].json"))) == [("a[1]", 0)]


def test_a_list_may_mix_all_and_counts_a_file_once(write: Write, tmp_path: Path) -> None:
    first = write("a/rank0.json")
    write("b/rank1.json")
    write("c/rank2.json")
    trace = profframe.load([first, str(tmp_path / "b"), tmp_path / "c" / "*", first])
    assert names(trace) == [("a", 0), ("b", 1), ("c", 2)]
    assert checks(trace) == {}


def test_a_file_that_was_named_must_be_a_trace(write: Write, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    with pytest.raises(NotATraceError, match="it has no 'traceEvents'"):
        profframe.load([write("a.json"), other])


def test_a_file_that_was_named_and_is_in_a_directory_too_must_be_a_trace(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    with pytest.raises(NotATraceError, match="it has no 'traceEvents'"):
        profframe.load([other, tmp_path])


@pytest.mark.parametrize("missing", ["missing.json", "no/such/folder"])
def test_a_path_that_leads_nowhere_is_an_error(tmp_path: Path, missing: str) -> None:
    with pytest.raises(NoTraceFoundError) as caught:
        profframe.load(tmp_path / missing)
    assert str(caught.value) == f"{tmp_path / missing}: no such file or directory"


def test_nothing_to_load_is_an_error() -> None:
    with pytest.raises(NoTraceFoundError, match="nothing to load"):
        profframe.load([])


def test_kinds_may_be_given(write: Write) -> None:
    rules = (Rule("annotation", name="op"),)
    assert profframe.load(write("a.json"), kinds=rules).events["kind"].to_list() == ["annotation"]


# Cache


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files whose text is read, one entry a time."""
    seen: list[Path] = []
    blocks = ByteSource.blocks

    def counted(source: ByteSource) -> Any:
        seen.append(source.path)
        return blocks(source)

    monkeypatch.setattr(ByteSource, "blocks", counted)
    return seen


def test_what_is_cached_is_not_read_again_nor_computed(
    write: Write, tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("job/rank7.json.gz", slice_name="once")
    first = profframe.load(path, cache=tmp_path / "cache")
    assert reads == [path]
    path.chmod(0o200)
    monkeypatch.setattr("profframe.facts.pipeline.add_facts", None)
    again = profframe.load(path, cache=tmp_path / "cache")
    assert reads == [path]
    assert again.self_times().equals(first.self_times())
    for name in first.tables:
        assert again.tables[name].num_rows == first.tables[name].num_rows
    assert slices(again) == {("job", 7): "once"}


def test_changed_content_is_loaded_again(write: Write, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert slices(profframe.load(write("a.json", slice_name="old"), cache=cache)) == {
        ("a", 0): "old"
    }
    for _ in range(2):
        path = write("a.json", slice_name="new")
        assert slices(profframe.load(path, cache=cache)) == {("a", 0): "new"}
    assert slices(profframe.load(write("a.json", slice_name="old"), cache=cache)) == {
        ("a", 0): "old"
    }


def test_the_same_content_with_another_time_is_not_parsed_again(
    write: Write, tmp_path: Path, reads: list[Path]
) -> None:
    path = write("a.json")
    profframe.load(path, cache=tmp_path / "cache")
    os.utime(path, (1, 1))
    profframe.load(path, cache=tmp_path / "cache")
    assert reads == [path]


def test_another_name_or_classifier_has_a_cache_of_its_own(write: Write, tmp_path: Path) -> None:
    path, cache = write("a.json"), tmp_path / "cache"
    rules = (Rule("annotation", name="op"),)
    assert names(profframe.load(path, cache=cache)) == [("a", 0)]
    assert names(profframe.load(path, cache=cache, run="mine")) == [("mine", 0)]
    assert names(profframe.load(path, cache=cache, rank=3))[0][1] == 3
    assert names(profframe.load(path, cache=cache)) == [("a", 0)]
    trace = profframe.load(path, cache=cache, kinds=rules)
    assert trace.events["kind"].to_list() == ["annotation"]
    assert profframe.load(path, cache=cache).events["kind"].to_list() == ["host_op"]


def test_a_file_more_in_a_directory_is_seen(write: Write, tmp_path: Path) -> None:
    write("job/rank0.json")
    folder, cache = tmp_path / "job", tmp_path / "cache"
    assert names(profframe.load(folder, cache=cache)) == [("job", 0)]
    write("job/rank1.json")
    assert names(profframe.load(folder, cache=cache)) == [("job", 0), ("job", 1)]


def test_what_could_not_be_loaded_is_not_cached(write: Write, tmp_path: Path) -> None:
    path, cache = tmp_path / "a.json", tmp_path / "cache"
    path.write_text("{}")
    for _ in range(2):
        with pytest.raises(NotATraceError):
            profframe.load(path, cache=cache)
    assert slices(profframe.load(write("a.json"), cache=cache)) == {("a", 0): "op"}


def test_a_broken_note_in_the_cache_does_no_harm(write: Write, tmp_path: Path) -> None:
    path, cache = write("a.json"), tmp_path / "cache"
    profframe.load(path, cache=cache)
    (note,) = (cache / "seen").iterdir()
    for text in ("", "[]", "{}", '{"seen": 1'):
        note.write_text(text)
        assert names(profframe.load(path, cache=cache)) == [("a", 0)]


# Progress


def test_progress_goes_to_the_end_over_all_files(write: Write, tmp_path: Path) -> None:
    paths = [write(f"job/rank{i}.json", note="x" * i) for i in range(3)]
    seen: list[tuple[int, int]] = []
    profframe.load(tmp_path / "job", progress=lambda done, size: seen.append((done, size)))
    sizes = [path.stat().st_size for path in paths]
    assert seen == [(sum(sizes[: i + 1]), sum(sizes)) for i in range(3)]


def test_what_progress_raises_comes_through(write: Write) -> None:
    class StopError(Exception):
        pass

    def stop(_done: int, _size: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        profframe.load(write("a.json"), progress=stop)


def test_a_file_that_vanishes_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.json")
    beginning = ByteSource.beginning

    def vanishing(source: ByteSource) -> Any:
        source.path.unlink()
        return beginning(source)

    monkeypatch.setattr(ByteSource, "beginning", vanishing)
    with pytest.raises(SourceError) as caught:
        profframe.load(path)
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"


def collision(path: Path) -> Path:
    """A call that is linked to no op and has the number of one; its kernels are 4 us."""

    def slice_(category: str, start: int, end: int, **args: object) -> dict[str, object]:
        named = {key.replace("_", " "): value for key, value in args.items()}
        event = {"ph": "X", "cat": category, "name": category, "pid": 1, "tid": 1}
        return event | {"ts": start, "dur": end - start, "args": named}

    events = [
        slice_("cpu_op", 0, 5, External_id=7),
        slice_("cuda_runtime", 6, 8, correlation=7),
        slice_("kernel", 9, 13, External_id=7),
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_what_torch_would_find_has_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profframe.facts.torch_compat.releases.installed", lambda: (2, 13))
    path, cache = collision(tmp_path / "trace.json"), tmp_path / "cache"
    for compat, expected in ((None, [4000, 0, 4000]), ("torch", [4000, 4000, 4000])) * 2:
        trace = profframe.load(path, compat=compat, cache=cache)
        assert trace.events["device_ns"].to_list() == expected
        assert profframe.load(path, compat=compat).events["device_ns"].to_list() == expected


def test_compat_is_torch_or_nothing(tmp_path: Path) -> None:
    path = collision(tmp_path / "trace.json")
    with pytest.raises(ParameterError, match="compat: needs None or 'torch', got 'numpy'"):
        profframe.load(path, compat="numpy")
    profframe.load(path).to_parquet(tmp_path / "store")
    with pytest.raises(ParameterError, match="a store has that already"):
        profframe.load(tmp_path / "store", compat="torch")


@pytest.fixture
def refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose name says so cannot be opened."""
    opened = Path.open

    def refuse(path: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if "secret" in path.name and "r" in mode:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode, *arguments, **more)

    monkeypatch.setattr(Path, "open", refuse)


@pytest.mark.usefixtures("refuses")
def test_a_file_that_cannot_be_read_among_others_is_passed_over_and_named(
    write: Write, tmp_path: Path, run: Run
) -> None:
    write("a.json")
    secret = write("secret.json")
    trace = profframe.load(tmp_path)
    assert trace.traces["run"].to_list() == ["a"]
    (row,) = trace.quality.filter(trace.quality["issue"] == "unreadable_file").to_dicts()
    assert row["detail"].endswith(f": {secret}: cannot be read: Permission denied")
    code, _, err = run("info", tmp_path)
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith("warning: ")
    assert str(secret) in line
    with pytest.raises(SourceError, match=r"secret\.json: cannot be read: Permission denied"):
        profframe.load([tmp_path / "a.json", secret])


@pytest.mark.usefixtures("refuses")
def test_files_of_which_none_can_be_read_are_an_error(write: Write, tmp_path: Path) -> None:
    write("secret1.json")
    write("secret2.json")
    with pytest.raises(NoTraceFoundError, match=r"none of 2 files.*secret1.*Permission denied"):
        profframe.load(tmp_path)


@pytest.mark.parametrize("brackets", [300, 990, 200_000])
def test_brackets_that_are_never_closed_are_an_error_with_the_name(
    brackets: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" * brackets)
    with pytest.raises(NotATraceError) as caught:
        profframe.load(path)
    assert str(caught.value).startswith(f"{path}: not a trace: ")


DEEP = [300, 5000]


@pytest.mark.parametrize("deep", few(DEEP, 3))
@pytest.mark.parametrize("where", ["x", "deviceProperties", "distributedInfo"])
def test_a_header_that_is_nested_deep_is_passed_over_and_named(
    where: str, deep: int, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "a.json"
    nested = "[" * deep + "]" * deep
    for value in (json.dumps(nested), nested):
        path.write_text(
            f'{{"{where}": {value}, "traceEvents": [{{"ph": "X", "ts": 1, "dur": 1}}]}}'
        )
        trace = profframe.load(path)
        assert trace.events.height == 1
        found = set(trace.quality["issue"])
        assert ("unreadable_header" in found) == (value == nested)
    code, _, err = run("show", path)
    assert code == 0, err


@pytest.mark.parametrize("deep", few(DEEP, 1))
def test_events_that_are_nested_deep_are_loaded_and_exported(
    deep: int, tmp_path: Path, run: Run
) -> None:
    path, nested = tmp_path / "a.json", "[" * deep + "]" * deep
    args = f'{{"name": {nested}, "Input Dims": {nested}, "sort_index": {"7" * 5000}}}'
    members = f'"pid": 1, "tid": 2, "args": {args}'
    path.write_text(
        f'[{{"ph": "M", "name": "process_name", {members}}}, {{"ph": "M", "name": '
        f'"process_sort_index", {members}}}, {{"ph": "X", "name": "aten::mm", "cat": "cpu_op", '
        f'"ts": 1, "dur": 1, {members}}}]'
    )
    for verb, *options in (["info"], ["show"], ["export", "-o", tmp_path / "b.json"]):
        code, _, err = run(verb, path, *options)
        assert code == 0, err


def test_sizes_that_no_number_holds_are_no_work(tmp_path: Path) -> None:
    path, size = tmp_path / "a.json", "7" * 25
    path.write_text(
        '{"with_flops": 1, "schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "aten::mm", '
        '"cat": "cpu_op", "ts": 1, "dur": 1, "pid": 1, "tid": 1, "args": {"Input Dims": '
        f"[[{size}, {size}], [{size}, {size}]]}}}}]}}"
    )
    assert profframe.load(path).events["torch_flops"].to_list() == [0]


def test_text_that_only_looks_like_a_trace_is_refused(tmp_path: Path) -> None:
    """A program with a trace's key in it, such as one that makes traces, has no event."""
    program = tmp_path / "make.py"
    program.write_text('trace = {"traceEvents": [*events, other], "schemaVersion": 1}\n')
    with pytest.raises(NotATraceError, match=r"make.py: .*no element of 'traceEvents' is an event"):
        profframe.load(program)
    (tmp_path / "names.json").write_text('{"traceEvents": [{"ph": "M", "name": "n", "pid": 1}, 5]}')
    assert "not_an_event" in profframe.load(tmp_path / "names.json").quality["issue"].to_list()
