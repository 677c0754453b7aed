"""Make up what NCCL's Inspector writes of a job on eight GPUs: no machine ran it.

The example is made by it, from the repository's root::

    python -m examples.synthetic_nccl examples/nccl_inspector

No public sample of such files was found: their form is that of the plugin's source, formats v4.0 to
v4.4 (``plugins/profiler/inspector`` of NCCL). The same job can also be written as traces of torch's
profiler, ``--traces FOLDER``.

Two machines have four ranks each. In each step the ranks of a machine gather parts of the weights
and add up activations (groups tp0 and tp1), each rank sends its activations to the other machine
(groups pp0 to pp3), and all ranks add up gradients (group world). A collective moves data as soon
as its last rank is there. The job has faults to look for: rank 5 computes more slowly than the
others, and from step 6 on a link of the second machine is slow.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

RANKS: Final = 8
LATE: Final = 5
"""The rank that computes more slowly."""
LATE_US: Final = 700
SLOW_FROM: Final = 6
"""First step with the slow link."""
BEGIN_US: Final = 1_752_867_229_000_000
SMALLEST: Final = 8192
"""Bytes of the smallest message that Inspector records."""
VERSIONS: Final = ("v4.0", "v4.1", "v4.2", "v4.3", "v4.4")
_NAMES: Final = {
    "all_gather": ("AllGather", "_allgather_base", "AllGather_RING_LL"),
    "all_reduce": ("AllReduce", "allreduce", "AllReduce_Sum_f32_RING_LL"),
    "reduce_scatter": ("ReduceScatter", "_reduce_scatter_base", "ReduceScatter_Sum_f32_RING_LL"),
    "broadcast": ("Broadcast", "broadcast", "Broadcast_RING_LL"),
    "send": ("Send", "send", "SendRecv"),
    "recv": ("Recv", "recv", "SendRecv"),
}
"""Operations in the words of NCCL and of torch, and names of their kernels."""


@dataclass(frozen=True)
class Group:
    """A communicator: its name and hash, and its ranks."""

    name: str
    hash: int
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A collective, or a message of two ranks, on one rank; times in microseconds."""

    group: Group
    rank: int
    kind: str
    number: int
    """Its number in the group: NCCL counts each operation, and all sends and receives."""
    torch_number: int
    """The number that torch gives it: it counts all collectives of a group."""
    size: int
    """Bytes of its count."""
    start: int
    stop: int
    step: int
    peer: int | None = None

    @property
    def is_p2p(self) -> bool:
        """Whether it is a send or receive."""
        return self.peer is not None

    @property
    def duration(self) -> int:
        """How long its kernel ran."""
        return self.stop - self.start

    @property
    def algorithm_gb_per_s(self) -> float:
        """Bandwidth as Inspector computes it."""
        ranks = len(self.group.ranks)
        parts = ranks if self.kind in {"all_gather", "reduce_scatter"} else 1
        return self.size * parts / 1e9 / (self.duration / 1e6) if self.duration else 0.0

    @property
    def bus_gb_per_s(self) -> float:
        """The same for the slowest link."""
        ranks = len(self.group.ranks)
        factors = {"all_reduce": 2 * (ranks - 1) / ranks}
        factors |= dict.fromkeys(("all_gather", "reduce_scatter"), (ranks - 1) / ranks)
        return self.algorithm_gb_per_s * factors.get(self.kind, 1.0)


@dataclass
class Job:
    """What all ranks do; `calls` has it in the order in which they do it."""

    steps: int = 10
    seed: int = 0
    ranks: int = RANKS
    has_small: bool = True
    """Whether there are collectives that are too small for Inspector."""
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        half = self.ranks // 2
        self.world = Group("world", 0x5A17C0FFEE01, tuple(range(self.ranks)))
        self.machines = [
            Group("tp0", 0x7F00AA01, tuple(range(half))),
            Group("tp1", 0x7F00AA02, tuple(range(half, self.ranks))),
        ]
        self.pairs = [
            Group(f"pp{rank}", 0x9900BB00 + rank, (rank, rank + half)) for rank in range(half)
        ]
        self._random = random.Random(self.seed)  # noqa: S311 -- the same noise each time
        self._free = [0] * self.ranks
        self._numbers: dict[tuple[object, ...], int] = {}
        for step in range(1, self.steps + 1):
            self._step(step)

    @property
    def groups(self) -> list[Group]:
        """All communicators, the largest first."""
        return [self.world, *self.machines, *self.pairs]

    def of(self, rank: int) -> list[Call]:
        """The calls of a rank, in order."""
        return [call for call in self.calls if call.rank == rank]

    def _step(self, step: int) -> None:
        is_slow = step >= SLOW_FROM
        for layer in range(2):
            self._compute(300)
            for group in self.machines:
                self._collective(group, "all_gather", 256 << 10, 40, step)
            self._compute(500)
            for machine, group in enumerate(self.machines):
                time = 400 if is_slow and machine == 1 else 110
                self._collective(group, "all_reduce", 16 << 20, time + layer, step)
        for group in self.pairs:
            self._message(group, 4 << 20, 60, step)
        self._compute(400)
        if self.has_small:
            self._collective(self.world, "all_reduce", 64, 12, step)
        self._collective(self.world, "reduce_scatter", 8 << 20, 480, step)
        self._collective(self.world, "all_reduce", 64 << 20, 700, step)

    def _compute(self, time: int) -> None:
        for rank in range(self.ranks):
            late = LATE_US if rank == LATE and time == 500 else 0
            self._free[rank] += time + late + self._random.randrange(12)

    def _collective(self, group: Group, kind: str, size: int, time: int, step: int) -> None:
        number = self._next(group.hash, kind)
        torch_number = self._next(group.hash)
        starts = {rank: self._free[rank] + 5 for rank in group.ranks}
        stop = max(starts.values()) + time + self._random.randrange(max(time // 20, 1))
        for rank, start in starts.items():
            self._free[rank] = stop
            self.calls.append(
                Call(group, rank, kind, number, torch_number, size, start, stop, step)
            )

    def _message(self, group: Group, size: int, time: int, step: int) -> None:
        sender, receiver = group.ranks
        starts = {rank: self._free[rank] + 5 for rank in group.ranks}
        stop = max(starts.values()) + time
        for rank, kind, peer in ((sender, "send", 1), (receiver, "recv", 0)):
            number = self._next(group.hash, rank, "p2p") + 1
            start = starts[rank]
            self._free[rank] = stop
            self.calls.append(
                Call(group, rank, kind, number, number, size, start, stop, step, peer)
            )

    def _next(self, *key: object) -> int:
        self._numbers[key] = self._numbers.get(key, -1) + 1
        return self._numbers[key]


def inspector_lines(
    job: Job, rank: int, version: str = "v4.3", *, is_verbose: bool = True
) -> Iterator[dict[str, Any]]:
    """The objects that Inspector writes for a rank, a line each, dumped at the end of each step."""
    host, pid = ("node-a", "node-b")[rank >= job.ranks // 2], 4000 + rank
    calls = [call for call in job.of(rank) if call.size >= SMALLEST]
    for step in range(1, job.steps + 1):
        time = BEGIN_US + max(call.stop for call in job.calls if call.step == step) + 500
        metadata = {
            "inspector_output_format_version": version,
            "git_rev": "",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": time,
            "hostname": host,
            "pid": pid,
        }
        for group in job.groups:
            own = [call for call in calls if call.step == step and call.group is group]
            if not own:
                continue
            own.sort(key=lambda call: call.is_p2p)
            header = {
                "id": hex(group.hash),
                "comm_name": group.name,
                "rank": group.ranks.index(rank),
                "n_ranks": len(group.ranks),
                "nnodes": len({other >= job.ranks // 2 for other in group.ranks}),
            }
            said = {"header": header, "metadata": metadata}
            if version != "v4.0":
                counts = {}
                for name, is_p2p in (("coll", False), ("p2p", True)):
                    counts[f"{name}_records"] = sum(call.is_p2p == is_p2p for call in own)
                    counts |= dict.fromkeys(
                        (f"{name}_dropped_total", f"{name}_dropped_since_last_dump"), 0
                    )
                yield {**said, "dump_stats": counts}
            for call in own:
                name, record = inspector_record(call, version, is_verbose=is_verbose)
                yield {**(said if version < "v4.3" else {}), name: record}


def inspector_record(call: Call, version: str, *, is_verbose: bool) -> tuple[str, dict[str, Any]]:
    """The object of a call, and its name in the line."""
    of = "p2p" if call.is_p2p else "coll"
    record: dict[str, Any] = {of: _NAMES[call.kind][0]}
    if not call.is_p2p and version >= "v4.2":
        record |= {"coll_algo": "RING", "coll_proto": "LL"}
    record[f"{of}_sn"] = call.number
    if call.is_p2p:
        record["p2p_peer"] = call.peer
    record |= {
        f"{of}_msg_size_bytes": call.size,
        f"{of}_exec_time_us": call.duration,
        f"{of}_timing_source": "kernel_gpu",
        f"{of}_algobw_gbs": round(call.algorithm_gb_per_s, 6),
        f"{of}_busbw_gbs": round(call.bus_gb_per_s, 6),
    }
    if is_verbose:
        start, stop = BEGIN_US + call.start, BEGIN_US + call.stop
        numbers, times = [], []
        for channel in range(2):
            at = {"start": start, "stop": stop, "record": stop}
            numbers.append(
                {"channel_id": channel}
                | {f"kernel_{word}_sn": 3 + 3 * channel + n for n, word in enumerate(at)}
            )
            times.append(
                {"channel_id": channel} | {f"kernel_{word}_ts": ts for word, ts in at.items()}
            )
        record["event_trace_sn"] = {
            f"{of}_start_sn": 1, f"{of}_stop_sn": 2, "kernel_events": numbers,
        }  # fmt: skip
        record["event_trace_ts"] = {
            f"{of}_start_ts": start - 30, f"{of}_stop_ts": start - 22, "kernel_events": times,
        }  # fmt: skip
    return f"{of}_perf", record


def write_inspector(
    job: Job,
    folder: Path,
    version: str = "v4.3",
    *,
    is_verbose: bool = True,
    is_compressed: bool = False,
) -> list[Path]:
    """A file per rank, with the names that Inspector gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(job.ranks):
        host = ("node-a", "node-b")[rank >= job.ranks // 2]
        path = folder / f"{host}-pid{4000 + rank}.log{'.gz' if is_compressed else ''}"
        lines = inspector_lines(job, rank, version, is_verbose=is_verbose)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        data = text.encode()
        path.write_bytes(gzip.compress(data, mtime=0) if is_compressed else data)
        paths.append(path)
    return paths


def trace(job: Job, rank: int, steps: Sequence[int] | None = None) -> dict[str, Any]:
    """The same calls of a rank as torch's profiler records them, or those of some steps."""
    events: list[dict[str, Any]] = []
    free, correlation, step, host = 0, 0, 0, 0
    for call in job.of(rank):
        before, free = free, call.stop
        if call.step != step:  # the host runs ahead of the device by a step
            step, host = call.step, BEGIN_US + before - 4000
        if steps is not None and call.step not in steps:
            continue
        correlation += 2
        host += 20
        if before < call.start - 5:
            name = "nvjet_tst_128x256_64x4_coopA_TNT"
            events += _launched(name, host, (before, call.start - 5), (correlation, 7), {})
        ranks = len(call.group.ranks)
        parts = {"all_gather": (1, ranks), "reduce_scatter": (ranks, 1)}.get(call.kind, (1, 1))
        said: dict[str, Any] = {
            "Collective name": _NAMES[call.kind][1],
            "dtype": "Float",
            "In msg nelems": call.size // 4 * parts[0],
            "Out msg nelems": call.size // 4 * parts[1],
            "Group size": ranks,
            "Process Group Name": call.group.name,
            "Process Group Description": call.group.name,
            "Process Group Ranks": str(list(call.group.ranks)),
            "Seq": call.torch_number,
        }
        if call.peer is not None:
            peer = call.group.ranks[call.peer]
            said |= {"Src Rank": peer} if call.kind == "recv" else {"Dst Rank": peer}
        name = f"ncclDevKernel_{_NAMES[call.kind][2]}(ncclDevKernelArgsStorage<4096ul>)"
        events += _launched(name, host + 10, (call.start, call.stop), (correlation + 1, 20), said)
    return {
        "schemaVersion": 1,
        "comment": "synthetic: made by examples/synthetic_nccl.py, no machine ran it",
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": job.ranks},
        "baseTimeNanoseconds": 0,
        "traceEvents": events,
    }


def _launched(
    name: str, called: int, span: tuple[int, int], on: tuple[int, int], said: dict[str, Any]
) -> list[dict[str, Any]]:
    """A kernel, its launch, and the op around that."""
    (start, stop), (correlation, stream) = span, on
    host = {"ph": "X", "pid": 4000, "tid": 4000}
    op = f"c10d::{said['Collective name'].lstrip('_')}_" if said else "aten::mm"
    events = [
        host | {"cat": "cpu_op", "name": op, "ts": called, "dur": 6, "args": {}},
        host
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": called + 2, "dur": 2}
        | {"args": {"correlation": correlation}},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": BEGIN_US + start}
        | {"dur": stop - start}
        | {"args": {**said, "correlation": correlation, "device": 0, "stream": stream}},
    ]
    if said:
        recorded = {"cat": "cpu_op", "name": "record_param_comms", "ts": called + 1, "dur": 4}
        events.insert(1, host | recorded | {"args": said})
    return events


def write_traces(job: Job, folder: Path, steps: Sequence[int] | None = None) -> list[Path]:
    """A trace of torch's profiler per rank."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(job.ranks):
        path = folder / f"rank{rank}.json.gz"
        text = json.dumps(trace(job, rank, steps), separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        paths.append(path)
    return paths


def main() -> None:
    """Bind the command line to the files of a job."""
    parser = argparse.ArgumentParser(description="Make up what NCCL's Inspector writes of a job.")
    parser.add_argument("folder", type=Path, help="where to write a file per rank")
    parser.add_argument("--steps", type=int, default=10, help="steps of the job (default 10)")
    parser.add_argument("--format", default="v4.3", choices=VERSIONS, help="default v4.3")
    parser.add_argument("--traces", type=Path, help="where to write torch's traces of it, too")
    arguments = parser.parse_args()
    job = Job(arguments.steps)
    write_inspector(job, arguments.folder, arguments.format, is_compressed=True)
    if arguments.traces:
        write_traces(job, arguments.traces)


if __name__ == "__main__":
    main()
