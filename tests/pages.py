"""What is in a piece of HTML: its elements, its texts, and whether any of it is not ours."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

OURS: Final = frozenset(
    {"b", "bdi", "div", "pre", "span", "strong", "style", "table", "tbody", "td", "th", "thead"}
    | {"tr"}
)
"""Elements of what notebooks show."""
CLASSES: Final = frozenset(
    {
        "mathjax_ignore",
        "n",
        "note",
        "p",
        "profframe",
        "s",
        "scroll",
        "t",
        "tex2jax_ignore",
        "u",
        "up",
    }
)
_BAR: Final = re.compile(r"--part:[\d.]+%")


class Page(HTMLParser):
    """A parsed piece of HTML; an assertion fails at what is not ours or not closed.

    Attributes
    ----------
    cells : list of list of str
        Texts of the rows of all tables, headings among them.
    tips, heads : list of str
        Texts of the tooltips of cells, and of all others.
    text : str
        All texts but those of styles.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[list[str]] = []
        self.tips: list[str] = []
        self.heads: list[str] = []
        self.text = ""
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    @property
    def note(self) -> str:
        """The last line."""
        return self.text.rpartition("\n")[2]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in OURS
        self._open.append(tag)
        if tag == "tr":
            self.cells.append([])
        elif tag in ("td", "th"):
            self.cells[-1].append("")
        for name, value in attrs:
            if name == "title":
                (self.tips if tag == "td" else self.heads).append(value or "")
            elif name == "class":
                assert set((value or "").split()) <= CLASSES
                self.text += "\n" if value == "note" else ""
            else:
                assert name == "style"
                assert _BAR.fullmatch(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            self.styles.append(data)
            return
        self.text += data
        if {"td", "th"} & {*self._open}:
            self.cells[-1][-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)
