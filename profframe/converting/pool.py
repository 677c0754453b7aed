"""Processes of this machine as an executor: each thread of it has one, and gives it its work.

A process that dies (killed, out of memory) takes the task with it that it was at, and no other:
the task is given to a new one, once. The processes are started afresh, not forked (DuckDB, Arrow
and polars have threads, which do not survive a fork), without the program's main module, so a
script needs no ``if __name__ == "__main__"``. They end when their parent does, however it ends.

No library promises as much. In `concurrent.futures` and loky a process that dies ends all tasks; in
pebble it ends its own alone, but there every process imports the main module first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeVar

from profframe.errors import SourceError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_Result = TypeVar("_Result")

_THREADS: Final = (
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""What libraries read, when they are imported, to know how many threads they may have."""
_WORKER_BYTES: Final = 2 << 30
"""Memory that a worker may need."""
_ATTEMPTS: Final = 2


class LocalPool(Executor):
    """Worker processes of this machine.

    Parameters
    ----------
    workers
        Number of processes; they are started when they are needed.
    threads
        Number of threads that each may use.

    Examples
    --------
    >>> with LocalPool(1, 1) as pool:
    ...     pool.submit(divmod, 7, 3).result()
    (2, 1)
    """

    def __init__(self, workers: int, threads: int) -> None:
        self._threads = threads
        self._own = threading.local()
        self._processes: set[_Worker] = set()
        self._lock = threading.Lock()
        self._is_killed = False
        self._pool = ThreadPoolExecutor(workers, "profframe-worker")

    def submit(  # type: ignore[override]
        self, fn: Callable[..., _Result], /, *args: object
    ) -> Future[_Result]:
        """Run a function of a module in one of the processes."""
        return self._pool.submit(self._run, fn, args)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, when their work is done; or at once, if it is cancelled."""
        if cancel_futures:
            with self._lock:
                self._is_killed = True
                for worker in self._processes:
                    worker.kill()
        self._pool.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for worker in self._processes:
                worker.close()

    def _run(self, fn: Callable[..., _Result], args: Sequence[object]) -> _Result:
        for _ in range(_ATTEMPTS):
            worker = self._worker()
            try:
                return worker.run(fn, args)
            except (EOFError, OSError):
                self._forget(worker)
        raise SourceError(
            "the worker process died, twice; is it out of memory? (fewer workers need less)"
        )

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            with self._lock:
                if self._is_killed:
                    raise SourceError("the pool has been stopped")
                worker = self._own.worker = _Worker(self._threads)
                self._processes.add(worker)
        return worker

    def _forget(self, worker: _Worker) -> None:
        self._own.worker = None
        with self._lock:
            self._processes.discard(worker)
        worker.close()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, threads: int) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        with _without_main():
            self._process.start()
        theirs.close()

    def run(self, fn: Callable[..., _Result], args: Sequence[object]) -> _Result:
        """What the function gives there, or raises."""
        self._pipe.send((fn, args))
        result, error = self._pipe.recv()
        if error is not None:
            raise error
        found: _Result = result
        return found

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Let the process end, which it does at the end of the pipe, and forget it."""
        self._pipe.close()
        self._process.join()
        self._process.close()


def _serve(pipe: Connection, threads: int) -> None:
    """Do what comes, until nothing more can come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit(threads)
    with contextlib.suppress(EOFError, OSError):
        while True:
            fn, args = pipe.recv()
            try:
                pipe.send((fn(*args), None))
            except Exception as error:  # noqa: BLE001 - for whoever waits for the result
                pipe.send((None, error))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Without what a new process would import first: the program that is running."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def limit(threads: int) -> None:
    """Limit the threads of the libraries that this process has not imported yet."""
    for name in _THREADS:
        os.environ[name] = str(threads)
    import pyarrow as pa

    pa.set_cpu_count(threads)


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers_of_this_machine() -> int:
    """As many workers as there are cores, and memory for."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return cores()
    return max(1, min(cores(), memory // _WORKER_BYTES))
