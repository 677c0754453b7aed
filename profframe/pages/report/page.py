"""The page: sections, styles, scripts and data in one file that loads no other."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profframe import __version__
from profframe.errors import MissingExtraError
from profframe.pages import vega
from profframe.pages.report import frame_columns
from profframe.pages.report.page_parts import (
    Chart,
    Flame,
    PageSection,
    Part,
    Sliders,
    TablePart,
    TimelinePart,
)
from profframe.pages.standalone import inert
from profframe.pages.timeline import scripts as timeline_scripts
from profframe.pages.timeline import style_file as timeline_style
from profframe.show import units

if TYPE_CHECKING:
    import jinja2

_HERE: Final = Path(__file__).parent
_DRAWING: Final = _HERE.parent / "drawing.js"
_FLAME: Final = _HERE.parent / "flame"
_SCRIPTS: Final = (
    "format.js", "frames.js", "places.js", "table.js", "charts.js", "sliders.js", "page.js",
)  # fmt: skip
_PACKAGES: Final = ("altair", "jinja2")


def html(title: str, summary: str, note: str, sections: Mapping[str, PageSection]) -> str:
    """The page."""
    parts = [part for section in sections.values() for part in section.leaves]
    has_charts = any(isinstance(part, Chart) for part in parts)
    has_flames = any(isinstance(part, Flame) for part in parts)
    timelines = [part for part in parts if isinstance(part, TimelinePart)]
    drawn = [
        *([_DRAWING] if has_flames or timelines else []),
        *([_FLAME / "flame.js"] if has_flames else []),
        *(timeline_scripts() if timelines else []),
    ]
    scripts = [
        *(["\n".join(map(_code, drawn))] if drawn else []),
        "\n".join(_code(_HERE / "static" / name) for name in _SCRIPTS),
    ]
    late_scripts = [vega.script()] if has_charts else []
    styles = [
        _HERE / "static" / "page.css",
        *([_FLAME / "flame.css"] if has_flames else []),
        *([timeline_style()] if timelines else []),
    ]
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=units.visible(title),
            summary=units.visible(summary),
            note=note,
            sections=sections,
            version=__version__,
            styles=[_code(path) for path in styles],
            scripts=scripts,
            late_scripts=late_scripts,
            script_hashes=" ".join(map(_hash, [*scripts, *late_scripts])),
            timelines=timelines,
            data=units.script_json(_data(parts)),
        )
    )


def check_installed() -> None:
    """Raise an error if a package that a page needs is missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"a report needs {', '.join(missing)}: pip install 'profframe[report]'"
        )


def chart_libraries() -> str:
    """Names and versions of the libraries that draw charts."""
    with vega.PATH.open(encoding="utf-8") as file:
        return file.readline().removeprefix("/*! ").partition(" and ")[0]


def _data(parts: list[Part]) -> dict[str, Any]:
    """Data for the scripts: frames and texts, charts, flame graphs, colours."""
    from profframe.pages.plots import palette

    frames, charts, flames = {}, {}, {}
    for part in parts:
        if isinstance(part, (TablePart, Sliders, Flame)):
            if part.key in frames:
                raise ValueError(f"two tables of a page would share the rows of {part.key}")
            frames[part.key] = part.view
        if isinstance(part, Flame):
            flames[part.key] = {"frame": part.key, "options": part.options}
        if isinstance(part, Chart):
            names = {name: f"{part.key}-{name}" for name in part.frames}
            frames |= {names[name]: view for name, view in part.frames.items()}
            charts[part.key] = {"spec": part.spec, "frames": names}
    return frame_columns.document(frames) | {
        "charts": charts,
        "flames": flames,
        "dark": dict(palette.DARK),
        "config": {ground: palette.config(ground) for ground in ("light", "dark")},
    }


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        finalize=_finished,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _finished(value: object) -> object:
    """A value as the page has it: texts, except code and data, name no home directory."""
    return units.without_homes(value) if type(value) is str else value


def _code(path: Path) -> str:
    """A script or style that is safe inside its element."""
    return inert(path.read_text(encoding="utf-8"))


def _hash(code: str) -> str:
    """Source expression that lets the page's policy run this script, and no other."""
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
