"""Exports of Nsight Systems with versions in the names of tables, against the one without."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from tests.databases import Row, accounted, found, write
from tests.unit.test_nsys import PLAIN, ROWS, STRINGS

Versions = dict[str, tuple[int | None, list[int]]]
"""For each table the version of its name, and older ones beside it."""


def versions() -> st.SearchStrategy[Versions]:
    one = st.tuples(st.none() | st.integers(2, 99), st.lists(st.integers(2, 99), unique=True))
    return st.fixed_dictionaries(dict.fromkeys(PLAIN, one))


def named(name: str, version: int | None) -> str:
    return name if version is None else f"{name}_V{version}"


def check(drawn: Versions) -> None:
    tables: dict[str, list[Row]] = {}
    others = 0
    for name, (version, beside) in drawn.items():
        older = [number for number in beside if version is None or number < version]
        tables |= {named(name, number): [PLAIN[name][0]] * 2 for number in older}
        tables[named(name, version)] = PLAIN[name]
        others += 2 * len(older)
    with TemporaryDirectory() as folder:
        trace, plain = (
            profframe.load(write(Path(folder) / f"{i}.sqlite", {"StringIds": STRINGS, **each}))
            for i, each in enumerate((tables, PLAIN))
        )
    assert trace.events.select(ROWS).equals(plain.events.select(ROWS))
    assert found(trace).get("unknown_table", 0) == others
    counts = accounted(trace)
    assert sum(counts.values()) == sum(accounted(plain).values()) + others


@settings(max_examples=max(1, settings().max_examples // 3))
@given(versions())
def test_the_newest_is_read_and_the_rest_counted(drawn: Versions) -> None:
    check(drawn)


@pytest.mark.long
@settings(max_examples=50)
@given(versions())
def test_of_many_the_newest_is_read_and_the_rest_counted(drawn: Versions) -> None:
    check(drawn)
