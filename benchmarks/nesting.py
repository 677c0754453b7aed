"""Nesting against a stack in plain Python, both with their sort.

::

    python benchmarks/nesting.py                  # a million slices a shape
    python benchmarks/nesting.py --events 20000   # does it run? figures mean nothing

The stack finds parents alone; `nest` also finds depth, root, preorder and last descendant. Both
start from what they like best: lists for the one, arrays for the other. Runs take turns, so that
a busy moment of the machine hits both; figures are medians of seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from profframe.intervals import Ints, nest

EVENTS: Final = 1_000_000
RUNS: Final = 5
SEED: Final = 2013


@dataclass(frozen=True)
class Slices:
    """Slices in the order of their source, which is also the order of ties."""

    group: Ints
    start: Ints
    end: Ints

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Arguments of `nest`."""
        return self.group, self.start, self.end, np.arange(self.start.size)

    @property
    def lists(self) -> list[list[int]]:
        """The same for the stack."""
        return [array.tolist() for array in self.arrays]


def stack_parents(
    group: Sequence[int], start: Sequence[int], end: Sequence[int], tie: Sequence[int]
) -> list[int]:
    """Parents by torch's own rule, in plain Python."""
    order = sorted(range(len(start)), key=lambda i: (group[i], start[i], -end[i], tie[i], i))
    parents = [-1] * len(start)
    stack: list[int] = []
    now = None
    for i in order:
        if group[i] != now:
            now = group[i]
            stack = []
        while stack and (start[i] >= end[stack[-1]] or end[i] > end[stack[-1]]):
            stack.pop()
        if stack:
            parents[i] = stack[-1]
        stack.append(i)
    return parents


def training(events: int) -> Slices:
    """As a training trace: four threads whose slices open and close, ten deep at the most."""
    random = np.random.default_rng(SEED)
    group = random.choice(4, events, p=[0.55, 0.35, 0.06, 0.04])
    start, end = np.zeros((2, events), np.int64)
    for one in range(4):
        rows = np.flatnonzero(group == one)
        start[rows], end[rows] = _walk(rows.size, 10, random)
    return Slices(group, start, end)


def shuffled(events: int) -> Slices:
    """The same slices in no order at all."""
    one = training(events)
    order = np.random.default_rng(SEED).permutation(events)
    return Slices(one.group[order], one.start[order], one.end[order])


def python_stacks(events: int) -> Slices:
    """As a trace with Python frames: one thread, up to eighty deep."""
    start, end = _walk(events, 80, np.random.default_rng(SEED))
    return Slices(np.zeros(events, np.int64), start, end)


def wide(events: int) -> Slices:
    """One slice around all others, which follow each other."""
    start = np.arange(events) * 10
    end = start + 9
    start[0], end[0] = -1, 10 * events
    return Slices(np.zeros(events, np.int64), start, end)


def deep(events: int) -> Slices:
    """Each slice inside the one before."""
    start = np.arange(events)
    return Slices(np.zeros(events, np.int64), start, 3 * events - start)


def _walk(size: int, depth: int, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Slices that open and close at random, between 0 and ``depth`` of them open."""
    start, end = np.zeros((2, size), np.int64)
    opened: list[int] = []
    steps: Iterator[Any] = iter(random.random(8 * size + 8))
    now = row = 0
    while row < size or opened:
        now += 700
        if row < size and (not opened or (len(opened) < depth and next(steps) < 0.5)):
            start[row] = now
            opened.append(row)
            row += 1
        else:
            end[opened.pop()] = now
    return start, end


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Measure every shape and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    print(f"{'shape':15}{'nest':>9}{'stack':>9}{'ratio':>8}   {options.events:,} slices")
    for shape in (training, shuffled, python_stacks, wide, deep):
        slices = shape(options.events)
        arrays, lists = slices.arrays, slices.lists
        if nest(*arrays).parent.tolist() != stack_parents(*lists):
            sys.exit(f"{shape.__name__}: the parents differ")
        times = [
            (_seconds(lambda: nest(*arrays)), _seconds(lambda: stack_parents(*lists)))  # noqa: B023
            for _ in range(options.runs)
        ]
        ours, stack = (statistics.median(of) for of in zip(*times, strict=True))
        print(f"{shape.__name__:15}{ours:9.5f}{stack:9.5f}{ours / stack:8.2f}")


if __name__ == "__main__":
    main()
