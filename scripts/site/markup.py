"""Markdown of texts that come from elsewhere: nothing in them is markup but `code`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from profframe.show.units import visible

_ESCAPED_PIPE: Final = r"\\|"
_PIPE: Final = re.compile(r"(?<!\\)\|")
_PUNCTUATION: Final = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: str) -> str:
    r"""Text that Markdown shows as it is.

    Examples
    --------
    >>> plain("a_b <script> {x}")
    'a\\_b \\<script\\> \\{x\\}'
    """
    return _PUNCTUATION.sub(r"\\\1", visible(text.replace("\n", " ")))


def prose(text: str) -> str:
    r"""Text in which only pairs of backticks mean something.

    Examples
    --------
    >>> prose("`a|b` of *c* and `d")
    '`a|b` of \\*c\\* and \\`d'
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(
        plain(part) if place % 2 == 0 else code(part) for place, part in enumerate(parts)
    )


def code(text: str) -> str:
    """A code span of any text; one that is empty is nothing.

    Examples
    --------
    >>> code("a`b"), code("")
    ('`` a`b ``', '')
    """
    shown = visible(text.replace("\n", " "))
    if not shown.strip():
        return ""
    ticks = "`" * (_longest_run(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") or len(ticks) > 1 else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def fence(text: str, language: str) -> list[str]:
    """Lines of a code block.

    Examples
    --------
    >>> fence("a = 1", "python")
    ['```python', 'a = 1', '```']
    """
    ticks = "`" * max(3, _longest_run(text) + 1)
    return [f"{ticks}{language}", *text.rstrip("\n").split("\n"), ticks]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Lines of a table whose cells are Markdown already.

    Examples
    --------
    >>> table(("a", "b"), [("`x|y`", "2")])
    ['| a | b |', '|---|---|', '| `x\\|y` | 2 |']
    """
    lines = [_row(heads), "|---" * len(heads) + "|"]
    return lines + [_row(row) for row in rows]


def paragraphs(lines: Sequence[str]) -> list[str]:
    """Lines of a header in paragraphs: a new one begins after each line that ends a sentence.

    Examples
    --------
    >>> paragraphs(("One, and", "the same.", "Two, ...", "and more."))
    ['One, and the same.', 'Two, ... and more.']
    """
    found = list(lines[:1])
    for above, line in pairwise(lines):
        if above.endswith(".") and not above.endswith("..."):
            found.append(line)
        else:
            found[-1] += f" {line}"
    return found


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_PIPE.sub(_ESCAPED_PIPE, cell) for cell in cells)} |"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)
