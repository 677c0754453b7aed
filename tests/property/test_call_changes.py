"""Changes of calls: against loops, and how often noise alone is taken for a change."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.analysis.stats.call_differences import LEAST, Calls, Changes, changes, clusters
from tests.oracles import call_changes
from tests.oracles.call_changes import Call

PLACES: Final = 8
UNITS: Final = 4
NAMES: Final = 3
ONE: st.SearchStrategy[tuple[int, int, float]] = st.tuples(
    st.integers(0, PLACES - 1), st.integers(0, 2), st.floats(0, 5)
)
SIDE: st.SearchStrategy[list[tuple[int, int, float]]] = st.lists(ONE, max_size=30)


def arrays(of: list[Call], number: int = 3) -> Calls:
    unit, place, cluster = (np.array([call[field] for call in of], np.int64) for field in range(3))
    return Calls(unit, place, cluster, np.array([call.log for call in of]), number)


@given(
    st.lists(st.integers(0, UNITS - 1), min_size=PLACES, max_size=PLACES),
    st.lists(st.integers(0, NAMES - 1), min_size=UNITS, max_size=UNITS),
    SIDE,
    SIDE,
)
def test_changes_are_those_of_a_loop(
    units: list[int],
    names: list[int],
    base: list[tuple[int, int, float]],
    other: list[tuple[int, int, float]],
) -> None:
    sides = [[Call(units[one[0]], *one) for one in side] for side in (base, other)]
    made = changes(arrays(sides[0]), arrays(sides[1]), np.array(names), np.full(UNITS, 1e3))
    expected = call_changes.changes(sides, names)
    assert set(np.flatnonzero(~np.isnan(made.change)).tolist()) == set(expected)
    for unit, (change, drift, agreed) in expected.items():
        assert made.change[unit] == pytest.approx(change, abs=1e-9)
        assert made.drift[unit] == pytest.approx(drift, abs=1e-9)
        if abs(change) > 1e-6:
            assert made.agreed[unit] == pytest.approx(agreed, abs=1 / PLACES + 1e-9)


def drawn(rng: np.random.Generator, factor: float, steps: int = 3) -> Changes:
    """Twelve kernels with 30 calls a step; all of a run and of a step are slow, and kernel 5 is."""
    units, each = 12, 30
    place = np.tile(np.arange(units * each), steps)
    cluster = np.repeat(np.arange(steps), units * each)
    unit = place // each
    long = np.log(rng.lognormal(10, 1, units))[unit]
    sides = []
    for change in (1.0, factor):
        pace = rng.normal(0, 0.04) + rng.normal(0, 0.03, steps)[cluster]
        own = rng.normal(0, 0.01, units)[unit] + rng.normal(0, 0.05, place.size)
        planted = np.where(unit == 5, np.log(change), 0)
        sides.append(Calls(unit, place, cluster, long + pace + own + planted, steps))
    return changes(sides[0], sides[1], np.arange(units), np.exp(long[::each][:units]) * each)


def evidence(of: Changes) -> list[int]:
    numbers: list[int] = np.flatnonzero((of.p < 0.01 / of.p.size) & of.is_beyond).tolist()
    return numbers


def test_noise_alone_is_no_evidence() -> None:
    rng = np.random.default_rng(7)
    made = [drawn(rng, 1.0) for _ in range(100)]
    assert sum(bool(evidence(of)) for of in made) <= 2


@pytest.mark.parametrize("factor", [1 / 1.5, 1.2, 1.5])
def test_a_change_of_all_calls_in_three_steps_is_evidence(factor: float) -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        made = drawn(rng, factor)
        assert evidence(made) == [5]
        assert made.change[5] == pytest.approx(np.log(factor), abs=LEAST)


def test_neighbouring_steps_are_one_cluster_and_runs_are_their_own() -> None:
    assert clusters(np.zeros(20, np.int64)).tolist() == [n // 4 for n in range(20)]
    assert clusters(np.array([3, 3, 3, 8])).tolist() == [0, 0, 0, 1]
    assert clusters(np.zeros(0, np.int64)).tolist() == []
