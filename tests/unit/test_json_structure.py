from __future__ import annotations

from random import Random

import pytest

from profframe.readers.json.structure import IN_STRING, Structure, element_ends


def plain(text: bytes) -> tuple[list[int], int, bool]:
    """Depth before each byte, and at the end, one byte after the other."""
    depths, depth, in_string, is_escaped = [], 0, False, False
    for byte in text:
        depths.append(IN_STRING if in_string else depth)
        if is_escaped and byte in b'"\\':
            is_escaped = False
            continue
        is_escaped = byte == ord("\\")
        if byte == ord('"'):
            in_string = not in_string
        elif not in_string:
            depth += (byte in b"[{") - (byte in b"]}")
    return depths, depth, in_string


@pytest.mark.parametrize("seed", range(300))
def test_depths_are_those_of_a_plain_loop_however_the_text_is_cut(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - texts, no secret
    text = bytes(random.choices(b'[]{}"\\\\a,', k=random.randrange(300)))
    expected, depth, in_string = plain(text)
    looked, skipped, found = Structure(), Structure(), []
    position = 0
    while position < len(text):
        size = random.choice((1, 2, 7, 8, 9, 64, 100))
        found += looked.depths(text[position : position + size]).tolist()
        skipped.skip(text[position : position + size])
        position += size
    assert found == expected
    for structure in (looked, skipped):
        assert (structure.depth, structure.in_string) == (depth, in_string)


def test_no_text_changes_nothing() -> None:
    structure = Structure()
    structure.skip(b'{"a\\')
    assert structure.depths(b"").tolist() == []
    assert structure.depths(b'"b"').tolist() == [IN_STRING] * 3
    assert not structure.in_string


def test_elements_end_at_commas_of_the_array_and_at_its_bracket() -> None:
    structure = Structure()
    commas, end = element_ends(structure, b'{"a": [1, 2]}, "],[", [')
    assert (commas.tolist(), end) == ([13, 20], None)
    commas, end = element_ends(structure, b"1], 2], 3]")
    assert (commas.tolist(), end) == ([2], 5)


def test_a_likely_comma_counts_where_it_would_be_in_a_string() -> None:
    text = b'{"a": x"}, {"b": 1}'
    assert element_ends(Structure(), text)[0].tolist() == []
    assert element_ends(Structure(), text, [9])[0].tolist() == [9]
    assert element_ends(Structure(), b'{"a": [{}, {}]}', [9])[0].tolist() == []
