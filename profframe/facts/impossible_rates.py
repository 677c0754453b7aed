"""Kernels that were faster than their device can be, so their rates are doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.facts.arrays import distinct, is_kind, numbers, present, words
from profframe.facts.device_models import PEAKS
from profframe.facts.fact import Note, Output, Tables, any_of, columns, fact
from profframe.intervals import Ints, Mask

_Floats = npt.NDArray[np.float64]
_Peaks = tuple[float, float, float]
"""FLOP and bytes per nanosecond, and the size of the cache; NaN is unknown."""

FASTER: Final = 1.05
"""Share of a peak above which a kernel counts as faster."""
_NO_PEAKS: Final[_Peaks] = (np.nan, np.nan, 0.0)


@fact(
    inputs=columns(
        events="kind dur_ns flops bytes work_dtype device",
        devices=f"device name cache_bytes {' '.join(PEAKS)}",
    ),
    outputs=columns(),
    needs=any_of(kinds=("kernel",)),
)
def limits(tables: Tables) -> Output:
    """Count kernels with known work on unknown devices, and those that exceed a peak.

    The peak is that of their data type (``faster_than_peak``), or of the memory
    (``faster_than_memory``).
    """
    events = tables["events"]
    has_work = present(events, "flops") | present(events, "bytes")
    rows = np.flatnonzero(is_kind(events, ("kernel",)) & present(events, "dur_ns") & has_work)
    if not rows.size:
        return Output()
    peaks, place = _peaks(tables, rows)
    has_peak = np.asarray(~np.isnan(peaks[:2]).all(axis=0))
    if not has_peak.any():
        return Output(notes=tuple(_unknown(tables["devices"], rows)))
    dur, flops, size = (numbers(events, name)[rows] for name in ("dur_ns", "flops", "bytes"))
    flop_peak, byte_peak, cache = peaks[:, place]
    notes = (
        *_unknown(tables["devices"], rows[~has_peak[place]]),
        *_faster("faster_than_peak", rows, flops, flop_peak * dur),
        *_faster("faster_than_memory", rows, size, byte_peak * dur, size <= cache),
    )
    return Output(notes=notes)


def _peaks(tables: Tables, rows: Ints) -> tuple[_Floats, Ints]:
    """Peaks of each device and data type, a line for each peak, and which of them each row has."""
    events = tables["events"]
    dtype, names = words(events, "work_dtype")
    device = numbers(events, "device", missing=-1)[rows]
    pairs, place = distinct(device * (len(names) + 1) + dtype[rows] + 1)
    devices = {row["device"]: row for row in tables["devices"].to_pylist()}
    peaks = [
        _device_peaks(devices.get(number), names[code - 1] if code else None)
        for number, code in (divmod(pair, len(names) + 1) for pair in pairs.tolist())
    ]
    return np.array(peaks, np.float64).T, place


def _device_peaks(device: Mapping[str, Any] | None, dtype: str | None) -> _Peaks:
    if device is None:
        return _NO_PEAKS
    rate = max(device.get(f"{dtype}{units}_flop_per_s") or 0 for units in ("", "_tensor"))
    bandwidth = device["bandwidth_bytes_per_s"]
    return (rate or np.nan) / 1e9, (bandwidth or np.nan) / 1e9, device["cache_bytes"] or 0.0


def _unknown(devices: pa.Table, rows: Ints) -> Iterator[Note]:
    """A note on kernels on devices without peaks."""
    if rows.size:
        rows_of_devices = devices.to_pylist()
        names = {row["name"] for row in rows_of_devices if all(row[rate] is None for rate in PEAKS)}
        shown = ", ".join(sorted(repr(name) for name in names if name)) or "without a name"
        yield "unknown_device", rows.size, f"devices {shown}", int(rows[0])


def _faster(
    check: str, rows: Ints, work: Ints, limit: _Floats, cached: Mask | None = None
) -> Iterator[Note]:
    """A note on kernels that did more work than their peak allows in their time."""
    faster = np.flatnonzero(work > FASTER * limit)
    if not faster.size:
        return
    with np.errstate(divide="ignore"):
        times = work[faster] / limit[faster]
    detail = (
        f"as much as {times.max():.3g} times as fast" if times.max() < np.inf else "some in 0 ns"
    )
    if cached is not None:
        detail += f"; the cache is large enough for the data of {np.count_nonzero(cached[faster])}"
    yield check, faster.size, detail, int(rows[faster[np.argmax(times)]])
