"""One call in a worker: it limits threads before it imports libraries that start them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from profframe.workers.pool import is_forked, limit_threads, this_process, unforked


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a module and its argument, packed: the worker unpacks it when it can.

    ``threads`` is how many the worker may use; the process that asks keeps its own.
    """

    packed: bytes
    threads: int | None
    home: tuple[str, int]

    @classmethod
    def of(cls, function: Callable[[Any], Any], argument: object, threads: int | None) -> Self:
        """A call of a function of a module."""
        packed = pickle.dumps((function, argument), pickle.HIGHEST_PROTOCOL)
        return cls(packed, threads, this_process())


def run(call: Call) -> bytes:
    """The packed result of a call; a task for a worker."""
    if is_forked():
        return unforked(call.threads).submit(run, call).result()
    if call.threads is not None and call.home != this_process():
        limit_threads(call.threads)
    function, argument = pickle.loads(call.packed)  # noqa: S301 - of the process that asks
    return pickle.dumps(function(argument), pickle.HIGHEST_PROTOCOL)


def result(packed: bytes) -> Any:
    """What a call returned."""
    return pickle.loads(packed)  # noqa: S301 - of its own worker
