"""Read live objects of torch's profilers into tables.

Nothing here imports torch: objects are recognised by the names of their classes. Nothing is changed
or used up: the user's own export still works, and an object may be loaded any number of times.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from profframe.errors import ParameterError, SourceError
from profframe.readers.build.row_tables import Header, RawTrace
from profframe.readers.chrome.reading import distributed_job
from profframe.readers.json import exact
from profframe.readers.torch import (
    AUTOGRAD,
    AVERAGE,
    BEFORE_KINETO,
    EVENT,
    EVENTS,
    FORMAT,
    PROFILER,
    RESULTS,
    Cycles,
    class_of,
    function_events,
    kineto,
    live_categories,
    source_class,
)
from profframe.system import collector

_FLAGS: Final = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_ELAPSED: Final = {None: None, "cuda": "cuda_elapsed_us", "xpu": None, "mtia": None, "hpu": None}
"""Getters of device times that torch measured itself, by device; others are custom backends."""
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


@collector.paused()  # it would take a third of the time: so many objects are looked at
def read(source: object, *, wants_categories: bool = False) -> RawTrace:
    """Read a finished profile into the tables of one trace, without run and rank and facts.

    Parameters
    ----------
    source
        A ``torch.profiler.profile``, a ``torch.autograd.profiler.profile``, its
        ``kineto_results``, an ``EventList``, a list of ``FunctionEvent``, or `Cycles`.
    wants_categories
        Whether memory categories are worth a longer wait.

    Raises
    ------
    SourceError
        The profile is still running or never ran.
    ParameterError
        The source holds averages, or not all of its elements are events.
    """
    if isinstance(source, Cycles):
        return _cycles(source.profilers, wants_categories=wants_categories)
    match source_class(source):
        case name if name == RESULTS:
            return kineto.read(source, kineto.ProfilerSettings(_header({})))
        case name if name in (PROFILER, AUTOGRAD):
            earlier = _events_of_earlier_cycles(_recorder(source))
            return _cycles([source], earlier, wants_categories=wants_categories)
        case name if name == BEFORE_KINETO:
            events = getattr(source, "function_events", None)
            return _event_list(_finished(source, events))
        case _:
            return _event_list(source)


def _cycles(
    profilers: Sequence[Any], earlier: int = 0, *, wants_categories: bool = False
) -> RawTrace:
    """All cycles; what is recorded around the events comes from the last one.

    ``earlier`` counts events of cycles before these.
    """
    last = profilers[-1]
    is_wrapper = source_class(last) == PROFILER
    recorders = [_recorder(profiler) for profiler in profilers]
    recorder = recorders[-1]
    results = [_finished(each, getattr(each, "kineto_results", None)) for each in recorders]
    if not hasattr(results[-1], "trace_activities"):  # before torch 2.13
        return _event_list(recorder.function_events)
    flags = _flags_of_cycle(last, recorder) if is_wrapper else _flags(recorder)
    metadata = _metadata(last) if is_wrapper else {}
    distributed = metadata.get("distributedInfo")
    if trace_id := getattr(recorder, "trace_id", ""):
        metadata = {"trace_id": trace_id, **metadata}
    metadata.setdefault("host_name", socket.gethostname())
    device = getattr(recorder, "use_device", None)
    activities = getattr(recorder, "kineto_activities", None) or ()
    settings = kineto.ProfilerSettings(
        _header(flags, metadata, distributed),
        _ELAPSED.get(device, "privateuse1_elapsed_us"),
        with_flops=bool(getattr(recorder, "with_flops", False)),
        on_host={getattr(activity, "name", "") for activity in activities} == {"CPU"},
        use_device=device,
    )
    raw = kineto.read_cycles(results, settings, earlier)
    if not set(live_categories.NEEDED) <= flags.keys():
        return raw
    return live_categories.with_categories(raw, results, is_wanted=wants_categories)


def _recorder(profiler: Any) -> Any:
    """The ``torch.autograd.profiler.profile`` within a ``torch.profiler.profile``, or itself."""
    if source_class(profiler) == PROFILER:
        return _finished(profiler, getattr(profiler, "profiler", None))
    return profiler


def _flags(profiler: Any) -> dict[str, int]:
    return {flag: 1 for flag in _FLAGS if getattr(profiler, flag, False)}


def _flags_of_cycle(profiler: Any, recorder: Any) -> dict[str, int]:
    """The flags that the exporter names, even if some of the profiler were set in the cycle.

    A recorder has one more if ``with_flops`` implies it.
    """
    named = _flags(profiler) | (getattr(profiler, "_trace_metadata", None) or {})
    return {flag: value for flag, value in _flags(recorder).items() if flag in named}


def _metadata(profiler: Any) -> dict[str, object]:
    """Metadata that the user and torch have added to a ``torch.profiler.profile``."""
    texts: dict[str, object] = {}
    for attribute in ("preset_metadata", "_trace_metadata"):
        texts |= getattr(profiler, attribute, None) or {}
    return {name: _parsed_metadata(text) for name, text in texts.items() if name not in _FLAGS}


def _events_of_earlier_cycles(recorder: Any) -> int:
    """Events that torch has kept from cycles whose recordings are gone."""
    if not getattr(recorder, "acc_events", False):
        return 0
    events = getattr(recorder, "_function_events", None) or ()
    newest = getattr(getattr(recorder, "_stats", None), "number_of_events", len(events))
    return max(0, len(events) - int(newest))


def _finished(source: object, results: Any) -> Any:
    if results is None:
        name = type(source).__qualname__
        raise SourceError(
            f"this {name} holds no events: it is still running, or never ran; load it after its "
            "with block, or inside on_trace_ready"
        )
    return results


def _event_list(source: Any) -> RawTrace:
    events = list(source)
    types = list(map(type, events))
    for type_ in set(types):
        if (class_name := class_of(type_)) != EVENT:
            element = "an average" if class_name == AVERAGE else f"a {type_.__qualname__}"
            raise ParameterError(
                f"element {types.index(type_)} is {element}, not a FunctionEvent; averages have no "
                "single events: load the profile, or its .events()"
            )
    settings = function_events.EventListSettings(
        _header({}),
        use_device=getattr(source, "_use_device", None),
        profile_memory=getattr(source, "_profile_memory", None),
        with_flops=getattr(source, "_with_flops", None),
        has_cycles=class_of(type(source)) == EVENTS,
    )
    return function_events.read(events, settings)


def _header(
    flags: Mapping[str, int],
    metadata: Mapping[str, object] | None = None,
    distributed: object = None,
) -> Header:
    """The header: as recorded, else what this process knows about its job and devices."""
    recorded = distributed_job(distributed)
    rank, world_size, backend = recorded if recorded[0] is not None else _job()
    devices = _devices()
    return Header(
        format=FORMAT,
        clock="utc",
        rank=rank,
        world_size=world_size,
        backend=backend,
        device_properties=json.dumps(devices) if devices else None,
        profiler_flags=json.dumps(flags) if flags else None,
        metadata=exact.dumps(metadata) if metadata else None,
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
    """Properties of the devices; CUDA is not initialised for this."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    devices = []
    for index in range(cuda.device_count()):
        properties = cuda.get_device_properties(index)
        values = {
            name: getattr(properties, attribute, None) for name, attribute in _DEVICES.items()
        }
        devices.append({"id": index} | {name: v for name, v in values.items() if v is not None})
    return devices


def _parsed_metadata(text: object) -> object:
    """Metadata values are JSON text; `add_metadata` puts text between quotes as it is."""
    if not isinstance(text, str):
        return str(text)
    try:
        return exact.loads(text)
    except (ValueError, RecursionError):
        is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
        return text[1:-1].replace('\\"', '"') if is_quoted else text
