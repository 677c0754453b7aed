"""Metrics of runs in order of time, and where they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.stats.change_points import Change, changes
from profframe.analysis.stats.distributions import Float64
from profframe.errors import UnknownNameError

KINDS: Final = ("op", "kernel")
SCHEMA: Final = {
    "metric": pl.String,
    "run": pl.String,
    "start_ns": pl.Int64,
    "value": pl.Float64,
    "level": pl.Float64,
    "is_change": pl.Boolean,
    "ratio": pl.Float64,
    "p_value": pl.Float64,
}
"""Columns of the answer."""
SAMPLE_COLUMNS: Final = ("run", "what", "name", "spent_ns")
"""Columns of `run_samples` that it reads."""

_NO_METRIC: Final = ("run", "clock", "start_ns")


def metrics_of_runs(runs: Sequence[str]) -> list[str]:
    """Columns of the answer `runs` that are metrics."""
    return [name for name in runs if name not in _NO_METRIC]


def is_sample_metric(metric: str) -> bool:
    """Whether a metric is the time of an op or a kernel, such as ``op:aten::mm``."""
    return metric.partition(":")[0] in KINDS and ":" in metric


def metrics(
    names: Sequence[str],
    order: pl.DataFrame,
    runs: Callable[[], pl.DataFrame],
    samples: Callable[[], pl.DataFrame],
) -> dict[str, pl.DataFrame]:
    """Metrics of runs.

    Parameters
    ----------
    names
        Columns of the answer `runs`, or ``op:NAME`` and ``kernel:NAME``, with ``*`` for anything.
    order
        ``run``: all runs.
    runs, samples
        Return these answers; called if a metric needs them.

    Returns
    -------
    dict
        ``run value`` by the name of each metric; a pattern gives all that match it.

    Raises
    ------
    UnknownNameError
        There is no such metric, op or kernel.
    """
    run_rows = None if all(map(is_sample_metric, names)) else runs()
    sample_rows = samples() if any(map(is_sample_metric, names)) else None
    columns = [] if run_rows is None else metrics_of_runs(run_rows.columns)
    values = {}
    for metric in names:
        if sample_rows is not None and is_sample_metric(metric):
            for name, times in sample_metrics(sample_rows, metric):
                all_runs = order.select("run").join(times, on="run", how="left")
                values[name] = all_runs.with_columns(pl.col("value").fill_null(0))
        elif run_rows is not None and metric in columns:
            values[metric] = run_rows.select("run", pl.col(metric).alias("value"))
        else:
            raise UnknownNameError.among("metric", metric, [*columns, "op:*", "kernel:*"])
    return values


def total(samples: pl.DataFrame, what: str) -> pl.DataFrame:
    """Time of all ops or all kernels of each run, as in the columns of `runs`."""
    return samples.filter(what=what).group_by("run").agg(pl.col("spent_ns").sum().alias("value"))


def sample_metrics(samples: pl.DataFrame, metric: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """Times of the ops or kernels that a metric names.

    A metric is ``op:`` or ``kernel:`` and a name, or a pattern; a name that exists is taken as it
    is. Ranks are added up.
    """
    what, _, pattern = metric.partition(":")
    rows = samples.filter(pl.col("what") == what, pl.col("name").is_not_null())
    choices = rows["name"].unique().to_list()
    matches = sorted(name for name in choices if fnmatchcase(name, pattern))
    names = [pattern] if pattern in choices else matches
    if not names:
        raise UnknownNameError.among(what, pattern, choices)
    times = (
        rows.filter(pl.col("name").is_in(names))
        .group_by("name", "run")
        .agg(pl.col("spent_ns").sum().alias("value"))
        .partition_by("name", as_dict=True)
    )
    for name in names:
        yield f"{what}:{name}", times[name,].select("run", "value")


def trend(order: pl.DataFrame, metrics: Sequence[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """Put metrics in order, and find their changes."""
    values = np.full((len(metrics), order.height), np.nan)
    for row, (_, frame) in enumerate(metrics):
        joined = order.join(frame, on="run", how="left", maintain_order="left")
        values[row] = joined["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    frames: list[pl.DataFrame] = [pl.DataFrame(schema=SCHEMA)]
    for (name, _), series, points in zip(metrics, values, _changes(values), strict=True):
        frames.append(_rows(name, order, series, points))
    return pl.concat(frames)


def _changes(values: Float64) -> list[list[Change]]:
    """Changes of every series, as indices of runs; series with the same missing runs together."""
    valid = np.isfinite(values)
    changes_by_series: list[list[Change]] = [[] for _ in values]
    masks, which = np.unique(valid, axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        rows, runs = np.flatnonzero(which.ravel() == number), np.flatnonzero(mask)
        for row, points in zip(
            rows, changes(values[rows][:, runs], series=len(values)), strict=True
        ):
            changes_by_series[row] = [Change(int(runs[change.at]), change.p) for change in points]
    return changes_by_series


def _rows(
    name: str, order: pl.DataFrame, series: Float64, points: Sequence[Change]
) -> pl.DataFrame:
    at = [0, *(change.at for change in points), series.size]
    level = np.full(series.size, np.nan)
    for start, end in pairwise(at):
        part = series[start:end]
        if np.isfinite(part).any():
            level[start:end] = np.where(np.isfinite(part), np.nanmedian(part), np.nan)
    ratio, p = np.full(series.size, np.nan), np.full(series.size, np.nan)
    before = [np.nanmedian(series[start:end]) for start, end in pairwise(at[:-1])]
    for change, old in zip(points, before, strict=True):
        ratio[change.at] = level[change.at] / old if old else np.nan
        p[change.at] = change.p
    return order.select(
        pl.lit(name).alias("metric"),
        "run",
        "start_ns",
        pl.Series("value", series).fill_nan(None),
        pl.Series("level", level).fill_nan(None),
        pl.Series("is_change", np.isfinite(p)),
        pl.Series("ratio", ratio).fill_nan(None),
        pl.Series("p_value", p).fill_nan(None),
    )
