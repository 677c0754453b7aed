"""A page around one drawing, as notebooks save it."""

from __future__ import annotations

import html
import os
import re
from abc import ABC, abstractmethod
from typing import Final

from profframe.show.units import without_homes
from profframe.system.atomic_files import atomic_write

_ENDS: Final = re.compile("<(/script|/style|!--)", re.IGNORECASE)
_STYLE: Final = (
    ":root { color-scheme: light dark; } "
    "body { margin: 0; background: light-dark(#ffffff, #18191b); }"
)


def inert(code: str) -> str:
    r"""Code that cannot end the element that it is in.

    Examples
    --------
    >>> inert("a = '</script>'")
    "a = '<\\/script>'"
    """
    return _ENDS.sub(r"<\\\1", code)


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


class Drawing(ABC):
    """What a notebook draws, and a page holds alone."""

    __slots__ = ()

    def to_html(self) -> str:
        """The drawing as a page that loads no other file."""
        return page(self._title(), self._repr_html_())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page into a file.

        Parameters
        ----------
        path
            The file; an existing one is replaced.

        Raises
        ------
        ExportError
            It cannot be written.
        """
        with atomic_write(path) as draft:
            draft.write_text(self.to_html(), encoding="utf-8")

    @abstractmethod
    def _title(self) -> str:
        """The title of the page, as text."""

    @abstractmethod
    def _repr_html_(self) -> str:
        """The drawing as HTML, with its scripts and style."""
