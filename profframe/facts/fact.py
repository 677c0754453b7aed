"""A fact: a function that declares the columns that it reads and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from profframe import schema
from profframe.facts.column_views import ColumnView, Conversions, Held, once
from profframe.system.disk_tables import SpooledTable

if TYPE_CHECKING:
    from profframe.intervals import Ints

_MOST_NAMED: Final = 5
"""Names in the detail of a note."""

Tables: TypeAlias = Mapping[str, pa.Table]
"""The tables of one trace, by the names of ``schema.TABLES``."""
Columns: TypeAlias = frozenset[str]
"""Names of columns with their tables: ``events.name``."""
Note: TypeAlias = tuple[str, int, str | None, int | None]
"""A row of ``quality``: check, number of events, detail, example."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBuilder:
    """A table that gets columns one after the other: a `pyarrow.Table` copies its list each time.

    It has what facts and `with_output` need from a table.
    """

    held: Mapping[str, Held]
    num_rows: int
    nulls: Mapping[pa.DataType, Held] = field(default_factory=dict)
    """For each type the first column with NULLs only: others share it, to save memory."""
    conversions: Conversions = field(default_factory=Conversions)

    @classmethod
    def of(cls, table: pa.Table) -> ColumnBuilder:
        """Wrap a table; nothing is copied."""
        names = zip(table.schema.names, table.columns, strict=True)
        return cls({}, table.num_rows).with_columns(dict(names))

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return [*self.held]

    def select(self, names: Iterable[str]) -> ColumnView:
        """Some columns."""
        return ColumnView({name: self.held[name] for name in names}, self.num_rows)

    def with_columns(self, new: Mapping[str, pa.ChunkedArray | pa.Array]) -> ColumnBuilder:
        """A copy with additional or replaced columns."""
        held, nulls = dict(self.held), dict(self.nulls)
        for name, values in new.items():
            column = Held.of(values, self.conversions)
            held[name] = nulls.setdefault(values.type, column) if column.is_null else column
        return ColumnBuilder(held, self.num_rows, nulls, self.conversions)

    def table(self) -> pa.Table:
        """All columns as a table."""
        columns = [column.values for column in self.held.values()]
        return pa.Table.from_arrays(columns, [*self.held])


@dataclass(frozen=True, slots=True)
class Output:
    """Result of a fact: arrays by names of columns, and rows of ``quality``."""

    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a fact is about: without any of it all that the fact gives is NULL, and nothing runs.

    Attributes
    ----------
    kinds : frozenset of str
        Kinds of slices.
    values : frozenset of str
        Columns with at least one value.
    """

    kinds: frozenset[str]
    values: Columns

    def met(self, tables: Tables) -> bool:
        """Whether the tables have any of it."""
        events = tables["events"]
        if isinstance(events, SpooledTable):  # looking would read columns from the disk
            return True
        return (bool(self.kinds) and not self.kinds.isdisjoint(_kinds_of(events))) or any(
            _has_value(tables.get(table), name)
            for table, names in _by_table(self.values).items()
            for name in names
        )


def any_of(kinds: Iterable[str] = (), **values: str) -> Needs:
    """Needs by kinds of slices, and by columns with values as in `columns`.

    Examples
    --------
    >>> any_of(kinds=["kernel"], flows="time_ns").values
    frozenset({'flows.time_ns'})
    """
    return Needs(frozenset(kinds), columns(**values))


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """A function that computes columns of a trace from other columns of it.

    Attributes
    ----------
    compute : Callable[..., Output]
        Takes tables with only the input columns, as a `ColumnView` or a `pyarrow.Table` each, and
        the options by name.
    inputs : frozenset of str
        Columns that it reads; those that a source lacks are missing.
    outputs : frozenset of str
        Columns that it returns: all, or none of them.
    options : tuple of str
        Names of the options that it takes.
    needs : Needs, optional
        What a trace must have any of for the fact to apply; None if it always does.
    """

    compute: Callable[..., Output]
    inputs: Columns
    outputs: Columns
    options: tuple[str, ...]
    needs: Needs | None = None

    def __call__(self, tables: Tables, **options: object) -> Tables:
        """The tables with the fact's columns and notes."""
        return with_output(tables, self.output(tables, **options))

    def output(self, tables: Tables, **options: object) -> Output:
        """The fact's columns and notes, from the inputs alone."""
        if self.needs is not None and not self.needs.met(tables):
            return self._nothing(tables)
        return self.compute(self._inputs_of(tables), **options)

    def _nothing(self, tables: Tables) -> Output:
        """NULL in the columns that are not there yet."""
        lacking = {}
        for table, names in _by_table(self.outputs).items():
            if table in tables:
                rows = tables[table]
                types = schema.TABLES[table].arrow
                present = rows.held if isinstance(rows, ColumnBuilder) else {*rows.column_names}
                for name in names:
                    if name not in present:
                        nulls = pa.nulls(rows.num_rows, types.field(name).type)
                        lacking[f"{table}.{name}"] = nulls
        return Output(lacking)

    def conflicts_with(self, earlier: Fact) -> bool:
        """Whether one of the two facts returns columns that the other reads or returns.

        These are Bernstein's conditions: two facts without a conflict may run in any order.
        """
        return not (
            self.inputs.isdisjoint(earlier.outputs)
            and self.outputs.isdisjoint(earlier.inputs | earlier.outputs)
        )

    def _inputs_of(self, tables: Tables) -> Tables:
        inputs = {}
        for table, wanted in _by_table(self.inputs).items():
            if table in tables:
                rows = tables[table]
                # This runs for each fact: a table would make a list of all its names each time.
                names = rows.held if isinstance(rows, ColumnBuilder) else {*rows.column_names}
                if chosen := [name for name in wanted if name in names]:
                    inputs[table] = rows.select(chosen)
        return inputs


@cache
def _by_table(columns: Columns) -> Mapping[str, tuple[str, ...]]:
    """Names of columns by table."""
    split = [column.partition(".") for column in sorted(columns)]
    return {table: tuple(c for t, _, c in split if t == table) for table, _, _ in split}


def _kinds_of(events: pa.Table | ColumnBuilder) -> frozenset[str]:
    """The kinds of slices that there are."""
    if isinstance(events, ColumnBuilder):
        return once(events.select(["kind"]), "kind", "kinds", _words_in)
    return _words_in(events["kind"])


def _words_in(column: pa.ChunkedArray) -> frozenset[str]:
    """The words that occur in a column with dictionaries, which may have more."""
    return frozenset(
        word
        for chunk in column.chunks
        for word in chunk.dictionary.take(chunk.indices.unique().drop_null()).to_pylist()
    )


def _has_value(table: pa.Table | ColumnBuilder | None, name: str) -> bool:
    """Whether a table has a column with any value."""
    if isinstance(table, ColumnBuilder):
        return name in table.held and not table.held[name].is_null
    if table is None or name not in table.column_names:
        return False
    return bool(table[name].null_count < table.num_rows)


def fact(
    inputs: Columns,
    outputs: Columns,
    options: tuple[str, ...] = (),
    needs: Needs | None = None,
) -> Callable[[Callable[..., Output]], Fact]:
    """Decorator that turns a function into a fact with these columns and options.

    ``needs`` says what it is about, where a look at kinds and columns tells; of its inputs.
    """
    return lambda compute: Fact(compute, inputs, outputs, options, needs)


def columns(**names: str) -> Columns:
    """Columns by table, with their names separated by spaces.

    Examples
    --------
    >>> sorted(columns(events="kind name", flows="thread"))
    ['events.kind', 'events.name', 'flows.thread']
    """
    return frozenset(f"{table}.{name}" for table, text in names.items() for name in text.split())


def of_events(*notes: Note, **arrays: pa.Array) -> Output:
    """Columns of ``events``."""
    return Output({f"events.{name}": values for name, values in arrays.items()}, notes)


def note(check: str, rows: Ints, detail: str | None = None) -> Iterable[Note]:
    """The note of a check about rows of ``events``, if there are any."""
    if rows.size:
        yield check, rows.size, detail, int(rows[0])


def listed(names: Sequence[object]) -> str:
    """The first few names, for the detail of a note.

    Examples
    --------
    >>> listed([3, 4]), listed(range(9))
    ('3, 4', '0, 1, 2, 3, 4, ...')
    """
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return ", ".join(map(str, names[:_MOST_NAMED])) + more


def with_output(tables: Tables, output: Output) -> Tables:
    """Tables with the columns of a fact, which replace those of the same names, and its notes."""
    by_table: dict[str, dict[str, pa.Array]] = {}
    for full_name, array in output.columns.items():
        name, _, column = full_name.partition(".")
        by_table.setdefault(name, {})[column] = array
    if by_table:
        tables = {
            **tables,
            **{name: _with(tables.get(name), new) for name, new in by_table.items()},
        }
    if not output.notes:
        return tables
    notes = schema.quality_rows(*output.notes)
    return {**tables, "quality": pa.concat_tables([tables["quality"], notes])}


def _with(
    table: pa.Table | ColumnBuilder | None, new: Mapping[str, pa.Array]
) -> pa.Table | ColumnBuilder:
    """The table with columns that are added or replaced; if it has other rows, these columns."""
    if table is None or table.num_rows != len(next(iter(new.values()))):
        return pa.table(dict(new))
    if isinstance(table, ColumnBuilder):
        return table.with_columns(new)
    rows: pa.Table = table
    for column, array in new.items():
        values = _shared_if_null(rows, array)
        if column in rows.column_names:
            rows = rows.set_column(rows.column_names.index(column), column, values)
        else:
            rows = rows.append_column(column, values)
    return rows


def _shared_if_null(table: pa.Table, values: pa.Array) -> pa.Array | pa.ChunkedArray:
    """The values, or if all are NULL an existing column like that, to save memory."""
    if values.null_count < len(values) or isinstance(table, SpooledTable):
        return values
    same_type = (other for other in table.columns if other.type == values.type)
    return next((other for other in same_type if other.null_count == len(other)), values)
