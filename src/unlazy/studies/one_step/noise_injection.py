"""Noisy copies of the inputs are a penalty: injecting noise and the explicit regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import (
    OWN,
    Output,
    Study,
    at_most,
    between,
    changes,
    cite,
    claim,
    needs,
    over_theory,
    parameter,
    path,
    slope,
    static,
    value,
    within,
)
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.one_step.noise_injection import noise_injection_equivalent

FRESH = 3000
ERRORS = ("test_error", "training_error")
FINITE = "For finitely many copies the equations are this project's own, not the source's."
DOUBLED = (4, 8, 16, 32, 64, 128)
SHORT = "noisy copies of each input; 0: the explicit penalty"


def _names(data):
    return [str(copies) if copies else "penalty" for copies in np.atleast_1d(parameter(data, "copies"))]


def _doubling(part, name):
    """By how much the mean error changes when the copies are doubled, at each number of copies but the last."""
    errors = needs(part.simulated, copies=DOUBLED)[name].mean("seed").sel(copies=list(DOUBLED))
    return abs(errors.diff("copies", label="lower"))


def _changes(data, name):
    """`_doubling` of simulation or theory, for the figure."""
    error = data[name].mean("seed") if "seed" in data.dims else data[name]
    return abs(error.where(error.copies > 0, drop=True).diff("copies", label="lower"))


@dataclass(frozen=True)
class NoiseInjectionStudy(Study):
    question = (
        "Train a random-feature model on several noisy copies of every input. Is that ridge regression with an "
        "explicit penalty, and what does it do to the error on clean inputs?"
    )
    sources = cite("dhifallah2021")

    d: int = static(300, "dimension", symbol="d", low=2, high=10_000, scale="log")
    samples_per_dimension: float = static(2.5, "samples per dimension", symbol=r"\psi_1", above=0, high=100)
    width_per_dimension: float = static(1.5, "neurons per dimension", symbol=r"\psi_2", above=0, high=100)
    input_noise_variance: float = static(
        0.25, "variance of the noise on the inputs", symbol=r"\delta^2", low=0, high=100, paired=True
    )
    ridge: float = value(1e-3, "ridge", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.04, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    copies: tuple = path((1, 3, 30, 0), f"{SHORT} of infinitely many", symbol=r"\ell", low=0, high=1000, short=SHORT)

    outputs = {
        "test_error": Output("test error on clean inputs, with label noise", "", ("copies",)),
        "training_error": Output("mean squared residual over all copies", "", ("copies",)),
    }
    presets = {
        "quick": {
            "main": {"d": 200, "seeds": 32},
            "doubled": {"copies": list(DOUBLED), "d": 100, "seeds": 16},
            "levels": {"input_noise_variance": [0.0, 0.0625, 0.25, 1.0], "copies": [0], "d": 200, "seeds": 12},
        },
        "full": {
            "main": {"copies": [1, 2, 3, 10, 30, 0], "d": 500, "seeds": 32},
            "doubled": {"copies": list(DOUBLED), "d": 300, "seeds": 64},
            "levels": {
                "input_noise_variance": [0.0, 0.015625, 0.0625, 0.25, 1.0, 4.0],
                "copies": [0],
                "d": 500,
                "seeds": 32,
            },
        },
    }
    history = changes(
        "theory training copies-rate",
        "the error of few copies is a mean over blocks of them",
        "one fit for each number of copies left the rate undecided",
    )
    broadcasts = ("samples_per_dimension", "width_per_dimension", "ridge", "noise_variance")
    lines = {"levels": "input_noise_variance"}
    figure = panels(
        Panel(
            ERRORS,
            x=_names,
            part="main",
            labels=("test, clean inputs", "training"),
            xlabel="noisy copies of each input",
            ylabel="mean squared error",
            log="y",
        ),
        Panel(
            tuple(lambda data, name=name: _changes(data, name) for name in ERRORS),
            x="copies",
            part="doubled",
            labels=("test, clean inputs", "training"),
            xlabel="noisy copies of each input",
            ylabel="change when they double",
            log="xy",
        ),
        Panel("test_error", x="input_noise_variance", part="levels", ylabel="test error, explicit penalty"),
        width=3.5,
        height=3.0,
    )

    @claim("dhifallah2021", "", within(0.08), departs=FINITE)
    def theory(main):
        """The test error on clean inputs is that of the theory for every number of copies, {criterion}."""
        return over_theory(main, "test_error")

    @claim("dhifallah2021", "", within(0.08), departs=FINITE)
    def training(main):
        """The training error, a mean squared residual over all noisy copies, is that of the theory for every number of
        copies, {criterion}."""
        return over_theory(main, "training_error")

    @claim("dhifallah2021", "", between(0.95, 1.05), resampled=True)
    def penalty(main):
        """Infinitely many copies act as an explicit penalty. The ratio of the errors with 30 copies to those with the
        penalty is {criterion}, for training and test alike."""
        errors = (main.simulated[name].mean("seed") for name in ERRORS)
        return [error.sel(copies=30) / error.sel(copies=0) for error in errors]

    @claim(OWN, "expansion of its equations in 1/copies", within(0.2, absolute=True), resampled=True)
    def copies_rate(doubled):
        """Finitely many copies differ from infinitely many by a term of order 1/copies. From 4 to 64 copies the slope
        of log(change on doubling) against log(copies) is -1, {criterion}, for training and test error."""
        return [slope(_doubling(doubled, name), "copies", least=5) + 1 for name in ERRORS]

    @claim(
        "dhifallah2021",
        "",
        at_most(0.8),
        resampled=True,
        departs=(
            "Judged with the explicit penalty at one noise level, not on noisy copies. The factor is this project's."
        ),
    )
    def helps(levels):
        """Near interpolation noise on the inputs lowers the test error. The ratio of the error at noise variance 0.25
        to the error without noise is {criterion}."""
        error = levels.simulated.test_error.sel(copies=0).mean("seed")
        return error.sel(input_noise_variance=0.25) / error.sel(input_noise_variance=0.0)

    def validate(self) -> None:
        self.check_some("samples_per_dimension", "width_per_dimension")

    def memory(self) -> int:
        n, width = self._sizes()
        return int(8 * (2 * n + FRESH) * (width + self.d) + 8 * 4 * width**2)

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
        copies = np.array([number or np.inf for number in self.copies])
        found = noise_injection_equivalent(*problem, input_noise_variance=self.input_noise_variance, copies=copies)
        return {"test_error": found.test_error, "training_error": found.training_error}
