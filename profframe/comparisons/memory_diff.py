"""Comparison of two memory snapshots: what they hold at the peak and at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import polars as pl

from profframe import schema
from profframe.errors import ParameterError, UnknownNameError, explain_unknown_arguments
from profframe.loaders.load import load
from profframe.query.renamed import with_new_names
from profframe.show.empty_frames import why_empty
from profframe.show.frame import frame
from profframe.show.snapshot_text import PINNED_MEMORY
from profframe.trace.trace import Trace

PER: Final = (
    "stack", "frame", "module", "category", "pool", "metadata", "fx_node", "annotation",
)  # fmt: skip
_SIDES: Final = ("base", "other")
_NUMBERS: Final = ("peak_bytes", "peak_blocks", "end_bytes", "end_blocks")


@partial(explain_unknown_arguments, renaming=partial(with_new_names, "diff_memory"))
def diff_memory(
    base: Any, other: Any, names: Sequence[str] = _SIDES, *, per: str = "stack"
) -> pl.DataFrame:
    """Compare two memory snapshots: what they hold at their peaks and at their ends.

    Stacks are the same if all their frames are. Devices and ranks of a run are added up, each
    with its own peak; pinned memory of the host has rows of its own.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes, of one run.
    names
        Names of the sides, for the columns ``base`` and ``other``.
    per
        What each row is: ``"stack"``, ``"frame"``, ``"module"``, ``"category"``, ``"pool"``,
        ``"metadata"``, ``"fx_node"`` or ``"annotation"``, as in `memory_stacks`.

    Returns
    -------
    polars.DataFrame
        One row per ``memory`` and ``name`` (and ``stack``, by stack), the largest change at the
        peak first, then at the end, then by name, stack and memory:

        ``memory``
            ``device`` or ``pinned host``.
        ``name stack``
            As in `memory_stacks`.
        ``base_peak_bytes other_peak_bytes change_peak_bytes``
            Bytes at the peak, and other minus base; 0 if a side has none.
        ``base_peak_blocks other_peak_blocks``
            Number of their allocations.
        ``base_end_bytes other_end_bytes change_end_bytes base_end_blocks other_end_blocks``
            The same for what is held at the end.
        ``status``
            ``added``, ``removed``, ``changed`` or ``equal``.
        ``base other``
            Names of the sides.

    Raises
    ------
    ParameterError
        A side has several runs or no allocations, or a value is invalid.
    SourceError
        A side cannot be read.

    Examples
    --------
    >>> from profframe import diff_memory
    >>> diff_memory("examples/fp32.json.gz", "examples/bf16.json.gz")
    Traceback (most recent call last):
    profframe.errors.ParameterError: base: no allocations of a memory snapshot in this trace; \
record one with profframe.record_memory() (docs/memory_snapshots.md)
    """
    if per not in PER:
        raise UnknownNameError.one_of("per", per, PER)
    keys = ["memory", "name", "stack"]
    sides = []
    for name, source in zip(names, (base, other), strict=True):
        rows = _side(source, name, per)
        sides.append(
            rows.group_by(keys, maintain_order=True).agg(pl.col(_NUMBERS).sum(), is_there=True)
        )
    both = sides[0].join(sides[1], on=keys, how="full", nulls_equal=True, coalesce=True)
    renamed = both.select(
        *keys,
        *(
            pl.col(f"{number}{suffix}").fill_null(0).alias(f"{side}_{number}")
            for number in _NUMBERS
            for side, suffix in zip(_SIDES, ("", "_right"), strict=True)
        ),
        pl.when(pl.col("is_there").is_null())
        .then(pl.lit("added"))
        .when(pl.col("is_there_right").is_null())
        .then(pl.lit("removed"))
        .alias("status"),
    )
    changes = [
        (pl.col(f"other_{number}") - pl.col(f"base_{number}")).alias(f"change_{number}")
        for number in ("peak_bytes", "end_bytes")
    ]
    is_equal = pl.all_horizontal(
        pl.col(f"base_{number}") == pl.col(f"other_{number}") for number in _NUMBERS
    )
    result = renamed.with_columns(
        *changes,
        pl.col("status").fill_null(
            pl.when(is_equal).then(pl.lit("equal")).otherwise(pl.lit("changed"))
        ),
        *(pl.lit(name).alias(side) for side, name in zip(_SIDES, names, strict=True)),
    ).sort(
        pl.col("change_peak_bytes").abs(),
        pl.col("change_end_bytes").abs(),
        "name",
        "stack",
        "memory",
        descending=[True, True, False, False, False],
        nulls_last=True,
    )
    return frame(
        result.select(
            *keys, "base_peak_bytes", "other_peak_bytes", "change_peak_bytes", "base_peak_blocks",
            "other_peak_blocks", "base_end_bytes", "other_end_bytes", "change_end_bytes",
            "base_end_blocks", "other_end_blocks", "status", *_SIDES,
        )
    )  # fmt: skip


def _side(source: Any, name: str, per: str) -> pl.DataFrame:
    """Rows of one side; its trace is released before the next one."""
    trace = source if isinstance(source, Trace) else load(source)
    held = trace.memory_stacks(per=per, top=0)
    is_pinned = (pl.col("device_type") == schema.PINNED).fill_null(value=False)
    rows = pl.DataFrame(held).with_columns(
        memory=pl.when(is_pinned).then(pl.lit(PINNED_MEMORY)).otherwise(pl.lit("device"))
    )
    if rows["run"].n_unique() > 1:
        raise ParameterError(f"{name}: has several runs, but a side must be one run")
    if not rows.height:
        raise ParameterError(f"{name}: {why_empty(held) or 'it has no allocations'}")
    return rows
