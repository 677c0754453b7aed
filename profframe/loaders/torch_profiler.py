"""torch's profiler, with a `Trace` as its result; torch is imported on first use."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from profframe import schema
from profframe import store as stores
from profframe.errors import MissingExtraError, ParameterError, SourceError
from profframe.loaders.load import load
from profframe.loaders.options import check_names
from profframe.loaders.process_rank import rank_of_process
from profframe.readers import torch as live
from profframe.show.units import plural
from profframe.trace.trace import Trace

_Function = TypeVar("_Function", bound=Callable[..., Any])

_TORCH_MODULES: Final = {
    "ProfilerAction": "torch.profiler",
    "ProfilerActivity": "torch.profiler",
    "emit_itt": "torch.autograd.profiler",
    "emit_nvtx": "torch.autograd.profiler",
    "record_function": "torch.profiler",
    "schedule": "torch.profiler",
    "supported_activities": "torch.profiler",
}
"""Names that are re-exported, and their modules."""

_OF_AUTOGRAD: Final = ("use_cuda", "use_device", "use_cpu", "use_kineto", "activity_filters")
"""Arguments that only ``torch.autograd.profiler.profile`` takes."""
_OF_PROFILER: Final = ("activities", "schedule", "execution_trace_observer")
"""Arguments that only ``torch.profiler.profile`` takes."""
_CONTROLS: Final = (
    "start", "stop", "step", "prepare_trace", "start_trace", "stop_trace", "add_metadata",
    "add_metadata_json", "preset_metadata_json", "toggle_collection_dynamic",
    "set_custom_trace_id_callback",
)  # fmt: skip
"""Methods of torch's profilers that do nothing if nothing is recorded."""
_READS: Final = (
    "events", "export_chrome_trace", "export_memory_timeline", "export_stacks", "key_averages",
    "table", "total_average",
)  # fmt: skip
"""Methods that need a recording."""
_UNFINISHED: Final = "the profile has not ended, or no cycle of its schedule has ended"


def __getattr__(name: str) -> Any:
    if name not in _TORCH_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_TORCH_MODULES[name]), name)
    except ModuleNotFoundError:
        return _Absent(name)


class _Absent:
    """A name from torch in a process without torch: the error comes when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: object, **__: object) -> Any:
        """Refuse."""
        return _torch(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _torch(self._name)


def _torch(name: str, module: str = "torch.profiler") -> Any:
    """A module of torch, for the feature of this name."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"profframe.{name} needs PyTorch: pip install 'profframe[torch]'"
        ) from error


class profile(live.Recorder):  # noqa: N801 -- as torch calls it
    """Profile a block or a function with torch's profiler, and get a `Trace`.

    A ``with`` block gets this object; other methods (``step()``, ``add_metadata()``,
    ``key_averages()``, ``table()``, ...) are those of torch's profiler, and ``print`` shows its
    table. As a decorator it profiles each call of a function or coroutine function; a
    nested call is part of the outer one. Each block and each call has its own profiler and restarts
    the schedule; with ``acc_events=True`` they continue, and the trace has all of them.

    Parameters
    ----------
    enabled
        False for a block that records nothing.
    **arguments
        Those of ``torch.profiler.profile``: ``activities``, ``schedule``, ``on_trace_ready``,
        ``record_shapes``, ``profile_memory``, ``with_stack``, ``with_flops``, ``acc_events``, ...
        Or those of ``torch.autograd.profiler.profile``, which is then used instead: ``use_device``,
        ``use_cuda``, ``use_cpu``, ``use_kineto``.

    Raises
    ------
    MissingExtraError
        torch is not installed.
    ParameterError
        There are arguments of both of torch's profilers.

    Examples
    --------
    >>> with profile(record_shapes=True) as prof:  # doctest: +SKIP
    ...     model(batch).sum().backward()
    >>> prof.trace.key_averages(group_by_input_shape=True)  # doctest: +SKIP
    """

    def __init__(self, enabled: bool = True, **arguments: Any) -> None:
        _check_one_profiler(arguments)
        self._enabled = bool(enabled)
        self._arguments = arguments
        self._is_plain = not arguments.keys().isdisjoint(_OF_AUTOGRAD)
        self._accumulates = bool(arguments.get("acc_events"))
        self._depth = 0
        self._is_used = False
        self._cycles: list[Any] = []
        self._trace: Trace | None = None
        self._profiler: Any = None
        self._reset()

    def _reset(self) -> None:
        """Create a profiler of torch."""
        if not self._enabled:
            return
        if not self._accumulates:
            self._cycles.clear()
            self._trace = None
        if not self._is_plain:
            arguments = self._arguments | {"on_trace_ready": self._ready}
            self._profiler = _torch("profile").profile(**arguments)
            return
        arguments = {
            name: value
            for name, value in self._arguments.items()
            if name not in ("use_cuda", "on_trace_ready")
        }
        if self._arguments.get("use_cuda"):  # gone from torch 2.15
            arguments.setdefault("use_device", "cuda")
        self._profiler = _torch("profile", "torch.autograd.profiler").profile(**arguments)

    def _ready(self, profiler: Any) -> None:
        cycle = _as_it_is(profiler)
        self._cycles = [*self._cycles, cycle] if self._accumulates else [cycle]
        self._trace = None
        handler = self._arguments.get("on_trace_ready")
        if handler is not None:
            handler(profiler)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if not self._enabled:
            if name in _CONTROLS:
                return _do_nothing
            raise SourceError(f"this profile has no {name}: nothing is recorded with enabled=False")
        if name in _READS and getattr(_recorder_of(self._profiler), "kineto_results", None) is None:
            return functools.partial(_refuse, name)
        if self._is_plain or hasattr(self._profiler, name):
            return getattr(self._profiler, name)
        recorder = getattr(self._profiler, "profiler", None)  # table(), total_average(), ...
        return getattr(self._profiler if recorder is None else recorder, name)

    def __repr__(self) -> str:
        """The state of the recording."""
        if not self._enabled or not self._cycles:
            return str(self)
        return f"<profframe.profile: {plural(len(self._cycles), 'finished cycle')}, see .trace>"

    def __str__(self) -> str:
        """The table of events, as ``torch.autograd.profiler.profile`` has it."""
        if not self._enabled:
            return "<profframe.profile that is not enabled>"
        if not self._cycles:
            return "<unfinished profframe.profile>"
        return str(_recorder_of(self._cycles[-1]))

    def __enter__(self) -> Self:
        if self._depth:
            raise ParameterError("this profile is already running; a nested block needs its own")
        if self._enabled:
            if (self._is_used or self._cycles) and (self._is_plain or not self._accumulates):
                self._reset()
            self._is_used = True
            self._profiler.__enter__()
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._enabled:
            return
        self._profiler.__exit__(kind, error, place)
        if self._is_plain:
            self._ready(self._profiler)

    def __call__(self, function: _Function) -> _Function:
        """Profile each call of a function."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ParameterError(
                f"{function.__qualname__} is a generator: between its values its caller "
                "runs; profile the loop over it, as in: with profframe.profile() as prof: ..."
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def profiled_coroutine(*args: Any, **kwargs: Any) -> Any:
                if self._depth:
                    return await function(*args, **kwargs)
                with self:
                    return await function(*args, **kwargs)

            return profiled_coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def profiled(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return profiled  # type: ignore[return-value]

    @property
    def trace(self) -> Trace:
        """The recording as a trace, loaded on first use.

        With a schedule it is the last finished cycle, with ``acc_events=True`` all finished cycles;
        `trace_handler` keeps each as a run. The end of a block also ends its cycle.

        Raises
        ------
        SourceError
            Nothing has been recorded: neither the block nor a cycle of the schedule has ended, or
            the profile is not enabled.
        """
        if self._trace is None:
            self._trace = load(self.finished_cycles())
        return self._trace

    def finished_cycles(self) -> live.Cycles:
        """The profilers of torch that `trace` reads, as each was when its cycle ended.

        Raises
        ------
        SourceError
            As for `trace`.
        """
        if not self._enabled:
            raise SourceError("no trace: nothing is recorded with enabled=False")
        if not self._cycles:
            raise SourceError(f"no trace yet: {_UNFINISHED}")
        return live.Cycles(tuple(self._cycles))


def _check_one_profiler(arguments: Mapping[str, object]) -> None:
    of_autograd = [name for name in _OF_AUTOGRAD if name in arguments]
    of_profiler = [name for name in _OF_PROFILER if name in arguments]
    if of_autograd and of_profiler:
        raise ParameterError(
            f"{of_autograd[0]} belongs to torch.autograd.profiler.profile, and {of_profiler[0]} of "
            "torch.profiler.profile, whose activities= say which devices are recorded: give those "
            "of one"
        )


def _refuse(name: str, *_: object, **__: object) -> None:
    raise SourceError(f"{name}: nothing to read yet: {_UNFINISHED}")


def _do_nothing(*_: object, **__: object) -> None:
    pass


def _recorder_of(profiler: Any) -> Any:
    """The ``torch.autograd.profiler.profile`` that has the events."""
    return getattr(profiler, "profiler", profiler)


def _as_it_is(profiler: Any) -> Any:
    """A profiler of torch as it is at the end of a cycle; the next one changes it."""
    cycle = copy.copy(profiler)
    for name in ("profiler", "_trace_metadata"):
        if hasattr(profiler, name):
            setattr(cycle, name, copy.copy(getattr(profiler, name)))
    return cycle


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
        Name of the run, the same on every rank; by default the name of the script.
    rank
        By default that of ``torch.distributed``, else of the environment (``RANK``), else 0.

    Returns
    -------
    callable
        Pass it to ``torch.profiler.profile`` or `profframe.profile` as ``on_trace_ready``.

    Raises
    ------
    ParameterError
        ``run`` or ``rank`` is invalid.
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
    _torch("trace_handler")
    if run is not None and (type(run) is not str or not run):
        raise ParameterError(f"run must be text, not {run!r}")
    check_names(None, rank)
    return _Handler(Path(store), run or Path(sys.argv[0]).stem or "run", rank)


@dataclass(slots=True)
class _Handler:
    """Writes each cycle as a run of its own; processes that are spawned can be given one."""

    path: Path
    run: str
    rank: int | None
    next_cycle: int = 0

    def __call__(self, profiler: Any) -> None:
        rank = rank_of_process() if self.rank is None else self.rank
        while True:
            cycle, self.next_cycle = self.next_cycle, self.next_cycle + 1
            run = f"{self.run}.{cycle}" if cycle else self.run
            if stores.has(self.path, run, rank):
                continue
            tables = load(live.Cycles((profiler,)), run=run, rank=rank).tables
            if stores.add(_with_note(tables, run, rank, cycle) if cycle else tables, self.path):
                return


def _with_note(tables: dict[str, pa.Table], run: str, rank: int, cycle: int) -> dict[str, pa.Table]:
    """The tables, with a row in `quality` that they are a later cycle."""
    row = ("same_run_and_rank", tables["events"].num_rows, f"cycle {cycle}, from 0", None)
    note = schema.conform("quality", schema.quality_rows(row), run, rank)
    return tables | {"quality": pa.concat_tables([tables["quality"], note]).unify_dictionaries()}
