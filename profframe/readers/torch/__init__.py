"""Live objects of torch's profilers, straight into the tables.

Nothing here imports torch: what an object is, the names of its classes say. Nothing is changed or
used up: the user's own export still works, and an object may be loaded any number of times.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from profframe.errors import ParameterError, SourceError
from profframe.readers.build.rows import Header, RawTrace
from profframe.readers.torch import function_events, kineto
from profframe.readers.torch.getters import uncollected

_PROFILER: Final = "torch.profiler.profiler._KinetoProfile"
_AUTOGRAD: Final = "torch.autograd.profiler.profile"
_BEFORE_KINETO: Final = "torch.autograd.profiler_legacy.profile"
_RESULTS: Final = "torch._C._autograd._ProfilerResult"
_EVENTS: Final = "torch.autograd.profiler_util.EventList"
_EVENT: Final = "torch.autograd.profiler_util.FunctionEvent"
_AVERAGE: Final = "torch.autograd.profiler_util.FunctionEventAvg"
_ELEMENTS: Final = (_EVENT, _AVERAGE)
_KNOWN: Final = (_PROFILER, _AUTOGRAD, _BEFORE_KINETO, _RESULTS, _EVENTS, _EVENT, _AVERAGE)

_FLAGS: Final = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_ELAPSED: Final = {None: None, "cuda": "cuda_elapsed_us", "xpu": None, "mtia": None, "hpu": None}
"""Where torch has measured device time itself, if it has; any other device is a backend's own."""
_DEVICES: Final = {
    "name": "name",
    "totalGlobalMem": "total_memory",
    "computeMajor": "major",
    "computeMinor": "minor",
    "warpSize": "warp_size",
    "numSms": "multi_processor_count",
    "maxThreadsPerMultiprocessor": "max_threads_per_multi_processor",
    "regsPerMultiprocessor": "regs_per_multiprocessor",
    "sharedMemPerBlock": "shared_memory_per_block",
}


def knows(source: object) -> bool:
    """Whether `source` is for `read`: an object of torch's profilers, or a list of its events.

    Examples
    --------
    >>> knows("trace.json"), knows([]), knows(["trace.json"])
    (False, False, False)
    """
    return _what(source) is not None


def read(source: object) -> RawTrace:
    """Read a finished profile into the tables of one trace, without run and rank and facts.

    Parameters
    ----------
    source
        A ``torch.profiler.profile``, a ``torch.autograd.profiler.profile``, its
        ``kineto_results``, an ``EventList`` or a list of ``FunctionEvent``.

    Raises
    ------
    SourceError
        The profile is still running or never ran.
    ParameterError
        What was given are averages, or not all are events.
    """
    with uncollected():
        return _read(source)


def _read(source: Any) -> RawTrace:
    match _what(source):
        case what if what == _RESULTS:
            return kineto.read(source, kineto.Told(_header({})))
        case what if what == _PROFILER:
            return _profiler(source)
        case what if what == _AUTOGRAD:
            return _autograd(source, {}, {})
        case what if what == _BEFORE_KINETO:
            events = getattr(source, "function_events", None)
            return _list(_finished(source, events))
        case _:
            return _list(source)


def fx_metadata() -> Mapping[str, Mapping[str, object]] | None:
    """What torch knows of the nodes of graphs in this process; None where it knows of none."""
    traceback = sys.modules.get("torch.fx.traceback")
    known = getattr(traceback, "_FX_METADATA_REGISTRY", None)
    return known if isinstance(known, Mapping) and known else None


def describe(source: object) -> str:
    """What is written in ``traces.source`` of a live object."""
    what = _what(source)
    names = {_PROFILER: "torch.profiler.profile", _RESULTS: "kineto_results"}
    name = names.get(what or "", (what or "").removeprefix("torch.autograd.profiler_util."))
    return f"live {name if what != _EVENT else 'list of FunctionEvent'}"


def _what(source: object) -> str | None:
    """Which of the known classes an object is of; of a list, what its first element is."""
    if (known := _class_of(type(source))) is not None:
        return None if known in _ELEMENTS else known
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        found = map(_class_of, dict.fromkeys(map(type, source)))
        return next((name for name in found if name in _ELEMENTS), None)
    return None


def _class_of(type_: type) -> str | None:
    names = (f"{one.__module__}.{one.__qualname__}" for one in type_.__mro__)
    return next((name for name in names if name in _KNOWN), None)


def _profiler(source: Any) -> RawTrace:
    """A ``torch.profiler.profile``: its flags are those that its own export names."""
    flags = {flag: 1 for flag in _FLAGS if getattr(source, flag, False)}
    metadata = {
        name: _plain(text)
        for name, text in (getattr(source, "preset_metadata", None) or {}).items()
    }
    return _autograd(_finished(source, getattr(source, "profiler", None)), flags, metadata)


def _autograd(source: Any, flags: Mapping[str, int], metadata: Mapping[str, object]) -> RawTrace:
    results = _finished(source, getattr(source, "kineto_results", None))
    if not hasattr(results, "trace_activities"):  # before torch 2.13
        return _list(source.function_events)
    flags = flags or {flag: 1 for flag in _FLAGS if getattr(source, flag, False)}
    if trace_id := getattr(source, "trace_id", ""):
        metadata = {"trace_id": trace_id, **metadata}
    told = kineto.Told(
        _header(flags, metadata),
        _ELAPSED.get(getattr(source, "use_device", None), "privateuse1_elapsed_us"),
        with_flops=bool(getattr(source, "with_flops", False)),
        on_host=_on_host(source),
    )
    return kineto.read(results, told)


def _on_host(source: Any) -> bool:
    """Whether the profiler was told to record the host alone."""
    recorded = getattr(source, "kineto_activities", None) or ()
    return {getattr(one, "name", "") for one in recorded} == {"CPU"}


def _finished(source: object, results: Any) -> Any:
    if results is None:
        name = type(source).__qualname__
        raise SourceError(
            f"this {name} holds no events: it is still running, or never ran; load it when its "
            "with block has ended, or from on_trace_ready"
        )
    return results


def _list(source: Any) -> RawTrace:
    events = list(source)
    types = list(map(type, events))
    for type_ in set(types):
        if (what := _class_of(type_)) != _EVENT:
            given = "an average" if what == _AVERAGE else f"a {type_.__qualname__}"
            raise ParameterError(
                f"element {types.index(type_)} is {given}, not a FunctionEvent; averages hold no "
                "single events: load the profile, or its .events()"
            )
    told = function_events.Told(
        _header({}),
        use_device=getattr(source, "_use_device", None),
        profile_memory=getattr(source, "_profile_memory", None),
        with_flops=getattr(source, "_with_flops", None),
    )
    return function_events.read(events, told)


def _header(flags: Mapping[str, int], metadata: Mapping[str, object] | None = None) -> Header:
    """What torch itself says of the job and its devices, where it has been asked to look."""
    rank, world_size, backend = _job()
    devices = _devices()
    return Header(
        format="torch",
        clock="utc",
        rank=rank,
        world_size=world_size,
        backend=backend,
        device_properties=json.dumps(devices) if devices else None,
        profiler_flags=json.dumps(flags) if flags else None,
        metadata=json.dumps(metadata) if metadata else None,
    )


def _job() -> tuple[int | None, int | None, str | None]:
    """Rank, number of ranks and backend of the distributed job that this process is part of."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None, None, None
    return (
        distributed.get_rank(),
        distributed.get_world_size(),
        str(distributed.get_backend()),
    )


def _devices() -> list[dict[str, object]]:
    """Properties of the devices; a process that has used none is not made to."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    found = []
    for index in range(cuda.device_count()):
        properties = cuda.get_device_properties(index)
        said = {name: getattr(properties, theirs, None) for name, theirs in _DEVICES.items()}
        found.append({"id": index} | {name: v for name, v in said.items() if v is not None})
    return found


def _plain(text: object) -> object:
    """Metadata is JSON text."""
    try:
        return json.loads(text) if isinstance(text, str) else str(text)
    except ValueError:
        return text
