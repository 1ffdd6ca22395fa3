"""Learning curves of kernel regression on real data, predicted from a part of it without training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_least, at_most, cite, claim, enough, parameter, path, static
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.kernels.shared.curves_from_data import (
    KERNELS,
    eigenlearning_forecast,
    kernel_of,
    power_law_forecast,
    prepared,
    trained,
)

DATA = ("diabetes", "breast_cancer", "wine", "iris", "digit_classes", "digits", "china", "jacksboro", "topobathy")
HARD = ("diabetes", "breast_cancer", "digit_classes")
"""Where plain eigenlearning is far off; on few-dimensional, smooth data there is little to gain."""
POOLS = "formulas for finite pools"
INSIDE = ("ridge", "share")
BEYOND = ("large_ridge", "factor")


def _errors(main, method, truth="trained"):
    """|log(predicted / trained)| of every case and pool."""
    return abs(np.log(main.simulated[method] / main.simulated[truth]))


def _cases(values, *kept):
    """The dimensions of cases: all but those kept and the pools."""
    return [dim for dim in values.dims if dim not in ("seed", *kept)]


def _beyond_ratio(main, other):
    """The mean error of the forecast over that of another method, all data sets together, by pool."""
    enough(main.simulated, "data", 3)
    ours, theirs = (_errors(main, f"{name}_beyond", "trained_beyond") for name in ("forecast", other))
    return ours.mean(_cases(ours)) / theirs.where(ours.notnull()).mean(_cases(theirs))


def _panel(methods, ending, **options):
    """How far the predictions of some methods are from the trained errors, by data set."""

    def draw(axes, main):
        names = [str(name) for name in np.atleast_1d(parameter(main.simulated, "data"))]
        for index, method in enumerate(methods):
            errors = _errors(main, f"{method}{ending}", f"trained{ending}")
            cases = errors.expand_dims("data") if "data" not in errors.dims else errors
            cases = np.reshape(cases.transpose("data", ...).values, (len(names), -1))
            low, middle, high = np.nanquantile(cases, [0.1, 0.5, 0.9], axis=1)
            axes.errorbar(
                np.arange(len(names)) + 0.16 * (index - (len(methods) - 1) / 2),
                middle,
                yerr=[middle - low, high - middle],
                fmt=style.marker(index),
                color="#888888" if method == "eigenlearning" else style.colour(index - 1),
                linewidth=1,
                label=method.replace("_", " "),
            )
        axes.set_yscale("log")
        axes.set_ylim(bottom=axes.get_ylim()[0] / 5)
        if "data" not in main.simulated.dims:
            axes.set_xticks([0], names)

    return Panel(
        f"{methods[-1]}{ending}",
        x="data",
        points=False,
        theory=False,
        log="",
        legend="lower left",
        draw=draw,
        **options,
    )


@dataclass(frozen=True)
class LearningCurveData(Study):
    question = (
        "From some hundred rows of a real data set: how well can one predict, without training, the error of kernel "
        "regression trained on fewer rows, and on two and three times as many?"
    )
    sources = cite("simon2023", "canatar2021")

    data: str = static("diabetes", "data set", choices=DATA)
    kernel: str = static("rbf", "kernel, of the width of the data", choices=KERNELS)
    pool: int = static(160, "rows of the pool, at most", symbol="N", low=40, high=2000, scale="log")
    splits: int = static(24, "random splits that are trained for every size", low=2, high=1000)
    ridge: tuple = path((0.01, 0.3, 3.0), "ridge, next to the kernel matrix", symbol=r"\delta", above=0, scale="log")
    large_ridge: tuple = path(
        (0.5, 2.0), "ridge for more rows than the pool has", symbol=r"\delta", above=0, scale="log"
    )
    share: tuple = path((0.1, 0.35, 0.8), "rows trained on, as a share of the pool", symbol="n/N", above=0, high=0.95)
    factor: tuple = path((2.0, 3.0), "rows trained on, in multiples of a small pool", above=1, high=3)

    outputs = {
        "trained": Output("test error of trained regressors", "", INSIDE, scale="log"),
        "eigenlearning": Output("plain eigenlearning", "", INSIDE, scale="log", predicts="trained"),
        "fast": Output("fast", "", INSIDE, scale="log", predicts="trained"),
        "hybrid": Output("hybrid", "", INSIDE, scale="log", predicts="trained"),
        "pointwise": Output("pointwise", "", INSIDE, scale="log", predicts="trained"),
        "trained_beyond": Output("test error of trained regressors", "", BEYOND, scale="log"),
        "forecast_beyond": Output("forecast from the small pool", "", BEYOND, scale="log", predicts="trained_beyond"),
        "power_law_beyond": Output("power law fitted to it", "", BEYOND, scale="log", predicts="trained_beyond"),
        "eigenlearning_beyond": Output("plain eigenlearning", "", BEYOND, scale="log", predicts="trained_beyond"),
    }
    presets = {
        "quick": {"data": list(DATA), "seeds": 10},
        "full": {"data": list(DATA), "kernel": list(KERNELS), "pool": 700, "splits": 48, "seeds": 6},
    }
    figure = panels(
        _panel(
            ("eigenlearning", "fast", "hybrid", "pointwise"),
            "",
            title="fewer rows than the pool",
            ylabel="|log(predicted / trained)|",
        ),
        _panel(
            ("eigenlearning", "power_law", "forecast"),
            "_beyond",
            title="two and three times the rows of a pool",
            ylabel="|log(predicted / trained)|",
        ),
        width=4.3,
        height=3.4,
        caption=(
            "Points: medians, over all cases of a data set, of how far a prediction is from the trained error; bars: "
            "from the 10% to the 90% quantile."
        ),
    )

    @claim(OWN, POOLS, at_most(0.03))
    def pointwise(main):
        """With an effective ridge for every row |log(predicted / trained)| is {criterion}, in the median of all data
        sets, kernels, ridges and sizes."""
        enough(main.simulated, "data", 3)
        errors = _errors(main, "pointwise")
        return errors.median(_cases(errors))

    @claim(OWN, POOLS, at_most(0.15))
    def pointwise_worst(main):
        """In 95% of the cases it is {criterion}."""
        enough(main.simulated, "data", 3)
        errors = _errors(main, "pointwise")
        return errors.quantile(0.95, _cases(errors))

    @claim(OWN, POOLS, at_most(0.5))
    def fast(main):
        """One effective ridge for all rows does much better than plain eigenlearning on diabetes, breast cancer and the
        classes of digits: the ratio of the median errors is {criterion}."""
        fast, plain = (_errors(main, method) for method in ("fast", "eigenlearning"))
        ratio = fast.median(_cases(fast, "data")) / plain.median(_cases(plain, "data"))
        return ratio.sel(data=list(HARD))

    @claim(OWN, POOLS, at_least(0.95))
    def in_range(main):
        """Two and three times the rows are in reach of the forecast: the share of such cases is {criterion}."""
        enough(main.simulated, "data", 3)
        found = main.simulated.forecast_beyond.notnull()
        return found.mean(_cases(found))

    @claim(OWN, POOLS, at_most(1.0))
    def beyond_power_law(main):
        """For two and three times the rows of a pool the mean error of the forecast, over that of a power law fitted to
        subsampled training, is {criterion}."""
        return _beyond_ratio(main, "power_law")

    @claim(OWN, POOLS, at_most(0.5))
    def beyond_eigenlearning(main):
        """There its mean error over that of plain eigenlearning is {criterion}."""
        return _beyond_ratio(main, "eigenlearning")

    def memory(self) -> int:
        return 8 * 12 * self.pool**2 + 8 * 3 * 2200**2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """Predict from a random pool, then train on random parts of it; and the same beyond a smaller pool."""
        inputs, targets = prepared(self.data)
        rows = rng.permutation(len(inputs))[: self.pool]
        kernel = kernel_of(self.kernel, inputs[rows])
        labels = targets[rows] - targets[rows].mean(axis=0)
        sizes = [max(2, round(share * len(rows))) for share in self.share]
        columns = [trained(rng, kernel, labels, n, self.ridge, self.splits) for n in sizes]
        inside = _predictions(kernel, labels, sizes, self.ridge, ("fast", "hybrid", "pointwise"))
        inside["trained"] = np.array(columns).T
        inside["eigenlearning"] = eigenlearning_forecast(kernel, labels, sizes, self.ridge)
        return {**inside, **self._beyond(rng, inputs, targets)}

    def _beyond(self, rng: np.random.Generator, inputs: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
        few = min(len(inputs) // 4, self.pool // 2)
        many = rng.permutation(len(inputs))[: 4 * few + self.pool]
        whole = kernel_of(self.kernel, inputs[many])
        sizes = [round(factor * few) for factor in self.factor]
        part = rng.permutation(len(many))[:few]
        kernel, labels = whole[np.ix_(part, part)], targets[many][part]
        labels = labels - labels.mean(axis=0)
        ridges = self.large_ridge
        truth = [trained(rng, whole, targets[many], n, ridges, self.splits) for n in sizes]
        return {
            "trained_beyond": np.array(truth).T,
            "forecast_beyond": _predictions(kernel, labels, sizes, ridges, ("auto",))["auto"],
            "power_law_beyond": power_law_forecast(rng, kernel, labels, sizes, ridges, self.splits),
            "eigenlearning_beyond": eigenlearning_forecast(kernel, labels, sizes, ridges),
        }


def _predictions(
    kernel: np.ndarray, labels: np.ndarray, sizes: list[int], ridges: Sequence[float], methods: tuple[str, ...]
) -> dict[str, np.ndarray]:
    from unlazy.diagnostics.learning_curve.curve import LearningCurve

    found = {}
    for method in methods:
        curve = LearningCurve("precomputed", method=method).fit(kernel, labels)
        found[method] = curve.predict(n=np.array(sizes), ridge=np.array(ridges)[:, None]).error
    return found
