"""Remove and pack while others may read."""

from __future__ import annotations

import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa

from profframe import schema, store
from profframe.errors import ParameterError, StoreError, UnknownNameError
from profframe.query.selection import (
    Integers,
    Numbers,
    Text,
    check_numbers,
    check_texts,
    integers,
    texts,
)
from profframe.store import manifest
from profframe.store.catalogue.listing import listed
from profframe.store.catalogue.upkeep import fold, mend, record, record_packs
from profframe.store.kept.folding import fold as fold_kept
from profframe.store.kept.validity import history
from profframe.store.layout import (
    SET_ASIDE,
    Place,
    check_own,
    identity,
    name_in,
    next_pack,
    packs,
    places,
    store_errors,
    temporary,
    write_manifest,
)
from profframe.store.leftovers import remove_leftovers
from profframe.store.lock import locked
from profframe.store.maintenance.listing import root_of, size
from profframe.store.manifest import Key
from profframe.store.parquet import keys_in, rows_to_write, write_file

Progress = Callable[[int, int], None]
_OWN_PACK_BYTES: Final = 16 * 2**20
"""From so many bytes on a run has a pack of its own, which takes longer to read than to open."""


def remove(
    path: str | os.PathLike[str],
    runs: Text | None = None,
    ranks: Numbers | None = None,
    *,
    keep_answers: bool = False,
) -> list[Key]:
    """Remove runs, or some of their ranks, while others may read the store.

    A running question gets all of a run, or an error that names what is gone; a later one does not
    see it.

    Parameters
    ----------
    path
        The store.
    runs, ranks
        Run or runs, rank or ranks to remove. One of them may be None, for all.
    keep_answers
        Whether answers that are kept of removed runs stay (`profframe.store.kept`).

    Returns
    -------
    list of tuple
        Run and rank of each that was removed.

    Raises
    ------
    ParameterError
        Neither runs nor ranks are given.
    UnknownNameError
        There is no such run or rank; nothing was removed.
    StoreError
        There is no store, it is damaged, or it cannot be changed.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = convert("examples/cpu_training.json.gz", folder)
    ...     remove(folder, "cpu_training")
    [('cpu_training', 0)]
    """
    if runs is None and ranks is None:
        raise ParameterError("remove: needs runs or ranks")
    root = root_of(path)
    names = None if runs is None else texts("runs", runs)
    numbers = None if ranks is None else integers("ranks", ranks)
    with _exclusive(root):
        stored = [*listed(root)]
        past = set[Key]() if keep_answers else {*history(root, stored)}
        removed = keys_to_remove(stored, names, numbers, past)
        check_rest(root, stored, removed)
        if not keep_answers:
            past = {key for key in past if numbers is None and key[0] in (names or ())}
            left = {run for place in stored for run, _ in place.keys - removed}
            whole = {run for run, _ in removed} - left
            fold_kept(root, stored, without=whole | {run for run, _ in past})
        _remove(root, stored, removed)
    return sorted(removed | past)


def keys_to_remove(
    stored: Iterable[Place],
    names: Sequence[str] | None,
    numbers: Integers | None,
    past: Collection[Key] = (),
) -> set[Key]:
    """Run and rank of what some runs and ranks name in a store, where others have only answers.

    Raises
    ------
    UnknownNameError
        There is no such run or rank.
    """
    keys = {key for place in stored for key in place.keys}
    check_texts("run", names or (), (run for run, _ in keys.union(past)))
    check_numbers("rank", numbers or (), (rank for _, rank in keys.union(past)))
    removed = {
        (run, rank)
        for run, rank in keys
        if (names is None or run in names) and (numbers is None or rank in numbers)
    }
    if not removed and names and numbers:
        raise UnknownNameError(
            f"no rank {', '.join(map(str, numbers))} in {', '.join(names)}; nothing was removed"
        )
    return removed


def check_rest(root: Path, stored: Iterable[Place], removed: set[Key]) -> None:
    """Refuse to remove what shares a pack that cannot be written anew, before anything is changed.

    Raises
    ------
    StoreError
        A pack is damaged, or of an older schema.
    """
    for place in stored:
        if not place.members.isdisjoint(removed):
            _check_is_current(root, replace(place, visible=place.visible - removed))


def _remove(root: Path, stored: Sequence[Place], removed: set[Key]) -> None:
    singles = [
        replace(p, identity=identity(p.folder) or p.identity)  # a copy has other times
        for p in stored
        if not p.members and not p.keys.isdisjoint(removed)
    ]
    packed = [place for place in stored if not place.members.isdisjoint(removed)]
    if packed:
        # A pack may have an older state of a folder, which must not become visible again.
        rest = [replace(place, visible=place.visible - removed) for place in packed]
        record_packs(root, [_pack(root, rest, [*packed, *singles])])
        fold_kept(root, places(root), at_least=1)
        return
    by_run: dict[Path, list[Place]] = defaultdict(list)
    for place in singles:
        by_run[place.folder.parent].append(place)
    counts = Counter(place.folder.parent for place in stored)
    for folder, ranks in by_run.items():
        if len(ranks) == counts[folder] and folder.parent == root:
            _delete_run(root, folder, {place.folder.name for place in ranks})
            continue
        for place in ranks:
            _delete(root, place.folder)
    record(root, [], removed)


def compact(path: str | os.PathLike[str], progress: Progress | None = None) -> int:
    """Pack many folders of one (run, rank) into few; answers stay the same.

    A run with 16 MiB or more gets a pack of its own, which is what answers across its ranks read;
    smaller ones share one. It includes earlier packs that have no more traces than the new folders,
    or that are partly replaced: so there are few packs, and large ones are seldom rewritten. The
    catalogue is brought up to date, and becomes one file.

    Parameters
    ----------
    path
        The store.
    progress
        Called with the bytes done and all bytes.

    Returns
    -------
    int
        Number of (run, rank)s that were packed; 0 where there was nothing to do.

    Raises
    ------
    StoreError
        There is no store, it is damaged, it was changed meanwhile, or it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> from profframe.store.maintenance import contents
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for run in "ab":
    ...         files = convert("examples/cpu_training.json.gz", folder, run=run)
    ...     compact(folder), contents(folder)["folder"].n_unique()
    (2, 1)
    """
    root = root_of(path)
    with _exclusive(root):
        mend(root)
        number = 0
        for group, of_all in groups_to_pack(root, progress):
            _pack_singles(root, group, of_all)
            number += sum(len(place.names) for place in group)
        fold(root)
        if number:
            fold_kept(root, places(root), at_least=1)
    return number


def groups_to_pack(
    root: Path, progress: Progress | None = None
) -> Iterator[tuple[Sequence[Place], Progress | None]]:
    """Places of a store that become a pack each, and what is called with the bytes done of all."""
    stored = [p for p in places(root) if manifest.is_name(name_in(root, p.folder))]
    sizes = {place.folder: size(place) for place in stored}
    groups = [group for part in _groups(stored, sizes) if (group := _places_to_pack(part))]
    done, total = 0, sum(sizes[place.folder] for group in groups for place in group)
    for group in groups:
        yield group, None if progress is None else partial(_progress, progress, done, total)
        done += sum(sizes[place.folder] for place in group)


def _progress(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _pack_singles(root: Path, group: Sequence[Place], progress: Progress | None) -> None:
    """Pack places, and let the catalogue know."""
    names = {place.folder: place.keys for place in group if place.name is not None}
    pack = _pack(root, group, group, progress)
    record_packs(root, [pack])
    # Rows of a run's folder that is gone do not count, and are folded away.
    left = [keys for folder, keys in names.items() if folder.parent.exists()]
    record(root, [], chain.from_iterable(left))


def _groups(stored: Iterable[Place], sizes: Mapping[Path, int]) -> list[list[Place]]:
    """Places that may share a pack: those of a large run, of each of these, and all others."""
    by_run: dict[str | None, list[Place]] = defaultdict(list)
    for place in stored:
        runs = {run for run, _ in place.names}
        by_run[next(iter(runs)) if len(runs) == 1 else None].append(place)
    shared = by_run.pop(None, [])
    groups = [shared]
    for places_of_run in by_run.values():
        is_large = sum(sizes[place.folder] for place in places_of_run) >= _OWN_PACK_BYTES
        if is_large:
            groups.append(places_of_run)
        else:
            shared += places_of_run
    return groups


def _places_to_pack(stored: Iterable[Place]) -> list[Place]:
    packed: list[Place] = []
    packs: list[Place] = []
    for place in stored:
        (packs if place.is_pack and place.visible == place.members else packed).append(place)
    traces = sum(len(place.names) for place in packed)
    for place in sorted(packs, key=lambda pack: len(pack.names)):
        if packed and len(place.names) <= traces:
            packed.append(place)
            traces += len(place.names)
    return packed if len(packed) > 1 else []


def _pack(
    root: Path,
    packed: Sequence[Place],
    replaced: Sequence[Place],
    progress: Progress | None = None,
) -> str:
    """Publish a pack of the visible rows of some places, then remove others; the pack's name."""
    identities = {place.folder: place.identity for place in replaced}
    with temporary(root) as aside:
        fresh = aside / "pack"
        fresh.mkdir()
        write_pack(root, fresh, packed, identities, progress)
        _to_disk(fresh)
        check_unchanged(identities)
        pack = fresh.rename(next_pack(root, uuid.uuid4().hex[:8]))
    _to_disk(root, files=False)
    _clean(root, [pack])
    return pack.name


def _check_is_current(root: Path, place: Place) -> None:
    """Raise an error for a folder that is damaged, or of a schema that a pack does not have."""
    version = store.check_folder(root, place).schema
    if version < schema.SCHEMA_VERSION and (place.visible or not place.members):
        raise StoreError(
            f"{place.folder}: of schema version {version}, a pack is written in version "
            f"{schema.SCHEMA_VERSION}: run `profframe store upgrade {root}` first"
        )


def check_unchanged(identities: Mapping[Path, str]) -> None:
    """Raise an error if a folder is another one now."""
    for folder, expected in identities.items():
        if identity(folder) != expected:
            raise StoreError(f"{folder}: was written again in the meantime; try again")


def write_pack(
    root: Path,
    fresh: Path,
    packed: Sequence[Place],
    identities: Mapping[Path, str],
    progress: Progress | None = None,
) -> None:
    """Write the visible rows of some places into a folder of this machine, with its manifest.

    Parameters
    ----------
    root
        The store.
    fresh
        An empty folder.
    packed
        The places.
    identities
        Folders that the pack replaces, as they were.
    progress
        Called with the bytes done and all bytes.

    Raises
    ------
    StoreError
        A folder is damaged, or not one of profframe.
    """
    for place in packed:
        _check_is_current(root, place)
    for folder in identities:
        if not manifest.is_name(name_in(root, folder)):
            raise StoreError(f"{folder}: not a profframe folder; nothing was changed")
    events: Counter[Key] = Counter({key: 0 for place in packed for key in place.keys})
    total, done = sum(map(size, packed)), 0
    for table in schema.TABLES:
        present = [place for place in packed if place.has(table)]
        done += sum(place.file(table).stat().st_size for place in present)
        rows = rows_to_write(table, _rows(present, table, events))
        if rows is not None:
            write_file(fresh / f"{table}.parquet", table, rows)
        if progress is not None:
            progress(done, total)
    content = {
        "members": [
            {"run": run, "rank": rank, "events": number}
            for (run, rank), number in sorted(events.items())
        ],
        "replaces": {
            name_in(root, folder): "" if folder.name.startswith(manifest.PACK) else expected
            for folder, expected in identities.items()
        },
    }
    write_manifest(fresh, content)


def _rows(packed: Sequence[Place], table: str, events: Counter[Key]) -> Iterator[pa.Table]:
    """Rows of a table, in parts of the size of a row group; counts events."""
    members = events.keys() | frozenset()
    for part in store.large_parts(packed, table):
        counts = _rows_by_member(part)
        if strange := counts.keys() - members:
            run, rank = key = min(strange)
            raise StoreError(
                f"{_file_with(packed, table, key)}: rows of run {run!r}, rank {rank}, which is not "
                "in its traces.parquet"
            )
        if table == "events":
            events.update(counts)
        yield part


def _rows_by_member(rows: pa.Table) -> dict[Key, int]:
    keys = pl.DataFrame(pa.table({name: rows[name] for name in ("run", "rank")}))
    counts = keys.group_by(pl.col("run").cast(pl.String), "rank").len()
    return {(run, rank): number for run, rank, number in counts.iter_rows()}


def _file_with(packed: Iterable[Place], table: str, key: Key) -> Path | None:
    """The file with rows of a member, which another folder should have."""
    for place in packed:
        if any(key in _rows_by_member(part) for part in store.row_groups(place, table)):
            return place.file(table)
    return None


def _clean(root: Path, latest: Sequence[Path]) -> None:
    """Remove folders that some packs have replaced, and empty packs."""
    for pack in latest:
        content = manifest.read(pack)
        for name, expected in content.replaces.items():
            folder = root / name
            aside = folder.with_name(SET_ASIDE + folder.name)
            for old in (aside, folder) if folder.exists() else (aside,):
                if old.exists() and (not expected or old == aside or identity(old) == expected):
                    try:
                        _delete(root, old, expected)
                    except StoreError as error:
                        raise StoreError(f"{pack / manifest.NAME}: {error}") from error
            with suppress(OSError):
                if folder.parent != root:
                    folder.parent.rmdir()
        if content.members == {} and not keys_in(pack / "traces.parquet"):
            _delete(root, pack)


def _delete(root: Path, folder: Path, expected: str = "") -> None:
    """Hide a folder by a rename and delete it; put it back if its identity is not ``expected``."""
    check_own(root, folder)
    with temporary(root) as aside:
        hidden = aside / folder.name
        try:
            folder.rename(hidden)
        except FileNotFoundError:
            return
        if expected and not folder.name.startswith(SET_ASIDE) and identity(hidden) != expected:
            store.publish(hidden, folder, replace=False)


def _delete_run(root: Path, folder: Path, ranks: set[str]) -> None:
    """Hide a run by a rename and delete it; put back ranks that were just added."""
    check_own(root, folder)
    with temporary(root) as aside:
        hidden = aside / folder.name
        folder.rename(hidden)
        for rank in hidden.glob("rank=*"):
            if rank.name not in ranks and SET_ASIDE + rank.name not in ranks:
                store.publish(rank, folder / rank.name, replace=False)


@contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    """Hold the lock of a store, after cleaning up what a killed process left."""
    if root.name.startswith(("run=", "rank=", manifest.PACK)):
        raise StoreError(f"{root}: only a part of a store; give the path of the whole store")
    with store_errors(root, "change"), locked(root):
        _clean(root, packs(root))
        remove_leftovers(root)
        yield


def _to_disk(folder: Path, *, files: bool = True) -> None:
    """Wait until a folder is on the disk: the folders that it replaces are deleted next."""
    for path in (*(folder.iterdir() if files else ()), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
