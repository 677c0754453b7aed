"""Options that select a part of a trace: ranks, profiler steps and phases of inference."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli.loading import naming

if TYPE_CHECKING:
    from profframe.query.selection import Integers
    from profframe.trace.trace import Trace

_SPAN: Final = re.compile(r"(-?[0-9]{1,18})(?:-([0-9]{1,18}))?")
_MOST_NUMBERS: Final = 1_000_000


class Span(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.2
    """A number, or a range of numbers such as 0-63."""

    name = "integer"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        """The numbers."""
        if isinstance(value, range):
            return value
        match = _SPAN.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is neither an integer nor a range such as 0-63.", param, ctx)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            self.fail(f"{value!r} ends before it begins.", param, ctx)
        return range(first, last + 1)


def _numbers(_: click.Context, __: click.Parameter, spans: tuple[range, ...]) -> Integers:
    """A single span as its range, of which the trace may lack numbers; several as all numbers."""
    if len(spans) == 1 and len(spans[0]) != 1:
        return spans[0]
    if sum(map(len, spans)) > _MOST_NUMBERS:
        raise click.BadParameter(f"more than {_MOST_NUMBERS:,} numbers in several ranges")
    return tuple(number for span in spans for number in span)


_PART: Final = (
    click.option(
        "--rank",
        "ranks",
        multiple=True,
        type=Span(),
        callback=_numbers,
        help="Only this rank, or ranks such as 0-63; can be repeated.",
    ),
    click.option(
        "--step",
        "steps",
        multiple=True,
        type=Span(),
        callback=_numbers,
        help="Only this profiler step, or steps such as 5-7; can be repeated.",
    ),
    click.option(
        "--phase",
        "phases",
        multiple=True,
        metavar="NAME",
        help="Only this inference phase, such as decode or prefill; can be repeated.",
    ),
)


@dataclass(frozen=True, slots=True)
class Part:
    """The selected part of a trace; without options all of it."""

    ranks: Integers
    steps: Integers
    phases: tuple[str, ...]

    def apply(self, trace: Trace, sources: Sequence[str]) -> Trace:
        """The part of a trace; errors name its sources."""
        with naming(sources):
            return trace.filter(
                ranks=self.ranks or None, steps=self.steps or None, phase=self.phases or None
            )

    def options(self) -> Iterator[str]:
        """The options that mean this part."""
        for option, numbers in (("--rank", self.ranks), ("--step", self.steps)):
            for span in _spans(numbers):
                yield option
                yield span
        for phase in self.phases:
            yield "--phase"
            yield phase


def _spans(numbers: Integers) -> Iterator[str]:
    """Numbers as `Span` reads them, neighbours together.

    Examples
    --------
    >>> [*_spans((0, 1, 2, 5))], [*_spans(range(64))]
    (['0-2', '5'], ['0-63'])
    """
    by_line = groupby(enumerate(sorted({*numbers})), lambda pair: pair[1] - pair[0])
    for _, pairs in by_line:
        span = [number for _, number in pairs]
        yield str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}"


def with_part(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of `Part`, as one argument ``part``."""

    @functools.wraps(verb)
    def wrapper(ranks: Integers, steps: Integers, phases: tuple[str, ...], **others: Any) -> Any:
        return verb(**others, part=Part(ranks, steps, phases))

    for option in reversed(_PART):
        wrapper = option(wrapper)
    return wrapper
