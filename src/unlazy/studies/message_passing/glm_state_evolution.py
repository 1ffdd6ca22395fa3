"""Ridge, logistic and hinge fits against state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Change, Output, Study, cite, claim, over_theory, parameter, path, static, value, within
from unlazy.plotting.panels import panels
from unlazy.studies.message_passing.shared.evolution import CAPTION, case_panel, fixed_count

if TYPE_CHECKING:
    from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, ProbitTeacher, SignTeacher

PLACE = "learning curves of generic feature maps"
LABELS = ("linear", "sign", "probit", "logit")
SQUARE = {"loss": "square", "label": "linear", "label_noise": 0.3, "ridge": 0.1, "spectrum_exponent": [0.0, 1.0]}
LOGISTIC = {
    "loss": "logistic",
    ("label", "label_noise", "ridge", "spectrum_exponent"): [
        ("sign", 0.05, 0.02, 0.0),
        ("sign", 0.05, 0.02, 1.0),
        ("logit", 3.0, 0.1, 1.0),
    ],
}
HINGE = {"loss": "hinge", "label": "probit", "label_noise": 0.5, "ridge": 0.05, "spectrum_exponent": [0.0, 1.0]}


def _words(data):
    """Loss, labels and spectrum of a case."""
    decay = float(parameter(data, "spectrum_exponent"))
    spectrum = "flat" if decay == 0 else f"$j^{{-{decay:g}}}$"
    return f"{data.attrs['loss']}, {np.asarray(parameter(data, 'label')).item()}, {spectrum}"


ALL = {"square": _words, "logistic": _words, "hinge": _words}
JUDGED = {"square": _words, "logistic": _words}


@dataclass(frozen=True)
class GLMStateEvolution(Study):
    """The teacher has the same weight, of random sign, on every eigenvector, so that the theory needs no draw.

    The criteria are as wide as 3 standard errors of 10 seeds at d = 300, plus 1%. The training loss of the hinge loss,
    with a known finite-size bias where it is nearly 0, is not claimed.
    """

    question = (
        "Do the errors and overlaps of ridge, logistic and hinge fits follow from the covariance and the teacher "
        "alone, by state evolution?"
    )
    sources = cite("loureiro2021features")

    loss: str = static("logistic", "loss", choices=("square", "logistic", "hinge"))
    label: str = static("sign", "law of the labels", choices=LABELS)
    label_noise: float = value(
        0.05, "noise deviation (linear, probit), flip probability (sign) or slope (logit)", low=0, high=100
    )
    ridge: float = value(0.02, "ridge, in sum of losses + (ridge/2)|w|^2", symbol=r"\lambda", above=0, high=1e6)
    spectrum_exponent: float = value(0.0, "decay a of the covariance eigenvalues j^-a", symbol="a", low=0, high=3)
    d: int = static(300, "dimension", symbol="d", low=2, high=5000)
    n: tuple = path((300, 600), "samples", symbol="n", low=1, high=50_000, scale="log")

    outputs = {
        "test_error": Output("test error", r"\varepsilon", ("n",), scale="log"),
        "overlap": Output("overlap with the teacher", "m", ("n",)),
        "squared_norm": Output("variance of the score", "q", ("n",), scale="log"),
        "train_loss": Output("training loss", "", ("n",), scale="log"),
    }
    presets = {
        "quick": {
            "square": {**SQUARE, "n": [150, 600], "seeds": 96},
            "logistic": {**LOGISTIC, "n": [300, 600], "seeds": 64},
            "hinge": {**HINGE, "n": [450], "seeds": 40},
        },
        "full": {
            "square": {**SQUARE, "d": 600, "n": [150, 300, 600, 1200, 2400], "seeds": 200},
            "logistic": {**LOGISTIC, "d": 600, "n": [300, 600, 1200, 2400], "seeds": 200},
            "hinge": {**HINGE, "d": 600, "n": [600, 900, 1800], "seeds": 200},
        },
    }
    lines = {"square": "n", "logistic": "n", "hinge": "n"}
    history = (
        Change(
            "",
            "the seeds were raised from 16, flips fixed in number, the samples (150, 450, 900) replaced by those of "
            "the presets and logit labels with a flat spectrum dropped",
            "the first run was inconclusive in all four claims; logistic and hinge fits of 150 samples and logit "
            "labels with a flat spectrum are therefore not claimed; the criteria were not changed",
        ),
    )
    figure = panels(
        *(case_panel(output, ALL) for output in ("test_error", "overlap")),
        case_panel("squared_norm", ALL, columns=3, heading="loss, labels, spectrum"),
        case_panel("train_loss", JUDGED),
        columns=2,
        width=3.7,
        height=3.1,
        caption=f"{CAPTION} Dashes: theory where there is one number of samples.",
    )

    @claim("loureiro2021features", PLACE, within(0.04))
    def test_error(square, logistic, hinge):
        """The test error (mean squared error for the square loss) is that of state evolution {criterion} for three
        losses, four laws of labels, flat and 1/j spectra."""
        return [over_theory(part, "test_error") for part in (square, logistic, hinge)]

    @claim("loureiro2021features", PLACE, within(0.05))
    def overlap(square, logistic, hinge):
        """The covariance of the fit's score with the teacher's field is that of state evolution {criterion}."""
        return [over_theory(part, "overlap") for part in (square, logistic, hinge)]

    @claim("loureiro2021features", PLACE, within(0.08))
    def squared_norm(square, logistic, hinge):
        """The variance of the fit's score is that of state evolution {criterion}."""
        return [over_theory(part, "squared_norm") for part in (square, logistic, hinge)]

    @claim("loureiro2021features", PLACE, within(0.08))
    def train_loss(square, logistic):
        """The training loss of square and logistic fits is that of state evolution {criterion}."""
        return [over_theory(part, "train_loss") for part in (square, logistic)]

    def validate(self) -> None:
        from unlazy.theory.message_passing.teachers import check_flip

        if (self.loss == "square") != (self.label == "linear"):
            raise InputError(
                f"label must be linear with the square loss and only with it, got {self.label} with loss {self.loss}"
            )
        if self.label == "sign":
            check_flip("label_noise, a flip probability for sign labels,", self.label_noise)
        if self.label == "logit" and self.label_noise == 0:
            raise InputError("label_noise must be > 0, a slope, for logit labels, got 0")

    def memory(self) -> int:
        return 8 * (4 * max(self.n) * self.d + 4 * self.d**2)

    def _spectrum(self) -> np.ndarray:
        from unlazy.functions.spectra import power_law

        spectrum = power_law(self.d, self.spectrum_exponent)
        return spectrum / spectrum.sum()

    def _teacher(self) -> LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher:
        from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, ProbitTeacher, SignTeacher

        noise = float(self.label_noise)
        if self.label == "linear":
            return LinearTeacher(noise**2)
        if self.label == "sign":
            return SignTeacher(noise)
        return ProbitTeacher(noise) if self.label == "probit" else LogitTeacher(noise)

    def simulate(self, rng: np.random.Generator) -> dict[str, list[float]]:
        """Nested training sets; the test error given the weights is exact, by the joint law of the two fields."""
        from unlazy.studies.message_passing.shared.convex_fits import fit
        from unlazy.theory.message_passing.losses import loss_of

        spectrum = self._spectrum()
        teacher = rng.choice([-1.0, 1.0], self.d)
        design = rng.standard_normal((max(self.n), self.d)) * np.sqrt(spectrum)
        labels = self._labels(rng, design @ teacher)
        found: dict[str, list[float]] = {name: [] for name in self.outputs}
        for n in self.n:
            weights = fit(self.loss, design[:n], labels[:n], self.ridge)
            scores = design[:n] @ weights
            overlap, norm = float(weights @ (spectrum * teacher)), float(weights**2 @ spectrum)
            losses = (
                (labels[:n] - scores) ** 2 / 2
                if self.loss == "square"
                else loss_of(self.loss).value(labels[:n] * scores)
            )
            found["test_error"].append(self._test_error(overlap, norm))
            found["overlap"].append(overlap)
            found["squared_norm"].append(norm)
            found["train_loss"].append(float(losses.mean()))
        return found

    def _labels(self, rng: np.random.Generator, fields: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        noise = rng.standard_normal(fields.size)
        uniform = rng.random(fields.size)
        if self.label == "linear":
            return fields + self.label_noise * noise
        if self.label == "sign":
            return np.where(fixed_count(uniform, self.label_noise, self.n), -1.0, 1.0) * np.sign(fields)
        if self.label == "probit":
            return np.sign(fields + self.label_noise * noise)
        return np.where(uniform < expit(self.label_noise * fields), 1.0, -1.0)

    def _test_error(self, overlap: float, norm: float) -> float:
        """Of a fit with this overlap and norm, the teacher's field having variance 1."""
        from scipy.special import expit, ndtr

        from unlazy.numerics.gaussian import normal_nodes

        if self.label == "linear":
            return 1 + self.label_noise**2 - 2 * overlap + norm
        if self.label == "sign":
            return self.label_noise + (1 - 2 * self.label_noise) * np.arccos(overlap / np.sqrt(norm)) / np.pi
        if self.label == "probit":
            return np.arccos(overlap / np.sqrt(norm * (1 + self.label_noise**2))) / np.pi
        fields, weights = normal_nodes(600)
        same = ndtr(overlap * fields / np.sqrt(norm - overlap**2))
        positive = expit(self.label_noise * fields)
        return float((positive * (1 - same) + (1 - positive) * same) @ weights)

    def predict(self) -> dict[str, np.ndarray]:
        from unlazy.theory.message_passing.state_evolution.glm import glm_state_evolution

        spectrum = self._spectrum()
        theory = glm_state_evolution(
            spectrum, spectrum**2, 1.0, np.array(self.n), float(self.ridge), loss=self.loss, teacher=self._teacher()
        )
        error = theory.test_mse if self.loss == "square" else theory.test_error
        assert error is not None
        return {
            "test_error": error,
            "overlap": theory.overlap,
            "squared_norm": theory.norm,
            "train_loss": theory.train_loss,
        }
