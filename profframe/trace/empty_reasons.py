"""Why analyses have no rows: each function returns what a frame calls when it is shown.

The reasons of answers and tables come from `profframe.query.reasons`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import duckdb
import polars as pl

from profframe.errors import ProfframeError
from profframe.query import analyses, reasons
from profframe.query.catalogue import find
from profframe.query.reasons import ComputedRows
from profframe.query.selection import Text, spans
from profframe.query.session import Session
from profframe.show.units import plural
from profframe.trace.base_trace import BaseTrace

Why = Callable[[], str | None]
"""What `profframe.show.frame.frame` calls."""
Height = Callable[[Session, Mapping[str, object]], int]
"""The number of rows of an analysis for another session and other arguments."""


def late_reason(self: BaseTrace, why: Callable[[Session], str | None]) -> Why:
    """A reason that is determined once, when it is read; None if the trace cannot be asked."""
    session = self._session.unshared()

    @cache
    def reason() -> str | None:
        try:
            return why(session)
        except (ProfframeError, duckdb.Error, OSError):  # a store that is gone, a limit
            return None

    return reason


def lack_of(self: BaseTrace, name: str) -> str | None:
    """A missing feature of `profframe.query.reasons.LACKING` in words; None if it is there."""
    return reasons.of_part(self._session, name)


def of_trend(self: BaseTrace, metrics: int) -> Why:
    """Why there is no row for so many metrics of runs."""
    if not metrics:
        return lambda: "no metric is named; the default is metric='step_p50_ns'"
    return _of(self, ComputedRows(analyses.recorded("trend"), "no run has a metric"))


def of_regressions(self: BaseTrace, compared: int, *, copies: bool = False) -> Why:
    """Why none of so many ops and kernels is a regression."""
    if compared:
        none = "the only op or kernel" if compared == 1 else f"none of {compared:,} ops and kernels"
        verb = "does not take" if compared == 1 else "takes"
        return lambda: f"{none} {verb} longer than noise explains"
    (recorded,) = analyses.recorded("regressions")
    with_copies = (*recorded, *(("copies",) if copies else ()))
    return _of(self, ComputedRows((with_copies,), "the compared runs have no ops and no kernels"))


def of_outliers(self: BaseTrace, per: str, rows: pl.DataFrame, top: int) -> Why:
    """Why none of the runs or steps, which are ``rows``, is an outlier."""
    from profframe.analysis.outliers import LEAST, METRICS

    if not top:
        return lambda: f"top=0 asks for no {per}"
    needed = f"at least {LEAST} are needed to tell an outlier"
    if per == "run":
        number = max((rows[name].count() for name in METRICS), default=0)
        recorded, among = ("traces",), "the others"
        few = f"there {'is' if number == 1 else 'are'} {plural(number, 'run')} to compare; {needed}"
    else:
        sizes = rows.filter(pl.col("lack").is_null()).group_by("run", "rank").len()["len"]
        is_enough = sizes >= LEAST
        number = int(sizes.filter(is_enough).sum())
        recorded, among = ("steps",), "the other steps of its run and rank"
        most = int(sizes.max() or 0)  # type: ignore[arg-type] # counts
        few = f"no rank has more than {plural(most, 'profiler step')} with a time; {needed}"
    is_few = number < LEAST
    none = f"none of {plural(number, per)} differs from {among} by more than noise explains"
    return _of(self, ComputedRows((recorded,), few if is_few else none))


def of_blame(
    self: BaseTrace,
    height: Height,
    run: Text | None,
    steps: tuple[int, ...] | None,
    *,
    corrected: bool,
) -> Why:
    """Why no rank waited for another."""

    def why(session: Session) -> str:
        stragglers = find("stragglers")
        own = session if run is None else session.filter(runs=run)
        if not own.unlimited().answer(stragglers, {"corrected": corrected}).height:
            return reasons.of_answer(own, stragglers, {"corrected": corrected})

        given = {} if steps is None else {"step": steps[0] if len(steps) == 1 else spans(steps)}
        when_empty = "no rank is late to a collective, and no collective takes time"
        return reasons.of_analysis(session, ComputedRows((), when_empty, height, given))

    return late_reason(self, why)


def of_dependencies(self: BaseTrace, height: Height) -> Why:
    """Why nothing waited for anything."""
    when_empty = "nothing in this trace waited for anything else in it"
    return _of(self, ComputedRows(analyses.recorded("dependencies"), when_empty, height))


def of_path(self: BaseTrace, height: Height) -> Why:
    """Why a critical path is empty."""
    when_empty = "no host slice or device work has both a start and a duration"
    return _of(self, ComputedRows(analyses.recorded("critical_path"), when_empty, height))


def of_tree(self: BaseTrace) -> Why:
    """Why a call tree has no slices."""
    return _of(
        self, ComputedRows(analyses.recorded("tree"), "the call tree contains no host slices")
    )


def of_grid(communication: int, host: int) -> Why:
    """Why there is no pair of factors."""
    empty = [name for name, size in (("communication", communication), ("host", host)) if not size]
    return lambda: f"no factor is given: {' and '.join(f'{name}=[]' for name in empty)}"


def _of(self: BaseTrace, analysis: ComputedRows) -> Why:
    return late_reason(self, lambda session: reasons.of_analysis(session, analysis))
