"""One query session: the rows of a trace, and DuckDB to ask about them.

Every question of a `Trace` goes through a `Session`. What it needs of DuckDB is opened by the first
question and stays open: the database, a cursor for each thread, the views of the tables and the
macros on it. Sessions over the same rows share it, and so do all that open the same store.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import duckdb
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.errors import AnswerError, ProfframeError, StoreError, UnknownNameError
from profframe.query import macros
from profframe.query.answering import find, query, reads, run
from profframe.query.closed import Terms, connect
from profframe.query.header import Answer
from profframe.query.result import chosen, frame
from profframe.query.selection import (
    Integers,
    Numbers,
    Selection,
    Text,
    Window,
    check_numbers,
    check_texts,
    integers,
    numbers,
    texts,
)
from profframe.query.sources import ALL_TABLES, Columns, Part, Source
from profframe.system.interrupts import stopping

Value = TypeVar("Value")

_ATTEMPTS: Final = 10
_MOST_OPEN: Final = 8
"""Databases of a process that stay open: each has threads of its own."""
_OF_THE_QUESTION: Final = (
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
"""Errors that SQL is the cause of, whatever the rows are."""


class _Thread(threading.local):
    """The cursor that a thread asks with."""

    cursor: duckdb.DuckDBPyConnection | None = None
    views: dict[str, Part]


class Database:
    """DuckDB over the rows of a source, closed to all else; opened when it is first needed.

    Parameters
    ----------
    source
        Where the rows are.
    terms
        What questions are given beside the rows, and how much they may take.
    once
        Has each step that questions share done once, and kept; None to keep nothing.
    """

    def __init__(self, source: Source, terms: Terms, once: macros.Once | None = None) -> None:
        self._source = source
        self._terms = terms
        self._once = once
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._thread = _Thread()
        self._cursors = weakref.WeakSet[duckdb.DuckDBPyConnection]()

    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection that cursors are made of."""
        with self._lock:
            if self._connection is not None:
                return self._connection
            made = self._connection = connect(self._terms, self._source.paths(schema.TABLES))
        _OPEN.add(self)
        return made

    def cursor(
        self, selection: Selection, views: Mapping[str, Columns]
    ) -> duckdb.DuckDBPyConnection:
        """The cursor of this thread, with views of some columns of the selected rows."""
        own = self._thread
        if own.cursor is None:
            own.cursor, own.views = self.new_cursor(), {}
        for table, columns in views.items():
            part = Part(columns, selection.where(table))
            if own.views.get(table) != part:
                self._source.view(own.cursor, table, part)
                own.views[table] = part
        return own.cursor

    def drop_cursor(self) -> None:
        """Have the thread ask with a new cursor, after an error that may have left something."""
        self._thread.cursor = None

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor without views."""
        connection = self.connection()
        cursor = connection.cursor()
        self._cursors.add(cursor)
        with suppress(duckdb.InvalidInputException):  # a notebook without widgets has none
            cursor.execute("SET enable_progress_bar = false")
        if self._once is not None:
            macros.keep(cursor, partial(_once_of, self._once, weakref.ref(connection)))
        self._terms.hand_over(cursor)
        return cursor

    def interrupt(self) -> None:
        """Stop what any thread is asking."""
        for cursor in [*self._cursors]:
            cursor.interrupt()

    def close(self) -> None:
        """Let go of DuckDB; a question that is being asked keeps it until its end."""
        with self._lock:
            self._forget()

    def leave(self) -> object:
        """In the child of a fork: forget what has threads only in the parent, and give it back."""
        left = self._connection, self._thread, self._cursors
        self._lock = threading.Lock()
        self._forget()
        return left


def _once_of(
    once: macros.Once, connection: object, step: object, make: Callable[[], None]
) -> object:
    """Do a step once for each connection: what it keeps is gone with its connection."""
    return once((connection, step), make)


class _Open:
    """The databases that are open in this process, and those of stores, which are shared."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[weakref.ref[Database]] = []
        self._of_stores = OrderedDict[Hashable, Database]()
        self._left: list[object] = []

    def add(self, database: Database) -> None:
        """Keep it open, and close what was opened long before it."""
        with self._lock:
            before = [one for one in self._alive() if one is not database]
            alive = [*before, database]
            self._open = [weakref.ref(one) for one in alive[-_MOST_OPEN:]]
        for one in alive[:-_MOST_OPEN]:
            one.close()

    def _alive(self) -> list[Database]:
        return [one for ref in self._open if (one := ref()) is not None]

    def of(self, source: Source, terms: Terms) -> Database:
        """The database of a source; all who open the same files get the same one."""
        identity = source.identity()
        if identity is None or terms.tables:
            return Database(source, terms)
        key = identity, terms.files, terms.memory_limit
        with self._lock:
            database = self._of_stores.pop(key, None) or Database(source, terms)
            self._of_stores[key] = database
            while len(self._of_stores) > _MOST_OPEN:
                self._of_stores.popitem(last=False)
        return database

    def after_fork(self) -> None:
        """In the child: DuckDB's threads are gone, and closing it would wait for them."""
        self._lock = threading.RLock()
        self._left += [database.leave() for database in self._alive()]
        self._open = []


_OPEN: Final = _Open()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.after_fork)


class Answers:
    """Answers to questions that have been asked, by any thread, each of them once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[object, Future[Any]] = {}

    def once(self, question: object, ask: Callable[[], Value]) -> Value:
        """The answer to a question; asked only where nobody has asked it before."""
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
    """The rows of a trace, and the means to ask about them; nothing of it changes what is answered.

    Attributes
    ----------
    source
        Where the rows are: in memory, in a store, or some in place of others.
    selection
        Which of them count.
    terms
        What a question is given beside them, and how much it may take.
    database
        DuckDB over the source on these terms.
    answers
        What has been asked and answered; None where that is not kept.
    """

    source: Source
    selection: Selection
    terms: Terms
    database: Database
    answers: Answers | None = None

    @classmethod
    def of(
        cls, source: Source, selection: Selection | None = None, terms: Terms | None = None
    ) -> Session:
        """A session over the rows of a source; all of them, if no selection is given."""
        terms = terms or Terms()
        return cls(source, selection or Selection(), terms, _OPEN.of(source, terms))

    def __reduce__(self) -> tuple[Callable[..., Session], tuple[Source, Selection, Terms]]:
        return Session.of, (self.source, self.selection, self.terms)

    def on(self, source: Source) -> Session:
        """The same over other rows."""
        return self if source is self.source else Session.of(source, self.selection, self.terms)

    def under(self, terms: Terms) -> Session:
        """The same on other terms."""
        if terms.is_asked_like(self.terms):
            return replace(self, terms=terms)
        return Session.of(self.source, self.selection, terms)

    def unlimited(self) -> Session:
        """The same for what profframe asks on its way, whose rows nobody has limited."""
        return self.under(replace(self.terms, rows=None))

    def selecting(self, selection: Selection) -> Session:
        """The same with other rows of the source."""
        if selection == self.selection:
            return self
        if self.answers is None:
            return replace(self, selection=selection)
        return Session.of(self.source, selection, self.terms)  # what is kept is of the other rows

    @contextmanager
    def remembering(self, at_once: int = 1) -> Iterator[Session]:
        """The same, which asks nothing twice, nor what questions share; for a block.

        Parameters
        ----------
        at_once
            Threads that ask at the same time, if they do: each does a part of the work itself.
        """
        if self.answers is not None:
            yield self
            return
        answers = Answers()
        database = Database(self.source, self.terms, answers.once)
        connection = database.connection()
        [(threads,)] = connection.execute("SELECT current_setting('threads')").fetchall()
        connection.execute(f"SET external_threads = {min(at_once, threads)}")
        try:
            with stopping(database.interrupt):
                yield replace(self, database=database, answers=answers)
        finally:
            database.close()

    def once(self, question: object, ask: Callable[[], Value]) -> Value:
        """The answer to a question, which is kept where answers are."""
        return ask() if self.answers is None else self.answers.once(question, ask)

    def scan(self, table: str) -> pl.LazyFrame:
        """The rows of a table of the schema; of a store, only what a query needs is read.

        Raises
        ------
        UnknownNameError
            There is no such table; the message suggests the nearest.
        """
        if table not in schema.TABLES:
            raise UnknownNameError.among("table", table, schema.TABLES)
        rows, where = self.source.scan(table), self.selection.where(table)
        return rows if where is None else rows.filter(pl.sql_expr(where))

    def rows(self, table: str) -> pl.DataFrame:
        """The rows of a table, text as plain String."""
        return self._retried(lambda session: session.scan(table).collect())

    def table(self, name: str) -> pa.Table:
        """The rows of a table as Arrow, in the schema's types."""
        where = self.selection.where(name)

        def read(session: Session) -> pa.Table:
            parts = session.source.parts(name)
            return pa.concat_tables(
                parts if where is None else (chosen(part, where) for part in parts)
            )

        return self._retried(read)

    def answer(self, answer: Answer, parameters: Mapping[str, object]) -> pl.DataFrame:
        """The rows of an answer; errors are those of `profframe.query.answering.run`."""
        return self._ask(lambda c: frame(run(c, answer, parameters, self.terms)), reads(answer))

    def sql(self, text: str) -> pl.DataFrame:
        """The rows of one SELECT; errors are those of `profframe.query.answering.query`."""
        return self._ask(lambda c: frame(query(c, text, terms=self.terms)), ALL_TABLES)

    @contextmanager
    def connection(
        self, views: Mapping[str, Columns] = ALL_TABLES
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor with a view per table, for a block of SQL of our own."""
        with self._guarded(self.database.new_cursor) as cursor, cursor:
            for table, columns in views.items():
                self.source.view(cursor, table, Part(columns, self.selection.where(table)))
            yield cursor

    def filter(
        self,
        *,
        steps: Numbers | None = None,
        ranks: Numbers | None = None,
        runs: Text | None = None,
        kinds: Text | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Session:
        """Some of the rows; see `Trace.filter`."""
        selection, source = self.selection, self.source
        if runs is not None:
            names = texts("runs", runs)
            check_texts("run", names, self.rows("traces")["run"])
            selection, source = selection.runs(names), source.only(names, None)
        if ranks is not None:
            numbers_of = integers("ranks", ranks)
            check_numbers("rank", numbers_of, self.rows("traces")["rank"])
            selection, source = selection.ranks(numbers_of), source.only(None, numbers_of)
        if kinds is not None:
            names = texts("kinds", kinds)
            self._check_kinds(names)
            selection = selection.kinds(names)
        if steps is not None:
            numbers_of = integers("steps", steps)
            selection = selection.steps(numbers_of, self._windows(source, selection, numbers_of))
        return self.on(source).selecting(selection.time(start_ns, end_ns))

    def _check_kinds(self, kinds: tuple[str, ...]) -> None:
        if not set(kinds) <= set(schema.KINDS):
            own = self.unlimited().sql("SELECT DISTINCT kind FROM events")["kind"]
            check_texts("kind", kinds, {*schema.KINDS, *own})

    def _windows(self, source: Source, selection: Selection, steps: Integers) -> list[Window]:
        """Windows of some steps of the traces that are selected."""
        of_traces = self.on(source).selecting(selection.of_traces()).unlimited()
        rows = of_traces.answer(find("steps"), {}).drop_nulls(["step", "start_ns"])
        check_numbers("step", steps, rows["step"])
        end = pl.col("start_ns") + pl.col("dur_ns")
        return (
            rows.filter(pl.sql_expr(numbers("step", steps)))
            .select("run", "rank", "start_ns", end.alias("end_ns"))
            .rows()
        )

    def _ask(
        self,
        question: Callable[[duckdb.DuckDBPyConnection], pl.DataFrame],
        views: Mapping[str, Columns],
    ) -> pl.DataFrame:
        """What a question gives, asked with the cursor of this thread."""

        def ask(session: Session) -> pl.DataFrame:
            try:
                cursor = partial(session.database.cursor, session.selection, views)
                with session._guarded(cursor) as connection:
                    return question(connection)
            except BaseException:
                session.database.drop_cursor()
                raise

        return self._retried(ask)

    def _retried(self, ask: Callable[[Session], Value]) -> Value:
        """What is asked for; asked again where files were packed or written again meanwhile."""
        session = self
        for _ in range(_ATTEMPTS):
            try:
                return ask(session)
            except StoreError:
                moved = session.source.again()
                if moved is None:
                    session.source.check()
                    raise
                session = session.on(moved)
        return ask(session)

    @contextmanager
    def _guarded(
        self, cursor: Callable[[], duckdb.DuckDBPyConnection]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that Ctrl-C and the limit of time stop, and whose errors say what they are."""
        is_late = None
        try:
            connection = cursor()
            with stopping(connection.interrupt, self.terms.timeout_s) as is_late:
                yield connection
        except duckdb.InterruptException as error:
            raise self._stopped(is_late) from error
        except Exception as error:
            if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from error
            is_of_question = all(isinstance(one, _OF_THE_QUESTION) for one in _causes(error))
            self.source.check(thorough=not is_of_question)
            raise

    def _stopped(self, is_late: threading.Event | None) -> BaseException:
        """What a question ends in that was stopped from outside."""
        if is_late is None or not is_late.is_set():
            return KeyboardInterrupt()
        return AnswerError(
            f"the question took more than the {self.terms.timeout_s:g} s that it may "
            "(timeout_s=, --timeout)"
        )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it was raised of."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
