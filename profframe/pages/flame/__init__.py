"""A flame graph: the rows of the answer `flame`, drawn on a canvas by its own script.

The script (``flame.js``, after ``drawing.js``) and its style (``flame.css``) load nothing else. A
page holds both once, and calls ``flameGraph(element, columns, options)`` for each graph:
``columns`` has an array for each of `COLUMNS`, `options()` gives the options.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profframe.pages.plots import palette
from profframe.pages.standalone import Drawing
from profframe.schema import KINDS
from profframe.show import units
from profframe.show.units import script_json

if TYPE_CHECKING:
    import polars as pl

COLUMNS: Final = (
    "run", "rank", "node_id", "parent_id", "name", "kind", "direction", "calls", "self_ns",
    "self_device_ns",
)  # fmt: skip
"""Columns of the answer that are drawn."""
_HERE: Final = Path(__file__).parent
_LONGEST: Final = 500
"""Characters of a name that are passed to the script, which shows 300."""
_GREY: Final = palette.CLASSES["others"]
_COLOURS: Final[Mapping[str, palette.Colour]] = {
    **{kind: palette.CLASSES.get(kind, _GREY) for kind in KINDS},
    "others": _GREY,
    "outside": palette.CLASSES["kernel"],
}


@dataclass(frozen=True, slots=True, eq=False)
class FlameGraph(Drawing):
    """A flame graph for notebooks, with zoom, search, and a switch for device time.

    Attributes
    ----------
    data : polars.DataFrame
        Rows of the answer `flame`.

    Examples
    --------
    >>> from profframe import load
    >>> graph = FlameGraph(load("examples/cpu_training.json.gz").flame())
    >>> "<canvas" in graph.to_html(), graph.to_html().startswith("<!doctype html>")
    (False, True)
    """

    data: pl.DataFrame

    def _repr_html_(self) -> str:
        name = f"flame-{uuid.uuid4().hex}"
        call = f'flameGraph(document.getElementById("{name}"), columns, {script_json(options())});'
        return (
            f'<div class="flame-alone" id="{name}"></div>\n<style>\n{style()}</style>\n'
            f"<script>\n(() => {{\n{script()}\n{_columns(self.data)}\n{call}\n}})();\n</script>\n"
        )

    def __repr__(self) -> str:
        nodes = units.plural(self.data.height, "node")
        return f"{self._title()}: {nodes}; a notebook draws it, and .save(path) writes a page"

    def _title(self) -> str:
        runs = ", ".join(self.data["run"].unique(maintain_order=True).head(3).to_list())
        return f"Flame graph of {units.visible(runs)}" if runs else "Flame graph of nothing"


def options() -> dict[str, Any]:
    """Options for ``flameGraph``: the colour of each kind on a light and a dark background.

    Examples
    --------
    >>> len(options()["colours"]["python"])
    2
    """
    return {"colours": {kind: [colour.light, colour.dark] for kind, colour in _COLOURS.items()}}


@cache
def script() -> str:
    """The script, which defines ``flameGraph``."""
    files = (_HERE.parent / "drawing.js", _HERE / "flame.js")
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@cache
def style() -> str:
    """The style."""
    return (_HERE / "flame.css").read_text(encoding="utf-8")


def _columns(frame: pl.DataFrame) -> str:
    """JavaScript that defines the columns; each text is stored once."""
    import polars as pl

    columns = frame.select(COLUMNS).with_columns(pl.col(pl.String).str.slice(0, _LONGEST))
    is_text = {column.name: column.dtype == pl.String for column in columns}
    texts = pl.concat([columns[name] for name in COLUMNS if is_text[name]]).drop_nulls().unique()
    ids = pl.Enum(texts)
    numbers = {name: columns[name].to_list() for name in COLUMNS if not is_text[name]}
    ids_by_column = {
        name: columns[name].cast(ids).to_physical().to_list() for name in COLUMNS if is_text[name]
    }
    return (
        f"const texts = {script_json(texts.to_list())};\n"
        f"const columns = {script_json(numbers)};\n"
        f"for (const [name, ids] of Object.entries({script_json(ids_by_column)})) {{\n"
        "  columns[name] = ids.map((id) => (id === null ? null : texts[id]));\n"
        "}"
    )
