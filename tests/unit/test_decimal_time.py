"""Microseconds to nanoseconds: rounding, times beyond 64 bits of picoseconds, and those too far."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from profframe.readers.build.decimal_time import SCALE, Times, nanoseconds

FURTHEST = "4611686018427387.903"
"""2**62 - 1 nanoseconds: 146 years."""
TOO_FAR = "4611686018427387.904"
BACK = "-4593239274353678.352"
"""As many upper words before 0 as behind it."""
NOW = "1712195495519689.047"


def times(*microseconds: str | None) -> Times:
    values = [None if text is None else Decimal(text) for text in microseconds]
    return nanoseconds(pa.array(values, pa.decimal128(38, SCALE)))


@pytest.mark.parametrize("beside", [(), (NOW,)], ids=["near", "far"])
def test_picoseconds_are_rounded_half_up(beside: tuple[str, ...]) -> None:
    """Alike where one word holds them, and where another time needs two."""
    given = ("0.000499", "0.0005", "0.001", "-0.0005", "-0.000501", "-0.001", "7.0", None)
    found = times(*given, *beside)
    assert found.ns.to_pylist()[:8] == [0, 1, 1, 0, -1, -1, 7000, None]
    assert found.rounded.tolist()[:8] == [True, True, False, True, True, False, False, False]
    assert not found.bad.any()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (NOW, 1712195495519689047),
        (NOW + "499", 1712195495519689047),
        (NOW + "5", 1712195495519689048),
        ("-" + NOW, -1712195495519689047),
        ("-" + NOW + "501", -1712195495519689048),
        ("9223372036854.775807", 9223372036854776),
        ("9223372036854.775808", 9223372036854776),
        ("-9223372036854.775808", -9223372036854776),
        ("-9223372036854.775809", -9223372036854776),
        ("18446744073709.551615", 18446744073709552),
        ("18446744073709.551616", 18446744073709552),
        ("-18446744073709.551617", -18446744073709552),
        (FURTHEST, 2**62 - 1),
        (FURTHEST + "999", 2**62),
        (BACK, -4593239274353678352),
    ],
)
def test_far_times_are_exact(text: str, ns: int) -> None:
    found = times(text)
    assert found.ns.to_pylist() == [ns]
    assert found.rounded.tolist() == [Decimal(text) * 1000 % 1 != 0]
    assert not found.bad.any()


@pytest.mark.parametrize("text", [TOO_FAR, "-" + TOO_FAR, "9" * 32 + ".0005", "-" + "9" * 32])
def test_what_leaves_no_room_for_a_base_is_bad(text: str) -> None:
    found = times(NOW, text, None, FURTHEST)
    assert found.ns.to_pylist() == [1712195495519689047, None, None, 2**62 - 1]
    assert found.bad.tolist() == [False, True, False, False]
    assert found.rounded.tolist() == [False] * 4


@pytest.mark.parametrize("beside", ["1.5", NOW], ids=["near", "far"])
def test_what_lies_in_the_place_of_a_missing_value_does_not_matter(beside: str) -> None:
    values = [Decimal("9" * 32 + ".0005"), Decimal(beside)]
    _, words = pa.array(values, pa.decimal128(38, SCALE)).buffers()
    second_only = pa.py_buffer(b"\x02")
    found = nanoseconds(pa.Array.from_buffers(pa.decimal128(38, SCALE), 2, [second_only, words]))
    assert found.ns.to_pylist() == [None, int(Decimal(beside) * 1000)]
    assert not found.bad.any()
    assert not found.rounded.any()


def test_a_part_of_an_array_has_its_own_times() -> None:
    values = [Decimal(text) for text in ("1.5", NOW, "-2.25", TOO_FAR)]
    part = pa.array(values, pa.decimal128(38, SCALE)).slice(2, 1)
    assert nanoseconds(part).ns.to_pylist() == [-2250]
    assert nanoseconds(part.slice(0, 0)).ns.to_pylist() == []
