"""Children of a fork: they lack the threads of their parent, for which polars waits for ever."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from profframe.errors import ProfframeError

_TASKS: Final = Path("/proc/self/task")
_THREADS: Final = "polars-"


class _Forks:
    """Whether this process has lost threads that polars would wait for."""

    def __init__(self) -> None:
        self._will_lose = False
        self._has_lost = False

    def before(self) -> None:
        """In the parent: look for threads of polars."""
        self._will_lose = _has_threads()

    def after_in_child(self) -> None:
        """In the child: they are gone."""
        self._has_lost = self._has_lost or self._will_lose

    def check(self) -> None:
        """Raise a ProfframeError in a process that would wait for ever."""
        if self._has_lost:
            raise ProfframeError(
                "this process was forked from one in which polars had threads, and would wait for "
                "them for ever: start it by spawn (multiprocessing.get_context('spawn'), "
                "start_method='spawn'), or fork before anything is loaded"
            )


def _has_threads() -> bool:
    if "polars" not in sys.modules:
        return False
    try:
        tasks = [*_TASKS.iterdir()]
    except OSError:  # no Linux: it may have some
        return True
    return any(_name(task).startswith(_THREADS) for task in tasks)


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text(encoding="utf-8")
    except OSError:  # it has just ended
        return ""


_FORKS: Final = _Forks()
check_threads = _FORKS.check

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_FORKS.before, after_in_child=_FORKS.after_in_child)
