"""Findings of `advice` as text: what was found, the possible gain, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from profframe.show.empty_frames import why_empty
from profframe.show.terminal import sentences
from profframe.show.units import duration, visible

if TYPE_CHECKING:
    import polars as pl

    from profframe.show.special_files import FileSummaries

STYLES: Final = {"high": "bold red", "medium": "bold yellow", "low": "bold cyan"}
NOT_ESTIMATED: Final = "not estimated"
"""In place of a gain that nothing in the trace tells."""
_TRY_IT: Final = "nothing recorded tells how much; make the change and compare (profframe diff)"
_INDENT: Final = 8


def findings(advice: pl.DataFrame, top: int) -> RenderableType:
    """The first findings, each in a paragraph."""
    if not advice.height:
        why = why_empty(advice)
        return Text(f"no findings: {visible(why)}" if why else "no findings", style="dim")
    parts: list[RenderableType] = []
    has_runs = advice["run"].n_unique() > 1
    for row in advice.head(top).iter_rows(named=True):
        run = f", run {visible(str(row['run']))}" if has_runs else ""
        place = f"{run}, {ranks_of(row)}" if _has_several(advice) else ""
        details = (Text(line, style="dim") for line in _details(row))
        parts += [_headline(row, place), Padding(Group(*details), (0, 0, 0, _INDENT)), Text()]
    rest = advice.height - top
    more = Text(f"{rest} more findings: --top {advice.height}")
    return Group(*parts, more) if rest > 0 else Group(*parts[:-1])


def without_rules(words: FileSummaries) -> RenderableType:
    """What is shown for files that no rule looks at: what matters most in them."""
    first = Text("no findings: rules look at times of ops and devices", style="dim")
    return Group(first, *(part for words in words.parts for part in (Text(), sentences(words))))


def _has_several(advice: pl.DataFrame) -> bool:
    """Whether the findings belong to several traces."""
    return (
        advice["run"].n_unique() > 1
        or advice["rank"].n_unique() > 1
        or ("ranks" in advice.columns and bool((advice["ranks"].list.len() > 1).any()))
    )


def ranks_of(row: dict[str, Any]) -> str:
    """Its rank; or all ranks that have it, and its own: `ranks 0-3, 6, this is rank 2`."""
    ranks = row.get("ranks") or [row["rank"]]
    if len(ranks) == 1:
        return f"rank {row['rank']}"
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], rank]
        else:
            spans.append([rank])
    text = ", ".join("-".join(map(str, span)) for span in spans)
    return f"ranks {text}, this is rank {row['rank']}"


def _headline(row: dict[str, Any], place: str) -> RenderableType:
    severity = str(row["severity"])
    line = Table.grid(padding=0)
    line.add_column(width=_INDENT, no_wrap=True)
    line.add_column(overflow="fold")
    label = Text(severity, style=STYLES.get(severity, ""))
    line.add_row(label, Text(f"{visible(str(row['finding']))}{place}"))
    return line


def gain_of(row: Mapping[str, Any]) -> str:
    """Its gain, of a step if there are steps, as its text has its times; empty if not known."""
    gain, steps = row["estimated_gain_ns"], row.get("steps") or 0
    if gain is None:
        return ""
    if not gain:
        return "none"
    return f"{duration(gain / max(steps, 1))}{' per step' if steps else ''}"


def _details(row: dict[str, Any]) -> list[str]:
    basis, events = row["gain_basis"], row["evidence_events"] or []
    gain = gain_of(row)
    gain_text = (
        f"gain about {gain}" if row["estimated_gain_ns"] else f"gain {gain or NOT_ESTIMATED}"
    )
    if row["estimated_gain_ns"] is None and not basis:
        basis = _TRY_IT
    first = ", ".join(map(str, events[:5]))
    rest = ", ..." if len(events) > 5 else ""
    lines = [
        f"{gain_text}: {basis}" if basis else gain_text,
        f"where: {row['where']}" if row["where"] else "",
        f"do: {row['suggestion']}",
        f"see: {row['link']}",
        f"rule: {row['rule']}; events {first}{rest} ({row['events']} in all)",
    ]
    return [visible(line) for line in lines if line]
