"""The section about a job: its steps on all ranks, the path across them, what could be saved."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import polars as pl

from profframe.analysis.path_pieces import pieces
from profframe.errors import ParameterError, UnknownNameError
from profframe.pages.report.frame_columns import FrameView
from profframe.pages.report.page_parts import (
    Chart,
    ChoicePart,
    Facts,
    FactTile,
    PageSection,
    Part,
    Sentences,
    Sliders,
)
from profframe.query.header import sql_directory
from profframe.show import units
from profframe.show.kernel_names import shortened
from profframe.show.path_text import shortened_waits
from profframe.trace import jobs
from profframe.trace.query import answer
from profframe.trace.sections.replies import Context, Reply, call_text

_STEPS: Final = "report/step_ranks.sql"
_MOST_CELLS: Final = 5000
"""Maximum cells of a heat map."""
_MOST_STEPS: Final = 200
_MOST_RANKS: Final = 64
"""The path and predictions of more ranks take longer than a page should."""
_MOST_EVENTS: Final = 500_000
"""Without steps, the whole trace counts: of more events, path and predictions take too long."""
_MOST_BLAMED: Final = 250_000
"""Events: finding who is to blame takes as long as loading them."""
_LEAST_SHARE: Final = 0.0005
"""Minimum share of a bound that gets a tile."""
_CHANGES: Final[dict[str, Any]] = {
    "communication": 0.5,
    "stragglers": False,
    "host": 0.5,
    "launches": False,
    "copies": False,
}
_PREDICTIONS: Final = (
    "change", "now_ns", "predicted_ns", "saved_ns", "saved_share", "low_ns", "high_ns",
)  # fmt: skip
_DOCS: Final = {
    "change": "the change",
    "now_ns": "recorded time (ns)",
    "predicted_ns": "predicted time (ns)",
    "saved_ns": "saved time; negative if it takes longer (ns)",
    "saved_share": "saved time over recorded time",
    "low_ns": "shortest prediction under other assumptions about what is not recorded (ns)",
    "high_ns": "longest prediction under other assumptions about what is not recorded (ns)",
    "replay_error": "unchanged replay over recorded time, minus 1",
    "host_ns": "part of the prediction bound by the host (ns)",
    "launch_ns": "part of the prediction bound by launches (ns)",
    "compute_ns": "part of the prediction bound by computation (ns)",
    "communication_ns": "part of the prediction bound by communication (ns)",
    "copy_ns": "part of the prediction bound by copies (ns)",
    "sync_ns": "part of the prediction bound by calls that wait (ns)",
    "idle_ns": "part of the prediction bound by nothing known (ns)",
}
_WAITS: Final = ("rank", "bound", "name", "total_ns", "share")
_BLAMED: Final = (
    "rank", "cost_ns", "part_share", "part", "cause", "name", "op", "module", "waits_for_rank",
)  # fmt: skip

_BLAME_DOCS: Final = {
    "rank": "the late rank; empty for transfers",
    "part": "entry: others wait for the rank; transfer: all ranks are there",
    "cause": "what it did since: host, input, launch, compute, copy, communication, wait",
    "name": "the slice",
    "op": "innermost op around it or its launch",
    "module": "innermost module around it or its launch",
    "waits_for_rank": "the rank that it waited for; its own: as at another collective",
    "cost_ns": "time that it costs the job (ns)",
    "held_up_ns": "part of it in which only this rank was missing (ns)",
    "part_share": "its share of the part",
    "is_corrected": "whether the clocks of the ranks were corrected",
}
_KERNEL_CAUSES: Final = ("compute", "communication", "copy")


def job(context: Context) -> PageSection | None:
    """Steps of all ranks, the path across them, who is to blame, and what could be saved."""
    if "rank" in context.constant_keys or "run" not in context.constant_keys:
        return None
    events = int(context.answer("overview").frame["events"].sum())
    if not events:
        return None
    parts = [*_steps(context)]
    ranks = context.traces["rank"].unique().sort().to_list()
    step = _slowest(context)
    about = "All ranks on one clock: how long steps take, what their end waits for, what it costs."
    if cut := _too_much(len(ranks), events if step is None else 0):
        about += f" {cut}"
    else:
        is_blamed = events <= _MOST_BLAMED
        parts += _path(context, ranks, step, is_blamed)
        if not is_blamed:
            about += f" Blame of {events:,} events is left out; trace.blame() gives it."
    return PageSection("Job", about, tuple(parts)) if parts or cut else None


def _too_much(ranks: int, events: int) -> str:
    """Why the path and predictions are left out; empty if they are not."""
    if ranks <= _MOST_RANKS and events <= _MOST_EVENTS:
        return ""
    what = f"{ranks:,} ranks" if ranks > _MOST_RANKS else f"{events:,} events"
    calls = "trace.critical_path(across_ranks=True) and trace.what_if() give them"
    return f"The path and predictions of {what} are left out; {calls}."


def _steps(context: Context) -> Iterator[Part]:
    """How long steps take on each rank, wait and compute."""
    from profframe.pages.plots import rank_lanes

    ranks = context.starts.height
    most = max(min(_MOST_CELLS // ranks, _MOST_STEPS), 1)
    rows = pl.DataFrame(answer(context.trace, sql_directory() / _STEPS, most=most))
    options: list[tuple[str, Chart]] = []
    for measure, (column, *_) in rank_lanes.MEASURES.items():
        if rows[column].max():
            draw = partial(rank_lanes.heat_map, rows, measure)
            calls = ("trace.step_times()", 'trace.collectives(per="rank")')
            chart = context.drawn(f"job-{measure}", f"{measure} by rank and step", draw, calls)
            options.append((measure, chart))
    if options:
        yield ChoicePart("job-steps", "Colour", tuple(options), "Steps of all ranks")


def _path(context: Context, ranks: list[int], step: int | None, is_blamed: bool) -> Iterator[Part]:
    """The path through the slowest step, and predictions of it."""
    of_step: dict[str, Any] = {} if step is None else {"step": step}
    call = call_text("critical_path", **of_step, across_ranks=True)
    try:
        path = jobs.critical_path(context.trace, **of_step, across_ranks=True)
    except (ParameterError, UnknownNameError) as error:
        reason = f"Not known: {units.visible(str(error))}."
        yield Sentences("Critical path", (reason,), (), "", (call,))
        return
    if not path.length_ns:
        return
    yield Facts((*_facts(path, step),), (call,))
    events = shortened(path.events, "name", kernels=pl.col("kind") == "kernel")
    yield _ribbon(context, events, ranks, step, call)
    if waits := Reply("waits", f"{call}.waits", shortened_waits(path)):
        title = "What ranks waited for on other ranks, along this path"
        yield context.table(waits, "Waits on the path", _WAITS, "total_ns", title=title)
    if is_blamed:
        yield from _blame(context, of_step)
    yield from _predictions(context, of_step)


def _slowest(context: Context) -> int | None:
    """The longest step on any rank, of the steps that most ranks have; the first on a tie."""
    steps = context.answer("step_times").frame.filter(pl.col("lack").is_null())
    if steps.is_empty():
        return None
    ranks = pl.col("rank").n_unique().over("step")
    order = steps.sort(ranks, "step_ns", -pl.col("step"), descending=True)
    return int(order["step"][0])


def _facts(path: Any, step: int | None) -> Iterator[FactTile]:
    length, what = path.length_ns, "Whole trace" if step is None else "Slowest step"
    note = "" if step is None else f"step {step}"
    yield FactTile(what, units.duration(length), f"{length:,} ns", note)
    for bound, total, share in path.bounds.sort("total_ns", descending=True).iter_rows():
        if share >= _LEAST_SHARE:
            label = "Idle" if bound == "idle" else f"Bound by {bound}"
            yield FactTile(label, units.share(share), f"{total:,} ns", units.duration(total))


def _ribbon(
    context: Context, events: pl.DataFrame, ranks: list[int], step: int | None, call: str
) -> Chart:
    from profframe.pages.plots import rank_lanes

    what = "the whole trace" if step is None else f"step {step}, the slowest"
    title = f"Critical path of {what}"
    draw = partial(rank_lanes.ribbon, pieces(events), ranks, title, events.height)
    return context.drawn("job-path", "Critical path across ranks", draw, (call,))


def _blame(context: Context, of_step: dict[str, Any]) -> Iterator[Part]:
    """What late ranks cost the job."""
    blame = pl.DataFrame(jobs.blame(context.trace, **of_step))
    rows = shortened(blame, "name", kernels=pl.col("cause").is_in(_KERNEL_CAUSES))
    if reply := Reply("blame", call_text("blame", **of_step), rows):
        title = "What each rank, op and cause costs"
        about = "What late ranks did before a collective that other ranks did not; then transfers."
        yield context.table(
            reply, "Blame", _BLAMED, title=title, about=about, column_docs=_BLAME_DOCS
        )


def _predictions(context: Context, of_step: dict[str, Any]) -> Iterator[Part]:
    """Predictions of what changes would gain."""
    call = call_text("what_if", **of_step, **_CHANGES)
    rows = jobs.what_if(context.trace, **of_step, **_CHANGES)
    grid = jobs.what_if_grid(context.trace, **of_step)
    reply = Reply("what_if", call, pl.DataFrame(rows))
    title = "What changes would gain"
    about = (
        "From a replay of all ranks. Low to high is the range of predictions under other "
        "assumptions about what is not recorded."
    )
    yield context.table(
        reply, "Predictions", _PREDICTIONS, title=title, about=about, column_docs=_DOCS
    )
    yield Sliders(
        "what-if-grid",
        "Try factors",
        "Factors for the times of transfers and of everything that threads do.",
        FrameView(pl.DataFrame(grid)),
        (call_text("what_if_grid", **of_step),),
    )
