"""Questions that several threads ask at once, where planning takes longer than running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Protocol, TypeVar

from profframe.trace.base_trace import BaseTrace

Value = TypeVar("Value")


class Asker(Protocol):
    """Begins a question."""

    def __call__(self, ask: Callable[[], Value], /) -> Callable[[], Value]:
        """Give the function that waits for what ``ask`` returns."""


@contextmanager
def at_once(trace: BaseTrace) -> Iterator[Asker]:
    """Begin questions about a trace in threads of their own.

    Of many rows one question takes all cores: then each is asked when its value is wanted.

    Examples
    --------
    >>> from profframe import load
    >>> trace = load("examples/cpu_training.json.gz")
    >>> with at_once(trace) as begin:
    ...     ops, steps = begin(trace.key_averages), begin(trace.step_times)
    ...     ops().height, steps().height
    (31, 3)
    """
    threads = trace._session.threads  # noqa: SLF001 - of the trace's own package
    if threads == 1:
        yield cache
        return
    with ThreadPoolExecutor(threads, "profframe-ask") as pool:
        try:
            yield lambda ask: pool.submit(ask).result
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
