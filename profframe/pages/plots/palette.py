"""One colour for each class of time, work and memory, on a light and a dark background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour as ``#rrggbb``, on a light and a dark background.

    Examples
    --------
    >>> CLASSES["compute"].on("light") == CLASSES["kernel"].light
    True
    """

    light: str
    dark: str

    def on(self, ground: str) -> str:
        """The colour on a ``"light"`` or ``"dark"`` background."""
        return self.dark if ground == "dark" else self.light


_BLUE: Final = Colour("#2f6fbb", "#5f9fe6")
_ORANGE: Final = Colour("#d9730d", "#f0923b")
_PURPLE: Final = Colour("#8250c4", "#b08cf0")
_GREY: Final = Colour("#a4abb5", "#6b737e")
_SLATE: Final = Colour("#6f7f92", "#93a4b8")
_RED: Final = Colour("#c93c37", "#ee746c")
_GOLD: Final = Colour("#b88a00", "#deb13a")
_TEAL: Final = Colour("#14877b", "#3fbcae")
_GREEN: Final = Colour("#4a8f3c", "#7dbb6e")
_PINK: Final = Colour("#bf4a8c", "#e583b9")
_BROWN: Final = Colour("#8d6748", "#bd9673")
_SKY: Final = Colour("#4fa3c7", "#7cc4e3")
_OLIVE: Final = Colour("#7d8a1e", "#aebb55")

CLASSES: Final[Mapping[str, Colour]] = MappingProxyType(
    {
        # what devices do with their time
        "compute": _BLUE,
        "communication": _ORANGE,
        "exposed communication": _ORANGE,
        "copy": _PURPLE,
        "exposed copy": _PURPLE,
        "unrecorded": _GOLD,
        "idle": _GREY,
        "others": _GREY,
        # why a device has nothing to do
        "host_wait": _RED,
        "sync": _GOLD,
        "kernel_wait": _SLATE,
        "other": _GREY,
        # kinds of events
        "host_op": _GREEN,
        "annotation": _PINK,
        "python": _OLIVE,
        "runtime": _TEAL,
        "driver": _TEAL,
        "kernel": _BLUE,
        "memcpy": _PURPLE,
        "memset": _SKY,
        "graph_node": _GOLD,
        "device_annotation": _PINK,
        "overhead": _RED,
        "profiler": _GREY,
        "gil": _GOLD,
        # passes
        "forward": _BLUE,
        "backward": _ORANGE,
        # memory
        "allocated": _TEAL,
        "reserved": _SLATE,
        # steps
        "whole step": _GREEN,
        "devices busy": _BLUE,
        # waits of ranks
        "held up others": _RED,
        "waited": _GOLD,
        # what limits work
        "memory": _TEAL,
        "host": _GREEN,
        "launch": _RED,
        # what changed
        "op": _GREEN,
        "change": _RED,
        # how urgent advice is
        "high": _RED,
        "medium": _ORANGE,
        "low": _SLATE,
    }
)
"""Colours by class; `kind` of events, `cause` of gaps and `class` of kernels are among them."""

SERIES: Final = (
    _BLUE, _ORANGE, _TEAL, _PINK, _GOLD, _PURPLE, _GREEN, _RED, _SKY, _BROWN, _OLIVE, _SLATE,
)  # fmt: skip
"""Colours for what has no class: ranks, runs, streams, data types, in their order."""

INK: Final = Colour("#1f2328", "#e6e9ed")
"""Text and marks that stand out by themselves."""
FAINT: Final = Colour("#59616b", "#9aa4b0")
"""Text of axes and legends."""
GRID: Final = Colour("#e3e6ea", "#343a42")
GROUND: Final = Colour("#ffffff", "#15181c")

_ALL: Final = (*CLASSES.values(), *SERIES, INK, FAINT, GRID, GROUND)

DARK: Final[Mapping[str, str]] = MappingProxyType({c.light: c.dark for c in _ALL})
"""The dark colour for each light one, to recolour charts."""


def config(ground: str = "light") -> dict[str, object]:
    """Vega-Lite's ``config`` for text, axes and legends, which charts leave to their page.

    Parameters
    ----------
    ground
        ``"light"`` or ``"dark"``.

    Returns
    -------
    dict
        For ``vegaEmbed(..., {config})`` or `altair.theme`; a chart keeps its own colours of marks,
        which `DARK` maps.

    Examples
    --------
    >>> config("dark")["background"] == GROUND.dark
    True
    """
    ink, faint, grid = INK.on(ground), FAINT.on(ground), GRID.on(ground)
    text = {"labelColor": faint, "titleColor": faint, "titleFontWeight": "normal"}
    return {
        "background": GROUND.on(ground),
        "font": "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif",
        "view": {"stroke": None},
        "axis": text | {"gridColor": grid, "domainColor": grid, "tickColor": grid},
        "legend": text,
        "header": {"labelColor": ink, "titleColor": faint},
        "title": {"color": ink, "subtitleColor": faint, "anchor": "start", "fontSize": 14},
        "text": {"color": ink},
        "rule": {"color": faint},
    }
