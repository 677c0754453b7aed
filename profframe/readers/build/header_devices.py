"""The devices of a trace, from its header."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard

import pyarrow as pa

from profframe import schema

UNNAMED: Final = "PRIVATEUSEONE"
"""What torch calls these devices until someone gives them a name."""
_OF_TORCH: Final = ("cuda", "xpu", "mtia", "hpu")
"""Devices that torch has names for, as arguments of its profiler."""


def private_device() -> str:
    """The name of such devices in this process, in capitals; torch is not imported for this.

    Examples
    --------
    >>> private_device()
    'PRIVATEUSEONE'
    """
    core = getattr(sys.modules.get("torch"), "_C", None)
    name_of = getattr(core, "_get_privateuse1_backend_name", None)
    name = name_of() if name_of is not None else None
    return name.upper() if isinstance(name, str) and name else UNNAMED


def is_private(use_device: str | None) -> bool:
    """Whether the argument of a profiler names a device that torch does not know."""
    return use_device is not None and use_device not in _OF_TORCH


def live_device_type(by_events: str | None, use_device: str | None) -> str | None:
    """Type of the devices of a live profile, from its events and its profiler's arguments.

    Examples
    --------
    >>> live_device_type("CUDA", "npu"), live_device_type(None, "cuda")
    ('NPU', None)
    """
    if use_device is not None and (by_events or is_private(use_device)):
        return use_device.upper()
    return private_device() if by_events == UNNAMED else by_events


_BANDWIDTHS: Final = {"memoryBandwidth": 1.0, "globalMemoryBandwidth": 1000.0}
"""Fields of memory bandwidth in databases, and their units in bytes per second."""
_COLUMNS: Final = pa.schema(
    [schema.DEVICES.arrow.field(name) for name in schema.READER_COLUMNS["devices"]]
)
_ALIKE: Final = ("name", "multiprocessors", "compute_capability")
"""Columns that are equal for devices of one model, whose memory differs slightly."""


def devices(properties: str | None, used: Iterable[int]) -> pa.Table:
    """Devices that the header names, and those that slices ran on.

    ROCm also numbers the host's processors, so a slice may have run on a device that the header
    does not name. It is assumed to be like the others if they are all alike.

    Parameters
    ----------
    properties
        JSON text of a list of objects with Kineto's names; anything else is ignored.
    used
        Devices that slices ran on.

    Returns
    -------
    pyarrow.Table
        The columns of `devices` that a reader fills, by device.

    Examples
    --------
    >>> devices('[{"id": 0, "name": "Tesla T4"}]', [2]).select(["device", "name"]).to_pylist()
    [{'device': 0, 'name': 'Tesla T4'}, {'device': 2, 'name': 'Tesla T4'}]
    """
    rows: dict[int, dict[str, object]] = {}
    for index, device in enumerate(_objects(properties)):
        number = device.get("id", index)
        if _is_index(number):
            rows.setdefault(number, _row(device))
    kinds = {tuple(row[key] for key in _ALIKE) for row in rows.values()}
    template = next(iter(rows.values())) if len(kinds) == 1 else {}
    for number in used:
        rows.setdefault(number, template)
    records = [{"device": number} | rows[number] for number in sorted(rows)]
    return pa.Table.from_pylist(records, _COLUMNS)


def _objects(properties: str | None) -> list[dict[str, object]]:
    try:
        items = json.loads(properties or "[]")
    except (ValueError, RecursionError):
        return []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _row(device: Mapping[str, object]) -> dict[str, object]:
    name, units = device.get("name"), device.get("numSms")
    version = [device.get("computeMajor"), device.get("computeMinor")]
    return {
        "name": name if isinstance(name, str) and name else None,
        "memory_bytes": _size(device.get("totalGlobalMem")),
        "multiprocessors": units if _is_index(units) else None,
        "compute_capability": ".".join(map(str, version)) if all(map(_is_index, version)) else None,
        "cache_bytes": _size(device.get("l2CacheSize")),
        "bandwidth_bytes_per_s": _bandwidth(device),
    }


def _bandwidth(device: Mapping[str, object]) -> float | None:
    rates = [(device.get(key), unit) for key, unit in _BANDWIDTHS.items()]
    return next((size * unit for rate, unit in rates if (size := _size(rate))), None)


def _size(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 63 else None


def _is_index(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 31
