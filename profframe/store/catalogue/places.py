"""Folders of a store as a sequence, which makes an object for a folder only when one is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final, Protocol, SupportsIndex, overload

import polars as pl

from profframe import schema
from profframe.query.selection import Integers
from profframe.store.layout import Place, component, identity
from profframe.store.manifest import Key

Files = tuple[str | None, list[str]]
"""A condition on the rows of some files of a table, and their paths; None for all rows."""
_SINGLE: Final = r"^run=(.*)/(?:\.old-)?rank="
SINGLES: Final = pl.Schema(
    {
        "folder": pl.String,
        "run": pl.String,
        "rank": pl.Int32,
        "traces_bytes": pl.Int64,
        "traces_mtime_ns": pl.Int64,
        "source_events": pl.Int64,
        "optional_tables": pl.String,
        "is_this_schema": pl.Boolean,
        "is_this_version": pl.Boolean,
    }
)
"""Columns of folders of one member; a run is NULL if its name is in the files only."""
PACKED: Final = pl.Schema(
    [*SINGLES.items(), ("pack_members", pl.Int32), ("is_visible", pl.Boolean)]
)
"""Columns of members of packs."""


class Places(Protocol):
    """Folders of a store, with each (run, rank) once: those of one member first, then packs."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Place, ...]: ...
    def __iter__(self) -> Iterator[Place]: ...
    def __hash__(self) -> int: ...

    def runs(self) -> Collection[str]:
        """Names of the runs."""

    def ranks(self) -> Collection[int]:
        """Numbers of the ranks."""

    def only(self, runs: Collection[str] | None, ranks: Integers | None) -> Places:
        """Those that have some runs and ranks; None for all."""

    def files(self, table: str) -> Iterator[Files]:
        """Files of a table with the condition on their rows."""

    def sizes(self) -> pl.DataFrame | None:
        """``run rank source_events`` of each member; None if that is only in its files."""

    def unchecked(self) -> Iterator[Place]:
        """Folders of which the catalogue does not say that this version can read them."""

    @property
    def are_current(self) -> bool:
        """Whether this version has written all members that are not `unchecked`."""


class PlaceList(tuple[Place, ...]):
    """Folders as objects.

    Examples
    --------
    >>> places = PlaceList([Place(Path("store/run=a/rank=0"), ("a", 0))])
    >>> places.runs(), [*places.files("events")]
    ({'a'}, [(None, ['store/run=a/rank=0/events.parquet'])])
    """

    __slots__ = ()

    def runs(self) -> Collection[str]:
        """Names of the runs."""
        return {run for place in self for run, _ in place.keys}

    def ranks(self) -> Collection[int]:
        """Numbers of the ranks."""
        return {rank for place in self for _, rank in place.keys}

    def only(self, runs: Collection[str] | None, ranks: Integers | None) -> PlaceList:
        """Those that have some runs and ranks; None for all."""
        names = None if runs is None else {component(run) for run in runs}
        return PlaceList(part for place in self if (part := place.only(names, ranks)))

    def files(self, table: str) -> Iterator[Files]:
        """Files of a table with the condition on their rows."""
        present = [place for place in self if place.has(table)]
        files = [str(place.file(table)) for place in present if place.condition is None]
        if files:
            yield None, files
        for place in present:
            if place.condition is not None:
                yield place.condition, [str(place.file(table))]

    def sizes(self) -> None:
        """None: it is only in the files."""

    def unchecked(self) -> Iterator[Place]:
        """Folders that nobody has checked."""
        return iter(self)

    @property
    def are_current(self) -> bool:
        """Whether this version has written all that is checked."""
        return True


@dataclass(frozen=True, eq=False)
class CataloguedPlaces:
    """Folders as rows of the catalogue, and of those that it does not have."""

    root: Path
    singles: pl.DataFrame
    """Columns are `SINGLES`, by run and rank."""
    packed: pl.DataFrame
    """Columns are `PACKED`, by age of the pack, run and rank."""

    @cached_property
    def _packs(self) -> pl.DataFrame:
        """A row for each pack."""
        return self.packed.group_by("folder", maintain_order=True).agg(
            pl.col("optional_tables").first(),
            pl.col("is_this_schema").all(),
            pl.col("is_visible").all().alias("is_all_visible"),
            (pl.len() == pl.col("pack_members").first()).fill_null(value=False).alias("is_whole"),
            pl.col("run"),
            pl.col("rank"),
            pl.col("is_visible"),
        )

    def __len__(self) -> int:
        return len(self.singles) + len(self._packs)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> PlaceList: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Place | PlaceList:
        if isinstance(index, slice):
            return PlaceList(self[number] for number in range(*index.indices(len(self))))
        number = range(len(self))[index]
        if number < len(self.singles):
            return next(self._single_places(self.singles[number : number + 1]))
        number -= len(self.singles)
        return next(self._pack_places(self._packs[number : number + 1]))

    def __iter__(self) -> Iterator[Place]:
        return chain(self._single_places(self.singles), self._pack_places(self._packs))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        parts = (int(part.hash_rows().sum() or 0) for part in (self.singles, self.packed))
        return hash((str(self.root), len(self.singles), len(self.packed), *parts))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CataloguedPlaces)
            and self.root == other.root
            and hash(self) == hash(other)
            and self.singles.equals(other.singles)
            and self.packed.equals(other.packed)
        )

    def runs(self) -> Collection[str]:
        """Names of the runs."""
        runs = {*self.singles["run"].unique()}
        if None in runs:
            runs.remove(None)
            unnamed = self.singles.filter(pl.col("run").is_null())
            runs |= {run for place in self._single_places(unnamed) for run, _ in place.keys}
        return runs | {*self._visible["run"].unique()}

    def ranks(self) -> Collection[int]:
        """Numbers of the ranks."""
        return {*self.singles["rank"].unique(), *self._visible["rank"].unique()}

    @property
    def _visible(self) -> pl.DataFrame:
        return self.packed.filter("is_visible")

    def only(self, runs: Collection[str] | None, ranks: Integers | None) -> CataloguedPlaces:
        """Those that have some runs and ranks; None for all."""
        is_one = pl.lit(value=True)
        if runs is not None:
            is_one &= pl.col("run").is_in([*runs])
        if ranks is not None:
            is_one &= _among(ranks)
        is_unnamed = pl.col("run").is_null()
        if runs is not None:
            of_run = pl.col("folder").str.extract(_SINGLE).is_in([component(run) for run in runs])
            is_single = is_one.or_(is_unnamed & of_run & (True if ranks is None else _among(ranks)))
        else:
            is_single = is_one
        packed = self.packed.with_columns(pl.col("is_visible") & is_one)
        return replace(
            self,
            singles=self.singles.filter(is_single),
            packed=packed.filter(pl.col("is_visible").any().over("folder")),
        )

    def files(self, table: str) -> Iterator[Files]:
        """Files of a table with the condition on their rows."""
        start, end = pl.lit(f"{self.root}/"), pl.lit(f"/{table}.parquet")
        path = pl.concat_str(start, "folder", end)
        packs = self._packs.filter(_has(table))
        is_plain = pl.col("is_all_visible") & pl.col("is_whole")
        files = [
            *self.singles.filter(_has(table)).select(path).to_series().to_list(),
            *packs.filter(is_plain).select(path).to_series().to_list(),
        ]
        if files:
            yield None, files
        for place in self._pack_places(packs.filter(~is_plain)):
            yield place.condition, [str(place.file(table))]

    def sizes(self) -> pl.DataFrame | None:
        """``run rank source_events`` of each member; None if that is only in its files."""
        names = ["run", "rank", "source_events"]
        rows = pl.concat([self.singles.select(names), self._visible.select(names)])
        return None if any(rows.null_count().row(0)) else rows

    def unchecked(self) -> Iterator[Place]:
        """Folders that nobody has checked."""
        is_unknown = ~pl.col("is_this_schema")
        yield from self._single_places(self.singles.filter(is_unknown))
        yield from self._pack_places(self._packs.filter(is_unknown))

    @property
    def are_current(self) -> bool:
        """Whether this version has written all that is checked."""
        checked = pl.col("is_this_version") | ~pl.col("is_this_schema")
        parts = (part.select(checked.all()).item() for part in (self.singles, self._visible))
        return all(parts)

    def _single_places(self, rows: pl.DataFrame) -> Iterator[Place]:
        columns = ("folder", "rank", "traces_bytes", "traces_mtime_ns", "optional_tables")
        for folder, rank, size, time_ns, optional in rows.select(columns).iter_rows():
            run = folder.partition("/")[0].removeprefix("run=")
            now = "" if size is None else f"{size}-{time_ns}"
            tables = frozenset(optional.split())
            yield Place(self.root / folder, (run, rank), identity=now, optional=tables)

    def _pack_places(self, rows: pl.DataFrame) -> Iterator[Place]:
        for pack in rows.iter_rows(named=True):
            keys: list[Key] = [*zip(pack["run"], pack["rank"], strict=True)]
            members = frozenset(keys)
            visible = frozenset(
                key for key, shown in zip(keys, pack["is_visible"], strict=True) if shown
            )
            folder = self.root / pack["folder"]
            yield Place(
                folder,
                members=members,
                visible=visible,
                identity=identity(folder),
                optional=frozenset(pack["optional_tables"].split()),
                is_part=not pack["is_whole"],
            )


def _among(ranks: Integers) -> pl.Expr:
    rank = pl.col("rank").cast(pl.Int64)
    if isinstance(ranks, range):
        start, stop = max(ranks.start, -1), min(ranks.stop, 2**31)
        return (rank >= start) & (rank < stop)
    return rank.is_in([rank for rank in ranks if 0 <= rank < 2**31])


def _has(table: str) -> pl.Expr:
    """Whether a folder has a file of a table."""
    if table not in schema.OPTIONAL_TABLES:
        return pl.lit(value=True)
    return pl.col("optional_tables").str.split(" ").list.contains(table)
