"""Distributions that statistics use: values of tables, and those of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.analysis.stats import distributions
from tests import needs

FREEDOM = st.floats(0.05, 1e8)
SCORES = st.floats(-30, 30)


@pytest.mark.parametrize(
    ("freedom", "chance", "score"),
    [
        (1, 0.05, 12.7062),
        (2, 0.01, 9.9248),
        (10, 0.05, 2.2281),
        (30, 0.001, 3.64596),
        (120, 0.1, 1.6577),
    ],
)
def test_tables_of_students_t(freedom: float, chance: float, score: float) -> None:
    assert distributions.student_critical(freedom, chance) == pytest.approx(score, abs=5e-5)
    assert distributions.student_chance(freedom, score) == pytest.approx(chance, rel=1e-4)
    assert distributions.student_chance(freedom, -score) == pytest.approx(chance, rel=1e-4)


def test_what_has_no_distribution_is_missing() -> None:
    freedom, score = np.array([0, -1, np.nan, 5, 5, 5]), np.array([1, 1, 1, 0, np.inf, np.nan])
    found = distributions.student_chance(freedom, score)
    assert np.array_equal(found, [np.nan, np.nan, np.nan, 1, 0, np.nan], equal_nan=True)
    critical = distributions.student_critical(np.array([np.nan, 0, 10]), 0.05)
    assert np.isnan(critical[:2]).all()
    assert critical[2] == pytest.approx(2.2281, abs=5e-5)


def test_it_is_exact_where_methods_meet() -> None:
    """Neighbours on both sides of the freedom from which the normal distribution serves."""
    around = distributions._NORMAL_FROM * (1 + np.array([-1e-9, 1e-9]))
    for score in (0.1, 1.7, 1.8, 5.0, 20.0):
        below, above = distributions.student_chance(around, score)
        assert below == pytest.approx(above, rel=1e-9)


@pytest.mark.more
class TestScipy:
    @given(freedom=FREEDOM, score=SCORES)
    def test_students_t(self, freedom: float, score: float) -> None:
        special = needs.module("scipy.special")
        expected = 2 * special.stdtr(freedom, -abs(score))
        # Smaller than this SciPy itself rounds to fewer digits.
        wanted = pytest.approx(expected, rel=1e-12, abs=1e-200)
        assert distributions.student_chance(freedom, score) == wanted

    @given(freedom=st.floats(0.5, 1e8), chance=st.floats(1e-6, 0.9))
    def test_its_critical_values(self, freedom: float, chance: float) -> None:
        special = needs.module("scipy.special")
        expected = -special.stdtrit(freedom, chance / 2)
        assert distributions.student_critical(freedom, chance) == pytest.approx(expected, rel=1e-12)

    @given(score=SCORES)
    def test_normal(self, score: float) -> None:
        special = needs.module("scipy.special")
        expected = 2 * special.ndtr(-abs(score))
        assert distributions.normal_chance(np.array(score)) == pytest.approx(expected, rel=1e-12)

    @given(x=st.floats(1e-3, 1e9))
    def test_derivatives_of_log_gamma(self, x: float) -> None:
        special = needs.module("scipy.special")
        first = distributions.digamma(np.array(x))
        assert first == pytest.approx(special.digamma(x), rel=1e-12, abs=1e-14)
        assert distributions.trigamma(x) == pytest.approx(special.polygamma(1, x), rel=1e-12)
        assert distributions.tetragamma(x) == pytest.approx(special.polygamma(2, x), rel=1e-12)
