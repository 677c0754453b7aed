"""A store on an object store, through fsspec."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final

from profframe.conversion.staging import (
    Destination,
    Folder,
    Record,
    folder_of,
    is_of_this_version,
    record_of,
)
from profframe.errors import ProfframeError, StoreError
from profframe.loaders.run_names import absolute
from profframe.remote.file_systems import file_system, reason_of
from profframe.remote.trees import Tree
from profframe.remote.urls import is_url, local_path
from profframe.store.catalogue.members import members
from profframe.store.catalogue.remote_segments import mend
from profframe.store.catalogue.remote_segments import record as record_folders
from profframe.store.layout import STAGED, packs, places
from profframe.system.drafts import scratch

_LAST: Final = "traces.parquet"
"""Written last: a folder that has it is complete."""


def destination(store: str | PathLike[str]) -> Destination:
    """The store that a path or a URL names.

    Examples
    --------
    >>> destination("file:///shared/store")
    Folder(root=PosixPath('/shared/store'))
    """
    if not isinstance(store, str) or not is_url(store):
        return Folder(absolute(Path(store)))
    local = local_path(store)
    return Bucket(store) if local is None else Folder(absolute(Path(local)))


@dataclass(frozen=True, slots=True)
class Bucket(Destination):
    """A store where folders cannot be renamed.

    Staged folders are copied within the object store, ``traces.parquet`` last: a folder without it
    is incomplete until a rerun. There are no locks: two batches at once must not have files of the
    same run and rank.
    """

    url: str = field(repr=False)  # with its secrets

    @property
    def address(self) -> str:
        return self.url

    def prepare(self) -> None:
        with self._files() as (files, root):
            files.makedirs(root, exist_ok=True)
        mend(Tree(self.url))

    def records(self) -> Iterator[Record]:
        root = Tree(self.url).path
        rows = members(root.as_path())
        if rows is not None:  # `prepare` has compared them with what is there
            for row in rows.iter_rows(named=True):
                yield record_of(row, row["folder"], is_current=is_of_this_version(row))
            return
        for place in places(root.as_path(), tolerant=True):
            for record in self.read(str(place.folder.relative_to(root.as_path()))):
                if place.name is not None or (record.run, record.rank) in place.visible:
                    yield record

    def packs(self) -> Sequence[str]:
        return [pack.name for pack in packs(Tree(self.url).path.as_path())]

    def staged_folder(self, staged_key: str) -> str | None:
        with self._files() as (files, root):
            paths = files.glob(f"{root}/{STAGED}{staged_key}/run=*/rank=*/traces.parquet")
            return self._within(paths[0]) if paths else None

    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        with self._files() as (files, root):
            stream: AbstractContextManager[IO[bytes]] = files.open(f"{root}/{file}", "rb")
            return stream

    def has(self, path: str) -> bool:
        with self._files() as (files, root):
            return bool(files.exists(f"{root}/{path}"))

    def stage(self, staged_key: str, write: Callable[[Path], object]) -> Record:
        with scratch() as local, self._files() as (files, root):
            write(local / "store")
            (folder,) = (local / "store").glob("run=*/rank=*")
            target = f"{root}/{STAGED}{staged_key}/{folder.parent.name}/{folder.name}"
            files.makedirs(target, exist_ok=True)
            for name in _in_order(file.name for file in folder.iterdir()):
                files.put_file(str(folder / name), f"{target}/{name}")
        staged = self.find(staged_key)
        if staged is None:
            raise StoreError(
                f"{self.url}: the converted files are gone; is something deleting them?"
            )
        return staged

    def publish(self, staged: Record, *, replace: bool) -> bool:
        target = folder_of(staged.run, staged.rank)
        with self._files() as (files, root):
            if not files.exists(f"{root}/{staged.folder}/traces.parquet"):
                raise FileNotFoundError(staged.folder)
            if files.exists(f"{root}/{target}/traces.parquet"):
                if not replace:
                    return False
                files.rm_file(f"{root}/{target}/traces.parquet")
            files.makedirs(f"{root}/{target}", exist_ok=True)
            names = _names(files, f"{root}/{staged.folder}")
            for name in set(_names(files, f"{root}/{target}")) - set(names):
                files.rm_file(f"{root}/{target}/{name}")  # of a table that has no rows now
            for name in _in_order(names):
                files.cp_file(f"{root}/{staged.folder}/{name}", f"{root}/{target}/{name}")
        self.discard(staged)
        return True

    def record(self, published: Sequence[tuple[str, int]]) -> None:
        record_folders(Tree(self.url).path, published)

    def discard(self, staged: Record) -> None:
        with contextlib.suppress(FileNotFoundError), self._files() as (files, root):
            files.rm(f"{root}/{staged.staged_folder}", recursive=True)

    def locked(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def at_work(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def _within(self, file: str) -> str:
        """The folder of a file of the store, from its root."""
        with self._files() as (_, root):
            return file.removeprefix(root).strip("/").rpartition("/")[0]

    @contextlib.contextmanager
    def _files(self) -> Iterator[tuple[Any, str]]:
        """The file system and the root; errors become a StoreError that names the store."""
        try:
            files, root = file_system(self.url)
            yield files, root.rstrip("/")
        except (FileNotFoundError, ProfframeError):
            raise
        except Exception as error:  # noqa: BLE001 - each has its own, which show the whole URL
            raise StoreError(f"{self.url}: {reason_of(self.url, error)}") from None


def _names(files: Any, folder: str) -> list[str]:
    """Names of the files in a folder of an object store; none if it does not exist."""
    try:
        return [file.rpartition("/")[2] for file in files.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name == _LAST, name))
