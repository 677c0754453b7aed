"""Pickles of plain data: every value as pickle has it, and nothing is ever run."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.errors import NotATraceError, ProfframeError, SourceError
from profframe.readers.pickle import limits, plain_values

PROTOCOLS = range(6)
KEYS = st.text() | st.integers() | st.booleans() | st.none()
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner) | st.tuples(inner)
    ),
)


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


@given(PLAIN, st.sampled_from(PROTOCOLS))
def test_values_of_all_protocols(value: object, protocol: int) -> None:
    shared = [value, value]
    assert plain_values(pickle.dumps(shared, protocol)) == shared


@given(st.sets(st.integers()), st.binary())
def test_sets_and_bytes(numbers: set[int], data: bytes) -> None:
    value = [numbers, data, bytearray(data).decode("latin-1"), frozenset(numbers)]
    assert plain_values(pickle.dumps(value, 5)) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b"\x80\x02K\x01K\x020.", 1, id="a value"),
        pytest.param(b"\x80\x02(0K\x05.", 5, id="a mark"),
        pytest.param(b"\x80\x02K\x07(K\x0100.", 7, id="a value, then the mark below it"),
    ],
)
def test_what_is_popped_is_the_value_or_the_mark_on_top(data: bytes, value: int) -> None:
    assert plain_values(data) == value == pickle.loads(data)  # noqa: S301 - it is typed above


def test_text_of_python_2() -> None:
    assert plain_values(b"\x80\x02U\x02ab.") == "ab"
    assert plain_values(b"S'a\\x41'\n.") == "aA"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_run(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "ran"
    with pytest.raises(NotATraceError, match=r"byte [\d,]+: .*GLOBAL of posix\.system"):
        plain_values(pickle.dumps({"segments": [Runs(path)]}, protocol))
    assert not path.exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_container_in_itself(protocol: int) -> None:
    own: list[object] = []
    own.append(own)
    inner: list[object] = []
    outer = {"inner": inner}
    inner.append(outer)
    for value in (own, outer):
        with pytest.raises(SourceError, match=r"byte [\d,]+: .*into another one, or into itself"):
            plain_values(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_memo_that_unfolds(protocol: int) -> None:
    value: list[object] = []
    for _ in range(60):
        value = [value, value]
    with pytest.raises(
        SourceError, match=r"byte [\d,]+: .*shared through the memo, would expand to"
    ):
        plain_values(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    "values", [b"]", b"}", b"\x8f", b"K\x05", b"K\x05q\x05", b"\x8c\x03abc", b"\x8a\x09" + b"a" * 9]
)
def test_what_is_held_has_a_limit(values: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BYTES", 400_000)
    data = b"\x80\x04]" + b"(%se" % (values * 100) * 1000 + b"."
    with pytest.raises(SourceError, match=r"byte [\d,]+: what the pickle holds beside records"):
        plain_values(data)
    pickle.loads(data)  # noqa: S301 - it is made above


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_lies_too_deep(protocol: int) -> None:
    value: list[object] = []
    for _ in range(150):
        value = [value]
    with pytest.raises(SourceError, match=r"byte [\d,]+: .*more than 100 deep"):
        plain_values(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x80\x04]", "ends early, after 3 bytes, within the object that starts at byte 3"),
        (
            b"\x80\x04X\xff\xff",
            "ends early, after 5 bytes, within the object that starts at byte 2",
        ),
        (b"\x80\x04e.", "ends a container that never began"),
        (b"\x80\x04((e.", "takes a value from an empty stack"),
        (b"\x80\x04K\x01(K\x02e.", "adds items to something that is not a list"),
        (b"\x80\x04}(K\x01u.", "a key without a value"),
        (b"\x80\x04}]K\x01s.", "a key of type list"),
        (b"\x80\x04h\x05.", "value 5 of the memo"),
        (b"\x80\x09.", "protocol 9"),
        (b"\x80\x04\xff.", "0xff is not an opcode"),
        (b"\x80\x04\x8b\xff\xff\xff\x7f", "a number of 2,147,483,647 bytes"),
        (b"\x80\x04\x8d" + b"\x7f" * 8, "a text of"),
        (
            b"\x80\x04K\x01r\xff\xff\xff\xff.",
            "it names place 4,294,967,295 of a memo that has 10 at most",
        ),
        (b"L" + b"9" * 5000 + b"L\n.", "it has the number"),
        (b"\x80\x04K\x01K\x02.", "stops with 2 values"),
        (b"\x80\x04\x8c\x01\xff.", "not UTF-8"),
    ],
)
def test_damage_is_named_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError) as error:
        plain_values(data, "FILE")
    assert str(error.value).startswith("FILE: ")
    assert reason in str(error.value)


@given(st.data())
def test_damaged_pickles_end_in_one_error(data: st.DataObject) -> None:
    whole = bytearray(pickle.dumps({"a": [1, "two", (3.0, None)], "b": [{"c": 2**40}] * 3}, 4))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    with suppress(ProfframeError):
        plain_values(bytes(whole))
