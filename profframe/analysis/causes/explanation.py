"""The difference between two sides as causes that add up, and the call trees that have them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from profframe.analysis.causes import cause_kinds
from profframe.analysis.causes.aligned_tree import tree
from profframe.analysis.causes.call_times import call_times, kernels, ops
from profframe.analysis.causes.delays import with_delays
from profframe.analysis.causes.evidence import slower
from profframe.analysis.causes.hidden_ops import with_hidden_ops
from profframe.analysis.causes.piece_rows import LATE, named, piece_rows
from profframe.analysis.causes.sides import Connect, divided, side
from profframe.analysis.causes.slots import SIDES, slot_rows, slots
from profframe.analysis.causes.table import table
from profframe.analysis.critical_path.path_across_ranks import of_each
from profframe.errors import AnswerError


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Why one side takes longer than the other.

    Attributes
    ----------
    causes : polars.DataFrame
        One row per cause, the largest change first; see `profframe.explain`.
    base_ns, other_ns : int
        Mean length of a step.
    base_steps, other_steps : int
        Number of steps, of all ranks.
    base_lost_calls, other_lost_calls : int
        Launches whose work may have run in these steps, and is not in the trace.
    base_is_whole, other_is_whole : bool
        A step is a whole trace, because no step of it has a known length.
    tree : polars.DataFrame
        One row per place of the call trees, both sides aligned; see `profframe.explain`.
    """

    causes: pl.DataFrame
    base_ns: int
    other_ns: int
    base_steps: int
    other_steps: int
    base_lost_calls: int
    other_lost_calls: int
    base_is_whole: bool
    other_is_whole: bool
    tree: pl.DataFrame


def _check(counts: Sequence[int]) -> None:
    """Refuse a side that has none of what is counted."""
    for name, count in zip(SIDES, counts, strict=True):
        if not count:
            raise AnswerError(
                f"{name}: nothing to explain, because no op, call, annotation or device work takes "
                "time in it"
            )


def explanation(
    connects: tuple[Connect, Connect], keys: tuple[Sequence[tuple[str, int]], ...]
) -> Explanation:
    """Explain the difference of two sides, of which ``keys`` are the (run, rank).

    Raises
    ------
    AnswerError
        Nothing takes time on a side.
    """
    _check([len(of_side) for of_side in keys])
    with ThreadPoolExecutor(1, "profframe-explain") as pool:
        base, other = of_each(2, lambda number: side(connects[number], keys[number]))
        sides = base, other
        _check([its.count for its in sides])
        has_devices = base.has_devices or other.has_devices
        # Pieces do not depend on the alignment, which runs meanwhile in this thread.
        dividing = [pool.submit(divided, its, has_devices=has_devices) for its in sides]
        of = slots(base.trees, other.trees)
    made = [future.result() for future in dividing]
    about = cause_kinds.with_causes(slot_rows(sides, of, connects))
    owns = of.base, of.other
    is_alone = [of.gap[own] >= 0 for own in owns]
    parts = of_each(
        2, lambda n: piece_rows(SIDES[n], sides[n], made[n], owns[n], is_alone[n], connects[n])
    )
    shared = about.select("slot", "in_both")
    rows = pl.concat([part.rows for part in parts]).join(shared, on="slot", how="left")
    lost = {name: part.lost_ns for name, part in zip(SIDES, parts, strict=True)}
    counts = {name: its.count for name, its in zip(SIDES, sides, strict=True)}
    rows = with_delays(rows, lost, counts, LATE)
    times = [call_times(sides, owns, of_slots) for of_slots in (kernels(about), ops(about))]
    slow = slower(times[1], max(base.mean_ns, other.mean_ns))
    rows = named(rows, about, slow, has_devices=has_devices)
    return Explanation(
        table(with_hidden_ops(rows, slow, times[1], sides), about, sides, times),
        base_ns=base.mean_ns,
        other_ns=other.mean_ns,
        base_steps=base.count,
        other_steps=other.count,
        base_lost_calls=base.lost_calls,
        other_lost_calls=other.lost_calls,
        base_is_whole=base.is_whole,
        other_is_whole=other.is_whole,
        tree=tree(rows, about, sides),
    )
