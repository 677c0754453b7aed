"""A Chrome trace read the plain way: one dict per event, exact decimals, one stack per thread.

Written from the format and from the documents of the tables, not from the reader: what the two
agree on is not one mistake made twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from profframe import schema
from profframe.readers.demangle import demangled

Row = dict[str, Any]

LONGEST_NS: Final = 1 << 62
"""146 years: nothing is that long, and nothing was since the epoch."""
DAY_NS: Final = 24 * 3_600 * 10**9
APART_NS: Final = 30 * DAY_NS
"""Times with so much between them are not of one program."""
TABLES: Final = ("events", "memory", "flows", "counters", "instants")
KEYS: Final = frozenset({"ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args"})
"""Keys of an event that have a column; what has none is among the arguments."""
LABELS: Final = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}
"""Metadata events that name a process or a thread, and the argument with the name."""
DEVICE_TYPES: Final = (
    "CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "VULKAN",
    "METAL", "XPU", "MPS", "META", "HPU", "VE", "LAZY", "IPU", "MTIA", "PRIVATEUSEONE",
)  # fmt: skip
"""c10/core/DeviceType.h."""


class Spelled(Decimal):
    """A number that equals another one only if the source writes both in the same way."""

    text: str

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Spelled):
            return self.text == other.text
        return super().__eq__(other)

    __hash__ = Decimal.__hash__


class Members(dict[str, Any]):
    """An object, of all its `pairs` the last of each name."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def doubled(self, depth: int) -> int:
        """Members that it has more than once, and those that objects in it have."""
        found = len(self.pairs) - len(self)
        inner = [value for _, value in self.pairs] if depth else []
        while inner:
            value = inner.pop()
            if isinstance(value, Members):
                found += value.doubled(depth - 1)
            elif isinstance(value, list):
                inner += value
        return found


def _spelled(text: str) -> Spelled:
    number = Spelled(text)
    number.text = text
    return number


def _int(text: str) -> int | Spelled:
    return _spelled(text) if text == "-0" else int(text)


DECODE: Final = json.JSONDecoder(
    parse_float=_spelled, parse_int=_int, object_pairs_hook=Members
).decode
ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode
"""As `loads` and `dumps`, which would make a decoder and an encoder for each text."""

_DEVICE: Final = re.compile(
    r"kernel|Kernel|concurrent_kernel|gpu_memcpy|Memcpy|gpu_memset|Memset|gpu_user_annotation"
    r"|cuda_sync|cuda_event|mtia_ccp_events|hpu_op"
)
_ARGUMENTS: Final = {
    "correlation": "correlation",
    "fwd_thread": "Fwd thread id",
    "ev_idx": "Ev Idx",
    "python_id": "Python id",
    "python_parent_id": "Python parent id",
    "python_module_id": "Python module id",
    "module_hierarchy": "Module Hierarchy",
}
_CANONICAL: Final = {
    "input_types": "Input type",
    "input_strides": "Input Strides",
    "concrete_inputs": "Concrete Inputs",
}


@dataclass(slots=True)
class Plain:
    """Rows of every table, in the order of the source; `found` is quality without its places."""

    events: list[Row] = field(default_factory=list)
    memory: list[Row] = field(default_factory=list)
    flows: list[Row] = field(default_factory=list)
    counters: list[Row] = field(default_factory=list)
    instants: list[Row] = field(default_factory=list)
    processes: dict[str | None, Row] = field(default_factory=dict)
    threads: dict[tuple[str | None, str | None], Row] = field(default_factory=dict)
    accounted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    header: dict[str, Any] = field(default_factory=dict)
    source_events: int = 0
    span_ns: tuple[int, int] = (1 - LONGEST_NS, LONGEST_NS - 1)
    """The earliest and the latest time that an event may have, before ``baseTimeNanoseconds``."""


def read(text: str | bytes) -> Plain:
    """All rows of a trace in sound JSON."""
    document = DECODE(text if isinstance(text, str) else text.decode())
    events = document if isinstance(document, list) else document["traceEvents"]
    plain = Plain(source_events=len(events))
    if isinstance(document, Members):
        header = Members([pair for pair in document.pairs if pair[0] != "traceEvents"])
        plain.header = header
        plain.found["doubled_member"] += header.doubled(depth=1000)
    base_ns = int(plain.header.get("baseTimeNanoseconds", 0))
    plain.span_ns = plausible([*_times(events)], base_ns)
    for event in events:
        plain.found["doubled_member"] += event.doubled(depth=0)
        args = [value for key, value in event.pairs if key == "args"]
        plain.found["doubled_member"] += sum(
            each.doubled(depth=0) for each in args if isinstance(each, Members)
        )
        _sort(event, base_ns, plain)
    _pair(plain)
    _limit_durations(plain)
    _name_streams(plain)
    plain.accounted, plain.found = +plain.accounted, +plain.found
    return plain


def plausible(times: Sequence[int], base_ns: int) -> tuple[int, int]:
    """The earliest and the latest possible time, by the times of all slices.

    Where a month parts them, only those of the largest part are of the program; 0 is no time where
    all others of it are later than a day.
    """
    earliest, latest = 1 - LONGEST_NS, LONGEST_NS - base_ns - 1
    if not times:
        return earliest, latest
    if max(times) - min(times) <= DAY_NS:
        return 1 if DAY_NS < min(times) <= latest else earliest, latest
    parts: list[list[int]] = []
    possible = sorted(at for at in times if earliest <= at <= latest)
    for at in possible:
        if not parts or at - parts[-1][-1] > APART_NS:
            parts.append([])
        parts[-1].append(at)
    if not possible or possible[-1] - possible[0] <= DAY_NS:
        return earliest, latest
    own = max(parts, key=len)
    others = [at for at in own if at]
    if others and others[0] > DAY_NS:
        own = others
    if len(own) == len(possible):
        return earliest, latest
    first = 1 if own[0] > DAY_NS else earliest
    return max(own[0] - APART_NS, first), min(own[-1] + APART_NS, latest)


def _times(events: Iterable[Mapping[str, Any]]) -> Iterable[int]:
    """Times of slices, as far as they are numbers of 64 bits."""
    for event in events:
        phase = text_of(event.get("ph"))
        time = nanoseconds(event.get("ts"))
        is_slice = phase in {"X", "B", "E", *ASYNC} and not _is_allocation(event, phase)
        if is_slice and time is not None and abs(time) < 1 << 63:
            yield time


def _is_allocation(event: Mapping[str, Any], phase: str | None) -> bool:
    is_named = text_of(event.get("name")) == "[memory]" and phase in {"i", "I", "X"}
    return is_named and text_of(event.get("cat")) in _MEMORY_WORDS


def _limit_durations(plain: Plain) -> None:
    """No slice is longer than 146 years, nor ends a month after all that begins."""
    starts = [row["start_ns"] for row in plain.events if row["start_ns"] is not None]
    latest = max(starts, default=0) + APART_NS
    for row in plain.events:
        start, duration = row["start_ns"], row["dur_ns"]
        is_apart = duration is not None and start is not None and start + duration > latest
        if duration is not None and (duration >= LONGEST_NS or is_apart):
            plain.found["impossible_duration"] += 1
            row["dur_ns"] = None


def exact_nanoseconds(microseconds: object) -> Decimal | None:
    """The time is a number or the text of one."""
    try:
        return None if microseconds is None else Decimal(microseconds) * 1000  # type: ignore[arg-type]
    except (InvalidOperation, ValueError, TypeError):
        return None


def nanoseconds(microseconds: object) -> int | None:
    """Rounded, where the time is finer than a nanosecond."""
    exact = exact_nanoseconds(microseconds)
    if exact is None or not exact.is_finite():
        return None
    return int(exact.to_integral_value(ROUND_HALF_UP))


def text_of(value: object) -> str | None:
    """A value of any JSON type as a name or an id."""
    if value is None or isinstance(value, str):
        return value
    return canonical(value)


def canonical(value: object) -> str:
    """JSON text without spaces."""
    if isinstance(value, Spelled):
        return value.text
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in value.items()) + "}"
    return ENCODE(value)


def parents(slices: Sequence[tuple[int, int]]) -> list[int]:
    """Nest (start, end) with a stack, in the order given; -1 is a root.

    Pops while ``start >= top.end or end > top.end``, as torch does.
    """
    stack: list[int] = []
    found: list[int] = []
    for i, (start, end) in enumerate(slices):
        while stack and (start >= slices[stack[-1]][1] or end > slices[stack[-1]][1]):
            stack.pop()
        found.append(stack[-1] if stack else -1)
        stack.append(i)
    return found


def nest(events: Iterable[Mapping[str, Any]]) -> dict[int, Row]:
    """`parent_id`, `depth`, `root_id` and `self_ns` by event_id.

    `events` are the host slices with a start and a duration that are not asynchronous.
    """
    threads: dict[tuple[object, object], list[Mapping[str, Any]]] = {}
    for event in events:
        threads.setdefault((event["pid"], event["tid"]), []).append(event)
    facts: dict[int, Row] = {}
    for slices in threads.values():
        slices.sort(key=_torch_order)
        spans = [(s["start_ns"], s["start_ns"] + s["dur_ns"]) for s in slices]
        for mine, parent in zip(slices, parents(spans), strict=True):
            around = facts[slices[parent]["event_id"]] if parent >= 0 else None
            facts[mine["event_id"]] = {
                "parent_id": slices[parent]["event_id"] if parent >= 0 else None,
                "depth": around["depth"] + 1 if around else 0,
                "root_id": around["root_id"] if around else mine["event_id"],
                "self_ns": mine["dur_ns"],
            }
            if around:
                around["self_ns"] -= mine["dur_ns"]
    return facts


def _torch_order(event: Mapping[str, Any]) -> tuple[Any, ...]:
    order = event["ev_idx"]
    return (
        event["start_ns"],
        -event["dur_ns"],
        order is None,
        order or 0,
        event["event_id"],
    )


def _sort(event: Mapping[str, Any], base_ns: int, plain: Plain) -> None:
    """Put one event where it belongs."""
    phase, name = text_of(event.get("ph")), text_of(event.get("name"))
    if phase == "M" and name in LABELS:
        plain.accounted["metadata"] += 1
        _label(event, name, plain)
        return
    args = event.get("args")
    row: Row = {
        "category": text_of(event.get("cat")),
        "name": name,
        "pid": text_of(event.get("pid")),
        "tid": text_of(event.get("tid")),
        "time_ns": _time(event, base_ns, plain),
        "args": _all_args(event, args),
    }
    if _is_allocation(event, phase):
        plain.accounted["memory"] += 1
        plain.memory.append(row | {"category": None} | _allocation(args or {}))
    elif phase in {"X", "B", "E", *ASYNC}:
        plain.accounted["events"] += 1
        plain.events.append(_slice(event, phase, row, plain))
    elif phase in {"s", "t", "f"}:
        plain.accounted["flows"] += 1
        binding = text_of(event.get("bp"))
        ids = {"flow_id": _id(event), "phase": phase, "binding_point": binding}
        number = _id(event) or ""
        if row["category"] == "ac2g" and number.isdecimal() and int(number) >= 1 << 40:
            row["category"] = "graph_dependency"
        plain.flows.append(row | ids)
    elif phase == "C":
        plain.accounted["counters"] += 1
        plain.counters += _samples(row | {"counter_id": _id(event)}, args)
    else:
        plain.accounted["instants"] += 1
        mark = {"phase": phase, "scope": text_of(event.get("s"))}
        lasts = {"dur_ns": nanoseconds(event.get("dur")), "instant_id": _id(event)}
        plain.instants.append(row | mark | lasts)


ASYNC: Final = ("b", "e", "S", "F")
"""Begins and ends of asynchronous operations; the older form in capitals."""


def _id(event: Mapping[str, Any]) -> str | None:
    """Id of an event: of its scope, and where it says so known to its process only."""
    ids = event.get("id2")
    ids = ids if isinstance(ids, dict) else {}
    scope = text_of(event.get("scope"))
    scope = "" if scope is None else f"{scope}:"
    if ids.get("local") is not None:
        return f"local:{scope}{text_of(ids['local'])}"
    wide = text_of(event.get("id") if ids.get("global") is None else ids["global"])
    return None if wide is None else scope + wide


def _time(event: Mapping[str, Any], base_ns: int, plain: Plain) -> int | None:
    exact = [exact_nanoseconds(event.get(key)) for key in ("ts", "dur")]
    plain.found["sub_nanosecond_time"] += any(e is not None and e % 1 for e in exact)
    time = nanoseconds(event.get("ts"))
    if time is not None and plain.span_ns[0] <= time <= plain.span_ns[1]:
        return time + base_ns
    plain.found["missing_time" if event.get("ts") is None else "impossible_time"] += 1
    return None


_MEMORY_WORDS: Final = {None, "cpu_instant_event"}


def _all_args(event: Mapping[str, Any], args: Any) -> Any:
    """The arguments, with whatever else the event has."""
    if event.keys() <= KEYS:
        return args
    other = {key: value for key, value in event.items() if key not in KEYS}
    if args is None or isinstance(args, dict):
        return (args or {}) | other
    return {"args": args} | other


def _label(event: Mapping[str, Any], name: str, plain: Plain) -> None:
    args = event.get("args")
    value = args.get(LABELS[name]) if isinstance(args, dict) else None
    if value is None:
        return
    pid, tid = text_of(event.get("pid")), text_of(event.get("tid"))
    if name.startswith("process"):
        plain.processes.setdefault(pid, {})[name] = value
    else:
        plain.threads.setdefault((pid, tid), {})[name] = value


def _slice(event: Mapping[str, Any], phase: str, row: Row, plain: Plain) -> Row:
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    duration = nanoseconds(event.get("dur"))
    row["start_ns"] = row.pop("time_ns")
    row["phase"], row["dur_ns"] = phase, duration
    if phase == "X":
        if duration is None:
            check = "missing_duration" if event.get("dur") is None else "impossible_duration"
            plain.found[check] += 1
        elif duration < 0:
            plain.found["negative_duration"] += 1
            row["dur_ns"] = None
    row |= {column: args.get(key) for column, key in _ARGUMENTS.items()}
    row |= {column: text_of(args.get(key)) for column, key in _CANONICAL.items()}
    stack = args.get("Call stack")
    row["stack"] = stack if stack is None else stack.rstrip(";")
    row["input_dims"] = text_of(args.get("Input Dims", args.get("Input dims")))
    row["external_id"] = args.get("External id", args.get("external id"))
    sequence_nr = args.get("Sequence number")
    row["sequence_nr"] = sequence_nr if sequence_nr is not None and sequence_nr >= 0 else None
    row["is_async"] = True if args.get("finished") is False or phase in ASYNC else None
    row["async_id"] = (_id(event) or "") if phase in ASYNC else None
    row["arrow"] = None
    if event.get("bind_id") is not None and phase in {"X", "B", "b", "S"}:
        leaves, comes = event.get("flow_out") is True, event.get("flow_in") is True
        ends = {(True, False): "s", (True, True): "t", (False, True): "f"}
        row["arrow"] = ends.get((leaves, comes)), text_of(event["bind_id"])
    row["device"] = row["stream"] = None
    named = row["category"] and _DEVICE.fullmatch(row["category"])
    if named or "Stream Id" in args:
        row["device"] = _index(args.get("device", _digits(row["pid"]) if named else None))
        row["stream"] = _index(args.get("stream", args.get("Stream Id", _digits(row["tid"]))))
    ascend = _ASCEND_COLLECTIVE.fullmatch(row["name"] or "")
    says_more = row["device"] is not None or row["name"] == "record_param_comms" or ascend
    work = _work(args if says_more else {})
    if ascend:
        work["collective"] = work["collective"] or ascend[1]
        work["process_group"] = work["process_group"] or ascend[2]
    return row | work


_ASCEND_COLLECTIVE: Final = re.compile(r"hcom_([A-Za-z]+)__(\d+)_\d+_\d+")


def _work(args: Mapping[str, Any]) -> Row:
    """What a slice on a device says of its work; 0, -1 and an empty text say nothing."""
    count, record = args.get("bytes"), args.get("wait_on_cuda_event_record_corr_id")
    groups = ("Process Group Name", "Process Group ID", "Process Group Description")
    named = [text_of(args[key]) for key in groups if args.get(key) not in (None, "")]
    size = args.get("Group size")
    return {
        "bytes": count if count is not None and count >= 0 else None,
        "collective": args.get("Collective name") or None,
        "process_group": named[0] if named else None,
        "group_size": size if size is not None and size > 0 else None,
        "group_ranks": _listed(args.get("Process Group Ranks")) or _strided(args),
        "collective_seq": _natural(args.get("Seq")),
        "collective_id": text_of(args["Comms Id"]) if args.get("Comms Id") else None,
        "element_type": args.get("dtype") or args.get("data_type") or None,
        "in_elements": _natural(args.get("In msg nelems", args.get("count"))),
        "out_elements": _natural(args.get("Out msg nelems")),
        "in_splits": _listed(args.get("In split size")),
        "out_splits": _listed(args.get("Out split size")),
        "peer_rank": args.get("Dst Rank", args.get("Src Rank")),
        "wait_on_stream": _index(args.get("wait_on_stream")),
        "wait_on_correlation": record if record is not None and record > 0 else None,
        "sync_kind": args.get("cuda_sync_kind") or None,
        "grid": _listed(args.get("grid")),
        "block": _listed(args.get("block")),
        "registers": _index(args.get("registers per thread")),
        "shared_memory_bytes": _natural(args.get("shared memory")),
        "blocks_per_sm": _positive(args.get("blocks per SM")),
        "occupancy": _positive(args.get("est. achieved occupancy %"), 100),
        "graph_id": _natural(args.get("graph id")) or None,
        "graph_node_id": _natural(args.get("graph node id")) or None,
    }


def _positive(value: Any, whole: int = 1) -> float | None:
    number = None if value is None else float(value)
    return None if number is None or number < 0 else number / whole


def _natural(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _listed(value: object) -> str | None:
    """A list of numbers without spaces; one that was cut short, or is empty, says nothing."""
    text = (text_of(value) or "").replace(" ", "")
    return text if re.fullmatch(r"\[[-0-9,]+\]", text) else None


def _strided(args: Mapping[str, Any]) -> str | None:
    """Ranks of a group that are written as the first of them and how far they are apart."""
    size, start = args.get("Group size"), args.get("Global rank start", -1)
    stride = args.get("Global rank stride", 0)
    if not size or start < 0 or (size > 1 and stride <= 0):
        return None
    return str([start + i * stride for i in range(size)]).replace(" ", "")


def _name_streams(plain: Plain) -> None:
    """An Ascend device has its stream in the name of the line."""
    for row in plain.events:
        process = plain.processes.get(row["pid"], {}).get("process_name")
        line = plain.threads.get((row["pid"], row["tid"]), {}).get("thread_name")
        found = re.fullmatch(r"Stream (\d+)", line or "")
        if found and str(process).startswith("Ascend Hardware") and row["stream"] is None:
            row["stream"] = int(found.group(1))


def _digits(text: str | None) -> str | None:
    """The number that a name like "stream 7" ends with."""
    found = re.search(r"(?:\A|\s)(\d+)\Z", text or "")
    return found and found.group(1)


def _index(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1 << 31 else None


def _allocation(args: Mapping[str, Any]) -> Row:
    kind = args.get("Device Type")
    return {
        "address": args.get("Addr"),
        "bytes": args.get("Bytes"),
        "device_type": None if kind is None else DEVICE_TYPES[kind],
        "device": _index(args.get("Device Id")) if kind else None,
        "total_allocated_bytes": args.get("Total Allocated"),
        "total_reserved_bytes": args.get("Total Reserved"),
    }


def _samples(row: Row, args: Any) -> list[Row]:
    values = args if isinstance(args, dict) and args else {None: None}
    device = {"device": _device_of_counter(str(row["pid"]), row["name"] or "")}
    return [
        row
        | device
        | {"series": series, "value": _number(v), "unit": _unit(row["name"]) or _unit(series)}
        for series, v in values.items()
    ]


_COUNTED: Final = {"W", "mW", "%", "C", "Hz", "MHz", "B/s", "GB/s", "bytes"}
"""Units in brackets behind the names of counters in real traces."""


def _unit(name: str | None) -> str | None:
    unit = (name or "").removesuffix(")").rpartition("(")[2]
    return unit if (name or "").endswith(f"({unit})") and unit in _COUNTED else None


def _device_of_counter(process: str, name: str) -> int | None:
    """In a process `GPU 3 Counters`, or with a name like `GPU 3 Utilization`."""
    for words in (process.split(), name.split()):
        if words[:1] == ["GPU"] and len(words) > 1 and words[1].isdecimal():
            return int(words[1])
    return None


def _number(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _pair(plain: Plain) -> None:
    """Begin events take the time up to their end event; the two count as slices."""
    threads: dict[tuple[object, object], list[Row]] = {}
    for row in plain.events:
        if row["phase"] in {"B", "E"} and row["start_ns"] is not None:
            threads.setdefault((row["pid"], row["tid"]), []).append(row)
    matched = _pair_async(plain)
    for rows in threads.values():
        open_rows: list[Row] = []
        names: set[object] = set()
        for row in sorted(rows, key=lambda r: r["start_ns"]):
            if row["phase"] == "B":
                open_rows.append(row)
                names.add(row["name"])
                continue
            is_named = row["name"] in names and bool(row["name"])
            same = [one for one in open_rows if not is_named or one["name"] == row["name"]]
            if same:
                open_rows = [one for one in open_rows if one is not same[-1]]
                _close(same[-1], row, matched)
                named = bool(row["name"]) and row["name"] != same[-1]["name"]
                plain.found["end_of_another_name"] += named
    slices: list[Row] = []
    for row in plain.events:
        if row["phase"] not in {"E", "e", "F"}:
            slices.append(row)
            if row["phase"] in {"B", "b", "S"} and id(row) not in matched:
                plain.found["unmatched_begin"] += 1
                row["dur_ns"] = None
        elif id(row) not in matched:
            plain.found["unmatched_end"] += 1
            plain.accounted["events"] -= 1
            plain.accounted["instants"] += 1
            mark = {"time_ns": row["start_ns"], "scope": None, "instant_id": row["async_id"]}
            plain.instants.append(row | mark)
    for number, row in enumerate(slices):
        row["event_id"] = number
        _add_ends_and_counts(row, plain)
    plain.events = slices


def _add_ends_and_counts(row: Row, plain: Plain) -> None:
    """Rows of other tables that a slice makes."""
    if row["arrow"] and row["arrow"][0]:
        phase, flow_id = row["arrow"]
        end = {"phase": phase, "flow_id": flow_id, "time_ns": row["start_ns"], "args": None}
        plain.flows.append(row | end | {"binding_point": "bind_id"})
    if row["category"] == "cuda_profiler_range":
        samples = _samples(row | {"time_ns": row["start_ns"]}, row["args"])
        plain.counters += [each | {"args": None} for each in samples if each["value"] is not None]


def _pair_async(plain: Plain) -> set[int]:
    """Close asynchronous operations: first ends with names, then those without."""
    matched: set[int] = set()
    operations: dict[tuple[object, ...], list[Row]] = {}
    for row in plain.events:
        if row["phase"] in ASYNC and row["start_ns"] is not None:
            process = row["pid"] if row["async_id"].startswith("local:") else None
            key = (row["async_id"], row["category"], process, row["phase"] in {"S", "F"})
            operations.setdefault(key, []).append(row)
    for rows in operations.values():
        rows.sort(key=lambda row: row["start_ns"])
        for has_name in (True, False):
            open_rows: dict[object, list[Row]] = {}
            for row in rows:
                name = row["name"] if has_name else None
                if row["phase"] in {"b", "S"} and id(row) not in matched:
                    open_rows.setdefault(name, []).append(row)
                elif row["phase"] in {"e", "F"} and bool(row["name"]) is has_name:
                    for begin in open_rows.get(name, [])[-1:]:
                        del open_rows[name][-1]
                        _close(begin, row, matched)
    return matched


def _close(begin: Row, end: Row, matched: set[int]) -> None:
    begin["dur_ns"] = end["start_ns"] - begin["start_ns"]
    begin["args"] = _joined(begin["args"], end["args"])
    matched |= {id(begin), id(end)}


def _joined(first: Any, last: Any) -> Any:
    """Arguments of both ends; of two with one name, the end's counts."""
    if not last or not first:
        return last or first
    if isinstance(first, dict) and isinstance(last, dict):
        return first | last
    return [first, last]


_NOT_PLAIN: Final = {"thread", "args"}
_COMPLETED: Final = {"scope", "stack", "python_stack", "is_remote", "is_legacy"}
"""Columns that are filled or changed by what else is known; compared where no fact has run."""
_JSON: Final = {"input_dims", "input_types", "input_strides", "concrete_inputs"}


def differences(tables: Mapping[str, pa.Table], plain: Plain, sample: int = 1) -> list[str]:
    """How tables differ from the plain rows: one line for each column that does.

    `args` are compared as JSON values, of every `sample`-th row.
    """
    found: list[str] = []
    for name in TABLES:
        rows: list[Row] = getattr(plain, name)
        if tables[name].num_rows != len(rows):
            found.append(f"{name}: {tables[name].num_rows} rows, should be {len(rows)}")
            continue
        completed = _COMPLETED if "kind" in tables[name].column_names else set()
        for column in schema.READER_COLUMNS[name]:
            if column in _NOT_PLAIN or (name == "events" and column in completed):
                continue
            if (name, column) == ("flows", "event_id") and "kind" in tables["events"].column_names:
                continue
            ours, theirs = values(tables[name][column]), [row.get(column) for row in rows]
            if column == "name" and name in {"events", "flows"}:
                plain_names = demangled(theirs)  # which ones, depends on the machine's C++ runtime
                theirs = [plain_names.get(text or "", text) for text in theirs]
            if column in _JSON:
                ours, theirs = list(map(_json_value, ours)), list(map(_json_value, theirs))
            if column == "bytes" and completed:  # what the source does not say is counted
                pairs = zip(ours, theirs, strict=True)
                ours = [None if theirs_ is None else ours_ for ours_, theirs_ in pairs]
            if ours != theirs:
                found.append(f"{name}.{column}: {_first_difference(ours, theirs)}")
        if "args" in schema.TABLES[name].names:
            texts = (
                tables[name]["args"]
                .take(pa.array(range(0, len(rows), sample), pa.int64()))
                .to_pylist()
            )
            ours = [None if t is None else DECODE(t) for t in texts]
            theirs = [row["args"] for row in rows[::sample]]
            if ours != theirs:
                found.append(f"{name}.args: {_first_difference(ours, theirs)}")
        found += _thread_differences(tables["threads"], tables[name], name, plain)
    return found


@lru_cache(maxsize=10_000)
def _json_value(text: str | None) -> object:
    """What the text means: writers escape differently. Shapes and types are few, rows many."""
    try:
        return None if text is None else DECODE(text)
    except ValueError:
        return text


def values(column: pa.ChunkedArray) -> list[Any]:
    """The column as Python values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    python_values: list[Any] = column.to_pylist()
    return python_values


def _first_difference(ours: Sequence[object], theirs: Sequence[object]) -> str:
    pairs = enumerate(zip(ours, theirs, strict=True))
    count = sum(a != b for a, b in zip(ours, theirs, strict=True))
    at, (a, b) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    return f"{count} rows, first at {at}: {a!r}, should be {b!r}"


def _thread_differences(
    threads: pa.Table, table: pa.Table, name: str, plain: Plain
) -> Iterator[str]:
    """`thread` stands for the (pid, tid) of the row."""
    numbers = {row["thread"]: row for row in threads.to_pylist()}
    if sorted(numbers) != list(range(threads.num_rows)):
        yield f"threads: not dense: {sorted(numbers)}"
    ids = [(numbers[n]["pid"], numbers[n]["tid"]) for n in values(table["thread"])]
    theirs = [(row["pid"], row["tid"]) for row in getattr(plain, name)]
    if ids != theirs:
        yield f"{name}.thread: {_first_difference(ids, theirs)}"
