"""Self time, idle time and queue depth: torch's own `BasicEvaluation` and `Trace.op_idle_queue`.

::

    python benchmarks/evaluation.py           # half a minute
    python benchmarks/evaluation.py --small   # does it run? figures mean nothing

Both get 2,000 ops, each with a call that launches a kernel. torch gets them as objects with the
attributes that its code asks for, ready in memory; profframe as a Chrome trace, whose facts it
finds when it loads it. What each op has itself must be the same on both sides. Figures are medians
of seconds: profframe's, then torch's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import profframe

OPS: Final = 2000
RUNS: Final = 3
LONG: Final = 100
"""Ops from one long kernel, behind which others wait, to the next."""
TARGET: Final = 50


@dataclass(eq=False)
class Op:
    """A slice of torch's event tree."""

    name: str
    start_time_ns: int
    duration_time_ns: int
    children: list[Op] = field(default_factory=list)
    parent: Op | None = None

    def around(self, inner: Op) -> Op:
        """Take another one in, and give it back."""
        self.children.append(inner)
        inner.parent = self
        return inner

    @property
    def id(self) -> int:
        """What torch's code tells it from others by."""
        return id(self)

    @property
    def end_time_ns(self) -> int:
        """Where it ends."""
        return self.start_time_ns + self.duration_time_ns


@dataclass(eq=False)
class Work:
    """A launch or a kernel as Kineto records it, with a name that torch's code can read."""

    name: str
    start: int
    duration: int
    correlation: int
    on_device: bool

    def start_ns(self) -> int:
        """Where it starts."""
        return self.start

    def duration_ns(self) -> int:
        """How long it takes."""
        return self.duration

    def linked_correlation_id(self) -> int:
        """What a launch and its kernel share."""
        return self.correlation

    def device_type(self) -> Any:
        """Where it runs."""
        from torch.autograd import DeviceType

        return DeviceType.CUDA if self.on_device else DeviceType.CPU


def profile(ops: Sequence[Op], work: Sequence[Any]) -> Any:
    """What `BasicEvaluation` takes for a profile."""
    roots = [op for op in ops if op.parent is None]
    results = SimpleNamespace(events=lambda: list(work), experimental_event_tree=lambda: roots)
    return SimpleNamespace(kineto_results=results)


def ops_and_kernels(count: int) -> tuple[list[Op], list[Work]]:
    """Ops in pairs, one inside the other, each with a kernel; most kernels end before the next.

    Calls are inside their ops in torch's tree, kernels inside their calls, as in a live profile.
    """
    ops: list[Op] = []
    calls: list[Work] = []
    kernels: list[Work] = []
    now = free = 0
    for i in range(1, count, 2):
        outer = Op("aten::linear", now, 9000)
        inner = outer.around(Op("aten::addmm", now + 1000, 6000 + i % 7))
        for op, number, at in ((inner, i, now + 2000), (outer, i + 1, now + 7500)):
            call = op.around(Op("cudaLaunchKernel", at, 500))
            start, length = max(free, at + 4000), 60_000 if i % LONG == 1 else 1000
            call.around(Op("gemm", start, length))
            calls.append(Work(call.name, at, 500, number, on_device=False))
            kernels.append(Work("gemm", start, length, number, on_device=True))
            free = start + length
        ops += [outer, inner]
        now += 10_000
    return ops, [*calls, *kernels]


def chrome_trace(ops: Iterable[Op], work: Iterable[Work]) -> str:
    """The same as a Chrome trace."""
    slices = [
        _slice("cpu_op", op.name, op.start_time_ns, op.duration_time_ns, {"External id": number})
        for number, op in enumerate(ops, start=1)
    ]
    for one in work:
        device = {"device": 0, "stream": 7} if one.on_device else {}
        category = "kernel" if one.on_device else "cuda_runtime"
        args = {"correlation": one.correlation} | device
        slices.append(_slice(category, one.name, one.start, one.duration, args))
    return json.dumps({"traceEvents": slices})


def _slice(category: str, name: str, start: int, duration: int, args: dict[str, int]) -> Any:
    line = (0, 7) if "device" in args else (1, 1)
    times = {"ts": start / 1000, "dur": duration / 1000, "pid": line[0], "tid": line[1]}
    return {"ph": "X", "cat": category, "name": name, "args": args} | times


def _measured(work: Callable[[], object], runs: int) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        kept = work()
        seconds.append(time.perf_counter() - start)
        del kept
    return statistics.median(seconds)


def main() -> None:
    """Measure both sides and print a line for each comparison."""
    from torch.profiler._utils import BasicEvaluation, EventKey

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    ops, work = ops_and_kernels(200 if small else OPS)
    runs = 1 if small else RUNS
    taken = profile(ops, work)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(chrome_trace(ops, work), encoding="utf-8")
        trace = profframe.load(path)
        evaluated = BasicEvaluation(taken)
        ours = trace.filter(kinds="host_op").op_idle_queue()
        theirs = [evaluated.metrics[EventKey(op)].self_time_ns for op in ops]
        if theirs != ours["self_ns"].to_list():
            sys.exit("the self times differ")

        torch_evaluates = _measured(lambda: BasicEvaluation(taken), runs)
        torch_ranks = _measured(lambda: evaluated.rank_events(1), runs)
        loads = _measured(lambda: profframe.load(path), 3 * runs)
        evaluates = _measured(trace.op_idle_queue, 3 * runs)
        ranks = _measured(trace.optimizable_events, 3 * runs)

    print(f"{len(ops):,} ops, {len(ops):,} launches, {len(ops):,} kernels")
    for what, torch_s, ours_s, target in (
        ("evaluation", torch_evaluates, evaluates, TARGET),
        ("the same, profframe loads the trace first", torch_evaluates, loads + evaluates, 0),
        ("evaluation and ranking", torch_evaluates + torch_ranks, ranks, 0),
    ):
        ratio = torch_s / ours_s
        verdict = f">= {target}x {'met' if ratio >= target else 'MISSED'}" if target else ""
        shown = "" if small else verdict
        print(f"{ratio:8.0f}x  {shown:14}  {ours_s:8.4f} s | {torch_s:8.3f} s  {what}")


if __name__ == "__main__":
    main()
