"""Who works: this process, processes of this machine, an executor of the user's, or a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from profframe.errors import ParameterError
from profframe.workers.inline import InlineExecutor
from profframe.workers.pool import LocalPool, cores, default_workers, local_pool

_QUESTIONS: Final = "profframe.trace.parts"
"""What workers import while this process looks at what there is to ask."""
_LONGEST: Final = 120
"""Characters of a message that shows a value."""

On: TypeAlias = "Executor | int | Any | None"
"""An executor, a Dask client, a number of processes of this machine, or None for this process."""


@dataclass(frozen=True, slots=True)
class Crew:
    """An executor and what is known of it.

    Attributes
    ----------
    executor
        Where work is submitted.
    number
        How many work at once, as far as that is known.
    threads
        Threads of each; None where they share this process.
    """

    executor: Executor
    number: int
    threads: int | None

    @property
    def is_this_process(self) -> bool:
        """Whether work is done when it is submitted."""
        return isinstance(self.executor, InlineExecutor)

    def successor(self) -> Crew:
        """Processes of this machine instead of an executor that is broken."""
        number = min(self.number, default_workers())
        return Crew(LocalPool(number, self.threads or 1), number, self.threads)


@contextmanager
def crew_of(on: On) -> Iterator[Crew]:
    """Those who work, for a block; those of the user's stay as they are.

    Raises
    ------
    ParameterError
        It is none of these.

    Examples
    --------
    >>> with crew_of(None) as crew:
    ...     crew.executor.submit(divmod, 7, 3).result()
    (2, 1)
    """
    if on is None:
        yield Crew(InlineExecutor(), 1, None)
    elif type(on) is int and on > 0:
        with local_pool(on) as pool:
            pool.start(_QUESTIONS)
            yield Crew(pool, on, max(1, cores() // on))
    else:
        yield _crew_of_user(on)


def _crew_of_user(on: Any) -> Crew:
    """An executor, or a Dask client as one."""
    if isinstance(on, Executor):
        number = int(getattr(on, "_max_workers", 0)) or cores()
        is_here = isinstance(on, (ThreadPoolExecutor, InlineExecutor))
        return Crew(on, number, None if is_here else max(1, cores() // number))
    if callable(getattr(on, "get_executor", None)) and callable(getattr(on, "ncores", None)):
        if getattr(on, "asynchronous", False):
            raise ParameterError("on: an asynchronous Dask client; give one that is not")
        # Equal tasks are run anew: the store may have changed.
        return Crew(on.get_executor(pure=False), max(1, sum(on.ncores().values())), 1)
    raise ParameterError(
        "on: an executor of concurrent.futures, a Dask client, or a number of processes, not "
        f"{on!r}"[:_LONGEST]
    )
