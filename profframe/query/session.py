"""Query sessions: the rows of a trace, and DuckDB to query them.

Every question of a `Trace` goes through a `Session`, which asks the `Database` of its rows.
Sessions over the same rows share a database, and so do all sessions over the same store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import AnswerError, ProfframeError, StoreError, UnknownNameError
from profframe.query import macros
from profframe.query.catalogue import columns_named, is_shipped, reads
from profframe.query.database import Database, database_of
from profframe.query.division import Key
from profframe.query.filtered_replays import with_remaining_replays
from profframe.query.frames import SELECTION_COLUMNS, frame, plain, selected
from profframe.query.header import Answer
from profframe.query.plans import NO_TABLES, PLANS, Question, Tables, are_kept, are_small
from profframe.query.run import answered, on, query, run
from profframe.query.sandbox import Terms
from profframe.query.selection import (
    Integers,
    Numbers,
    Selection,
    Text,
    Window,
    among,
    check_numbers,
    check_texts,
    integers,
    numbers,
    texts,
)
from profframe.query.sources import (
    IN_EACH_TRACE,
    Columns,
    InMemory,
    Overlay,
    Source,
    TableRows,
    tables_for,
)
from profframe.system.forks import check_threads
from profframe.system.interrupts import stopping

Value = TypeVar("Value")

_ATTEMPTS: Final = 10
_THREADS: Final = 4
"""Most threads that ask at once."""
_TABLE_OF: Final[Mapping[str, str]] = {
    "steps": "profiler_steps",
    "memory": "memory",
    "instants": "instants",
    "counters": "counters",
    "allocations": "allocations",
    "history": "allocator_events",
    "segments": "segments",
    "nodes": "nodes",
    "compiled_kernels": "compiled_kernels",
}
"""Tables that have rows where a trace has what `recorded:` of a header names, and only there."""
_WORK: Final = frozenset(schema.DEVICE_KINDS)
_KINDS_OF: Final[Mapping[str, frozenset[str]]] = {
    "device_work": _WORK,
    "known_work": _WORK,
    "kernels": _WORK,  # an answer may have copies as well, where that is asked for
    "communication": frozenset({"kernel"}),
    "copies": _WORK - {"kernel"},
    "calls": frozenset(schema.LAUNCH_KINDS),
}
"""Kinds of slices without which a trace does not have what `recorded:` names."""
_COLUMN_OF: Final[Mapping[str, str]] = {
    "launches": "launch_id",
    "graphs": "graph_position",
    "phases": "phase_id",
}
"""Columns of slices without values in a trace that does not have it."""
_SQL_ERRORS: Final = (
    ProfframeError,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.InterruptException,
    duckdb.NotImplementedException,
    duckdb.OutOfMemoryException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.PermissionException,
    duckdb.SyntaxException,
    duckdb.TypeMismatchException,
)
"""Errors that the SQL causes, whatever the rows are."""
_FATAL: Final = (duckdb.FatalException, duckdb.InternalException)
"""Faults of DuckDB itself."""


class Answers:
    """Answers by question, shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[object, Future[Any]] = {}

    def once(self, question: object, ask: Callable[[], Value]) -> Value:
        """The answer to a question; ``ask`` runs only for the first thread that needs it."""
        with self._lock:
            is_new = question not in self._answers
            answer = self._answers.setdefault(question, Future())
        if is_new:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)
                raise
        value: Value = answer.result()
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """The rows of a trace, and the means to query them; immutable.

    Attributes
    ----------
    source
        Where the rows are: in memory, in a store, or some in place of others.
    selection
        Which of them to use.
    terms
        What a question may read beside them, and its limits.
    database
        DuckDB over the source on these terms.
    answers
        Answers so far; None to keep none.
    full
        The session before any filter; None if there was none.
    parent
        The same session outside a `with` block that keeps answers; None if it is not in one.
    """

    source: Source
    selection: Selection
    terms: Terms
    database: Database
    answers: Answers | None = None
    full: Session | None = None
    parent: Session | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        selection: Selection | None = None,
        terms: Terms | None = None,
        whole: Session | None = None,
    ) -> Session:
        """A session over the rows of a source; by default all of them."""
        terms = terms or Terms()
        database = database_of(source, terms)
        return cls(source, selection or Selection(), terms, database, full=whole)

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Session], tuple[Source, Selection, Terms, Session | None]]:
        return Session.of, (self.source, self.selection, self.terms, self.full)

    def with_source(self, source: Source) -> Session:
        """The session over another source."""
        if source is self.source:
            return self
        return Session.of(source, self.selection, self.terms, self.full)

    def with_terms(self, terms: Terms) -> Session:
        """The session with other terms: files, tables and limits of questions."""
        if terms.shares_connection(self.terms):
            return replace(self, terms=terms)
        return Session.of(self.source, self.selection, terms, self.full)

    def unlimited(self) -> Session:
        """The session without a row limit, for profframe's own questions."""
        return self.with_terms(replace(self.terms, rows=None))

    def with_selection(self, selection: Selection) -> Session:
        """The session with another selection of the source's rows."""
        if selection == self.selection:
            return self
        if self.answers is None:
            return replace(self, selection=selection)
        # kept answers are of other rows
        return Session.of(self.source, selection, self.terms, self.full)

    def unshared(self) -> Session:
        """The session without the shared cache, usable after the block ends."""
        return self if self.parent is None else self.parent.with_terms(self.terms)

    def unfiltered(self) -> Session | None:
        """The session before any filter and without a row limit; None if it is not filtered."""
        if self.full is None:
            return None
        return self.full.with_terms(replace(self.terms, rows=None))

    @property
    def keeps_plans(self) -> bool:
        """Whether query plans are cached: only for rows in memory."""
        return self.source.held({}) is not None

    @property
    def in_steps(self) -> bool:
        """Whether advice is asked in steps, whose rows no limit of memory counts.

        With a memory limit, only advice about few rows is: of more, one SELECT is asked, which can
        spill to disk.
        """
        if self.terms.memory_limit is None:
            return self.keeps_plans
        held = self.source.held({"events": frozenset()})
        return held is not None and are_small(held)

    @property
    def threads(self) -> int:
        """How many threads should ask at once: one if a question takes all cores itself."""
        held = self.source.held({"events": frozenset()})
        return 1 if held is None or not are_kept(held) else min(_THREADS, os.cpu_count() or 1)

    @contextmanager
    def cached(self, at_once: int = 1) -> Iterator[Session]:
        """The session with a cache of answers and their shared steps, for a block.

        Parameters
        ----------
        at_once
            Number of threads that ask at the same time: each takes a part of the work.
        """
        if self.answers is not None:
            yield self
            return
        answers = Answers()
        database = Database(self.source, self.terms, answers.once, at_once)
        try:
            with stopping(database.interrupt):
                yield replace(self, database=database, answers=answers, parent=self)
        finally:
            database.close()

    def once(self, question: object, ask: Callable[[], Value]) -> Value:
        """The answer to a question; kept if the session keeps answers."""
        return ask() if self.answers is None else self.answers.once(question, ask)

    def cache_last(self, what: str, key: object, compute: Callable[[], Value]) -> Value:
        """Cache of one value per name; recomputed when the key changes.

        It is for values that take long to compute and that several questions in a row need.
        ``compute`` must depend on nothing but the rows and the key. A session that keeps answers
        keeps the values of all keys.
        """
        if self.answers is not None:
            return self.once((what, key), compute)
        return self.database.cache_last(what, (self.selection, key), compute)

    def scan(self, table: str, columns: Columns = None) -> pl.LazyFrame:
        """The rows of a table of the schema; of a store, only what a query needs is read.

        Of rows in memory, only these ``columns`` are converted; without them all are, and kept.

        Raises
        ------
        UnknownNameError
            There is no such table; the message suggests the nearest.
        """
        check_threads()
        if table not in schema.TABLES:
            raise UnknownNameError.among("table", table, schema.TABLES)
        where = self.selection.where(table)
        rows = self.source.scan(table, _with_selected(TableRows(columns, where)))
        return rows if where is None else rows.filter(pl.sql_expr(where))

    def rows(self, table: str) -> pl.DataFrame:
        """The rows of a table, text as plain String."""
        return self._retried(lambda session: session.scan(table).collect())

    def sizes(self) -> pl.DataFrame:
        """``run rank source_events`` of each trace, by run and rank."""
        where = self.selection.where("traces")

        def read(session: Session) -> pl.DataFrame:
            rows = session.source.sizes()
            rows = rows if where is None else rows.filter(pl.sql_expr(where))
            return rows.select("run", "rank", "source_events").collect()

        rows = self._retried(read)
        return rows.sort("run", "rank", maintain_order=True).unique(
            ["run", "rank"], maintain_order=True
        )

    def table(self, name: str) -> pa.Table:
        """The rows of a table as Arrow, in the schema's types."""
        where = self.selection.where(name)

        def read(session: Session) -> pa.Table:
            parts = session.source.parts(name)
            return pa.concat_tables(
                parts if where is None else (selected(part, where) for part in parts)
            )

        return self._retried(read)

    def answer(
        self, answer: Answer, parameters: Mapping[str, object], keys: Sequence[Key] = ()
    ) -> pl.DataFrame:
        """The rows of an answer; errors are those of `profframe.query.run.run`.

        ``keys`` become columns, as of `profframe.query.run.answered`.
        """
        if is_shipped(answer):
            rows = answered(
                self.select,
                answer,
                parameters,
                self.terms,
                in_steps=self.in_steps,
                keys=keys,
                lacks=self._lacks,
            )
            return plain(rows)
        return self.ask(lambda c: frame(run(c, answer, parameters, self.terms)), reads(answer))

    def _lacks(self, answer: Answer) -> bool:
        """Whether it is known, without a question, that an answer has no rows."""
        return any(all(map(self._has_no, group)) for group in answer.recorded)

    def _has_no(self, what: str) -> bool:
        """Whether it is known that the trace does not have what `recorded:` names."""
        if what in _KINDS_OF:
            held = self.source.held({"events": frozenset({"kind"})}) if self.keeps_plans else None
            return held is not None and _KINDS_OF[what].isdisjoint(
                pc.unique(held["events"]["kind"]).to_pylist()
            )
        if what in _COLUMN_OF:
            return self.lacks("events", _COLUMN_OF[what])
        return what in _TABLE_OF and self.are_empty([_TABLE_OF[what]])

    def are_empty(self, tables: Iterable[str]) -> bool:
        """Whether it is known, without a question, that tables have no rows."""
        held = self.source.held(dict.fromkeys(tables)) if self.keeps_plans else None
        return held is not None and not any(rows.num_rows for rows in held.values())

    def lacks(self, table: str, column: str) -> bool:
        """Whether it is known, without a question, that a column of a table has no values."""
        held = self.source.held({table: frozenset({column})}) if self.keeps_plans else None
        return held is not None and held[table][column].null_count == held[table].num_rows

    def sql(self, text: str) -> pl.DataFrame:
        """The rows of one SELECT; errors are those of `profframe.query.run.query`."""
        views = tables_for("".join([text, *macros.definitions(text).values()]))
        return self.ask(lambda c: frame(query(c, text, terms=self.terms)), views)

    def select(
        self,
        sql: str,
        views: Mapping[str, Columns] | None = None,
        given: Tables = NO_TABLES,
        *,
        without: str = "",
    ) -> pa.Table:
        """The rows of a SELECT of profframe's own; parameters are those of `run.Select`.

        If the rows of the trace are in memory, the plan is kept for the next trace.
        """
        needed = columns_named(sql) if views is None else views
        steps = () if self.answers is None else macros.steps_of(sql)
        return self._retried(
            lambda session: session._selected(sql, needed, given, without, steps)  # noqa: SLF001
        )

    def _selected(
        self,
        sql: str,
        views: Mapping[str, Columns],
        given: Tables,
        without: str,
        steps: tuple[str, ...],
    ) -> pa.Table:
        parts = {
            name: TableRows(columns, self.selection.where(name)) for name, columns in views.items()
        }
        needed = {name: _with_selected(part) for name, part in parts.items()}
        held = self.source.held(needed) if self.keeps_plans else None
        if held is None:
            return self.ask(lambda c: on(c)(sql, views, given, without=without), views)
        kept = {macros.kept(name): self._step(name) for name in steps}
        tables = {**held, **kept, **given}
        question = Question(sql, (*parts.items(),), steps)
        with (
            PLANS.lease(question, tables, self.terms.memory_limit) as plan,
            self.database.running(plan.cursor),
            self._guarded(lambda: plan.cursor),
        ):
            return plan.answer(tables)

    def _step(self, name: str) -> pa.Table:
        """The rows of a step that answers share, computed once."""
        sql = f"FROM {name}(events)"
        views, inner = columns_named(sql), macros.steps_within(name)
        return self.once(("step", name), lambda: self._selected(sql, views, NO_TABLES, "", inner))

    @contextmanager
    def connection(
        self, views: Mapping[str, Columns] = IN_EACH_TRACE
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor with a view per table, for a block of profframe's own SQL."""
        held = self.source.held(dict.fromkeys(views)) if self.keeps_plans else None
        new = self.database.new_cursor
        if held is not None:
            new = partial(PLANS.cursor, held, self.terms.memory_limit)
        with self._guarded(new) as cursor, cursor, self.database.running(cursor):
            for table, columns in views.items():
                self.source.view(cursor, table, TableRows(columns, self.selection.where(table)))
            yield cursor

    def filter(
        self,
        *,
        steps: Numbers | None = None,
        ranks: Numbers | None = None,
        runs: Text | None = None,
        kinds: Text | None = None,
        phases: Text | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Session:
        """The session with fewer rows; see `Trace.filter`."""
        selection, source = self.selection, self.source
        if runs is not None:
            names = texts("runs", runs)
            check_texts("run", names, self.sizes()["run"])
            selection, source = selection.runs(names), source.only(names, None)
        if ranks is not None:
            numbers_of = integers("ranks", ranks)
            check_numbers("rank", numbers_of, self.sizes()["rank"])
            selection, source = selection.ranks(numbers_of), source.only(None, numbers_of)
        if kinds is not None:
            names = texts("kinds", kinds)
            self._check_kinds(names)
            selection = selection.kinds(names)
        if steps is not None:
            numbers_of = integers("steps", steps)
            selection = selection.steps(numbers_of, self._windows(source, selection, numbers_of))
        if phases is not None:
            names = texts("phases", phases)
            selection = selection.phases(names, self._phase_windows(source, selection, names))
        part = self.with_source(source).with_selection(selection.time(start_ns, end_ns))
        if part is not self:
            part = replace(part, full=self.unshared() if self.full is None else self.full)
        is_whole = all(part_of is None for part_of in (steps, phases, start_ns, end_ns))
        return part if is_whole else _remaining(part)

    def part(self, runs: tuple[str, ...], ranks: tuple[int, ...] | None) -> Session:
        """The session with some of its runs and ranks only, which are there.

        It knows nothing of the rest, so that it can be sent to another process.
        """
        selection, source = self.selection.runs(runs), self.source.only(runs, None)
        if ranks is not None:
            selection, source = selection.ranks(ranks), source.only(None, ranks)
        part = self.unshared().with_source(source).with_selection(selection)
        return replace(part, full=None)

    def materialized(self) -> Session:
        """The session with no other rows than its own, if they are in memory."""
        if self.source.held({}) is None:
            return self
        tables = {name: self.table(name) for name in schema.TABLES}
        return Session.of(InMemory(tables), terms=self.terms)

    def _check_kinds(self, kinds: tuple[str, ...]) -> None:
        if not set(kinds) <= set(schema.KINDS):
            present = self.select("SELECT DISTINCT kind FROM events")["kind"].to_pylist()
            check_texts("kind", kinds, {*schema.KINDS, *present})

    def _windows(self, source: Source, selection: Selection, steps: Integers) -> list[Window]:
        """Windows of some steps of the traces that are selected."""
        of_traces = self.with_source(source).with_selection(selection.of_traces()).unlimited()
        rows = of_traces.scan("profiler_steps").drop_nulls("start_ns").collect()
        check_numbers("step", steps, rows["step"])
        end = pl.col("start_ns") + pl.col("host_ns")
        return (
            rows.filter(pl.sql_expr(numbers("step", steps)))
            .select("run", "rank", "start_ns", end.alias("end_ns"))
            .rows()
        )

    def _phase_windows(
        self, source: Source, selection: Selection, phases: tuple[str, ...]
    ) -> list[Window]:
        """Windows of the occurrences of some phases of the traces that are selected."""
        of_traces = self.with_source(source).with_selection(selection.of_traces()).unlimited()
        rows = plain(
            of_traces.select(
                "SELECT inference_phase AS phase, run, rank, start_ns, start_ns + dur_ns AS end_ns "
                "FROM events WHERE phase_id = event_id AND inference_phase IS NOT NULL "
                "ORDER BY run, rank, start_ns"
            )
        )
        if phases and rows.is_empty():
            raise UnknownNameError(f"no phase {phases[0]!r}; the trace has no inference phases")
        check_texts("phase", phases, rows["phase"])
        return rows.filter(pl.sql_expr(among("phase", phases))).drop("phase").rows()

    def ask(
        self, question: Callable[[duckdb.DuckDBPyConnection], Value], views: Mapping[str, Columns]
    ) -> Value:
        """The reply to a question, with the cursor of this thread."""

        def ask(session: Session) -> Value:
            try:
                with session._guarded(session.database.cursor) as connection:
                    session.database.view(session.selection, views)
                    return question(connection)
            except BaseException as error:
                session.database.drop_cursor()
                if any(isinstance(cause, _FATAL) for cause in _causes(error)):
                    session.database.close()  # DuckDB refuses all questions after such an error
                raise

        return self._retried(ask)

    def _retried(self, ask: Callable[[Session], Value]) -> Value:
        """The result of ``ask``, repeated if files were packed or rewritten meanwhile."""
        check_threads()
        session = self
        for _ in range(_ATTEMPTS):
            try:
                return ask(session)
            except StoreError:
                successor = session.source.successor()
                if successor is None:
                    session.source.check()
                    raise
                session = session.with_source(successor)
        return ask(session)

    @contextmanager
    def _guarded(
        self, cursor: Callable[[], duckdb.DuckDBPyConnection]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that Ctrl-C and the timeout stop; an error may turn out to be of the files."""
        is_late = None
        check_threads()
        try:
            connection = cursor()
            with stopping(connection.interrupt, self.terms.timeout_s) as is_late:
                yield connection
        except duckdb.InterruptException as error:
            raise self._stopped(is_late) from error
        except Exception as error:
            if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from error
            is_of_sql = all(isinstance(cause, _SQL_ERRORS) for cause in _causes(error))
            self.source.check(thorough=not is_of_sql)
            raise

    def _stopped(self, is_late: threading.Event | None) -> BaseException:
        """The error of a question that was interrupted."""
        if is_late is None or not is_late.is_set():
            return KeyboardInterrupt()
        return AnswerError(
            f"the question took longer than the limit of {self.terms.timeout_s:g} s (timeout_s=, "
            "--timeout)"
        )


def _remaining(part: Session) -> Session:
    """A part of a trace where captured ops count the replays that are left."""
    if not part.select("SELECT count(replays) > 0 AS any FROM events")["any"][0].as_py():
        return part
    rows = with_remaining_replays(part.table("events"))
    return part.with_source(Overlay(part.source, "events", rows))


def _with_selected(part: TableRows) -> Columns:
    """Columns that a part of a table needs, those of its condition too."""
    if part.where is None or part.columns is None:
        return part.columns
    return part.columns | SELECTION_COLUMNS


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
