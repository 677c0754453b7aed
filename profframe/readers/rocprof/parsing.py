"""Parse text of rocprofv3's JSON records into columns, by DuckDB; no record is a Python object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pyarrow as pa

from profframe.readers.chrome.session import lent
from profframe.readers.json.pieces import parsed, pieces_of
from profframe.readers.json.stream import Parsed, Wave

CALLS: Final = ("hip_api", "hsa_api", "marker_api", "rccl_api", "rocdecode_api", "rocjpeg_api")
_NUMBER: Final = "BIGINT"
_HANDLE: Final = {"handle": _NUMBER}
_AGENT: Final = {"handle": "UBIGINT"}
"""Handles of agents and counters take all 64 bits."""
_DIM: Final = dict.fromkeys("xyz", _NUMBER)
_CORRELATION: Final = dict.fromkeys(("internal", "external", "ancestor"), _NUMBER)
_COMMON: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        ("kind", "operation", "start_timestamp", "end_timestamp", "thread_id"), _NUMBER
    ),
    "correlation_id": _CORRELATION,
    "stream_id": _HANDLE,
}
_DISPATCH: Final[Mapping[str, Any]] = {
    "agent_id": _AGENT,
    "queue_id": _HANDLE,
    **dict.fromkeys(
        ("kernel_id", "dispatch_id", "private_segment_size", "group_segment_size"), _NUMBER
    ),
    "workgroup_size": _DIM,
    "grid_size": _DIM,
}
_COLUMNS: Final = {
    "start": "r.start_timestamp",
    "end": "r.end_timestamp",
    "tid": "r.thread_id",
    "kind": "r.kind",
    "operation": "r.operation",
    "correlation": "r.correlation_id.internal",
    "external": "r.correlation_id.external",
    "stream": "r.stream_id.handle",
}
_ARGUMENTS: Final = """
    array_to_string(list_transform(r.args, lambda a: to_json(coalesce(a.name, ''))::VARCHAR || ':'
        || coalesce(to_json(a.value)::VARCHAR, 'null')), ',')"""
_OF_CALLS: Final = {
    **_COLUMNS,
    "ancestor": "r.correlation_id.ancestor",
    "arguments": f"CASE WHEN len(r.args) > 0 THEN '{{' || {_ARGUMENTS} || '}}' END",
}


def _dispatched(of: str) -> dict[str, str]:
    """Columns of a kernel from its description."""
    return {
        "agent": f"{of}.agent_id.handle",
        "queue": f"{of}.queue_id.handle",
        "key": f"{of}.dispatch_id",
        "kernel_id": f"{of}.kernel_id",
        "dispatch_id": f"{of}.dispatch_id",
        "scratch": f"{of}.private_segment_size",
        "lds": f"{of}.group_segment_size",
        **{
            f"{word}_{axis}": f"{of}.{word}_size.{axis}"
            for word in ("workgroup", "grid")
            for axis in "xyz"
        },
    }


@dataclass(frozen=True, slots=True)
class Form:
    """The members of a kind of record, with their SQL types, and SQL of its columns."""

    members: Mapping[str, Any]
    columns: Mapping[str, str]

    @property
    def query(self) -> str:
        """SQL of the rows; ``is_none`` are elements that are no records."""
        type_ = json.dumps([dict(self.members)])
        columns = ", ".join(f'{sql} AS "{name}"' for name, sql in self.columns.items())
        return f"""SELECT {columns}, r IS NULL AS is_none, r.thread_id IS NULL AS is_blank
            FROM (SELECT unnest(from_json(t, '{type_}')) AS r FROM records)"""  # noqa: S608


_CALL: Final = Form({**_COMMON, "args": [{"name": "VARCHAR", "value": "VARCHAR"}]}, _OF_CALLS)
FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        **dict.fromkeys(CALLS, _CALL),
        "kernel_dispatch": Form(
            {**_COMMON, "dispatch_info": _DISPATCH}, {**_COLUMNS, **_dispatched("r.dispatch_info")}
        ),
        "memory_copy": Form(
            {
                **_COMMON,
                "src_agent_id": _AGENT,
                "dst_agent_id": _AGENT,
                "bytes": _NUMBER,
                "src_address": "VARCHAR",
                "dst_address": "VARCHAR",
            },
            {
                **_COLUMNS,
                "src": "r.src_agent_id.handle",
                "dst": "r.dst_agent_id.handle",
                "bytes": "r.bytes",
                "src_address": "r.src_address",
                "dst_address": "r.dst_address",
            },
        ),
        "memory_allocation": Form(
            {**_COMMON, "agent_id": _AGENT, "address": "VARCHAR", "allocation_size": _NUMBER},
            {
                **_COLUMNS,
                "agent": "r.agent_id.handle",
                "address": "r.address",
                "bytes": "r.allocation_size",
            },
        ),
        "scratch_memory": Form(
            {**_COMMON, "agent_id": _AGENT, "flags": _NUMBER, "allocation_size": _NUMBER},
            {
                **_COLUMNS,
                "agent": "r.agent_id.handle",
                "bytes": "r.allocation_size",
                "flags": "r.flags",
            },
        ),
        "counter_collection": Form(
            {
                "thread_id": _NUMBER,
                "stream_id": _HANDLE,
                "dispatch_data": {
                    "start_timestamp": _NUMBER,
                    "end_timestamp": _NUMBER,
                    "correlation_id": _CORRELATION,
                    "dispatch_info": _DISPATCH,
                },
                "records": [{"counter_id": _AGENT, "value": "DOUBLE"}],
            },
            {
                "start": "r.dispatch_data.start_timestamp",
                "end": "r.dispatch_data.end_timestamp",
                "tid": "r.thread_id",
                "correlation": "r.dispatch_data.correlation_id.internal",
                "external": "r.dispatch_data.correlation_id.external",
                "stream": "r.stream_id.handle",
                **_dispatched("r.dispatch_data.dispatch_info"),
                "counters": "list_transform(r.records, lambda c: c.counter_id.handle)",
                "values": "list_transform(r.records, lambda c: c.value)",
            },
        ),
    }
)
"""Arrays that are read."""
_OTHERS: Final = "SELECT sum(json_array_length(t))::BIGINT AS records FROM records"


def parser_of(
    name: str,
) -> tuple[Callable[[Wave], Parsed[pa.Table]], Callable[[bytes], pa.Table | None]]:
    """What parses an array: functions of a wave, and of the text of an array of its own."""
    query = FORMS[name].query if name in FORMS else _OTHERS

    def wave(text: Wave) -> Parsed[pa.Table]:
        return parsed(text, lambda pieces: _rows(query, pieces, strict=True))

    def array(text: bytes) -> pa.Table | None:
        return _rows(query, pieces_of(text, [0, len(text)]), strict=False)

    return wave, array


def _rows(query: str, pieces: pa.LargeStringArray, *, strict: bool) -> pa.Table | None:
    """Rows of the records; None where text does not parse, or may have to be repaired."""
    try:
        pieces.validate(full=True)
        with lent() as session, session.registered("records", pa.table({"t": pieces})):
            rows = session.rows_of(query)
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if "is_none" not in rows.column_names:
        return rows
    if strict and rows["is_blank"].to_numpy().any():
        return None
    return rows.drop_columns(["is_blank"])
