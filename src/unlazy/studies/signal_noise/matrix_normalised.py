"""Matrix-normalised descent (Muon): features grow at one pace, common or rare; noise does so too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, static, value, within
from unlazy.lab.claims import between, changes
from unlazy.lab.measures import slope
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared import (
    RUN_OUTPUTS,
    check_dimension,
    check_even,
    end_of_run,
    signal_strength,
)
from unlazy.theory.signal_noise.strategies import feature_balance

SHARES = [2, 4, 8, 16, 32]
GRID: dict[str, Any] = {"normalised": [0, 1], "rare_samples": SHARES, "signal_strength": [20.0, 200.0, 2e3, 2e4, 2e5]}
LINEAR: dict[str, Any] = {"normalised": [0, 1], "rare_samples": SHARES, "power": 1}
CLEAR, NOISY = {"signal_strength": [2e4, 2e5]}, {"signal_strength": 20.0}
QUESTION = (OWN, "this project's question, on the Muon of Jordan et al. 2024")
STEP = (OWN, "polar factor of the first gradient")


def _ratio(part: Any, normalised: int) -> Any:
    """The geometric mean of the rare feature's coefficient over the common one's."""
    return np.exp(np.log(part.simulated.learned_ratio.sel(normalised=normalised)).mean("seed"))


def _panel(name: str, at: dict[str, Any], x: str = "rare_samples", **more: Any) -> Panel:
    """An output of both rules, of the theory where it has one."""
    arms = [lambda data, arm=arm: data[name].sel(normalised=arm) if name in data else None for arm in (1, 0)]
    return Panel(tuple(arms), x=x, at=at, labels=("Muon", "gradient descent"), **more)


@dataclass(frozen=True)
class MatrixNormalised(Study):
    """ReLU^q; two orthogonal features of equal length, one of them in n' of n samples only; patches [y feature, xi].

    Muon is W <- W - eta (g g^T)^(-1/2) g. It and gradient descent stop at the training loss log(2)/2, half of that at
    the start: the common feature is learned then, and the rare one need not be. A step of Muon moves a coefficient by
    about 0.01, one of descent makes the common feature's grow by a fifth at most; features start at a tenth or less.
    """

    question = "Does a matrix-normalised update (Muon) learn rare features as fast as common ones?"
    sources = cite("jordan2024muon", "han2025tutorial")
    departs = (
        "Muon is exact here: the polar factor is computed without Newton-Schulz iterations, and there is no momentum."
    )
    history = (
        Change(
            "",
            "sizes and step sizes",
            "before, three features in 64, 16 and 4 samples; of four values of n SNR^2, two activations and some "
            "widths one balanced them",
        ),
        Change("", "a tenth of the start", "at n SNR^2 = 2e5 features started at 0.6, which is not small"),
        Change("muon", "n SNR^2 = 2e4 and 2e5", "24 runs at 2000, where the first step has noise, left it open"),
        Change("first-step", "0.2 and an average, where first it was 0.1 of each n'", "16 runs of m = 12 left it open"),
        *changes("noise-memory noise-gain noise-pace", "the claim", "a pilot of eight seeds was seen"),
    )
    chunk_width = 32

    normalised: int = value(1, "1 for Muon, 0 for gradient descent", low=0, high=1, paired=True)
    power: int = value(2, "activation ReLU^q, q = 1 or 2", symbol="q", low=1, high=2, paired=True)
    signal_strength: float = signal_strength(2000.0, above=0, high=1e9, paired=True)
    d: float = value(2000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    initial_scale: float = value(0.001, "initial scale sigma_0 sqrt(d)", above=0, high=100, scale="log")
    muon_step_size: float = value(
        0.0125, "step size of Muon, times |mu|/sqrt(m)", above=0, high=100, scale="log", paired=True
    )
    gradient_step_size: float = value(
        0.4, "step size of descent, times |mu|^2/m", above=0, high=100, scale="log", paired=True
    )
    rare_samples: int = value(4, "samples that carry the rare feature", symbol="n'", low=1, high=5000)
    stop_loss: float = value(0.3466, "training loss at which training stops", above=0, high=1, paired=True)
    width: int = static(12, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(64, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(400, "most updates", low=1, high=10_000_000, scale="log", paired=True)

    outputs = {
        "first_ratio": Output("rare feature over the common one, first step", r"\gamma'/\gamma", scale="log"),
        "learned_ratio": Output("rare feature over the common one, mean coefficients", r"\gamma'/\gamma", scale="log"),
        "rare_feature_error": Output("error on samples with the rare feature"),
        "updates": Output("updates made", scale="log"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"main": GRID | {"seeds": 36}, "relu": LINEAR | {"seeds": 36}},
        "full": {
            "main": GRID | {"width": [12, 24, 48], "seeds": 64},
            "relu": LINEAR | {"width": [12, 24], "seeds": 64},
        },
    }
    figure = panels(
        _panel("first_ratio", {}, ylabel=r"$\gamma'/\gamma$ after a step", log="xy"),
        _panel("learned_ratio", {}, ylabel=r"$\gamma'/\gamma$ at the end", log="xy", legend=False),
        _panel(
            "noise_coefficient",
            {"rare_samples": 2},
            x="signal_strength",
            ylabel="largest noise",
            log="xy",
            legend=False,
        ),
        _panel("rare_feature_error", NOISY, ylabel="error, rare feature", log="x", legend=False),
        columns=4,
        width=2.7,
    )

    @claim(OWN, "precondition of the claims below", at_most(0.35))
    def fit(main, relu):
        """All runs reach half of the first training loss. The final loss is {criterion}."""
        return [part.simulated.training_loss for part in (main, relu)]

    @claim(*STEP, within(0.2, absolute=True))
    def first_step(main, relu):
        """The first step of either rule moves the rare feature, relative to the common one, as predicted, at n SNR^2 >=
        2e4 and with ReLU too. On average over n' the mean logarithm of the ratio is right {criterion}."""
        pairs = [(main.simulated.sel(CLEAR), main), (relu.simulated, relu)]
        return [
            (np.log(data.first_ratio) - np.log(part.predicted.first_ratio)).mean("rare_samples") for data, part in pairs
        ]

    @claim(*QUESTION, at_least(1.0), resampled=True)
    def gradient(main):
        """Gradient descent learns the rare feature late. From n SNR^2 = 2e4 on the ratio of the coefficients, rare to
        common, grows as a power of n' that is {criterion}; 1 is the power of the first step."""
        return slope(_ratio(main, 0).sel(CLEAR), "rare_samples", least=4)

    @claim(*QUESTION, at_most(0.25), resampled=True)
    def muon(main):
        """Muon is hardly slower on a rare feature. From n SNR^2 = 2e4 on the ratio of the coefficients, rare to common,
        grows as a power of n' that is {criterion}."""
        return slope(_ratio(main, 1).sel(CLEAR), "rare_samples", least=4)

    @claim(OWN, "every singular direction has the same pace", between(-0.6, -0.4), resampled=True)
    def noise_pace(main):
        """Muon moves the noise of samples nearly as fast as features, slower by |xi|/|mu|. From n SNR^2 = 200 on the
        largest noise coefficient falls as a power of n SNR^2 that is {criterion}."""
        noise = main.simulated.noise_coefficient.sel(normalised=1, signal_strength=[200.0, 2e3, 2e4, 2e5])
        return slope(np.exp(np.log(noise).mean("seed")), "signal_strength", least=4)

    @claim(OWN, "this project's observation", at_least(1.0))
    def noise_memory(main):
        """At every n SNR^2 Muon memorises at least ten times as much noise as gradient descent. The mean of
        log10(ratio) is {criterion}."""
        noise = np.log10(main.simulated.noise_coefficient)
        return noise.sel(normalised=1) - noise.sel(normalised=0)

    @claim(
        *QUESTION,
        at_least(0.0),
        known_negative=(
            "The polar factor gives every singular direction of the gradient the same pace, also those of the "
            "samples' own noise (claims noise-pace and noise-memory). Where a feature is very rare, noise takes the "
            "place that Muon would give it. Where it is not, gradient descent has learned it without error."
        ),
    )
    def noise_gain(main):
        """At n SNR^2 = 20 Muon is no worse on the rare feature, however rare it is. The error of gradient descent less
        that of Muon is {criterion}."""
        errors = main.simulated.rare_feature_error.sel(NOISY)
        return errors.sel(normalised=0) - errors.sel(normalised=1)

    @claim(
        *QUESTION,
        at_most(0.25),
        resampled=True,
        known_negative=(
            "With ReLU every neuron is moved along the same sum over features, weighted by their samples, whichever "
            "side of a feature it is on. The signal in the gradient is therefore one singular direction, which the "
            "polar factor scales as a whole."
        ),
    )
    def relu_balance(relu):
        """With ReLU too Muon is hardly slower on a rare feature. The ratio of the coefficients, rare to common, grows
        as a power of n' that is {criterion}."""
        return slope(_ratio(relu, 1), "rare_samples", least=4)

    def validate(self) -> None:
        check_even("n", self.n)
        self.check_at_most(("rare_samples", "n"))
        check_dimension(self.d, samples=self.n, width=self.width, shared=2)

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.signal_noise import token_gram as engine

        length, rare = jnp.sqrt(self.signal_strength * self.d / self.n), jnp.arange(self.n) < self.rare_samples
        rule = engine.either(
            self.normalised == 1,
            engine.muon(self.muon_step_size * self.width**0.5 / length),
            engine.gradient_descent(self.gradient_step_size * self.width / length**2),
        )

        def ratio(problem: Any, state: Any, _: Any = None) -> Any:
            common, other = engine.signal_coefficients(problem, state.weights).mean(0)
            return other / common

        network, design = (
            engine.Network(engine.relu_or_square(self.power)),
            engine.feature_design(jnp.stack([~rare, rare], axis=1).astype(float)),
        )
        options = self.as_dict("d", "width", "initial_scale", "stop_loss") | {"record": ratio, "record_at": (1,)}
        run = engine.patch_run(key, design, jnp.full(2, length), network, rule, self.steps, **options)
        found = {"first_ratio": run.records[0], "learned_ratio": ratio(run.problem, run.state)}
        return found | {"rare_feature_error": run.fresh.error[1], "updates": run.state.step} | end_of_run(run)

    def predict(self) -> dict[str, Any]:
        balance = feature_balance(self.rare_samples / (self.n - self.rare_samples), self.power)
        return {"first_ratio": balance.muon if self.normalised else balance.descent}
