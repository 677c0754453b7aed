"""Ctrl-C while Python waits for a library: stop the library's work at once.

Python handles a signal between two of its own steps, and a query is one step. But its handler in C
writes each signal into a pipe, if there is one (`signal.set_wakeup_fd`), and a thread that reads
the pipe can stop the query. Then Python takes its next step, and raises KeyboardInterrupt.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Final, TypeVar

Stop = Callable[[], object]
"""Stops an operation; called from another thread."""
_PATIENCE_S: Final = 0.02
"""Seconds that a thread may take to end after its query was stopped."""
_UNWINDING_S: Final = 2.0
"""How long it may take to end after an error was raised in it; a second could hit its cleanup."""
_LOOK_UP_S: Final = 0.2
"""Seconds between two steps of Python in a wait."""
_Item = TypeVar("_Item")


def taken(items: queue.SimpleQueue[_Item], meanwhile: Callable[[], object] = lambda: None) -> _Item:
    """Wait for the next item of a queue, and for Ctrl-C: another thread may get the signal.

    ``meanwhile`` is called now and then while there is none.

    Examples
    --------
    >>> items = queue.SimpleQueue()
    >>> items.put(1)
    >>> taken(items)
    1
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return items.get(timeout=_LOOK_UP_S)
        meanwhile()


@contextmanager
def stopping(stop: Stop, timeout_s: float | None = None) -> Iterator[threading.Event]:
    """Call a function at Ctrl-C, and after a timeout.

    The function may be called even after the block. The event is set by the timeout.

    Examples
    --------
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
    limit = _LIMIT.current
    if limit is not None:
        limit.stops.append(stop)
    try:
        with _at_interrupts(stop):
            yield is_late
    finally:
        if limit is not None:
            limit.stops.remove(stop)
        if timer is not None:
            timer.cancel()


def _at_interrupts(stop: Stop) -> AbstractContextManager[None]:
    if os.name == "nt":
        return contextlib.nullcontext()
    watcher = _watcher(os.getpid())
    if threading.current_thread() is threading.main_thread():
        return watcher.calling(stop)
    return watcher.also_calling(stop)


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

    @contextmanager
    def also_calling(self, stop: Stop) -> Iterator[None]:
        """Call a function at Ctrl-C while the main thread waits in `calling`."""
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)

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


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Time limit of a block, which ends as by Ctrl-C; running queries are stopped.

    Parameters
    ----------
    seconds
        Most time; None for no limit.

    Raises
    ------
    TimeoutError
        It took longer.

    Examples
    --------
    >>> with within(0.01):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    TimeoutError
    """
    if seconds is None:
        yield
        return
    limit = _TimeLimit(threading.get_ident(), time.monotonic() + seconds)
    outer, _LIMIT.current = _LIMIT.current, limit
    clock = _clock(os.getpid())
    clock.add(limit)
    try:
        yield
    except BaseException as error:
        if limit.is_late:
            raise TimeoutError from error
        raise
    finally:
        _LIMIT.current = outer
        clock.remove(limit)
        limit.leave()


class _TimeLimit:
    """The time limit of a thread's block."""

    def __init__(self, thread: int, until: float) -> None:
        self.until = until
        self.is_late = False
        self.stops: list[Stop] = []
        self._thread = thread
        self._is_done = False
        self._lock = threading.Lock()

    def end(self) -> None:
        """Stop queries; and the thread, if there are none or it continues."""
        with self._lock:
            if self._is_done:
                return
            goes_on, self.is_late = self.is_late or not self.stops, True
            if goes_on:
                _raise_in(self._thread, KeyboardInterrupt)
        self.until = time.monotonic() + (_UNWINDING_S if goes_on else _PATIENCE_S)
        for stop in [*self.stops]:
            with contextlib.suppress(Exception):  # it may have ended meanwhile
                stop()

    def leave(self) -> None:
        """From now on nothing is raised in the thread."""
        try:
            self._close()
        except KeyboardInterrupt:  # at the last moment
            self._close()
            if self.is_late:
                raise TimeoutError from None
            raise

    def _close(self) -> None:
        with self._lock:
            self._is_done = True
        if self.is_late:
            _forget_raised()


class _Clock:
    """The thread of a process that enforces time limits."""

    def __init__(self) -> None:
        self._limits: list[_TimeLimit] = []
        self._changed = threading.Condition()
        self._wakes = math.inf
        threading.Thread(target=self._watch, name="profframe-limits", daemon=True).start()

    def add(self, limit: _TimeLimit) -> None:
        """Watch a limit; the thread is woken only for one that comes before all others."""
        with self._changed:
            self._limits.append(limit)
            if limit.until < self._wakes:
                self._changed.notify()

    def remove(self, limit: _TimeLimit) -> None:
        """Watch it no longer."""
        with self._changed:
            self._limits.remove(limit)

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [limit for limit in self._limits if limit.until <= now]
                if not due:
                    self._wakes = min((one.until for one in self._limits), default=math.inf)
                    forever = self._wakes == math.inf
                    self._changed.wait(None if forever else self._wakes - now)
            for limit in due:
                limit.end()


@cache
def _clock(process: int) -> _Clock:  # noqa: ARG001 - a fork has no threads of its parent
    return _Clock()


class _Limit(threading.local):
    """The limit of what this thread does."""

    current: _TimeLimit | None = None


_LIMIT: Final = _Limit()


class _ForgottenError(BaseException):
    """A placeholder that replaces an error scheduled in a thread."""


def _forget_raised() -> None:
    """Have nothing raised in this thread any longer.

    Raising None would also take the error back, but CPython would then look for one at each call;
    under a profiler, 3.11 does so in an endless loop.
    """
    with contextlib.suppress(_ForgottenError):
        _raise_in(threading.get_ident(), _ForgottenError)
        while True:
            pass


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an error in a thread between two steps of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
