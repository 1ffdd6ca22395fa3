"""Learning curves of kernel regression on real data, predicted from a part of it without training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_least, at_most, changes, cite, claim, enough, path, static
from unlazy.plotting.panels import Panel, panels

DATA = ["diabetes", "breast_cancer", "wine", "iris", "digit_classes", "digits", "china", "jacksboro", "topobathy"]
HARD = ["diabetes", "breast_cancer", "digit_classes"]
"""Where plain eigenlearning is far off; on few-dimensional, smooth data there is little to gain."""
KERNELS = ("rbf", "narrow rbf", "laplacian", "poly")
POOLS = "formulas for finite pools"
INSIDE = ("penalty", "pool_share")
BEYOND = ("large_penalty", "pool_multiple")


def _errors(data, method, ending=""):
    """|log(predicted / trained)| of every case and pool."""
    return abs(np.log(data[f"{method}{ending}"] / data[f"trained{ending}"]))


def _cases(values, *kept):
    """The dimensions of cases: all but those kept and the pools."""
    return [dim for dim in values.dims if dim not in ("seed", "resample", *kept)]


def _typical(method, ending, data):
    """The median over the cases of a data set, by pool."""
    errors = _errors(data, method, ending)
    return errors.median(_cases(errors, "data"))


def _beyond_ratio(main, other):
    """The mean error of the forecast over that of another method, all data sets and pools together."""
    enough(main.simulated, "data", 3)
    ours, theirs = (_errors(main.simulated, name, "_beyond") for name in ("forecast", other))
    over = [*_cases(ours), "seed"]
    return ours.mean(over) / theirs.where(ours.notnull()).mean(over)


def _panel(title, ending, *methods):
    return Panel(
        tuple(partial(_typical, method, ending) for method in methods),
        x="data",
        labels=tuple(method.replace("_", " ") for method in methods),
        title=title,
        ylabel="median of |log(predicted / trained)|",
        log="y",
        legend="beside",
    )


@dataclass(frozen=True)
class LearningCurveData(Study):
    question = (
        "Given a few hundred rows of a real data set, can one predict the error of kernel regression without training"
        " it? How well for fewer rows, and how well for two and three times as many?"
    )
    sources = cite("simon2023", "canatar2021")

    data: str = static("diabetes", "data set", choices=DATA)
    kernel: str = static("rbf", "kernel, of the width of the data", choices=KERNELS)
    pool_size: int = static(160, "rows of the pool, at most", symbol="N", low=40, high=2000, scale="log")
    splits: int = static(24, "random splits that are trained for every size", low=2, high=1000)
    penalty: tuple = path(
        (0.01, 0.3, 3.0), "penalty, next to the kernel matrix", symbol=r"\delta", above=0, scale="log"
    )
    large_penalty: tuple = path(
        (0.5, 2.0), "penalty for more rows than the pool has", symbol=r"\delta", above=0, scale="log"
    )
    pool_share: tuple = path(
        (0.1, 0.35, 0.8), "rows trained on, as a share of the pool", symbol="n/N", above=0, high=0.95
    )
    pool_multiple: tuple = path((2.0, 3.0), "rows trained on, in multiples of a small pool", above=1, high=3)

    outputs = {
        "trained": Output("test error of trained regressors", "", INSIDE, "log"),
        "eigenlearning": Output("plain eigenlearning", "", INSIDE, "log", predicts="trained"),
        **{name: Output(name, "", INSIDE, "log", predicts="trained") for name in ("fast", "hybrid", "pointwise")},
        "trained_beyond": Output("test error of trained regressors", "", BEYOND, "log"),
        "forecast_beyond": Output("forecast from the small pool", "", BEYOND, "log", predicts="trained_beyond"),
        "power_law_beyond": Output("power law fitted to it", "", BEYOND, "log", predicts="trained_beyond"),
        "eigenlearning_beyond": Output("plain eigenlearning", "", BEYOND, "log", predicts="trained_beyond"),
    }
    presets = {
        "quick": {"data": DATA, "seeds": 18},
        "full": {"data": DATA, "kernel": list(KERNELS), "pool_size": 700, "splits": 48, "seeds": 6},
    }
    history = (
        *changes("pointwise", "0.035, where it was 0.03", "pools differ by 0.005 around 0.023: too near"),
        *changes(
            "fast beyond-power-law beyond-eigenlearning",
            "a ratio of means over pools, where it was the mean of their ratios",
            "single pools with a small denominator made it noisy",
        ),
    )
    figure = panels(
        _panel("fewer rows than the pool", "", "eigenlearning", "fast", "hybrid", "pointwise"),
        _panel("two and three times the rows of a pool", "_beyond", "eigenlearning", "power_law", "forecast"),
        width=4.3,
        height=3.4,
    )

    @claim(OWN, POOLS, at_most(0.035))
    def pointwise(main):
        """With an effective ridge for every row the forecast is close. The median of |log(predicted / trained)| over
        all data sets, kernels, penalties and sizes is {criterion}."""
        enough(main.simulated, "data", 3)
        errors = _errors(main.simulated, "pointwise")
        return errors.median(_cases(errors))

    @claim(OWN, POOLS, at_most(0.15))
    def pointwise_worst(main):
        """The forecast is rarely far off. In 95% of the cases |log(predicted / trained)| is {criterion}."""
        enough(main.simulated, "data", 3)
        errors = _errors(main.simulated, "pointwise")
        return errors.quantile(0.95, _cases(errors))

    @claim(OWN, POOLS, at_most(0.5), resampled=True)
    def fast(main):
        """One effective ridge for all rows does much better than plain eigenlearning on diabetes, breast cancer and the
        classes of digits. The ratio of their median errors (each a mean over pools) is {criterion}."""
        fast, plain = (_typical(method, "", main.simulated).mean("seed") for method in ("fast", "eigenlearning"))
        return (fast / plain).sel(data=HARD)

    @claim(OWN, POOLS, at_least(0.95))
    def in_range(main):
        """Two and three times the rows are within reach of the forecast. The share of such cases is {criterion}."""
        enough(main.simulated, "data", 3)
        found = main.simulated.forecast_beyond.notnull()
        return found.mean(_cases(found))

    @claim(OWN, POOLS, at_most(1.0), resampled=True)
    def beyond_power_law(main):
        """At two and three times the rows the forecast does no worse than a power law fitted to subsampled training.
        The ratio of their mean errors is {criterion}."""
        return _beyond_ratio(main, "power_law")

    @claim(OWN, POOLS, at_most(0.5), resampled=True)
    def beyond_eigenlearning(main):
        """At two and three times the rows the forecast does better than plain eigenlearning. The ratio of their mean
        errors is {criterion}."""
        return _beyond_ratio(main, "eigenlearning")

    def memory(self) -> int:
        return 8 * 12 * self.pool_size**2 + 8 * 3 * 2200**2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """Predict from a random pool, then train on random parts of it; and the same beyond a smaller pool."""
        from unlazy.data.real import load
        from unlazy.training.kernels.pools import beyond_a_pool, inside_a_pool

        rows = rng, _predicted, *load(self.data).standardised()
        options: dict[str, Any] = {"kernel": self.kernel, "pool_size": self.pool_size, "splits": self.splits}
        inside = inside_a_pool(*rows, pool_shares=self.pool_share, penalties=self.penalty, **options)
        return inside | beyond_a_pool(*rows, pool_multiples=self.pool_multiple, penalties=self.large_penalty, **options)


def _predicted(kernel: np.ndarray, labels: np.ndarray, sizes: list[int], penalties: tuple, method: str) -> np.ndarray:
    from unlazy.diagnostics.learning_curve.curve import LearningCurve

    curve = LearningCurve("precomputed", method=method, fit_intercept=False).fit(kernel, labels)
    return curve.predict(n=np.array(sizes), penalty=np.array(penalties)[:, None]).test_error
