"""Traces that recorded graph captures, and stacks of graph nodes, for replays in another trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.facts.fact import Tables
from profframe.facts.graph_captures.attribution import CaptureSource
from profframe.facts.graph_captures.recorded_captures import captures, size_in
from profframe.facts.graph_captures.recorded_stacks import StackSource
from profframe.facts.pipeline import captured
from profframe.loaders.companion_files import GivenFiles
from profframe.loaders.run_names import known_rank, rank_in_path, readable
from profframe.loaders.tables import skipped_file
from profframe.readers import graph_stacks
from profframe.readers.bytes import ByteSource, is_pipe
from profframe.readers.reading import read_parts


class Captures(GivenFiles):
    """Files of captures and of stacks, which are read once; optional ones may be neither."""

    @cached_property
    def content(self) -> str:
        """Fingerprint of the files, with the ranks that their names say."""
        ranks = " ".join(str(rank_in_path(path)) for path in self.paths)
        return f"{super().content} {ranks}"

    @property
    def sources(self) -> Sequence[CaptureSource]:
        """The captured graphs of each file.

        Raises
        ------
        SourceError
            A file cannot be read or has no capture in it; for optional files, only if that is true
            of all.
        """
        return self._read[0]

    @property
    def stacks(self) -> Sequence[StackSource]:
        """The Python stacks of graph nodes of each file that has them.

        Raises
        ------
        SourceError
            As for `sources`.
        """
        return self._read[2]

    @property
    def skipped(self) -> Sequence[SourceError]:
        """Why optional files have no captures."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[list[CaptureSource], list[SourceError], list[StackSource]]:
        sources: list[CaptureSource] = []
        stacks: list[StackSource] = []
        skipped: list[SourceError] = []
        for path in self.paths:
            try:
                with self.named():
                    if (of_file := _stacks(path)) is not None:
                        stacks.append(of_file)
                    else:
                        sources += _sources(path)
            except SourceError as error:
                if path not in self.optional:
                    raise
                skipped.append(error)
        if not sources and not stacks:
            raise NotATraceError(
                f"none of {len(skipped)} files has a capture; the first: {skipped[0]}"
            )
        return sources, skipped, stacks


def with_skipped(tables: Tables, captures: Captures) -> Tables:
    """Tables whose `quality` says which optional files have no captures."""
    if not captures.skipped:
        return tables
    notes = schema.quality_rows(*map(skipped_file, captures.skipped))
    return {**tables, "quality": pa.concat_tables([tables["quality"], notes])}


def _stacks(path: Path) -> StackSource | None:
    """The stacks of graph nodes in a file; None if it is another file."""
    if is_pipe(path) or path.is_dir():
        return None
    with closing(ByteSource(path)) as source:
        if not graph_stacks.knows(source.beginning().plain):
            return None
        from profframe.readers.graph_stacks import reading

        stacks = reading.read(source)
    if not stacks.nodes.size and not stacks.unreadable:
        raise NotATraceError(
            f"{path}: {graph_stacks.WORDS}, but none is in it (capture with enable_annotations=True"
            ' and annotation_config={"record_py_stacks": True}, and save them before the graphs '
            "are gone)"
        )
    return StackSource(readable(path.name), stacks, rank_in_path(path))


def _sources(path: Path) -> list[CaptureSource]:
    sources = []
    for raw in read_parts(path):
        tables = captured(raw.tables)
        graphs = captures(tables, size_in(path.name.partition(".")[0]))
        if graphs:
            rank = known_rank(path, raw)
            sources.append(CaptureSource(readable(path.name), tables, graphs, rank))
    if not sources:
        raise NotATraceError(
            f"{path}: not a capture: it has no calls between the start and the end of a graph "
            "capture (run the profiler while the graph is captured)"
        )
    return sources
