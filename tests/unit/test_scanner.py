"""The scanner in C: what it takes and what it hands back, and that calls leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np
import pytest

import profframe
from profframe.native import library
from profframe.native.scan import LONGEST, PADDING, TEXTS, Kind, Scanned, Scanner
from profframe.readers.build.row_tables import RowTable
from tests import needs

needs.native_scanner()

KEYS = {"n": Kind.INTEGER, "word": Kind.WORD, "flag": Kind.FLAG, "x": Kind.DECIMAL, "no": Kind.ODD}
SCANNER = Scanner(KEYS, dict.fromkeys(RowTable, TEXTS) | {RowTable.EVENTS: (*TEXTS, *KEYS)})
TAKEN, TEXT, ESCAPE, NUMBER, VALUE, MEMBER, DOUBLED, DEPTH, ROOM = range(9)


def scan(*pieces: str | bytes, scanner: Scanner = SCANNER) -> Scanned:
    texts = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
    joined = bytearray(b"".join(texts) + b"\xff" * PADDING)
    before = bytes(joined)
    found = scanner.scan(memoryview(joined), [0, *accumulate(map(len, texts))])
    assert joined == before
    return found


def slices(*args: str) -> str:
    return "[" + ",".join(f'{{"ph":"X","ts":1,"args":{each}}}' for each in args) + "]"


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        (TAKEN, "[]"),
        (TAKEN, ' [ { "ph" : "X" } , {"ph":"i"} ] '.strip()),
        (TAKEN, slices('{"n":-17,"word":[1, "a"],"flag":true,"x":0.5,"other":{"a":[]}}')),
        (TAKEN, slices('{"n":"12","word":"a\\nb"}', '{"n":null}', '{"n":"amd:0"}', "{}", "null")),
        (TAKEN, slices('{"n":999999999999999999}', '{"word":123456789012345}')),
        (TAKEN, slices('{"a":' + nested(59) + "}")),
        (TAKEN, '[{"ph":"X","ts":-0.0005,"dur":3999999999999999.999999,"own":{"a":1}}]'),
        (TAKEN, slices('{"日本":"é"}')),
        (TEXT, "[1]"),
        (TEXT, '[{"ph":"X"}'),
        (TEXT, '[{"ph":"X"},]'),
        (TEXT, '[{"ph":"X",}]'),
        (TEXT, '[{"ph":"X"]'),
        (TEXT, '[{"ph":"X]'),
        (TEXT, slices('{"a":01}')),
        (TEXT, slices('{"a":1.}')),
        (TEXT, slices('{"a":NaN}')),
        (TEXT, slices('{"a":tru}')),
        (TEXT, slices('{"a":"\t"}')),
        (TEXT, slices('{"a":[1,]}')),
        (TEXT, slices('{"a":1]')),
        (ESCAPE, slices('{"a":"\\/"}')),
        (ESCAPE, slices('{"a":"\\u00e9"}')),
        (ESCAPE, slices('{"a\\n":1}')),
        (NUMBER, slices('{"n":1.5}')),
        (NUMBER, slices('{"n":1234567890123456789}')),
        (NUMBER, slices('{"n":" 5"}')),
        (NUMBER, slices('{"word":1.10}')),
        (NUMBER, slices('{"word":[-0]}')),
        (NUMBER, slices('{"x":1e3}')),
        (NUMBER, '[{"ph":"X","ts":1e3}]'),
        (NUMBER, '[{"ph":"X","ts":1.1234567}]'),
        (NUMBER, '[{"ph":"X","ts":4000000000000001}]'),
        (VALUE, '[{"ph":"X","ts":"1"}]'),
        (VALUE, '[{"ph":["X"]}]'),
        (VALUE, '[{"ph":"X","args":[1]}]'),
        (VALUE, slices('{"n":true}')),
        (VALUE, slices('{"flag":1}')),
        (VALUE, slices('{"x":"0.5"}')),
        (MEMBER, "[{}]"),
        (MEMBER, '[{"ph":"X","bind_id":1}]'),
        (MEMBER, '[{"ph":"X","":1}]'),
        (MEMBER, slices('{"no":1}')),
        (DOUBLED, '[{"ph":"X","ph":"X"}]'),
        (DOUBLED, '[{"ph":"X","own":1,"own":1}]'),
        (DOUBLED, '[{"ph":"X","a":1,"args":{"a":1}}]'),
        (DOUBLED, slices('{"n":1,"n":1}')),
        (DOUBLED, slices('{"a":1,"a":1}')),
        (DEPTH, slices('{"a":' + nested(61) + "}")),
        (ROOM, '[{"ph":"X",' + ",".join(f'"{i}":1' for i in range(300)) + "}]"),
    ],
)  # fmt: skip
def test_what_is_taken_and_what_is_handed_back(reason: int, events: str) -> None:
    found = scan(slices('{"a":1}'), events, slices('{"a":2}'))
    assert found.odd.tolist() == [TAKEN, reason, TAKEN]
    if reason:
        assert found.array(RowTable.EVENTS, "args").to_pylist() == ['{"a":1}', '{"a":2}']
        assert found.begins[:, RowTable.EVENTS].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("text", [b"caf\xe9", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"])
def test_what_is_no_utf8_is_handed_back(text: bytes) -> None:
    piece = slices('{"a":"T"}').encode().replace(b"T", text)
    assert scan(piece).odd.tolist() == [TEXT]


@pytest.mark.parametrize(
    ("us", "ns", "is_rounded"),
    [
        ("0", 0, False),
        ("1712195495519689.047", 1712195495519689047, False),
        ("0.0005", 1, True),
        ("0.000499", 0, True),
        ("-0.0005", 0, True),
        ("-0.0015", -1, True),
        ("-1.25", -1250, False),
        ("-0.000501", -1, True),
        ("4000000000000000", 4 * 10**18, False),
    ],
)
def test_times_are_rounded_to_the_nearest_nanosecond(us: str, ns: int, is_rounded: bool) -> None:
    found = scan(f'[{{"ph":"X","ts":{us},"dur":1}},{{"ph":"X"}}]')
    assert found.array(RowTable.EVENTS, "time_ns").to_pylist() == [ns, None]
    assert found.has(RowTable.EVENTS, "rounded") == is_rounded


def test_arguments_lose_white_space_and_nothing_else() -> None:
    args = '{ "a" : [ 1.10 , -0, 1e400 ], "b":{"c" : "x  y\\n" }\n,"d":null }'
    (text,) = scan(slices(args)).array(RowTable.EVENTS, "args").to_pylist()
    assert text == '{"a":[1.10,-0,1e400],"b":{"c":"x  y\\n"},"d":null}'


def test_a_null_is_0_whatever_was_in_the_buffers() -> None:
    scanner = Scanner(KEYS, {RowTable.EVENTS: (*TEXTS, *KEYS)})
    many = slices(*(f'{{"n":{i},"word":"{i}","flag":true,"x":{i}.5}}' for i in range(50)))
    scan(many, many[:-1] + "x]", scanner=scanner)
    found = scan(
        slices("{}", '{"word":"w"}', '{"n":7}', '{"x":1}', '{"flag":true}'), scanner=scanner
    )
    for name in KEYS.keys() - {"no"}:
        array = found.array(RowTable.EVENTS, name)
        values = array.indices if name in {"word", "x"} else array.cast("int64")
        raw = np.frombuffer(values.buffers()[1], "int64" if name in {"n", "flag"} else "int32")
        is_null = ~array.is_valid().to_numpy(zero_copy_only=False)
        assert is_null.sum() == 4
        assert not raw[: len(array)][is_null].any()


def test_words_of_what_is_handed_back_are_gone() -> None:
    odd = slices('{"word":"lost"}', '{"word":"both"}', '{"word":"caf\xe9"}').encode("latin-1")
    found = scan(slices('{"word":"a"}'), odd, slices('{"word":"both"}', '{"word":"a"}'))
    array = found.array(RowTable.EVENTS, "word")
    assert (array.to_pylist(), array.dictionary.to_pylist()) == (["a", "both", "a"], ["a", "both"])


def test_threads_scan_at_once() -> None:
    pieces = [slices(*(f'{{"n":{i * j},"word":"{j % 7}"}}' for j in range(500))) for i in range(40)]

    def sums(piece: str) -> tuple[int, Sequence[str]]:
        found = scan(piece)
        words = found.array(RowTable.EVENTS, "word").to_pylist()
        return found.array(RowTable.EVENTS, "n").sum().as_py(), words

    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(sums, pieces)]
    assert results == [(i * 124750, [str(j % 7) for j in range(500)]) for i in range(40)]


def test_words_for_which_there_is_no_room_are_handed_back() -> None:
    words = [[f"{i} {j}" for j in range(2000)] for i in range(80)]
    event = '{{"ph":"X","name":"{0}","args":{{"word":"{0}"}}}}'
    pieces = [f"[{','.join(map(event.format, part))}]" for part in words]
    assert set(scan(*pieces).odd.tolist()) == {TAKEN, ROOM}


@pytest.mark.parametrize(("spare", "longest"), [(PADDING - 1, 2), (PADDING, LONGEST + 1)])
def test_a_buffer_without_room_is_refused(spare: int, longest: int) -> None:
    with pytest.raises(ValueError, match="no room"):
        SCANNER.scan(memoryview(bytearray(longest + spare)), [0, longest])


def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    library.reason_without.cache_clear()
    monkeypatch.setattr(library, "VERSION", 0)
    try:
        assert library.reason_without() == "built from another version"
    finally:
        library.reason_without.cache_clear()


def test_without_it_the_version_says_so() -> None:
    environment = {**os.environ, library.SWITCH: "0"}
    command = [sys.executable, "-m", "profframe", "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    reason = f"pure Python, without the native scanner: {library.SWITCH}=0"
    assert said.stdout == f"profframe {profframe.__version__} ({reason})\n"
