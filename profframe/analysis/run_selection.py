"""The order of runs, and which of them are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import polars as pl

from profframe.errors import ParameterError, UnknownNameError
from profframe.query.selection import Text, integer, texts

Runs = Text | int
"""Names and patterns of runs, or how many."""

LEAST_BASELINE: Final = 2


def in_order(traces: pl.DataFrame) -> pl.DataFrame:
    """Runs by start if all clocks have one, else by name with numbers as numbers.

    The start is NULL if runs are ordered by name.

    Examples
    --------
    >>> by_name = {"run": ["r10", "r9"], "clock": ["relative"] * 2, "start_ns": [1, 2]}
    >>> in_order(pl.DataFrame(by_name))["run"].to_list()
    ['r9', 'r10']
    """
    times = traces.select((pl.col("clock") == "utc") & pl.col("start_ns").is_not_null())
    has_times = bool(times.to_series().all())
    start = pl.col("start_ns").min() if has_times else pl.lit(None, pl.Int64)
    runs = traces.group_by("run").agg(start.alias("start_ns"))
    order = sorted(runs.iter_rows(), key=lambda row: (row[1] or 0, _natural(row[0]), row[0]))
    return pl.DataFrame(order, schema={"run": pl.String, "start_ns": pl.Int64}, orient="row")


def sides(order: Sequence[str], baseline: Runs, runs: Runs | None) -> tuple[list[str], list[str]]:
    """Runs of the baseline, and those that are compared with it.

    Both are names, patterns, or a number: of the runs just before the others, or of the latest
    runs. Without ``runs`` these are all others if the baseline has names, and the latest one if it
    is a number.

    Examples
    --------
    >>> sides(["a1", "a2", "b1", "b2"], "a*", None)
    (['a1', 'a2'], ['b1', 'b2'])
    >>> sides(["a1", "a2", "b1", "b2"], 2, None)
    (['a2', 'b1'], ['b2'])
    """
    number = baseline if isinstance(baseline, int) else None
    if runs is None:
        others = None if number is None else list(order[-1:])
    elif isinstance(runs, int):
        others = list(order[-_positive("runs", runs) :])
    else:
        others = _matching("runs", order, runs)
    if number is not None:
        first = min((order.index(run) for run in others or ()), default=0)
        base = list(order[max(first - _positive("baseline", number), 0) : first])
    else:
        base = _matching("baseline", order, baseline)  # type: ignore[arg-type] # no number
    baseline_runs = set(base)
    others = [run for run in order if run not in baseline_runs] if others is None else others
    overlap = [run for run in others if run in baseline_runs]
    if overlap:
        raise ParameterError(
            f"run {overlap[0]!r} is both in the baseline and among the runs to compare with it"
        )
    if len(base) < LEAST_BASELINE:
        raise ParameterError(
            f"baseline: needs at least {LEAST_BASELINE} runs to tell noise from a change, "
            f"found {len(base)} of {len(order)}"
        )
    if not others:
        raise ParameterError("baseline: there is no other run to compare with it")
    return base, others


def some_traces(traces: Iterable[tuple[str, int]], most: int = 4) -> str:
    """The first runs and the first ranks of several traces, for a message.

    Examples
    --------
    >>> some_traces([("ddp", 0), ("ddp", 1), ("ddp.1", 0), ("ddp.1", 1)])
    "runs 'ddp', 'ddp.1', ranks 0, 1"
    >>> some_traces([("ddp", 0), ("ddp", 1)], most=1)
    "run 'ddp', ranks 0, ..."
    """
    runs, ranks = map(list, map(dict.fromkeys, zip(*traces, strict=True)))
    return ", ".join(
        f"{name}{'s' if len(values) > 1 else ''} {some_names(values, most)}"
        for name, values in (("run", runs), ("rank", ranks))
    )


def some_names(names: Sequence[str | int], most: int = 4) -> str:
    """The first of several, for a message.

    Examples
    --------
    >>> some_names(["ddp", "ddp.1", "ddp.2"], most=2)
    "'ddp', 'ddp.1', ..."
    """
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown}, ..." if len(names) > most else shown


def _matching(parameter: str, order: Sequence[str], names: Text) -> list[str]:
    """Runs with these names, or that match these patterns."""
    matches: set[str] = set()
    for text in texts(parameter, names):
        fitting = {text} if text in order else {run for run in order if fnmatchcase(run, text)}
        if not fitting:
            raise UnknownNameError.among("run", text, order)
        matches |= fitting
    return [run for run in order if run in matches]


def _positive(parameter: str, value: int) -> int:
    if integer(parameter, value) < 1:
        raise ParameterError(f"{parameter}: a number of runs is at least 1, not {value}")
    return value


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Parts of a name, with digits as numbers."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(p), "") if p.isdecimal() and p.isascii() else (-1, p) for p in parts)
