"""Noisy copies of the inputs are a penalty: injecting noise and the explicit regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import (
    Claim,
    Output,
    Part,
    Source,
    Study,
    at_most,
    between,
    parameter,
    relative_deviation,
    static,
    value,
)

if TYPE_CHECKING:
    import xarray as xr

DHIFALLAH = Source(
    "dhifallah2021",
    "Dhifallah, Oussama and Lu, Yue M.",
    2021,
    "On the inherent regularization effects of noise injection during training",
    "International Conference on Machine Learning",
    kind="inproceedings",
)
TEXT = "Dhifallah & Lu 2021"
FRESH = 3000


@dataclass(frozen=True)
class NoiseInjection(Study):
    name = "noise-injection"
    topic = "one_step"
    question = (
        "Train a random-feature model on several noisy copies of every input: is that ridge regression with an "
        "explicit penalty, and what does it do to the error on clean inputs?"
    )
    caption = "Short bars (left) and line (right): theory. Points: simulation, means over seeds with 99% intervals."
    sources = (DHIFALLAH,)

    copies: int = static(
        3, "noisy copies of each input; 0 is the explicit penalty of infinitely many", symbol=r"\ell", low=0, high=1000
    )
    d: int = static(300, "dimension", symbol="d", low=2, high=10_000, scale="log")
    samples_per_dimension: float = static(2.5, "samples per dimension", symbol=r"\psi_1", above=0, high=100)
    features_per_dimension: float = static(1.5, "neurons per dimension", symbol=r"\psi_2", above=0, high=100)
    input_noise: float = static(0.5, "standard deviation of the noise on the inputs", symbol=r"\delta", low=0, high=10)
    ridge: float = value(1e-3, "ridge", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.04, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    outputs = {
        "test_error": Output("test error on clean inputs, with label noise", ""),
        "training_error": Output("mean squared residual over all copies", ""),
    }
    presets = {
        "quick": {
            "copies": {"copies": [1, 3, 30, 0], "d": 200, "seeds": 24},
            "levels": {"input_noise": [0.0, 0.25, 0.5, 1.0], "copies": 0, "d": 200, "seeds": 12},
        },
        "full": {
            "copies": {"copies": [1, 2, 3, 10, 30, 0], "d": 500, "seeds": 32},
            "levels": {"input_noise": [0.0, 0.125, 0.25, 0.5, 1.0, 2.0], "copies": 0, "d": 500, "seeds": 32},
        },
    }
    lines = {"levels": "input_noise"}
    claims = (
        Claim(
            "theory",
            f"{TEXT}; the project's equations for finitely many copies",
            "The test error on clean inputs is that of the theory for every number of copies, within 8%.",
            between(-0.08, 0.08),
            check=lambda part: relative_deviation(part.simulated.test_error, part.predicted.test_error),
            parts=("copies",),
        ),
        Claim(
            "penalty",
            TEXT,
            "Infinitely many copies are the explicit penalty: with 30 copies the error is within 5% of it.",
            between(0.95, 1.05),
            statistic=lambda part: (
                part.simulated.test_error.mean("seed").sel(copies=30)
                / part.simulated.test_error.mean("seed").sel(copies=0)
            ),
            parts=("copies",),
            needs={"copies": (30, 0)},
        ),
        Claim(
            "helps",
            TEXT,
            "Near interpolation noise on the inputs lowers the test error: at delta = 0.5 to at most 80% of that "
            "without.",
            at_most(0.8),
            statistic=lambda part: _over_clean(part),
            parts=("levels",),
            needs={"input_noise": (0.0, 0.5)},
        ),
    )

    def memory(self) -> int:
        features = self.features_per_dimension * self.d
        return int(8 * (max(self.copies, 1) * self.samples_per_dimension * self.d + FRESH) * (features + self.d))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.theory.one_step.noise_injection import noise_averaged, noise_penalty

        n, features = (round(r * self.d) for r in (self.samples_per_dimension, self.features_per_dimension))
        weights = rng.standard_normal((self.d, features)) / np.sqrt(self.d)
        x, fresh = rng.standard_normal((n, self.d)), rng.standard_normal((FRESH, self.d))
        labels = np.sign(x[:, 0]) + np.sqrt(self.noise_variance) * rng.standard_normal(n)
        penalty = self.ridge * np.eye(features)
        if self.copies:
            noisy = [x + self.input_noise * rng.standard_normal(x.shape) for _ in range(self.copies)]
            hidden = np.concatenate([np.tanh(rows @ weights) for rows in noisy])
            repeated = np.tile(labels, self.copies)
        else:
            hidden, repeated = noise_averaged("tanh", self.input_noise)(x @ weights), labels
            penalty = penalty + noise_penalty("tanh", self.input_noise, weights)
        gram = hidden.T @ hidden / len(hidden)
        fit = np.linalg.solve(gram + penalty, hidden.T @ repeated / len(hidden))
        missed = np.tanh(fresh @ weights) @ fit - np.sign(fresh[:, 0])
        residual = np.mean((repeated - hidden @ fit) ** 2)
        # the residual of the noise that the averaged features leave out
        hidden_noise = 0.0 if self.copies else fit @ (penalty - self.ridge * np.eye(features)) @ fit
        return {"test_error": np.mean(missed**2) + self.noise_variance, "training_error": residual + hidden_noise}

    def predict(self) -> dict[str, Any]:
        from unlazy.numerics.gaussian import Piecewise
        from unlazy.theory.one_step.noise_injection import noise_injection_equivalent

        found = noise_injection_equivalent(
            "tanh",
            Piecewise(np.sign, (0.0,)),
            self.samples_per_dimension,
            self.features_per_dimension,
            self.ridge,
            self.noise_variance,
            input_noise=self.input_noise,
            copies=self.copies or np.inf,
        )
        return {"test_error": found.test_error, "training_error": found.training_error}

    def figure(self, copies: Part, levels: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.5, height=3.0)
        numbers = [int(c) for c in copies.simulated.copies.values]
        places = np.arange(len(numbers))
        for index, (name, text) in enumerate((("test_error", "test, clean inputs"), ("training_error", "training"))):
            color, marker = style.colour(index), style.marker(index)
            for place, height in zip(places, copies.predicted[name].values, strict=True):
                left.plot([place - 0.25, place + 0.25], [height, height], color=color, linewidth=1.4)
            style.simulation(left, places, copies.simulated[name], color=color, marker=marker, label=text)
        left.set_xticks(places, [str(c) if c else "penalty" for c in numbers])
        left.set(xlabel="noisy copies of each input", ylabel="mean squared error")
        style.log_scale(left, "y")
        left.legend()
        noise = parameter(levels.simulated, "input_noise")
        style.theory(right, levels.lines.input_noise, levels.lines.test_error, color=style.colour(0), label="theory")
        style.simulation(right, noise, levels.simulated.test_error, color=style.colour(0), label="simulation")
        right.set(xlabel=style.label("noise on the inputs", r"\delta"), ylabel="test error, explicit penalty")
        right.legend()
        return figure


def _over_clean(part: Part) -> xr.DataArray:
    error = part.simulated.test_error.mean("seed")
    return error.sel(input_noise=0.5) / error.sel(input_noise=0.0)
