"""Distributions against SciPy's, and where there is no number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from profframe.analysis.stats.distributions import (
    Float64,
    normal_tail,
    polygamma,
    student_quantile,
    student_tail,
)
from profframe.analysis.stats.noise import _one_sided, _Side, false_discovery

RANDOM = np.random.default_rng(0)
FREEDOM = np.concatenate([np.arange(1.0, 300), 10 ** RANDOM.uniform(0, 6, 3000)])


def test_student_tail() -> None:
    for distance in (0, 1e-9, 1e-3, 0.1, 0.7, 1, 1.2, 1.5, 1.7, 1.9, 2.5, 4, 7, 30):
        expected = special.stdtr(FREEDOM, -distance)
        far = expected < 1e-20
        tail = student_tail(np.full(FREEDOM.size, float(distance)), FREEDOM)
        assert tail[~far] == pytest.approx(expected[~far], rel=1e-8, abs=0)
        assert (tail[far] < 1e-19).all()


def test_student_tail_for_few_samples_has_all_digits() -> None:
    freedom = FREEDOM[FREEDOM < 100]
    distance = 10 ** RANDOM.uniform(-3, 3, freedom.size)
    expected = special.stdtr(freedom, -distance)
    assert student_tail(distance, freedom) == pytest.approx(expected, rel=1e-12, abs=0)


def test_student_tail_of_one_freedom_for_all() -> None:
    """By hand: with one degree of freedom it is an arc tangent."""
    distance = np.array([0, 1, np.sqrt(3), 1e9])
    assert student_tail(distance, 1) == pytest.approx(
        [1 / 2, 1 / 4, 1 / 6, 1 / np.pi / 1e9], rel=1e-12
    )


@pytest.mark.parametrize("tail", [0.25, 0.025, 0.0005])
def test_student_quantile(tail: float) -> None:
    expected = special.stdtrit(FREEDOM, 1 - tail)
    assert student_quantile(tail, FREEDOM) == pytest.approx(expected, rel=1e-9)


def test_what_is_no_number_stays_none() -> None:
    none = np.array([np.nan])
    one = np.ones(1)
    for result in (
        student_tail(none, one),
        student_tail(one, none),
        student_quantile(0.1, none),
        normal_tail(none),
    ):
        assert np.isnan(result).all()
    assert student_tail(np.array([np.inf]), 3).tolist() == [0]


def test_normal_tail() -> None:
    distance = np.linspace(0, 37, 1000)
    assert normal_tail(distance) == pytest.approx(special.ndtr(-distance), rel=1e-11, abs=0)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_polygamma(order: int) -> None:
    x = 10 ** RANDOM.uniform(-0.4, 6, 1000)
    assert polygamma(order, x) == pytest.approx(special.polygamma(order, x), rel=1e-12, abs=1e-15)


def test_false_discovery() -> None:
    chances = RANDOM.uniform(size=1000) ** 4
    chances[::7] = chances[0]
    expected = stats.false_discovery_control(chances)
    assert false_discovery(chances) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("base", "other"), [(1, 1), (3, 4), (30, 5), (400, 700)])
def test_rows_that_only_one_side_has(base: int, other: int) -> None:
    """Against the hypergeometric distribution: how many of those with the row are of one side."""
    present = np.arange(base + other + 1)
    expected = sum(
        stats.hypergeom.pmf(present, base + other, side, present) for side in (base, other)
    )
    found = _one_sided(_side(present, base), _side(np.zeros_like(present), other))
    assert found == pytest.approx(np.minimum(expected, 1), rel=1e-9, abs=1e-300)


def _side(present: np.ndarray[tuple[int], np.dtype[np.int64]], units: int) -> _Side:
    none: Float64 = np.zeros(present.size)
    return _Side(none, none, none, present, units)
