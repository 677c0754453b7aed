"""Read lists of torch's own events: the result of its `events()`, or lists made by hand.

Their times are in microseconds since the profiler started. Thread numbers are torch's own, and the
system's where Kineto recorded the event.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.errors import ParameterError
from profframe.readers.build.assembly import assemble
from profframe.readers.build.header_devices import UNNAMED, is_private, live_device_type
from profframe.readers.build.row_tables import Header, Quality, RawTrace, RowTable, conform, gather
from profframe.readers.chrome.device_args import with_device_args, with_launches
from profframe.readers.chrome.session import Session
from profframe.readers.torch.flows import FORWARD, flow_rows
from profframe.readers.torch.getters import (
    UNDECODABLE,
    Fields,
    Flags,
    Ints,
    as_texts,
    read_fields,
)
from profframe.readers.torch.kernels import kernel_columns

_FIELDS: Final[Mapping[str, npt.DTypeLike]] = {
    **dict.fromkeys(("name", "thread", "fwd_thread", "device_type.name"), object),
    **dict.fromkeys(("kernels", "flops", "input_shapes", "stack"), object),
    **dict.fromkeys(("time_range.start", "time_range.end"), np.float64),
    **dict.fromkeys(("id", "scope", "sequence_nr", "node_id"), np.int64),
    **dict.fromkeys(("cpu_memory_usage", "device_memory_usage"), np.int64),
    **dict.fromkeys(("is_async", "is_remote", "is_legacy"), np.bool_),
}
_OPTIONAL: Final[Mapping[str, object]] = {
    **dict.fromkeys(("overload_name", "trace_name", "activity_type")),
    **dict.fromkeys(("metadata", "_metadata_json")),
    **dict.fromkeys(("device_index", "external_id", "linked_correlation_id", "flow_id"), 0),
    **dict.fromkeys(("flow_type", "device_resource_id", "concrete_inputs", "input_dtypes")),
    **dict.fromkeys(("structured_input_shapes", "structured_input_strides")),
    **dict.fromkeys(("is_user_annotation", "is_python_function", "flow_start"), False),
    **dict.fromkeys(("python_id", "python_parent_id", "python_module_id"), -1),
}
"""Attributes that not every release has, and their defaults."""

_DEVICE_MEMORY: Final = "device_memory_usage"
_MEMORY: Final = "[memory]"
_RECORDS: Final = (_MEMORY, "[OutOfMemory]")
"""Names that torch gives only to records outside all slices."""
_HOST: Final = "CPU"
_OPERATIONS: Final = ("cpu_op", "user_annotation")
_BEYOND: Final = np.iinfo(np.int64).max
_LAUNCHES: Final = r"\A\w+_(?:runtime|driver)\z"
_ON_DEVICE: Final = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
_CALL: Final = re.compile(r"(?:cuda|hip)[A-Z]\w*|(cu[A-Z]\w*)", re.ASCII)
"""Names of calls that launch device work, in releases that do not mark them."""
_MEMORY_TYPES: Final = {"cuda": "CUDA", "xpu": "XPU", "hip": "HIP"}
_PRIVATE: Final = "PrivateUse1"
_SHORT: Final = 1e10
"""Whole numbers below this are printed without decimals."""
_PYTHON_IDS: Final = ("python_id", "python_parent_id", "python_module_id")


@dataclass(frozen=True, slots=True)
class EventListSettings:
    """Settings of an ``EventList``; None for a plain list.

    ``has_cycles`` if it may have several cycles, each in order.
    """

    header: Header
    use_device: str | None = None
    profile_memory: bool | None = None
    with_flops: bool | None = None
    has_cycles: bool = False


def read(events: Sequence[Any], settings: EventListSettings) -> RawTrace:
    """Read a list of ``FunctionEvent``.

    Parameters
    ----------
    events
        In any order.
    settings
        What their list says besides the events.

    Raises
    ------
    ParameterError
        A field of an event has another type than torch's own.
    """
    quality = Quality()
    fields = _event_fields(events)
    start, end = fields.pop("time_range.start"), fields.pop("time_range.end")
    fields["start"], fields["bad_start"] = _nanoseconds(start)
    fields["end"], fields["bad_end"] = _nanoseconds(end)
    elapsed, bad_elapsed = _nanoseconds(end - start)
    fields["elapsed_ns"] = np.where(bad_elapsed, -1, elapsed)
    fields["on_host"] = _mask(fields, "device_type.name", lambda text: text == _HOST)
    if settings.has_cycles:
        _put_cycles_apart(fields, quality)
    is_record = _mask(fields, "name", lambda text: text in _RECORDS) & fields["on_host"]
    is_memory = is_record & _mask(fields, "name", lambda text: text == _MEMORY)
    slices = _filtered(fields, ~is_record)
    batch: dict[RowTable, pa.Table] = {}
    if slices["name"]:
        columns = _event_columns(slices, settings, quality)
        batch[RowTable.EVENTS] = conform(RowTable.EVENTS, columns)
        batch[RowTable.FLOWS] = _flows(slices)
    if is_memory.any():
        records = _filtered(fields, is_memory)
        batch[RowTable.MEMORY] = conform(RowTable.MEMORY, _memory_columns(records, settings))
    if (is_record & ~is_memory).any():
        marks = _filtered(fields, is_record & ~is_memory)
        batch[RowTable.INSTANTS] = conform(RowTable.INSTANTS, _instant_columns(marks))
    device_type = _device_type(events, fields, settings)
    header = replace(settings.header, clock="relative", device_type=device_type)
    session = Session()
    rows = gather([with_launches(with_device_args(batch, session), session)])
    return assemble(rows, header, quality, 0)


def _device_type(events: Sequence[Any], fields: Fields, settings: EventListSettings) -> str | None:
    """Type of the devices: as the list names them, else its events, else torch.

    A list without device slices may still have ops that allocated device memory: then the first
    event says the type.
    """
    types = dict.fromkeys(t for t in fields["device_type.name"] if t != _HOST)
    type_ = next(iter(types), None)
    by_events = UNNAMED if type_ == _PRIVATE else type_ and type_.upper()
    use_device = settings.use_device
    if use_device is None and events:
        use_device = getattr(events[0], "use_device", None)
    if by_events is None and events and any(fields[_DEVICE_MEMORY]):
        own = getattr(events[0], "use_device", None)
        by_events = own and own.upper()
    return live_device_type(
        by_events, use_device if type_ == _PRIVATE or is_private(use_device) else None
    )


def _event_fields(events: Sequence[Any]) -> Fields:
    """All attributes; defaults for those that the release lacks."""
    missing = {n: v for n, v in _OPTIONAL.items() if events and not hasattr(events[0], n)}
    types = {**_FIELDS, **{n: object for n in _OPTIONAL if n not in missing}}
    is_old = bool(events) and not hasattr(events[0], _DEVICE_MEMORY)
    try:
        fields = read_fields(
            events,
            types,
            lambda _, name: _old_memory if is_old and name == _DEVICE_MEMORY else attrgetter(name),
        )
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise ParameterError(
            f"a FunctionEvent has a value that torch's own never have: {error}"
        ) from error
    del fields[UNDECODABLE]
    return fields | {name: [value] * len(events) for name, value in missing.items()}


def _old_memory(event: Any) -> int:
    """Device bytes in releases before 2.4, which have a field for each device type."""
    return int(event.cuda_memory_usage) + int(getattr(event, "privateuse1_memory_usage", 0))


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> tuple[Ints, Flags]:
    """Whole nanoseconds, and which times were invalid."""
    bad = ~(np.abs(microseconds) < 2.0**62 / 1000)
    return np.rint(np.where(bad, 0, microseconds) * 1000).astype(np.int64), bad


def _put_cycles_apart(fields: Fields, quality: Quality) -> None:
    """Put the cycles of one list (`acc_events`), which has the newest first, in the order of time.

    The times of each cycle begin at its own start, so the cycles overlap. Ids continue from cycle
    to cycle: a cycle ends where all ids so far are greater than all that follow, at the place where
    times step back, or else at the next op. A list in which times also step back elsewhere, or in
    which the times of no two cycles overlap or continue, was sorted by the user: it stays as it is.
    """
    start, end = fields["start"], fields["end"]
    ids = np.where(
        _mask(fields, "activity_type", lambda text: text in _OPERATIONS), fields["id"], 0
    )
    lowest = np.minimum.accumulate(np.where(ids > 0, ids, _BEYOND))
    highest = np.maximum.accumulate(ids[::-1])[::-1]
    is_newer = (lowest[:-1] > highest[1:]) & (highest[1:] > 0)
    cuts = np.flatnonzero(start[1:] < start[:-1]) + 1
    if not np.all(is_newer[cuts - 1]):
        return
    # All places between the ids of two cycles have the same next op.
    behind = np.flatnonzero(is_newer & (lowest[:-1] < _BEYOND) & (ids[1:] > 0)) + 1
    place = np.searchsorted(behind, cuts)
    onward = np.delete(behind, place[place < behind.size])
    first_start, last_start = np.minimum.accumulate(start), np.maximum.accumulate(start[::-1])[::-1]
    if not onward.size and not np.any(first_start[cuts - 1] < last_start[cuts]):
        return
    cuts = np.union1d(cuts, onward)
    bounds = [0, *cuts.tolist(), start.size]
    offset = 0
    for first, stop in reversed(list(itertools.pairwise(bounds))):
        start[first:stop] += offset
        end[first:stop] += offset
        offset = max(offset, int(np.max(end[first:stop])))
    quality.note("several_cycles", int(bounds[-2]), f"{len(bounds) - 1} cycles")


def _mask(fields: Fields, name: str, test: Callable[[Any], bool]) -> Flags:
    """Rows whose value passes a test; each distinct value is tested once."""
    values = fields[name]
    passes = {value: test(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(passes.__getitem__, values), np.bool_, len(values))


def _filtered(fields: Fields, mask: Flags) -> Fields:
    rows = np.flatnonzero(mask).tolist()
    return {
        name: list(map(values.__getitem__, rows)) if isinstance(values, list) else values[mask]
        for name, values in fields.items()
    }


def _event_columns(
    fields: Fields, settings: EventListSettings, quality: Quality
) -> dict[str, pa.Array]:
    """Columns of slices, by the rules for trace files."""
    category = _categories(fields)
    is_operation = _is(pc.is_in(category, pa.array(_OPERATIONS)))
    by_correlation = ~fields["on_host"] | _is(pc.match_substring_regex(category, _LAUNCHES))
    number, sequence = fields["id"], fields["sequence_nr"]
    external = np.where(is_operation, number, _ints(fields["linked_correlation_id"]))
    bad_end = fields["bad_start"] | fields["bad_end"]
    columns = _line_columns(fields) | {
        "phase": pa.array(["X"] * number.size),
        "category": category,
        "name": pc.coalesce(_texts(fields["trace_name"]), _texts(fields["name"])),
        "start_ns": pa.array(fields["start"], mask=fields["bad_start"]),
        "dur_ns": pa.array(fields["end"] - fields["start"], mask=bad_end),
        "bad_time": pa.array(fields["bad_start"]),
        "bad_dur": pa.array(bad_end),
        "correlation": pa.array(number, mask=~by_correlation),
        "external_id": pa.array(external, mask=external <= 0),
        "sequence_nr": pa.array(sequence, mask=sequence < 0),
        "fwd_thread": pc.if_else(pa.array(sequence >= 0), _int64s(fields["fwd_thread"]), None),
        "scope": pa.array(fields["scope"].astype(np.int32), mask=~is_operation),
        "overload_name": _texts([text or None for text in fields["overload_name"]]),
        "node_id": pa.array(fields["node_id"], mask=fields["node_id"] < 0),
        "input_dims": _lists(_first_of(fields["structured_input_shapes"], fields["input_shapes"])),
        "input_strides": _lists(fields["structured_input_strides"]),
        "input_types": _lists(fields["input_dtypes"]),
        "concrete_inputs": _lists(fields["concrete_inputs"], _printed),
        "stack": _texts([";".join(frames) if frames else None for frames in fields["stack"]]),
        "args": _arguments(fields, quality),
    }
    columns |= {name: pa.array(fields[name]) for name in ("is_async", "is_remote", "is_legacy")}
    for name in _PYTHON_IDS:
        ids = _ints(fields[name])
        columns[name] = pa.array(ids, mask=ids < 0)
    columns |= kernel_columns(fields, is_operation, quality)
    return columns | _torch_columns(fields, settings)


def _is(flags: pa.Array) -> Flags:
    mask: Flags = pc.fill_null(flags, fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _texts(texts: Sequence[str | None]) -> pa.Array:
    return pa.array(texts, pa.string())


def _int64s(values: Sequence[int | None]) -> pa.Array:
    """Integers; torch's number of an unknown thread is beyond int64."""
    return pa.array([v if v is None or abs(v) < 1 << 63 else None for v in values], pa.int64())


def _ints(values: Sequence[int | None]) -> Ints:
    return np.array([value or 0 for value in values], np.int64)


def _categories(fields: Fields) -> pa.Array:
    """Kineto's categories, or those that it uses for such events."""
    kinds = zip(
        fields["on_host"].tolist(),
        fields["is_user_annotation"],
        fields["is_python_function"],
        fields["name"],
        strict=True,
    )
    defaults = [_category(*kind) for kind in kinds]
    return pc.coalesce(_texts(fields["activity_type"]), _texts(defaults))


def _arguments(fields: Fields, quality: Quality) -> pa.Array:
    """Kineto's arguments as torch keeps them: typed values since 2.14, text before."""
    given = [f"{{{text}}}" if text else None for text in fields["_metadata_json"]]
    if not any(fields["metadata"]):
        return _texts(given)
    keys = list(map(repr, fields["metadata"]))
    finite = {k: _json(v) for k, v in dict(zip(keys, fields["metadata"], strict=True)).items() if v}
    strange = [row for row, key in enumerate(keys) if key in finite and not finite[key][1]]
    if strange:
        quality.note("non_finite_number", len(strange), "in a FunctionEvent's metadata", strange[0])
    return _texts(
        [finite[key][0] if key in finite else text for key, text in zip(keys, given, strict=True)]
    )


def _json(values: object) -> tuple[str, bool]:
    """A value as JSON text, and whether all of its numbers are finite; others become null."""
    try:
        return json.dumps(values, default=str, allow_nan=False), True
    except ValueError:
        return json.dumps(_finite(values), default=str), False


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if np.isfinite(value) else None
        case dict():
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value


def _category(on_host: bool, is_annotation: bool | None, is_python: bool, name: str | None) -> str:
    if not on_host:
        return (
            "gpu_user_annotation" if is_annotation else _ON_DEVICE.get((name or "")[:6], "kernel")
        )
    if is_python:
        return "python_function"
    if is_annotation:
        return "user_annotation"
    call = _CALL.fullmatch(name or "")
    return "cpu_op" if call is None else "cuda_driver" if call[1] else "cuda_runtime"


def _line_columns(fields: Fields) -> dict[str, pa.Array]:
    """Process and thread, device and stream.

    Numbers are the system's if Kineto recorded the event, else torch's. Threads of another node are
    named as in torch's export.
    """
    system = [
        resource if activity is not None and resource is not None else thread
        for activity, resource, thread in zip(
            fields["activity_type"], fields["device_resource_id"], fields["thread"], strict=True
        )
    ]
    node = fields["node_id"].tolist()
    tid = [
        str(number) if n < 0 else f"node_id:{n}, thread_id:{thread}"
        for number, n, thread in zip(system, node, fields["thread"], strict=True)
    ]
    on_host = fields["on_host"]
    return {
        "pid": as_texts(_ints(fields["device_index"])),
        "tid": _texts(tid),
        "device": pa.array(_ints(fields["device_index"]), mask=on_host),
        "stream": pc.if_else(pa.array(on_host), None, _int64s(system)),
    }


def _first_of(values: Sequence[Any], fallbacks: Sequence[Any]) -> list[Any]:
    return [value or fallback for value, fallback in zip(values, fallbacks, strict=True)]


def _lists(values: Sequence[Any], convert: Callable[[Any], Any] = lambda value: value) -> pa.Array:
    """JSON text without spaces, encoded once per distinct value; null for no inputs."""
    keys = list(map(str, values))
    texts = {
        text: json.dumps(convert(value), separators=(",", ":"), default=str) if value else None
        for text, value in dict(zip(keys, values, strict=True)).items()
    }
    return _texts(list(map(texts.__getitem__, keys)))


def _printed(values: Sequence[Any]) -> list[str]:
    """Values of inputs as Kineto writes them: as text, and empty for a tensor."""
    return ["" if value is None else _ivalue(value) for value in values]


def _ivalue(value: Any) -> str:
    """A value as torch's C++ prints it."""
    if isinstance(value, float):
        is_whole = abs(value) < _SHORT and value == int(value)
        return f"{int(value)}." if is_whole else f"{value:.17g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_ivalue, value))}]"
    return str(value)


def _torch_columns(fields: Fields, settings: EventListSettings) -> dict[str, pa.Array]:
    """Memory and flops, which torch has already added up."""
    columns: dict[str, pa.Array] = {}
    on_host = fields["on_host"]
    host, device = fields["cpu_memory_usage"], fields["device_memory_usage"]
    if settings.profile_memory or host.any() or device.any():
        columns["cpu_bytes"] = pa.array(host, mask=~on_host)
        columns["device_bytes"] = pa.array(device, mask=~on_host)
    if settings.with_flops or any(fields["flops"]):
        columns["torch_flops"] = _int64s(fields["flops"])
    return columns


def _flows(fields: Fields) -> pa.Table:
    """Both ends of each flow, at the slices that it connects."""
    ends = _filtered(fields, _ints(fields["flow_id"]) > 0)
    flow_id = pa.array(ends["flow_id"], pa.int64()).cast(pa.string())
    is_forward = np.array([type_ == FORWARD for type_ in ends["flow_type"]], np.bool_)
    is_end = np.array([not start for start in ends["flow_start"]], np.bool_)
    return flow_rows(_mark_columns(ends) | {"flow_id": flow_id}, is_forward, is_end)


def _mark_columns(fields: Fields) -> dict[str, pa.Array]:
    """Time and thread of what has no duration."""
    lines = _line_columns(fields)
    return {
        "time_ns": pa.array(fields["start"], mask=fields["bad_start"]),
        "pid": lines["pid"],
        "tid": lines["tid"],
        "bad_time": pa.array(fields["bad_start"]),
    }


def _memory_columns(fields: Fields, settings: EventListSettings) -> dict[str, pa.Array]:
    """A record belongs to a device if it has bytes there."""
    on_device = fields["device_memory_usage"] != 0
    size = np.where(on_device, fields["device_memory_usage"], fields["cpu_memory_usage"])
    type_ = _MEMORY_TYPES.get(settings.use_device or "cuda", UNNAMED)
    return _mark_columns(fields) | {
        "bytes": pa.array(size),
        "device_type": pa.array([_HOST, type_]).take(pa.array(on_device.astype(np.int8))),
    }


def _instant_columns(fields: Fields) -> dict[str, pa.Array]:
    count = fields["id"].size
    return _mark_columns(fields) | {
        "phase": pa.array(["i"] * count),
        "scope": pa.array(["t"] * count),
        "category": pa.array(["cpu_instant_event"] * count),
        "name": _texts(fields["name"]),
    }
