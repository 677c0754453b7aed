"""A timeline: lanes of slices, drawn on a canvas by its own scripts.

The scripts (those of ``static``, after ``drawing.js``) and their style load nothing else. A page
holds them once, and calls ``timeline(element, head, text)`` with the head and the text of a
`profframe.pages.timeline.page_budget.TimelineDocument`. They are written by hand: libraries that
draw timelines take an object for each slice, and there is no room for a million objects.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from profframe.pages.standalone import Drawing
from profframe.show import units

if TYPE_CHECKING:
    from profframe.pages.timeline.page_budget import TimelineDocument

_HERE: Final = Path(__file__).parent
_SCRIPTS: Final = (
    "data.js", "layout.js", "raster.js", "draw.js", "view.js", "details.js", "input.js",
    "search.js", "timeline.js",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Timeline(Drawing):
    """A timeline for notebooks, with zoom, search, and tables of what is selected.

    Attributes
    ----------
    document : profframe.pages.timeline.page_budget.TimelineDocument
        What is drawn.

    Examples
    --------
    >>> from profframe import load
    >>> lanes = load("examples/cpu_training.json.gz").plot.timeline()
    >>> lanes.to_html().startswith("<!doctype html>")
    True
    """

    document: TimelineDocument

    def _repr_html_(self) -> str:
        name = f"timeline-{uuid.uuid4().hex}"
        head = units.script_json(self.document.head)
        call = f'timeline(document.getElementById("{name}"), {head}, "{self.document.text}");'
        return (
            f'<div class="timeline-alone" id="{name}"></div>\n<style>\n{style()}</style>\n'
            f"<script>\n(() => {{\n{script()}\n{call}\n}})();\n</script>\n"
        )

    def __repr__(self) -> str:
        slices = units.plural(self.document.head["slices"], "slice")
        return f"{self._title()}: {slices}; a notebook draws it, and .save(path) writes a page"

    def _title(self) -> str:
        runs = dict.fromkeys(trace["run"] for trace in self.document.head["traces"])
        return f"Timeline of {', '.join([*runs][:3])}"


@cache
def script() -> str:
    """The scripts, which define ``timeline``."""
    files = (_HERE.parent / "drawing.js", *scripts())
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def scripts() -> tuple[Path, ...]:
    """The files of the scripts after ``drawing.js``, in their order."""
    return tuple(_HERE / "static" / name for name in _SCRIPTS)


@cache
def style() -> str:
    """The style."""
    return style_file().read_text(encoding="utf-8")


def style_file() -> Path:
    """The file of the style."""
    return _HERE / "static" / "timeline.css"
