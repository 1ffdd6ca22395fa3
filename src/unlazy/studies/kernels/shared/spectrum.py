"""What the studies of kernel matrices share: A_ij = f(sqrt(d) <x_i, x_j>) / sqrt(n), A_ii = 0, and its laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.plotting.panels import Panel

if TYPE_CHECKING:
    from unlazy.theory.kernels.spectrum import KernelSpectrum

DEGREE = 8
LEVELS = tuple(((np.arange(400) + 0.5) / 400).tolist())


def _he2(t: Any) -> Any:
    return (t**2 - 1) / np.sqrt(2)


def _he3(t: Any) -> Any:
    return (t**3 - 3 * t) / np.sqrt(6)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "he2+0.5he3": (lambda t: _he2(t) + 0.5 * _he3(t), ()),
    "0.8he2+0.6he3": (lambda t: 0.8 * _he2(t) + 0.6 * _he3(t), ()),
    "0.6he2+0.8he3": (lambda t: 0.6 * _he2(t) + 0.8 * _he3(t), ()),
    "relu": (lambda t: np.maximum(t, 0.0), (0.0,)),
    "tanh": (np.tanh, ()),
    "sign": (np.sign, (0.0,)),
}
"""Each with its breakpoints; he2, he3 are the normalised Hermite polynomials."""


def eigenvalues(rng: np.random.Generator, function: str, n: int, d: int, law: str = "sphere") -> np.ndarray:
    """The ascending eigenvalues of one drawn kernel matrix."""
    from unlazy.data.unit_vectors import unit_vectors

    x = unit_vectors(rng, n, d, law)
    matrix = FUNCTIONS[function][0](np.sqrt(d) * (x @ x.T)) / np.sqrt(n)
    np.fill_diagonal(matrix, 0.0)
    return np.linalg.eigvalsh(matrix)


def finite_law(function: str, n: int, d: int, law: str = "sphere") -> KernelSpectrum:
    """The law at this n and d, for points on the sphere or the hypercube."""
    from unlazy.functions.orthogonal import Gegenbauer, Krawtchouk, coefficients
    from unlazy.theory.kernels.spectrum import kernel_spectrum

    f, breakpoints = FUNCTIONS[function]
    family = Krawtchouk(d) if law == "rademacher" else Gegenbauer(d)
    found = coefficients(f, family, DEGREE, breakpoints)
    return kernel_spectrum(found.values, family.multiplicities(DEGREE), n, found.tail)


def limit_law(function: str, n: int, d: int, exponent: float) -> KernelSpectrum:
    """The law of the theorem for n ~ d^exponent: degree `exponent` is Marchenko-Pastur, higher ones a semicircle.

    For an exponent between two integers there is only the semicircle.
    """
    from math import factorial

    from unlazy.functions.orthogonal import Hermite, coefficients
    from unlazy.theory.kernels.spectrum import kernel_spectrum_limit

    f, breakpoints = FUNCTIONS[function]
    found = coefficients(f, Hermite(), DEGREE, breakpoints)
    above = int(exponent) + 1
    tail = float(np.sum(found.values[above:] ** 2) + found.tail)
    if exponent != int(exponent):
        return semicircle(tail)
    degree = int(exponent)
    return kernel_spectrum_limit(found.values[degree], factorial(degree) * n / d**degree, tail)


def semicircle(variance: float) -> KernelSpectrum:
    """The semicircle of this variance."""
    from unlazy.theory.kernels.spectrum import KernelSpectrum

    return KernelSpectrum([variance], [0.0])


def kolmogorov_distance(ascending: np.ndarray, law: KernelSpectrum) -> float:
    """sup |empirical CDF - CDF of the law|."""
    n = len(ascending)
    cdf = law.cdf(ascending)
    return float(np.maximum(np.arange(1, n + 1) / n - cdf, cdf - np.arange(n) / n).max())


def spectrum_panel(draw: Callable[..., None], **options: Any) -> Panel:
    """A panel that `draw` fills with histograms of eigenvalues and laws."""
    options = {"log": "", **options}
    return Panel(
        "eigenvalue", x="level", points=False, theory=False, xlabel="eigenvalue", ylabel="density", draw=draw, **options
    )


def draw_spectrum(axes: Any, quantiles: Any, laws: dict[str, KernelSpectrum], bins: int = 60) -> None:
    """The pooled eigenvalues, of which the quantiles tell, as a histogram and the laws as lines."""
    from unlazy.plotting import style

    values = np.sort(np.asarray(quantiles).ravel())
    low, high = values[0], values[-1]
    reach = 0.06 * (high - low)
    axes.hist(values, bins=bins, range=(low, high), density=True, color="#c9d3dd", edgecolor="white", linewidth=0.3)
    grid = np.linspace(low - reach, high + reach, 1500)
    for index, (text, law) in enumerate(laws.items()):
        style.theory(axes, grid, law.density(grid), color=style.colour(index), label=text, dashed=index > 0)
