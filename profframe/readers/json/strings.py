"""Text in quotes that JSON does not allow: where it ends, and what it says.

Strict JSON goes first: text that ends where it says, before something that may follow, is taken as
it is. Only what that leads nowhere is guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

WHOLE: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""From a quote to the next one that is not escaped."""
_SURROGATE: Final = re.compile(
    r"\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(u[dD][89a-fA-F][0-9a-fA-F]{2}))",
    re.DOTALL,
)
"""Every escape; the group is half a surrogate pair without the other half."""
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BAD_BYTE: Final = re.compile("[\udc80-\udcff]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_ODD: Final = re.compile('[\\\\"\x00-\x1f\udc80-\udcff]')
"""What text has that may need mending."""
_MARK: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|"')
"""An escape, a backslash that begins none, or a quote."""
_FARTHEST: Final = 64 << 10
"""Letters in which the end of a text is guessed at."""

_KEY: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*:'
_CUT: Final = r'\Z|,\s*\Z|,\s*"[^"]*+\Z'
"""The text goes on elsewhere: anything may follow."""
_AFTER: Final = {
    "member": re.compile(rf"\s*(?:\}}|,\s*\}}|,\s*{_KEY}|{_CUT})"),
    "item": re.compile(r'\s*(?:\]|,\s*[\[{"\d\-\]tfnNI]|\Z|,\s*\Z)'),
}
"""What may stand behind the quote that ends a text, by where the text is."""
_AFTER_ESCAPED: Final = re.compile(
    r'\s*(?:,\s*"[^"\\]*+"\s*:|[}\]](?:\s*[}\]])*+\s*(?:,\s*(?:\{\s*)?"[^"\\]*+"\s*:|\Z))'
)
"""What may stand behind an escaped quote that is none: JSON inside of the text escapes the next."""
_REST_OF_KEY: Final = re.compile(r'[^"\\\n]*+"\s*:\s*["\d\-\[{tfn]')
_AFTER_BROKEN: Final = re.compile(
    rf'\s*(?:[}}\]{{]|{_KEY}|,\s*[,{{}}\]]|,\s*\w+\s*:|,\s*"[^"\\]*+"\s*[,}}\]\[{{"\d\-])'
)
"""What may stand behind text that is as it should be, beside something that is not."""


def is_unicode(text: str) -> bool:
    r"""Whether text that Python's lenient decoder takes is Unicode throughout.

    Parameters
    ----------
    text
        Some JSON, decoded with ``surrogateescape``.

    Examples
    --------
    >>> is_unicode(r'"\ud83d\ude80"'), is_unicode(r'"\ud83d"'), is_unicode(r'"C:\\ud83d"')
    (True, False, True)
    """
    if not text.isascii() and _BAD_BYTE.search(text):
        return False
    return not _HALF.search(text) or not any(m.group(1) for m in _SURROGATE.finditer(text))


class NoEndError(Exception):
    """A quote opens text that nothing seems to end."""


def end_of(text: str, start: int, where: str) -> tuple[int, int] | None:
    """Where text in quotes ends, and where what follows it begins; None if it is not there.

    Between the two is a quote, or nothing: the text is not closed.

    Parameters
    ----------
    text
        The JSON.
    start
        Place of the opening quote.
    where
        The text is the value of a ``member``, or an ``item`` of an array.

    Raises
    ------
    NoEndError
        When no quote ends it as far as can be told.

    Examples
    --------
    >>> end_of('{"a": "say "hi"", "b": 1}', 6, "member")
    (15, 16)
    >>> end_of('{"a": "hi, "b": 1}', 6, "member")
    (9, 9)
    """
    strict = WHOLE.match(text, start)
    if strict is not None:
        behind = strict.end()
        if _AFTER[where].match(text, behind) or _AFTER_BROKEN.match(text, behind):
            return behind - 1, behind
        if where == "member" and _REST_OF_KEY.match(text, behind):
            end = _end_before_key(text, start + 1, behind - 1)
            if end is not None:
                return end, end
    is_raw = False
    for mark in _MARK.finditer(text, start + 1, start + _FARTHEST):
        word, behind = mark.group(), mark.end()
        if word == "\\":
            is_raw = True
        elif word.endswith('"'):
            after = _AFTER[where] if is_raw or word == '"' else _AFTER_ESCAPED
            if after.match(text, behind):
                return behind - 1, behind
    if len(text) > start + _FARTHEST:
        raise NoEndError
    return None


def _end_before_key(text: str, start: int, quote: int) -> int | None:
    """Where text ends whose next quote opens a key, of the same object or of the next one."""
    before = text[start:quote].rstrip()
    is_next = before.endswith("{")
    if is_next:
        before = before[:-1].rstrip()
    if not before.endswith(","):
        return None
    before = before[:-1].rstrip()
    inside = before.rstrip("}] \t\r\n")
    if inside.endswith('\\"'):  # a raw backslash, and this was the quote
        return None
    return start + len(inside if is_next else before)


@dataclass(frozen=True, slots=True)
class Content:
    """What is between two quotes, as JSON writes it, and the checks that found something."""

    text: str
    found: tuple[str, ...] = ()


def content_of(text: str) -> Content:
    r"""What is between two quotes, mended.

    Parameters
    ----------
    text
        Decoded with ``surrogateescape``.

    Examples
    --------
    >>> content_of('say "hi"')
    Content(text='say \\"hi\\"', found=('raw_quote',))
    """
    if not _ODD.search(text):
        return Content(text)
    found: list[str] = []
    marks = {mark.group() for mark in _MARK.finditer(text)}
    if '"' in marks:
        found.append("raw_quote")
    if "\\" in marks:
        found.append("raw_backslash")
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    elif '"' in marks:
        text = _MARK.sub(lambda m: '\\"' if m.group() == '"' else m.group(), text)
    if _CONTROL.search(text):
        found.append("control_byte")
        text = _CONTROL.sub(lambda m: f"\\u{ord(m.group()):04x}", text)
    if _BAD_BYTE.search(text):
        found.append("invalid_utf8")
        text = _BAD_BYTE.sub("\ufffd", text)
    if _HALF.search(text) and not is_unicode(text):
        found.append("lone_surrogate")
        text = _SURROGATE.sub(lambda m: r"\ufffd" if m.group(1) else m.group(), text)
    return Content(text, tuple(found))
