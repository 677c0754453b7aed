"""Table columns with cached conversions, shared by the facts that read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

_T = TypeVar("_T")

FEW: Final = 1 << 12
"""Rows up to which calls cost more than the values: what is made of columns is kept, and no thread
is started. Of more rows it would take too much memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A column and its cached conversions."""

    values: pa.ChunkedArray
    is_null: bool
    """Whether all values are NULL."""
    made: dict[Hashable, Any] | None

    @classmethod
    def of(cls, values: pa.ChunkedArray | pa.Array) -> Held:
        """The column of a name."""
        if isinstance(values, pa.Array):
            values = pa.chunked_array([values])
        count = len(values)
        return cls(values, values.null_count == count, {} if count <= FEW else None)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnView:
    """Some columns of one table, with the part of `pyarrow.Table`'s interface that facts use."""

    columns: Mapping[str, Held]
    num_rows: int

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.columns[name].values

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return [*self.columns]

    def select(self, names: Iterable[str]) -> ColumnView:
        """Some of the columns."""
        return ColumnView({name: self.columns[name] for name in names}, self.num_rows)

    def table(self) -> pa.Table:
        """The columns as a `pyarrow.Table`."""
        return pa.table({name: held.values for name, held in self.columns.items()})

    def take(self, rows: Any) -> pa.Table:
        """Some of the rows."""
        return self.table().take(rows)

    def filter(self, mask: Any) -> pa.Table:
        """The rows of a mask."""
        return self.table().filter(mask)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Each row as a dictionary."""
        columns = [held.values.to_pylist() for held in self.columns.values()]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def once(
    table: pa.Table | ColumnView, name: str, what: Hashable, make: Callable[[pa.ChunkedArray], _T]
) -> _T:
    """A conversion of a column, cached for columns of a view; callers must not modify it."""
    if not isinstance(table, ColumnView):
        return make(table[name])
    held = table.columns[name]
    if held.made is None:
        return make(held.values)
    if what not in held.made:
        held.made[what] = make(held.values)
    made: _T = held.made[what]
    return made
