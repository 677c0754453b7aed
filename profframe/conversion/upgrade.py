"""`upgrade`: a store of older schemas or other facts becomes current, one (run, rank) at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Final

import polars as pl

from profframe import schema
from profframe import store as stores
from profframe.conversion.member_upgrade import Member, Upgrade
from profframe.conversion.staging import Folder
from profframe.conversion.worker import upgrade_member
from profframe.errors import (
    SourceError,
    StoreError,
    StoreVersionError,
    explain_unknown_arguments,
)
from profframe.remote.trees import remote
from profframe.show.frame import Frame
from profframe.store import layout, manifest
from profframe.workers.inline import InlineExecutor
from profframe.workers.pool import check_numbers, default_workers, local_pool

__all__ = ["upgrade"]

_WORTH: Final = 16
"""Traces that each worker except the first needs to be worth its start."""
_AT_ONCE: Final = 256
"""Tasks that wait or run."""
_RECORDED: Final = 250
"""Traces that become rows of the catalogue at once."""
_SCHEMA: Final = {
    "run": pl.String,
    "rank": pl.Int32,
    "status": pl.String,
    "schema_version": pl.Int32,
    "facts_version": pl.String,
    "source": pl.String,
    "reason": pl.String,
    "seconds": pl.Float64,
}


@explain_unknown_arguments
def upgrade(
    store: str | os.PathLike[str],
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    workers: int | None = None,
    default_options: bool = False,
    sources: bool = True,
) -> pl.DataFrame:
    """Upgrade a store to the tables and facts of this profframe, without its sources.

    Facts are derived anew from stored columns. The source is read only for what these lack, if it
    is where it was and unchanged. Each (run, rank) is replaced in one step, and is left alone once
    it is current: so an upgrade that was stopped or killed continues when it is run again, and
    others may read the store meanwhile.

    Parameters
    ----------
    store
        Folder of the store; of any schema that opens.
    executor
        Where to work: anything with ``submit``, as for `convert`. Its workers must see the store
        under the same path. None for processes on this machine.
    progress
        Called with the number of traces that are done, and of all.
    workers
        Processes on this machine; by default one per core, one for a few traces.
    default_options
        Whether traces without a record of their options, as `Trace.to_parquet` writes them, were
        loaded without any: their facts are derived anew, too.
    sources
        Whether sources may be read. The store names them: a store from somebody else can have any
        file of this machine opened and compared with a checksum.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank), ordered: ``run``, ``rank``; ``status``: ``current`` (it was),
        ``derived`` from its columns, ``read`` from its source, ``kept`` (its tables are current,
        its facts are as they were), ``failed``; ``schema_version`` and ``facts_version`` that it
        had; its ``source``; the ``reason`` why its columns were not enough, or of the failure;
        ``seconds``.

    Raises
    ------
    ParameterError
        A parameter is invalid.
    StoreError
        There is no store, or it cannot be written.
    StoreVersionError
        Its schema is newer than that of this profframe, or older than those that it reads.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = convert("examples/cpu_training.json.gz", folder)
    ...     upgrade(folder)["run", "rank", "status"].rows()
    [('cpu_training', 0, 'current')]
    """
    check_numbers(executor, workers)
    root = _root_of(store)
    target = Folder(root)
    target.prepare()
    members, rows = _members(root, default_options=default_options, sources=sources)
    published: list[tuple[str, int]] = []
    with target.at_work(), _engine(executor, len(members), workers) as engine:
        for done, row in enumerate(_results(engine, members), 1):
            rows.append(row)
            if _is_written(row):
                published.append((row.run, row.rank))
            if len(published) >= _RECORDED:
                target.record(published)
                published.clear()
            if progress is not None:
                progress(done, len(members))
        target.record(published)
    return Frame([asdict(row) for row in rows], _SCHEMA).sort("run", "rank")


def _is_written(row: Upgrade) -> bool:
    """Whether the folder of a trace is another one than before."""
    is_old = row.schema_version != schema.SCHEMA_VERSION
    return row.status in {"derived", "read"} or (row.status == "kept" and is_old)


def _root_of(path: str | os.PathLike[str]) -> Path:
    root = stores.root_at(path).absolute()
    if remote(root) is not None:
        raise StoreError(
            f"{path}: stores below a URL cannot be upgraded: copy it to a file system, upgrade "
            "the copy, and copy it back, or convert its sources again"
        )
    if not stores.is_store(root):
        raise StoreError(f"{path}: not a profframe store")
    if root.name.startswith(("run=", "rank=", manifest.PACK)):
        raise StoreError(f"{root}: only a part of a store; give the path of the whole store")
    return root


def _members(
    root: Path, *, default_options: bool, sources: bool
) -> tuple[list[Member], list[Upgrade]]:
    """What to upgrade, and the failures of damaged folders."""
    members: list[Member] = []
    failed: list[Upgrade] = []
    for place in layout.places(root):
        if place.members and not place.visible:
            continue
        folder = str(place.folder.relative_to(root))
        try:
            stores.check_folder(root, place)
            keys = sorted(place.keys)
        except StoreVersionError:
            raise
        except StoreError as error:
            failed += [Upgrade(run, rank, "failed", reason=str(error)) for run, rank in place.names]
            continue
        members += [
            Member(str(root), run, rank, folder, place.identity, default_options, sources)
            for run, rank in keys
        ]
    return members, failed


def _results(engine: Executor, members: Sequence[Member]) -> Iterator[Upgrade]:
    """The results, as they come; few tasks wait at once."""
    most = 1 if isinstance(engine, InlineExecutor) else _AT_ONCE
    rest = iter(members)
    running: dict[Future[Upgrade], Member] = {}
    while True:
        for member in islice(rest, most - len(running)):
            running[engine.submit(upgrade_member, member)] = member
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            member = running.pop(future)
            try:
                yield future.result()
            except SourceError as error:  # its worker died twice
                where = f"{member.store}: run {member.run!r}, rank {member.rank}"
                yield Upgrade(member.run, member.rank, "failed", reason=f"{where}: {error}")


@contextmanager
def _engine(executor: Executor | None, count: int, workers: int | None) -> Iterator[Executor]:
    """The executor; without one, this process or processes of this machine."""
    number = max(1, min(workers or min(default_workers(), count // _WORTH), count))
    if executor is not None:
        yield executor
    elif number == 1:
        yield InlineExecutor()
    else:
        with local_pool(number) as pool:
            yield pool
