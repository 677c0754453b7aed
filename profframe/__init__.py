"""Columnar analytics for PyTorch profiler traces.

>>> import profframe
>>> trace = profframe.load("examples/cpu_training.json.gz")  # doctest: +SKIP
>>> trace.self_times()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from profframe.errors import (
    AnswerError,
    ArgumentError,
    ExportError,
    MemoryLimitError,
    MissingExtraError,
    NotATraceError,
    NoTraceFoundError,
    ParameterError,
    PartsError,
    ProfframeError,
    SourceError,
    StoreError,
    StoreVersionError,
    UnknownNameError,
    WorkerDiedError,
)

if TYPE_CHECKING:
    from torch.autograd.profiler import emit_itt, emit_nvtx, record_function
    from torch.profiler import (
        ProfilerAction,
        ProfilerActivity,
        schedule,
        supported_activities,
    )

    from profframe.analysis.causes.explanation import Explanation
    from profframe.comparisons.diff import diff
    from profframe.comparisons.diff_report import diff_report
    from profframe.comparisons.explain import explain
    from profframe.comparisons.memory_diff import diff_memory
    from profframe.conversion.convert import convert
    from profframe.conversion.watch import watch
    from profframe.loaders.load import load, load_nvprof
    from profframe.loaders.memory_recording import memory_snapshot, record_memory
    from profframe.loaders.torch_profiler import profile
    from profframe.loaders.trace_handler import trace_handler
    from profframe.show.empty_frames import why_empty
    from profframe.show.frame import Frame
    from profframe.trace.query import answers
    from profframe.trace.trace import Trace

__version__ = "0.9.0"

__all__ = [
    "AnswerError",
    "ArgumentError",
    "Explanation",
    "ExportError",
    "Frame",
    "MemoryLimitError",
    "MissingExtraError",
    "NoTraceFoundError",
    "NotATraceError",
    "ParameterError",
    "PartsError",
    "ProfframeError",
    "ProfilerAction",
    "ProfilerActivity",
    "SourceError",
    "StoreError",
    "StoreVersionError",
    "Trace",
    "UnknownNameError",
    "WorkerDiedError",
    "__version__",
    "answers",
    "convert",
    "diff",
    "diff_memory",
    "diff_report",
    "emit_itt",
    "emit_nvtx",
    "explain",
    "load",
    "load_nvprof",
    "memory_snapshot",
    "profile",
    "record_function",
    "record_memory",
    "schedule",
    "supported_activities",
    "trace_handler",
    "watch",
    "why_empty",
]

_HOMES: Final = {
    "Explanation": "profframe.analysis.causes.explanation",
    "Frame": "profframe.show.frame",
    "ProfilerAction": "profframe.loaders.torch_profiler",
    "ProfilerActivity": "profframe.loaders.torch_profiler",
    "Trace": "profframe.trace.trace",
    "answers": "profframe.trace.query",
    "convert": "profframe.conversion.convert",
    "diff": "profframe.comparisons.diff",
    "diff_memory": "profframe.comparisons.memory_diff",
    "diff_report": "profframe.comparisons.diff_report",
    "emit_itt": "profframe.loaders.torch_profiler",
    "emit_nvtx": "profframe.loaders.torch_profiler",
    "explain": "profframe.comparisons.explain",
    "load": "profframe.loaders.load",
    "load_nvprof": "profframe.loaders.load",
    "memory_snapshot": "profframe.loaders.memory_recording",
    "profile": "profframe.loaders.torch_profiler",
    "record_function": "profframe.loaders.torch_profiler",
    "record_memory": "profframe.loaders.memory_recording",
    "schedule": "profframe.loaders.torch_profiler",
    "supported_activities": "profframe.loaders.torch_profiler",
    "trace_handler": "profframe.loaders.trace_handler",
    "watch": "profframe.conversion.watch",
    "why_empty": "profframe.show.empty_frames",
}
"""Modules of the names that take long to import."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        from profframe.errors import no_attribute

        raise no_attribute(import_module(__name__), f"module {__name__!r}", __name__, name)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
