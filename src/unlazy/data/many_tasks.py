"""Regression data with many tasks on one design, of the kinds on which shared metrics win, tie or lose.

y_t = x.b_t + noise for tasks t = 1, 2, ..., with Gaussian x and Gaussian b_t drawn from one prior; covariance and
prior are known, so the risk of coefficients and the Bayes risk are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unlazy.checks import check_array, check_choice, check_whole
from unlazy.functions.spectra import power_law

_RELEVANT = 10


@dataclass(frozen=True)
class ManyTasks:
    """One data set. A covariance or prior of shape (d,) is diagonal."""

    design: np.ndarray
    """X, (n, d)."""
    targets: np.ndarray
    """Y = X B + noise, (n, tasks)."""
    coefficients: np.ndarray
    """B, (d, tasks); the best linear predictors."""
    covariance: np.ndarray
    """S = E x x^T, (d,) or (d, d)."""
    prior: np.ndarray
    """E b b^T, (d,) or (d, d)."""
    noise_variance: float
    """Variance of y - x.b."""

    def excess_risk(self, coefficients: np.ndarray, intercept: np.ndarray | float = 0.0) -> float:
        """E (x.b + intercept - x.b_true)^2 for a fresh x, the mean over the tasks: exact, no test set.

        `coefficients` has the shape (d, tasks) of B; that of scikit-learn's `coef_` is its transpose.
        """
        missed = np.asarray(coefficients, dtype=np.float64).reshape(self.coefficients.shape) - self.coefficients
        return float(np.sum(missed * _times(self.covariance, missed)) / missed.shape[1] + np.mean(np.square(intercept)))

    def bayes_risk(self) -> float:
        """The least risk on this design of any estimator that knows prior B, covariance S and noise variance s2.

            tr[S (B - B X^T (X B X^T + s2 I)^-1 X B)]

        It is the expectation over coefficients and noise, so one data set can fall below it.
        """
        projected = _times(self.prior, self.design.T)
        n = len(self.design)
        kernel = self.design @ projected + self.noise_variance * np.eye(n)
        explained = np.linalg.solve(kernel, _times(self.covariance, projected).T)
        return float(_trace_of_product(self.covariance, self.prior) - np.sum(explained * projected.T))


class _Drawn(NamedTuple):
    design: np.ndarray
    covariance: np.ndarray
    prior_root: np.ndarray
    """R with prior R R^T, (d,) if diagonal, else (d, rank)."""


def many_tasks(
    kind: str,
    rng: np.random.Generator,
    n: int = 100,
    d: int = 1000,
    tasks: int = 10,
    noise_variance: float = 0.25,
) -> ManyTasks:
    """Draw one data set of a named kind (the keys of `KINDS`, each explained in its function).

    The coefficients of every task are an independent draw of N(0, prior). All kinds but those with a decaying
    covariance have a signal variance of 1 on average.
    """
    check_choice("kind", kind, KINDS)
    n, tasks = check_whole("n", n, 1), check_whole("tasks", tasks, 1)
    d = check_whole(f"d for kind {kind!r}", d, _LEAST_D.get(kind, 1))
    noise_variance = float(check_array("noise_variance", noise_variance, low=0, ndim=0))
    return _with_targets(rng, KINDS[kind](rng, n, d), tasks, noise_variance)


def diagonal_tasks(
    rng: np.random.Generator, spectrum: np.ndarray, prior: np.ndarray, n: int, tasks: int, noise_variance: float
) -> ManyTasks:
    """Draw tasks with independent features of the variances `spectrum` and coefficients of the variances `prior`."""
    return _with_targets(rng, _independent(rng, n, spectrum, prior), tasks, noise_variance)


def sparse(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """x ~ N(0, I); 10 features at random places carry coefficients of variance 1/10."""
    prior = np.zeros(d)
    prior[rng.permutation(d)[:_RELEVANT]] = 1 / _RELEVANT
    return _independent(rng, n, np.ones(d), prior)


def soft_sparse(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """x ~ N(0, I); coefficient variances j^-2 / sum j^-2 in random order."""
    prior = power_law(d, 2.0)
    return _independent(rng, n, np.ones(d), rng.permutation(prior / prior.sum()))


def power_laws(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """Feature variances 1/j and coefficient variances j^-2: both decay along the axes."""
    return _independent(rng, n, power_law(d, 1.0), power_law(d, 2.0))


def misaligned(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """Feature and coefficient variances 1/j, but coefficient n has variance n: a strong signal on a weak feature."""
    prior = power_law(d, 1.0)
    prior[min(n, d) - 1] = n
    return _independent(rng, n, power_law(d, 1.0), prior)


def dense(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """x ~ N(0, I); every coefficient has variance 1/d. The best ridge is the Bayes estimator."""
    return _independent(rng, n, np.ones(d), np.full(d, 1 / d))


def low_rank(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """x ~ N(0, I); all coefficients lie in a random space of 3 dimensions, with variance 1/3 along each."""
    directions = np.linalg.qr(rng.standard_normal((d, 3)))[0]
    return _Drawn(rng.standard_normal((n, d)), np.ones(d), directions / np.sqrt(3))


def rotated_power_laws(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """`power_laws` in a random orthonormal basis: no feature stands for a direction that matters."""
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    spectrum = power_law(d, 1.0)
    design = (rng.standard_normal((n, d)) * np.sqrt(spectrum)) @ rotation.T
    return _Drawn(design, (rotation * spectrum) @ rotation.T, rotation * np.sqrt(power_law(d, 2.0)))


def autoregressive(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """Neighbouring features are correlated, E x_i x_j = 0.9^|i-j|; coefficients as in `sparse`."""
    correlation = 0.9
    design = rng.standard_normal((n, d))
    for j in range(1, d):
        design[:, j] = correlation * design[:, j - 1] + np.sqrt(1 - correlation**2) * design[:, j]
    prior = np.zeros(d)
    prior[rng.permutation(d)[:_RELEVANT]] = 1 / _RELEVANT
    places = np.arange(d)
    return _Drawn(design, correlation ** np.abs(places[:, None] - places), np.sqrt(prior))


def latent_factors(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """x = L f + e with 5 latent factors of strength 1, L_jk, f and e standard normal; targets are linear in f.

    The coefficients are those of E[w.f | x] for w ~ N(0, I/5).
    """
    return _factors(rng, n, d, np.ones(5), np.full(5, 1 / 5))


def weak_factors(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """As `latent_factors` with 10 factors of strengths 1, 1/2, ..., 1/10; targets see the weakest 5."""
    return _factors(rng, n, d, power_law(10, 1.0), np.repeat([0, 1 / 5], 5))


def graded_groups(rng: np.random.Generator, n: int, d: int) -> _Drawn:
    """x ~ N(0, I) in 20 groups of d/20 features; the coefficient variances of group g = 1, ..., 20 sum to 2^-g."""
    group = np.arange(d) * 20 // d
    return _independent(rng, n, np.ones(d), 2.0 ** -(group + 1) / np.bincount(group)[group])


KINDS: dict[str, Callable[[np.random.Generator, int, int], _Drawn]] = {
    function.__name__: function
    for function in (
        sparse,
        soft_sparse,
        power_laws,
        misaligned,
        dense,
        low_rank,
        rotated_power_laws,
        autoregressive,
        latent_factors,
        weak_factors,
        graded_groups,
    )
}
_LEAST_D = {"sparse": _RELEVANT, "autoregressive": _RELEVANT, "low_rank": 3, "graded_groups": 20}


def _with_targets(rng: np.random.Generator, drawn: _Drawn, tasks: int, noise_variance: float) -> ManyTasks:
    root, (n, d) = drawn.prior_root, drawn.design.shape
    if root.ndim == 1:
        coefficients = root[:, None] * rng.standard_normal((d, tasks))
        prior = root**2
    else:
        coefficients = root @ rng.standard_normal((root.shape[1], tasks))
        prior = root @ root.T
    targets = drawn.design @ coefficients + np.sqrt(noise_variance) * rng.standard_normal((n, tasks))
    return ManyTasks(drawn.design, targets, coefficients, drawn.covariance, prior, noise_variance)


def _independent(rng: np.random.Generator, n: int, spectrum: np.ndarray, prior: np.ndarray) -> _Drawn:
    design = rng.standard_normal((n, len(spectrum))) * np.sqrt(spectrum)
    return _Drawn(design, spectrum, np.sqrt(prior))


def _factors(rng: np.random.Generator, n: int, d: int, strengths: np.ndarray, relevance: np.ndarray) -> _Drawn:
    loadings = rng.standard_normal((d, len(strengths))) * strengths
    design = rng.standard_normal((n, len(strengths))) @ loadings.T + rng.standard_normal((n, d))
    # S^-1 L by the inversion lemma for S = L L^T + I
    regression = np.linalg.solve(np.eye(len(strengths)) + loadings.T @ loadings, loadings.T).T
    return _Drawn(design, loadings @ loadings.T + np.eye(d), regression * np.sqrt(relevance))


def _times(matrix: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return matrix[:, None] * columns if matrix.ndim == 1 else matrix @ columns


def _trace_of_product(first: np.ndarray, second: np.ndarray) -> float:
    if first.ndim == second.ndim:
        return float(np.sum(first * second))
    diagonals = [matrix if matrix.ndim == 1 else np.diagonal(matrix) for matrix in (first, second)]
    return float(np.sum(diagonals[0] * diagonals[1]))
