"""Layout of a store: folders of one (run, rank) each, and packs of many.

A reader finds each (run, rank) exactly once, whatever writers do and wherever they are killed:

- a folder of one (run, rank) is newer than packs, and a later pack than an earlier one;
- the manifest of a pack lists the folders and packs that it replaces. Readers ignore them once one
  rename has published the pack; removing them is cleaning up. The manifest has the identity of each
  folder: one that has been written again since then is not replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from profframe import schema
from profframe.errors import StoreError
from profframe.query.selection import any_of, literal
from profframe.remote.trees import RemotePath, remote
from profframe.store import manifest
from profframe.store.manifest import MOST_RANK, PACK, Key
from profframe.store.parquet import keys_in
from profframe.system.drafts import draft

SET_ASIDE: Final = ".old-"
TEMPORARY: Final = ".tmp-"
"""Prefix of a writer's draft; readers skip it."""
CATALOGUE: Final = "catalogue"
"""Folder of the segments of a store's catalogue, beside those of its members."""
KEPT: Final = "kept"
"""Folder of answers that are kept beside the members."""
STAGED: Final = ".staged-"
"""Prefix of a folder that a batch has written and not yet named; readers skip it."""
_BLOCK: Final = 8 << 20
"""Bytes of a remote file that are read at once."""
_LONGEST_COMPONENT: Final = 200
_LISTINGS: Final = 10
_RANK: Final = re.compile("rank=(0|[1-9][0-9]{0,9})", re.ASCII)
_CUT: Final = re.compile("[^~]{160}~[0-9a-f]{32}", re.ASCII)
_TABLE_FILES: Final = frozenset(f"{name}.parquet" for name in schema.TABLES)
_OPTIONAL_FILES: Final = {f"{name}.parquet": name for name in schema.OPTIONAL_TABLES}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a file per table.

    A folder of one (run, rank) has its ``name`` from its path, without reading files: the run as a
    component, and the rank.
    Any other folder has ``members``, and those of them that are ``visible``.
    """

    folder: Path
    name: Key | None = None
    members: frozenset[Key] = frozenset()
    visible: frozenset[Key] = frozenset()
    identity: str = ""
    """The `identity` of the folder when it was listed."""
    optional: frozenset[str] = frozenset()
    """Optional tables that it had a file of when it was listed."""
    is_part: bool = False
    """Whether ``members`` has only some of those that its files have."""

    def has(self, table: str) -> bool:
        """Whether it must have a file of a table: without one, an optional table is empty."""
        return table not in schema.OPTIONAL_TABLES or table in self.optional

    def file(self, table: str) -> Path:
        """Path of a table's file."""
        return self.folder / f"{table}.parquet"

    @property
    def is_pack(self) -> bool:
        """Whether it is a pack of a store."""
        return self.folder.name.startswith(PACK)

    @property
    def keys(self) -> frozenset[Key]:
        """Visible (run, rank)s; a name too long for the path is read from a file."""
        if self.name is None:
            return self.visible
        run, rank = self.name
        return keys_in(self.file("traces")) if "~" in run else frozenset({(unquote(run), rank)})

    @property
    def names(self) -> frozenset[Key]:
        """Visible (run, rank)s, runs as components; reads no file."""
        if self.name is None:
            return frozenset((component(run), rank) for run, rank in self.visible)
        return frozenset({self.name})

    @property
    def condition(self) -> str | None:
        """SQL: a row of its files is visible; None where all are."""
        if self.is_part:
            return _any_key(self.visible)
        if self.visible == self.members:
            return None
        hidden = self.members - self.visible
        if len(hidden) < len(self.visible):
            return f"NOT {_any_key(hidden)}"
        return _any_key(self.visible)

    def only(self, runs: Container[str] | None, ranks: Container[int] | None) -> Place | None:
        """The place with some of its runs and ranks; None if it has none of them.

        Parameters
        ----------
        runs
            Names as `component` writes them; None for all.
        ranks
            Ranks; None for all.
        """

        def is_among(run: str, rank: int) -> bool:
            return (runs is None or run in runs) and (ranks is None or rank in ranks)

        if self.name is not None:
            return self if is_among(*self.name) else None
        visible = frozenset(key for key in self.visible if is_among(component(key[0]), key[1]))
        return replace(self, visible=visible) if visible else None


def component(run: str) -> str:
    """Write a run's name as one safe path component.

    Letters, digits, ``_``, ``-`` and ``.`` stay, the rest is percent-encoded, so that
    `urllib.parse.unquote` gives the name back. A name too long for a file system is cut and ends in
    ``~`` and a digest of the whole name; the column ``run`` has it in full.

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
    """Path of the folder for one (run, rank) of a store."""
    return root / f"run={component(run)}" / f"rank={rank}"


def places(root: Path, *, tolerant: bool = False) -> tuple[Place, ...]:
    """Folders of a store, with each (run, rank) once.

    Parameters
    ----------
    root
        The store, or a folder of one.
    tolerant
        Whether to ignore damage: a pack without a sound manifest replaces nothing.

    Returns
    -------
    tuple of Place
        Folders by run and rank, then packs.

    Raises
    ------
    StoreError
        A pack is damaged.
    """
    if (far := remote(root)) is not None:
        return _visible(root, _remote_folders(far), tolerant=tolerant)
    for attempt in reversed(range(_LISTINGS)):
        # Folders are removed only after their pack is published: so list the packs again.
        before = packs(root)
        try:
            listing = _visible(root, [*folders_in(root)], tolerant=tolerant)
        except StoreError:
            if not attempt or packs(root) == before:
                raise
            continue
        if packs(root) == before:
            break
    return listing


def packs(root: Path) -> tuple[Path, ...]:
    """All packs of a store, also those that are replaced; the latest first."""
    if (far := remote(root)) is not None:
        pack_names = sorted(filter(_is_pack, far.folders()), key=manifest.age, reverse=True)
        return tuple(root / name for name in pack_names)
    with suppress(OSError), os.scandir(root) as entries:
        names = [
            entry.name
            for entry in entries
            if _is_pack(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
        return tuple(root / name for name in sorted(names, key=manifest.age, reverse=True))
    return ()


def _is_pack(name: str) -> bool:
    return name.startswith(PACK)


def next_pack(root: Path, digest: str) -> Path:
    """An unused name for a pack, later than all packs of the store."""
    latest = max((manifest.age(pack.name)[0] for pack in packs(root)), default=0)
    return root / f"{PACK}{latest + 1:06}-{digest}"


def write_manifest(folder: Path, more: Mapping[str, object] | None = None) -> None:
    """Write a manifest: size and checksum of every table file, and more."""
    files = {}
    for table in schema.TABLES:
        file = folder / f"{table}.parquet"
        if table in schema.OPTIONAL_TABLES and not file.exists():
            continue
        files[file.name] = {"bytes": file.stat().st_size, "sha256": checksum(file)}
    content = {"schema_version": schema.SCHEMA_VERSION, "files": files, **(more or {})}
    (folder / manifest.NAME).write_text(json.dumps(content))


def checksum(file: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    if (far := remote(file)) is not None:
        digest = hashlib.sha256()
        with far.open("rb") as remote_stream:
            for block in iter(partial(remote_stream.read, _BLOCK), b""):
                digest.update(block)
        return digest.hexdigest()
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def temporary(root: Path) -> Iterator[Path]:
    """A folder in a store that readers ignore, removed at the end."""
    with draft(root, TEMPORARY) as folder:
        yield folder


def identity(folder: Path) -> str:
    """Fingerprint of a folder, which its replacement does not share; empty without a folder."""
    try:
        stat = (folder / "traces.parquet").stat()
    except OSError:
        return ""
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def name_in(root: Path, folder: Path) -> str:
    """Name of a folder in manifests, even while it is set aside."""
    return str(folder.with_name(folder.name.removeprefix(SET_ASIDE)).relative_to(root))


def check_own(root: Path, folder: Path) -> None:
    """Raise an error if the path of a folder leads out of its store through a link.

    Raises
    ------
    StoreError
        The message names the link.
    """
    path = root
    for part in folder.relative_to(root).parts:
        path /= part
        if part == ".." or path.is_symlink():
            raise StoreError(f"{path}: a link; profframe changes nothing behind links in a store")


def file_names(folder: Path) -> frozenset[str]:
    """Names of the files in a folder; none if it does not exist."""
    if (far := remote(folder)) is not None:
        return far.names()
    with suppress(OSError), os.scandir(folder) as entries:
        return frozenset(entry.name for entry in entries if entry.is_file())
    return frozenset()


@contextmanager
def store_errors(root: Path, verb: str = "write") -> Iterator[None]:
    """Turn an OSError into a StoreError that names its file, or the store."""
    try:
        yield
    except OSError as error:
        file, why = error.filename or root, error.strerror or error
        raise StoreError(f"{file}: cannot {verb} the store: {why}") from error


def rank_of(name: str) -> int | None:
    """Rank of a folder's name in the folder of a run, even while it is set aside; None for others.

    Examples
    --------
    >>> [rank_of(name) for name in ("rank=12", ".old-rank=3", "rank=01", "events.parquet")]
    [12, 3, None, None]
    """
    number = _RANK.fullmatch(name.removeprefix(SET_ASIDE))
    return int(number[1]) if number and int(number[1]) <= MOST_RANK else None


def optional_tables(names: Iterable[str]) -> frozenset[str]:
    """Optional tables among names of files."""
    return frozenset(_OPTIONAL_FILES[name] for name in _OPTIONAL_FILES.keys() & names)


def folders_in(root: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """Folders with table files, and which optional ones; a set-aside one replaces a missing one."""
    beside = {CATALOGUE, KEPT}
    for where, names, files in os.walk(root):
        if not _TABLE_FILES.isdisjoint(files):
            yield Path(where), optional_tables(files)
        present = set(names) - beside
        names[:] = [name for name in names if name not in beside]
        beside = set()  # only in the store itself
        names[:] = [
            name
            for name in names
            if not name.startswith(".")
            or (name.startswith(SET_ASIDE) and name.removeprefix(SET_ASIDE) not in present)
        ]


def _remote_folders(root: RemotePath) -> Iterator[tuple[Path, frozenset[str]]]:
    """Folders of a store elsewhere that are complete: those with ``traces.parquet``, the last."""
    for path, folder in root.tree.walk().items():
        own = root.tree.path_at(path)
        parts = own.relative_to(root.as_path()).parts
        if "traces.parquet" in folder.files and not any(p.startswith(".") for p in parts):
            yield own.as_path(), optional_tables(folder.files)


def _visible(
    root: Path, folders: Iterable[tuple[Path, frozenset[str]]], *, tolerant: bool
) -> tuple[Place, ...]:
    optional = dict(folders)
    ordered = sorted(optional, key=_by_run_and_rank)
    tolerance = suppress(StoreError) if tolerant else nullcontext()
    replaced: dict[str, str] = {}
    for folder in ordered:
        if folder.name.startswith(PACK) and folder.parent == root:
            with tolerance:
                replaced |= manifest.read(folder).replaces
    singles: list[Place] = []
    others: list[Place] = []
    for folder in ordered:
        name, now = name_in(root, folder) if replaced and folder != root else "", identity(folder)
        if name in replaced and replaced[name] in {"", now}:
            continue
        place = Place(folder, name_of(folder), identity=now, optional=optional[folder])
        (others if place.name is None else singles).append(place)
    names = {place.name for place in singles}
    shared: list[Place] = []
    for place in sorted(others, key=lambda p: manifest.age(p.folder.name), reverse=True):
        members: frozenset[Key] = frozenset()
        with tolerance:
            members = keys_in(place.file("traces"))
        visible = frozenset(k for k in members if (component(k[0]), k[1]) not in names)
        names |= {(component(run), rank) for run, rank in visible}
        shared.append(replace(place, members=members, visible=visible))
    return (*singles, *reversed(shared))


def name_of(folder: Path) -> Key | None:
    """Run as in the path, and rank; None for a folder that is not of one (run, rank)."""
    path = folder.absolute() if folder.parent.name else folder.resolve()
    run, rank = path.parent.name, rank_of(path.name)
    if not run.startswith("run=") or rank is None:
        return None
    run = run.removeprefix("run=")
    is_encoded = run.isascii() and (_CUT.fullmatch(run) or component(unquote(run)) == run)
    return (run, rank) if is_encoded else None


def _by_run_and_rank(folder: Path) -> tuple[str, int, str]:
    rank = folder.name.removeprefix(SET_ASIDE).removeprefix("rank=")
    return str(folder.parent), int(rank) if rank.isdecimal() else -1, folder.name


def _any_key(keys: Iterable[Key]) -> str:
    by_run: dict[str, list[int]] = defaultdict(list)
    for run, rank in sorted(keys):
        by_run[run].append(rank)
    return any_of(
        f"(run = {literal(run)} AND rank IN ({', '.join(map(str, ranks))}))"
        for run, ranks in by_run.items()
    )
