"""Momentum: a network learns from samples with a small margin because it remembers those with a large one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Source, Study, at_least, at_most, parameter, static, value
from unlazy.studies.signal_noise.shared.checks import check_even, check_room
from unlazy.studies.signal_noise.shared.sources import TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import (
    RUN_OUTPUTS,
    at,
    end_of_run,
    feature_design,
    fresh_feature_errors,
    widths,
)

if TYPE_CHECKING:
    import xarray as xr

PLAIN = "Jelassi & Li 2022, theorem on gradient descent"
MOMENTUM = "Jelassi & Li 2022, theorem on momentum"
ARMS = {"momentum": (0.0, 0.99)}


def _median_rise(part: Part, name: str) -> xr.DataArray:
    """The median over seeds of how much momentum raises an output of the same start and samples."""
    return (at(part, name, momentum=0.99) - at(part, name, momentum=0.0)).median("seed")


@dataclass(frozen=True)
class Momentum(Study):
    """f = sum_r sum_p <w_r, x_p>^3, patches [y c w*, xi]; c = 1 in most samples and small in a few.

    The update is M <- b M + (1 - b) g, W <- W - eta M; b = 0 is plain gradient descent. The sizes are tuned: of six
    settings of (b, noise, width, learning rate) the first four showed no or a weak effect.
    A few runs with momentum stay near the error of guessing (0 of 32 at R = 10 and 1 of 32 at R = 16 in the quick
    preset), so that the claims judge medians over seeds. Ten times as many steps of plain descent do not change its
    error.
    """

    name = "momentum"
    topic = "signal_noise"
    question = (
        "Does momentum learn the feature of samples whose margin is small, where gradient descent memorises them?"
    )
    caption = "All simulation: dots are single runs, large marks medians over seeds."
    sources = (
        Source(
            "jelassi2022",
            "Jelassi, Samy and Li, Yuanzhi",
            2022,
            "Towards understanding how momentum improves generalization in deep learning",
            "International Conference on Machine Learning",
            kind="inproceedings",
        ),
        TUTORIAL,
    )
    chunk_width = 32

    momentum: float = value(0.99, "momentum, 0 for none", symbol=r"\beta", low=0, high=0.99999, paired=True)
    amplitude: float = value(0.1, "feature in the samples of small margin", symbol="c", low=0, high=1, scale="log")
    small: int = value(4, "samples of small margin", symbol="n'", low=0, high=5000)
    noise_square: float = value(4.0, "mean square length of the noise", symbol=r"\sigma^2d", above=0, high=1e6)
    d: float = value(200.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    learning_rate: float = value(0.3, "learning rate", symbol=r"\eta", above=0, high=100, scale="log", paired=True)
    initial_scale: float = value(0.03, "initial deviation of a weight", above=0, high=100, scale="log")
    width: int = static(10, "neurons", symbol="R", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(2000, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "small_error": Output("error on samples of small margin"),
        "large_error": Output("error on samples of large margin"),
        "alignment": Output("largest weight of the feature", r"\max\langle w,w^*\rangle"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"momentum": [0.0, 0.9, 0.99], "width": [10, 16], "seeds": 32},
        "full": {"momentum": [0.0, 0.5, 0.9, 0.95, 0.98, 0.99, 0.995], "width": [10, 16, 32], "seeds": 64},
    }
    claims = (
        Claim(
            "fit",
            "precondition",
            "Both fit their training samples: the median training loss is at most 0.05.",
            at_most(0.05),
            statistic=lambda part: part.simulated.training_loss.sel(momentum=[0.0, 0.99]).median("seed"),
            needs=ARMS,
        ),
        Claim(
            "plain",
            PLAIN,
            "Gradient descent does not learn enough of the feature for samples of small margin: its median error there "
            "is at least 0.1.",
            at_least(0.1),
            statistic=lambda part: at(part, "small_error", momentum=0.0).median("seed"),
            needs=ARMS,
        ),
        Claim(
            "momentum",
            MOMENTUM,
            "With momentum 0.99 the median error is at most 0.1.",
            at_most(0.1),
            statistic=lambda part: at(part, "small_error", momentum=0.99).median("seed"),
            needs=ARMS,
        ),
        Claim(
            "gain",
            MOMENTUM,
            "For the same samples and start momentum lowers the error by at least 0.05 (median).",
            at_least(0.05),
            statistic=lambda part: -_median_rise(part, "small_error"),
            needs=ARMS,
        ),
        Claim(
            "alignment",
            "Jelassi & Li 2022 (historical gradients)",
            "Momentum goes on learning the feature where gradient descent stops: the largest <w, w*> is larger by at "
            "least 0.01 (median of the difference).",
            at_least(0.01),
            statistic=lambda part: _median_rise(part, "alignment"),
            needs=ARMS,
        ),
        Claim(
            "large",
            PLAIN,
            "Both classify samples of large margin: the median error is at most 0.01.",
            at_most(0.01),
            statistic=lambda part: part.simulated.large_error.sel(momentum=[0.0, 0.99]).median("seed"),
            needs=ARMS,
        ),
    )

    def validate(self) -> None:
        check_even("n", self.n)
        check_room(self, small="n")
        least = self.n + self.width + 1
        if self.d < least:
            raise InputError(f"d must be at least n + width + 1 = {least}, got {self.d:g}")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.token_gram.drawing import draw
        from unlazy.training.signal_noise.token_gram.engine import train
        from unlazy.training.signal_noise.token_gram.network import CUBE, Network
        from unlazy.training.signal_noise.token_gram.rules import gradient_descent

        draw_key, train_key, test_key = jax.random.split(key, 3)
        design = feature_design(jnp.where(jnp.arange(self.n) < self.small, self.amplitude, 1.0)[:, None])
        problem = draw(
            draw_key,
            design,
            jnp.ones(1),
            jnp.ones(self.width),
            dimension=self.d,
            scale=self.initial_scale,
            noise=jnp.sqrt(self.noise_square / self.d),
        )
        network = Network(CUBE)
        rule = gradient_descent(self.learning_rate, average=self.momentum)
        state = train(train_key, problem, network, rule, self.steps).state
        kinds = jnp.zeros((2, 2, 1)).at[:, 0, 0].set(jnp.stack([jnp.asarray(self.amplitude, float), jnp.ones(())]))
        errors = fresh_feature_errors(test_key, problem, state, network, kinds)
        return {
            "small_error": errors[0],
            "large_error": errors[1],
            "alignment": state.weights.preactivations[:, 0].max(),
            **end_of_run(problem, state),
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (error, signal, loss) = style.panels(3, 1, width=2.9, height=2.7)
        for index, (width, points) in enumerate(widths(main.simulated)):
            arms = np.atleast_1d(parameter(points, "momentum"))
            color, text = style.colour(index), f"$R = {width}$"
            shown = {"small_error": error, "alignment": signal, "training_loss": loss}
            for name, axes in shown.items():
                values = points[name] if "momentum" in points.dims else points[name].expand_dims(momentum=arms)
                places = np.arange(len(arms)) + 0.16 * (index - 0.5)
                jitter = np.linspace(-0.06, 0.06, values.sizes["seed"])
                for place, arm in zip(places, arms, strict=True):
                    at = values.sel(momentum=arm)
                    axes.plot(place + jitter, at, ".", color=color, alpha=0.35, markersize=3, zorder=2)
                medians = values.median("seed")
                axes.plot(places, medians, style.marker(index), color=color, markeredgecolor="white", label=text)
                axes.set_xticks(np.arange(len(arms)), [f"{arm:g}" for arm in arms])
                axes.set_xlabel(style.label("momentum", r"\beta"))
        error.set(ylabel="error on samples of small margin", title="dots: runs; large: medians")
        signal.set_ylabel(r"largest $\langle w,w^*\rangle$")
        style.log_scale(loss, "y")
        loss.set_ylabel("training loss")
        error.legend()
        return figure
