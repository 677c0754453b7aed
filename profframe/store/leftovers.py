"""Leftovers of killed or interrupted writers of a store, and when they can be removed."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from profframe.store.layout import CATALOGUE, STAGED, TEMPORARY
from profframe.system import drafts

LOGGER: Final = "profframe.store"
"""Name of the logger that says how much was removed."""
_STALE_S: Final = 24 * 3600


def remove_drafts(root: Path) -> int:
    """Remove folders in which nobody writes: of ended writers on this machine, or a day old."""
    if not (root / CATALOGUE).is_symlink():
        drafts.sweep(root / CATALOGUE, TEMPORARY)
    return drafts.sweep(root, TEMPORARY) + sum([_is_stale_and_removed(p) for p in _drafts(root)])


def remove_leftovers(root: Path) -> int:
    """Remove drafts of ended writers, and staged folders if no batch is at work, and log it.

    Every batch has a draft as long as it runs, and staged folders stay while there is one. A batch
    that starts during the removal converts the removed files again.
    """
    removed = remove_drafts(root)
    if not _drafts(root):
        removed += sum([_is_removed(path) for path in root.glob(f"{STAGED}*")])
    log_removed(removed)
    return removed


def log_removed(number: int) -> None:
    """Log how many folders were removed, if any."""
    if number:
        import logging

        folders = "1 folder" if number == 1 else f"{number:,} folders"
        message = "%s removed that a killed or interrupted process had left"
        logging.getLogger(LOGGER).info(message, folders)


def _drafts(root: Path) -> list[Path]:
    return [*root.glob(f"{TEMPORARY}*")]


def _is_stale_and_removed(draft: Path) -> bool:
    with suppress(FileNotFoundError):  # its writer has finished
        return time.time() - draft.lstat().st_mtime > _STALE_S and _is_removed(draft)
    return False


def _is_removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
