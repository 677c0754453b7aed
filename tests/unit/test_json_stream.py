from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from profframe.readers.json import opening, stream
from profframe.readers.json.opening import NoArrayError
from profframe.readers.json.stream import ArrayReader, Document, Parsed, Wave

KEY = "rows"
Rows = list[Any]


def loaded(text: bytes) -> Rows | None:
    try:
        rows: Rows = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return None
    return rows


def _refuse(word: str) -> None:
    raise ValueError(word)


def parse(wave: Wave) -> Parsed[Rows]:
    """Each piece by itself, as the wave has it."""
    pieces = [bytes(wave.text[a:b]) for a, b in pairwise(wave.bounds)]
    return Parsed(wave, [(i, i + 1, loaded(piece)) for i, piece in enumerate(pieces)])


@pytest.fixture(params=[8, 64, 1 << 20], ids=["tiny", "small", "whole"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes of a block and of a piece, so that cuts fall anywhere."""
    chosen: int = request.param
    monkeypatch.setattr(stream, "PIECE", chosen)
    monkeypatch.setattr(stream, "WAVE", 3 * chosen)
    return chosen


def read(text: str | bytes, size: int, threads: int = 2) -> tuple[Rows, Document]:
    data = text.encode() if isinstance(text, str) else text

    def blocks() -> Iterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    reader = ArrayReader(blocks(), KEY, parse, loaded, threads)
    return [row for rows in reader.rows() for row in rows], reader.document


ELEMENTS: Rows = [
    {"n": i, "name": name, "list": [{"k": [i]}, {}], "none": None}
    for i, name in enumerate(
        ["plain", '}, {"', '"rows": [', "]}", "\\", '\\"}, {"n": 1', "\n\t", "caf\u00e9", ""] * 3
    )
]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ({}, {}),
        ({"a": 1}, {}),
        ({}, {"b": 2}),
        ({"a": [{"n": 1}, {"n": 2}]}, {"b": [{"n": 3}, {"n": 4}]}),
        ({"a": {"rows": [{"n": 1}]}}, {"b": {"rows": [{"n": 2}]}}),
        ({"a": [{"rows": []}]}, {"b": '"rows": [{"n": 5}]'}),
        ({"a": '"rows": [{"n": 5}], "'}, {"b": "]}"}),
        ({'"rows': ["}{]["], "rows2": [1]}, {"\\": "\\"}),
    ],
)
def test_elements_and_what_is_around_them_are_told_apart(
    size: int, before: dict[str, Any], behind: dict[str, Any], indent: int | None
) -> None:
    text = json.dumps(before | {KEY: ELEMENTS} | behind, indent=indent)
    rows, document = read(text, size)
    assert rows == ELEMENTS
    assert document.header == before | behind
    assert (document.is_array, document.repairs) == (False, {})


@pytest.mark.parametrize("text", ["[%s]", " \r\n[ %s ]\n ", "[%s\n]"])
def test_the_document_may_be_the_array(size: int, text: str) -> None:
    inside = json.dumps(ELEMENTS)[1:-1]
    rows, document = read(text.replace("%s", inside), size)
    assert rows == ELEMENTS
    assert (document.is_array, document.header, document.repairs) == (True, {}, {})


@pytest.mark.parametrize("text", ['{"rows": []}', '{"rows":[ ] }', "[]", " [ ] "])
def test_an_empty_array_has_no_rows(size: int, text: str) -> None:
    rows, document = read(text, size)
    assert (rows, document.header, document.repairs) == ([], {}, {})


def test_spaces_may_be_anywhere(size: int) -> None:
    space = " " * 100
    rows, document = read(
        f'{{{space}"a"{space}:{space}1,"rows"{space}:{space}[{space}{{"n":1}}{space},{space}'
        f'{{"n":2}}{space}]{space}}}{space}',
        size,
    )
    assert rows == [{"n": 1}, {"n": 2}]
    assert (document.header, document.repairs) == ({"a": 1}, {})


class Backwards(ThreadPoolExecutor):
    """A pool whose later work is done before what came first."""

    def __init__(self, *_: object) -> None:
        super().__init__(1)
        self._given: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        pool = self

        class Late(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                while pool._given:
                    future, work = pool._given.pop()
                    future.set_result(work())
                return super().result(timeout)

        future = Late()
        self._given.append((future, partial(fn, *args, **named)))
        return future


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_keep_their_order_whatever_thread_is_faster(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PIECE", 32)
    monkeypatch.setattr(stream, "WAVE", 64)
    parsed: list[int] = []

    def noted(wave: Wave) -> Parsed[Rows]:
        parsed.append(wave.start)
        return parse(wave)

    text = json.dumps([{"n": i} for i in range(100)]).encode()
    for pool in (ThreadPoolExecutor, Backwards):
        monkeypatch.setattr(stream, "ThreadPoolExecutor", pool)
        parsed.clear()
        blocks = (text[i : i + 100] for i in range(0, len(text), 100))
        reader = ArrayReader(blocks, KEY, noted, loaded, threads)
        assert [row["n"] for rows in reader.rows() for row in rows] == list(range(100))
    assert (parsed == sorted(parsed)) == (threads == 1)


def test_only_the_piece_that_is_broken_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE", 64)
    elements = [json.dumps({"n": i}) for i in range(200)]
    elements[100] = '{"n": NaN}'
    repaired: list[int] = []

    def counted(text: bytes) -> Rows | None:
        rows = loaded(text)
        repaired.append(len(rows or ()))
        return rows

    text = ("[" + ",".join(elements) + "]").encode()
    reader = ArrayReader(iter([text]), KEY, parse, counted, 1)
    rows = [row["n"] for rows in reader.rows() for row in rows]
    assert rows == [*range(100), None, *range(101, 200)]
    assert reader.document.repairs == {"non_finite_number": 1}
    assert reader.document.first == {"non_finite_number": text.index(b"NaN")}
    assert sum(repaired) < 30  # the broken piece, and the last one


@pytest.mark.parametrize("behind", ["", ', "b": "c"', ', "b": [{"n": 3}]', ', "b": [{}], "c": 1'])
@pytest.mark.parametrize("indent", [None, 1])
def test_the_end_of_the_array_needs_no_repair(behind: str, indent: int | None) -> None:
    elements = [{"n": i, "list": [{"k": i}, {}]} for i in range(3)]
    text = f'{{"{KEY}": {json.dumps(elements, indent=indent)}{behind}}}'.encode()
    reader = ArrayReader(iter([text]), KEY, parse, lambda _: pytest.fail("repaired"), 1)
    assert [row for rows in reader.rows() for row in rows] == elements


def test_the_place_of_a_repair_counts_bytes_of_the_whole_text(size: int) -> None:
    text = '{"é": "é", "rows": [' + '{"name": "é", "n": 1}, ' * 20 + '{"n": NaN}, {"n": 0x1}]}'
    _, document = read(text, size)
    data = text.encode()
    assert document.repairs == {"non_finite_number": 1, "hex_number": 1}
    assert document.first == {
        "non_finite_number": data.index(b"NaN"),
        "hex_number": data.index(b"0x1"),
    }


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_the_place_is_that_of_the_first_wherever_waves_end(size: int, damaged: int) -> None:
    """Damage at the end of a wave waits for the next, which may begin with more of it."""
    for length in range(60):
        elements = [json.dumps({"n": "x" * length}), *['{"n": NaN}'] * damaged, '{"n": 0x1}']
        text = "[" + ",".join([*elements, '{"n": 5}', *elements, '{"n": 0x1}']) + "]"
        rows, document = read(text, size, threads=1)
        assert len(rows) == 6 + 2 * damaged
        assert document.repairs == {"non_finite_number": 2 * damaged, "hex_number": 3}
        places = {"non_finite_number": text.index("NaN"), "hex_number": text.index("0x1")}
        assert document.first == places


def test_an_element_that_still_does_not_parse_is_dropped_alone(size: int) -> None:
    def picky(text: bytes) -> Rows | None:
        return None if b"poison" in text else loaded(text)

    def refuses_all(wave: Wave) -> Parsed[Rows]:
        return Parsed(wave, [(0, len(wave), None)])

    rows = [{"n": i, "name": "poison" if i in {3, 7} else "x"} for i in range(12)]
    reader = ArrayReader(iter([json.dumps(rows).encode()]), KEY, refuses_all, picky, 2)
    assert [row["n"] for part in reader.rows() for row in part] == [
        i for i in range(12) if i not in {3, 7}
    ]
    assert reader.document.repairs == {"unreadable_event": 2}
    assert size


@pytest.mark.parametrize(
    "damaged",
    [
        '{"n": 5, "args": {"a": [1}}',
        '{"n": 5, "args": {"a": [1, 2}',
        '{"n": 5, "args": {"a": 1}',
        '"n": 5, "args": {"a": 1}}',
        '{"n": 5, "args": {"a": 1}}}',
        '{"n" 5}',
        '{"n"}',
        "{n: 5}",
        "5}",
        "{",
        "}",
        '{"n": [{"x": 1]}',
        '{"n": 5, "args": {"k": [5]]}}',
        '{"n": 5], "m": 6}',
        '{"n": 5}]',
        '[{"n": 5}',
        '] {"n": 5}',
        '{"n": 5}] {"n": 5}',
    ],
)
def test_damage_costs_no_other_element(size: int, damaged: str) -> None:
    elements = [json.dumps({"n": i, "name": "x" * i, "args": {"k": [i]}}) for i in range(40)]
    elements[5] = damaged
    text = '{"a": 1, "rows": [' + ", ".join(elements) + '], "b": 2}'
    rows, document = read(text, size)
    numbers = [row.get("n") for row in rows]
    assert sorted({n for n in numbers if n in range(6)}) in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])
    assert numbers[-34:] == list(range(6, 40))
    assert document.header == {"a": 1, "b": 2}
    assert document.repairs
    assert "truncated" not in document.repairs


SOUND = '{"a": 1, "rows": [{"n": 1}, {"n": 2, "m": [3]}, {"n": 4}], "b": 2}'


@pytest.mark.parametrize("length", range(SOUND.index("[") + 1, len(SOUND)))
def test_text_that_is_cut_keeps_what_it_holds(size: int, length: int) -> None:
    rows, document = read(SOUND[:length], size)
    ends = [SOUND.index(end) + len(end) for end in ('{"n": 1}', "[3]}", '{"n": 4}')]
    assert [row["n"] for row in rows] == [1, 2, 4][: sum(end <= length for end in ends)]
    assert document.header == {"a": 1}
    if length <= SOUND.index('], "b"'):
        inside_an_element = SOUND.count("{", 0, length) - 1 > SOUND.count("}", 0, length)
        assert document.repairs == {"truncated": int(inside_an_element)}
    else:
        assert document.repairs == {"unreadable_trailer": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("hello", "it is not JSON: Expecting value at line 1 column 1"),
        ('{"a": 1', "it is not JSON: Expecting ',' delimiter at line 1 column 8"),
        ('{\n"a": x}', "it is not JSON: Expecting value at line 2 column 6"),
        ("{} {}", "it is not JSON: Extra data at line 1 column 4"),
        ("{}", "it has no 'rows'"),
        ('{"a": {"rows": 3}}', "it has no 'rows'"),
        ('{"rows": {"n": 1}}', "its 'rows' is not an array"),
        ('{"rows": null}', "its 'rows' is not an array"),
        ("5", "the JSON is of type int, not an object or an array of events"),
        ('"text"', "the JSON is of type str, not an object or an array of events"),
        (b"\xff\xfe{", "it is not JSON: invalid start byte at byte 0 (not UTF-8)"),
        ('{"a":' * 100_000, "it is not JSON: it is nested too deep"),
    ],
)
def test_text_without_the_array_is_refused_with_the_reason(
    size: int, text: str | bytes, why: str
) -> None:
    if len(text) > 1000 * size:
        size = len(text)
    with pytest.raises(NoArrayError) as caught:
        read(text, size)
    assert str(caught.value) == why


def test_elements_far_longer_than_a_piece_are_read(size: int) -> None:
    elements = [{"n": i, "text": "}, {" * 500 + '"'} for i in range(5)]
    rows, document = read(json.dumps({"rows": elements}), size)
    assert rows == elements
    assert document.repairs == {}


def test_an_array_within_an_element_of_another_array_is_not_the_array(size: int) -> None:
    with pytest.raises(NoArrayError, match="it has no 'rows'"):
        read('{"a": [{"rows": [{"n": 1}]}]}', size)


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds a thousandth of what they are."""
    for name, bytes_ in {"PIECE": 128, "WAVE": 8192, "_LONG": 1024, "MOST": 32_768}.items():
        monkeypatch.setattr(stream, name, bytes_)
    monkeypatch.setattr(stream, "_LONGEST", 4096)
    monkeypatch.setattr(opening, "MOST_AROUND", 32_768)


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize("block", [100, 1000, 1 << 20])
@pytest.mark.parametrize(
    "long",
    ['{"n": 1, "text": "%s"}' % ("}]," * 9000), '{"n": 1, "list": [%s0]}' % ("[1, 2], " * 3000)],
)
def test_a_long_element_is_read_with_those_around_it(long: str, block: int) -> None:
    for text in (f'{{"rows": [{{"n": 0}}, {long}, {{"n": 2}}], "b": 1}}', f'[{{"n": 0}}, {long}]'):
        rows, document = read(text, block)
        assert rows[1] == json.loads(long)
        assert [row["n"] for row in rows] == [0, 1, 2][: len(rows)]
        assert document.header == ({"b": 1} if text.startswith("{") else {})
        assert document.repairs == {}


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize("block", [100, 1000])
@pytest.mark.parametrize("unit", ["}],", "[0", "\\\\", "0, "])
def test_an_element_beyond_the_bound_is_passed_over_and_counted(unit: str, block: int) -> None:
    inside = unit * (40_000 // len(unit))
    long = f'{{"n": 1, "text": "{inside}"}}' if unit in {"}],", "\\\\"} else f'{{"n": [{inside}'
    if unit == "[0":
        long += "]" * (inside.count("[") + 1) + "}"
    elif unit == "0, ":
        long += "0]}"
    before = f'{{"rows": [{{"n": 0}}, {long}'
    for behind, numbers in ((', {"n": 2}], "b": 1}', [0, 2]), ('], "b": 1}', [0])):
        rows, document = read(before + behind, block)
        assert [row["n"] for row in rows] == numbers
        assert document.header == {"b": 1}
        assert document.repairs == {"long_event": 1}
        assert 0 <= before.index(long) - document.first["long_event"] <= 1


@pytest.mark.usefixtures("scaled")
def test_an_element_that_never_ends_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def blank(size: int) -> memoryview:
        sizes.append(size)
        return memoryview(bytearray(size))

    monkeypatch.setattr(stream, "blank", blank)
    blocks = itertools.chain([b'{"rows": [{"n": 0}, {"a": "'], itertools.repeat(b"a" * 99, 9999))
    reader = ArrayReader(blocks, KEY, parse, loaded, 2)
    assert [row["n"] for rows in reader.rows() for row in rows] == [0]
    assert reader.document.repairs == {"long_event": 1, "truncated": 0}
    assert sum(sizes) < 200_000


@pytest.mark.usefixtures("scaled")
def test_long_text_behind_the_array_is_passed_over_and_named() -> None:
    for tail in ('"text": "' + "]}, {" * 10_000 + '"', '"list": [' + '{"n": 9}, ' * 10_000 + "0]"):
        rows, document = read(f'{{"a": 1, "rows": [{{"n": 0}}, {{"n": 1}}], {tail}}}', 500)
        assert [row["n"] for row in rows] == [0, 1]
        assert document.header == {"a": 1}
        assert document.repairs == {"unreadable_trailer": 1}


@pytest.mark.usefixtures("scaled")
def test_a_long_header_is_named_and_the_elements_are_read() -> None:
    header = "[" * 300 + "]" * 300
    rows, document = read(f'{{"a": {header}, "rows": [{{"n": 0}}]}}', 500)
    assert [row["n"] for row in rows] == [0]
    assert document.header == {}
    assert document.repairs == {"unreadable_header": 1, "unreadable_trailer": 1}


@pytest.mark.usefixtures("scaled")
def test_text_without_a_mark_is_passed_over_and_not_mended() -> None:
    text = '{"rows": [{"n": 0}, ' + "{}, 0, " * 5000 + '{"n": 1}]}'
    repaired: list[bytes] = []

    def counted(piece: bytes) -> Rows | None:
        repaired.append(piece)
        return loaded(piece)

    blocks = (text[at : at + 500].encode() for at in range(0, len(text), 500))
    reader = ArrayReader(blocks, KEY, parse, counted, 1, mark=b'"n"')
    rows = [row for part in reader.rows() for row in part]
    assert [row["n"] for row in rows if row] == [0, 1]
    assert reader.document.repairs["dropped_junk"] >= 2
    assert sum(map(len, repaired)) < len(text) / 2


def test_events_with_a_missing_quote_are_cut_where_elements_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The brackets of what follows seem to be in strings, and the strings seem to be outside."""
    monkeypatch.setattr(stream, "_LONG", 1024)
    monkeypatch.setattr(stream, "MOST", 2048)
    long = '{"n": 1, "name": x", "text": "%s"}' % ("a" * 1500)
    text = '{"rows": [{"n": 0}, ' + long + ', {"n": 2}, {"n": 3}]}'
    rows, document = read(text, 100)
    assert [row.get("n") for row in rows][-2:] == [2, 3]
    assert document.repairs
