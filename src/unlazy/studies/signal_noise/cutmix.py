"""Cutout and CutMix: without the patch that is easiest to memorise a network learns rarer features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Source, Study, at_least, at_most, static, value
from unlazy.studies.signal_noise.shared.checks import check_dimension
from unlazy.studies.signal_noise.shared.sources import TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import RUN_OUTPUTS, end_of_run, feature_design, widths

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.training.signal_noise.token_gram.problem import Design
    from unlazy.training.signal_noise.token_gram.views import View

COUNTS = (32, 6, 2)
COMMON, RARE, RAREST = COUNTS
METHODS = ("none", "cutout", "cutmix")
NONE, CUTOUT, CUTMIX = range(3)
ARMS = {"augmentation": (NONE, CUTOUT, CUTMIX)}
PLAIN_TEXT, CUTOUT_TEXT, CUTMIX_TEXT = (
    f"Oh & Yun 2024, theorem on {name} training" for name in ("plain", "Cutout", "CutMix")
)


def _errors(part: Part, augmentation: int, features: list[int]) -> xr.DataArray:
    return part.simulated.errors.sel(augmentation=augmentation, feature=features)


def _evenness(part: Part) -> xr.DataArray:
    """The rarest feature's coefficient over the common one's, with CutMix."""
    signals = part.simulated.signals.sel(augmentation=CUTMIX)
    return signals.sel(feature=RAREST) / signals.sel(feature=COMMON)


@dataclass(frozen=True)
class Cutmix(Study):
    """ReLU^2; patches [y feature, xi, b xi'] with features of equal length in 32, 6 and 2 samples, xi' independent.

    Cutout removes one random patch of every sample at every step. CutMix takes every patch from the sample or from a
    random partner, and weighs their labels by the number of patches. The features' length is chosen by the race of
    section 2 of the project's note: a feature of k samples grows at the rate k|v|^2/2, the strong noise at |xi|^2, the
    weak one at b^2 |xi|^2, and 32 |v|^2/2 > |xi|^2 > 6 |v|^2/2 > b^2 |xi|^2 > 2 |v|^2/2 with factors of about 2. The
    paper has leaky ReLU, two neurons and features of each class; the claims are its theorems' qualitative content.
    """

    name = "cutmix"
    topic = "signal_noise"
    question = "Do Cutout and CutMix learn features so rare that plain gradient descent memorises their samples?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals, shifted a little aside. Dashed: guessing. There is "
        "no theory here."
    )
    sources = (
        Source(
            "oh2024cutmix",
            "Oh, Junsoo and Yun, Chulhee",
            2024,
            "Provable benefit of Cutout and CutMix for feature learning",
            "Advances in Neural Information Processing Systems 37",
            kind="inproceedings",
        ),
        TUTORIAL,
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
        "errors": Output("test error on samples with a feature", "", ("feature",)),
        "signals": Output("largest coefficient of a feature", r"\max\gamma", ("feature",), scale="log"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"augmentation": [NONE, CUTOUT, CUTMIX], "width": [10, 16], "seeds": 10},
        "full": {"augmentation": [NONE, CUTOUT, CUTMIX], "width": [10, 20, 40], "steps": 4000, "seeds": 32},
    }
    claims = (
        Claim(
            "plain-fit",
            "precondition",
            "Without augmentation the training samples are fitted: the training loss is at most 0.05.",
            at_most(0.05),
            check=lambda part: part.simulated.training_loss.sel(augmentation=NONE),
            needs=ARMS,
        ),
        Claim(
            "common",
            PLAIN_TEXT,
            "All three methods learn the common feature: the error is at most 0.05.",
            at_most(0.05),
            check=lambda part: part.simulated.errors.sel(feature=COMMON),
            needs=ARMS,
        ),
        Claim(
            "plain-rare",
            PLAIN_TEXT,
            "Plain gradient descent learns neither of the rarer features: the errors are at least 0.4.",
            at_least(0.4),
            check=lambda part: _errors(part, NONE, [RARE, RAREST]),
            needs=ARMS,
        ),
        Claim(
            "cutout-rare",
            CUTOUT_TEXT,
            "Cutout learns the rare feature: the error is at most 0.05.",
            at_most(0.05),
            check=lambda part: _errors(part, CUTOUT, [RARE]),
            needs=ARMS,
        ),
        Claim(
            "cutout-rarest",
            CUTOUT_TEXT,
            "Cutout does not learn the rarest feature: the error is at least 0.4.",
            at_least(0.4),
            check=lambda part: _errors(part, CUTOUT, [RAREST]),
            needs=ARMS,
        ),
        Claim(
            "cutmix-rarest",
            CUTMIX_TEXT,
            "CutMix learns both: the errors are at most 0.05.",
            at_most(0.05),
            check=lambda part: _errors(part, CUTMIX, [RARE, RAREST]),
            needs=ARMS,
        ),
        Claim(
            "cutmix-even",
            CUTMIX_TEXT,
            "CutMix learns features evenly: the rarest one's coefficient is at least half of the common one's.",
            at_least(0.5),
            check=_evenness,
            needs=ARMS,
        ),
    )

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

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (error, signal) = style.panels(2, 1, width=3.6, height=2.9)
        for index, (width, points) in enumerate(widths(main.simulated, "augmentation")):
            for row in points.augmentation.values:
                line = points.sel(augmentation=row)
                places = line.feature * 1.06 ** (3 * index + row - 2.5)
                options: Any = {"color": style.colour(row), "marker": style.marker(index)}
                style.simulation(error, places, line.errors, **options, label=f"{METHODS[row]}, $m = {width}$")
                style.simulation(signal, places, line.signals, **options)
        for axes in (error, signal):
            style.log_scale(axes, "x" if axes is error else "xy")
            axes.set_xticks(COUNTS, [f"{count}" for count in COUNTS])
            axes.minorticks_off()
            axes.set_xlabel(f"samples with the feature, of {sum(COUNTS)}")
        error.axhline(0.5, color="#000000", linestyle="--", linewidth=0.9)
        error.set(ylabel="test error", ylim=(-0.03, 0.6), title="dashed: guessing")
        signal.set_ylabel(style.label("largest coefficient", r"\gamma"))
        figure.legend(*error.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure


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
