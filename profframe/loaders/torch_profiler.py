"""torch's profiler, with a `Trace` as its result; torch is imported on first use."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from profframe.errors import MissingExtraError, ParameterError, SourceError, nearest
from profframe.loaders.load import load
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
_FIXED: Final = (
    *_OF_AUTOGRAD[:-1], "activities", "schedule", "acc_events", "enabled", "experimental_config",
)  # fmt: skip
"""Arguments from which torch computes others when its profiler is made."""
_CONTROLS: Final = (
    "step", "prepare_trace", "start_trace", "stop_trace", "add_metadata",
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
        return torch_module(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return torch_module(self._name)


def torch_module(name: str, module: str = "torch.profiler") -> Any:
    """A module of torch, for the feature of this name."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"profframe.{name} needs PyTorch: pip install 'profframe[torch]'"
        ) from error


class profile(live.Recorder):  # noqa: N801 -- as torch calls it
    """Profile a block or a function with torch's profiler, and get a `Trace`.

    A ``with`` block and ``on_trace_ready`` get this object, which ``isinstance`` takes for torch's
    profiler; other methods and attributes (``step()``, ``add_metadata()``, ``key_averages()``,
    ``table()``, ``with_stack``, ...) are those of torch's profiler, and ``print`` shows its table.
    As a decorator it profiles each call of a function or coroutine function; a nested call is part
    of the outer one. Each block and each call has its own profiler and restarts the schedule; with
    ``acc_events=True`` they continue, and the trace has all of them.

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
        There are arguments of both of torch's profilers, or ``on_trace_ready`` cannot be called; or
        an attribute is set that cannot be.

    Examples
    --------
    >>> with profile(record_shapes=True) as prof:  # doctest: +SKIP
    ...     model(batch).sum().backward()
    >>> prof.trace.key_averages(group_by_input_shape=True)  # doctest: +SKIP
    """

    def __init__(self, enabled: bool = True, **arguments: Any) -> None:
        _check_one_profiler(arguments)
        _check_handler(arguments.get("on_trace_ready"))
        self._enabled = bool(enabled)
        self._arguments = arguments
        self._is_plain = is_plain(arguments)
        self._accumulates = bool(arguments.get("acc_events"))
        self._is_running = False
        self._is_used = False
        self._is_ready = False
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
            self._profiler = torch_module("profile").profile(**arguments)
            return
        arguments = {
            name: value
            for name, value in self._arguments.items()
            if name not in ("use_cuda", "on_trace_ready")
        }
        if self._arguments.get("use_cuda"):  # gone from torch 2.15
            arguments.setdefault("use_device", "cuda")
        self._profiler = torch_module("profile", "torch.autograd.profiler").profile(**arguments)

    def _ready(self, profiler: Any) -> None:
        cycle = _as_it_is(profiler)
        self._cycles = [*self._cycles, cycle] if self._accumulates else [cycle]
        self._trace = None
        handler = self._arguments.get("on_trace_ready")
        if handler is None:
            return
        self._is_ready = True
        try:
            handler(self)
        finally:
            self._is_ready = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "on_trace_ready" or (not self._enabled and name in self._arguments):
            return self._arguments.get(name)
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

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of torch's profiler; an argument is also that of later blocks."""
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        self._check_may_be_set(name, value)
        if not self._enabled or self._is_argument(name):
            self._arguments = self._arguments | {name: value}
        if self._enabled and name != "on_trace_ready":
            setattr(self._profiler, name, value)

    def _check_may_be_set(self, name: str, value: object) -> None:
        if hasattr(type(self), name):
            raise ParameterError(f"{name} cannot be set: it belongs to the profile itself")
        if name == "on_trace_ready":
            _check_handler(value)
            return
        is_fixed = name in _FIXED or (self._has_one_recorder() and self._is_argument(name))
        if is_fixed:
            when = "a profile is made" if name in _FIXED else "acc_events=True has begun to record"
            raise ParameterError(
                f"{name} cannot be changed once {when}: give it to a new profile, as in "
                f"profframe.profile({name}=...)"
            )
        if self._enabled and name not in (names := dir(self._profiler)):
            near = nearest(name, (other for other in names if not other.startswith("_")))
            hint = f"did you mean {near!r}?" if near else "keep it in a variable of your own"
            raise ParameterError(
                f"{name!r} cannot be set: torch's profiler has no such attribute; {hint}"
            )

    def _is_argument(self, name: str) -> bool:
        """Whether it is one of torch's profiler, or `on_trace_ready`."""
        parameters = inspect.signature(type(self._profiler)).parameters
        return name == "on_trace_ready" or name in parameters

    def _has_one_recorder(self) -> bool:
        """Whether torch records all cycles as it did the first one, which has begun."""
        return self._accumulates and getattr(self._profiler, "profiler", None) is not None

    def __dir__(self) -> list[str]:
        """Own names, and those of torch's profiler that can be read now."""
        if not self._enabled:
            return sorted({*super().__dir__(), *_CONTROLS, *self._arguments})
        names = {*super().__dir__(), *_READS, *_public(self._profiler)}
        recorder = _recorder_of(self._profiler)
        if getattr(recorder, "kineto_results", None) is not None:
            return sorted(names.union(_public(recorder)))
        return sorted(name for name in names if not _is_property(recorder, name))

    @property  # type: ignore[misc]  # isinstance looks at it
    def __class__(self) -> type:
        """A subclass of torch's class too."""
        profiler = self.__dict__.get("_profiler")
        return type(self) if profiler is None else _class_as(type(self), type(profiler))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        """As of any object; pickle would compare its type with ``__class__``."""
        return object.__new__, (type(self),), self.__dict__

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
        self._check_is_idle()
        if self._enabled:
            if (self._is_used or self._cycles) and (self._is_plain or not self._accumulates):
                self._reset()
            self._is_used = True
            self._profiler.__enter__()
        self._is_running = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        if not self._is_running:  # it was stopped in the block, or has not begun
            return
        self._is_running = False
        if not self._enabled:
            return
        self._profiler.__exit__(kind, error, place)
        if self._is_plain:
            self._ready(self._profiler)

    def start(self) -> None:
        """Begin to record without a block; a schedule goes on where `stop` left it.

        Raises
        ------
        ParameterError
            The profile is running.
        """
        if self._is_plain:
            self.__enter__()
            return
        self._check_is_idle()
        if self._enabled:
            self._is_used = True
            self._profiler.start()
        self._is_running = True

    def stop(self) -> None:
        """End what `start` or a block began.

        Raises
        ------
        ParameterError
            The profile is not running.
        """
        if not self._is_running:
            raise ParameterError(
                "stop: this profile is not running; start() begins it, or a block: with prof: ..."
            )
        if self._is_plain:
            self.__exit__(None, None, None)
            return
        self._is_running = False
        if self._enabled:
            self._profiler.stop()

    def _check_is_idle(self) -> None:
        if self._is_running:
            raise ParameterError("this profile is already running; a nested block needs its own")

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
                if self._is_running:
                    return await function(*args, **kwargs)
                with self:
                    return await function(*args, **kwargs)

            return profiled_coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def profiled(*args: Any, **kwargs: Any) -> Any:
            if self._is_running:
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

    def cycles_to_write(self) -> tuple[live.Cycles, ...]:
        """In ``on_trace_ready`` the cycle that is ready, else each that `trace` reads.

        Raises
        ------
        SourceError
            As for `trace`.
        """
        cycles = self.finished_cycles().profilers
        return tuple(live.Cycles((cycle,)) for cycle in cycles[-1 if self._is_ready else 0 :])


def is_plain(arguments: Mapping[str, object]) -> bool:
    """Whether arguments are for ``torch.autograd.profiler.profile``, which has no schedule."""
    return not arguments.keys().isdisjoint(_OF_AUTOGRAD)


def with_steps(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with which each ``step()`` ends a recorded step; torch needs a schedule for it."""
    if "schedule" in arguments or is_plain(arguments):
        return dict(arguments)
    record = torch_module("profile").ProfilerAction.RECORD
    return {**arguments, "schedule": lambda _: record}


def _check_one_profiler(arguments: Mapping[str, object]) -> None:
    of_autograd = [name for name in _OF_AUTOGRAD if name in arguments]
    of_profiler = [name for name in _OF_PROFILER if name in arguments]
    if of_autograd and of_profiler:
        raise ParameterError(
            f"{of_autograd[0]} belongs to torch.autograd.profiler.profile, and {of_profiler[0]} of "
            "torch.profiler.profile, whose activities= say which devices are recorded: give those "
            "of one"
        )


def _check_handler(handler: object) -> None:
    if handler is not None and not callable(handler):
        raise ParameterError(
            f"on_trace_ready must be a function that takes the profile, not {handler!r}"
        )


def _public(value: object) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_")]


def _is_property(value: object, name: str) -> bool:
    return isinstance(inspect.getattr_static(value, name, None), property)


@functools.cache
def _class_as(own: type, of_torch: type) -> type:
    """A class for ``isinstance`` alone: nothing is made of it."""
    return type(
        own.__name__, (own, of_torch), {"__module__": own.__module__, "__doc__": own.__doc__}
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
