"""Live objects of torch's profilers; `reading` reads them."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FORMAT: Final = "torch"
"""Of a trace from such an object."""
PROFILER: Final = "torch.profiler.profiler._KinetoProfile"
AUTOGRAD: Final = "torch.autograd.profiler.profile"
BEFORE_KINETO: Final = "torch.autograd.profiler_legacy.profile"
RESULTS: Final = "torch._C._autograd._ProfilerResult"
EVENTS: Final = "torch.autograd.profiler_util.EventList"
EVENT: Final = "torch.autograd.profiler_util.FunctionEvent"
AVERAGE: Final = "torch.autograd.profiler_util.FunctionEventAvg"
PROFILERS: Final = (PROFILER, AUTOGRAD)
_ELEMENTS: Final = (EVENT, AVERAGE)
_CLASSES: Final = (PROFILER, AUTOGRAD, BEFORE_KINETO, RESULTS, EVENTS, EVENT, AVERAGE)


@dataclass(frozen=True, slots=True)
class Cycles:
    """Finished profilers of torch, one for each cycle of one recording, in order."""

    profilers: tuple[object, ...]


class Recorder(ABC):
    """A profiler of profframe's own."""

    @abstractmethod
    def finished_cycles(self) -> Cycles:
        """Cycles that have ended."""

    @abstractmethod
    def cycles_to_write(self) -> tuple[Cycles, ...]:
        """Those that a handler writes, each as a run."""


def knows(source: object) -> bool:
    """Whether `read` takes `source`: an object of torch's profilers, or a list of its events.

    Examples
    --------
    >>> knows("trace.json"), knows([]), knows(["trace.json"])
    (False, False, False)
    """
    return source_class(source) is not None


def fx_metadata() -> Mapping[str, Mapping[str, object]] | None:
    """Torch's registry of graph nodes in this process; None if it is empty."""
    traceback = sys.modules.get("torch.fx.traceback")
    registry = getattr(traceback, "_FX_METADATA_REGISTRY", None)
    return registry if isinstance(registry, Mapping) and registry else None


def describe(source: object) -> str:
    """Text of ``traces.source`` for a live object."""
    if isinstance(source, Cycles):
        return describe(source.profilers[-1])
    class_name = source_class(source)
    names = {PROFILER: "torch.profiler.profile", RESULTS: "kineto_results"}
    name = names.get(
        class_name or "", (class_name or "").removeprefix("torch.autograd.profiler_util.")
    )
    return f"live {name if class_name != EVENT else 'list of FunctionEvent'}"


def source_class(source: object) -> str | None:
    """Name of the supported class of an object; of a list, that of its first element."""
    if isinstance(source, Cycles):
        return source_class(source.profilers[-1])
    if (class_name := class_of(type(source))) is not None:
        return None if class_name in _ELEMENTS else class_name
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        class_names = map(class_of, dict.fromkeys(map(type, source)))
        return next((name for name in class_names if name in _ELEMENTS), None)
    return None


def class_of(type_: type) -> str | None:
    """Name of the class of torch's that a class is, or extends."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in type_.__mro__)
    return next((name for name in names if name in _CLASSES), None)
