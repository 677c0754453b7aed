"""Columns from arguments that few slices have: bytes, collectives, waits, and work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Mask
from profframe.readers.build.row_tables import SOURCE_VALUES, Batch, RowTable, replaced, typed
from profframe.readers.chrome.columns import (
    DEVICE_CATEGORIES,
    LAUNCH_MEMBERS,
    Members,
    launch_columns,
)
from profframe.readers.chrome.session import Session, lent

_RECORD: Final = "record_param_comms"
"""Host op that describes the called collective."""
_INTEGERS: Final = (
    "bytes", "Global rank start", "Global rank stride", "Group size", "Seq", "In msg nelems",
    "Out msg nelems", "Src Rank", "Dst Rank", "count", "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
)  # fmt: skip
_TEXTS: Final = (
    "Collective name", "Process Group Name", "Process Group Description", "Process Group ID",
    "Process Group Ranks", "Comms Id", "dtype", "In split size", "Out split size", "data_type",
    "cuda_sync_kind",
)  # fmt: skip
DEVICE_ARGS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(_INTEGERS, "BIGINT") | dict.fromkeys(_TEXTS, "VARCHAR")
)
"""Arguments from which the columns are made, and their SQL types."""
_ASCEND: Final = "hcom_([A-Za-z]+)__([0-9]+)_[0-9]+_[0-9]+"
"""Name of a kernel of Ascend's library: collective, end of the group's name, and two numbers."""
_LIST: Final = r"^\[-?[0-9]+(, *-?[0-9]+)*\]$"
"""A list in the schema's form; a truncated or empty one is ignored."""
_NO_SPLITS: Final = ("", "[]")
"""Splits of a collective without splits: its parts are equal."""
_MOST_RANKS: Final = 65536
_ANY_OF_DEVICE: Final = f'"(?:{"|".join(DEVICE_ARGS)})"'
_COLLECTIVES: Final = f"""
    SELECT row, name, from_json(args, '{json.dumps(dict(DEVICE_ARGS))}') AS members
    FROM device_args WHERE args IS NULL OR json_valid(args)"""  # noqa: S608
_LAUNCHES: Final = f"""
    SELECT row, unnest(from_json(args, '{json.dumps(dict(LAUNCH_MEMBERS))}'))
    FROM device_args WHERE json_valid(args)"""  # noqa: S608
_LAUNCH_MARKS: Final = (
    '"(?:grid"|block"|registers per|shared memory|blocks per SM|est. achieved|graph node id":[^0])'
)
"""Members of kernels whose launch is described, and of work in graphs."""
WORK_TYPES: Final = {"kernel_flop": "DECIMAL(38, 9)", "kernel_num_gb": "DECIMAL(28, 9)"}
WORK_ARGS: Final = tuple(WORK_TYPES)
"""Arguments of ops and kernels of compiled code; 0 means not counted."""
WORK_COLUMNS: Final = """
    SELECT row,
           CASE WHEN flops > 0 AND flops < (1::HUGEINT << 62) THEN round(flops)::BIGINT END
           AS given_flops,
           CASE WHEN gb > 0 AND gb < 4e9 THEN round(gb * 1000000000)::BIGINT END AS given_bytes
    FROM (SELECT row, try_cast(kernel_flop AS {kernel_flop}) AS flops,
                 try_cast(kernel_num_gb AS {kernel_num_gb}) AS gb
          FROM {rows})"""
_WORK: Final = WORK_COLUMNS.format(
    rows=f"""(SELECT row, unnest(from_json(args, '{json.dumps(WORK_TYPES)}'))
             FROM device_args WHERE json_valid(args))""",  # noqa: S608
    **WORK_TYPES,
)
_WORK_OF_TEXTS: Final = WORK_COLUMNS.format(rows="work_args", **WORK_TYPES)
_WORK_MARKS: Final = f'"(?:{"|".join(WORK_ARGS)})"'


def with_device_args(batch: Batch, session: Session) -> Batch:
    """Add the columns; few slices have any, so only their arguments are parsed again."""
    if RowTable.EVENTS not in batch:
        return batch
    events = batch[RowTable.EVENTS]
    rows = pa.chunked_array([pc.indices_nonzero(_may_have_any(events))]).cast(pa.int64())
    args, names = (events[column].take(rows) for column in ("args", "name"))
    has_any = pc.match_substring_regex(args, _ANY_OF_DEVICE)
    has_any = pc.or_kleene(has_any, _by_text(names, _is_of_ascend))
    events = _with_results(events, rows.filter(has_any), _COLLECTIVES, _collectives_of, session)
    work_rows = pl.Series(events["args"]).str.contains(_WORK_MARKS).arg_true().cast(pl.Int64)
    events = _with_results(events, work_rows.to_arrow(), _WORK, pl.DataFrame, session)
    return {**batch, RowTable.EVENTS: events}


def with_launches(batch: Batch, session: Session) -> Batch:
    """Add how kernels were launched, by their arguments."""
    if RowTable.EVENTS not in batch:
        return batch
    events = batch[RowTable.EVENTS]
    has_member = pc.match_substring_regex(events["args"], _LAUNCH_MARKS)
    mask = pc.fill_null(pc.and_(_is_on_device(events), has_member), fill_value=False)
    rows = pa.chunked_array([pc.indices_nonzero(mask)]).cast(pa.int64())
    return {**batch, RowTable.EVENTS: _with_results(events, rows, _LAUNCHES, _launch_rows, session)}


def with_members(events: pa.Table, members: Members) -> pa.Table:
    """Add the columns to slices whose arguments are members already, those of work as texts."""
    is_of_ascend = _by_text(events["name"], _is_of_ascend).to_numpy()
    rows = np.flatnonzero(_rows_with(members, DEVICE_ARGS) | is_of_ascend)
    if rows.size:
        own = events.select(["category", "device", "name"]).take(pa.array(rows))
        rows = rows[_may_have_any(own).to_numpy()]
    if rows.size:
        texts = {f"members.{name}": _plain(members[name].take(rows)) for name in DEVICE_ARGS}
        own = pl.DataFrame({"row": rows, "name": _plain(events["name"].take(rows)), **texts})
        events = _with_columns(events, _collective_results(own))
    rows = np.flatnonzero(_rows_with(members, WORK_ARGS))
    if not rows.size:
        return events
    texts = {name: _plain(members[name].take(rows)) for name in WORK_ARGS}
    with lent() as session, session.registered("work_args", pa.table({"row": rows, **texts})):
        return _with_columns(events, pl.DataFrame(session.rows_of(_WORK_OF_TEXTS)))


def _rows_with(members: Members, names: Iterable[str]) -> Mask:
    """Rows that have one of the arguments."""
    own = [members[name] for name in names if name in members]
    masks = [values.is_valid().to_numpy(zero_copy_only=False) for values in own]
    has_any: Mask = np.logical_or.reduce([np.zeros(len(members["name"]), np.bool_), *masks])
    return has_any


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values


def _launch_rows(rows: pa.Table) -> pl.DataFrame:
    columns = launch_columns([rows[name] for name in LAUNCH_MEMBERS])
    return pl.DataFrame({"row": rows["row"], **columns})


def _with_results(
    events: pa.Table,
    rows: pa.Array | pa.ChunkedArray,
    query: str,
    columns: Callable[[pa.Table], pl.DataFrame],
    session: Session,
) -> pa.Table:
    """Events with columns from a query on the arguments of some rows."""
    if not len(rows):
        return events
    arguments = pa.table({"row": rows, **{n: events[n].take(rows) for n in ("name", "args")}})
    with session.registered("device_args", arguments):
        results = columns(session.rows_of(query))
    return _with_columns(events, results)


def _collectives_of(results: pa.Table) -> pl.DataFrame:
    return _collective_results(pl.DataFrame(results.flatten()))


def _with_columns(events: pa.Table, results: pl.DataFrame) -> pa.Table:
    """Events with the columns of some rows."""
    place = np.full(events.num_rows, -1, np.int64)
    place[results["row"].to_numpy()] = np.arange(results.height)
    index = pa.array(place, mask=place < 0)
    for name in results.columns[1:]:
        values = typed(results[name].to_arrow(), SOURCE_VALUES[name])
        if values.null_count < len(values):
            values = values.take(index)
            exists = name in events.column_names
            events = (
                replaced(events, name, values) if exists else events.append_column(name, values)
            )
    return events


def _collective_results(members: pl.DataFrame) -> pl.DataFrame:
    """Columns of the schema; polars plans them in a tenth of the time that DuckDB takes."""
    non_null = {column.name for column in members if column.null_count() < members.height}
    columns = _collective_columns().items()
    return members.select(
        "row", **{name: expression for name, (expression, roots) in columns if roots & non_null}
    )


@cache
def _collective_columns() -> dict[str, tuple[pl.Expr, frozenset[str]]]:
    """Expression of each column, and the columns of which it needs at least one."""
    of = {name: pl.col(f"members.{name}") for name in DEVICE_ARGS}
    size, first, stride = of["Group size"], of["Global rank start"], of["Global rank stride"]
    kernel_name = pl.col("name").str.extract_groups(f"^{_ASCEND}$").struct
    in_elements = pl.coalesce(of["In msg nelems"], of["count"])
    event = of["wait_on_cuda_event_record_corr_id"]
    columns = {
        "bytes": _where(of["bytes"] >= 0, of["bytes"]),
        "collective": pl.coalesce(_text(of["Collective name"]), kernel_name.field("1")),
        "process_group": pl.coalesce(
            _text(of["Process Group Name"]),
            of["Process Group ID"],
            _text(of["Process Group Description"]),
            kernel_name.field("2"),
        ),
        "group_size": _where(size > 0, size),
        "group_ranks": pl.coalesce(_list(of["Process Group Ranks"]), _strided(size, first, stride)),
        "collective_seq": _where(of["Seq"] >= 0, of["Seq"]),
        "collective_id": _text(of["Comms Id"]),
        "element_type": pl.coalesce(_text(of["dtype"]), _text(of["data_type"])),
        "in_elements": _where(in_elements >= 0, in_elements),
        "out_elements": _where(of["Out msg nelems"] >= 0, of["Out msg nelems"]),
        "in_splits": _splits(of["In split size"]),
        "out_splits": _splits(of["Out split size"]),
        "peer_rank": pl.coalesce(of["Dst Rank"], of["Src Rank"]),
        "wait_on_stream": of["wait_on_stream"],
        "wait_on_correlation": _where(event > 0, event),
        "sync_kind": _text(of["cuda_sync_kind"]),
    }
    return {name: (of, frozenset(of.meta.root_names())) for name, of in columns.items()}


def _where(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(value)


def _text(value: pl.Expr) -> pl.Expr:
    return _where(value != "", value)


def _list(value: pl.Expr) -> pl.Expr:
    return _where(value.str.contains(_LIST), value.str.replace_all(" ", "", literal=True))


def _splits(value: pl.Expr) -> pl.Expr:
    """What is not a list is kept, such as one that torch cuts: else parts would look equal."""
    without_spaces = value.str.replace_all(" ", "", literal=True)
    return _where(~without_spaces.is_in(_NO_SPLITS), without_spaces)


def _strided(size: pl.Expr, first: pl.Expr, stride: pl.Expr) -> pl.Expr:
    """A list of `size` ranks, `stride` apart."""
    is_valid = size.is_between(1, _MOST_RANKS) & (first >= 0) & ((size == 1) | (stride > 0))
    size, first = _where(is_valid, size), _where(is_valid, first)
    stride = _where(size > 1, stride).fill_null(1)
    ranks = pl.int_ranges(0, size) * stride + first
    return pl.concat_str(pl.lit("["), ranks.cast(pl.List(pl.String)).list.join(","), pl.lit("]"))


def _is_on_device(events: pa.Table) -> pa.ChunkedArray:
    """Rows with a device, or a device category: these are on a device even if none is named."""
    of_device = _by_text(
        events["category"], lambda texts: pc.is_in(texts, pa.array(DEVICE_CATEGORIES))
    )
    return pc.or_(pc.is_valid(events["device"]), of_device)


def _may_have_any(events: pa.Table) -> pa.ChunkedArray:
    """Slices of a device, and those that are named as a collective."""

    def is_record(names: pa.Array) -> pa.Array:
        return pc.or_(pc.equal(names, pa.scalar(_RECORD)), _is_of_ascend(names))

    return pc.or_(_is_on_device(events), _by_text(events["name"], is_record))


def _is_of_ascend(names: pa.Array) -> pa.Array:
    return pc.match_substring_regex(names, f"^{_ASCEND}$")


def _by_text(encoded: pa.ChunkedArray, matches: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Rows whose text matches; each distinct one is tried once."""
    chunks = [pc.take(matches(chunk.dictionary), chunk.indices) for chunk in encoded.chunks]
    return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)
