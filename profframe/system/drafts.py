"""Files that are there whole or not at all: written beside their place, and renamed at the end."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from profframe.errors import ExportError

_MOST_LINKS = 40
_OPEN_FILES = ("/dev", "/dev/fd")


@contextmanager
def drafted(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to; the file takes its place when all went well.

    A file that is there is replaced at the end and keeps its permissions; it stays as it is when
    something goes wrong, also by an interrupt. A link is followed. What is no file, as a pipe or
    ``/dev/stdout``, is written to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with drafted(Path(folder, "a.txt")) as draft:
    ...         _ = draft.write_text("whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    try:
        if _is_written_straight(Path(path)):
            yield Path(path)
            return
        target = Path(os.path.realpath(path))
        draft = target.with_name(f".{uuid.uuid4().hex}.part")
        try:
            _begin(draft, target)
            yield draft
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        # The writer of gzip raises one error twice, in the context of itself: ExitStack would go
        # round and round in it.
        error.__context__ = None
        why = os.strerror(error.errno) if error.errno else error
        raise ExportError(f"{path}: cannot be written: {why}") from error


def _is_written_straight(path: Path) -> bool:
    """Whether it is no file, or a file that a process has opened already."""
    if path.exists() and not path.is_file():
        return True
    for _ in range(_MOST_LINKS):
        folder = path.parent.resolve()
        if str(folder) in _OPEN_FILES or folder.is_relative_to("/proc"):
            return True
        if not path.is_symlink():
            return False
        path = folder / path.readlink()
    return False


def _begin(draft: Path, target: Path) -> None:
    """Make an empty file with the permissions that the target has, or would get."""
    if not target.exists():
        draft.touch(exist_ok=False)
        return
    with target.open("ab"):  # an error where it may not be written
        there = target.stat()
    draft.touch(0o600, exist_ok=False)
    with suppress(PermissionError):  # only root gives files away
        os.chown(draft, there.st_uid, there.st_gid)
    draft.chmod(stat.S_IMODE(there.st_mode))
