"""Vega, Vega-Lite and Vega-Embed as one script, which pages and notebooks hold."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from profframe.pages.standalone import inert

PATH: Final = Path(__file__).parent / "report" / "vendor" / "vega.js"


@cache
def script() -> str:
    """The script, which defines ``window.vegaEmbed``."""
    return inert(PATH.read_text(encoding="utf-8"))
