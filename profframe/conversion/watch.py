"""`watch`: converts the files that arrive in a folder or bucket, batch by batch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from profframe import store as stores
from profframe.conversion.arrivals import Arrivals
from profframe.conversion.bucket import destination
from profframe.conversion.convert import run_batch
from profframe.conversion.inputs import Item, Pattern, Source, as_list, items
from profframe.conversion.keep import questions
from profframe.conversion.staging import Record
from profframe.errors import ParameterError, ProfframeError, explain_unknown_arguments
from profframe.facts.kernel_categories import Categories
from profframe.loaders.options import check_names, fact_options
from profframe.loaders.programs import Origin
from profframe.query.selection import Text
from profframe.remote.urls import is_url
from profframe.show.frame import Frame
from profframe.workers.pool import check_numbers, default_workers, local_pool

PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
_NEWS: Final = ("written", "joined", "unchanged", "skipped")
"""What may be said of a file; a failure only once it is given up."""


@explain_unknown_arguments
def watch(  # noqa: PLR0917 - as `convert`
    sources: Source | Iterable[Source],
    store: Source,
    executor: Executor | None = None,
    run: str | None = None,
    rank: int | None = None,
    pattern: str | None = None,
    threads: int | None = None,
    *,
    keep: Text | None = (),
    workers: int | None = None,
    pause_s: float = PAUSE_S,
    longest_pause_s: float = LONGEST_PAUSE_S,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    compat: str | None = None,
    captures: Source | Iterable[Source] | None = None,
    execution_trace: Source | Iterable[Source] | None = None,
    memory: Source | Iterable[Source] | None = None,
    provenance: Source | Iterable[Source] | None = None,
    kernel_categories: Categories | None = None,
) -> Iterator[pl.DataFrame]:
    """Convert files as they arrive, as `profframe.convert` does with those that are there.

    A file is converted once its size and times are the same in two looks; names that end in
    ``.tmp`` or ``.part`` wait for their last name. What the store has is not converted again, also
    after a restart. Files of one run that come late are added to it: a run has the name that it
    would have if all had come at once, unless a trace of the same program is in the store already,
    whose name stays. A file that cannot be converted is tried again after growing pauses, five
    times in all, and then once it has changed. A source that is not there yet is waited for.

    Parameters
    ----------
    sources, store, executor, run, rank, pattern, threads, keep, workers
        As for `profframe.convert`; a store is no source. Of URLs only the size tells a change.
    pause_s, longest_pause_s
        Seconds between two looks at the sources: while files arrive, and after long quiet.
    wait
        Called with seconds between looks; watching ends if it returns something true, such as
        ``threading.Event().wait``.
    clock
        Seconds since any moment.
    compat, captures, execution_trace, memory, provenance, kernel_categories
        As for `profframe.convert`.

    Yields
    ------
    polars.DataFrame
        For each batch, rows as `profframe.convert` returns them: those that are done, and those
        ``failed`` that are given up.

    Raises
    ------
    ParameterError
        A parameter is invalid.
    StoreError
        The store cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> seconds = iter(range(9))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     batches = watch(
    ...         "examples/cpu_training.json.gz",
    ...         folder,
    ...         workers=1,
    ...         clock=lambda: next(seconds),
    ...         wait=lambda _: None,
    ...     )
    ...     next(batches)["status", "run"].rows()
    ...     batches.close()
    [('written', 'cpu_training')]
    """
    facts = fact_options(locals())
    check_names(run, rank)
    check_numbers(executor, workers, threads)
    for name, seconds in (("pause_s", pause_s), ("longest_pause_s", longest_pause_s)):
        if not 0 < seconds < float("inf"):
            raise ParameterError(f"{name}: needs seconds above 0, not {seconds!r}")
    target, paths = destination(store), as_list(sources)
    kept = None if keep is None else questions(keep)
    if any(not is_url(os.fspath(path)) and stores.is_store(Path(path)) for path in paths):
        raise ParameterError("watch: a store is no source of files that arrive")
    names = run, rank, None if pattern is None else Pattern.of(pattern)
    listing = partial(_listing, paths, *names)
    options: dict[str, Any] = {"facts": facts, "threads": threads, "progress": None}
    arrivals = Arrivals(pause_s, max(pause_s, longest_pause_s))
    target.prepare()
    convert = partial(run_batch, target, names=kept, is_alone=False, **options)
    pool = partial(_pool, executor, workers, threads)
    return _batches(arrivals, listing, convert, pool, (wait, clock))


def _batches(
    arrivals: Arrivals,
    listing: Callable[[], dict[str, tuple[Item, Hashable]] | None],
    convert: Callable[..., Frame],
    pool: Callable[[], AbstractContextManager[Executor]],
    times: tuple[Callable[[float], object], Callable[[], float]],
) -> Iterator[pl.DataFrame]:
    origins: dict[Record, Origin] = {}
    wait, clock = times
    with pool() as engine:
        while True:
            files = listing() or {}
            now_s = clock()
            ready = arrivals.look({name: own for name, (_, own) in files.items()}, now_s)
            if ready:
                present = [files[name][0] for name in ready]
                rows = convert(files=present, engine=engine, origins=origins)
                now_s = clock()
                is_news = [
                    arrivals.settle(name, now_s, is_done=status in _NEWS)
                    for name, status in zip(ready, rows["status"], strict=True)
                ]
                if any(is_news):
                    yield Frame(rows.filter(is_news))
            if wait(arrivals.pause_s(now_s)):
                return


def _listing(
    paths: list[Source], run: str | None, rank: int | None, pattern: Pattern | None
) -> dict[str, tuple[Item, Hashable]] | None:
    """The files that are there with what changes when they do; None where no source is there."""
    try:
        present = items(paths, run, rank, pattern)
    except ParameterError:
        raise
    except (ProfframeError, OSError):  # not yet, or not at this moment
        return None
    files: dict[str, tuple[Item, Hashable]] = {}
    for item in present:
        if item.error is not None or item.name is not None:
            continue
        signature: Hashable = item.size
        if not is_url(item.source):
            try:
                status = os.stat(item.source)  # noqa: PTH116 - thousands of files at each look
            except OSError:  # removed
                continue
            signature = status.st_size, status.st_mtime_ns, status.st_ino
        files[item.source] = item, signature
    return files


@contextmanager
def _pool(
    executor: Executor | None, workers: int | None, threads: int | None
) -> Iterator[Executor]:
    """The executor; without one, processes of this machine that work until the end of the watch."""
    if executor is not None:
        yield executor
        return
    number = workers or default_workers()
    with local_pool(number, threads) as pool:
        yield pool
