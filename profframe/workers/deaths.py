"""Deaths of workers that their executor does not see.

`concurrent.futures` and loky read a result whole. If its worker is killed in the middle of it, they
wait for the rest for ever, and for nothing else. So what they do after a death is done for them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Final

_PATIENCE_S: Final = 2.0
"""Seconds in which an executor that is not stuck has seen a death."""


class Deaths:
    """Looks whether an executor waits for a dead worker, and ends the others then.

    Parameters
    ----------
    executor
        One of processes of this machine; of any other, nothing is known.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> Deaths(ThreadPoolExecutor(1)).look()
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._since: float | None = None

    def look(self) -> None:
        """To be called now and then while nothing arrives; the executor is broken after it acts."""
        workers = getattr(self._executor, "_processes", None)
        processes = [*workers.values()] if isinstance(workers, Mapping) else []
        if not any(process.exitcode for process in processes):
            self._since = None
            return
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since < _PATIENCE_S:
            return
        with contextlib.suppress(AttributeError, OSError, ValueError):
            for process in processes:
                process.terminate()
            # Nobody else has this end of the pipe now, so that reading fails.
            self._executor._result_queue._writer.close()  # type: ignore[attr-defined] # noqa: SLF001 - no public name
