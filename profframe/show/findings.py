"""Findings of `advice` as text: what was found, the possible gain, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from profframe.show.terminal import sentences
from profframe.show.units import duration, visible

if TYPE_CHECKING:
    import polars as pl

    from profframe.show.first_words import FirstWords

_STYLES: Final = {"high": "bold red", "medium": "bold yellow", "low": "bold cyan"}
_INDENT: Final = 8


def findings(advice: pl.DataFrame, top: int) -> RenderableType:
    """The first findings, each in a paragraph."""
    if not advice.height:
        return Text("no findings", style="dim")
    keys = [key for key in ("run", "rank") if advice[key].n_unique() > 1]
    parts: list[RenderableType] = []
    for row in advice.head(top).iter_rows(named=True):
        place = "".join(f", {key} {visible(str(row[key]))}" for key in keys)
        details = (Text(line, style="dim") for line in _details(row))
        parts += [_headline(row, place), Padding(Group(*details), (0, 0, 0, _INDENT)), Text()]
    rest = advice.height - top
    more = Text(f"{rest} more findings: --top {advice.height}")
    return Group(*parts, more) if rest > 0 else Group(*parts[:-1])


def without_rules(words: FirstWords) -> RenderableType:
    """What is said of files that no rule looks at: what matters most in them."""
    first = Text("no findings of rules, which look at times of ops and devices", style="dim")
    return Group(first, *(part for words in words.parts for part in (Text(), sentences(words))))


def headlines(advice: pl.DataFrame, top: int, title: str) -> RenderableType:
    """The first findings, each in a line."""
    several = advice["rank"].n_unique() > 1 or advice["run"].n_unique() > 1
    lines = []
    for row in advice.head(top).iter_rows(named=True):
        place = f" ({visible(row['run'])}, rank {row['rank']})" if several else ""
        lines.append(_headline(row, place))
    more = f" (top {top} of {advice.height})" if advice.height > top else ""
    return Group(Text(f"{title}{more}", style="bold cyan"), *lines)


def _headline(row: dict[str, Any], place: str) -> Text:
    severity = str(row["severity"])
    label = Text(f"{severity:{_INDENT}}", style=_STYLES.get(severity, ""))
    return label.append(f"{visible(str(row['finding']))}{place}", style="default not bold")


def _details(row: dict[str, Any]) -> list[str]:
    gain, basis, events = row["estimated_gain_ns"], row["gain_basis"], row["evidence_events"] or []
    gain_text = "gain unknown" if gain is None else f"gain about {duration(gain).strip()}"
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
