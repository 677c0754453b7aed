"""Bad input: a clear error that names file and place, or what is there and a note that counts it.

Every case goes through `profframe.load` and through the command line.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import profframe
from profframe import Trace, cli
from profframe.errors import NotATraceError, NoTraceFoundError, SourceError
from profframe.readers.json import stream
from profframe.readers.json.repair import Repaired, repair
from profframe.readers.json.stream import ArrayReader, Parsed, Wave
from tests.members import few


def event(name: str = "op", ts: object = 1, dur: object = 2, args: str = "{}") -> str:
    """Text of a slice; what is put in goes in as it is."""
    return (
        f'{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},'
        f'"args":{args}}}'
    )


def trace(*events: str, before: str = '"schemaVersion": 1', behind: str = '"end": 1') -> str:
    """Text of a trace: the given events between two sound ones."""
    inside = ", ".join([event("first"), *events, event("last", 9)])
    return f'{{{before}, "traceEvents": [{inside}], {behind}}}'


def write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def load(folder: Path, content: str | bytes) -> Trace:
    write(folder / "t.json", content)
    return profframe.load(folder / "t.json")


# What is no trace

EXPECTED: Final = (
    " (expected Chrome trace JSON: an object with 'traceEvents', or an array of events)"
)
NO_TRACE: Final[dict[str, tuple[bytes, str]]] = {
    "empty": (b"", "the file is empty"),
    "empty gzip": (gzip.compress(b""), "the file is empty"),
    "only spaces": (b" \n\n", "the file is empty"),
    "text": (b"hello\nworld", "it is not JSON: Expecting value at line 1 column 1"),
    "html": (b"<html></html>", "it is not JSON: Expecting value at line 1 column 1"),
    "not text": (b"\x80\x04K\x01.", "it is not JSON: invalid start byte at byte 0 (not UTF-8)"),
    "UTF-16": ("[]".encode("utf-16"), "no element of the JSON array is an event with a phase"),
    "broken JSON": (b'{"a": 1,\n "b" 2}', "it is not JSON: Expecting ':' delimiter at line 2"),
    "cut before the events": (
        b'{"schemaVersion": 1, "deviceP',
        "it is not JSON: Unterminated string starting at at line 1 column 22",
    ),
    "cut at the events": (b'{"a": 1, "traceEvents": ', "it is not JSON: Expecting value at line 1"),
    "no events": (b'{"a": [1], "b": {"c": 2}}', "it has no 'traceEvents'"),
    "events elsewhere": (b'{"a": [{"traceEvents": [{"ph": "X"}]}]}', "it has no 'traceEvents'"),
    "events that are null": (b'{"traceEvents": null}', "its 'traceEvents' is not an array"),
    "events in an object": (b'{"traceEvents": {}}', "its 'traceEvents' is not an array"),
    "a number": (b"5", "the JSON is of type int, not an object or an array of events"),
    "a text": (b'"traceEvents"', "the JSON is of type str, not an object or an array of events"),
    "an empty array": (b"[]", "no element of the JSON array is an event with a phase"),
    "an array of numbers": (b"[1, 2.5, -3]", "no element of the JSON array is an event"),
    "an array of texts": (b'["a", "b"]', "no element of the JSON array is an event"),
    "an array of arrays": (b"[[1], [2]]", "no element of the JSON array is an event"),
    "an array of objects": (b'[{"a": 1}, {}]', "no element of the JSON array is an event"),
    "Python": (b"[{'ph': 'X', 'ts': 1}]", "no element of the JSON array is an event"),
    "deep": (b'{"a":' * 50_000, "it is not JSON: it is nested too deep"),
    "gzip that is cut at once": (gzip.compress(b"[]")[:9], "the file is empty; the gzip stream"),
}


@pytest.mark.parametrize(("content", "why"), NO_TRACE.values(), ids=NO_TRACE.keys())
def test_what_is_no_trace_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, why: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(NotATraceError) as caught:
        profframe.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: not a trace: {why}")
    assert message.endswith(EXPECTED)
    assert complaint(capsys, path) == f"error: {message}"


def complaint(capsys: pytest.CaptureFixture[str], *paths: Path) -> str:
    """The one line of error that the command line prints; its exit code is 1."""
    assert cli.run([str(path) for path in paths]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_a_path_that_leads_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing.json"
    with pytest.raises(NoTraceFoundError):
        profframe.load(path)
    assert complaint(capsys, path) == f"error: {path}: no such file or directory"


def test_a_directory_without_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, tmp_path).startswith(
        f"error: {tmp_path}: the directory holds no files"
    )
    (tmp_path / "notes.txt").write_text("hello")
    assert complaint(capsys, tmp_path).startswith(
        f"error: none of 1 files is a trace; the first: {tmp_path / 'notes.txt'}: not a trace: "
        "it is not JSON"
    )


@pytest.mark.parametrize("cache", [None, "cache"])
def test_a_file_that_may_not_be_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cache: str | None,
) -> None:
    path = tmp_path / "t.json"
    path.write_text(trace())
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything
        refuse_to_open(path, monkeypatch)
    message = f"{path}: cannot be read: Permission denied"
    with pytest.raises(SourceError) as caught:
        profframe.load(path, cache=cache and tmp_path / cache)
    assert str(caught.value) == message
    assert complaint(capsys, path) == f"error: {message}"
    assert complaint(capsys, tmp_path) == f"error: {message}"


def refuse_to_open(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)


def test_the_command_prints_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("hello")
    command = [sys.executable, "-m", "profframe", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    why = "it is not JSON: Expecting value at line 1 column 1"
    assert done.stderr == f"error: {path}: not a trace: {why}{EXPECTED}\n"


# What is loaded


@dataclass(frozen=True)
class Case:
    """A document, what is found in it, and values of its slices between the first and the last."""

    text: str | bytes
    found: dict[str, int] = field(default_factory=dict)
    column: str = "name"
    values: tuple[object, ...] = ("op",)
    dropped: int = 0


HUGE: Final = ("9223372036854775807", "18446744073709551615", "9223372036854775.807", "1e300")
LOADED: Final[dict[str, Case]] = {
    # What Kineto wrote, by the date until which it did.
    "2020-11 array not closed": Case(
        f"[{event('first')}, {event()}, {event('last', 9)}", {"truncated": 0}
    ),
    "2021-03 N/A as an argument": Case(
        trace(event(args='{"bandwidth": N/A, "x": 1}')),
        {"bare_word": 1},
        "args",
        ('{"bandwidth":null,"x":1}',),
    ),
    "2021-03 N/A in the header": Case(
        trace(event(), before='"cuda": N/A, "schemaVersion": 1'), {"bare_word": 1}
    ),
    "2021-05 missing value": Case(
        trace(event(), before='"schemaVersion": 1, "metadata": '), {"missing_value": 1}
    ),
    "2021-05 missing value behind": Case(
        trace(event(), behind='"a": 1, "b":'), {"missing_value": 1}
    ),
    "2022-06 hexadecimal stream": Case(
        trace(event(args='{"stream": 0x0}'), event(args='{"correlation": 0x1f}')),
        {"hex_number": 2},
        "correlation",
        (None, 31),
    ),
    "2023-04 backslashes in a name": Case(
        trace(event(r"C:\Users\me\train.py(3): forward")),
        {"raw_backslash": 1},
        values=(r"C:\Users\me\train.py(3): forward",),
    ),
    "2023-04 backslashes in the header": Case(
        trace(event(), before=r'"schemaVersion": 1, "dir": "C:\Users\me"'), {"raw_backslash": 1}
    ),
    "2024-03 newline in a text": Case(
        trace(event("two\nlines")), {"control_byte": 1}, values=("two\nlines",)
    ),
    "2024-04 decimals not padded": Case(trace(event(dur=5.7)), column="dur_ns", values=(5_700,)),
    "2026-07 quotes in a name": Case(
        trace(event('say "hi"'), event('f("a", "b")'), event('"')),
        {"raw_quote": 3},
        values=('say "hi"', 'f("a", "b")', '"'),
    ),
    "control bytes": Case(
        trace(event("a\x00b\x1b[31m\x07")), {"control_byte": 1}, values=("a\x00b\x1b[31m\x07",)
    ),
    "invalid UTF-8": Case(
        trace(event("caf@ @@")).encode().replace(b"@", b"\xe9"),
        {"invalid_utf8": 1},
        values=("caf\ufffd \ufffd",),
    ),
    "invalid UTF-8 in the header": Case(
        trace(event(), before='"schemaVersion": 1, "host": "@"').encode().replace(b"@", b"\xff"),
        {"invalid_utf8": 1},
    ),
    # Numbers.
    "NaN and infinity as arguments": Case(
        trace(event(args='{"a": NaN, "b": [Infinity, -Infinity], "correlation": 3}')),
        {"non_finite_number": 3},
        "correlation",
        (3,),
    ),
    "NaN as a duration": Case(
        trace(event(dur="NaN"), event(dur="Infinity"), event(dur="-inf")),
        {"non_finite_number": 3, "missing_duration": 3},
        "dur_ns",
        (None, None, None),
    ),
    "NaN as a duration in text": Case(
        trace(event(dur='"NaN"'), event(dur='"inf"')),
        {"impossible_duration": 2},
        "dur_ns",
        (None, None),
    ),
    "NaN as a time": Case(
        trace(event(ts="nan")), {"non_finite_number": 1, "missing_time": 1}, "start_ns", (None,)
    ),
    "negative durations": Case(
        trace(event(dur=-1), event(dur="-0.001"), event(dur='"-5"')),
        {"negative_duration": 3},
        "dur_ns",
        (None, None, None),
    ),
    "durations like 2^63": Case(
        trace(*(event(dur=d) for d in HUGE)), {"impossible_duration": 4}, "dur_ns", (None,) * 4
    ),
    "durations like 2^63 in text": Case(
        trace(*(event(dur=f'"{d}"') for d in HUGE)),
        {"impossible_duration": 4},
        "dur_ns",
        (None,) * 4,
    ),
    "times like 2^63": Case(
        trace(*(event(ts=t) for t in HUGE)), {"impossible_time": 4}, "start_ns", (None,) * 4
    ),
    "no time and no duration": Case(
        trace('{"ph":"X","name":"op"}'),
        {"missing_time": 1, "missing_duration": 1},
        "dur_ns",
        (None,),
    ),
    # Members that an object has more than once: the last one counts.
    "a member doubled": Case(
        trace(event(args='{"correlation": 5}, "zz": 1, "zz": 2')),
        {"doubled_member": 1},
        "args",
        ('{"correlation":5,"zz":2}',),
    ),
    "arguments doubled": Case(
        trace(event(args='{"correlation": 1}, "args": {"correlation": 5}')),
        {"doubled_member": 1},
        "correlation",
        (5,),
    ),
    "a name doubled, with an escape": Case(
        trace(event(args=r'{}, "na\u006de": "last"')), {"doubled_member": 1}, values=("last",)
    ),
    "an argument doubled": Case(
        trace(event(args=r'{"correlation": 1, "x": 2, "correl\u0061tion": 5}')),
        {"doubled_member": 1},
        "correlation",
        (5,),
    ),
    "members of the header doubled": Case(
        trace(event(), before='"schemaVersion": 1, "a": {"b": 1, "b": 2}', behind='"a": 3'),
        {"doubled_member": 2},
    ),
    "names that differ in case": Case(
        trace(event(args='{"correlation": 5, "Correlation": 6}, "Name": "other"')),
        {},
        "correlation",
        (5,),
    ),
    # Text that is sound, in an event that is not.
    "embedded JSON beside NaN": Case(
        trace(event(args=r'{"bw":NaN,"cfg":"{\"x\": \"y\"}"}')),
        {"non_finite_number": 1},
        "args",
        (r'{"bw":null,"cfg":"{\"x\": \"y\"}"}',),
    ),
    "brackets in text beside NaN": Case(
        trace(event(args=r'{"cfg":"\"}}]","bw":NaN}'), event(), event()),
        {"non_finite_number": 1},
        values=("op",) * 3,
    ),
    "an escaped backslash before ud800 beside NaN": Case(
        trace(event(args=r'{"cfg":"C:\\ud800","bw":NaN}')),
        {"non_finite_number": 1},
        "args",
        (r'{"cfg":"C:\\ud800","bw":null}',),
    ),
    "text without a closing quote": Case(
        trace('{"ph":"X","cat":"cpu_op,"name":"op","pid":1,"tid":1,"ts":1,"dur":2}'),
        {"missing_quote": 1},
    ),
    # Structure.
    "elements that are no events": Case(
        trace("1", event(), '"text"', "null", "[2]"), {"not_an_event": 4}, dropped=4
    ),
    "an object that does not end": Case(
        trace(event()[:-1], event()), {"missing_bracket": 1}, values=("op", "op")
    ),
    "a list that does not end": Case(
        trace(event(args='{"a": [1, 2}'), event()), {"missing_bracket": 1}, values=("op", "op")
    ),
    "text behind the document": Case(trace(event()) + "\nDone.", {"trailing_text": 1}),
    "damage behind the events": Case(
        trace(event(), behind='"a": {"b": [1, 2'), {"unreadable_trailer": 1}
    ),
    "an element nested deep": Case(trace(event(args="[" * 3000 + "]" * 3000))),
    "an element nested deep and broken": Case(
        trace(event(args="[" * 3000 + "NaN" + "]" * 3000), event()),
        {"unreadable_event": 1},
        dropped=1,
    ),
}


def found(loaded: Trace) -> dict[str, int]:
    counts: dict[str, int] = {}
    for check, events in loaded.quality.select("issue", "events").rows():
        counts[check] = counts.get(check, 0) + events
    return counts


def accounted(loaded: Trace) -> dict[str, int]:
    """Where the source's events are; it adds up to their number."""
    ((count, text),) = loaded.traces.select("source_events", "accounted").rows()
    tables: dict[str, int] = json.loads(text)
    assert sum(tables.values()) == count
    return tables


@pytest.mark.parametrize(
    ("piece", "name"),
    [
        *((64, name) for name in LOADED),
        *(pytest.param(stream.PIECE, name, marks=pytest.mark.long) for name in LOADED),
    ],
)
def test_what_is_there_is_loaded_and_what_is_wrong_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, piece: int
) -> None:
    """The test of the slow way reads each as a whole, too."""
    monkeypatch.setattr(stream, "PIECE", piece)
    check(load(tmp_path, LOADED[name].text), LOADED[name])


def check(loaded: Trace, case: Case) -> None:
    first, *between, last = loaded.events[case.column].to_list()
    assert tuple(between) == case.values
    assert loaded.events["name"].to_list()[:: len(between) + 1] == ["first", "last"]
    assert (first is None) == (last is None)
    assert found(loaded) == case.found
    slices = {"events": len(between) + 2}
    assert accounted(loaded) == (slices | {"dropped": case.dropped} if case.dropped else slices)


def test_the_command_line_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, case in enumerate(LOADED.values()):
        write(tmp_path / f"{number}.json", case.text)

    assert cli.run([str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    checks = {check for case in LOADED.values() for check in case.found}
    assert {check for check in checks if check not in out} == set()


@pytest.mark.parametrize("case", few(LOADED.values(), 20), ids=LOADED.keys())
def test_the_slow_way_gives_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    loaded = load(tmp_path, case.text)
    check(loaded, case)
    fast = plain(loaded.tables)
    init = ArrayReader.__init__

    def repairing_all(
        reader: ArrayReader[Any], blocks: Any, key: str, _: Any, *rest: Any, **named: Any
    ) -> None:
        init(reader, blocks, key, _to_repair, *rest, **named)

    monkeypatch.setattr(ArrayReader, "__init__", repairing_all)
    assert plain(load(tmp_path, case.text).tables) == fast


def _to_repair(wave: Wave) -> Parsed[Any]:
    return Parsed(wave, [(0, len(wave), None)])


def plain(tables: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in tables.items()}


def test_text_that_looks_like_damage_sends_nothing_to_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repaired: list[str] = []

    def noted(text: str, *rest: Any) -> Repaired:
        repaired.append(text)
        return repair(text, *rest)

    monkeypatch.setattr(stream, "repair", noted)
    loaded = load(tmp_path, trace(event("f(x: nan, y)", args=r'{"a": "C:\\ud800", "b": "[inf]"}')))
    assert (loaded.events["name"].to_list()[1], found(loaded)) == ("f(x: nan, y)", {})
    assert [text for text in repaired if text.strip()] == []


NUMBERS: Final = (
    "1e5", "-0", "1.10", "5E-324", "1e400", "123456789.123456789123456789", "9" * 40,
)  # fmt: skip


@pytest.mark.parametrize("number", few(NUMBERS, 6))
@pytest.mark.parametrize("damage", ["", ', "bad": NaN'])
def test_numbers_without_a_column_keep_their_text(tmp_path: Path, number: str, damage: str) -> None:
    inside = f'{{"a":{number},"b":[{number}]}}'
    text = trace(
        event(args=f'{inside}, "own": {number}, "more": {inside}{damage}'),
        before=f'"schemaVersion": 1, "x": {number}, "y": {{"z": [{number}]}}',
    )
    loaded = load(tmp_path, text)
    args = loaded.events["args"].to_list()[1].replace(',"bad":null', "")
    assert args == f'{{"a":{number},"b":[{number}],"own":{number},"more":{inside}}}'
    (metadata,) = loaded.traces["metadata"].to_list()
    assert metadata == (
        f'{{"schemaVersion": 1, "x": {number}, "y": {{"z": [{number}]}}, "end": 1}}'
    )


def test_a_header_may_be_deep_and_its_numbers_long(tmp_path: Path) -> None:
    deep = "[" * 200 + "]" * 200
    header = f'"schemaVersion": 1, "a": {deep}, "b": {"7" * 5000}'
    (metadata,) = load(tmp_path, trace(before=header)).traces["metadata"].to_list()
    assert f'"a": {deep}, "b": {"7" * 5000}e0' in metadata


def test_the_clock_of_kineto_without_its_base_is_unknown(tmp_path: Path) -> None:
    traces = load(tmp_path, trace(event(ts=4369123456789.012))).traces
    assert traces["clock"].to_list() == ["unknown"]


@pytest.mark.parametrize(
    ("damaged", "check", "place"),
    [
        (event(args='{"a": NaN}'), "non_finite_number", "NaN"),
        (event(args='{"a": "é", "b": N/A}'), "bare_word", "N/A"),
        (event(args='{"é": 0x1F}'), "hex_number", "0x1F"),
        ("5", "not_an_event", "5, {"),
    ],
)
def test_the_place_of_damage_is_named(tmp_path: Path, damaged: str, check: str, place: str) -> None:
    text = trace(event("é"), event("日本"), damaged)
    ((named, detail),) = load(tmp_path, text).quality.select("issue", "detail").rows()
    assert named == check
    assert detail.endswith(f"first at byte {text.encode().index(place.encode()):,}")


def test_a_bad_duration_is_shown_with_its_event(tmp_path: Path) -> None:
    (note,) = load(tmp_path, trace(event(dur=-7))).quality.to_dicts()
    assert (note["example_event_id"], note["events"]) == (1, 1)
    assert note["detail"].endswith("event 1: -7000 ns")


# What is cut

NAMES: Final = [f"op {i}" for i in range(12)]
WHOLE: Final = (
    '{"schemaVersion": 1, "traceEvents": [\n'
    + ",\n".join(
        event(name, 10 * i, args='{"a": [1, {"b": "}, {"}]}') for i, name in enumerate(NAMES)
    )
    + '\n], "traceName": "t.json"}\n'
)
INSIDE: Final = WHOLE.index("[") + 1
CLOSED: Final = WHOLE.index('], "traceName"') + 1


@pytest.mark.parametrize("length", range(1, INSIDE, 3))
def test_a_file_cut_before_its_events_is_no_trace(tmp_path: Path, length: int) -> None:
    with pytest.raises(NotATraceError, match="it is not JSON"):
        load(tmp_path, WHOLE[:length])


@pytest.mark.parametrize("length", few(range(INSIDE, len(WHOLE) - 2, 37), 13))
def test_a_file_cut_anywhere_keeps_the_events_before(tmp_path: Path, length: int) -> None:
    loaded = load(tmp_path, WHOLE[:length])
    whole_events = WHOLE.count("]}}", 0, length)
    assert loaded.events["name"].to_list() == NAMES[:whole_events]
    notes = found(loaded)
    notes.pop("no_events", None)
    if length < CLOSED:
        begun = WHOLE[: length + 4].count('{"ph"')
        assert notes == {"truncated": begun - whole_events}
    else:
        assert notes == {"unreadable_trailer": 1}


def test_a_gzip_file_cut_anywhere_keeps_the_events_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"op {i * i}" for i in range(3000)]
    text = "[" + ",\n".join(event(name, 10 * i) for i, name in enumerate(names)) + "]"
    whole = gzip.compress(text.encode())
    path = tmp_path / "t.json.gz"
    counts = []
    for length in (len(whole) * tenth // 10 for tenth in range(1, 10, 2)):
        path.write_bytes(whole[:length])
        loaded = profframe.load(path)
        count = loaded.events.height
        assert loaded.events["name"].to_list() == names[:count]
        (note,) = loaded.quality.to_dicts()
        assert (note["issue"], note["events"]) in {("truncated", 0), ("truncated", 1)}
        assert note["detail"].endswith("; the gzip stream ends early")
        counts.append(count)
    assert counts == sorted(counts)
    assert counts[0] < 600
    assert counts[-1] > 2400
    assert cli.run([str(path)]) == 0
    out, err = capsys.readouterr()
    assert "truncated" in out
    assert err == ""


def test_a_gzip_file_with_a_damaged_end_keeps_all_events(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(WHOLE.encode()))
    whole[-6] ^= 0xFF
    loaded = load(tmp_path, bytes(whole))
    assert loaded.events["name"].to_list() == NAMES
    assert found(loaded) == {"damaged_stream": 0}


def test_ranks_that_come_twice_are_kept_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a_rank0.json", "b_rank0.json"):
        (tmp_path / name).write_text(trace())
    loaded = profframe.load(tmp_path)
    run = tmp_path.name
    assert loaded.traces.select("run", "rank").rows() == [(run, 0), (f"{run}.1", 0)]
    assert found(loaded) == {"same_run_and_rank": 2}
    assert cli.run([str(tmp_path)]) == 0
    assert "same_run_and_rank" in capsys.readouterr().out
