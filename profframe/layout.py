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
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema
from profframe.errors import StoreError
from profframe.selection import any_of, literal

Key = tuple[str, int]
"""Run and rank."""

PACK: Final = "pack-"
SET_ASIDE: Final = ".old-"
TEMPORARY: Final = ".tmp-"
"""What a writer at work has; readers pass it by, and it is removed when it is a day old."""
MANIFEST: Final = "manifest.json"
_LOCK: Final = ".lock"
_LONGEST_COMPONENT: Final = 200
_LISTINGS: Final = 10
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
            return _members(self.folder)
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


def places(root: Path) -> tuple[Place, ...]:
    """What a store has, each (run, rank) once.

    Parameters
    ----------
    root
        The store, or a folder of one.

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
            found = _visible(root, [*_folders(root)])
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
        names = [entry.name for entry in entries if entry.name.startswith(PACK)]
        return tuple(root / name for name in sorted(names, key=_age, reverse=True))
    return ()


def next_pack(root: Path, digest: str) -> Path:
    """A name for a pack, later than those that there are, and never used before."""
    latest = max((_age(pack.name)[0] for pack in packs(root)), default=0)
    return root / f"{PACK}{latest + 1:06}-{digest}"


def manifest(folder: Path) -> dict[str, Any]:
    """What was noted when a folder was written; nothing for one without.

    Raises
    ------
    StoreError
        It is damaged.
    """
    file = folder / MANIFEST
    try:
        noted = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{file}: cannot be read: {error}") from error
    if not isinstance(noted, dict):
        raise StoreError(f"{file}: not a manifest of profframe")
    return noted


def write_manifest(folder: Path, more: Mapping[str, object] | None = None) -> None:
    """Note size and checksum of every table file, and more."""
    files = {}
    for table in schema.TABLES:
        file = folder / f"{table}.parquet"
        files[file.name] = {"bytes": file.stat().st_size, "sha256": checksum(file)}
    noted = {"schema_version": schema.SCHEMA_VERSION, "files": files, **(more or {})}
    (folder / MANIFEST).write_text(json.dumps(noted))


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


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Errors of reading that name the file."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError) as error:
        raise StoreError(f"{file}: cannot be read: {error}; convert the trace again") from error


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


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Alone among those that name things in a store, where its file system has locks."""
    import fcntl

    with (root / _LOCK).open("w") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


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


def _visible(root: Path, folders: Iterable[Path]) -> tuple[Place, ...]:
    several = sorted(folders, key=_by_run_and_rank)
    noted = {folder: manifest(folder) for folder in several if folder.name.startswith(PACK)}
    replaced = {name: was for by in noted.values() for name, was in by.get("replaces", {}).items()}
    alone: list[Place] = []
    others: list[Path] = []
    for folder in several:
        name = name_in(root, folder) if replaced and folder != root else ""
        if name in replaced and replaced[name] in {"", identity(folder)}:
            continue
        run, rank = _named(folder)
        if run is None or rank is None:
            others.append(folder)
        else:
            alone.append(Place(folder, run, rank))
    taken: set[tuple[str, int]] = {(p.component or "", p.rank or 0) for p in alone}
    found: list[Place] = []
    for folder in sorted(others, key=lambda f: _age(f.name), reverse=True):
        members = _members(folder, noted.get(folder, {}))
        visible = frozenset(k for k in members if (component(k[0]), k[1]) not in taken)
        taken |= {(component(run), rank) for run, rank in visible}
        found.append(Place(folder, members=members, visible=visible))
    return (*alone, *reversed(found))


def _named(folder: Path) -> tuple[str | None, int | None]:
    """Run, as in the path, and rank of a folder of one (run, rank)."""
    whole = folder.absolute() if folder.name and folder.parent.name else folder.resolve()
    run, rank = whole.parent.name, whole.name.removeprefix(SET_ASIDE)
    number = rank.removeprefix("rank=")
    if run.startswith("run=") and rank.startswith("rank=") and number.isdecimal():
        return run.removeprefix("run="), int(number)
    return None, None


def _members(folder: Path, noted: Mapping[str, Any] | None = None) -> frozenset[Key]:
    if noted and "members" in noted:
        return frozenset((member["run"], member["rank"]) for member in noted["members"])
    file = folder / "traces.parquet"
    with reading(file), pq.ParquetFile(file) as opened:
        rows = opened.read(["run", "rank"]).to_pydict()
    return frozenset(zip(rows["run"], rows["rank"], strict=True))


def _by_run_and_rank(folder: Path) -> tuple[str, int, str]:
    rank = folder.name.removeprefix(SET_ASIDE).removeprefix("rank=")
    return str(folder.parent), int(rank) if rank.isdecimal() else -1, folder.name


def _age(pack: str) -> tuple[int, str]:
    number = pack.removeprefix(PACK).partition("-")[0]
    return int(number) if number.isdecimal() else -1, pack


def _one_of(keys: Iterable[Key]) -> str:
    by_run: dict[str, list[int]] = defaultdict(list)
    for run, rank in sorted(keys):
        by_run[run].append(rank)
    return any_of(
        f"(run = {literal(run)} AND rank IN ({', '.join(map(str, ranks))}))"
        for run, ranks in by_run.items()
    )
