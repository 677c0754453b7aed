"""Numbers and names for people: units, separators, and no byte that a terminal would interpret."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ACTING: Final = (
    r"\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""What acts on a terminal, reorders text or is invisible, beside the control bytes of ASCII.

The joiners that scripts and emoji need are not among them.
"""
_UNSAFE: Final = re.compile(rf"[\x00-\x1f{_ACTING}\ud800-\udfff]")
"""These, and control bytes, line breaks and lone surrogates."""
_ACTING_IN_LINES: Final = re.compile(rf"[\x00-\x08\x0b-\x1f{_ACTING}]")
ACTING_IN_LINES: Final = re.sub(
    r"\\[uU]0*([0-9a-f]+)", r"\\x{\1}", _ACTING_IN_LINES.pattern
)  # as Arrow and polars write it
"""A pattern for what acts in a text of several lines: neither tabs nor line breaks do."""
_NAME: Final = r"""[^/\\\s:;,"'`<>|()\[\]{}&?*]+"""
_HOME: Final = re.compile(
    # Not in a longer path; the letters of an escape, as visible and JSON write them, are not part
    # of one.
    r"(?:(?<![\w.~-])|(?<=\\[nrtbf])|(?<=\\x[\da-f]{2})|(?<=\\u[\da-f]{4}))"
    r"(?:"
    rf"(?:/(?:mnt|export|nfs|net|data|scratch|cluster|gpfs|lustre|fsx|efs))?/home/{_NAME}"
    rf"|(?:/mnt)?(?:/[A-Za-z])?/Users/{_NAME}"
    r"|/root(?![\w.-])"
    r"|(?i:[a-z]:(?:\\{1,4}|/)(?:users|documents and settings)(?:\\{1,4}|/))"
    rf"(?:[^/\\:;,\"'<>|]+(?=[/\\])|{_NAME})"
    r")"
)
"""Home directories of Linux, macOS and Windows; in JSON each backslash is doubled, or more."""
_LINE: Final = re.compile(r"\(\d+\)(?:: \S+)?\Z")
"""Number of a line and its function, after the name of a file."""
_LEAST_TO_TELL: Final = 12
"""From this width on a text has room for its beginning and for what tells it from others."""
_BEFORE_PLACE: Final = 2
"""Characters before a place in which texts differ that are shown with it."""
_LONGEST_PLACE: Final = 200
"""Characters at the end of a text in which a place in a file is looked for."""
_FILE_LINE: Final = re.compile(r"[^/\\]+\(\d+\)(?:: \S+)?\Z")
_MISSING_WIDTH: Final = {"s": " ", "B": "  "}
"""Of units beside ms and KiB."""
_HOME_WORDS: Final = ("/home/", "/root", "Users", "users", "USERS", "ocuments and ")


def duration(ns: float) -> str:
    """A duration in s, ms or us with three decimals.

    Examples
    --------
    >>> duration(1_234), duration(-5_678_901), duration(2_000_000_000)
    ('1.234 us', '-5.679 ms', '2.000 s')
    """
    size = abs(ns)
    if size >= 999_999_500:
        return f"{ns / 1e9:,.3f} s"
    if size >= 999_999.5:
        return f"{ns / 1e6:.3f} ms"
    return f"{ns / 1e3:.3f} us"


def moment(ns: int) -> str:
    """A time since the Unix epoch as a date, to the nanosecond.

    Examples
    --------
    >>> moment(1_700_000_000_123_456_789)
    '2023-11-14 22:13:20.123456789 UTC'
    """
    seconds, rest = divmod(ns, 10**9)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}.{rest:09} UTC"


def size(number: float) -> str:
    """Bytes in steps of 1024.

    Examples
    --------
    >>> size(512), size(-1536), size(3 << 30)
    ('512 B', '-1.50 KiB', '3.00 GiB')
    """
    return f"{_in_steps(number, 1024, ('Ki', 'Mi', 'Gi', 'Ti', 'Pi'))}B"


def lined_up(text: str) -> str:
    """A duration or a size whose unit is as wide as others, so that a column lines up.

    Examples
    --------
    >>> lined_up("2.000 s"), lined_up("1.234 us"), lined_up("512 B")
    ('2.000 s ', '1.234 us', '512 B  ')
    """
    return text + _MISSING_WIDTH.get(text.rpartition(" ")[2], "")


def rate(bytes_per_s: float) -> str:
    """Bytes per second in steps of 1000, as in data sheets.

    Examples
    --------
    >>> rate(512), rate(3.35e12)
    ('512 B/s', '3.35 TB/s')
    """
    return f"{_thousands(bytes_per_s)}B/s"


def flops(number: float) -> str:
    """Floating-point operations in steps of 1000.

    Examples
    --------
    >>> flops(512), flops(1.5e12)
    ('512 FLOP', '1.50 TFLOP')
    """
    return f"{_thousands(number)}FLOP"


def flop_rate(flop_per_s: float) -> str:
    """Floating-point operations per second in steps of 1000.

    Examples
    --------
    >>> flop_rate(19.5e12)
    '19.50 TFLOP/s'
    """
    return f"{flops(flop_per_s)}/s"


def energy(joules: float) -> str:
    """An energy in J, mJ or uJ, or in kJ.

    Examples
    --------
    >>> energy(0.0685), energy(12.5), energy(2.5e-5), energy(3600)
    ('68.500 mJ', '12.500 J', '25.000 uJ', '3.600 kJ')
    """
    return _small(joules, "J")


def power(watts: float) -> str:
    """A power in W, mW or uW, or in kW.

    Examples
    --------
    >>> power(350.5)
    '350.500 W'
    """
    return _small(watts, "W")


def _small(number: float, unit: str) -> str:
    size = abs(number)
    if size >= 999.9995:
        return f"{number / 1e3:,.3f} k{unit}"
    if size >= 0.9999995 or not size:
        return f"{number:.3f} {unit}"
    if size >= 0.0009999995:
        return f"{number * 1e3:.3f} m{unit}"
    return f"{number * 1e6:.3f} u{unit}"


def share(part: float) -> str:
    """A share from 0 to 1, as percent.

    Examples
    --------
    >>> share(0.1234)
    '12.3 %'
    """
    return f"{100 * part:.1f} %"


def count(number: int) -> str:
    """A number with separators.

    Examples
    --------
    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> plural(1, "rank"), plural(2000, "rank")
    ('1 rank', '2,000 ranks')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lost_work(names: Sequence[str], calls: Sequence[int]) -> str:
    """How many launches of each side have work that was not recorded.

    Examples
    --------
    >>> lost_work(["base", "other"], [1, 20])
    'the work of 1 launch of base and 20 launches of other was not recorded'
    """
    sides = " and ".join(
        f"{number:,} launch{'es' * (number > 1)} of {visible(name)}"
        for name, number in zip(names, calls, strict=True)
        if number
    )
    return f"the work of {sides} was not recorded"


def visible(text: str) -> str:
    r"""Text in which what a terminal would interpret is escaped.

    Examples
    --------
    >>> visible("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str, shown: Callable[[str], str] = visible) -> str:
    r"""`visible`, but tabs and line breaks stay; ``shown`` is called with each escaped character.

    Examples
    --------
    >>> visible_lines("a\tb\n\x1b[31m"), visible_lines("a\x9bb", lambda _: "_")
    ('a\tb\n\\x1b[31m', 'a_b')
    """
    return _ACTING_IN_LINES.sub(lambda match: shown(match[0]), text)


def escaped(document: str) -> str:
    r"""JSON without what a terminal would interpret; it means the same to a program.

    Examples
    --------
    >>> escaped('"\x7f \x9b2J"')
    '"\\u007f \\u009b2J"'
    """
    if document.isascii() and document.isprintable():
        return document
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], document)


def without_homes(text: str) -> str:
    r"""Text with `~` instead of each home directory: saved files may be passed on.

    Examples
    --------
    >>> without_homes("/home/ada/train.py(7): main; /root/.cache, /Users/ada lives here")
    '~/train.py(7): main; ~/.cache, ~ lives here'
    >>> print(without_homes(r"C:\Users\Ada Byron\x.py and src/home/page/x.py"))
    ~\x.py and src/home/page/x.py
    """
    return _HOME.sub("~", text) if any(word in text for word in _HOME_WORDS) else text


def script_json(document: object) -> str:
    r"""JSON that is safe inside a script element of a page, and names no home directory.

    Nor does its source have characters that a terminal would interpret, or that hide text.

    Examples
    --------
    >>> script_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    encoded = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return without_homes(escaped(encoded))


def middle(text: str, most: int) -> str:
    """Text of at most this many characters: longer text is cut in the middle.

    A line of a file keeps its number, and the name of its file if there is room.

    Examples
    --------
    >>> middle("short", 10), middle("void at::native::vectorized(int)", 16)
    ('short', 'void at::…d(int)')
    >>> middle("site-packages/torch/nn/modules/linear.py(114): forward", 30)
    'site-p…linear.py(114): forward'
    """
    if len(text) <= most:
        return text
    end = max((most - 1) * 2 // 5, len(next(iter(_lines_of_files(text, most)), "")))
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def middles(texts: Iterable[str], most: int) -> dict[str, str]:
    """Texts of at most this many characters, by the whole ones: unlike texts stay unlike.

    Those that `middle` makes alike are cut around the places in which they differ. Where these are
    too many for the room, all but the first are numbered.

    Examples
    --------
    >>> middles(["gemm_f32_tile_32_stage_3_cublas", "gemm_f32_tile_64_stage_3_cublas"], 20).values()
    dict_values(['gemm_f…e_32_stage_3…', 'gemm_f…e_64_stage_3…'])
    """
    short = {text: middle(text, most) for text in texts}
    if most < _LEAST_TO_TELL:
        return short
    groups = _alike(short)
    for group in groups:
        short |= _around_differences(group, most)
    if left := {text for group in _alike(short) for text in group}:
        joined = left.union(*(group for group in groups if not left.isdisjoint(group)))
        short |= _around_differences(joined, most)
    return _numbered(short, most)


def _lines_of_files(text: str, most: int) -> list[str]:
    """File and line at the end of a text, and the line alone, if there is room for them."""
    last = text[-min(most, _LONGEST_PLACE) :]
    matches = (_FILE_LINE.search(last), _LINE.search(last))
    return [match[0] for match in matches if match and len(match[0]) < most - 1]


def _alike(short: Mapping[str, str]) -> list[list[str]]:
    """Unlike texts that are written alike."""
    groups = defaultdict[str, list[str]](list)
    for text, written in short.items():
        groups[written].append(text)
    return [group for group in groups.values() if len(group) > 1]


def _around_differences(group: Collection[str], most: int) -> dict[str, str]:
    """Texts cut around the places in which they differ; without those that differ in too many.

    They keep their file and line if all have the same, and room for the places beside it.
    """
    ends = _lines_of_files(min(group), most)
    for end in (*(end for end in ends if all(text.endswith(end) for text in group)), ""):
        short = _cut_to_tell([text.removesuffix(end) for text in group], most - len(end))
        if len(short) == len(group) or not end:
            return {text + end: written + end for text, written in short.items()}
    return {}


def _cut_to_tell(texts: Iterable[str], most: int) -> dict[str, str]:
    """Texts with as much around each place as all have room for; without those that are longer."""
    places = _differences(texts)

    def is_too_much(size: int) -> bool:
        return any(len(_around(text, of, size, most)) > most for text, of in places.items())

    size = max(bisect_left(range(1, most), True, key=is_too_much), 1)
    short = {text: _around(text, of, size, most) for text, of in places.items()}
    return {text: written for text, written in short.items() if len(written) <= most}


def _differences(texts: Iterable[str]) -> dict[str, list[int]]:
    """The places, in order, at which each of some unlike texts parts from others."""
    places: dict[str, list[int]] = {text: [] for text in texts}
    groups = [[*places]]
    while groups:
        group = groups.pop()
        place = _first_difference(min(group), max(group))
        parts = defaultdict[str, list[str]](list)
        for text in group:
            places[text].append(place)
            parts[text[place : place + 1]].append(text)
        groups += [part for part in parts.values() if len(part) > 1]
    return places


def _first_difference(first: str, last: str) -> int:
    """Where the first and the last of sorted texts differ, which is where any of them do."""
    pairs = enumerate(zip(first, last, strict=False))
    return next((place for place, (one, other) in pairs if one != other), len(first))


def _around(text: str, places: Sequence[int], size: int, most: int) -> str:
    """A text with its beginning and so many characters at each place, even if that is too much."""
    if len(text) <= most:
        return text
    end = min(most // 3, places[0])
    written = text[:end]
    for place in places:
        start = place - min(_BEFORE_PLACE, size - 1)
        is_cut = start > end + 1
        stop = max(start + size, end)
        written += f"…{text[start:stop]}" if is_cut else text[end:stop]
        end = stop
    room = most - len(written)
    rest = text[end:]
    return written + (rest if len(rest) <= room else f"{rest[: max(room - 1, 0)]}…")


def _numbered(short: dict[str, str], most: int) -> dict[str, str]:
    """Texts, of which those that are written as one before them end in a number."""
    used = {*short.values()}
    numbered = dict(short)
    for group in _alike(short):
        numbers = count_from(2)
        for text in group[1:]:
            ends = (f"…#{number}" for number in numbers)
            shorts = (f"{text[: most - len(end)]}{end}" for end in ends)
            numbered[text] = next(one for one in shorts if one not in used)
            used.add(numbered[text])
    return numbered


def _thousands(number: float) -> str:
    return _in_steps(number, 1000, ("k", "M", "G", "T", "P"))


def _in_steps(number: float, step: int, prefixes: Sequence[str]) -> str:
    """A number in steps of 1000 or 1024, with the prefix of its unit."""
    if abs(number) < step - 0.5:
        return f"{number:.0f} "
    value = float(number)
    for prefix in prefixes[:-1]:
        value /= step
        if abs(value) < step - 0.005:
            return f"{value:.2f} {prefix}"
    return f"{value / step:,.2f} {prefixes[-1]}"
