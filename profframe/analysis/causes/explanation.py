"""The difference between two sides as a table of causes that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import kinds
from profframe.analysis.causes.sides import Connect, Side, side, texts
from profframe.analysis.causes.slot_rows import SIDES, slot_rows
from profframe.analysis.causes.slots import slots
from profframe.analysis.causes.tree import tree
from profframe.analysis.causes.units import KINDS
from profframe.analysis.critical_path.job import of_each
from profframe.analysis.stats import noise
from profframe.intervals import Ints

_LEVEL: Final = 0.01
"""Expected part of rows named that are noise."""
_LEAST_SHARE: Final = 1e-3
"""What takes less of a step than this is not tested: it says nothing of the step."""
_OFTEN: Final = 0.5
"""A call that fewer of the steps of its side have may be there by chance."""
_DIRECT: Final = {
    "wait": kinds.WAIT,
    "code": kinds.CODE,
    "synchronization": kinds.SYNC,
    "data_loading": kinds.LOADING,
    "recompile": kinds.RECOMPILE,
    "graph_break": kinds.BREAK,
    "nothing": kinds.CODE,
}
"""Kinds of pieces that have one cause, whatever slot they are in."""
_UNIT_COLUMNS: Final = ("sample", "slot", "kind", "line", "line_row", "sync", "part", "ns")
_AFTER_SYNC: Final = [KINDS.index(kind) for kind in ("launch", "op", "code", "nothing")]
"""Kinds of pieces that are due to a wait for a device before them that the other side lacks."""
_STRUCTURAL: Final = (
    *(kinds.SWAPPED, kinds.ADDED, kinds.REMOVED, kinds.SHAPES, kinds.TYPES),
    *(kinds.FUSED, kinds.UNFUSED, kinds.BREAK),
)
_SHOWN: Final = 3
_KEY: Final = ("cause", "base_op", "other_op", "base_kernel", "other_kernel")


SCHEMA: Final = (
    *_KEY,
    *("base_ns", "other_ns", "change_ns", "share"),
    *("change_low_ns", "change_high_ns", "p_value", "significant"),
    *("base_calls", "other_calls", "base_call_ns", "other_call_ns"),
    *("base_flops_per_s", "other_flops_per_s"),
    *("base_shapes", "other_shapes", "base_types", "other_types"),
    "places",
    *("base_run", "base_rank", "base_event_ids", "other_run", "other_rank", "other_event_ids"),
)
"""Columns of the causes."""


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
    tree : polars.DataFrame
        One row per place of the call trees, both sides aligned; see `profframe.explain`.
    """

    causes: pl.DataFrame
    base_ns: int
    other_ns: int
    base_steps: int
    other_steps: int
    tree: pl.DataFrame


def explanation(
    connects: tuple[Connect, Connect], keys: tuple[Sequence[tuple[str, int]], ...]
) -> Explanation:
    """Explain the difference of two sides, of which ``keys`` are the (run, rank)."""
    base, other = of_each(2, lambda number: side(connects[number], keys[number]))
    sides = base, other
    of = slots(base.trees, other.trees)
    about = kinds.with_causes(slot_rows(sides, of, connects))
    has_devices = base.has_devices or other.has_devices
    parts = [
        _unit_rows(name, its, own, connect)
        for name, its, own, connect in zip(SIDES, sides, (of.base, of.other), connects, strict=True)
    ]
    waits = about.select(pl.col("slot").alias("sync"), sync_alone=~pl.col("in_both"))
    rows = pl.concat(parts).join(waits, on="sync", how="left")
    after_sync = pl.col("sync_alone").fill_null(False) & pl.col("kind").is_in(_AFTER_SYNC)
    rows = rows.with_columns(
        after_sync=after_sync, slot=pl.when(after_sync).then("sync").otherwise("slot")
    ).join(about, on="slot", how="left")
    rows = _named(rows, has_devices)
    causes = _table(rows, about, sides)
    return Explanation(
        causes,
        base_ns=_mean(base),
        other_ns=_mean(other),
        base_steps=base.count,
        other_steps=other.count,
        tree=tree(rows, about, sides),
    )


def _unit_rows(name: str, of: Side, own: Ints, connect: Connect) -> pl.DataFrame:
    """Pieces of a side: sample (run and step), slot, kind, line and nanoseconds."""
    frames = []
    samples = _samples(of)
    for part, sums in enumerate(of.units):
        line = np.where(sums.line >= 0, np.append(of.slices[part].label, 0)[sums.line], 0)
        frames.append(
            pl.DataFrame(
                {
                    "sample": samples[part][sums.window],
                    "slot": own[sums.node],
                    "kind": sums.kind,
                    "line": line,
                    "line_row": sums.line,
                    "sync": np.where(sums.sync >= 0, own[sums.sync], -1),
                    "part": part,
                    "ns": sums.ns,
                },
                schema_overrides=dict.fromkeys(_UNIT_COLUMNS, pl.Int64),
            )
        )
    rows = pl.concat(frames)
    lines = (
        rows.filter(pl.col("line_row") >= 0)
        .group_by("line")
        .agg(pl.col("part", "line_row").first())
    )
    named = texts(
        connect, of, lines["part"].to_numpy().astype(np.int64), lines["line_row"].to_numpy()
    )
    lines = lines.select("line").with_columns(line_name=named["name"])
    return (
        rows.group_by("sample", "slot", "kind", "line", "sync")
        .agg(pl.col("ns").sum())
        .join(lines, on="line", how="left")
        .with_columns(side=pl.lit(name))
    )


def _samples(of: Side) -> list[Ints]:
    """Number of the sample of each window, of each part."""
    number = {key: place for place, key in enumerate(of.samples)}
    return [
        np.array([number[run, step] for step in its.step.tolist()], np.int64)
        for (run, _), its in zip(of.keys, of.windows, strict=True)
    ]


def _named(rows: pl.DataFrame, has_devices: bool) -> pl.DataFrame:
    """Pieces with their final cause, and the names by which they are added up."""
    kind = pl.col("kind").replace_strict(dict(enumerate(KINDS)))
    of_slot = pl.col("cause")
    launching = kind.is_in(["launch", "op"] if has_devices else ["launch"])
    cause = kind.replace_strict(_DIRECT, default=None, return_dtype=pl.String)
    cause = pl.coalesce(
        pl.when("after_sync").then(pl.lit(kinds.SYNC)),
        cause,
        pl.when(launching & pl.col("in_both")).then(pl.lit(kinds.LAUNCH)).otherwise(of_slot),
    )
    rows = rows.with_columns(cause=cause)
    at_place = (
        pl.col("cause").is_in([kinds.FUSED, kinds.UNFUSED, kinds.SWAPPED, kinds.BREAK])
        & ~pl.col("in_both")
        & ~pl.col("op_has_both")
    )
    alone = pl.col("cause").is_in([kinds.SAME, kinds.TRANSFER, kinds.WAIT])
    bundle = (
        pl.when(at_place)
        .then(pl.format("place {}", "place"))
        .when(alone)
        .then(pl.format("{}", "slot"))
        .when(pl.col("cause") == kinds.LAUNCH)
        .then(pl.lit("launch"))
        .when(pl.col("line_name").is_not_null())
        .then(pl.format("line {}", "line"))
        .otherwise(pl.format("{}", "group"))
    )
    return rows.with_columns(bundle=bundle)


def _bundles(rows: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """The names of each (cause, bundle)."""
    slot = rows.select("cause", "bundle", "slot").unique()
    members = slot.join(about.drop("cause"), on="slot", how="left")
    columns = []
    for name in SIDES:
        kernel = pl.col(f"{name}_short_name").filter(pl.col("is_work"))
        columns += [
            _joined(kernel).alias(f"{name}_kernel"),
            _joined(pl.col(f"group_{name}_name")).alias(f"{name}_op"),
            pl.col(f"op_{name}_shapes").drop_nulls().first().alias(f"{name}_shapes"),
            pl.col(f"op_{name}_types").drop_nulls().first().alias(f"{name}_types"),
            pl.col(f"{name}_event_id").drop_nulls().alias(f"{name}_event_ids"),
            pl.col(f"{name}_run").drop_nulls().first(),
            pl.col(f"{name}_rank").drop_nulls().first(),
            *_work(name),
        ]
    return members.sort("slot").group_by("cause", "bundle", maintain_order=True).agg(columns)


def _work(name: str) -> list[pl.Expr]:
    """Work of a side per step: its number, its time, and of what has known FLOPs these and time."""
    calls = pl.when("is_work").then(f"{name}_calls").otherwise(0.0)
    took = calls * pl.col(f"{name}_call_ns")
    flops = pl.col(f"{name}_flops")
    return [
        calls.sum().alias(f"{name}_calls"),
        took.sum().alias(f"{name}_took"),
        (calls * flops).sum().alias(f"{name}_flops"),
        took.filter(flops.is_not_null()).sum().alias(f"{name}_flops_took"),
    ]


def _per_call(name: str) -> list[pl.Expr]:
    """Time of a piece of work, and the rate of what has known FLOPs."""
    calls, took, flops, flops_took = (
        pl.col(f"{name}_{of}") for of in ("calls", "took", "flops", "flops_took")
    )
    return [
        pl.when(calls > 0).then((took / calls).round().cast(pl.Int64)).alias(f"{name}_call_ns"),
        pl.when((flops > 0) & (flops_took > 0))
        .then(1e9 * flops / flops_took)
        .alias(f"{name}_flops_per_s"),
    ]


def _joined(names: pl.Expr) -> pl.Expr:
    """Distinct names as one text: the first few, and how many more."""
    names = names.drop_nulls().unique().sort()
    more = names.len().cast(pl.Int64) - _SHOWN
    text = names.head(_SHOWN).str.join(" + ")
    return (
        pl.when(more > 0)
        .then(pl.format("{} + {} more", text, more))
        .otherwise(text.replace("", None))
    )


def _table(rows: pl.DataFrame, about: pl.DataFrame, sides: tuple[Side, Side]) -> pl.DataFrame:
    names = _bundles(rows, about)
    lines = rows.group_by("cause", "bundle").agg(pl.col("line_name").drop_nulls().first())
    names = names.join(lines, on=["cause", "bundle"], how="left")
    is_code = pl.col("cause") == kinds.CODE
    is_launch = pl.col("cause") == kinds.LAUNCH
    names = names.with_columns(
        pl.when(is_code)
        .then(pl.coalesce("line_name", f"{name}_op"))
        .when(is_launch)
        .then(None)
        .otherwise(f"{name}_op")
        .alias(f"{name}_op")
        for name in SIDES
    ).with_columns(
        pl.when(is_code | is_launch).then(None).otherwise(f"{name}_kernel").alias(f"{name}_kernel")
        for name in SIDES
    )
    keyed = names.with_columns(row=pl.struct(_KEY).rank("dense").cast(pl.Int64) - 1)
    values = rows.join(keyed.select("cause", "bundle", "row"), on=["cause", "bundle"])
    table = (
        keyed.group_by("row")
        .agg(
            pl.col(_KEY).first(),
            pl.col(
                "base_shapes",
                "other_shapes",
                "base_types",
                "other_types",
                "base_run",
                "base_rank",
                "other_run",
                "other_rank",
            ).first(),
            pl.col("base_event_ids", "other_event_ids").explode(),
            *(
                pl.col(f"{name}_{of}").sum()
                for name in SIDES
                for of in ("calls", "took", "flops", "flops_took")
            ),
            pl.len().alias("places"),
        )
        .sort("row")
        .with_columns(column for name in SIDES for column in _per_call(name))
    )
    tests = _tests(values, table.height, sides)
    table = pl.concat([table, tests], how="horizontal")
    return _summed(_named_or_noise(table, values, sides), sides)


def _named_or_noise(
    table: pl.DataFrame, values: pl.DataFrame, sides: tuple[Side, Side]
) -> pl.DataFrame:
    """Rows that are more than noise; of the others those of a cause that is so as a whole.

    Other calls are no noise, however little they take, unless only some steps have them. What is
    left is one row.
    """
    base, other = sides
    table = table.filter(pl.col("base_total") * other.count != pl.col("other_total") * base.count)
    often = pl.max_horizontal("base_present", "other_present") >= _OFTEN
    is_certain = pl.col("cause").is_in(_STRUCTURAL) & often
    is_noise = (~pl.col("significant") & ~is_certain).fill_null(False)
    rest = table.filter(is_noise)
    if rest.is_empty():
        return table
    causes = rest.group_by("cause", maintain_order=True).agg(places=pl.len()).with_row_index("of")
    numbers = rest.select("row", "cause").join(causes.select("cause", "of"), on="cause")
    of_causes = values.join(numbers.select("row", "of"), on="row").with_columns(
        row=pl.col("of").cast(pl.Int64)
    )
    tests = _tests(of_causes, causes.height, sides)
    causes = pl.concat([causes.drop("of"), tests], how="horizontal")
    small = causes.filter(~pl.col("significant"))
    pooled = small.select(
        pl.col("base_total", "other_total", "places").sum(), cause=pl.lit(kinds.NOISE)
    )
    others = [part for part in (causes.filter("significant"), pooled) if part.height]
    return pl.concat([table.filter(~is_noise), *others], how="diagonal_relaxed")


def _tests(values: pl.DataFrame, height: int, sides: tuple[Side, Side]) -> pl.DataFrame:
    """Totals of each row on both sides, and whether they differ by more than noise."""
    totals, present, measured = {}, {}, []
    for name, its in zip(SIDES, sides, strict=True):
        own = values.filter(pl.col("side") == name)
        sums = own.group_by("row", "sample").agg(pl.col("ns").sum()).sort("row", "sample")
        total = np.zeros(height, np.int64)
        np.add.at(total, sums["row"].to_numpy(), sums["ns"].to_numpy())
        totals[f"{name}_total"] = total
        runs = _sample_runs(its)
        times = np.bincount(sums["row"].to_numpy(), minlength=height)
        present[f"{name}_present"] = times / max(runs.size, 1)
        per = _windows_of(its, runs.size)
        measured.append(
            noise.Samples(
                sums["row"].to_numpy(),
                sums["sample"].to_numpy(),
                sums["ns"].to_numpy() / per[sums["sample"].to_numpy()],
                height,
                runs,
            )
        )
    columns: dict[str, object] = {**totals, **present}
    if height and any(of.is_repeated for of in measured):
        result = noise.compare(measured[0], measured[1])
        sizes = np.maximum(
            *(
                totals[f"{name}_total"] / max(of.count, 1)
                for name, of in zip(SIDES, sides, strict=True)
            )
        )
        large = sizes >= _LEAST_SHARE * max(map(_mean, sides))
        q = np.ones(height)
        q[large] = noise.false_discovery(result.p[large])
        columns |= {
            "change_low_ns": result.low,
            "change_high_ns": result.high,
            "p_value": result.p,
            "significant": q <= _LEVEL,
        }
    else:
        none = [None] * height
        columns |= {
            "change_low_ns": none,
            "change_high_ns": none,
            "p_value": none,
            "significant": none,
        }
    types = {
        "change_low_ns": pl.Float64,
        "change_high_ns": pl.Float64,
        "p_value": pl.Float64,
        "significant": pl.Boolean,
    }
    return pl.DataFrame(columns, schema_overrides=types)


def _sample_runs(of: Side) -> Ints:
    """Number of the run of each sample, ascending."""
    runs = pl.Series([run for run, _ in of.samples], dtype=pl.String)
    return runs.rle_id().cast(pl.Int64).to_numpy()


def _windows_of(of: Side, count: int) -> Ints:
    """Number of windows of each sample."""
    samples = np.concatenate(_samples(of)) if of.windows else np.zeros(0, np.int64)
    return np.bincount(samples, minlength=count)


def _summed(kept: pl.DataFrame, sides: tuple[Side, Side]) -> pl.DataFrame:
    """Whole nanoseconds that add up."""
    base, other = sides
    kept = kept.filter(pl.col("base_total") * other.count != pl.col("other_total") * base.count)
    change = _apportioned(
        (kept["other_total"] * base.count - kept["base_total"] * other.count).to_numpy(),
        max(base.count * other.count, 1),
        _mean(other) - _mean(base),
    )
    mean = (pl.col("base_total") / max(base.count, 1)).round().cast(pl.Int64)
    kept = kept.with_columns(base_ns=mean, change_ns=pl.Series(change, dtype=pl.Int64))
    kept = kept.with_columns(other_ns=pl.col("base_ns") + pl.col("change_ns"))
    whole = pl.col("change_ns").sum()
    kept = kept.with_columns(share=pl.when(whole != 0).then(pl.col("change_ns") / whole))
    return kept.select(SCHEMA).sort(
        pl.col("change_ns").abs(), *_KEY, descending=[True, *([False] * len(_KEY))], nulls_last=True
    )


def _apportioned(parts: Ints, denominator: int, total: int) -> Ints:
    """Fractions in whole numbers that add up to a total: those with the largest rest go up."""
    whole, rest = parts // denominator, parts % denominator
    missing = total - int(whole.sum())
    up = np.argsort(-rest, kind="stable")[: max(missing, 0)]
    down = np.argsort(rest, kind="stable")[: max(-missing, 0)]
    whole[up] += 1
    whole[down] -= 1
    return whole


def _mean(of: Side) -> int:
    """Mean length of a step, rounded half up."""
    return (2 * of.length + of.count) // (2 * of.count) if of.count else 0
