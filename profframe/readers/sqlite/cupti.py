"""What nvprof and Nsight Systems share: slices out of columns, and CUPTI's enumerations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.assembly import LONGEST_NS
from profframe.readers.build.rows import Batch, Quality, Table, conform
from profframe.readers.sqlite.database import Database
from profframe.readers.sqlite.demangle import demangled
from profframe.schema import INT64, TEXT

_LONGEST: Final = pa.scalar(LONGEST_NS, INT64)
_SHORTEST: Final = pa.scalar(-LONGEST_NS, INT64)
_UNKNOWN: Final = pa.scalar(None, INT64)
UTC_NS: Final = 1_200_000_000_000_000_000
"""A time from here on, in nanoseconds, is since the epoch (it is the year 2008)."""

RUNTIME_CALLS: Final = MappingProxyType(
    {
        10: "cudaGetLastError",
        11: "cudaPeekAtLastError",
        13: "cudaLaunch",
        15: "cudaFuncGetAttributes",
        16: "cudaSetDevice",
        17: "cudaGetDevice",
        20: "cudaMalloc",
        21: "cudaMallocPitch",
        22: "cudaFree",
        25: "cudaMallocHost",
        26: "cudaFreeHost",
        27: "cudaHostAlloc",
        30: "cudaMemGetInfo",
        31: "cudaMemcpy",
        32: "cudaMemcpy2D",
        39: "cudaMemcpyToSymbol",
        41: "cudaMemcpyAsync",
        44: "cudaMemcpy2DAsync",
        47: "cudaMemcpyToSymbolAsync",
        49: "cudaMemset",
        51: "cudaMemsetAsync",
        129: "cudaStreamCreate",
        130: "cudaStreamDestroy",
        131: "cudaStreamSynchronize",
        132: "cudaStreamQuery",
        133: "cudaEventCreate",
        134: "cudaEventCreateWithFlags",
        135: "cudaEventRecord",
        136: "cudaEventDestroy",
        137: "cudaEventSynchronize",
        138: "cudaEventQuery",
        139: "cudaEventElapsedTime",
        147: "cudaStreamWaitEvent",
        151: "cudaPointerGetAttributes",
        152: "cudaHostRegister",
        153: "cudaHostUnregister",
        154: "cudaDeviceCanAccessPeer",
        155: "cudaDeviceEnablePeerAccess",
        160: "cudaMemcpyPeer",
        161: "cudaMemcpyPeerAsync",
        164: "cudaDeviceReset",
        165: "cudaDeviceSynchronize",
        171: "cudaProfilerStart",
        172: "cudaProfilerStop",
        197: "cudaStreamAddCallback",
        198: "cudaStreamCreateWithFlags",
        200: "cudaDeviceGetAttribute",
        201: "cudaStreamDestroy",
        202: "cudaStreamCreateWithPriority",
        205: "cudaDeviceGetStreamPriorityRange",
        206: "cudaMallocManaged",
        210: "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        211: "cudaLaunchKernel",
        213: "cudaLaunch_ptsz",
        214: "cudaLaunchKernel_ptsz",
        225: "cudaMemcpyAsync_ptsz",
        235: "cudaMemsetAsync_ptsz",
        239: "cudaStreamSynchronize_ptsz",
        242: "cudaEventRecord_ptsz",
        247: "cudaStreamWaitEvent_ptsz",
        251: "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        252: "cudaMemPrefetchAsync",
        254: "cudaMemAdvise",
        269: "cudaLaunchCooperativeKernel",
        272: "cudaLaunchCooperativeKernelMultiDevice",
        273: "cudaFuncSetAttribute",
        284: "cudaLaunchHostFunc",
        310: "cudaGraphInstantiate",
        311: "cudaGraphLaunch",
        312: "cudaGraphLaunch_ptsz",
    }
)
DRIVER_CALLS: Final = MappingProxyType({307: "cuLaunchKernel"})
"""Calls of CUDA by their number: those that launch, copy, wait, or are many."""

_COPY_KINDS: Final = (
    None, "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "HtoD unified", "DtoH unified", "DtoD unified",
)  # fmt: skip
_MEMORY_KINDS: Final = (
    "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static",
    "Managed Static",
)  # fmt: skip
_SYNCS: Final = ("Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")


def copy_name(kind: int, source: int, target: int) -> str:
    """Name of a copy, as Kineto has it.

    Examples
    --------
    >>> copy_name(1, 1, 3)
    'Memcpy HtoD (Pageable -> Device)'
    """
    what = _at(_COPY_KINDS, kind) or "unknown"
    ends = f"{_at(_MEMORY_KINDS, source) or 'Unknown'} -> {_at(_MEMORY_KINDS, target) or 'Unknown'}"
    return f"Memcpy {what} ({ends})"


def set_name(kind: int) -> str:
    """Name of a memset, as Kineto has it."""
    return f"Memset ({_at(_MEMORY_KINDS, kind) or 'Unknown'})"


def sync_name(kind: int) -> str:
    """Name of a synchronisation, as Kineto has it."""
    return _at(_SYNCS, kind) or _SYNCS[0]


def _at(texts: tuple[str | None, ...], number: int) -> str | None:
    return texts[number] if 0 <= number < len(texts) else None


def named(name: Callable[..., str | None], *codes: pa.Array) -> pa.Array:
    """A text for each row, made once for each distinct combination of small numbers.

    A number that is NULL is -1 for the function.
    """
    distinct = [pc.fill_null(code, -1).dictionary_encode() for code in codes]
    combined = np.zeros(len(codes[0]), np.int64)
    for code in distinct:
        combined = combined * max(1, len(code.dictionary)) + code.indices.to_numpy()
    combination = pa.array(combined).dictionary_encode()
    texts: list[str | None] = []
    for number in combination.dictionary.to_pylist():
        parts: list[int] = []
        rest = number
        for code in reversed(distinct):
            rest, place = divmod(rest, max(1, len(code.dictionary)))
            parts.append(code.dictionary[place].as_py())
        texts.append(name(*reversed(parts)))
    return pa.array(texts, TEXT).take(combination.indices)


def constant(value: object, count: int, type_: pa.DataType = TEXT) -> pa.Array:
    """The same value for every row."""
    return pa.repeat(pa.scalar(value, type_), count)


def slices(start: pa.Array, end: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Rows of events: between two times in nanoseconds, and their other columns."""
    count = len(start)
    no = constant(value=False, count=count, type_=pa.bool_())
    beyond = no if _is_sound(start) and _is_sound(end) else pc.or_(_beyond(start), _beyond(end))
    return conform(
        Table.EVENTS,
        {
            "phase": constant("X", count),
            "start_ns": start,
            "dur_ns": pc.if_else(beyond, _UNKNOWN, pc.subtract(end, start)),
            "bad_dur": beyond,
            "bad_time": no,
            "rounded": no,
            **columns,
        },
    )


def _is_sound(times: pa.Array) -> bool:
    """Whether the difference of any two is a number of 64 bits."""
    bounds = pc.min_max(times).as_py()
    return all(bound is None or abs(bound) < LONGEST_NS for bound in bounds.values())


def _beyond(times: pa.Array) -> pa.Array:
    sound = pc.and_(pc.less(times, _LONGEST), pc.greater(times, _SHORTEST))
    return pc.fill_null(pc.invert(sound), fill_value=False)


def marks(time: pa.Array, phase: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Rows of instants: a time in nanoseconds, and their other columns."""
    count = len(time)
    no = constant(value=False, count=count, type_=pa.bool_())
    return conform(
        Table.INSTANTS,
        {
            "phase": constant(phase, count),
            "time_ns": time,
            "bad_time": no,
            "rounded": no,
            **columns,
        },
    )


def filtered(columns: Mapping[str, pa.Array], mask: pa.Array) -> dict[str, pa.Array]:
    """Some rows of every column."""
    return {name: array.filter(mask) for name, array in columns.items()}


def lookup(ids: pa.Array, known: Mapping[str, pa.Array]) -> pa.Array:
    """Text of each id, by columns ``id`` and ``text``; NULL where it has none."""
    encoded = ids.dictionary_encode()
    place = pc.index_in(encoded.dictionary, value_set=known["id"])
    return known["text"].take(place).take(encoded.indices)


def readable(names: pa.Array) -> pa.Array:
    """Names of kernels, without C++'s mangling."""
    encoded = names.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    plain = demangled(texts)
    if not plain:
        return names
    return pa.array([plain.get(text, text) for text in texts], TEXT).take(encoded.indices)


def has_devices(batches: Iterable[Batch]) -> bool:
    """Whether a slice ran on a device."""
    columns = (batch[Table.EVENTS]["device"] for batch in batches if Table.EVENTS in batch)
    return any(column.null_count < len(column) for column in columns)


def device_lines(device: pa.Array, stream: pa.Array) -> pa.Array:
    """What the line of a stream is called."""
    return named(
        lambda d, s: (f"device {d}" if d >= 0 else "device") + (f" stream {s}" if s >= 0 else ""),
        device,
        stream,
    )


def note_leftovers(
    database: Database, quality: Quality, loaded: set[str], described: Callable[[str], bool]
) -> dict[str, int]:
    """What is in no row: tables that only describe, as ``metadata``, and each other one by name."""
    accounted: dict[str, int] = {}
    for name, table in database.tables.items():
        if name in loaded or not table.rows:
            continue
        key = "metadata" if described(name) else name
        accounted[key] = accounted.get(key, 0) + table.rows
    left = {name: count for name, count in accounted.items() if name != "metadata"}
    if left:
        detail = ", ".join(f"{name} {count:,}" for name, count in sorted(left.items()))
        quality.note("rows_not_loaded", sum(left.values()), detail)
    for check, count in database.odd.items():
        quality.note(check, count)
    return accounted
