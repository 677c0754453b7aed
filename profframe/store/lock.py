"""The lock of a store: conversion names folders under it, maintenance removes and packs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_LOCK: Final = ".lock"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock for naming folders in a store, where its file system has locks."""
    import fcntl

    # A link in its place could point to a foreign file, which must not be emptied.
    handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
