"""Memory snapshots and dumps beside the traces of a batch: one run and rank in the store."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.cli import run as command_line
from profframe.conversion import scheduler, worker
from profframe.conversion.staging import Folder
from profframe.store.maintenance import compact
from tests import needs
from tests.batch.sources import assert_same, content, loaded, write
from tests.batch.test_convert import Shuffled, statuses
from tests.members import few
from tests.unit.test_flight_recorder import dump, entry
from tests.unit.test_memory_joins import life, record, slice_, trace_file
from tests.unit.test_memory_joins import written as snapshot_file

Names = list[tuple[str, str | None, int | None]]


def trace_of(folder: Path, rank: int = 0, name: str = "aten::mm") -> Path:
    """A trace with a step, a module and an op, and a collective."""
    python = slice_("nn.Module: Linear_0", 5, 90, cat="python_function",
                    args={"Python module id": 0, "Python id": 1})  # fmt: skip
    collective = slice_("record_param_comms", 200, 5, args={
        "Process Group Name": "0", "Seq": 2, "Collective name": "allreduce",
        "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
        "Group size": 2, "dtype": "Float", "In msg nelems": 6, "Out msg nelems": 6})  # fmt: skip
    step = slice_("ProfilerStep#7", 0, 100, cat="user_annotation")
    events = [step, python, slice_(name, 10, 40), collective]
    folder.mkdir(parents=True, exist_ok=True)
    distributed = {"rank": rank, "world_size": 2}
    return trace_file(folder / f"rank{rank}.json", events, distributedInfo=distributed)


def snapshot_of(folder: Path, rank: int = 0, size: int = 64) -> Path:
    frames = [{"name": "f", "filename": "/train.py", "line": 3}]
    oom = record("oom", 30, size=1 << 40, device_free=5, frames=frames)
    return snapshot_file(
        folder / f"snapshot_rank{rank}.pickle", [*life(256, size, 20, None, frames), oom]
    )


def dump_of(folder: Path, rank: int = 0) -> Path:
    records = [entry(0)] + [entry(1, state="started", retired=False)] * (rank == 0)
    path = folder / f"nccl_trace_rank_{rank}"
    path.write_bytes(pickle.dumps(dump(*records)))
    return path


def job(folder: Path, ranks: int = 2) -> list[Path]:
    """A trace, a snapshot and a dump of each rank."""
    makers = (trace_of, snapshot_of, dump_of)
    return [make(folder, rank) for rank in range(ranks) for make in makers]


def convert(sources: Any, store: Path | str, **options: Any) -> pl.DataFrame:
    """In this process: another one takes longer to start than to convert."""
    with ThreadPoolExecutor(1) as thread:
        return profframe.convert(sources, store, thread, **options)


def names(files: pl.DataFrame) -> Names:
    return files.select("status", "run", "rank").rows()


JOINED: Names = [
    (status, "job", rank) for rank in (0, 1) for status in ("written", "joined", "joined")
]


def test_one_run_and_rank_with_all_tables_as_load_has_them(tmp_path: Path) -> None:
    paths = job(tmp_path / "job")
    expected = loaded(paths)
    assert expected["allocations"].height == 2
    assert expected["recorded_collectives"].height == 3
    with ThreadPoolExecutor(2) as threads:
        for number, executor in enumerate((threads, Shuffled(6, 1))):
            store = tmp_path / f"store{number}"
            files = profframe.convert(paths, store, executor)
            assert names(files) == JOINED
            assert files["events"].to_list() == [4, 0, 0, 4, 0, 0]
            assert_same(content(store), expected)
            assert not list(store.glob(".[ts]*"))


@pytest.mark.parametrize("how", few(["folder", "glob", "pattern", "workers"], ["workers"]))
def test_however_they_are_given(how: str, tmp_path: Path) -> None:
    paths = job(tmp_path / "job")
    source: Any = {"folder": paths[0].parent, "glob": str(tmp_path / "job" / "*")}.get(how, paths)
    options: dict[str, dict[str, Any]] = {
        "pattern": {"pattern": "{run}/*"},
        "workers": {"workers": 2, "threads": 1},
    }
    files = profframe.convert(source, tmp_path / "store", **options.get(how, {}))
    assert sorted(names(files)) == sorted(JOINED)
    stored = profframe.load(tmp_path / "store")
    assert stored.traces.select("run", "rank").rows() == [("job", 0), ("job", 1)]
    assert stored.allocations.height == 2


def test_once_more_nothing_is_read_but_to_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, store = job(tmp_path / "job"), tmp_path / "store"
    convert(paths, store)
    before = {path: path.stat().st_ino for path in store.rglob("*.parquet")}
    monkeypatch.setattr("profframe.loaders.trace_files.read", None)
    again = convert([*reversed(paths)], store)
    assert names(again) == [("unchanged", run, rank) for _, run, rank in reversed(JOINED)]
    assert again["events"].to_list() == [0, 0, 4, 0, 0, 4]
    assert {path: path.stat().st_ino for path in store.rglob("*.parquet")} == before


@pytest.mark.parametrize("changed", few([0, 1, 2], [1]))
def test_what_has_changed_takes_its_place_with_the_others(changed: int, tmp_path: Path) -> None:
    paths, store = job(tmp_path / "job"), tmp_path / "store"
    convert(paths, store)
    if changed == 0:
        trace_of(tmp_path / "job", 0, "aten::addmm")
    elif changed == 1:
        snapshot_of(tmp_path / "job", 0, size=512)
    else:
        paths[2].write_bytes(pickle.dumps(dump(entry(0))))
    files = convert(paths, store)
    assert names(files) == [*JOINED[:3], *[("unchanged", "job", 1)] * 3]
    assert_same(content(store), loaded(paths))
    assert statuses(convert(paths, store)) == ["unchanged"] * 6


@pytest.mark.parametrize("order", few([(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 0, 2)], 2))
def test_one_that_comes_later_joins_what_is_there(order: Sequence[int], tmp_path: Path) -> None:
    paths, store = job(tmp_path / "job", 1), tmp_path / "store"
    for number in order:
        files = convert(paths[number], store)
    assert names(files)[0][1:] == ("job", 0)
    stored = profframe.load(store)
    assert stored.traces.height == 1
    assert stored.allocations["step"].to_list() == [7]
    assert stored.recorded_collectives.height == 2
    assert stored.quality.filter(issue="joined_file").height == 2
    assert statuses(convert(paths, store)) == ["unchanged"] * 3


def test_one_that_comes_later_joins_a_trace_in_a_pack(tmp_path: Path) -> None:
    paths, store = job(tmp_path / "job"), tmp_path / "store"
    convert([paths[0], paths[3], paths[5]], store)
    compact(store)
    files = convert([paths[1], paths[4]], store)
    assert names(files) == [("joined", "job", 0), ("joined", "job", 1)]
    stored = profframe.load(store)
    assert stored.allocations.select("rank", "step").rows() == [(0, 7), (1, 7)]
    assert stored.recorded_collectives["rank"].to_list() == [1]


def test_a_part_that_has_changed_needs_the_others(tmp_path: Path) -> None:
    paths, store = job(tmp_path / "job", 1), tmp_path / "store"
    convert(paths, store)
    before = content(store)
    snapshot_of(tmp_path / "job", 0, size=512)
    files = convert(paths[1], store)
    assert statuses(files) == ["failed"]
    for path in (paths[0], paths[2]):
        assert str(path) in files["error"].item()
    assert_same(content(store), before)


def test_without_a_trace_of_its_rank_each_is_by_itself(tmp_path: Path) -> None:
    paths, store = job(tmp_path / "job"), tmp_path / "store"
    files = convert([paths[0], paths[4]], store)
    assert names(files) == [("written", "job", 0), ("written", "job", 1)]
    assert_same(content(store), loaded([paths[0], paths[4]]))


def test_two_snapshots_or_two_traces_of_a_rank_are_numbered(tmp_path: Path) -> None:
    paths = job(tmp_path / "job", 1)
    for name, other in (("y", snapshot_of), ("z", trace_of)):
        (tmp_path / name).mkdir()
        more, store = [paths[0], paths[1], other(tmp_path / name)], tmp_path / f"store_{name}"
        files = convert(more, store, run="r")
        assert names(files) == [("written", run, 0) for run in files["run"]]
        assert sorted(files["run"]) == ["r", "r.1", "r.2"]
        assert_same(content(store), loaded(more, run="r"))
        assert statuses(convert(more, store, run="r")) == ["unchanged"] * 3


def test_a_later_cycle_has_its_own_snapshot(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for folder in ("a", "b"):
        paths = job(tmp_path / folder, 1)
        files = convert(paths, store, run="r")
    assert names(files) == [("written", "r.1", 0), ("joined", "r.1", 0), ("joined", "r.1", 0)]
    stored = profframe.load(store)
    assert stored.allocations["run"].to_list() == ["r", "r.1"]
    assert statuses(convert(paths, store, run="r")) == ["unchanged"] * 3


@pytest.mark.parametrize("point", few(["join", "publish", "discard"], ["join", "discard"]))
def test_a_killed_batch_ends_in_the_same_store(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, store = job(tmp_path / "job"), tmp_path / "store"

    def kill(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scheduler if point == "join" else Folder, point, kill)
        with pytest.raises(KeyboardInterrupt):
            convert(paths, store)
    convert(paths, store)
    assert_same(content(store), loaded(paths))
    assert statuses(convert(paths, store)) == ["unchanged"] * 6
    assert not list(store.glob(".[ts]*"))


@pytest.mark.parametrize("damage", few(["events", "traces", "allocations"], 2))
def test_damage_is_written_anew(damage: str, tmp_path: Path) -> None:
    paths, store = job(tmp_path / "job", 1), tmp_path / "store"
    convert(paths, store)
    before = content(store)
    file = store / "run=job" / "rank=0" / f"{damage}.parquet"
    file.unlink() if damage == "allocations" else file.write_bytes(b"no Parquet")
    assert names(convert(paths, store)) == JOINED[:3]
    assert_same(content(store), before)


def test_another_batch_takes_the_parts_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, store = job(tmp_path / "job", 1), tmp_path / "store"
    join = worker.join

    def late(*given: Any) -> Any:
        monkeypatch.setattr(scheduler, "join", join)
        convert(paths, store)
        return join(*given)

    monkeypatch.setattr(scheduler, "join", late)
    files = convert(paths, store)
    assert names(files) == [("unchanged", "job", 0)] * 3
    assert_same(content(store), loaded(paths))
    assert not list(store.glob(".[ts]*"))


def test_two_batches_put_a_file_each_beside_one_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, store = job(tmp_path / "job", 1), tmp_path / "store"
    convert(paths[0], store)
    join = worker.join

    def late(*given: Any) -> Any:
        monkeypatch.setattr(scheduler, "join", join)
        result = join(*given)
        convert(paths[2], store)
        return result

    monkeypatch.setattr(scheduler, "join", late)
    assert names(convert(paths[1], store)) == [("joined", "job", 0)]
    stored = profframe.load(store)
    assert (stored.allocations.height, stored.recorded_collectives.height) == (1, 2)
    assert not list(store.glob(".[ts]*"))


def test_joined_files_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, store = job(tmp_path / "job", 1), tmp_path / "store"
    given = ["convert", *map(str, paths), "-o", str(store)]
    assert command_line(given) == 0
    assert "1 run, 1 rank, 4 events: 1 written, 2 joined" in capsys.readouterr().err
    listed = json.loads(profframe.load(store).traces["joined_files"].item())
    assert [file["source"] for file in listed] == [str(path) for path in paths[1:]]
    assert {"source", "content_hash", "convert_options"} == listed[0].keys()


def test_events_of_a_pack_are_not_told_as_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, store = job(tmp_path / "job"), tmp_path / "store"
    convert(paths, store)
    compact(store)
    assert command_line(["convert", *map(str, paths), "-o", str(store)]) == 0
    assert "1 run, 2 ranks: 6 files unchanged" in capsys.readouterr().err


def test_a_bucket(tmp_path: Path) -> None:
    needs.module("fsspec")
    url = f"memory://{tmp_path.name}/store"
    paths = job(tmp_path / "job", 1)
    assert names(convert(paths, url)) == JOINED[:3]
    assert names(convert(paths, url)) == [("unchanged", "job", 0)] * 3


def test_a_small_trace_beside_a_dump_of_no_rank(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.json")
    (tmp_path / "d").write_bytes(pickle.dumps(dump(entry(0))))
    files = convert([trace, tmp_path / "d"], tmp_path / "store", run="r", rank=3)
    assert names(files) == [("written", "r", 3), ("joined", "r", 3)]
