"""What the studies of kernel matrices share: A_ij = f(sqrt(d) <x_i, x_j>) / sqrt(n), A_ii = 0, and its laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.functions.elementwise import Link, as_link, polynomial
from unlazy.functions.orthogonal import Gegenbauer, Krawtchouk
from unlazy.lab import parameter
from unlazy.plotting import style
from unlazy.plotting.panels import Panel
from unlazy.theory.kernels.spectrum import KernelSpectrum, function_spectrum, function_spectrum_limit

LEVELS = tuple(((np.arange(400) + 0.5) / 400).tolist())


FUNCTIONS: dict[str, Link] = {
    "0.8he1+0.6he2": polynomial([0, 0.8, 0.6]),
    "he2+0.5he3": polynomial([0, 0, 1, 0.5]),
    "0.8he2+0.6he3": polynomial([0, 0, 0.8, 0.6]),
    "0.6he2+0.8he3": polynomial([0, 0, 0.6, 0.8]),
    "0.8he3+0.6he4": polynomial([0, 0, 0, 0.8, 0.6]),
    **{name: as_link(name) for name in ("relu", "tanh", "sign")},
}
"""he1, ..., he4 are the normalised Hermite polynomials."""


def finite_law(kernel_function: str, n: int, d: int, law: str = "sphere") -> KernelSpectrum:
    """The law at this n and d, for points on the sphere or the hypercube."""
    family = Krawtchouk(d) if law == "rademacher" else Gegenbauer(d)
    return function_spectrum(FUNCTIONS[kernel_function], family, n)


def limit_law(kernel_function: str, n: int, d: int, samples_exponent: float = 2) -> KernelSpectrum:
    """The law of the theorem for n ~ d^samples_exponent."""
    return function_spectrum_limit(FUNCTIONS[kernel_function], n, d, samples_exponent)


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
