"""Files of Inductor's provenance that are given with the traces of the same processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from profframe import schema
from profframe.errors import NoTraceFoundError
from profframe.facts.fact import Note, Tables
from profframe.loaders.companion_files import GivenFiles, given_paths
from profframe.loaders.discovery import Source, trace_files
from profframe.loaders.remote_copies import fetched
from profframe.loaders.run_names import readable
from profframe.loaders.tables import skipped_file
from profframe.readers.provenance import CompiledGraph
from profframe.readers.provenance.reading import ReadProvenance, is_named_so, read
from profframe.remote.file_systems import RemoteFile

_EXPECTED: Final = (
    "inductor_provenance_tracking_*.json, kernel_information.json, output_code.py, or "
    "dedicated_log_torch_trace*.log"
)


class Provenance(GivenFiles):
    """Files about compiled graphs, which are read once."""

    @classmethod
    def of(cls, source: Source | Iterable[Source]) -> Self:
        """The files that a path, glob or folder, or several of these, leads to.

        A folder leads to all files below it that torch or tlparse names so.

        Raises
        ------
        NoTraceFoundError
            It leads to no file.
        ParameterError
            It is not a path, or it is a store.
        """
        paths: list[Path] = []
        optional: set[Path] = set()
        remote: dict[Path, RemoteFile] = {}
        copies: list[object] = []
        for path in given_paths(source):
            if Path(path).is_dir():
                below = _below(Path(path))
                optional.update(below)
                paths += below
                continue
            files = fetched(trace_files([path]))
            remote |= files.remote
            copies += files.copies
            optional |= files.optional
            paths += files.paths
        if not paths:
            raise NoTraceFoundError("provenance: no files are given")
        return cls((*dict.fromkeys(paths),), frozenset(optional), remote, (*copies,))

    def graphs_of(self, rank: int | None) -> Sequence[CompiledGraph]:
        """The graphs that a process of a rank may have compiled.

        Raises
        ------
        SourceError
            A file that was named itself cannot be read, or is none of these.
        """
        return [graph for graph in self._read.graphs if rank is None or graph.rank in {None, rank}]

    def noted(self, tables: Tables) -> Tables:
        """Tables whose `quality` says what of the files was not read."""
        notes: list[Note] = [*map(skipped_file, self._read.skipped)]
        notes += [
            ("odd_provenance", count, readable(detail), None) for count, detail in self._read.odd
        ]
        if not notes:
            return tables
        rows = schema.quality_rows(*notes)
        return {**tables, "quality": pa.concat_tables([tables["quality"], rows])}

    @cached_property
    def _read(self) -> ReadProvenance:
        with self.named():
            return read(self.paths, self.optional)


def _below(folder: Path) -> list[Path]:
    """Files below a folder that are named as torch or tlparse does.

    Raises
    ------
    NoTraceFoundError
        There are none.
    """
    paths = sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if is_named_so(name)
    )
    if not paths:
        raise NoTraceFoundError(
            f"{folder}: no file below it is provenance of Inductor (expected {_EXPECTED})"
        )
    return paths
