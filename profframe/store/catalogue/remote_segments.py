"""Segments of a store below a URL, where the catalogue is the commit.

An object store has no rename and no times of folders. A member is there once a row says so, and a
segment is written in one step under a name that no other has.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from profframe import schema
from profframe.remote.trees import RemotePath, Tree, remote
from profframe.store.catalogue import segments
from profframe.store.catalogue.rows import as_table, rows_of, tombstone
from profframe.store.catalogue.segments import LocalSegments, SegmentFiles
from profframe.store.layout import (
    CATALOGUE,
    Place,
    component,
    folder_of,
    name_in,
    name_of,
    optional_tables,
    places,
)
from profframe.store.manifest import Key

_LOGGER: Final = "profframe.store"
_SMALL: Final = 1 << 20
"""Bytes up to which a segment is read whole, in one request."""
_FILES: Final = frozenset(
    f"{name}.parquet" for name in schema.TABLES if name not in schema.OPTIONAL_TABLES
)


class RemoteSegments:
    """Segments below a URL.

    Parameters
    ----------
    root
        The store.
    """

    def __init__(self, root: RemotePath) -> None:
        self._root = root
        self._folder = root / CATALOGUE

    def names(self) -> Sequence[str]:
        """Names of all files there, listed now."""
        self._folder = self._root.tree.fresh().path_at(self._root.path) / CATALOGUE
        return sorted(self._folder.names())

    def open(self, name: str) -> IO[bytes]:
        """One to read."""
        path = self._folder / name
        if path.stat().st_size > _SMALL:
            return path.open("rb")  # type: ignore[return-value]  # it is raw, and read as it is
        with path.tree.errors():
            return io.BytesIO(path.tree.files.cat_file(path.path))

    def put(self, name: str, content: bytes) -> None:
        """Write one in one request."""
        path = self._folder / name
        with path.tree.errors():
            path.tree.files.makedirs(self._folder.path, exist_ok=True)
            path.tree.files.pipe_file(path.path, content)

    def remove(self, name: str) -> None:
        """Remove one."""
        path = self._folder / name
        try:
            with path.tree.errors():
                path.tree.files.rm_file(path.path)
        except FileNotFoundError:
            return

    def place(self, name: str) -> str:
        """Its URL without secrets."""
        return str(self._folder / name)


def segments_of(root: Path) -> SegmentFiles:
    """The segments of a store, wherever it is."""
    far = remote(root)
    return LocalSegments(root) if far is None else RemoteSegments(far)


def record(root: RemotePath, keys: Iterable[Key], removed: Iterable[tuple[Key, str]] = ()) -> None:
    """Add runs and ranks that were published to the catalogue, and take others out.

    Parameters
    ----------
    root
        The store, listed after that.
    keys
        Run and rank of folders of one member.
    removed
        Run and rank of members that are gone, with their folders.

    Raises
    ------
    StoreError
        The catalogue cannot be written: nobody would see the members.
    """
    path = root.as_path()
    rows = [row for run, rank in keys for row in _rows_of(root, folder_of(path, run, rank))]
    rows += [tombstone(run, rank, folder) for (run, rank), folder in removed]
    if rows:
        segments.append(RemoteSegments(root), as_table(rows))


def record_places(root: RemotePath, listing: Iterable[Place]) -> None:
    """Add all that is visible of some places to the catalogue; a pack after what it replaces."""
    rows = [row for place in listing for row in rows_of(root.as_path(), place)]
    if rows:
        segments.append(RemoteSegments(root), as_table(rows))


def mend(tree: Tree) -> None:
    """Let the catalogue have what is there completely, which a killed writer has not recorded.

    A store that has no catalogue gets one. It lists everything, which takes a request for a
    thousand files.
    """
    root = tree.path
    files = RemoteSegments(root)
    rows = segments.members(files, ["run", "rank", "folder", "traces_bytes", "traces_mtime_ns"])
    recorded = {
        (folder, run, rank): f"{size}-{time}" for run, rank, folder, size, time in rows.iter_rows()
    }
    listing = places(root.as_path())
    for place in listing:
        folder = name_in(root.as_path(), place.folder)
        keys = place.keys
        if all(recorded.get((folder, *key)) == place.identity for key in keys):
            continue
        if place.name is None:
            record_places(root, [place])
        else:
            record(root, keys)
    seen = {(name_in(root.as_path(), p.folder), *key) for p in listing for key in p.keys}
    gone = [((run, rank), folder) for folder, run, rank in recorded.keys() - seen]
    others = {key for place in listing for key in place.keys}
    record(root, [], sorted((key, folder) for key, folder in gone if key not in others))


def _rows_of(root: RemotePath, folder: Path) -> list[dict[str, Any]]:
    """The row of a folder of one member; none if it is gone, incomplete, or named otherwise."""
    far = remote(folder)
    names = frozenset() if far is None else far.names()
    if not names >= _FILES:
        logging.getLogger(_LOGGER).debug("%s: incomplete", folder)
        return []
    place = Place(folder, name_of(folder), optional=optional_tables(names))
    rows = rows_of(root.as_path(), place)
    is_own = [(component(row["run"]), row["rank"]) for row in rows] == [name_of(folder)]
    return rows if is_own else []
