"""Rows of the catalogue, from the files of a folder."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.errors import StoreError
from profframe.remote.trees import remote
from profframe.store import manifest
from profframe.store.catalogue.segments import COLUMNS
from profframe.store.layout import CATALOGUE, SET_ASIDE, Place, name_in, optional_tables, rank_of
from profframe.store.manifest import Key
from profframe.store.parquet import parquet_file, traces_of
from profframe.store.versions import version_in
from profframe.store.visible_rows import by_trace, row_groups
from profframe.system.drafts import draft

Hashes = npt.NDArray[np.uint64]
OF_TRACES: Final = (
    "run",
    "rank",
    "source_events",
    "start_ns",
    "end_ns",
    "clock",
    "facts_version",
    "source",
    "content_hash",
    "convert_options",
    "joined_files",
    "format",
    "rank_source",
    "world_size",
)
"""Columns of `traces` that a row has."""
_DRAFT: Final = ".tmp-"
_TICKS: Final = 40
_TICK_S: Final = 0.001
_ATTEMPTS: Final = 10
_MIX: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Constants of splitmix64."""


def rows_of(root: Path, place: Place) -> list[dict[str, Any]]:
    """Rows of the visible members of a folder; columns of the folder of a run are not in them.

    Raises
    ------
    StoreError
        A file is missing or damaged.
    """
    folder = place.folder
    for _ in range(_ATTEMPTS):
        before = _signature(folder)
        rows = [*_rows(root, place)]
        if before is not None and before == _signature(folder):
            return [row | before for row in rows]
    raise StoreError(f"{folder}: written again and again while it was read; try again")


def is_as_recorded(folder: Path, row: Mapping[str, Any]) -> bool:
    """Whether nobody has added files to a folder or removed some since its row was made."""
    now = _signature(folder)
    return now is not None and all(row[name] == value for name, value in now.items())


def _signature(folder: Path) -> dict[str, int] | None:
    """What differs if a folder is another one; None if it is gone."""
    with suppress(OSError):
        traces = (folder / "traces.parquet").stat()
        itself = folder.stat() if remote(folder) is None else traces
        return {
            "traces_bytes": traces.st_size,
            "traces_mtime_ns": traces.st_mtime_ns,
            "folder_mtime_ns": itself.st_mtime_ns,
        }
    return None


def _rows(root: Path, place: Place) -> Iterator[dict[str, Any]]:
    with parquet_file(place.file("traces")) as file:
        traces = traces_of(file, OF_TRACES).to_pylist()
        version = version_in(file.metadata) or ""
    sizes = _sizes(place.folder)
    folder_bytes = sum(sizes.values())
    with parquet_file(place.file("events")) as file:
        total = file.metadata.num_rows
    events = _events(place) if place.members else Counter()
    for row in traces:
        key = row["run"], row["rank"]
        if place.members and key not in place.visible:
            continue
        folder = name_in(root, place.folder)
        if not place.members:
            yield row_of(row, folder, version, total, sizes)
            continue
        count = events[key]
        yield row_of(row, folder, version, count, sizes) | {
            "bytes": folder_bytes * count // max(total, 1),
            "pack_members": len(place.members),
        }


def row_of(
    traces: Mapping[str, Any], folder: str, version: str, events: int, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Row of a member, from that of `traces`.

    Parameters
    ----------
    traces
        Its columns `OF_TRACES` of the table `traces`.
    folder
        Path of its folder in the store.
    version
        Version of the schema, by the metadata of the file.
    events
        Number of its events.
    sizes
        Bytes of the files of its folder, by name.
    """
    return {
        **traces,
        "folder": folder,
        "is_removed": False,
        "events": events,
        "bytes": sum(sizes.values()),
        "schema_version": version,
        "optional_tables": " ".join(sorted(optional_tables(sizes))),
        "written_ns": time.time_ns(),
    }


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of the files of tables in a folder, without those that are gone."""
    if remote(folder) is not None:
        return {file.name: file.stat().st_size for file in folder.glob("*.parquet")}
    sizes = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".parquet"):
                with suppress(FileNotFoundError):
                    sizes[entry.name] = entry.stat().st_size
    return sizes


def _events(place: Place) -> Counter[Key]:
    """Number of events of each (run, rank) of a pack."""
    members = manifest.read(place.folder).members
    if members:
        return Counter(members)
    counts: Counter[Key] = Counter()
    for rows in row_groups(place, "events", ["run", "rank"]):
        counts.update({key: len(part) for key, part in by_trace(rows).items()})
    return counts


def tombstone(run: str, rank: int, folder: str) -> dict[str, Any]:
    """Row of a member that is no longer in a folder."""
    return {
        "run": run,
        "rank": rank,
        "folder": folder,
        "is_removed": True,
        "written_ns": time.time_ns(),
    }


def as_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as Arrow, in the types of the catalogue."""
    arrays = [pa.array([row.get(f.name) for row in rows], f.type) for f in COLUMNS]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def run_states(root: Path, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """What the folders of some runs have: when each was last changed, and a checksum of its ranks.

    A folder that is changed later has another time then: the clock of the file system is past the
    time that is returned. So a reader that sees this time knows all ranks, if it knows some rows
    with this checksum. A folder is left out if its clock does not tick, if it changes at the
    moment, or if there is something in it that is no rank.

    Parameters
    ----------
    root
        The store.
    names
        Folders of runs in it.

    Returns
    -------
    dict
        Nanoseconds and checksum by name.
    """
    times = {name: time_ns for name in names if (time_ns := _mtime_ns(root / name)) is not None}
    if not times:
        return {}
    now_ns = _later(root / CATALOGUE, max(times.values()))
    states = {}
    for name, time_ns in times.items():
        if time_ns < now_ns:
            checksum = _checksum_of(root / name)
            if checksum is not None and _mtime_ns(root / name) == time_ns:
                states[name] = time_ns, checksum
    return states


def _mtime_ns(folder: Path) -> int | None:
    with suppress(OSError):
        return folder.lstat().st_mtime_ns
    return None


def _later(folder: Path, time_ns: int) -> int:
    """The time of the file system, if it can be soon after another one."""
    folder.mkdir(exist_ok=True)
    now_ns = 0
    with draft(folder, _DRAFT, create=lambda path: path.touch(exist_ok=False)) as probe:
        for _ in range(_TICKS):
            os.utime(probe)
            now_ns = probe.stat().st_mtime_ns
            if now_ns > time_ns:
                break
            time.sleep(_TICK_S)
    return now_ns


def _checksum_of(folder: Path) -> int | None:
    """Checksum of the ranks in the folder of a run; None if it has anything else."""
    ranks, sizes, times = [], [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") and not entry.name.startswith(SET_ASIDE):
                    continue
                rank = rank_of(entry.name)
                is_aside = entry.name.startswith(SET_ASIDE)
                if rank is None or is_aside or not entry.is_dir(follow_symlinks=False):
                    return None
                status = os.lstat(f"{entry.path}/traces.parquet")
                ranks.append(rank)
                sizes.append(status.st_size)
                times.append(status.st_mtime_ns)
    except OSError:
        return None
    return int(member_hashes(ranks, sizes, times).sum(dtype=np.uint64).view(np.int64))


def member_hashes(
    ranks: npt.ArrayLike, traces_bytes: npt.ArrayLike, traces_mtime_ns: npt.ArrayLike
) -> Hashes:
    """A hash of each member; a checksum is the sum of these, so that their order does not matter.

    Examples
    --------
    >>> member_hashes([0, 1], [10, 10], [5, 5]).dtype
    dtype('uint64')
    """
    hashes = np.zeros(np.shape(ranks), np.uint64)
    for column in (ranks, traces_bytes, traces_mtime_ns):
        hashes = _mixed(hashes ^ np.asarray(column, np.int64).view(np.uint64))
    return hashes


def _mixed(values: Hashes) -> Hashes:
    """Well mixed bits, as in the last steps of splitmix64."""
    first, second, third = (np.uint64(constant) for constant in _MIX)
    values = values + first
    values = (values ^ (values >> np.uint64(30))) * second
    values = (values ^ (values >> np.uint64(27))) * third
    return values ^ (values >> np.uint64(31))
