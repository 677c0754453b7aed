"""The tables of one or many traces, frozen: which rows they have, and how SQL reaches them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import NoReturn, Self, TypeVar

import duckdb
import polars as pl
import pyarrow as pa

from profframe import schema, store
from profframe.errors import AnswerError, StoreError, UnknownNameError
from profframe.facts.devices import matched
from profframe.facts.models import Devices, models
from profframe.query.answering import find, reads, run
from profframe.query.answering import query as run_query
from profframe.query.closed import Paths, Terms, connect, own_files, own_tables
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
from profframe.query.sources import (
    Beside,
    Columns,
    Conversation,
    InMemory,
    Part,
    Source,
    blame,
    hide_progress,
)
from profframe.show.columns import KEYS, MOMENTS
from profframe.show.frame import Frame
from profframe.show.frame import frame as shown
from profframe.system.interrupts import stopping

Found = TypeVar("Found")

_ATTEMPTS = 10
_NO_DOCS: Mapping[str, str] = MappingProxyType({})
_ALL: Mapping[str, Columns] = MappingProxyType(dict.fromkeys(schema.TABLES))


class Tables:
    """Rows of any number of runs and ranks, with the facts about them; nothing in it changes.

    Examples
    --------
    >>> from profframe.schema import TABLES
    >>> empty = {name: table.arrow.empty_table() for name, table in TABLES.items()}
    >>> Tables.from_tables(empty).sql("SELECT count(*) AS events FROM events")["events"][0]
    0
    """

    __slots__ = ("_selection", "_source", "_terms")
    _selection: Selection
    _source: Source
    _terms: Terms

    def __init__(
        self, source: Source, selection: Selection | None = None, terms: Terms | None = None
    ) -> None:
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_selection", selection or Selection())
        object.__setattr__(self, "_terms", terms or Terms())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Trace is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Trace is frozen: cannot delete {name!r}")

    def __reduce__(self) -> tuple[type[Self], tuple[Source, Selection, Terms]]:
        return type(self), (self._source, self._selection, self._terms)

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> Self:
        """Make a trace of tables in memory.

        Parameters
        ----------
        tables
            Every table of `profframe.schema.TABLES`, in the schema's columns and types.

        Returns
        -------
        Trace
            A trace on the very tables; nothing is copied.
        """
        return cls(InMemory({name: tables[name] for name in schema.TABLES}))

    @classmethod
    def from_store(
        cls,
        path: str | PathLike[str],
        *,
        runs: Text | None = None,
        ranks: Numbers | None = None,
    ) -> Self:
        """Open a store; its tables are read when a question needs them.

        Parameters
        ----------
        path
            Folder that `to_parquet` or ``profframe convert`` wrote.
        runs, ranks
            As for `filter`; files of others are not opened.

        Returns
        -------
        Trace
            A trace on the files of the store.

        Raises
        ------
        StoreError
            There is no store, or it is damaged.
        StoreVersionError
            It has a schema version that this release does not know.
        UnknownNameError
            There is no such run or rank.
        """
        names = None if runs is None else texts("runs", runs)
        numbered = None if ranks is None else integers("ranks", ranks)
        selection = Selection() if names is None else Selection().runs(names)
        selection = selection if numbered is None else selection.ranks(numbered)
        return cls(store.scan(path, names, numbered), selection)

    def limited(
        self,
        memory_limit: str | None = None,
        *,
        timeout_s: float | None = None,
        rows: int | None = None,
    ) -> Self:
        """Ask questions within limits, each of which ends in an error where it does not do.

        Parameters
        ----------
        memory_limit
            Such as ``"2GB"`` (of 1e9 bytes) or ``"512MiB"``, for DuckDB, which answers; what does
            not fit goes to a temporary folder first. Rows that are given back are not in it. None
            for most of the machine's memory.
        timeout_s
            Seconds that a question may take.
        rows
            Rows that `sql` and `answer` may give.

        Returns
        -------
        Trace
            A trace on the same data.

        Raises
        ------
        ParameterError
            A value is of the wrong type.

        Examples
        --------
        >>> from profframe import load
        >>> load("examples/cpu_training.json.gz").limited("1GB").self_times().height > 0
        True
        """
        return self._under(self._terms.limited(memory_limit, timeout_s, rows))

    def given(self, *, tables: Mapping[str, object] | None = None, files: Paths = ()) -> Self:
        """Give questions more to read than the tables of the trace, which is all they can else.

        Parameters
        ----------
        tables
            Frames of polars, pandas or Arrow, by the names that SQL has for them.
        files
            Files, and folders with all that is in them, that SQL may read, as by ``read_csv``.

        Returns
        -------
        Trace
            A trace on the same data, and these beside it.

        Raises
        ------
        ParameterError
            A name is taken or no name, something is no frame, or there is no such file.

        Examples
        --------
        >>> import polars as pl
        >>> from profframe import load
        >>> mine = pl.DataFrame({"name": ["aten::mm"], "budget_ns": [1000]})
        >>> trace = load("examples/cpu_training.json.gz").given(tables={"mine": mine})
        >>> trace.sql("SELECT count(*) AS rows FROM mine")["rows"][0]
        1
        """
        return self._under(replace(self._terms, tables=own_tables(tables), files=own_files(files)))

    @property
    def events(self) -> pl.DataFrame:
        """One row per slice, with the facts about it."""
        return self._rows("events")

    @property
    def memory(self) -> pl.DataFrame:
        """One row per allocation or free."""
        return self._rows("memory")

    @property
    def flows(self) -> pl.DataFrame:
        """One row per end or step of an arrow."""
        return self._rows("flows")

    @property
    def counters(self) -> pl.DataFrame:
        """One row per value of a counter event."""
        return self._rows("counters")

    @property
    def instants(self) -> pl.DataFrame:
        """One row per event without a duration, and per event that has no table of its own."""
        return self._rows("instants")

    @property
    def threads(self) -> pl.DataFrame:
        """One row per (pid, tid), with its names."""
        return self._rows("threads")

    @property
    def devices(self) -> pl.DataFrame:
        """One row per device: what it is, and what it can do at most."""
        return self._rows("devices")

    @property
    def traces(self) -> pl.DataFrame:
        """One row per (run, rank): what was loaded, and what its header says."""
        return self._rows("traces")

    @property
    def quality(self) -> pl.DataFrame:
        """One row per check that found something: what was repaired, dropped or doubtful."""
        return self._rows("quality")

    @property
    def tables(self) -> dict[str, pa.Table]:
        """Every table as Arrow, in the schema's types; a store is read whole."""
        return {name: self._table(name) for name in schema.TABLES}

    def scan(self, table: str) -> pl.LazyFrame:
        """One table as a LazyFrame; of a store, only what a query needs is read.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Returns
        -------
        polars.LazyFrame
            Its rows, text as plain String.

        Raises
        ------
        UnknownNameError
            There is no such table; the message suggests the nearest.
        """
        if table not in schema.TABLES:
            raise UnknownNameError.among("table", table, schema.TABLES)
        rows, where = self._source.scan(table), self._selection.where(table)
        return rows if where is None else rows.filter(pl.sql_expr(where))

    def answer(self, answer: str | PathLike[str] | Answer, /, **parameters: object) -> pl.DataFrame:
        """Run an answer of the catalogue, or an SQL file of your own.

        Parameters
        ----------
        answer
            Name of an answer, as `profframe.answers` lists them, or path of an ``.sql`` file; or
            what `profframe.query.answering.find` gives of these.
        **parameters
            Values for the parameters that the answer declares.

        Returns
        -------
        polars.DataFrame
            The columns that the answer's header declares.

        Raises
        ------
        UnknownNameError
            There is no such answer; the message suggests the nearest.
        ParameterError
            The answer has no such parameter, or the value is of another type.
        AnswerError
            The SQL cannot be run.
        """
        found = find(answer)
        asked = partial(
            self._asked, lambda c: frame(run(c, found, parameters, self._terms)), reads(found)
        )
        docs = {column.name: column.doc for column in found.columns}
        values = {parameter.name: parameter.default for parameter in found.parameters} | parameters
        given = tuple((name, str(value)) for name, value in sorted(values.items()))
        return self._once((found.sql, given, self._terms.rows), lambda: self._shown(asked(), docs))

    def sql(
        self,
        query: str,
        *,
        tables: Mapping[str, object] | None = None,
        files: Paths = (),
        memory_limit: str | None = None,
        timeout_s: float | None = None,
        rows: int | None = None,
    ) -> pl.DataFrame:
        """Run one SELECT over the tables by name: ``events``, ``memory``, ...

        It reads these tables and what it is given here, and nothing else of the machine.

        Parameters
        ----------
        query
            DuckDB SQL.
        tables, files
            As `given` takes them, for this question.
        memory_limit, timeout_s, rows
            As `limited` takes them, for this question.

        Returns
        -------
        polars.DataFrame
            Its rows.

        Raises
        ------
        UnknownNameError
            A table or column is not there; the message suggests the nearest.
        ParameterError
            Something else than the query cannot be used.
        AnswerError
            It is not one SELECT, it reaches for more than it is given, it passes a limit, or
            DuckDB refused it.

        Examples
        --------
        >>> from profframe import load
        >>> trace = load("examples/cpu_training.json.gz")
        >>> trace.sql("SELECT count(*) AS events FROM events", timeout_s=60, rows=1).height
        1
        """
        asked_of = self
        if tables is not None or files:
            asked_of = asked_of.given(tables=tables, files=files)
        if (memory_limit, timeout_s, rows) != (None, None, None):
            asked_of = asked_of.limited(memory_limit, timeout_s=timeout_s, rows=rows)
        return asked_of._sql(query)  # noqa: SLF001 - its own kind

    def _sql(self, query: str) -> pl.DataFrame:
        asked = partial(self._asked, lambda c: frame(run_query(c, query, terms=self._terms)))
        return self._once((query, self._terms.rows), lambda: self._shown(asked()))

    def filter(
        self,
        *,
        steps: Numbers | None = None,
        ranks: Numbers | None = None,
        runs: Text | None = None,
        kinds: Text | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Self:
        """Keep some of the rows, with their facts as they are; what is given must all hold.

        Parameters
        ----------
        steps
            Number or numbers of profiler steps: events of these steps, and what the other timed
            tables have within the steps' windows. A range may reach beyond those that there are.
        ranks, runs
            Rank or ranks, run or runs; of every table. Here too a range may reach beyond.
        kinds
            Kind or kinds of events; the other tables stay whole.
        start_ns, end_ns
            Keep what starts within ``[start_ns, end_ns)``, on the clock of ``traces.clock``.

        Returns
        -------
        Trace
            A trace on the same data; nothing is copied. It can be filtered further.

        Raises
        ------
        UnknownNameError
            There is no such run, rank, kind or step; the message says which there are.
        ParameterError
            A value is of the wrong type.
        """
        selection, source = self._selection, self._source
        if runs is not None:
            some_runs = texts("runs", runs)
            check_texts("run", some_runs, self.traces["run"])
            selection, source = selection.runs(some_runs), source.only(some_runs, None)
        if ranks is not None:
            some_ranks = integers("ranks", ranks)
            check_numbers("rank", some_ranks, self.traces["rank"])
            selection, source = selection.ranks(some_ranks), source.only(None, some_ranks)
        if kinds is not None:
            some_kinds = texts("kinds", kinds)
            self._check_kinds(some_kinds)
            selection = selection.kinds(some_kinds)
        if steps is not None:
            some_steps = integers("steps", steps)
            selection = selection.steps(some_steps, self._windows(some_steps, selection))
        return type(self)(source, selection.time(start_ns, end_ns), self._terms)

    def with_devices(self, devices: Devices) -> Self:
        """Match the devices anew, with models beside and before those that are known.

        Parameters
        ----------
        devices
            Models by their names, or a JSON file of them, as `profframe.load` takes them.

        Returns
        -------
        Trace
            A trace on the same data, but for the table `devices`; `quality` stays as it is.

        Raises
        ------
        ParameterError
            The file cannot be read, or an entry is not of the form of `profframe.facts.models`.

        Examples
        --------
        >>> from profframe import load
        >>> mine = {"Mine": {"match": [{"name": ""}], "bandwidth_bytes_per_s": 1e12}}
        >>> load("examples/cpu_training.json.gz").with_devices(mine).devices.height
        0
        """
        rows = matched(self._whole("devices"), models(devices))
        source = Beside(self._source, "devices", rows)
        return type(self)(source, self._selection, self._terms)

    @contextmanager
    def asking(self, at_once: int = 1) -> Iterator[Self]:
        """Ask many questions: over one connection, and none of them twice, nor what they share.

        Parameters
        ----------
        at_once
            Threads that ask at the same time, if they do: each does a part of the work itself.

        Yields
        ------
        Trace
            A trace on the same data, for as long as the block lasts.

        Examples
        --------
        >>> from profframe import load
        >>> with load("examples/cpu_training.json.gz").asking() as trace:
        ...     times, same = trace.self_times(), trace.self_times()
        >>> times is same
        True
        """
        if self._talk:
            yield self
            return
        with self._connection() as connection:
            [(threads,)] = connection.execute("SELECT current_setting('threads')").fetchall()
            connection.execute(f"SET external_threads = {min(at_once, threads)}")
            talk = Conversation(self._source, self._selection, self._terms, connection)
            with stopping(talk.interrupt):
                yield self._on(talk)

    @property
    def _talk(self) -> Conversation | None:
        """The conversation that is held about these rows."""
        source = self._source
        if (
            isinstance(source, Conversation)
            and source.selection == self._selection
            and source.terms.is_asked_like(self._terms)
        ):
            return source
        return None

    def _once(self, question: object, ask: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        return self._talk.once(question, ask) if self._talk else ask()

    def _rows(self, table: str) -> pl.DataFrame:
        rows = self._found(lambda trace: trace.scan(table).collect())
        return self._shown(rows, {column.name: column.doc for column in schema.TABLES[table]})

    def _shown(self, rows: pl.DataFrame, docs: Mapping[str, str] = _NO_DOCS) -> Frame:
        """Rows that show themselves; their moments since the starts of these traces."""
        starts = None
        if any(name in rows.columns for name in MOMENTS):
            starts = self.scan("traces").select(*KEYS, "start_ns")
        return shown(rows, starts, docs)

    def _asked(
        self,
        question: Callable[[duckdb.DuckDBPyConnection], pl.DataFrame],
        views: Mapping[str, Columns] = _ALL,
    ) -> pl.DataFrame:
        """What a question gives."""

        def ask(trace: Self) -> pl.DataFrame:
            with trace._connection(views) as connection:
                return question(connection)

        return self._found(ask)

    def _found(self, ask: Callable[[Self], Found]) -> Found:
        """What is asked for; asked again where files were packed or written again meanwhile."""
        trace = self
        for _ in range(_ATTEMPTS):
            try:
                return ask(trace)
            except StoreError:
                source = trace._source
                moved = source.again()
                if moved is None:
                    source.check()
                    raise
                trace = trace._on(moved)
        return ask(trace)

    def _under(self, terms: Terms) -> Self:
        return type(self)(self._source, self._selection, terms)

    def _of_any_rows(self) -> Self:
        """The same for what profframe asks on its way, which nobody has limited."""
        return self._under(replace(self._terms, rows=None))

    def _on(self, source: Source) -> Self:
        return type(self)(source, self._selection, self._terms)

    def _whole(self, table: str) -> pa.Table:
        return pa.concat_tables(self._source.parts(table))

    def _table(self, table: str) -> pa.Table:
        where = self._selection.where(table)

        def ask(trace: Self) -> pa.Table:
            parts = trace._source.parts(table)
            return pa.concat_tables(
                parts if where is None else (chosen(part, where) for part in parts)
            )

        return self._found(ask)

    @contextmanager
    def _connection(
        self, views: Mapping[str, Columns] = _ALL
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with a view per table, for one question."""
        with ExitStack() as stack:
            talk = self._talk
            is_late = None
            try:
                connection = talk.cursor(views) if talk else self._opened(stack, views)
                is_late = stack.enter_context(stopping(connection.interrupt, self._terms.timeout_s))
                yield connection
            except duckdb.InterruptException as error:
                raise self._stopped(is_late) from error
            except Exception as error:
                if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                    raise KeyboardInterrupt from error
                blame(self._source, error)
                raise

    def _stopped(self, is_late: threading.Event | None) -> BaseException:
        """What a question ends in that was stopped from outside."""
        if is_late is None or not is_late.is_set():
            return KeyboardInterrupt()
        return AnswerError(
            f"the question took more than the {self._terms.timeout_s:g} s that it may "
            "(timeout_s=, --timeout)"
        )

    def _opened(self, stack: ExitStack, views: Mapping[str, Columns]) -> duckdb.DuckDBPyConnection:
        """A new connection, which the stack closes."""
        connection = stack.enter_context(connect(self._terms, self._source.paths(views)))
        hide_progress(connection)
        self._terms.hand_over(connection)
        for table, columns in views.items():
            part = Part(columns, self._selection.where(table))
            self._source.view(connection, table, part)
        return connection

    def _check_kinds(self, kinds: tuple[str, ...]) -> None:
        if not set(kinds) <= set(schema.KINDS):
            found = self._of_any_rows().sql("SELECT DISTINCT kind FROM events")["kind"]
            check_texts("kind", kinds, {*schema.KINDS, *found})

    def _windows(self, steps: Integers, selection: Selection) -> list[Window]:
        """Windows of the steps that are asked for, in the traces that are selected."""
        of_traces = type(self)(self._source, selection.of_traces())
        found = of_traces.answer("steps").drop_nulls(["step", "start_ns"])
        check_numbers("step", steps, found["step"])
        end = pl.col("start_ns") + pl.col("dur_ns")
        return (
            found.filter(pl.sql_expr(numbers("step", steps)))
            .select("run", "rank", "start_ns", end.alias("end_ns"))
            .rows()
        )
