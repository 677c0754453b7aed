"""Student's t, the normal distribution and derivatives of log gamma, by row.

SciPy has them too, in 140 MB; tests compare.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_HALF_STEP: Final = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432)
"""Terms of log(gamma(x + 1/2) / gamma(x)) in odd powers of 1 / x, beside log(x) / 2."""
_SHIFT: Final = 16
"""Series in 1 / x begin here: their first missing term is below the last bit."""
_NORMAL_FROM: Final = 3e3
"""Freedom from which the normal distribution serves, after a transformation."""
_PRECISION: Final = 2e-15
_ITERATIONS: Final = 1000
_STEPS: Final = 50
_SMALL_STEP: Final = 1e-8
"""Digits double in each step of Newton's method, so the one after this would change nothing."""

_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_chance(score: Float64) -> Float64:
    """Probability that a normal variable is at least this far from its mean, in deviations.

    Examples
    --------
    >>> normal_chance(np.array([0.0, 1.959964, 5.0])).round(6).tolist()
    [1.0, 0.05, 1e-06]
    """
    return np.asarray(_erfc(np.abs(score) / math.sqrt(2)), np.float64)


def student_chance(freedom: npt.ArrayLike, score: npt.ArrayLike) -> Float64:
    """Probability that Student's t is at least this far from 0.

    It is NaN where the freedom is not above 0, or either is NaN.

    Examples
    --------
    >>> student_chance([1.0, 4.0, 1e6], [1.0, 2.776445, 1.959966]).round(6).tolist()
    [0.5, 0.05, 0.05]
    """
    pair = np.asarray(freedom, np.float64), np.abs(np.asarray(score, np.float64))
    degrees, distance = np.broadcast_arrays(*pair)
    chance = np.full(distance.shape, np.nan)
    usable = (degrees > 0) & ~np.isnan(distance)
    many = usable & (degrees > _NORMAL_FROM)
    chance[many] = normal_chance(_normal_score(degrees[many], distance[many]))
    few = usable & ~many
    chance[few] = _beta_chance(degrees[few], distance[few])
    return chance


def student_critical(freedom: npt.ArrayLike, chance: float) -> Float64:
    """How far Student's t is from 0 with this probability or more: above 0, NaN as above.

    Examples
    --------
    >>> student_critical([1.0, 4.0, 1e9], 0.05).round(3).tolist()
    [12.706, 2.776, 1.96]
    """
    degrees = np.asarray(freedom, np.float64)
    log = np.zeros(degrees.shape)
    # The logarithm of the chance is concave in that of the distance, so Newton's method ends; a
    # bounded step does not leap to where the chance is 0.
    for _ in range(_STEPS):
        distance = np.exp(log)
        reached = student_chance(degrees, distance)
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = 2 * np.exp(_log_weight(degrees, distance)) / reached
            step = np.clip(np.log(reached / chance) / slope, -1, 1)
        log = log + step
        if not (np.abs(step) > _SMALL_STEP).any():
            break
    result: Float64 = np.exp(log)
    return result


def digamma(x: npt.ArrayLike) -> Float64:
    """Derivative of log gamma, above 0.

    Examples
    --------
    >>> digamma(np.array([1.0, 10.0])).round(6).tolist()
    [-0.577216, 2.251753]
    """
    x = np.asarray(x, np.float64)
    large = x + _SHIFT
    result = np.log(large) - 1 / (2 * large)
    for k, number in enumerate(_BERNOULLI, 1):
        result = result - number / (2 * k * large ** (2 * k))
    for k in range(_SHIFT):
        result = result - 1 / (x + k)
    return np.asarray(result)


def trigamma(x: npt.ArrayLike) -> Float64:
    """Second derivative of log gamma, above 0.

    Examples
    --------
    >>> trigamma(np.array([1.0, 10.0])).round(6).tolist()
    [1.644934, 0.105166]
    """
    x = np.asarray(x, np.float64)
    large = x + _SHIFT
    result = 1 / large + 1 / (2 * large**2)
    for k, number in enumerate(_BERNOULLI, 1):
        result = result + number / large ** (2 * k + 1)
    for k in range(_SHIFT):
        result = result + 1 / (x + k) ** 2
    return np.asarray(result)


def tetragamma(x: npt.ArrayLike) -> Float64:
    """Third derivative of log gamma, above 0.

    Examples
    --------
    >>> tetragamma(np.array([1.0, 10.0])).round(6).tolist()
    [-2.404114, -0.01105]
    """
    x = np.asarray(x, np.float64)
    large = x + _SHIFT
    result = -1 / large**2 - 1 / large**3
    for k, number in enumerate(_BERNOULLI, 1):
        result = result - number * (2 * k + 1) / large ** (2 * k + 2)
    for k in range(_SHIFT):
        result = result - 2 / (x + k) ** 3
    return np.asarray(result)


def _normal_score(freedom: Float64, distance: Float64) -> Float64:
    """The normal score as unlikely as a distance of Student's t (Hill 1970, algorithm 395)."""
    near = freedom - 0.5
    scale = 48 * near**2
    y = near * np.log1p(distance**2 / freedom)
    third = (((-0.4 * y - 3.3) * y - 24) * y - 85.5) / (0.8 * y**2 + 100 + scale)
    result: Float64 = ((third + y + 3) / scale + 1) * np.sqrt(y)
    return result


def _beta_chance(freedom: Float64, distance: Float64) -> Float64:
    """The chance as an incomplete beta function, from the side where its fraction converges."""
    with np.errstate(divide="ignore", over="ignore"):
        near, far = 1 / (1 + distance**2 / freedom), 1 / (1 + freedom / distance**2)
        weight = np.exp(_log_weight(freedom, distance))
    half, other = freedom / 2, np.full(freedom.shape, 0.5)
    is_tail = near < (half + 1) / (half + 2.5)
    a, b = np.where(is_tail, half, other), np.where(is_tail, other, half)
    part = weight * _fraction(a, b, np.where(is_tail, near, far)) / a
    return np.where(is_tail, part, 1 - part)


def _log_weight(freedom: Float64, distance: Float64) -> Float64:
    """Logarithm of x**a * (1 - x)**b / B(a, b), for a of half the freedom and b of 1/2."""
    half = freedom / 2
    with np.errstate(divide="ignore", over="ignore"):
        near, far = -np.log1p(distance**2 / freedom), -np.log1p(freedom / distance**2)
    result: Float64 = half * near + far / 2 + _log_half_step(half) - math.log(math.pi) / 2
    return result


def _log_half_step(x: Float64) -> Float64:
    """Logarithm of gamma(x + 1/2) / gamma(x)."""
    large = x + _SHIFT
    result = np.log(large) / 2
    for k, number in enumerate(_HALF_STEP):
        result = result + number / large ** (2 * k + 1)
    for k in range(_SHIFT):
        result = result - np.log1p(0.5 / (x + k))
    return result


def _fraction(a: Float64, b: Float64, x: Float64) -> Float64:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    value = 1 / (1 - (a + b) * x / (a + 1))
    c, d, open_ = np.ones_like(x), value, np.arange(x.size)
    for k in range(1, _ITERATIONS):
        even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        factor = np.ones(x.shape)
        for term in (even, odd):
            d, c = 1 / (1 + term * d), 1 + term / c
            factor = factor * (c * d)
        value[open_] *= factor
        # What has converged is left: more factors would only add rounding.
        keep = np.abs(factor - 1) > _PRECISION
        a, b, x, c, d = (each[keep] for each in (a, b, x, c, d))
        open_ = open_[keep]
        if not open_.size:
            break
    return value
