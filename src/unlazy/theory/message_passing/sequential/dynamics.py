"""The two-time recursion of `inference.mean_field_residual`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.sequential.tilted_averages import inner_count, message_decorrelation

if TYPE_CHECKING:
    from unlazy.theory.message_passing.sequential.inference import StaticSolution

_TABLE_DEGREES = (32, 64, 128)
_TABLE_ERROR = 1e-7
_MOST_POINTS = 10_000
_LINEAR = 1e-8


def two_time_residual(
    farthest: float, spectral_variance: float, decorrelation: np.polynomial.Chebyshev, rate: float, count: int
) -> np.ndarray:
    """The two-time recursion of `mean_field_residual`; row t of `relax` averages over when a site was last updated."""
    age = np.subtract.outer(np.arange(count), np.arange(count))
    relax = np.where(age >= 0, (1 - rate) ** np.maximum(age, 0) * np.where(np.arange(count) > 0, rate, 1.0), 0.0)
    residual = np.empty(count)
    messages = np.zeros(1)
    for t in range(count):
        fields = np.append(farthest, spectral_variance * messages[:t])
        residual[t] = 2 * relax[t, : t + 1] @ fields
        gained = relax[: t + 1, : t + 1] @ (fields * decorrelation(np.sqrt(fields)))
        messages = np.append((1 - rate) * messages + rate * gained, 0.0)
    return residual


def decorrelation_table(solution: StaticSolution, farthest: float) -> np.polynomial.Chebyshev:
    """G(D)/D on [0, farthest] as a polynomial in sqrt(D), so that G keeps its relative accuracy as D -> 0."""
    if farthest < _LINEAR * solution.cavity_variance:
        spread = solution.spectral_variance
        return np.polynomial.Chebyshev([solution.stability / spread if spread else 0.0])
    beta, gain = solution.inverse_temperature, solution.cavity_variance / solution.posterior_variance
    model = (
        solution.cavity_field_variance,
        solution.cavity_field_overlap,
        solution.teacher_variance,
        beta,
        solution.flip_probability,
    )
    points = inner_count(farthest, solution.cavity_variance, beta)
    if points > _MOST_POINTS:
        raise InputError(
            f"solution must be of a warmer student: inverse_temperature = {beta:g} makes messages jump, which takes "
            f"{points} points per average; at most {_MOST_POINTS} are allowed"
        )

    def exact(roots: np.ndarray) -> np.ndarray:
        return message_decorrelation(roots**2, solution.cavity_variance, *model, gain)

    tail = math.inf
    for degree in _TABLE_DEGREES:
        table = np.polynomial.Chebyshev.interpolate(exact, degree, domain=[0.0, math.sqrt(farthest)])
        tail = float(np.abs(table.coef[-3:]).max() / np.abs(table.coef).max())
        if tail <= _TABLE_ERROR:
            return table
    raise ConvergenceError(
        f"the table of the messages' decorrelation at the inverse temperature {beta:g} misses by {tail:.1e} with "
        f"degree {degree}; tolerated is {_TABLE_ERROR:g}"
    )
