"""Files without events, whose tables are added to those of a trace of the same process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import NotATraceError
from profframe.facts.fact import Note, Tables
from profframe.loaders.discovery import Files, Source, paths_of, trace_files
from profframe.loaders.remote_copies import fetched
from profframe.readers import flight_recorder
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.json import exact
from profframe.readers.reading import read
from profframe.remote.file_systems import RemoteFile, named
from profframe.store.layout import checksum

_SHARED: Final = "stacks"
"""The only table that several of them may have rows of, but for that of records."""
_RECORDS: Final = "recorded_collectives"
"""A flight recorder and a plugin of NCCL may both have rows of it."""
_OF_EVENTS: Final = ("event_id", "linked_by")
"""Columns of an execution trace that link its nodes to events."""


def given_paths(source: Source | Iterable[Source]) -> list[Source]:
    """The paths that a user gave, one or several; raises `ParameterError` for anything else."""
    is_one = isinstance(source, (str, bytes, os.PathLike)) or not isinstance(source, Iterable)
    return paths_of(source if is_one else list(source))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class GivenFiles:
    """Files that are given with traces; equal if their contents are.

    Attributes
    ----------
    paths : tuple of pathlib.Path
        The files.
    optional : frozenset of pathlib.Path
        Those that a folder or a pattern led to.
    remote : mapping
        Files of URLs, by the paths of their copies.
    copies : tuple
        What keeps these copies, in this process.
    """

    paths: tuple[Path, ...]
    optional: frozenset[Path] = frozenset()
    remote: Mapping[Path, RemoteFile] = field(default_factory=dict)
    copies: tuple[object, ...] = ()

    @classmethod
    def of(cls, source: Source | Iterable[Source]) -> Self:
        """The files that a path, URL, glob or folder, or several of these, leads to.

        Raises
        ------
        NoTraceFoundError
            It leads to no file.
        ParameterError
            It is not a path, or it is a store.
        SourceError
            A URL cannot be read.
        """
        return cls.of_files(fetched(trace_files(given_paths(source))))

    @classmethod
    def of_files(cls, files: Files) -> Self:
        """Files that were looked for, on this machine."""
        return cls(files.paths, files.optional, files.remote, files.copies)

    def shown(self, path: Path) -> str:
        """What people call a file: its path, or its URL without secrets."""
        return self.remote[path].shown if path in self.remote else str(path)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let errors name the URLs of copies."""
        with ExitStack() as stack:
            for path, file in self.remote.items():
                stack.enter_context(named(path, file.url))
            yield

    @cached_property
    def content(self) -> str:
        """Fingerprint of the files."""
        return " ".join(checksum(path) for path in self.paths)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __getstate__(self) -> dict[str, Any]:
        """The files and their fingerprint, without what was read of them."""
        state = {"paths": self.paths, "optional": self.optional, "content": self.content}
        return {**state, "remote": self.remote, "copies": ()}

    @property
    def _key(self) -> tuple[object, ...]:
        return self.paths, self.optional, self.content


class JoinedFiles(GivenFiles):
    """Files of one format whose tables join those of a trace."""

    format: ClassVar[str]
    described: ClassVar[str]
    """Their format in words, and what writes them."""
    table: ClassVar[str]
    """A table that a trace has of them."""
    owners: ClassVar[str]
    """What of a trace says whether they belong to it."""

    @cached_property
    def sources(self) -> Sequence[tuple[Path, RawTrace]]:
        """Each file with its tables.

        Raises
        ------
        SourceError
            A file cannot be read, or is of another format.
        """
        with self.named():
            sources = [(path, read(path)) for path in self.paths]
        for path, raw in sources:
            if raw.header.format != self.format:
                raise NotATraceError(
                    f"{self.shown(path)}: a trace of format {raw.header.format!r}, not "
                    f"{self.described}"
                )
        return sources

    def join(self, tables: Tables, rank: int | None, *, is_alone: bool) -> Tables:
        """Tables of a trace with those of its file; a trace that is alone has the only file."""
        raise NotImplementedError


def own_tables(tables: Tables) -> list[str]:
    """Tables of files to join that a trace has rows of."""
    return [name for name in tables if name in schema.JOINED_TABLES and tables[name].num_rows]


def own_parts(tables: Tables) -> list[str]:
    """Those tables, with the recorder of records."""
    names = own_tables(tables)
    return with_recorders(names, [tables[_RECORDS]] if _RECORDS in names else [])


def with_recorders(names: Iterable[str], records: Iterable[pa.Table]) -> list[str]:
    """Names of tables, where that of records is told apart by who recorded them."""
    kinds: set[str] = set()
    for rows in records:
        is_of_dump = pc.equal(rows["recorder"].cast(pa.string()), flight_recorder.FORMAT)
        kinds |= {f"{_RECORDS} of {is_own}" for is_own in pc.unique(is_of_dump).to_pylist()}
    return [*(name for name in names if name != _RECORDS or not kinds), *sorted(kinds)]


def fit_together(traces: Iterable[Iterable[str]]) -> bool:
    """Whether no optional table except stacks is in two of them, as `own_parts` names them."""
    names = [name for own in traces for name in own if name != _SHARED]
    return len(set(names)) == len(names)


def with_rows_of(tables: Tables, other: RawTrace, source: str) -> Tables:
    """Tables of a trace with those of an additional file.

    Parameters
    ----------
    tables
        A trace with its facts.
    other
        A file without events; its stacks get numbers that follow those of the trace.
    source
        Its file, for `quality`.
    """
    own = {name: other.tables[name] for name in own_tables(other.tables)}
    stacks = tables.get(_SHARED)
    if stacks is not None and stacks.num_rows:
        shift = pc.add(pc.max(stacks["stack_id"]), pa.scalar(1, pa.int64()))
        own = {name: _shifted(rows, shift) for name, rows in own.items()}
        if _SHARED in own:
            both = [stacks, own[_SHARED].select(stacks.column_names).cast(stacks.schema)]
            own[_SHARED] = pa.concat_tables(both).unify_dictionaries()
    if _RECORDS in own and _RECORDS in own_tables(tables):
        own[_RECORDS] = _all_records(tables[_RECORDS], own[_RECORDS])
    rows = sum(other.tables[name].num_rows for name in own)
    notes: list[Note] = [("joined_file", rows, f"{source}: {', '.join(own)}", None)]
    annotations = other.tables["events"].num_rows
    if annotations:
        notes.append(("annotation_of_snapshot", annotations, None, None))
    quality = [tables["quality"], other.tables["quality"], schema.quality_rows(*notes)]
    joined: dict[str, Any] = {**tables, **own, "quality": pa.concat_tables(quality)}
    if other.header.metadata is not None:
        joined["traces"] = _with_metadata(tables["traces"], other)
    if "nodes" in own:
        joined = dict(with_nodes(joined))
    if own.keys().isdisjoint({"allocator_events", "allocations"}):
        return joined
    from profframe.facts.snapshots import join_snapshot

    return join_snapshot(joined)


def with_nodes(tables: Tables) -> Tables:
    """Tables whose execution trace nodes refer to the events of a trace, if it has any."""
    from profframe.facts.execution_traces import join_nodes
    from profframe.readers.chrome.record_functions import record_function_ids

    nodes, tensors = (
        tables[name].drop_columns([c for c in _OF_EVENTS if c in tables[name].column_names])
        for name in ("nodes", "tensors")
    )
    return join_nodes(tables, nodes, tensors, record_function_ids(tables["events"]))


def _shifted(rows: pa.Table, shift: pa.Scalar) -> pa.Table:
    """Rows whose stacks have other numbers."""
    place = rows.schema.get_field_index("stack_id")
    if place < 0:
        return rows
    return rows.set_column(place, "stack_id", pc.add(rows["stack_id"], shift))


def _all_records(first: pa.Table, second: pa.Table) -> pa.Table:
    """Records of a flight recorder and of a plugin, whose numbers follow those of the recorder."""
    is_of_dump = [
        pc.equal(t["recorder"].cast(pa.string()), flight_recorder.FORMAT) for t in (first, second)
    ]
    numbers = [
        pc.max(t["record_id"].filter(of)).as_py()
        for t, of in zip((first, second), is_of_dump, strict=True)
    ]
    shift = max((number for number in numbers if number is not None), default=-1) + 1
    parts = []
    for rows, is_own in zip((first, second), is_of_dump, strict=True):
        moved = pc.if_else(is_own, rows["record_id"], pc.add(rows["record_id"], shift))
        place = rows.schema.get_field_index("record_id")
        parts.append(rows.set_column(place, "record_id", moved))
    return pa.concat_tables(parts, promote_options="default").unify_dictionaries()


def _with_metadata(traces: pa.Table, other: RawTrace) -> pa.Table:
    """The row of `traces`, with the header of the other file under the name of its format."""
    text = traces["metadata"][0].as_py() if "metadata" in traces.column_names else None
    metadata: Any = {} if text is None else exact.loads(text)
    if not isinstance(metadata, dict):
        return traces
    metadata[other.header.format] = json.loads(other.header.metadata or "{}")
    values = pa.array([exact.dumps(metadata)], pa.string())
    place = traces.schema.get_field_index("metadata")
    if place < 0:
        return traces.append_column("metadata", values)
    return traces.set_column(place, "metadata", values)
