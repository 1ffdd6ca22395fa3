"""What the studies of kernel matrices share: A_ij = f(sqrt(d) <x_i, x_j>) / sqrt(n), A_ii = 0, and its laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.functions.orthogonal import Gegenbauer, Krawtchouk
from unlazy.lab import parameter
from unlazy.plotting import style
from unlazy.plotting.panels import Panel
from unlazy.theory.kernels.spectrum import KernelSpectrum, function_spectrum, function_spectrum_limit

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


def finite_law(function: str, n: int, d: int, law: str = "sphere") -> KernelSpectrum:
    """The law at this n and d, for points on the sphere or the hypercube."""
    f, breakpoints = FUNCTIONS[function]
    return function_spectrum(f, Krawtchouk(d) if law == "rademacher" else Gegenbauer(d), n, breakpoints=breakpoints)


def limit_law(function: str, n: int, d: int, exponent: float = 2) -> KernelSpectrum:
    """The law of the theorem for n ~ d^exponent."""
    f, breakpoints = FUNCTIONS[function]
    return function_spectrum_limit(f, n, d, exponent, breakpoints=breakpoints)


def spectrum_panel(
    chosen: Callable[[Any], Any], laws: Callable[[Any], dict[str, KernelSpectrum]], bins: int = 60, **options: Any
) -> Panel:
    """A histogram of the pooled eigenvalues of one chosen case, of which the quantiles tell, and its laws as lines.

    Without a title it has the sizes of the case.
    """

    def draw(axes: Any, **parts: Any) -> None:
        data = chosen(parts[options.get("part", "main")].simulated)
        values = np.sort(data.eigenvalue.values.ravel())
        low, high = values[0], values[-1]
        axes.hist(values, bins=bins, range=(low, high), density=True, color="#c9d3dd", histtype="stepfilled")
        grid = np.linspace(low - 0.06 * (high - low), high + 0.06 * (high - low), 1500)
        if "title" not in options:
            axes.set_title(", ".join(f"${name} = {int(parameter(data, name))}$" for name in ("d", "n")))
        for index, (text, law) in enumerate(laws(data).items()):
            style.theory(axes, grid, law.density(grid), color=style.colour(index), label=text, dashed=index > 0)
            for left, right in law.edges[1:]:
                axes.axvspan(left, right, color=style.colour(1), alpha=0.2, linewidth=0)

    return Panel(xlabel="eigenvalue", ylabel="density", draw=draw, **options)
