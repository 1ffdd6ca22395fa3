"""Label-noise gradient descent: fresh label flips at every step keep a network from memorising noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import DIVERGED_AT, Claim, Output, Part, Study, at_least, at_most, between, parameter, static, value
from unlazy.studies.signal_noise.shared.checks import check_dimension, check_even, check_room
from unlazy.studies.signal_noise.shared.race import paired_neurons
from unlazy.studies.signal_noise.shared.sources import HUANG_LABELS, TUTORIAL

if TYPE_CHECKING:
    import xarray as xr
    from jax import Array

HUANG_TEXT = "Huang et al. 2025"
SLIDE = "Huang et al. 2025; Han & Huang 2025, table on label-noise SGD"
RECORDS = 20
FRESH = 300
DIMS = ("step",)
RATES = [0.02, 0.1, 0.5, 1.0, 2.0]
SMALL, LARGE = RATES[0], RATES[-1]
TWO = {"flip_probability": (0.0,)}


def _arm(data: xr.DataArray, noisy: bool) -> xr.DataArray:
    """The runs with label noise, or those of plain gradient descent."""
    return data.sel(flip_probability=data.flip_probability > 0 if noisy else 0.0)


def _last(part: Part, name: str, noisy: bool) -> xr.DataArray:
    return _arm(part.simulated[name], noisy).isel(step=-1)


def _plateau(part: Part) -> xr.DataArray:
    """The training loss over the last fifth of the run."""
    loss = _arm(part.simulated.training_loss, True)
    return loss.isel(step=slice(-RECORDS // 5, None)).mean("step")


@dataclass(frozen=True)
class LabelNoiseGd(Study):
    """f = F_1 - F_-1, F_j = (1/m) sum_r relu(<w_jr, y mu>)^2 + relu(<w_jr, xi>)^2, labels flipped each step.

    Both arms share data, start and test noise. The effect appeared in the first settings that were tried, a scan of 18,
    except at the largest step size; here n = 40 and d = 1000 are smaller than there, and steps fewer.
    """

    name = "label-noise-gd"
    topic = "signal_noise"
    question = (
        "Does flipping labels at random during training keep a network from memorising noise when the SNR is low?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Dashed: theory. Third panel: geometric means over "
        "seeds of the simulation, solid for signal, dotted for noise."
    )
    sources = (HUANG_LABELS, TUTORIAL)

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
    claims = (
        Claim(
            "gradient-descent",
            HUANG_TEXT,
            "At n SNR^2 = 0.2 and 0.5 gradient descent fits its samples and guesses on others: the test error is at "
            "least 0.4.",
            at_least(0.4),
            check=lambda main: _last(main, "test_error", noisy=False),
            needs=TWO,
        ),
        Claim(
            "gradient-descent-fits",
            HUANG_TEXT,
            "Its training loss is at most 0.01.",
            at_most(0.01),
            check=lambda main: _last(main, "training_loss", noisy=False),
            needs=TWO,
        ),
        Claim(
            "label-noise",
            HUANG_TEXT,
            "From the same start on the same samples label-noise gradient descent generalises: the test error is at "
            "most 0.05.",
            at_most(0.05),
            check=lambda main: _last(main, "test_error", noisy=True),
            needs=TWO,
        ),
        Claim(
            "plateau",
            HUANG_TEXT,
            "Its training loss ends at -log(1-p), within 0.03, where the pulls of true and flipped labels cancel.",
            between(-0.03, 0.03),
            check=lambda main: _plateau(main) - _arm(main.predicted.plateau, True),
            needs=TWO,
        ),
        Claim(
            "signal-grows",
            SLIDE,
            "Under label noise the signal is learned and the noise suppressed: max gamma is larger than max rho, by at "
            "least 1%.",
            at_least(np.log(1.01)),
            check=lambda main: np.log(_last(main, "signal", noisy=True) / _last(main, "noise", noisy=True)),
            needs=TWO,
        ),
        Claim(
            "noise-dominates",
            SLIDE,
            "Without it noise dominates: max rho is at least ten times max gamma.",
            at_least(np.log(10)),
            check=lambda main: np.log(_last(main, "noise", noisy=False) / _last(main, "signal", noisy=False)),
            needs=TWO,
        ),
        Claim(
            "large-step",
            "the project's own question",
            "It generalises at a large step size too: at eta = 2nm/d the test error is at most 0.05.",
            at_most(0.05),
            check=lambda rate: rate.simulated.test_error.isel(step=-1).sel(learning_rate=LARGE),
            parts=("rate",),
            needs={"learning_rate": (LARGE,)},
            known_negative=(
                "A step multiplies a noise pre-activation by 1 + 2 s eta d/nm, where s is 1/2 for a right label and "
                "-1/2 for a flipped one at first. Beyond eta = nm/d the first flip makes it negative: the neuron is "
                "then dead on that sample and keeps a large negative noise coefficient (30, against a signal of 3), "
                "which fresh noise meets."
            ),
        ),
        Claim(
            "small-step",
            "the project's own observation",
            "The step must be large: at eta = 0.02 nm/d the test error after as many steps is at least 0.4.",
            at_least(0.4),
            check=lambda rate: rate.simulated.test_error.isel(step=-1).sel(learning_rate=SMALL),
            parts=("rate",),
            needs={"learning_rate": (SMALL,)},
        ),
    )

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

    def figure(self, main: Part, rate: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(4, 1, width=2.8, height=2.8)
        shown = main.simulated.isel(strength=0) if "strength" in main.simulated.dims else main.simulated
        shown = shown.isel(width=0) if "width" in shown.dims else shown
        for index, p in enumerate(np.atleast_1d(parameter(shown, "flip_probability"))):
            points = shown.sel(flip_probability=p) if "flip_probability" in shown.dims else shown
            color, marker = style.colour(index), style.marker(index)
            text = rf"$p = {p:g}$" if p else "GD"
            style.simulation(axes[0], points.step, points.test_error, color=color, marker=marker, label=text)
            style.simulation(axes[1], points.step, points.training_loss, color=color, marker=marker)
            axes[1].axhline(-np.log1p(-p), color=color, linestyle="--", linewidth=0.9)
            for name, line in (("signal", "-"), ("noise", ":")):
                axes[2].plot(
                    points.step,
                    np.exp(np.log(points[name].values).mean(points[name].dims.index("seed"))),
                    line,
                    color=color,
                )
        strength = float(parameter(shown, "strength"))
        axes[0].set(ylabel="test error", title=rf"$n\,\mathrm{{SNR}}^2 = {strength:g}$")
        axes[1].set(ylabel="training loss, true labels", title=r"dashed: $-\log(1-p)$")
        axes[2].set(ylabel="largest coefficient", title=r"lines: signal; dotted: noise")
        style.log_scale(axes[2], "y")
        for panel in axes[:3]:
            panel.set_xlabel(style.label("steps", "t"))
        axes[0].legend()

        last = rate.simulated.isel(step=-1)
        for index, p in enumerate(np.atleast_1d(parameter(last, "flip_probability"))):
            points = last.sel(flip_probability=p) if "flip_probability" in last.dims else last
            style.simulation(
                axes[3],
                points.learning_rate,
                points.test_error,
                color=style.colour(index + 1),
                marker=style.marker(index),
            )
        style.log_scale(axes[3], "x")
        strength = float(parameter(last, "strength"))
        axes[3].set(xlabel=style.label("learning rate", r"\eta d/nm"), ylabel="test error at the end")
        axes[3].set_title(rf"$n\,\mathrm{{SNR}}^2 = {strength:g}$, colours as left")
        return figure
