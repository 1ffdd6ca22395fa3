"""Learning curves of kernel regression on real data, predicted from a part of it without training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Source, Study, at_least, at_most, parameter, path, static
from unlazy.studies.kernels.shared.curves_from_data import (
    KERNELS,
    eigenlearning_forecast,
    kernel_of,
    power_law_forecast,
    prepared,
    trained,
)

if TYPE_CHECKING:
    import xarray as xr

DATA = ("diabetes", "breast_cancer", "wine", "iris", "digit_classes", "digits", "china", "jacksboro", "topobathy")
HARD = ("diabetes", "breast_cancer", "digit_classes")
"""Where plain eigenlearning is far off; on few-dimensional, smooth data there is little to gain."""
OWN = "the project's formulas for finite pools"
INSIDE = ("ridge", "share")
BEYOND = ("large_ridge", "factor")


def _errors(part: Part, method: str, truth: str = "trained") -> Any:
    """|log(predicted / trained)| of every case and pool."""
    return abs(np.log(part.simulated[method] / part.simulated[truth]))


def _cases(values: xr.DataArray, *kept: str) -> list[Any]:
    """The dimensions of cases: all but those kept and the pools."""
    return [dim for dim in values.dims if dim not in ("seed", *kept)]


def _median(part: Part, method: str) -> xr.DataArray:
    """By pool, over all cases."""
    errors = _errors(part, method)
    return errors.median(_cases(errors))


def _quantile(part: Part, method: str, level: float) -> xr.DataArray:
    errors = _errors(part, method)
    return errors.quantile(level, _cases(errors))


def _fast_over_plain(part: Part) -> xr.DataArray:
    """The median error of `fast` over that of plain eigenlearning, by data set and pool."""
    fast, plain = (_errors(part, method) for method in ("fast", "eigenlearning"))
    return fast.median(_cases(fast, "data")) / plain.median(_cases(plain, "data"))


def _beyond_ratio(part: Part, other: str) -> xr.DataArray:
    """The mean error of the forecast over that of another method, all data sets together, by pool."""
    ours, theirs = (_errors(part, f"{name}_beyond", "trained_beyond") for name in ("forecast", other))
    return ours.mean(_cases(ours)) / theirs.where(ours.notnull()).mean(_cases(theirs))


def _in_range(part: Part) -> xr.DataArray:
    found = part.simulated.forecast_beyond.notnull()
    return found.mean(_cases(found))


@dataclass(frozen=True)
class LearningCurveData(Study):
    name = "learning-curve-data"
    topic = "kernels"
    question = (
        "From some hundred rows of a real data set: how well can one predict, without training, the error of kernel "
        "regression trained on fewer rows, and on two and three times as many?"
    )
    caption = (
        "Points: medians, over all cases of a data set, of how far a prediction is from the trained error; bars: from"
        " the 10% to the 90% quantile."
    )
    sources = (
        Source(
            "simon2023",
            "Simon, James B. and Dickens, Madeline and Karkada, Dhruva and DeWeese, Michael R.",
            2023,
            "The eigenlearning framework: A conservation law perspective on kernel regression and wide neural networks",
            "Transactions on Machine Learning Research",
        ),
        Source(
            "canatar2021",
            "Canatar, Abdulkadir and Bordelon, Blake and Pehlevan, Cengiz",
            2021,
            "Spectral bias and task-model alignment explain generalization in kernel regression and infinitely wide "
            "neural networks",
            "Nature Communications 12, 2914",
        ),
    )

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
    claims = (
        Claim(
            "pointwise",
            OWN,
            "With an effective ridge for every row the prediction is within 3% of what training gives, in the median "
            "of all data sets, kernels, ridges and sizes.",
            at_most(0.03),
            check=lambda part: _median(part, "pointwise"),
            needs={"data": 3},
        ),
        Claim(
            "pointwise-worst",
            OWN,
            "In 95% of the cases it is off by at most 15%.",
            at_most(0.15),
            check=lambda part: _quantile(part, "pointwise", 0.95),
            needs={"data": 3},
        ),
        Claim(
            "fast",
            OWN,
            "One effective ridge for all rows at least halves the median error of plain eigenlearning on diabetes, "
            "breast cancer and the classes of digits.",
            at_most(0.5),
            check=lambda part: _fast_over_plain(part).sel(data=list(HARD)),
            needs={"data": HARD},
        ),
        Claim(
            "in-range",
            OWN,
            "Two and three times the rows are in reach of the forecast in at least 95% of the cases.",
            at_least(0.95),
            check=_in_range,
            needs={"data": 3},
        ),
        Claim(
            "beyond-power-law",
            OWN,
            "For two and three times the rows of a pool the forecast has a smaller mean error than a power law fitted "
            "to subsampled training.",
            at_most(1.0),
            check=lambda part: _beyond_ratio(part, "power_law"),
            needs={"data": 3},
        ),
        Claim(
            "beyond-eigenlearning",
            OWN,
            "There it has at most half the mean error of plain eigenlearning.",
            at_most(0.5),
            check=lambda part: _beyond_ratio(part, "eigenlearning"),
            needs={"data": 3},
        ),
    )

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

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=4.3, height=3.4)
        groups = (
            (left, "trained", ("eigenlearning", "fast", "hybrid", "pointwise"), ""),
            (right, "trained_beyond", ("eigenlearning", "power_law", "forecast"), "_beyond"),
        )
        names = [str(name) for name in np.atleast_1d(parameter(main.simulated, "data"))]
        for axes, truth, methods, ending in groups:
            for index, method in enumerate(methods):
                errors = _errors(main, f"{method}{ending}", truth)
                cases = errors.expand_dims("data") if "data" not in errors.dims else errors
                cases = np.reshape(cases.transpose("data", ...).values, (len(names), -1))
                places = np.arange(len(names)) + 0.16 * (index - (len(methods) - 1) / 2)
                color = {"eigenlearning": "#888888"}.get(method, style.colour(index - 1))
                middle = np.nanmedian(cases, axis=1)
                low, high = np.nanquantile(cases, [0.1, 0.9], axis=1)
                axes.errorbar(
                    places,
                    middle,
                    yerr=[middle - low, high - middle],
                    fmt=style.marker(index),
                    color=color,
                    linewidth=1,
                    label=method.replace("_", " "),
                )
            axes.set_yscale("log")
            axes.set_xticks(np.arange(len(names)), [name.replace("_", " ") for name in names], rotation=40, ha="right")
            axes.set_ylim(bottom=axes.get_ylim()[0] / 5)
            axes.legend(ncols=2, loc="lower left")
        left.set(ylabel="|log(predicted / trained)|, median and 80%", title="fewer rows than the pool")
        right.set_title("two and three times the rows of a pool")
        return figure


def _predictions(
    kernel: np.ndarray, labels: np.ndarray, sizes: list[int], ridges: Sequence[float], methods: tuple[str, ...]
) -> dict[str, np.ndarray]:
    from unlazy.diagnostics.learning_curve.curve import LearningCurve

    found = {}
    for method in methods:
        curve = LearningCurve("precomputed", method=method).fit(kernel, labels)
        found[method] = curve.predict(n=np.array(sizes), ridge=np.array(ridges)[:, None]).error
    return found
