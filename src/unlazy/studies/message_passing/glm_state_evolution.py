"""Ridge, logistic and hinge fits against state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, between, parameter, path, static, value
from unlazy.studies.message_passing.shared.evolution import cases, deviation, fixed_count
from unlazy.studies.message_passing.shared.sources import FEATURES

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, ProbitTeacher, SignTeacher

LOUREIRO = "Loureiro et al. 2021, learning curves of generic feature maps"
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
ALL = ("square", "logistic", "hinge")


@dataclass(frozen=True)
class GLMStateEvolution(Study):
    """The criterion of the validated theory is |theory - mean| < 3 standard errors + 1% with d >= 300 and 10 seeds.

    Here a 99% interval must lie inside a fixed range, which is that width at 10 seeds: 4% for the test error, 5% for
    the overlap, 8% for the squared norm and the training loss. The first run, with 16 seeds, was inconclusive in all
    four claims: the numbers of seeds were raised, flips were fixed in number, and to pay for that the samples (150,
    450, 900) became those of the presets and the logit labels with a flat spectrum were dropped, so that logistic and
    hinge fits of 150 samples and logit labels with a flat spectrum are not claimed; the criteria were not changed. The
    training loss of the hinge loss, with a known finite-size bias where
    it is nearly 0, is shown and not claimed. The teacher has the same weight, of random sign, on every eigenvector, so
    that the theory needs no draw.
    """

    name = "glm-state-evolution"
    topic = "message_passing"
    question = (
        "Do the errors and overlaps of ridge, logistic and hinge fits follow from the covariance and the teacher "
        "alone, by state evolution?"
    )
    sources = (FEATURES,)

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
    claims = (
        Claim(
            "test-error",
            LOUREIRO,
            "The test error (mean squared error for the square loss) is that of state evolution: the relative "
            "deviation of the mean is at most 4% for three losses, four laws of labels, flat and 1/j spectra.",
            between(-0.04, 0.04),
            check=deviation("test_error"),
            parts=ALL,
        ),
        Claim(
            "overlap",
            LOUREIRO,
            "The covariance of the fit's score with the teacher's field is that of state evolution within 5%.",
            between(-0.05, 0.05),
            check=deviation("overlap"),
            parts=ALL,
        ),
        Claim(
            "squared-norm",
            LOUREIRO,
            "The variance of the fit's score is that of state evolution within 8%.",
            between(-0.08, 0.08),
            check=deviation("squared_norm"),
            parts=ALL,
        ),
        Claim(
            "train-loss",
            LOUREIRO,
            "The training loss of square and logistic fits is that of state evolution within 8%.",
            between(-0.08, 0.08),
            check=deviation("train_loss"),
            parts=("square", "logistic"),
        ),
    )

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

    @staticmethod
    def _line(line: xr.Dataset, points: xr.Dataset) -> xr.Dataset:
        """The theory of a case, around its number of samples where it has one only."""
        if line.sizes["n"] > 1:
            return line
        import xarray as xr

        names = ("loss", "label", "label_noise", "ridge", "spectrum_exponent", "d")
        sizes = np.round(np.geomspace(0.7, 1.3, 9) * int(points.n.item())).astype(int).tolist()
        case = GLMStateEvolution(**{name: np.asarray(parameter(points, name)).item() for name in names}, n=tuple(sizes))
        return xr.Dataset({name: ("n", values) for name, values in case.predict().items()}, {"n": sizes})

    def figure(self, square: Part, logistic: Part, hinge: Part) -> Any:
        from unlazy.plotting import style

        shown = {
            "test_error": "test error",
            "overlap": style.label("overlap", "m"),
            "squared_norm": style.label("variance of the score", "q"),
            "train_loss": "training loss",
        }
        figure, grid = style.panels(2, 2, width=3.7, height=3.1)
        found = [(self._line(*case), case[1]) for part in (square, logistic, hinge) for case in cases(part)]
        for axes, (output, words) in zip(np.ravel(grid), shown.items(), strict=True):
            for index, (line, points) in enumerate(found):
                if output == "train_loss" and points.attrs["loss"] == "hinge":
                    continue
                decay = float(parameter(points, "spectrum_exponent"))
                spectrum = "flat" if decay == 0 else f"$j^{{-{decay:g}}}$"
                text = f"{points.attrs['loss']}, {np.asarray(parameter(points, 'label')).item()}, {spectrum}"
                style.theory(axes, line.n, line[output], color=style.colour(index), label=text)
                style.simulation(axes, points.n, points[output], color=style.colour(index), marker=style.marker(index))
            style.log_scale(axes, "xy" if output != "overlap" else "x")
            axes.set(xlabel=style.label("samples", "n"), ylabel=words)
        figure.legend(
            *np.ravel(grid)[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            title="loss, labels, spectrum",
        )
        return figure
