"""Broken JSON made whole: every repair named and counted.

Profilers wrote all of these; the names are those of `schema.CHECKS`. The text of a sound element is
passed on as it is; only an element that does not parse is taken apart. A comma before a closing
bracket loses nothing and is not counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

DROPS: Final = ("not_an_event", "unreadable_event", "second_array")
"""Checks that drop a whole element."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SEPARATORS: Final = re.compile(r"[ \t\r\n,]*")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_KEY: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"\s*:')
_LIST_OF_OBJECTS: Final = re.compile(r"\[[\s,]*\{\s*\"")
_MORE: Final = re.compile(r"\](?:\s*[\]}])*\s*,?\s*\{")
"""A bracket that cannot be the array's own: what is behind that is a member, not an element."""
_BARE: Final = re.compile(r"[^\s,\[\]{}\":]+(?:/[^\s,\[\]{}\":]+)?")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_HEX: Final = re.compile(r"0[xX]([0-9a-fA-F]+)\Z")
_ODD: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z")
_NON_FINITE: Final = re.compile(r"[+-]?(?:nan(?:\(\w*\))?|inf(?:inity)?)\Z", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)")
_SURROGATE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_WORDS: Final = re.compile(
    r'(?:[\s,:\[\]{}]|"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)*+'
)
"""Text that holds nothing but the words of JSON, in whatever order."""
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_BAD_BYTE: Final = re.compile("[\udc80-\udcff]+")
_JUNK_END: Final = re.compile(r"[{\[\]\"]")
_AFTER_TEXT: Final = {
    "member": re.compile(r'\s*(?:\}|,\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)|\Z|,\s*\Z|,\s*"[^"]*\Z)'),
    "item": re.compile(r'\s*(?:\]|,\s*[\[{"\d\-\]tfnNI]|\Z|,\s*\Z)'),
}
"""What may stand behind the quote that ends a text, by where the text is."""


def _space_end(text: str, position: int) -> int:
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]


def _separators_end(text: str, position: int) -> int:
    return _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]


def _refuse_constant(word: str) -> None:
    raise ValueError(word)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


class _IncompleteError(Exception):
    """The text ended inside an element."""


@dataclass(slots=True)
class Repaired:
    """Elements of a JSON array, each as sound JSON text.

    ``end`` is where reading stopped: behind the closing bracket if ``closed``, at the start of an
    element that the text does not hold whole if ``incomplete``, else at the text's end.
    """

    elements: list[str]
    end: int
    closed: bool
    incomplete: bool
    found: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)


def repair(text: str) -> Repaired:
    """Read the inside of a JSON array (without its opening bracket) and mend what is broken.

    Parameters
    ----------
    text
        Decoded with ``surrogateescape``, so that bytes that are no UTF-8 are still there.

    Examples
    --------
    >>> fixed = repair('{"stream": 0x10}, {"busy": NaN}]')
    >>> fixed.elements, dict(fixed.found), fixed.closed
    (['{"stream":16}', '{"busy":null}'], {'hex_number': 1, 'non_finite_number': 1}, True)
    """
    return _Repairer(text).elements()


def read_document(text: str) -> tuple[object, Counter[str]]:
    """One whole JSON value, mended where it must be.

    Examples
    --------
    >>> read_document('{"version": N/A, "empty": , }')
    ({'version': None, 'empty': None}, Counter({'bare_word': 1, 'missing_value': 1}))
    """
    repairer = _Repairer(text)
    start = _space_end(text, 0)
    sound = _sound_value(text, start)
    try:
        value, end = sound or repairer.mended(start)
    except (_IncompleteError, RecursionError):
        repairer.note("unreadable_header", start)
        return {}, repairer.found
    if text[end:].strip():
        repairer.note("trailing_text", end)
    return value, repairer.found


def _sound_value(text: str, position: int) -> tuple[object, int] | None:
    """The value there and its end, or None where it needs mending."""
    try:
        value, end = _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None
    return (value, end) if _is_sound(text[position:end]) else None


def _is_sound(text: str) -> bool:
    """Whether text that Python's lenient decoder took is Unicode throughout."""
    return not _BAD_BYTE.search(text) and not any(m.group(1) for m in _SURROGATE.finditer(text))


class _Repairer:
    """A tolerant reader of one text; it writes sound JSON and counts what it mended."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.arrays = 0
        """Arrays that are open in the element."""
        self.seam = -1
        """Place behind what was mended last: no comma is missed there."""

    def note(self, check: str, position: int) -> None:
        self.found[check] += 1
        self.first.setdefault(check, position)

    def elements(self) -> Repaired:
        out: list[str] = []
        text, position = self.text, 0
        closed = incomplete = False
        while True:
            start, position = position, _separators_end(text, position)
            if position >= len(text):
                break
            self._check_commas(start, position, after_one=bool(out))
            self.arrays = 0
            if text[position] == "]":
                if _MORE.match(text, position):
                    position = self._drop_junk(position)
                    continue
                position, closed = position + 1, True
                break
            try:
                fixed, end = self._element(position)
            except _IncompleteError:
                incomplete = True
                break
            if fixed is not None:
                out.append(fixed)
            position = end
        return Repaired(out, position, closed, incomplete, self.found, self.first)

    def _element(self, position: int) -> tuple[str | None, int]:
        """The sound text of the element there, or None for one that is dropped, and its end."""
        text = self.text
        if _KEY.match(text, position):
            return self._object(self._bracket(position) - 1)
        if _LIST_OF_OBJECTS.match(text, position):
            return None, self._bracket(position) + 1
        if text[position] != "{":
            return None, self._not_an_object(position)
        if sound := _sound_value(text, position):
            return text[position : sound[1]], sound[1]
        before = (self.found.copy(), dict(self.first))
        try:
            return self.value(position)
        except RecursionError:
            self.found, self.first = before
            return self._too_deep(position)
        except _IncompleteError:
            self.found, self.first = before
            raise

    def mended(self, position: int) -> tuple[object, int]:
        """The value there, and its end."""
        fixed, end = self.value(position)
        return json.loads(fixed), end

    def _not_an_object(self, position: int) -> int:
        if self.text[position] in "}:":
            self.note("dropped_junk", position)
            found = _JUNK_END.search(self.text, position + 1)
            self.seam = found.start() if found else len(self.text)
            return self.seam
        _, end = self.value(position, "item")
        self.note("not_an_event", position)
        self.seam = end
        return end

    def _too_deep(self, position: int) -> tuple[str | None, int]:
        """An element nested too deep to mend, as it is: it may be sound. Its brackets end it."""
        depth = 0
        for token in _BRACKETS.finditer(self.text, position):
            if token.group() in "{[":
                depth += 1
            elif token.group() in "}]":
                depth -= 1
            if depth == 0:
                break
        else:
            raise _IncompleteError
        deep = self.text[position : token.end()]
        if _WORDS.fullmatch(deep) and _is_sound(deep):
            return deep, token.end()
        self.note("unreadable_event", position)
        return None, token.end()

    def value(self, position: int, where: str = "member") -> tuple[str, int]:
        if position >= len(self.text):
            raise _IncompleteError
        first = self.text[position]
        if first == "{":
            return self._object(position)
        if first == "[":
            return self._array(position)
        if first == '"':
            return self._string(position, where)
        return self._bare(position)

    def _space(self, position: int) -> int:
        end = _space_end(self.text, position)
        if end >= len(self.text):
            raise _IncompleteError
        return end

    def _separators(self, position: int, *, after_one: bool) -> int:
        end = _separators_end(self.text, position)
        if end >= len(self.text):
            raise _IncompleteError
        self._check_commas(position, end, after_one=after_one)
        return end

    def _check_commas(self, start: int, end: int, *, after_one: bool) -> None:
        commas = self.text.count(",", start, end)
        is_missing = after_one and not commas and start != self.seam
        is_first = commas and not after_one and start != self.seam
        if commas > 1 or is_first or (is_missing and self.text[end] not in "]}"):
            self.note("odd_comma", start)

    def _object(self, position: int) -> tuple[str, int]:
        out: list[str] = []
        position += 1
        while True:
            position = self._separators(position, after_one=bool(out))
            if self.text[position] == "}":
                return "{" + ",".join(out) + "}", position + 1
            if self.text[position] == "{" or (self.text[position] == "]" and self.arrays):
                return "{" + ",".join(out) + "}", self._bracket(position)
            if self.text[position] != '"':
                position = self._drop_junk(position)
                continue
            key, position = self._key(position)
            position = self._space(position)
            if self.text[position] == ":":
                position = self._space(position + 1)
            elif self.text[position] not in ",}]":
                self.note("missing_colon", position)
            if self.text[position] in ",}]":
                self.note("missing_value", position)
                out.append(key + ":null")
                continue
            fixed, position = self.value(position, "member")
            out.append(key + ":" + fixed)

    def _array(self, position: int) -> tuple[str, int]:
        self.arrays += 1
        items, end = self._items(position + 1)
        self.arrays -= 1
        return "[" + ",".join(items) + "]", end

    def _items(self, position: int) -> tuple[list[str], int]:
        out: list[str] = []
        while True:
            position = self._separators(position, after_one=bool(out))
            if self.text[position] == "]":
                return out, position + 1
            if self.text[position] == "}":
                return out, self._bracket(position)
            if self.text[position] == ":":
                position = self._drop_junk(position)
                continue
            fixed, position = self.value(position, "item")
            out.append(fixed)

    def _bracket(self, position: int) -> int:
        self.note("missing_bracket", position)
        self.seam = position
        return position

    def _drop_junk(self, position: int) -> int:
        self.note("dropped_junk", position)
        self.seam = position + 1
        return position + 1

    def _bare(self, position: int) -> tuple[str, int]:
        match = _BARE.match(self.text, position)
        if match is None:
            return "null", self._drop_junk(position)
        if match.end() >= len(self.text):
            raise _IncompleteError
        return self._bare_value(match.group(), position), match.end()

    def _bare_value(self, word: str, position: int) -> str:
        if word in ("true", "false", "null") or _NUMBER.match(word):
            return word
        if _NON_FINITE.match(word):
            self.note("non_finite_number", position)
            return "null"
        if found := _HEX.match(word):
            self.note("hex_number", position)
            return str(int(found.group(1), 16))
        if _ODD.match(word):
            self.note("odd_number", position)
            return _plain_number(word)
        self.note("bare_word", position)
        return "null"

    def _key(self, position: int) -> tuple[str, int]:
        match = _TEXT.match(self.text, position)
        if match is None:
            raise _IncompleteError
        return '"' + self._content(position + 1, match.end() - 1, []) + '"', match.end()

    def _string(self, position: int, where: str) -> tuple[str, int]:
        """The text that starts there; a quote ends it only where what follows it makes sense."""
        text, after = self.text, _AFTER_TEXT[where]
        quotes: list[int] = []
        search = position + 1
        while True:
            quote = text.find('"', search)
            if quote < 0:
                raise _IncompleteError
            backslashes = quote - len(text[position + 1 : quote].rstrip("\\")) - position - 1
            if after.match(text, quote + 1) and (
                backslashes % 2 == 0 or self._has_raw_backslash(position + 1, quote)
            ):
                break
            if backslashes % 2 == 0:
                quotes.append(quote)
            search = quote + 1
        return '"' + self._content(position + 1, quote, quotes) + '"', quote + 1

    def _has_raw_backslash(self, start: int, end: int) -> bool:
        return any(m.group(1) for m in _ESCAPE.finditer(self.text, start, end))

    def _content(self, start: int, end: int, quotes: list[int]) -> str:
        content = self.text[start:end]
        if quotes:
            self.note("raw_quote", quotes[0])
        if self._has_raw_backslash(start, end):
            self.note("raw_backslash", start)
            content = content.replace("\\", "\\\\").replace('"', '\\"')
        elif quotes:
            content = re.sub(r'(\\.)|"', lambda m: m.group(1) or '\\"', content, flags=re.DOTALL)
        if _CONTROL.search(content):
            self.note("control_byte", start)
            content = _CONTROL.sub(lambda m: f"\\u{ord(m.group()):04x}", content)
        if _BAD_BYTE.search(content):
            self.note("invalid_utf8", start)
            content = _BAD_BYTE.sub("\ufffd", content)
        if not _is_sound(content):
            self.note("lone_surrogate", start)
            content = _SURROGATE.sub(lambda m: "\\ufffd" if m.group(1) else m.group(), content)
        return content


def _plain_number(word: str) -> str:
    """A number that JSON does not allow (+1, 007, 5., .5), as one that it does."""
    sign = "-" if word.startswith("-") else ""
    mantissa, exponent, power = word.lstrip("+-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    number = sign + (whole.lstrip("0") or "0") + ("." + fraction if fraction else "")
    return number + exponent + power
