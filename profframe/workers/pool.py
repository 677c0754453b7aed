"""An executor with processes of this machine: each of its threads owns one.

A process that dies (killed, out of memory) loses only its current task, which is retried once in a
new process. Processes are spawned, not forked (the threads of DuckDB, Arrow and polars do not
survive a fork), without the program's main module, so a script needs no
``if __name__ == "__main__"``. They end when their parent does, however it ends.

No library does this. In `concurrent.futures` and loky, a process that dies ends all tasks; in
pebble it ends only its own, but every process imports the main module first.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec, TypeVar

from profframe.errors import ParameterError, SourceError, WorkerDiedError
from profframe.system import drafts
from profframe.system.imports import look_for_no_pandas
from profframe.system.threads import VARIABLE

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")

_THREADS: Final = (
    VARIABLE,
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""Variables that libraries read at import for their number of threads."""
_WORKER_BYTES: Final = 2 << 30
"""Memory that a worker may need."""
_ATTEMPTS: Final = 2
_IMPORT_PID: Final = os.getpid()
"""A forked child of this process has another one."""


class LocalPool(Executor):
    """Worker processes of this machine.

    Parameters
    ----------
    workers
        Number of processes, each started on first use or all by `start`.
    threads
        Number of threads of each.

    Examples
    --------
    >>> with LocalPool(1, 1) as pool:
    ...     pool.submit(divmod, 7, 3).result()
    (2, 1)
    """

    def __init__(self, workers: int, threads: int) -> None:
        self._workers, self._threads = workers, threads
        self._local = threading.local()
        self._processes: set[_Worker] = set()
        self._lock = threading.Lock()
        self._is_killed = False
        self._pool = ThreadPoolExecutor(workers, "profframe-worker")

    def submit(  # type: ignore[override]
        self, fn: Callable[..., _Result], /, *args: object
    ) -> Future[_Result]:
        """Run a function of a module in one of the processes."""
        return self._pool.submit(self._run, fn, args)

    def start(self, module: str) -> None:
        """Start all processes, which import a module, and do not wait for them."""
        for _ in range(self._workers):
            self.submit(_import, module)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after their work, or at once with ``cancel_futures``."""
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
                self._drop(worker)
        raise WorkerDiedError(
            "the worker process died twice; is it out of memory? (fewer workers need less)"
        )

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            with self._lock:
                if self._is_killed:
                    raise SourceError("the pool has been stopped")
                worker = self._local.worker = _Worker(self._threads)
                self._processes.add(worker)
        return worker

    def _drop(self, worker: _Worker) -> None:
        self._local.worker = None
        with self._lock:
            self._processes.discard(worker)
        worker.close()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, threads: int) -> None:
        self._pipe, child_pipe = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(child_pipe, threads), daemon=True)
        with _without_main():
            self._process.start()
        child_pipe.close()

    def run(self, fn: Callable[..., _Result], args: Sequence[object]) -> _Result:
        """Run a function in the process; return its result or raise its error."""
        self._pipe.send((fn, args))
        result: _Result
        result, error = self._pipe.recv()
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Close the pipe, which ends the process, and wait for it."""
        self._pipe.close()
        self._process.join()
        self._process.close()


def _serve(pipe: Connection, threads: int) -> None:
    """Run tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit_threads(threads)
    look_for_no_pandas()
    with contextlib.suppress(EOFError, OSError):
        while True:
            fn, args = pipe.recv()
            try:
                pipe.send((fn(*args), None))
            except Exception as error:  # noqa: BLE001 - the caller of result() gets it
                pipe.send((None, error))
    end_process(0)


def _import(module: str) -> None:
    importlib.import_module(module)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        end_process(1)


def end_process(status: int) -> NoReturn:
    """End this process at once; Python would take 0.2 s to take its libraries down."""
    with contextlib.suppress(Exception):  # nothing of it stays in the temporary folder
        drafts.clean_up()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(status)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module, which a new process would import first."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def limit_threads(threads: int) -> None:
    """Limit the threads of libraries, before this process imports them."""
    for name in _THREADS:
        os.environ[name] = str(threads)
    import pyarrow as pa

    pa.set_cpu_count(threads)


def this_process() -> tuple[str, int]:
    """Host and number of this process."""
    return os.uname().nodename, os.getpid()


def is_forked() -> bool:
    """Whether this process was forked, and so lacks the threads of DuckDB, Arrow and polars."""
    return os.getpid() != _IMPORT_PID


def never_forked(task: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A task for a worker that a forked one hands to a process of its own, which has all threads.

    Examples
    --------
    >>> @never_forked
    ... def square(number):
    ...     return number**2
    >>> square(3)
    9
    """

    @wraps(task)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if is_forked():
            return _substitute(os.getpid()).submit(partial(run, *args, **kwargs)).result()
        return task(*args, **kwargs)

    return run


@cache
def _substitute(_process: int) -> LocalPool:
    """A process that does the work of a forked one."""
    return LocalPool(1, cores())


def check_numbers(
    executor: Executor | None, workers: int | None, threads: int | None = None
) -> None:
    """Raise a `ParameterError` for numbers of workers and threads that there cannot be."""
    for name, number in (("threads", threads), ("workers", workers)):
        if number is not None and not (type(number) is int and number > 0):
            raise ParameterError(f"{name}: needs an integer above 0, not {number!r}")
    if executor is not None and workers is not None:
        raise ParameterError(
            "workers sets processes on this machine; an executor has its own workers"
        )


@contextmanager
def local_pool(workers: int, threads: int | None = None) -> Iterator[LocalPool]:
    """Processes of this machine for a block; each has its share of the cores, or ``threads``."""
    pool = LocalPool(workers, threads or max(1, cores() // workers))
    try:
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_workers() -> int:
    """Number of workers that cores and memory allow."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return cores()
    return max(1, min(cores(), memory // _WORKER_BYTES))
