"""Drawn programs of a few steps, with the noise of real ones, and what may be planted in them.

Each duration has jitter, each step its own, and each run: of the device's clock, of the host, and a
little of each kernel. Some calls take many times as long. The host launches; a stream does one
piece of work after the other.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.builders import event

CLOSING: Final = "cudaDeviceSynchronize"
LAUNCH: Final = "cudaLaunchKernel"
BUSY: Final = 2_000
"""The least that a call that waits takes by itself."""


@dataclass(frozen=True)
class Call:
    """An op: the time of the host before its launch, and its kernel; or a call that waits."""

    op: str
    host_ns: int
    kernel: str = ""
    kernel_ns: int = 0
    waits: bool = False


@dataclass(frozen=True)
class Noise:
    """How much times vary: relative standard deviations, and the share of outliers."""

    call: float = 0.03
    host: float = 0.15
    step: float = 0.02
    host_step: float = 0.03
    run: float = 0.02
    host_run: float = 0.04
    kernel_run: float = 0.004
    outliers: float = 0.004


NONE: Final = Noise(*[0.0] * 8)


@dataclass
class Program:
    """Calls of a step, in order, and whether each step ends with a wait for the device."""

    calls: list[Call]
    closes: bool = True
    names: list[str] = field(default_factory=list)


def draw(seed: int | str) -> Program:
    """A program: layers of ops, forward and backward, bound by the device or by the host."""
    rng = random.Random(f"program {seed}")  # noqa: S311 - no secret
    kinds = rng.randint(4, 14)
    layers = rng.randint(4, 24)
    busy = rng.choice((0.4, 0.9, 1.5, 3.0))
    layer = []
    for number in range(kinds):
        host = int(rng.lognormvariate(9.5, 0.5))
        took = int(host * busy * rng.lognormvariate(0, 0.8))
        layer.append(Call(f"aten::op{number}", host, f"kernel_{number % 9}", max(1_500, took)))
    calls = [replace(call, op=f"{call.op}") for _ in range(layers) for call in layer]
    calls += [Call("aten::once", 20_000, "kernel_once", 40_000)]
    if rng.random() < 0.3:
        calls.insert(len(calls) // 2, Call("aten::item", 5_000, "Memcpy DtoH", 1_500, waits=True))
    return Program(calls, rng.random() < 0.7)


def events(program: Program, seed: int | str, steps: int, noise: Noise) -> list[dict[str, Any]]:
    """A run of the program."""
    rng = random.Random(f"run {seed}")  # noqa: S311 - no secret

    def factor(sigma: float) -> float:
        return max(0.6, rng.gauss(1, sigma)) if sigma else 1.0

    def outlier() -> float:
        return rng.uniform(2, 12) if rng.random() < noise.outliers else 1.0

    clock, pace = factor(noise.run), factor(noise.host_run)
    own = {call.kernel: factor(noise.kernel_run) for call in program.calls}
    made: list[dict[str, Any]] = []
    at, free, number = 1_000_000, 0, 0
    for step in range(steps):
        of_step, of_host, begun = factor(noise.step), factor(noise.host_step), at
        place = len(made)
        for call in program.calls:
            at += int(1_000 * pace * of_host * factor(noise.host))
            start = at
            host = int(call.host_ns * pace * of_host * factor(noise.host) * outlier())
            inside: list[dict[str, Any]] = []
            if call.kernel:
                number += 1
                launch, at = at + host, at + host + int(4_000 * pace * factor(noise.host))
                args: dict[str, Any] = {"correlation": number}
                where = args | {"device": 0, "stream": 7, "thread": 9}
                inside.append(event(LAUNCH, launch, at, category="cuda_runtime", **args))
                took = call.kernel_ns * clock * of_step * own[call.kernel]
                took = max(500, int(took * factor(noise.call) * outlier()))
                begin = max(free + 800, launch + int(5_000 * factor(noise.host)))
                free = begin + took
                is_copy = call.kernel.startswith("Mem")
                category = "gpu_memcpy" if is_copy else "kernel"
                made.append(event(call.kernel, begin, free, category=category, **where))
            else:
                at += host
            if call.waits:
                wait, at = at, max(at, free) + int(BUSY * pace * factor(noise.host))
                name = "cudaStreamSynchronize" if call.kernel else CLOSING
                inside.append(event(name, wait, at, category="cuda_runtime"))
            at += int(500 * pace * factor(noise.host))
            made += [event(call.op, start, at)] if call.op else []
            made += inside
        if program.closes:
            wait, at = at, max(at, free) + int(BUSY * pace * factor(noise.host))
            made.append(event(CLOSING, wait, at, category="cuda_runtime"))
        at += int(3_000 * pace * factor(noise.host))
        name = f"ProfilerStep#{step}"
        made.insert(place, event(name, begun, at, category="user_annotation"))
        at += 500
    return made


def noise(seed: int | str) -> Noise:
    """Noise of a pair: little or much of each form."""
    rng = random.Random(f"noise {seed}")  # noqa: S311 - no secret
    return Noise(
        call=rng.choice((0.01, 0.02, 0.04)),
        host=rng.choice((0.05, 0.1, 0.2)),
        step=rng.choice((0.0, 0.02, 0.04)),
        host_step=rng.choice((0.01, 0.03, 0.06)),
        run=rng.choice((0.0, 0.02, 0.04)),
        host_run=rng.choice((0.01, 0.04, 0.08)),
        kernel_run=rng.choice((0.0, 0.003, 0.006)),
        outliers=rng.choice((0.0, 0.003, 0.01)),
    )


def length(program: Program, steps: int = 4) -> int:
    """How long a step takes without noise."""
    spans = [
        (row["start_ns"], row["start_ns"] + row["dur_ns"])
        for row in events(program, 0, steps, NONE)
    ]
    return int((max(end for _, end in spans) - min(begin for begin, _ in spans)) // steps)


@dataclass(frozen=True)
class Plant:
    """A change of a program: both versions, and the op, call or kernel that it is about."""

    base: Program
    other: Program
    what: str


def slower_kernel(base: Program, rng: random.Random, factor: float) -> Plant | None:
    total = sum(call.kernel_ns for call in base.calls)
    names = sorted({call.kernel for call in base.calls if call.kernel.startswith("kernel")})
    times = {name: sum(c.kernel_ns for c in base.calls if c.kernel == name) for name in names}
    large = [name for name in names if times[name] >= 0.03 * total and name != "kernel_once"]
    if not large:
        return None
    name = rng.choice(large)
    calls = [
        replace(call, kernel_ns=int(call.kernel_ns * factor)) if call.kernel == name else call
        for call in base.calls
    ]
    return Plant(base, Program(calls, base.closes), name)


def slower_op(base: Program, rng: random.Random, factor: float) -> Plant | None:
    name = rng.choice(sorted({call.op for call in base.calls if call.op.startswith("aten::op")}))
    calls = [
        replace(call, host_ns=int(call.host_ns * factor)) if call.op == name else call
        for call in base.calls
    ]
    return Plant(base, Program(calls, base.closes), name)


def added_sync(base: Program, rng: random.Random, op: str) -> Plant | None:
    calls = [*base.calls]
    for _ in range(rng.randint(1, 3)):
        kernel = ("Memcpy DtoH", 1_500) if op else ("", 0)
        calls.insert(rng.randrange(len(calls)), Call(op, 3_000, *kernel, waits=True))
    return Plant(base, Program(calls, base.closes), op or CLOSING)


def added_kernel(base: Program, rng: random.Random) -> Plant | None:
    calls = [*base.calls]
    took = int(length(base) * rng.uniform(0.005, 0.05))
    calls.insert(rng.randrange(len(calls)), Call("aten::new", 15_000, "kernel_new", took))
    return Plant(base, Program(calls, base.closes), "kernel_new")


PLANTS: Final = {
    "kernel 1.5x": lambda base, rng: slower_kernel(base, rng, 1.5),
    "kernel 1.1x": lambda base, rng: slower_kernel(base, rng, 1.1),
    "wait without an op": lambda base, rng: added_sync(base, rng, ""),
    "wait of an op": lambda base, rng: added_sync(base, rng, "aten::_local_scalar_dense"),
    "host op 1.5x": lambda base, rng: slower_op(base, rng, 1.5),
    "added kernel": added_kernel,
}
LEAST: Final = 0.01
"""What changes the step by less is drawn again."""


def plant(kind: str, seed: int | str) -> Plant:
    """Draw a program and a change of the kind that shows in its step."""
    rng = random.Random(f"plant {kind} {seed}")  # noqa: S311 - no secret
    for number in range(100):
        made = PLANTS[kind](draw(f"{kind} {seed} {number}"), rng)
        if made and ("wait" in kind or _shows(made)):
            return made
    raise AssertionError(f"no place for {kind!r}")


def _shows(made: Plant) -> bool:
    base = length(made.base)
    return length(made.other) - base > LEAST * base
