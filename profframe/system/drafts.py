"""Drafts: files and folders of a process at work, which the next one removes if it was killed.

Nobody can foresee the name of a draft, it belongs to its user alone, and it is locked while it is
worked on. The lock ends with the process, however that ends. It says nothing of processes on other
machines that see the same folder, so the name has the machine since its last start.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

_SCRATCH: Final = "profframe-"
_OPEN: Final[dict[int, ExitStack]] = {}
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def _private_folder(path: Path) -> None:
    path.mkdir(0o700)


@contextmanager
def draft(
    folder: Path,
    prefix: str,
    suffix: str = "",
    create: Callable[[Path], object] = _private_folder,
) -> Iterator[Path]:
    """A new folder or file to work on, removed at the end unless it was renamed.

    Parameters
    ----------
    folder
        Where it is made.
    prefix, suffix
        What its name begins and ends with.
    create
        Makes it, and raises an error if it exists; by default a folder of mode 0700.

    Examples
    --------
    >>> with draft(Path(tempfile.gettempdir()), "doc-") as path:
    ...     path.is_dir(), sweep(path.parent, "doc-")
    (True, 0)
    >>> path.exists()
    False
    """
    path, handle = _locked_draft(folder, prefix, suffix, create)
    try:
        yield path
    finally:
        _remove(path)
        if handle is not None:
            os.close(handle)


@contextmanager
def scratch() -> Iterator[Path]:
    """A private folder for temporary files, removed at the end."""
    folder = Path(tempfile.gettempdir())
    _sweep_once(folder)
    with draft(folder, _SCRATCH) as path:
        yield path


def process_scratch() -> Path:
    """A private folder for temporary files, removed when this process ends."""
    return _process_scratch(os.getpid())


def clean_up() -> None:
    """Remove the folder of this process, which ends, and those of killed ones."""
    _close()
    sweep(Path(tempfile.gettempdir()), _SCRATCH)


def sweep(folder: Path, prefix: str, suffix: str = "") -> int:
    """Remove drafts that nobody works on: of ended processes of this machine and user.

    Parameters
    ----------
    folder, prefix, suffix
        As for `draft`.

    Returns
    -------
    int
        How many were removed.
    """
    return sum([_is_abandoned_and_removed(path) for path in _drafts(folder, prefix, suffix)])


def _drafts(folder: Path, prefix: str, suffix: str) -> list[Path]:
    """Drafts that were made on this machine."""
    form = re.compile(f"{re.escape(_stem(prefix))}[0-9a-f]{{16}}{re.escape(suffix)}")
    with suppress(OSError), os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if form.fullmatch(entry.name)]
    return []


def _stem(prefix: str) -> str:
    return f"{prefix}{_machine()}-"


@cache
def _machine() -> str:
    """Digits that differ for each machine, and after its next start."""
    try:
        identity = _BOOT_ID.read_text()
    except OSError:
        import platform

        identity = platform.node()
    return hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()


def _locked_draft(
    folder: Path, prefix: str, suffix: str, create: Callable[[Path], object]
) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{_stem(prefix)}{os.urandom(8).hex()}{suffix}"
        create(path)
        with suppress(FileNotFoundError):  # swept before it was locked: make another one
            handle = _locked(path)
            if handle is None or path.exists():
                return path, handle
            os.close(handle)


def _locked(path: Path) -> int | None:
    """A handle that holds the lock, if the file system has locks; None if the system has none."""
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is swept
        return None
    handle = _opened(path)
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _opened(path: Path) -> int:
    access = os.O_RDONLY if path.is_dir() else os.O_WRONLY  # the file may be only for writing
    return os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_abandoned_and_removed(path: Path) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    with ExitStack() as stack, suppress(OSError):  # gone, of somebody else, or at work
        handle = _opened(path)
        stack.callback(os.close, handle)
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
            return not path.exists()
    return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@cache
def _sweep_once(folder: Path) -> None:
    sweep(folder, _SCRATCH)


@cache
def _process_scratch(process: int) -> Path:
    _OPEN[process] = ExitStack()
    atexit.register(_close)
    return _OPEN[process].enter_context(scratch())


def _close() -> None:
    """Remove the folder of this process; a fork inherits that of its parent, but not the right."""
    _OPEN.pop(os.getpid(), ExitStack()).close()
