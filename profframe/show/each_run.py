"""The time of several runs in a line: of each by itself, as they may be unrelated programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from profframe.show import units
from profframe.show.compact_tables import with_copies_apart
from profframe.show.device_time import (
    LONGEST_NAME,
    MOST_PARTS,
    TimeParts,
    kernel_texts,
    listed,
    mean_step,
    number_by_rank,
    time_texts,
)

_MOST_WHOLE: Final = 2
"""Maximum runs whose time is told class by class."""
_WITH_ALL_CLASSES: Final = -2
"""Where the texts of `time_texts` end that name all classes."""


def time_of_each(
    breakdown: pl.DataFrame, overview: pl.DataFrame, idle: pl.DataFrame | None = None
) -> tuple[str, ...]:
    """Device time by class: of a single run all of it, else of each run; the longest text first.

    Parameters
    ----------
    breakdown, overview, idle
        Rows of the answers; those of `idle` tell the cause of most of it.
    """
    if breakdown.is_empty():
        return ()
    runs = breakdown.partition_by("run", as_dict=True, maintain_order=True)
    parts = {run: part for (run,), rows in runs.items() if (part := TimeParts.of(rows))}
    if overview["run"].n_unique() == 1:
        return tuple(text for part in parts.values() for text in time_texts(part, overview, idle))
    if not parts:
        return ()
    if len(parts) == 1:
        ((run, part),) = parts.items()
        texts = time_texts(part, overview.filter(pl.col("run") == run), idle)
        return tuple(f"{_name(run)}: {text}" for text in texts)
    ranges = [
        _range("idle", {run: part.share(part.idle_ns) for run, part in parts.items()}),
        _range("compute", {run: part.share(part.compute_ns) for run, part in parts.items()}),
    ]
    of = _of_each(len(parts), overview["run"].n_unique())
    short = (*(f"{text} {of}" for text in (", ".join(ranges), ranges[0])), ranges[0])
    if len(parts) > _MOST_WHOLE:
        return short
    of_runs = zip(
        *(time_texts(p, overview.filter(pl.col("run") == run)) for run, p in parts.items()),
        strict=True,
    )
    whole = (
        "; ".join(f"{_name(run)}: {text}" for run, text in zip(parts, texts, strict=True))
        for texts in [*of_runs][:_WITH_ALL_CLASSES]
    )
    return (*whole, *short)


def _of_each(number: int, runs: int) -> str:
    """What shares of runs are of, and how many runs have none.

    Examples
    --------
    >>> _of_each(3, 4)
    'of the time of 3 of 4 runs (the others have no device work)'
    """
    if number == runs:
        return "of the time of each run; runs are not averaged"
    return f"of the time of {number:,} of {runs:,} runs (the others have no device work)"


def _range(name: str, shares: Mapping[object, float]) -> str:
    """The least and the largest share, and whose they are."""
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if units.share(shares[least]) == units.share(shares[most]):
        return f"{name} {units.share(shares[least])}"
    low, high = (f"{units.share(shares[run])} ({_name(run)})" for run in (least, most))
    return f"{name} {low} to {high}"


def steps_of_each(steps: pl.DataFrame) -> tuple[str, ...]:
    """The mean time of steps: of a single run, or of each."""
    whole = steps.filter(pl.col("lack").is_null(), pl.col("step_ns") > 0)
    means = {
        run: mean_step(int(rows["step_ns"].sum()), number_by_rank(rows))
        for (run,), rows in whole.partition_by("run", as_dict=True, maintain_order=True).items()
    }
    if steps["run"].n_unique() < 2:
        return tuple(means.values())
    return _fewer([f"{_name(run)} {text}" for run, text in means.items()])


def work_of_each(categories: pl.DataFrame, runs: int = 1) -> tuple[str, ...]:
    """Categories of what ran on the devices: of a single run, or the largest of each.

    Parameters
    ----------
    categories
        Rows of the answer `kernel_categories`.
    runs
        Number of runs, also of those without device work: one of several is named.
    """
    if categories.is_empty() or categories["run"].n_unique() == 1:
        run = f"{_name(categories['run'][0])}: " if runs > 1 and categories.height else ""
        return tuple(f"{run}{text}" for text in kernel_texts(categories))
    rows = with_copies_apart(categories.drop_nulls("total_ns"))
    return most_of_each(rows.select("run", "category", "total_ns"))


def most_of_each(rows: pl.DataFrame, what: str = "") -> tuple[str, ...]:
    """The name with most of the time of each run, from rows of run, name and time.

    Examples
    --------
    >>> rows = pl.DataFrame({"run": ["a", "a", "b"], "name": ["x", "y", "z"], "ns": [3, 1, 2]})
    >>> most_of_each(rows, " of self time")
    ('a x 75.0 %, b z 100.0 % of self time', 'a x 75.0 % of self time, 1 more')
    """
    name, time = rows.columns[1:]
    texts = []
    for (run,), own in rows.partition_by("run", as_dict=True, maintain_order=True).items():
        if total := int(own[time].sum()):
            sums = own.group_by(name, maintain_order=True).agg(pl.col(time).sum())
            longest, ns = sums.sort(time, descending=True, maintain_order=True).row(0)
            short = units.middle(units.visible(str(longest)), LONGEST_NAME)
            texts.append(f"{_name(run)} {short} {units.share(ns / total)}")
    return _fewer(texts, what)


def _fewer(texts: Sequence[str], what: str = "") -> tuple[str, ...]:
    """All texts in a line, then fewer with the number of the others."""
    sizes = range(min(len(texts), MOST_PARTS), 0, -1)
    return tuple(listed(texts[:size], len(texts), what) for size in sizes)


def _name(run: object) -> str:
    return units.middle(units.visible(str(run)), LONGEST_NAME)
