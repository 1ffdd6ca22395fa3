"""Noisy copies of the inputs are a penalty: injecting noise and the explicit regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, at_most, between, cite, claim, over_theory, parameter, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.one_step.noise_injection import noise_injection_equivalent

FRESH = 3000
ERRORS = ("test_error", "training_error")


def _names(data):
    return [str(copies) if copies else "penalty" for copies in np.atleast_1d(parameter(data, "copies"))]


COPIES = "noisy copies of each input; 0 is the explicit penalty"
SHORT = "noisy copies of each input; 0: the explicit penalty"


@dataclass(frozen=True)
class NoiseInjectionStudy(Study):
    question = (
        "Train a random-feature model on several noisy copies of every input: is that ridge regression with an "
        "explicit penalty, and what does it do to the error on clean inputs?"
    )
    sources = cite("dhifallah2021")

    copies: int = static(3, f"{COPIES} of infinitely many", symbol=r"\ell", low=0, high=1000, short=SHORT, paired=True)
    d: int = static(300, "dimension", symbol="d", low=2, high=10_000, scale="log")
    samples_per_dimension: float = static(2.5, "samples per dimension", symbol=r"\psi_1", above=0, high=100)
    width_per_dimension: float = static(1.5, "neurons per dimension", symbol=r"\psi_2", above=0, high=100)
    input_noise_variance: float = static(
        0.25, "variance of the noise on the inputs", symbol=r"\delta^2", low=0, high=100
    )
    ridge: float = value(1e-3, "ridge", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.04, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    outputs = {
        "test_error": Output("test error on clean inputs, with label noise", ""),
        "training_error": Output("mean squared residual over all copies", ""),
    }
    presets = {
        "quick": {
            "copies": {"copies": [1, 3, 30, 0], "d": 200, "seeds": 36},
            "levels": {"input_noise_variance": [0.0, 0.0625, 0.25, 1.0], "copies": 0, "d": 200, "seeds": 12},
        },
        "full": {
            "copies": {"copies": [1, 2, 3, 10, 30, 0], "d": 500, "seeds": 32},
            "levels": {
                "input_noise_variance": [0.0, 0.015625, 0.0625, 0.25, 1.0, 4.0],
                "copies": 0,
                "d": 500,
                "seeds": 32,
            },
        },
    }
    broadcasts = ("samples_per_dimension", "width_per_dimension", "ridge", "noise_variance")
    lines = {"levels": "input_noise_variance"}
    figure = panels(
        Panel(
            ERRORS,
            x=_names,
            part="copies",
            labels=("test, clean inputs", "training"),
            xlabel="noisy copies of each input",
            ylabel="mean squared error",
            log="y",
        ),
        Panel("test_error", x="input_noise_variance", part="levels", ylabel="test error, explicit penalty"),
        width=3.5,
        height=3.0,
    )

    @claim(
        "dhifallah2021",
        "",
        within(0.08),
        departs="For finitely many copies the equations are this project's own, not the source's.",
    )
    def theory(copies):
        """The test error on clean inputs is that of the theory for every number of copies, {criterion}."""
        return over_theory(copies, "test_error")

    @claim("dhifallah2021", "", between(0.95, 1.05), resampled=True)
    def penalty(copies):
        """Infinitely many copies are the explicit penalty: the error with 30 copies over that with the penalty is
        {criterion}."""
        error = copies.simulated.test_error.mean("seed")
        return error.sel(copies=30) / error.sel(copies=0)

    @claim(
        "dhifallah2021",
        "",
        at_most(0.8),
        resampled=True,
        departs="Judged on the explicit penalty at one noise level, not on noisy copies; the share is this project's.",
    )
    def helps(levels):
        """Near interpolation noise on the inputs lowers the test error: at variance 0.25, over that without noise, it
        is {criterion}."""
        error = levels.simulated.test_error.mean("seed")
        return error.sel(input_noise_variance=0.25) / error.sel(input_noise_variance=0.0)

    def memory(self) -> int:
        n, width = self._sizes()
        return int(8 * (max(self.copies, 1) * n + FRESH) * (width + self.d))

    def _sizes(self) -> tuple[int, int]:
        return round(self.samples_per_dimension * self.d), round(self.width_per_dimension * self.d)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.noisy_copies import fit_noisy_copies

        n, width = self._sizes()
        problem = ("tanh", np.sign, n, self.d, width, self.ridge, self.noise_variance)
        noise, copies = self.input_noise_variance, self.copies
        return fit_noisy_copies(rng, *problem, input_noise_variance=noise, copies=copies, fresh=FRESH)._asdict()

    def predict(self) -> dict[str, Any]:
        ratios = (self.samples_per_dimension, self.width_per_dimension)
        problem = ("tanh", "sign", *ratios, self.ridge, self.noise_variance)
        found = noise_injection_equivalent(
            *problem, input_noise_variance=self.input_noise_variance, copies=self.copies or np.inf
        )
        return {"test_error": found.test_error, "training_error": found.training_error}
