"""`convert`: checks its arguments, and runs a batch on an executor."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl

from profframe.conversion.bucket import destination
from profframe.conversion.inputs import Item, Pattern, Source, as_list, items
from profframe.conversion.keep import keep_present, questions
from profframe.conversion.scheduler import Batch, Progress
from profframe.conversion.staging import Destination, Folder
from profframe.errors import ParameterError, ProfframeError, explain_unknown_arguments
from profframe.facts.kernel_categories import Categories
from profframe.loaders.discovery import store_among
from profframe.loaders.options import FLAGS, check_names, fact_options
from profframe.query.selection import Text
from profframe.show.frame import Frame
from profframe.store.leftovers import LOGGER
from profframe.trace.query import own_rows
from profframe.trace.trace import Trace
from profframe.workers.inline import InlineExecutor
from profframe.workers.pool import check_numbers, default_workers, local_pool

__all__ = ["Progress", "convert"]

_WORTH_BYTES: Final = 4 << 20
_WORTH_FILES: Final = 16
"""Work that each worker except the first needs to be worth its start, which takes over a second."""
_SCHEMA: Final = {
    "source": pl.String,
    "status": pl.String,
    "run": pl.String,
    "rank": pl.Int32,
    "events": pl.Int64,
    "bytes": pl.Int64,
    "seconds": pl.Float64,
    "error": pl.String,
}


@explain_unknown_arguments
def convert(  # noqa: PLR0917 - the names and the store come first, by position if one likes
    sources: Source | Iterable[Source],
    store: Source,
    executor: Executor | None = None,
    run: str | None = None,
    rank: int | None = None,
    pattern: str | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    *,
    keep: Text | None = (),
    workers: int | None = None,
    compat: str | None = None,
    captures: Source | Iterable[Source] | None = None,
    execution_trace: Source | Iterable[Source] | None = None,
    memory: Source | Iterable[Source] | None = None,
    provenance: Source | Iterable[Source] | None = None,
    kernel_categories: Categories | None = None,
) -> pl.DataFrame:
    """Convert many traces into one Parquet store, in parallel.

    A file that the store already has, with the same content and names, is skipped; so a batch that
    was stopped or killed resumes when it is run again. A file that has changed replaces its old
    version. Two files never replace each other: those that share run and rank are numbered by their
    start, as in `load`, after those that the store already has. A memory snapshot, flight recorder
    dump, execution trace or file of NCCL's Inspector joins the trace of its run and rank, as in
    `load`, even if one of them is already in the store. A file that cannot be converted is a row
    with its error; the others continue.

    Parameters
    ----------
    sources
        A trace file, a folder of traces, a glob, a URL that fsspec supports, or several of these.
        Or a single store, to copy it.
    store
        Folder of the store, created if it does not exist; or a URL that fsspec supports.
    executor
        Where to convert: anything with ``submit``, such as
        ``dask.distributed.Client(...).get_executor()``. Its workers must see the files and the
        store under the same paths. None for processes on this machine, as many as it has cores and
        memory for.
    run, rank
        Run and rank of all of them; by default from each trace itself and its path, as for `load`.
    pattern
        Position of run and rank in the paths, from their end: ``"{run}/rank{rank}.json.gz"``. ``*``
        stands for anything within a path component.
    threads
        Threads that each worker may use; None for its share of the machine.
    progress
        Called with a `Progress` at the start and after each file.
    keep
        Answers to keep of each run beside its events, by name or as paths of ``.sql`` files,
        besides those that always are (`profframe.conversion.keep`): questions about many runs read
        these. None keeps none. A store by URL has none.
    workers
        Processes on this machine; by default one per core, fewer for a few small files.
    compat, captures, execution_trace, memory, provenance, kernel_categories
        As for `load`. Workers must see these files, too.

    Returns
    -------
    polars.DataFrame
        One row per file, in the order of the sources: ``source``; ``status``: ``written``,
        ``joined`` (its tables joined those of the trace of that run and rank), ``unchanged``,
        ``failed``, or ``skipped`` (found in a folder or by a glob, but neither a trace nor named
        like one); ``run``, ``rank`` and ``events`` in the store; ``bytes`` of the file; ``seconds``
        that the worker needed; ``error``.

    Raises
    ------
    ParameterError
        A parameter is invalid.
    NoTraceFoundError
        No source exists.
    StoreError
        The store cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = convert("examples/cpu_training.json.gz", folder)
    ...     again = convert("examples/cpu_training.json.gz", folder)
    >>> first["status"].item(), again["status"].item(), first["run"].item()
    ('written', 'unchanged', 'cpu_training')
    """
    facts = fact_options(locals())
    check_names(run, rank)
    check_numbers(executor, workers, threads)
    target, paths = destination(store), as_list(sources)
    names = None if keep is None else questions(keep)
    if folder := store_among(paths):
        if facts.given or any(value is not None for value in (run, rank, pattern)):
            raise ParameterError(
                "a store already has names and facts, so it takes none of run, rank, pattern, "
                f"{', '.join(FLAGS)}"
            )
        if not isinstance(target, Folder):
            raise ParameterError(f"{os.fspath(store)}: a store can only be copied to a folder")
        copied = _copy(Trace.from_store(folder.path), target.root)
        _keep(target, copied, names, None)
        return copied
    files = items(paths, run, rank, None if pattern is None else Pattern.of(pattern))
    target.prepare()
    with _engine(executor, files, workers, threads) as engine:
        return run_batch(
            target, files, engine, names, facts=facts, threads=threads, progress=progress
        )


def run_batch(
    target: Destination,
    files: Sequence[Item],
    engine: Executor,
    names: list[str] | None,
    **options: Any,
) -> Frame:
    """Convert files, and keep answers of these names of their runs; `Batch` has the options."""
    with target.at_work():
        batch = Batch(target, files, engine, **options)
        rows = Frame([asdict(outcome) for outcome in batch.run()], _SCHEMA)
        _keep(target, rows, names, engine)
    return rows


def _keep(
    target: Destination, files: pl.DataFrame, names: list[str] | None, engine: Executor | None
) -> None:
    """Keep answers of the runs of some files; what cannot be kept is logged, and computed later."""
    stored = files.filter(files["status"].is_in(["written", "joined", "unchanged"]))
    runs = stored["run"].drop_nulls().unique().sort().to_list()
    if names is None or not runs or not isinstance(target, Folder):
        return
    try:
        errors = keep_present(target.root, names, runs, engine).errors
    except ProfframeError as error:
        errors = (str(error),)
    for sentence in errors:
        logging.getLogger(LOGGER).warning("%s", sentence)


def _default_workers(files: Sequence[Item]) -> int:
    """Number of workers that the machine allows, without those that would hardly get work."""
    worth = max(sum(item.size for item in files) // _WORTH_BYTES, len(files) // _WORTH_FILES)
    return min(default_workers(), 1 + worth)


@contextmanager
def _engine(
    executor: Executor | None, files: Sequence[Item], workers: int | None, threads: int | None
) -> Iterator[Executor]:
    """The executor; without one, processes of this machine that end with the batch."""
    count = sum(item.error is None for item in files)
    if executor is not None:
        yield executor
    elif count <= 1 and (workers, threads) == (None, None):
        yield InlineExecutor()
    elif any(item.name for item in files):  # only this process can read a pipe
        with ThreadPoolExecutor(1, "profframe-convert") as thread:
            yield thread
    else:
        number = max(1, min(workers or _default_workers(files), count))
        with local_pool(number, threads) as pool:
            yield pool


def _copy(trace: Trace, root: Path) -> pl.DataFrame:
    """Write a store into another one."""
    trace.to_parquet(root)
    events = own_rows(trace, "SELECT run, rank, count(*) AS events FROM events GROUP BY ALL")
    return (
        trace.traces.select("source", "run", "rank")
        .join(events, ["run", "rank"], how="left", maintain_order="left")
        .with_columns(
            pl.lit("written").alias("status"),
            pl.col("events").fill_null(0),
            **{name: pl.lit(None, _SCHEMA[name]) for name in ("bytes", "seconds", "error")},
        )
        .select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())
    )
