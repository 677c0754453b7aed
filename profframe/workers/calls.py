"""One call in a worker: it limits threads before it imports libraries that start them."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from profframe.workers.pool import end_process, limit_threads, never_forked, this_process

_LOOK_S: Final = 0.5
"""Seconds between two looks for the parent."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a module and its argument, packed: the worker unpacks it when it can.

    ``threads`` is how many the worker may use; the process that asks keeps its own. ``ticket`` is a
    file of that process: without it, the call is no longer wanted.
    """

    packed: bytes
    threads: int | None
    home: tuple[str, int]
    ticket: str | None = None

    @classmethod
    def of(cls, function: Callable[[Any], Any], argument: object, threads: int | None) -> Self:
        """A call of a function of a module."""
        packed = pickle.dumps((function, argument), pickle.HIGHEST_PROTOCOL)
        return cls(packed, threads, this_process())


@never_forked
def run(call: Call) -> bytes:
    """The packed result of a call; a task for a worker.

    A CancelledError ends a call that nobody waits for any more, in a child of the process that has
    asked: executors start some of those that they have already taken. Others may see other files.
    """
    is_child = call.home == (this_process()[0], os.getppid())
    if is_child and call.ticket and not Path(call.ticket).exists():
        raise CancelledError
    if call.threads is not None and call.home != this_process():
        limit_threads(call.threads)
    if is_child:
        _end_with_parent(os.getpid())
    function, argument = pickle.loads(call.packed)  # noqa: S301 - of the process that asks
    return pickle.dumps(function(argument), pickle.HIGHEST_PROTOCOL)


@cache
def _end_with_parent(_process: int) -> None:
    """End this process soon after its parent, even in the middle of a query, which none awaits."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        end_process(1)

    threading.Thread(target=watch, name="profframe-parent", daemon=True).start()


def result(packed: bytes) -> Any:
    """What a call returned."""
    return pickle.loads(packed)  # noqa: S301 - of its own worker
