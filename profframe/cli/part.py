"""Options that select a part of a trace: runs, ranks, profiler steps and phases of inference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli.loading import naming
from profframe.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.selection import Integers
    from profframe.trace.trace import Trace


def _numbers(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> Integers:
    """One range, of which some numbers may be missing, or all numbers that are named."""
    if not texts:
        return ()
    from profframe.query.selection import integers

    try:
        return integers(option.opts[0], ",".join(texts))
    except ParameterError as error:
        raise click.BadParameter(str(error).partition(": ")[2]) from error


def numbers_option(
    *names: str, **attributes: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes numbers and ranges, such as 0,2-3, and can be repeated."""
    return click.option(*names, multiple=True, callback=_numbers, metavar="N,N-M", **attributes)


_PART: Final = (
    click.option(
        "--run", "runs", multiple=True, metavar="NAME", help="Only this run; can be repeated."
    ),
    numbers_option("--rank", "ranks", help="Only these ranks, such as 0, 0-63 or 0,2-3."),
    numbers_option("--step", "steps", help="Only these profiler steps, such as 5, 5-7 or 2,5-7."),
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

    runs: tuple[str, ...] = ()
    ranks: Integers = ()
    steps: Integers = ()
    phases: tuple[str, ...] = ()

    def apply(self, trace: Trace, sources: Sequence[str]) -> Trace:
        """The part of a trace; errors name its sources."""
        with naming(sources):
            return trace.filter(
                runs=self.runs or None,
                ranks=self.ranks or None,
                steps=self.steps or None,
                phases=self.phases or None,
            )

    @property
    def step_words(self) -> str:
        """The steps as an option has them."""
        return _words(self.steps)

    def of_any_step(self) -> Part:
        """The part without its steps, for an analysis that also needs what came before them."""
        return replace(self, steps=())

    def steps_of(self, trace: Trace) -> list[int]:
        """The named steps that a trace has; an UnknownNameError if it has none of them."""
        from profframe.query.selection import check_numbers

        if not self.steps:
            return []
        present = trace.profiler_steps["step"].drop_nulls().unique().sort().to_list()
        check_numbers("step", self.steps, present)
        return [step for step in present if step in self.steps]

    def each(self, trace: Trace, *names: str) -> list[dict[str, Any]]:
        """Arguments for each run, rank or step that is named: an analysis is about one of them.

        Parameters
        ----------
        trace
            The trace, of these runs and ranks.
        names
            Which of ``run``, ``rank`` and ``step`` the analysis takes.

        Raises
        ------
        UnknownNameError
            There is no such step.
        """
        import polars as pl

        given = {"run": self.runs, "rank": self.ranks, "step": self.steps}
        named = [name for name in names if given[name]]
        if not named:
            return [{}]
        rows = trace.traces
        if "step" in named:
            rows = trace.profiler_steps.filter(pl.col("step").is_in(self.steps_of(trace)))
        return rows.select(named).unique().sort(named).to_dicts()

    def options(self) -> Iterator[str]:
        """The options that mean this part."""
        given = {
            "--run": self.runs,
            "--rank": [_words(self.ranks)] if self.ranks else (),
            "--step": [self.step_words] if self.steps else (),
            "--phase": self.phases,
        }
        for option, values in given.items():
            for value in values:
                yield option
                yield value


def _words(numbers: Integers) -> str:
    from profframe.query.selection import as_spans

    return ",".join(as_spans(numbers))


def heading(one: Mapping[str, object]) -> str:
    """What says which of several parts follows.

    Examples
    --------
    >>> heading({"rank": 0, "step": 2})
    'rank 0, step 2'
    """
    return ", ".join(f"{name} {value}" for name, value in one.items())


def together(rows: Sequence[tuple[Mapping[str, object], pl.DataFrame]]) -> pl.DataFrame:
    """Rows of several parts, with columns that say which; those of one as they are."""
    import polars as pl

    if len(rows) == 1:
        return rows[0][1]
    return pl.concat(
        pl.DataFrame(own).select(
            *(pl.lit(value).alias(name) for name, value in one.items() if name not in own.columns),
            pl.all(),
        )
        for one, own in rows
    )


def with_part(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of `Part`, as one argument ``part``."""

    @functools.wraps(verb)
    def wrapper(
        runs: tuple[str, ...],
        ranks: Integers,
        steps: Integers,
        phases: tuple[str, ...],
        **others: Any,
    ) -> Any:
        return verb(**others, part=Part(runs, ranks, steps, phases))

    for option in reversed(_PART):
        wrapper = option(wrapper)
    return wrapper
