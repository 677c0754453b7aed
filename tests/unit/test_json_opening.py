"""The array is found in time and memory that follow the text up to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from profframe.readers.json import opening as json_opening
from profframe.readers.json.opening import NoArrayError, Opening, Tail, is_readable, opening
from profframe.readers.json.structure import Structure
from tests.members import few

KEY = "rows"


def in_blocks(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each text whose brackets are counted."""
    sizes: list[int] = []
    brackets = Structure._brackets

    def counted(self: Structure, text: bytes) -> tuple[int, int, int]:
        sizes.append(len(text))
        return brackets(self, text)

    monkeypatch.setattr(Structure, "_brackets", counted)
    return sizes


@pytest.mark.parametrize("size", [1, 5, 64, 1 << 20])
@pytest.mark.parametrize(
    "before",
    [
        b'{"rows": [',
        b' \n{"a": "\\"rows\\": [", "rows"  :\n [',
        b'{"a": [' + b"[" * 50 + b'"]"' + b"]" * 50 + b'], "rows":[',
        b'{"a": {"rows": [{"rows": []}]}, "rows": [',
        b'{"a": "' + b"\\\\" * 30 + b'", "rows" :[',
        b'{"rows": 1, "a": "rows", "rows": [',
    ],
)
def test_the_array_opens_at_the_bracket_of_the_documents_own_member(
    before: bytes, size: int
) -> None:
    blocks = in_blocks(before + b'{"n": 1}, {"n": 2}]}', size)
    found = opening(blocks, KEY)
    assert found.before == before.lstrip() or found.before == before
    assert found.text + b"".join(blocks) == b'{"n": 1}, {"n": 2}]}'
    assert found.start == len(before)


@pytest.mark.parametrize("nested", [1000, 8000])
def test_members_of_that_name_in_each_other_are_looked_at_once(
    nested: int, looked_at: list[int]
) -> None:
    text = b'{"a":' + b'{"rows":[' * nested + b"]}" * nested + b"}"
    with pytest.raises(NoArrayError):
        opening(in_blocks(text, 256), KEY)
    assert sum(looked_at) <= 2 * len(text)


def test_what_is_before_the_array_is_looked_at_once(looked_at: list[int]) -> None:
    text = b'{"a": [' + b'{"b": "]"},' * 20_000 + b'0], "rows": ['
    assert opening(in_blocks(text, 1000), KEY) == Opening(text, b"", len(text))
    assert sum(looked_at) == len(text)


def test_white_space_before_the_document_is_not_kept(looked_at: list[int]) -> None:
    spaces = itertools.repeat(b" \n" * 500, 1000)
    found = opening(itertools.chain(spaces, [b' {"rows": [', b"1]}"]), KEY)
    assert found == Opening(b' {"rows": [', b"", 1_000_011)
    assert sum(looked_at) == len(found.before)


@pytest.mark.parametrize(
    "block", few([b"\0" * 100, b'{"a":' * 20, b"7" * 100, b'"' * 99, b"\\" * 100], 3)
)
def test_text_that_goes_on_without_the_array_is_refused(
    block: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_opening, "MOST_AROUND", 1 << 20)
    with pytest.raises(NoArrayError, match="no array 'rows' in its first 1 MB"):
        opening(itertools.repeat(block), KEY)


def test_an_array_behind_damage_is_found_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_opening, "MOST_AROUND", 1000)
    blocks = itertools.chain([b'{"a": x", "rows": ['], itertools.repeat(b'{"n": 1},'))
    assert opening(blocks, KEY).before == b'{"a": x", "rows": ['


def test_a_document_of_very_many_values_is_not_read_to_say_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_opening, "MOST_VALUES", 100)
    monkeypatch.setattr(json_opening, "_loaded", lambda _: pytest.fail("was read"))
    with pytest.raises(NoArrayError, match="no array 'rows'"):
        opening(iter([b'{"a": [' + b"[]," * 200 + b"0]}"]), KEY)


def test_an_integer_that_python_refuses_is_no_fault() -> None:
    with pytest.raises(NoArrayError, match="it has no 'rows'"):
        opening(iter([b'{"a": ' + b"7" * 5000 + b"}"]), KEY)


def test_text_is_readable_up_to_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_opening, "MOST_VALUES", 300)
    monkeypatch.setattr(json_opening, "MOST_AROUND", 2000)
    assert is_readable(b"[" * 256 + b"]" * 256)
    assert not is_readable(b"[" * 257 + b"]" * 257)
    assert is_readable(b"[" + b"0," * 299)
    assert not is_readable(b"[" + b"0," * 300)
    assert is_readable(b'"' + b"a" * 2000 + b'"')
    assert not is_readable(b'"' + b"a" * 2001 + b'"')


def test_text_behind_the_array_is_kept_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_opening, "MOST_AROUND", 10)
    tail = Tail()
    assert (tail.is_started, tail.text()) == (False, b"")
    tail.append(b"12345")
    tail.append(b"67890")
    assert (tail.is_started, tail.text()) == (True, b"1234567890")
    tail.append(b"1")
    assert tail.text() is None
    assert tail.size == 11
