"""What `feature_probe` measures: energy along held-out class means, responses to single samples, outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError

_BLOCK = 512
_GRADIENT_ROWS = 1000
# standard errors above which the held-out class means differ along a direction
_RESOLVED = 3.0


class ClassMeans(NamedTuple):
    """Held-out class means, and the directions along which they differ by more than their sampling noise."""

    unit: float
    """What the entries of X were divided by."""
    means: np.ndarray
    """(classes, d)"""
    deviations: np.ndarray
    """Held-out rows minus the mean of their class."""
    codes: np.ndarray
    counts: np.ndarray
    contrasts: np.ndarray
    """(classes, directions): weights of the class means, orthonormal and of sum 0."""
    energies: np.ndarray
    """|sum_c contrast_c mean_c|^2 without the sampling noise of the means, by direction."""

    @property
    def directions(self) -> int:
        return self.energies.size

    def share(self, rows: np.ndarray) -> float:
        """The share of |rows|^2 in the span of the population's class-mean differences; NaN if the rows are 0."""
        largest = np.abs(rows).max()
        if largest == 0:
            return np.nan
        rows = rows / largest
        along = rows @ self.means.T
        squares = np.sum((self.deviations @ rows.T) ** 2, axis=1)
        noise = np.bincount(self.codes, squares, self.counts.size) / (self.counts * (self.counts - 1))
        raw = np.sum((along @ self.contrasts) ** 2, axis=0)
        energy = (raw - (self.contrasts**2).T @ noise) / self.energies
        return float(np.clip(energy.sum() / np.sum(rows**2), 0.0, 1.0))


def class_means(rows: np.ndarray, codes: np.ndarray, classes: int) -> ClassMeans:
    """Estimate them; the noise of a mean is removed from its squares, which would else shrink every share."""
    unit = float(np.abs(rows).max()) or 1.0
    rows = rows / unit
    counts = np.bincount(codes, minlength=classes)
    means = np.stack([rows[codes == code].mean(axis=0) for code in range(classes)])
    deviations = rows - means[codes]
    traces = np.bincount(codes, np.sum(deviations**2, axis=1), classes) / (counts - 1)
    centre = np.eye(classes) - 1 / classes
    gram = centre @ (means @ means.T - np.diag(traces / counts)) @ centre
    energies, contrasts = np.linalg.eigh(gram)
    error = np.sqrt(2 * _squared_covariance(deviations, len(rows) - classes)) * ((contrasts**2).T @ (1 / counts))
    # rounding: the constant vector is an eigenvector of eigenvalue 0
    level = np.maximum(_RESOLVED * error, 1e-12 * np.abs(energies).max())
    kept = np.flatnonzero((energies > level) & (np.abs(contrasts.sum(axis=0)) < 1e-6))[::-1]
    if not kept.size:
        raise InputError(
            f"X_val must tell the classes apart by their means, got {len(rows)} rows whose class means differ by no "
            "more than their sampling noise: give more held-out rows"
        )
    return ClassMeans(unit, means, deviations, codes, counts, contrasts[:, kept], energies[kept])


def _squared_covariance(deviations: np.ndarray, freedom: int) -> float:
    """tr S^2 of the covariance S within classes, without the bias (tr S)^2 / freedom of its estimate."""
    small = deviations.T @ deviations if deviations.shape[1] < len(deviations) else deviations @ deviations.T
    trace = np.trace(small) / freedom
    squared = np.sum(small**2) / freedom**2
    unbiased = (squared - trace**2 / freedom) * freedom**2 / max((freedom - 1) * (freedom + 2), 1)
    return float(max(unbiased, trace**2 / deviations.shape[1]))


def response_gap(change: np.ndarray, means: ClassMeans, rows: np.ndarray, codes: np.ndarray) -> float:
    """1 - mean |change (x - m)|^2 over held-out rows / over training rows, m the held-out mean of the class without x.

    `rows` are the training rows in the unit of the means. Held-out classes count as often as among them.
    """
    largest = np.abs(change).max()
    if largest == 0:
        return np.nan
    change = change / largest
    own = np.sum(((rows - means.means[codes]) @ change.T) ** 2, axis=1).mean()
    left_out = means.deviations * (means.counts / (means.counts - 1))[means.codes][:, None]
    weights = (np.bincount(codes, minlength=means.counts.size) / means.counts)[means.codes]
    new = np.average(np.sum((left_out @ change.T) ** 2, axis=1), weights=weights)
    return float(1 - new / own) if own > 0 else np.nan


class ProbedNetwork:
    """A JAX function network(params, X): its outputs, and the gradient in X of their change since the start."""

    def __init__(self, network: Callable[[Any, Any], Any], initial: Any, classes: int) -> None:
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        def outputs(params: Any, rows: Any) -> Any:
            found = jnp.asarray(network(params, rows))
            n = rows.shape[0]
            if classes == 2 and found.shape in ((n,), (n, 1)):
                return found.reshape(n, 1)
            if found.shape != (n, classes):
                scalar = f"({n},) or " if classes == 2 else ""
                raise InputError(
                    f"network must give outputs of shape {scalar}({n}, {classes}) for {n} rows of {classes} classes, "
                    f"got shape {found.shape}"
                )
            return found

        def gradients(params: Any, start: Any, rows: Any) -> Any:
            """(outputs, n, d); the common part of all outputs of a classifier decides nothing and is removed."""

            def change(rows: Any) -> Any:
                return outputs(params, rows) - outputs(start, rows)

            value, pull_back = jax.vjp(change, rows)
            k = value.shape[1]
            directions = jnp.eye(k, dtype=value.dtype) - (1 / k if k > 1 else 0)
            return jax.lax.map(lambda row: pull_back(jnp.broadcast_to(row, value.shape))[0], directions)

        self.initial = initial
        self._outputs = eqx.filter_jit(outputs)
        self._gradients = eqx.filter_jit(gradients)

    def outputs(self, params: Any, rows: np.ndarray) -> np.ndarray:
        """(n, outputs)"""
        with _explained():
            return np.concatenate([np.asarray(self._outputs(params, part), np.float64) for part in _blocks(rows)])

    def gradients(self, params: Any, rows: np.ndarray) -> np.ndarray:
        """A matrix F of which F^T F sums the outer squares of the gradients at (some of) the rows."""
        at = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _GRADIENT_ROWS)).astype(int))
        stacked = np.zeros((0, rows[0].size))
        for part in _blocks(rows[at]):
            with _explained():
                found = np.asarray(self._gradients(params, self.initial, part), np.float64)
            stacked = np.concatenate([stacked, found.reshape(-1, stacked.shape[1])])
            if len(stacked) > stacked.shape[1]:
                stacked = np.asarray(np.linalg.qr(stacked, mode="r"))
        return stacked


def _blocks(rows: np.ndarray) -> Iterator[Any]:
    import jax.numpy as jnp

    for part in np.array_split(rows, -(-len(rows) // _BLOCK)):
        yield jnp.asarray(part)


@contextmanager
def _explained() -> Iterator[None]:
    """Turns JAX's complaint about a function that it cannot trace into one line."""
    import jax

    try:
        yield
    except jax.errors.JAXTypeError as error:
        raise InputError(
            f"network must be a JAX function of (params, X), got one that cannot be traced: {type(error).__name__}"
        ) from None
