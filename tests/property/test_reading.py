"""Any trace, in any layout and however damaged: the rows of a plain reader, or a clear error."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from profframe.errors import SourceError
from profframe.readers import bytes as reader_bytes
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.json import stream
from profframe.readers.json.repair import repair
from profframe.readers.json.stream import ArrayReader, Parsed, Wave
from profframe.readers.reading import read
from tests.oracles import chrome as oracle

HOSTILE: Final = (
    '}, {"ph": "X"',
    '"}, {"name": "',
    '"traceEvents": [',
    "]}",
    "}]",
    "{",
    "[[[[",
    "\\",
    "\\\\",
    '\\"',
    'a\\", "b',
    "C:\\Users\\new",
    "tab\tline\nreturn\r",
    "\0",
    "\x1f\x7f\x80",
    "\u2028 \ufeff \uffff",
    "üñî 日本語 🚀",
    "void f<T, 3>(T&&)::{lambda()#1}",
    "NaN",
    "null",
    " ",
    "",
    ":",
    ",",
    "x" * 10_000,
)

text = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
small = st.integers(0, 1000)
whole = st.integers(-(1 << 62), 1 << 62)


def _exact(digits: object) -> str:
    """A number by its digits: they go into the JSON text as they are."""
    return f"<number {digits}>"


decimals = st.decimals(0, 10**6, places=3) | st.decimals(10**15, 10**16, places=3)
times = st.one_of(
    small,
    st.integers(10**15, 4 * 10**15),
    decimals.map(_exact),
    decimals.map(str),
    st.decimals(0, 1000, places=6).map(_exact),
)
values = st.recursive(
    st.none() | st.booleans() | whole | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
shapes = st.recursive(st.lists(small, max_size=3), lambda s: st.lists(s, max_size=3), max_leaves=4)
known_args = st.fixed_dictionaries(
    {},
    optional={
        "External id": whole,
        "correlation": whole,
        "device": st.integers(-1, 7),
        "stream": st.integers(-1, 1 << 33),
        "Sequence number": st.integers(-1, 1 << 40),
        "Fwd thread id": small,
        "Ev Idx": small,
        "Python id": small,
        "Python parent id": small | st.none(),
        "Input Dims": shapes | text,
        "Input type": st.lists(text, max_size=2),
        "Concrete Inputs": st.lists(text, max_size=2),
        "Call stack": text,
        "Module Hierarchy": text,
        "finished": st.booleans(),
    },
)
other_args = st.dictionaries(
    text | st.sampled_from(["EXTERNAL ID", "Device", "Stream", "args", "$.a", "a.b"]),
    values,
    max_size=3,
)
args = st.builds(lambda a, b: a | b, other_args, known_args)
ids = st.integers(-1, 5) | st.sampled_from(["", "Spans", "stream 7", "9180"])


def _with_optional(**keys: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    common = {"cat": text, "name": text, "pid": ids, "tid": ids, "args": args}
    return common | keys


def _events(phases: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"ph": st.sampled_from(phases)}, optional=_with_optional(**keys))


categories = text | st.sampled_from(["cpu_op", "kernel", "Kernel", "gpu_memcpy", "cuda_sync"])
marks = small | text
slices = _events("XXXX", ts=times, dur=times, cat=categories)
ends = _events("BE", ts=small, pid=st.integers(0, 1), tid=st.just(0))
few = st.integers(0, 1)
operations = _events(
    "beSF",
    ts=small,
    name=st.sampled_from("fg"),
    cat=st.just("c"),
    pid=few,
    id=few,
    id2=st.fixed_dictionaries({}, optional={"local": few, "global": few}),
    scope=st.sampled_from("st"),
)
bound = _events(
    "Xb", ts=small, dur=small, bind_id=marks, flow_in=st.booleans(), flow_out=st.booleans()
)
allocations = st.fixed_dictionaries(
    {"ph": st.sampled_from("iX"), "name": st.just("[memory]"), "ts": times},
    optional={
        "cat": st.just("cpu_instant_event"),
        "pid": ids,
        "args": st.fixed_dictionaries(
            {},
            optional={
                "Addr": whole,
                "Bytes": whole,
                "Device Type": st.integers(0, 20),
                "Device Id": st.integers(-1, 7),
                "Total Allocated": whole,
                "Total Reserved": whole,
            },
        ),
    },
)
samples = _events(
    "C", ts=times, id=marks, args=st.dictionaries(text, whole | st.none(), max_size=3)
)
labels = st.fixed_dictionaries(
    {"ph": st.just("M"), "name": st.sampled_from(["process_name", "thread_name"]), "pid": ids},
    optional={"tid": ids, "args": st.fixed_dictionaries({"name": text})},
)
others = _events("iINODPnTM", ts=times, dur=small, id=marks, s=st.sampled_from("tpg"), sf=values)
event = st.one_of(
    slices,
    slices,
    ends,
    operations,
    bound,
    allocations,
    samples,
    labels,
    others,
    _events("stf", ts=times, id=marks, bp=st.just("e")),
)
headers = st.dictionaries(
    text.map("a {}".format),
    st.one_of(
        values,
        st.lists(st.fixed_dictionaries({"ph": st.just("X"), "name": text}), max_size=2),
        st.fixed_dictionaries({"traceEvents": st.lists(slices, max_size=2)}),
    ),
    max_size=3,
)


@st.composite
def documents(draw: st.DrawFn, *, max_size: int = 12) -> str:
    """JSON text of a trace, in any layout."""
    events = draw(st.lists(event, min_size=1, max_size=max_size))
    document: Any = events
    if draw(st.booleans()):
        base = draw(st.dictionaries(st.just("baseTimeNanoseconds"), st.integers(0, 1 << 60)))
        behind = {f"behind {key}": value for key, value in draw(headers).items()}
        document = draw(headers) | {"traceEvents": events} | base | behind
    spaces = st.sampled_from(["", " ", "\n  ", "\r\n\t"])
    layout: dict[str, Any] = {
        "separators": (draw(spaces) + "," + draw(spaces), draw(spaces) + ":" + draw(spaces)),
        "indent": draw(st.sampled_from([None, 0, 1, "\t"])),
        "ensure_ascii": draw(st.booleans()),
    }
    written = json.dumps(document, **layout)
    return draw(spaces) + re.sub(r'"<number ([^>]*)>"', r"\1", written) + draw(spaces)


@contextmanager
def pieces(size: int) -> Iterator[pytest.MonkeyPatch]:
    """Cuts every few bytes, so that they fall anywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "PIECE", size)
        patch.setattr(stream, "WAVE", 4 * size)
        patch.setattr(reader_bytes, "BLOCK", size + 36)
        yield patch


def raw(content: str | bytes) -> RawTrace:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read(path)


def found(tables: Mapping[str, pa.Table]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in tables["quality"].to_pylist():
        counts[row["issue"]] += row["events"]
    return counts


def assert_as_plain(trace: RawTrace, plain: oracle.Plain) -> None:
    assert not oracle.differences(trace.tables, plain)
    (row,) = trace.tables["traces"].to_pylist()
    assert row["source_events"] == plain.source_events
    assert json.loads(row["accounted"]) == plain.accounted
    assert found(trace.tables) == plain.found
    header = {k: v for k, v in plain.header.items() if k != "baseTimeNanoseconds"}
    assert json.loads(row["metadata"] or "{}") == json.loads(json.dumps(header, default=float))


CUT_IN_AN_ELEMENT: Final = (
    r'[{"ph":"i","dur":0,"name":"}, {\"ph\": \"X\"","pid":0,"id":0,"s":"t",'
    r'"cat":"\"}, {\"name\": \"","args":{"}, {\"ph\": \"X\"":[{},{"}, {\"ph\": \"X\"":null}]}}]'
)
"""Blocks and pieces end within it, and what is before an end could be mended to an element."""


@given(documents(), st.sampled_from([64, 1 << 17]))
@example('[{"ph":"B"},{"ph":"E"}]', 64)
@example(CUT_IN_AN_ELEMENT, 64)
def test_rows_are_those_of_a_plain_reader(document: str, piece: int) -> None:
    with pieces(piece):
        assert_as_plain(raw(document), oracle.read(document))


@given(documents(), st.sampled_from([64, 1 << 17]))
def test_the_slow_way_gives_the_same_rows(document: str, piece: int) -> None:
    with pieces(piece) as patch:
        patch.setattr(ArrayReader, "__init__", _repairing_all)
        assert_as_plain(raw(document), oracle.read(document))


def _repairing_all(reader: ArrayReader[Any], *arguments: Any, **named: Any) -> None:
    blocks, key, _, *others = arguments
    _INIT(reader, blocks, key, _needs_repair, *others, **named)


def _needs_repair(wave: Wave) -> Parsed[Any]:
    return Parsed(wave, [(0, len(wave), None)])


_INIT: Final = ArrayReader.__init__


@given(documents())
def test_repair_leaves_sound_elements_as_they_are(document: str) -> None:
    value = json.loads(document, parse_float=Decimal)
    elements = value if isinstance(value, list) else [value]
    inside = document.strip()[1:] if isinstance(value, list) else document.strip() + "]"
    fixed = repair(inside)
    assert [json.loads(e, parse_float=Decimal) for e in fixed.elements] == elements
    assert (fixed.closed, fixed.incomplete, fixed.repairs) == (True, False, Counter())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A small trace, with a few bytes of it lost, changed or put in."""
    content = bytearray(draw(documents(max_size=6)).encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["cut", "delete", "insert", "replace"])):
            case "cut":
                del content[at:]
            case "delete":
                del content[at : at + draw(st.integers(1, 20))]
            case "insert":
                content[at:at] = draw(junk)
            case _:
                content[at : at + 1] = draw(junk)
    return bytes(content)


junk = st.binary(min_size=1, max_size=3) | st.sampled_from(
    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\n", b"\xff", b"NaN", b"0x1", b"N/A"]
)


@given(damaged(), st.sampled_from([64, 1 << 17]))
@example(b"", 64)
@example(b"[", 64)
@example(b'{"traceEvents":[', 64)
@example(b'{"traceEvents":[{"ph":"X"', 64)
@example(b'{"traceEvents":[{"ph":"X"}], "a": 1,, "b": 2}', 64)
@example(b'{"traceEvents":[{"ph":"X",}]}', 64)
@example(b'{"\x80a": 1, "traceEvents":[{"ph":"X"}]}', 64)
@example(b'{"traceEvents":[{"ph":"X","name":"\\', 64)
def test_damage_is_reported_and_what_is_reported_adds_up(content: bytes, piece: int) -> None:
    with pieces(piece):
        try:
            trace = raw(content)
        except SourceError:
            return
    (row,) = trace.tables["traces"].to_pylist()
    accounted = json.loads(row["accounted"])
    assert row["source_events"] == sum(accounted.values())
    for table in ("memory", "instants"):
        assert trace.tables[table].num_rows == accounted.get(table, 0)
    arrows = trace.tables["flows"]["binding_point"].to_pylist()
    assert len(arrows) - arrows.count("bind_id") == accounted.get("flows", 0)
    checks = found(trace.tables)
    drops = ("unreadable_event", "not_an_event", "second_array")
    assert accounted.get("dropped", 0) == sum(checks[check] for check in drops)
    try:
        document = json.loads(content)
    except ValueError:
        named = checks.keys() - {"missing_time", "missing_duration"}
        assert named or re.search(rb",\s*[\]}]", content)  # the one thing that is not counted
    else:
        events = document if isinstance(document, list) else document["traceEvents"]
        assert row["source_events"] == len(events)
