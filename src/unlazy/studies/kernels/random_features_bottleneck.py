"""Random features: the scarcer of samples and features decides the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, cite, path, static, value
from unlazy.lab.claims import at_most, changes, claim, within
from unlazy.lab.measures import enough, over_theory, relative_deviation
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.theory.kernels.random_features import feature_regression_equivalent

ENERGIES = (0.0, 1.0, 0.5)
RIDGE = 1e-2
SMALL_RIDGE = 1e-4


def _panel(part, x, other, infinite, label):
    """The risk against one size, and what it is with infinitely many; a line across at the other size."""
    also = Panel(infinite, x=x, by="penalty", part=part, labels=(label,), colours=("#aaaaaa", "#555555"))
    peak = Level(lambda data: data.attrs[other], "$p = n$", vertical=True)
    return Panel("risk", x=x, by="penalty", part=part, marks=(peak,), also=(also,))


@dataclass(frozen=True)
class RandomFeaturesBottleneck(Study):
    question = (
        "Ridge regression uses p random features and n samples on the sphere. When is its error that of the kernel (p"
        " infinite), and when the approximation error of the features (n infinite)?"
    )
    sources = cite("hu2024", "defilippis2024")

    n: int = static(400, "samples", symbol="n", low=1, high=20_000, scale="log")
    width: int = static(800, "random features", symbol="p", low=1, high=20_000, scale="log")
    d: int = static(30, "dimension", symbol="d", low=3, high=10_000)
    noise_variance: float = value(0.1, "variance of the label noise", symbol=r"\sigma^2", low=0, high=1e6)
    penalty: tuple = path(
        (1e-4, 1e-2), "penalty, in |y - Phi a|^2 + penalty |a|^2", symbol=r"\lambda", above=0, scale="log"
    )

    outputs = {
        "risk": Output("excess risk", "", ("penalty",), scale="log"),
        "training_error": Output("training error", "", ("penalty",), scale="log"),
        "kernel_risk": Output("excess risk of the kernel, p infinite", "", ("penalty",), scale="log", theory_only=True),
        "approximation_error": Output("approximation error, n infinite", scale="log", theory_only=True),
    }
    presets = {
        "quick": {
            "widths": {"n": 400, "width": [50, 100, 200, 400, 800, 1600, 3200], "seeds": 14},
            "samples": {"width": 300, "n": [50, 100, 200, 300, 500, 1000, 2000], "seeds": 14},
        },
        "full": {
            "widths": {"n": 400, "width": [50, 100, 200, 300, 400, 600, 800, 1600, 3200, 6400], "seeds": 24},
            "samples": {"width": 300, "n": [50, 100, 200, 250, 300, 400, 500, 1000, 2000, 4000], "seeds": 24},
        },
    }
    broadcasts = ("n",)
    history = changes(
        "theory", "5% at all sizes, where it was 8% without those around n = p", "10 draws were within 3% there"
    )
    lines = {"widths": "width", "samples": "n"}
    figure = panels(
        _panel("widths", "width", "n", "kernel_risk", "$p$ infinite"),
        _panel("samples", "n", "width", "approximation_error", "$n$ infinite"),
        width=3.7,
        height=3.2,
    )

    @claim(
        "hu2024",
        "",
        at_most(1.2),
        departs="The kernel's error is that of the deterministic equivalent, not of a kernel regression that was "
        "simulated.",
    )
    def kernel_limit(widths):
        """With 8 features per sample the error is nearly the kernel's. The ratio of the two is {criterion}."""
        widths.simulated.sel(width=3200)  # untested without
        simulated, predicted = (data.sel(penalty=RIDGE).isel(width=-1) for data in widths)
        return simulated.risk / predicted.kernel_risk

    @claim(
        "hu2024",
        "",
        at_most(0.0),
        resampled=True,
        departs="The source states the limit n = o(p), not that every doubling of p helps.",
    )
    def more_features(widths):
        """Beyond p = 2n every doubling of the features lowers the error. The change of the error, relative to the error
        at p = 2n, is {criterion}."""
        enough(widths.simulated, "width", 3)
        above = widths.simulated.risk.sel(penalty=RIDGE).mean("seed")
        above = above.where(above.width >= 2 * widths.simulated.attrs["n"], drop=True)
        return above.diff("width") / above.isel(width=0)

    @claim(
        "hu2024",
        "",
        at_most(0.3),
        departs="The approximation error is that of the deterministic equivalent at infinite n; the share of 0.3 is "
        "this project's.",
    )
    def approximation_limit(samples):
        """With 2000 samples for 300 features the error is nearly the approximation error. It is larger by a share of
        {criterion}."""
        risk = samples.simulated.risk.sel(penalty=SMALL_RIDGE, n=2000)
        return relative_deviation(risk, samples.predicted.approximation_error.sel(n=2000))

    @claim("defilippis2024", "", within(0.05))
    def theory(widths, samples):
        """One deterministic equivalent gives the error at all sizes, around n = p too, {criterion}."""
        return [over_theory(part, "risk") for part in (widths, samples)]

    def memory(self) -> int:
        return 8 * (3 * self.n * self.width + 6 * self.n * self.n + 4 * 500 * (self.n + self.width))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """The exact expectation over target and noise, given samples, features and test points."""
        from unlazy.training.kernels.sphere import feature_risks

        sizes = self.n, self.d, self.width
        return feature_risks(rng, "relu", ENERGIES, *sizes, self.penalty, self.noise_variance)._asdict()

    def predict(self) -> dict[str, Any]:
        def at(n: float, width: float) -> Any:
            given = n, self.d, width, np.array(self.penalty), self.noise_variance
            return feature_regression_equivalent("relu", ENERGIES, *given)

        finite = at(self.n, self.width)
        return {
            "risk": finite.risk,
            "training_error": finite.training_error,
            "kernel_risk": at(self.n, np.inf).risk,
            "approximation_error": at(np.inf, self.width).risk[0],
        }
