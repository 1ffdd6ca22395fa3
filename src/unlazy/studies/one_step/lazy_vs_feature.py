"""Lazy training and feature learning: how far two-layer networks move, against width and output scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import DIVERGED_AT, Output, Study, cite, static, value
from unlazy.lab.claims import OWN, at_least, at_most, between, claim, within
from unlazy.lab.measures import relative_deviation, slope
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.one_step.spiked.features import gradient_step_groups, target_alignment

LAZY, FEATURE = 0.5, 1.0
ONE_LAYER = (
    "The source bounds the movement from above for gradient flow on all layers; here gradient descent trains the first "
    "layer alone, and an exponent is fitted."
)
FULL_BATCH = (
    "The source states the limit of one-pass SGD, a PDE in which the width does not occur; here full-batch gradient "
    "descent on few samples trains the first layer alone."
)
KERNEL_MEASURE = (
    "The source compares the displacement of the weights with their norm. To look at the kernel, and a second layer "
    "of signs in opposite pairs, are this project's choices."
)
KERNEL, NEURON = "change of the conjugate kernel", "displacement of a neuron $|w-w_0|$"
ONE_LARGE = r"one step, $\eta = N^{s-1/2}$, $n = N = 2d$"
SIZES = ("width", "d", "n")
SCALE, ENDS = "exponent s of the output scale N^-s", ": 1/2 is the neural-tangent, 1 the mean-field normalisation"
EXPONENTS = [0.5, 0.625, 0.75, 0.875, 1.0]
LARGER = [(2 * d, d, 2 * d) for d in (16, 32, 64, 128, 256, 512, 1024)]
ONE_STEP: dict[Any, Any] = {"steps": 1, "activation": "erf", "link": "erf", "noise_variance": 0.01}


def _slopes(part, output_exponent, *names):
    return [slope(part.simulated[name].sel(output_exponent=output_exponent), "width") for name in names]


def _panel(show, part="main", **options):
    return Panel(show, x="width", by="output_exponent", part=part, **{"legend": False, **options})


@dataclass(frozen=True)
class LazyVsFeature(Study):
    question = (
        "How far do the weights and the kernels of a two-layer network move in training as its width grows? How does "
        "the scale of its output decide whether it learns features?"
    )
    sources = cite("chizat2019", "mei2018", "han2025tutorial", "ba2022", "cui2024")
    precision = "float32"

    width: int = static(256, "width", symbol="N", low=2, high=65_536, scale="log", paired=True)
    output_exponent: float = value(0.5, f"{SCALE}{ENDS}", symbol="s", low=0.5, high=1, paired=True, short=SCALE)
    d: int = static(10, "input dimension", symbol="d", low=1, high=10_000)
    n: int = static(60, "training samples", symbol="n", low=1, high=10_000)
    steps: int = static(500, "steps of full-batch gradient descent", low=1, high=1_000_000, scale="log", paired=True)
    relative_step_size: float = value(
        1.0, "step size over N^(2s-1)", symbol=r"\eta/N^{2s-1}", above=0, high=100, scale="log", paired=True
    )
    noise_variance: float = value(0.0, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    activation: str = static("tanh", "activation of the network", choices=("tanh", "erf", "softplus", "relu"))
    link: str = static("tanh", "link of the single-index target", choices=("tanh", "erf", "identity", "relu"))

    theory_for = {"steps": (1,)}
    outputs = {
        "displacement": Output("displacement", r"\|W-W_0\|_F", scale="log"),
        "relative_displacement": Output("relative displacement", r"\|W-W_0\|_F/\|W_0\|_F", scale="log"),
        "neuron_displacement": Output("mean displacement of a neuron", r"|w-w_0|", scale="log"),
        "linearised_displacement": Output(
            "displacement of the linearised network", r"\|W-W_0\|_F", scale="log", predicts="displacement"
        ),
        "conjugate_kernel_change": Output("change of the conjugate kernel", r"\|K-K_0\|_F/\|K_0\|_F", scale="log"),
        "tangent_kernel_change": Output("change of the tangent kernel", r"\|K-K_0\|_F/\|K_0\|_F", scale="log"),
        "target_alignment": Output("alignment of the kernel with the target", "T", scale="log"),
        "initial_target_alignment": Output("the same before training", "T_0", scale="log"),
        "training_error": Output("training error, relative to that of 0", scale="log"),
        "test_error": Output("test error, relative to that of 0", scale="log"),
        "diverged_at": DIVERGED_AT,
    }
    presets = {
        "quick": {
            "main": {"width": [64, 128, 256, 512], "output_exponent": EXPONENTS[::2], "seeds": 16},
            "one_step": {SIZES: LARGER[:4]} | ONE_STEP | {"output_exponent": EXPONENTS[::2], "seeds": 256},
        },
        "full": {
            "main": {"width": [2**k for k in range(6, 13)], "output_exponent": EXPONENTS, "steps": 1500, "seeds": 32},
            "one_step": {SIZES: LARGER[2:]} | ONE_STEP | {"output_exponent": EXPONENTS, "seeds": 32},
        },
    }
    figure = panels(
        _panel("neuron_displacement", legend=True, ylabel=NEURON, title="dashed: $N^{s-1}$ through the first point"),
        _panel("displacement", title="dashes: linearised network"),
        _panel("conjugate_kernel_change", "one_step", ylabel=KERNEL, title=ONE_LARGE),
        _panel("conjugate_kernel_change", ylabel=KERNEL),
        _panel("test_error", ylabel="relative test error"),
        _panel("target_alignment", "one_step", ylabel="alignment with the target $T$", title="one step; lines: theory"),
        caption=(
            "s = 1/2 is the neural-tangent normalisation, s = 1 the mean-field one. Dashes in the second panel: the "
            "simulated linearised network."
        ),
    )

    @claim("chizat2019", "", between(-0.6, -0.4), departs=ONE_LAYER)
    def lazy_displacement(main):
        """In the neural-tangent normalisation (s = 1/2) the weights move by N^(-1/2), both relative to their initial
        norm and per neuron. The slope of log(displacement) against log N is {criterion}."""
        return _slopes(main, LAZY, "relative_displacement", "neuron_displacement")

    @claim("mei2018", "", within(0.1, absolute=True), departs=FULL_BATCH)
    def feature_displacement(main):
        """In the mean-field normalisation (s = 1) the movement of the weights does not depend on the width, both
        relative to their initial norm and per neuron. The slope of log(displacement) against log N is 0,
        {criterion}."""
        return _slopes(main, FEATURE, "relative_displacement", "neuron_displacement")

    @claim("chizat2019", "", within(0.1, absolute=True), departs=ONE_LAYER)
    def interpolation(main):
        """Between the two normalisations each neuron moves by an amount of order N^(s-1). The slope of
        log(displacement) against log N is s - 1, {criterion}."""
        found = slope(main.simulated.neuron_displacement, "width")
        return found - (found.output_exponent - 1)

    @claim("chizat2019", "", at_most(-0.4), departs=ONE_LAYER)
    def lazy_kernels(main):
        """At s = 1/2 the conjugate and the tangent kernel change less and less as the width grows, about as fast as
        N^(-1/2) or faster. The slopes of log(change) against log N are {criterion}."""
        return _slopes(main, LAZY, "conjugate_kernel_change", "tangent_kernel_change")

    @claim("mei2018", "", within(0.1, absolute=True), departs=FULL_BATCH)
    def feature_kernels(main):
        """At s = 1 both kernels change by an amount that does not depend on the width. The slope of log(change) against
        log N is 0, {criterion}."""
        return _slopes(main, FEATURE, "conjugate_kernel_change", "tangent_kernel_change")

    @claim(
        "chizat2019",
        "",
        within(0.05),
        departs="The source bounds the distance to the linearised path for gradient flow on all layers; here gradient "
        "descent trains the first layer alone, and displacements are compared.",
    )
    def lazy_linearisation(main):
        """At s = 1/2 and the largest width the linearised network predicts the displacement {criterion}."""
        widest = main.simulated.sel(output_exponent=LAZY).isel(width=-1)
        return relative_deviation(widest.displacement, widest.linearised_displacement)

    @claim(OWN, "observation", at_least(1.0), resampled=True)
    def generalisation(main):
        """On a single-index target the network that learns features generalises better. At every width the ratio of the
        mean test errors, s = 1/2 to s = 1, is {criterion}."""
        error = main.simulated.test_error.mean("seed")
        return error.sel(output_exponent=LAZY) / error.sel(output_exponent=FEATURE)

    @claim(OWN, "precondition of the claims above", at_most(0.01))
    def fit(main):
        """Every network is trained. Its training error, relative to that of the zero function, is {criterion}."""
        return main.simulated.training_error

    @claim("ba2022", "", at_most(-0.4), departs=KERNEL_MEASURE)
    def one_small_step(one_step):
        """One gradient step at s = 1/2, of order 1 on n = N = 2d samples, leaves the conjugate kernel nearly as it was.
        The slope of log(change) against log N is {criterion}."""
        return _slopes(one_step, LAZY, "conjugate_kernel_change")

    @claim("ba2022", "", at_least(0.0), departs=KERNEL_MEASURE)
    def one_large_step(one_step):
        """One gradient step at s = 1, of order N^(1/2), changes the conjugate kernel by an amount that does not fall
        with the width. The slope of log(change) against log N is {criterion}."""
        return _slopes(one_step, FEATURE, "conjugate_kernel_change")

    @claim(OWN, "by an equivalent of spiked random features", within(0.1), resampled=True)
    def one_step_alignment(one_step):
        """From N = 128 on, one step raises the alignment of the kernel with the target as the theory of spiked features
        predicts, {criterion}."""
        both = (one_step.simulated.mean("seed"), one_step.predicted)
        growth, theory = (data.target_alignment / data.initial_target_alignment for data in both)
        return (growth / theory - 1).where(growth.width >= 128, drop=True)

    @claim(
        "han2025tutorial",
        "slide on lazy training",
        at_least(0.0),
        departs="The slide's network has the output scale N^-1/2; here feature learning is that of N^-1.",
    )
    def slide_feature(main):
        """Feature learning means that the Frobenius norm of the displacement is of order 1 or more. The slope of its
        logarithm against log N is {criterion}."""
        return _slopes(main, FEATURE, "displacement")

    @claim(
        "han2025tutorial",
        "slide on lazy training",
        at_most(-0.4),
        known_negative=(
            "With f = N^(-1/2) sum_i a_i sigma(w_i.x) each of the N neurons moves by N^(-1/2). The Frobenius norm is "
            "therefore of order 1 at every width. What vanishes like N^(-1/2) is the displacement of one neuron, or "
            "the displacement relative to |W_0|_F (claim lazy-displacement)."
        ),
    )
    def slide_lazy(main):
        """Lazy training means that the Frobenius norm of the displacement is O(N^(-1/2)). The slope of its logarithm
        against log N is {criterion}."""
        return _slopes(main, LAZY, "displacement")

    def validate(self) -> None:
        if self.width % 2:
            raise InputError(f"width must be even, for pairs of neurons that cancel at the start; got {self.width}")

    def simulate(self, key: Any) -> dict[str, Any]:
        from unlazy.data.single_index import SingleIndex
        from unlazy.training.one_step.output_scale import train_first_layer

        data = SingleIndex(self.d, self.link, self.noise_variance)
        options = self.as_dict("output_exponent", "relative_step_size", "steps", "activation")
        return train_first_layer(key, data, self.n, self.width, **options)._asdict()

    def predict(self) -> dict[str, Any]:
        if self.steps > 1:
            return {}
        size = self.relative_step_size * self.width ** (self.output_exponent - 0.5)
        functions = (self.activation, self.link)
        sizes, noise = (self.n, self.d, self.width), self.noise_variance
        steps = (gradient_step_groups(*functions, *sizes, eta, noise, second_layer=[-1.0, 1.0]) for eta in (size, 0.0))
        after, before = (target_alignment(*functions, *step, self.d) for step in steps)
        return {"target_alignment": after, "initial_target_alignment": before}

    def derive(self, simulated: Any) -> Any:
        """N^(s-1) through the measured displacement per neuron at the smallest width."""
        first = simulated.neuron_displacement.isel(width=0).mean("seed")
        growth = (simulated.width / simulated.width[0]) ** (simulated.output_exponent - 1)
        return (first * growth).to_dataset(name="neuron_displacement")
