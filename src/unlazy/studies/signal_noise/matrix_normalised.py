"""Matrix-normalised descent (Muon): features grow at one pace, common or rare; noise does so too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Part, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_dimension
from unlazy.studies.signal_noise.shared.strategies import (
    RUN_OUTPUTS,
    end_of_run,
    feature_design,
    fresh_feature_errors,
)

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.functions.activations import Activation
    from unlazy.training.signal_noise.token_gram.rules import Rule

COUNTS = (64, 16, 4)
COMMON, RARE = COUNTS[0], COUNTS[-1]
GRID: dict[str, Any] = {"normalised": [0, 1], "strength": [2000.0, 20.0], "power": [2, 1]}
CLEAR, NOISY, RELU = (
    {"strength": strength, "power": power} for strength, power in ((2000.0, 2), (20.0, 2), (2000.0, 1))
)
OPTIMISERS = {1: "Muon", 0: "gradient descent"}
SIGNALS: dict[str, Any] = {"ylabel": r"mean coefficient $\gamma$", "log": "xy"}
ERRORS: dict[str, Any] = {"ylabel": "test error", "log": "x", "ylim": (-0.03, 0.55)}


def _balance(part: Part, normalised: int, where: dict[str, Any]) -> xr.DataArray:
    """The rare feature's coefficient, averaged over neurons, over that of the common one."""
    signals = part.simulated.signals.sel(normalised=normalised, **where)
    return signals.sel(feature=RARE) / signals.sel(feature=COMMON)


def _row(name: str, *, noise: bool = False, width: int | None = None, **more: Any) -> tuple[Panel, ...]:
    """The settings side by side at one width, the last one if it is None; `noise`: with its largest coefficient."""
    return tuple(
        Panel(
            tuple(_shown(name, arm) for arm in OPTIMISERS),
            x="feature",
            at=where if width is None else {**where, "width": width},
            labels=tuple(OPTIMISERS.values()),
            xlabel="samples with the feature",
            legend=where is NOISY,
            draw=_noise(where, width) if noise else None,
            **more,
        )
        for where in (CLEAR, NOISY, RELU)
    )


def _shown(name: str, normalised: int) -> Callable[[xr.Dataset], xr.DataArray]:
    return lambda data: data[name].sel(normalised=normalised)


def _noise(where: dict[str, Any], width: int | None) -> Callable[..., None]:
    """Draws the largest noise coefficients as lines in the colours of the points."""

    def draw(axes: Any, main: Part) -> None:
        from unlazy.plotting import style

        noise = main.simulated.noise_coefficient.sel(where).mean("seed")
        noise = noise.sel(width=width) if width in noise.width.values else noise.isel(width=-1)
        for index, arm in enumerate(OPTIMISERS):
            axes.axhline(float(noise.sel(normalised=arm)), color=style.colour(index), linestyle=":", linewidth=0.9)

    return draw


@dataclass(frozen=True)
class MatrixNormalised(Study):
    """ReLU^q; three orthogonal features of equal length in 64, 16 and 4 samples; patches [y feature, xi].

    Muon is W <- W - eta (g g^T)^(-1/2) g. It and gradient descent stop at the same training loss. A singular direction
    of the gradient grows at the same pace however few samples it stands for, be it a feature or noise.
    """

    question = "Does a matrix-normalised update (Muon) learn rare features as fast as common ones?"
    sources = cite("jordan2024muon", "han2025tutorial")
    departs = "Muon is exact here, without momentum and without Newton-Schulz iterations."
    history = (
        Change(
            "",
            "n SNR^2 and the activation",
            "of four values and two activations one balanced the features, at m = 10; the claims show two that did not",
        ),
        Change("", "the widths 12 and 18", "others were looked at before"),
    )
    chunk_width = 32

    normalised: int = value(1, "1 for Muon, 0 for gradient descent", low=0, high=1, paired=True)
    power: int = value(2, "activation ReLU^q, q = 1 or 2", symbol="q", low=1, high=2, paired=True)
    strength: float = value(2000.0, "n SNR^2", symbol=r"n\,\mathrm{SNR}^2", above=0, high=1e9, scale="log", paired=True)
    d: float = value(2000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    initial_scale: float = value(0.01, "initial deviation of a weight, times sqrt(d)", above=0, high=100, scale="log")
    muon_rate: float = value(
        0.0125, "learning rate of Muon, times |mu|/sqrt(m)", above=0, high=100, scale="log", paired=True
    )
    gradient_rate: float = value(
        0.4, "learning rate of gradient descent, times |mu|^2/m", above=0, high=100, scale="log", paired=True
    )
    target: float = value(0.05, "training loss at which training stops", above=0, high=1, paired=True)
    width: int = static(12, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    steps: int = static(1000, "most updates", low=1, high=10_000_000, scale="log", paired=True)

    outputs = {
        "signals": Output(
            "mean coefficient of a feature", r"\gamma", ("feature",), scale="log", short="mean coefficient"
        ),
        "errors": Output("test error on samples with a feature", "", ("feature",), short="test error"),
        "updates": Output("updates made", scale="log"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {**GRID, "width": [12, 18], "seeds": 16},
        "full": {**GRID, "width": [12, 24, 48], "seeds": 64},
    }
    figure = panels(
        *_row("signals", noise=True, width=12, **SIGNALS),
        *_row("signals", noise=True, **SIGNALS),
        *_row("errors", width=12, **ERRORS),
        *_row("errors", **ERRORS),
        height=2.5,
        caption="Dotted: means of the largest noise coefficient.",
    )

    @claim(OWN, "precondition of the claims below", at_most(0.0501))
    def fit(main):
        """All runs reach the training loss 0.05: it is {criterion}."""
        return main.simulated.training_loss

    @claim(OWN, "this project's question, on the Muon of Jordan et al. 2024", at_most(0.2))
    def gradient(main):
        """With ReLU^2 and little noise (n SNR^2 = 2000) gradient descent learns the rare feature late: its coefficient
        over the common one's is {criterion}."""
        return _balance(main, 0, CLEAR)

    @claim(OWN, "this project's question, on the Muon of Jordan et al. 2024", at_least(0.5))
    def muon(main):
        """There Muon learns both alike: the ratio of the coefficients is {criterion}."""
        return _balance(main, 1, CLEAR)

    @claim(OWN, "this project's observation", at_least(math.log(1.01)))
    def noise_memory(main):
        """At n SNR^2 = 20 Muon memorises more noise than gradient descent: the largest noise coefficient is larger by
        1% or more, the logarithm of the ratio {criterion} on average."""
        noise = np.log(main.simulated.noise_coefficient.sel(NOISY))
        return noise.sel(normalised=1) - noise.sel(normalised=0)

    @claim(
        OWN,
        "this project's question, on the Muon of Jordan et al. 2024",
        at_least(0.01),
        known_negative=(
            "The polar factor gives every singular direction of the gradient the same pace, also those of the "
            "samples' own noise: Muon memorises more of it than gradient descent before it reaches the same loss."
        ),
    )
    def noise_gain(main):
        """At n SNR^2 = 20 Muon has the lower error on the rare feature, by {criterion}."""
        errors = main.simulated.errors.sel(feature=RARE, **NOISY)
        return errors.sel(normalised=0) - errors.sel(normalised=1)

    @claim(
        OWN,
        "this project's question, on the Muon of Jordan et al. 2024",
        at_least(0.5),
        known_negative=(
            "With ReLU every neuron is moved along the same sum over features, weighted by their samples, "
            "whichever side of a feature it is on: the signal in the gradient is one singular direction, which the "
            "polar factor scales as a whole."
        ),
    )
    def relu_balance(main):
        """With ReLU, too, Muon learns both features alike: the ratio of the coefficients is {criterion}."""
        return _balance(main, 1, RELU)

    def validate(self) -> None:
        check_dimension(self.d, samples=sum(COUNTS), width=self.width, shared=len(COUNTS))

    def coordinates(self) -> dict[str, Any]:
        return {"feature": list(COUNTS)}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp
        import numpy as np

        from unlazy.training.signal_noise.token_gram.drawing import draw, paired_second_layer
        from unlazy.training.signal_noise.token_gram.engine import train
        from unlazy.training.signal_noise.token_gram.network import Network
        from unlazy.training.signal_noise.token_gram.observables import signal_coefficients

        draw_key, train_key, test_key = jax.random.split(key, 3)
        samples, features = sum(COUNTS), len(COUNTS)
        design = feature_design(jnp.asarray(np.repeat(np.eye(features), COUNTS, axis=0)))
        length = jnp.sqrt(self.strength * self.d / samples)
        problem = draw(
            draw_key,
            design,
            jnp.full(features, length),
            paired_second_layer(self.width),
            dimension=self.d,
            scale=self.initial_scale / jnp.sqrt(self.d),
        )
        network = Network(_relu_or_square(self.power))
        rule = _muon_or_gradient(
            self.normalised, self.muon_rate * self.width**0.5 / length, self.gradient_rate * self.width / length**2
        )
        state = train(train_key, problem, network, rule, self.steps, stop_loss=self.target).state
        kinds = jnp.zeros((features, 2, features)).at[:, 0].set(jnp.eye(features))
        return {
            "signals": signal_coefficients(problem, state.weights).mean(0),
            "errors": fresh_feature_errors(test_key, problem, state, network, kinds),
            "updates": state.step,
            **end_of_run(problem, state),
        }


def _relu_or_square(power: Any) -> Activation:
    """ReLU^q for a traced q in {1, 2}: one program serves both."""
    import jax.numpy as jnp

    from unlazy.functions.activations import ACTIVATIONS, Activation

    relu = ACTIVATIONS["relu"]
    return Activation(
        "relu or relu^2",
        lambda z: jnp.where(power == 1, relu(z), relu(z) ** 2),
        lambda z: jnp.where(power == 1, relu.derivative(z), 2 * relu(z)),
    )


def _muon_or_gradient(normalised: Any, muon_rate: Any, gradient_rate: Any) -> Rule:
    """The polar factor of the gradient or the gradient, by a traced switch: one program serves both."""
    import jax
    import jax.numpy as jnp
    import optax

    from unlazy.training.signal_noise.token_gram.rules import Rule, polar_factor

    polar = polar_factor()

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        direction, state = polar.update(updates, state, params, **extra)
        change = jax.tree.map(
            lambda unit, slope: jnp.where(normalised == 1, -muon_rate * unit, -gradient_rate * slope),
            direction,
            updates,
        )
        return change, state

    return Rule(optax.GradientTransformationExtraArgs(polar.init, update))
