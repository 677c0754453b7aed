"""Memory snapshots that are given with the traces of the same processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profframe.errors import NotATraceError
from profframe.facts.fact import Tables
from profframe.loading.beside import GivenFiles, fit_together, own_tables, with_rows_of
from profframe.loading.discovery import Source, paths_of, trace_files
from profframe.loading.run_names import known_rank, readable
from profframe.readers import RawTrace, memory_snapshot


class MemorySnapshots(GivenFiles):
    """Files of memory snapshots, which are read only once."""

    def check_format(self, path: Path, raw: RawTrace) -> None:
        """Raise an error for a file of another format."""
        if raw.header.format != memory_snapshot.FORMAT:
            raise NotATraceError(
                f"{path}: a trace of format {raw.header.format!r}, not a memory snapshot from "
                "torch.cuda.memory._dump_snapshot"
            )

    def join(self, tables: Tables, rank: int | None, *, is_alone: bool) -> Tables:
        """Tables of a trace with the snapshot of its rank; for a single trace, the only one."""
        chosen = self._of(rank, is_alone=is_alone)
        if chosen is None or not fit_together(map(own_tables, (tables, chosen[1].tables))):
            return tables
        path, raw = chosen
        return with_rows_of(tables, raw, readable(str(path)))

    def _of(self, rank: int | None, *, is_alone: bool) -> tuple[Path, RawTrace] | None:
        of_rank = [
            (path, raw)
            for path, raw in self.sources
            if rank is not None and known_rank(path, raw) == rank
        ]
        if len(of_rank) == 1:
            return of_rank[0]
        return self.sources[0] if is_alone and len(self.sources) == 1 else None


def memory_snapshot_files(source: Source | Sequence[Source]) -> MemorySnapshots:
    """The files that a path or a glob, or a list of these, leads to.

    Raises
    ------
    NoTraceFoundError
        It leads to no file.
    ParameterError
        It is not a path, or it is a store.
    """
    return MemorySnapshots(trace_files(paths_of(source)).paths)
