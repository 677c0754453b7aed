"""Plans of profframe's own questions, kept for all traces in memory.

For a small trace DuckDB takes several times as long to plan a question as to run it. A plan that is
kept reads `Slot` objects in place of tables: each question fills them with the tables of its trace,
and empties them when it ends. All plans are in databases of the process, which read no file and run
no SQL of the user's.

A question is prepared with its macros written out and its slots as sources, as DuckDB 2.0.1 plans a
prepared statement that calls a macro or reads a view anew each time. Only joins that keep the rows
of their first run are planned each time.
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb
import pyarrow as pa

from profframe.query import macros
from profframe.query.expansion import expanded
from profframe.query.sandbox import Terms, connect
from profframe.query.sources import TableRows

if TYPE_CHECKING:
    from duckdb._sources import ArrowScanSource
else:
    try:
        from duckdb._sources import ArrowScanSource
    except ImportError:  # other releases read a slot by its stream, and do not ask for its size
        ArrowScanSource = object

Tables: TypeAlias = Mapping[str, pa.Table]
NO_TABLES: Final[Tables] = MappingProxyType({})

MOST_ROWS: Final = 1 << 17
"""Plans for larger tables are not kept: running takes longer than planning."""
_ROWS_OF_ONE_THREAD: Final = 1 << 14
"""Smaller tables are read by the calling thread: to wake others costs more than they save."""
_FOR_FEW_ROWS: Final = (
    "cte_inlining", "deliminator", "filter_pushdown", "in_clause", "join_order", "limit_pushdown",
    "materialized_cte", "regex_range", "top_n", "unnest_rewriter", "unused_columns",
)  # fmt: skip
"""Optimizers of DuckDB for tables of that size: the others take longer than they save."""
_FEW_ROWS: Final = 1 << 11
"""A plan that has read no more rows than these may hold them."""
_HELD_ROWS: Final = 1 << 18
"""Rows that other idle plans hold together: the oldest are run without rows, which frees them."""
_DATABASES: Final = 8
"""Most databases, two for each limit of memory; all are opened anew where there would be more."""
_KEPT: Final = 128
"""Most plans that are kept; each takes one to two megabytes."""
_NAME: Final = "plan"
_EXECUTE: Final = f"EXECUTE {_NAME}"
_HUGEINT: Final = pa.decimal128(38, 0)
"""The Arrow type of DuckDB's 128-bit sums, which Arrow would divide in another way."""
_RUN_ONCE: Final = ("ASOF_JOIN", "IE_JOIN")
"""Operators that keep the rows of their first run (DuckDB 2.0): another run fails."""


class Slot(ArrowScanSource):
    """A table of a plan: it hands out the rows of the question that runs."""

    schema_is_stable = True

    def __init__(self, rows: pa.Table) -> None:  # not the base's: what it wraps is itself
        self.obj = None
        self.schema: pa.Schema = rows.schema
        self.times_planned = 0
        self._planned: int = rows.num_rows
        self._rows: pa.Table | None = None

    def fill(self, rows: pa.Table) -> None:
        """Set the rows that are handed out; their schema is fixed."""
        self._rows = rows

    def empty(self) -> None:
        """Drop the rows."""
        self._rows = None

    def rows(self) -> int:
        """How many rows to expect; for the planner."""
        self.times_planned += 1
        return self._planned if self._rows is None else self._rows.num_rows

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._handed_out().__arrow_c_stream__(requested_schema)

    def stream(
        self,
        columns: Sequence[int] | None,
        filters: Sequence[object],  # noqa: ARG002 - it accepts none
    ) -> tuple[object, bool]:
        """A stream of some columns, by their number, and whether it has only these."""
        rows = self._handed_out()
        if columns is None:
            return rows.__arrow_c_stream__(), False
        return rows.select(list(columns)).__arrow_c_stream__(), True

    def _handed_out(self) -> pa.Table:
        if self._rows is None:
            raise RuntimeError("no question has filled this slot")
        return self._rows


_Place: TypeAlias = "tuple[bool, str | None]"
"""Key of a plan's database: whether it runs on one thread, and its memory limit."""
_Key: TypeAlias = "tuple[Question, bool, _Place]"
"""Key of plans: the question, whether its tables are large, and the database."""


@dataclass(frozen=True, slots=True)
class Question:
    """Cache key of a plan, apart from the types of its tables.

    Attributes
    ----------
    sql
        One SELECT of profframe's own, without variables.
    parts
        Which part of each table of the trace it reads.
    steps
        Macros whose rows are given as tables named ``_kept_`` and their name.
    """

    sql: str
    parts: tuple[tuple[str, TableRows], ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(eq=False)
class _Plan:
    """A question on a cursor that has what it needs, and the slots that it reads."""

    database: duckdb.DuckDBPyConnection
    cursor: duckdb.DuckDBPyConnection
    slots: Mapping[str, Slot]
    sources: Sequence[object]
    """What the cursor reads the slots by, while they are here."""
    sql: str
    is_prepared: bool
    """Whether DuckDB keeps how it runs it, and what its operators have read."""
    has_run: bool = False
    held_rows: int = 0
    """Rows of its largest table, if it may hold them and they are not few."""

    def fits(self, tables: Tables) -> bool:
        """Whether tables have the types that were planned for."""
        return all(slot.schema.equals(tables[name].schema) for name, slot in self.slots.items())

    def answer(self, tables: Tables) -> pa.Table:
        """The rows of the answer."""
        try:
            for name, slot in self.slots.items():
                slot.fill(tables[name])
            return rows_of(self.cursor, _EXECUTE if self.is_prepared else self.sql)
        finally:
            for slot in self.slots.values():
                slot.empty()

    def forget(self) -> None:
        """Free what operators hold of the last rows."""
        if self.is_prepared:
            self.answer({name: slot.schema.empty_table() for name, slot in self.slots.items()})
        self.held_rows = 0

    def make_ready(self) -> None:
        """Have it planned each time from the second on if an operator cannot run twice."""
        if self.is_prepared and not self.has_run:
            [(_, text)] = self.cursor.execute(f"EXPLAIN (FORMAT json) {_EXECUTE}").fetchall()
            if any(operator in text for operator in _RUN_ONCE):
                self.cursor.execute(f"DEALLOCATE {_NAME}")
                self.is_prepared = False
        self.has_run = True


class Plans:
    """Kept plans, and the databases that they are in; shared by the threads of a process."""

    def __init__(self) -> None:
        self._inherited: list[object] = []
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._databases: dict[_Place, tuple[duckdb.DuckDBPyConnection, macros.Shared]] = {}
        self._idle = OrderedDict[_Key, list[_Plan]]()
        self._keeps_statements = False

    def cursor(self, tables: Tables, memory_limit: str | None) -> duckdb.DuckDBPyConnection:
        """A new connection for several questions about tables, which it does not have yet."""
        return self._connected((are_small(tables), memory_limit))[1]

    def _connected(
        self, place: _Place
    ) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]:
        """A database, opened if need be, and a new connection to it.

        For each limit of memory there are two: one for small tables, whose questions run on the
        calling thread alone and are planned quickly, and one for large ones.
        """
        alone, memory_limit = place
        with self._opening:
            if place not in self._databases:
                if len(self._databases) >= _DATABASES:
                    self._drop_databases()
                terms = Terms(memory_limit=memory_limit)
                opened = connect(terms, (), threads=1 if alone else None)
                if alone:
                    _optimize_with(opened, _FOR_FEW_ROWS)
                self._databases[place] = opened, macros.Shared()
                self._keeps_statements = _keeps_statements(opened)
            database, shared = self._databases[place]
        cursor = database.cursor()
        with suppress(duckdb.InvalidInputException):  # a notebook without widgets has none
            cursor.execute("SET enable_progress_bar = false")
        macros.share(cursor, shared)
        return database, cursor

    @contextmanager
    def lease(
        self, question: Question, tables: Tables, memory_limit: str | None = None
    ) -> Iterator[_Plan]:
        """A plan of a question for a block, which no other question uses meanwhile.

        Parameters
        ----------
        question
            What is asked.
        tables
            Every table that it reads, by name.
        memory_limit
            What all questions with this limit may use together.
        """
        most, place = _most_rows(tables), (are_small(tables), memory_limit)
        key = question, most > _FEW_ROWS, place
        plan = self._taken(key, tables) or self._made(question, tables, place)
        try:
            yield plan
            if are_kept(tables):
                plan.held_rows = most if plan.is_prepared and most > _FEW_ROWS else 0
                self._give_back(key, plan)
                if plan.held_rows:
                    self._free_rows()
        except (duckdb.InternalException, duckdb.FatalException):
            self._abandon(plan.database)
            raise

    def _taken(self, key: _Key, tables: Tables) -> _Plan | None:
        """An idle plan for tables of these types, if there is one."""
        with self._lock:
            idle = self._idle.get(key, [])
            plan = next((plan for plan in idle if plan.fits(tables)), None)
            if plan is None:
                return None
            self._remove(key, plan)
        plan.make_ready()
        return plan

    def _made(self, question: Question, tables: Tables, place: _Place) -> _Plan:
        database, cursor = self._connected(place)
        parts = dict(question.parts)
        slots = {name: Slot(rows) for name, rows in tables.items()}
        sources, read = [], {}
        for name, slot in slots.items():
            source, rows = _offer(cursor, name, slot)
            part = parts.get(name)
            sources.append(source)
            read[name] = rows if part is None or not part.where else f"({part.select(rows)})"
        sql = expanded(question.sql, question.steps, read)
        is_prepared = self._keeps_statements and are_kept(tables)
        if is_prepared:
            cursor.execute(f"PREPARE {_NAME} AS {sql}")
        return _Plan(database, cursor, slots, sources, sql, is_prepared)

    def _give_back(self, key: _Key, plan: _Plan) -> None:
        """Keep a plan for the next question; the one that was not asked for longest goes."""
        with self._lock:
            if all(plan.database is not database for database, _ in self._databases.values()):
                return
            self._idle.setdefault(key, []).append(plan)
            self._idle.move_to_end(key)
            while sum(map(len, self._idle.values())) > _KEPT:
                oldest = next(iter(self._idle))
                self._remove(oldest, self._idle[oldest][0])

    def _free_rows(self) -> None:
        """Free rows that idle plans hold, of those first that were not asked for longest."""
        while taken := self._taken_with_rows():
            key, plan = taken
            plan.make_ready()
            plan.forget()
            self._give_back(key, plan)

    def _taken_with_rows(self) -> tuple[_Key, _Plan] | None:
        """The oldest plan with rows, if all plans together hold too many."""
        with self._lock:
            holding = [
                (key, plan) for key, idle in self._idle.items() for plan in idle if plan.held_rows
            ]
            if sum(plan.held_rows for _, plan in holding) <= _HELD_ROWS:
                return None
            self._remove(*holding[0])
            return holding[0]

    def _remove(self, key: _Key, plan: _Plan) -> None:
        """Take an idle plan out; the lock is held."""
        self._idle[key].remove(plan)
        if not self._idle[key]:
            del self._idle[key]

    def _abandon(self, database: duckdb.DuckDBPyConnection) -> None:
        """Open another database for the next question: after such an error this one is closed."""
        with self._opening:
            if any(database is opened for opened, _ in self._databases.values()):
                self._drop_databases()

    def _drop_databases(self) -> None:
        """Forget all databases and their plans; each is closed with the last question in it."""
        with self._lock:
            self._databases.clear()
            self._idle.clear()

    def close(self) -> None:
        """Drop all plans; what they are of is closed with the last question that uses it."""
        self._reset()

    def after_fork(self) -> None:
        """In the child: DuckDB's threads are gone, and closing it would wait for them."""
        self._inherited += [self._databases, self._idle]
        self._reset()


def _most_rows(tables: Tables) -> int:
    return max((rows.num_rows for rows in tables.values()), default=0)


def are_small(tables: Tables) -> bool:
    """Whether questions about tables run on the thread that asks."""
    return _most_rows(tables) < _ROWS_OF_ONE_THREAD


def are_kept(tables: Tables) -> bool:
    """Whether plans of questions about tables are kept."""
    return _most_rows(tables) <= MOST_ROWS


@contextmanager
def planning_without(connection: duckdb.DuckDBPyConnection, optimizer: str) -> Iterator[None]:
    """Plan without an optimizer of DuckDB, if one is named and this release has it."""
    exists = "SELECT 1 FROM duckdb_optimizers() WHERE name = ?"
    if not optimizer or not connection.execute(exists, [optimizer]).fetchall():
        yield
        return
    connection.execute(f"SET disabled_optimizers = '{optimizer}'")
    try:
        yield
    finally:
        connection.execute("RESET disabled_optimizers")


def _optimize_with(connection: duckdb.DuckDBPyConnection, kept: Collection[str]) -> None:
    """Let a database plan with these optimizers of DuckDB only."""
    names = connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    without = ",".join(name for (name,) in names if name not in kept)
    connection.execute(f"SET disabled_optimizers = '{without}'")


def _keeps_statements(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether this release of DuckDB runs a prepared statement as it was planned."""
    slot = Slot(pa.table({"a": [1]}))
    slot.fill(slot.schema.empty_table())
    with connection.cursor() as cursor:
        source, rows = _offer(cursor, "slot", slot)
        cursor.execute(f"PREPARE {_NAME} AS FROM {rows}")
        times = slot.times_planned
        cursor.execute(_EXECUTE).fetchall()
        del source
    return slot.times_planned == times


def _offer(connection: duckdb.DuckDBPyConnection, name: str, slot: Slot) -> tuple[object, str]:
    """What lets SQL of a connection read a slot as long as it is kept, and what SQL reads it by."""
    register = getattr(connection, "_register_source", None)
    if register is None:  # a release without them: it may plan a view each time
        source, relation = slot, f"_{name}"
        connection.register(relation, slot)
    else:
        source = register(slot)
        relation = f'"{source.name}"'
    casts = _casts(slot.schema)
    return source, f"(FROM {relation} {casts})" if casts else relation


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The rows of one statement, which is planned once; DuckDB plans a relation twice."""
    # Of a script, the rows are those of its last statement that has any.
    return connection.sql(f"{sql}\n;\nRESET VARIABLE nothing").to_arrow_table()


def give(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Let SQL read rows that DuckDB has made, in its own types, as a table of this name."""
    casts = _casts(rows.schema)
    if not casts:
        connection.register(name, rows)
        return
    connection.register(f"_{name}", rows)
    connection.execute(f"CREATE TEMP VIEW {name} AS FROM _{name} {casts}")


def _casts(schema: pa.Schema) -> str:
    """The SELECT that gives 128-bit sums DuckDB's own type; empty if there are none."""
    wide = [f'"{f.name}"::HUGEINT AS "{f.name}"' for f in schema if f.type == _HUGEINT]
    return f"SELECT * REPLACE ({', '.join(wide)})" if wide else ""


def take(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Undo `give`."""
    if _casts(rows.schema):
        connection.execute(f"DROP VIEW IF EXISTS {name}")
        connection.unregister(f"_{name}")
    else:
        connection.unregister(name)


PLANS: Final = Plans()
atexit.register(PLANS.close)
