"""Folders of a store by its catalogue, as far as the folders themselves agree.

Folders are the truth. The catalogue saves the look into each of them: the store is listed once, and
the folder of a run is taken at the catalogue's word if its time is one that the catalogue has, and
its ranks have the checksum of that time. A pack is known by its name, because nobody changes it.
What the catalogue does not know, or knows otherwise, is looked at. A store without a catalogue, or
with anything in it that no profframe of today writes, is walked; and so is a small one, of which
each folder is looked into anyway, so that damage is named at once.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import polars as pl

from profframe import schema
from profframe.errors import StoreError
from profframe.remote.trees import remote
from profframe.store import manifest
from profframe.store.catalogue import segments
from profframe.store.catalogue.places import PACKED, SINGLES, CataloguedPlaces, PlaceList, Places
from profframe.store.catalogue.remote_segments import segments_of
from profframe.store.catalogue.rows import member_hashes
from profframe.store.catalogue.segments import LocalSegments
from profframe.store.facts_version import facts_version
from profframe.store.layout import (
    CATALOGUE,
    KEPT,
    SET_ASIDE,
    component,
    folders_in,
    identity,
    name_in,
    name_of,
    optional_tables,
    packs,
    places,
)
from profframe.store.manifest import PACK
from profframe.store.parquet import keys_in

FEW: Final = 100
"""A store of so few members is walked."""
_LISTINGS: Final = 10
_RUN: Final = "run="
_FOLDER: Final = r"^(?:run=[\w.%~-]*/rank=(?:0|[1-9][0-9]*)|pack-[0-9]+(?:-[0-9a-f]+)?)$".replace(
    r"\w", "0-9A-Za-z_"
)
_KEY: Final = ["run", "rank"]
_OF_TRACES: Final = ["traces_bytes", "traces_mtime_ns"]
_REPLACED: Final = ["replaced_bytes", "replaced_mtime_ns"]
LISTED: Final = (
    *("run", "rank", "folder", "is_removed", *_OF_TRACES, "run_mtime_ns", "run_checksum"),
    *(*_REPLACED, "pack_members", "optional_tables", "schema_version", "facts_version"),
    "source_events",
)
"""Columns that a listing needs."""


def listed(root: Path, runs: Collection[str] | None = None) -> Places:
    """Folders of a store, with each (run, rank) once; as `layout.places`, but by the catalogue.

    Parameters
    ----------
    root
        The store, or a folder of one.
    runs
        Runs that are needed; folders of others may be left out.

    Returns
    -------
    Places
        Folders by run and rank, then packs.

    Raises
    ------
    StoreError
        A pack is damaged.
    """
    for _ in range(_LISTINGS):
        state = of_catalogue(root, runs, above=FEW)
        if state is None or not len(state.places):
            break
        # Folders are removed only after their pack is published: so list the packs again.
        if {pack.name for pack in packs(root)} == state.packs:
            return state.places
    return PlaceList(places(root))


@dataclass(frozen=True, slots=True)
class Catalogued:
    """What the catalogue of a store and its folders say together.

    Attributes
    ----------
    places
        Folders of its members.
    packs
        Names of all packs.
    unknown
        Folders of runs, and packs, that the catalogue does not know as they are.
    """

    places: CataloguedPlaces
    packs: frozenset[str]
    unknown: Sequence[str]


def of_catalogue(
    root: Path, runs: Collection[str] | None = None, above: int = 0
) -> Catalogued | None:
    """Folders of a store by its catalogue; None where it has to be walked.

    Parameters
    ----------
    root, runs
        As for `listed`.
    above
        Number of members of a store that is walked.
    """
    if remote(root) is not None:
        return _of_commits(root, runs, above)
    files = LocalSegments(root)
    if not any(segments.number_of(name) is not None for name in files.names()):
        return None
    there = _in_root(root, runs)
    if there is None:
        return None
    try:
        contents = segments.read(files, LISTED, runs)
        if contents.total <= above or not contents.rows["folder"].str.contains(_FOLDER).all():
            return None
        rows, packed = contents.latest(), contents.packs
        del contents
        return _compared(root, rows, packed, *there)
    except StoreError:
        return None


def _of_commits(root: Path, runs: Collection[str] | None, above: int) -> Catalogued | None:
    """Folders of a store below a URL, where the catalogue alone says what is there."""
    try:
        contents = segments.read(segments_of(root), LISTED, runs)
    except StoreError:
        return None
    if contents.total <= above or not contents.rows["folder"].str.contains(_FOLDER).all():
        return None
    rows = _checked(segments.latest(contents.rows, _KEY).filter(~pl.col("is_removed")))
    is_single = pl.col("folder").str.starts_with(_RUN)
    names = sorted({*rows.filter(~is_single)["folder"]}, key=manifest.age)
    ages = pl.DataFrame(
        {"folder": names, "age": range(len(names))}, {"folder": pl.String, "age": pl.Int64}
    )
    packed = rows.filter(~is_single).join(ages, "folder").sort("age", *_KEY)
    result = CataloguedPlaces(
        root,
        _by_run_and_rank(rows.filter(is_single).select(*SINGLES)),
        packed.with_columns(is_visible=pl.lit(value=True)).select([*PACKED]),
    )
    return Catalogued(result, frozenset(pack.name for pack in packs(root)), ())


def only_members(root: Path) -> bool:
    """Whether a store has nothing but what profframe writes, so that a catalogue is used."""
    return _in_root(root, ()) is not None


def _in_root(
    root: Path, runs: Collection[str] | None
) -> tuple[Mapping[str, int], frozenset[str]] | None:
    """Times of folders of runs, and packs; None if there is anything else."""
    times: dict[str, int] = {}
    packed: set[str] = set()
    wanted = None if runs is None else {f"{_RUN}{component(run)}" for run in runs}
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(_RUN):
                    if (wanted is None or name in wanted) and entry.is_dir(follow_symlinks=False):
                        times[name] = entry.stat(follow_symlinks=False).st_mtime_ns
                elif name.startswith("."):
                    if name.startswith(SET_ASIDE):
                        return None
                elif name in {CATALOGUE, KEPT}:
                    pass
                elif name.startswith(PACK):
                    if entry.is_dir(follow_symlinks=False):
                        packed.add(name)
                elif entry.is_dir(follow_symlinks=False) or name.endswith(".parquet"):
                    return None
    except OSError:
        return None
    return times, frozenset(packed)


def _compared(
    root: Path,
    rows: pl.DataFrame,
    catalogued: frozenset[str],
    times: Mapping[str, int],
    packed: frozenset[str],
) -> Catalogued | None:
    is_single = pl.col("folder").str.starts_with(_RUN)
    singles, untrusted = _singles(rows.filter(is_single), times)
    walked = _walked(root, untrusted)
    if walked is None:
        return None
    of_packs = rows.filter(~is_single & pl.col("folder").is_in(packed))
    fresh = sorted(packed - catalogued, key=manifest.age)
    fresh_packs = _fresh_packs(root, fresh, packed & catalogued)
    if fresh_packs is None:
        return None
    singles = pl.concat([singles, walked])
    if packed and singles["run"].null_count():
        return None
    replaced, members = fresh_packs
    singles, of_packs = _not_replaced(root, singles, of_packs, replaced)
    of_packs = _checked(of_packs.filter(~pl.col("is_removed")))
    members = members.filter(~pl.col("folder").is_in([*replaced]))
    members = _with_visible(singles, pl.concat([of_packs.select(members.columns), members]))
    result = CataloguedPlaces(root, _by_run_and_rank(singles), members.select([*PACKED]))
    return Catalogued(result, packed, [*untrusted, *fresh])


def _singles(rows: pl.DataFrame, times: Mapping[str, int]) -> tuple[pl.DataFrame, list[str]]:
    """Rows of folders of one member, as they are; and the folders of runs that are others."""
    actual = pl.DataFrame(
        {"of_run": [*times], "run_mtime_ns": [*times.values()]},
        {"of_run": pl.String, "run_mtime_ns": pl.Int64},
    )
    rows = rows.with_columns(pl.col("folder").str.extract(r"^([^/]*)/").alias("of_run"))
    states = (
        rows.filter(pl.col("run_checksum").is_not_null())
        .join(actual, ["of_run", "run_mtime_ns"])
        .unique("of_run")
        .select("of_run", "run_checksum")
    )
    live = rows.filter(~pl.col("is_removed"), pl.col("of_run").is_in(states["of_run"].implode()))
    columns = (live[name].fill_null(0).to_numpy() for name in ("rank", *_OF_TRACES))
    sums = (
        live.select("of_run")
        .with_columns(pl.Series("checksum", member_hashes(*columns)))
        .group_by("of_run")
        .agg(pl.col("checksum").reinterpret(signed=True).sum())
    )
    is_same = pl.col("run_checksum") == pl.col("checksum").fill_null(0)
    trusted = states.join(sums, "of_run", "left").filter(is_same).select("of_run")
    if len(trusted) < len(states):
        live = live.join(trusted, "of_run", "semi")
    others = actual.join(trusted, "of_run", "anti")["of_run"].sort().to_list()
    return _checked(live).select(*SINGLES), others


def _checked(rows: pl.DataFrame) -> pl.DataFrame:
    is_this_schema = pl.col("schema_version") == str(schema.SCHEMA_VERSION)
    is_this_version = pl.col("facts_version") == facts_version()
    return rows.with_columns(
        is_this_schema.fill_null(value=False).alias("is_this_schema"),
        is_this_version.fill_null(value=False).alias("is_this_version"),
        pl.col("optional_tables").fill_null(""),
    )


def _walked(root: Path, names: Iterable[str]) -> pl.DataFrame | None:
    """Rows of the folders of some runs, by a look into each; None if one is no rank."""
    rows: list[dict[str, Any]] = []
    for name in names:
        for folder, optional in folders_in(root / name):
            key = name_of(folder)
            if key is None or folder.parent.parent != root:
                return None
            run = None if "~" in key[0] else unquote(key[0])
            if run is None:
                with suppress(StoreError):
                    of_file = keys_in(folder / "traces.parquet")
                    run = next(iter(of_file))[0] if len(of_file) == 1 else None
            size, _, time_ns = identity(folder).partition("-")
            rows.append(
                {
                    "folder": str(folder.relative_to(root)),
                    "run": run,
                    "rank": key[1],
                    "traces_bytes": int(size) if size else None,
                    "traces_mtime_ns": int(time_ns) if time_ns else None,
                    "optional_tables": " ".join(sorted(optional)),
                    "is_this_schema": False,
                    "is_this_version": False,
                }
            )
    return pl.DataFrame(rows, SINGLES, orient="row")


def _fresh_packs(
    root: Path, names: Sequence[str], catalogued: Iterable[str]
) -> tuple[Mapping[str, str], pl.DataFrame] | None:
    """What packs that the catalogue does not have replace, and their members.

    None for a pack that is no later than one that the catalogue has: that one may have replaced it.
    """
    latest = max((manifest.age(name) for name in catalogued), default=(-1, ""))
    replaced: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for name in names:
        if manifest.age(name) < latest or not manifest.is_name(name):
            return None
        replaced |= manifest.read(root / name).replaces
        keys = keys_in(root / name / "traces.parquet")
        files = {path.name for path in (root / name).iterdir()}
        words = " ".join(sorted(optional_tables(files)))
        rows += [
            {
                "folder": name,
                "run": run,
                "rank": rank,
                "optional_tables": words,
                "is_this_schema": False,
                "is_this_version": False,
                "pack_members": len(keys),
            }
            for run, rank in sorted(keys)
        ]
    columns = {name: kind for name, kind in PACKED.items() if name != "is_visible"}
    return replaced, pl.DataFrame(rows, columns, orient="row")


def _not_replaced(
    root: Path, singles: pl.DataFrame, of_packs: pl.DataFrame, replaced: Mapping[str, str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Folders that no pack has replaced.

    Parameters
    ----------
    root
        The store.
    singles, of_packs
        Rows of folders of one member, and of packs, those of removed members too.
    replaced
        What packs replace that the catalogue does not have: identity by name.
    """
    by_packs = of_packs.filter(pl.col("replaced_bytes").is_not_null())
    if len(by_packs) and len(singles):
        singles = singles.join(
            by_packs.unique([*_KEY, *_REPLACED]),
            left_on=[*_KEY, *_OF_TRACES],
            right_on=[*_KEY, *_REPLACED],
            how="anti",
            maintain_order="left",
        )
    if replaced:
        of_packs = of_packs.filter(~pl.col("folder").is_in([*replaced]))
        names = (name_in(root, root / folder) for folder in singles["folder"])
        identities = singles.select(pl.format("{}-{}", *_OF_TRACES)).to_series()
        is_replaced = [
            name in replaced and replaced[name] in {"", now or ""}
            for name, now in zip(names, identities, strict=True)
        ]
        singles = singles.filter(~pl.Series(is_replaced, dtype=pl.Boolean))
    return singles, of_packs


def _with_visible(singles: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Members of packs by age of the pack; visible is who is in no folder and no later pack."""
    names = sorted({*members["folder"].unique()}, key=manifest.age)
    columns = {"folder": pl.String, "age": pl.Int64}
    ages = pl.DataFrame({"folder": names, "age": range(len(names))}, columns)
    members = members.join(ages, "folder").sort("age", *_KEY)
    if len(singles):
        is_single = members.select(*_KEY).join(
            singles.select(*_KEY).unique().with_columns(is_single=pl.lit(value=True)),
            _KEY,
            "left",
            maintain_order="left",
        )["is_single"]
        members = members.with_columns(is_visible=is_single.is_null())
    else:
        members = members.with_columns(is_visible=pl.lit(value=True))
    if len(names) > 1:
        members = members.with_columns(pl.col("is_visible") & pl.struct(_KEY).is_last_distinct())
    return members.filter(pl.col("is_visible").any().over("folder"))


def _by_run_and_rank(singles: pl.DataFrame) -> pl.DataFrame:
    return singles.sort(pl.col("folder").str.extract(r"^([^/]*)/"), "rank", "folder")
