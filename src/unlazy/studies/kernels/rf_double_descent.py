"""Double descent of random features at n = p, also where both are of order d^2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, at_least, cite, claim, over_theory, path, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.kernels.shared.features import feature_risks, predicted_features

ACTIVATION = "tanh+0.3he2"
ENERGIES = (0.0, 1.0, 0.5, 0.2)
SMALLEST = 1e-4


def _map(axes, map, **_):
    """The risk by samples and features: theory as the ground, means of the simulation as discs in the same colours."""
    from matplotlib.colors import LogNorm

    points = map.simulated.risk.isel(ridge=0).mean("seed").transpose("n", "features")
    ends = [float(end) for size in (points.n, points.features) for end in (size.min(), size.max())]
    sizes = np.geomspace(min(ends) / 1.5, max(ends) * 1.5, 61)
    fixed = int(map.simulated.attrs["d"]), float(map.simulated.attrs["noise_variance"])
    ridges = (float(map.simulated.ridge[0]),)
    theory = predicted_features(ACTIVATION, ENERGIES, sizes[:, None, None], sizes[:, None], *fixed, ridges).risk[..., 0]
    colours: Any = {"norm": LogNorm(float(theory.min()), min(float(theory.max()), 30.0)), "cmap": "viridis"}
    mesh = axes.pcolormesh(sizes, sizes, theory, rasterized=True, **colours)
    p, n = np.meshgrid(points.features, points.n)
    axes.scatter(p, n, c=points.values, edgecolors="white", linewidths=0.8, s=34, **colours)
    axes.set(xscale="log", yscale="log")
    axes.grid(False)
    axes.set_title(rf"theory, simulation as discs, $\lambda = {ridges[0]:g}$")
    axes.figure.colorbar(mesh, ax=axes, label="excess risk")


@dataclass(frozen=True)
class RfDoubleDescent(Study):
    question = (
        "Does the test error of random-feature regression peak where features and samples are equally many, beyond the "
        "scaling in which both are proportional to the dimension?"
    )
    sources = cite("hu2024", "defilippis2024")

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
    figure = panels(
        Panel(
            "risk",
            x="features",
            by="ridge",
            part="curve",
            marks=(Level(lambda data: data.attrs["n"], "$p = n$", vertical=True),),
        ),
        Panel(
            "risk",
            x="features",
            part="map",
            points=False,
            theory=False,
            log="",
            ylabel="samples $n$",
            draw=_map,
        ),
        width=3.8,
        height=3.2,
        caption="Right: the ground is theory, the discs are means of the simulation, in the same colours.",
    )

    @claim("hu2024", "", at_least(1.0), resampled=True)
    def peak(curve):
        """With n = 350 samples in dimension 50, far above d and below d^2, the error has its maximum at p = n: over
        that at any other number of features it is {criterion}."""
        risk = curve.simulated.risk.sel(ridge=SMALLEST).mean("seed")
        n = curve.simulated.attrs["n"]
        return (risk.sel(features=n) / risk).where(risk.features != n, drop=True)

    @claim("hu2024", "", at_least(5.0), resampled=True)
    def height(curve):
        """The peak over the error at the largest number of features is {criterion}."""
        risk = curve.simulated.risk.sel(ridge=SMALLEST).mean("seed")
        risk.sel(features=1200)  # untested without
        return risk.sel(features=curve.simulated.attrs["n"]) / risk.isel(features=-1)

    @claim("defilippis2024", "", within(0.1))
    def theory(curve):
        """Off the peak the deterministic equivalent gives the error {criterion}."""
        deviation = over_theory(curve, "risk")
        return deviation.where(curve.simulated.features != curve.simulated.attrs["n"], drop=True)

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
