"""Table columns with cached conversions, shared by the facts that read them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

_S = TypeVar("_S")
_T = TypeVar("_T")

FEW: Final = 1 << 12
"""Rows up to which calls cost more than the values: no thread is started."""
_MOST_KEPT: Final = 32 << 20
"""Bytes of conversions that are kept: facts that follow one another read the same few columns."""


class Conversions:
    """Conversions of columns, up to some bytes: those that were not used for longest go first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._size = 0

    def clear(self) -> None:
        """Forget all of them: they hold their columns, which may have been replaced since."""
        with self._lock:
            self._made.clear()
            self._size = 0

    def get(self, key: Hashable, make: Callable[[_S], _T], source: _S) -> _T:
        """What was made for a key, or is made now."""
        kept: Any = self._made.get(key)  # most are there: without the lock
        if kept is not None:
            with suppress(KeyError):  # another thread has just dropped it
                self._made.move_to_end(key)
            hit: _T = kept[0]
            return hit
        made = make(source)
        size = _size(made)
        with self._lock:
            if key not in self._made and size <= _MOST_KEPT // 4:
                self._made[key] = (made, size)
                self._size += size
            while self._size > _MOST_KEPT:
                _, (_, gone) = self._made.popitem(last=False)
                self._size -= gone
        return made


def _size(made: object) -> int:
    parts = made if isinstance(made, tuple) else (made,)
    return sum(part.nbytes if isinstance(part, np.ndarray | pa.Array) else 1024 for part in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A column and its cached conversions."""

    values: pa.ChunkedArray
    is_null: bool
    """Whether all values are NULL."""
    conversions: Conversions

    @classmethod
    def of(cls, values: pa.ChunkedArray | pa.Array, conversions: Conversions) -> Held:
        """The column of a name."""
        if isinstance(values, pa.Array):
            values = pa.chunked_array([values])
        return cls(values, values.null_count == len(values), conversions)


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
    return held.conversions.get((held, what), make, held.values)
