"""What is tried on a table: the project's estimators, linear models to fall back to, and boosting as the yardstick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

NUMBERS, CLASSES = "numbers", "classes"
CONSTANT, LINEAR, YARDSTICK = "constant", "linear", "boosting"
_PENALTIES = np.logspace(-3, 5, 25)


class Contender(NamedTuple):
    """One method, by its name in the table of results."""

    name: str
    what: str
    """In words."""
    build: Callable[[], Any]
    """An estimator of scikit-learn that takes a DataFrame as it is."""
    seconds: Callable[[int, int], float] | None = None
    """About how long a fit to so many rows and columns takes, of what cannot be broken off."""


def candidates(kind: str, classes: int, random_state: int) -> list[Contender]:
    """Simple ones first, then what does best most often: a budget may end before the last."""
    from sklearn import ensemble
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.linear_model import RidgeCV

    from unlazy import estimators

    numbers = kind == NUMBERS
    ending = "Regressor" if numbers else "Classifier"

    def ours(name: str, **options: Any) -> Callable[[], Any]:
        return lambda: getattr(estimators, name + ending)(random_state=random_state, **options)

    def boosting() -> Any:
        return _encoded(getattr(ensemble, f"HistGradientBoosting{ending}")(random_state=random_state))

    if numbers:
        found = [
            Contender(CONSTANT, "the mean of the target", DummyRegressor),
            Contender(LINEAR, "ridge regression", lambda: _encoded(RidgeCV(_PENALTIES))),
        ]
    else:
        found = [
            Contender(CONSTANT, "the shares of the classes", lambda: DummyClassifier(strategy="prior")),
            Contender(LINEAR, "logistic regression", lambda: _encoded(estimators.LogisticRegressionLOO())),
        ]
    found += [
        Contender(YARDSTICK, "boosted trees", boosting),
        Contender("metric machine", "kernels whose metric the rows teach", ours("MetricMachine")),
    ]
    if numbers:
        found.append(Contender("index", "a curve of one direction", ours("SingleIndex")))
    found.append(Contender("one step", "one large gradient step", ours("OneStep")))
    if numbers or classes == 2:
        network = ours("MeanField", certificate=False)
        found.append(Contender("mean field", "a wide network trained with noise", network, _mean_field_seconds))
    return found


def _mean_field_seconds(rows: int, columns: int) -> float:
    """Compilation, neurons at rows, and noise; on two cores, without a certificate, which predictions do not need."""
    return 2 + min(rows, 8000) * (columns + 50) / 10_000 + columns / 25


def _encoded(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline

    from unlazy.data.table_encoder import TableEncoder

    return make_pipeline(TableEncoder(), model)
