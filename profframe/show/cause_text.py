"""An explanation as a table: what changed, and by how much of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from profframe.show import terminal, units
from profframe.show.columns import are_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from rich.console import RenderableType

    from profframe.analysis.causes.explanation import Explanation

WORDS: Final = {
    "kernel_swapped": "kernel swapped",
    "kernel_time": "same kernel",
    "calls_added": "calls added",
    "calls_removed": "calls removed",
    "shape_changed": "shapes changed",
    "dtype_changed": "data type changed",
    "copies": "copies",
    "fusion_made": "fused",
    "fusion_lost": "no longer fused",
    "graph_break": "graph break",
    "recompile": "compiling",
    "collective_transfer": "transfer",
    "collective_wait": "wait for a rank",
    "launch_bound": "launch-bound",
    "data_loading": "data loading",
    "synchronization": "synchronisation",
    "host_code": "host code",
    "unrecorded": "not recorded",
    "noise": "noise",
}
"""The words for each cause."""
REASONS: Final = {
    "launch_configuration": "launched differently",
    "clock": "different clock",
    "concurrent_work": "concurrent work",
}
"""The words for each reason."""
_ARROW: Final = " -> "
_MAIN: Final = ("cause", "change_ns", "what", "base_ns", "other_ns")
_NAMES: Final = terminal.Names(
    {"change_share": "share", "what": "base_op, other_op, base_kernel, other_kernel"},
    "profframe explain",
)
"""Columns of explain, of those that have another name here or are made of several."""


def title(explanation: Explanation) -> str:
    """How long a step is on both sides, or the whole trace where neither has steps.

    Examples
    --------
    >>> from profframe import explain
    >>> title(explain("examples/fp32.json.gz", "examples/bf16.json.gz")).split(":")[0]
    'Why a step takes less time'
    """
    base, other = (units.duration(ns) for ns in (explanation.base_ns, explanation.other_ns))
    change = explanation.other_ns - explanation.base_ns
    how = "more time" if change > 0 else "less time" if change < 0 else "as long"
    share = f" ({100 * change / explanation.base_ns:+,.1f} %)" if explanation.base_ns else ""
    what = "run" if explanation.base_is_whole and explanation.other_is_whole else "step"
    return f"Why a {what} takes {how}: {base}{_ARROW}{other}{share}, {_counted(explanation)}"


def _counted(explanation: Explanation) -> str:
    """What the times are of: means, or one step or trace of each side."""
    base, other = (
        units.plural(count, "whole trace" if is_whole else "step")
        for count, is_whole in (
            (explanation.base_steps, explanation.base_is_whole),
            (explanation.other_steps, explanation.other_is_whole),
        )
    )
    both = f"{base} each" if base == other else f"{base} and {other}"
    return both if explanation.base_steps == explanation.other_steps == 1 else f"mean of {both}"


def remark(explanation: Explanation, names: Sequence[str] = ("base", "other")) -> str:
    """How many launches of each side lost their work; empty if none did."""
    counts = explanation.base_lost_calls, explanation.other_lost_calls
    if not any(counts):
        return ""
    return f"warning: {units.lost_work(names, counts)}: no cause has its time"


def report(
    explanation: Explanation, top: int, name_width: int, width: int | None, note: str = ""
) -> RenderableType:
    """The largest causes as a table, below a note; without a ``width``, lines can be long."""
    causes = _causes(explanation, top, name_width, width)
    return Group(Text(note), Text(), causes) if note else causes


def _causes(
    explanation: Explanation, top: int, name_width: int, width: int | None
) -> RenderableType:
    if explanation.causes.is_empty():
        return Text(f"{title(explanation)}: nothing changed", style="bold cyan")
    more = explanation.causes.height - top
    note = f" (top {top:,} of {explanation.causes.height:,} causes)" if more > 0 else ""
    shown = rows(explanation, top, name_width)
    return terminal.table(shown, width, title(explanation) + note, main=_MAIN, names=_NAMES)


def rows(explanation: Explanation, top: int, name_width: int) -> pl.DataFrame:
    """The largest causes, with names that fit; a width of 0 leaves them whole."""
    import polars as pl

    sides = {
        name: _both(pl.col(f"base_{name}"), pl.col(f"other_{name}")) for name in ("op", "kernel")
    }
    what = pl.concat_str(sides["op"], sides["kernel"], separator=": ", ignore_nulls=True)
    cause = pl.concat_str(
        pl.col("cause").replace(WORDS),
        pl.col("reason").cast(pl.String).replace(REASONS),
        separator=": ",
        ignore_nulls=True,
    )

    def text(name: str) -> str:
        name = units.visible(name)
        return units.middle(name, name_width) if name_width else name

    share = [pl.col("share").alias("change_share")]
    return explanation.causes.head(top).select(
        cause.alias("cause"),
        "change_ns",
        *(share if are_parts(explanation.causes["share"]) else ()),
        what.map_elements(text, pl.String).fill_null("").alias("what"),
        "base_ns",
        "other_ns",
        "places",
    )


def _both(base: pl.Expr, other: pl.Expr) -> pl.Expr:
    """One name if both are the same, else both; what a side lacks is left out."""
    import polars as pl

    names = [pl.when(name == "").then(None).otherwise(name) for name in (base, other)]
    return (
        pl.when(names[0].eq_missing(names[1]))
        .then(names[0])
        .otherwise(pl.concat_str(*names, separator=_ARROW, ignore_nulls=True))
    )
