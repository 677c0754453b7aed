"""Converted files that wait for their name, beside the store's folders, and records of what it has.

A worker leaves each file as ``.staged-<key>/run=<run>/rank=<rank>`` in the store, complete or not
at all; readers pass it by. The key is made of all that decides what is in it, so that a batch that
was killed takes up what it has done. What a folder of the store was made from is in its own
``traces.parquet``: there is no other state that could contradict it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema, store
from profframe.errors import StoreError
from profframe.naming import later_cycle
from profframe.table_files import VERSION_KEY

_STAGED: Final = ".staged-"
_LOCK: Final = ".lock"
_STALE_S: Final = 7 * 24 * 3600
_COLUMNS: Final = ("run", "rank", "source", "start_ns", "content_hash", "convert_options")


@dataclass(frozen=True, slots=True)
class Record:
    """What a (run, rank) was made from."""

    run: str
    rank: int
    source: str | None
    content: str | None
    options: str | None
    start_ns: int
    folder: Path

    @property
    def is_packed(self) -> bool:
        """Whether its folder has others, too."""
        return self.folder.name.startswith("pack-")


def options(run: str | None, rank: int | None, compat: str | None) -> str:
    """What decides, besides a file and its content, what becomes of it; as JSON text.

    Examples
    --------
    >>> options("nightly", None, None)
    '{"run":"nightly"}'
    """
    given = {"run": run, "rank": rank, "compat": compat}
    said = {name: value for name, value in given.items() if value is not None}
    return json.dumps(said, separators=(",", ":"))


def key(source: str, content: str, told: str) -> str:
    """Name of a staged folder, without what all of them begin with."""
    parts = (source, content, told, str(schema.SCHEMA_VERSION))
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def find(root: Path, staged_key: str) -> Record | None:
    """What is staged under a key, if anything is."""
    return next(_records_in(root / (_STAGED + staged_key)), None)


def stage(root: Path, staged_key: str, write: Callable[[Path], object]) -> Record:
    """Let something be written, and put it under a key when it is complete.

    Parameters
    ----------
    root
        The store.
    staged_key
        As `key` makes it.
    write
        Writes one (run, rank) into the store whose path it is given.

    Returns
    -------
    Record
        What is there now; of another process, if one was faster.

    Raises
    ------
    StoreError
        It cannot be written.
    """
    draft = root / f".tmp-{uuid.uuid4().hex}"
    try:
        write(draft)
        with contextlib.suppress(OSError):
            draft.rename(root / (_STAGED + staged_key))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    staged = find(root, staged_key)
    if staged is None:
        raise StoreError(f"{root}: what was converted is gone; is the store being deleted?")
    return staged


def events(staged: Record) -> int:
    """Number of its events."""
    return int(pq.read_metadata(staged.folder / "events.parquet").num_rows)


def copy(staged: Record, run: str, path: Path) -> None:
    """Write what is staged into another store, as a later cycle of its run with a name of its own.

    Parameters
    ----------
    staged
        What to copy, row group by row group.
    run
        Its new name.
    path
        The other store.
    """
    note = later_cycle(staged.source or "", staged.run, staged.rank, events(staged))
    tables = {name: _renamed(staged, name, run) for name in schema.TABLES}
    tables["quality"] = chain(
        tables["quality"], [schema.conform("quality", note, run, staged.rank)]
    )
    store.put(tables, path, run, staged.rank)


def _renamed(staged: Record, name: str, run: str) -> Iterator[pa.Table]:
    texts = [column.name for column in schema.TABLES[name] if column.type == schema.NAME]
    with pq.ParquetFile(staged.folder / f"{name}.parquet", read_dictionary=texts) as file:
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number, use_threads=False).drop_columns("run")
            yield schema.conform(name, rows, run, staged.rank)


def discard(root: Path, staged: Path) -> None:
    """Remove what is staged and no longer needed."""
    shutil.rmtree(root / staged.relative_to(root).parts[0], ignore_errors=True)


def publish(root: Path, staged: Record, *, replace: bool) -> bool:
    """Make what is staged a part of the store, under its own name.

    Returns
    -------
    bool
        False if there is one of that name and it may not be replaced.

    Raises
    ------
    FileNotFoundError
        It is not there any more: another process has published it.
    """
    # Under a name of its own first: what is replaced must never be found under this key.
    mine = root / f".tmp-{uuid.uuid4().hex}"
    here = staged.folder.relative_to(root).parts[0]
    (root / here).rename(mine)
    folder = mine / staged.folder.relative_to(root / here)
    target = folder_of(root, staged.run, staged.rank)
    try:
        if not store.publish(folder, target, replace=replace):
            mine.rename(root / here)
            return False
    finally:
        shutil.rmtree(mine, ignore_errors=True)
    return True


def records(root: Path) -> Iterator[Record]:
    """Every (run, rank) of a store; one whose folder is damaged is not there."""
    for folder in store.folders(root):
        yield from _read(folder)


def record_at(root: Path, run: str, rank: int) -> Record | None:
    """What a (run, rank) that has its own folder was made from; None if it is free or damaged."""
    return next(_read(folder_of(root, run, rank)), None)


def folder_of(root: Path, run: str, rank: int) -> Path:
    """Where a (run, rank) is in a store, or is to be."""
    return root / f"run={store.component(run)}" / f"rank={rank}"


def sweep(root: Path) -> None:
    """Remove what batches that were never taken up again have left."""
    for leftover in root.glob(f"{_STAGED}*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _STALE_S:
                shutil.rmtree(leftover, ignore_errors=True)


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Alone among the batches that name things in a store, where its file system has locks."""
    import fcntl

    with (root / _LOCK).open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _records_in(path: Path) -> Iterator[Record]:
    for file in sorted(path.glob("run=*/rank=*/traces.parquet")):
        yield from _read(file.parent)


def _read(folder: Path) -> Iterator[Record]:
    try:
        with pq.ParquetFile(folder / "traces.parquet") as file:
            names = [name for name in _COLUMNS if name in file.schema_arrow.names]
            rows: list[dict[str, Any]] = file.read(names).to_pylist()
            version = (file.metadata.metadata or {}).get(VERSION_KEY)
    except (OSError, pa.ArrowException):
        return
    is_current = version == str(schema.SCHEMA_VERSION).encode()
    is_whole = all((folder / f"{name}.parquet").is_file() for name in schema.TABLES)
    for row in rows:
        yield Record(
            row["run"],
            row["rank"],
            row.get("source"),
            row.get("content_hash") if is_current and is_whole else None,
            row.get("convert_options"),
            row.get("start_ns") or 0,
            folder,
        )
