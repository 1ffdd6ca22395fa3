"""Double descent of random features at n = p, also where both are of order d^2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, between, path, relative_deviation, static, value
from unlazy.studies.kernels.shared.features import feature_risks, predicted_features
from unlazy.studies.kernels.shared.sphere import DEFILIPPIS, HU

if TYPE_CHECKING:
    import xarray as xr

ACTIVATION = "tanh+0.3he2"
ENERGIES = (0.0, 1.0, 0.5, 0.2)
HU_TEXT = "Hu, Lu & Misiakiewicz 2024"
SMALLEST = 1e-4


def _peak_ratio(part: Part) -> xr.DataArray:
    """The risk at p = n over that at the other numbers of features."""
    risk = part.simulated.risk.sel(ridge=SMALLEST).mean("seed")
    n = part.simulated.attrs["n"]
    return (risk.sel(features=n) / risk).where(risk.features != n, drop=True)


def _last_ratio(part: Part) -> xr.DataArray:
    risk = part.simulated.risk.sel(ridge=SMALLEST).mean("seed")
    return risk.sel(features=part.simulated.attrs["n"]) / risk.isel(features=-1)


def _off_peak(part: Part) -> xr.DataArray:
    deviation = relative_deviation(part.simulated.risk, part.predicted.risk)
    return deviation.where(part.simulated.features != part.simulated.attrs["n"], drop=True)


@dataclass(frozen=True)
class RfDoubleDescent(Study):
    name = "rf-double-descent"
    topic = "kernels"
    question = (
        "Does the test error of random-feature regression peak where features and samples are equally many, beyond the "
        "scaling in which both are proportional to the dimension?"
    )
    caption = (
        "Left: lines are theory, points simulation, means over seeds with 99% intervals; dotted: as many features as "
        "samples. Right: the ground is theory, the discs are means of the simulation, in the same colours."
    )
    sources = (HU, DEFILIPPIS)

    n: int = static(350, "samples", symbol="n", low=1, high=20_000, scale="log")
    features: int = static(500, "random features", symbol="p", low=1, high=20_000, scale="log")
    d: int = static(50, "dimension", symbol="d", low=3, high=10_000)
    noise_variance: float = value(0.1, "variance of the label noise", symbol=r"\sigma^2", low=0, high=1e6)
    ridge: tuple = path((1e-4, 1e-1), "ridge, in |y - Phi a|^2 + ridge |a|^2", symbol=r"\lambda", above=0, scale="log")

    outputs = {
        "risk": Output("excess risk", "", ("ridge",), scale="log"),
        "training_error": Output("training error", "", ("ridge",), scale="log"),
    }
    presets = {
        "quick": {
            "curve": {"n": 350, "features": [50, 100, 175, 250, 350, 500, 700, 1200], "seeds": 16},
            "map": {"n": [50, 150, 450, 1000], "features": [50, 150, 450, 1000], "ridge": [1e-4], "seeds": 2},
        },
        "full": {
            "curve": {"n": 350, "features": [50, 100, 175, 250, 300, 350, 420, 500, 700, 1200, 2500], "seeds": 48},
            "map": {
                "n": [50, 100, 200, 400, 800, 1600],
                "features": [50, 100, 200, 400, 800, 1600],
                "ridge": [1e-4],
                "seeds": 8,
            },
        },
    }
    lines = {"curve": "features"}
    claims = (
        Claim(
            "peak",
            HU_TEXT,
            "With n = 350 samples in dimension 50, far above d and below d^2, the error has its maximum at p = n.",
            at_least(1.0),
            statistic=_peak_ratio,
            parts=("curve",),
            needs={"features": (350,), "ridge": (SMALLEST,)},
        ),
        Claim(
            "height",
            HU_TEXT,
            "The peak is more than 5 times as high as the error at the largest number of features.",
            at_least(5.0),
            statistic=_last_ratio,
            parts=("curve",),
            needs={"features": (350, 1200), "ridge": (SMALLEST,)},
        ),
        Claim(
            "theory",
            "Defilippis, Loureiro & Misiakiewicz 2024",
            "Off the peak the deterministic equivalent gives the error within 10%.",
            between(-0.1, 0.1),
            check=_off_peak,
            parts=("curve",),
        ),
    )

    def memory(self) -> int:
        return 8 * (3 * self.n * self.features + 6 * self.n * self.n + 4 * 500 * (self.n + self.features))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """The exact expectation over target and noise, given samples, features and test points."""
        return feature_risks(rng, ACTIVATION, ENERGIES, self.n, self.features, self.d, self.noise_variance, self.ridge)

    def predict(self) -> dict[str, Any]:
        theory = predicted_features(
            ACTIVATION, ENERGIES, self.n, self.features, self.d, self.noise_variance, self.ridge
        )
        return {"risk": theory.risk, "training_error": theory.training_error}

    def figure(self, curve: Part, map: Part) -> Any:
        from matplotlib.colors import LogNorm

        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.8, height=3.2)
        for index, ridge in enumerate(curve.simulated.ridge.values):
            line, points = curve.lines.sel(ridge=ridge), curve.simulated.sel(ridge=ridge)
            style.theory(left, line.features, line.risk, color=style.colour(index), label=f"ridge {ridge:g}")
            style.simulation(left, points.features, points.risk, color=style.colour(index), marker=style.marker(index))
        left.axvline(curve.simulated.attrs["n"], color="#888888", linestyle=":", linewidth=0.9)
        style.log_scale(left)
        left.set(xlabel=style.label("random features", "p"), ylabel="excess risk")
        left.set_title(f"{curve.simulated.attrs['n']} samples, dimension {curve.simulated.attrs['d']}")
        left.legend()

        points = map.simulated.risk.isel(ridge=0).mean("seed")
        low, high = (
            float(f(min(points.n.min(), points.features.min()), max(points.n.max(), points.features.max())))
            for f in (min, max)
        )
        sizes = np.geomspace(low / 1.5, high * 1.5, 61)
        ridge = (float(map.simulated.ridge[0]),)
        theory = predicted_features(
            ACTIVATION,
            ENERGIES,
            sizes[:, None, None],
            sizes[None, :, None],
            int(map.simulated.attrs["d"]),
            float(map.simulated.attrs["noise_variance"]),
            ridge,
        ).risk[..., 0]
        norm = LogNorm(float(theory.min()), min(float(theory.max()), 30.0))
        mesh = right.pcolormesh(sizes, sizes, theory, norm=norm, cmap="viridis", rasterized=True)
        p, n = np.meshgrid(points.features, points.n)
        values = points.transpose("n", "features").values
        right.scatter(p, n, c=values, norm=norm, cmap="viridis", edgecolors="white", linewidths=0.8, s=34)
        right.set(
            xscale="log", yscale="log", xlabel=style.label("random features", "p"), ylabel=style.label("samples", "n")
        )
        right.grid(False)
        right.set_title(rf"theory, simulation as discs, $\lambda = {ridge[0]:g}$")
        figure.colorbar(mesh, ax=right, label="excess risk")
        return figure
