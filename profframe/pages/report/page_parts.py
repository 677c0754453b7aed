"""Parts of a section: facts, findings, tables, charts, sliders, flame graphs, timelines, ..."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from profframe.pages.report.frame_columns import FrameView


@dataclass(frozen=True, slots=True)
class FactTile:
    """One number of the overview."""

    label: str
    value: str
    exact: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers side by side."""

    template: ClassVar[str] = "facts.html"
    facts: tuple[FactTile, ...]
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of advice."""

    severity: str
    text: str
    suggestion: str
    gain: str = ""
    exact: str = ""
    basis: str = ""


@dataclass(frozen=True, slots=True)
class FindingsPart:
    """A list of advice."""

    template: ClassVar[str] = "findings.html"
    title: str
    findings: tuple[Finding, ...]
    none: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences about what matters most in a file."""

    template: ClassVar[str] = "sentences.html"
    title: str
    sentences: tuple[str, ...]
    excerpts: tuple[str, ...]
    hint: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TablePart:
    """Rows of one answer."""

    template: ClassVar[str] = "table.html"
    key: str
    label: str
    """Name for screen readers."""
    view: FrameView
    calls: tuple[str, ...]
    title: str = ""
    about: str = ""
    sorted: str = ""
    """Column that the rows are sorted by, and ``ascending`` or ``descending``."""
    cut: str = ""
    """Which rows are not in the page, and how to get them."""
    full_text: bool = False
    """Whether texts start uncut."""


@dataclass(frozen=True, slots=True)
class Chart:
    """An altair chart, split into its specification and its frames."""

    template: ClassVar[str] = "chart.html"
    key: str
    label: str
    """Name for screen readers."""
    spec: Mapping[str, Any]
    frames: Mapping[str, FrameView]
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """A bar of a waterfall; the edges are parts of its width, in percent."""

    kind: str
    """``side``, ``more`` or ``less``."""
    label: str
    value: str
    exact: str
    left: float
    width: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Bars that lead from one number to another."""

    template: ClassVar[str] = "waterfall.html"
    label: str
    bars: tuple[WaterfallBar, ...]
    axis: str
    """Where the bars begin, if that is not nothing."""
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChoicePart:
    """Tables, charts or waterfalls with a label each, one visible at a time."""

    template: ClassVar[str] = "choice.html"
    key: str
    legend: str
    options: tuple[tuple[str, TablePart | Chart | Waterfall], ...]
    title: str = ""

    @property
    def calls(self) -> tuple[str, ...]:
        """Calls that return its contents."""
        return tuple(call for _, part in self.options for call in part.calls)


@dataclass(frozen=True, slots=True)
class Sliders:
    """Predictions for factors that sliders choose: all of them are in the page."""

    template: ClassVar[str] = "sliders.html"
    key: str
    title: str
    about: str
    view: FrameView
    """First a column for each slider, then ``now_ns predicted_ns saved_ns saved_share``."""
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flame:
    """A flame graph."""

    template: ClassVar[str] = "flame.html"
    key: str
    label: str
    view: FrameView
    calls: tuple[str, ...]
    options: Mapping[str, object]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A timeline: its head as JSON, and its columns as text."""

    template: ClassVar[str] = "timeline.html"
    key: str
    head: str
    packed: str
    calls: tuple[str, ...]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tree that opens level by level; nodes come in preorder."""

    name: str
    title: str
    kind: str
    """``more``, ``less`` or ``same``."""
    value: str
    exact: str
    sides: str
    note: str
    """What is marked: that one side lacks it, its cause."""
    cut: str
    """What is left out inside it."""
    is_open: bool
    has_children: bool
    closes: int
    """Number of its ancestors that end with it."""


@dataclass(frozen=True, slots=True)
class TreePart:
    """A tree that opens level by level."""

    template: ClassVar[str] = "tree.html"
    label: str
    nodes: tuple[Node, ...]
    cut: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Flame graphs side by side, with a label each."""

    template: ClassVar[str] = "beside.html"
    options: tuple[tuple[str, Flame], ...]
    calls: tuple[str, ...]


Part = (
    Facts
    | FindingsPart
    | Sentences
    | TablePart
    | ChoicePart
    | Chart
    | Sliders
    | Flame
    | TimelinePart
    | Waterfall
    | TreePart
    | Beside
)


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of the page."""

    title: str
    about: str
    parts: tuple[Part, ...]

    @property
    def calls(self) -> tuple[str, ...]:
        """Calls that return its parts, each once."""
        return tuple(dict.fromkeys(call for part in self.parts for call in part.calls))

    @property
    def leaves(self) -> Iterator[Part]:
        """All parts one by one, including those of a choice, or side by side."""
        for part in self.parts:
            if isinstance(part, (ChoicePart, Beside)):
                yield from (option for _, option in part.options)
            else:
                yield part
