"""Commands as a shell reads them, in lines that are not too long."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from profframe.errors import without_secrets
from profframe.show.units import visible

_UNREADABLE: Final = re.compile(r"[\ud800-\udfff]")
"""Bytes of a file's name that are not text."""
_SURROGATE: Final = 0xDC00
_JOINT: Final = 2
"""Width of what joins a line with the next."""


def shell_word(word: str) -> str:
    r"""A word as a shell reads it, without bytes that a terminal would interpret.

    Examples
    --------
    >>> print(shell_word("my trace.json"), shell_word("it's"), shell_word("a\x1b[31m\n"))
    'my trace.json' 'it'"'"'s' $'a\x1b[31m\n'
    """
    if visible(word) == word:
        return shlex.quote(word)
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    text = _UNREADABLE.sub(lambda match: f"\\x{(ord(match[0]) - _SURROGATE) & 0xFF:02x}", text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    shown = visible(character)
    if shown == character or not shown.startswith("\\x"):
        return shown
    return shown if ord(character) < 0x80 else f"\\u{ord(character):04x}"


def folded(words: Sequence[str], width: int | None, indent: int = 0) -> str:
    r"""Words as a command: several lines joined by backslashes if one line is too short for it.

    A path that is longer than a line continues in the next one; a shell joins the parts.

    Parameters
    ----------
    words
        Words as they are, not quoted; secrets of URLs are left out.
    width
        Columns of a line; None for any.
    indent
        Columns before the first line, and before other lines if there is room.

    Examples
    --------
    >>> print(folded(["profframe", "advice", "trace one.json"], 20))
    profframe advice \
    'trace one.json'
    >>> print(folded(["profframe", "folder/trace.json"], 12))
    profframe \
    folder/tra\
    ce.json
    """
    words = [*map(without_secrets, words)]
    quoted = [shell_word(word) for word in words]
    if width is None or indent + len(" ".join(quoted)) <= width:
        return " ".join(quoted)
    lines, line = [], " " * indent + quoted[0]
    for word, text in zip(words[1:], quoted[1:], strict=True):
        if len(line) + len(text) + _JOINT <= width:
            line += f" {text}"
            continue
        lines.append(f"{line} \\")
        line = " " * indent + text
        if len(line) + _JOINT > width:
            *begun, line = _pieces(word, width)
            lines += [f"{piece}\\" for piece in begun]
    return "\n".join([*lines, line])[indent:]


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word in quoted parts that fit into a line each."""
    while word:
        size = len(word)
        while size > 1 and len(shell_word(word[:size])) + _JOINT > width:
            size -= 1
        yield shell_word(word[:size])
        word = word[size:]
