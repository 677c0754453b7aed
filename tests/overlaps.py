"""Jobs whose collectives overlap: they run on streams of their own, beside computation.

Each rank has one thread, which launches and may wait for streams. Work begins when it is launched,
its stream has come to it, and so have the streams that it waits for. A collective ends on all ranks
at once, some time after it began on the last of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from profframe.trace.trace import Trace
from tests.builders import Row, event, loaded, together

COMPUTE: Final = 7
CALL: Final = 4_000
BEGIN: Final = 10**15


@dataclass(frozen=True)
class Do:
    """What all ranks do, in the order of the program; ``took`` is by rank.

    ``host``: the thread works. ``kernel``, ``collective``: it launches. ``sync``: it waits for all
    streams of its device.
    """

    kind: str
    took: Sequence[int] = ()
    name: str = ""
    stream: int = COMPUTE
    after: Sequence[int] = ()
    """Streams that work waits for, besides its own."""
    group: str = "dp"
    mark: int | None = None
    """Of a sync: the step that ends here."""

    def later(self, rank: int, ns: int) -> Do:
        """The same, but one rank takes longer."""
        took = [*self.took]
        took[rank] += ns
        return replace(self, took=took)


@dataclass
class _Rank:
    host: int = BEGIN
    since: int = BEGIN
    streams: dict[int, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    number: int = 0


def ran(program: Sequence[Do], ranks: int) -> list[list[Row]]:
    """The events of each rank."""
    states = [_Rank() for _ in range(ranks)]
    numbers: dict[str, int] = {}
    for do in program:
        if do.kind == "host":
            for state, took in zip(states, do.took, strict=True):
                state.rows.append(event(do.name, state.host, state.host + took))
                state.host += took + 200
        elif do.kind == "sync":
            for state in states:
                _sync(state, do.mark)
        else:
            numbers[do.group] = numbers.get(do.group, 0) + (do.kind == "collective")
            _launch(states, do, numbers[do.group])
    return [state.rows for state in states]


def _sync(state: _Rank, mark: int | None) -> None:
    state.number += 1
    end = max([state.host + CALL, *(at + 1_000 for at in state.streams.values())])
    call: dict[str, Any] = {"category": "cuda_runtime", "correlation": state.number}
    state.rows.append(event("cudaDeviceSynchronize", state.host, end, **call))
    state.host = end + 200
    if mark is not None:
        label = f"ProfilerStep#{mark}"
        state.rows.append(event(label, state.since, state.host, category="user_annotation"))
        state.host = state.since = state.host + 500


def _wait(state: _Rank, do: Do) -> None:
    """Make the stream of some work wait for others, as recorded by an event of each of them."""
    for stream in do.after:
        recorded, state.number = state.number + 1, state.number + 2
        calls = ("cudaEventRecord", recorded), ("cudaStreamWaitEvent", state.number)
        for name, number in calls:
            call: dict[str, Any] = {"category": "cuda_runtime", "correlation": number}
            state.rows.append(event(name, state.host, state.host + 500, **call))
            state.host += 600
        on = {"device": 0, "wait_on_stream": stream, "wait_on_correlation": recorded}
        state.rows.append(
            event("Stream Wait Event", state.host - 550, state.host - 100, category="cuda_sync",
                  thread=100 + do.stream, stream=do.stream, correlation=state.number, **on)
        )  # fmt: skip


def _launch(states: Sequence[_Rank], do: Do, number: int) -> None:
    begun = []
    for state in states:
        _wait(state, do)
        state.number += 1
        launched = state.host + CALL
        op = event(f"launch {do.name}", state.host - 100, launched + 100)
        call: dict[str, Any] = {"category": "cuda_runtime", "correlation": state.number}
        state.rows += [op, event("cudaLaunchKernel", state.host, launched, **call)]
        before = [state.streams.get(stream, 0) for stream in (do.stream, *do.after)]
        begun.append(max(launched + 1_000, *(at + 500 for at in before)))
        state.host = launched + 300
    for state, start, took in zip(states, begun, do.took, strict=True):
        work: dict[str, Any] = {
            "category": "kernel", "device": 0, "stream": do.stream, "thread": 100 + do.stream,
            "correlation": state.number,
        }  # fmt: skip
        end, name = start + took, do.name
        if do.kind == "collective":
            end, name = max(begun) + took, f"ncclDevKernel_{do.name}"
            work |= {"collective": do.name, "process_group": do.group, "collective_seq": number}
        state.rows.append(event(name, start, end, **work))
        state.streams[do.stream] = end


def job(program: Sequence[Do], ranks: int) -> Trace:
    """The trace of a job."""
    header = {"clock": "utc"}
    traces = (loaded(*rows, rank=n, header=header) for n, rows in enumerate(ran(program, ranks)))
    return together(*traces)


def length(program: Sequence[Do], ranks: int) -> int:
    """When the job is done."""
    rows: list[dict[str, Any]] = [dict(row) for of_rank in ran(program, ranks) for row in of_rank]
    return max(int(row["start_ns"] + row["dur_ns"]) for row in rows)


def drawn(kind: str, seed: int) -> tuple[list[Do], list[Do], int]:
    """A job whose collectives overlap, the same with a late rank, and the number of ranks.

    In each step one op (``host``) or kernel of one rank takes longer. Collectives of up to three
    groups run on a stream each, beside computation, which only the last kernel of a step waits for.
    """
    rng = random.Random(f"{kind} {seed}")  # noqa: S311 - draws of a test
    ranks, steps = rng.choice((2, 3, 4, 8)), rng.randrange(2, 5)
    hosts, kernels = ((5, 200), (5, 30)) if kind == "host" else ((2, 20), (100, 500))
    groups = dict(rng.sample([(20, "dp"), (21, "ep"), (22, "tp")], rng.randrange(1, 4)))
    jitter = rng.choice((0, 200, 2_000))
    layout: list[Do] = []
    for _ in range(rng.randrange(3, 9)):
        for turn in range(rng.randrange(1, 4)):
            host, kernel = (1_000 * rng.randrange(*about) for about in (hosts, kernels))
            layout += [Do("host", [host], f"aten::op{turn}"), Do("kernel", [kernel], f"gemm{turn}")]
        for stream in rng.sample([*groups], rng.randrange(1, len(groups) + 1)):
            took, group = [1_000 * rng.randrange(20, 600)], groups[stream]
            layout.append(Do("collective", took, "AllReduce", stream, (COMPUTE,), group))
    places = [place for place, do in enumerate(layout) if do.kind == kind]
    late, place, ns = rng.randrange(ranks), rng.choice(places), rng.choice((1, 2, 5)) * 1_000_000
    usual, slow = list[Do](), list[Do]()
    for step in range(steps):
        for number, do in enumerate(layout):
            more = [0] * ranks if do.kind == "collective" else [
                rng.randrange(jitter + 1) for _ in range(ranks)
            ]  # fmt: skip
            usual.append(replace(do, took=[do.took[0] + longer for longer in more]))
            slow.append(usual[-1].later(late, ns) if number == place else usual[-1])
        ends = [Do("kernel", [100_000] * ranks, "adam", after=[*groups]), Do("sync", mark=step)]
        usual, slow = usual + ends, slow + ends
    return usual, slow, ranks
