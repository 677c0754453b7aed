"""Student's and the normal distribution, and derivatives of the logarithm of the gamma function.

SciPy has them to as many digits, and a test compares. But `profframe diff` needs them, so SciPy
would be part of every installation: 143 MB of 640, and 0.2 s to import in each comparison. Its
`scipy.stats` takes another 0.5 s, for what is four lines in `noise.false_discovery`.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

_SHIFT: Final = 32
"""From here on, asymptotic series with the coefficients below have the digits of a double."""
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30)
_GAMMA_RATIO: Final = (1, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304)
"""Of ``gamma(x + 1/2) / gamma(x) / sqrt(x)``, in powers of ``1 / x``."""
_MUCH_FREEDOM: Final = 200
"""From here on the normal distribution gives Student's to twelve digits, far out to nine."""
_CLOSE: Final = 1e-14
_MOST_FACTORS: Final = 10_000
_NEWTON_STEPS: Final = 10
_CLOSE_STEP: Final = 1e-8
"""The next step would be the square of this."""


def normal_tail(distance: Float64) -> Float64:
    """Chance of a normal variable above each distance, in standard deviations.

    Examples
    --------
    >>> normal_tail(np.array([0.0, 1.959964])).round(6).tolist()
    [0.5, 0.025]
    """
    tails: Float64 = np.vectorize(math.erfc, otypes=[np.float64])(distance / math.sqrt(2)) / 2
    return tails


def student_tail(distance: Float64, freedom: Float64 | float) -> Float64:
    """Chance of a variable with Student's distribution above each distance, which is not negative.

    Examples
    --------
    >>> student_tail(np.array([0.0, 1.0, 12.7062]), np.array([5.0, 1.0, 1.0])).round(6).tolist()
    [0.5, 0.25, 0.025]
    """
    distance, freedom = np.broadcast_arrays(distance, freedom)
    few = freedom < _MUCH_FREEDOM
    with np.errstate(all="ignore"):  # what is no number stays none
        tail = normal_tail(_as_normal(distance, freedom))
        tail[few] = _by_fraction(distance[few], freedom[few])
    return tail


def _as_normal(distance: Float64, freedom: Float64) -> Float64:
    """The distance above which the normal distribution has as much (Hill 1970, Algorithm 395)."""
    a = freedom - 0.5
    b = 48 * a**2
    square = a * np.log1p(distance**2 / freedom)
    second = (((4 * square + 33) * square + 240) * square + 855) / 10
    series = 1 + ((square + 3) - second / (b + 0.8 * square**2 + 100)) / b
    normal: Float64 = np.sqrt(square) * series
    return normal


def _by_fraction(distance: Float64, freedom: Float64) -> Float64:
    """Half an incomplete beta function: the smaller side's continued fraction.

    Press et al., Numerical Recipes, 6.4.
    """
    half = freedom / 2
    ratio = distance**2 / freedom
    below, above = 1 / (1 + ratio), 1 / (1 + 1 / ratio)
    front = _gamma_ratio(half) * np.exp(-half * np.log1p(ratio)) * np.sqrt(above / math.pi)
    is_far = below < (half + 1) / (half + 2.5)
    first, second = np.where(is_far, half, 0.5), np.where(is_far, 0.5, half)
    part = front * _beta_fraction(first, second, np.where(is_far, below, above)) / first
    tail: Float64 = np.where(is_far, part, 1 - part) / 2
    return tail


def student_quantile(tail: float, freedom: Float64) -> Float64:
    """The distance above which Student's distribution has this much, less than a half.

    Newton's method, in logarithms: far out the tail is a power of the distance.

    Examples
    --------
    >>> student_quantile(0.025, np.array([1.0, 4.0, 1e6])).round(4).tolist()
    [12.7062, 2.7764, 1.96]
    """
    z = NormalDist().inv_cdf(1 - tail)
    with np.errstate(all="ignore"):
        distance = z + (z**3 + z) / 4 / freedom  # the first terms of a series in 1 / freedom
        peak = _gamma_ratio(freedom / 2) / np.sqrt(math.pi * freedom)
        for _ in range(_NEWTON_STEPS):
            chance = student_tail(distance, freedom)
            density = peak * np.exp(-(freedom + 1) / 2 * np.log1p(distance**2 / freedom))
            step = np.log(chance / tail) * chance / (distance * density)
            distance = distance * np.exp(step)
            if not (np.abs(step) > _CLOSE_STEP).any():
                break
    return distance


def polygamma(order: int, x: Float64) -> Float64:
    """Derivative of the logarithm of the gamma function, of positive numbers: 0 is the first.

    Examples
    --------
    >>> polygamma(0, np.array([1.0])).round(6).tolist(), polygamma(1, np.array([1.0])).round(6)
    ([-0.577216], array([1.644934]))
    """
    factorial = math.factorial
    terms = (1 / (np.asarray(x)[..., None] + np.arange(_SHIFT)) ** (order + 1)).sum(-1)
    far = x + _SHIFT
    rest = factorial(order - 1) / far**order if order else -np.log(far)
    rest = rest + factorial(order) / 2 / far ** (order + 1)
    for number, bernoulli in enumerate(_BERNOULLI, 1):
        coefficient = bernoulli * factorial(2 * number + order - 1) / factorial(2 * number)
        rest = rest + coefficient / far ** (2 * number + order)
    derivative: Float64 = (-1) ** (order + 1) * (factorial(order) * terms + rest)
    return derivative


def _gamma_ratio(x: Float64) -> Float64:
    """``gamma(x + 1/2) / gamma(x)``."""
    steps = x[..., None] + np.arange(_SHIFT)
    far = x + _SHIFT
    series = np.polynomial.polynomial.polyval(1 / far, _GAMMA_RATIO)
    ratio: Float64 = (steps / (steps + 0.5)).prod(-1) * np.sqrt(far) * series
    return ratio


def _beta_fraction(a: Float64, b: Float64, x: Float64) -> Float64:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    numerator = np.ones(np.shape(x))
    denominator = 1 / (1 - (a + b) * x / (a + 1))
    fraction = denominator
    for m in range(1, _MOST_FACTORS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        factor = np.ones(np.shape(x))
        for part in (even, odd):
            denominator = 1 / (1 + part * denominator)
            numerator = 1 + part / numerator
            factor = factor * denominator * numerator
        fraction = fraction * factor
        if not (np.abs(factor - 1) > _CLOSE).any():
            break
    return fraction
