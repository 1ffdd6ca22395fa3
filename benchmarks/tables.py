"""Metric machines on real tables as they are, against what users would fit instead.

Tables of packages, with text, dates and gaps; all of them were looked at while the machine was made, so that other
tables are the independent check. Each is split at random into at most `ROWS` training rows and up to 2,000 others.
Errors are root mean squared errors, or shares of wrong classes (at least half a row); log losses are those of the
probabilities. Per table they are divided by the best of all methods on that table, a choice that nobody could have made
before; ranks are among all methods. CPU seconds are those of fits, searches included.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Benchmark, Row, against
from benchmarks.real_tables import REGRESSION, Split, Table, names, split, table
from benchmarks.table_peers import OURS, SEARCHED, peers

ROWS = 800
MANY_ROWS, MANY = 10_000, ("diamonds", "storms", "bikeshare", "computers", "chicago", "wa_churn", "remote_work")
MANY_METHODS = (OURS, "boosting", "extra trees", "linear")
_LEAST_SHARE = 1e-7


class Outcome(NamedTuple):
    error: float
    log_loss: float
    """NaN for numbers."""
    seconds: float


def tables() -> Benchmark:
    few = {name: _contest(table(name), ROWS) for name in names()}
    many = {name: _contest(table(name), MANY_ROWS, MANY_METHODS) for name in MANY}
    rows = [
        Row(f"mean rank of ten at {ROWS} rows", [_mean_rank(few, OURS)], "", at_most=2.5),
        Row(f"error over the best at {ROWS} rows", _over_best(few, OURS, "error"), "", at_most=1.03),
        Row(f"log loss over the best at {ROWS} rows", _over_best(few, OURS, "log_loss"), "", at_most=1.05),
        Row(f"mean rank of four at {MANY_ROWS} rows", [_mean_rank(many, OURS)], "", at_most=3),
    ]
    for peer in peers(True):
        if peer != OURS:
            known = [found for found in few.values() if peer in found]
            rows.append(
                against(
                    peer,
                    f"tables at {ROWS} rows",
                    [found[peer].error / found[OURS].error for found in known],
                    kind="error",
                    detail=peer != SEARCHED,
                )
            )
    seconds = [found[SEARCHED].seconds / found[OURS].seconds for found in few.values()]
    rows.append(against(SEARCHED, f"tables at {ROWS} rows", seconds, at_least=1 / 3))
    return Benchmark(
        rows, [_line(name, found) for name, found in (few | {f"{k}, many": v for k, v in many.items()}).items()]
    )


def _contest(one: Table, rows: int, methods: tuple[str, ...] | None = None) -> dict[str, Outcome]:
    here, builders = split(one, rows), peers(one.kind == REGRESSION)
    return {
        name: _outcome(build(), one.kind, here)
        for name, build in builders.items()
        if methods is None or name in methods
    }


def _outcome(model: Any, kind: str, here: Split) -> Outcome:
    begin = time.process_time()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        model.fit(here.train, here.train_target)
    seconds = time.process_time() - begin
    predicted = model.predict(here.test)
    if kind == REGRESSION:
        missed = np.sqrt(np.mean((predicted - here.test_target) ** 2)) / here.test_target.std()
        return Outcome(float(missed), math.nan, seconds)
    wrong = max(float(np.mean(predicted != here.test_target)), 0.5 / len(predicted))
    shares = np.maximum(model.predict_proba(here.test), _LEAST_SHARE)
    shares /= shares.sum(axis=1, keepdims=True)
    classes = np.unique(here.train_target)
    right = shares[np.arange(len(predicted)), np.searchsorted(classes, here.test_target)]
    return Outcome(wrong, float(-np.mean(np.log(right))), seconds)


def _over_best(found: dict[str, dict[str, Outcome]], method: str, what: str) -> list[float]:
    values = []
    for outcomes in found.values():
        losses = {name: getattr(one, what) for name, one in outcomes.items()}
        if not math.isnan(losses[method]):
            values.append(losses[method] / min(losses.values()))
    return values


def _mean_rank(found: dict[str, dict[str, Outcome]], method: str) -> float:
    ranks = []
    for outcomes in found.values():
        errors = np.array([one.error for one in outcomes.values()])
        own = outcomes[method].error
        # those that are equal share their places
        ranks.append(1 + np.sum(errors < own) + (np.sum(errors == own) - 1) / 2)
    return float(np.mean(ranks))


def _line(name: str, outcomes: dict[str, Outcome]) -> str:
    ordered = sorted(outcomes.items(), key=lambda pair: pair[1].error)
    return f"{name}: " + ", ".join(f"{method} {one.error:.3g}" for method, one in ordered)
