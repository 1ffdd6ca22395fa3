"""Random features: the scarcer of samples and features decides the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, path, relative_deviation, static, value
from unlazy.studies.kernels.shared.features import RELU_ENERGIES, feature_risks, predicted_features
from unlazy.studies.kernels.shared.sphere import DEFILIPPIS, HU

if TYPE_CHECKING:
    import xarray as xr

HU_TEXT = "Hu, Lu & Misiakiewicz 2024"
RIDGE = 1e-2
SMALL_RIDGE = 1e-4


def _over_kernel(part: Part) -> xr.DataArray:
    """The risk with the most features over the kernel's."""
    data = part.simulated.sel(ridge=RIDGE).isel(features=-1)
    return data.risk / part.predicted.kernel_risk.sel(ridge=RIDGE).isel(features=-1)


def _steps(part: Part) -> xr.DataArray:
    """The change of the mean risk from each number of features above n to the next, relative."""
    above = part.simulated.risk.sel(ridge=RIDGE).mean("seed")
    above = above.where(above.features >= 2 * part.simulated.attrs["n"], drop=True)
    return above.diff("features") / above.isel(features=0)


@dataclass(frozen=True)
class RfBottleneck(Study):
    name = "rf-bottleneck"
    topic = "kernels"
    question = (
        "Ridge regression on p random features of n samples in the sphere: when is the error that of the kernel "
        "(p infinite), and when the approximation error of the features (n infinite)?"
    )
    caption = (
        "Solid lines: theory. Points: simulation, means over seeds with 99% intervals. Dashed: theory without the "
        "bottleneck, on the left infinitely many features, on the right infinitely many samples. Dotted: as many "
        "features as samples."
    )
    sources = (HU, DEFILIPPIS)

    n: int = static(400, "samples", symbol="n", low=1, high=20_000, scale="log")
    features: int = static(800, "random features", symbol="p", low=1, high=20_000, scale="log")
    d: int = static(30, "dimension", symbol="d", low=3, high=10_000)
    noise_variance: float = value(0.1, "variance of the label noise", symbol=r"\sigma^2", low=0, high=1e6)
    ridge: tuple = path((1e-4, 1e-2), "ridge, in |y - Phi a|^2 + ridge |a|^2", symbol=r"\lambda", above=0, scale="log")

    outputs = {
        "risk": Output("excess risk", "", ("ridge",), scale="log"),
        "training_error": Output("training error", "", ("ridge",), scale="log"),
        "kernel_risk": Output("excess risk of the kernel, p infinite", "", ("ridge",), scale="log", theory_only=True),
        "approximation_error": Output("approximation error, n infinite", scale="log", theory_only=True),
    }
    presets = {
        "quick": {
            "features": {"n": 400, "features": [50, 100, 200, 400, 800, 1600, 3200], "seeds": 8},
            "samples": {"features": 300, "n": [50, 100, 200, 300, 500, 1000, 2000], "seeds": 8},
        },
        "full": {
            "features": {"n": 400, "features": [50, 100, 200, 300, 400, 600, 800, 1600, 3200, 6400], "seeds": 24},
            "samples": {"features": 300, "n": [50, 100, 200, 250, 300, 400, 500, 1000, 2000, 4000], "seeds": 24},
        },
    }
    lines = {"features": "features", "samples": "n"}
    claims = (
        Claim(
            "kernel-limit",
            HU_TEXT,
            "With 8 features per sample the error is within 20% of the kernel's.",
            at_most(1.2),
            check=_over_kernel,
            parts=("features",),
            needs={"features": (3200,), "ridge": (RIDGE,)},
        ),
        Claim(
            "more-features",
            HU_TEXT,
            "Beyond p = 2n every doubling of the features lowers the error.",
            at_most(0.0),
            statistic=_steps,
            parts=("features",),
            needs={"features": 3, "ridge": (RIDGE,)},
        ),
        Claim(
            "approximation-limit",
            HU_TEXT,
            "With 2000 samples for 300 features the error is within 30% of the approximation error.",
            at_most(0.3),
            check=lambda part: relative_deviation(
                part.simulated.risk.sel(ridge=SMALL_RIDGE, n=2000), part.predicted.approximation_error.sel(n=2000)
            ),
            parts=("samples",),
            needs={"n": (2000,), "ridge": (SMALL_RIDGE,)},
        ),
        Claim(
            "theory",
            "Defilippis, Loureiro & Misiakiewicz 2024",
            "One deterministic equivalent gives the error away from n = p (beyond a factor of 1.4): within 8%.",
            between(-0.08, 0.08),
            check=lambda *parts: [_away_from_peak(part) for part in parts],
            parts=("features", "samples"),
        ),
    )

    def memory(self) -> int:
        return 8 * (3 * self.n * self.features + 6 * self.n * self.n + 4 * 500 * (self.n + self.features))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """The exact expectation over target and noise, given samples, features and test points."""
        return feature_risks(rng, "relu", RELU_ENERGIES, self.n, self.features, self.d, self.noise_variance, self.ridge)

    def predict(self) -> dict[str, Any]:
        def at(n: float, features: float) -> Any:
            return predicted_features("relu", RELU_ENERGIES, n, features, self.d, self.noise_variance, self.ridge)

        finite = at(self.n, self.features)
        return {
            "risk": finite.risk,
            "training_error": finite.training_error,
            "kernel_risk": at(self.n, np.inf).risk,
            "approximation_error": at(np.inf, self.features).risk[0],
        }

    def figure(self, features: Part, samples: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.7, height=3.2)
        panels = (
            (left, features, "features", "random features", "p", "n"),
            (right, samples, "n", "samples", "n", "features"),
        )
        for axes, part, axis, label, symbol, fixed in panels:
            ridges = part.simulated.ridge.values
            for index, ridge in enumerate(ridges):
                line, points = part.lines.sel(ridge=ridge), part.simulated.sel(ridge=ridge)
                color = style.colour(index)
                style.theory(axes, line[axis], line.risk, color=color, label=f"ridge {ridge:g}")
                style.simulation(axes, points[axis], points.risk, color=color, marker=style.marker(index))
                if axis == "features":
                    style.theory(axes, line[axis], line.kernel_risk, color=color, dashed=True)
            if axis == "n":
                style.theory(axes, line[axis], line.approximation_error, color="#000000", dashed=True)
            axes.axvline(part.simulated.attrs[fixed], color="#888888", linestyle=":", linewidth=0.9)
            style.log_scale(axes)
            axes.set(xlabel=style.label(label, symbol), ylabel="excess risk")
            axes.legend()
        left.set_title(f"{features.simulated.attrs['n']} samples; dashed: kernel")
        right.set_title(f"{samples.simulated.attrs['features']} features; dashed: approximation error")
        return figure


def _away_from_peak(part: Part) -> xr.DataArray:
    deviation = relative_deviation(part.simulated.risk, part.predicted.risk)
    axis = "features" if "features" in part.simulated.dims else "n"
    other = part.simulated.attrs["n" if axis == "features" else "features"]
    ratio = part.simulated[axis] / other
    return deviation.where((ratio > 1.4) | (ratio < 1 / 1.4), drop=True)
