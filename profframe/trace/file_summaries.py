"""Summaries of files that no profiler wrote: dumps, memory snapshots, execution traces.

Each kind has a view, which asks a trace and turns the rows of answers into sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import polars as pl

from profframe.query.header import sql_directory
from profframe.query.selection import spans
from profframe.readers.formats import Contents, contents_of
from profframe.show import execution_trace_text, hang_text, nccl_text, snapshot_text, units
from profframe.show.special_files import FileSummaries, FileSummary
from profframe.trace.base_trace import BaseTrace
from profframe.trace.query import answer

Table: TypeAlias = tuple[str, pl.DataFrame, tuple[str, ...]]
"""A title, rows, and the words of a command that says more."""
_TABLES: Final = ("nodes", "recorded_collectives", "process_groups", "allocations", "segments")
"""What `contents` counts the rows of."""
_MOST: Final = 8
"""Maximum sentences, and runs or ranks, that are written out."""
_MEMORY_BY: Final = MappingProxyType(
    {
        "category": "What held memory by category,",
        "module": "What held memory by module,",
        "metadata": "What held memory by metadata that the program set,",
        "pool": "What held memory by pool,",
        "fx_node": "What held memory by FX node,",
        "frame": "What held memory by line of code,",
    }
)


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file."""

    words: Callable[[BaseTrace], FileSummary]
    without_times: str
    """A sentence that it has no times of ops and devices, and what to ask instead."""


def file_summaries(trace: BaseTrace, formats: Iterable[str | None]) -> FileSummaries:
    """Summarise each kind of file that a trace was made from.

    Parameters
    ----------
    trace
        The trace.
    formats
        The formats of its sources.
    """
    own = contents_of(formats)
    has_none = trace._session.are_empty(_TABLES)  # noqa: SLF001 - of the trace's own package
    counts = {} if has_none else question(trace, "contents").row(0, named=True)
    parts = [view.words(trace) for name, view in VIEWS.items() if counts.get(name) or name in own]
    return FileSummaries(tuple(parts), is_all=bool(own) and own <= VIEWS.keys())


def without_times(formats: Iterable[str | None]) -> str:
    """A sentence that sources have no times of ops and devices; empty if they may have some.

    Parameters
    ----------
    formats
        Those of the sources.
    """
    own = contents_of(formats)
    if not own <= VIEWS.keys():
        return ""
    return "; ".join(view.without_times for name, view in VIEWS.items() if name in own)


def dumps(trace: BaseTrace) -> FileSummary:
    """Summary of flight recorder dumps: what hangs, and how far each rank got."""
    rows, sizes = answer(trace, "hangs"), question(trace, "dumps")
    progress = answer(trace, "collective_progress")
    records = int(sizes["records"].sum())
    label = "flight recorder"
    facts = (
        ("Records", units.count(records)),
        ("Ranks", "; ".join(map(_ranks, sizes.to_dicts()))),
        ("Process groups", units.count(int(sizes["groups"].sum()))),
        ("Backend", ", ".join(sizes["backends"].drop_nulls().unique(maintain_order=True))),
        ("Version", ", ".join(sizes["versions"].drop_nulls().unique(maintain_order=True))),
    )
    what = _each(sizes, hang_text.contents)
    if not records and not rows.height:
        hint = "TORCH_FR_BUFFER_SIZE=2000 makes torch record (TORCH_NCCL_TRACE_BUFFER_SIZE before)"
        return _words(label, what, facts, ("it has no records",), hint=hint)
    sentences = hang_text.headline(rows, answer(trace, "hangs", per="rank"), progress).split("\n")
    excerpts = []
    if rows.height:
        first = rows.row(0, named=True)
        for name, side in (("late_stack", "late"), ("waiting_stack", "waiting")):
            if first[name]:
                excerpts.append(_stack(f"The stack of {_of(first, side)}", first[name]))
    tables: list[Table] = []
    if rows.height:
        tables.append(("What hangs", hang_text.table(rows), ("answer", "hangs")))
    behind = hang_text.behind(progress)
    tables.append(("How far each rank got", behind, ("answer", "collective_progress")))
    hint = hang_text.lacking(sizes, rows)
    return _words(label, what, facts, sentences, excerpts=tuple(excerpts), tables=tables, hint=hint)


def memory(trace: BaseTrace) -> FileSummary:
    """Summary of memory snapshots and timelines: what failed, what held memory, what is free."""
    sizes = question(trace, "snapshots")
    label = "memory"
    facts = tuple(
        (name.capitalize(), units.count(int(sizes[name].sum())))
        for name in ("records", "allocations", "segments", "blocks")
    )
    what = _each(sizes, snapshot_text.contents)
    segments = answer(trace, "fragmentation")
    if not sizes["allocations"].sum():
        sentences = ["nothing is allocated in it, and nothing was allocated while it was recorded"]
        of_segments = ("Segments", segments, ("answer", "fragmentation"))
        tables = [of_segments] if segments.height else []
        hint = "torch.cuda.memory._record_memory_history() makes torch record"
        return _words(label, what, facts, sentences, tables=tables, hint=hint)
    failures = answer(trace, "out_of_memory")
    stacks = answer(trace, "memory_stacks", per="frame", top=0)
    timeline, earlier = answer(trace, "snapshot_timeline"), question(trace, "earlier_memory")
    lines = snapshot_text.headline(failures, stacks, timeline, segments, earlier)
    at, when = ("oom", "when memory ran out") if failures.height else ("peak", "at the peak")
    tables = []
    asked_at = ("-p", f"at={at}") if at != "peak" else ()
    for by, title in _MEMORY_BY.items():
        rows = stacks
        if by != "frame" or at != "peak":
            rows = answer(trace, "memory_stacks", per=by, at=at, top=0)
        if {*rows["name"]} - snapshot_text.UNTOLD:
            verb = ("answer", "memory_stacks", "-p", f"per={by}", *asked_at)
            tables.append((f"{title} {when}", snapshot_text.table(rows), verb))
    excerpts: tuple[str, ...] = ()
    if failures.height and failures["stack"][-1]:
        excerpts = (_stack("Requested by", failures["stack"][-1]),)
    return _words(
        label, what, facts, lines, excerpts=excerpts, tables=tables, names=snapshot_text.NAMES
    )


def execution(trace: BaseTrace) -> FileSummary:
    """Summary of execution traces: what communicates, what moves most bytes, large tensors."""
    sizes, traffic = question(trace, "execution_traces"), answer(trace, "tensor_traffic")
    facts = tuple(
        (label, units.count(int(sizes[name].sum())))
        for label, name in (
            ("Nodes", "nodes"), ("Operators", "operators"), ("Tensors", "tensors"),
            ("Data dependencies", "dependencies"), ("Collectives", "collectives"),
        )
    )  # fmt: skip
    label = "execution trace"
    tables = []
    if traffic.height:
        rows = execution_trace_text.table(traffic)
        tables.append(("Bytes that ops read and write", rows, ("answer", "tensor_traffic")))
    return _words(
        label,
        _each(sizes, execution_trace_text.contents),
        facts,
        execution_trace_text.headline(sizes, traffic),
        tables=tables,
        hint=execution_trace_text.hint(sizes),
    )


def nccl_records(trace: BaseTrace) -> FileSummary:
    """Summary of records of NCCL's plugins: kinds and sizes, bandwidths, ranks that are late."""
    contents = question(trace, "nccl_records")
    sizes, ranks = question(trace, "nccl_sizes"), question(trace, "nccl_ranks")
    facts = (
        ("Collectives", units.count(int(contents["collectives"].sum()))),
        ("Sends and receives", units.count(int(contents["p2p"].sum()))),
        ("Communicators", units.count(int(contents["communicators"].sum()))),
    )
    what = _each(contents, nccl_text.contents)
    label = "collectives"
    if not sizes.height:
        return _words(label, what, facts, ("no record has a duration",))
    by_size = ("answer", "collectives", "-p", "per=size")
    tables: list[Table] = [
        ("Collectives by communicator, kind and size", nccl_text.table(sizes), by_size)
    ]
    if ranks.height:
        title = "Ranks by how long they hold up the others"
        tables.append((title, nccl_text.table(ranks), ("answer", "stragglers")))
    hint = "" if contents["has_starts"].all() else nccl_text.WITHOUT_STARTS
    return _words(label, what, facts, nccl_text.headline(sizes, ranks), tables=tables, hint=hint)


VIEWS: Final[Mapping[Contents, FileKind]] = MappingProxyType(
    {
        "dumps": FileKind(
            dumps,
            "flight recorder dumps have no times of ops or devices (profframe hang says who "
            "is late)",
        ),
        "snapshots": FileKind(
            memory,
            "a memory snapshot has no times of ops or devices (two of them can be compared)",
        ),
        "nccl_records": FileKind(
            nccl_records,
            "records of NCCL's Inspector have no times of ops (the answers collectives and "
            "stragglers say what they know)",
        ),
        "execution_traces": FileKind(
            execution,
            "an execution trace has no times (--execution-trace joins it with a trace of the same "
            "process)",
        ),
    }
)
"""A view for each column of `sql/file_summaries/contents.sql`, by the contents of formats."""


def question(trace: BaseTrace, name: str) -> pl.DataFrame:
    """The rows of a question that only this module asks: a file of `sql/file_summaries`."""
    return pl.DataFrame(answer(trace, sql_directory() / "file_summaries" / f"{name}.sql"))


def _words(
    label: str,
    what: tuple[str, ...],
    facts: tuple[tuple[str, str], ...],
    sentences: Iterable[str],
    *,
    excerpts: tuple[str, ...] = (),
    tables: Sequence[Table] = (),
    hint: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
) -> FileSummary:
    """A summary that a terminal and a page can show, with control bytes of the file escaped."""
    lines = [units.visible(line[0].upper() + line[1:]) for line in sentences if line]
    if len(lines) > _MOST + 1:
        lines = [*lines[:_MOST], f"And {len(lines) - _MOST} more such lines"]
    return FileSummary(
        label,
        tuple(map(units.visible, what)),
        tuple((name, units.visible(value)) for name, value in facts if value not in {"", "0"}),
        tuple(lines),
        excerpts,
        tuple((title, rows) for title, rows, _ in tables),
        tuple(verb for *_, verb in tables),
        names,
        units.visible(hint),
    )


def _each(rows: pl.DataFrame, text: Callable[[Mapping[str, Any]], str]) -> tuple[str, ...]:
    """A line for each row, with its run and rank if there are several."""
    keys = [key for key in ("run", "rank") if key in rows.columns and rows[key].n_unique() > 1]
    lines = []
    for row in rows.head(_MOST).to_dicts():
        place = ", ".join(f"rank {row[k]}" if k == "rank" else str(row[k]) for k in keys)
        lines.append(f"{place}: {text(row)}" if place else text(row))
    rest = rows.height - _MOST
    return (*lines, f"and {rest:,} more") if rest > 0 else tuple(lines)


def _ranks(row: Mapping[str, Any]) -> str:
    of = "" if row["world_size"] is None else f" of {row['world_size']:,}"
    return f"{spans(map(int, row['ranks'].split(',')))}{of}"


def _of(row: Mapping[str, Any], side: str) -> str:
    """Whose stack a hang has."""
    if side == "waiting":
        waiting = row["waiting_ranks"]
        if waiting is None:
            return "the other ranks"
        return f"rank {waiting.partition(',')[0]}, which waits"
    late, other = row["late_ranks"], row["other_ranks"]
    if late is not None:
        return f"rank {late.partition(',')[0]}, which is late"
    return "a rank" if other is None else f"rank {other.partition(',')[0]}, which does not fit"


def _stack(title: str, frames: str) -> str:
    return "\n  ".join((f"{title}:", *map(units.visible, frames.split(";"))))
