"""Give calls to workers and hand over what they return, in whatever order they do.

A worker that dies loses its call, which runs once more: in the same executor if it goes on, else
in processes of this machine.
"""

from __future__ import annotations

import queue
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace
from typing import Any, Final

from profframe.errors import WorkerDiedError
from profframe.system.drafts import process_scratch
from profframe.system.interrupts import stopping, taken
from profframe.workers import calls
from profframe.workers.calls import Call
from profframe.workers.crew import Crew
from profframe.workers.deaths import Deaths

_ATTEMPTS: Final = 2
_AHEAD: Final = 4
"""Calls per worker that wait in the executor, so that none is idle."""
_DIED: Final = ("KilledWorker", "TerminatedWorkerError")
"""Errors of Dask and loky: the worker died with the call."""


class Gathering:
    """The calls of one question, and who works on them.

    Parameters
    ----------
    crew
        Who works. If its executor breaks, others take its place.
    make
        Makes the call of a number: it is asked when the call is submitted.
    numbers
        Numbers of calls.
    """

    def __init__(self, crew: Crew, make: Callable[[int], Call], numbers: Sequence[int]) -> None:
        self._crew, self._make = crew, make
        self._own: Crew | None = None
        self._waiting = deque(numbers)
        self._running: dict[Future[bytes], int] = {}
        self._attempts: Counter[int] = Counter()
        self._completed: queue.SimpleQueue[Future[bytes]] = queue.SimpleQueue()
        self._ticket = process_scratch() / f"ticket-{uuid.uuid4().hex}"
        self._ticket.touch()

    def add(self, numbers: Sequence[int]) -> None:
        """More calls, which come first."""
        self._waiting.extendleft(reversed(numbers))

    def results(self) -> Iterator[tuple[int, Any]]:
        """Number and result of each call, or its error, as they are there."""
        try:
            while self._waiting or self._running:
                with stopping(int):  # Ctrl-C also stops threads that work
                    arrived = [*self._submit()]
                    if self._running:
                        arrived += self._next()
                yield from arrived
        except BaseException:
            for future in self._running:
                future.cancel()
            if self._own is not None:
                self._own.executor.shutdown(cancel_futures=True)
            raise
        else:
            if self._own is not None:
                self._own.executor.shutdown()
        finally:
            self._ticket.unlink(missing_ok=True)

    def _submit(self) -> Iterator[tuple[int, Any]]:
        crew = self._own or self._crew
        most = 1 if crew.is_this_process else crew.number * _AHEAD
        while self._waiting and len(self._running) < most:
            number = self._waiting.popleft()
            try:
                future = crew.executor.submit(calls.run, self._call(number))
            except BrokenExecutor as error:
                if self._own is not None:
                    yield number, error
                    continue
                self._waiting.appendleft(number)
                crew = self._own = self._crew.successor()
                continue
            except Exception as error:  # noqa: BLE001 - executors raise anything
                yield number, error
                continue
            self._running[future] = number
            self._attempts[number] += 1
            future.add_done_callback(self._completed.put)

    def _call(self, number: int) -> Call:
        return replace(self._make(number), ticket=str(self._ticket))

    def _next(self) -> Iterator[tuple[int, Any]]:
        deaths = Deaths((self._own or self._crew).executor)
        future = taken(self._completed, meanwhile=deaths.look)
        number = self._running.pop(future)
        try:
            result = calls.result(future.result())
        except BrokenExecutor as error:  # all its calls are lost, whichever was at fault
            if self._attempts[number] < _ATTEMPTS:
                self._waiting.appendleft(number)
                self._own = self._own or self._crew.successor()
            else:
                yield number, WorkerDiedError(f"the worker process died twice: {error}")
        except Exception as error:  # noqa: BLE001 - executors raise anything
            if type(error).__name__ in _DIED:
                error = WorkerDiedError(f"the worker died with it: {error}")
            yield number, error
        else:
            yield number, result
