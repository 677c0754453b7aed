"""`Trace`: the tables of one or many traces, frozen, and the questions to ask them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import NoReturn, Protocol

import duckdb
import polars as pl
import pyarrow as pa

from profframe import schema, store
from profframe.answering import catalogue, find, run
from profframe.answering import query as run_query
from profframe.comparing.history import History
from profframe.critical_path import CriticalPath
from profframe.critical_path import find as find_path
from profframe.errors import AnswerError, ParameterError, StoreError, UnknownNameError
from profframe.facts.devices import matched
from profframe.facts.models import Devices, models
from profframe.selection import (
    TIME,
    Integers,
    Numbers,
    Selection,
    Text,
    Window,
    check_compat,
    check_numbers,
    check_texts,
    integers,
    literal,
    numbers,
    texts,
)
from profframe.show import notebook, table, tree
from profframe.show.plots import Plots
from profframe.show.summary import Summary

_BYTES = re.compile(r"\d+(\.\d+)? *[KMGT]i?B", re.IGNORECASE)
_KINDS = "SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY events DESC, kind"
_SELECTED_BY = ("run", "rank", "kind", "step", *sorted({*TIME.values()}))


class Source(Protocol):
    """Where the rows of a trace are: in memory or in a store."""

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str:
        """SQL of a relation with all rows of a table."""

    def scan(self, table: str) -> pl.LazyFrame:
        """All rows of a table, text as plain String."""

    def parts(self, table: str) -> Iterator[pa.Table]:
        """All rows of a table, as Arrow in the schema's types."""

    def split(self) -> tuple[Source, ...]:
        """Sources of fewer rows each, where that saves memory."""

    def check(self) -> None:
        """Raise a StoreError if the rows can no longer be read."""

    def again(self) -> Source | None:
        """The same rows where they are now, if they have moved."""

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        """The source without what has nothing of some runs and ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """Arrow tables."""

    tables: Mapping[str, pa.Table]
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str:
        connection.register(f"_{table}", self.tables[table])
        return f"_{table}"

    def scan(self, table: str) -> pl.LazyFrame:
        if table not in self.frames:
            self.frames[table] = _plain(self.tables[table])
        return self.frames[table].lazy()

    def parts(self, table: str) -> Iterator[pa.Table]:
        yield self.tables[table]

    def split(self) -> tuple[Source, ...]:
        return (self,)

    def check(self) -> None:
        pass

    def again(self) -> None:
        pass

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:  # noqa: ARG002
        return self


@dataclass(frozen=True, slots=True, eq=False)
class _Beside:
    """A source with another table in place of one of its own."""

    source: Source
    name: str
    rows: pa.Table

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str:
        return self._of(table).relation(connection, table)

    def scan(self, table: str) -> pl.LazyFrame:
        return self._of(table).scan(table)

    def parts(self, table: str) -> Iterator[pa.Table]:
        return self._of(table).parts(table)

    def split(self) -> tuple[Source, ...]:
        return tuple(_Beside(part, self.name, self._rows_of(part)) for part in self.source.split())

    def check(self) -> None:
        self.source.check()

    def again(self) -> Source | None:
        moved = self.source.again()
        return None if moved is None else _Beside(moved, self.name, self.rows)

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        return _Beside(self.source.only(runs, ranks), self.name, self.rows)

    def _rows_of(self, part: Source) -> pa.Table:
        traces = set(part.scan("traces").select("run", "rank").collect().rows())
        keys = zip(self.rows["run"].to_pylist(), self.rows["rank"].to_pylist(), strict=True)
        return self.rows.filter(pa.array([key in traces for key in keys], pa.bool_()))

    def _of(self, table: str) -> Source:
        return _Memory({table: self.rows}) if table == self.name else self.source


class Trace(History):
    """Events of any number of runs and ranks, with the facts about them; nothing in it changes.

    Made by `profframe.load`. Its tables are polars DataFrames, its answers come from the files of
    ``sql/``.

    Examples
    --------
    >>> from profframe.schema import TABLES
    >>> empty = {name: table.arrow.empty_table() for name, table in TABLES.items()}
    >>> trace = Trace.from_tables(empty)
    >>> trace.self_times().height
    0
    """

    __slots__ = ("_memory_limit", "_selection", "_source")
    _selection: Selection
    _source: Source
    _memory_limit: str | None

    def __init__(
        self, source: Source, selection: Selection | None = None, memory_limit: str | None = None
    ) -> None:
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_selection", selection or Selection())
        object.__setattr__(self, "_memory_limit", memory_limit)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Trace is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Trace is frozen: cannot delete {name!r}")

    def __reduce__(self) -> tuple[type[Trace], tuple[Source, Selection, str | None]]:
        return Trace, (self._source, self._selection, self._memory_limit)

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> Trace:
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
        return cls(_Memory({name: tables[name] for name in schema.TABLES}))

    @classmethod
    def from_store(
        cls,
        path: str | PathLike[str],
        *,
        runs: Text | None = None,
        ranks: Numbers | None = None,
    ) -> Trace:
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

    def limited(self, memory_limit: str | None) -> Trace:
        """Ask questions in bounded memory; what does not fit goes to a temporary folder.

        Parameters
        ----------
        memory_limit
            Such as ``"2GB"`` (of 1e9 bytes) or ``"512MiB"``, for DuckDB, which answers; rows that
            are given back are not in it. None for most of the machine's memory.

        Returns
        -------
        Trace
            A trace on the same data.

        Raises
        ------
        ParameterError
            It is no number of bytes with a unit.

        Examples
        --------
        >>> from profframe import load
        >>> load("examples/cpu_training.json.gz").limited("1GB").self_times().height > 0
        True
        """
        if memory_limit is not None and not _BYTES.fullmatch(str(memory_limit)):
            raise ParameterError(
                f"memory_limit: needs a number of bytes, such as '2GB', got {memory_limit!r}"
            )
        return Trace(self._source, self._selection, memory_limit)

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

    def table(  # noqa: PLR0917 -- torch's own arguments
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        compat: str | None = None,
    ) -> str:
        """Give the text of torch's ``key_averages().table()``.

        Numbers are rounded once, half to even; FLOPs and sources stand below their own headers;
        control bytes are written as escapes. ``compat="torch"`` repeats torch to the character.

        Parameters
        ----------
        sort_by
            torch's attribute to sort by, the largest first: ``cpu_time_total``, ``count``, ...
        row_limit
            Rows to print; all of them if it is negative.
        max_src_column_width, max_name_column_width
            Characters of the source and of the name; None is no limit.
        header
            A line above the table.
        top_level_events_only
            Leave out what has its first occurrence inside another event.
        time_unit
            ``s``, ``ms`` or ``us`` for all times.
        group_by_input_shape, group_by_stack_n, group_by_overload_name
            As in `key_averages`.
        compat
            ``"torch"``: as torch prints it, with what its floats make of a tie.

        Returns
        -------
        str
            Lines. Of several traces, a table each, with its run and rank above it.

        Raises
        ------
        UnknownNameError
            Rows have no such attribute, or there is no such unit; the message suggests the nearest.
        ParameterError
            Another value cannot be used.
        """
        check_compat(compat)
        options = table.Options(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            header,
            top_level_events_only,
            time_unit,
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            as_torch=compat == "torch",
        )
        with self._connection() as connection:
            return table.text(connection, options)

    def tree(
        self,
        event_id: int | None = None,
        depth: int | None = None,
        run: str | None = None,
        rank: int | None = None,
        row_limit: int = 200,
    ) -> tree.Tree:
        """Draw host slices inside one another, depth first, with their times.

        Parameters
        ----------
        event_id
            Slice to begin with; None for all that are in no other, the busiest thread first.
        depth
            Levels below it; None for as many as fit into the rows.
        run, rank
            Which trace, where there are several.
        row_limit
            Slices to draw; all of them if it is negative.

        Returns
        -------
        profframe.show.tree.Tree
            Text with a line for each slice: duration, what of it is in none of its children, device
            time launched inside it, share of the outermost slice that is drawn, ``event_id``, and
            name. ``(+n inside)`` counts slices that are too deep, the last line all that are not
            drawn.

        Raises
        ------
        UnknownNameError
            There is no such event, run or rank.
        ParameterError
            There are several traces, or the event is no host slice that nests, as a kernel.
        """
        chosen = self.filter(runs=run, ranks=rank)
        options = tree.Options(event_id, depth, row_limit)
        with chosen._connection(("events", "threads")) as connection:  # noqa: SLF001 - its own kind
            return tree.text(connection, options)

    @property
    def plot(self) -> Plots:
        """Answers as charts (``pip install 'profframe[plot]'``): ``trace.plot.kernels()``, ..."""
        return Plots(self)

    @property
    def self_cpu_time_total(self) -> int:
        """Host time of all operators, each moment of a thread counted once, in nanoseconds."""
        return int(self.total_average()["self_cpu_ns"].sum())

    def answer(self, answer: str | PathLike[str], /, **parameters: object) -> pl.DataFrame:
        """Run an answer of the catalogue, or an SQL file of your own.

        Parameters
        ----------
        answer
            Name of an answer, as `profframe.answers` lists them, or path of an ``.sql`` file.
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
        found = find(answer if isinstance(answer, str) else Path(answer))
        needed = [table for table in schema.TABLES if table in found.needs]
        return self._asked(lambda c: _frame(run(c, found, parameters)), needed or schema.TABLES)

    def sql(self, query: str) -> pl.DataFrame:
        """Run one SELECT over the tables by name: ``events``, ``memory``, ...

        Parameters
        ----------
        query
            DuckDB SQL.

        Returns
        -------
        polars.DataFrame
            Its rows.

        Raises
        ------
        UnknownNameError
            A table or column is not there; the message suggests the nearest.
        AnswerError
            It is not one SELECT, or DuckDB refused it.
        """
        return self._asked(lambda connection: _frame(run_query(connection, query)))

    def filter(
        self,
        *,
        steps: Numbers | None = None,
        ranks: Numbers | None = None,
        runs: Text | None = None,
        kinds: Text | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> Trace:
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
        return Trace(source, selection.time(start_ns, end_ns), self._memory_limit)

    def with_devices(self, devices: Devices) -> Trace:
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
        source = _Beside(self._source, "devices", rows)
        return Trace(source, self._selection, self._memory_limit)

    def critical_path(
        self,
        step: int | None = None,
        run: str | None = None,
        rank: int | None = None,
        annotation: str | None = None,
        instance: int = 0,
    ) -> CriticalPath:
        """Find what the end of a step had to wait for, back to its start: host, launches, devices.

        Parameters
        ----------
        step
            N of a profiler step: from its start to the end of the last work that it launched.
        run, rank
            The trace, where there are several.
        annotation
            Name of an annotation in place of a step.
        instance
            Which of the annotations of that name, from 0.

        Returns
        -------
        CriticalPath
            Its ``events`` without a gap, its ``length_ns``, and its ``bounds``: how much of the
            length is bound by what. Without step and annotation it is of the whole trace.

        Raises
        ------
        UnknownNameError
            There is no such run, rank, step or annotation; the message says which there are.
        ParameterError
            There are several (run, rank), or a value is of the wrong type.

        Examples
        --------
        >>> from profframe import load
        >>> path = load("examples/cpu_training.json.gz").critical_path()
        >>> path.bounds["bound"][0], path.bounds["total_ns"].sum() == path.length_ns
        ('host', True)
        """
        chosen = self.filter(runs=run, ranks=rank)
        with chosen._connection(("events",)) as connection:  # noqa: SLF001 - its own kind
            return find_path(connection, step, annotation, instance)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write every (run, rank) into a Parquet store; one that is there already is replaced.

        Parameters
        ----------
        path
            The store; made if it does not exist.

        Raises
        ------
        StoreError
            It cannot be written; what was in it is still there.
        """
        for part in self._source.split():
            store.write(Trace(part, self._selection).tables, path)

    def export_chrome_trace(
        self,
        path: str | PathLike[str],
        legacy: bool = False,
        highlight: CriticalPath | pl.DataFrame | None = None,
    ) -> None:
        """Write a Chrome trace that Perfetto, chrome://tracing and `profframe.load` open.

        Parameters
        ----------
        path
            File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
            replaced at the end.
        legacy
            Write as torch's ``EventList.export_chrome_trace`` does: only what its ``events()``
            has, in microseconds since the profiler started.
        highlight
            Events that shall stand out: a critical path, or a frame with ``event_id`` (and ``run``
            and ``rank``, where they are of several traces). Their arguments have ``critical: 1``,
            they are red in chrome://tracing, and arrows join the parts of a path from one thread or
            stream to another.

        Raises
        ------
        ParameterError
            There are several (run, rank): a file holds one. Or nothing that was highlighted is in
            the file, or it is to be written as torch does.
        ExportError
            The file cannot be written.
        """
        from profframe.export import chrome
        from profframe.export import legacy as listed

        if legacy and highlight is not None:
            raise ParameterError("highlight: not in the form that torch writes (legacy=True)")
        marked = highlight.events if isinstance(highlight, CriticalPath) else highlight
        whole = self._selection == self._selection.of_traces()
        with self._connection() as connection:
            if legacy:
                listed.write(connection, path)
            else:
                chrome.write(connection, path, whole, marked)

    def augment(self, path: str | PathLike[str]) -> None:
        """Write a Chrome trace with the work of ops and kernels among their arguments.

        Perfetto shows them: ``kernel_flop`` and ``kernel_num_gb`` (of 1e9 bytes) of host ops and
        kernels whose work is known, and of kernels on known devices ``achieved_flops_pct`` and
        ``achieved_bandwidth_pct``, percent of the peaks that `roofline` takes. All else stays as
        `export_chrome_trace` writes it. A trace can be augmented again.

        Parameters
        ----------
        path
            File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
            replaced at the end.

        Raises
        ------
        ParameterError
            There are several (run, rank): a file holds one.
        ExportError
            The file cannot be written.
        """
        from profframe.export import chrome
        from profframe.export.augment import augment

        whole = self._selection == self._selection.of_traces()
        with self._connection() as connection:
            chrome.the_trace(connection)
            augment(connection)
            chrome.write(connection, path, whole)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write stacks in the folded form that flame graphs are drawn from, as torch does.

        A line is one event: its frames, the outermost first, and whole microseconds. Where no
        stacks were recorded, but calls of Python functions were, the frames are those around the
        event (``python_stack``).

        Parameters
        ----------
        path
            File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
            replaced at the end.
        metric
            ``self_cpu_time_total``, or ``self_cuda_time_total`` (also ``xpu``, ``privateuse1``)
            for the time of the devices, whatever their type.

        Raises
        ------
        UnknownNameError
            There is no such metric; the message suggests the nearest.
        ParameterError
            No event has a stack.
        ExportError
            The file cannot be written.
        """
        from profframe.export import stacks

        with self._connection() as connection:
            stacks.write(connection, path, metric)

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return notebook.trace_html(self.summary())

    def _rows(self, table: str) -> pl.DataFrame:
        try:
            return self.scan(table).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            moved = self._source.again()
            if moved is not None:
                return self._on(moved)._rows(table)  # noqa: SLF001 - its own kind
            self._source.check()
            raise StoreError(f"table {table!r} cannot be read: {error}") from error

    def _asked(
        self,
        question: Callable[[duckdb.DuckDBPyConnection], pl.DataFrame],
        tables: Iterable[str] = schema.TABLES,
    ) -> pl.DataFrame:
        """What a question gives; asked again where the store has been packed meanwhile."""
        try:
            with self._connection(tables) as connection:
                return question(connection)
        except StoreError:
            moved = self._source.again()
            if moved is None:
                raise
        return self._on(moved)._asked(question, tables)  # noqa: SLF001 - its own kind

    def _on(self, source: Source) -> Trace:
        return Trace(source, self._selection, self._memory_limit)

    def _whole(self, table: str) -> pa.Table:
        return pa.concat_tables(self._source.parts(table))

    def _table(self, table: str) -> pa.Table:
        where = self._selection.where(table)
        parts = self._source.parts(table)
        return pa.concat_tables(
            parts if where is None else (_chosen(part, where) for part in parts)
        )

    @contextmanager
    def _connection(
        self, tables: Iterable[str] = schema.TABLES
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with a view per table, for one question."""
        with ExitStack() as stack, duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            if self._memory_limit is not None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="profframe-"))
                connection.execute("SET memory_limit = " + literal(self._memory_limit))
                connection.execute("SET temp_directory = " + literal(folder))
            try:
                for table in tables:
                    relation = self._source.relation(connection, table)
                    where = self._selection.where(table) or "TRUE"
                    connection.execute(f"CREATE VIEW {table} AS FROM {relation} WHERE {where}")
                yield connection
            except (duckdb.Error, AnswerError):
                self._source.check()
                raise
            except RuntimeError as error:
                if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                    raise KeyboardInterrupt from error
                raise

    def summary(self) -> Summary:
        """What is inside, in a few labelled lines; the text of ``repr``."""
        return Summary(
            overview=self.overview(),
            kinds=self.sql(_KINDS),
            steps=self.steps(),
            traces=self.traces,
            quality=self.quality,
        )

    def _check_kinds(self, kinds: tuple[str, ...]) -> None:
        if not set(kinds) <= set(schema.KINDS):
            found = self.sql("SELECT DISTINCT kind FROM events")["kind"]
            check_texts("kind", kinds, {*schema.KINDS, *found})

    def _windows(self, steps: Integers, selection: Selection) -> list[Window]:
        """Windows of the steps that are asked for, in the traces that are selected."""
        of_traces = Trace(self._source, selection.of_traces(), self._memory_limit)
        found = of_traces.steps().drop_nulls(["step", "start_ns"])
        check_numbers("step", steps, found["step"])
        end = pl.col("start_ns") + pl.col("dur_ns")
        return (
            found.filter(pl.sql_expr(numbers("step", steps)))
            .select("run", "rank", "start_ns", end.alias("end_ns"))
            .rows()
        )


def answers() -> pl.DataFrame:
    """List the answers that come with profframe.

    Returns
    -------
    polars.DataFrame
        ``name``, ``sentence``, and ``parameters`` as ``NAME=DEFAULT``, of each.

    Examples
    --------
    >>> answers().columns
    ['name', 'sentence', 'parameters']
    """
    found = catalogue()
    return pl.DataFrame(
        {
            "name": [answer.name for answer in found],
            "sentence": [answer.sentence for answer in found],
            "parameters": [
                ", ".join(f"{p.name}={p.default}" for p in answer.parameters) for answer in found
            ],
        }
    )


def _plain(table: pa.Table) -> pl.DataFrame:
    """The table as a DataFrame, dictionaries as plain String.

    Rows of one text share it: a column of stacks would be a hundred times as large otherwise.
    """
    return pl.DataFrame(
        [
            _shared(name, column)
            if pa.types.is_dictionary(column.type)
            else pl.Series(name, column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
    )


def _shared(name: str, column: pa.ChunkedArray) -> pl.Series:
    parts = []
    for chunk in column.unify_dictionaries().chunks or [pa.array([], column.type)]:
        texts = pl.Series(name, chunk.dictionary, pl.String)
        parts.append(texts.gather(pl.Series(chunk.indices)))
    return pl.concat(parts)


def _chosen(table: pa.Table, where: str) -> pa.Table:
    columns = [name for name in _SELECTED_BY if name in table.column_names]
    mask = _plain(table.select(columns)).with_columns(chosen=pl.sql_expr(where).fill_null(False))
    return table.filter(mask["chosen"].to_arrow())


def _frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a query, DuckDB's 128-bit sums as Int64 where they fit."""
    try:
        frame = _plain(relation.to_arrow_table())
    except pl.exceptions.PolarsError as error:
        types = ", ".join(map(str, relation.types))
        raise AnswerError(
            f"polars lacks a type among those of the result ({types}); cast it: x::VARCHAR"
        ) from error
    wide = [n for n, t in zip(relation.columns, relation.types, strict=True) if t == "HUGEINT"]
    try:
        return frame.with_columns(pl.col(wide).cast(pl.Int64))
    except pl.exceptions.InvalidOperationError:
        return frame.with_columns(pl.col(wide).cast(pl.Int128))
