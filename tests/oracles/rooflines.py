"""The roofline by a loop over kernels, in exact fractions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
Key = tuple[Any, ...]
COMPUTING = {
    "gemm", "grouped_gemm", "convolution", "state_space", "other", "attention",
    "attention_prefill", "attention_decode", "attention_backward",
}  # fmt: skip
"""Categories whose operations may be what limits."""


@dataclass
class Line:
    """What one row of the answer adds up."""

    peak: Fraction | None
    bandwidth: Fraction | None
    owners: set[tuple[Any, ...]] = field(default_factory=set)
    kernels: int = 0
    total_ns: int = 0
    flops: list[tuple[int, int]] = field(default_factory=list)
    bytes: list[tuple[int, int]] = field(default_factory=list)
    limits: list[Fraction] = field(default_factory=list)
    unlimited_ns: int = 0
    compute: Fraction | None = Fraction(0)
    memory: Fraction | None = Fraction(0)


def peak_of(device: Row | None, dtype: str | None) -> tuple[str | None, Fraction | None]:
    """Name and rate of the peak: the faster of the two where a type has two."""
    if device is None or dtype is None:
        return dtype, None
    names = [dtype, f"{dtype}_tensor"] if dtype in ("fp32", "fp64") else [dtype]
    rates = {name: device.get(f"{name}_flop_per_s") for name in names}
    there = {name: rate for name, rate in rates.items() if rate is not None}
    if not there:
        return dtype, None
    best = max(there, key=lambda name: (there[name], name == dtype))
    return best, Fraction(there[best])


def roofline(
    events: Sequence[Row],
    devices: Iterable[Row],
    by: str,
    dtype: str | None = None,
    *,
    override: bool = False,
) -> tuple[dict[Key, dict[str, Any]], dict[Key, int]]:
    """Rows by (run, rank, device, name, input_dims, peak_dtype), and unknown time by device."""
    known = {(d["run"], d["rank"], d["device"]): d for d in devices}
    by_id = {(e["run"], e["rank"], e["event_id"]): e for e in events}
    lines: dict[Key, Line] = {}
    unknown: dict[Key, int] = defaultdict(int)
    for kernel in events:
        if kernel["kind"] != "kernel" or kernel["dur_ns"] is None:
            continue
        where = (kernel["run"], kernel["rank"])
        if kernel["flops"] is None and kernel["bytes"] is None:
            unknown[(*where, kernel["device"])] += kernel["dur_ns"]
            continue
        device = known.get((*where, kernel["device"]))
        own, given = kernel["work_dtype"], dtype
        peak_dtype, peak = peak_of(device, (given or own) if override else (own or given))
        bandwidth = None if device is None else device["bandwidth_bytes_per_s"]
        owner = kernel["op_id"] if kernel["work_id"] is None else kernel["work_id"]
        op = by_id.get((*where, owner), {})
        name = {"kernel": kernel["name"], "dtype": peak_dtype}.get(by, op.get("name"))
        dims = op.get("input_dims") if by == "shapes" else None
        key = (*where, kernel["device"], name, dims, peak_dtype)
        line = lines.setdefault(key, Line(peak, bandwidth and Fraction(bandwidth)))
        add(line, kernel, owner)
    return {key: row_of(line, by) for key, line in lines.items()}, dict(unknown)


def add(line: Line, kernel: Row, owner: int | None) -> None:
    dur, flops, size = kernel["dur_ns"], kernel["flops"], kernel["bytes"]
    line.kernels += 1
    line.total_ns += dur
    if owner is not None:
        line.owners.add((kernel["run"], kernel["rank"], owner))
    compute = time(flops, line.peak)
    memory = time(size, line.bandwidth)
    if flops is not None:
        line.flops.append((flops, dur))
    if size is not None:
        line.bytes.append((size, dur))
    line.compute = None if None in (compute, line.compute) else line.compute + compute  # type: ignore[operator]
    line.memory = None if None in (memory, line.memory) else line.memory + memory  # type: ignore[operator]
    if flops is None and str(kernel["kernel_category"]) in COMPUTING:
        line.unlimited_ns += dur
    elif line.bandwidth is not None and memory is not None:
        line.limits.append(max(memory, compute or Fraction(0)))
    elif line.peak is not None and compute:
        line.limits.append(compute)


def time(work: int | None, rate: Fraction | None) -> Fraction | None:
    """Nanoseconds that the work takes at the rate; none is done at once."""
    if work is None or (rate is None and work):
        return None
    return Fraction(0) if rate is None else work * 10**9 / rate


def row_of(line: Line, by: str) -> dict[str, Any]:
    rates = {}
    for name, parts, peak in (
        ("flop", line.flops, line.peak),
        ("bytes", line.bytes, line.bandwidth),
    ):
        work, spent = sum(w for w, _ in parts), sum(d for _, d in parts)
        rate = work * 10**9 / Fraction(spent) if parts and spent else None
        rates[name] = rate
        rates[f"{name}_share"] = rate / peak if rate is not None and peak else None
    both = line.compute is not None and line.memory is not None
    return {
        "calls": line.kernels if by == "kernel" else len(line.owners),
        "kernels": line.kernels,
        "total_ns": line.total_ns,
        "flops": sum(w for w, _ in line.flops) if line.flops else None,
        "bytes": sum(w for w, _ in line.bytes) if line.bytes else None,
        "flop_per_s": rates["flop"],
        "bytes_per_s": rates["bytes"],
        "flop_share": rates["flop_share"],
        "bandwidth_share": rates["bytes_share"],
        "bound": ("compute" if line.compute >= line.memory else "memory") if both else None,  # type: ignore[operator]
        "limit_ns": sum(line.limits) if line.limits else None,
        "limited_ns": line.total_ns - line.unlimited_ns,
        "is_bytes_only": len(line.flops) < line.kernels,
    }
