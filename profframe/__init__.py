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
    ProfframeError,
    SourceError,
    StoreError,
    StoreVersionError,
    UnknownNameError,
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
    from profframe.converting.convert import convert
    from profframe.loading.capture import profile, trace_handler
    from profframe.loading.diff import diff
    from profframe.loading.diff_report import diff_report
    from profframe.loading.explain import explain
    from profframe.loading.load import load, load_nvprof
    from profframe.loading.memory_diff import diff_memory
    from profframe.loading.memory_recording import memory_snapshot, record_memory
    from profframe.show.frame import Frame, why_empty
    from profframe.trace.query import answers
    from profframe.trace.trace import Trace

__version__ = "0.1.0"

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
    "ProfframeError",
    "ProfilerAction",
    "ProfilerActivity",
    "SourceError",
    "StoreError",
    "StoreVersionError",
    "Trace",
    "UnknownNameError",
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
    "why_empty",
]

_HOMES: Final = {
    "Explanation": "profframe.analysis.causes.explanation",
    "Frame": "profframe.show.frame",
    "ProfilerAction": "profframe.loading.capture",
    "ProfilerActivity": "profframe.loading.capture",
    "Trace": "profframe.trace.trace",
    "answers": "profframe.trace.query",
    "convert": "profframe.converting.convert",
    "diff": "profframe.loading.diff",
    "diff_memory": "profframe.loading.memory_diff",
    "diff_report": "profframe.loading.diff_report",
    "emit_itt": "profframe.loading.capture",
    "emit_nvtx": "profframe.loading.capture",
    "explain": "profframe.loading.explain",
    "load": "profframe.loading.load",
    "load_nvprof": "profframe.loading.load",
    "memory_snapshot": "profframe.loading.memory_recording",
    "profile": "profframe.loading.capture",
    "record_function": "profframe.loading.capture",
    "record_memory": "profframe.loading.memory_recording",
    "schedule": "profframe.loading.capture",
    "supported_activities": "profframe.loading.capture",
    "trace_handler": "profframe.loading.capture",
    "why_empty": "profframe.show.frame",
}
"""Modules of the names that take long to import."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        from profframe.errors import no_attribute

        raise no_attribute(import_module(__name__), f"module {__name__!r}", __name__, name)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
