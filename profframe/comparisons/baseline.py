"""A profile as numbers in a small file: counts that must not change, and samples for limits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import polars as pl

from profframe.analysis.fail_on import Limit, Measure, Sampled, Verdict, unit_of
from profframe.analysis.fail_on import verdicts as check
from profframe.comparisons.diff import comparison
from profframe.comparisons.fail_on_metrics import check_limits
from profframe.errors import ParameterError, SourceError
from profframe.system.atomic_files import atomic_write
from profframe.trace.trace import Trace

Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Numbers by kind and name: calls of each ``op``, ``kernel`` and ``launch``; and of the ``profile``
its ``runs`` and ``steps``."""
Samples: TypeAlias = Mapping[str, Sampled]
"""Samples of metrics, by their names in limits."""

VERSION: Final = 1
_SIDES: Final = ("the profile", "itself")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a profile is compared with: counts, samples, and what kernels are counted by."""

    counts: Counts
    samples: Samples
    kernel_by: str = "name"


@dataclass(frozen=True, slots=True)
class CountChange:
    """A count that differs; 0 where there is nothing of the name."""

    what: str
    name: str
    before: int
    now: int


def counts(trace: Trace, kernel_by: str = "name") -> dict[str, dict[str, int]]:
    """Calls in all runs and ranks of a trace, inside and outside of steps.

    Parameters
    ----------
    trace
        A profile.
    kernel_by
        What kernels are counted by, as for `profframe.diff`.

    Examples
    --------
    >>> import profframe
    >>> counts(profframe.load("examples/cpu_training.json.gz"))["profile"]
    {'runs': 1, 'steps': 3}
    """
    calls = trace.run_samples(kernel_by=kernel_by).select("what", "name", "calls")
    launches = trace.launches().select(
        pl.lit("launch").alias("what"), "name", calls=pl.col("calls") + pl.col("calls_without_work")
    )
    rows = pl.concat([calls.filter(pl.col("what") != "annotation"), launches])
    names = rows.with_columns(pl.col("name").fill_null("")).group_by("what", "name")
    sums = names.agg(pl.col("calls").sum()).filter(pl.col("calls") > 0).sort("what", "name")
    steps = trace.step_times().filter(pl.col("lack").ne_missing("cut")).select("run", "step")
    numbers = {"profile": {"runs": trace.traces["run"].n_unique(), "steps": steps.n_unique()}}
    for what, name, number in sums.iter_rows():
        numbers.setdefault(what, {})[name] = number
    return numbers


def samples(trace: Trace, limits: Sequence[Limit], kernel_by: str = "name") -> dict[str, Sampled]:
    """The metrics of limits, as ``--fail-on`` samples them: per step if there are steps, else run.

    Raises
    ------
    ParameterError
        A limit names no metric, or the trace does not have it.

    Examples
    --------
    >>> import profframe
    >>> from profframe.analysis.fail_on import limit
    >>> trace = profframe.load("examples/cpu_training.json.gz")
    >>> len(samples(trace, [limit("step=5%")])["step"].values)
    3
    """
    if not all(one.metric for one in limits):
        raise ParameterError("a limit of a test names its metric, such as step=5%")
    if not limits:
        return {}
    options: dict[str, Any] = {"per": "step" if trace.step_times().height else "run"}
    options |= {"kernel_by": kernel_by, "copies": False, "devices": False, "dtype": None}
    result = comparison(trace, trace, _SIDES, **options)
    held = check_limits(limits, (trace, trace), _SIDES, result, **options)
    return {verdict.limit.metric: verdict.measure.base for verdict in held}


def count_changes(before: Counts, now: Counts) -> list[CountChange]:
    """Counts that differ, by kind and name.

    Examples
    --------
    >>> count_changes({"op": {"mm": 2}}, {"op": {"mm": 3}})
    [CountChange(what='op', name='mm', before=2, now=3)]
    """
    changes = []
    for what in sorted({*before, *now}):
        sides = before.get(what, {}), now.get(what, {})
        for name in sorted({*sides[0], *sides[1]}):
            numbers = sides[0].get(name, 0), sides[1].get(name, 0)
            if numbers[0] != numbers[1]:
                changes.append(CountChange(what, name, *numbers))
    return changes


def verdicts(limits: Sequence[Limit], before: Samples, now: Samples) -> list[Verdict]:
    """Check limits on kept samples.

    Raises
    ------
    ParameterError
        A limit has no samples before.

    Examples
    --------
    >>> from profframe.analysis.fail_on import limit
    >>> sides = (
    ...     {"step": Sampled(("r",) * 3, times)} for times in ((100, 101, 99), (130, 131, 129))
    ... )
    >>> [verdict.is_broken for verdict in verdicts([limit("step=5%")], *sides)]
    [True]
    """
    missing = [one.metric for one in limits if one.metric not in before]
    if missing:
        raise ParameterError(f"the baseline has no samples of {', '.join(missing)}")
    pairs = {one.metric: (before[one.metric], now[one.metric]) for one in limits}
    return check(limits, {name: Measure(*pair, unit_of(name)) for name, pair in pairs.items()})


def write(path: Path, baseline: Baseline) -> None:
    """Write a baseline as JSON, the same text for the same numbers.

    Raises
    ------
    ExportError
        The file cannot be written.
    """
    document = {
        "profframe_baseline": VERSION,
        "kernel_by": baseline.kernel_by,
        "counts": baseline.counts,
        "samples": {
            metric: {"runs": sampled.runs, "values": sampled.values}
            for metric, sampled in baseline.samples.items()
        },
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def read(path: Path) -> Baseline:
    """Read a baseline.

    Raises
    ------
    SourceError
        The file cannot be read, or is no baseline of this version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not a baseline that can be read: {error}") from error
    try:
        version = document["profframe_baseline"]
        if version != VERSION:
            raise SourceError(f"{path}: a baseline of version {version!r}, not {VERSION}")
        return Baseline(
            {
                str(what): {str(name): int(number) for name, number in names.items()}
                for what, names in document["counts"].items()
            },
            {str(metric): _sampled(kept) for metric, kept in document["samples"].items()},
            str(document["kernel_by"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SourceError(f"{path}: not a baseline: {error!r}") from error


def _sampled(kept: Mapping[str, Sequence[Any]]) -> Sampled:
    runs, values = (*map(str, kept["runs"]),), (*kept["values"],)
    if not values or len(runs) != len(values) or {*map(type, values)} - {int, float}:
        raise ValueError("samples are as many numbers as runs")
    if not all(map(math.isfinite, values)):
        raise ValueError("samples are finite")
    return Sampled(runs, values)
