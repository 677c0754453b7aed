"""A comparison of two sides as text: totals, then the rows that changed most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.text import Text

from profframe.analysis.fail_on import Verdict
from profframe.show import columns, run_limits_text, terminal, units
from profframe.show.empty_frames import why_empty
from profframe.show.footnotes import footnotes
from profframe.show.kernel_names import disambiguated, short_name
from profframe.show.summary import short

if TYPE_CHECKING:
    import polars as pl

_TITLES: Final[Mapping[str, str]] = {
    "op": "Ops, self time",
    "kernel": "Kernels",
    "annotation": "Annotations",
}
_TOTALS: Final[Mapping[str, str]] = {"op": "op self time", "kernel": "kernels"}
_ABOVE: Final[Mapping[str, str]] = {
    "step": "step on host",
    "busy": "devices busy",
    "idle": "devices idle",
}
UNTESTED: Final = (
    "not tested against noise: that needs several runs on each side, or steps (--per step)"
)
_NAMES: Final = terminal.Names(
    {
        "contribution_share": "contribution",
        "growth_share": "ratio",
        "likely_change": "change_low_ns, change_high_ns",
    }
)
"""Columns that are only shown, and of which they are made."""
_OF: Final[Mapping[str, str]] = {
    "growth_share": "of the first side",
    "contribution_share": "of the change of the total above",
}
"""What percentages are of, by column."""
_KEPT: Final = ("change_ns", "base_ns", "other_ns", "base_call_ns", "other_call_ns")
"""Columns that are never left out."""
_WHOLE: Final = ("likely_change",)
"""Texts that mean something else if they are cut."""
_SIDES: Final = ("base", "other")
_LEAST_ALIKE: Final = 0.2
"""Minimum share of kernel time in kernels of both sides, where names can be compared."""
_COUNTS: Final = ("added", "removed", "changed", "significant")


def report(
    rows: pl.DataFrame,
    totals: pl.DataFrame,
    above: pl.DataFrame,
    sources: tuple[str, str],
    notes: Sequence[str] = (),
    *,
    verdicts: Sequence[Verdict] = (),
    chosen: Sequence[str] = (),
    top: int,
    name_width: int,
    width: int | None,
    why: RenderableType | None = None,
) -> RenderableType:
    """The report of a comparison: totals, changes by name, and limits.

    ``notes`` are `remarks`. ``why`` is shown above the names. ``chosen`` columns are shown instead
    of a default choice, and then for all rows, because what is equal in time may differ in them.
    With a ``name_width`` of 0, names are not cut; without a ``width``, lines can have any length.
    """
    import polars as pl

    if not rows.height:
        why = why_empty(rows)
        none = "neither side has an op, a kernel or an annotation"
        return Text(f"{none}: {units.visible(why)}" if why else none)
    names = units.visible(rows["base"][0]), units.visible(rows["other"][0])
    parts: list[RenderableType] = [_heads(rows, names, sources), _sums(totals, above)]
    parts += [Text(line) for line in notes]
    if verdicts:
        parts += [Text(), run_limits_text.verdicts(verdicts)]
    if why is not None:
        parts += [Text(), why]
    for what, title in _TITLES.items():
        of_kind = rows.filter(what=what)
        changes = of_kind if chosen else of_kind.filter(pl.col("status") != "equal")
        if changes.height:
            note = f" (top {top:,} of {changes.height:,})" if changes.height > top else ""
            cells = _columns(changes.head(top), name_width, chosen)
            headings = _headings(*names)
            keep = chosen or _KEPT
            parts += [
                Text(),
                terminal.table(
                    cells,
                    width,
                    title + note,
                    headings,
                    keep=keep,
                    whole=_WHOLE,
                    names=_NAMES,
                    notes=footnotes(cells, _OF),
                ),
            ]
    if rows["p_value"].null_count() == rows.height:
        parts += [Text(), Text(UNTESTED, style="dim")]
    return Group(*parts)


def remarks(
    rows: pl.DataFrame,
    outside: pl.DataFrame,
    models: Sequence[Sequence[str]] = (),
    lost_calls: Sequence[int] = (),
) -> list[str]:
    """Caveats to read before the numbers, a line each.

    Devices of different models, what is left out, launches whose work is not in the trace, and
    whether the numbers of calls differ.
    """
    if not rows.height:
        return []
    names = rows["base"][0], rows["other"][0]
    lines = _devices(names, models)
    left_out = [rows[f"{side}_steps_left_out"][0] for side in _SIDES]
    if any(left_out):
        sides = ", ".join(
            f"{number:,} of {number + rows[f'{side}_samples'][0]:,} steps of "
            f"{units.visible(rows[side][0])}"
            for side, number in zip(("base", "other"), left_out, strict=True)
        )
        lines.append(
            f"left out as warm-up or cut off on some rank: {sides} (--steps all counts them)"
        )
    if outside.height:
        lines.append(_left_out(outside))
    if any(lost_calls):
        lines.append(f"warning: {units.lost_work(names, lost_calls)}: no number here has it")
    if line := _unlike_kernels(rows, models):
        lines.append(line)
    differ = rows["warning"].count()
    if differ:
        rest = "a row's" if differ == 1 else f"{differ:,} rows'"
        lines.append(
            f"warning: {rest} calls differ in number: totals compare different amounts of work; "
            "compare the time per call"
        )
    return lines


def _unlike_kernels(rows: pl.DataFrame, models: Sequence[Sequence[str]]) -> str:
    """What to match kernels by if hardly any has the same name on both sides."""
    import polars as pl

    kernels = rows.filter(what="kernel")
    time = pl.sum_horizontal("base_ns", "other_ns").sum()
    total = kernels.select(time).item()
    both = kernels.filter(pl.col("base_ns") > 0, pl.col("other_ns") > 0).select(time).item()
    if (
        not total
        or both >= _LEAST_ALIKE * total
        or not all(kernels[f"{s}_ns"].sum() for s in _SIDES)
    ):
        return ""
    is_same_model = all(models) and len({*map(tuple, models)}) == 1
    why = "" if is_same_model else ": devices and libraries name them differently"
    return (
        f"only {units.share(both / total)} of kernel time is in kernels that both sides have by "
        f"name{why}; --kernel-by category compares what they do"
    )


def growth(base_ns: int, other_ns: int) -> str:
    """How much a time grew, with its sign.

    Examples
    --------
    >>> growth(1000, 1138), growth(1000, 900), growth(0, 5)
    ('+13.8 %', '-10.0 %', 'from nothing')
    """
    if base_ns == 0:
        return "from nothing" if other_ns else "+0.0 %"
    return f"{100 * (other_ns - base_ns) / abs(base_ns):+,.1f} %"


def times(base_ns: int, other_ns: int) -> str:
    """Both times.

    Examples
    --------
    >>> times(12_300_000, 14_000_000)
    '12.300 ms -> 14.000 ms'
    """
    return f"{units.duration(base_ns)} -> {units.duration(other_ns)}"


def describe(what: str, name: str | None, base_ns: int, other_ns: int) -> str:
    """A sentence about a growth: of a row, or of the total if there is no name.

    Examples
    --------
    >>> describe("op", None, 10_000_000, 12_000_000)
    'op self time, 10.000 ms -> 12.000 ms (+20.0 %)'
    """
    if what == "kernel" and name is not None:
        name = short_name(name)
    subject = _TOTALS[what] if name is None else f"{what} {short(name)}, significantly"
    return f"{subject}, {times(base_ns, other_ns)} ({growth(base_ns, other_ns)})"


def _heads(rows: pl.DataFrame, names: tuple[str, str], sources: tuple[str, str]) -> RenderableType:
    """Name, source and number of samples of each side."""
    lines = terminal.grid()
    for name, source, side in zip(names, sources, ("base", "other"), strict=True):
        number = rows[f"{side}_samples"][0]
        mean = f"mean of {number:,}" if number > 1 else ""
        lines.add_row(Text(name, style="bold"), Text(units.visible(source)), Text(mean))
    return lines


def _sums(totals: pl.DataFrame, above: pl.DataFrame) -> RenderableType:
    lines = terminal.grid()
    for what, base, other in above.iter_rows():
        text, change = times(base, other), f"({growth(base, other)})"
        lines.add_row(Text(_ABOVE[what]), Text(text), Text(change), Text())
    for row in totals.iter_rows(named=True):
        what, base, other = row["what"], row["base_ns"], row["other_ns"]
        counts = ", ".join(f"{row[name]:,} {name}" for name in _COUNTS if row[name])
        has_total = what in _TOTALS
        lines.add_row(
            Text(_TOTALS.get(what, "annotations")),
            Text(times(base, other) if has_total else ""),
            Text(f"({growth(base, other)})" if has_total else ""),
            Text(counts or "nothing changed"),
        )
    return lines


def _devices(names: Sequence[str], models: Sequence[Sequence[str]]) -> list[str]:
    """The models of both sides in a line, where both have devices and they differ."""
    if not all(models) or len({*map(tuple, models)}) < 2:
        return []
    sides = (
        f"{name} on {' and '.join(of_side)}" for name, of_side in zip(names, models, strict=True)
    )
    return [units.visible(f"different devices: {', '.join(sides)}")]


def _left_out(outside: pl.DataFrame) -> str:
    """A line about what is outside all steps, and how to include it."""
    parts = [
        f"{_TOTALS[row['what']]} {times(row['base_outside_ns'], row['other_outside_ns'])}"
        for row in outside.sort("what").iter_rows(named=True)
    ]
    choice = "kernels" if outside["what"].to_list() == ["kernel"] else "all"
    return (
        f"left out because outside steps: {', '.join(parts)} per step "
        f"(--outside {choice} counts it)"
    )


def _columns(rows: pl.DataFrame, name_width: int, chosen: Sequence[str]) -> pl.DataFrame:
    """The columns that people look at first, without empty ones; or the chosen columns."""
    import polars as pl

    if name_width:
        rows = disambiguated(rows, kernels=pl.col("what") == "kernel")
    visible = {name: units.visible(name) for name in rows["name"].drop_nulls().unique()}
    texts = units.middles(visible.values(), name_width) if name_width else {}
    name = pl.col("name").replace({name: texts.get(text, text) for name, text in visible.items()})
    if chosen:
        return rows.with_columns(name).select(chosen)
    peaks = [f"{side}_{peak}_share" for peak in ("flop", "bandwidth") for side in ("base", "other")]
    optional = [name for name in ("device", *peaks) if rows[name].null_count() < rows.height]

    tests = (
        pl.when("significant").then(pl.lit("yes")).otherwise(pl.lit("")).alias("significant"),
        pl.struct("change_low_ns", "change_high_ns")
        .map_elements(_likely, pl.String)
        .alias("likely_change"),
    )
    counts_differ = rows["warning"].null_count() < rows.height
    per_call = [
        pl.when(pl.col("warning").is_not_null()).then(name).alias(name)
        for name in ("base_call_ns", "other_call_ns")
    ]
    contributes = columns.are_parts(rows["contribution"])
    has_tests = rows["p_value"].null_count() < rows.height
    return rows.select(
        name,
        *(column for column in optional if column == "device"),
        "change_ns",
        "base_ns",
        "other_ns",
        (pl.col("ratio") - 1).alias("growth_share"),
        *(per_call if counts_differ else ()),
        *(tests if has_tests else ()),
        "status",
        *([pl.col("contribution").alias("contribution_share")] if contributes else ()),
        "base_calls",
        "other_calls",
        *(column for column in optional if column != "device"),
    )


def _headings(base: str, other: str) -> dict[str, str]:
    """Headings with the names of the sides."""
    sides = {"base": base, "other": other}
    times = {f"{side}_ns": name for side, name in sides.items()}
    words = {
        "calls": "calls",
        "call_ns": "per call",
        "flop_share": "flop %",
        "bandwidth_share": "bandwidth %",
        "steps_left_out": "steps left out",
        "device_ns": "device",
        "outside_ns": "outside",
        "samples": "samples",
        "flops": "flops",
        "flops_per_s": "flop rate",
        "bytes": "bytes",
        "bytes_per_s": "rate",
    }
    others = {
        f"{side}_{column}": f"{name} {word}"
        for side, name in sides.items()
        for column, word in words.items()
    }
    return times | others | {"likely_change": "change, 95 %"}


def _likely(bounds: Mapping[str, int | None]) -> str:
    """The interval that a change is in."""
    low, high = bounds["change_low_ns"], bounds["change_high_ns"]
    return "" if low is None or high is None else f"{units.duration(low)} … {units.duration(high)}"
