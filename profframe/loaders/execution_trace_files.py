"""Execution traces that are given with the traces of the same processes."""

from __future__ import annotations

import pyarrow as pa

from profframe.facts.fact import Tables
from profframe.loaders.companion_files import JoinedFiles, with_nodes
from profframe.loaders.run_names import known_rank
from profframe.readers import execution_trace
from profframe.readers.build.row_tables import RawTrace


class ExecutionTraces(JoinedFiles):
    """Files of execution traces, which are read only once."""

    format = execution_trace.FORMAT
    described = "an execution trace from torch's ExecutionTraceObserver"
    table = "nodes"
    owners = "processes and ranks"

    def join(self, tables: Tables, rank: int | None, *, is_alone: bool) -> Tables:
        """Tables of a trace with the execution trace of its process or rank, if it has none yet."""
        own = self._of(tables, rank, is_alone=is_alone)
        return tables if own is None or "nodes" in tables else _with_execution_trace(tables, own)

    def _of(self, tables: Tables, rank: int | None, *, is_alone: bool) -> RawTrace | None:
        """The one of the same process, else of the same rank; for a single trace, the only one."""
        pids = set(tables["threads"]["pid"].cast(pa.string()).to_pylist())
        of_process = [raw for _, raw in self.sources if _process_of(raw) in pids]
        if len(of_process) == 1:
            return of_process[0]
        of_rank = [
            raw for path, raw in self.sources if rank is not None and known_rank(path, raw) == rank
        ]
        if len(of_rank) == 1:
            return of_rank[0]
        return self.sources[0][1] if is_alone and len(self.sources) == 1 else None


def _process_of(raw: RawTrace) -> str | None:
    """Process that an execution trace was recorded in, as text."""
    pids = raw.tables["threads"]["pid"].to_pylist()
    return pids[0] if pids else None


def _with_execution_trace(tables: Tables, raw: RawTrace) -> Tables:
    """Tables of a trace with those of an execution trace."""
    quality = pa.concat_tables([tables["quality"], raw.tables["quality"]])
    own = {name: raw.tables[name] for name in ("nodes", "tensors")}
    return with_nodes({**tables, **own, "quality": quality})
