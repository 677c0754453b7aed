"""Traces that recorded graph captures, for the replays in another trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.facts.fact import Tables
from profframe.facts.graph_captures.attribution import CaptureSource
from profframe.facts.graph_captures.recorded_captures import captures, size_in
from profframe.facts.pipeline import captured
from profframe.loaders.companion_files import GivenFiles
from profframe.loaders.run_names import known_rank, readable
from profframe.loaders.tables import skipped_file
from profframe.readers import read_parts


class Captures(GivenFiles):
    """Files of captures, which are read once; optional ones need not be traces with captures."""

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
    def skipped(self) -> Sequence[SourceError]:
        """Why optional files have no captures."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[list[CaptureSource], list[SourceError]]:
        sources: list[CaptureSource] = []
        skipped: list[SourceError] = []
        for path in self.paths:
            try:
                sources += _sources(path)
            except SourceError as error:
                if path not in self.optional:
                    raise
                skipped.append(error)
        if not sources:
            raise NotATraceError(
                f"none of {len(skipped)} files has a capture; the first: {skipped[0]}"
            )
        return sources, skipped


def with_skipped(tables: Tables, captures: Captures) -> Tables:
    """Tables whose `quality` says which optional files have no captures."""
    if not captures.skipped:
        return tables
    notes = schema.quality_rows(*map(skipped_file, captures.skipped))
    return {**tables, "quality": pa.concat_tables([tables["quality"], notes])}


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
