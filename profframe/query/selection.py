"""Selection of rows of each table, as SQL that both DuckDB and polars read."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, SupportsIndex

from profframe import schema
from profframe.errors import ParameterError, UnknownNameError, nearest

Text = str | Iterable[str]
Numbers = SupportsIndex | str | Iterable[SupportsIndex]
"""One number, several, a range, or a text such as ``"0,2-3"``."""
Integers = range | tuple[int, ...]
"""The result of `integers`."""
Window = tuple[str, int, int, int | None]
"""Run, rank, start and end of a step or phase; the end is None where it never ended."""

_SPAN: Final = re.compile(r"(-?[0-9]{1,18})(?:-([0-9]{1,18}))?")
_MOST_NUMBERS: Final = 1_000_000
_LEAST_FILTER: Final = 0.7
FILTERS: Final = ("steps", "ranks", "runs", "kinds", "phases", "start_ns", "end_ns")
"""Parameters of `Trace.filter`."""
TIME: Final[Mapping[str, str]] = MappingProxyType(
    {"events": "start_ns", "profiler_steps": "start_ns", "phase_steps": "start_ns"}
    | dict.fromkeys(("memory", "flows", "counters", "instants"), "time_ns")
)
"""Column by which the rows of a timed table are selected."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions by table; a row is selected if all of its table's conditions are true.

    Examples
    --------
    >>> selection = Selection().runs(("a",)).time(0, 9)
    >>> selection.where("memory")
    "(run IN ('a')) AND (time_ns >= 0) AND (time_ns < 9)"
    >>> selection.where("threads")
    "(run IN ('a'))"
    >>> Selection().where("events") is None
    True
    """

    conditions: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: dict.fromkeys(schema.TABLES, ())
    )

    def where(self, table: str) -> str | None:
        """The condition of a table's rows, or None for all of them."""
        return " AND ".join(f"({condition})" for condition in self.conditions[table]) or None

    def runs(self, runs: tuple[str, ...]) -> Selection:
        """Only these runs."""
        condition = among("run", runs)
        return self._and(lambda _: condition)

    def ranks(self, ranks: Integers) -> Selection:
        """Only these ranks."""
        condition = numbers("rank", ranks)
        return self._and(lambda _: condition)

    def kinds(self, kinds: tuple[str, ...]) -> Selection:
        """Only events of these kinds; other tables stay whole."""
        condition = among("kind", kinds)
        return self._and(lambda table: condition if table == "events" else None)

    def steps(self, steps: Integers, windows: Iterable[Window]) -> Selection:
        """Only these steps, their events, and what other tables have in their time on the host."""
        of_steps = numbers("step", steps)
        by_number = {"profiler_steps": of_steps, "events": _or_captured(of_steps)}
        windows = tuple(windows)
        return self._and(lambda table: by_number.get(table) or _within(windows, TIME.get(table)))

    def phases(self, phases: tuple[str, ...], windows: Iterable[Window]) -> Selection:
        """Only these phases, their events, and what other tables have while one goes on."""
        of_events = _or_captured(among("inference_phase", phases))
        by_name = {"phase_steps": among("phase", phases), "events": of_events}
        windows = tuple(windows)
        return self._and(lambda table: by_name.get(table) or _within(windows, TIME.get(table)))

    def time(self, start_ns: int | None, end_ns: int | None) -> Selection:
        """Only what starts within ``[start_ns, end_ns)``."""
        lowest = None if start_ns is None else integer("start_ns", start_ns)
        highest = None if end_ns is None else integer("end_ns", end_ns)
        later = self._and(lambda table: _timed(table, ">=", lowest))
        return later._and(lambda table: _timed(table, "<", highest))  # noqa: SLF001 - its own kind

    def of_traces(self) -> Selection:
        """The part of it that selects whole traces: runs and ranks."""
        return Selection(dict.fromkeys(schema.TABLES, self.conditions["traces"]))

    @property
    def is_of_traces(self) -> bool:
        """Whether all rows of its traces are selected."""
        return self == self.of_traces()

    def _and(self, condition: Callable[[str], str | None]) -> Selection:
        return Selection(
            {
                table: old if (new := condition(table)) is None else (*old, new)
                for table, old in self.conditions.items()
            }
        )


def literal(text: str) -> str:
    """A text as an SQL literal.

    Examples
    --------
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def filter_of(name: str, names: Iterable[str] = ()) -> str | None:
    """The parameter of `Trace.filter` that a name is like, more than any of some others.

    Examples
    --------
    >>> filter_of("step"), filter_of("rank", ["rank"]), filter_of("tpo", ["top"])
    ('steps', None, None)
    """
    others = [other for other in names if other not in FILTERS]
    near = nearest(name, [*others, *FILTERS], _LEAST_FILTER)
    return near if near in FILTERS else None


def among(column: str, values: Iterable[str]) -> str:
    """SQL: the column is one of the texts."""
    literals = ", ".join(map(literal, values))
    return f"{column} IN ({literals})" if literals else "FALSE"


def numbers(column: str, values: Integers) -> str:
    """SQL: the column is one of the numbers; a range needs no list, however long it is."""
    if isinstance(values, range):
        start, stop = max(values.start, -(2**63)), min(values.stop, 2**63 - 1)
        return f"{column} >= {start} AND {column} < {stop}"
    return f"{column} IN ({', '.join(map(str, values))})" if values else "FALSE"


def integers(parameter: str, values: Numbers) -> Integers:
    """One integer or several; a range without gaps stays one.

    Examples
    --------
    >>> integers("ranks", 3), integers("ranks", range(2)), integers("ranks", "0-1")
    ((3,), range(0, 2), range(0, 2))
    >>> integers("ranks", "0,2-3")
    (0, 2, 3)
    """
    if isinstance(values, str):
        return _read(parameter, values)
    if isinstance(values, range) and values.step == 1:
        return values
    items = values if isinstance(values, Iterable) else (values,)
    return tuple(integer(parameter, value) for value in items)


def _read(parameter: str, text: str) -> Integers:
    """Numbers and ranges with commas between them; one range stays one, if it has several."""
    ranges = [_range(parameter, part.strip()) for part in text.split(",")]
    if len(ranges) == 1 and len(ranges[0]) > 1:
        return ranges[0]
    if sum(map(len, ranges)) > _MOST_NUMBERS:
        raise ParameterError(f"{parameter}: more than {_MOST_NUMBERS:,} numbers in several ranges")
    return tuple(number for one in ranges for number in one)


def _range(parameter: str, text: str) -> range:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ParameterError(f"{parameter}: {text!r} is neither a number nor a range such as 0-63")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ParameterError(f"{parameter}: {text!r} ends before it begins: write {last}-{first}")
    return range(first, last + 1)


def one_integer(parameter: str, values: Numbers | None) -> int | None:
    """The integer, where an analysis is about one.

    Examples
    --------
    >>> one_integer("step", "3"), one_integer("step", [3]), one_integer("step", None)
    (3, 3, None)
    >>> one_integer("step", "1-2")
    Traceback (most recent call last):
    profframe.errors.ParameterError: step: only one, not 1-2
    """
    if values is None:
        return None
    numbers_of = integers(parameter, values)
    if len(numbers_of) != 1:
        raise ParameterError(f"{parameter}: only one, not {', '.join(as_spans(numbers_of))}")
    return numbers_of[0]


def integer(parameter: str, value: object) -> int:
    """An integer of 64 bits, of any integer type."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise ParameterError(f"{parameter}: needs 64-bit integers (whole numbers), got {value!r}")
    return number


def texts(parameter: str, values: Text) -> tuple[str, ...]:
    """One text or several, as a tuple.

    Examples
    --------
    >>> texts("runs", "a"), texts("runs", ["a", "b"])
    (('a',), ('a', 'b'))
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = (values,)
    items = tuple(values)
    for value in items:
        if not isinstance(value, str):
            raise ParameterError(f"{parameter}: needs text, got {value!r}")
    return items


def check_texts(column: str, values: Iterable[str], trace_values: Iterable[str]) -> None:
    """Raise an error for a text that the trace does not have.

    Raises
    ------
    UnknownNameError
        It names the text and the nearest that the trace has.
    """
    present = set(trace_values)
    for text in values:
        if text not in present:
            raise UnknownNameError.among(column, text, present)


def check_numbers(column: str, values: Integers, trace_values: Iterable[int]) -> None:
    """Raise an error for a number that the trace does not have, or a range without any that it has.

    Raises
    ------
    UnknownNameError
        It names the number and those that the trace has.

    Examples
    --------
    >>> check_numbers("step", range(2, 100), [1, 2, 3])
    >>> check_numbers("step", (7,), [1, 2, 3])
    Traceback (most recent call last):
    profframe.errors.UnknownNameError: no step 7 (known: 1-3)
    """
    present = set(trace_values)
    if isinstance(values, range):
        is_outside = bool(values) and not any(number in values for number in present)
        missing = f"from {values.start} to {values.stop - 1}" if is_outside else ""
    else:
        missing = spans(set(values) - present)
    if missing:
        hint = f" (known: {spans(present)})" if present else f"; there are no {column}s"
        raise UnknownNameError(f"no {column} {missing}{hint}")


def check_compat(compat: str | None) -> str | None:
    """A value of ``compat``; raises an error if it is neither None nor torch.

    Raises
    ------
    ParameterError
        It names the value.

    Examples
    --------
    >>> check_compat("numpy")
    Traceback (most recent call last):
    profframe.errors.ParameterError: compat: needs None or 'torch', got 'numpy'
    """
    if compat not in {None, "torch"}:
        raise ParameterError(f"compat: needs None or 'torch', got {compat!r}")
    return compat


def spans(values: Iterable[int]) -> str:
    """Integers as a short text.

    Examples
    --------
    >>> spans([0, 1, 2, 5])
    '0-2, 5'
    """
    return ", ".join(as_spans(values))


def as_spans(values: Iterable[int]) -> list[str]:
    """Integers as `integers` reads them, neighbours together.

    Examples
    --------
    >>> as_spans((0, 1, 2, 5)), as_spans(range(10**9))
    (['0-2', '5'], ['0-999999999'])
    """
    if isinstance(values, range) and values.step == 1:
        ends = [(values.start, values.stop - 1)] if values else []
    else:
        ends = []
        for value in sorted(set(values)):
            if ends and value == ends[-1][1] + 1:
                ends[-1] = (ends[-1][0], value)
            else:
                ends.append((value, value))
    return [f"{low}-{high}" if high > low else f"{low}" for low, high in ends]


def _timed(table: str, comparison: str, value: int | None) -> str | None:
    time = TIME.get(table)
    if time is None or value is None:
        return None
    condition = f"{time} {comparison} {value}"
    return _or_captured(condition) if table == "events" else condition


def _or_captured(condition: str) -> str:
    """SQL: the condition holds, or the slice was captured and is in no step and at no time."""
    return f"{condition} OR replays IS NOT NULL"


def _within(windows: Iterable[Window], time: str | None) -> str | None:
    """SQL: the time lies in a window of the row's own run and rank."""
    if time is None:
        return None
    by_trace: dict[tuple[str, int], list[str]] = {}
    for run, rank, start, end in windows:
        before = "" if end is None else f" AND {time} < {end}"
        by_trace.setdefault((run, rank), []).append(f"({time} >= {start}{before})")
    return any_of(
        f"(run = {literal(run)} AND rank = {rank} AND {any_of(within)})"
        for (run, rank), within in by_trace.items()
    )


def any_of(conditions: Iterable[str]) -> str:
    """SQL: one of the conditions is true; a balanced tree, for parsers that recurse."""
    terms = list(conditions)
    if len(terms) <= 1:
        return terms[0] if terms else "FALSE"
    middle = len(terms) // 2
    return f"({any_of(terms[:middle])} OR {any_of(terms[middle:])})"
