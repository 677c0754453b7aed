"""What a trace is made of.

Functions of this package take a `BaseTrace`, so that they need not know `Trace`, which names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import NoReturn, Self

import pyarrow as pa

from profframe import schema, store
from profframe.query.selection import Numbers, Selection, Text, integers, texts
from profframe.query.session import Session
from profframe.query.sources import InMemory


class BaseTrace:
    """A session about rows in memory or in a store; immutable."""

    __slots__ = ("_session",)
    _session: Session

    def __init__(self, session: Session) -> None:
        object.__setattr__(self, "_session", session)

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> Self:
        """Make a trace from tables in memory.

        Parameters
        ----------
        tables
            Every table of `profframe.schema.TABLES`, in the schema's columns and types; optional
            ones may be missing.

        Returns
        -------
        Trace
            A trace on these tables; nothing is copied.
        """
        return cls(Session.of(InMemory(schema.complete(tables))))

    @classmethod
    def from_store(
        cls,
        path: str | PathLike[str],
        *,
        runs: Text | None = None,
        ranks: Numbers | None = None,
    ) -> Self:
        """Open a store; tables are read when a question needs them.

        Parameters
        ----------
        path
            Folder that `to_parquet` or ``profframe convert`` wrote.
        runs, ranks
            As for `filter`; other files are not opened.

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
        numbers = None if ranks is None else integers("ranks", ranks)
        selection = Selection() if names is None else Selection().runs(names)
        selection = selection if numbers is None else selection.ranks(numbers)
        return cls(Session.of(store.scan(path, names, numbers), selection))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Trace is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Trace is frozen: cannot delete {name!r}")

    def __reduce__(self) -> tuple[type[Self], tuple[Session]]:
        return type(self), (self._session,)
