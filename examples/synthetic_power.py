"""Make up samples of a GPU beside a training run: a synthetic trace, no machine ran it.

The example trace is made by it, from the repository's root::

    python -m examples.synthetic_power examples/power.json.gz

Four steps wait for a batch, run matrix products, a softmax, an optimizer and many small kernels.
As Kineto and Cuspy do, a sampler writes every millisecond how busy the multiprocessors and the
memory were since then, and every two milliseconds the power. The softmax reads and writes its
operands in two types: it is bound by memory, and takes twice the time and energy that it needs.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any, Final

HOST, DEVICE, STREAM = 4242, 0, 7
STEPS: Final = 4
WAIT_MS: Final = 30
Load = tuple[float, float, float]
IDLE: Final[Load] = (0, 1, 120)
"""Busy multiprocessors and memory in percent, and watts, between the steps."""
WORK: Final[tuple[tuple[str, str, float, int, Load], ...]] = (
    ("aten::mm", "sm90_xmma_gemm_bf16bf16_bf16f32_tn", 12.4, 3, (96, 38, 640)),
    ("aten::softmax", "softmax_warp_forward<float, float>", 9.3, 2, (31, 92, 380)),
    ("aten::add_", "vectorized_elementwise_kernel", 0.12, 40, (55, 60, 300)),
    ("Optimizer.step#AdamW.step", "multi_tensor_apply_kernel", 7.2, 1, (44, 90, 410)),
)
"""Op, kernel, milliseconds, times, and the load of the device meanwhile."""


def events() -> list[dict[str, Any]]:
    """Slices and samples, in microseconds."""
    made: list[dict[str, Any]] = []
    loads: list[tuple[float, float, Load]] = []
    now, number = 2_300.0, 0
    for step in range(STEPS):
        begin = now
        now += 1000 * WAIT_MS
        host = begin + 1000 * WAIT_MS
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        made.append(_slice("user_annotation", loading, begin + 5, 1000 * WAIT_MS - 40))
        for op, kernel, ms, times, load in WORK:
            for _ in range(times):
                number += 1
                made.append(_slice("cpu_op", op, host, 18, {"External id": number}))
                call = {"correlation": number}
                made.append(_slice("cuda_runtime", "cudaLaunchKernel", host + 5, 6, call))
                where: dict[str, Any] = {"device": DEVICE, "stream": STREAM, "correlation": number}
                start = max(now, host + 14)
                made.append(_slice("kernel", kernel, start, 1000 * ms, where, on_device=True))
                loads.append((start, start + 1000 * ms, load))
                host, now = host + 20, start + 1000 * ms + 1.2
        made.append(_slice("cuda_runtime", "cudaDeviceSynchronize", host, now - host + 4))
        now += 10
        made.append(_slice("user_annotation", f"ProfilerStep#{step + 1}", begin, now - begin))
        now += 5
    return made + _samples(loads, now)


def _slice(
    category: str,
    name: str,
    start: float,
    dur: float,
    args: dict[str, Any] | None = None,
    *,
    on_device: bool = False,
) -> dict[str, Any]:
    pid, tid = (DEVICE, STREAM) if on_device else (HOST, HOST)
    where = {"pid": pid, "tid": tid, "ts": round(start, 3), "dur": round(dur, 3)}
    return {"ph": "X", "cat": category, "name": name, **where, "args": args or {}}


def _samples(loads: list[tuple[float, float, Load]], end: float) -> list[dict[str, Any]]:
    made = []
    for place in range(int(end / 1000) + 3):
        since = 1000.0 * place
        sm, dram, watts = _mean(loads, since, since + 1000)
        counters = {"SM Active (%)": sm, "HBM BW (%)": dram}
        if place % 2 == 0:
            counters["Power (W)"] = watts
        made += [
            {"ph": "C", "name": name, "pid": f"GPU {DEVICE} Counters", "ts": since,
             "args": {"": round(value, 1)}}
            for name, value in counters.items()
        ]  # fmt: skip
    return made


def _mean(loads: list[tuple[float, float, Load]], since: float, until: float) -> list[float]:
    """The load of a stretch of time."""
    parts = [(min(end, until) - max(start, since), load) for start, end, load in loads]
    parts = [(length, load) for length, load in parts if length > 0]
    rest = until - since - sum(length for length, _ in parts)
    columns = zip(*(load for _, load in (*parts, (rest, IDLE))), strict=True)
    lengths = [*(length for length, _ in parts), rest]
    return [
        sum(length * value for length, value in zip(lengths, column, strict=True)) / (until - since)
        for column in columns
    ]


def main() -> None:
    """Write the trace."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    properties = {"id": DEVICE, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}
    document = {
        "comment": "synthetic: made by examples/synthetic_power.py, no machine ran it",
        "schemaVersion": 1,
        "deviceProperties": [properties],
        "traceEvents": events(),
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    output.write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main()
