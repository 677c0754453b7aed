"""Sections about the host: operators, memory, modules and annotations, flame graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import polars as pl

from profframe.pages.report.frame_columns import FrameView
from profframe.pages.report.page_parts import ChoicePart, Flame, PageSection, Part, TablePart
from profframe.show import snapshot_text, units
from profframe.show.columns import KEYS
from profframe.show.compact_tables import NO_LINE
from profframe.trace.sections.replies import Context, Reply

_SELF_TIMES: Final = ("name", "kind", "calls", "self_ns", "self_share", "total_ns", "mean_ns")
_LINES: Final = (
    "name", "calls", "self_ns", "self_share", "idle_ns", "kernels", "self_device_ns",
    "self_backward_device_ns", "device_share", "lines_from",
)  # fmt: skip
_COMPILED: Final = (
    "graph", "name", "kernels", "calls", "total_ns", "device_ns", "split_ns", "share",
    "main_kernel", "main_share",
)  # fmt: skip
_COMPILED_BY: Final = (
    ("node", "post_grad"), ("node of the model", "pre_grad"), ("line of code", "line"),
)  # fmt: skip
_PAUSES: Final = (
    "thread_name", "waits", "wait_ns", "max_wait_ns", "holder_name", "holder_share", "collections",
    "collection_ns", "max_collection_ns",
)  # fmt: skip
_OPERATORS: Final = (
    "name", "input_dims", "stack", "calls", "self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns",
    "self_cpu_bytes", "self_device_bytes",
)  # fmt: skip
_ANNOTATIONS: Final = ("annotation", "device_annotation")
_REGIONS: Final = (
    "step", "name", "calls", "host_ns", "self_host_ns", "kernels", "device_ns", "self_device_ns",
    "busy_ns", "exposed_communication_ns", "idle_ns",
)  # fmt: skip
_PEAKS: Final = (
    "device_type", "device", "allocated_bytes", "before_trace_bytes", "reserved_bytes", "time_ns",
    "op_name", "annotation_name", "unfreed_blocks", "unfreed_bytes",
)  # fmt: skip
_OWNERS: Final = ("device_type", "device", "origin", "name", "blocks", "bytes", "share")
_BLOCKS: Final = (
    "device_type", "device", "bytes", "time_ns", "op_name", "step", "annotation_name",
)  # fmt: skip
_FAILURES: Final = (
    "device", "time_ns", "requested_bytes", "device_free_bytes", "held_bytes", "reserved_bytes",
    "inactive_bytes", "largest_free_bytes", "fits_sum", "frame", "holder_bytes", "holder_frame",
)  # fmt: skip
_HELD: Final = (
    "device_type", "device", "name", "peak_bytes", "peak_blocks", "peak_share", "end_bytes",
    "unfreed_bytes", "allocations", "stack",
)  # fmt: skip
_HELD_BY: Final = (
    ("line of code", "frame"), ("module", "module"), ("category", "category"),
    ("metadata of the program", "metadata"), ("pool", "pool"), ("FX node", "fx_node"),
    ("annotation", "annotation"), ("stack", "stack"),
)  # fmt: skip
_SEGMENTS: Final = (
    "device_type", "device", "segment_id", "segment_type", "pool", "stream", "bytes",
    "active_bytes", "inactive_bytes", "inactive_share", "free_blocks", "largest_free_bytes",
    "is_releasable",
)  # fmt: skip
_GROUPINGS: Final = (
    ("input shapes", "input_dims", {"group_by_input_shape": True}),
    ("stack", "stack", {"group_by_stack_n": 5}),
)
"""Further groupings of operators: label, the column of `events` that it needs, parameters."""
_MOST_NODES: Final = 8_000
_FEWEST_NODES: Final = 300


def operators(context: Context) -> PageSection | None:
    """Self times, and operators by name, input shapes and stack."""
    times = context.answer("self_times")
    if not times:
        return None
    parts: list[Part] = [
        context.table(times, "Self times", _SELF_TIMES, "self_ns", title="Self times")
    ]
    if lines := context.answer("python_lines"):
        title = "Lines of your own code"
        named = lines.frame.with_columns(pl.col("name").fill_null(NO_LINE))
        lines = replace(lines, frame=named)
        parts.append(context.table(lines, title, _LINES, "self_ns", title=title))
    if pauses := context.answer("python_pauses"):
        title = "Waits for Python's lock, and garbage collections"
        parts.append(context.table(pauses, title, _PAUSES, title=title))
    if context.answer("fx_nodes"):
        parts.append(_compiled(context))
    by_name = context.answer("key_averages")
    by = "self_device_ns" if by_name.frame["self_device_ns"].sum() else "self_cpu_ns"
    options = [("name", by_name)]
    filled = context.filled_columns()
    for label, column, parameters in _GROUPINGS:
        if column in filled:
            options.append((label, context.answer("key_averages", **parameters)))
    about = _overlap(context, by_name.frame)
    tables = tuple(
        (
            label,
            context.table(
                reply, f"Operators by {label}", _OPERATORS, by, key=f"operators-{n}", about=about
            ),
        )
        for n, (label, reply) in enumerate(options)
    )
    return PageSection(
        "Operators",
        "Where the time went: self time by name, and by operator as torch adds it up.",
        (*parts, ChoicePart("operators", "Grouped by", tables, "Operators")),
    )


def _overlap(context: Context, rows: pl.DataFrame) -> str:
    """A sentence about the annotation with most device time, if that is more than all busy time."""
    busy = context.answer("overview").frame.select(*KEYS, "device_busy_ns")
    beyond = (
        rows.join(busy, on=KEYS, how="left", nulls_equal=True)
        .filter(pl.col("kind").is_in(_ANNOTATIONS), pl.col("device_ns") > pl.col("device_busy_ns"))
        .sort("device_ns", "name", descending=[True, False])
    )
    if not beyond.height:
        return ""
    row = beyond.row(0, named=True)
    times = [units.duration(row[name]) for name in ("device_ns", "device_busy_ns")]
    return (
        f"Device times of annotations overlap: {units.visible(row['name'])} has {times[0]}, more "
        f"than the {times[1]} in which devices were busy. Each counts all work inside it, and on a "
        "device also the gaps between."
    )


def _compiled(context: Context) -> ChoicePart:
    """Kernels of compiled graphs by what they were made from."""
    title = "Compiled kernels by what they were made from"
    tables = tuple(
        (
            label,
            context.table(
                context.answer("fx_nodes", per=per),
                f"Compiled kernels by {label}",
                _COMPILED,
                "split_ns",
                key=f"compiled-{per}",
            ),
        )
        for label, per in _COMPILED_BY
    )
    return ChoicePart("compiled", "Made from", tables, title)


def memory(context: Context) -> PageSection | None:
    """Memory over time, its peak and the owners of it, and what was never freed."""
    peaks = context.answer("memory_peak")
    if not peaks:
        return None
    tables: list[TablePart] = [
        context.table(
            peaks,
            "Memory peaks",
            _PEAKS,
            title="Peak of each device, and the op that reached it",
        )
    ]
    if owners := context.answer("memory_owners"):
        title = "What was allocated at the peak, by the op that requested it"
        tables.append(context.table(owners, "Owners of the peak", _OWNERS, "bytes", title=title))
    if blocks := context.answer("memory_peak", per="block"):
        title = "The largest blocks that were never freed"
        about = "The 100 largest of each rank."
        tables.append(
            context.table(blocks, "Unfreed blocks", _BLOCKS, "bytes", title=title, about=about)
        )
    return PageSection(
        "Memory",
        "How much memory was allocated, when it peaked, and what held it.",
        (*context.chart("memory", "Memory over time"), *tables),
    )


def snapshot(context: Context) -> PageSection | None:
    """What a memory snapshot has: over time, at the peak, and how segments are divided."""
    held = partial(context.answer, "memory_stacks", top=0)
    frames = held(per="frame")
    segments = context.answer("fragmentation")
    parts: list[Part] = []
    if failures := context.answer("out_of_memory"):
        title = "When memory ran out"
        parts.append(context.table(failures, title, _FAILURES, title=title, full_text=True))
    if frames:
        parts += context.chart("snapshot_timeline", "What held memory over time")
        tables = [
            (label, context.table(reply, f"Peak by {label}", _HELD, key=f"memory-stacks-{n}"))
            for n, (label, per) in enumerate(_HELD_BY)
            if (reply := frames if per == "frame" else held(per=per))
            and (per == "stack" or {*reply.frame["name"]} - snapshot_text.UNTOLD)
        ]
        title = "What held memory at the peak, and what was never freed"
        parts.append(ChoicePart("memory-stacks", "Grouped by", tuple(tables), title))
    if segments:
        parts += context.chart("segments", "Segments and their blocks")
        title = "Segments, those with the most free memory first"
        parts.append(context.table(segments, "Segments", _SEGMENTS, title=title))
    if not parts:
        return None
    return PageSection(
        "Memory snapshot",
        "What the allocator recorded: what held memory, what was never freed, and how fragmented "
        "it was.",
        tuple(parts),
    )


def regions(context: Context) -> PageSection | None:
    """Modules and annotations."""
    has_modules = context.filled_columns() & {"python_module_id", "module_hierarchy"}
    names = ("modules", "annotations") if has_modules else ("annotations",)
    replies = [reply for name in names if (reply := context.answer(name))]
    if not replies:
        return None
    return PageSection(
        " and ".join(reply.name for reply in replies).capitalize(),
        "What ran on host and devices for each of them, step by step.",
        tuple(_region(context, reply) for reply in replies),
    )


def _region(context: Context, reply: Reply) -> TablePart:
    by = "device_ns" if reply.frame["device_ns"].sum() else "host_ns"
    label = reply.name.capitalize()
    return context.table(reply, label, _REGIONS, by, title=label)


def flame(context: Context) -> PageSection | None:
    """The call tree of the host."""
    from profframe.pages.flame import COLUMNS
    from profframe.pages.plots import palette

    top = max(_FEWEST_NODES, _MOST_NODES // max(context.starts.height, 1))
    nodes = context.answer("flame", top=top)
    if not nodes:
        return None
    is_cut = "others" in nodes.frame["kind"]
    colours = {kind: [c.light, c.dark] for kind, c in palette.CLASSES.items()}
    graph = Flame(
        key="flame",
        label="Flame graph",
        view=FrameView(nodes.frame.select(COLUMNS)),
        calls=("trace.flame()",),
        options={"colours": colours},
        cut=f"The {top:,} nodes with the most time of each trace; the rest is in `others`, "
        "and trace.flame(top=0) has all."
        if is_cut
        else "",
    )
    about = "The host's call tree, the outermost on top; click to zoom, type to search."
    return PageSection("Flame graph", about, (graph,))
