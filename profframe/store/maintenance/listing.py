"""List the contents of a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import polars as pl

from profframe import schema, store
from profframe.errors import StoreError
from profframe.store.catalogue.listing import listed
from profframe.store.catalogue.members import members
from profframe.store.catalogue.rows import rows_of
from profframe.store.kept.validity import history_rows
from profframe.store.layout import KEPT, Place, places

_LISTINGS: Final = 10
_CONTENTS: Final = {
    "run": pl.String,
    "rank": pl.Int32,
    "events": pl.Int64,
    "bytes": pl.Int64,
    "start_ns": pl.Int64,
    "clock": pl.String,
    "schema_version": pl.String,
    "facts_version": pl.String,
    "folder": pl.String,
}


def contents(path: str | os.PathLike[str]) -> pl.DataFrame:
    """List the traces of a store, of any schema version.

    Parameters
    ----------
    path
        The store; a path or a URL.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank), ordered: ``run rank events``; ``bytes`` of its files, of a pack its
        share by events; ``start_ns`` and ``clock``, as in `traces`; ``schema_version`` and
        ``facts_version`` of the profframe that read the trace; ``folder`` in the store, ``kept``
        where only answers of the run stay, without ``events``.

    Raises
    ------
    StoreError
        There is no store, or a file of it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = convert("examples/cpu_training.json.gz", folder)
    ...     contents(folder)["run", "rank", "folder"].rows()
    [('cpu_training', 0, 'run=cpu_training/rank=0')]
    """
    return _contents_of(root_of(path), _LISTINGS)


def _contents_of(root: Path, attempts: int) -> pl.DataFrame:
    of_catalogue = members(root)
    if of_catalogue is not None:
        present = of_catalogue.select(pl.col(name).cast(kind) for name, kind in _CONTENTS.items())
        past = pl.DataFrame([*_history(root, listed(root))], _CONTENTS, orient="row")
        return pl.concat([present, past]).sort("run", "rank")
    listing = places(root)
    try:
        rows = [
            {name: row.get(name) for name in _CONTENTS}
            for place in listing
            for row in rows_of(root, place)
        ]
    except StoreError:
        if attempts and not all(place.folder.exists() for place in listing):
            return _contents_of(root, attempts - 1)  # something was removed or packed meanwhile
        raise
    rows += _history(root, listing)
    return pl.DataFrame(rows, _CONTENTS, orient="row").sort("run", "rank")


def _history(root: Path, listing: Iterable[Place]) -> Iterator[dict[str, Any]]:
    """Rows of members of which only answers of their run are there."""
    names = [name for name in _CONTENTS if name in schema.TRACES.names]
    for row in history_rows(root, listing, names):
        version = str(row["schema_version"])
        yield row | {"events": None, "bytes": 0, "schema_version": version, "folder": KEPT}


def root_of(path: str | os.PathLike[str]) -> Path:
    """Absolute path of a store, or its place below a URL."""
    root = store.root_at(path).absolute()
    if not store.is_store(root):
        raise StoreError(f"{path}: not a profframe store")
    return root


def size(place: Place) -> int:
    """Bytes of a folder's tables, without those that are gone."""
    total = 0
    for file in place.folder.glob("*.parquet"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
