"""Lines of NCCL's Inspector: the collectives, sends and receives of a process, with bandwidths.

Formats v4.0 to v4.4. Up to v4.2 each line says its communicator and process. From v4.3 on, one line
(``dump_stats``) says them for the lines that follow it, and how many these are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.errors import SourceError
from profframe.intervals import Ints
from profframe.readers import nccl_inspector
from profframe.readers.build.assembly import assemble_without_events
from profframe.readers.build.row_tables import Header, Quality, RawTrace, repeated
from profframe.readers.bytes import ByteSource
from profframe.readers.chrome.parts import SeveralTracesError
from profframe.readers.nccl_inspector.lines import Lines
from profframe.schema import INT64
from profframe.system.disk_tables import Spool

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AllGather": "all_gather",
        "AllGatherV": "all_gather",
        "AllReduce": "all_reduce",
        "Broadcast": "broadcast",
        "Reduce": "reduce",
        "ReduceScatter": "reduce_scatter",
        "SendRecv": "send_recv",
        "Send": "send",
        "Recv": "recv",
        "All2All": "all_to_all",
        "AlltoAll": "all_to_all",
        "Gather": "gather",
        "Scatter": "scatter",
    }
)
"""Operations of NCCL in the words of torch."""
VERSIONS: Final = ("v4.0", "v4.1", "v4.2", "v4.3", "v4.4")
_WITH_MARKERS: Final = frozenset(VERSIONS[3:])
"""Formats in which lines say nothing of their communicator."""
_UNNAMED: Final = "unknown"
_OF_HEADER: Final = (
    "communicator", "comm_name", "group_rank", "group_size", "nodes", "version", "written_ns",
    "hostname", "pid",
)  # fmt: skip
_P2P, _PROXY = 1, 2
_MOST_NAMED: Final = 5
_MOST_LINES: Final = 1 << 40
Mask = npt.NDArray[np.bool_]


def read(
    source: ByteSource,
    spool: Spool | None = None,  # noqa: ARG001 - a record takes some hundred bytes
    threads: int | None = None,
) -> RawTrace:
    """Read a file into the tables of a trace without events.

    Raises
    ------
    SourceError
        It cannot be read, no line of it can, or it has a format that is not known.
    SeveralTracesError
        It has several ranks, as of a process with several devices.
    """
    quality = Quality()
    lines = Lines(quality)
    rows = lines.parsed(source.blocks(), threads)
    _check_versions(rows, source)
    if not pc.any(rows["is_readable"]).as_py():
        reason = source.damage or "none of its lines can be read"
        raise SourceError(f"{source.path}: lines of NCCL's Inspector, but {reason}")
    lost = _note_lost_lines(rows, lines, source, quality)
    if odd := pc.sum(rows["odd"]).as_py():
        quality.note("odd_record", odd)
    rows, orphans = _with_headers(rows, lost, quality)
    markers = rows.filter(rows["is_marker"])
    if proxies := _count(rows, _PROXY):
        quality.note("rows_not_loaded", proxies, "proxy_trace")
    records = rows.filter(pc.less(pc.fill_null(rows["op"], _PROXY), _PROXY))
    others = rows.num_rows - records.num_rows - markers.num_rows - proxies
    if others:
        quality.note("not_an_event", others, "lines without a record")
    _note_overwritten(markers, quality)
    _note_conflicts(rows, quality)
    accounted = {
        "recorded_collectives": records.num_rows,
        "metadata": markers.num_rows,
        "not loaded": proxies,
        "dropped": others + orphans + int(lost.sum()) + lines.long_lines,
    }
    ranks = _ranks(rows)
    if len(ranks) <= 1:
        rank = ranks[0] if ranks else None
        return _trace(rows, records, rank, quality, accounted)
    parts = _parts(rows, records, ranks, quality, accounted)
    raise SeveralTracesError(
        source.path, len(parts), {}, parts, "of the ranks of one process with several devices"
    )


def _check_versions(rows: pa.Table, source: ByteSource) -> None:
    """Raise a SourceError for the first line of a format that is not known."""
    version = rows["version"].combine_chunks()
    for name in version.dictionary.to_pylist() if len(version) else ():
        if name in VERSIONS:
            continue
        line = rows["line"][pc.index(version.cast(pa.string()), name).as_py()].as_py()
        shown = name if len(name) <= len("inspector v10.10") else name[:16] + "..."
        raise SourceError(
            f"{source.path}: line {line:,}: format {shown!r} of NCCL's Inspector, of which "
            f"profframe reads {VERSIONS[0]} to {VERSIONS[-1]}"
        )


def _note_lost_lines(rows: pa.Table, lines: Lines, source: ByteSource, quality: Quality) -> Mask:
    """Which lines cannot be read; the last one may have been cut."""
    lost = ~_mask(rows["is_readable"])
    is_cut = lines.is_cut and bool(len(lost)) and bool(lost[-1])
    if is_cut or source.damage:
        quality.note("truncated", int(is_cut), source.damage)
    if count := int(lost.sum()) - is_cut:
        quality.note("unreadable_event", count, f"the first in line {_first_line(rows, lost):,}")
    if lines.long_lines:
        quality.note("long_event", lines.long_lines)
    return lost


def _with_headers(rows: pa.Table, lost: Mask, quality: Quality) -> tuple[pa.Table, int]:
    """Readable lines, each with the header that it belongs to, and the number of those without one.

    The lines of a dump are written at once, first collectives, then sends and receives, then the
    work of proxies, and their marker says how many these are. Beyond that, or in another order, a
    marker is missing, and the communicator of a line is not certain. A line that cannot be read
    takes a place in its dump, too.
    """
    place = np.arange(rows.num_rows)
    is_marker, has_header = _mask(rows["is_marker"]), _mask(rows["has_header"])
    context = np.maximum.accumulate(np.where(is_marker | has_header, place, -1))
    owner = np.maximum(context, 0)
    announced = _announced(rows)
    is_bare = ~is_marker & ~has_header
    op = np.where(lost | ~is_bare, 0, pc.fill_null(rows["op"], _PROXY + 1).to_numpy())
    order = context * (_PROXY + 2) + op
    is_sure = (context >= 0) & (is_marker & has_header)[owner]
    is_sure &= (place - context <= announced[owner]) & (order == np.maximum.accumulate(order))
    first_odd = np.full(rows.num_rows, rows.num_rows)
    odd = np.flatnonzero(is_bare & ~lost & ~is_sure)
    np.minimum.at(first_odd, owner[odd], odd)
    is_orphan = is_bare & ~lost & ((context < 0) | (place >= first_odd[owner]))
    orphans = int(is_orphan.sum())
    if orphans:
        quality.note("orphan_line", orphans, f"the first in line {_first_line(rows, is_orphan):,}")
    begins = np.flatnonzero(is_marker & has_header & _is_in(rows["version"], _WITH_MARKERS))
    follow = np.bincount(owner[is_bare & ~is_orphan & (context >= 0)], minlength=rows.num_rows)
    missing = int(np.maximum(announced - follow, 0)[begins].sum())
    if missing:
        quality.note("missing_lines", missing)
    source = pa.array(np.where(is_bare & ~is_orphan, owner, place))
    taken = {name: rows[name].take(source) for name in _OF_HEADER}
    columns = [taken.get(name, rows[name]) for name in rows.column_names]
    return pa.table(columns, rows.column_names).filter(pa.array(~is_orphan & ~lost)), orphans


def _announced(rows: pa.Table) -> Ints:
    """Number of lines that follow each marker."""
    names = ("coll_records", "p2p_records", "proxy_records")
    counts = [pc.fill_null(rows[name], 0).to_numpy().clip(0, _MOST_LINES) for name in names]
    lines: Ints = np.sum(counts, axis=0, dtype=np.int64)
    return lines


def _note_overwritten(markers: pa.Table, quality: Quality) -> None:
    """Records that were overwritten: the last total of each communicator and rank."""
    if not markers.num_rows:
        return
    keys = ["communicator", "group_rank"]
    totals = markers.group_by(keys).aggregate([("coll_dropped", "max"), ("p2p_dropped", "max")])
    for name, word in (("coll_dropped", "collectives"), ("p2p_dropped", "sends and receives")):
        counts = [min(n or 0, _MOST_LINES) for n in totals[f"{name}_max"].to_pylist()]
        if sum(counts) > 0:
            quality.note("overwritten_collectives", sum(counts), word)


def _note_conflicts(rows: pa.Table, quality: Quality) -> None:
    """Headers of a communicator or of the process that are not as the first one."""
    conflicts = 0
    for key, names in (
        ("communicator", ("group_size", "nodes", "comm_name")),
        (None, ("hostname", "pid")),
    ):
        given = rows if key is None else rows.filter(rows[key].is_valid())
        for name in names:
            valid = given.filter(given[name].is_valid())
            if not valid.num_rows:
                continue
            keys = [] if key is None else [key]
            pairs = valid.group_by([*keys, name], use_threads=False).aggregate([([], "count_all")])
            firsts: dict[Any, Any] = {}
            for row in pairs.to_pylist():
                if firsts.setdefault(row.get(key), row[name]) != row[name]:
                    conflicts += row["count_all"]
    if conflicts:
        quality.note("conflicting_headers", conflicts)


def _communicators(rows: pa.Table) -> list[dict[str, Any]]:
    """Communicators with the numbers of ranks in them, in order of appearance, and their lines."""
    valid = rows.filter(pc.and_(rows["group_rank"].is_valid(), rows["group_size"].is_valid()))
    keys = ["communicator", "group_rank", "group_size"]
    counts = valid.group_by(keys, use_threads=False).aggregate([([], "count_all")]).to_pylist()
    return [row for row in counts if 0 <= row["group_rank"] < row["group_size"]]


def _ranks(rows: pa.Table) -> list[int]:
    """The ranks of a file: their numbers in the largest communicator.

    Several only if one communicator has several of them; none if it is not certain.
    """
    communicators = _communicators(rows)
    largest = max((row["group_size"] for row in communicators), default=0)
    ranks: dict[str | None, list[int]] = {}
    for row in communicators:
        if row["group_size"] == largest:
            ranks.setdefault(row["communicator"], []).append(row["group_rank"])
    every = {tuple(sorted(set(of))) for of in ranks.values()}
    return [*every.pop()] if len(every) == 1 else []


def _parts(
    rows: pa.Table,
    records: pa.Table,
    ranks: Sequence[int],
    quality: Quality,
    accounted: Mapping[str, int],
) -> list[RawTrace]:
    """A trace for each rank of a process; the notes and lines that are of none are of the first."""
    sizes: dict[str | None, set[int]] = {}
    numbers: dict[str | None, set[int]] = {}
    for row in _communicators(rows):
        sizes.setdefault(row["communicator"], set()).add(row["group_size"])
        numbers.setdefault(row["communicator"], set()).add(row["group_rank"])
    largest = max(max(of) for of in sizes.values())
    placed = [name for name, of in numbers.items() if of <= {*ranks} and largest in sizes[name]]
    is_placed = pc.is_in(records["communicator"].cast(pa.string()), pa.array(placed, pa.string()))
    is_placed = pc.and_(is_placed, pc.is_in(records["group_rank"], pa.array(ranks, pa.int32())))
    if lost := records.num_rows - (pc.sum(is_placed).as_py() or 0):
        quality.note("unplaced_record", lost)
    records = records.filter(is_placed)
    traces = []
    for number, rank in enumerate(ranks):
        own = records.filter(pc.equal(records["group_rank"], rank))
        counts = {**accounted, "dropped": accounted["dropped"] + lost} if not number else {}
        counts["recorded_collectives"] = own.num_rows
        notes = quality if not number else Quality()
        traces.append(_trace(rows, own, rank, notes, counts))
    return traces


def _trace(
    rows: pa.Table,
    records: pa.Table,
    rank: int | None,
    quality: Quality,
    accounted: Mapping[str, int],
) -> RawTrace:
    _note_gaps(records, quality)
    table = _table(records)
    header = Header(
        format=nccl_inspector.FORMAT,
        clock="utc",
        rank=rank,
        rank_source="communicator",
        backend="nccl",
        metadata=json.dumps(_metadata(rows)),
    )
    first = min(_ends(table, pc.min, "created_ns", "started_ns"), default=None)
    if first is None:
        first = min(_ends(table, pc.min, "written_ns"), default=None)
    last = max(_ends(table, pc.max, "completed_ns", "written_ns"), default=first)
    tables = {"recorded_collectives": table} if table.num_rows else {}
    counts = {name: count for name, count in accounted.items() if count or name == "dropped"}
    return assemble_without_events(tables, header, quality, counts, span_ns=(first, last))


def _ends(table: pa.Table, of: Callable[[Any], pa.Scalar], *names: str) -> list[int]:
    """The earliest or latest times in columns that have some."""
    return [at for name in names if (at := of(table[name]).as_py()) is not None]


def _metadata(rows: pa.Table) -> dict[str, Any]:
    """What the first lines say of their process, and the versions of all."""
    names = {"hostname": "hostname", "pid": "pid", "git_rev": "git_rev"}
    values = {name: rows[name].drop_null() for name in names}
    firsts = {name: column[0].as_py() for name, column in values.items() if len(column)}
    versions = rows["version"].drop_null().unique().to_pylist()
    return firsts | {"inspector_output_format_version": sorted(versions)}


def _table(records: pa.Table) -> pa.Table:
    """Rows of ``recorded_collectives``."""
    is_p2p = pc.equal(records["op"], _P2P)
    group_size = pc.if_else(pc.greater(records["group_size"], 0), records["group_size"], None)
    columns = {
        "record_id": pa.array(np.arange(records.num_rows), INT64),
        "process_group": _without(records["comm_name"], _UNNAMED),
        "group_size": group_size,
        "collective_seq": records["collective_seq"],
        "p2p_seq": records["p2p_seq"],
        "is_p2p": is_p2p,
        "kind": _translated(records["word"], KINDS),
        "backend": _constant("nccl", records.num_rows),
        "state": _constant("completed", records.num_rows),
        "created_ns": _set(records["created_ns"]),
        "started_ns": records["started_ns"],
        "completed_ns": records["completed_ns"],
        "dur_ns": records["dur_ns"],
        "recorder": _constant(nccl_inspector.FORMAT, records.num_rows),
        "enqueued_ns": _set(records["enqueued_ns"]),
        "algorithm": _without(records["algorithm"], _UNNAMED),
        "protocol": _without(records["protocol"], _UNNAMED),
    }
    same = (
        "communicator", "group_rank", "group_peer", "nodes", "message_bytes", "channels",
        "timing_source", "algorithm_gb_per_s", "bus_gb_per_s", "written_ns", "channel_events",
    )  # fmt: skip
    return pa.table(columns | {name: records[name] for name in same})


def _note_gaps(records: pa.Table, quality: Quality) -> None:
    """Numbers of collectives that are missing, and that are there twice."""
    keys = ["communicator", "group_rank", "word", "is_p2p"]
    is_p2p = pc.equal(records["op"], _P2P)
    seq = pc.if_else(is_p2p, records["p2p_seq"], records["collective_seq"])
    rows = records.append_column("is_p2p", is_p2p).append_column("seq", seq)
    # Sends and receives of a communicator are counted together, and only those that are tracked.
    word = pc.if_else(is_p2p, "sends and receives", rows["word"].cast(pa.string()))
    rows = rows.set_column(rows.column_names.index("word"), "word", word)
    rows = rows.filter(pc.and_(rows["seq"].is_valid(), rows["communicator"].is_valid()))
    if not rows.num_rows:
        return
    sums = rows.group_by(keys, use_threads=False).aggregate(
        [("seq", "min"), ("seq", "max"), ("seq", "count"), ("seq", "count_distinct")]
    )
    missing, repeated_, named = 0, 0, list[str]()
    for row in sums.to_pylist():
        first = 1 if row["is_p2p"] else 0
        expected = row["seq_max"] - min(first, row["seq_min"]) + 1
        gap = max(expected - row["seq_count_distinct"], 0)
        repeated_ += row["seq_count"] - row["seq_count_distinct"]
        missing += gap
        if gap:
            named.append(f"{row['communicator']} {KINDS.get(row['word'], row['word'])} {gap:,}")
    if missing:
        more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
        shown = ", ".join(named[:_MOST_NAMED])
        quality.note("unrecorded_collectives", min(missing, _MOST_LINES), shown + more)
    if repeated_:
        quality.note("repeated_record", repeated_)


def _mask(column: pa.ChunkedArray) -> Mask:
    return np.asarray(pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False), bool)


def _is_in(column: pa.ChunkedArray, texts: frozenset[str]) -> Mask:
    return _mask(pc.is_in(column.cast(pa.string()), pa.array(sorted(texts), pa.string())))


def _first_line(rows: pa.Table, mask: Mask) -> int:
    return int(rows["line"][int(np.flatnonzero(mask)[0])].as_py())


def _count(rows: pa.Table, op: int) -> int:
    return int(pc.sum(pc.equal(rows["op"], op)).as_py() or 0)


def _set(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times; 0 means none."""
    return pc.if_else(pc.greater(times, 0), times, None)


def _constant(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _translated(column: pa.ChunkedArray, words: Mapping[str, str]) -> pa.Array:
    texts = column.combine_chunks()
    return (
        repeated([])
        if not len(texts)
        else _with_dictionary(
            texts, [words.get(text, text) for text in texts.dictionary.to_pylist()]
        )
    )


def _without(column: pa.ChunkedArray, text: str) -> pa.Array:
    """Texts, except for one that means none."""
    plain = column.cast(pa.string())
    return pc.dictionary_encode(pc.if_else(pc.equal(plain, text), None, plain))


def _with_dictionary(texts: pa.DictionaryArray, words: Sequence[str]) -> pa.Array:
    return pc.dictionary_encode(pa.array(words, pa.string()).take(texts.indices))
