"""Rows of trace events as a reader hands them on, before facts, by plain `json`.

Texts are compared byte for byte: arguments are the source's own, without white space between
tokens, with the text of every number, each letter of a string spelled in the shortest way.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from tests.oracles.chrome import ASYNC, DEVICE_TYPES, KEYS, LABELS, Members, Row, Spelled

OPEN: Final = object()
"""Stands for a value that the documents leave open; no reader is held to one."""
LINKS: Final = ("id2", "scope", "bind_id", "flow_in", "flow_out")
"""Members that have columns and are among the arguments, too."""
INTEGERS: Final = {
    "correlation": "correlation",
    "external_id": "External id",
    "fwd_thread": "Fwd thread id",
    "python_id": "Python id",
    "python_parent_id": "Python parent id",
    "python_module_id": "Python module id",
    "ev_idx": "Ev Idx",
    "sequence_nr": "Sequence number",
}
TEXTS: Final = {
    "module_hierarchy": "Module Hierarchy",
    "input_types": "Input type",
    "concrete_inputs": "Concrete Inputs",
    "input_dims": "Input Dims",
    "input_strides": "Input Strides",
    "stack": "Call stack",
}
OF_MEMORY: Final = {
    "address": "Addr",
    "bytes": "Bytes",
    "total_allocated_bytes": "Total Allocated",
    "total_reserved_bytes": "Total Reserved",
}
_TABLES: Final = (
    dict.fromkeys(("X", "B", "E", *ASYNC), "EVENTS")
    | dict.fromkeys("stf", "FLOWS")
    | {"C": "COUNTERS"}
)
_ENOUGH: Final = Context(prec=400, Emax=999_999, Emin=-999_999)
_PICOSECONDS: Final = Decimal("0.000001")
_HALF: Final = Decimal("0.5")
_MOST_NS: Final = 4 * 10**18
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WHOLE: Final = re.compile(r"-?\d{1,18}")
_CONTROLS: Final = re.compile(r"\\u00[01][0-9a-f]")
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def _spelled(text: str) -> Spelled:
    number = Spelled(text)
    number.text = text
    return number


def _int(text: str) -> int | Spelled:
    return _spelled(text) if text == "-0" else int(text)


def _refused(word: str) -> None:
    raise ValueError(word)


DECODE: Final = json.JSONDecoder(
    parse_float=_spelled, parse_int=_int, parse_constant=_refused, object_pairs_hook=Members
).decode
"""Strict JSON, with all members of an object and the text of every number."""


def written(value: object) -> str:
    """JSON without white space; an inner object keeps what it has twice."""
    if isinstance(value, Spelled):
        return value.text
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, Members):
        return "{" + ",".join(f"{_string(k)}:{written(v)}" for k, v in value.pairs) + "}"
    return _ENCODE(value)


def _string(text: str) -> str:
    spelled = _ENCODE(text)
    return _CONTROLS.sub(_capital, spelled) if "\\u" in spelled else spelled


def _capital(match: re.Match[str]) -> str:
    text = match.string[: match.start()]
    backslashes = len(text) - len(text.rstrip("\\"))
    found = match.group()
    return found if backslashes % 2 else f"\\u{found[2:].upper()}"


def text_of(value: object) -> str | None:
    """A value of any type as a name or an id."""
    return value if value is None or isinstance(value, str) else written(value)


def rows(events: Sequence[Members]) -> Mapping[str, list[Row]]:
    """The rows of sound events, by table, in their order."""
    tables: dict[str, list[Row]] = {}
    for event in events:
        table, row = _row(event)
        args = _all_args(event)
        if isinstance(args, Members) and "profframe columns" in args:
            row = dict.fromkeys(row, OPEN)
        tables.setdefault(table, []).append(row)
    return tables


def doubled(document: object, events: Sequence[Members]) -> tuple[int, int]:
    """The least and the largest number of members that count as there twice.

    Those around the events at any depth count, and those of events and of their arguments. What is
    deeper in an event only counts if that is mended, what an other member hides only if it is seen.
    """
    least = most = 0
    if isinstance(document, Members):
        around = Members([pair for pair in document.pairs if pair[0] != "traceEvents"])
        least, most = _visible(around), around.doubled(depth=1000)
    for event in events:
        most += event.doubled(depth=1000)
        least += len(event.pairs) - len(event)
        if isinstance(args := event.get("args"), Members):
            least += len(args.pairs) - len(args)
    return least, most


def _visible(value: object) -> int:
    if isinstance(value, list):
        return sum(map(_visible, value))
    if not isinstance(value, Members):
        return 0
    return len(value.pairs) - len(value) + sum(map(_visible, value.values()))


def _row(event: Members) -> tuple[str, Row]:
    phase, name, category = (text_of(event.get(key)) for key in ("ph", "name", "cat"))
    row: Row = {key: text_of(event.get(key)) for key in ("pid", "tid")}
    row |= {"name": name, "args": _arguments(event)}
    if phase == "M" and name in LABELS:
        return "THREADS", row
    time, bad, rounded = _time(event.get("ts"))
    duration, bad_duration, also = _time(event.get("dur"))
    row |= {"time_ns": time, "bad_time": bad, "category": category}
    row["rounded"] = OPEN if OPEN in (rounded, also) else rounded or also
    if phase == "M":
        row["bad_time"] = False
    if name == "[memory]" and phase in {"i", "I", "X"} and category in {None, "cpu_instant_event"}:
        return "MEMORY", row | {"category": None} | _of_memory(_all_args(event))
    if phase == "X" and category == "profframe":
        return "INSTANTS", row | _mark(event, phase, duration)
    table = _TABLES.get(phase or "", "INSTANTS")
    if table == "EVENTS":
        row["start_ns"] = row.pop("time_ns")
        row |= {
            "phase": phase,
            "dur_ns": duration,
            "bad_dur": bad_duration if phase == "X" else False,
        }
        row["async_id"] = (_id(event) or "") if phase in ASYNC else None
        row |= _arrow(event, phase)
        row |= _of_slice(_all_args(event))
        if phase in ASYNC:
            row["is_async"] = True
    elif table == "FLOWS":
        flow_id = _id(event)
        if (
            category == "ac2g"
            and re.fullmatch(r"\d{13,18}", flow_id or "")
            and int(flow_id or 0) >= 1 << 40
        ):
            row["category"] = "graph_dependency"
        row |= {"phase": phase, "flow_id": flow_id, "binding_point": text_of(event.get("bp"))}
    elif table == "COUNTERS":
        row["counter_id"] = _id(event)
    else:
        row |= _mark(event, phase, duration)
    return table, row


def _mark(event: Members, phase: str | None, duration: object) -> Row:
    mark = {"phase": phase, "scope": text_of(event.get("s"))}
    return mark | {"instant_id": _id(event), "dur_ns": duration}


def _time(value: object) -> tuple[object, object, object]:
    """Nanoseconds of microseconds, whether there are none, and whether they were finer."""
    if value is None:
        return None, False, False
    is_number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return OPEN, OPEN, OPEN
    exact = Decimal(value)  # type: ignore[arg-type]
    if abs(exact) >= 10**21:
        return None, True, False
    exact = exact.quantize(_PICOSECONDS, ROUND_HALF_UP, _ENOUGH) * 1000
    ns = int((exact + _HALF).to_integral_value(ROUND_FLOOR))
    if abs(ns) > _MOST_NS:  # somewhere between here and 2 ** 62
        return (None, True, False) if abs(ns) >= 1 << 63 else (OPEN, OPEN, OPEN)
    return ns, False, exact != exact.to_integral_value()


def _all(event: Members) -> Members:
    """The arguments, with whatever else the event has."""
    args = event.get("args")
    other = [(key, value) for key, value in event.items() if key not in KEYS]
    if isinstance(args, Members):
        return Members([*args.pairs, *(each for each in other if not _is_twice(each, args))])
    return Members(other if args is None else [("args", args), *other])


def _is_twice(member: tuple[str, object], args: Members) -> bool:
    key, value = member
    return key in LINKS and key in args and written(args[key]) == written(value)


def _arguments(event: Members) -> str | None:
    args = _all_args(event)
    return None if args is None else written(args)


def _all_args(event: Members) -> Any:
    return event.get("args") if event.keys() <= KEYS else _all(event)


def _id(event: Members) -> str | None:
    """Id of an event: of its scope, and where it says so known to its process only."""
    ids = event.get("id2")
    ids = ids if isinstance(ids, dict) else {}
    scope = text_of(event.get("scope"))
    scope = "" if scope is None else f"{scope}:"
    if ids.get("local") is not None:
        return f"local:{scope}{text_of(ids['local'])}"
    wide = text_of(event.get("id") if ids.get("global") is None else ids["global"])
    return None if wide is None else scope + wide


def _arrow(event: Members, phase: str | None) -> Row:
    bound = text_of(event.get("bind_id"))
    leaves, comes = (event.get(key) for key in ("flow_out", "flow_in"))
    if not {type(leaves), type(comes)} <= {bool, type(None)}:
        return {"arrow_id": OPEN, "arrow_phase": OPEN}
    ends = {(True, False): "s", (True, True): "t", (False, True): "f"}
    end = ends.get((leaves is True, comes is True)) if phase not in {"E", "e", "F"} else None
    if not any(key in event for key in LINKS):
        end = None
    return {"arrow_id": bound if end else None, "arrow_phase": end}


def _integer(value: object) -> object:
    if value is None or (type(value) is int and -1 << 63 <= value < 1 << 63):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return OPEN


def _text(value: object) -> object:
    """A text column; that of numbers with a point or an exponent is the database's own."""
    return OPEN if _has_spelled(value) else text_of(value)


def _has_spelled(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_spelled, value))
    if isinstance(value, Members):
        return any(_has_spelled(each) for _, each in value.pairs)
    return isinstance(value, Spelled)


def _of_slice(values: object) -> Row:
    """Columns of arguments that are copied, whatever kind of slice it is."""
    args = values if isinstance(values, Members) else Members([])
    row: Row = {column: _integer(args.get(key)) for column, key in INTEGERS.items()}
    row |= {column: _text(args.get(key)) for column, key in TEXTS.items()}
    if row["external_id"] is None:
        row["external_id"] = _integer(args.get("external id"))
    if row["input_dims"] is None:
        row["input_dims"] = _text(args.get("Input dims"))
    number = row["sequence_nr"]
    row["sequence_nr"] = None if type(number) is int and number < 0 else number
    for column in ("input_dims", "input_strides"):
        if isinstance(row[column], str) and row[column].startswith("["):
            row[column] = row[column].replace(" ", "")
    if isinstance(row["stack"], str):
        row["stack"] = row["stack"].rstrip(";")
    finished = args.get("finished")
    row["is_async"] = (
        {True: None, False: True, None: None}.get(finished, OPEN)
        if (finished is None or isinstance(finished, bool))
        else OPEN
    )
    return row


def _of_memory(args: object) -> Row:
    values = args if isinstance(args, dict) else {}
    row: Row = {column: _integer(values.get(key)) for column, key in OF_MEMORY.items()}
    row["is_odd"] = OPEN if OPEN in row.values() else False
    kind, index = (_integer(values.get(key)) for key in ("Device Type", "Device Id"))
    if kind is OPEN or index is OPEN:
        return row | {"device_type": OPEN, "device": OPEN}
    fits = type(kind) is int and 0 <= kind < len(DEVICE_TYPES)
    row["device_type"] = DEVICE_TYPES[kind] if fits else None  # type: ignore[call-overload]
    is_device = type(kind) is int and kind > 0 and type(index) is int and 0 <= index < 1 << 31
    return row | {"device": index if is_device else None}


def differences(
    table: str, ours: Mapping[str, Sequence[object]], theirs: Sequence[Row]
) -> Iterator[str]:
    """Columns that differ from the rows of this module, with the first row that does."""
    for column in theirs[0] if theirs else ():
        values = [row[column] for row in theirs]
        own = ours[column]
        if column in {"bad_time", "bad_dur", "rounded", "is_odd"}:
            own = [bool(value) for value in own]
        if own == values:
            continue
        for place, (one, other) in enumerate(zip(own, values, strict=True)):
            if other is not OPEN and (one != other or type(one) is not type(other)):
                yield f"{table}.{column}, row {place}: {one!r}, plain json says {other!r}"
                break


def kinds(theirs: Mapping[str, list[Row]]) -> Counter[str]:
    """How many rows there are of each table."""
    return Counter({table: len(each) for table, each in theirs.items()})
