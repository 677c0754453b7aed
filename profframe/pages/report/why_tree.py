"""The aligned trees of two sides as nodes of a page: what changed most, level by level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from profframe.pages.report.frame_columns import shortened
from profframe.pages.report.page_parts import Node, PageSection, TreePart
from profframe.show import cause_text, units
from profframe.show.kernel_names import short_name

if TYPE_CHECKING:
    from profframe.analysis.causes.explanation import Explanation

CALL: Final = "profframe.explain(base, other).tree"
_MOST: Final = 500
"""Maximum nodes of the page."""
_MOST_INSIDE: Final = 20
"""Maximum nodes inside one."""
_DEEPEST: Final = 60
_LEAST: Final = 1_000
"""Nanoseconds: a change of at least this is shown, however long a step is."""
_LONGEST: Final = 500
_Row = dict[str, Any]


def section(explanation: Explanation, names: tuple[str, str]) -> PageSection | None:
    """The section of the tree; None where nothing in it changed enough."""
    least = least_change(explanation)
    shown = selected(explanation.tree, least)
    if shown.is_empty():
        return None
    rows = {row["slot"]: row for row in shown.iter_rows(named=True)}
    inside = explanation.tree.group_by("parent").agg(pl.len())
    counts = dict(inside.iter_rows())
    nodes = tuple(_nodes(rows, counts, names, least))
    changed = explanation.tree.filter(pl.col("change_ns") != 0).height
    cut = ""
    if changed > shown.filter(pl.col("change_ns") != 0).height:
        cut = (
            f"This page has {shown.height:,} of {explanation.tree.height:,} places: of those that "
            f"changed by at least {units.duration(least)} the largest {_MOST_INSIDE} in "
            f"each, {_MOST} in all; {CALL} gives all."
        )
    about = (
        "Calls of both sides, aligned: what each takes per step including everything inside, the "
        "largest change first. Marked calls are themselves a cause, or exist on one side only."
    )
    return PageSection("Tree", about, (TreePart("Aligned calls", nodes, cut, (CALL,)),))


def least_change(explanation: Explanation) -> int:
    """The least change that is shown, in nanoseconds: 0.1 % of a step, or a microsecond."""
    return max(min(max(explanation.base_ns, explanation.other_ns) // 1000, _LEAST), 1)


def selected(tree: pl.DataFrame, least: int) -> pl.DataFrame:
    """Select the nodes to show, with all of their ancestors.

    Examples
    --------
    >>> columns = {"slot": [0, 1, 2], "parent": [-1, 0, 0], "depth": [0, 1, 1]}
    >>> changes = {"largest_change_ns": [9, 9, 3], "change_ns": [9, 9, -3]}
    >>> selected(pl.DataFrame(columns | changes), 5)["slot"].to_list()
    [0, 1]
    """
    order = ("largest_change_ns", "depth", "slot")
    shown = tree.filter(pl.col("largest_change_ns") >= least, pl.col("depth") <= _DEEPEST)
    shown = shown.sort(order, descending=[True, False, False])
    shown = shown.filter(pl.int_range(pl.len()).over("parent") < _MOST_INSIDE)
    height = -1
    while height != shown.height:
        height = shown.height
        has_parent = pl.col("parent").is_in(shown["slot"].implode())
        shown = shown.filter((pl.col("parent") < 0) | has_parent)
    return shown.head(_MOST)


def _nodes(
    rows: dict[int, _Row], counts: dict[int, int], names: tuple[str, str], least: int
) -> Iterator[Node]:
    """Nodes in preorder, children by largest change."""
    children: dict[int, list[_Row]] = {}
    for row in sorted(rows.values(), key=lambda row: (abs(row["change_ns"]), -row["slot"])):
        children.setdefault(row["parent"], []).append(row)
    stack = [(row, 0) for row in children[-1]]
    while stack:
        row, closes = stack.pop()
        own = children.get(row["slot"], [])
        cut = _cut(row, own, counts.get(row["slot"], 0) - len(own))
        yield _node(row, names, least, cut, bool(own), 0 if own else closes)
        stack += [(child, 0 if place else closes + 1) for place, child in enumerate(own)]


def _cut(row: _Row, own: list[_Row], count: int) -> str:
    if not count:
        return ""
    inside = row["change_ns"] - (row["other_self_ns"] - row["base_self_ns"])
    change = inside - sum(child["change_ns"] for child in own)
    more = "more inside" if own else "in it"
    return f"{count:,} {more}: {signed(change)}"


def _node(  # noqa: PLR0917 -- what is known of a node, and where it stands
    row: _Row, names: tuple[str, str], least: int, cut: str, has_children: bool, closes: int
) -> Node:
    change = row["change_ns"]
    alone = row["other_self_ns"] - row["base_self_ns"]
    notes = []
    if row["side"] != "both":
        notes.append(f"only in {units.visible(names[row['side'] == 'other'])}")
    if row["cause"] is not None and abs(alone) >= least:
        notes.append(cause_text.WORDS[row["cause"]])
    base, other = (units.duration(row[f"{side}_ns"]) for side in ("base", "other"))
    sides = f"{base} -> {other}"
    if has_children and abs(alone) >= least:
        sides += f"; by itself {signed(alone)}"
    full = _name(row, short=False)
    name = _name(row, short=True)
    return Node(
        name=name,
        title=full if full != name else "",
        kind="more" if change > 0 else "less" if change < 0 else "same",
        value=signed(change),
        exact=f"{change:+,} ns: {row['base_ns']:,} ns -> {row['other_ns']:,} ns",
        sides=sides,
        note=", ".join(notes),
        cut=cut,
        is_open=0 in {row["slot"], row["parent"]},
        has_children=has_children,
        closes=closes,
    )


def _name(row: _Row, *, short: bool) -> str:
    """The name of a node; both names if the sides differ."""
    present = [row[f"{side}_name"] for side in ("base", "other") if row[f"{side}_name"] is not None]
    if not present:
        return "Outside steps" if row["slot"] else "Step"
    if short and row["kind"] == "kernel":
        present = [short_name(name) for name in present]
    return " -> ".join(shortened(name, _LONGEST) for name in dict.fromkeys(present))


def signed(ns: int) -> str:
    """A change as people read it.

    Examples
    --------
    >>> signed(1_500), signed(-1_500), signed(0)
    ('+1.500 us', '-1.500 us', '0.000 us')
    """
    text = units.duration(ns)
    return f"+{text}" if ns > 0 else text
