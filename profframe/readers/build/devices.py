"""The devices of a trace, out of what its header says of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard

import pyarrow as pa

from profframe import schema

_BANDWIDTHS: Final = {"memoryBandwidth": 1.0, "globalMemoryBandwidth": 1000.0}
"""Rates of the memory, as databases have them, and their unit in bytes per second."""
_ALIKE: Final = ("name", "multiprocessors", "compute_capability")
"""What devices of one kind have in common; their memory differs by a little."""


def devices(properties: str | None, used: Iterable[int]) -> pa.Table:
    """Devices that the header names, and those that slices ran on.

    ROCm numbers the devices of slices with the host's processors among them, so that a slice may
    have run on a device that the header does not name. It is taken for one like those that it does,
    if they are all alike.

    Parameters
    ----------
    properties
        JSON text of a list of objects by Kineto's names; what is of another form says nothing.
    used
        Devices that slices ran on.

    Returns
    -------
    pyarrow.Table
        The columns of `devices` that a reader gives, by device.

    Examples
    --------
    >>> devices('[{"id": 0, "name": "Tesla T4"}]', [2]).select(["device", "name"]).to_pylist()
    [{'device': 0, 'name': 'Tesla T4'}, {'device': 2, 'name': 'Tesla T4'}]
    """
    rows: dict[int, dict[str, object]] = {}
    for place, said in enumerate(_objects(properties)):
        number = said.get("id", place)
        if _is_index(number):
            rows.setdefault(number, _row(said))
    kinds = {tuple(row[key] for key in _ALIKE) for row in rows.values()}
    like = next(iter(rows.values())) if len(kinds) == 1 else {}
    for number in used:
        rows.setdefault(number, like)
    names = schema.READER_COLUMNS["devices"]
    fields = [schema.DEVICES.arrow.field(name) for name in names]
    listed = [{"device": number} | rows[number] for number in sorted(rows)]
    return pa.Table.from_pylist(listed, pa.schema(fields))


def _objects(properties: str | None) -> list[dict[str, object]]:
    try:
        listed = json.loads(properties or "[]")
    except (ValueError, RecursionError):
        return []
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _row(said: Mapping[str, object]) -> dict[str, object]:
    name, units = said.get("name"), said.get("numSms")
    version = [said.get("computeMajor"), said.get("computeMinor")]
    return {
        "name": name if isinstance(name, str) and name else None,
        "memory_bytes": _size(said.get("totalGlobalMem")),
        "multiprocessors": units if _is_index(units) else None,
        "compute_capability": ".".join(map(str, version)) if all(map(_is_index, version)) else None,
        "cache_bytes": _size(said.get("l2CacheSize")),
        "bandwidth_bytes_per_s": _bandwidth(said),
    }


def _bandwidth(said: Mapping[str, object]) -> float | None:
    rates = [(said.get(key), unit) for key, unit in _BANDWIDTHS.items()]
    return next((size * unit for rate, unit in rates if (size := _size(rate))), None)


def _size(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 63 else None


def _is_index(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 31
