"""Records that are cut out of a pickle many at a time are those that single opcodes give."""

from __future__ import annotations

import io
import pickle
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.errors import ProfframeError, SourceError
from profframe.readers.pickle.contents import FX_FIELDS
from profframe.readers.pickle.records import Chunk, Kind, RecordMachine, _add_shape
from tests.members import few

FIELDS: dict[str, dict[str, Kind]] = {
    "traces": {"action": "text", "addr": "number", "context": "text", "frames": "stack"}
}
FRAMES = [{"name": f"f{i}", "filename": f"/{i}.py", "line": i} for i in range(300)]
Row = dict[str, Any]


class Alone(RecordMachine):
    """Decodes every opcode by itself."""

    def _run(self) -> bool:
        return False


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def decoded(
    data: bytes, kind: type[RecordMachine] = RecordMachine, size: int = 1 << 20
) -> tuple[list[Row], dict[str, int], int]:
    """Rows, keys that are not kept, and how many dicts were decoded alone."""
    rows: list[Row] = []
    alone = []

    def take(chunk: Chunk) -> None:
        for i, number in enumerate(chunk.lists.tolist()):
            row: Row = {"list": number}
            for key, values in chunk.columns.items():
                if chunk.is_there[key][i]:
                    row[key] = int(values[i])
                    if FIELDS["traces"][key] == "text":
                        row[key] = machine.contents.texts[row[key]]
                    elif FIELDS["traces"][key] == "stack":
                        ids = memoryview(machine.contents.stacks[row[key]]).cast("i")
                        row[key] = [machine.contents.frames[i] for i in ids]
            rows.append(row)

    def prepare(_: str, row: dict[Any, Any]) -> dict[Any, Any]:
        alone.append(row)
        return row

    machine = kind(blocks(data, size), "p", FIELDS, frozenset(["traces"]), take, prepare)
    machine.value()
    return rows, machine.contents.unknown_keys, len(alone)


def plain(traces: list[list[Row]]) -> list[Row]:
    """The rows by a loop."""
    rows = []
    for number, records in enumerate(traces):
        for record in records:
            row = {k: v for k, v in record.items() if k in FIELDS["traces"] and v is not None}
            if frames := row.pop("frames", None):
                row["frames"] = [
                    (f.get("name"), f.get("filename"), line_of(f), *map(text_at(f), FX_FIELDS))
                    for f in frames
                ]
            rows.append({"list": number, **row})
    return rows


def text_at(frame: Row) -> Callable[[str], str | None]:
    return lambda key: frame[key] if isinstance(frame.get(key), str) else None


def line_of(frame: Row) -> int | None:
    line = frame.get("line")
    return line if isinstance(line, int) and line < 1 << 63 else None


def text(value: str) -> str:
    """A text of its own, which the memo does not share."""
    return "".join([*value])


def record(i: int, **more: Any) -> Row:
    return {"action": "alloc", "addr": 0x7F00_7D94_2800 + i, "context": text("N/A"),
            **more, "frames": FRAMES[i % 290 : i % 290 + i % 10]}  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"pool_id": (0, 0)}, {"pool_id": (1 << 40, None, -7)}, {"x": True}, {"x": 1.5},
        {"x": None}, {"x": -(1 << 63)}, {"x": "a" * 500}, {"x": (0.5,)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("protocol", few([2, 3, 4, 5], 2))
def test_keys_of_releases_to_come_do_not_keep_records_from_being_cut(
    more: Row, protocol: int
) -> None:
    records = [
        record(i, **{k: (*v,) if type(v) is tuple else v for k, v in more.items()})
        for i in range(4000)
    ]
    rows, unknown, alone = decoded(pickle.dumps({"traces": [records]}, protocol))
    assert rows == plain([records])
    assert unknown == ({} if more == {"x": None} else dict.fromkeys(more, 4000))
    assert alone < 600  # a new frame is in some of the first 300


def test_a_dict_that_is_not_cut_has_no_shape() -> None:
    shapes: list[Any] = []
    _add_shape(shapes, ())
    assert shapes == []


@pytest.mark.parametrize("has_memo", [True, False])
@pytest.mark.parametrize("protocol", few([2, 3, 4, 5], 2))
def test_frames_of_each_record_are_cut_with_it(protocol: int, has_memo: bool) -> None:
    records = [
        {**record(i), "frames": [{**frame} for frame in FRAMES[i % 7 : i % 7 + i % 50]]}
        for i in range(2000)
    ]
    data = dumped([records], protocol, has_memo=has_memo)
    rows, unknown, alone = decoded(data)
    assert (rows, unknown) == (plain([records]), {})
    assert alone < 600


def test_frames_that_some_records_share_are_cut_with_those_of_one() -> None:
    records = [record(i) for i in range(2000)]
    for i, one in enumerate(records):
        shared = FRAMES[i % 290]
        one["frames"] = [shared, {**FRAMES[0]}, {**shared}, shared, FRAMES[1], {**FRAMES[2]}]
    rows, _, alone = decoded(pickle.dumps({"traces": [records]}, 4))
    assert rows == plain([records])
    assert alone < 600


@pytest.mark.parametrize("count", [64, 65, 999, 1000, 1001, 1002, 2001, 9000])
def test_long_lists_of_frames_are_cut(count: int) -> None:
    frames = (FRAMES * (count // 300 + 1))[:count]
    records = [{**record(i), "frames": [*frames]} for i in range(20)]
    rows, _, alone = decoded(pickle.dumps({"traces": [records]}, 4))
    assert rows == plain([records])
    assert alone < 10


def test_a_text_is_taken_that_another_key_put_later() -> None:
    shared = text("later")
    records = [record(i) for i in range(50)]
    records += [record(50, user=shared), {**record(51), "context": shared, "user": text("x")}]
    records += [{**record(i, user=text(f"u{i}"))} for i in range(52, 99)]
    assert decoded(pickle.dumps({"traces": [records]}, 4))[0] == plain([records])


def test_lists_of_torch_in_c_are_memoised_behind_their_items() -> None:
    records = [record(0, x=1), record(1, x=1)]
    start = pickle.dumps({"traces": [records]}, 2).removesuffix(b"eaeu.").removesuffix(b"eas.")
    places = {}
    for key in ("action", "addr", "context", "x", "frames", "alloc"):
        text_of_key = b"X" + len(key).to_bytes(4, "little") + key.encode()
        at = re.search(text_of_key + b"q(.)", start, re.DOTALL)
        assert at
        places[key] = b"h" + at[1]
    body = b"".join(
        b"}(" + places["action"] + places["alloc"] + places["addr"] + b"K" + bytes([i])
        + places["context"] + b"N" + places["x"] + b"K\x01" + places["frames"]
        + (b"](er\x00\x10\x00\x00" if i == 0 else b"j\x00\x10\x00\x00") + b"u"
        for i in range(200)
    )  # fmt: skip
    whole = pickle.dumps({"traces": [records]}, 2)
    assert whole.endswith(b"eas.")
    data = whole.removesuffix(b"eas.") + body + b"eas."
    assert decoded(data)[0] == decoded(data, Alone)[0]
    assert len(decoded(data)[0]) == 202


VALUES: tuple[Any, ...] = (
    0, 255, 256, 65_535, 65_536, -1, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 63, 1 << 90,
    None, True, 2.5, "", "}(", "}\x94(h", "é" * 9, "y" * 300, (1, 2), (), ((1,),), [],
)  # fmt: skip
SEEDS = st.integers(0, 1 << 32)


def dumped(traces: list[list[Row]], protocol: int, *, has_memo: bool = True) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol)
    pickler.fast = not has_memo
    pickler.dump({"traces": traces})
    return file.getvalue()


def frames_made(chance: random.Random, share: float) -> list[Row]:
    """Frames that no other record has, some with an odd value or from elsewhere."""
    keys = chance.sample(["name", "filename", "line"], 3)
    is_shared = chance.random() < 0.5
    frames: list[Row] = []
    for _ in range(chance.choice([0, 1, 2, 3, 9, 50])):
        i = chance.randrange(290)
        frame: Row = {key: FRAMES[i][key] for key in keys}
        if not is_shared:
            frame["name"] = text(frame["name"])
        if chance.random() < share:
            frame["line"] = chance.choice([None, True, 1 << 62, 1 << 63, -1, 2.5])
        if chance.random() < share:
            frame["more"] = chance.choice([None, 1, "x", (1, 2), text("}\x94(h")])
        if chance.random() < share:
            frame[chance.choice(FX_FIELDS)] = chance.choice(["output", text("mm"), None, 3])
        if chance.random() < share:
            del frame[chance.choice([*frame])]
        frames.append(FRAMES[i] if chance.random() < share else frame)
        if chance.random() < share:
            frames.append(frames[-1])
    return frames


def made(chance: random.Random) -> list[list[Row]]:
    """Lists of records of few forms, some with an odd value."""
    odd = chance.choices(VALUES, k=4)
    share = chance.choice([0, 0.02, 0.3])
    own_frames = chance.choice([0, 0.5, 1])
    traces: list[list[Row]] = []
    for _ in range(chance.randrange(3)):
        of_list: list[Row] = []
        for i in range(chance.randrange(300)):
            of = record(chance.randrange(1 << 48))
            if chance.random() < 0.5:
                of["frames"] = of_list[-1].get("frames", []) if of_list else []
            if chance.random() < own_frames:
                of["frames"] = frames_made(chance, share / 4)
            if chance.random() < share:
                of["more"] = chance.choice(odd)
            if chance.random() < share:
                of["addr"] = chance.choice([v for v in odd if type(v) is int] or [i])
            if chance.random() < share:
                del of[chance.choice([*of])]
            of_list.append(of)
        traces.append(of_list)
    return traces


@given(SEEDS, st.sampled_from([2, 3, 4, 5]), st.sampled_from([700, 10_000, 1 << 20]), st.booleans())
def test_rows_are_those_of_a_loop(seed: int, protocol: int, size: int, has_memo: bool) -> None:
    traces = made(random.Random(seed))  # noqa: S311
    data = dumped(traces, protocol, has_memo=has_memo)
    rows, unknown, _ = decoded(data, size=size)
    expected = plain(traces)
    for row in expected:
        if not -(1 << 63) <= row.get("addr", 0) < 1 << 63:
            del row["addr"]
    assert rows == expected
    assert (rows, unknown) == decoded(data, Alone)[:2]


@given(SEEDS)
def test_damage_makes_no_other_rows(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    data = bytearray(pickle.dumps({"traces": made(chance)}, 4))
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    results: list[Any] = []
    for kind in (RecordMachine, Alone):
        try:
            results.append(decoded(bytes(data), kind)[:2])
        except ProfframeError as error:
            results.append(type(error))
    # Single opcodes make text of what is none, and miss what a key that is not kept refers to.
    assert results[0] == results[1] or SourceError in results


def test_a_list_of_one_batch_is_cut_before_it_ends() -> None:
    records = [record(i) for i in range(4000)]
    data = pickle.dumps({"traces": [records]}, 2).replace(b"ue(}", b"u}")
    rows, _, alone = decoded(data)
    assert rows == plain([records])
    assert alone < 600
