"""Files written atomically: next to their target, and renamed at the end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from profframe.errors import ExportError
from profframe.system import drafts

_MOST_LINKS = 40
_OPEN_FILES = ("/dev", "/dev/fd")
_DRAFT = ".profframe-", ".part"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to; the file moves to its target once everything is written.

    An existing file is replaced at the end, and keeps its permissions; after an error or interrupt
    it is unchanged. What a killed process left beside it is removed. Links are followed. Pipes and
    devices, as ``/dev/stdout``, are written to directly.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a.txt")) as draft:
    ...         _ = draft.write_text("whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    try:
        if _is_written_directly(Path(path)):
            yield Path(path)
            return
        target = Path(os.path.realpath(path))
        drafts.sweep(target.parent, *_DRAFT)
        with drafts.draft(target.parent, *_DRAFT, lambda path: _create(path, target)) as draft:
            yield draft
            draft.replace(target)
    except OSError as error:
        # The writer of gzip raises one error twice, with itself as context: ExitStack would loop.
        error.__context__ = None
        reason = os.strerror(error.errno) if error.errno else error
        raise ExportError(f"{path}: cannot be written: {reason}") from error


def _is_written_directly(path: Path) -> bool:
    """Whether it is not a regular file, or a process has it open."""
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


def _create(draft: Path, target: Path) -> None:
    """Create an empty file with the permissions that the target has, or would get."""
    if not target.exists():
        draft.touch(exist_ok=False)
        return
    with target.open("ab"):  # an error if it is not writable
        status = target.stat()
    draft.touch(0o600, exist_ok=False)
    with suppress(PermissionError):  # only root gives files away
        os.chown(draft, status.st_uid, status.st_gid)
    draft.chmod(stat.S_IMODE(status.st_mode))
