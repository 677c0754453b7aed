"""The page about two sides: from the step of one to that of the other, cause by cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from profframe.pages.report import why_flames
from profframe.pages.report.frame_columns import FrameView
from profframe.pages.report.page_parts import (
    ChoicePart,
    Facts,
    FactTile,
    PageSection,
    Part,
    Sentences,
    TablePart,
    Waterfall,
    WaterfallBar,
)
from profframe.pages.report.why_tree import section as tree_section
from profframe.pages.report.why_tree import signed
from profframe.show import cause_text, units

if TYPE_CHECKING:
    from profframe.analysis.causes.explanation import Explanation

CALL: Final = "profframe.explain(base, other)"
_BARS: Final = 10
"""Maximum kinds of causes, or causes, with their own bar."""
_NAME: Final = 80
"""Maximum characters of a name next to a bar."""
_FROM_NOTHING: Final = 0.2
"""Bars begin at 0 if the change is at least this share of them."""
_MARGIN: Final = 0.25
"""Otherwise, what is shown of the lowest bar, as a share of all changes."""
_MAIN: Final = (
    *("cause", "change_ns", "share", "what", "base_ns", "other_ns", "base_calls", "other_calls"),
    *("places", "significant"),
)
_DOCS: Final = {
    "cause": "kind of cause; noise: everything that differs no more than steps of one side do",
    "what": "calls and kernels, for both sides if they differ",
    "base_op": "calls of the first side",
    "other_op": "calls of the second side",
    "base_kernel": "kernels of the first side",
    "other_kernel": "kernels of the second side",
    "base_ns": "mean per step of the first side (ns)",
    "other_ns": "mean per step of the second side (ns)",
    "change_ns": "the second minus the first; all rows add up to the change of a step (ns)",
    "share": "share of the whole change",
    "change_low_ns": "confidence interval of the change, 95 %, from (ns)",
    "change_high_ns": "confidence interval of the change, 95 %, to (ns)",
    "p_value": "probability of such a change or a larger one by noise alone",
    "significant": "whether it is more than noise; empty without repeated steps",
    "base_calls": "pieces of work per step of the first side",
    "other_calls": "pieces of work per step of the second side",
    "base_shapes": "of one of the calls of the first side",
    "other_shapes": "of one of the calls of the second side",
    "base_types": "of one of the calls of the first side",
    "other_types": "of one of the calls of the second side",
    "places": "places of the call tree",
    "base_run": "run of the events of the first side",
    "base_rank": "rank of the events of the first side",
    "base_event_ids": "events of one step of the first side",
    "other_run": "run of the events of the second side",
    "other_rank": "rank of the events of the second side",
    "other_event_ids": "events of one step of the second side",
}


def sections(explanation: Explanation, names: tuple[str, str], rows: int) -> dict[str, PageSection]:
    """The sections of the page; tables have at most ``rows`` rows."""
    made = {"step": _step(explanation, names)}
    if explanation.causes.height:
        made["causes"] = _causes(explanation, rows)
    if tree := tree_section(explanation, names):
        made["tree"] = tree
        made["flames"] = why_flames.section(explanation, names)
    return made


def _step(explanation: Explanation, names: tuple[str, str]) -> PageSection:
    """How long a step is on both sides, and what leads from one to the other."""
    parts: list[Part] = [Facts(tuple(_facts(explanation, names)), (CALL,))]
    if explanation.causes.is_empty():
        parts.append(Sentences("What changed", ("Nothing changed.",), (), "", (CALL,)))
    else:
        parts.append(waterfalls(explanation, names))
    texts = (cause_text.title(explanation), cause_text.remark(explanation, names))
    about = " ".join(f"{text[:1].upper()}{text[1:]}." for text in texts if text)
    return PageSection("Step", about, tuple(parts))


def _facts(explanation: Explanation, names: tuple[str, str]) -> Iterator[FactTile]:
    sides = (
        (explanation.base_ns, explanation.base_steps),
        (explanation.other_ns, explanation.other_steps),
    )
    for name, (ns, count) in zip(names, sides, strict=True):
        label = f"Step of {units.visible(name)}"
        note = f"mean of {units.plural(count, 'step')}"
        yield FactTile(label, units.duration(ns), f"{ns:,} ns", note)
    change = explanation.other_ns - explanation.base_ns
    share = f"{100 * change / explanation.base_ns:+,.1f} %" if explanation.base_ns else ""
    yield FactTile("Change", signed(change), f"{change:+,} ns", share)
    if explanation.causes.height:
        yield FactTile("Causes", f"{explanation.causes.height:,}")


def waterfalls(explanation: Explanation, names: tuple[str, str]) -> ChoicePart:
    """Bars from the step of the first side to that of the second: by kind of cause, and largest."""
    kinds = by_kind(explanation.causes).with_columns(
        pl.col("cause").replace(cause_text.WORDS),
        note=pl.when(pl.col("causes") > 1).then(pl.format("{} causes", "causes")).otherwise(None),
    )
    shown = cause_text.rows(
        explanation,
        _BARS if explanation.causes.height > _BARS + 1 else explanation.causes.height,
        _NAME,
    )
    single = shown.select("cause", "change_ns", note="what")
    rest = explanation.causes.slice(shown.height)
    if rest.height:
        name = units.plural(rest.height, "other cause")
        others = rest.select(pl.lit(name).alias("cause"), pl.col("change_ns").sum(), note=None)
        single = pl.concat([single, others], how="vertical_relaxed")
    options = (
        ("kinds of causes", _waterfall(explanation, names, kinds)),
        ("largest causes", _waterfall(explanation, names, single)),
    )
    return ChoicePart("waterfall", "Bars", options, _from_to(names))


def _waterfall(explanation: Explanation, names: tuple[str, str], rows: pl.DataFrame) -> Waterfall:
    """Bars of rows, which lead from one side to the other."""
    changes: list[int] = rows["change_ns"].to_list()
    ends = [explanation.base_ns]
    for change in changes:
        ends.append(ends[-1] + change)
    low, high = min(ends), max(ends)
    begin = 0
    if high - low < _FROM_NOTHING * high:
        begin = max(round(low - _MARGIN * (high - low)), 0)
    width = max(high - begin, 1)

    def edges(start: int, end: int) -> tuple[float, float]:
        first, last = min(start, end), max(start, end)
        return 100 * (first - begin) / width, 100 * (last - first) / width

    def side(name: str, ns: int) -> WaterfallBar:
        at = edges(begin, ns)
        return WaterfallBar("side", units.visible(name), units.duration(ns), f"{ns:,} ns", *at)

    bars = [side(names[0], explanation.base_ns)]
    texts = rows.select("cause", "change_ns", "note").iter_rows()
    for number, (cause, change, note) in enumerate(texts):
        at = edges(ends[number], ends[number + 1])
        kind = "more" if change > 0 else "less"
        bars.append(
            WaterfallBar(kind, cause, signed(change), f"{change:+,} ns", *at, note=note or "")
        )
    bars.append(side(names[1], explanation.other_ns))
    axis = f"Bars begin at {units.duration(begin)}, not at 0." if begin else ""
    return Waterfall(_from_to(names), tuple(bars), axis, (CALL,))


def _from_to(names: tuple[str, str]) -> str:
    base, other = map(units.visible, names)
    return f"From the step of {base} to that of {other}"


def by_kind(rows: pl.DataFrame) -> pl.DataFrame:
    """Change by kind of cause, the largest first: the first few, and all others as one.

    Examples
    --------
    >>> rows = pl.DataFrame({"cause": ["copies", "noise", "copies"], "change_ns": [3, -9, 4]})
    >>> by_kind(rows).rows()
    [('noise', -9, 1), ('copies', 7, 2)]
    """
    kinds = (
        rows.group_by("cause")
        .agg(pl.col("change_ns").sum(), causes=pl.len().cast(pl.Int64))
        .sort(pl.col("change_ns").abs(), "cause", descending=[True, False])
    )
    rest = kinds.slice(_BARS)
    if rest.height < 2:
        return kinds
    name = units.plural(rest.height, "other kind")
    others = rest.select(pl.lit(name).alias("cause"), pl.col("change_ns", "causes").sum())
    return pl.concat([kinds.head(_BARS), others])


def _causes(explanation: Explanation, rows: int) -> PageSection:
    shown = explanation.causes.head(rows)
    texts = [name for name, dtype in shown.schema.items() if dtype == pl.String]
    frame = shown.with_columns(
        pl.col("cause").replace(cause_text.WORDS),
        *(pl.col(name).replace("", None) for name in texts if name != "cause"),
        what=cause_text.rows(explanation, shown.height, 0)["what"].replace("", None),
    )
    frame = frame.drop(column.name for column in frame if column.null_count() == frame.height)
    cut = ""
    if frame.height < explanation.causes.height:
        cut = (
            f"This page has {frame.height:,} of {explanation.causes.height:,} rows, those with the "
            f"largest change; {CALL}.causes gives all."
        )
    says_nothing = {name for name in ("base_calls", "other_calls") if not shown[name].sum()}
    main = tuple(name for name in _MAIN if name in frame.columns and name not in says_nothing)
    table = TablePart(
        key="causes",
        label="Causes",
        view=FrameView(frame, main, _DOCS),
        calls=(f"{CALL}.causes",),
        cut=cut,
    )
    about = (
        "Each nanosecond of the change has one cause, so the changes add up to it. "
        "The largest come first."
    )
    return PageSection("Causes", about, (table,))
