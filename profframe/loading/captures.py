"""Traces that recorded graph captures, for the replays in another trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from profframe.errors import NotATraceError, SourceError
from profframe.facts.graph_captures.attribution import CaptureSource
from profframe.facts.graph_captures.captures import captures, size_in
from profframe.facts.pipeline import captured
from profframe.loading.discovery import Source, paths_of, trace_files
from profframe.loading.run_names import known_rank, readable
from profframe.readers import read_parts
from profframe.store.layout import checksum


@dataclass(frozen=True)
class Captures:
    """Files of captures, which are read once.

    Attributes
    ----------
    paths : tuple of pathlib.Path
        The files.
    optional : frozenset of pathlib.Path
        Those that may not be traces, or have no captures.
    """

    paths: tuple[Path, ...]
    optional: frozenset[Path]

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

    @cached_property
    def content(self) -> str:
        """Fingerprint of the files."""
        return " ".join(checksum(path) for path in self.paths)


def capture_files(source: Source | Sequence[Source]) -> Captures:
    """The files that a path, glob or folder, or a list of these, leads to.

    Raises
    ------
    NoTraceFoundError
        It leads to no file.
    ParameterError
        It is not a path, or it is a store.
    """
    files = trace_files(paths_of(source))
    return Captures(files.paths, files.optional)


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
