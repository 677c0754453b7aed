"""Strings that JSON does not allow: where they end, and what they hold.

Strict JSON is tried first: a string that ends before something that may follow is taken as it is.
The end is guessed only if that fails.
"""

from __future__ import annotations

import re
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
"""Characters that may need a repair."""
_MARK: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|"')
"""An escape, a backslash that begins no escape, or a quote."""
_FARTHEST: Final = 64 << 10
"""Characters within which the end of a string is searched."""

_KEY: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*:'
_CUT: Final = r'\Z|,\s*\Z|,\s*"[^"]*+\Z'
"""The text is cut here: anything may follow."""
_AFTER: Final = {
    "member": re.compile(rf"\s*(?:\}}|,\s*\}}|,\s*{_KEY}|{_CUT})"),
    "item": re.compile(r'\s*(?:\]|,\s*[\[{"\d\-\]tfnNI]|\Z|,\s*\Z)'),
}
"""What may follow the quote that ends a string, by where the string is."""
_AFTER_ESCAPED: Final = re.compile(
    r'\s*(?:,\s*"[^"\\]*+"\s*:|[}\]](?:\s*[}\]])*+\s*(?:,\s*(?:\{\s*)?"[^"\\]*+"\s*:|\Z))'
)
"""What may follow an escaped quote that ends a string; in JSON inside a string the next quote is
escaped, too."""
_REST_OF_KEY: Final = re.compile(r'[^"\\\n]*+"\s*:\s*["\d\-\[{tfn]')
_AFTER_BROKEN: Final = re.compile(
    rf'\s*(?:[}}\]{{]|{_KEY}|,\s*[,{{}}\]]|,\s*\w+\s*:|,\s*"[^"\\]*+"\s*[,}}\]\[{{"\d\-])'
)
"""What may follow a valid string next to something broken."""


def is_unicode(text: str) -> bool:
    r"""Whether text that Python's lenient decoder accepts is valid Unicode throughout.

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
    """A quote opens a string that does not seem to end."""


def end_of(text: str, start: int, role: str) -> tuple[int, int] | None:
    """Where a string ends, and where what follows it begins; None if it has no end in the text.

    Between the two is a quote, or nothing where the quote is missing.

    Parameters
    ----------
    text
        The JSON.
    start
        Place of the opening quote.
    role
        The string is the value of a ``member``, or an ``item`` of an array.

    Raises
    ------
    NoEndError
        When no quote seems to end it.

    Examples
    --------
    >>> end_of('{"a": "say "hi"", "b": 1}', 6, "member")
    (15, 16)
    >>> end_of('{"a": "hi, "b": 1}', 6, "member")
    (9, 9)
    """
    strict = WHOLE.match(text, start)
    if strict is not None:
        stop = strict.end()
        if _AFTER[role].match(text, stop) or _AFTER_BROKEN.match(text, stop):
            return stop - 1, stop
        if role == "member" and _REST_OF_KEY.match(text, stop):
            end = _end_before_key(text, start + 1, stop - 1)
            if end is not None:
                return end, end
    is_raw = False
    for match in _MARK.finditer(text, start + 1, start + _FARTHEST):
        mark, stop = match.group(), match.end()
        if mark == "\\":
            is_raw = True
        elif mark.endswith('"'):
            after = _AFTER[role] if is_raw or mark == '"' else _AFTER_ESCAPED
            if after.match(text, stop):
                return stop - 1, stop
    if len(text) > start + _FARTHEST:
        raise NoEndError
    return None


def _end_before_key(text: str, start: int, quote: int) -> int | None:
    """Where a string ends if the next quote opens a key of the same object or of the next one."""
    before = text[start:quote].rstrip()
    is_next = before.endswith("{")
    if is_next:
        before = before[:-1].rstrip()
    if not before.endswith(","):
        return None
    before = before[:-1].rstrip()
    content = before.rstrip("}] \t\r\n")
    if content.endswith('\\"'):  # a raw backslash, and this was the quote
        return None
    return start + len(content if is_next else before)


def content_of(text: str) -> tuple[str, list[str]]:
    r"""What is between two quotes, as JSON writes it, and the names of its repairs.

    Parameters
    ----------
    text
        Decoded with ``surrogateescape``.

    Examples
    --------
    >>> content_of('say "hi"')
    ('say \\"hi\\"', ['raw_quote'])
    """
    repairs: list[str] = []
    if not _ODD.search(text):
        return text, repairs
    marks = {mark.group() for mark in _MARK.finditer(text)}
    if '"' in marks:
        repairs.append("raw_quote")
    if "\\" in marks:
        repairs.append("raw_backslash")
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    elif '"' in marks:
        text = _MARK.sub(lambda m: '\\"' if m.group() == '"' else m.group(), text)
    if _CONTROL.search(text):
        repairs.append("control_byte")
        text = _CONTROL.sub(lambda m: f"\\u{ord(m.group()):04x}", text)
    if _BAD_BYTE.search(text):
        repairs.append("invalid_utf8")
        text = _BAD_BYTE.sub("\ufffd", text)
    if _HALF.search(text) and not is_unicode(text):
        repairs.append("lone_surrogate")
        text = _SURROGATE.sub(lambda m: r"\ufffd" if m.group(1) else m.group(), text)
    return text, repairs
