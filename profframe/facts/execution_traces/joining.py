"""The tables of a trace with those of an execution trace of the same process."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.arrays import numbers, words
from profframe.facts.execution_traces.data_dependencies import dependencies
from profframe.facts.execution_traces.linking import NodeLinks, ThreadNodes, ThreadSlices, link
from profframe.facts.fact import Note, Tables
from profframe.intervals import Ints
from profframe.schema import INT32, INT64, NAME, TEXT
from profframe.system.disk_tables import SpooledTable

DATA: Final = "data"
"""Category of flows that are data dependencies."""
_ROOTS: Final = "[pytorch|profiler|"
"""Beginning of the names of nodes that stand for a process or a thread."""
_LINKED: Final = ("host_op", "annotation")


def join_nodes(tables: Tables, nodes: pa.Table, tensors: pa.Table, record_function: Ints) -> Tables:
    """Tables with nodes and tensors, linked to their slices, and data dependencies in `flows`.

    Parameters
    ----------
    tables
        A trace with its facts; without events for a lone execution trace.
    nodes, tensors
        As a reader returns them.
    record_function
        ``Record function id`` of each event, -1 where it has none.
    """
    events = tables["events"]
    links, rows = _links(nodes, events, record_function)
    event_id = np.full(nodes.num_rows, -1, np.int64)
    is_linked = links.slices >= 0
    event_id[rows[is_linked]] = links.slices[is_linked]
    values = _nullable(event_id)
    codes = pa.array(np.zeros(event_id.size, np.int32), mask=event_id < 0)
    how = pa.DictionaryArray.from_arrays(codes, pa.array([links.how], TEXT))
    ids = nodes["node_id"].fill_null(-1).to_numpy()
    distinct, first = np.unique(ids, return_index=True)
    of_tensor = np.searchsorted(distinct, tensors["node_id"].fill_null(-1).to_numpy())
    tensor_events = event_id[first[of_tensor]] if tensors.num_rows else np.empty(0, np.int64)
    alone = not events.num_rows
    checks = tables["quality"]["issue"].cast(TEXT)
    # Workers of a DataLoader write into the file of their parent, with its numbers: half of the
    # dependencies of such a file led from one process to another.
    if pc.any(pc.equal(checks, "repeated_node_id")).as_py():
        pairs = _dependencies_of_slices(nodes, tensors, event_id)
    else:
        pairs = dependencies(nodes, tensors)
    source, target, _ = pairs
    is_drawn = (
        np.ones(source.size, np.bool_)
        if alone
        else (event_id[source] >= 0) & (event_id[target] >= 0)
    )
    source, target, storage = (part[is_drawn] for part in pairs)
    flows = _flows(tables, nodes, event_id, (source, target, storage))
    notes = list(_notes(links, rows.size, alone=alone, lost=int(np.count_nonzero(~is_drawn))))
    quality = pa.concat_tables([tables["quality"], schema.quality_rows(*notes)])
    return {
        **tables,
        "nodes": nodes.append_column("event_id", values).append_column("linked_by", how),
        "tensors": tensors.append_column("event_id", _nullable(tensor_events)),
        "flows": _joined(tables["flows"], flows),
        "quality": quality,
    }


def _dependencies_of_slices(
    nodes: pa.Table, tensors: pa.Table, event_id: Ints
) -> tuple[Ints, Ints, Ints]:
    """Dependencies among nodes that are slices, in the one process of a trace.

    Storages of several processes share their numbers. Numbers of calls follow the order of their
    beginnings within a process; those of nodes no longer do.
    """
    calls = nodes["record_function_id"].fill_null(-1).to_numpy()
    rows = np.flatnonzero((event_id >= 0) & nodes["node_id"].is_valid().to_numpy())
    rows = rows[np.argsort(calls[rows], kind="stable")]
    chosen = nodes.select(["node_id", "parent_id"]).take(pa.array(rows))
    ids = chosen["node_id"].combine_chunks()
    numbers_of = {name: _place(chosen[name], ids) for name in ("node_id", "parent_id")}
    own = _place(tensors["node_id"], ids)
    kept = tensors.filter(pc.is_valid(own))
    kept = kept.set_column(
        kept.column_names.index("node_id"), "node_id", own.drop_null().cast(INT64)
    )
    source, target, storage = dependencies(pa.table(numbers_of), kept)
    return rows[source], rows[target], storage


def _place(values: pa.ChunkedArray, ids: pa.Array) -> pa.Array:
    """Place of each value among ids; NULL if it is none of them."""
    place = pc.index_in(values, value_set=ids, skip_nulls=True)
    return place.combine_chunks() if isinstance(place, pa.ChunkedArray) else place


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, INT64, mask=values < 0)


def _links(nodes: pa.Table, events: pa.Table, record_function: Ints) -> tuple[NodeLinks, Ints]:
    """Links from nodes that may be a slice to `event_id`, and the rows of these nodes."""
    name, texts = words(nodes, "name")
    thread = nodes["tid"].fill_null(-1).to_numpy()
    ids = nodes["node_id"].fill_null(-1).to_numpy()
    is_root = np.array([text is not None and text.startswith(_ROOTS) for text in [*texts, None]])
    rows = np.flatnonzero(~is_root[name])
    rows = rows[np.lexsort((ids[rows], thread[rows]))]
    kind, kinds = words(events, "kind")
    preorder = numbers(events, "preorder", -1)
    start = numbers(events, "start_ns")
    event_name, event_texts = words(events, "name")
    is_host = np.isin(kind, [code for code, text in enumerate(kinds) if text in _LINKED])
    chosen = np.flatnonzero(is_host)
    event_thread = numbers(events, "thread")
    chosen = chosen[np.lexsort((preorder[chosen], event_thread[chosen]))]
    code = {text: number for number, text in enumerate(event_texts)}
    # Names that no slice has get codes of their own, which match nothing.
    codes = np.array([code.get(text, -2 - n) for n, text in enumerate(texts)] + [-1], np.int64)
    record = nodes["record_function_id"].fill_null(-1).to_numpy()
    wanted = ThreadNodes(rows, ids[rows], codes[name[rows]], thread[rows], record[rows])
    slices = ThreadSlices(
        chosen,
        event_name[chosen],
        event_thread[chosen],
        start[chosen],
        record_function[chosen],
        numbers(events, "external_id", -1)[chosen],
    )
    links = link(wanted, slices)
    is_linked = links.slices >= 0
    event = np.where(is_linked, chosen[links.slices] if chosen.size else -1, -1)
    return NodeLinks(event, links.how, links.places), rows


def _flows(
    tables: Tables, nodes: pa.Table, event_id: Ints, pairs: tuple[Ints, Ints, Ints]
) -> pa.Table:
    """A start and an end for each dependency, next to each other."""
    source, target, storage = pairs
    events, count = tables["events"], source.size
    ends = np.stack([source, target], axis=1).reshape(-1)
    event = event_id[ends]
    if events.num_rows:
        time = pc.take(events["start_ns"], pa.array(event))
        pid, tid = (pc.take(events[name].cast(TEXT), pa.array(event)) for name in ("pid", "tid"))
        thread = pc.take(events["thread"], pa.array(event))
    else:
        threads = tables["threads"]
        texts = threads["tid"].cast(TEXT).to_pylist()
        numbers_of = {text: number for number, text in enumerate(texts)}
        tids = nodes["tid"].to_pylist()
        number = np.array(
            [numbers_of.get(None if t is None else str(t), 0) for t in tids], np.int32
        )
        thread = pa.array(number[ends], INT32)
        time = pa.nulls(2 * count, INT64)
        pid, tid = (pc.take(threads[name].cast(TEXT), thread) for name in ("pid", "tid"))
    ids = nodes["node_id"].fill_null(-1).to_numpy()
    args = pc.binary_join_element_wise(
        *('{"source_node": ', _digits(ids[source]), ', "target_node": ', _digits(ids[target])),
        *(', "storage": ', _digits(storage), "}", ""),
    )
    numbers_text = pa.array(np.repeat(np.arange(count), 2)).cast(TEXT)
    repeated = np.repeat(np.arange(count), 2)
    columns = {
        "flow_id": pc.binary_join_element_wise("data", numbers_text, ":"),
        "category": pa.array([DATA] * (2 * count), TEXT),
        "name": pa.array([DATA] * (2 * count), TEXT),
        "phase": pa.array(["s", "f"] * count, TEXT),
        "time_ns": time,
        "pid": pid,
        "tid": tid,
        "thread": thread,
        "binding_point": pa.array([None, "e"] * count, TEXT),
        "event_id": _nullable(event),
        "args": args.take(pa.array(repeated)),
    }
    arrow = schema.FLOWS.arrow
    return pa.table(
        {name: _typed(values, arrow.field(name).type) for name, values in columns.items()}
    )


def _digits(values: Ints) -> pa.Array:
    return pa.array(values).cast(TEXT)


def _typed(values: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    plain = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return plain.dictionary_encode() if type_ == NAME else plain.cast(type_)


def _joined(rows: pa.Table, others: pa.Table) -> pa.Table:
    if not others.num_rows:
        return rows
    if isinstance(rows, SpooledTable):
        return rows.spool.table(itertools.chain(rows.parts(), [others]))
    return pa.concat_tables([rows, others], promote_options="default").unify_dictionaries()


def _notes(links: NodeLinks, nodes: int, *, alone: bool, lost: int) -> list[Note]:
    notes: list[Note] = []
    unlinked = int(np.count_nonzero(links.slices < 0))
    if not alone and unlinked:
        notes.append(("node_without_event", unlinked, f"{unlinked} of {nodes}", None))
    if not alone and links.how == "order" and unlinked < nodes:
        detail = f"{links.places} places fit as well" if links.places > 1 else None
        notes.append(("nodes_linked_by_order", nodes - unlinked, detail, None))
    if lost:
        notes.append(("dependency_without_event", lost, None, None))
    return notes
