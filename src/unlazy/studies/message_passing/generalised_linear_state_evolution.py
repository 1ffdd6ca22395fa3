"""Ridge, logistic and hinge fits against state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.spectra import power_law
from unlazy.lab import Output, Study, changes, cite, claim, over_theory, path, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.message_passing.state_evolution.glm import glm_state_evolution
from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, ProbitTeacher, SignTeacher

PLACE = "learning curves of generic feature maps"
TEACHERS: dict[str, Any] = {
    "linear": lambda study: LinearTeacher(float(study.noise_variance)),
    "sign": lambda study: SignTeacher(float(study.flip_probability)),
    "probit": lambda study: ProbitTeacher(float(study.noise_variance)),
    "logit": lambda study: LogitTeacher(float(study.logit_slope)),
}
SQUARE = {
    "loss": "square",
    "label_law": "linear",
    "noise_variance": 0.09,
    "penalty": 0.1,
    "spectrum_exponent": [0.0, 1.0],
}
LOGISTIC = {
    "loss": "logistic",
    ("label_law", "penalty", "spectrum_exponent"): [("sign", 0.02, 0.0), ("sign", 0.02, 1.0), ("logit", 0.1, 1.0)],
}
HINGE = {
    "loss": "hinge",
    "label_law": "probit",
    "noise_variance": 0.25,
    "penalty": 0.5,
    "spectrum_exponent": [0.0, 1.0],
}
FITS = ("test_error", "overlap", "norm")


def _panel(output: str, legend: bool | str = False) -> Panel:
    by = ("loss", "label_law", "spectrum_exponent")
    logistic = Panel(output, x="n", by=by, part="logistic")
    return Panel(output, x="n", by=by, part="square", also=(logistic,), legend=legend)


@dataclass(frozen=True)
class GeneralisedLinearStateEvolution(Study):
    """The teacher has the same weight, of random sign, on every eigenvector, so that the theory needs no draw.

    The criteria are as wide as 3 standard errors of 10 seeds at d = 300, plus 1%. The training loss of the hinge loss,
    with a known finite-size bias where it is nearly 0, is not claimed.
    """

    question = (
        "Do the errors and overlaps of ridge, logistic and hinge fits follow from the covariance and the teacher alone?"
    )
    sources = cite("loureiro2021features")
    departs = (
        "The teacher has the same weight on every eigenvector; only its signs are drawn. The number of flipped labels"
        " is fixed."
    )

    loss: str = static("logistic", "loss", choices=("square", "logistic", "hinge"))
    label_law: str = static("sign", "law of the labels", choices=tuple(TEACHERS))
    noise_variance: float = value(0.25, "variance of the noise of linear and probit labels", low=0, high=1e4)
    flip_probability: float = value(0.05, "probability of a flipped label, of sign labels", low=0, high=0.499)
    logit_slope: float = value(3.0, "slope of logit labels", above=0, high=100)
    penalty: float = value(0.02, "penalty, in sum of losses + (penalty/2)|w|^2", symbol=r"\lambda", above=0, high=1e6)
    spectrum_exponent: float = value(0.0, "decay a of the covariance eigenvalues j^-a", symbol="a", low=0, high=3)
    d: int = static(300, "dimension", symbol="d", low=2, high=5000)
    n: tuple = path((300, 600), "samples", symbol="n", low=1, high=50_000, scale="log")

    outputs = {
        "test_error": Output("test error", r"\varepsilon", ("n",), scale="log"),
        "overlap": Output("overlap with the teacher", "m", ("n",)),
        "norm": Output("variance of the score", "q", ("n",), scale="log"),
        "training_loss": Output("training loss", "", ("n",), scale="log"),
    }
    presets = {
        "quick": {
            "square": SQUARE | {"n": [150, 600], "seeds": 128},
            "logistic": LOGISTIC | {"n": [300, 600], "seeds": 112},
            "hinge": HINGE | {"n": [450], "seeds": 96},
        },
        "full": {
            "square": SQUARE | {"d": 600, "n": [150, 300, 600, 1200, 2400], "seeds": 200},
            "logistic": LOGISTIC | {"d": 600, "n": [300, 600, 1200, 2400], "seeds": 200},
            "hinge": HINGE | {"d": 600, "n": [600, 900, 1800], "seeds": 200},
        },
    }
    broadcasts = ("penalty",)
    lines = {"square": "n", "logistic": "n"}
    history = changes(
        "",
        "hinge fits have the penalty 0.5, first 0.05, and parts 96 to 128 seeds, first 40 to 96",
        "fresh seeds would have changed three of four verdicts in 10 to 70% of runs; with the smaller penalty the norm "
        "of flat hinge fits scatters by 11% from run to run, with the larger one by 4%; the criteria were not changed",
    ) + changes(
        "",
        "the seeds were raised from 16, flips fixed in number, the samples (150, 450, 900) replaced by those of "
        "the presets and logit labels with a flat spectrum dropped",
        "the first run was inconclusive in all four claims; logistic and hinge fits of 150 samples and logit "
        "labels with a flat spectrum are therefore not claimed; the criteria were not changed",
    )
    figure = panels(
        _panel("test_error"),
        _panel("overlap"),
        _panel("norm", "beside"),
        _panel("training_loss"),
        Panel(FITS, x="spectrum_exponent", part="hinge", title="hinge loss", ylabel="error, overlap, variance", log=""),
        height=3.1,
    )

    @claim("loureiro2021features", PLACE, within(0.04))
    def test_error(square, logistic, hinge):
        """The test error is that of state evolution {criterion}, for three losses, four laws of labels, flat and 1/j
        spectra. For the square loss it is the mean squared error."""
        return [over_theory(part, "test_error") for part in (square, logistic, hinge)]

    @claim("loureiro2021features", PLACE, within(0.05))
    def overlap(square, logistic, hinge):
        """The covariance between the fit's score and the teacher's field is that of state evolution {criterion}."""
        return [over_theory(part, "overlap") for part in (square, logistic, hinge)]

    @claim("loureiro2021features", PLACE, within(0.08))
    def norm(square, logistic, hinge):
        """The variance of the fit's score is that of state evolution {criterion}."""
        return [over_theory(part, "norm") for part in (square, logistic, hinge)]

    @claim("loureiro2021features", PLACE, within(0.08))
    def training_loss(square, logistic):
        """The training loss of square and logistic fits is that of state evolution {criterion}."""
        return [over_theory(part, "training_loss") for part in (square, logistic)]

    def validate(self) -> None:
        if (self.loss == "square") != (self.label_law == "linear"):
            raise InputError(
                f"label_law must be linear with the square loss and only with it, got {self.label_law} with loss "
                f"{self.loss}"
            )

    def memory(self) -> int:
        return 8 * (4 * max(self.n) * self.d + 4 * self.d**2)

    def _spectrum(self) -> np.ndarray:
        spectrum = power_law(self.d, self.spectrum_exponent)
        return spectrum / spectrum.sum()

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.message_passing.linear_fits import teacher_fits

        teacher = TEACHERS[self.label_law](self)
        return teacher_fits(rng, teacher, self._spectrum(), self.n, self.penalty, loss=self.loss)

    def predict(self) -> dict[str, Any]:
        spectrum, teacher = self._spectrum(), TEACHERS[self.label_law](self)
        theory = glm_state_evolution(
            spectrum, spectrum**2, 1.0, np.array(self.n), self.penalty, loss=self.loss, label_law=teacher
        )
        return {
            "test_error": theory.test_square_error if self.loss == "square" else theory.test_error,
            "overlap": theory.overlap,
            "norm": theory.norm,
            "training_loss": theory.training_loss,
        }
