"""Why a question has no rows, from what the trace has: never a guess.

The header of an answer names under ``recorded:`` what it needs to have rows (`LACKING`), and says
under ``no rows:`` what is true if all of that is there and there are still no rows. Analyses, which
have no SQL of their own, name both in `ComputedRows`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from profframe import schema
from profframe.errors import AnswerError
from profframe.query.arrangement import divided
from profframe.query.catalogue import find
from profframe.query.frames import plain
from profframe.query.header import Answer, Parameter, sql_directory

if TYPE_CHECKING:
    from profframe.query.session import Session


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that a trace may lack, and how to record it; ``""`` if no option does."""

    what: str
    remedy: str = ""
    place: str = "in"
    """The words before `this trace`."""


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Something that computes rows without SQL of its own, and when it has none.

    Attributes
    ----------
    recorded
        Names of `LACKING` that it needs to have rows; one of each group is enough.
    when_empty
        What is true if all of that is there and it still has no rows.
    height
        Number of its rows for another session and other arguments; None if these cannot be the
        reason.
    given
        Arguments that leave rows out.
    near
        Names that are similar to those in the arguments, as the end of a sentence.
    """

    recorded: tuple[tuple[str, ...], ...]
    when_empty: str
    height: Callable[[Session, Mapping[str, object]], int] | None = None
    given: Mapping[str, object] = field(default_factory=dict)
    near: Callable[[], str] = str


_HOST: Final = "record with activities=[ProfilerActivity.CPU, ...]"
_CUDA: Final = "ProfilerActivity.CUDA"
_DEVICE: Final = f"record with activities=[ProfilerActivity.CPU, {_CUDA}] on a device"
_WORK: Final = "device work (kernels, copies or fills)"
_STEPS: Final = (
    "record with schedule=, without which torch marks no steps, and call prof.step() at the end of "
    "each step"
)
_STACKS: Final = "record with with_stack=True"
_SNAPSHOT: Final = "record one with profframe.record_memory() (docs/memory_snapshots.md)"
_COLLECTIVES: Final = "record ranks of a job that uses torch.distributed"

LACKING: Final[Mapping[str, Lack]] = {
    "traces": Lack("runs"),
    "slices": Lack("slices of any kind"),
    "host_slices": Lack("host slices", _HOST),
    "host_ops": Lack("host operators", _HOST),
    "calls": Lack("runtime or driver calls", _DEVICE),
    "annotations": Lack(
        "annotations",
        "wrap code in torch.profiler.record_function(name); older torch records its own, such as "
        "ProfilerStep#0 and Optimizer.step#SGD.step, as ops: see self_times",
    ),
    "steps": Lack("profiler steps", _STEPS),
    "device_work": Lack(_WORK, _DEVICE),
    "device_time": Lack(_WORK, _DEVICE),
    "kernels": Lack("kernels", _DEVICE),
    "copies": Lack("copies or fills", _DEVICE),
    "launches": Lack("device work whose launch is known", _DEVICE),
    "graphs": Lack("work in launched graphs"),
    "communication": Lack("communication kernels", _COLLECTIVES),
    "collective_calls": Lack("collectives, sends or receives", _COLLECTIVES),
    "collectives": Lack("collective names", _COLLECTIVES),
    "known_work": Lack("device work with known FLOPs or bytes", "record with record_shapes=True"),
    "input_shapes": Lack("input shapes", "record with record_shapes=True"),
    "stacks": Lack("stacks", _STACKS),
    "frames": Lack("Python frames or stacks", _STACKS),
    "modules": Lack("module calls", _STACKS),
    "phases": Lack("inference phases", "record a server of vLLM, SGLang, ATOM or TensorRT-LLM"),
    "recomputed": Lack("ops recomputed in backward (activation checkpointing)"),
    "data_loads": Lack("DataLoader calls"),
    "gil": Lack(
        "records of Python's GIL",
        "record with nsys profile --trace=cuda,nvtx,python-gil, or, for garbage collections, with "
        "torch's with_stack=True and _ExperimentalConfig(record_python_gc_info=True)",
    ),
    "collections": Lack(
        "garbage collections of Python",
        "record with with_stack=True and experimental_config="
        "torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)",
    ),
    "memory": Lack("memory records by the profiler", "record with profile_memory=True"),
    "instants": Lack("events without a duration"),
    "counters": Lack("counters"),
    "counter_values": Lack("counters over time"),
    "counted_slices": Lack("hardware counters (CUPTI's range profiler)"),
    "device_samples": Lack("samples of a device", "record them as docs/counters.md shows"),
    "power": Lack("samples of power", "record them as docs/counters.md shows"),
    "snapshots": Lack("memory snapshot", _SNAPSHOT, "with"),
    "allocations": Lack("allocations of a memory snapshot", _SNAPSHOT),
    "history": Lack("allocator records of a memory snapshot", _SNAPSHOT),
    "segments": Lack("segments of a memory snapshot", _SNAPSHOT),
    "dumps": Lack("flight recorder dump", "set TORCH_FR_BUFFER_SIZE (docs/hangs.md)", "with"),
    "nccl_records": Lack(
        "records of NCCL's Inspector", "load its plugin (docs/nccl_inspector.md)", "with"
    ),
    "nodes": Lack(
        "execution trace",
        "record one with ExecutionTraceObserver (docs/execution_traces.md)",
        "with",
    ),
    "compiled_kernels": Lack(
        "provenance of compiled kernels",
        "compile with INDUCTOR_PROVENANCE=1 and TORCH_TRACE, and load with provenance= "
        "(docs/provenance.md)",
        "with",
    ),
    "several_ranks": Lack("second rank of a run", "load the traces of all ranks together"),
}
"""Features of a trace, by the columns of ``sql/inner/recorded.sql``."""

_OF_TABLES: Final[Mapping[str, str]] = {
    "events": "slices",
    "memory": "memory",
    "counters": "counters",
    "instants": "instants",
    "devices": "device_work",
    "segments": "segments",
    "blocks": "segments",
    "allocations": "allocations",
    "allocator_events": "history",
    "recorded_collectives": "dumps",
    "process_groups": "dumps",
    "nodes": "nodes",
    "tensors": "nodes",
    "compiled_kernels": "compiled_kernels",
}
_OF_COLUMNS: Final[Mapping[str, str]] = {
    "step": "steps",
    "stack": "stacks",
    "python_stack": "stacks",
    "input_dims": "input_shapes",
    "module_hierarchy": "modules",
    "python_module_id": "modules",
    "compiled_kernel_id": "compiled_kernels",
    "launch_id": "launches",
    "collective": "collectives",
    "inference_phase": "phases",
    "phase_id": "phases",
    "kernel_category": "device_work",
    "device": "device_work",
    "stream": "device_work",
}
_ACTIVITY: Final = r"""
    SELECT
        CASE
            WHEN bool_or(device_type IN ('XPU', 'MTIA', 'HPU')) THEN min(device_type)
            WHEN EXISTS (FROM events WHERE is_call(kind) AND regexp_matches(name, '^(ze|ur)[A-Z]'))
                THEN 'XPU'
            WHEN bool_or(device_type NOT IN ('CUDA', 'CPU')) THEN 'PrivateUse1'
            ELSE 'CUDA'
        END AS activity
    FROM traces
"""
"""Profiler activities by devices, or by names of calls."""
_CONTENTS: Final = (
    "slices", "memory", "instants", "counters", "snapshots", "dumps", "nccl_records", "nodes",
)  # fmt: skip
_MOST_NEAR: Final = 3
_WORD: Final = re.compile(r"\w+")


def needed(recorded: tuple[tuple[str, ...], ...]) -> str:
    """What rows need, in words.

    Examples
    --------
    >>> needed((("kernels", "copies"), ("steps",)))
    'kernels or copies or fills; profiler steps'
    """
    return "; ".join(" or ".join(LACKING[name].what for name in group) for group in recorded)


def of_answer(session: Session, question: Answer, parameters: Mapping[str, object]) -> str:
    """Why an answer has no rows.

    Parameters
    ----------
    session
        Over the rows that it was asked about.
    question
        The answer.
    parameters
        Those that it was asked with.

    Returns
    -------
    str
        One sentence without a full stop, from what the trace has.

    Raises
    ------
    AnswerError
        The trace can no longer be queried.
    """
    session, whole = session.unlimited(), session.unfiltered()
    return next(_of_answer(session, whole, question, parameters))


def of_analysis(session: Session, analysis: ComputedRows) -> str:
    """Why an analysis has no rows.

    Raises
    ------
    AnswerError
        The trace can no longer be queried.
    """
    session, whole = session.unlimited(), session.unfiltered()
    reason = next(_of_rows(session, whole, analysis), None)
    return analysis.when_empty if reason is None else reason


def of_part(session: Session, name: str) -> str | None:
    """The missing feature of `LACKING` in words; None if the trace has it."""
    session, whole = session.unlimited(), session.unfiltered()
    return None if _recorded(session)[name] else next(_lacks(session, whole, ((name,),)))


def of_sql(session: Session, query: str) -> str:
    """Why a SELECT has no rows: tables and columns that it names and that have none.

    Raises
    ------
    AnswerError
        The trace can no longer be queried.
    """
    session, whole = session.unlimited(), session.unfiltered()
    words = {word.lower() for word in _WORD.findall(query)}
    tables = [name for name in schema.TABLES if name in words]
    return next(_of_tables(session, whole, tables, words))


def of_table(session: Session, table: str) -> str:
    """Why a table of the schema has no rows."""
    session, whole = session.unlimited(), session.unfiltered()
    return next(_of_tables(session, whole, [table], set()))


def check(question: Answer) -> None:
    """Raise an AnswerError if the header names something that is not in `LACKING`."""
    for name in (name for names in question.recorded for name in names):
        if name not in LACKING:
            raise AnswerError(
                f"{question.name}.sql: 'recorded:' names {name!r}, which is not known"
            )


def _of_answer(
    session: Session, whole: Session | None, question: Answer, parameters: Mapping[str, object]
) -> Iterator[str]:
    own = divided(question, parameters)[1]
    given = {
        parameter.name: own[parameter.name]
        for parameter in question.parameters
        if own.get(parameter.name) not in (None, parameter.default)
    }

    def height(session: Session, values: Mapping[str, object]) -> int:
        return session.answer(question, values).height

    def near() -> str:
        own_values = (p for p in question.parameters if p.name in given)
        names = [name for p in own_values for name in _names(p, given[p.name])]
        if not names or all(column.name != "name" for column in question.columns):
            return ""
        rows = session.answer(question, {})["name"].unique(maintain_order=True)
        return _near(names, rows.to_list())

    analysis = ComputedRows(question.recorded, question.when_empty, height, given, near)
    yield from _of_rows(session, whole, analysis)
    if question.when_empty:
        yield question.when_empty
    if question.grain:
        yield f"the trace has nothing to make a row of ({question.grain.rstrip('.')})"
    words = {word.lower() for word in _WORD.findall(question.sql)}
    tables = [name for name in schema.TABLES if name in words]
    yield from _of_tables(session, whole, tables, words)


def _of_rows(session: Session, whole: Session | None, analysis: ComputedRows) -> Iterator[str]:
    """The reason by the trace, the arguments, or the filter."""
    yield from _lacks(session, whole, analysis.recorded)
    given, height = analysis.given, analysis.height
    if height is None:
        return
    if given and (rows := height(session, {})):
        with_them = ", ".join(f"{name}={value!r}" for name, value in given.items())
        pronoun = "it" if len(given) == 1 else "them"
        yield f"no row with {with_them}; there {_rows(rows)} without {pronoun}{analysis.near()}"
    if whole is not None and (rows := height(whole, given)):
        yield f"the filter leaves no row; there {_rows(rows)} in the whole trace"


def _names(parameter: Parameter, value: object) -> list[str]:
    """The names or patterns in a list of them; none in other values."""
    if parameter.type != "JSON":
        return []
    with suppress(ValueError):
        value = json.loads(value) if isinstance(value, str) else value
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _near(names: Iterable[str], rows: Iterable[str | None]) -> str:
    """Names of rows that are similar to others, as a whole or by their last word.

    Examples
    --------
    >>> _near(["Linaer*"], ["nn.Module: Linear_0", "nn.Module: GELU_0", None])
    "; near: 'nn.Module: Linear_0'"
    >>> _near(["Linaer*"], ["mm"])
    ''
    """
    by_word: dict[str, str] = {}
    for row in filter(None, rows):
        by_word |= {row.lower(): row, row.lower().rpartition(" ")[2]: row}
    near = {
        by_word[word]: None
        for name in names
        for word in difflib.get_close_matches(name.lower().strip("*"), by_word, n=_MOST_NEAR)
    }
    return f"; near: {', '.join(map(repr, islice(near, _MOST_NEAR)))}" if near else ""


def _lacks(
    session: Session, whole: Session | None, recorded: tuple[tuple[str, ...], ...]
) -> Iterator[str]:
    """Missing features of the trace, and whether the filter removed them."""
    has = _recorded(session)
    had = {} if whole is None else _recorded(whole)
    unmet = [names for names in recorded if not any(has[name] for name in names)]
    is_nothing = has["traces"] and not any(has[name] for name in _CONTENTS)
    if is_nothing and not any(had.get(name) for name in _CONTENTS):
        yield "the trace is empty"
    for names in unmet:
        if not any(had.get(name) for name in names):
            yield _lacking_of(session, names)
    if is_nothing:
        yield "the filter leaves nothing of the trace"
    for names in unmet:
        yield _lacking_of(session, names, was_there=True)


def _of_tables(
    session: Session, whole: Session | None, tables: list[str], words: set[str]
) -> Iterator[str]:
    """Why a query has no rows: a table without rows, or columns without values."""
    counts = _counts(session, tables, words)
    before = {} if whole is None else _counts(whole, tables, set())
    has = {} if all(counts.values()) else _recorded(session)
    for table in tables:
        if not counts[table]:
            if rows := before.get(table):
                yield f"the filter leaves no row of {table}; there {_rows(rows)} in the whole trace"
            because = _because(session, _OF_TABLES.get(table), has)
            yield f"the table {table} has no rows{because}"
    parts = ["no row matches the query"]
    parts += [_rows_of(counts, tables)] if tables else []
    for name, count in counts.items():
        table, _, column = name.partition(".")
        if column and not count:
            because = _because(session, _OF_COLUMNS.get(column), has)
            parts.append(f"{name} is NULL in all{because}")
    yield "; ".join(parts)


def _because(session: Session, name: str | None, has: Mapping[str, bool]) -> str:
    """A sentence about missing features, if any."""
    return "" if name is None or has[name] else f": {_lacking_of(session, (name,))}"


def _counts(session: Session, tables: list[str], words: set[str]) -> dict[str, int]:
    """Rows by table, and values by ``table.column`` of the columns that the words name."""
    counts: dict[str, int] = {}
    for table in tables:
        columns = [column.name for column in schema.TABLES[table] if column.name in words]
        values = ", ".join(["count(*)", *(f'count("{name}")' for name in columns)])
        row = plain(session.select(f"SELECT {values} FROM {table}")).row(0)  # noqa: S608 - of the schema
        names = [table, *(f"{table}.{name}" for name in columns)]
        counts |= dict(zip(names, row, strict=True))
    return counts


def _recorded(session: Session) -> dict[str, bool]:
    """Recorded features of a session's rows; determined once per trace."""
    question = find(sql_directory() / "inner" / "recorded.sql")
    return session.cache_last(
        "recorded", None, lambda: session.answer(question, {}).row(0, named=True)
    )


def _lacking_of(session: Session, names: Iterable[str], *, was_there: bool = False) -> str:
    """Missing features, and how to record them on the devices in use."""
    text = _lacking([LACKING[name] for name in names], was_there=was_there)
    if _CUDA not in text:
        return text
    activity = session.select(_ACTIVITY).column("activity")[0].as_py()
    return text.replace(_CUDA, f"ProfilerActivity.{activity}")


def _lacking(lacks: list[Lack], *, was_there: bool = False) -> str:
    *others, last = (f"no {lack.what}" for lack in lacks)
    what = f"{', '.join(others)} and {last}" if others else last
    if was_there:
        return f"the filter leaves {what}; the whole trace has some"
    remedies = [lack.remedy for lack in lacks if lack.remedy]
    return "; ".join([f"{what} {lacks[0].place} this trace", *remedies[:1]])


def _rows(number: int) -> str:
    return "is 1 row" if number == 1 else f"are {number:,} rows"


def _rows_of(counts: Mapping[str, int], tables: list[str]) -> str:
    return ", ".join(
        f"{table} has {counts[table]:,} row{'' if counts[table] == 1 else 's'}" for table in tables
    )


def sentence(name: str) -> str:
    """A sentence for a page: what is missing, and how to record it.

    Examples
    --------
    >>> sentence("stacks")
    'no stacks in this trace; record with with_stack=True'
    """
    return _lacking([LACKING[name]])
