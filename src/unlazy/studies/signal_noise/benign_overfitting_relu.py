"""Overfitting of a ReLU network: the test error is a function of n |mu|^4 / (sigma^4 d) alone, and which one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import DIVERGED_AT, Claim, Output, Part, Study, at_least, at_most, between, parameter, static, value
from unlazy.studies.signal_noise.shared.checks import check_dimension, check_even, check_room
from unlazy.studies.signal_noise.shared.race import paired_neurons
from unlazy.studies.signal_noise.shared.sources import KOU, TUTORIAL

if TYPE_CHECKING:
    import xarray as xr
    from jax import Array

KOU_TEXT = "Kou et al. 2023, Theorem 4.2"
FORMULA = "the project's formula"
LEVELS = [0.3, 1.0, 3.0, 10.0]
SIZES = [(40, 1e5), (80, 1e5), (80, 1e6)]
STEPS = (1, 2, 4, 8, 16, 32, 64)
"""Steps after which signal and noise are recorded."""
LINEAR = 4
"""How many of them the linear law is judged by, in the part with short steps."""
FRESH = 1000


def _with_measured(simulated: xr.Dataset) -> xr.DataArray:
    """The formula with each run's own fraction of active pairs."""
    import xarray as xr

    from unlazy.theory.signal_noise.relu_overfitting import relu_error

    level, active = xr.broadcast(simulated.level, simulated.active)
    return active.copy(data=relu_error(level.values, active.values))


def _low(data: xr.DataArray) -> xr.DataArray:
    """The cases whose error is not in the tail."""
    return data.sel(level=data.level <= 1)


def _measured_deviation(*parts: Part) -> list[xr.DataArray]:
    return [_low(part.simulated.test_error / _with_measured(part.simulated) - 1) for part in parts]


def _predicted_deviation(*parts: Part) -> list[xr.DataArray]:
    return [_low(part.simulated.test_error / part.predicted.test_error - 1) for part in parts]


def _naive_deviation(part: Part) -> xr.DataArray:
    from unlazy.theory.signal_noise.relu_overfitting import relu_error

    error = _low(part.simulated.test_error)
    return error / error.level.copy(data=relu_error(error.level.values, 0.5)) - 1


def _spread(part: Part) -> xr.DataArray:
    """By which fraction the error at a size differs from that at the first one."""
    error = _low(part.simulated.test_error).mean("seed")
    axis = error.n.dims[0]
    return abs(error / error.isel({axis: 0}, drop=True) - 1).isel({axis: slice(1, None)})


def _linear_deviation(name: str) -> Any:
    def deviation(growth: Part) -> xr.DataArray:
        return (growth.simulated[name] / growth.predicted[name] - 1).isel(step=slice(LINEAR))

    return deviation


@dataclass(frozen=True)
class BenignOverfittingRelu(Study):
    """f = F_1 - F_-1, F_j = (1/m) sum_r relu(<w_jr, y mu>) + relu(<w_jr, xi>), trained to loss 0.02, n SNR^2 << 1.

    Half of the pairs of a neuron and a sample of its class are active at the start; the overlaps of samples switch on
    others until about 0.8 of them are, slightly less the smaller sqrt(n/d) is against the start. This was seen in
    simulations, where the formula with one half had failed by a factor of 3; the theory of that fraction, which needs
    no simulation, came later. Sizes at which claims were inconclusive, n = 20 and d = 10^7, were left out after a look.
    """

    name = "benign-overfitting-relu"
    topic = "signal_noise"
    question = "What is the test error of a ReLU network that has memorised its training samples?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Left: lines are theory, black and dashed with p = "
        "1/2. Middle: simulation over a formula with a measured number, grey: within 15%. Right: lines are the laws "
        "of theory."
    )
    sources = (KOU, TUTORIAL)

    level: float = value(1.0, "n |mu|^4 / (sigma^4 d)", symbol=r"\Lambda", above=0, high=1e6, scale="log")
    n: int = value(80, "training samples", symbol="n", low=2, high=10_000, scale="log")
    d: float = value(1e5, "dimension of a patch", symbol="d", low=2, high=1e12, scale="log")
    width: int = value(40, "neurons of each class", symbol="m", low=1, high=4096)
    start: float = value(1e-3, "initial scale sigma_0 sqrt(d)", symbol=r"\sigma_0\sqrt{d}", above=0, high=1)
    learning_rate: float = value(0.4, "learning rate times d/(nm)", symbol=r"\eta d/nm", above=0, high=0.5)
    target: float = value(0.02, "training loss at which training stops", symbol=r"\epsilon", above=0, high=0.5)
    most_samples: int = static(80, "samples that memory is kept for", low=2, high=10_000, paired=True)
    most_neurons: int = static(40, "neurons of each class that memory is kept for", low=1, high=4096, paired=True)
    steps: int = static(1000, "most steps", low=STEPS[-1], high=1_000_000, scale="log")

    outputs = {
        "test_error": Output("test error", scale="log"),
        "test_loss": Output("test loss"),
        "training_loss": Output("training loss"),
        "active": Output("fraction of active pairs", "p"),
        "signal": Output("mean signal coefficient", r"\gamma", ("step",), scale="log"),
        "noise": Output("mean noise coefficient of active pairs", r"\rho", ("step",), scale="log"),
        "diverged_at": DIVERGED_AT,
    }
    presets = {
        "quick": {
            "main": {("n", "d"): SIZES, "level": LEVELS, "seeds": 24},
            "width": {"width": [20, 40], "level": LEVELS[:3], "seeds": 24},
            "growth": {"learning_rate": 0.04, "target": 0.5, "n": [20, 80], "level": [1.0], "seeds": 12},
        },
        "full": {
            "main": {
                ("n", "d"): [*SIZES, (160, 1e6)],
                "level": LEVELS,
                "most_samples": 160,
                "seeds": 48,
            },
            "width": {"width": [20, 40, 80], "level": LEVELS[:3], "most_neurons": 80, "seeds": 48},
            "growth": {"learning_rate": 0.04, "target": 0.5, "n": [20, 80], "level": [1.0], "seeds": 24},
        },
    }
    lines = {"main": "level"}
    claims = (
        Claim(
            "fit",
            "precondition of the claims below",
            "Every network fits its training samples: the training loss, with the target 0.02, is at most 0.021.",
            at_most(0.021),
            check=lambda main, width: [main.simulated.training_loss, width.simulated.training_loss],
            parts=("main", "width"),
        ),
        Claim(
            "harmful",
            KOU_TEXT,
            "At Lambda = n |mu|^4 / (sigma^4 d) = 0.3 overfitting is harmful: the test error is at least 0.1.",
            at_least(0.1),
            check=lambda main, width: [part.simulated.test_error.sel(level=0.3) for part in (main, width)],
            parts=("main", "width"),
            needs={"level": (0.3,)},
        ),
        Claim(
            "benign",
            KOU_TEXT,
            "At Lambda = 3 and 10 it is benign: the test error is at most exp(-Lambda/2) (the factor 1/2 is the "
            "project's choice; the theorem leaves it open).",
            at_most(0.0),
            check=lambda main: (error := main.simulated.test_error.sel(level=[3.0, 10.0])) - np.exp(-error.level / 2),
            needs={"level": (3.0, 10.0)},
        ),
        Claim(
            "collapse",
            KOU_TEXT,
            "The error depends on Lambda alone: at different n, and d from 1e5 to 1e6, it is the same within 15% for "
            "Lambda <= 1.",
            at_most(0.15),
            statistic=_spread,
            needs={"level": (0.3, 1.0)},
        ),
        Claim(
            "formula-measured",
            FORMULA,
            "With the fraction p of active pairs of the run, error = P(h(z) - h(z') < -sqrt(Lambda/2)) gives the error "
            "within 15% for Lambda <= 1.",
            between(-0.15, 0.15),
            check=_measured_deviation,
            parts=("main", "width"),
            needs={"level": (0.3, 1.0)},
        ),
        Claim(
            "formula",
            FORMULA,
            "So it does with nothing measured, p being predicted from n, d, the start, the step and the final loss.",
            between(-0.15, 0.15),
            check=_predicted_deviation,
            parts=("main", "width"),
            needs={"level": (0.3, 1.0)},
        ),
        Claim(
            "active",
            FORMULA,
            "The fraction of active pairs, which does not depend on Lambda, is the predicted one within 0.03.",
            between(-0.03, 0.03),
            check=lambda *parts: [(part.simulated.active - part.predicted.active).mean("level") for part in parts],
            parts=("main", "width"),
        ),
        Claim(
            "half-active",
            "the naive p = 1/2",
            "The formula with p = 1/2, the fraction of active pairs at the start, is right within 15% for Lambda <= 1.",
            between(-0.15, 0.15),
            check=_naive_deviation,
            needs={"level": (0.3, 1.0)},
            known_negative=(
                "It is low by a factor of 3 at Lambda = 1: overlaps between samples switch on inactive pairs, and the "
                "more pairs are active the more the neurons of a class agree on a fresh noise patch."
            ),
        ),
        Claim(
            "linear-signal",
            "Han & Huang 2025, slide on linear growth",
            "In the first steps, while logistic factors are 1/2, the signal grows linearly: gamma = t |mu|^2 / (4m) "
            "within 5%.",
            between(-0.05, 0.05),
            check=_linear_deviation("signal"),
            parts=("growth",),
        ),
        Claim(
            "linear-noise",
            "Han & Huang 2025, slide on linear growth",
            "So does the noise of active pairs: rho = t sigma^2 d / (2nm) within 5%.",
            between(-0.05, 0.05),
            check=_linear_deviation("noise"),
            parts=("growth",),
        ),
    )

    def validate(self) -> None:
        check_even("n", self.n)
        check_room(self, n="most_samples", width="most_neurons")
        check_dimension(self.d, samples=self.most_samples, width=self.most_neurons)

    def coordinates(self) -> dict[str, Any]:
        return {"step": list(STEPS)}

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

        draw_key, train_key, test_key = jax.random.split(key, 3)
        network, second_layer = Network(relu_power(1)), paired_neurons(self.width, self.most_neurons)
        design = signal_noise_design(self.most_samples, live=self.n)
        problem = draw(
            draw_key,
            design,
            jnp.reshape((self.level * self.d / self.n) ** 0.25, (1,)),
            second_layer,
            dimension=self.d,
            scale=self.start / jnp.sqrt(jnp.asarray(self.d, float)),
        )
        own = (jnp.sign(second_layer)[:, None] == design.classes) & (design.weights > 0)
        at_start = own & (problem.preactivations[:, 1:] > 0)

        def learned(state: State) -> tuple[Array, Array]:
            signal = jnp.sum(signal_coefficients(problem, state.weights)) / (2 * self.width)
            noise = jnp.sum(jnp.where(at_start, noise_coefficients(problem, state.weights)[:, :, 0], 0.0))
            return signal, noise / jnp.sum(at_start)

        run = train(
            train_key,
            problem,
            network,
            gradient_descent(self.learning_rate * self.n * self.width / self.d),
            self.steps,
            record=learned,
            record_at=STEPS,
            stop_loss=self.target,
        )
        tested = fresh_error(test_key, problem, run.state.weights, network, draws=FRESH)
        active = own & (run.state.weights.preactivations[:, 1:] > 0)
        return {
            "test_error": tested.error,
            "test_loss": tested.loss,
            "training_loss": run.state.loss,
            "active": jnp.sum(active) / jnp.sum(own),
            "signal": run.records[0],
            "noise": run.records[1],
            "diverged_at": run.state.diverged_at,
        }

    def predict(self) -> dict[str, Any]:
        """The error of `small_start_error`, and linear growth: per unit of time gamma by n SNR^2/4 and rho by 1/2."""
        from unlazy.theory.signal_noise.relu_overfitting import small_start_error

        found = small_start_error(
            self.level, self.n, self.d, self.start, loss=self.target, step=float(self.learning_rate)
        )
        time = self.learning_rate * np.array(STEPS)
        ratio = np.sqrt(self.level * self.n / self.d)
        return {"test_error": found.error, "active": found.active, "signal": ratio * time / 4, "noise": time / 2}

    def derive(self, simulated: xr.Dataset) -> xr.Dataset | None:
        """The formula with the mean measured fraction of active pairs."""
        import xarray as xr

        return xr.Dataset({"test_error": _with_measured(simulated).mean("seed")}) if "level" in simulated.dims else None

    def figure(self, main: Part, width: Part, growth: Part) -> Any:
        from unlazy.plotting import style
        from unlazy.theory.signal_noise.growth import logistic_growth
        from unlazy.theory.signal_noise.relu_overfitting import relu_error

        figure, (left, middle, right) = style.panels(3, 1, width=3.1, height=2.8)
        sizes = _rows(main.simulated)
        shades = style.shades(max(len(sizes), 2))
        for index, (points, line) in enumerate(zip(sizes, _rows(main.lines), strict=True)):
            n, d = (float(parameter(points, name)) for name in ("n", "d"))
            text = rf"$n = {n:g}$, $d = 10^{{{np.log10(d):g}}}$"
            color, marker = shades[index], style.marker(index)
            style.theory(left, line.level, line.test_error, color=color)
            style.simulation(left, points.level, points.test_error, color=color, marker=marker, label=text)
            shift = 1.06 ** (index - 1)
            ratio = points.test_error / _with_measured(points)
            style.simulation(middle, shift * points.level, ratio, color=color, marker=marker)
        levels = np.geomspace(float(main.simulated.level.min()), float(main.simulated.level.max()), 60)
        naive = relu_error(levels, 0.5)
        left.plot(levels, naive, "k--", linewidth=0.9, label="$p = 1/2$")
        middle.axhspan(0.85, 1.15, color="#dddddd", zorder=0)
        style.log_scale(left)
        style.log_scale(middle, "x")
        for axes in (left, middle):
            axes.set_xlabel(style.label("signal level", r"\Lambda = n|\mu|^4/\sigma^4 d"))
        left.set(ylabel="test error", title="lines: nothing measured", ylim=(2e-4, 0.5))
        middle.set(ylabel="test error over formula", title="formula with measured $p$; grey: 15%", ylim=(0, 2))
        left.legend()

        for place, part in enumerate((growth, main)):
            shown = _rows(part.simulated)[min(place, len(sizes) - 1)]
            points = shown.sel(level=1.0, method="nearest") if "level" in shown.dims else shown
            points = points.isel(n=-1) if "n" in points.dims else points
            level, n, d, rate = (float(parameter(points, name)) for name in ("level", "n", "d", "learning_rate"))
            scales, kept = (np.sqrt(level * n / d), 1.0), slice(None if place else LINEAR)
            for index, (name, scale) in enumerate(zip(("signal", "noise"), scales, strict=True)):
                symbol = (r"$\gamma/n\,\mathrm{SNR}^2$", r"$\rho$")[index] if place else None
                grown = points[name].isel(step=kept) / scale
                look = {"color": style.colour(index), "marker": style.marker(index)}
                style.simulation(right, rate * grown.step, grown, label=symbol, **look)
        time = rate * np.geomspace(0.1, STEPS[-1], 60)
        active = float(_rows(main.predicted)[0].active.isel(level=0))
        logistic = logistic_growth(1e-9, 0.5, 1, time, weight=active)
        for index, slope in enumerate((0.25, 0.5)):
            right.plot(time[time < 8], slope * time[time < 8], "--", color=style.colour(index), linewidth=0.9)
            style.theory(right, time, 2 * slope * logistic, color=style.colour(index))
        style.log_scale(right)
        right.set(
            xlabel=r"time $t\,\eta\sigma^2d/nm$", ylabel="coefficient", title="dashed: linear; line: logistic law"
        )
        right.legend()
        return figure


def _rows(data: xr.Dataset) -> list[xr.Dataset]:
    """The data by size (n, d), of which the preset's tuple axis has the position as dimension."""
    axis = data.d.dims if "d" in data.coords else ()
    return [data.isel({axis[0]: i}) for i in range(data.sizes[axis[0]])] if axis else [data]
