"""Charts in notebooks that need no network.

Altair's own renderer loads Vega from a server. This one takes its place where nobody has chosen
another: the first chart of a program brings the script, and later ones wait for it.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from typing import Any, Final

from profframe.pages import vega
from profframe.show.units import script_json

NAME: Final = "profframe"
_DEFAULT: Final = "default"
_DRAW: Final = """
(() => {
  const place = document.getElementById("%(id)s");
  const chart = %(spec)s;
  const draw = (times) => {
    if (window.vegaEmbed) {
      window.vegaEmbed(place, chart, { mode: "vega-lite" }).catch((error) => {
        place.textContent = String(error);
      });
    } else if (times) {
      setTimeout(draw, 100, times - 1);
    } else {
      place.textContent = "Run the first cell with a chart again: it brings the script that draws.";
    }
  };
  draw(100);
})();
"""


class _Script:
    """Which cell of a notebook has the script."""

    def __init__(self) -> None:
        self._is_shown = False
        self._cell: str | None = None

    def for_cell(self, cell: str | None) -> str:
        """The script, if no other cell has it."""
        if self._is_shown and (cell is None or cell != self._cell):
            return ""
        self._is_shown, self._cell = True, cell
        return f"<script>{vega.script()}</script>\n"


_SCRIPT: Final = _Script()


def enable() -> None:
    """Let altair show charts so, if it would take those of a server."""
    from altair import renderers

    if renderers.active == _DEFAULT:
        if NAME not in renderers.names():
            renderers.register(NAME, bundle)
        renderers.enable(NAME)


def bundle(spec: Mapping[str, Any], **_options: Any) -> dict[str, str]:
    """What a notebook shows for the specification of a chart: its HTML.

    Examples
    --------
    >>> sorted(bundle({"mark": "bar"}))
    ['text/html', 'text/plain']
    """
    name = f"profframe-{uuid.uuid4().hex}"
    draw = _DRAW % {"id": name, "spec": script_json(spec)}
    html = f'<div id="{name}"></div>\n{_SCRIPT.for_cell(_cell())}<script>{draw}</script>\n'
    return {"text/html": html, "text/plain": "<a chart>"}


def _cell() -> str | None:
    """The cell that runs, where a notebook says which."""
    try:
        shell = sys.modules["IPython"].get_ipython()
        return str(shell.parent_header["metadata"]["cellId"])
    except (AttributeError, LookupError, TypeError):
        return None
