"""A page around one drawing, as notebooks save it."""

from __future__ import annotations

import html
from typing import Final

from profframe.show.units import without_homes

_STYLE: Final = (
    ":root { color-scheme: light dark; } "
    "body { margin: 0; background: light-dark(#ffffff, #18191b); }"
)


def page(title: str, body: str) -> str:
    """A page with a title as text and a body as HTML."""
    title = without_homes(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n"
        f"<style>{_STYLE}</style>\n"
        f"</head>\n<body>\n{body}</body>\n</html>\n"
    )
