"""The LASSO against its state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Source, Study, between, parameter, path, static, value
from unlazy.studies.message_passing.shared.evolution import cases, deviation

CASE = ("ratio", "density", "noise")
BAYATI = "Bayati & Montanari 2012, Theorem 1.5 and Corollary 1.6"


@dataclass(frozen=True)
class LassoError(Study):
    """y = A s + noise with A_ij ~ N(0, 1/n), fitted by coordinate descent to a duality gap of 1e-8 |y|^2.

    The nonzero coefficients are quantiles of the normal law, with fixed energy: with their number and energy random the
    error scatters by 20%, as the validated theory found. The criteria, written before the first run, are those of
    `glm-state-evolution`: a 99% interval within 4% for the test error, 5% for the mean squared error and the support,
    8% for the training loss. The first run, with 40 seeds and random values of fixed energy, was inconclusive in the
    first three, and so were a second and a third in the first two, without noise, where the error of 50 nonzero
    coefficients scatters most: the values were fixed, the penalties (0.1, 0.2, 0.4) doubled, the case without noise
    became one with 150 nonzeros, and the seeds were raised to 240; the criteria were not changed.
    """

    name = "lasso-error"
    topic = "message_passing"
    question = "Do error and number of nonzeros of the LASSO follow from density, noise and penalty by state evolution?"
    sources = (
        Source(
            "bayati2012",
            "Bayati, Mohsen and Montanari, Andrea",
            2012,
            "The LASSO risk for Gaussian matrices",
            "IEEE Transactions on Information Theory 58",
        ),
    )

    ratio: float = value(0.6, "samples per coefficient", symbol="n/p", low=0.05, high=20)
    density: float = value(0.1, "share of coefficients that are not 0", above=0, high=1)
    noise: float = value(0.2, "standard deviation of the noise", symbol=r"\sigma", low=0, high=10)
    p: int = static(500, "coefficients", symbol="p", low=10, high=5000)
    penalty: tuple = path((0.2, 0.4, 0.8), "penalty of |s|_1", symbol=r"\lambda", low=1e-3, high=100, scale="log")

    outputs = {
        "test_error": Output("test error", r"\tau^2", ("penalty",), scale="log"),
        "mse": Output("mean squared error per coefficient", "", ("penalty",), scale="log"),
        "nonzeros": Output("share of nonzeros", "", ("penalty",)),
        "train_mse": Output("mean squared residual", "", ("penalty",), scale="log"),
    }
    presets = {
        "quick": {CASE: [(0.6, 0.1, 0.2), (1.0, 0.3, 0.0)], "seeds": 240},
        "full": {
            CASE: [(0.6, 0.1, 0.2), (0.6, 0.1, 0.0), (1.0, 0.3, 0.0)],
            "p": 1000,
            "penalty": [0.05, 0.1, 0.2, 0.4, 0.8],
            "seeds": 200,
        },
    }
    lines = {"main": "penalty"}
    claims = (
        Claim(
            "test-error",
            BAYATI,
            "The squared error on a new row, noise included, is tau^2 of state evolution within 4%, with and without "
            "noise.",
            between(-0.04, 0.04),
            check=deviation("test_error"),
        ),
        Claim(
            "mse",
            BAYATI,
            "The mean squared error of a coefficient is that of state evolution within 5%.",
            between(-0.05, 0.05),
            check=deviation("mse"),
        ),
        Claim(
            "nonzeros",
            BAYATI,
            "The share of nonzero coefficients is that of state evolution within 5%.",
            between(-0.05, 0.05),
            check=deviation("nonzeros"),
        ),
        Claim(
            "train-error",
            BAYATI,
            "The mean squared residual is that of state evolution within 8%.",
            between(-0.08, 0.08),
            check=deviation("train_mse"),
        ),
    )

    def memory(self) -> int:
        return 16 * int(self.ratio * self.p + 1) * self.p

    def _values(self) -> np.ndarray:
        """The nonzero coefficients: quantiles of the normal law, with the energy of `density`."""
        from scipy.special import ndtri

        count = max(round(self.density * self.p), 1)
        values = ndtri((np.arange(count) + 0.5) / count)
        values = np.ones(1) if count == 1 else values
        return values * np.sqrt(self.density * self.p / (values @ values))

    def simulate(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One data set, all penalties: each fit starts from the one at the next larger penalty."""
        from sklearn.linear_model import lasso_path

        n = max(round(self.ratio * self.p), 1)
        values = self._values()
        signal = np.zeros(self.p)
        signal[: values.size] = values
        design = np.asfortranarray(rng.standard_normal((n, self.p)) / np.sqrt(n))
        y = design @ signal + self.noise * rng.standard_normal(n)
        penalties = np.asarray(self.penalty, dtype=float)
        order = np.argsort(-penalties)
        fits = np.empty((self.p, penalties.size))
        fits[:, order] = lasso_path(design, y, alphas=penalties[order] / n, tol=1e-8, max_iter=100_000)[1]
        errors = ((fits - signal[:, None]) ** 2).sum(axis=0)
        return {
            "test_error": self.noise**2 + errors / n,
            "mse": errors / self.p,
            "nonzeros": (fits != 0).mean(axis=0),
            "train_mse": ((y[:, None] - design @ fits) ** 2).mean(axis=0),
        }

    def predict(self) -> dict[str, np.ndarray]:
        from unlazy.theory.message_passing.lasso import lasso_state_evolution

        ratio = max(round(self.ratio * self.p), 1) / self.p
        theory = lasso_state_evolution(ratio, np.array(self.penalty), float(self.density), float(self.noise) ** 2)
        return {
            "test_error": theory.effective_noise**2,
            "mse": theory.mse,
            "nonzeros": theory.nonzeros,
            "train_mse": theory.train_mse,
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        shown = {"mse": "mean squared error", "nonzeros": "share of nonzeros", "train_mse": "mean squared residual"}
        figure, panels = style.panels(3, 1, width=3.1, height=2.9)
        for axes, (output, words) in zip(panels, shown.items(), strict=True):
            for index, (line, points) in enumerate(cases(main, "penalty")):
                text = ", ".join(f"{float(parameter(points, name)):g}" for name in CASE)
                style.theory(axes, line.penalty, line[output], color=style.colour(index), label=text)
                style.simulation(
                    axes, points.penalty, points[output], color=style.colour(index), marker=style.marker(index)
                )
            style.log_scale(axes, "x" if output == "nonzeros" else "xy")
            axes.set(xlabel=style.label("penalty", r"\lambda"), ylabel=words)
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            title="samples per coefficient, density, noise",
        )
        return figure
