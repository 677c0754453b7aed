"""Repair broken JSON; every repair is named and counted.

Profilers wrote all of these; the names are those of `schema.CHECKS`. The text of a valid element is
passed on as it is; only an element that does not parse is taken apart, and only its parts that do
not parse are repaired. A comma before a closing bracket loses nothing and is not counted.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from profframe.readers.json import exact
from profframe.readers.json.budget import RepairBudget
from profframe.readers.json.strict import DECODER, holds_doubled
from profframe.readers.json.strings import WHOLE, NoEndError, content_of, end_of, is_unicode

DROPS: Final = ("not_an_event", "unreadable_event", "long_event", "second_array")
"""Checks that drop a whole element."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SEPARATORS: Final = re.compile(r"[ \t\r\n,]*")
_KEY: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"\s*:')
_LIST_OF_OBJECTS: Final = re.compile(r"\[[\s,]*\{\s*\"")
_OPENING: Final = re.compile(r'\{\s*"(?:[^"\\]|\\.)*+"\s*:')
_NEXT: Final = re.compile(r'\}\s*,\s*(\{\s*"(?:[^"\\]|\\.)*+"\s*:)')
_MORE: Final = re.compile(r"\](?:\s*[\]}])*+\s*,?\s*\{")
"""A bracket that cannot be the array's own, since an element follows."""
_BARE: Final = re.compile(r"[^\s,\[\]{}\":]+(?:/[^\s,\[\]{}\":]+)?")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z", re.ASCII)
_HEX: Final = re.compile(r"0[xX]([0-9a-fA-F]+)\Z")
_LONGEST_HEX: Final = 1000
"""Digits; longer numbers are kept as text: Python takes long to read them, or refuses."""
_ODD: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)
_NON_FINITE: Final = re.compile(r"[+-]?(?:nan(?:\(\w*\))?|inf(?:inity)?)\Z", re.IGNORECASE)
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_WORDS: Final = re.compile(
    r'(?:[\s,:\[\]{}]|"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)*+'
)
"""Text of nothing but JSON tokens, in any order."""
_JUNK_END: Final = re.compile(r"[{\[\]\"]")
_DEEPEST: Final = 100
"""Depth to which objects and arrays are taken apart."""
_MOST_ALIKE: Final = 16
"""Number of nested objects that begin like the element, until they seem to be elements."""
_LONGEST_DEEP: Final = 1 << 20
"""Characters read of an element nested deeper; halved after each that does not end within them."""
_SHORTEST_DEEP: Final = 16 << 10
_MOST_BEGINS: Final = 64
"""Objects that are looked at, until it is left open where the next element begins."""
_MOST_LOOKS: Final = 16
"""How often each character of the text is looked at, on average, for where an element ends."""
_LONGEST_SPACE: Final = 100
"""Characters of a separator."""
_FEWEST_MEMBERS: Final = 3
"""Members of an object that is an element although nothing separates it from what is before."""
_MOST_REPAIRS: Final = 1 << 17
"""Repairs of one element before it is given up."""


class _Text(str):
    """Text in which `json` errors have no line number: counting lines takes as long as parsing."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return -1


def _space_end(text: str, position: int) -> int:
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]


def _separators_end(text: str, position: int) -> int:
    return _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]


class _IncompleteError(Exception):
    """The text ended inside an element."""


class _TooDeepError(Exception):
    """An element is nested too deep to be taken apart."""


class _AlikeError(Exception):
    """An element seems to contain those that follow it."""


@dataclass(slots=True)
class Repaired:
    """Elements of a JSON array, each as valid JSON text.

    ``end`` is where reading stopped: behind the closing bracket if ``closed``, at the start of an
    unfinished element if ``incomplete``, else at the text's end.
    """

    elements: list[str]
    end: int
    closed: bool
    incomplete: bool
    repairs: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)


def repair(text: str, longest: int | None = None, budget: RepairBudget | None = None) -> Repaired:
    """Read the inside of a JSON array (without its opening bracket) and repair what is broken.

    Parameters
    ----------
    text
        Decoded with ``surrogateescape``, which keeps bytes that are not UTF-8.
    longest
        Characters after which an element that does not end is given up where the next one seems to
        begin; None for no limit.
    budget
        Repairs that may be spent in vain, in this text and others.

    Examples
    --------
    >>> fixed = repair('{"stream": 0x10}, {"busy": NaN}]')
    >>> fixed.elements, dict(fixed.repairs), fixed.closed
    (['{"stream":16}', '{"busy":null}'], {'hex_number': 1, 'non_finite_number': 1}, True)
    """
    budget = budget or RepairBudget()
    repairer = _Repairer(text, budget.mark)
    return repairer.elements(len(text) if longest is None else longest, budget)


def read_document(text: str) -> tuple[object, Counter[str]]:
    """One whole JSON value, repaired where needed; `exact.dumps` writes its numbers.

    Examples
    --------
    >>> read_document('{"version": N/A, "empty": , }')
    ({'version': None, 'empty': None}, Counter({'bare_word': 1, 'missing_value': 1}))
    """
    repairer = _Repairer(text)
    start = _space_end(text, 0)
    try:
        end = repairer.sound_end(start)
        fixed = text[start:end]
        if end is None:
            fixed, end = repairer.value(start)
        value = exact.decoder(repairer.object_from).decode(fixed)
    except (_IncompleteError, _TooDeepError, NoEndError, RecursionError):
        repairer.note("unreadable_header", start)
        return {}, repairer.repairs
    if text[end:].strip():
        repairer.note("trailing_text", end)
    return value, repairer.repairs


class _Repairer:
    """A tolerant reader of one text; it writes valid JSON and counts its repairs."""

    def __init__(self, text: str, mark: str = "") -> None:
        self.text = _Text(text)
        self.mark = mark
        """Name of the member by which elements are told from objects in them; empty: none is."""
        self.marked = re.compile(rf'\{{\s*"{re.escape(mark)}"\s*:')
        self.is_unicode = is_unicode(text)
        self.next_marked = -1
        """Position of the object that was looked for last; none is before it."""
        self.looks = 0
        """Characters that were looked at for where an element ends."""
        self.repairs: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.attempts = 0
        """All repairs, including those of elements that were given up."""
        self.most_attempts = _MOST_REPAIRS
        self.is_last = False
        """Whether no text follows."""
        self.arrays = 0
        """Open arrays in the element."""
        self.depth = 0
        """Open objects and arrays."""
        self.opening = ""
        """The first bracket and key of the element."""
        self.alike = 0
        """Objects in it that begin like it."""
        self.splits = False
        """Whether those are elements, not members."""
        self.seam = -1
        """Position after the last repair: no comma is missing there."""
        self.junk_end = -1
        """Position after brackets that are certainly junk."""
        self.longest_deep = _LONGEST_DEEP
        self.has_broken_text = False
        """Whether a key, or text with raw quotes, has a line break: it goes on in another."""

    def object_from(self, pairs: exact.Pairs) -> dict[str, Any]:
        """An object from its members; counts doubled ones."""
        members = dict(pairs)
        if doubled := len(pairs) - len(members):
            self.repairs["doubled_member"] += doubled
        return members

    def note(self, check: str, position: int) -> None:
        self.attempts += 1
        if self.attempts == self.most_attempts:
            raise NoEndError
        self.repairs[check] += 1
        self.first.setdefault(check, position)

    def elements(self, longest: int, budget: RepairBudget) -> Repaired:
        out: list[str] = []
        text, position = self.text, 0
        self.is_last = not longest
        closed = incomplete = False
        while True:
            start, position = position, _separators_end(text, position)
            if position >= len(text):
                break
            attempts = self.attempts
            self.most_attempts = attempts + _MOST_REPAIRS
            if budget.is_spent and (target := budget.next_marked(text, position)) > position:
                position = self._drop_junk(position, target)
                continue
            self._check_commas(start, position, after_one=bool(out))
            if text[position] == "]":
                if self._is_junk(position):
                    position = self._drop_junk(position)
                    budget.charge(None, 0)
                    continue
                position, closed = position + 1, True
                break
            try:
                fixed, position = self._element(position)
            except (_IncompleteError, NoEndError) as error:
                budget.charge_endless(self.attempts - attempts)
                gives_up = isinstance(error, NoEndError) or len(text) - position > longest
                following = _NEXT.search(text, position) if gives_up else None
                if following is None:
                    incomplete = True
                    break
                self.note("unreadable_event", position)
                position = self.seam = following.start(1)
                continue
            budget.charge(fixed, self.attempts - attempts)
            if fixed is not None:
                out.append(fixed)
        return Repaired(out, position, closed, incomplete, self.repairs, self.first)

    def sound_end(self, position: int) -> int | None:
        """Where the value there ends, or None if it needs a repair."""
        try:
            value, end = DECODER.raw_decode(self.text, position)
        except ValueError:
            return None
        if holds_doubled(value):
            return None
        return end if self.is_unicode or is_unicode(self.text[position:end]) else None

    def _parses(self, position: int) -> bool:
        """Whether the value there ends as in JSON, whatever else is to be mended in it."""
        try:
            DECODER.raw_decode(self.text, position)
        except ValueError:
            return False
        return True

    def _element(self, position: int) -> tuple[str | None, int]:
        """Valid text of the element there, or None if it is dropped, and its end."""
        text = self.text
        if text[position] == "{":
            try:
                end = self.sound_end(position)
            except RecursionError:
                return self._too_deep(position)
            if end is not None and not self._took_the_rest(position, end):
                return text[position:end], end
            is_cut = self.mark and (end is not None or not self._parses(position))
            begin = self._next_begin(position) if is_cut else None
            return self._repaired(position) if begin is None else self._before(position, begin)
        if _KEY.match(text, position):
            return self._repaired(position, is_open=True)
        if _LIST_OF_OBJECTS.match(text, position):
            return None, self._bracket(position) + 1
        return None, self._not_an_object(position)

    def _took_the_rest(self, position: int, end: int) -> bool:
        """Whether all other elements seem to be in this one: the brackets of the array are its."""
        if not (self.is_last and self.mark) or _separators_end(self.text, end) < len(self.text):
            return False
        return self._next_marked(position) < end

    def _next_begin(self, position: int) -> int | None:
        """Where the next element begins, if that shows by its members, wherever this one ends."""
        if self.looks > _MOST_LOOKS * len(self.text):
            return None
        stop = self.next_marked = self._next_marked(position)
        openings = _OPENING.finditer(self.text, position + 1, stop)
        for match in itertools.islice(openings, _MOST_BEGINS):
            try:
                value, _ = DECODER.raw_decode(self.text, match.start())
            except (ValueError, RecursionError):
                continue
            is_apart = len(value) >= _FEWEST_MEMBERS or self._follows(position, match.start())
            if self.mark in value and is_apart:
                return match.start()
        return None if stop == len(self.text) else stop

    def _next_marked(self, position: int) -> int:
        """Where the next object begins that has the mark first, or the text's end."""
        if position < self.next_marked:
            return self.next_marked
        for match in self.marked.finditer(self.text, position + 1):
            if self._follows(position, match.start()):
                return match.start()
        return len(self.text)

    def _follows(self, position: int, begin: int) -> bool:
        """Whether what is before ends as if something else began there."""
        before = self.text[max(position, begin - _LONGEST_SPACE) : begin]
        return before.rstrip(" \t\r").endswith((",", "\n", "}", "]"))

    def _before(self, position: int, begin: int) -> tuple[str | None, int]:
        """Repaired text of the object there, which ends before another one begins.

        Where it has no end it is cut. If it lacks nothing but its own bracket after an object or an
        array, it gets that; what else is lost nobody knows, and a number may be half of one.
        """
        self.looks += begin - position
        text = str(self.text[position:begin])
        tail = text.rstrip(" \t\r\n,")
        try:
            fixed, end = self._within(text, position)
        except (_IncompleteError, NoEndError):
            fixed, end = self._with_bracket(tail, position), len(text)
            self.seam = begin
        return fixed, position + end

    def _with_bracket(self, text: str, position: int) -> str | None:
        """Repaired text of an object that may lack nothing but its own bracket."""
        if text[-1] in "}]" and _open_brackets(text) == 1:
            with suppress(_IncompleteError, NoEndError):
                fixed, _ = self._within(text + "}", position)
                if fixed is not None:
                    self.note("missing_bracket", position + len(text))
                return fixed
        self.note("unreadable_event", position)
        return None

    def _within(self, text: str, position: int) -> tuple[str | None, int]:
        """Repaired text of the object that a part of the text begins with, and where it ends."""
        part = _Repairer(text)
        end = part.sound_end(0)
        fixed, end = part._repaired(0) if end is None else (text[:end], end)
        self.attempts += part.attempts
        if part.has_broken_text or _is_cut(text, end):
            self.note("unreadable_event", position)
            self.seam = position + end
            return None, end
        self.repairs.update(part.repairs)
        for check, place in part.first.items():
            self.first.setdefault(check, position + place)
        return fixed, end

    def _repaired(
        self, position: int, *, is_open: bool = False, splits: bool = False
    ) -> tuple[str | None, int]:
        """Repaired text of the object there; an unfinished one lacks its closing bracket."""
        state = (self.repairs.copy(), dict(self.first))
        opening = _OPENING.match(self.text, position)
        self.opening = opening.group() if opening else ""
        self.splits, self.alike = splits, 0
        try:
            return self._object(self._bracket(position) - 1 if is_open else position)
        except (_AlikeError, _TooDeepError, RecursionError) as error:
            self.repairs, self.first = state
            if isinstance(error, _AlikeError):
                return self._repaired(position, is_open=is_open, splits=True)
            return self._too_deep(position)
        except (_IncompleteError, NoEndError):
            self.repairs, self.first = state
            raise
        finally:
            self.depth, self.arrays, self.splits = 0, 0, False

    def _not_an_object(self, position: int) -> int:
        if self.text[position] in "}:":
            self.note("dropped_junk", position)
            match = _JUNK_END.search(self.text, position + 1)
            self.seam = match.start() if match else len(self.text)
            return self.seam
        try:
            _, end = self.value(position, "item")
        except (RecursionError, _TooDeepError):
            fixed, end = self._too_deep(position)
            if fixed is None:
                return end
        self.note("not_an_event", position)
        self.seam = end
        return end

    def _too_deep(self, position: int) -> tuple[str | None, int]:
        """An element nested too deep to repair, unchanged if it may be valid."""
        depth, limit = 0, position + self.longest_deep
        for token in _BRACKETS.finditer(self.text, position, limit):
            if token.group() in "{[":
                depth += 1
            elif token.group() in "}]":
                depth -= 1
            if depth == 0:
                break
        else:
            self.longest_deep = max(_SHORTEST_DEEP, self.longest_deep // 2)
            raise NoEndError if len(self.text) > limit else _IncompleteError
        deep = self.text[position : token.end()]
        if _WORDS.fullmatch(deep) and is_unicode(deep):
            return deep, token.end()
        self.note("unreadable_event", position)
        return None, token.end()

    def value(self, position: int, role: str = "member") -> tuple[str, int]:
        """Valid text of the value there, and where it ends."""
        if position >= len(self.text):
            raise _IncompleteError
        first = self.text[position]
        if first == '"':
            return self._string(position, role)
        if first not in "{[":
            return self._bare(position)
        end = self.sound_end(position)
        if end is not None:
            return self.text[position:end], end
        if self.depth > _DEEPEST:
            raise _TooDeepError
        return self._object(position) if first == "{" else self._array(position)

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
        commas = self.text[start:end].count(",")
        is_missing = after_one and not commas and start != self.seam
        is_first = commas and not after_one and start != self.seam
        if commas > 1 or is_first or (is_missing and self.text[end] not in "]}"):
            self.note("odd_comma", start)

    def _object(self, position: int) -> tuple[str, int]:
        if self.depth and self._is_alike(position):
            self.alike += 1
            if self.alike > _MOST_ALIKE:
                raise _AlikeError
        self.depth += 1
        members, end = self._members(position + 1)
        self.depth -= 1
        return "{" + ",".join(members) + "}", end

    def _members(self, position: int) -> tuple[Iterable[str], int]:
        """Members of an object, the last of each name, in the order of the names."""
        members: dict[str, str] = {}
        while True:
            position = self._separators(position, after_one=bool(members))
            if self.text[position] == "}":
                return members.values(), position + 1
            if self.text[position] == "{" or (self.text[position] == "]" and self.arrays):
                return members.values(), self._bracket(position)
            if self.text[position] != '"':
                position = self._drop_junk(position)
                continue
            start = position
            key, position = self._key(position)
            name = json.loads(key) if "\\" in key else key[1:-1]
            if name in members:
                self.note("doubled_member", start)
            position = self._space(position)
            if self.text[position] == ":":
                position = self._space(position + 1)
            elif self.text[position] not in ",}]":
                self.note("missing_colon", position)
            if self.text[position] in ",}]" or (self.splits and self._is_alike(position)):
                self.note("missing_value", position)
                members[name] = key + ":null"
                continue
            fixed, position = self.value(position, "member")
            members[name] = key + ":" + fixed

    def _array(self, position: int) -> tuple[str, int]:
        self.arrays += 1
        self.depth += 1
        items, end = self._items(position + 1)
        self.depth -= 1
        self.arrays -= 1
        return "[" + ",".join(items) + "]", end

    def _items(self, position: int) -> tuple[list[str], int]:
        out: list[str] = []
        while True:
            position = self._separators(position, after_one=bool(out))
            if self.text[position] == "]":
                return out, position + 1
            if self.text[position] == "}" or (self.splits and self._is_alike(position)):
                return out, self._bracket(position)
            if self.text[position] == ":":
                position = self._drop_junk(position)
                continue
            fixed, position = self.value(position, "item")
            out.append(fixed)

    def _is_alike(self, position: int) -> bool:
        return bool(self.opening) and self.text.startswith(self.opening, position)

    def _is_junk(self, position: int) -> bool:
        """Whether a bracket cannot be the array's own."""
        if position >= self.junk_end and (more := _MORE.match(self.text, position)):
            self.junk_end = more.end() - 1
        return position < self.junk_end

    def _bracket(self, position: int) -> int:
        self.note("missing_bracket", position)
        self.seam = position
        return position

    def _drop_junk(self, position: int, end: int = 0) -> int:
        self.note("dropped_junk", position)
        self.seam = end or position + 1
        return self.seam

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
        if match := _HEX.match(word):
            self.note("hex_number", position)
            digits = match.group(1)
            return str(int(digits, 16)) if len(digits) <= _LONGEST_HEX else f'"{word}"'
        if _ODD.match(word):
            self.note("odd_number", position)
            return _plain_number(word)
        self.note("bare_word", position)
        return "null"

    def _key(self, position: int) -> tuple[str, int]:
        match = WHOLE.match(self.text, position)
        if match is None:
            raise _IncompleteError
        return '"' + self._content(position + 1, match.end() - 1, is_key=True) + '"', match.end()

    def _string(self, position: int, role: str) -> tuple[str, int]:
        ends = end_of(self.text, position, role)
        if ends is None:
            raise _IncompleteError
        end, following = ends
        if end == following:
            self.note("missing_quote", end)
        return '"' + self._content(position + 1, end) + '"', following

    def _content(self, start: int, end: int, *, is_key: bool = False) -> str:
        content, repairs = content_of(self.text[start:end])
        self.has_broken_text |= "control_byte" in repairs and (is_key or "raw_quote" in repairs)
        for check in repairs:
            self.note(check, start)
        return content


def _is_cut(text: str, end: int) -> bool:
    """Whether an object ends there because another begins, after what may be half a member."""
    return text.startswith("{", end) and text[:end].rstrip(" \t\r\n,")[-1] not in "}]"


def _open_brackets(text: str) -> int:
    """How many brackets are open at the end of a text."""
    tokens = [token.group() for token in _BRACKETS.finditer(text)]
    return sum(each in "{[" for each in tokens) - sum(each in "}]" for each in tokens)


def _plain_number(word: str) -> str:
    """A number that JSON does not allow (+1, 007, 5., .5), in valid JSON."""
    sign = "-" if word.startswith("-") else ""
    mantissa, exponent, power = word.lstrip("+-").lower().partition("e")
    integer, _, fraction = mantissa.partition(".")
    number = sign + (integer.lstrip("0") or "0") + ("." + fraction if fraction else "")
    return number + exponent + power
