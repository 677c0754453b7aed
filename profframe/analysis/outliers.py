"""Runs and steps unlike the rest, and the ops that make them so."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from profframe.analysis.stats import typical
from profframe.analysis.stats.noise import false_discovery

LEVEL: Final = 0.01
"""Share of the outliers that may be noise, and how often there are any if everything is noise."""
METRICS: Final = (
    *("span_ns", "step_p50_ns", "op_self_ns", "kernel_ns", "exposed_communication_ns", "idle_ns"),
    *("peak_device_bytes", "peak_host_bytes"),
)
"""Columns of the answer `runs` that are searched for outliers."""
STEP_METRIC: Final = "step_ns"
LEAST: Final = 3
"""Fewest runs, or steps of a rank, of which one can be unlike the others."""
SCHEMA: Final = {
    "run": pl.String,
    "rank": pl.Int32,
    "step": pl.Int64,
    "metric": pl.String,
    "value": pl.Int64,
    "typical": pl.Int64,
    "score": pl.Float64,
    "q_value": pl.Float64,
    "what": pl.String,
    "name": pl.String,
    "spent_ns": pl.Int64,
    "typical_ns": pl.Int64,
    "excess_ns": pl.Int64,
}
"""Columns of the answer."""

SAMPLE_COLUMNS: Final = ("run", "rank", "step", "what", "name", "spent_ns")
"""Columns of `run_samples` that it reads."""
NO_SAMPLES: Final = {name: SCHEMA[name] for name in SAMPLE_COLUMNS}
"""Their types."""

_SAMPLE: Final = ("run", "rank", "step")
_OUTLIER: Final = (*_SAMPLE, "metric", "value", "typical", "score", "q_value")
_PARTS: Final = {"op_self_ns": ("op",), "kernel_ns": ("kernel",)}
"""Kinds that a metric sums up; both for any other time."""


def outlying_runs(runs: pl.DataFrame, top: int) -> pl.DataFrame:
    """Find runs that are unlike the rest."""
    long = runs.select("run", *(pl.col(name).cast(pl.Int64) for name in METRICS)).unpivot(
        index="run", variable_name="metric"
    )
    keys = long.with_columns(
        rank=pl.lit(None, pl.Int32), step=pl.lit(None, pl.Int64), group=pl.lit(0, pl.Int64)
    )
    return _outliers(keys, top, runs["span_ns"].cast(pl.Float64).median())


def outlying_steps(steps: pl.DataFrame, top: int) -> pl.DataFrame:
    """Find steps that are unlike the other steps of their run and rank."""
    trace_key = ("run", "rank")
    whole = steps.filter(pl.col("lack").is_null())
    long = whole.filter(pl.col("step_ns").count().over(trace_key) >= LEAST).select(
        *_SAMPLE,
        pl.lit(STEP_METRIC).alias("metric"),
        pl.col("step_ns").alias("value"),
        pl.struct(trace_key).rank("dense").cast(pl.Int64).alias("group"),
    )
    return _outliers(long, top)


def with_ops(outliers: pl.DataFrame, samples: pl.DataFrame, top: int) -> pl.DataFrame:
    """Add the ops and kernels whose time differs most from what is typical.

    The samples are all runs, or the same steps. A metric that is not a time has one row, with NULL.
    """
    numbered = outliers.with_row_index("number")
    excess = _excess(outliers, samples)
    contributions = numbered.join(excess, on=_SAMPLE, nulls_equal=True).filter(
        pl.col("metric").str.ends_with("_ns"),
        pl.col("excess_ns") * pl.col("score").sign() > 0,
        pl.col("metric")
        .replace_strict(_PARTS, default=["op", "kernel"], return_dtype=pl.List(pl.String))
        .list.contains(pl.col("what")),
    )
    largest = contributions.sort(
        "number", pl.col("excess_ns").abs(), "what", "name", descending=[False, True, False, False]
    ).filter(pl.int_range(pl.len()).over("number") < top)
    ops = largest.select("number", "what", "name", "spent_ns", "typical_ns", "excess_ns")
    return (
        numbered.join(ops, on="number", how="left", maintain_order="left_right")
        .select(SCHEMA.keys())
        .cast(SCHEMA)  # type: ignore[arg-type] # a mapping of types
    )


def _outliers(long: pl.DataFrame, top: int, span_ns: Any = None) -> pl.DataFrame:
    """Compare every value with the others of its group, as one set of tests."""
    parts = []
    for (metric,), group in sorted(
        long.drop_nulls("value").group_by("metric", maintain_order=True)
    ):
        values = group["value"].cast(pl.Float64).to_numpy()
        medians = typical.median_of_others(values, group["group"].to_numpy())
        scale = span_ns if str(metric).endswith("_ns") else None
        score, chance = typical.deviation(values, medians, scale)
        scores = group.with_columns(
            metric=pl.lit(metric),
            typical=pl.Series(medians).round().cast(pl.Int64, strict=False),
            score=pl.Series(score),
            chance=pl.Series(chance),
        )
        parts.append(scores.filter(pl.col("chance").is_not_nan()))
    if not parts:
        return pl.DataFrame(schema={name: SCHEMA[name] for name in _OUTLIER})
    tested = pl.concat(parts)
    corrected = tested.with_columns(q_value=pl.Series(false_discovery(tested["chance"].to_numpy())))
    outliers = corrected.filter(pl.col("q_value") <= LEVEL).with_columns(
        most=pl.col("score").abs().max().over(_SAMPLE)
    )
    order = ("most", *_SAMPLE)
    ranked = outliers.sort(
        *order,
        pl.col("score").abs(),
        "metric",
        descending=[True, *([False] * len(_SAMPLE)), True, False],
    )
    place = pl.struct(_SAMPLE).rle_id()
    return ranked.filter(place < top).select(_OUTLIER)


def _excess(outliers: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Time of each op and kernel in the outlying samples, with its typical time."""
    key = ("what", "name")
    by_step = samples["step"].null_count() < samples.height
    sample_keys = _SAMPLE if by_step else ("run",)
    # Steps are compared with those of their run and rank, runs with all others.
    among = _SAMPLE[:2] if by_step else ("all",)
    times = (
        samples.filter(pl.col("what") != "annotation")
        .group_by(*sample_keys, *key)
        .agg(pl.col("spent_ns").sum())
        .with_columns(all=0)
    )
    number = times.unique(sample_keys).group_by(among).len("samples")
    lists = times.group_by(*among, *key).agg("spent_ns").join(number, on=among)
    typical_times = lists.select(*among, *key, _median_with_zeros().alias("typical_ns"))
    outlying = outliers.select(_SAMPLE).unique().with_columns(all=0)
    return (
        outlying.join(typical_times, on=among)
        .join(times, on=[*sample_keys, *key], how="left", nulls_equal=True)
        .with_columns(pl.col("spent_ns").fill_null(0))
        .with_columns(excess_ns=pl.col("spent_ns") - pl.col("typical_ns"))
    )


def _median_with_zeros() -> pl.Expr:
    """The lower median of the times, with 0 for each sample without one."""
    # An op that most samples lack is typically 0, not the median of the samples that have it.
    zeros = pl.col("samples") - pl.col("spent_ns").list.len()
    place = (pl.col("samples") - 1) // 2
    inside = (place.cast(pl.Int64) - zeros.cast(pl.Int64)).clip(0)
    return (
        pl.when(place < zeros)
        .then(0)
        .otherwise(pl.col("spent_ns").list.sort().list.get(inside, null_on_oob=True))
    )
