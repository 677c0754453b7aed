"""Remove and pack in stores below a URL; all other stores as `changing` does.

An object store has neither renames nor locks. A pack is there once its ``traces.parquet`` is, which
is written last, and its manifest hides what it replaces, which is removed then. So whoever is
killed in between leaves a store that reads as before or after it. What must not run at the same
time is another change of the same runs.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from profframe.errors import ParameterError, StoreError
from profframe.query.selection import Numbers, Text, integers, texts
from profframe.remote.trees import RemotePath, remote
from profframe.remote.uploads import put_folder, remove_folder
from profframe.store import manifest
from profframe.store.catalogue import segments
from profframe.store.catalogue.remote_segments import RemoteSegments, mend, record, record_places
from profframe.store.layout import Place, identity, name_in, next_pack, packs, places
from profframe.store.maintenance import changing
from profframe.store.maintenance.changing import (
    Progress,
    check_rest,
    check_unchanged,
    groups_to_pack,
    keys_to_remove,
    write_pack,
)
from profframe.store.maintenance.listing import root_of
from profframe.store.manifest import Key
from profframe.store.parquet import keys_in
from profframe.system.drafts import scratch

_LAST: Final = "traces.parquet"
"""Written last and removed first: a folder that has it is complete."""


def compact(path: str | os.PathLike[str], progress: Progress | None = None) -> int:
    """Pack many folders of one (run, rank) into few; answers stay the same.

    As `profframe.store.maintenance.changing.compact`, also of a store below a URL: what is packed
    passes through this machine.

    Parameters
    ----------
    path
        The store; a path or a URL.
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
    """
    root = root_of(path)
    far = remote(root)
    if far is None:
        return changing.compact(path, progress)
    root = _cleaned(far)
    number = 0
    for group, of_all in groups_to_pack(root, progress):
        _pack(root, group, group, of_all)
        number += sum(len(place.names) for place in group)
    segments.fold(RemoteSegments(far), all_of_them=True)
    return number


def remove(
    path: str | os.PathLike[str],
    runs: Text | None = None,
    ranks: Numbers | None = None,
    *,
    keep_answers: bool = False,
) -> list[Key]:
    """Remove runs, or some of their ranks, while others may read the store.

    As `profframe.store.maintenance.changing.remove`, also of a store below a URL.

    Parameters
    ----------
    path
        The store; a path or a URL.
    runs, ranks
        Run or runs, rank or ranks to remove. One of them may be None, for all.
    keep_answers
        Whether answers that are kept of removed runs stay; a store below a URL has none.

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
    """
    far = remote(root_of(path))
    if far is None:
        return changing.remove(path, runs, ranks, keep_answers=keep_answers)
    if runs is None and ranks is None:
        raise ParameterError("remove: needs runs or ranks")
    root = _cleaned(far)
    stored = places(root)
    removed = keys_to_remove(
        stored,
        None if runs is None else texts("runs", runs),
        None if ranks is None else integers("ranks", ranks),
    )
    check_rest(root, stored, removed)
    singles = [p for p in stored if not p.members and not p.keys.isdisjoint(removed)]
    packed = [place for place in stored if not place.members.isdisjoint(removed)]
    tombstones = [
        (key, name_in(root, place.folder))
        for place in (*singles, *packed)
        for key in place.keys & removed
    ]
    record(_far(root), [], sorted(tombstones))
    if packed:
        # A pack may have an older state of a folder, which must not become visible again.
        rest = [replace(place, visible=place.visible - removed) for place in packed]
        _pack(root, rest, [*packed, *singles])
    for place in singles:
        remove_folder(_far(place.folder), _LAST)
    return sorted(removed)


def _far(path: Path) -> RemotePath:
    far = remote(path)
    if far is None:
        raise StoreError(f"{path}: not below a URL")
    return far


def _cleaned(root: RemotePath) -> Path:
    """A store, listed anew, without what its packs have replaced, and with a whole catalogue."""
    if root.name.startswith(("run=", "rank=", manifest.PACK)):
        raise StoreError(f"{root}: only a part of a store; give the path of the whole store")
    fresh = root.tree.fresh().path.as_path()
    _clean(fresh, packs(fresh))
    tree = root.tree.fresh()
    mend(tree)
    return tree.path.as_path()


def _clean(root: Path, latest: Iterable[Path]) -> None:
    """Remove folders that some packs have replaced, and packs without a member."""
    for pack in latest:
        if not (pack / _LAST).exists():
            continue  # it was not written to its end
        content = manifest.read(pack)
        for name, expected in content.replaces.items():
            folder = root / name
            if folder.exists() and (not expected or identity(folder) == expected):
                remove_folder(_far(folder), _LAST)
        if content.members == {} and not keys_in(pack / _LAST):
            remove_folder(_far(pack), _LAST)


def _pack(
    root: Path,
    packed: Sequence[Place],
    replaced: Sequence[Place],
    progress: Progress | None = None,
) -> None:
    """Publish a pack of the visible rows of some places, record it, and remove others."""
    identities = {place.folder: place.identity for place in replaced}
    with scratch() as aside:
        fresh = aside / "pack"
        fresh.mkdir()
        write_pack(root, fresh, packed, identities, progress)
        now = _far(root).tree.fresh().path.as_path()
        check_unchanged({now / name_in(root, f): expected for f, expected in identities.items()})
        name = next_pack(now, uuid.uuid4().hex[:8]).name
        put_folder(fresh, _far(now / name), _LAST)
    now = _far(root).tree.fresh().path.as_path()
    pack = next(place for place in places(now) if place.folder.name == name)
    record_places(_far(now), [pack])
    _clean(now, [now / name])
