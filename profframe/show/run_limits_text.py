"""Runs compared with a baseline, as text: totals, then what got slower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from profframe.analysis.fail_on import WORDS, Verdict, unit_of
from profframe.show import columns, terminal, units
from profframe.show.empty_frames import why_empty
from profframe.show.kernel_names import short_name, shortened
from profframe.show.summary import short

if TYPE_CHECKING:
    import polars as pl


def report(
    sides: tuple[Sequence[str], Sequence[str]],
    metrics: pl.DataFrame,
    regressions: pl.DataFrame,
    *,
    top: int,
    width: int | None,
    full_names: bool = False,
) -> RenderableType:
    """The runs of both sides, how metrics differ, and which ops and kernels take longer."""
    lines = terminal.grid()
    for name, runs in zip(("baseline", "compared"), sides, strict=True):
        lines.add_row(Text(name, style="bold"), Text(_run_range(runs)), Text())
    run_metrics = metrics.filter(~metrics["metric"].str.contains(":", literal=True))
    for metric, base, other in run_metrics.select(
        "metric", "base_value", "other_value"
    ).iter_rows():
        lines.add_row(
            Text(_LABELS.get(metric, columns.heading(metric))),
            Text(values(metric, base, other)),
            Text(_part(base, other)),
        )
    if not regressions.height:
        return Group(lines, Text(), Text(units.visible(why_empty(regressions) or "no regressions")))
    note = f" (top {top:,} of {regressions.height:,})" if regressions.height > top else ""
    import polars as pl

    first = regressions.head(top).select(*_COLUMNS)
    rows = first if full_names else shortened(first, "name", kernels=pl.col("what") == "kernel")
    return Group(lines, Text(), terminal.table(rows, width, "Takes longer" + note))


def describe(metric: str, base: float, other: float) -> str:
    """A metric that exceeds its limit.

    Examples
    --------
    >>> describe("op:aten::mm", 10_000_000, 12_000_000)
    "op:'aten::mm', 10.000 ms -> 12.000 ms (+20.0 %)"
    """
    kind, colon, name = metric.partition(":")
    name = short_name(name) if kind == "kernel" else name
    subject = f"{kind}:{short(name)}" if colon else metric
    return f"{subject}, {values(metric, base, other)} {_part(base, other)}".rstrip()


def verdicts(held: Sequence[Verdict]) -> RenderableType:
    """Limits, and whether each holds."""
    lines = terminal.grid()
    for verdict in held:
        base, other = float(verdict.base), float(verdict.other)
        lines.add_row(
            Text(state(verdict)),
            Text(f"{verdict.limit.text.rjust(6)}"),
            Text(describe(verdict.limit.metric, base, other)),
            Text(remarks(verdict)),
        )
    return Group(Text("Limits", style="bold cyan"), lines)


def state(verdict: Verdict) -> str:
    """Whether a limit is broken, or holds, or holds because what is above it may be noise."""
    if verdict.is_broken:
        return "broken"
    return "holds, noise" if verdict.is_above else "holds"


def remarks(verdict: Verdict) -> str:
    """Notes on a verdict: samples, noise, and what was measured."""
    sides = (verdict.measure.base, verdict.measure.other)
    numbers = [len(side.values) for side in sides]
    parts = [verdict.measure.note] if verdict.measure.note else []
    if verdict.q_value is None:
        parts.append("not tested against noise")
    else:
        is_noise = verdict.is_above and not verdict.is_broken
        words = "above the limit, but within noise, " if is_noise else ""
        parts.append(f"{words}q = {verdict.q_value:.2g}")
    parts.append(
        "1 sample per side" if numbers == [1, 1] else "{:,} and {:,} samples".format(*numbers)
    )
    return "; ".join(parts)


def _part(base: float, other: float) -> str:
    return f"({100 * (other / base - 1):+,.1f} %)" if base else ""


def values(metric: str, base: float, other: float) -> str:
    """Both values of a metric.

    Examples
    --------
    >>> values("peak_device_bytes", 1024, 2048), values("step", 1e6, 2e6)
    ('1.00 KiB -> 2.00 KiB', '1.000 ms -> 2.000 ms')
    """
    unit = unit_of(metric) if ":" in metric or metric in WORDS else ""
    column = f"value_{unit}" if unit else metric
    numbers = [
        round(value) if column.endswith(("_ns", "_bytes")) else value for value in (base, other)
    ]
    return " -> ".join(columns.cell(column, value).strip() for value in numbers)


_LABELS = {"op_self_ns": "op self time", "kernel_ns": "kernels"}
_COLUMNS = (
    *("what", "name", "change_ns", "ratio", "base_ns", "other_ns", "pace"),
    *("change_low_ns", "change_high_ns", "q_value"),
)


def _run_range(runs: Sequence[str]) -> str:
    """The number of runs, and the first and last of them."""
    first, last = (units.visible(run) for run in (runs[0], runs[-1]))
    return f"{len(runs):,} runs, {first} to {last}" if len(runs) > 1 else first
