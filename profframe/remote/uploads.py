"""Folders below a URL, written and removed so that a reader sees all of one or none of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from profframe.remote.trees import RemotePath


def put_folder(folder: Path, target: RemotePath, last: str) -> None:
    """Copy the files of a folder of this machine; one of them at the end, which says it is whole.

    Raises
    ------
    StoreError
        A file cannot be written.
    """
    files = target.tree.files
    names = sorted((path.name for path in folder.iterdir()), key=lambda name: (name == last, name))
    with target.tree.errors(target.path):
        files.makedirs(target.path, exist_ok=True)
        for name in names:
            files.put_file(str(folder / name), f"{target.path}/{name}")


def remove_folder(target: RemotePath, first: str) -> None:
    """Remove the files of a folder; one of them at the beginning, without which it is incomplete.

    Raises
    ------
    StoreError
        A file cannot be removed.
    """
    files = target.tree.files
    for name in sorted(target.names(), key=lambda name: (name != first, name)):
        with suppress(FileNotFoundError), target.tree.errors():
            files.rm_file(f"{target.path}/{name}")
    with suppress(Exception):  # object stores have no folders, others may keep an empty one
        files.rmdir(target.path)
