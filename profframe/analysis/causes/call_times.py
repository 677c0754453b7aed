"""Durations of paired kernels and ops in each step, and tests of which take longer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import cause_kinds
from profframe.analysis.causes.sides import StepSide
from profframe.analysis.causes.step_trees import CALL, StepSlices
from profframe.analysis.stats import call_differences
from profframe.intervals import Ints

WORK: Final = (cause_kinds.SAME, cause_kinds.COPIES)
"""Causes of work that both sides have, and that takes more or less time on one of them."""


@dataclass(frozen=True, eq=False)
class CallTimes:
    """Calls that both sides have under one name: device work, or ops of the host.

    Attributes
    ----------
    of_sides : tuple of polars.DataFrame
        ``slot``, ``cluster`` (of steps or runs) and ``ns``, one row per call; for an op its time
        without the calls in it, to the runtime, too.
    clusters : tuple of int
        Number of clusters of each side.
    steps : tuple of int
        Number of steps of each side.
    names : polars.DataFrame
        ``slot`` and ``name``, the number of its name.
    """

    of_sides: tuple[pl.DataFrame, pl.DataFrame]
    clusters: tuple[int, int]
    steps: tuple[int, int]
    names: pl.DataFrame

    @cached_property
    def by_name(self) -> pl.DataFrame:
        """The result of `changes` with one unit per name."""
        return self.changes(self.names.select("slot", unit="name"))

    def changes(self, units: pl.DataFrame) -> pl.DataFrame:
        """One row per unit: ``unit change drift p is_beyond ns``, as `calls.changes` has them.

        Parameters
        ----------
        units
            ``slot`` and ``unit``, a dense number; the calls of a unit share a name.
        """
        of_slots = units.join(self.names, on="slot")
        of_units = of_slots.group_by("unit").agg(pl.col("name").first()).sort("unit")
        base, other = (self._calls(number, of_slots) for number in range(2))
        size = np.maximum(
            *(
                np.bincount(of.unit, np.exp(of.log), minlength=of_units.height) / max(steps, 1)
                for of, steps in zip((base, other), self.steps, strict=True)
            )
        )
        made = call_differences.changes(
            base, other, of_units["name"].to_numpy().astype(np.int64), size
        )
        return of_units.with_columns(
            change=made.change, drift=made.drift, p=made.p, is_beyond=made.is_beyond, ns=size
        )

    def _calls(self, number: int, of_slots: pl.DataFrame) -> call_differences.Calls:
        """The calls of a side that are in units."""
        own = self.of_sides[number].join(of_slots.select("slot", "unit"), on="slot")
        unit, place, cluster = (
            own[name].to_numpy().astype(np.int64) for name in ("unit", "slot", "cluster")
        )
        log = np.log(np.maximum(own["ns"].to_numpy(), 1))
        return call_differences.Calls(unit, place, cluster, log, self.clusters[number])


def call_times(
    sides: tuple[StepSide, StepSide], owns: tuple[Ints, Ints], slots: pl.DataFrame
) -> CallTimes:
    """Times of calls whose ``slots`` have a ``name``; ``owns`` has the slot of each node."""
    names = slots.with_columns(name=pl.col("name").rank("dense").cast(pl.Int64) - 1)
    is_wanted = np.zeros(max(int(own.max(initial=-1)) for own in owns) + 1, np.bool_)
    is_wanted[names["slot"].to_numpy()] = True
    frames = [_of_side(of, own, is_wanted) for of, own in zip(sides, owns, strict=True)]
    counts = [int(call_differences.clusters(of.sample_runs).max(initial=-1)) + 1 for of in sides]
    steps = [of.count for of in sides]
    return CallTimes((frames[0], frames[1]), (counts[0], counts[1]), (steps[0], steps[1]), names)


def kernels(about: pl.DataFrame) -> pl.DataFrame:
    """Slots of work that both sides have under one name, and this ``name``."""
    return _named(about.filter(pl.col("is_work") & pl.col("cause").is_in(WORK)))


def ops(about: pl.DataFrame) -> pl.DataFrame:
    """Slots of ops that both sides have under one name, and this ``name``."""
    is_op = (pl.col("base_kind") == "host_op") & (pl.col("other_kind") == "host_op")
    return _named(about.filter(~pl.col("is_work") & is_op))


def _named(about: pl.DataFrame) -> pl.DataFrame:
    shared = about.filter(pl.col("in_both") & (pl.col("base_name") == pl.col("other_name")))
    return shared.select("slot", pl.col("base_name").alias("name"))


def _of_side(side: StepSide, own: Ints, is_wanted: np.ndarray) -> pl.DataFrame:
    trees = side.trees
    node = np.flatnonzero((trees.row >= 0) & is_wanted[own])
    step = trees.step[trees.tree[node]]
    cluster, ns = np.full(node.size, -1, np.int64), np.zeros(node.size, np.int64)
    of_sample = call_differences.clusters(side.sample_runs)
    for part, (its, steps) in enumerate(zip(side.slices, side.windows, strict=True)):
        here = np.flatnonzero(trees.part[node] == part)
        ns[here] = _own_ns(its)[trees.row[node[here]]]
        samples = of_sample[side.samples_of_windows[part]]
        # Windows without steps have the number -1, which is also that of what is in no step.
        if steps.step.size and steps.step[0] < 0:  # all of the trace is one
            cluster[here] = samples[0]
            continue
        order = np.argsort(steps.step)
        at = np.searchsorted(steps.step[order], step[here])
        is_step = np.append(steps.step[order], -1)[at] == step[here]
        cluster[here[is_step]] = samples[order[at[is_step]]]
    kept = cluster >= 0
    return pl.DataFrame({"slot": own[node[kept]], "cluster": cluster[kept], "ns": ns[kept]})


def _own_ns(slices: StepSlices) -> Ints:
    """How long work takes, and calls without the calls in them, be they to the runtime."""
    own = slices.dur_ns.copy()
    above = np.append(slices.sort, 0)[slices.parent]
    is_inner = slices.is_call | ((slices.sort == CALL) & (above != CALL))
    around = np.append(slices.call, -1)[slices.parent]
    # Calls to the runtime are no nodes of the tree, but their time is the driver's, not the op's.
    inner = np.flatnonzero((slices.work == 0) & is_inner & (around >= 0))
    np.subtract.at(own, around[inner], slices.dur_ns[inner])
    return own
