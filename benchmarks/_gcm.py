"""A minimal version of how published scripts compute the curve: adaptive quadrature around a scalar minimiser.

One order parameter update takes five integrals by `scipy.integrate.quad` over the field of the student, and each value
of an integrand takes one `scipy.optimize.minimize_scalar` for the proximal point. It shares no code with unlazy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def gcm_point(
    spectrum: np.ndarray, signal: np.ndarray, rho: float, n: float, penalty: float, flip: float = 0.0
) -> dict[str, float]:
    """V, m, q, test error and training loss of logistic regression on the signs of the teacher's field."""
    from scipy.special import erfc

    variance, overlap, norm = min(float(spectrum.sum()) / penalty, 1e4), 0.0, 1e-12
    for _ in range(500):
        hats = [n * integral for integral in _integrals(variance, overlap, norm, rho, flip)]
        weights = 1 / (penalty + hats[0] * spectrum)
        new = (
            float(spectrum @ weights),
            float(hats[2] * (signal @ weights)),
            float(hats[1] * (spectrum**2 @ weights**2) + hats[2] ** 2 * ((signal * spectrum) @ weights**2)),
        )
        change = max(abs(a - b) / abs(a) for a, b in zip(new, (variance, overlap, norm), strict=True))
        variance, overlap, norm = new
        if change < 1e-8:
            break
    else:
        raise ArithmeticError(f"the baseline did not converge: relative change {change:.3g}")
    remainder = rho - overlap**2 / norm

    def share(field: float) -> float:
        return flip + (1 - 2 * flip) * erfc(-overlap / norm * field / np.sqrt(2 * remainder)) / 2

    def loss(field: float) -> float:
        return 2 * share(field) * np.log1p(np.exp(-_prox(field, variance)))

    error = flip + (1 - 2 * flip) * np.arccos(overlap / np.sqrt(rho * norm)) / np.pi
    return {
        "response": variance,
        "overlap": overlap,
        "norm": norm,
        "test_error": error,
        "training_loss": _mean(loss, norm),
    }


def _integrals(variance: float, overlap: float, norm: float, rho: float, flip: float) -> tuple[float, float, float]:
    """-E sum_y Z dg, E sum_y Z g^2 and E sum_y dZ g; both labels give the same."""
    from scipy.special import erfc

    remainder = rho - overlap**2 / norm
    slope = overlap / norm

    def share(field: float) -> float:
        return flip + (1 - 2 * flip) * erfc(-slope * field / np.sqrt(2 * remainder)) / 2

    def density(field: float) -> float:
        mean = slope * field
        return (1 - 2 * flip) * np.exp(-(mean**2) / (2 * remainder)) / np.sqrt(2 * np.pi * remainder)

    def decrease(field: float) -> float:
        margin = _prox(field, variance)
        curvature = 1 / (4 * np.cosh(margin / 2) ** 2)
        return 2 * share(field) * curvature / (1 + variance * curvature)

    def square(field: float) -> float:
        return 2 * share(field) / (1 + np.exp(_prox(field, variance))) ** 2

    def drive(field: float) -> float:
        return 2 * density(field) / (1 + np.exp(_prox(field, variance)))

    return _mean(decrease, norm), _mean(square, norm), _mean(drive, norm)


def _prox(field: float, variance: float) -> float:
    from scipy.optimize import minimize_scalar

    def objective(margin: float) -> float:
        return (margin - field) ** 2 / (2 * variance) + np.logaddexp(0.0, -margin)

    found = minimize_scalar(objective, bounds=(field, field + variance), method="bounded", options={"xatol": 1e-9})
    margin = found.x
    # a minimiser sees a minimum to the root of the rounding error only: one step of Newton's method gives the rest
    share = 1 / (1 + np.exp(margin))
    return margin - (margin - field - variance * share) / (1 + variance * share * (1 - share))


def _mean(function: object, norm: float) -> float:
    from scipy.integrate import quad

    def integrand(deviation: float) -> float:
        return function(np.sqrt(norm) * deviation) * np.exp(-(deviation**2) / 2) / np.sqrt(2 * np.pi)  # type: ignore[operator]

    return quad(integrand, -9, 9, epsabs=1e-10, epsrel=1e-10, limit=500)[0]


def gcm_curve(
    covariance: np.ndarray, cross: np.ndarray, rho: float, n: ArrayLike, penalty: float, flip: float
) -> list[dict[str, float]]:
    """`gcm_point` for each sample size, with one eigendecomposition."""
    spectrum, vectors = np.linalg.eigh(covariance)
    signal = (vectors.T @ cross) ** 2
    return [gcm_point(spectrum, signal, rho, size, penalty, flip) for size in np.atleast_1d(n)]
