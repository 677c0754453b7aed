"""Read execution traces, as torch's ExecutionTraceObserver writes them (Chakra ET): no times.

DuckDB parses the nodes, as it does the events of Chrome traces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.errors import NotATraceError
from profframe.intervals import Ints
from profframe.readers import execution_trace, parsing_database
from profframe.readers.build.assembly import assemble_without_events
from profframe.readers.build.row_tables import Header, Quality, RawTrace
from profframe.readers.bytes import ByteSource
from profframe.readers.execution_trace.numbering import numbered_apart
from profframe.readers.execution_trace.parsing import GROUP_COLUMNS, ParsedNodes, Parser
from profframe.readers.execution_trace.rank_groups import with_groups
from profframe.readers.execution_trace.writes import with_writes
from profframe.readers.json.exact import dumps
from profframe.readers.json.opening import NoArrayError
from profframe.readers.json.repair import DROPS
from profframe.readers.json.stream import ArrayReader, Document
from profframe.schema import INT32, INT64, NAME, TEXT
from profframe.system import memory_limit
from profframe.system.disk_tables import Spool

_NODES_KEY: Final = "nodes"
_MARK: Final = b'"id"'
_CUT: Final = re.compile(
    rb'\}\s*+(,)\s*+(?=\{\s*+"(?:(?!name"|type"|value")|name"\s*+:\s*+"(?:[^"\\]|\\.)*+"\s*+,\s*+"id"))'
)
"""Between two nodes: attributes within one are consecutive objects, too, with a name and type."""
_FIRST_THREADS: Final = 8


def read(
    source: ByteSource,
    spool: Spool | None = None,  # noqa: ARG001 - nodes are few beside the events of a trace
    threads: int | None = None,
) -> RawTrace:
    """Read one execution trace into ``nodes``, ``tensors`` and ``threads``.

    Raises
    ------
    NotATraceError
        The source has no nodes; the message names file and place.
    SourceError
        The file cannot be read.
    """
    parsing_database.open_in_background()
    parser = Parser()
    reader = ArrayReader(
        source.blocks(),
        _NODES_KEY,
        parser.wave,
        parser.array,
        threads or min(_FIRST_THREADS, os.cpu_count() or 1),
        mark=_MARK,
        cut=_CUT,
    )
    try:
        nodes, tensors, owners, unread = _gathered(reader.rows())
    except NoArrayError as error:
        damage = f"; {source.damage}" if source.damage else ""
        raise NotATraceError(
            f"{source.path}: not a trace: {error}{damage} (expected an execution trace: an object "
            f"with {_NODES_KEY!r})"
        ) from None
    document = reader.document
    quality = Quality()
    for note in document.notes("nodes", source.damage):
        quality.note(*note)
    nodes, tensors, repeated = numbered_apart(nodes, tensors, owners)
    if repeated:
        quality.note("repeated_node_id", repeated)
    if unread:
        quality.note("unread_tensor", unread)
    if orphans := _orphans(nodes):
        quality.note("missing_parent", orphans)
    dropped = sum(document.repairs[check] for check in DROPS)
    with parsing_database.connect() as connection:
        tensors = with_writes(nodes, tensors, connection)
    tables = {
        "nodes": with_groups(nodes),
        "tensors": tensors,
        "threads": _threads(document, nodes),
    }
    accounted = {"nodes": nodes.num_rows, "dropped": dropped}
    return assemble_without_events(tables, _header(document), quality, accounted)


def _orphans(nodes: pa.Table) -> int:
    """How many nodes name a parent that is none of them; the outermost name node 0."""
    parent = nodes["parent_id"].drop_null().to_numpy()
    return int((~np.isin(parent[parent != 0], nodes["node_id"].drop_null().to_numpy())).sum())


def _gathered(parts: Iterable[ParsedNodes]) -> tuple[pa.Table, pa.Table, Ints, int]:
    names = ("nodes", "tensors")
    tables: dict[str, list[pa.Table]] = {name: [_empty(name)] for name in names}
    owners: list[Ints] = [np.empty(0, np.int64)]
    size = unread = count = 0
    for part in parts:
        owners.append(part.owners + count)
        count += part.nodes.num_rows
        for name, rows in zip(names, (part.nodes, part.tensors), strict=True):
            tables[name].append(rows)
            size += rows.nbytes
        unread += part.unread
        memory_limit.check(size)
    nodes, tensors = (
        pa.concat_tables(tables[name], promote_options="default").unify_dictionaries()
        for name in names
    )
    return nodes, tensors, np.concatenate(owners), unread


def _empty(name: str) -> pa.Table:
    fields = [f for f in schema.TABLES[name].arrow if f.name in Parser.COLUMNS[name]]
    if name == "nodes":
        fields += [pa.field(column, INT32) for column in GROUP_COLUMNS]
    return pa.schema([field.with_nullable(True) for field in fields]).empty_table()


def _header(document: Document) -> Header:
    return Header(
        format=execution_trace.FORMAT,
        clock="relative",
        metadata=dumps(document.header) if document.header else None,
    )


def _threads(document: Document, nodes: pa.Table) -> pa.Table:
    """A row for each thread in the source's own numbering, all in its process."""
    pid: Any = document.header.get("pid")
    pid = str(pid) if isinstance(pid, (int, str)) and not isinstance(pid, bool) else None
    tids = sorted(nodes["tid"].unique().drop_null().to_pylist())
    if nodes["tid"].null_count or (pid is not None and not tids):
        tids.append(None)
    texts = [None if tid is None else str(tid) for tid in tids]
    count = len(tids)
    return pa.table(
        {
            "thread": pa.array(range(count), INT32),
            "pid": pa.array([pid] * count, TEXT).cast(NAME),
            "tid": pa.array(texts, TEXT).cast(NAME),
            "process_name": pa.nulls(count, TEXT),
            "process_labels": pa.nulls(count, TEXT),
            "process_sort_index": pa.nulls(count, INT64),
            "thread_name": pa.nulls(count, TEXT),
            "thread_sort_index": pa.nulls(count, INT64),
        }
    )
