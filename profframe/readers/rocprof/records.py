"""Rows of rocprofv3's records, whatever form they are in: calls, copies, kernels, allocations.

A form gives frames with the columns that are named here, and one `Process` for each process. The
words of arguments are those of rocprofv3's own ``.pftrace``, and so are names of lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl
import pyarrow as pa

from profframe.readers.build.assembly import LONGEST_NS
from profframe.readers.build.row_tables import Batch, RowTable, conform
from profframe.readers.rocprof.processes import Process
from profframe.readers.sqlite.activities import events
from profframe.schema import TEXT

KERNEL: Final = "kernel_dispatch"
COPY: Final = "memory_copy"
ALLOCATION: Final = "memory_allocation"
SCRATCH: Final = "scratch_memory"
COUNTER: Final = "counter_collection"
_CATEGORIES: Final = {
    "HIP_": "hip_api",
    "HSA_": "hsa_api",
    "MARKER_": "marker_api",
    "RCCL_": "rccl_api",
    "ROCDECODE_": "rocdecode_api",
    "ROCJPEG_": "rocjpeg_api",
    "OMPT": "openmp",
}
"""Categories of ``.pftrace`` by how rocprofiler's kinds of calls begin."""
_OF_SYSTEMS: Final = "rocm_"
"""How rocprof-sys begins the same categories."""
_TO_HOST: Final = "DEVICE_TO_HOST"
_AXES: Final = ("x", "y", "z")
_LONGEST: Final = LONGEST_NS
_INT: Final = pl.Int64
_AGENT: Final = pl.UInt64
_CALL: Final = {
    "start": _INT, "end": _INT, "tid": _INT, "category": pl.String, "name": pl.String,
    "correlation": _INT, "ancestor": _INT, "external": _INT, "stream": _INT,
    "arguments": pl.String,
}  # fmt: skip
_COPY: Final = {
    "start": _INT, "end": _INT, "tid": _INT, "name": pl.String, "correlation": _INT,
    "stream": _INT, "queue": _INT, "src": _AGENT, "dst": _AGENT, "bytes": _INT,
    "src_address": pl.String, "dst_address": pl.String,
}  # fmt: skip
_KERNEL: Final = {
    "start": _INT, "end": _INT, "tid": _INT, "name": pl.String, "correlation": _INT,
    "external": _INT, "stream": _INT, "queue": _INT, "agent": _AGENT, "key": _INT,
    "kernel_id": _INT, "dispatch_id": _INT, "scratch": _INT, "lds": _INT, "vgprs": _INT,
    "accum_vgprs": _INT, "sgprs": _INT, "region": pl.String,
    **{f"{word}_{axis}": _INT for word in ("workgroup", "grid") for axis in _AXES},
}  # fmt: skip
_ALLOCATION: Final = {
    "start": _INT, "end": _INT, "tid": _INT, "category": pl.String, "name": pl.String,
    "correlation": _INT, "stream": _INT, "queue": _INT, "agent": _AGENT, "address": _INT,
    "bytes": _INT, "is_allocation": pl.Boolean, "flags": _INT,
}  # fmt: skip
COLUMNS: Final[Mapping[str, Mapping[str, pl.DataType | type[pl.DataType]]]] = {
    "calls": _CALL,
    "copies": _COPY,
    "kernels": _KERNEL,
    "allocations": _ALLOCATION,
}
"""Columns of the frames: times in ns; ``queue`` and ``agent`` are the source's numbers."""
VALUES: Final = {
    "key": _INT, "name": pl.String, "value": pl.Float64, "records": _INT, "agent": _AGENT,
    "unit": pl.String,
}  # fmt: skip
"""Columns of counters: ``key`` is that of the kernel or sample, and ``records`` how many it sums.

``agent`` is what a sample is of; a kernel has its own.
"""


def category_of(kind: str | None) -> str | None:
    """The word of ``.pftrace`` for a kind of call; the source's own if it is another.

    Examples
    --------
    >>> [category_of(kind) for kind in ("HIP_RUNTIME_API_EXT", "rocm_hip_api", "timer_sampling")]
    ['hip_api', 'hip_api', 'timer_sampling']
    """
    own = (kind or "").removeprefix(_OF_SYSTEMS)
    if own in _CATEGORIES.values():
        return own
    return next(
        (word for begin, word in _CATEGORIES.items() if (kind or "").startswith(begin)), kind
    )


def complete(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The frame with all columns of its table; those that it lacks are NULL."""
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None))
        .cast(type_, strict=False)
        .alias(name)
        for name, type_ in COLUMNS[table].items()
    )


@dataclass(slots=True)
class Records:
    """Rows of a source as batches, and what they have to know of one another.

    ``rows`` counts slices so far: their numbers will be their `event_id`.
    """

    rows: int = 0
    extra: Counter[str] = field(default_factory=Counter)
    """Corrections of the counts of source events by table."""
    _kernels: list[pl.DataFrame] = field(default_factory=list)
    _allocations: list[pl.DataFrame] = field(default_factory=list)

    def calls(self, frame: pl.DataFrame, process: Process) -> Batch:
        """Calls and markers of host threads."""
        args = {
            "ancestor_id": _number("ancestor"),
            "external": _number("external"),
            "stream_ID": pl.col("stream").cast(pl.String),
            "arguments": pl.col("arguments"),
        }
        frame = frame.with_columns(_object(args), tid=_thread())
        process.tids.update(frame["tid"].drop_nulls().unique().cast(_INT).to_list())
        return self._slices(frame.drop("stream"), process)

    def copies(self, frame: pl.DataFrame, process: Process) -> Batch:
        """Copies between agents; the device is the GPU that it leaves or reaches."""
        agents = process.agents_frame()
        source = agents.rename({"number": "from", "word": "src_agent", "type": "from_type"})
        target = agents.rename({"number": "to", "word": "dst_agent", "type": "to_type"})
        frame = frame.join(source, left_on="src", right_on="key", how="left", maintain_order="left")
        frame = frame.join(target, left_on="dst", right_on="key", how="left", maintain_order="left")
        to_host = pl.col("name").str.contains(_TO_HOST, literal=True).fill_null(value=False)
        thread = pl.col("tid").replace_strict(
            process.thread_numbers, default=None, return_dtype=_INT
        )
        line = pl.concat_str(
            pl.lit("COPY to AGENT ["), "to", pl.lit("] THREAD ["), thread, pl.lit("] ("), "to_type",
            pl.lit(")"),
        )  # fmt: skip
        args = {
            "src_agent": _text("src_agent"),
            "dst_agent": _text("dst_agent"),
            "src_address": _text("src_address"),
            "dst_address": _text("dst_address"),
            "tid": pl.col("tid").cast(pl.String),
            "stream_ID": pl.col("stream").cast(pl.String),
        }
        device = pl.when(to_host).then("from").otherwise("to")
        frame = frame.with_columns(
            _object(args),
            category=pl.lit(COPY),
            device=device,
            tid=line if process.by_queue else _line("stream"),
            stream=pl.lit(None, _INT) if process.by_queue else pl.col("stream"),
        )
        return self._slices(frame, process)

    def kernels(self, frame: pl.DataFrame, process: Process, values: pl.DataFrame) -> Batch:
        """Kernels; ``values`` are their hardware counters, which are arguments, too."""
        agents = process.agents_frame().rename({"key": "agent", "number": "device"})
        frame = frame.join(agents, on="agent", how="left", maintain_order="left")
        queue = (pl.col("queue") - 1).clip(0)
        line = pl.concat_str(
            pl.lit("COMPUTE Agent ["), "device", pl.lit("] QUEUE ["), queue, pl.lit("] "), "type",
        )  # fmt: skip
        if values.height:
            member = pl.concat_str(_json("name"), pl.lit(":"), _plain_number("value"))
            counted = (
                values.filter(pl.col("name").is_not_null())
                .group_by("key", maintain_order=True)
                .agg(member.str.join(",").alias("counted"))
            )
            frame = frame.join(counted, on="key", how="left", maintain_order="left")
        else:
            frame = frame.with_columns(counted=pl.lit(None, pl.String))
        args = {
            "tid": pl.col("tid").cast(pl.String),
            "kernel_id": pl.col("kernel_id").cast(pl.String),
            "dispatch_id": pl.col("dispatch_id").cast(pl.String),
            "queue": queue.cast(pl.String),
            "external": _number("external"),
            "region": _text("region"),
            "Scratch_Size": pl.col("scratch").cast(pl.String),
            "LDS_Block_Size": pl.col("lds").cast(pl.String),
            "VGPR_Count": pl.col("vgprs").cast(pl.String),
            "Accum_VGPR_Count": pl.col("accum_vgprs").cast(pl.String),
            "SGPR_Count": pl.col("sgprs").cast(pl.String),
            "workgroup_size": _product("workgroup"),
            "grid_size": _product("grid"),
            "stream_ID": pl.col("stream").cast(pl.String),
        }
        frame = frame.with_columns(
            _object(args, more=pl.col("counted")),
            category=pl.lit(KERNEL),
            tid=line if process.by_queue else _line("stream"),
            stream=queue if process.by_queue else pl.col("stream"),
            block=_dimensions([pl.col(f"workgroup_{axis}") for axis in _AXES]),
            grid=_dimensions([_blocks(axis) for axis in _AXES]),
            registers=pl.col("vgprs") + pl.col("accum_vgprs").fill_null(0),
            shared_memory_bytes=pl.col("lds"),
        )
        if values.height:
            first = pl.int_range(self.rows, self.rows + frame.height, dtype=_INT).alias("of_event")
            self._kernels.append(frame.select("key", "start", "device", "tid", first))
        return self._slices(frame, process)

    def counters(self, values: pl.DataFrame, process: Process) -> Iterator[Batch]:
        """Hardware counters of the kernels so far, which are those of one process."""
        kernels = self._kernels
        self._kernels = []
        if not values.height or not kernels:
            if values.height:
                self.extra["dropped"] += int(values["records"].sum())
            return
        of = pl.concat(kernels).unique("key", keep="first", maintain_order=True)
        rows = values.join(of, on="key", how="inner", maintain_order="left")
        self.extra["dropped"] += int(values["records"].sum()) - int(rows["records"].sum())
        if not rows.height:
            return
        self.extra["counters"] += int(rows["records"].sum()) - rows.height
        columns = {
            "category": pl.lit(COUNTER),
            "name": pl.col("name"),
            "unit": pl.col("unit"),
            "time_ns": pl.col("start"),
            "device": pl.col("device"),
            "pid": pl.lit(process.pid, pl.String),
            "tid": pl.col("tid"),
            "of_event": pl.col("of_event"),
            "args": _counted(),
        }
        yield {RowTable.COUNTERS: conform(RowTable.COUNTERS, _arrays(rows.select(**columns)))}

    def samples(self, values: pl.DataFrame, process: Process) -> Iterator[Batch]:
        """Values that were sampled, at ``start``, of a GPU or the host; they belong to no slice."""
        if not values.height:
            return
        self.extra["counters"] += int(values["records"].sum()) - values.height
        agents = process.agents_frame().rename({"key": "agent", "number": "device"})
        values = values.join(agents, on="agent", how="left", maintain_order="left")
        columns = {
            "category": pl.lit(COUNTER),
            "name": pl.col("name"),
            "unit": pl.col("unit"),
            "device": pl.when(pl.col("type") == "GPU").then("device"),
            "time_ns": pl.col("start"),
            "pid": pl.lit(process.pid, pl.String),
            "tid": _thread(),
            "args": _counted(),
        }
        yield {RowTable.COUNTERS: conform(RowTable.COUNTERS, _arrays(values.select(**columns)))}

    def allocations(self, frame: pl.DataFrame, process: Process) -> Batch:
        """Allocations and frees as slices of their threads; `memory` has those of agents."""
        agents = process.agents_frame().rename({"key": "agent", "number": "device"})
        frame = frame.join(agents, on="agent", how="left", maintain_order="left")
        args = {
            "agent": _text("word"),
            "address": _number("address"),
            "allocation_size": pl.col("bytes").cast(pl.String),
            "flags": _number("flags"),
            "stream_ID": _number("stream"),
        }
        if frame.height:
            kept = (
                "start",
                "tid",
                "category",
                "device",
                "type",
                "address",
                "bytes",
                "is_allocation",
            )
            self._allocations.append(frame.select(kept))
        frame = frame.with_columns(_object(args), tid=_thread()).drop("device", "stream", "bytes")
        process.tids.update(frame["tid"].drop_nulls().unique().cast(_INT).to_list())
        return self._slices(frame, process)

    def memory(self, process: Process) -> Iterator[Batch]:
        """Allocated bytes of one process: a free has the size of what was allocated there."""
        parts, self._allocations = self._allocations, []
        if not parts:
            return
        rows = pl.concat(parts).filter(
            (pl.col("category") == ALLOCATION)
            & pl.col("address").is_not_null()
            & pl.col("start").is_not_null()
        )
        rows = rows.with_row_index("row").sort("address", "start", "row")
        before = {
            name: pl.col(name).shift(1).over("address")
            for name in ("is_allocation", "bytes", "device", "type")
        }
        is_paired = ~pl.col("is_allocation") & before["is_allocation"]
        rows = rows.with_columns(
            bytes=pl.when("is_allocation").then("bytes").when(is_paired).then(-before["bytes"]),
            device=pl.when("is_allocation").then("device").when(is_paired).then(before["device"]),
            type=pl.when("is_allocation").then("type").when(is_paired).then(before["type"]),
        ).filter(pl.col("bytes").is_not_null())
        if not rows.height:
            return
        rows = rows.sort("start", "row").with_columns(
            total=pl.col("bytes").cum_sum().over("type", "device")
        )
        self.extra["memory"] -= rows.height
        on_gpu = pl.col("type") == "GPU"
        columns = {
            "time_ns": pl.col("start"),
            "address": pl.col("address"),
            "bytes": pl.col("bytes"),
            "device_type": pl.when(on_gpu).then(pl.lit("CUDA")).otherwise("type"),
            "device": pl.when(on_gpu).then("device"),
            "total_allocated_bytes": pl.col("total"),
            "pid": pl.lit(process.pid, pl.String),
            "tid": pl.col("tid").cast(pl.String),
        }
        yield {RowTable.MEMORY: conform(RowTable.MEMORY, _arrays(rows.select(**columns)))}

    def _slices(self, frame: pl.DataFrame, process: Process) -> Batch:
        if not frame.height:
            return {}
        self.rows += frame.height
        names = [name for name in _SHOWN if name in frame.columns]
        columns = _arrays(frame.select(names)) | {
            "pid": pa.array([process.pid] * frame.height, TEXT)
        }
        return events(columns, columns.pop("category"))


_SHOWN: Final = (
    "start", "end", "tid", "category", "name", "correlation", "device", "stream", "bytes", "block",
    "grid", "registers", "shared_memory_bytes", "args",
)  # fmt: skip
"""Columns of slices that are in `events`."""


def _arrays(frame: pl.DataFrame) -> dict[str, pa.Array]:
    texts = [name for name, type_ in frame.schema.items() if type_ == pl.String]
    arrays = {name: frame[name].to_arrow() for name in frame.columns}
    return {name: a.cast(TEXT) if name in texts else a for name, a in arrays.items()}


def _object(members: Mapping[str, pl.Expr], more: pl.Expr | None = None) -> pl.Expr:
    """A JSON object of the members that are not NULL, given as JSON, and of ``more`` of them."""
    parts = [
        pl.concat_str(pl.lit(f'"{name}":'), value, pl.lit(",")).fill_null("")
        for name, value in members.items()
    ]
    if more is not None:
        parts.append(pl.concat_str(more, pl.lit(",")).fill_null(""))
    inside = pl.concat_str(*parts).str.strip_suffix(",")
    return pl.concat_str(pl.lit("{"), inside, pl.lit("}")).alias("args")


def _number(name: str) -> pl.Expr:
    """A number, unless it is 0, which means none."""
    return pl.when(pl.col(name) != 0).then(pl.col(name).cast(pl.String))


def _plain_number(name: str) -> pl.Expr:
    """A number as JSON: whole ones without a point, and NULL for what JSON has no number for."""
    value = pl.col(name)
    is_whole = (value == value.floor()) & (value.abs() < 2**53)
    whole = pl.when(is_whole).then(value).cast(_INT, strict=False).cast(pl.String)
    other = pl.when(value.is_finite()).then(value.cast(pl.String))
    return pl.coalesce(whole, other, pl.lit("null"))


def _text(name: str) -> pl.Expr:
    """A text as JSON, unless it is empty."""
    return pl.when(pl.col(name) != "").then(_json(name))


def _json(name: str) -> pl.Expr:
    """A text as JSON."""
    text = pl.struct(pl.col(name).alias("t")).struct.json_encode()
    return pl.when(pl.col(name).is_not_null()).then(text.str.slice(5).str.strip_suffix("}"))


def _counted() -> pl.Expr:
    """A value under the name of its counter."""
    name = pl.coalesce(_json("name"), pl.lit('""'))
    return pl.concat_str(pl.lit("{"), name, pl.lit(":"), _plain_number("value"), pl.lit("}"))


def _thread() -> pl.Expr:
    return pl.col("tid").cast(pl.String)


def _line(name: str) -> pl.Expr:
    return pl.concat_str(pl.lit("STREAM ["), pl.col(name).cast(pl.String), pl.lit("]"))


def _product(word: str) -> pl.Expr:
    """Threads in all dimensions; NULL where the product is beyond 64 bits."""
    sizes = [pl.col(f"{word}_{axis}") for axis in _AXES]
    is_small = pl.all_horizontal(size.is_between(0, 2**32) for size in sizes)
    product = sizes[0].cast(pl.Int128) * sizes[1] * sizes[2]
    return (
        pl.when(is_small & (product < 2**62)).then(product).cast(_INT, strict=False).cast(pl.String)
    )


def _dimensions(sizes: list[pl.Expr]) -> pl.Expr:
    return pl.concat_str(
        pl.lit("["), sizes[0], pl.lit(","), sizes[1], pl.lit(","), sizes[2], pl.lit("]")
    )


def _blocks(axis: str) -> pl.Expr:
    """Blocks of a grid, whose size is in threads."""
    grid, block = pl.col(f"grid_{axis}"), pl.col(f"workgroup_{axis}")
    is_sound = (block > 0) & grid.is_between(0, 2**62)
    return pl.when(is_sound).then((grid + block - 1) // pl.when(is_sound).then(block))
