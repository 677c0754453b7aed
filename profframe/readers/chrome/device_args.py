"""What few slices say among their arguments: bytes, collectives, waits, how much work it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.rows import GIVEN, Batch, Table, replaced, typed
from profframe.readers.chrome.session import Session

_RECORD: Final = "record_param_comms"
"""Host op that says which collective is called."""
_TYPES: Final = {
    "bytes": "BIGINT",
    "Collective name": "VARCHAR",
    "Process Group Name": "VARCHAR",
    "Process Group Description": "VARCHAR",
    "Process Group ID": "VARCHAR",
    "Process Group Ranks": "VARCHAR",
    "Global rank start": "BIGINT",
    "Global rank stride": "BIGINT",
    "Group size": "BIGINT",
    "Seq": "BIGINT",
    "Comms Id": "VARCHAR",
    "dtype": "VARCHAR",
    "In msg nelems": "BIGINT",
    "Out msg nelems": "BIGINT",
    "In split size": "VARCHAR",
    "Out split size": "VARCHAR",
    "Src Rank": "BIGINT",
    "Dst Rank": "BIGINT",
    "data_type": "VARCHAR",
    "count": "BIGINT",
    "wait_on_stream": "BIGINT",
    "wait_on_cuda_event_record_corr_id": "BIGINT",
}
_ASCEND: Final = "hcom_([A-Za-z]+)__([0-9]+)_[0-9]+_[0-9]+"
"""Kernel of Ascend's library: collective, end of the group's name, and two numbers."""
_LIST: Final = r"^\[-?[0-9]+(, *-?[0-9]+)*\]$"
"""A list as the schema has it; one that is cut short, or empty, says nothing."""
_MOST_RANKS: Final = 65536
_SAID: Final = f"""
    SELECT row, name, from_json(args, '{json.dumps(_TYPES)}') AS said
    FROM device_args WHERE json_valid(args)"""  # noqa: S608
_WORK: Final = """
    SELECT row,
           CASE WHEN flops > 0 AND flops < (1::HUGEINT << 62) THEN round(flops)::BIGINT END
           AS given_flops,
           CASE WHEN gb > 0 AND gb < 4e9 THEN round(gb * 1000000000)::BIGINT END AS given_bytes
    FROM (SELECT row, try_cast(args->>'$.kernel_flop' AS DECIMAL(38, 9)) AS flops,
                 try_cast(args->>'$.kernel_num_gb' AS DECIMAL(28, 9)) AS gb
          FROM device_args WHERE json_valid(args))"""
_WORK_MARKS: Final = '"kernel_(?:flop|num_gb)"'
"""Members that ops and kernels of compiled code have; 0 is what nobody has counted."""
_MARKS: Final = (
    "bytes", "Collective name", "Process Group Name", "Seq", "alg_type", "wait_on_stream",
)  # fmt: skip
"""Members that only such arguments have."""


def with_device_args(batch: Batch, session: Session) -> Batch:
    """Add what is found; few slices have any of it, so only their arguments are parsed again."""
    if Table.EVENTS not in batch:
        return batch
    events = batch[Table.EVENTS]
    wanted = pc.or_(pc.is_valid(events["device"]), _speaks(events["name"]))
    args = events["args"].filter(wanted)
    says = pc.match_substring_regex(args, f'"({"|".join(_MARKS)})"')
    rows = pa.chunked_array([pc.indices_nonzero(wanted)]).cast(pa.int64())
    events = _with_said(events, rows.filter(says), _SAID, _of_collectives, session)
    of_work = pl.Series(events["args"]).str.contains(_WORK_MARKS).arg_true().cast(pl.Int64)
    events = _with_said(events, of_work.to_arrow(), _WORK, pl.DataFrame, session)
    return {**batch, Table.EVENTS: events}


def _with_said(
    events: pa.Table,
    rows: pa.Array | pa.ChunkedArray,
    query: str,
    columns: Callable[[pa.Table], pl.DataFrame],
    session: Session,
) -> pa.Table:
    """Events with the columns of what a query finds in the arguments of some of them."""
    if not len(rows):
        return events
    asked = pa.table({"row": rows, **{n: events[n].take(rows) for n in ("name", "args")}})
    with session.about("device_args", asked):
        found = columns(session.ask(query))
    place = np.full(events.num_rows, -1, np.int64)
    place[found["row"].to_numpy()] = np.arange(found.height)
    at = pa.array(place, mask=place < 0)
    for name in found.columns[1:]:
        values = typed(found[name].to_arrow(), GIVEN[name])
        if values.null_count < len(values):
            given = values.take(at)
            known = name in events.column_names
            events = replaced(events, name, given) if known else events.append_column(name, given)
    return events


def _of_collectives(found: pa.Table) -> pl.DataFrame:
    """Columns of the schema; polars plans them in a tenth of the time that DuckDB takes."""
    said = pl.DataFrame(found.flatten())
    told = {column.name for column in said if column.null_count() < said.height}
    columns = _collective_columns().items()
    return said.select("row", **{name: of for name, (of, roots) in columns if roots & told})


@cache
def _collective_columns() -> dict[str, tuple[pl.Expr, frozenset[str]]]:
    """What each is made of, and the columns that it needs one of."""
    of = {name: pl.col(f"said.{name}") for name in _TYPES}
    size, first, stride = of["Group size"], of["Global rank start"], of["Global rank stride"]
    named = pl.col("name").str.extract_groups(f"^{_ASCEND}$").struct
    sent = pl.coalesce(of["In msg nelems"], of["count"])
    event = of["wait_on_cuda_event_record_corr_id"]
    columns = {
        "bytes": _where(of["bytes"] >= 0, of["bytes"]),
        "collective": pl.coalesce(_text(of["Collective name"]), named.field("1")),
        "process_group": pl.coalesce(
            _text(of["Process Group Name"]),
            of["Process Group ID"],
            _text(of["Process Group Description"]),
            named.field("2"),
        ),
        "group_size": _where(size > 0, size),
        "group_ranks": pl.coalesce(_list(of["Process Group Ranks"]), _even(size, first, stride)),
        "collective_seq": _where(of["Seq"] >= 0, of["Seq"]),
        "collective_id": _text(of["Comms Id"]),
        "element_type": pl.coalesce(_text(of["dtype"]), _text(of["data_type"])),
        "in_elements": _where(sent >= 0, sent),
        "out_elements": _where(of["Out msg nelems"] >= 0, of["Out msg nelems"]),
        "in_splits": _list(of["In split size"]),
        "out_splits": _list(of["Out split size"]),
        "peer_rank": pl.coalesce(of["Dst Rank"], of["Src Rank"]),
        "wait_on_stream": of["wait_on_stream"],
        "wait_on_correlation": _where(event > 0, event),
    }
    return {name: (of, frozenset(of.meta.root_names())) for name, of in columns.items()}


def _where(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(value)


def _text(value: pl.Expr) -> pl.Expr:
    return _where(value != "", value)


def _list(value: pl.Expr) -> pl.Expr:
    return _where(value.str.contains(_LIST), value.str.replace_all(" ", "", literal=True))


def _even(size: pl.Expr, first: pl.Expr, stride: pl.Expr) -> pl.Expr:
    """The list of so many ranks, each so far from the one before it."""
    sound = size.is_between(1, _MOST_RANKS) & (first >= 0) & ((size == 1) | (stride > 0))
    size, first = _where(sound, size), _where(sound, first)
    stride = _where(size > 1, stride).fill_null(1)
    ranks = pl.int_ranges(0, size) * stride + first
    return pl.concat_str(pl.lit("["), ranks.cast(pl.List(pl.String)).list.join(","), pl.lit("]"))


def _speaks(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rows that tell of a collective by their name; every distinct name is looked at once."""
    pattern = f"^({_RECORD}|{_ASCEND})$"
    chunks = [
        pc.take(pc.match_substring_regex(chunk.dictionary, pattern), chunk.indices)
        for chunk in names.chunks
    ]
    return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)
