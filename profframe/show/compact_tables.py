"""Excerpts of answers: the columns that people look at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from profframe.show import units
from profframe.show.kernel_names import shortened

if TYPE_CHECKING:
    import polars as pl

_BUSY: Final = ("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "unrecorded_ns")
_OF_DEVICES: Final = ("devices", "kernels", "device_busy_ns")
_HIDDEN: Final = ("hidden_communication_ns", "hidden_copy_ns")
_DOING: Final = ("op", "module", "annotation")
_STEPS: Final = "ProfilerStep*"
NO_LINE: Final = "(no line of your own code)"
"""The name of rows by line that are about the rest."""
WHOLE: Final = "first to last work"
"""What rows of a whole trace are of, which the first lines may not be: those are of steps."""
_ROOFLINE: Final = (
    "run", "rank", "device", "name", "input_dims", "calls", "total_ns", "share", "lost_ns", "bound",
    "flop_per_s", "flop_share", "bytes_per_s", "bandwidth_share", "peak_dtype", "note",
)  # fmt: skip
_PHASES: Final = (
    "run", "rank", "phase", "execution", "state", "calls", "mean_batch", "tokens", "tokens_per_s",
    "p50_span_ns", "span_ns", "host_ns", "device_ns", "idle_ns", "idle_share", "graph_share",
    "exposed_communication_ns", "known_share", "roofline_share",
)  # fmt: skip
_OPTIONAL_PHASES: Final = (
    "exposed_communication_ns",
    "graph_share",
    "known_share",
    "roofline_share",
)
_NO_PEAKS: Final = "no known peaks, so no shares; roofline --devices FILE takes yours (JSON)"
_OPTIONAL: Final = ("device", "input_dims", "note")
NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "gaps": {
        "host was in": "owner_name", "for_ns": "owner_ns", "line": "line_name",
        "then came": "after_name",
    },
    "idle": {"idle_share": "span_share", "host mostly in": "op_name", "line": "line_name"},
    "idle.owner": {"line": "name"},
    "kernels": {"kernels_share": "share"},
    "key_averages": {"self_device_share": "self_device_ns", "total_device_ns": "device_ns"},
    "modules": {"self_device_share": "total_self_device_ns"},
    "phases": {"state": "is_warmup"},
    "stragglers": {"longest op before": "before_op"},
    "time_breakdown": {"idle_share": "idle_ns"},
}  # fmt: skip
"""Names of columns in answers, of those that have another one here."""


def overview(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `overview`; where no trace has device work, without the columns about it."""
    is_empty = not any(rows[name].sum() for name in _OF_DEVICES)
    return rows.drop(_OF_DEVICES) if is_empty else rows


def breakdown(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `time_breakdown` with the idle share, without parts that are zero everywhere.

    One row per trace; for a single trace also one per step, with its length on the host.
    """
    import polars as pl

    if rows.select("run", "rank").n_unique() > 1 or rows.height == 1:
        rows = rows.filter(pl.col("step").is_null()).drop("step")
    else:
        rows = rows.with_columns(pl.col("step").cast(pl.String).fill_null(WHOLE))
    busy, hidden = (
        [part for part in parts if (rows[part] > 0).any()] for parts in (_BUSY, _HIDDEN)
    )
    idle_share = (pl.col("idle_ns") / pl.col("span_ns")).fill_nan(None).alias("idle_share")
    host = [name for name in ("host_ns",) if rows[name].is_not_null().any()]
    return rows.with_columns(idle_share).select(
        *("run", "rank", "^step$", "span_ns", *host, *busy, "idle_ns", "idle_share", *hidden)
    )


def sums_by_annotation(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `annotations` by name, without those of steps and of work in none.

    The most device time comes first; where none has any, the most time of the host, and there are
    no columns of devices. What is not known of any annotation of a name stays so.
    """
    import polars as pl

    of_devices = ("kernels", "copies", "device_ns")
    is_own = ~pl.col("name").fill_null("").str.starts_with("ProfilerStep#")
    sums = (
        rows.filter(is_own, pl.col("calls").is_not_null())
        .group_by("run", "rank", "name", maintain_order=True)
        .agg(
            *(_known_sum(name) for name in ("calls", "host_ns")),
            pl.col("max_host_ns").max(),
            *(_known_sum(name) for name in of_devices),
        )
    )
    has_work = bool(sums["device_ns"].sum())
    shown = sums if has_work else sums.drop(of_devices)
    by = "device_ns" if has_work else "host_ns"
    return shown.sort(by, descending=True, nulls_last=True, maintain_order=True)


def _known_sum(name: str) -> pl.Expr:
    """The sum of what is known of a column; NULL if nothing is."""
    import polars as pl

    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)


def with_copies_apart(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `kernel_categories` in which copies have another name than kernels that copy."""
    import polars as pl

    copies = (pl.col("category") == "copy") & (pl.col("class") == "copy")
    return rows.with_columns(
        pl.when(copies).then(pl.lit("memcpy")).otherwise("category").alias("category")
    )


def categories(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `kernel_categories`, without what is empty or not useful at a glance."""
    import polars as pl

    rows = with_copies_apart(rows)
    optional = [name for name in ("both_ns",) if (rows[name] > 0).any()]
    names = ("run", "rank", "category", "class", "calls", "total_ns", "share", "exposed_ns")
    return rows.sort("total_ns", descending=True, nulls_last=True, maintain_order=True).select(
        *names, *map(pl.col, optional)
    )


def ops(rows: pl.DataFrame, categories: pl.DataFrame) -> pl.DataFrame:
    """Rows of `key_averages` of ops that launched device work themselves, the most first.

    Shares are of all work of the rank's devices: the rows of `kernel_categories`.
    """
    import polars as pl

    ops = rows.filter(pl.col("kind") == "host_op")
    return _with_share(ops, "self_device_ns", categories).select(
        *("run", "rank", "name", "calls", "self_device_ns", "self_device_share"),
        pl.col("device_ns").alias("total_device_ns"),
        "node_id",
    )


def modules(rows: pl.DataFrame, categories: pl.DataFrame) -> pl.DataFrame:
    """Rows of `modules` by class of those that launched device work themselves, the most first.

    Shares are of all work of the rank's devices: the rows of `kernel_categories`.
    """
    return _with_share(rows, "total_self_device_ns", categories).select(
        *("run", "rank", "name", "modules", "calls", "total_self_device_ns", "self_device_share"),
        *("total_device_ns", "total_host_ns"),
    )


def _with_share(rows: pl.DataFrame, time: str, categories: pl.DataFrame) -> pl.DataFrame:
    """Rows with device time, the most first, and its share of all work of the rank's devices."""
    import polars as pl

    whole = categories.group_by("run", "rank").agg(pl.col("total_ns").sum().alias("whole_ns"))
    share = (pl.col(time) / pl.col("whole_ns")).fill_nan(None)
    return (
        rows.filter(pl.col(time) > 0)
        .join(whole, on=("run", "rank"), how="left", maintain_order="left")
        .sort(time, descending=True, maintain_order=True)
        .with_columns(share.alias("self_device_share"))
    )


def copies(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `memory_bandwidth` by direction, without the device where there is one."""
    device = ["device"] if rows["device"].n_unique() > 1 else []
    names = ("run", "rank", *device, "name", "calls", "bytes", "total_ns", "bytes_per_s")
    return rows.select(names)


def kernels(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `kernels` with their category instead of their class; shares are of all kernels."""
    empty = {name for name in ("fused_ops", "precision") if rows[name].is_null().all()}
    counts = ("tiny_calls", "tiny_share", "tiny_total_ns")  # of all kernels in a note
    rows = rows.drop("short_name", "class", "class_share", "is_mixed", *counts, *empty)
    return rows.rename({"share": "kernels_share"})


def calls_of_kernels(rows: pl.DataFrame) -> str:
    """How many executions rows of `kernels` have, and how many of them are tiny.

    Examples
    --------
    >>> import polars as pl
    >>> counts = {"calls": [2000, 8], "tiny_calls": [1500, 0]}
    >>> times = {"total_ns": [9_000_000, 1_000_000], "tiny_total_ns": [2_000_000, 0]}
    >>> calls_of_kernels(pl.DataFrame(counts | times | {"run": ["r", "r"], "rank": [0, 0]}))
    '2,008 executions in all, 1,500 of them under 5 us (20.0 % of the time)'
    """
    from profframe.query.catalogue import find

    calls, tiny = (int(rows[name].sum()) for name in ("calls", "tiny_calls"))
    (least,) = (one.default for one in find("kernels").parameters if one.name == "tiny_ns")
    of = "of all ranks" if rows.select("run", "rank").n_unique() > 1 else "in all"
    time = f"{int(str(least)) / 1000:g} us"
    every, short = (int(rows[name].sum()) for name in ("total_ns", "tiny_total_ns"))
    part = f" ({units.share(short / every)} of the time)" if tiny and every else ""
    return f"{units.plural(calls, 'execution')} {of}, {tiny:,} of them under {time}{part}"


def causes(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `idle` per device, with the share of the span next to the time."""
    import polars as pl

    share = pl.col("span_share").alias("idle_share")
    columns = ("run", "rank", "device", "cause", "idle_ns", share, "gaps", "mean_ns", "max_ns")
    # A profiler step is around everything, and says nothing.
    is_step = pl.col("annotation_name").eq_missing(_STEPS)
    times = {sort: pl.col(f"{sort}_ns") for sort in _DOING}
    times["annotation"] = pl.when(~is_step).then(times["annotation"])
    most = pl.max_horizontal(times.values())
    doing = pl.coalesce(
        *(pl.when(time == most).then(f"{sort}_name") for sort, time in times.items()),
        "annotation_name",
    )
    host = [doing.alias("host mostly in"), pl.col("line_name").alias("line")]
    names = [name for name in host if rows.select(name.is_not_null().any()).item()]
    return rows.select(*columns, *names).sort("idle_ns", descending=True, maintain_order=True)


def gaps(rows: pl.DataFrame, top: int) -> pl.DataFrame:
    """Rows of `gaps` with what covered most of each, and the line of the user's own code."""
    import polars as pl

    columns = ("run", "rank", "device", "start_ns", "dur_ns", "share", "cause")
    longest = rows.sort("dur_ns", descending=True, maintain_order=True).head(top)
    lines = ["line"] if longest["line_name"].null_count() < longest.height else []
    return longest.select(
        *columns,
        pl.col("owner_name").alias("host was in"),
        pl.col("owner_ns").alias("for_ns"),
        pl.col("line_name").alias("line"),
        pl.col("after_name").alias("then came"),
    ).select(*columns, "host was in", "for_ns", *lines, "then came")


def phases(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `phases` with the columns that people look at first, the longest first."""
    import polars as pl

    shown = rows.with_columns(
        pl.when(pl.col("is_warmup")).then(pl.lit("warm-up")).alias("state"),
        pl.col("phase").fill_null("not known"),
    ).select(*_PHASES)
    empty = [name for name in _OPTIONAL_PHASES if not shown[name].sum()]
    return shown.drop(empty).sort("span_ns", descending=True, maintain_order=True)


def owners(rows: pl.DataFrame, rest: str = NO_LINE) -> pl.DataFrame:
    """Rows of `idle` by line, the longest first, the time in no line last, with a name for it.

    None without lines.
    """
    import polars as pl

    if rows["name"].null_count() == rows.height:
        return rows.clear()
    columns = ("run", "rank", "device", "idle_ns", "share", "gaps", "max_ns")
    order = (pl.col("name").is_null(), pl.col("idle_ns"))
    return rows.sort(order, descending=[False, True], maintain_order=True).select(
        *columns, pl.col("name").fill_null(rest).alias("line")
    )


def stragglers(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `stragglers` with one column for what a rank did before."""
    import polars as pl

    columns = (
        "run", "rank", "collectives", "communication_ns", "times_last", "last_share", "held_up_ns",
        "mean_wait_ns", "excess",
    )  # fmt: skip
    kernels = rows.with_columns(kernel=pl.col("before_kernel"))
    before = pl.coalesce(
        "before_op", shortened(kernels, "kernel")["kernel"].alias("before_kernel")
    ).alias("longest op before")
    return rows.select(*columns, before).sort("held_up_ns", descending=True, maintain_order=True)


def clock_note(rows: pl.DataFrame) -> str:
    """A note on rows with ``is_corrected`` if not all clocks were corrected."""
    return "" if rows["is_corrected"].all() else "on the ranks' own clocks: see clock_skew"


def stragglers_title(rows: pl.DataFrame) -> str:
    """A title of rows of `stragglers`."""
    note = clock_note(rows)
    return f"Ranks that others wait for{f' ({note})' if note else ''}"


def roofline(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `roofline` without optional columns that are empty."""
    empty = {name for name in _OPTIONAL if rows[name].is_null().all()}
    if rows["device"].n_unique() < 2:
        empty.add("device")
    return rows.select(name for name in _ROOFLINE if name not in empty)


def roofline_headline(rows: pl.DataFrame, devices: pl.DataFrame) -> str:
    """Peaks of the devices, the share of their time with known work, and the lost time."""
    import polars as pl

    key = ["run", "rank", "device"]
    models = devices.select(*key, pl.coalesce("model", "name").alias("model"))
    with_model = rows.join(models, on=key, how="left").with_columns(
        pl.col("model").fill_null("A device")
    )
    lines = [
        _peaks(model, group)
        for (model,), group in with_model.sort("model").group_by("model", maintain_order=True)
    ]
    measured = rows.filter(pl.col("note").ne_missing("unknown_work"))
    total = _sum(rows, "total_ns")
    time = units.duration(total)
    text = f"The work of {_part(_sum(measured, 'total_ns'), total)} of {time} of kernels is known"
    text += _lost(measured)
    if not measured.height:
        text = f"The work of kernels ({time}) is not known: record shapes (record_shapes=True)"
    return "\n".join([*lines, f"{text}."])


def _lost(measured: pl.DataFrame) -> str:
    """The lost time of known work, or of the part of it that has a limit."""
    limited = measured.drop_nulls("lost_ns")
    if not limited.height:
        return ""
    lost = _sum(limited, "lost_ns")
    with_limit = lost + _sum(limited, "limit_ns")
    is_all = with_limit == _sum(measured, "total_ns")
    time = f"the {units.duration(with_limit)} of that with a known limit"
    if lost < 0:
        return f"; {'it' if is_all else time} took less than these peaks allow"
    part = _part(lost, with_limit)
    return f"; {part} of that was lost" if is_all else f"; of {time}, {part} was lost"


def _sum(rows: pl.DataFrame, column: str) -> int:
    return int(rows[column].sum())


def _part(part: int, total: int) -> str:
    """A time, and its share of another."""
    return f"{units.duration(part)} ({units.share(part / max(total, 1))})"


def _peaks(model: object, rows: pl.DataFrame) -> str:
    """The peaks of a device model in the rows."""
    rates = rows.select("peak_dtype", "peak_flop_per_s").drop_nulls().unique().sort("peak_dtype")
    peaks = [f"{units.flop_rate(rate)} {dtype}" for dtype, rate in rates.rows()]
    memory = rows["peak_bytes_per_s"].drop_nulls().unique().sort().to_list()
    peaks += [f"{units.rate(rate)} of memory" for rate in memory]
    reach = f"at most {', '.join(peaks)}" if peaks else _NO_PEAKS
    return f"{units.visible(str(model))}: {reach}."
