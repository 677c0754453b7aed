"""The numbers of torch's own profiler, and what they cost there and here.

::

    python benchmarks/torch_parity.py           # about five minutes
    python benchmarks/torch_parity.py --small   # does it run? figures mean nothing

Every measurement is a process of its own, which takes the profile and reads it once: torch by
``events()`` and ``key_averages()``, profframe by ``load(profile).key_averages()``; where memory is
attributed, by ``events()`` and ``load(profile)`` alone, which do that. Each reads a
tiny profile before, so that what a process does only once (0.2 s of profframe's libraries) is not
counted, as imports are not. The two take turns; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch.profiler import profile

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Sizes:
    """Events of the training profiles, allocations, nested regions, repetitions."""

    events: int
    allocations: int
    regions: int
    rounds: int


FULL: Final = Sizes(events=200_000, allocations=5000, regions=800, rounds=3)
SMALL: Final = Sizes(events=2000, allocations=20, regions=20, rounds=1)


def training(count: int, **options: bool) -> profile:
    """A profile of so many events: steps of a small transformer."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    optimizer = torch.optim.Adam(model.parameters())

    def steps(number: int) -> profile:
        with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
            for _ in range(number):
                loss = model(torch.randn(4, 16, 32)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return profiler

    steps(2)
    per_step = len(steps(1).profiler.kineto_results.events())
    return steps(-(-count // per_step))


def plain(sizes: Sizes) -> profile:
    """Training, no option."""
    return training(sizes.events)


def shapes_and_memory(sizes: Sizes) -> profile:
    """Training with shapes and memory."""
    return training(sizes.events, record_shapes=True, profile_memory=True)


def nested_memory(sizes: Sizes) -> profile:
    """Allocations, all of them inside many regions."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    def inside(depth: int) -> None:
        if not depth:
            for _ in range(sizes.allocations):
                torch.empty(100)
            return
        with record_function("region"):
            inside(depth - 1)

    sys.setrecursionlimit(10_000)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        inside(sizes.regions)
    sys.setrecursionlimit(1000)
    return profiler


PROFILES: Final[Mapping[str, Callable[[Sizes], Any]]] = MappingProxyType(
    {take.__name__: take for take in (plain, shapes_and_memory, nested_memory)}
)


def by_torch(profiler: profile, to: str) -> object:
    """Torch's own events, with the memory of each, and their key averages."""
    return profiler.events() if to == "events" else (profiler.events(), profiler.key_averages())


def by_profframe(profiler: profile, to: str) -> object:
    """The same of a `Trace`."""
    from profframe import load

    trace = load(profiler)
    return trace.tables["events"] if to == "events" else trace.key_averages()


READERS: Final = MappingProxyType({"torch": by_torch, "profframe": by_profframe})
UP_TO: Final = MappingProxyType(
    {"plain": "key_averages", "shapes_and_memory": "key_averages", "nested_memory": "events"}
)
"""What each profile is read for; memory is attributed when there are events."""


def measure(name: str, reader: str, sizes: Sizes) -> dict[str, float]:
    """Seconds to read a profile, and its events."""
    READERS[reader](PROFILES[name](SMALL), UP_TO[name])
    profiler = PROFILES[name](sizes)
    events = len(profiler.profiler.kineto_results.trace_activities())
    start = time.perf_counter()
    kept = READERS[reader](
        profiler, UP_TO[name]
    )  # as a user keeps it: freeing it is no part of the work
    seconds = time.perf_counter() - start
    del kept
    return {"seconds": seconds, "events": events}


def measured(name: str, reader: str, small: bool) -> dict[str, float]:
    """One measurement, in a process of its own unless its figures mean nothing."""
    if small:
        return measure(name, reader, SMALL)
    command = [sys.executable, "-m", "benchmarks.torch_parity", "--measure", name, reader]
    printed = subprocess.run(
        command, check=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


@dataclass(frozen=True)
class Result:
    """Medians for one profile, and the least speed-up that is promised, if one is."""

    what: str
    target: float | None
    events: float
    torch: float
    profframe: float

    @property
    def speed_up(self) -> float:
        """How many times faster than torch."""
        return self.torch / self.profframe

    def line(self, judged: bool) -> str:
        """The result as text."""
        bound = ""
        if judged and self.target is not None:
            verdict = "met" if self.speed_up >= self.target else "MISSED"
            bound = f">= {self.target:g}x {verdict}"
        sides = " | ".join(
            f"{1e6 * seconds / self.events:8.2f} us" for seconds in (self.profframe, self.torch)
        )
        return f"{self.speed_up:8.1f}x  {bound:15}  {sides}  {self.what}"


def results(sizes: Sizes, small: bool) -> Iterator[Result]:
    """All profiles, one after the other."""
    thousands = f"{sizes.events / 1000:.0f}k events"
    told: dict[str, tuple[str, float | None]] = {
        "plain": (f"live profile, {thousands}, to key_averages", 8),
        "shapes_and_memory": (f"the same with shapes and memory, {thousands}", None),
        "nested_memory": (
            f"memory of {sizes.allocations:,} allocations inside {sizes.regions} regions",
            100,
        ),
    }
    for name, (what, target) in told.items():
        found: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
        for _ in range(sizes.rounds):
            for reader in READERS:
                found[reader].append(measured(name, reader, small))
        seconds = {
            reader: statistics.median(one["seconds"] for one in all_of_it)
            for reader, all_of_it in found.items()
        }
        events = statistics.median(one["events"] for one in found["profframe"])
        yield Result(what, target, events, seconds["torch"], seconds["profframe"])


def main() -> None:
    """Print a line as soon as its profile is measured."""
    parser = argparse.ArgumentParser(description="Cost of torch's own numbers, there and here.")
    parser.add_argument("--small", action="store_true", help="tiny profiles, no targets")
    parser.add_argument("--measure", nargs=2, metavar=("PROFILE", "READER"), help="one of them")
    arguments = parser.parse_args()
    if arguments.measure:
        profile_, reader = arguments.measure
        print(json.dumps(measure(profile_, reader, FULL)))
        return
    sizes = SMALL if arguments.small else FULL
    print(f"medians of {sizes.rounds} on {os.cpu_count()} cores; each measurement its own process")
    print(f"{'speed-up':>9}  {'target':15}  {'profframe':>11} | {'torch':>11}  per event")
    for result in results(sizes, arguments.small):
        print(result.line(judged=not arguments.small), flush=True)


if __name__ == "__main__":
    main()
