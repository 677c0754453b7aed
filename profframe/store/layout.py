"""Where a store has what: folders of one (run, rank) each, and packs of many.

Whatever is at work, and wherever it is killed, a reader finds every (run, rank) once:

- a folder of its own is newer than what packs have of it, and a later pack than an earlier one;
- the manifest of a pack lists the folders and packs that it replaces. They count for nothing from
  the moment that the pack is published, by one rename; removing them is cleaning up. A folder is
  meant as it was: one that has been written again since is not replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from profframe import schema
from profframe.errors import StoreError
from profframe.query.selection import any_of, literal
from profframe.store import manifest
from profframe.store.manifest import MOST_RANK, PACK, Key, Manifest
from profframe.store.parquet import keys_in

SET_ASIDE: Final = ".old-"
TEMPORARY: Final = ".tmp-"
"""What a writer at work has; readers pass it by, and it is removed when it is a day old."""
_LOCK: Final = ".lock"
_LONGEST_COMPONENT: Final = 200
_LISTINGS: Final = 10
_RANK: Final = re.compile("rank=(0|[1-9][0-9]{0,9})", re.ASCII)
_CUT: Final = re.compile("[^~]{160}~[0-9a-f]{32}", re.ASCII)
_TABLE_FILES: Final = frozenset(f"{name}.parquet" for name in schema.TABLES)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a file per table.

    ``component`` and ``rank`` are from the path of a folder of one (run, rank), whose files need
    not be read to know them; ``members`` and those ``visible`` of them are of any other folder.
    """

    folder: Path
    component: str | None = None
    rank: int | None = None
    members: frozenset[Key] = frozenset()
    visible: frozenset[Key] = frozenset()
    was: str = ""
    """Its `identity` when it was found."""

    def file(self, table: str) -> Path:
        """Path of a table's file."""
        return self.folder / f"{table}.parquet"

    @property
    def is_pack(self) -> bool:
        """Whether it is a pack of a store."""
        return self.folder.name.startswith(PACK)

    @property
    def keys(self) -> frozenset[Key]:
        """What it has; a name that was too long for its path is read."""
        if self.component is None or self.rank is None:
            return self.visible
        if "~" in self.component:
            return keys_in(self.file("traces"))
        return frozenset({(unquote(self.component), self.rank)})

    @property
    def names(self) -> frozenset[Key]:
        """What it has, runs as components; nothing is read."""
        if self.component is None or self.rank is None:
            return frozenset((component(run), rank) for run, rank in self.visible)
        return frozenset({(self.component, self.rank)})

    @property
    def condition(self) -> str | None:
        """SQL: a row of its files counts; None where all do."""
        if self.visible == self.members:
            return None
        hidden = self.members - self.visible
        if len(hidden) < len(self.visible):
            return f"NOT {_one_of(hidden)}"
        return _one_of(self.visible)

    def only(self, runs: Container[str] | None, ranks: Container[int] | None) -> Place | None:
        """The place with what is asked of it; None if it has nothing of that.

        Parameters
        ----------
        runs
            As `components` makes it of names, for folders of one; None for all.
        ranks
            Ranks; None for all.
        """
        if self.component is None or self.rank is None:
            chosen = frozenset(
                (run, rank)
                for run, rank in self.visible
                if (runs is None or component(run) in runs) and (ranks is None or rank in ranks)
            )
            return replace(self, visible=chosen) if chosen else None
        is_run = runs is None or self.component in runs
        return self if is_run and (ranks is None or self.rank in ranks) else None


def component(run: str) -> str:
    """Write a run's name as one safe path component.

    Letters, digits, ``_``, ``-`` and ``.`` stay, the rest is percent-encoded, so that
    `urllib.parse.unquote` gives the name back. A name too long for a file system is cut and ends in
    ``~`` and a digest of it all; the column ``run`` has it in full.

    Parameters
    ----------
    run
        Any text.

    Returns
    -------
    str
        The component, without ``run=``.

    Examples
    --------
    >>> component("2024/lr=0.1 é")
    '2024%2Flr%3D0.1%20%C3%A9'
    """
    encoded = quote(run, safe="").replace("~", "%7E")
    if len(encoded) <= _LONGEST_COMPONENT:
        return encoded
    return f"{encoded[:160]}~{hashlib.sha256(run.encode()).hexdigest()[:32]}"


def folder_of(root: Path, run: str, rank: int) -> Path:
    """Where a (run, rank) with a folder of its own is in a store, or is to be."""
    return root / f"run={component(run)}" / f"rank={rank}"


def places(root: Path, *, tolerant: bool = False) -> tuple[Place, ...]:
    """What a store has, each (run, rank) once.

    Parameters
    ----------
    root
        The store, or a folder of one.
    tolerant
        Whether to pass by what is damaged: a pack without a sound manifest replaces nothing.

    Returns
    -------
    tuple of Place
        Folders by run and rank, then packs.

    Raises
    ------
    StoreError
        A pack is damaged.
    """
    for attempt in reversed(range(_LISTINGS)):
        # Folders go only after a pack with what they had is there: so look for that again.
        before = packs(root)
        try:
            found = _visible(root, [*_folders(root)], tolerant=tolerant)
        except StoreError:
            if not attempt or packs(root) == before:
                raise
            continue
        if packs(root) == before:
            break
    return found


def packs(root: Path) -> tuple[Path, ...]:
    """The packs of a store, those that are replaced as well; the latest first."""
    with suppress(OSError), os.scandir(root) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.startswith(PACK) and entry.is_dir(follow_symlinks=False)
        ]
        return tuple(root / name for name in sorted(names, key=manifest.age, reverse=True))
    return ()


def next_pack(root: Path, digest: str) -> Path:
    """A name for a pack, later than those that there are, and never used before."""
    latest = max((manifest.age(pack.name)[0] for pack in packs(root)), default=0)
    return root / f"{PACK}{latest + 1:06}-{digest}"


def write_manifest(folder: Path, more: Mapping[str, object] | None = None) -> None:
    """Note size and checksum of every table file, and more."""
    files = {}
    for table in schema.TABLES:
        file = folder / f"{table}.parquet"
        files[file.name] = {"bytes": file.stat().st_size, "sha256": checksum(file)}
    noted = {"schema_version": schema.SCHEMA_VERSION, "files": files, **(more or {})}
    (folder / manifest.NAME).write_text(json.dumps(noted))


def checksum(file: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def temporary(root: Path) -> Iterator[Path]:
    """A folder in a store that nobody else sees, and that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def identity(folder: Path) -> str:
    """Text that tells a folder from one that is written in its place; empty if it is not there."""
    try:
        stat = (folder / "traces.parquet").stat()
    except OSError:
        return ""
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def name_in(root: Path, folder: Path) -> str:
    """How manifests call a folder of a store, also while it is set aside."""
    return str(folder.with_name(folder.name.removeprefix(SET_ASIDE)).relative_to(root))


def check_own(root: Path, folder: Path) -> None:
    """Raise an error if the path of a folder leads out of its store, over a link.

    Raises
    ------
    StoreError
        It names the link.
    """
    path = root
    for part in folder.relative_to(root).parts:
        path /= part
        if part == ".." or path.is_symlink():
            raise StoreError(f"{path}: a link; nothing is changed behind a link in a store")


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Alone among those that name things in a store, where its file system has locks."""
    import fcntl

    # A link in its place could name a file of somebody else's, which must not be emptied.
    handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _folders(root: Path) -> Iterator[Path]:
    """Folders with table files, no hidden ones; a set-aside one stands in for a missing one."""
    for where, names, files in os.walk(root):
        if not _TABLE_FILES.isdisjoint(files):
            yield Path(where)
        present = set(names)
        names[:] = [
            name
            for name in names
            if not name.startswith(".")
            or (name.startswith(SET_ASIDE) and name.removeprefix(SET_ASIDE) not in present)
        ]


def _visible(root: Path, folders: Iterable[Path], *, tolerant: bool) -> tuple[Place, ...]:
    several = sorted(folders, key=_by_run_and_rank)
    noted = [
        _manifest(folder, tolerant=tolerant)
        for folder in several
        if folder.name.startswith(PACK) and folder.parent == root
    ]
    replaced = {name: was for by in noted for name, was in by.replaces.items()}
    alone: list[Place] = []
    others: list[Place] = []
    for folder in several:
        name, was = name_in(root, folder) if replaced and folder != root else "", identity(folder)
        if name in replaced and replaced[name] in {"", was}:
            continue
        run, rank = _named(folder)
        if run is None or rank is None:
            others.append(Place(folder, was=was))
        else:
            alone.append(Place(folder, run, rank, was=was))
    taken: set[tuple[str, int]] = {(p.component or "", p.rank or 0) for p in alone}
    found: list[Place] = []
    for place in sorted(others, key=lambda p: manifest.age(p.folder.name), reverse=True):
        members = _members(place, tolerant=tolerant)
        visible = frozenset(k for k in members if (component(k[0]), k[1]) not in taken)
        taken |= {(component(run), rank) for run, rank in visible}
        found.append(replace(place, members=members, visible=visible))
    return (*alone, *reversed(found))


def _named(folder: Path) -> tuple[str | None, int | None]:
    """Run, as in the path, and rank of a folder of one (run, rank); None for one of another."""
    whole = folder.absolute() if folder.name and folder.parent.name else folder.resolve()
    run, number = whole.parent.name, _RANK.fullmatch(whole.name.removeprefix(SET_ASIDE))
    if not run.startswith("run=") or not number or int(number[1]) > MOST_RANK:
        return None, None
    run = run.removeprefix("run=")
    is_ours = run.isascii() and (_CUT.fullmatch(run) or component(unquote(run)) == run)
    return (run, int(number[1])) if is_ours else (None, None)


def _manifest(folder: Path, *, tolerant: bool) -> Manifest:
    try:
        return manifest.read(folder)
    except StoreError:
        if tolerant:
            return Manifest()
        raise


def _members(place: Place, *, tolerant: bool) -> frozenset[Key]:
    try:
        return keys_in(place.file("traces"))
    except StoreError:
        if tolerant:
            return frozenset()
        raise


def _by_run_and_rank(folder: Path) -> tuple[str, int, str]:
    rank = folder.name.removeprefix(SET_ASIDE).removeprefix("rank=")
    return str(folder.parent), int(rank) if rank.isdecimal() else -1, folder.name


def _one_of(keys: Iterable[Key]) -> str:
    by_run: dict[str, list[int]] = defaultdict(list)
    for run, rank in sorted(keys):
        by_run[run].append(rank)
    return any_of(
        f"(run = {literal(run)} AND rank IN ({', '.join(map(str, ranks))}))"
        for run, ranks in by_run.items()
    )
