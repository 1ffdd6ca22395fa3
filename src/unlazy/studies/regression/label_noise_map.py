"""Where label noise in training lowers the test error: a map over noise, tasks and spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import power_law
from unlazy.lab import Output, Study, at_least, at_most, changes, cite, claim, static, value
from unlazy.plotting.panels import Map, panels

NO_CURE = "slide 'Feature learning with DoF reg'"
INFERRED = (
    "The talk does not state it: it is inferred from label noise as the remedy against overfitting. The share is this "
    "project's."
)
DYNAMICS: dict[str, Any] = {"step_size": 2.0, "weight_decay": 1e-4, "temperature": 1e-8}
GRID = {
    "spectrum_exponent": [0.5, 1.0, 2.0],
    "noise_variance": [0.05, 1.0],
    "tasks": [20, 80, 320],
    "relative_label_noise_variance": [0.0, 0.5, 1.0, 2.0, 4.0],
}


AXES = {"x": "relative_label_noise_variance", "y": "tasks"}


def _relative(part, name, noise_variance, weight=2.0):
    """The mean risk with label noise over that without, at one variance of the noise in the data."""
    mean = part.simulated[name].sel(noise_variance=noise_variance).mean("seed")
    return mean.sel(relative_label_noise_variance=weight) / mean.sel(relative_label_noise_variance=0.0)


def _decaying(values):
    """The spectra that decay like 1/j or faster."""
    return values.where(values.spectrum_exponent >= 1, drop=True)


def _map(exponent, noise_variance):
    def shown(data):
        return data.risk / data.risk.sel(relative_label_noise_variance=0.0).mean("seed")

    at = {"spectrum_exponent": exponent, "noise_variance": noise_variance}
    return Map(shown, at=at, limits=(0.5, 1.5), label="risk, relative to no added noise", **AXES)


@dataclass(frozen=True)
class LabelNoiseMap(Study):
    question = (
        "A linear network learns its first layer from many tasks on shared inputs. Noise on the labels of the second "
        "layer regularises it by degrees of freedom. For which noise, number of tasks and spectrum does this lower the "
        "test error?"
    )
    sources = cite("takakura2024", "suzuki2024talk")
    departs = (
        "The network is linear with a square first layer, where the source's lemma is for mean-field networks too."
    )

    n: int = static(20, "samples, shared by all tasks", symbol="n", low=2, high=2_000, scale="log")
    d: int = static(60, "dimension", symbol="d", low=2, high=5_000, scale="log")
    tasks: int = value(160, "tasks", symbol="m", low=1, high=100_000, scale="log")
    largest_tasks: int = static(400, "tasks that are drawn, of which the first m are used", low=1, high=100_000)
    batch_size: int = static(50, "tasks of one step", symbol="B", low=1, high=100_000, scale="log")
    steps: int = static(100, "steps of gradient descent", symbol="t", low=1, high=1_000_000, scale="log")
    spectrum_exponent: float = value(1.0, "decay of the covariance eigenvalues j^-b", symbol="b", low=0, high=10)
    prior_exponent: float = value(1.0, "decay a of the prior variances j^-a", symbol="a", low=0, high=20)
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\sigma^2", above=0, high=1e6)
    relative_label_noise_variance: float = value(
        2.0,
        "variance v of the noise that training adds, over s^2",
        symbol=r"v/\sigma^2",
        low=0,
        high=100,
        paired=True,
        short="added noise",
    )

    outputs = {
        "risk": Output("excess risk at the end of training", r"\bar R", scale="log"),
        "best_risk": Output("excess risk at the best step", r"\min_t \bar R", scale="log"),
        "degrees_of_freedom": Output("degrees of freedom at the end", r"\mathrm{df}"),
    }
    presets = {"quick": {**GRID, "seeds": 14}, "full": {**GRID, "n": 100, "d": 1000, "largest_tasks": 2000, "seeds": 4}}
    history = changes(
        "", "all criteria, and the settings to which they apply, were chosen on a pilot stream", "the map was not known"
    )
    figure = panels(
        *(_map(exponent, noise) for noise in (0.05, 1.0) for exponent in (0.5, 1.0, 2.0)),
        columns=3,
        width=3.3,
        height=2.7,
        caption="The risk at the end of training with label noise, over that without.",
    )

    @claim("suzuki2024talk", NO_CURE, at_least(1.1), resampled=True, departs="The share 1.1 is this project's.")
    def overfits_without(main):
        """Minimising over W alone overfits. Without label noise, at noise variance 1 and spectra 1/j or faster, the
        risk at the end is {criterion} times that at the best step."""
        mean = main.simulated.sel(noise_variance=1.0, relative_label_noise_variance=0.0).mean("seed")
        return _decaying(mean.risk / mean.best_risk)

    @claim("suzuki2024talk", NO_CURE, at_most(0.9), resampled=True, departs=INFERRED)
    def helps(main):
        """Label noise of variance 2 s^2 lowers the risk at the end of training there: it is {criterion} times that
        without, for every number of tasks."""
        return _decaying(_relative(main, "risk", 1.0))

    @claim(
        "suzuki2024talk",
        NO_CURE,
        at_most(1.0),
        resampled=True,
        departs=INFERRED,
        known_negative="With little noise in the data there is little to overfit. The penalty then takes signal away.",
    )
    def helps_at_low_noise(main):
        """It does so at noise variance 0.05: the risk is {criterion} times that without."""
        return _decaying(_relative(main, "risk", 0.05))

    @claim(
        "suzuki2024talk",
        NO_CURE,
        at_most(0.9),
        resampled=True,
        departs=INFERRED,
        known_negative="Stopping at the best step does nearly all that label noise does. A pilot had 6% left at most.",
    )
    def helps_beyond_stopping(main):
        """At noise variance 1 it also lowers the risk at the best step: this is {criterion} times that without."""
        return _decaying(_relative(main, "best_risk", 1.0))

    def validate(self) -> None:
        self.check_at_most(("tasks", "largest_tasks"))

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.regression.trained_layer import train_layer

        spectrum, prior = (power_law(self.d, a, xp=jnp) for a in (self.spectrum_exponent, self.prior_exponent))
        options = self.as_dict("n", "tasks", "largest_tasks", "batch_size", "noise_variance")
        options["label_noise_variance"] = self.relative_label_noise_variance * self.noise_variance
        record_at = [0, *np.unique(np.geomspace(1, self.steps, 7).round().astype(int)).tolist()]
        found = train_layer(key, spectrum, prior, record_at, shared=True, **options, **DYNAMICS)
        risk = found["risk"]
        return {"risk": risk[-1], "best_risk": risk.min(), "degrees_of_freedom": found["degrees_of_freedom"][-1]}
