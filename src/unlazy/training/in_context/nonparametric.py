"""Linear attention on a basis: prompts of random smooth functions, and the fit of Gamma to one prompt of each task.

Tokens are uniform on the grid i/G of the circle, on which sines and cosines up to frequency G/2 - 1 are orthonormal. A
task is a Gaussian series of them. Of n examples only the numbers per grid point matter, and the sums of their noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

_CHUNK = 2048


class SmoothTasks(NamedTuple):
    """f = sum_m sqrt(2 v_m) (b_m cos 2 pi m x + c_m sin 2 pi m x), b and c standard normal."""

    pair_variances: np.ndarray
    """v_m of the frequencies m = 1, ..., G/2 - 1."""

    @classmethod
    def of_smoothness(cls, relative_smoothness: float, grid: int) -> SmoothTasks:
        """v_m = m^-(2 s + 1): the N leading functions miss a variance of order N^(-2 s)."""
        return cls(np.arange(1, grid // 2) ** -(2.0 * relative_smoothness + 1))

    @property
    def grid(self) -> int:
        return 2 * len(self.pair_variances) + 2

    @property
    def variance(self) -> float:
        """E f(x)^2, at every x."""
        return float(2 * self.pair_variances.sum())

    def kernel(self) -> np.ndarray:
        """E f(x) f(x') on the grid."""
        spectrum = np.concatenate([[0.0], self.pair_variances, [0.0]]) * self.grid
        row = np.fft.irfft(spectrum, self.grid)
        return scipy.linalg.toeplitz(row)

    def leading(self, features: int) -> np.ndarray:
        """The first functions on the grid, (G, N), in pairs of cosine and sine."""
        frequencies = np.arange(features) // 2 + 1
        angles = 2 * np.pi * np.outer(np.arange(self.grid) / self.grid, frequencies)
        return 2**0.5 * np.where(np.arange(features) % 2 == 0, np.cos(angles), np.sin(angles))

    def draw(self, rng: np.random.Generator, tasks: int) -> np.ndarray:
        """Tasks on the grid, (tasks, G)."""
        pairs = rng.standard_normal((tasks, 2, len(self.pair_variances)))
        numbers = np.zeros((tasks, self.grid // 2 + 1), complex)
        numbers[:, 1:-1] = (pairs[:, 0] - 1j * pairs[:, 1]) * np.sqrt(self.pair_variances / 2) * self.grid
        return np.fft.irfft(numbers, self.grid, axis=1)


class OrthonormalBasis(NamedTuple):
    """Features phi with E phi phi^T = I whose coefficients are uncorrelated over tasks."""

    functions: np.ndarray
    """On the grid, (G, N)."""
    spectrum: np.ndarray
    """The variances of the tasks' coefficients."""


def orthonormal(functions: np.ndarray, tasks: SmoothTasks) -> OrthonormalBasis:
    """The basis of the same span whose functions are orthonormal and whose coefficients are uncorrelated."""
    basis = scipy.linalg.orth(functions) * len(functions) ** 0.5
    spectrum, vectors = np.linalg.eigh(basis.T @ tasks.kernel() @ basis / len(functions) ** 2)
    return OrthonormalBasis(basis @ vectors[:, ::-1], np.maximum(spectrum[::-1], 0.0))


class NonparametricPrompts(NamedTuple):
    """What attention sees of prompts, and the tasks behind them."""

    summaries: np.ndarray
    """a = (1/n) sum_i y_i phi(x_i), (T, N)."""
    functions: np.ndarray
    """The tasks on the grid, (T, G)."""


def draw_prompts(
    rng: np.random.Generator, tasks: SmoothTasks, count: int, context: int, noise_variance: float, basis: np.ndarray
) -> NonparametricPrompts:
    """One prompt of `context` examples of each of `count` tasks."""
    functions, grid = tasks.draw(rng, count), tasks.grid
    places = rng.integers(0, grid, (count, context)) + grid * np.arange(count)[:, None]
    times = np.bincount(places.ravel(), minlength=count * grid).reshape(count, grid)
    sums = times * functions + np.sqrt(noise_variance * times) * rng.standard_normal((count, grid))
    return NonparametricPrompts(sums @ basis / context, functions)


def fitted_attention(
    rng: np.random.Generator, tasks: SmoothTasks, count: int, context: int, noise_variance: float, basis: np.ndarray
) -> np.ndarray:
    """Gamma by least squares on one prompt and one noisy query of each of `count` tasks."""
    size = basis.shape[1] ** 2
    gram, moment = np.zeros((size, size)), np.zeros(size)
    for start in range(0, count, _CHUNK):
        some = min(_CHUNK, count - start)
        prompts = draw_prompts(rng, tasks, some, context, noise_variance, basis)
        queries = rng.integers(0, tasks.grid, some)
        labels = prompts.functions[np.arange(some), queries] + noise_variance**0.5 * rng.standard_normal(some)
        rows = (prompts.summaries[:, :, None] * basis[queries][:, None, :]).reshape(some, size)
        gram += rows.T @ rows
        moment += rows.T @ labels
    # by QR: several times as fast as by singular values
    return scipy.linalg.lstsq(gram, moment, lapack_driver="gelsy")[0].reshape(basis.shape[1], -1)


def coefficient_error(prompts: NonparametricPrompts, basis: np.ndarray, attention: np.ndarray) -> float:
    """The mean of |b - Gamma^T a|^2 over prompts, b the tasks' coefficients in the basis."""
    coefficients = prompts.functions @ basis / len(basis)
    return float(np.mean(np.sum((coefficients - prompts.summaries @ attention) ** 2, axis=1)))
