"""Arguments of rocprofv3: device, stream, correlation and bytes of its slices."""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

_DISPATCH: Final = "kernel_dispatch"
_COPY: Final = "memory_copy"
_CATEGORIES: Final = (
    _DISPATCH, _COPY, "hip_api", "hsa_api", "marker_api", "rccl_api", "memory_allocation",
    "scratch_memory", "rocdecode_api", "rocjpeg_api",
)  # fmt: skip
_AGENT: Final = r'"{}":"?[^"\[\],}}]*?(\d{{1,9}})\]?[",}}]'
"""An agent by its number alone, or by words that end in the number."""
_OF_LINE: Final = re.compile(r"(?:AGENT|GPU) \[(\d{1,9})\]")
_STREAM_OF_LINE: Final = re.compile(r"(?:QUEUE|STREAM) \[(\d{1,9})\]")
_COUNTER: Final = re.compile(r".*\[(\d{1,9})\].*\(GPU\).*|AGENT \[(\d{1,9})\] PMC .*", re.DOTALL)
_TO_HOST: Final = "DEVICE_TO_HOST"


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


def device_of_counter(name: str | None) -> int | None:
    """Device in the name of a counter of rocprofv3.

    Examples
    --------
    >>> device_of_counter("COPY BYTES to AGENT [2] (GPU)")
    2
    """
    match = _COUNTER.fullmatch(name or "")
    return int(match[1] or match[2]) if match else None


def _numbers(pattern: re.Pattern[str], texts: list[str]) -> list[str | None]:
    matches = (pattern.search(text) for text in texts)
    return [match[1] if match else None for match in matches]
