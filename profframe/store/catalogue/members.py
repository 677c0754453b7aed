"""Everything that the catalogue says of the members of a store on a file system."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

import polars as pl

from profframe.store.catalogue import segments
from profframe.store.catalogue.listing import FEW, of_catalogue
from profframe.store.catalogue.remote_segments import segments_of
from profframe.store.catalogue.rows import as_table, rows_of

_KEY: Final = ["folder", "run", "rank"]
_IDENTITY: Final = ["traces_bytes", "traces_mtime_ns"]


def members(root: Path, runs: Collection[str] | None = None) -> pl.DataFrame | None:
    """Rows of all members that readers see; those that the catalogue lacks are read from files.

    Parameters
    ----------
    root
        The store.
    runs
        Runs that are needed; members of others may be left out.

    Returns
    -------
    polars.DataFrame or None
        Columns are those of a segment, by run and rank; None for a small store,
        and one that has to be walked.

    Raises
    ------
    StoreError
        A file of a folder that the catalogue does not know is damaged.

    Examples
    --------
    >>> members(Path("no/such/store")) is None
    True
    """
    state = of_catalogue(root, runs, above=FEW)
    if state is None:
        return None
    rows = segments.read(segments_of(root), runs=runs).latest().filter(~pl.col("is_removed"))
    singles, packed = state.places.singles, state.places.packed.filter("is_visible")
    of_folder = pl.col("folder").str.extract(r"^([^/]*)").is_in(state.unknown)
    catalogued = pl.concat(
        [
            rows.join(singles.filter(~of_folder), [*_KEY, *_IDENTITY], "semi"),
            rows.join(packed.filter(~of_folder), _KEY, "semi"),
        ]
    )
    unknown = [
        row
        for place in (state.places if state.unknown else ())
        if not {place.folder.name, place.folder.parent.name}.isdisjoint(state.unknown)
        for row in rows_of(root, place)
    ]
    fresh = pl.from_arrow(as_table(unknown))
    assert isinstance(fresh, pl.DataFrame)  # noqa: S101 - for the type checker
    every = pl.concat([catalogued, fresh])
    if len(every) != len(singles) + len(packed):
        return None  # a segment was folded between the two looks, with a row that was written again
    return every.sort("run", "rank")
