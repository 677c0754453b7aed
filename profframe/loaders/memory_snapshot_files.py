"""Memory snapshots that are given with the traces of the same processes."""

from __future__ import annotations

from pathlib import Path

from profframe.facts.fact import Tables
from profframe.loaders.companion_files import JoinedFiles, fit_together, own_parts, with_rows_of
from profframe.loaders.run_names import known_rank, readable
from profframe.readers import memory_snapshot
from profframe.readers.build.row_tables import RawTrace


class MemorySnapshots(JoinedFiles):
    """Files of memory snapshots, which are read only once."""

    format = memory_snapshot.FORMAT
    described = "a memory snapshot from torch.cuda.memory._dump_snapshot"
    table = "allocations"
    owners = "ranks"

    def join(self, tables: Tables, rank: int | None, *, is_alone: bool) -> Tables:
        """Tables of a trace with the snapshot of its rank; for a single trace, the only one."""
        chosen = self._of(rank, is_alone=is_alone)
        if chosen is None or not fit_together(map(own_parts, (tables, chosen[1].tables))):
            return tables
        path, raw = chosen
        return with_rows_of(tables, raw, readable(self.shown(path)))

    def _of(self, rank: int | None, *, is_alone: bool) -> tuple[Path, RawTrace] | None:
        of_rank = [
            (path, raw)
            for path, raw in self.sources
            if rank is not None and known_rank(path, raw) == rank
        ]
        if len(of_rank) == 1:
            return of_rank[0]
        return self.sources[0] if is_alone and len(self.sources) == 1 else None
