"""Answers about many runs: kept ones first, and only the rest from events."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeVar

import polars as pl
import pyarrow as pa

from profframe.errors import AnswerError, StoreError
from profframe.query import macros
from profframe.query.catalogue import find, resolve
from profframe.query.frames import plain
from profframe.query.header import CONVERT, Answer, sql_directory
from profframe.show.units import plural
from profframe.store import Store, component
from profframe.store.kept.records import MEMBERS
from profframe.store.kept.validity import KeptAnswers
from profframe.trace.base_trace import BaseTrace
from profframe.trace.query import answer
from profframe.trace.trace_tables import table

Value = TypeVar("Value")

ANSWERS: Final = (
    *("runs", "run_samples", "step_times", "time_breakdown", "kernels", "self_times"),
    *("stragglers", "memory_peak", "mfu"),
)
"""Answers that are kept of each run: rows of many runs are those of each of them together."""
INNER: Final = ("lost_calls", "used_devices")
"""The same for questions that `diff` asks besides."""
_ATTEMPTS: Final = 10
_SHOWN: Final = 3
_TYPES: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "VARCHAR": pa.string(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "BIGINT[]": pa.list_(pa.int64()),
    }
)
_MEMBER_TYPES: Final = pa.schema(
    [
        *(("run", pa.string()), ("rank", pa.int32()), ("clock", pa.string())),
        *(("start_ns", pa.int64()), ("format", pa.string()), ("source", pa.string())),
    ]
)


@lru_cache(maxsize=256)
def key_of(question: Answer) -> str:
    """Hash of the SQL of an answer, the macros that it calls, and its columns.

    Examples
    --------
    >>> len(key_of(find("runs"))), key_of(find("runs")) == key_of(find("mfu"))
    (16, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    columns = (f"{column.name} {column.type}" for column in question.columns)
    for text in chain([question.sql], macros.definitions(question.sql).values(), columns):
        digest.update(f"{len(text)}\0{text}".replace("\r\n", "\n").encode())
    return digest.hexdigest()


def question_of(name: str) -> Answer:
    """An answer by its name, one of `INNER`, or one in a file of the user's.

    Examples
    --------
    >>> question_of("used_devices").name
    'used_devices'
    """
    return find(sql_directory() / "file_summaries" / f"{name}.sql" if name in INNER else name)


def types_of(question: Answer, columns: Sequence[str] | None = None) -> pa.Schema | None:
    """Types of columns of an answer, by default all; None if its header does not say."""
    types = {column.name: _TYPES[column.type] for column in question.columns}
    return pa.schema([(name, types[name]) for name in columns or types]) if types else None


class RunAnswers:
    """Answers about the runs of a trace, and about those whose events a store no longer has.

    Rows that are kept for the present events of a run are read, and the rest is computed. Both are
    the same rows, in the same order. Answers with parameters other than their defaults, and those
    about parts of runs, are computed.
    """

    def __init__(self, trace: BaseTrace) -> None:
        self._trace = trace
        self._kept = _kept_of(trace)
        self._rows: dict[object, pl.DataFrame] = {}
        self._read: set[str] = set()
        self._computed: set[str] = set()
        self._older: set[str] = set()
        self._whole = self._retried(self._whole_runs)
        with_events = set() if self._kept is None else self._kept.identities.keys()
        self.history = frozenset(run for run in self._whole if component(run) not in with_events)
        """Runs that have only answers."""

    def traces(self) -> pl.DataFrame:
        """``run rank clock start_ns format source`` of each member, as in `traces`."""
        return self._once("traces", lambda: self._retried(self._traces))

    def answer(
        self,
        name: str,
        runs: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        **parameters: object,
    ) -> pl.DataFrame:
        """Rows of an answer, by run.

        Parameters
        ----------
        name
            An answer of which each run has rows of its own, and which is ordered by run.
        runs
            Runs that are needed; rows of others may be among them. None for all.
        columns
            Columns that are needed; None for all.
        **parameters
            As for `Trace.answer`.

        Raises
        ------
        AnswerError
            The events of a run are needed, and the store no longer has them.
        """
        chosen = None if columns is None else (*columns,)
        key = name, chosen, *sorted((k, str(v)) for k, v in parameters.items())
        needed = self.history if runs is None else self.history & {*runs}
        if self._kept is None or not is_default(name, parameters):
            if needed:
                raise AnswerError(_why_not(name, needed, parameters))
            return self._once(
                key, lambda: self._computed_rows(self._trace, name, chosen, parameters)
            )
        return self._once(
            key, lambda: self._retried(lambda kept: self._rows_of(kept, name, chosen))
        )

    def note(self) -> str | None:
        """Where the rows are from, in a sentence without a full stop; None if from events alone.

        Runs whose kept rows another version of an answer has computed are named.
        """
        if self._kept is None or not self._read:
            return None
        both = self._read | self._computed
        computed = self._computed - self.history
        number = f"{len(both) - len(computed):,} of " if computed else ""
        text = f"answers kept beside the events of {number}{plural(len(both), 'run')} were read"
        if computed:
            text += f", and the events of {len(computed):,}"
        if history := self.history & both:
            verb = "has" if len(history) == 1 else "have"
            text += f"; {plural(len(history), 'run')} {verb} only these"
        if self._older:
            text += f"; another version of profframe computed those of {_shown(self._older)}"
        return text

    def _once(self, key: object, ask: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        if key not in self._rows:
            self._rows[key] = ask()
        return self._rows[key]

    def _whole_runs(self, kept: KeptAnswers) -> frozenset[str]:
        """Runs with kept rows of `traces`, all of whose members are selected."""
        rows = plain(kept.rows(MEMBERS, kept.members(), _MEMBER_TYPES))
        where = self._trace._session.selection.where("traces")  # noqa: SLF001 - own package
        is_chosen = pl.lit(True) if where is None else pl.sql_expr(where).fill_null(False)
        chosen = rows.with_columns(chosen=is_chosen).group_by("run").agg(pl.col("chosen").all())
        return frozenset(chosen.filter("chosen")["run"])

    def _traces(self, kept: KeptAnswers) -> pl.DataFrame:
        chosen = {run: own for run, own in kept.members().items() if run in self._whole}
        rows = plain(kept.rows(MEMBERS, chosen, _MEMBER_TYPES))
        part = self._without(chosen)
        if part is None:
            return rows
        others = pl.DataFrame(table(part, "traces").select(_MEMBER_TYPES.names))
        return pl.concat([rows, others]).sort("run", "rank") if chosen else others

    def _rows_of(self, kept: KeptAnswers, name: str, columns: Sequence[str] | None) -> pl.DataFrame:
        question = question_of(name)
        valid = kept.valid(question.name, key_of(question))
        chosen = {run: record for run, record in valid.items() if run in self._whole}
        lacking = self.history - chosen.keys()
        if lacking:
            raise AnswerError(_why_not(name, lacking, {}))
        rows = plain(kept.rows(question.name, chosen, types_of(question, columns)))
        self._read |= chosen.keys()
        own = key_of(question)
        self._older |= {run for run, r in chosen.items() if r.answers[question.name] != own}
        part = self._without(chosen)
        if part is None:
            return rows
        others = self._computed_rows(part, name, columns, {})
        return pl.concat([rows, others]).sort("run", maintain_order=True) if chosen else others

    def _computed_rows(
        self,
        part: BaseTrace,
        name: str,
        columns: Sequence[str] | None,
        parameters: Mapping[str, object],
    ) -> pl.DataFrame:
        rows: pl.DataFrame = answer(part, question_of(name), **parameters)
        if self._kept is not None:
            self._computed |= set(table(part, "traces")["run"])
        return rows if columns is None else rows.select(columns)

    def _without(self, runs: Collection[str]) -> BaseTrace | None:
        """The trace without some runs, of whose files none is read; None if nothing is left."""
        session = self._trace._session  # noqa: SLF001 - of the trace's own package
        source = session.source
        if not runs or not isinstance(source, Store):
            return self._trace
        others = {component(run) for run in runs}
        rest = [place for place in source.places if any(n not in others for n, _ in place.names)]
        names = {run for place in rest for run, _ in place.keys if component(run) not in others}
        if not names:
            return None
        selection = session.selection.runs((*sorted(names),))
        part = session.with_source(source.only(names, None)).with_selection(selection)
        return type(self._trace)(part)

    def _retried(self, ask: Callable[[KeptAnswers], Value]) -> Value:
        """The result of ``ask``, repeated if kept answers were folded meanwhile."""
        for attempt in reversed(range(_ATTEMPTS)):
            kept = self._kept or KeptAnswers.none()
            try:
                return ask(kept)
            except StoreError:
                if not attempt or kept.is_there():
                    raise
                self._kept = _kept_of(self._trace)
        raise AssertionError


def is_default(name: str, parameters: Mapping[str, object]) -> bool:
    """Whether all parameters of an answer have their defaults.

    Examples
    --------
    >>> is_default("runs", {"per_step": 0}), is_default("run_samples", {"per": "step"})
    (True, False)
    """
    question, given = resolve(question_of(name), parameters)
    if question.choice is not None:
        return False
    defaults = {p.name: (p.type, p.default) for p in question.parameters}
    return all(
        value is None or (key in defaults and _converted(value, *defaults[key]))
        for key, value in given.items()
    )


def _converted(value: object, type_: str, default: object) -> bool:
    try:
        return bool(CONVERT[type_](value) == default)
    except (TypeError, ValueError):
        return False


def _kept_of(trace: BaseTrace) -> KeptAnswers | None:
    """What a store keeps; None of other traces, of parts of runs, and if there is nothing."""
    session = trace._session  # noqa: SLF001 - of the trace's own package
    source = session.source
    if not isinstance(source, Store) or not session.selection.is_of_traces:
        return None
    kept = KeptAnswers.of(source.path, source.places)
    return kept if kept.records else None


def _shown(runs: Collection[str]) -> str:
    more = ", ..." if len(runs) > _SHOWN else ""
    return ", ".join(repr(run) for run in sorted(runs)[:_SHOWN]) + more


def _why_not(name: str, runs: Collection[str], parameters: Mapping[str, object]) -> str:
    """Why runs without events have no answer."""
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items() if value is not None)
    what = f"{name} with {given}" if given else name
    return (
        f"{what} needs events, and the store has only kept answers of {plural(len(runs), 'run')}"
        f" ({_shown(runs)}): `profframe store rm --keep-answers` removed their events; choose other"
        " runs, or convert their traces again"
    )
