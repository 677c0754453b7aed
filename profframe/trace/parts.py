"""Questions that are asked of each rank or run by itself, here or on many machines.

A part is one rank or one run. Small parts go to a worker together; it asks them in one question
where the answer divides, which gives the same rows, and one after the other where it does not say
so. The rows of all parts are then put in the order of the answer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias

import polars as pl

from profframe.errors import ParameterError, PartsError, ProfframeError, WorkerDiedError
from profframe.query import analyses
from profframe.query.arrangement import Arrangement, divided
from profframe.query.catalogue import is_shipped
from profframe.query.division import (
    KEYS_OF,
    Key,
    check_each,
    check_unit,
    in_order,
    keys,
    unit_of,
)
from profframe.query.header import Answer, Unit
from profframe.query.parameters import values
from profframe.query.rules import Advice
from profframe.query.sandbox import Terms
from profframe.query.session import Session
from profframe.query.statement import check_number_of_rows
from profframe.show.frame import frame
from profframe.system.memory_limit import is_memory_error, refusal_message
from profframe.trace.base_trace import BaseTrace
from profframe.workers.calls import Call
from profframe.workers.crew import Crew, On, crew_of
from profframe.workers.gathering import Gathering

Each: TypeAlias = Literal["rank", "run"]
"""What a question is asked of by itself."""

_WORTH_EVENTS: Final = 1_000_000
"""Events of parts that a worker gets at once: a question of fewer is planned as often as asked."""
_EVENT_BYTES: Final = 4_000
"""Memory of a worker for each of these events: no question was seen to need half of it."""
_MOST_PARTS: Final = 512
_SHARES: Final = 4
"""Tasks that each worker gets at least, if they are worth it."""
_LEAST_EVENTS: Final = 10_000
"""Events of a task that take longer to ask than it takes to plan."""
_PLACE: Final = "_place"


@dataclass(frozen=True, slots=True)
class Part:
    """One run, or one rank of a run."""

    run: str
    rank: int | None

    def __str__(self) -> str:
        return f"run {self.run!r}" + ("" if self.rank is None else f", rank {self.rank}")

    def of(self, session: Session) -> Session:
        """The session with this part only."""
        return session.part((self.run,), None if self.rank is None else (self.rank,))


@dataclass(frozen=True, slots=True)
class Progress:
    """Parts that are done, all parts, and the rows so far."""

    parts_done: int
    parts: int
    rows: int


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of some parts, or why one of them has none."""

    parts: tuple[Part, ...]
    rows: pl.DataFrame | None
    error: Exception | None = None


class Question(Protocol):
    """What is asked of each part."""

    @property
    def is_whole(self) -> bool:
        """Whether a question of several parts gives the rows of each."""

    def rows(self, trace: BaseTrace, part: Part | None) -> pl.DataFrame:
        """The rows of one part, or of several."""

    def together(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The rows of all parts, from those of each, by run and rank."""


@dataclass(frozen=True, slots=True)
class AnswerOfParts:
    """An answer, with the parameters of its SELECT."""

    answer: Answer
    parameters: Mapping[str, object]
    unit: Unit

    @property
    def keys(self) -> tuple[Key, ...]:
        """What its rows are sorted by until their part is named."""
        return keys(self.answer, self.unit) if is_shipped(self.answer) else ()

    @property
    def arrangement(self) -> Arrangement:
        """Which rows of the whole are wanted."""
        return divided(self.answer, self.parameters)[0]

    @property
    def is_whole(self) -> bool:
        """Advice replays few runs at once, so it is asked of each by itself."""
        return is_shipped(self.answer) and not isinstance(self.answer, Advice)

    def rows(self, trace: BaseTrace, part: Part | None) -> pl.DataFrame:
        """The first of its rows, if only those are wanted, with what they are sorted by."""
        del part
        session, (arrangement, own) = trace._session, divided(self.answer, self.parameters)  # noqa: SLF001 - of its package
        first = replace(arrangement, columns=())
        if first != Arrangement():
            session = session.unlimited()
        if isinstance(self.answer, Advice):
            findings = _method(type(trace)(session), "answer")(self.answer, **own)
            rows = pl.DataFrame(findings)
        else:
            rows = session.answer(self.answer, own, self.keys)
        if arrangement.top is not None and rows.height > arrangement.top:
            rows = first.of_frame(self.answer.where, pl.DataFrame(rows).with_row_index(_PLACE))
            rows = rows.sort(_PLACE).drop(_PLACE)
        return rows

    def together(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The wanted rows in the order of the answer."""
        return self.arrangement.of_frame(self.answer.where, in_order(parts, self.keys))


@dataclass(frozen=True, slots=True)
class CallOfParts:
    """A method of a trace, one after the other."""

    method: str
    named: Mapping[str, object]

    @property
    def is_whole(self) -> bool:
        """It says nothing of several parts."""
        return False

    def rows(self, trace: BaseTrace, part: Part | None) -> pl.DataFrame:
        """Its rows, with run and rank before them if they do not say them."""
        result = _method(trace, self.method)(**self.named)
        rows = pl.DataFrame(getattr(result, "events", result))
        if part is None:
            return rows
        types = {"run": pl.String, "rank": pl.Int32}
        own = {"run": part.run, **({} if part.rank is None else {"rank": part.rank})}
        missing = [name for name in own if name not in rows.columns]
        return rows.select(*(pl.lit(own[n], types[n]).alias(n) for n in missing), pl.all())

    def together(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """One part after the other."""
        return pl.concat(parts, how="vertical_relaxed")


def _method(trace: BaseTrace, name: str) -> Callable[..., Any]:
    """A method of `Trace`, which is made of functions that use this module."""
    method: Callable[..., Any] = getattr(trace, name)
    return method


@dataclass(frozen=True, slots=True)
class _Task:
    """Parts for a worker, which are all that its trace has."""

    trace: BaseTrace
    parts: tuple[Part, ...]
    question: Question


def _ask(task: _Task) -> list[tuple[tuple[Part, ...], bytes | Exception]]:
    """What a worker does: rows of parts as Arrow IPC, or an error for each that has none."""
    if task.question.is_whole and len(task.parts) > 1:
        with suppress(Exception):  # the question of each part names the one that is at fault
            return [(task.parts, _packed(task.question.rows(task.trace, None)))]
    return [((part,), _of_part(task, part)) for part in task.parts]


def _of_part(task: _Task, part: Part) -> bytes | Exception:
    session = task.trace._session  # noqa: SLF001 - of its package
    try:
        own = session if len(task.parts) == 1 else part.of(session)
        return _packed(task.question.rows(type(task.trace)(own), part))
    except ProfframeError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the others stand
        is_memory = is_memory_error(error)
        name = f"internal: {type(error).__name__}: {error}"
        return ProfframeError(refusal_message() if is_memory else name)


def _packed(rows: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(rows).write_ipc(file, compression="lz4")
    return file.getvalue()


def _unpacked(parts: tuple[Part, ...], result: Any) -> Iterator[PartRows]:
    """What a worker returned, or the error of all parts that it had."""
    if isinstance(result, Exception):
        yield from (PartRows((part,), None, result) for part in parts)
        return
    for some, packed in result:
        if isinstance(packed, Exception):
            yield PartRows(some, None, packed)
        else:
            yield PartRows(some, pl.read_ipc(io.BytesIO(packed)))


@dataclass
class Division:
    """The parts of a trace for one question, and how they are asked."""

    trace: BaseTrace
    question: Question
    unit: Unit
    on: On = None
    progress: Callable[[Progress], None] | None = None

    @cached_property
    def _sizes(self) -> list[tuple[Part, int]]:
        """All parts and their events, by run and rank; counted while workers start."""
        names = list(KEYS_OF[self.unit])
        rows = self.trace._session.sizes().with_columns(  # noqa: SLF001 - of its package
            pl.col("source_events").fill_null(_WORTH_EVENTS)
        )
        by_part = rows.group_by(names, maintain_order=True).agg(pl.col("source_events").sum())
        return [
            (Part(row["run"], row.get("rank")), row["source_events"])
            for row in by_part.iter_rows(named=True)
        ]

    @cached_property
    def places(self) -> dict[Part, int]:
        """All parts and their places, by run and rank."""
        return {part: place for place, (part, _) in enumerate(self._sizes)}

    def results(self) -> Iterator[PartRows]:
        """The rows of parts as they arrive, and errors of those that fail."""
        with crew_of(self.on) as crew:
            yield from self._results(crew)

    def _results(self, crew: Crew) -> Iterator[PartRows]:
        tasks = [*self._shares(crew.number)]

        def make(number: int) -> Call:
            return Call.of(_ask, self._task(tasks[number], crew), crew.threads)

        gathering = Gathering(crew, make, range(len(tasks)))
        done = rows = 0
        self._notify(done, rows)
        for number, result in gathering.results():
            parts = tasks[number]
            if isinstance(result, WorkerDiedError) and len(parts) > 1:
                tasks += [(part,) for part in parts]  # to find the part that it dies of
                gathering.add(range(len(tasks) - len(parts), len(tasks)))
                continue
            for one in _unpacked(parts, result):
                done += len(one.parts)
                rows += 0 if one.rows is None else one.rows.height
                yield one
            self._notify(done, rows)

    def _notify(self, done: int, rows: int) -> None:
        if self.progress is not None:
            self.progress(Progress(done, len(self._sizes), rows))

    def _task(self, parts: tuple[Part, ...], crew: Crew) -> _Task:
        session = self.trace._session  # noqa: SLF001 - of its package
        runs = (*dict.fromkeys(part.run for part in parts),)
        ranks = [part.rank for part in parts if part.rank is not None]
        is_of_ranks = len(runs) == 1 and len(ranks) == len(parts)
        part = session.part(runs, (*ranks,) if is_of_ranks else None)
        if not crew.is_this_process:
            part = part.materialized()
        return _Task(type(self.trace)(part), parts, self.question)

    def _shares(self, workers: int) -> Iterator[tuple[Part, ...]]:
        """Parts for one task each: whole runs, or some ranks of one."""
        most, most_parts = _WORTH_EVENTS, _MOST_PARTS
        if limit := self.trace._session.terms.memory_bytes:  # noqa: SLF001 - of its package
            most = min(most, max(limit // _EVENT_BYTES, _LEAST_EVENTS))
        if workers > 1:
            total = sum(size for _, size in self._sizes)
            most = min(most, max(total // (workers * _SHARES), _LEAST_EVENTS))
            most_parts = min(most_parts, max(1, -(-len(self._sizes) // workers)))
        by_run: dict[str, list[tuple[Part, int]]] = {}
        for part, size in self._sizes:
            by_run.setdefault(part.run, []).append((part, size))
        share: list[Part] = []
        events = 0
        for sized in by_run.values():
            of_run = sum(size for _, size in sized)
            if share and (events + of_run > most or len(share) + len(sized) > most_parts):
                yield (*share,)
                share, events = [], 0
            if not share and (of_run > most or len(sized) > most_parts):
                yield from _split(sized, most, most_parts)
                continue
            share += [part for part, _ in sized]
            events += of_run
        if share:
            yield (*share,)


def _split(
    sized: Sequence[tuple[Part, int]], most: int, most_parts: int
) -> Iterator[tuple[Part, ...]]:
    """The ranks of a run in several shares."""
    share: list[Part] = []
    events = 0
    for part, size in sized:
        if share and (events + size > most or len(share) >= most_parts):
            yield (*share,)
            share, events = [], 0
        share.append(part)
        events += size
    yield (*share,)


def apart(arrived: PartRows, unit: Unit) -> Iterator[tuple[Part, pl.DataFrame]]:
    """The rows of each part, of those that were asked together; none of what has no rows."""
    rows, names = arrived.rows, KEYS_OF[unit]
    if rows is None:
        return
    if len(arrived.parts) == 1:
        yield arrived.parts[0], rows
        return
    by_key = rows.partition_by(names, maintain_order=True, as_dict=True)
    for part in arrived.parts:
        key = (part.run,) if part.rank is None else (part.run, part.rank)
        yield part, by_key.get(key, rows.clear())


def answer_of_parts(
    answer: Answer, parameters: Mapping[str, object], each: object
) -> AnswerOfParts:
    """An answer that is asked of each part, checked.

    Raises
    ------
    ParameterError
        It does not divide by that, or a parameter is wrong.
    """
    unit = check_each(answer, parameters, each)
    values(answer, parameters)
    return AnswerOfParts(answer, parameters, unit)


def calls_of_parts(method: str, named: Mapping[str, object], each: object) -> CallOfParts:
    """A method that is called for each part, checked by what its analysis divides by.

    Raises
    ------
    ParameterError
        It does not divide by that.
    """
    analysis = analyses.find(method)
    if analysis is not None:
        unit = check_unit(method, analysis.division, named, each)
        if (method, unit, named.get("across_ranks")) == ("critical_path", "run", False):
            raise ParameterError("each='run': a path is of one rank, unless it is across_ranks")
    return CallOfParts(method, named)


def asked_of_each(
    trace: BaseTrace, method: str, named: Mapping[str, object], each: object, on: On
) -> pl.DataFrame:
    """The rows of a method that is called for each part, one part after the other."""
    question = calls_of_parts(method, named, each)
    division = Division(trace, question, unit_of(each), on)
    rows = gathered(division, method)
    return frame(question.rows(trace, None) if rows is None else rows)


def gathered(division: Division, what: str, terms: Terms = Terms()) -> pl.DataFrame | None:  # noqa: B008 - immutable
    """The rows of all parts, in the order of the whole; None if there are no parts.

    Raises
    ------
    PartsError
        Some parts failed; it has the rows of the others. If all failed, their first error.
    """
    arrived: dict[Part, pl.DataFrame] = {}
    errors: dict[Part, Exception] = {}
    for one in division.results():
        if one.rows is not None:
            arrived[one.parts[0]] = one.rows
        elif one.error is not None:
            errors[one.parts[0]] = one.error
    places = division.places
    if not places:
        return None
    failed = [(part, errors[part]) for part in places if part in errors]
    if len(failed) == len(places):
        raise failed[0][1]
    rows = division.question.together([arrived[part] for part in places if part in arrived])
    if terms.rows is not None and terms.cut_rows:
        rows = rows.head(terms.rows)
    check_number_of_rows(rows.height, what, terms)
    if failed:
        named = [(part.run, part.rank, error) for part, error in failed]
        raise PartsError(what, named, len(places), rows)
    return rows
