"""Logistic regression on two Gaussian clusters against state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import (
    Claim,
    Output,
    Part,
    Study,
    at_least,
    between,
    parameter,
    path,
    relative_deviation,
    static,
    value,
)
from unlazy.studies.message_passing.shared.evolution import cases, deviation, fixed_count
from unlazy.studies.message_passing.shared.sources import MIXTURES

if TYPE_CHECKING:
    import xarray as xr

LOUREIRO = "Loureiro et al. 2021, Gaussian mixtures"
# clusters that hardly differ have the test error 1/2 whatever the fit is, and a small ridge does not average
AVERAGING = {"separation": at_least(0.5), "ridge": at_least(1e4)}


def _gain_of_bias(bias: Part) -> xr.DataArray:
    """By how much the bias lowers the test error, as a share, minus what state evolution says."""
    simulated, predicted = bias.simulated.test_error, bias.predicted.test_error
    ratio = simulated.sel(bias=True) / simulated.sel(bias=False)
    return ratio - predicted.sel(bias=True) / predicted.sel(bias=False)


def _closed_form(averaging: Part) -> xr.DataArray:
    return relative_deviation(averaging.simulated.test_error, averaging.predicted.averaging_error)


def _theory_closed_form(averaging: Part) -> xr.DataArray:
    predicted = averaging.predicted
    return predicted.test_error / predicted.averaging_error - 1


@dataclass(frozen=True)
class MixtureClassification(Study):
    """Clusters +-mu with |mu| = separation/sqrt(d); Sigma_1 = I/d, Sigma_2 = spread/d times a profile with mean 1.

    The profile is linear in the coordinate, from 1 - tilt to 1 + tilt, and mu spreads evenly over the coordinates. The
    validated theory agrees within 3 standard errors at d = 300; here a 99% interval must lie within 4% for the test
    error and 8% for the training loss, as in `glm-state-evolution`. The sizes of both classes are fixed. A first run
    with 40 seeds and n = 150 besides was inconclusive there in the test error and in the gain of the bias (0.015 above
    theory, interval -0.001 to 0.030): n = 150 was dropped for logistic fits, so that they are not claimed there, and
    seeds are more; the criteria were not changed. Square and hinge fits, without bias, came later under the same
    criterion of the test error; their first run, with 32 seeds at n = 300 and 600, held; sizes were lowered for the
    sake of time to 150 and 300, which was inconclusive with 48 seeds, and then to 150 and 225, with 96.
    """

    name = "mixture-classification"
    topic = "message_passing"
    question = (
        "Do training loss and test error of linear classifiers on Gaussian clusters follow from their means and "
        "covariances alone?"
    )
    sources = (MIXTURES,)

    loss: str = static("logistic", "loss", choices=("square", "logistic", "hinge"))
    bias: bool = static(True, "whether a bias is fitted", paired=True)
    separation: float = value(1.5, "length of the mean in units of the noise of a coordinate", low=0, high=20)
    share: float = value(0.6, "probability of the first cluster", symbol="p", above=0, high=0.999)
    spread: float = value(1.0, "mean variance of the second cluster over that of the first", above=0, high=100)
    tilt: float = value(0.0, "unevenness of the second covariance", low=0, high=1)
    ridge: float = value(0.1, "ridge, in sum of losses + (ridge/2)|w|^2", symbol=r"\lambda", above=0, high=1e9)
    d: int = static(300, "dimension", symbol="d", low=2, high=5000)
    n: tuple = path((300, 600), "samples", symbol="n", low=4, high=50_000, scale="log")

    outputs = {
        "test_error": Output("test error", r"\varepsilon", ("n",)),
        "train_loss": Output("training loss", "", ("n",), scale="log"),
        "averaging_error": Output("closed form for a large ridge", "", ("n",), theory_only=True),
    }
    presets = {
        "quick": {
            "bias": {"bias": [True, False], "n": [300, 600], "seeds": 48},
            "covariances": {("spread", "tilt"): [(3.0, 0.0), (2.0, 1.0)], "n": [300, 600], "seeds": 48},
            "losses": {"bias": False, "loss": ["square", "hinge"], "n": [150, 225], "seeds": 96},
            "averaging": {"bias": False, "share": 0.5, "ridge": 1e5, "n": [150, 600], "seeds": 48},
        },
        "full": {
            "bias": {"bias": [True, False], "d": 600, "n": [300, 600, 1200, 2400], "seeds": 200},
            "covariances": {
                ("spread", "tilt"): [(3.0, 0.0), (2.0, 1.0), (5.0, 1.0)],
                "d": 600,
                "n": [300, 600, 1200, 2400],
                "seeds": 200,
            },
            "losses": {"bias": False, "loss": ["square", "hinge"], "d": 600, "n": [300, 600, 1200], "seeds": 200},
            "averaging": {"bias": False, "share": 0.5, "ridge": 1e5, "d": 600, "n": [150, 600, 2400], "seeds": 200},
        },
    }
    lines = {"bias": "n", "covariances": "n", "losses": "n", "averaging": "n"}
    claims = (
        Claim(
            "test-error",
            LOUREIRO,
            "The test error is that of state evolution, with and without bias, with equal and unequal covariances, for "
            "three losses: the relative deviation of the mean is at most 4%.",
            between(-0.04, 0.04),
            check=deviation("test_error"),
            parts=("bias", "covariances", "losses"),
        ),
        Claim(
            "train-loss",
            LOUREIRO,
            "The training loss of logistic fits is that of state evolution within 8%.",
            between(-0.08, 0.08),
            check=deviation("train_loss"),
            parts=("bias", "covariances"),
        ),
        Claim(
            "gain-of-bias",
            LOUREIRO,
            "The factor by which a bias changes the test error on clusters of unequal size is that of state evolution "
            "within 0.02.",
            between(-0.02, 0.02),
            check=_gain_of_bias,
            parts=("bias",),
            needs={"bias": (True, False)},
        ),
        Claim(
            "averaging",
            LOUREIRO,
            "With a large ridge, balanced clusters and no bias the fit averages y x: its test error is "
            "Phi(-|mu|^2 / sqrt(s2 (|mu|^2 + s2 d/n))) within 4%.",
            between(-0.04, 0.04),
            check=_closed_form,
            parts=("averaging",),
            needs=AVERAGING,
        ),
        Claim(
            "averaging-theory",
            LOUREIRO,
            "State evolution at ridge 1e5 gives this closed form to five digits.",
            between(-1e-5, 1e-5),
            theory=_theory_closed_form,
            parts=("averaging",),
            needs=AVERAGING,
        ),
    )

    def validate(self) -> None:
        if self.bias and self.loss != "logistic":
            raise InputError(
                f"bias must be false with the {self.loss} loss, which is fitted without one here, got true"
            )

    def memory(self) -> int:
        return 8 * (4 * max(self.n) * self.d + 4 * self.d**2)

    def _clusters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, diagonals of the covariances and probabilities."""
        mean = np.full(self.d, self.separation / self.d)
        profile = 1 + self.tilt * np.linspace(-1, 1, self.d)
        variances = np.stack([np.ones(self.d), self.spread * profile]) / self.d
        return np.stack([mean, -mean]), variances, np.array([self.share, 1 - self.share])

    def simulate(self, rng: np.random.Generator) -> dict[str, list[float]]:
        """Nested training sets; the test error given the weights is exact."""
        from scipy.special import ndtr

        from unlazy.studies.message_passing.shared.convex_fits import fit, fit_logistic
        from unlazy.theory.message_passing.losses import loss_of

        means, variances, shares = self._clusters()
        second = fixed_count(rng.random(max(self.n)), 1 - self.share, self.n)
        labels = np.where(second, -1.0, 1.0)
        noise = rng.standard_normal((labels.size, self.d))
        design = means[second.astype(int)] + noise * np.sqrt(variances[second.astype(int)])
        errors, losses = [], []
        for n in self.n:
            if self.bias:
                weights, offset = fit_logistic(design[:n], labels[:n], self.ridge, True)
            else:
                weights, offset = fit(self.loss, design[:n], labels[:n], self.ridge), 0.0
            margins = np.array([1.0, -1.0]) * (means @ weights + offset)
            errors.append(float(shares @ ndtr(-margins / np.sqrt(variances @ weights**2))))
            losses.append(float(loss_of(self.loss).value(labels[:n] * (design[:n] @ weights + offset)).mean()))
        return {"test_error": errors, "train_loss": losses}

    def predict(self) -> dict[str, np.ndarray]:
        from scipy.special import ndtr

        from unlazy.theory.message_passing.state_evolution.mixture import mixture_state_evolution

        means, variances, shares = self._clusters()
        samples = np.array(self.n)
        theory = mixture_state_evolution(
            means, variances, shares, [1, -1], samples, float(self.ridge), loss=self.loss, bias=self.bias
        )
        square, noise = self.separation**2 / self.d, 1 / self.d
        averaging = ndtr(-square / np.sqrt(noise * (square + noise * self.d / samples)))
        return {"test_error": theory.test_error, "train_loss": theory.train_loss, "averaging_error": averaging}

    def figure(self, bias: Part, covariances: Part, losses: Part, averaging: Part) -> Any:
        from unlazy.plotting import style

        figure, (error, loss, large) = style.panels(3, 1, width=3.3, height=3.1)
        words = ((bias, _bias_words), (covariances, _covariance_words), (losses, _loss_words))
        found = [(describe(points), *(line, points)) for part, describe in words for line, points in cases(part)]
        for index, (text, line, points) in enumerate(found):
            for axes, output in ((error, "test_error"), (loss, "train_loss")):
                if output == "train_loss" and np.asarray(parameter(points, "loss")).item() != "logistic":
                    continue
                style.theory(axes, line.n, line[output], color=style.colour(index), label=text)
                style.simulation(axes, points.n, points[output], color=style.colour(index), marker=style.marker(index))
        line, points = averaging.lines, averaging.simulated
        style.theory(large, line.n, line.averaging_error, color=style.colour(0), label="closed form")
        style.simulation(large, points.n, points.test_error, color=style.colour(0))
        for axes, text in ((error, "test error"), (loss, "training loss"), (large, "test error")):
            style.log_scale(axes, "x")
            shown = [points] if axes is large else [data for _, _, data in found]
            ticks = np.unique(np.concatenate([data.n.values for data in shown]))
            axes.set_xticks(ticks, [f"{n:g}" for n in ticks])
            axes.set(xlabel=style.label("samples", "n"), ylabel=text)
        large.set_title(rf"$\lambda = {float(parameter(points, 'ridge')):g}$, balanced, no bias")
        large.legend()
        figure.legend(*error.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure


def _bias_words(data: xr.Dataset) -> str:
    return "equal covariances, " + ("bias" if parameter(data, "bias") else "no bias")


def _covariance_words(data: xr.Dataset) -> str:
    spread, tilt = float(parameter(data, "spread")), float(parameter(data, "tilt"))
    return f"second covariance {spread:g} x " + ("the first" if tilt == 0 else "uneven")


def _loss_words(data: xr.Dataset) -> str:
    return f"{np.asarray(parameter(data, 'loss')).item()} loss, no bias"
