"""Kernel ridge regression learns the sphere degree by degree, with a peak of the error at each new degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, between, path, relative_deviation, static, value
from unlazy.studies.kernels.shared.sphere import XIAO, by_degree, target_covariances

if TYPE_CHECKING:
    import xarray as xr

ENERGIES = (0.0, 1.0, 0.3, 0.1)
XIAO_TEXT = "Xiao et al. 2022"
SMALLEST = 1e-6


def _peak(part: Part, at: int, before: int, after: int) -> xr.DataArray:
    """The mean risk at a size over the larger of the mean risks before and after it."""
    risk = part.simulated.risk.sel(ridge=SMALLEST).mean("seed")
    return risk.sel(n=at) / np.maximum(risk.sel(n=before), risk.sel(n=after))


def _deviation(part: Part) -> xr.DataArray:
    away = part.simulated.n >= 60
    return relative_deviation(part.simulated.risk, part.predicted.risk).where(away, drop=True)


@dataclass(frozen=True)
class KrrMultipleDescent(Study):
    name = "krr-multiple-descent"
    topic = "kernels"
    question = (
        "On the sphere in dimension d a dot-product kernel learns linear, quadratic, ... functions around n = d, "
        "d^2/2, ...: does the test error of kernel regression rise again before each step down?"
    )
    caption = (
        "Lines: theory. Points: simulation, means over seeds with 99% intervals. Dotted: the number of functions of a"
        " degree; thin grey lines: the risk of a fit that has learned all up to a degree."
    )
    sources = (XIAO,)

    n: int = static(200, "samples", symbol="n", low=1, high=20_000, scale="log")
    d: int = static(30, "dimension", symbol="d", low=3, high=10_000)
    mass_ratio: float = value(
        0.02, "ratio of the kernel's masses of successive degrees 1, 2, 3", symbol="r", above=0, high=1
    )
    noise_variance: float = value(0.3, "variance of the label noise", symbol=r"\sigma^2", low=0, high=1e6)
    ridge: tuple = path((1e-6, 1e-2, 1e-1), "ridge, next to the kernel matrix", symbol=r"\lambda", above=0, scale="log")

    outputs = {
        "risk": Output("excess risk", "", ("ridge",), scale="log"),
        "training_error": Output("training error", "", ("ridge",), scale="log"),
    }
    presets = {
        "quick": {"n": [10, 20, 30, 45, 60, 100, 200, 330, 464, 650, 1000], "seeds": 12},
        "full": {
            "n": [10, 15, 20, 30, 45, 60, 100, 150, 200, 280, 330, 400, 464, 540, 650, 1000, 1400, 2000, 3000],
            "seeds": 24,
        },
    }
    lines = {"main": "n"}
    claims = (
        Claim(
            "first-peak",
            XIAO_TEXT,
            "Without a ridge to speak of the error peaks at n = N_1 = d: it is larger there than at n = 10 and 100.",
            at_least(1.0),
            statistic=lambda part: _peak(part, 30, 10, 100),
            needs={"n": (10, 30, 100), "ridge": (SMALLEST,)},
        ),
        Claim(
            "second-peak",
            XIAO_TEXT,
            "It peaks again at n = N_2 = 464, about d^2/2: it is larger there than at n = 200 and 1000.",
            at_least(1.0),
            statistic=lambda part: _peak(part, 464, 200, 1000),
            needs={"n": (200, 464, 1000), "ridge": (SMALLEST,)},
        ),
        Claim(
            "theory",
            XIAO_TEXT,
            "One finite-size formula gives the whole curve: the relative deviation is at most 15% for n >= 60.",
            between(-0.15, 0.15),
            check=_deviation,
            needs={"n": (60,)},
        ),
    )

    def memory(self) -> int:
        return 8 * 8 * self.n * (self.n + self._fresh)

    @property
    def _fresh(self) -> int:
        return 500

    @property
    def _masses(self) -> tuple[float, ...]:
        return (0.0, 1.0, self.mass_ratio, self.mass_ratio**2)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """The exact expectation over target and noise, given training and test points."""
        from unlazy.data.unit_vectors import unit_vectors
        from unlazy.training.kernels.ridge import kernel_errors

        x, fresh = unit_vectors(rng, self.n, self.d), unit_vectors(rng, self._fresh, self.d)
        kernel, crossed = (by_degree(points @ x.T, self.d, self._masses) for points in (x, fresh))
        target = target_covariances(x, fresh, ENERGIES)
        return kernel_errors(kernel, crossed, target, self.noise_variance, self.ridge)._asdict()

    def predict(self) -> dict[str, Any]:
        from unlazy.functions.orthogonal import Gegenbauer
        from unlazy.theory.kernels.random_features import kernel_regression_equivalent

        copies = np.array(Gegenbauer(self.d).multiplicities(3), dtype=float)
        theory = kernel_regression_equivalent(
            np.array(self._masses) / copies,
            ENERGIES,
            self.n,
            np.array(self.ridge),
            self.noise_variance,
            multiplicities=copies,
        )
        return {"risk": theory.risk, "training_error": theory.training_error}

    def figure(self, main: Part) -> Any:
        from unlazy.functions.orthogonal import Gegenbauer
        from unlazy.plotting import style

        figure, axes = style.panels(1, 1, width=5.4, height=3.4)
        ridges = main.simulated.ridge.values
        for index, (color, ridge) in enumerate(zip(style.shades(len(ridges))[::-1], ridges, strict=True)):
            line, points = main.lines.sel(ridge=ridge), main.simulated.sel(ridge=ridge)
            style.theory(axes, line.n, line.risk, color=color, label=rf"ridge {ridge:g}")
            style.simulation(axes, points.n, points.risk, color=color, marker=style.marker(index))
        style.log_scale(axes)
        axes.set(xlabel=style.label("samples", "n"), ylabel="excess risk")
        d = main.simulated.attrs.get("d", self.d)
        for degree, size in enumerate(Gegenbauer(int(d)).multiplicities(2)[1:], start=1):
            axes.axvline(size, color="#888888", linestyle=":", linewidth=0.9)
            axes.text(size * 1.06, axes.get_ylim()[1], f"$N_{degree} = {size}$", fontsize=8, va="top")
        for degree in (0, 1):
            axes.axhline(sum(ENERGIES[degree + 1 :]), color="#888888", linewidth=0.6)
        axes.legend(loc="lower left")
        return figure
