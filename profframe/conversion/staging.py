"""Staged folders, which wait in the store for their name, and records of what the store has.

A worker stages each file as ``.staged-<key>/run=<run>/rank=<rank>`` in the store, complete or not
at all; readers skip it. The key is a hash of everything that determines its rows, so a rerun
continues a killed batch. The record of each folder is in its ``traces.parquet``: there is no other
state that could contradict it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from profframe import schema, store
from profframe.errors import StoreError
from profframe.loaders.options import FactOptions
from profframe.loaders.programs import ORIGIN_COLUMNS, Origin
from profframe.loaders.run_names import later_cycle_note, origin_of
from profframe.store import layout, lock, manifest
from profframe.store.catalogue.listing import listed
from profframe.store.catalogue.members import members
from profframe.store.catalogue.rows import is_as_recorded
from profframe.store.catalogue.upkeep import mend
from profframe.store.catalogue.upkeep import record as record_folders
from profframe.store.facts_version import facts_version
from profframe.store.kept.validity import history_rows
from profframe.store.layout import STAGED
from profframe.store.leftovers import log_removed, remove_drafts, remove_leftovers
from profframe.store.parquet import (
    check_is_file,
    column_problems,
    columns_now,
    reading,
    schema_version,
    traces_of,
    with_dictionaries,
)
from profframe.store.versions import version_in

_COLUMNS: Final = (
    "run",
    "rank",
    "source",
    "start_ns",
    "content_hash",
    "convert_options",
    "facts_version",
    "format",
    "joined_files",
    "rank_source",
    "world_size",
    "schema_version",
)


@dataclass(frozen=True, slots=True)
class JoinedFile:
    """A file whose tables are joined with those of a trace."""

    source: str
    content_hash: str | None
    convert_options: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """Source of a (run, rank); ``folder`` is its path in the store.

    ``schema`` and ``facts`` are versions of what wrote it.
    """

    run: str
    rank: int
    source: str | None
    content: str | None
    options: str | None
    start_ns: int
    folder: str
    format: str | None = None
    joined: tuple[JoinedFile, ...] = ()
    rank_source: str | None = None
    world_size: int | None = None
    schema: int | None = None
    facts: str | None = None

    @property
    def sources(self) -> frozenset[str]:
        """Every file that its tables come from."""
        own = () if self.source is None else (self.source,)
        return frozenset((*own, *(file.source for file in self.joined)))

    @property
    def is_packed(self) -> bool:
        """Whether its folder also has others."""
        return self.folder.startswith("pack-")

    @property
    def is_past(self) -> bool:
        """Whether only answers of its run are there, and not its events."""
        return self.folder == layout.KEPT

    @property
    def staged_folder(self) -> str:
        """The staged folder that it is in, if it is staged."""
        return self.folder.partition("/")[0]


@dataclass(slots=True)
class StoreRecords:
    """Records of a store by source and by name; a joined file has the record of its trace."""

    by_source: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    by_name: dict[tuple[str, int], Record] = field(default_factory=dict)
    by_folder: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    """By the folder of the source."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> StoreRecords:
        index = cls()
        for record in records:
            index.by_name[record.run, record.rank] = record
            if record.source is not None:
                index.by_source[record.source].append(record)
                index.by_folder[folder_above(record.source)].append(record)
            for file in record.joined:
                content = None if record.content is None else file.content_hash
                part = replace(
                    record,
                    source=file.source,
                    content=content,
                    options=file.convert_options,
                    joined=(),
                )
                index.by_source[file.source].append(part)
        return index

    def matching(self, source: str, options: str, content: str | None = None) -> list[Record]:
        """Records of a source and options, for one content or any."""
        return [
            record
            for record in self.by_source.get(source, ())
            if record.options == options
            and record.content is not None
            and content in {None, record.content}
        ]


def folder_above(source: str) -> str:
    """The folder of a source, also of a URL.

    Examples
    --------
    >>> folder_above("/jobs/nightly/rank3.json.gz"), folder_above("s3://jobs/night.json")
    ('/jobs/nightly', 's3://jobs')
    """
    return source.rpartition("/")[0]


def options_text(run: str | None, rank: int | None, facts: FactOptions) -> str:
    """Options that determine the rows of a converted file, as JSON text.

    Examples
    --------
    >>> options_text("nightly", None, FactOptions())
    '{"run":"nightly"}'
    """
    names = {"run": run, "rank": rank}
    given = {name: value for name, value in names.items() if value is not None}
    return json.dumps(given | facts.contents(), separators=(",", ":"))


def staging_key(source: str, content: str, options: str) -> str:
    """Name of a staged folder, without its prefix."""
    parts = (source, content, options, facts_version())
    text = "\0".join(parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _joined_files(text: str | None) -> tuple[JoinedFile, ...]:
    """Files that `traces` lists as joined; a store may have any text there."""
    try:
        files = tuple(JoinedFile(**file) for file in json.loads(text or "[]"))
    except (TypeError, ValueError, RecursionError):
        return ()
    return files if all(type(file.source) is str for file in files) else ()


def is_of_this_version(row: Mapping[str, Any]) -> bool:
    """Whether this version has written a row of `traces` or of the catalogue."""
    version = str(row.get("schema_version")), row.get("facts_version")
    return version == (str(schema.SCHEMA_VERSION), facts_version())


def record_of(row: Mapping[str, Any], folder: str, *, is_current: bool) -> Record:
    """The record of a row of `traces` or of the catalogue; without content it is written anew."""
    version = str(row.get("schema_version"))
    return Record(
        row["run"],
        row["rank"],
        row.get("source"),
        row.get("content_hash") if is_current else None,
        row.get("convert_options"),
        row.get("start_ns") or 0,
        folder,
        row.get("format"),
        _joined_files(row.get("joined_files")),
        row.get("rank_source"),
        row.get("world_size"),
        int(version) if version.isdecimal() else None,
        row.get("facts_version"),
    )


def folder_of(run: str, rank: int) -> str:
    """Path of the folder for a (run, rank), from the root of a store."""
    return layout.folder_of(Path(), run, rank).as_posix()


class Destination(ABC):
    """A store to write to, anywhere; workers get its address."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Its path or URL."""

    @abstractmethod
    def prepare(self) -> None:
        """Create it if it does not exist, and remove what killed writers left unfinished."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """Records of every (run, rank), without damaged folders."""

    @abstractmethod
    def packs(self) -> Sequence[str]:
        """Names of folders that have many (run, rank)s."""

    @abstractmethod
    def staged_folder(self, staged_key: str) -> str | None:
        """The folder that is staged under a key, if any."""

    @abstractmethod
    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        """A file to read."""

    @abstractmethod
    def has(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    @abstractmethod
    def stage(self, staged_key: str, write: Callable[[Path], object]) -> Record:
        """Call ``write`` for a draft, and stage it under a key once it is complete.

        Another process may publish the staged folder at any time.
        """

    @abstractmethod
    def publish(self, staged: Record, *, replace: bool) -> bool:
        """Move a staged folder into the store, under its own name.

        False if there is one of that name and ``replace`` is False; `FileNotFoundError` if another
        process has published it.
        """

    @abstractmethod
    def record(self, published: Sequence[tuple[str, int]]) -> None:
        """Add runs and ranks that were published to the catalogue of the store."""

    @abstractmethod
    def discard(self, staged: Record) -> None:
        """Remove a staged folder."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock for naming folders here, where locks are possible."""

    @abstractmethod
    def at_work(self) -> AbstractContextManager[None]:
        """Keep staged folders for a batch; at its end nothing is left that nobody works on."""

    def find(self, staged_key: str) -> Record | None:
        """Record of the folder that is staged under a key, if any."""
        folder = self.staged_folder(staged_key)
        return None if folder is None else next(self.read(folder), None)

    def record_at(self, run: str, rank: int) -> Record | None:
        """Record of the folder for one (run, rank); None if it is missing or damaged."""
        return next(self.read(folder_of(run, rank)), None)

    def events(self, record: Record) -> int | None:
        """Number of its events; None for a pack."""
        if record.is_packed:
            return None
        path = f"{record.folder}/events.parquet"
        with self.open(path) as stream, reading(f"{self.address}/{path}"):
            events = pq.ParquetFile(stream)
            version = schema_version(events.metadata)
            for problem in column_problems("events", columns_now(events, "events"), version):
                raise ValueError(problem)
            return int(events.metadata.num_rows)

    def origin(self, staged: Record, path: Path) -> Origin:
        """The program of a staged or stored trace, by its header and path."""
        tables = []
        own = None
        if staged.is_packed:
            own = (pc.field("run") == staged.run) & (pc.field("rank") == staged.rank)
        for name, columns in (("traces", [*ORIGIN_COLUMNS]), ("events", ["kind", "pid"])):
            file = f"{staged.folder}/{name}.parquet"
            with self.open(file) as stream, reading(f"{self.address}/{file}"):
                rows = pq.read_table(stream, columns=columns, use_threads=False, filters=own)
            tables.append(rows)
        return origin_of(path, staged.rank).with_tables(*tables)

    def copy(self, staged: Record, run: str, path: Path, *, is_cycle: bool) -> None:
        """Write a copy of a staged folder under another run, as a later cycle of its own or not."""
        tables = {name: self.parts(staged, name, run) for name in self.tables(staged)}
        if is_cycle:
            events = self.events(staged) or 0
            note = later_cycle_note(staged.source or "", staged.run, staged.rank, events)
            rows = schema.conform("quality", note, run, staged.rank)
            tables["quality"] = chain(tables["quality"], [rows])
        store.put(tables, path, run, staged.rank)

    def tables(self, record: Record) -> Sequence[str]:
        """Names of the tables that its folder has."""
        return [
            name
            for name in schema.TABLES
            if name not in schema.OPTIONAL_TABLES or self.has(f"{record.folder}/{name}.parquet")
        ]

    def parts(self, record: Record, name: str, run: str) -> Iterator[pa.Table]:
        """The rows of a table, a part at a time, with the name of a run."""
        path = f"{record.folder}/{name}.parquet"
        with self.open(path) as stream, reading(f"{self.address}/{path}"):
            file = with_dictionaries(stream, name)
            names = columns_now(file, name).names
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, use_threads=False).rename_columns(names)
                if record.is_packed:
                    is_own = (pc.field("run") == record.run) & (pc.field("rank") == record.rank)
                    rows = rows.filter(is_own)
                yield schema.conform(name, rows.drop_columns("run"), run, record.rank)

    def read(self, folder: str) -> Iterator[Record]:
        """Records of a folder; none if it is damaged or missing."""
        try:
            with (
                reading(f"{self.address}/{folder}/traces.parquet"),
                self.open(f"{folder}/traces.parquet") as stream,
                pq.ParquetFile(stream) as file,
            ):
                rows: list[dict[str, Any]] = traces_of(file, _COLUMNS).to_pylist()
                version = version_in(file.metadata)
        except StoreError:
            return
        is_sound = version == str(schema.SCHEMA_VERSION) and self._is_complete(folder)
        for row in rows:
            yield record_of(row, folder, is_current=is_sound and is_of_this_version(row))

    def _is_complete(self, folder: str) -> bool:
        """Whether a folder has a file of each table, and of each optional one that is listed."""
        try:
            with self.open(f"{folder}/{manifest.NAME}") as stream:
                listed = manifest.optional_tables(stream.read())
        except FileNotFoundError:
            listed = frozenset()
        except (OSError, StoreError, ValueError, RecursionError):
            return False
        tables = (n for n in schema.TABLES if n in listed or n not in schema.OPTIONAL_TABLES)
        return all(self.has(f"{folder}/{name}.parquet") for name in tables)


@dataclass(frozen=True, slots=True)
class Folder(Destination):
    """A store on a file system that all workers see."""

    root: Path

    @property
    def address(self) -> str:
        return str(self.root)

    def prepare(self) -> None:
        with layout.store_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            log_removed(remove_drafts(self.root))
            with self.locked():
                mend(self.root)

    def records(self) -> Iterator[Record]:
        listing = listed(self.root)
        for row in history_rows(self.root, listing, _COLUMNS):
            yield record_of(row, layout.KEPT, is_current=True)
        rows = members(self.root)
        if rows is None:
            yield from self._records_of_files(layout.places(self.root))
            return
        is_unchanged: dict[str, bool] = {}
        for row in rows.iter_rows(named=True):
            folder = row["folder"]
            if folder not in is_unchanged:
                is_unchanged[folder] = is_as_recorded(self.root / folder, row)
            if is_unchanged[folder]:
                yield record_of(row, folder, is_current=is_of_this_version(row))
            else:  # by somebody else, or the store was copied
                key = row["run"], row["rank"]
                yield from (r for r in self.read(folder) if (r.run, r.rank) == key)

    def _records_of_files(self, listing: Sequence[layout.Place]) -> Iterator[Record]:
        for place in listing:
            for record in self.read(place.folder.relative_to(self.root).as_posix()):
                if place.visible == place.members or (record.run, record.rank) in place.visible:
                    yield record

    def packs(self) -> Sequence[str]:
        return [pack.name for pack in layout.packs(self.root)]

    def staged_folder(self, staged_key: str) -> str | None:
        files = (self.root / (STAGED + staged_key)).glob("run=*/rank=*/traces.parquet")
        file = next(files, None)
        return None if file is None else file.parent.relative_to(self.root).as_posix()

    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        path = self.root / file
        with reading(path):
            check_is_file(path)
        return path.open("rb")

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def stage(self, staged_key: str, write: Callable[[Path], object]) -> Record:
        with layout.temporary(self.root) as draft:
            write(draft)
            (folder,) = draft.glob("run=*/rank=*")
            name = STAGED + staged_key
            (record,) = self.read(folder.relative_to(self.root).as_posix())
            with contextlib.suppress(OSError):  # another process has staged the same file
                draft.rename(self.root / name)
        return replace(record, folder=f"{name}/{folder.relative_to(draft).as_posix()}")

    def publish(self, staged: Record, *, replace: bool) -> bool:
        # Rename it first: the folder that it replaces must never be listed under this key.
        waiting = self.root / staged.staged_folder
        layout.check_own(self.root, self.root / staged.folder)
        target = self.root / folder_of(staged.run, staged.rank)
        with layout.temporary(self.root) as draft:
            own = waiting.rename(draft / waiting.name)
            folder = own / staged.folder.partition("/")[2]
            is_published = store.publish(folder, target, replace=replace)
            if not is_published:
                own.rename(waiting)
        return is_published

    def record(self, published: Sequence[tuple[str, int]]) -> None:
        record_folders(self.root, [layout.folder_of(self.root, *key) for key in published])

    def discard(self, staged: Record) -> None:
        shutil.rmtree(self.root / staged.staged_folder, ignore_errors=True)

    def locked(self) -> AbstractContextManager[None]:
        return lock.locked(self.root)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        try:
            with layout.temporary(self.root):
                yield
        except BaseException:
            remove_drafts(self.root)  # of workers that were stopped with this batch
            raise
        remove_leftovers(self.root)
