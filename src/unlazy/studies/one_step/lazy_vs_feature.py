"""Lazy training and feature learning: how far two-layer networks move, against width and output scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.lab import (
    DIVERGED_AT,
    Claim,
    Output,
    Part,
    Source,
    Study,
    at_least,
    at_most,
    between,
    relative_deviation,
    slope,
    static,
    value,
)
from unlazy.studies.one_step.shared.gradient_step import BA, BA_TEXT, CUI, CUI_TEXT

if TYPE_CHECKING:
    import xarray as xr

LAZY, FEATURE = 0.5, 1.0
ONE_STEP = {"steps": 1, "activation": "erf", "link": "erf", "noise_variance": 0.01}
CHIZAT = "Chizat, Oyallon & Bach 2019"
MEI = "Mei, Montanari & Nguyen 2018"
HAN = "Han & Huang 2025, slide on lazy training"


def _slopes(part: Part, exponent: float, *names: str) -> list[xr.DataArray]:
    return [slope(part.simulated[name].sel(exponent=exponent), "width") for name in names]


def _slope_errors(part: Part) -> xr.DataArray:
    """The slope of the displacement per neuron less the expected one, s - 1."""
    found = slope(part.simulated.neuron_displacement, "width")
    return found - (found.exponent - 1)


def _growth_deviation(part: Part) -> xr.DataArray:
    """The growth of the target alignment in one step, as a ratio of means over seeds, against its theory."""
    growth, theory = (data.alignment / data.initial_alignment for data in (part.simulated.mean("seed"), part.predicted))
    return growth / theory - 1


def _linear_deviation(part: Part) -> xr.DataArray:
    widest = part.simulated.sel(exponent=LAZY).isel(width=-1)
    return relative_deviation(widest.displacement, widest.linearised_displacement)


def _error_ratio(part: Part) -> xr.DataArray:
    error = part.simulated.test_error.mean("seed")
    return error.sel(exponent=LAZY) / error.sel(exponent=FEATURE)


@dataclass(frozen=True)
class LazyVsFeature(Study):
    name = "lazy-vs-feature"
    topic = "one_step"
    question = (
        "How far do the weights and the kernels of a two-layer network move in training as its width grows, and how "
        "does the scale of its output decide whether it learns features?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Dashed: a power of the width through the first "
        "point, semi-empirical. Solid lines: in the second panel the simulated linearised network, in the last one "
        "theory."
    )
    sources = (
        Source(
            "chizat2019",
            "Chizat, Lénaïc and Oyallon, Edouard and Bach, Francis",
            2019,
            "On lazy training in differentiable programming",
            "Advances in Neural Information Processing Systems 32",
            kind="inproceedings",
        ),
        Source(
            "mei2018",
            "Mei, Song and Montanari, Andrea and Nguyen, Phan-Minh",
            2018,
            "A mean field view of the landscape of two-layer neural networks",
            "Proceedings of the National Academy of Sciences 115(33), E7665-E7671",
        ),
        Source(
            "han2025tutorial",
            "Han, Andi and Huang, Wei",
            2025,
            "Demystifying optimization and generalization of deep learning via feature learning theory",
            "Tutorial at the Australasian Joint Conference on Artificial Intelligence, Canberra",
            kind="misc",
        ),
        BA,
        CUI,
    )
    precision = "float32"

    width: int = static(256, "width", symbol="N", low=2, high=65_536, scale="log", paired=True)
    exponent: float = value(
        0.5,
        "exponent s of the output scale N^-s: 1/2 is the neural-tangent, 1 the mean-field normalisation",
        symbol="s",
        low=0.5,
        high=1,
        paired=True,
    )
    dimension: int = static(10, "input dimension", symbol="d", low=1, high=10_000)
    samples: int = static(60, "training samples", symbol="n", low=1, high=10_000)
    steps: int = static(500, "steps of full-batch gradient descent", low=1, high=1_000_000, scale="log", paired=True)
    learning_rate: float = value(
        1.0, "learning rate, times N^(2s-1)", symbol=r"\eta", above=0, high=100, scale="log", paired=True
    )
    noise_variance: float = value(0.0, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    activation: str = static("tanh", "activation of the network", choices=("tanh", "erf", "softplus", "relu"))
    link: str = static("tanh", "link of the single-index target", choices=("tanh", "erf", "identity", "relu"))

    outputs = {
        "displacement": Output("displacement", r"\|W-W_0\|_F", scale="log"),
        "relative_displacement": Output("relative displacement", r"\|W-W_0\|_F/\|W_0\|_F", scale="log"),
        "neuron_displacement": Output("mean displacement of a neuron", r"|w-w_0|", scale="log"),
        "linearised_displacement": Output(
            "displacement of the linearised network", r"\|W-W_0\|_F", scale="log", predicts="displacement"
        ),
        "conjugate_kernel_change": Output("change of the conjugate kernel", r"\|K-K_0\|_F/\|K_0\|_F", scale="log"),
        "tangent_kernel_change": Output("change of the tangent kernel", r"\|K-K_0\|_F/\|K_0\|_F", scale="log"),
        "alignment": Output("alignment of the kernel with the target", "T", scale="log"),
        "initial_alignment": Output("the same before training", "T_0", scale="log"),
        "training_error": Output("training error, relative to that of 0", scale="log"),
        "test_error": Output("test error, relative to that of 0", scale="log"),
        "diverged_at": DIVERGED_AT,
    }
    presets = {
        "quick": {
            "main": {"width": [64, 192, 512], "exponent": [0.5, 0.75, 1.0], "seeds": 16},
            "one_step": {
                ("width", "dimension", "samples"): [(128, 64, 128), (256, 128, 256), (512, 256, 512)],
                **ONE_STEP,
                "exponent": [0.5, 0.75, 1.0],
                "seeds": 256,
            },
        },
        "full": {
            "main": {
                "width": [64, 128, 256, 512, 1024, 2048, 4096],
                "exponent": [0.5, 0.625, 0.75, 0.875, 1.0],
                "steps": 1500,
                "seeds": 32,
            },
            "one_step": {
                ("width", "dimension", "samples"): [(2 * d, d, 2 * d) for d in (64, 128, 256, 512, 1024)],
                **ONE_STEP,
                "exponent": [0.5, 0.625, 0.75, 0.875, 1.0],
                "seeds": 32,
            },
        },
    }
    claims = (
        Claim(
            "lazy-displacement",
            CHIZAT,
            "In the neural-tangent normalisation (s = 1/2) the weights move by N^-1/2: the slope of log displacement "
            "in log N, relative to the initial norm and per neuron, is -1/2.",
            between(-0.6, -0.4),
            check=lambda part: _slopes(part, LAZY, "relative_displacement", "neuron_displacement"),
            needs={"width": 3, "exponent": (LAZY,)},
        ),
        Claim(
            "feature-displacement",
            MEI,
            "In the mean-field normalisation (s = 1) the weights move by an amount that does not depend on the width: "
            "the slope, relative and per neuron, is 0.",
            between(-0.1, 0.1),
            check=lambda part: _slopes(part, FEATURE, "relative_displacement", "neuron_displacement"),
            needs={"width": 3, "exponent": (FEATURE,)},
        ),
        Claim(
            "interpolation",
            CHIZAT,
            "Between the two the displacement per neuron is of order N^(s-1): the measured slope deviates from s - 1 "
            "by at most 0.1.",
            between(-0.1, 0.1),
            check=_slope_errors,
            needs={"width": 3},
        ),
        Claim(
            "lazy-kernels",
            CHIZAT,
            "At s = 1/2 the conjugate and the tangent kernel stop changing as the width grows, at least as fast as "
            "N^-1/2.",
            at_most(-0.4),
            check=lambda part: _slopes(part, LAZY, "conjugate_kernel_change", "tangent_kernel_change"),
            needs={"width": 3, "exponent": (LAZY,)},
        ),
        Claim(
            "feature-kernels",
            MEI,
            "At s = 1 both kernels change by an amount that does not depend on the width: the slope is 0.",
            between(-0.1, 0.1),
            check=lambda part: _slopes(part, FEATURE, "conjugate_kernel_change", "tangent_kernel_change"),
            needs={"width": 3, "exponent": (FEATURE,)},
        ),
        Claim(
            "lazy-linearisation",
            CHIZAT,
            "At s = 1/2 and the largest width the linearised network predicts the displacement within 5%.",
            between(-0.05, 0.05),
            check=_linear_deviation,
            needs={"exponent": (LAZY,)},
        ),
        Claim(
            "generalisation",
            "the project's own observation",
            "On a single-index target the network that learns features has the lower test error: the ratio of the mean "
            "test errors, s = 1/2 to s = 1, is at least 1 at every width.",
            at_least(1.0),
            statistic=_error_ratio,
            needs={"exponent": (LAZY, FEATURE)},
        ),
        Claim(
            "fit",
            "precondition of the claims above",
            "Every network is trained: its training error is at most 1% of that of the zero function.",
            at_most(0.01),
            check=lambda part: part.simulated.training_error,
        ),
        Claim(
            "one-small-step",
            BA_TEXT,
            "One gradient step at s = 1/2, of order 1 on n = N = 2d samples, leaves the conjugate kernel as it was: "
            "its change falls with the width, at least as fast as N^-0.4.",
            at_most(-0.4),
            check=lambda part: _slopes(part, LAZY, "conjugate_kernel_change"),
            parts=("one_step",),
            needs={"width": 3, "exponent": (LAZY,)},
        ),
        Claim(
            "one-large-step",
            BA_TEXT,
            "One step at s = 1, of order N^1/2, changes it by an amount that does not fall with the width.",
            at_least(0.0),
            check=lambda part: _slopes(part, FEATURE, "conjugate_kernel_change"),
            parts=("one_step",),
            needs={"width": 3, "exponent": (FEATURE,)},
        ),
        Claim(
            "one-step-alignment",
            f"{CUI_TEXT}; the project's equations",
            "The alignment of the kernel with the target grows in one step as the spiked features predict, within 10%.",
            between(-0.1, 0.1),
            statistic=_growth_deviation,
            parts=("one_step",),
        ),
        Claim(
            "slide-feature",
            HAN,
            "Feature learning means that the Frobenius norm of the displacement is of order at least 1: its slope in N "
            "is not negative.",
            at_least(0.0),
            check=lambda part: _slopes(part, FEATURE, "displacement"),
            needs={"width": 3, "exponent": (FEATURE,)},
        ),
        Claim(
            "slide-lazy",
            HAN,
            "Lazy training means that the Frobenius norm of the displacement is O(N^-1/2): its slope in N is at most "
            "-0.4.",
            at_most(-0.4),
            check=lambda part: _slopes(part, LAZY, "displacement"),
            needs={"width": 3, "exponent": (LAZY,)},
            known_negative=(
                "With f = N^-1/2 sum_i a_i sigma(w_i.x) each of the N neurons moves by N^-1/2, so that the Frobenius "
                "norm is of order 1 at every width; what vanishes like N^-1/2 is the displacement per neuron, or "
                "relative to |W_0|_F (claim lazy-displacement)."
            ),
        ),
    )

    def validate(self) -> None:
        if self.width % 2:
            raise InputError(f"width must be even, for pairs of neurons that cancel at the start; got {self.width}")

    def simulate(self, key: Any) -> dict[str, Any]:
        """Train the first layer by gradient descent on |f - y|^2 / (2n), from outputs that are 0."""
        import jax
        import jax.numpy as jnp
        import optax

        from unlazy.data.single_index import SingleIndex
        from unlazy.models.two_layer import TwoLayer
        from unlazy.observables.alignment import target_alignment
        from unlazy.observables.displacement import displacement
        from unlazy.observables.kernels import conjugate_kernel, first_layer_tangent_kernel, relative_change
        from unlazy.observables.linearised import linearised_displacement
        from unlazy.training.loop import train

        data_key, network_key, test_key = jax.random.split(key, 3)
        data = SingleIndex(self.dimension, self.link, self.noise_variance)
        x, y = data.sample(data_key, self.samples)
        fresh = data.inputs(test_key, 200)
        scale = self.width**-self.exponent
        rate = self.learning_rate * self.width ** (2 * self.exponent - 1)
        initial = TwoLayer.antisymmetric(
            network_key, self.dimension, self.width, activation=self.activation, scale=scale
        )

        def loss(network: TwoLayer) -> Any:
            return jnp.mean((network(x) - y) ** 2) / 2

        trained = train(initial, loss, optax.sgd(rate), self.steps, trained=lambda network: network.first_layer)
        final, target = trained.model, data.target(fresh)
        moved = displacement(initial.first_layer, final.first_layer)
        start, end = (
            (conjugate_kernel(network, fresh), first_layer_tangent_kernel(network, fresh))
            for network in (initial, final)
        )
        return {
            "displacement": moved.frobenius,
            "relative_displacement": moved.relative,
            "neuron_displacement": moved.mean,
            "linearised_displacement": linearised_displacement(
                first_layer_tangent_kernel(initial, x), y, rate, self.steps
            ),
            "conjugate_kernel_change": relative_change(start[0], end[0]),
            "tangent_kernel_change": relative_change(start[1], end[1]),
            "alignment": target_alignment(final, self.link, data.direction),
            "initial_alignment": target_alignment(initial, self.link, data.direction),
            "training_error": 2 * loss(final) / jnp.mean(y**2),
            "test_error": jnp.mean((final(fresh) - target) ** 2) / jnp.mean(target**2),
            "diverged_at": trained.diverged_at,
        }

    def predict(self) -> dict[str, Any]:
        """The theory is that of one step, steps = 1."""
        from unlazy.theory.one_step.spiked.features import gradient_step_groups, target_alignment

        if self.steps > 1:
            return {}
        size = self.learning_rate * self.width ** (self.exponent - 0.5)
        after, before = (
            target_alignment(
                self.activation,
                self.link,
                *gradient_step_groups(
                    self.activation,
                    self.link,
                    eta,
                    self.samples,
                    self.dimension,
                    self.width,
                    self.noise_variance,
                    second_layer=[-1.0, 1.0],
                ),
                self.dimension,
            )
            for eta in (size, 0.0)
        )
        return {"alignment": after, "initial_alignment": before}

    def derive(self, simulated: xr.Dataset) -> xr.Dataset:
        """N^(s-1) through the measured displacement per neuron at the smallest width."""
        first = simulated.neuron_displacement.isel(width=0).mean("seed")
        growth = (simulated.width / simulated.width[0]) ** (simulated.exponent - 1)
        return (first * growth).to_dataset(name="neuron_displacement")

    def figure(self, main: Part, one_step: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(3, 2, width=3.4)
        shown = {
            "neuron_displacement": style.label("displacement of a neuron", r"|w-w_0|"),
            "displacement": style.label("displacement", r"\|W-W_0\|_F"),
            "conjugate_kernel_change": "change of the conjugate kernel",
            "test_error": "relative test error",
        }
        trained, step = panels[:, :2].flat, panels[:, 2]
        for axes, (name, label) in zip(trained, shown.items(), strict=True):
            self._curves(axes, main, name, label)
            for index, exponent in enumerate(main.simulated.exponent.values):
                color = style.colour(index)
                if name == "neuron_displacement":
                    line = main.derived[name].sel(exponent=exponent)
                    style.theory(axes, line.width, line, color=color, dashed=True)
                if name == "displacement":
                    line = main.simulated.sel(exponent=exponent).linearised_displacement
                    style.theory(axes, line.width, line.mean("seed"), color=color)
        self._curves(step[0], one_step, "conjugate_kernel_change", "change of the conjugate kernel")
        self._curves(step[1], one_step, "alignment", style.label("alignment with the target", "T"))
        if one_step.predicted is not None:
            for index, exponent in enumerate(one_step.predicted.exponent.values):
                line = one_step.predicted.alignment.sel(exponent=exponent)
                style.theory(step[1], line.width, line, color=style.colour(index))
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        panels[0, 0].set_title("dashed: $N^{s-1}$ through the first point")
        panels[0, 1].set_title("lines: linearised network")
        panels[0, 2].set_title(r"one step, $\eta = N^{s-1/2}$, $n = N = 2d$")
        panels[1, 2].set_title("lines: theory")
        return figure

    def _curves(self, axes: Any, part: Part, name: str, label: str) -> None:
        from unlazy.plotting import style

        widths = part.simulated.width.values
        for index, exponent in enumerate(part.simulated.exponent.values):
            text = f"$s = {exponent:g}$" + {LAZY: ", neural tangent", FEATURE: ", mean field"}.get(exponent, "")
            points = part.simulated[name].sel(exponent=exponent)
            style.simulation(axes, widths, points, color=style.colour(index), marker=style.marker(index), label=text)
        style.log_scale(axes)
        axes.set(xlabel=style.label("width", "N"), ylabel=label)
        axes.set_xticks(widths, [str(w) for w in widths])
        axes.minorticks_off()
