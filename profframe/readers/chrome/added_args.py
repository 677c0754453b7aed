"""What a merger adds to the arguments of all events: their rank, and their ids before.

TraceLens adds an offset to the id of each process, call and arrow, so that they are unique in its
file, and keeps the id before under the same name with ``_raw``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.row_tables import Rows, RowTable, replaced
from profframe.readers.chrome.parts import MixedRanksError

_SAMPLE: Final = 64
"""Events without labels of which all must have a rank."""
_RANK: Final = r'"rank"\s*:\s*(\d{1,9})\s*[,}]'
_PID: Final = r'"pid_raw"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d+))'
_RAW: Final = r'"{}_raw"\s*:\s*(-?\d+)'
_IDS: Final = {
    "correlation": "correlation",
    "external_id": "External id",
    **dict.fromkeys(("flow_id", "async_id", "instant_id", "counter_id"), "id"),
}
"""Columns, and the members that they come from."""
_MEMBER: Final = r'(?s)("{0}"\s*:\s*)-?\d+(.*?),?\s*"{0}_raw"\s*:\s*(-?\d+)'
_ADDED: Final = (
    r',?\s*"(?:rank|pid_raw|id_raw)"\s*:\s*(?:-?\d+|"(?:[^"\\]|\\.)*")'  # the rank comes first
)
_EMPTY: Final = r"\A\{\s*\}\z"


def ranks(rows: Rows) -> tuple[dict[str, int], dict[str, str] | None]:
    """Rank of each process that is of one, by the arguments of all its events; and its id before.

    Nothing, if there are labels or slices without a rank.
    """
    labels, slices = rows[RowTable.THREADS], rows[RowTable.EVENTS]
    if not _are_all_ranked(rows):
        return {}, None
    args = [(part["pid"], part["args"]) for part in (labels, slices) if part.num_rows]
    frame = pl.concat(map(_ranked, *zip(*args, strict=True))).drop_nulls("rank").unique()
    one = frame.group_by("pid").agg(pl.len(), pl.col("rank", "before").first())
    pairs = one.filter(pl.col("len") == 1).drop_nulls("pid").rows(named=True)
    before = {row["pid"]: row["before"] for row in pairs if row["before"] is not None}
    return {row["pid"]: row["rank"] for row in pairs}, before


def _are_all_ranked(rows: Rows) -> bool:
    """Whether all labels have a rank, or the first slices in a file without labels."""
    labels, slices = rows[RowTable.THREADS], rows[RowTable.EVENTS]
    sample = labels["args"] if labels.num_rows else slices["args"][:_SAMPLE]
    # Few files are merged: the first one tells, and polars takes longer to begin than to look.
    if not len(sample) or re.search(_RANK, sample[0].as_py() or "") is None:
        return False
    return not pl.Series(sample).str.extract(_RANK).null_count()


def labelled(rows: Rows) -> Rows:
    """The rows, with the rank in the ids of processes if only their arguments tell it.

    Raises
    ------
    MixedRanksError
        There are rows without arguments of processes that are of several ranks.
    """
    if not _are_all_ranked(rows):
        return rows
    own, _ = ranks(rows)
    if not _has_numbers(rows[RowTable.EVENTS], own):
        return rows
    parts = {table: _labelled(part, own) for table, part in rows.items()}
    if any(_has_numbers(part) for part in parts.values()):
        raise MixedRanksError("some records of a process of several ranks name no rank")
    return parts


def _has_numbers(rows: pa.Table, others: Collection[str] = ()) -> bool:
    """Whether the ids of other processes are numbers."""
    pids = rows["pid"].unique().to_pylist() if rows.num_rows else []
    return any(pid is not None and pid.isdecimal() and pid not in others for pid in pids)


def _labelled(rows: pa.Table, own: Mapping[str, int]) -> pa.Table:
    if not rows.num_rows:
        return rows
    has_args = "args" in rows.column_names
    args = rows["args"] if has_args else pa.nulls(rows.num_rows, pa.string())
    pid = pl.col("pid")
    of_process = pid.replace_strict(own, default=None, return_dtype=pl.Int64)
    frame = _ranked(rows["pid"], args).select("pid", rank=pl.coalesce("rank", of_process))
    label = pl.when(pl.col("rank").is_null()).then(pid).otherwise(pl.format("[{}] {}", "rank", pid))
    texts = frame.select(label.alias("pid"))["pid"].to_arrow().cast(pa.string())
    return replaced(rows, "pid", pa.chunked_array([texts.dictionary_encode()]))


def _ranked(pid: pa.ChunkedArray, args: pa.Array | pa.ChunkedArray) -> pl.DataFrame:
    frame = pl.DataFrame({"pid": pid.cast(pa.string()), "args": args.cast(pa.string())})
    return frame.select(
        "pid",
        rank=pl.col("args").str.extract(_RANK).cast(pl.Int64),
        before=pl.coalesce(pl.col("args").str.extract(_PID, group) for group in (1, 2)),
    )


def removed(rows: Rows) -> Rows:
    """The rows of one rank, without what was added."""
    return {table: _removed(part) for table, part in rows.items()}


def _removed(rows: pa.Table) -> pa.Table:
    if "args" not in rows.column_names or rows["args"].null_count == len(rows["args"]):
        return rows
    args = pl.Series(rows["args"].cast(pa.string()))
    for column, member in _IDS.items():
        if column in rows.column_names:
            rows = _with_ids(rows, column, args.str.extract(_RAW.format(member)))
    for member in dict.fromkeys(_IDS.values()):
        args = args.str.replace(_MEMBER.format(member), "${1}${3}${2}")
    args = args.str.replace_all(_ADDED, "").str.replace(r"\A\{\s*,", "{")
    args = args.set(args.str.contains(_EMPTY), None)
    return replaced(rows, "args", pa.chunked_array([args.to_arrow().cast(pa.string())]))


def _with_ids(rows: pa.Table, column: str, before: pl.Series) -> pa.Table:
    """Rows with the ids before of one column, from one of them."""
    first = before.is_not_null().arg_max()
    if first is None or before[first] is None:
        return rows
    ids = rows[column]
    is_text = pa.types.is_string(ids.type)
    is_number = pc.match_substring_regex(ids, r"^-?[0-9]{1,18}$") if is_text else ids.is_valid()
    numbers = pc.if_else(is_number, ids, "0" if is_text else 0).cast(pa.int64())
    offset = numbers[first].as_py() - int(before[first])
    moved = pc.subtract(numbers, pa.scalar(offset, pa.int64())).cast(ids.type)
    return replaced(rows, column, pc.if_else(is_number, moved, ids)) if offset else rows
