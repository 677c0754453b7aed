"""Execution traces that are given with the traces of the same processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from profframe.errors import NotATraceError
from profframe.facts.fact import Tables
from profframe.loading.beside import GivenFiles, with_nodes
from profframe.loading.discovery import Source, paths_of, trace_files
from profframe.loading.run_names import known_rank
from profframe.readers import RawTrace, execution_trace


class ExecutionTraces(GivenFiles):
    """Files of execution traces, which are read only once."""

    def check_format(self, path: Path, raw: RawTrace) -> None:
        """Raise an error for a file of another format."""
        if raw.header.format != execution_trace.FORMAT:
            raise NotATraceError(
                f"{path}: a trace of format {raw.header.format!r}, not an execution trace from "
                "torch's ExecutionTraceObserver"
            )

    def of(self, tables: Tables, rank: int | None, *, is_alone: bool) -> RawTrace | None:
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


def execution_trace_files(source: Source | Sequence[Source]) -> ExecutionTraces:
    """The files that a path or a glob, or a list of these, leads to.

    Raises
    ------
    NoTraceFoundError
        It leads to no file.
    ParameterError
        It is not a path, or it is a store.
    """
    return ExecutionTraces(trace_files(paths_of(source)).paths)


def with_execution_trace(tables: Tables, raw: RawTrace) -> Tables:
    """Tables of a trace with those of an execution trace."""
    quality = pa.concat_tables([tables["quality"], raw.tables["quality"]])
    own = {name: raw.tables[name] for name in ("nodes", "tensors")}
    return with_nodes({**tables, **own, "quality": quality})
