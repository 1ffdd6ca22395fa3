"""Label-noise gradient descent: fresh label flips at every step keep a network from memorising noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import DIVERGED_AT, Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_least, at_most, claim, parameter, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_dimension, check_even, check_room
from unlazy.studies.signal_noise.shared.race import paired_neurons

if TYPE_CHECKING:
    from jax import Array

RECORDS = 20
FRESH = 300
DIMS = ("step",)
RATES = [0.02, 0.1, 0.5, 1.0, 2.0]
SMALL, LARGE = RATES[0], RATES[-1]


def _arms(data):
    """The runs of plain gradient descent, and those with label noise."""
    return data.sel(flip_probability=0.0), data.sel(flip_probability=data.flip_probability > 0)


def _ends(main):
    return tuple(data.isel(step=-1) for data in _arms(main.simulated))


def _over_steps(shown, **options):
    at = {"strength": 0.2, "width": 10}
    return Panel(shown, x="step", by="flip_probability", at=at, xlabel="steps $t$", theory=False, **options)


def _over_rates(shown, **options):
    return Panel(shown, x="learning_rate", part="rate", xlabel=r"learning rate $\eta d/nm$", theory=False, **options)


def _plateaus(axes, main, **_):
    from unlazy.plotting import style

    for index, p in enumerate(np.atleast_1d(parameter(main.simulated, "flip_probability"))):
        axes.axhline(-np.log1p(-p), color=style.colour(index), linestyle="--", linewidth=0.9)


@dataclass(frozen=True)
class LabelNoiseGd(Study):
    """f = F_1 - F_-1, F_j = (1/m) sum_r relu(<w_jr, y mu>)^2 + relu(<w_jr, xi>)^2, labels flipped each step.

    Both arms share data, start and test noise.
    """

    question = (
        "Does flipping labels at random during training keep a network from memorising noise when the SNR is low?"
    )
    sources = cite("huang2025labels", "han2025tutorial")

    flip_probability: float = value(0.2, "probability of a flip", symbol="p", low=0, high=0.49, paired=True)
    strength: float = value(0.5, "signal strength n SNR^2", symbol=r"n\,\mathrm{SNR}^2", above=0, high=1e4, scale="log")
    learning_rate: float = value(
        0.5, "learning rate times d/(nm)", symbol=r"\eta d/nm", above=0, high=10, scale="log", paired=True
    )
    width: int = value(10, "neurons of each class", symbol="m", low=1, high=4096)
    most_neurons: int = static(20, "neurons of each class that memory is kept for", low=1, high=4096, paired=True)
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    d: float = value(1000.0, "dimension of a patch", symbol="d", low=2, high=1e9, scale="log")
    start: float = value(0.05, "initial scale sigma_0 sqrt(d)", symbol=r"\sigma_0\sqrt{d}", above=0, high=1)
    steps: int = static(1000, "steps", low=RECORDS, high=1_000_000, scale="log", paired=True)

    outputs = {
        "test_error": Output("test error", "", DIMS),
        "training_loss": Output("training loss on the true labels", "", DIMS),
        "signal": Output("largest signal coefficient", r"\max\gamma", DIMS, scale="log"),
        "noise": Output("largest noise coefficient", r"\max\rho", DIMS, scale="log"),
        "dead_noise": Output("largest noise coefficient against the sample's class", r"\max(-\rho)", DIMS, scale="log"),
        "diverged_at": DIVERGED_AT,
        "plateau": Output("training loss at rest", r"-\log(1-p)", theory_only=True),
    }
    history = (
        Change(
            "",
            "settings",
            "the effect appeared in the first that were tried, a scan of 18, except at the largest step size; here "
            "n = 40 and d = 1000 are smaller than there, and steps fewer",
        ),
    )
    presets = {
        "quick": {
            "main": {"flip_probability": [0.0, 0.2, 0.4], "strength": [0.2, 0.5], "width": [10, 20], "seeds": 12},
            "rate": {"learning_rate": RATES, "flip_probability": [0.2], "seeds": 12},
        },
        "full": {
            "main": {
                "flip_probability": [0.0, 0.1, 0.2, 0.4],
                "strength": [0.2, 0.5],
                "width": [10, 20],
                "n": 100,
                "d": 2000.0,
                "steps": 2000,
                "seeds": 16,
            },
            "rate": {
                "learning_rate": RATES,
                "flip_probability": [0.2, 0.4],
                "n": 100,
                "d": 2000.0,
                "steps": 2000,
                "seeds": 16,
            },
        },
    }
    figure = panels(
        _over_steps("test_error", marks=(Level(0.5, "guessing", dashed=True),)),
        _over_steps(
            "training_loss", title=r"dashed: $-\log(1-p)$", ylabel="training loss, true labels", draw=_plateaus
        ),
        _over_steps(lambda data: np.log10(data.signal), ylabel=r"$\log_{10}$ largest signal coefficient"),
        _over_steps(lambda data: np.log10(data.noise), ylabel=r"$\log_{10}$ largest noise coefficient"),
        _over_rates("test_error", by="flip_probability"),
        _over_rates(
            ("signal", "noise", "dead_noise"),
            at={"flip_probability": 0.2},
            labels=(r"signal $\max\gamma$", r"noise $\max\rho$", r"noise $\max(-\rho)$"),
            ylabel="largest coefficient",
        ),
        columns=3,
        caption="Dashed: theory. The panels over learning rates have n SNR^2 = 0.5 unless it is set.",
    )

    @claim("huang2025labels", "", at_least(0.4))
    def gradient_descent(main):
        """At n SNR^2 = 0.2 and 0.5 gradient descent fits its samples and guesses on others: the test error is
        {criterion}."""
        plain, _ = _ends(main)
        return plain.test_error

    @claim("huang2025labels", "", at_most(0.01))
    def gradient_descent_fits(main):
        """Its training loss is {criterion}."""
        plain, _ = _ends(main)
        return plain.training_loss

    @claim("huang2025labels", "", at_most(0.05))
    def label_noise(main):
        """From the same start on the same samples label-noise gradient descent generalises: the test error is
        {criterion}."""
        _, noisy = _ends(main)
        return noisy.test_error

    @claim("huang2025labels", "", within(0.03, absolute=True))
    def plateau(main):
        """Its training loss ends at -log(1-p), {criterion}, where the pulls of true and flipped labels cancel."""
        (_, loss), (_, rest) = _arms(main.simulated.training_loss), _arms(main.predicted.plateau)
        return loss.isel(step=slice(-RECORDS // 5, None)).mean("step") - rest

    @claim("huang2025labels han2025tutorial", "table on label-noise SGD", at_least(np.log(1.01)))
    def signal_grows(main):
        """Under label noise the signal is learned and the noise suppressed: the logarithm of max gamma over max rho is
        {criterion}, which is 1%."""
        _, noisy = _ends(main)
        return np.log(noisy.signal / noisy.noise)

    @claim("huang2025labels han2025tutorial", "table on label-noise SGD", at_least(np.log(10)))
    def noise_dominates(main):
        """Without it noise dominates: the logarithm of max rho over max gamma is {criterion}, a factor of 10."""
        plain, _ = _ends(main)
        return np.log(plain.noise / plain.signal)

    @claim(
        OWN,
        "own question",
        at_most(0.05),
        known_negative=(
            "A step multiplies a noise pre-activation by 1 + 2 s eta d/nm, where s is 1/2 for a right label and "
            "-1/2 for a flipped one at first. Beyond eta = nm/d the first flip makes it negative: the neuron is "
            "then dead on that sample and keeps a large negative noise coefficient (30, against a signal of 3), "
            "which fresh noise meets."
        ),
    )
    def large_step(rate):
        """It generalises at a large step size too: at eta = 2nm/d the test error is {criterion}."""
        return rate.simulated.test_error.isel(step=-1).sel(learning_rate=LARGE)

    @claim(OWN, "own observation", at_least(0.4))
    def small_step(rate):
        """The step must be large: at eta = 0.02 nm/d the test error after as many steps is {criterion}."""
        return rate.simulated.test_error.isel(step=-1).sel(learning_rate=SMALL)

    def validate(self) -> None:
        check_even("n", self.n)
        check_room(self, width="most_neurons")
        check_dimension(self.d, samples=self.n, width=self.most_neurons)

    def coordinates(self) -> dict[str, Any]:
        return {"step": [self.steps * k // RECORDS for k in range(1, RECORDS + 1)]}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.token_gram.drawing import draw
        from unlazy.training.signal_noise.token_gram.engine import State, train
        from unlazy.training.signal_noise.token_gram.fresh import fresh_error
        from unlazy.training.signal_noise.token_gram.network import Network, relu_power
        from unlazy.training.signal_noise.token_gram.observables import noise_coefficients, signal_coefficients
        from unlazy.training.signal_noise.token_gram.problem import signal_noise_design
        from unlazy.training.signal_noise.token_gram.rules import gradient_descent
        from unlazy.training.signal_noise.token_gram.views import label_flips

        draw_key, train_key, test_key = jax.random.split(key, 3)
        network, second_layer = Network(relu_power(2)), paired_neurons(self.width, self.most_neurons)
        design = signal_noise_design(self.n)
        problem = draw(
            draw_key,
            design,
            jnp.reshape(jnp.sqrt(self.strength * self.d / self.n), (1,)),
            second_layer,
            dimension=self.d,
            scale=self.start / jnp.sqrt(jnp.asarray(self.d, float)),
        )
        own = jnp.sign(second_layer)[:, None] == design.classes

        def measure(state: State) -> dict[str, Array]:
            noise = jnp.where(own, noise_coefficients(problem, state.weights)[:, :, 0], 0.0)
            return {
                "test_error": fresh_error(test_key, problem, state.weights, network, draws=FRESH).error,
                "training_loss": state.loss,
                "signal": jnp.max(signal_coefficients(problem, state.weights)),
                "noise": jnp.max(noise),
                "dead_noise": jnp.max(-noise),
            }

        rule = gradient_descent(
            self.learning_rate * self.n * self.width / self.d, view=label_flips(self.flip_probability)
        )
        steps = self.coordinates()["step"]
        run = train(train_key, problem, network, rule, self.steps, record=measure, record_at=steps)
        return {**run.records, "diverged_at": run.state.diverged_at}

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.signal_noise.label_noise import label_noise_plateau

        return {"plateau": label_noise_plateau(self.flip_probability).clean_loss}
