"""What rocprofv3 writes: names of its lines and counters, and arguments of its slices."""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.counters import device_of_name
from profframe.readers.build.row_tables import SOURCE_VALUES, Batch, RowTable, replaced, typed

_DISPATCH: Final = "kernel_dispatch"
_COPY: Final = "memory_copy"
_CATEGORIES: Final = (
    _DISPATCH, _COPY, "hip_api", "hsa_api", "marker_api", "rccl_api", "memory_allocation",
    "scratch_memory", "rocdecode_api", "rocjpeg_api",
)  # fmt: skip
_AGENT: Final = r'"{}":"?[^"\[\],}}]*?(\d{{1,9}})\]?[",}}]'
"""An agent by its number alone, or by words that end in the number."""
_OF_LINE: Final = re.compile(r"(?:AGENT|GPU) \[(\d{1,9})\]", re.IGNORECASE)
_STREAM_OF_LINE: Final = re.compile(r"(?:QUEUE|STREAM) \[(\d{1,9})\]")
_COUNTER: Final = re.compile(r".*\[(\d{1,9})\].*\(GPU\).*", re.DOTALL)
_HARDWARE_COUNTER: Final = re.compile(r"(?:AGENT|Agent|GPU) \[(\d{1,9})\] PMC (.+)", re.DOTALL)
_STREAM_LINE: Final = re.compile(r'STREAM \[(?:" )?(\d{1,9})(?: ")?\] ?')
_THREAD_LINE: Final = re.compile(r"(THREAD \d{1,9}) \((\d{1,9})\)")
_TO_HOST: Final = "DEVICE_TO_HOST"
_CLONE: Final = r"( \[clone \.kd\]|\.kd)$"
"""How names of kernels' descriptors end, which is no part of the kernel's own name."""
_LAUNCH: Final = r'"{}":"?(\d{{1,9}})[",}}]'


def with_rocm_columns(
    args: pa.Array, categories: pa.Array, names: pa.Array, line: pa.Array, lines: list[Any]
) -> pa.Array:
    """Arguments that begin with what rocprofv3 says there, in the words of other traces.

    Parameters
    ----------
    line
        For each event, the position of its line in ``lines``.
    lines
        Process and thread of each line; threads of devices are named by agent and queue.
    """
    is_own = pc.fill_null(pc.is_in(categories, pa.array(_CATEGORIES)), fill_value=False)
    if not is_own.true_count:
        return args
    chosen = pc.indices_nonzero(is_own)
    tids = [tid or "" for _, tid in lines]
    frame = pl.DataFrame(
        {
            "args": args.take(chosen),
            "category": categories.take(chosen),
            "name": names.take(chosen),
            "of_line": pa.array(_numbers(_OF_LINE, tids)).take(line.take(chosen)),
            "stream": pa.array(_numbers(_STREAM_OF_LINE, tids)).take(line.take(chosen)),
        }
    )
    text = pl.col("args").fill_null("{}")
    agents = {name: text.str.extract(_AGENT.format(name)) for name in ("agent", *_ENDS)}
    is_to_host = pl.col("name").str.contains(_TO_HOST, literal=True).fill_null(value=False)
    source, target = (agents[name] for name in _ENDS)
    device = (
        pl.when(pl.col("category") == _DISPATCH)
        .then(pl.coalesce(agents["agent"], "of_line"))
        .when(pl.col("category") == _COPY)
        .then(pl.coalesce(pl.when(is_to_host).then(source).otherwise(target), "of_line"))
    )
    is_on_device = pl.col("category").is_in([_DISPATCH, _COPY])
    own = {
        "device": device,
        "stream": pl.when(is_on_device).then("stream"),
        "correlation": text.str.extract(r'"corr_id":"?(\d{1,18})[",}]'),
        "bytes": pl.when(pl.col("category") == _COPY).then(
            text.str.extract(r'"copy_bytes":"?(\d{1,18})[",}]')
        ),
    }
    shown = frame.select(
        pl.concat_str(
            pl.lit("{"),
            pl.concat_str(
                *(
                    pl.concat_str(pl.lit(f'"{name}":'), value, pl.lit(",")).fill_null("")
                    for name, value in own.items()
                )
            ),
            text.str.slice(1),
        )
        .str.replace(",}$", "}")
        .alias("args")
    )
    return pc.replace_with_mask(args, is_own, shown["args"].to_arrow().cast(pa.string()))


_ENDS: Final = ("src_agent", "dst_agent")


def counter_of(name: str | None) -> tuple[str | None, int | None]:
    """Name of a counter without its device, and the device.

    Examples
    --------
    >>> counter_of("COPY BYTES to AGENT [2] (GPU)")
    ('COPY BYTES to AGENT [2] (GPU)', 2)
    >>> counter_of("Agent [1] PMC SQ_WAVES")
    ('SQ_WAVES', 1)
    >>> counter_of("GPU Power [1] (S)")
    ('GPU Power [1] (S)', 1)
    """
    if own := _HARDWARE_COUNTER.fullmatch(name or ""):
        return own[2], int(own[1])
    match = _COUNTER.fullmatch(name or "")
    return name, int(match[1]) if match else device_of_name(name)


def line_of(name: str) -> tuple[str, str | None]:
    """Thread of a line as text, and its name if the line has both.

    Examples
    --------
    >>> line_of("THREAD 1 (4242)"), line_of('STREAM [" 3 "] '), line_of("main")
    (('4242', 'THREAD 1'), ('STREAM [3]', None), ('main', None))
    """
    if thread := _THREAD_LINE.fullmatch(name):
        return thread[2], thread[1]
    stream = _STREAM_LINE.fullmatch(name)
    return (f"STREAM [{stream[1]}]" if stream else name), None


def kernel_names(names: pa.Array, categories: pa.Array) -> pa.Array:
    """Names without what those of kernels end in."""
    is_kernel = pc.fill_null(pc.equal(categories, pa.scalar(_DISPATCH)), fill_value=False)
    if not is_kernel.true_count:
        return names
    return pc.if_else(is_kernel, pc.replace_substring_regex(names, _CLONE, ""), names)


def with_launch_columns(batch: Batch) -> Batch:
    """Rows with registers and shared memory of kernels, from their arguments."""
    if RowTable.EVENTS not in batch:
        return batch
    rows = batch[RowTable.EVENTS]
    is_kernel = pl.Series(rows["category"]).cast(pl.String) == _DISPATCH
    if not is_kernel.any():
        return batch
    text = pl.Series("args", rows["args"]).to_frame()
    vectors, accumulators, shared = (
        pl.col("args").str.extract(_LAUNCH.format(word)).cast(pl.Int64)
        for word in ("VGPR_Count", "Accum_VGPR_Count", "LDS_Block_Size")
    )
    own = {"registers": vectors + accumulators.fill_null(0), "shared_memory_bytes": shared}
    columns = text.with_columns(is_kernel.fill_null(value=False).alias("own")).select(
        **{name: pl.when("own").then(value) for name, value in own.items()}
    )
    for name in own:
        values = typed(columns[name].to_arrow(), SOURCE_VALUES[name])
        if name in rows.column_names:
            rows = replaced(rows, name, pc.coalesce(rows[name], values))
        else:
            rows = rows.append_column(name, values)
    return {**batch, RowTable.EVENTS: rows}


def _numbers(pattern: re.Pattern[str], texts: list[str]) -> list[str | None]:
    matches = (pattern.search(text) for text in texts)
    return [match[1] if match else None for match in matches]
