"""A comparison as Markdown for a pull request comment: limits, totals, what changed most.

Names come from traces, so they are written as code, and nothing in them is markup: no table cell
ends early, no HTML begins, nobody is mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from profframe.show import columns, diff_text, run_limits_text, units
from profframe.show.kernel_names import short_name
from profframe.show.snapshot_text import PINNED_MEMORY

if TYPE_CHECKING:
    import polars as pl

    from profframe.analysis.fail_on import Growth, Verdict

MOST: Final = 65_000
"""Maximum bytes of a comment; GitHub accepts 65,536 characters."""

_SIZES: Final = ((20, 50), (10, 20), (5, 10), (1, 5))
"""Maximum rows of a kind, and of limits, tried one after the other until everything fits."""
_LONGEST_NAME: Final = 80
_LONGEST_LINE: Final = 1000
_NOTHING: Final = "&#8203;"
"""A character without width."""
_SIDES: Final = ("base", "other")
_CHANGES: Final = ("base", "other", "change")
_TITLES: Final = {"op": "ops, self time", "kernel": "kernels", "annotation": "annotations"}
_MARKUP: Final = re.compile(r"[!#$&*/<>@\[-`{-~]|:(?! )|(?<=www)\.")
_REFERENCE: Final = re.compile(r"[@#]")
"""GitHub turns these into mentions and links unless something follows them, but not in code."""
_DELICATE: Final = re.compile(r"[|`]|^\s|\s$|^$")


@dataclass(frozen=True, slots=True)
class CheckedLimits:
    """The limits that were checked, and their results.

    Attributes
    ----------
    plain
        The limit for all ops and kernels, as text, or ``""``.
    growths
        What grew by more than that.
    verdicts
        Results of the other limits.
    """

    plain: str = ""
    growths: Sequence[Growth] = ()
    verdicts: Sequence[Verdict] = ()

    @property
    def rows(self) -> list[tuple[bool, list[str]]]:
        """Whether each is broken, and its cells, the broken ones first."""
        rows = [(verdict.is_broken, _verdict(verdict)) for verdict in self.verdicts]
        rows += [(True, _growth(self.plain, growth)) for growth in self.growths] or [
            (False, [self.plain, "all ops and kernels", "", "", "holds", ""])
        ] * bool(self.plain)
        return sorted(rows, key=lambda row: not row[0])

    @property
    def sentence(self) -> str:
        """How many limits are broken."""
        number = len(self.verdicts) + bool(self.plain)
        broken = sum(verdict.is_broken for verdict in self.verdicts) + bool(self.growths)
        if not number:
            return "no limit was given"
        if broken:
            verb = "is" if broken == 1 else "are"
            return f"**{broken:,} of {units.plural(number, 'limit')} {verb} broken**"
        return "the limit holds" if number == 1 else f"all {number:,} limits hold"


def comment(
    rows: pl.DataFrame,
    totals: pl.DataFrame,
    limits: CheckedLimits,
    notes: Sequence[str] = (),
    *,
    top: int = 10,
) -> str:
    """A comparison as GitHub Markdown, of at most 65,000 bytes.

    Parameters
    ----------
    rows
        As `profframe.comparisons.diff.comparison` gives them.
    totals
        As `profframe.analysis.fail_on.totals` gives them.
    limits
        The checked limits.
    notes
        As `profframe.show.diff_text.remarks` gives them.
    top
        Maximum rows of a kind.

    Returns
    -------
    str
        A heading, the limits, the totals, and a table of the largest changes; kernels by their
        short names. What does not fit is left out and counted.
    """
    for most_rows, most_limits in _SIZES:
        most = (min(top, most_rows), most_limits)
        text = "\n".join(_parts(rows, totals, limits, notes, most=most))
        if len(text.encode()) <= MOST:
            break
    return f"{text}\n"


def memory_comment(rows: pl.DataFrame, text: str, limits: CheckedLimits, *, top: int = 10) -> str:
    """Two memory snapshots as Markdown: limits, what they hold in total, and what changed most."""
    lines = [
        f"### profframe diff: {limits.sentence}",
        "",
        escaped(units.middle(text, _LONGEST_LINE)),
        "",
    ]
    lines += _limits(limits, _SIZES[0][1])
    changed = rows.filter(rows["status"] != "equal")
    cells = [
        [_memory_label(row), *(units.size(row[f"{side}_peak_bytes"]) for side in _CHANGES)]
        for row in changed.head(min(top, _SIZES[0][0])).iter_rows(named=True)
    ]
    if cells:
        lines += _table(["at the peak", "base", "other", "change"], cells)
    return "\n".join(lines) + "\n"


def _memory_label(row: Mapping[str, Any]) -> str:
    is_pinned = row["memory"] == PINNED_MEMORY
    return _label(row["name"]) + (f" ({PINNED_MEMORY})" if is_pinned else "")


def rows_table(frame: pl.DataFrame) -> str:
    """Any frame as a table, in human units, with all of its columns and whole texts.

    Examples
    --------
    >>> import polars as pl
    >>> print(rows_table(pl.DataFrame({"name": ["mm", None], "self_ns": [1_500, 2]})), end="")
    | name | self |
    |---|---:|
    | `mm` | 1.500 us |
    |  | 0.002 us |
    """
    rules = ["---:" if dtype.is_numeric() else "---" for dtype in frame.dtypes]
    cells = []
    for column in frame:
        words = [text.strip() for text in columns.texts(frame, column.name)]
        is_text = not column.dtype.is_numeric()
        cells.append([code(word, len(word) + 1) if is_text and word else word for word in words])
    lines = [map(escaped, map(columns.heading, frame.columns)), *zip(*cells, strict=True)]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], f"|{'|'.join(rules)}|", *rows[1:], ""])


def code(name: str, most: int = _LONGEST_NAME) -> str:
    """A name as code in a table cell; a name that is too long is cut in the middle.

    Examples
    --------
    >>> code("aten::mm"), code("a|b`c")
    ('`aten::mm`', '<code>a&#124;b&#96;c</code>')
    """
    text = units.middle(units.visible(name), most)
    if not _DELICATE.search(text):
        return f"`{text}`"
    return f"<code>{_as_text(text) or _NOTHING}</code>"


def escaped(text: str) -> str:
    """Text in which no character is markup.

    Examples
    --------
    >>> escaped("<b>*5* of _x_")
    '&#60;b&#62;&#42;5&#42; of &#95;x&#95;'
    """
    return _as_text(units.visible(text), after=_NOTHING)


def _as_text(text: str, after: str = "") -> str:
    """Text with possible markup as character numbers; ``after`` follows possible references."""

    def number(match: re.Match[str]) -> str:
        return f"&#{ord(match[0])};{after if _REFERENCE.match(match[0]) else ''}"

    return _MARKUP.sub(number, text)


def _parts(
    rows: pl.DataFrame,
    totals: pl.DataFrame,
    limits: CheckedLimits,
    notes: Sequence[str],
    *,
    most: tuple[int, int],
) -> Iterable[str]:
    """The lines of a comment, with this many rows of a kind and this many limits."""
    most_rows, most_limits = most
    yield f"### profframe diff: {limits.sentence}"
    yield ""
    if not rows.height:
        yield "Neither side has an op, a kernel or an annotation."
        yield ""
        yield from _limits(limits, most_limits)
        return
    sides = [code(rows[side][0], 40) for side in _SIDES]
    sums = {
        what: (base, other)
        for what, base, other in totals.select("what", "base_ns", "other_ns").iter_rows()
    }
    words = [
        f"{_TITLES[what]}: {_arrow(diff_text.times(*sums[what]))} ({diff_text.growth(*sums[what])})"
        for what in ("op", "kernel")
        if what in sums
    ]
    numbers = [rows[f"{side}_samples"][0] for side in _SIDES]
    means = " and ".join(f"{number:,}" for number in numbers)
    yield f"{sides[0]} → {sides[1]}, means of {means} samples. {'; '.join(words)}."
    yield ""
    yield from _limits(limits, most_limits)
    for what, title in _TITLES.items():
        yield from _changed(rows.filter(what=what), title, sides, most_rows)
    is_tested = rows["p_value"].null_count() < rows.height
    untested = () if is_tested else ("the rows are " + diff_text.UNTESTED,)
    for note in (*notes, *untested):
        yield f"- {escaped(units.middle(note, _LONGEST_LINE))}"


def _limits(limits: CheckedLimits, most: int) -> Iterable[str]:
    """The table of limits."""
    held = limits.rows
    if not held:
        return
    yield from _table(
        ["limit", "of", "base → other", "change", "", ""], [cells for _, cells in held[:most]]
    )
    if len(held) > most:
        yield f"and {len(held) - most:,} more limits, {sum(b for b, _ in held[most:]):,} broken"
        yield ""


def _verdict(verdict: Verdict) -> list[str]:
    """Cells of a limit that names a metric."""
    base, other = float(verdict.base), float(verdict.other)
    metric = verdict.limit.metric
    return [
        verdict.limit.text,
        _subject(metric),
        _arrow(run_limits_text.values(metric, base, other)),
        f"{100 * (other / base - 1):+,.1f} %" if base else "from nothing" if other else "",
        f"**{run_limits_text.state(verdict)}**"
        if verdict.is_broken
        else run_limits_text.state(verdict),
        escaped(run_limits_text.remarks(verdict)),
    ]


def _subject(metric: str) -> str:
    """The subject of a limit."""
    kind, colon, name = metric.partition(":")
    if not colon:
        return escaped(metric)
    return f"{kind} {code(short_name(name) if kind == 'kernel' else name)}"


def _growth(limit: str, growth: Growth) -> list[str]:
    """Cells of what grew by more than the limit for all."""
    what = growth.what
    if growth.name is None:
        subject = f"all {_TITLES[what]}"
    else:
        subject = f"{what} {code(short_name(growth.name) if what == 'kernel' else growth.name)}"
    sizes = (growth.base_ns, growth.other_ns)
    note = "" if growth.name is None else "significant"
    return [
        limit,
        subject,
        _arrow(diff_text.times(*sizes)),
        diff_text.growth(*sizes),
        "**broken**",
        note,
    ]


def _changed(rows: pl.DataFrame, title: str, sides: Sequence[str], most: int) -> Iterable[str]:
    """The table of the rows of a kind that changed most."""
    changed = rows.filter(rows["status"] != "equal")
    if not changed.height:
        return
    first = changed.head(most)
    has_tests = rows["p_value"].null_count() < rows.height
    warns = first["warning"].null_count() < first.height
    heads = [title, "change", sides[0], sides[1], "%", "calls"]
    heads += ["per call"] * warns + ["significant"] * has_tests
    cells = []
    for row in first.iter_rows(named=True):
        name = row["name"]
        line = [
            _label(short_name(name) if name and row["what"] == "kernel" else name),
            _time(row["change_ns"]),
            *(_time(row[f"{side}_ns"]) if row[f"{side}_calls"] else "" for side in _SIDES),
            row["status"]
            if row["ratio"] is None or row["status"] != "changed"
            else f"{100 * (row['ratio'] - 1):+,.1f}",
            _pair(f"{row[f'{side}_calls']:,.6g}" for side in _SIDES),
        ]
        if warns:
            pair = _pair(_time(row[f"{side}_call_ns"]) for side in _SIDES)
            line.append(pair if row["warning"] else "")
        cells.append([*line, *(["yes" if row["significant"] else ""] * has_tests)])
    yield from _table(heads, cells)
    if changed.height > most:
        yield f"{changed.height - most:,} more {title.partition(',')[0]} changed by less."
        yield ""


def _table(heads: Sequence[str], cells: Iterable[Sequence[str]]) -> Iterable[str]:
    """A table, with an empty line below."""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in cells:
        yield f"| {' | '.join(row)} |"
    yield ""


def _label(name: str | None) -> str:
    return "(no name)" if name is None else code(name)


def _arrow(text: str) -> str:
    return text.replace("->", "→")


def _pair(texts: Iterable[str]) -> str:
    base, other = texts
    return base if base == other else f"{base} → {other}"


def _time(ns: int | None) -> str:
    return "" if ns is None else units.duration(ns)
