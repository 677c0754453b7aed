"""CUPTI's enumerations, and Kineto's names for them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.schema import TEXT

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
"""CUDA calls by number: those that launch, copy or wait, and frequent ones."""

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
    """Kineto's name of a copy.

    Examples
    --------
    >>> copy_name(1, 1, 3)
    'Memcpy HtoD (Pageable -> Device)'
    """
    direction = _at(_COPY_KINDS, kind) or "unknown"
    ends = f"{_at(_MEMORY_KINDS, source) or 'Unknown'} -> {_at(_MEMORY_KINDS, target) or 'Unknown'}"
    return f"Memcpy {direction} ({ends})"


def set_name(kind: int) -> str:
    """Kineto's name of a memset."""
    return f"Memset ({_at(_MEMORY_KINDS, kind) or 'Unknown'})"


def sync_name(kind: int) -> str:
    """Kineto's name of a synchronisation."""
    return _at(_SYNCS, kind) or _SYNCS[0]


def _at(texts: tuple[str | None, ...], number: int) -> str | None:
    return texts[number] if 0 <= number < len(texts) else None


def names_by_code(name: Callable[..., str | None], *codes: pa.Array) -> pa.Array:
    """Name of each row, computed once for each distinct combination of codes.

    NULL is passed to the function as -1.
    """
    distinct = [pc.fill_null(code, -1).dictionary_encode() for code in codes]
    shape = [max(1, len(code.dictionary)) for code in distinct]
    combined = np.ravel_multi_index([code.indices.to_numpy() for code in distinct], shape)
    combination = pa.array(combined).dictionary_encode()
    places = np.unravel_index(combination.dictionary.to_numpy(), shape)
    parts = [
        code.dictionary.take(pa.array(place)).to_pylist()
        for code, place in zip(distinct, places, strict=True)
    ]
    return pa.array(map(name, *parts), TEXT).take(combination.indices)


def device_lines(device: pa.Array, stream: pa.Array) -> pa.Array:
    """Thread names of streams."""
    return names_by_code(
        lambda d, s: (f"device {d}" if d >= 0 else "device") + (f" stream {s}" if s >= 0 else ""),
        device,
        stream,
    )
