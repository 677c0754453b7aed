"""Ctrl-C while Python waits for a library: stop the library's work at once.

Python handles a signal between two of its own steps, and a query is one step. But its handler in C
writes each signal into a pipe, if there is one (`signal.set_wakeup_fd`), and a thread that reads
the pipe can stop the query. Then Python takes its next step, and raises KeyboardInterrupt.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

Stop = Callable[[], object]
"""Stops an operation; called from another thread."""


@contextmanager
def stopping(stop: Stop, timeout_s: float | None = None) -> Iterator[threading.Event]:
    """Call a function at Ctrl-C, and after a timeout.

    It may be called even after the block. The event is set by the timeout.

    Examples
    --------
    >>> import time
    >>> with stopping(lambda: None, timeout_s=0.01) as is_late:
    ...     time.sleep(0.2)
    >>> is_late.is_set()
    True
    """
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        stop()

    timer = None if timeout_s is None else threading.Timer(timeout_s, end)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        gets_signals = threading.current_thread() is threading.main_thread() and os.name != "nt"
        with _watcher(os.getpid()).calling(stop) if gets_signals else contextlib.nullcontext():
            yield is_late
    finally:
        if timer is not None:
            timer.cancel()


class _Watcher:
    """A thread that waits for Ctrl-C throughout the life of a process."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._stops: list[Stop] = []
        self._previous_fd = -1
        threading.Thread(target=self._watch, name="profframe-interrupts", daemon=True).start()

    @contextmanager
    def calling(self, stop: Stop) -> Iterator[None]:
        """Call a function at Ctrl-C; for the main thread."""
        previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if previous_fd != self._write:
            self._previous_fd = previous_fd
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)
            signal.set_wakeup_fd(previous_fd, warn_on_full_buffer=False)

    def _watch(self) -> None:
        while numbers := os.read(self._read, 64):
            if self._previous_fd != -1:  # that of an event loop, which waits for signals
                with contextlib.suppress(OSError):
                    os.write(self._previous_fd, numbers)
            if signal.SIGINT in numbers:
                self._stop()

    def _stop(self) -> None:
        """Call all functions: in the thread's own frame the last one would stay alive for ever."""
        for stop in [*self._stops]:
            with contextlib.suppress(Exception):  # it may have ended meanwhile
                stop()


@cache
def _watcher(process: int) -> _Watcher:  # noqa: ARG001 - a fork has no threads of its parent
    return _Watcher()
