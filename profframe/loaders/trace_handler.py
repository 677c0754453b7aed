"""Cycles of torch's profiler straight into a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from profframe import schema
from profframe import store as stores
from profframe.errors import ParameterError
from profframe.loaders.load import load
from profframe.loaders.options import check_names
from profframe.loaders.process import name_of_program, rank_of_process
from profframe.loaders.torch_profiler import torch_module
from profframe.readers import torch as live
from profframe.system.forks import check_threads


def trace_handler(
    store: str | PathLike[str], run: str | None = None, rank: int | None = None
) -> Callable[[Any], None]:
    """Create an ``on_trace_ready`` callback that writes each cycle into a Parquet store.

    The first cycle is run ``run``, the later ones are ``run.1``, ``run.2``, ... It
    replaces nothing in the store: if a rank already has a run of that name, as after a restart, the
    numbers continue. It only reads the profiler, which can still be exported.

    Parameters
    ----------
    store
        Folder of the store, created if it does not exist. All ranks may share it.
    run
        Name of the run, the same on every rank; by default the name of the script or notebook.
    rank
        By default that of ``torch.distributed``, else of the environment (``RANK``), else 0.

    Returns
    -------
    callable
        Pass it to ``torch.profiler.profile`` or `profframe.profile` as ``on_trace_ready``, or call
        it with a finished profile of either.

    Raises
    ------
    ParameterError
        ``store``, ``run`` or ``rank`` is invalid.
    StoreError
        There can be no store: the path leads to a file, or this process may not write there.
    MissingExtraError
        torch is not installed.

    Examples
    --------
    >>> handler = trace_handler("store", run="nightly")  # doctest: +SKIP
    >>> with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=handler) as p:
    ...     for batch in loader:  # doctest: +SKIP
    ...         train(batch)
    ...         p.step()
    """
    torch_module("trace_handler")
    _check_path(store)
    if run is not None and (type(run) is not str or not run):
        raise ParameterError(f"run must be text, not {run!r}")
    check_names(None, rank)
    return _Handler(stores.place_to_write(store), run or name_of_program(), rank)


def _check_path(store: object) -> None:
    if not isinstance(store, (str, PathLike)) or not str(store):
        raise ParameterError(f"store must be the path of a folder, not {store!r}")


@dataclass(slots=True)
class _Handler:
    """Writes each cycle as a run of its own; processes that are spawned can be given one."""

    path: Path
    run: str
    rank: int | None
    next_cycle: int = 0

    def __call__(self, profiler: Any) -> None:
        check_threads()
        for cycles in _cycles_of(profiler):
            self._write(cycles)

    def _write(self, cycles: live.Cycles) -> None:
        rank = rank_of_process() if self.rank is None else self.rank
        while True:
            cycle, self.next_cycle = self.next_cycle, self.next_cycle + 1
            run = f"{self.run}.{cycle}" if cycle else self.run
            if stores.has(self.path, run, rank):
                continue
            tables = load(cycles, run=run, rank=rank).tables
            if stores.add(_with_note(tables, run, rank, cycle) if cycle else tables, self.path):
                return


def _cycles_of(profiler: object) -> tuple[live.Cycles, ...]:
    """What a handler writes of a profile, each as a run."""
    if isinstance(profiler, live.Recorder):
        return profiler.cycles_to_write()
    if live.source_class(profiler) not in live.PROFILERS:
        raise ParameterError(
            "a handler takes a finished profile of profframe or torch, not an object of type "
            f"{type(profiler).__name__}"
        )
    return (live.Cycles((profiler,)),)


def _with_note(tables: dict[str, pa.Table], run: str, rank: int, cycle: int) -> dict[str, pa.Table]:
    """The tables, with a row in `quality` that they are a later cycle."""
    row = ("same_run_and_rank", tables["events"].num_rows, f"cycle {cycle}, from 0", None)
    note = schema.conform("quality", schema.quality_rows(row), run, rank)
    return tables | {"quality": pa.concat_tables([tables["quality"], note]).unify_dictionaries()}
