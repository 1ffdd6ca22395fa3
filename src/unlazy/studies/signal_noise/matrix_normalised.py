"""Matrix-normalised descent (Muon): features grow at one pace, common or rare; noise does so too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlazy.lab import Claim, Output, Part, Source, Study, at_least, at_most, static, value
from unlazy.studies.signal_noise.shared.checks import check_dimension
from unlazy.studies.signal_noise.shared.sources import TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import (
    RUN_OUTPUTS,
    end_of_run,
    feature_design,
    fresh_feature_errors,
    widths,
)

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.functions.activations import Activation
    from unlazy.training.signal_noise.token_gram.rules import Rule

COUNTS = (64, 16, 4)
COMMON, RARE = COUNTS[0], COUNTS[-1]
BALANCE = "the project's own question, on the Muon of Jordan et al. 2024"
GRID: dict[str, Any] = {"normalised": [0, 1], "strength": [2000.0, 20.0], "power": [2, 1]}
ARMS = {name: tuple(values) for name, values in GRID.items()}
CLEAR, NOISY, RELU = (
    {"strength": strength, "power": power} for strength, power in ((2000.0, 2), (20.0, 2), (2000.0, 1))
)


def _balance(part: Part, normalised: int, where: dict[str, Any]) -> xr.DataArray:
    """The rare feature's coefficient, averaged over neurons, over that of the common one."""
    signals = part.simulated.signals.sel(normalised=normalised, **where)
    return signals.sel(feature=RARE) / signals.sel(feature=COMMON)


def _rare_gain(part: Part) -> xr.DataArray:
    """How much lower the error on the rare feature is with Muon than with gradient descent."""
    errors = part.simulated.errors.sel(feature=RARE, **NOISY)
    return errors.sel(normalised=0) - errors.sel(normalised=1)


def _noise_ratio(part: Part) -> xr.DataArray:
    """The logarithm of the largest noise coefficient of Muon over that of gradient descent."""
    import numpy as np

    noise: xr.DataArray = np.log(part.simulated.noise_coefficient.sel(NOISY))
    return noise.sel(normalised=1) - noise.sel(normalised=0)


@dataclass(frozen=True)
class MatrixNormalised(Study):
    """ReLU^q; three orthogonal features of equal length in 64, 16 and 4 samples; patches [y feature, xi].

    Muon is exact here: W <- W - eta (g g^T)^(-1/2) g, without momentum and without Newton-Schulz iterations. It and
    gradient descent stop at the same training loss. A singular direction of the gradient grows at the same pace however
    few samples it stands for, be it a feature or noise. The setting is tuned: of four values of n SNR^2 and two
    activations one balanced the features, at m = 10; the claims show two that did not. The widths
    12 and 18 were chosen after a look at others.
    """

    name = "matrix-normalised"
    topic = "signal_noise"
    question = "Does a matrix-normalised update (Muon) learn rare features as fast as common ones?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals, shifted a little aside. Horizontal lines: the "
        "largest noise coefficient, also simulated, dotted for the first width, dash-dotted for the second."
    )
    sources = (
        Source(
            "jordan2024muon",
            "Jordan, Keller and Jin, Yuchen and Boza, Vlado and You, Jiacheng and Cesista, Franz and Newhouse, Laker "
            "and Bernstein, Jeremy",
            2024,
            "Muon: An optimizer for hidden layers in neural networks",
            "Blog post",
            kind="misc",
        ),
        TUTORIAL,
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
        "signals": Output("mean coefficient of a feature", r"\gamma", ("feature",), scale="log"),
        "errors": Output("test error on samples with a feature", "", ("feature",)),
        "updates": Output("updates made", scale="log"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {**GRID, "width": [12, 18], "seeds": 16},
        "full": {**GRID, "width": [12, 24, 48], "seeds": 64},
    }
    claims = (
        Claim(
            "fit",
            "precondition",
            "All runs reach the training loss 0.05.",
            at_most(0.0501),
            check=lambda part: part.simulated.training_loss,
        ),
        Claim(
            "gradient",
            BALANCE,
            "With ReLU^2 and little noise (n SNR^2 = 2000) gradient descent learns the rare feature late: its "
            "coefficient is at most a fifth of the common one's.",
            at_most(0.2),
            check=lambda part: _balance(part, 0, CLEAR),
            needs=ARMS,
        ),
        Claim(
            "muon",
            BALANCE,
            "There Muon learns both alike: the ratio of the coefficients is at least 1/2.",
            at_least(0.5),
            check=lambda part: _balance(part, 1, CLEAR),
            needs=ARMS,
        ),
        Claim(
            "noise-memory",
            "the project's own observation",
            "At n SNR^2 = 20 Muon memorises more noise than gradient descent: the largest noise coefficient is larger "
            "by at least 1% (mean logarithm).",
            at_least(math.log(1.01)),
            check=_noise_ratio,
            needs=ARMS,
        ),
        Claim(
            "noise-gain",
            BALANCE,
            "At n SNR^2 = 20 Muon has the lower error on the rare feature, by at least 0.01.",
            at_least(0.01),
            check=_rare_gain,
            needs=ARMS,
            known_negative=(
                "The polar factor gives every singular direction of the gradient the same pace, also those of the "
                "samples' own noise: Muon memorises more of it than gradient descent before it reaches the same loss."
            ),
        ),
        Claim(
            "relu-balance",
            BALANCE,
            "With ReLU, too, Muon learns both features alike: the ratio of the coefficients is at least 1/2.",
            at_least(0.5),
            check=lambda part: _balance(part, 1, RELU),
            needs=ARMS,
            known_negative=(
                "With ReLU every neuron is moved along the same sum over features, weighted by their samples, "
                "whichever side of a feature it is on: the signal in the gradient is one singular direction, which the "
                "polar factor scales as a whole."
            ),
        ),
    )

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

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        data = widths(main.simulated, "normalised", "strength", "power")
        there = data[0][1]
        cells = [
            {"strength": strength, "power": power}
            for power in there.power.values
            for strength in there.strength.values
            if (strength, power) != (20.0, 1) or there.strength.size == 1
        ]
        figure, panels = style.panels(len(cells), 2, width=2.9, height=2.6)
        panels = panels.reshape(2, len(cells))
        for (top, bottom), where in zip(panels.T, cells, strict=True):
            for index, (width, points) in enumerate(data):
                for row, (arm, text) in enumerate(((1, "Muon"), (0, "gradient descent"))):
                    if arm not in points.normalised:
                        continue
                    line = points.sel(normalised=arm, **where)
                    places = line.feature * 1.07 ** (2 * index + row - 1.5)
                    options: Any = {"color": style.colour(row), "marker": style.marker(index)}
                    style.simulation(top, places, line.signals, **options, label=f"{text}, $m = {width}$")
                    style.simulation(bottom, places, line.errors, **options)
                    level = float(line.noise_coefficient.mean())
                    top.axhline(level, color=style.colour(row), linestyle=":" if index == 0 else "-.", linewidth=0.9)
            for axes in (top, bottom):
                style.log_scale(axes, "xy" if axes is top else "x")
                axes.set_xticks(COUNTS, [str(count) for count in COUNTS])
                axes.minorticks_off()
                axes.set_xlabel("samples with the feature")
            bottom.set(ylim=(-0.03, 0.55), ylabel="test error")
            top.set_ylabel(style.label("mean coefficient", r"\gamma"))
            activation = {1: "ReLU", 2: "ReLU$^2$"}[int(where["power"])]
            top.set_title(rf"{activation}, $n\,\mathrm{{SNR}}^2 = {where['strength']:g}$")
        panels[1, 0].set_title("above, dotted: largest noise coefficient")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return figure


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
