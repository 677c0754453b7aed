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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema, store
from profframe.errors import StoreError
from profframe.loading.run_names import later_cycle
from profframe.store import layout
from profframe.store.facts_version import facts_version
from profframe.store.parquet import VERSION_KEY, check_is_file, column_problems, reading, traces_of

STAGED: Final = ".staged-"
_STALE_S: Final = 7 * 24 * 3600
_COLUMNS: Final = (
    "run",
    "rank",
    "source",
    "start_ns",
    "content_hash",
    "convert_options",
    "facts_version",
)


@dataclass(frozen=True, slots=True)
class Record:
    """What a (run, rank) was made from; ``folder`` is where it is in the store."""

    run: str
    rank: int
    source: str | None
    content: str | None
    options: str | None
    start_ns: int
    folder: str

    @property
    def is_packed(self) -> bool:
        """Whether its folder has others, too."""
        return self.folder.startswith("pack-")

    @property
    def staged_folder(self) -> str:
        """Where it waits, if it does."""
        return self.folder.partition("/")[0]


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
    parts = (source, content, told, facts_version())
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def folder_of(run: str, rank: int) -> str:
    """Where a (run, rank) is in a store, or is to be."""
    return layout.folder_of(Path(), run, rank).as_posix()


class Destination(ABC):
    """A store that is written to, wherever it is; workers get it as what it is called."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Its path or URL."""

    @abstractmethod
    def prepare(self) -> None:
        """Make it if it does not exist, and remove what nobody has taken up again."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """Every (run, rank); one whose folder is damaged is not there."""

    @abstractmethod
    def packs(self) -> Sequence[str]:
        """Names of folders that have many (run, rank)s."""

    @abstractmethod
    def staged(self, staged_key: str) -> str | None:
        """The folder that is staged under a key, if there is one."""

    @abstractmethod
    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        """A file to read."""

    @abstractmethod
    def has(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    @abstractmethod
    def stage(self, staged_key: str, write: Callable[[Path], object]) -> Record:
        """Let something be written, and put it under a key when it is complete.

        What comes back is there now, unless another process has published it already.
        """

    @abstractmethod
    def publish(self, staged: Record, *, replace: bool) -> bool:
        """Make what is staged a part of the store, under its own name.

        False says that there is one of that name which may not be replaced, and `FileNotFoundError`
        that another process has published it.
        """

    @abstractmethod
    def discard(self, staged: Record) -> None:
        """Remove what is staged and no longer needed."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Alone among the batches that name things here, where that is possible."""

    def find(self, staged_key: str) -> Record | None:
        """What is staged under a key, if anything is."""
        folder = self.staged(staged_key)
        return None if folder is None else next(self.read(folder), None)

    def record_at(self, run: str, rank: int) -> Record | None:
        """What a (run, rank) of its own folder was made from; None if it is free or damaged."""
        return next(self.read(folder_of(run, rank)), None)

    def events(self, record: Record) -> int | None:
        """Number of its events; None where its folder has others, too."""
        if record.is_packed:
            return None
        path = f"{record.folder}/events.parquet"
        with self.open(path) as file, reading(f"{self.address}/{path}"):
            metadata = pq.read_metadata(file)
            for problem in column_problems("events", metadata.schema.to_arrow_schema()):
                raise ValueError(problem)
            return int(metadata.num_rows)

    def copy(self, staged: Record, run: str, path: Path) -> None:
        """Write what is staged elsewhere, as a later cycle of its run with a name of its own."""
        events = self.events(staged) or 0
        note = later_cycle(staged.source or "", staged.run, staged.rank, events)
        tables = {name: self._renamed(staged, name, run) for name in schema.TABLES}
        tables["quality"] = chain(
            tables["quality"], [schema.conform("quality", note, run, staged.rank)]
        )
        store.put(tables, path, run, staged.rank)

    def _renamed(self, staged: Record, name: str, run: str) -> Iterator[pa.Table]:
        texts = [column.name for column in schema.TABLES[name] if column.type == schema.NAME]
        path = f"{staged.folder}/{name}.parquet"
        with (
            self.open(path) as stream,
            reading(f"{self.address}/{path}"),
            pq.ParquetFile(stream, read_dictionary=texts) as file,
        ):
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, use_threads=False).drop_columns("run")
                yield schema.conform(name, rows, run, staged.rank)

    def read(self, folder: str) -> Iterator[Record]:
        """What a folder has; nothing where it is damaged, or not there."""
        try:
            with (
                reading(f"{self.address}/{folder}/traces.parquet"),
                self.open(f"{folder}/traces.parquet") as stream,
                pq.ParquetFile(stream) as file,
            ):
                rows: list[dict[str, Any]] = traces_of(file, _COLUMNS).to_pylist()
                version = (file.metadata.metadata or {}).get(VERSION_KEY)
        except StoreError:
            return
        is_sound = version == str(schema.SCHEMA_VERSION).encode() and all(
            self.has(f"{folder}/{name}.parquet") for name in schema.TABLES
        )
        for row in rows:
            is_current = is_sound and row.get("facts_version") == facts_version()
            yield Record(
                row["run"],
                row["rank"],
                row.get("source"),
                row.get("content_hash") if is_current else None,
                row.get("convert_options"),
                row.get("start_ns") or 0,
                folder,
            )


@dataclass(frozen=True, slots=True)
class Folder(Destination):
    """A store on a file system that all workers see."""

    root: Path

    @property
    def address(self) -> str:
        return str(self.root)

    def prepare(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for leftover in self.root.glob(f"{STAGED}*"):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - leftover.stat().st_mtime > _STALE_S:
                        shutil.rmtree(leftover, ignore_errors=True)
            with self.locked():
                pass
        except OSError as error:
            raise StoreError(
                f"{error.filename or self.root}: cannot write the store: {error.strerror or error}"
            ) from error

    def records(self) -> Iterator[Record]:
        for place in layout.places(self.root):
            for record in self.read(place.folder.relative_to(self.root).as_posix()):
                if place.visible == place.members or (record.run, record.rank) in place.visible:
                    yield record

    def packs(self) -> Sequence[str]:
        return [pack.name for pack in layout.packs(self.root)]

    def staged(self, staged_key: str) -> str | None:
        found = (self.root / (STAGED + staged_key)).glob("run=*/rank=*/traces.parquet")
        file = next(found, None)
        return None if file is None else file.parent.relative_to(self.root).as_posix()

    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        path = self.root / file
        with reading(path):
            check_is_file(path)
        return path.open("rb")

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def stage(self, staged_key: str, write: Callable[[Path], object]) -> Record:
        draft = self._temporary()
        try:
            write(draft)
            (made,) = draft.glob("run=*/rank=*")
            name = STAGED + staged_key
            (record,) = self.read(made.relative_to(self.root).as_posix())
            with contextlib.suppress(OSError):  # another process was faster with the same
                draft.rename(self.root / name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return replace(record, folder=f"{name}/{made.relative_to(draft).as_posix()}")

    def publish(self, staged: Record, *, replace: bool) -> bool:
        # Under a name of its own first: what is replaced must never be found under this key.
        waits, mine = self.root / staged.staged_folder, self._temporary()
        layout.check_own(self.root, self.root / staged.folder)
        waits.rename(mine)
        folder = mine / staged.folder.partition("/")[2]
        target = self.root / folder_of(staged.run, staged.rank)
        try:
            if not store.publish(folder, target, replace=replace):
                mine.rename(waits)
                return False
        finally:
            shutil.rmtree(mine, ignore_errors=True)
        return True

    def discard(self, staged: Record) -> None:
        shutil.rmtree(self.root / staged.staged_folder, ignore_errors=True)

    def locked(self) -> AbstractContextManager[None]:
        return layout.locked(self.root)

    def _temporary(self) -> Path:
        return self.root / f"{layout.TEMPORARY}{uuid.uuid4().hex}"
