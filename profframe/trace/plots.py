"""Answers as charts: each method runs an answer and draws its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from profframe.errors import ParameterError, UnknownNameError, no_attribute
from profframe.pages.plots import drawing
from profframe.query.selection import texts
from profframe.show.empty_frames import why_empty
from profframe.trace import run_statistics
from profframe.trace.argument_hints import suggest_filter_calls
from profframe.trace.base_trace import BaseTrace
from profframe.trace.empty_reasons import lack_of
from profframe.trace.query import answer, own_rows, roofline
from profframe.trace.trace_tables import shared_session, table

if TYPE_CHECKING:
    import polars as pl

    from profframe.pages.flame import FlameGraph
    from profframe.pages.plots.chart_parts import AnyChart
    from profframe.pages.timeline import Timeline
    from profframe.query.selection import Text

_MOST_STEPPED: Final = 8
"""Steps are drawn by default for up to this many traces."""
_POINTS: Final = 1000
_PER_OF_KERNELS: Final = ("name", "short_name", "category", "class")
_NO_STEP_TIMES: Final = "the length of no profiler step is known: see lack in step_times"
_NO_VALUES: Final = "no kernel has both FLOPs and bytes that are known"
_ONE_RUN: Final = "this trace has one run; load several: load('store'), load('runs/*.json.gz')"
_NO_STARTS: Final = "no slice has a start"


@partial(suggest_filter_calls, behind="plot.")
@dataclass(frozen=True, slots=True)
class Plots:
    """Charts of a trace, made with altair (``pip install 'profframe[plot]'``).

    A chart's data are the rows of its answer, with additional columns in the chart's units. Each
    (run, rank) has its own colour or panel; the subtitle says what is left out. A chart without
    data raises a `ParameterError`.

    Parameters
    ----------
    trace
        The trace.

    Examples
    --------
    >>> from profframe import load
    >>> chart = load("examples/cpu_training.json.gz").plot.steps()
    >>> chart.data["step", "step_ns"].height
    3
    """

    trace: BaseTrace

    if not TYPE_CHECKING:  # a type checker would accept any name as an existing one

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, "trace.plot", "trace.plot", name)

    def breakdown(self, per: str | None = None) -> AnyChart:
        """How the devices spent their time: compute, communicate, copy, idle.

        Parameters
        ----------
        per
            ``"step"``, or ``"trace"`` for a bar per (run, rank). By default steps, if a trace has
            several and there are at most eight traces.

        Returns
        -------
        altair.Chart or altair.FacetChart
            Stacked bars of `time_breakdown`, whose parts add up.

        Raises
        ------
        ParameterError
            No device was used, or there are no steps.
        UnknownNameError
            ``per`` is something else.
        """
        if per not in {None, "step", "trace"}:
            raise UnknownNameError.one_of("per", per, ("step", "trace"))
        with drawing():
            from profframe.pages.plots import chart_parts, time_charts

            rows = answer(self.trace, "time_breakdown")
            traces = chart_parts.non_empty(rows, "breakdown").filter(rows["step"].is_null())
            steps = rows.filter(rows["step"].is_not_null())
            if per == "step":
                chart_parts.non_empty(
                    steps, "breakdown", lack_of(self.trace, "steps") or _NO_STEP_TIMES
                )
            several = steps.select("run", "rank").is_duplicated().any()
            by_step = per == "step" or (per is None and several and traces.height <= _MOST_STEPPED)
            return (
                time_charts.breakdown_of_steps(steps)
                if by_step
                else time_charts.breakdown_of_traces(traces)
            )

    def steps(self) -> AnyChart:
        """How long each step took, and how much of it a device was busy.

        Returns
        -------
        altair.Chart
            Lines of `step_times`.

        Raises
        ------
        ParameterError
            There are no profiler steps.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, time_charts

            rows = answer(self.trace, "step_times")
            return time_charts.steps(chart_parts.non_empty(rows, "steps"))

    def kernel_categories(self) -> AnyChart:
        """Show where device time went: matrix products, attention, collectives, ...

        Returns
        -------
        altair.Chart or altair.FacetChart
            Bars of `kernel_categories`, coloured by what they count as in `time_breakdown`.

        Raises
        ------
        ParameterError
            No device was used.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, time_charts

            rows = answer(self.trace, "kernel_categories")
            return time_charts.kernel_categories(chart_parts.non_empty(rows, "kernel_categories"))

    def kernels(
        self, top: int | None = None, per: str = "short_name", copies: bool = False
    ) -> AnyChart:
        """Show the kernels that took the most device time.

        Parameters
        ----------
        top
            Number of kernels per (run, rank), with one bar for all others. By default 15, or 5 if
            there are several traces.
        per, copies
            As for the answer.

        Returns
        -------
        altair.Chart or altair.FacetChart
            Bars of `kernels`.

        Raises
        ------
        ParameterError
            There are no kernels, or ``top`` is less than 1.
        UnknownNameError
            ``per`` is something else; bars do not tell launches of a kernel apart.
        """
        if per not in _PER_OF_KERNELS:
            raise UnknownNameError.one_of("per", per, _PER_OF_KERNELS)
        with drawing():
            from profframe.pages.plots import chart_parts, time_charts

            several = table(self.trace, "traces").height > 1
            limit = (5 if several else 15) if top is None else _at_least_one("top", top)
            rows = answer(self.trace, "kernels", per=per, top=limit, copies=copies)
            is_short = per == "short_name" and not rows.is_empty()
            full_names = answer(self.trace, "kernels", copies=copies) if is_short else None
            return time_charts.kernels(chart_parts.non_empty(rows, "kernels"), full_names)

    def memory(self, points: int | None = None) -> AnyChart:
        """Show memory allocated and reserved over time, and its peak.

        Parameters
        ----------
        points
            Maximum points per device, as for the answer; 0 for all. By default 1000, or as many as
            altair can draw for all devices together.

        Returns
        -------
        altair.LayerChart or altair.FacetChart
            Areas of `memory_timeline`, with the peaks of `memory_peak`.

        Raises
        ------
        ParameterError
            Memory was not recorded.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, moments

            rows = self._point_rows("memory_timeline", moments.MEMORIES, points)
            chart_parts.non_empty(rows, "memory")
            return moments.memory(
                rows, answer(self.trace, "memory_peak"), table(self.trace, "traces")
            )

    def snapshot_timeline(self, per: str | None = None, points: int | None = None) -> AnyChart:
        """Show what held memory over time, from a memory snapshot.

        Parameters
        ----------
        per
            ``"category"``, ``"module"``, ``"frame"``, ``"stack"``, ``"pool"``, ``"metadata"``,
            ``"fx_node"`` or ``"annotation"``. By default categories, or frames if no category is
            known.
        points
            Maximum moments per device, as for the answer; 0 for all. By default as many as altair
            can draw for all devices together.

        Returns
        -------
        altair.Chart or altair.FacetChart
            Stacked areas of `snapshot_timeline`: the names that hold the most at the peak, and
            the rest.

        Raises
        ------
        ParameterError
            There are no allocations of a memory snapshot.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, memory_charts

            if per is None:
                has_categories = own_rows(
                    self.trace, "SELECT count(category) > 0 FROM allocations"
                ).item()
                per = "category" if has_categories else "frame"
            peaks = answer(self.trace, "snapshot_timeline", points=5)
            devices = peaks.select(memory_charts.DEVICES).unique().height
            if points is None:
                points = chart_parts.MOST_ROWS // (memory_charts.TOP + 1) // max(devices, 1)
            rows = answer(
                self.trace, "snapshot_timeline", per=per, points=points, top=memory_charts.TOP
            )
            return memory_charts.timeline(
                chart_parts.non_empty(rows, "snapshot_timeline"), table(self.trace, "traces"), per
            )

    def segments(self) -> AnyChart:
        """Show how the segments of a memory snapshot are divided into blocks.

        Returns
        -------
        altair.Chart or altair.FacetChart
            A bar for each of the largest segments, from `fragmentation`.

        Raises
        ------
        ParameterError
            There are no segments of a memory snapshot.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, memory_charts

            devices = own_rows(
                self.trace, "SELECT count(DISTINCT (run, rank, device_type, device)) FROM segments"
            ).item()
            pieces = chart_parts.MOST_ROWS // max(min(devices, chart_parts.MOST_PANELS), 1)
            rows = answer(self.trace, "fragmentation", per="piece", pieces=min(pieces, 2000))
            return memory_charts.segments(chart_parts.non_empty(rows, "segments"))

    def queue_depth(self, points: int | None = None) -> AnyChart:
        """Show how much work was launched but had not begun.

        Parameters
        ----------
        points
            Maximum points per stream, as for the answer; 0 for all. By default 1000, or as many as
            altair can draw for all streams together.

        Returns
        -------
        altair.Chart or altair.FacetChart
            Lines of `queue_depth`.

        Raises
        ------
        ParameterError
            No launch of device work is known.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, moments

            rows = self._point_rows("queue_depth", moments.DEVICES, points)
            chart_parts.non_empty(rows, "queue_depth")
            return moments.queue_depth(rows, table(self.trace, "traces"))

    def idle(self, per: str = "stream", kernel_wait_ns: int = 30_000) -> AnyChart:
        """Show why streams or devices were idle, and for how long.

        Parameters
        ----------
        per, kernel_wait_ns
            As for the answer.

        Returns
        -------
        altair.Chart
            Stacked bars of `idle`.

        Raises
        ------
        ParameterError
            No stream was idle, or no device was used.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, time_charts

            rows = answer(self.trace, "idle", per=per, kernel_wait_ns=kernel_wait_ns)
            return time_charts.idle(chart_parts.non_empty(rows, "idle"))

    def roofline(
        self, per: str = "kernel", dtype: object = None, *, override: bool = False
    ) -> AnyChart:
        """Show how close device work came to the hardware's limits.

        Parameters
        ----------
        per, dtype, override
            As for the answer.

        Returns
        -------
        altair.LayerChart or altair.FacetChart
            Points of `roofline` below the peaks of the devices.

        Raises
        ------
        ParameterError
            No work is known.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, work

            rows = roofline(self.trace, per, dtype, override=override)
            chart_parts.non_empty(rows, "roofline")
            measured = chart_parts.positive(rows, "flop_per_byte", "flop_per_s")
            lack = lack_of(self.trace, "known_work") or _NO_VALUES
            return work.roofline(rows, chart_parts.non_empty(measured, "roofline", lack))

    def flame(self, top: int = 5000, min_share: float = 0) -> FlameGraph:
        """Show the host's call tree, merged by path, with host or device time.

        Parameters
        ----------
        top, min_share
            As for the answer.

        Returns
        -------
        FlameGraph
            The rows of `flame`, drawn by its own script, without altair.

        Raises
        ------
        ParameterError
            There are no slices on the host.
        """
        from profframe.pages.flame import FlameGraph

        rows = answer(self.trace, "flame", top=top, min_share=min_share)
        if rows.is_empty():
            raise ParameterError(f"flame: {why_empty(rows)}")
        return FlameGraph(rows)

    def timeline(self, full: bool = False) -> Timeline:
        """Show all slices over time: threads, streams, counters, steps, the critical path.

        Parameters
        ----------
        full
            Show all slices; otherwise as many as fit into 8.8 MB. The shortest of each lane are
            left out first, and the lane says so.

        Returns
        -------
        Timeline
            Drawn by its own scripts, without altair.

        Raises
        ------
        ParameterError
            There are no slices with a start.
        """
        from profframe.pages.timeline import Timeline
        from profframe.pages.timeline.page_budget import BUDGET_BYTES, document
        from profframe.trace.timeline_selection import MOST_READ, timeline_rows

        with shared_session(self.trace) as trace:
            rows = timeline_rows(trace, None if full else MOST_READ)
        packed = document(rows, None if full else BUDGET_BYTES)
        if not packed.head["slices"]:
            raise ParameterError(f"timeline: {lack_of(self.trace, 'slices') or _NO_STARTS}")
        return Timeline(packed)

    def ranks(self, corrected: bool = True) -> AnyChart:
        """Show what each rank's devices did, and which ranks the others waited for.

        Parameters
        ----------
        corrected
            Correct clocks by the offsets of `clock_skew`, if all are known.

        Returns
        -------
        altair.Chart or altair.VConcatChart
            Bars of `time_breakdown` and of `stragglers`.

        Raises
        ------
        ParameterError
            There is only one rank, or there is no data about ranks.
        """
        with drawing():
            from profframe.pages.plots import rank_charts

            if (lack := lack_of(self.trace, "several_ranks")) is not None:
                raise ParameterError(f"ranks: {lack}")
            rows = answer(self.trace, "time_breakdown")
            breakdown = rows.filter(rows["step"].is_null())
            waits = answer(self.trace, "stragglers", per="rank", corrected=corrected)
            if breakdown.is_empty() and waits.is_empty():
                lacks = dict.fromkeys(filter(None, map(why_empty, (rows, waits))))
                raise ParameterError(f"ranks: {'; '.join(lacks)}")
            return rank_charts.ranks(breakdown, waits)

    def collectives(self, top: int = 15, corrected: bool = True) -> AnyChart:
        """Show how long collectives take and wait, and their bandwidth.

        Parameters
        ----------
        top
            Number of kinds of collectives with a bar.
        corrected
            Correct clocks by the offsets of `clock_skew`, if all are known.

        Returns
        -------
        altair.Chart or altair.VConcatChart
            Bars and points of `collectives` by size.

        Raises
        ------
        ParameterError
            There are no collectives, or ``top`` is less than 1.
        """
        with drawing():
            from profframe.pages.plots import chart_parts, rank_charts

            rows = answer(self.trace, "collectives", per="size", corrected=corrected)
            chart_parts.non_empty(rows, "collectives")
            return rank_charts.collectives(rows, _at_least_one("top", top))

    def trend(self, metric: Text = "step_p50_ns", per_step: int = 0) -> AnyChart:
        """Show metrics from run to run, and where they change for good.

        Parameters
        ----------
        metric, per_step
            As for `Trace.trend`.

        Returns
        -------
        altair.LayerChart or altair.FacetChart
            A panel per metric.

        Raises
        ------
        ParameterError
            There is only one run, or no run has a value.
        """
        with drawing():
            import polars as pl

            from profframe.pages.plots import chart_parts, history

            runs = table(self.trace, "traces")["run"].n_unique()
            if runs < 2:
                lack = None if runs else lack_of(self.trace, "traces")
                raise ParameterError(f"trend: {lack or _ONE_RUN}")
            rows = run_statistics.trend(self.trace, metric, per_step)
            with_values = rows.filter(pl.col("value").is_not_null().any().over("metric"))
            named = ", ".join(texts("metric", metric))
            lack = f"no run has a value of {named}" if named else why_empty(rows)
            if "step_" in named and (no_steps := lack_of(self.trace, "steps")):
                lack = f"{lack}: {no_steps}"
            return history.trend(chart_parts.non_empty(with_values, "trend", lack))

    def regressions(self, baseline: Any, runs: Any = None, top: int = 20) -> AnyChart:
        """Show ops and kernels that take longer than in several earlier runs, beyond noise.

        Parameters
        ----------
        baseline, runs
            As for `Trace.regressions`.
        top
            Maximum number of ops and kernels.

        Returns
        -------
        altair.LayerChart
            Bars with confidence intervals; no bars if nothing got slower.

        Raises
        ------
        ParameterError
            The baseline cannot be used, or ``top`` is less than 1.
        """
        with drawing():
            from profframe.pages.plots import history

            rows = run_statistics.regressions(self.trace, baseline, runs)
            return history.regressions(rows, _at_least_one("top", top))

    def _point_rows(self, name: str, keys: Sequence[str], points: int | None) -> pl.DataFrame:
        """Rows of an answer that takes `points`: by default as many as altair draws."""
        from profframe.pages.plots import chart_parts

        rows = answer(self.trace, name, points=_POINTS if points is None else points)
        height = chart_parts.label_rows(rows, keys, chart_parts.MOST_PANELS).frame.height
        if points is not None or height <= chart_parts.MOST_ROWS:
            return rows
        return answer(self.trace, name, points=max(_POINTS * chart_parts.MOST_ROWS // height, 2))


def _at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise ParameterError(f"{name}: a number from 1, not {value}")
    return value
