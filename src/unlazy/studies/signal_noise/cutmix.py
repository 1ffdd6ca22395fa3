"""Cutout and CutMix: without the patch that is easiest to memorise a network learns rarer features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_dimension
from unlazy.studies.signal_noise.shared.strategies import RUN_OUTPUTS, end_of_run, feature_design

if TYPE_CHECKING:
    from unlazy.training.signal_noise.token_gram.problem import Design
    from unlazy.training.signal_noise.token_gram.views import View

COUNTS = (32, 6, 2)
COMMON, RARE, RAREST = COUNTS
NONE, CUTOUT, CUTMIX = range(3)


def _arms(main):
    """The data of the three methods."""
    return main.simulated.sel(augmentation=[NONE, CUTOUT, CUTMIX])


def _by_method(name):
    """A function that gives an output with the names of the methods."""

    def of(data):
        names = [("none", "Cutout", "CutMix")[row] for row in data.augmentation.values]
        return data[name].assign_coords(method=("augmentation", names)).swap_dims(augmentation="method")

    return of


def _beside(data):
    """The features' numbers of samples, shifted a little aside by the method."""
    return data.feature * 1.1 ** (data.augmentation - 1)


def _panel(name, **options):
    return Panel(
        _by_method(name), x=_beside, by="method", xlabel=f"samples with the feature, of {sum(COUNTS)}", **options
    )


def _errors(**at):
    guessing = Level(0.5, "guessing", dashed=True)
    return _panel(
        "errors", at=at, ylabel="test error", log="x", ylim=(-0.03, 0.6), marks=(guessing,), legend="center right"
    )


def _signals(**at):
    return _panel("signals", at=at, ylabel=r"largest coefficient $\max\gamma$", log="xy", legend="lower right")


@dataclass(frozen=True)
class Cutmix(Study):
    """ReLU^2; patches [y feature, xi, b xi'] with features of equal length in 32, 6 and 2 samples, xi' independent.

    Cutout removes one random patch of every sample at every step. CutMix takes every patch from the sample or from a
    random partner, and weighs their labels by the number of patches. The features' length is chosen by a race of growth
    rates: a feature of k samples grows at the rate k|v|^2/2, the strong noise at |xi|^2, the weak one at b^2 |xi|^2,
    and 32 |v|^2/2 > |xi|^2 > 6 |v|^2/2 > b^2 |xi|^2 > 2 |v|^2/2 with factors of about 2.
    """

    question = "Do Cutout and CutMix learn features so rare that plain gradient descent memorises their samples?"
    sources = cite("oh2024cutmix", "han2025tutorial")
    departs = (
        "The paper has leaky ReLU, two neurons and features of each class; the claims are its theorems' qualitative "
        "content."
    )
    chunk_width = 32

    augmentation: int = value(CUTMIX, "0 for none, 1 for Cutout, 2 for CutMix", low=NONE, high=CUTMIX, paired=True)
    feature_square: float = value(
        0.125, "square of a feature's length over that of the noise", symbol=r"|v|^2/\sigma^2d", above=0, high=1e6
    )
    weak_noise: float = value(0.46, "length of the weak noise over that of the strong", symbol="b", low=0, high=1)
    d: float = value(1000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    learning_rate: float = value(
        0.3, "learning rate, times sigma^2 d/(nm)", symbol=r"\eta", above=0, high=100, scale="log", paired=True
    )
    initial_scale: float = value(0.01, "initial deviation of a weight, times sqrt(d)", above=0, high=100, scale="log")
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    steps: int = static(1000, "updates", low=1, high=10_000_000, scale="log", paired=True)

    outputs = {
        "errors": Output("test error on samples with a feature", "", ("feature",), short="test error"),
        "signals": Output(
            "largest coefficient of a feature", r"\max\gamma", ("feature",), scale="log", short="largest coefficient"
        ),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"augmentation": [NONE, CUTOUT, CUTMIX], "width": [10, 16], "seeds": 10},
        "full": {"augmentation": [NONE, CUTOUT, CUTMIX], "width": [10, 20, 40], "steps": 4000, "seeds": 32},
    }
    figure = panels(
        _errors(width=10),
        _signals(width=10),
        _errors(),
        _signals(),
        columns=2,
        caption="Points are shifted a little aside.",
    )

    @claim(OWN, "precondition of the claims below", at_most(0.05))
    def plain_fit(main):
        """Without augmentation the training samples are fitted: the training loss is {criterion}."""
        return _arms(main).training_loss.sel(augmentation=NONE)

    @claim("oh2024cutmix", "theorem on plain training", at_most(0.05))
    def common(main):
        """All three methods learn the common feature: the error is {criterion}."""
        return _arms(main).errors.sel(feature=COMMON)

    @claim("oh2024cutmix", "theorem on plain training", at_least(0.4))
    def plain_rare(main):
        """Plain gradient descent learns neither of the rarer features: the errors are {criterion}."""
        return _arms(main).errors.sel(augmentation=NONE, feature=[RARE, RAREST])

    @claim("oh2024cutmix", "theorem on Cutout training", at_most(0.05))
    def cutout_rare(main):
        """Cutout learns the rare feature: the error is {criterion}."""
        return _arms(main).errors.sel(augmentation=CUTOUT, feature=[RARE])

    @claim("oh2024cutmix", "theorem on Cutout training", at_least(0.4))
    def cutout_rarest(main):
        """Cutout does not learn the rarest feature: the error is {criterion}."""
        return _arms(main).errors.sel(augmentation=CUTOUT, feature=[RAREST])

    @claim("oh2024cutmix", "theorem on CutMix training", at_most(0.05))
    def cutmix_rarest(main):
        """CutMix learns both: the errors are {criterion}."""
        return _arms(main).errors.sel(augmentation=CUTMIX, feature=[RARE, RAREST])

    @claim("oh2024cutmix", "theorem on CutMix training", at_least(0.5))
    def cutmix_even(main):
        """CutMix learns features evenly: the rarest one's coefficient over the common one's is {criterion}."""
        signals = _arms(main).signals.sel(augmentation=CUTMIX)
        return signals.sel(feature=RAREST) / signals.sel(feature=COMMON)

    def validate(self) -> None:
        check_dimension(self.d, samples=sum(COUNTS), width=self.width, shared=len(COUNTS), own=2)

    def coordinates(self) -> dict[str, Any]:
        return {"feature": list(COUNTS)}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.token_gram.drawing import draw, paired_second_layer
        from unlazy.training.signal_noise.token_gram.engine import train
        from unlazy.training.signal_noise.token_gram.fresh import fresh_errors
        from unlazy.training.signal_noise.token_gram.network import Network, relu_power
        from unlazy.training.signal_noise.token_gram.observables import signal_coefficients
        from unlazy.training.signal_noise.token_gram.problem import Patch
        from unlazy.training.signal_noise.token_gram.rules import gradient_descent

        draw_key, train_key, test_key = jax.random.split(key, 3)
        samples, features = sum(COUNTS), len(COUNTS)
        simple = feature_design(jnp.asarray(np.repeat(np.eye(features), COUNTS, axis=0)))
        strong, weak = jnp.array([1.0, 0.0]), self.weak_noise * jnp.array([0.0, 1.0])
        noises = [Patch(own=jnp.broadcast_to(part, (samples, 2))) for part in (strong, weak)]
        design = simple._replace(patches=(simple.patches[0], *noises))
        problem = draw(
            draw_key,
            design,
            jnp.full(features, jnp.sqrt(self.feature_square * self.d)),
            paired_second_layer(self.width),
            dimension=self.d,
            scale=self.initial_scale / jnp.sqrt(self.d),
        )
        network = Network(relu_power(2))
        rule = gradient_descent(
            self.learning_rate * samples * self.width / self.d, view=_cut(self.augmentation, len(design.patches))
        )
        state = train(train_key, problem, network, rule, self.steps).state
        shared = jnp.zeros((features, 3, features)).at[:, 0].set(jnp.eye(features))
        own = jnp.stack([jnp.zeros(2), strong, weak])
        errors = fresh_errors(
            test_key,
            problem,
            state.weights,
            network,
            shared=jnp.concatenate([shared, -shared]),
            own=jnp.broadcast_to(own, (2 * features, 3, 2)),
            labels=jnp.repeat(jnp.array([1.0, -1.0]), features),
        ).error
        return {
            "errors": errors.reshape(2, features).mean(0),
            "signals": signal_coefficients(problem, state.weights).max(0),
            **end_of_run(problem, state),
        }


def _cut(augmentation: Any, patches: int) -> View:
    """None, Cutout or CutMix, by a traced number: one program serves all."""
    import jax
    import jax.numpy as jnp

    from unlazy.training.signal_noise.token_gram.views import Batch, Mixing, random_partners

    def view(key: Any, design: Design) -> Batch:
        partner_key, patch_key = jax.random.split(key)
        samples = len(design.labels)
        partner = random_partners(partner_key, design.weights > 0)
        numbers = jax.random.uniform(patch_key, (patches, samples))
        kept = (numbers > numbers.min(0)).astype(float)
        own = (numbers < 0.5).astype(float)
        stay = jnp.where(augmentation == CUTMIX, own, jnp.where(augmentation == CUTOUT, kept, 1.0))
        take = jnp.where(augmentation == CUTMIX, 1 - own, 0.0)
        share = jnp.where(augmentation == CUTMIX, own.mean(0), 1.0)
        labels = jnp.stack([design.labels, design.labels[partner]])
        weights = jnp.stack([share, 1 - share]) * design.weights
        return Batch(labels, weights, Mixing(partner, stay, take))

    return view
