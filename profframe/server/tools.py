"""The tools: functions of a trace that return a `Result`.

A tool reads the given trace and nothing else: it opens no file, and SQL runs on the
closed connection of `profframe.query.sandbox`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.comparisons.explain import explain
from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.query import analyses, renamed
from profframe.query.analyses import Analysis
from profframe.query.catalogue import catalogue as all_answers
from profframe.query.catalogue import find, resolve
from profframe.query.header import Answer, sql_directory
from profframe.query.rules import Advice
from profframe.server.tool_result import Result, ResultTable
from profframe.show.cause_text import remark
from profframe.show.device_time import models
from profframe.show.empty_frames import why_empty
from profframe.show.terminal import no_rows
from profframe.trace.file_summaries import file_summaries
from profframe.trace.file_summaries import question as file_question
from profframe.trace.trace import Trace

MOST_BYTES: Final = 256 << 20
"""Maximum memory for the rows of one result."""
_RULES: Final = "advice"

_RECORDED: Final[Mapping[str, str]] = {
    "device_work": "no device work",
    "host_ops": "no host operators",
    "steps": "no profiler steps",
    "memory": "no memory records by the profiler",
    "input_shapes": "no input shapes",
    "stacks": "no stacks",
    "modules": "no module calls",
    "launches": "no launches of device work",
    "collectives": "no collective names",
    "phases": "no inference phases",
    "counters": "no counters",
    "several_ranks": "no run of several ranks",
}
_CAUSES: Final = (
    "cause", "base_op", "other_op", "base_kernel", "other_kernel", "base_ns", "other_ns",
    "change_ns", "share", "significant", "p_value", "base_calls", "other_calls", "reason",
    "base_shapes", "other_shapes", "base_types", "other_types", "places", "base_run", "base_rank",
    "base_event_ids", "other_run", "other_rank", "other_event_ids",
)  # fmt: skip
_QUALITY: Final = ("run", "rank", "issue", "events", "action", "detail", "example_event_id")
_MOST_ISSUES: Final = 8
"""Maximum issues of quality that a note names."""
_FINDINGS: Final = (
    "run", "rank", "rule", "severity", "finding", "estimated_gain_ns", "steps", "evidence_events",
    "events", "suggestion", "gain_basis", "where", "ranks", "link",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuestionLimits:
    """Limits of a question: seconds, memory of DuckDB, and rows.

    DuckDB uses all cores for a query of up to 10,000 rows, and one core above that.
    """

    timeout_s: float | None = 60
    memory: str | None = "2GB"
    rows: int = 5_000


@dataclass(frozen=True, slots=True)
class Subject:
    """A trace, within limits.

    Attributes
    ----------
    trace
        With a limit of memory alone.
    cut
        With a limit of rows, too: it returns only the first ones.
    rows
        Most rows.
    """

    trace: Trace
    cut: Trace
    rows: int

    @classmethod
    def of(cls, trace: Trace, limits: QuestionLimits) -> Subject:
        """A trace within these limits; a ParameterError names a wrong one."""
        within = trace.with_limits(limits.memory)
        cut = trace.with_limits(limits.memory, rows=limits.rows + 1, cut_rows=True)
        return cls(within, cut, limits.rows)

    def section(self, title: str, rows: pl.DataFrame, first: int | None = None) -> ResultTable:
        """Rows within the limits of number and memory."""
        rows = pl.DataFrame(rows)
        size = int(rows.estimated_size())
        if size > MOST_BYTES:
            raise AnswerError(
                f"{title}: the rows take {size >> 20:,} MiB, more than {MOST_BYTES >> 20:,}; "
                "select fewer or shorter values"
            )
        return ResultTable(title, rows.head(self.rows), first, is_cut=rows.height > self.rows)


def overview(subject: Subject) -> Result:
    """What is in the trace, what is wrong with it, and where the time went."""
    trace = subject.trace
    words = file_summaries(trace, trace.traces["format"])
    quality = pl.DataFrame(trace.quality)
    sections = [
        subject.section("overview: what is in each trace", _traces(trace), 8),
        subject.section("quality: repaired, dropped or doubtful", quality.select(_QUALITY), 6),
    ]
    for part in words.parts:
        lines = pl.DataFrame({"sentence": [*part.what, *part.sentences, *part.excerpts]})
        sections.append(subject.section(f"{part.label}: what matters most", lines))
        sections += [subject.section(title, rows, 8) for title, rows in part.tables]
    if not words.is_all:
        sections += _times(subject)
    hint = "next: advice for all findings, catalogue for all questions, event for one event"
    return Result("overview", tuple(sections), (*_doubts(quality), *_lacks(trace), hint))


def _traces(trace: Trace) -> pl.DataFrame:
    """What is in each trace, with the models of its devices."""
    rows, keys = pl.DataFrame(trace.overview()), ["run", "rank"]
    about = pl.DataFrame(trace.traces).select(
        *keys, "format", "device_type", "world_size", "backend"
    )
    used = file_question(trace, "used_devices")
    of_each = [(*key, models(own["model"], "device")) for key, own in used.group_by(keys)]
    named = pl.DataFrame(
        of_each, schema={**used.select(keys).schema, "models": pl.String}, orient="row"
    )
    joined = rows.join(named, on=keys, how="left", maintain_order="left").join(
        about, on=keys, how="left", maintain_order="left"
    )
    others = [name for name in joined.columns if name != "models"]
    place = others.index("devices") + 1
    return joined.select(*others[:place], "models", *others[place:])


def _doubts(quality: pl.DataFrame) -> list[str]:
    """A sentence that names what was repaired, dropped or is doubtful, in profframe's own words."""
    issues = [one for one in quality["issue"].unique(maintain_order=True) if one in schema.CHECKS]
    if not issues:
        return []
    first, rest = issues[:_MOST_ISSUES], len(issues) - _MOST_ISSUES
    more = f" and {rest} more" if rest > 0 else ""
    return [f"read quality before you trust a number: it has {', '.join(first)}{more}"]


def _times(subject: Subject) -> list[ResultTable]:
    """Tables of the overview: findings, device time, steps, kernels, self times."""
    trace = subject.trace
    findings = _findings(trace)
    kernels = trace.kernels(per="short_name").select(
        "run", "rank", "short_name", "calls", "total_ns", "share", "category", "top_op"
    )
    self_times = trace.self_times().select(
        "run", "rank", "name", "kind", "calls", "self_ns", "total_ns"
    )
    breakdown = pl.DataFrame(trace.time_breakdown()).filter(pl.col("step").is_null())
    return [
        subject.section(
            "findings of advice, the most severe first",
            findings.select(_FINDINGS[: _FINDINGS.index("suggestion")]), 5,
        ),
        subject.section(
            "time_breakdown: how the devices spent the time from their first to their last work",
            breakdown, 4,
        ),
        subject.section("step_times", trace.step_times(), 4),
        subject.section("kernel_categories", trace.kernel_categories(), 5),
        subject.section("kernels, the most device time first", kernels, 6),
        *_utilization(subject),
        subject.section("self_times, the most self time first", _longest(self_times, "self_ns"), 8),
    ]  # fmt: skip


def _utilization(subject: Subject) -> list[ResultTable]:
    """The table of `mfu` where it is measured, with the share of kernel time that it counts."""
    rows = subject.trace.mfu().drop_nulls("mfu")
    if not rows.height:
        return []
    names = ("run", "dtype", "mfu", "known_flops_share", "peak_flop_per_s")
    return [subject.section("mfu", rows.select(names), 4)]


def advice(subject: Subject, parameters: Mapping[str, object] | None = None) -> Result:
    """All findings of rules, with evidence and what to do."""
    findings = _findings(subject.trace, parameters)
    question = find(_RULES)
    number = len(question.rules) if isinstance(question, Advice) else 0
    notes = [
        "evidence_events are event_ids of the finding's run and rank; events counts all of them"
    ]
    if not findings.height:
        notes = [f"no finding: none of the {number} rules found anything wrong"]
        notes += _lacks(subject.trace)
    return Result(
        "advice", (subject.section("findings, the most severe first", findings),), (*notes,)
    )


def catalogue(about: str = "") -> Result:
    """All questions and tables; or the columns and parameters of one of them."""
    if about in schema.TABLES:
        table = schema.TABLES[about]
        about_columns = [(c.name, _type(c.type), c.unit, c.doc, c.null) for c in table.columns]
        names = ("column", "type", "unit", "meaning", "null_means")
        title = f"columns of the table {about}, for SQL"
        return _documentation(f"table {about}", ResultTable(title, _frame(names, about_columns)))
    if analysis := _analysis(about):
        return _documentation(f"{about}: {analysis.sentence}", _parameters(analysis))
    if about:
        question, _ = _shipped(about, {}, [])
        return _documentation(
            f"{question.name}: {question.sentence}",
            _parameters(question),
            *map(_columns, question.selects),
            notes=(question.grain, *question.notes[:4]),
        )
    askable: tuple[Answer | Analysis, ...] = (
        *all_answers(),
        *(one for one in analyses.analyses() if not one.verb),
    )
    questions = [
        (one.name, one.sentence, [parameter.name for parameter in one.all_parameters])
        for one in askable
    ]
    short = [
        (name, words, names if len(names) < 8 else ["..."]) for name, words, names in questions
    ]
    return _documentation(
        "catalogue",
        ResultTable("answers", _frame(("answer", "what", "parameters"), sorted(short))),
        notes=(
            "catalogue(about=NAME) has columns and parameters of an answer or a table",
            "every answer also takes the parameters sort ('-dur_ns'), top (5) and columns",
            f"tables for sql: {', '.join(schema.TABLES)}",
        ),
    )


def answer(
    subject: Subject,
    name: str,
    parameters: Mapping[str, object] | None = None,
    columns: Sequence[str] = (),
) -> Result:
    """The rows of one answer of the catalogue."""
    given = {} if parameters is None else dict(parameters)
    notes: list[str] = []
    if analysis := _analysis(name):
        sections, sentence = _tables(subject, analysis, given), analysis.sentence
    else:
        question, given = _shipped(name, given, notes)
        trace = subject.trace if isinstance(question, Advice) else subject.cut
        sections, sentence = [(name, trace.answer(question, **given))], question.sentence
    shown = tuple(subject.section(title, _chosen(rows, columns)) for title, rows in sections)
    is_empty = not any(section.rows.height for section in shown)
    notes += [note for _, rows in sections for note in _why_empty(rows)]
    notes += _lacks(subject.trace) if is_empty else []
    return Result(f"{name}: {sentence}", shown, (*notes,))


def sql(subject: Subject, query: str) -> Result:
    """The rows of one SELECT over the tables."""
    rows = subject.cut.sql(query)
    section = subject.section("rows of the query", rows)
    return Result("sql", (section,), (*_why_empty(rows),))


def event(
    subject: Subject, event_id: int, run: str | None = None, rank: int | None = None
) -> Result:
    """One event, and what is around it."""
    trace = one_trace(subject, run, rank)
    rows = trace.answer(sql_directory() / "inner" / "surroundings.sql", event=event_id)
    if not rows.height:
        raise UnknownNameError(f"no event {event_id} in this run and rank")
    details = trace.sql(f"FROM events WHERE event_id = {event_id:d}")
    about = pl.DataFrame(details)
    filled = [name for name in about.columns if about[name][0] is not None]
    return Result(
        f"event {event_id}",
        (
            subject.section("the event (this) and what is around it", rows.drop("stack")),
            subject.section("all its columns", _turned(about.select(filled))),
        ),
        ("relation: around is from the inside out; before and after are on its thread or stream",),
    )


def diff(
    subject: Subject,
    base: str | None = None,
    other: str | None = None,
    base_rank: int | None = None,
    other_rank: int | None = None,
) -> Result:
    """Why a step of one run takes longer than one of another, as causes that add up."""
    traces = subject.trace.traces
    runs = traces["run"].unique(maintain_order=True).to_list()
    if base is None and other is None and len(runs) == 2:
        base, other = runs
    if len(runs) == 1:
        base, other = base or runs[0], other or runs[0]
    if base is None or other is None:
        raise ParameterError(f"diff: name the runs, base and other; there are {len(runs)}")
    if (base, base_rank) == (other, other_rank):
        raise ParameterError(
            "diff: both sides are the same; name two runs, or two ranks, or start profframe ask "
            "with a second trace"
        )
    sides = [
        subject.trace.filter(runs=run, ranks=rank)
        for run, rank in ((base, base_rank), (other, other_rank))
    ]
    why = explain(*sides)
    lengths = pl.DataFrame(
        {
            "side": ["base", "other"],
            "run": [base, other],
            "rank": pl.Series([base_rank, other_rank], dtype=pl.Int64),
            "step_ns": [why.base_ns, why.other_ns],
            "steps": [why.base_steps, why.other_steps],
        }
    )
    causes = why.causes.select(_CAUSES)
    notes = ["change_ns of all causes adds up to the change of the mean step; noise is one of them"]
    if lost := remark(why):
        notes.append(lost)
    if not causes.filter(pl.col("cause") != "noise").height:
        notes.append("no cause is more than noise: the sides do not differ")
    return Result(
        f"diff: other minus base is {why.other_ns - why.base_ns} ns per step",
        (subject.section("mean step", lengths), subject.section("causes", causes)),
        tuple(notes),
    )


def what_if(subject: Subject, changes: Mapping[str, object]) -> Result:
    """What a step, or the whole trace, would take if something were otherwise."""
    given = {name: value for name, value in changes.items() if value is not None}
    if not given.keys() - {"step", "run"}:
        raise ParameterError(
            "what_if: give a change, such as communication, host, kernels or launches"
        )
    rows = subject.trace.what_if(**given)  # type: ignore[arg-type]
    return Result(
        "what_if: a replay of the recording, with changed durations",
        (subject.section("predictions", rows),),
        ("nothing is the recorded length; replay_error says how far the unchanged replay is off",),
    )


def one_trace(subject: Subject, run: str | None, rank: int | None) -> Trace:
    """The trace of one run and rank."""
    traces = subject.trace.traces
    if run is not None or rank is not None:
        trace = subject.cut.filter(runs=run, ranks=rank)
        traces = trace.traces
    else:
        trace = subject.cut
    if traces.height != 1:
        raise ParameterError(f"{traces.height} traces have such a run and rank; give run and rank")
    return trace


def _findings(trace: Trace, parameters: Mapping[str, object] | None = None) -> pl.DataFrame:
    return pl.DataFrame(trace.answer(_RULES, **dict(parameters or {}))).select(_FINDINGS)


def _why_empty(rows: pl.DataFrame) -> list[str]:
    """Why there are no rows, if there are none."""
    why = why_empty(rows)
    return [] if why is None else [no_rows(why)]


def _lacks(trace: Trace) -> list[str]:
    """Sentences about what was not recorded."""
    row = trace.answer(sql_directory() / "inner" / "recorded.sql").row(0, named=True)
    lacking = [words for name, words in _RECORDED.items() if not row[name]]
    return [f"the trace cannot tell, because it has {', '.join(lacking)}"] if lacking else []


def _analysis(name: str) -> Analysis | None:
    """The analysis of this name that gives tables of one trace."""
    analysis = analyses.find(name)
    return analysis if analysis is not None and not analysis.verb else None


def _tables(
    subject: Subject, analysis: Analysis, given: Mapping[str, object]
) -> list[tuple[str, pl.DataFrame]]:
    """The tables of an analysis, each with its title."""
    name = analysis.name
    rows = getattr(subject.trace, name)(**analysis.arguments(given))
    if name != "critical_path":
        return [(name, rows)]
    stretches = _longest(rows.events, "dur_ns") if "dur_ns" in rows.events.columns else rows.events
    return [
        ("what the length consists of", rows.bounds),
        ("segments of the path, the longest first", stretches),
    ]


def _parameters(question: Answer | Analysis) -> ResultTable:
    rows = [(p.name, p.type, str(p.default), p.doc) for p in question.all_parameters]
    return ResultTable("its parameters", _frame(("name", "type", "default", "meaning"), rows))


def _columns(select: Answer) -> ResultTable:
    """Columns of an answer, or of a form of it."""
    title = f"columns with {select.choice}: {select.sentence}" if select.choice else "its columns"
    rows = [(c.name, c.type, c.unit, c.doc) for c in select.columns]
    return ResultTable(title, _frame(("name", "type", "unit", "meaning"), rows))


def _shipped(
    name: str, given: Mapping[str, object], notes: list[str]
) -> tuple[Answer, dict[str, object]]:
    """An answer of the catalogue, never one of a file, and its parameters; notes of old names."""
    names = [question.name for question in all_answers()]
    if name not in names and name not in renamed.ANSWERS:
        raise UnknownNameError.among(
            "answer or table", name, [*names, *analyses.names(), *schema.TABLES]
        )
    return resolve(name, given, notes.append)


def _chosen(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    for column in columns:
        if column not in rows.columns:
            raise UnknownNameError.among("column", column, rows.columns)
    return rows.select(columns) if columns else rows


def _longest(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    return rows.sort(column, descending=True, nulls_last=True, maintain_order=True)


def _turned(rows: pl.DataFrame) -> pl.DataFrame:
    """A row turned into rows of column and value."""
    values = rows.row(0)
    texts = [str(value) if isinstance(value, (list, dict)) else value for value in values]
    return pl.DataFrame(
        {"column": rows.columns, "value": pl.Series(map(str, texts), dtype=pl.String)}
    )


def _type(type_: pa.DataType) -> str:
    return str(type_.value_type if pa.types.is_dictionary(type_) else type_)


def _documentation(title: str, *sections: ResultTable, notes: tuple[str, ...] = ()) -> Result:
    shown = tuple(section for section in sections if section.rows.height)
    return Result(title, shown, notes, is_of_trace=False)


def _frame(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=[*names], orient="row", infer_schema_length=None)
