"""Small pickles that ask for much end soon, in little memory, in an error that names the byte."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.errors import SourceError
from profframe.readers.pickle import limits, plain_values
from tests.fuzz.snapshots import record

SNAPSHOT = "s.pickle"
DUMP = "nccl_trace_rank_0"
Parts = tuple[bytes, bytes, bytes]
"""The beginning of a pickle, what is repeated in it, and its end."""


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def items(**values: bytes) -> bytes:
    """A dict by the opcodes of its values."""
    return b"}(" + b"".join(text(key) + value for key, value in values.items()) + b"u"


FRAME = items(name=text("f"), filename=text("x.py"), line=b"K\x01")
ENTRY = items(record_id=b"K\x01", profiling_name=text("nccl:all_reduce"), input_sizes=b"](K\x01e")
BEGIN = b"\x80\x04}(" + text("segments") + b"]" + text("more")
ROWS = b"\x80\x04}(" + text("device_traces") + b"](]("
DUMP_BEGIN = b"\x80\x04}(" + text("pg_status") + b"}"
DUMPED = DUMP_BEGIN + text("entries") + b"]("
JSON = b'{"version":"2.10","pg_status":{},"entries":['
BOMBS: dict[str, tuple[str, Parts]] = {
    "empty sets": (SNAPSHOT, (BEGIN, b"\x8f", b"u.")),
    "sets in lists": (SNAPSHOT, (BEGIN + b"]", b"(" + b"\x8f" * 1000 + b"e", b"u.")),
    "lists in lists": (SNAPSHOT, (BEGIN + b"]", b"(" + b"]" * 1000 + b"e", b"u.")),
    "numbers in a list": (SNAPSHOT, (BEGIN + b"]", b"(" + b"K\x05" * 1000 + b"e", b"u.")),
    "marks of the memo": (SNAPSHOT, (BEGIN + b"]", b"\x94", b"u.")),
    "the same again": (SNAPSHOT, (BEGIN + b"N", b"2", b"u.")),
    "texts": (SNAPSHOT, (BEGIN + b"](", b"X\0\0\x10\0" + b"a" * (1 << 20), b"eu.")),
    "frames of the protocol": (SNAPSHOT, (BEGIN, b"\x95" + bytes(8), b"Nu.")),
    "keys of a record": (SNAPSHOT, (ROWS + b"}(", text("k") + b"N" + text("l") + b"N", b"ueeu.")),
    "frames of a record": (SNAPSHOT, (ROWS + b"}(" + text("frames") + b"](", FRAME, b"eueeu.")),
    "sets of records": (SNAPSHOT, (ROWS, items(more=b"](" + b"\x8f" * 99 + b"e"), b"eeu.")),
    "entries": (DUMP, (DUMPED, ENTRY, b"eu.")),
    "entries of JSON": (DUMP, (JSON, b'{"record_id":1,"input_sizes":[[1,2]]},', b"{}]}")),
    "lists of JSON": (DUMP, (JSON, b"[],", b"{}]}")),
    "text of JSON": (DUMP, (JSON + b'"', b"a", b'"]}')),
}  # fmt: skip
PASSED_OVER = "text of JSON"
"""Longer than a block it is no entry, which is counted."""


def blocks(parts: Parts, size: int) -> Iterator[bytes]:
    begin, unit, end = parts
    block = unit * max(1, (1 << 20) // len(unit))
    return itertools.chain([begin], itertools.repeat(block, size // len(block)), [end])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that 2 MB exceed."""
    monkeypatch.setattr(limits, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "MOST_STACK", 1 << 10)
    monkeypatch.setattr(limits, "ALWAYS_FRAMES", 1)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", BOMBS)
def test_what_asks_for_much_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / BOMBS[name][0]
    path.write_bytes(b"".join(blocks(BOMBS[name][1], 2 << 20)))
    with pytest.raises(SourceError, match=r": byte [\d,]+: "):
        profframe.load(path)


@pytest.mark.long
@pytest.mark.parametrize("name", BOMBS)
def test_200_mb_take_less_than_1_gb_and_10_s(name: str, tmp_path: Path) -> None:
    path = tmp_path / BOMBS[name][0]
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.writelines(blocks(BOMBS[name][1], 200 << 20))
    command = [sys.executable, "-m", "profframe", "info", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        assert child.stdout is not None
        killer = threading.Timer(120, child.kill)
        killer.start()
        said = child.stdout.read().decode()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        killer.cancel()
    assert child.returncode == (name != PASSED_OVER), said
    assert name != PASSED_OVER or "not_an_event" in said
    assert "internal:" not in said
    assert used.ru_maxrss < 1 << 20  # kB
    assert used.ru_utime < 10


def test_a_place_of_the_memo_beyond_the_file_is_named(tmp_path: Path) -> None:
    rows = [record([], i) for i in range(600)]
    data = bytearray(pickle.dumps({"segments": [], "device_traces": [rows]}, 2))
    at = data.index(b"]r", len(data) // 2) + 1
    data[at + 4] = 0xCD
    path = tmp_path / SNAPSHOT
    path.write_bytes(data)
    with pytest.raises(SourceError, match=rf"byte {at:,}: .* names place 3,43\d,\d+,\d+ of a memo"):
        profframe.load(path)


def shared(count: int) -> dict[str, bytes]:
    """Snapshots and dumps of many small values that all have the same long one."""
    frames = b"](" + FRAME * count + b"eq\x05"
    rows, get = ROWS + b"}(" + text("frames"), b"h\x05"
    a_row = rows + frames + b"uq\x06" + b"h\x06" * count + b"eeu."
    a_list = rows + frames + b"u" + items(frames=get, more=b"}") * count + b"eeu."
    keys = b"}(" + b"".join(text(f"k{i}") + b"N" for i in range(count // 100)) + b"uq\x05"
    a_frame = rows + b"](" + keys + get * count + b"eueeu."
    a_dump = DUMPED + items(frames=frames) + items(frames=get) * count + b"eu."
    return {
        "a record": a_row,
        "frames of records": a_list,
        "a frame": a_frame,
        "frames of entries": a_dump,
    }


@pytest.mark.parametrize("name", [*shared(1)])
@pytest.mark.parametrize("count", [1000, 10_000])
def test_what_is_shared_is_walked_once(name: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / (DUMP if "entries" in name else SNAPSHOT)
    if "entries" in name:  # what entries share is counted as unfolded, too
        count //= 4
    path.write_bytes(shared(10)[name])
    profframe.load(path)  # imports
    path.write_bytes(shared(count)[name])
    begin = time.process_time()
    trace = profframe.load(path)
    assert time.process_time() - begin < 2
    table = "recorded_collectives" if "entries" in name else "allocator_events"
    rows = 1 if name == "a frame" else count + 1
    assert trace.sql(f"SELECT count(*) n, count(stack_id) s FROM {table}").row(0) == (rows, rows)
    frames = trace.sql("SELECT count(*) n FROM stacks")["n"].item()
    assert frames == count + (name == "a frame")


def tree(leaf: bytes, place: int) -> bytes:
    """A list of lists of lists of 80 values each, which stays at this place of the memo."""
    own = b"q" + bytes([place])
    again = b"(" + b"h" + bytes([place])
    level = b"0](" + again[1:] * 80 + b"e" + own
    return b"](" + leaf * 80 + b"e" + own + level * 2


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (SNAPSHOT, BEGIN + b"X\0\x20\0\0" + b"a" * 8192 + b"q\x070" + tree(b"h\x07", 3) + b"u."),
        (SNAPSHOT, BEGIN + tree(text("a" * 200), 3) + b"u."),
        (SNAPSHOT, BEGIN + tree(b"K\x01", 3) + text("segments") + b"]("
         + items(segment_pool_id=b"h\x03") * 99 + b"eu."),
        (DUMP, DUMP_BEGIN + text("a") + tree(b"K\x01", 3) + text("entries") + b"]("
         + b"".join(items(input_sizes=b"]h\x03a") for _ in range(99)) + b"eu."),
    ],
    ids=["long text", "text", "pools", "sizes"],
)  # fmt: skip
def test_what_would_be_written_many_times_has_a_limit(
    name: str, data: bytes, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"would expand to|are more than 32 MB of text"):
        profframe.load(path)


def test_what_is_no_text_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / SNAPSHOT
    rows = items(action=b"h\x03", frames=b"]") * 200
    path.write_bytes(BEGIN + tree(b"K\x01", 3) + text("device_traces") + b"](](" + rows + b"eeu.")
    trace = profframe.load(path)
    assert trace.sql("SELECT count(*), count(action) FROM allocator_events").row(0) == (200, 0)
    assert trace.quality.select("issue", "events").rows() == [("odd_value", 200)]


def test_a_record_that_holds_itself_through_the_memo() -> None:
    inner: dict[str, Any] = {}
    row = {"more": inner}
    value = {"segments": [], "device_traces": [[row, inner]], "x": inner}
    inner["row"] = row
    path = Path("loop")
    with pytest.raises(SourceError, match="into itself"):
        plain_values(pickle.dumps(value), path)
