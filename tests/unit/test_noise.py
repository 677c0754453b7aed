"""Tests against noise: numbers by hand, and how often noise alone is called a change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.analysis.stats import noise
from profframe.analysis.stats.noise import LEVEL, Samples, compare, false_discovery
from tests.members import few

Matrix = npt.NDArray[np.float64]
Random = np.random.Generator
Noise = Callable[[Random, int, int], Matrix]

ROWS: Final = 40
COMPARISONS: Final = 200
MOST: Final = 0.05 + 3 * math.sqrt(0.05 * 0.95 / COMPARISONS)
"""The stated rate, and three standard errors of a rate that is found in so many comparisons."""


def samples(matrix: Matrix, runs: Sequence[int] | None = None) -> Samples:
    """Samples of rows by columns, each column a run unless ``runs`` says otherwise; 0 is absent."""
    rows, columns = matrix.shape
    row, sample = np.nonzero(matrix)
    of = np.arange(columns) if runs is None else np.array(runs)
    return Samples(row, sample, matrix[row, sample], rows, of)


def steps(matrix: Matrix) -> Samples:
    return samples(matrix, [0] * matrix.shape[1])


# How often noise alone is a change.


def normal(random: Random, rows: int, columns: int) -> Matrix:
    return 1e6 * (1 + 0.02 * random.standard_normal((rows, columns)))


def uneven_rows(random: Random, rows: int, columns: int) -> Matrix:
    spread = 0.02 * np.exp(random.standard_normal((rows, 1)))
    return 1e6 * np.exp(spread * random.standard_normal((rows, columns)))


def some_loud_rows(random: Random, rows: int, columns: int) -> Matrix:
    spread = np.where(random.random((rows, 1)) < 0.2, 0.2, 0.02)
    return 1e6 * np.exp(spread * random.standard_normal((rows, columns)))


def outliers(random: Random, rows: int, columns: int) -> Matrix:
    late = (random.random((rows, columns)) < 0.05) * random.exponential(0.5, (rows, columns))
    return normal(random, rows, columns) * (1 + late)


def heavy_tails(random: Random, rows: int, columns: int) -> Matrix:
    return 1e6 * np.exp(0.02 * random.standard_t(2, (rows, columns)))


def slow_runs(random: Random, rows: int, columns: int) -> Matrix:
    """All rows of a run are slower together."""
    return normal(random, rows, columns) * np.exp(0.03 * random.standard_normal((1, columns)))


def whole_microseconds(random: Random, rows: int, columns: int) -> Matrix:
    size = np.exp(random.uniform(math.log(3), math.log(3000), (rows, 1)))
    return 1e3 * np.round(size * (1 + 0.02 * random.standard_normal((rows, columns))))


def now_and_then(random: Random, rows: int, columns: int) -> Matrix:
    """In a run or not, by chance."""
    return normal(random, rows, columns) * (random.random((rows, columns)) < 0.5)


def autocorrelated(by: float) -> Noise:
    """Steps of two runs, half the columns each, that begin anew."""

    def made(random: Random, rows: int, columns: int) -> Matrix:
        found = random.standard_normal((rows, columns))
        for column in range(1, columns):
            if column != columns // 2:
                found[:, column] *= math.sqrt(1 - by**2)
                found[:, column] += by * found[:, column - 1]
        return 1e6 * (1 + 0.02 * found)

    return made


def some_autocorrelated(random: Random, rows: int, columns: int) -> Matrix:
    some = rows // 5
    parts = (autocorrelated(0.8)(random, some, columns), normal(random, rows - some, columns))
    return np.concatenate(parts)


def false_alarms(
    of: Noise,
    numbers: tuple[int, int],
    taken: Callable[[Matrix], Samples] = samples,
    louder: float = 1,
    rows: int = ROWS,
) -> float:
    """Part of the comparisons of noise with noise in which any row is called different."""
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(COMPARISONS):
        both = of(random, rows, sum(numbers))
        base, other = both[:, : numbers[0]], both[:, numbers[0] :]
        if louder != 1:
            other = 1e6 + louder * (other - 1e6)
        found = compare(taken(base), taken(other))
        alarms += bool((false_discovery(found.p) <= LEVEL).any())
    return alarms / COMPARISONS


@pytest.mark.parametrize("numbers", few([(3, 3), (5, 5), (3, 8), (10, 10)], [(3, 8)]))
@pytest.mark.parametrize(
    "of",
    few(
        [
            normal,
            uneven_rows,
            some_loud_rows,
            outliers,
            heavy_tails,
            slow_runs,
            whole_microseconds,
            now_and_then,
        ],
        [normal, some_loud_rows, heavy_tails, now_and_then],
    ),
)
def test_repeated_runs_are_seldom_called_different(of: Noise, numbers: tuple[int, int]) -> None:
    assert false_alarms(of, numbers) <= MOST


@pytest.mark.parametrize("numbers", few([(3, 3), (5, 5), (3, 8), (8, 3)], [(8, 3)]))
@pytest.mark.parametrize("louder", [3.0, 10.0])
def test_a_louder_side_is_seldom_called_different(louder: float, numbers: tuple[int, int]) -> None:
    assert false_alarms(normal, numbers, louder=louder) <= MOST


@pytest.mark.parametrize("numbers", few([(2, 2), (3, 3), (5, 5), (3, 8)], [(2, 2), (3, 8)]))
@pytest.mark.parametrize("rows", [1, 4])
def test_so_are_few_rows(rows: int, numbers: tuple[int, int]) -> None:
    assert false_alarms(normal, numbers, rows=rows) <= MOST


@pytest.mark.parametrize("number", [4, 12])
@pytest.mark.parametrize(
    "of", few([normal, outliers, autocorrelated(0.5), autocorrelated(0.8), some_autocorrelated], 3)
)
def test_steps_of_a_run_are_seldom_called_different(of: Noise, number: int) -> None:
    assert false_alarms(of, (number, number), steps) <= MOST


def test_steps_taken_as_independent_would_be() -> None:
    """What the correction for autocorrelation is there for."""
    assert false_alarms(autocorrelated(0.8), (10, 10), samples) > 5 * MOST


def test_runs_that_differ_make_their_steps_no_change() -> None:
    """Steps of a run agree; two runs do not. Taken one by one, the steps would be sure of it."""
    random = np.random.default_rng(5)
    runs = np.repeat(np.arange(3), 10)
    alarms = 0
    for _ in range(COMPARISONS):
        sides = [
            normal(random, ROWS, 30) * (1 + 0.05 * random.standard_normal((ROWS, 3)))[:, runs]
            for _ in range(2)
        ]
        found = compare(*(samples(side, list(runs)) for side in sides))
        alarms += bool((false_discovery(found.p) <= LEVEL).any())
    assert alarms / COMPARISONS <= MOST


# How often a change is found.


def finds(
    number: int, change: float, rows: int, taken: Callable[[Matrix], Samples] = samples
) -> float:
    random = np.random.default_rng(11)
    found = 0
    for _ in range(100):
        base, other = (normal(random, rows, number) for _ in range(2))
        other[0] *= 1 + change
        found += bool(false_discovery(compare(taken(base), taken(other)).p)[0] <= LEVEL)
    return found / 100


@pytest.mark.parametrize("change", few([0.1, -0.1], 1))
@pytest.mark.parametrize(("rows", "least"), [(1, 1.0), (20, 0.95), (100, 0.9), (300, 0.8)])
def test_a_change_of_ten_percent_is_found_in_noise_of_two(
    rows: int, least: float, change: float
) -> None:
    assert finds(5, change, rows) >= least


def test_three_runs_find_a_larger_one() -> None:
    assert finds(3, 0.25, 100) >= 0.9


def test_steps_of_one_run_find_it_too() -> None:
    assert finds(20, 0.1, 100, steps) >= 0.95


def test_changes_everywhere_are_found_everywhere() -> None:
    random = np.random.default_rng(3)
    found = compare(samples(normal(random, 100, 5)), samples(1.08 * normal(random, 100, 5)))
    assert np.mean(false_discovery(found.p) <= LEVEL) > 0.95


def test_intervals_hold_the_change() -> None:
    random = np.random.default_rng(2)
    held = []
    for _ in range(200):
        base, other = (uneven_rows(random, 20, 4) for _ in range(2))
        found = compare(samples(base), samples(other + 1e5))
        held.append((found.low <= 1e5) & (found.high >= 1e5))
    assert 0.93 <= np.mean(held) <= 1


# Numbers by hand.


def test_welch_by_hand() -> None:
    """Two rows are too few to tell what is typical: 10, 12, 14 and 20, 21, 22; t = 9 / sqrt 5/3."""
    base = np.array([[10.0, 12, 14], [5, 5, 5]])
    other = np.array([[20.0, 21, 22], [5, 5, 5]])

    found = compare(samples(base), samples(other))

    freedom = (5 / 3) ** 2 / ((4 / 3) ** 2 / 2 + (1 / 3) ** 2 / 2)  # 50 / 17
    assert freedom == pytest.approx(50 / 17)
    assert found.p.tolist() == pytest.approx([tail(9 / math.sqrt(5 / 3), freedom), 1])
    assert (found.low + found.high).tolist() == pytest.approx([18, 0])
    reach = (found.high[0] - found.low[0]) / 2
    assert tail(reach / math.sqrt(5 / 3), freedom) == pytest.approx(0.05)
    assert found.low[1] == found.high[1] == 0


def tail(t: float, freedom: float) -> float:
    """Both tails of Student's t: the density, added up over its logarithm."""
    constant = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2)
    constant /= math.sqrt(freedom * math.pi)
    x = np.exp(np.linspace(math.log(t), math.log(t) + 40, 400_001))
    density = constant * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    return float(2 * np.trapezoid(density * x, np.log(x)))


def test_what_never_varies_differs_for_sure_or_not_at_all() -> None:
    found = compare(samples(np.full((2, 3), 7.1)), samples(np.array([[7.1] * 4, [7.2] * 4])))
    assert found.p.tolist() == [1, 0]
    assert found.low.tolist() == found.high.tolist()
    assert found.low.tolist() == pytest.approx([0, 0.1])


def test_quiet_rows_are_as_loud_as_is_typical() -> None:
    """The last row happens to agree three times; the others, of its size, vary by 2 %."""
    random = np.random.default_rng(1)
    base, other = (normal(random, 30, 3) for _ in range(2))
    base[-1], other[-1] = [1e6, 1e6 + 1, 1e6 + 2], [1.03e6, 1.03e6 + 1, 1.03e6 + 2]

    alone = compare(samples(base[-1:]), samples(other[-1:])).p
    among = compare(samples(base), samples(other)).p

    assert alone[0] < 1e-8
    assert among[-1] > 0.01


def test_a_row_that_a_side_never_has_is_tested_by_how_often_the_other_has_it() -> None:
    """Fisher's test: of all ways to say in which runs the row is, those with all on one side."""
    random = np.random.default_rng(1)
    for numbers, have in (((3, 3), 3), ((5, 5), 5), ((5, 5), 4), ((3, 5), 2), ((2, 6), 6)):
        base, other = (normal(random, 1, number) for number in numbers)
        base[:] = 0
        other[:, have:] = 0
        runs = [(0, n) for n in range(numbers[0])] + [(1, n) for n in range(numbers[1])]
        ways = list(combinations(runs, have))
        one_sided = [way for way in ways if len({side for side, _ in way}) == 1]
        assert compare(samples(base), samples(other)).p[0] == pytest.approx(
            len(one_sided) / len(ways)
        )


def test_steps_of_several_runs_are_compared_by_runs() -> None:
    """Means of runs 11, 13, 15 and 21, 21, 24; that of two rows stays as it is."""
    base = np.array([[10.0, 12, 12, 14, 14, 16]] * 2)
    other = np.array([[20.0, 22, 20, 22, 23, 25]] * 2)
    runs = [0, 0, 1, 1, 2, 2]

    found = compare(samples(base, runs), samples(other, runs))

    assert found.p[0] == pytest.approx(
        compare(samples(np.array([[11.0, 13, 15]])), samples(np.array([[21.0, 21, 24]]))).p[0]
    )


@given(
    st.lists(st.lists(st.integers(0, 10**15), min_size=5, max_size=5), min_size=1, max_size=12),
    st.integers(1, 4),
    st.booleans(),
)
def test_any_numbers(rows: list[list[int]], split: int, of_one_run: bool) -> None:
    matrix = np.array(rows, np.float64)
    taken = steps if of_one_run else samples
    sides = [taken(part) for part in (matrix[:, :split], matrix[:, split:])]
    assert [side.is_repeated for side in sides] == [split > 1, split < 4]
    if not all(side.is_repeated for side in sides):
        return
    found = compare(*sides)
    parts = false_discovery(found.p)
    change = matrix[:, split:].mean(1) - matrix[:, :split].mean(1)
    assert np.isfinite([found.low, found.high, found.p]).all()
    assert ((found.p >= 0) & (found.p <= 1)).all()
    assert ((parts >= found.p - 1e-12) & (parts <= 1)).all()
    assert (found.low <= change + 1e-9 * abs(change) + 1e-6).all()
    assert (found.high >= change - 1e-9 * abs(change) - 1e-6).all()
    swapped = compare(*sides[::-1])
    assert swapped.p == pytest.approx(found.p)
    assert swapped.low == pytest.approx(-found.high)


def test_rows_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    sides = [now_and_then(random, 50, 6) for _ in range(2)]
    for taken in (samples, steps):
        whole = compare(*map(taken, sides))
        monkeypatch.setattr(noise, "_CELLS", 20)
        assert np.array_equal(compare(*map(taken, sides)).p, whole.p)
        monkeypatch.undo()


@pytest.mark.parametrize("value", [1e-3, 0.1, 1.0, 5.0, 300.0])
def test_inverse_of_trigamma(value: float) -> None:
    """Trigamma is the sum of 1 / (x + k)^2; beyond the last term, about 1 / (x + k - 1/2)."""
    x = noise._inverse_trigamma(value)
    terms = np.arange(200_000)
    assert np.sum(1 / (x + terms) ** 2) + 1 / (x + 199_999.5) == pytest.approx(value, rel=1e-6)


def test_false_discovery_by_hand() -> None:
    p = np.array([0.04, 0.001, 0.03, 0.5])
    assert false_discovery(p) == pytest.approx([0.04 * 4 / 3, 0.004, 0.04 * 4 / 3, 0.5])
    assert false_discovery(np.array([])).size == 0
