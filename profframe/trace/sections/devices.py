"""Sections about the devices: time, kernels, launches and idle time, queues, roofline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import polars as pl

from profframe.pages.report.page_parts import ChoicePart, PageSection, Part
from profframe.show.compact_tables import NO_LINE, with_copies_apart
from profframe.show.kernel_names import disambiguated
from profframe.trace.sections.replies import Context, Reply, whole

_BREAKDOWN: Final = (
    "step", "span_ns", "compute_ns", "exposed_communication_ns", "exposed_copy_ns",
    "unrecorded_ns", "idle_ns", "hidden_communication_ns", "hidden_copy_ns",
)  # fmt: skip
_HIDDEN: Final = ("hidden_communication_ns", "hidden_copy_ns")
_STEPS: Final = (
    "step", "start_ns", "step_ns", "host_ns", "lag_ns", "busy_ns", "compute_ns",
    "exposed_communication_ns", "exposed_copy_ns", "idle_ns", "busy_share",
)  # fmt: skip
_USED: Final = (
    "device", "step", "span_ns", "kernel_share", "busy_share", "sm_efficiency", "occupancy",
)  # fmt: skip
_CATEGORIES: Final = (
    "category", "class", "calls", "total_ns", "share", "busy_ns", "exposed_ns", "both_ns",
)  # fmt: skip
_KERNELS: Final = (
    "short_name", "category", "fused_ops", "calls", "total_ns", "share", "mean_ns", "min_ns",
    "max_ns", "top_op",
)  # fmt: skip
_COPIES: Final = (
    "device", "kind", "name", "calls", "bytes", "total_ns", "bytes_per_s", "busy_share",
)  # fmt: skip
_LAUNCHES: Final = (
    "name", "calls", "kernels", "total_ns", "mean_ns", "p50_ns", "p99_ns", "p50_delay_ns",
    "p99_delay_ns", "short_kernels", "outlier_calls", "outlier_delays",
)  # fmt: skip
_IDLE: Final = (
    "device", "stream", "cause", "gaps", "idle_ns", "mean_ns", "max_ns", "share", "span_share",
    "line_name", "annotation_name", "module_name", "op_name",
)  # fmt: skip
_OWNERS: Final = ("device", "name", "idle_ns", "share", "gaps", "max_ns")
_GAPS: Final = (
    "device", "start_ns", "dur_ns", "share", "cause", "owner_name", "owner_ns", "line_name",
    "op_name", "annotation_name", "frame_name", "call_name", "before_name", "after_name",
)  # fmt: skip
_PHASES: Final = (
    "phase", "execution", "is_warmup", "calls", "mean_batch", "tokens", "tokens_per_s", "span_ns",
    "p50_span_ns", "host_ns", "device_ns", "idle_ns", "idle_share", "graph_share",
    "exposed_communication_ns", "known_share", "roofline_share",
)  # fmt: skip
_LAYERS: Final = (
    "graph", "block", "phase", "replays", "kernels", "layers", "layer_kernels", "before", "after",
    "layers_ns", "share", "p50_ns", "slowest_layer", "slowest_ns", "slowest_ratio", "sequence",
)  # fmt: skip
_MFU: Final = (
    "step", "name", "mfu", "hfu", "dtype", "peak_flop_per_s", "known_flops_share", "model_flops",
    "recomputed_flops", "devices", "steps", "device_ns", "note",
)  # fmt: skip
_ROOFLINE: Final = (
    "device", "short_name", "calls", "total_ns", "share", "lost_ns", "bound", "flop_per_s",
    "flop_share", "bytes_per_s", "bandwidth_share", "peak_dtype", "note",
)  # fmt: skip


def time(context: Context) -> PageSection | None:
    """What the devices did in each step; without devices, how long each step took."""
    breakdown = context.answer("time_breakdown")
    if not breakdown:
        return _steps(context)
    about = "A row without a step is the whole trace."
    parts: list[Part] = [
        *context.chart("breakdown", "Device time by class"),
        context.table(breakdown, "Time breakdown", _BREAKDOWN, about=about),
    ]
    if breakdown.frame.select(pl.sum_horizontal(pl.col(_HIDDEN).sum())).item():
        overlaps = context.answer("time_breakdown", per="combination")
        title = "What ran at the same time"
        parts.append(context.table(overlaps, "What ran together", title=title))
    if used := whole(context.answer("utilization")):
        title = "How much of each device was used"
        parts.append(context.table(used, "Utilization", _USED, title=title))
    return PageSection(
        "Time breakdown",
        "How the devices spent their time, overall and in each step; the parts add up.",
        tuple(parts),
    )


def _with_short_names(reply: Reply) -> Reply:
    """Rows by kernel with short names that tell them apart."""
    names = disambiguated(reply.frame.select(short_name="name"), "short_name")
    return replace(reply, frame=reply.frame.with_columns(names))


def _steps(context: Context) -> PageSection | None:
    steps = context.answer("step_times")
    if not steps:
        return None
    return PageSection(
        "Steps",
        "How long each profiler step took.",
        (*context.chart("steps", "Time of each step"), context.table(steps, "Steps", _STEPS)),
    )


def inference(context: Context) -> PageSection | None:
    """Phases of inference, and the layers of graphs."""
    filled = context.filled_columns()
    parts: list[Part] = []
    if "phase_id" in filled:
        phases = context.answer("phases")
        about = "Graph, eager and warm-up phases have separate rows."
        parts.append(
            context.table(phases, "Phases", _PHASES, "span_ns", title="Phases", about=about)
        )
    if "graph_layer" in filled:
        layers = context.answer("graph_layers")
        title = "Graph layers"
        parts.append(context.table(layers, title, _LAYERS, "layers_ns", title=title))
    if not parts:
        return None
    return PageSection(
        "Inference",
        "What a server did for its requests, and the layers of its graphs.",
        tuple(parts),
    )


def kernels(context: Context) -> PageSection | None:
    """Kernels, and copies of memory."""
    parts: list[Part] = []
    if categories := context.answer("kernel_categories"):
        parts += context.chart("kernel_categories", "Time by kernel category")
        title = "Where device time went"
        categories = replace(categories, frame=with_copies_apart(categories.frame))
        parts.append(context.table(categories, "Categories", _CATEGORIES, "total_ns", title=title))
    if reply := context.answer("kernels"):
        parts += context.chart("kernels", "Kernels by time")
        reply = _with_short_names(reply)
        parts.append(context.table(reply, "Kernels", _KERNELS, "total_ns", title="Kernels"))
    if copies := context.answer("memory_bandwidth"):
        title = "Memory copies and fills"
        parts.append(context.table(copies, title, _COPIES, "total_ns", title=title))
    if not parts:
        return None
    return PageSection(
        "Kernels", "Device time by kernel, and how fast memory was copied.", tuple(parts)
    )


def idle(context: Context) -> PageSection | None:
    """Launches, why devices had nothing to do, and the longest gaps."""
    parts: list[Part] = []
    if causes := context.answer("idle"):
        parts += context.chart("idle", "Idle time by cause")
        title = "Idle time by cause"
        parts.append(context.table(causes, title, _IDLE, "idle_ns", title=title))
    owners = context.answer("idle", by="line", per="device")
    if owners and owners.frame["name"].null_count() < owners.frame.height:
        title = "What the host did meanwhile, by line of your own code"
        named = owners.frame.with_columns(pl.col("name").fill_null(NO_LINE))
        owners = replace(owners, frame=named)
        parts.append(context.table(owners, "Idle by line", _OWNERS, "idle_ns", title=title))
    if gaps := context.answer("gaps"):
        title = "The longest gaps, and what the host did in them"
        about = "The 20 longest of each rank."
        parts.append(context.table(gaps, "Longest gaps", _GAPS, "dur_ns", title=title, about=about))
    if launches := context.answer("launches"):
        title = "What launches cost the host, and how long launched work waited"
        parts.append(context.table(launches, "Launches", _LAUNCHES, "total_ns", title=title))
    if not parts:
        return None
    return PageSection(
        "Launches and idle time",
        "Why the devices were idle, and what launches cost the host.",
        tuple(parts),
    )


def queues(context: Context) -> PageSection | None:
    """How much work was waiting."""
    summary = context.answer("queue_depth", per="stream")
    if not summary:
        return None
    return PageSection(
        "Queue depth",
        "How much work was launched but not begun, on each stream.",
        (*context.chart("queue_depth", "Queue depth over time"), context.table(summary, "Queues")),
    )


def counters(context: Context) -> PageSection | None:
    """Counters over time, and hardware counters of ops."""
    parts: list[Part] = []
    if series := context.answer("counter_series", per="counter"):
        title = "Range and mean of each counter"
        parts.append(context.table(series, "Counters", title=title))
        parts += _energy(context)
    parts += _counters_of_work(context)
    if not parts:
        return None
    return PageSection("Counters", "What counters of the trace measured.", tuple(parts))


def _counters_of_work(context: Context) -> Iterator[Part]:
    """What counters were in ops and kernels, where that was measured."""
    title = "Counters of ops and kernels"
    tables = []
    for per in ("op", "kernel"):
        reply = context.answer("counters_by_op", per=per)
        is_empty = pl.col("mean_value").is_null() & (pl.col("matched_by") == "samples")
        reply = replace(reply, frame=reply.frame.filter(~is_empty.fill_null(value=False)))
        if reply:
            table = context.table(reply, f"Counters by {per}", key=f"counters_by_op.{per}")
            tables.append((per, table))
    if tables:
        yield ChoicePart("counters-by", "By", tuple(tables), title)


def _energy(context: Context) -> Iterator[Part]:
    """What devices took, by what it is known of."""
    title = "Energy"
    whole = context.answer("energy", per="device")
    if not whole:
        return
    replies = {"device": whole}
    replies |= {per: context.answer("energy", per=per) for per in ("step", "op", "kernel")}
    tables = tuple(
        (per, context.table(reply, f"{title} by {per}", key=f"energy-{per}"))
        for per, reply in replies.items()
        if reply
    )
    yield ChoicePart("energy", "By", tables, title)


def _utilization(context: Context) -> Iterator[ChoicePart]:
    """How much of their peak devices put into the model, by what it is known of."""
    title = "Model FLOPs utilization"
    replies = {per: context.answer("mfu", per=per) for per in ("run", "step", "phase")}
    tables = tuple(
        (per, context.table(reply, f"{title} by {per}", _MFU, key=f"mfu-{per}"))
        for per, reply in replies.items()
        if reply.frame["mfu"].count()
    )
    if tables:
        yield ChoicePart("utilization", "By", tables, title)


def roofline(context: Context) -> PageSection | None:
    """How close kernels came to what their device can do."""
    reply = context.answer("roofline")
    if not reply.frame.filter(pl.col("note").ne_missing("unknown_work")).height:
        return None
    reply = _with_short_names(reply)
    parts: list[Part] = [*_utilization(context)]
    parts += context.chart("roofline", "Roofline")
    parts.append(context.table(reply, "Roofline", _ROOFLINE, "lost_ns"))
    return PageSection(
        "Roofline",
        "How close kernels came to the limits of their device, and the time that was lost.",
        tuple(parts),
    )
