"""A forecast that checks itself: from a part of the rows to a larger part, which is then really trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.curves import QUANTILE
from unlazy.diagnostics.forecasting.method import ONE_STEP, Method
from unlazy.diagnostics.forecasting.methods import of_part

FACTORS = (2, 5, 10)
SPLITS = 3
_HELD_OUT = 0.2
_MOST_HELD_OUT = 2000
# for the sake of time: the parts are decomposed anew for every method and split
_MOST_TRAINED = 1200
_FEWEST = 10
# of the cases on one side, to be told
_MOSTLY = 2 / 3
_IN_PERCENT = 1.5


class Checked(NamedTuple):
    """One forecast and what training gave, in units of the target's variance."""

    method: str
    factor: int
    split: int
    n_from: int
    n_to: int
    forecast: float
    """NaN out of range."""
    low: float
    high: float
    reliable: bool
    measured: float
    measured_deviation: float
    """Standard deviation of its logarithm: the held-out rows are few."""

    @property
    def covered(self) -> bool:
        """Whether the two agree within the interval and the measurement's own standard error, taken together."""
        if not np.isfinite(self.forecast):
            return False
        end = self.high if self.measured > self.forecast else self.low
        with np.errstate(divide="ignore"):
            spread = np.hypot(np.log(end / self.forecast), QUANTILE * self.measured_deviation)
        return bool(abs(np.log(self.forecast / self.measured)) <= spread)


def check_methods(
    methods: Sequence[Method],
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    splits: int = SPLITS,
    progress: Callable[[str], None] | None = None,
) -> tuple[Checked, ...]:
    """Forecast from 1/2, 1/5 and 1/10 of the rows to all but the held-out ones, with random splits of fixed seeds.

    A part has at least 10 rows; at most 1200 rows are trained on. Learners, settings and drawn features are those of
    `methods`, in the forecasts from parts and in training: what is checked is the forecast that the table got. Penalty
    and gamma were set with all rows, held-out ones too; what setting them from a part alone would cost is not seen.
    A metric machine learns all from the part, and from the rows that are trained on, metric and penalty included.
    """
    chosen = [method for method in methods if method.name != ONE_STEP]
    if not chosen:
        raise InputError(
            "check needs a method that can be trained here: ridge, kernel-ridge, random-features or metric-machine"
        )
    held_out = min(max(int(_HELD_OUT * len(inputs)), 1), _MOST_HELD_OUT)
    trained = min(len(inputs) - held_out, _MOST_TRAINED)
    factors = [factor for factor in FACTORS if trained // factor >= _FEWEST]
    if not factors:
        raise InputError(f"check needs at least 25 rows, of which 10 make the smallest part; got {len(inputs)}")
    say = progress or (lambda text: None)
    found = []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(inputs))
        new, rows = order[:held_out], order[held_out : held_out + trained]
        say(f"checking: split {split + 1} of {splits}, training on {trained} rows")
        measurements = [m.trained_error(inputs[rows], targets[rows], inputs[new], targets[new]) for m in chosen]
        for factor in factors:
            say(f"checking: split {split + 1} of {splits}, from 1/{factor} of {trained} rows")
            part = rows[: -(-trained // factor)]
            if not np.ptp(targets[part], axis=0).any():
                continue
            for method, errors in zip(chosen, measurements, strict=True):
                learner = of_part(method, inputs[part], targets[part])
                point = None if learner is None else learner.at(np.array([float(trained)]))
                measured = float(errors.mean())
                spread = float(errors.std() / np.sqrt(len(errors)) / measured) if measured > 0 else np.inf
                found.append(
                    Checked(
                        method.name,
                        factor,
                        split,
                        len(part),
                        trained,
                        np.nan if point is None else float(point.test_error[0]),
                        np.nan if point is None else float(point.low[0]),
                        np.nan if point is None else float(point.high[0]),
                        point is not None and bool(point.reliable[0]),
                        measured,
                        spread,
                    )
                )
    if not found:
        raise InputError("check needs a target that varies in the parts; these hold one value only")
    return tuple(found)


def verdict(checked: Sequence[Checked]) -> str:
    """How near the forecasts came, over each factor, on which side, and how often their intervals held."""
    near = []
    for factor in sorted({c.factor for c in checked}):
        here = [c for c in checked if c.factor == factor]
        known = [abs(np.log(c.forecast / c.measured)) for c in here if np.isfinite(c.forecast)]
        if not known:
            near.append(f"over {factor}x there were none")
            continue
        typical, worst = (within(np.exp(value)) for value in (np.median(known), np.max(known)))
        without = len(here) - len(known)
        missing = f" ({without} of {len(here)} out of range)" if without else ""
        near.append(f"over {factor}x within {typical} in half of the cases and {worst} in all{missing}")
    known_cases = [c for c in checked if np.isfinite(c.forecast)]
    sentences = ["On this table forecasts were " + ", ".join(near)]
    if not known_cases:
        return sentences[0] + "."
    low = sum(c.forecast < c.measured for c in known_cases)
    if low > _MOSTLY * len(known_cases):
        sentences.append(f"Most were too low ({low} of {len(known_cases)}): expect larger errors than forecast")
    elif len(known_cases) - low > _MOSTLY * len(known_cases):
        high = len(known_cases) - low
        sentences.append(f"Most were too high ({high} of {len(known_cases)}): expect smaller errors than forecast")
    kept, of = _count(known_cases)
    intervals = f"Intervals covered {kept} of {of}"
    sure = [c for c in known_cases if c.reliable]
    if 0 < len(sure) < len(known_cases):
        intervals += ", of those without a doubt {} of {}".format(*_count(sure))
    if kept < 0.8 * of:
        intervals += ": do not trust these intervals"
    return ". ".join([*sentences, intervals]) + "."


def within(ratio: float) -> str:
    """A ratio above 1 in words."""
    return f"{ratio - 1:.0%}" if ratio < _IN_PERCENT else f"a factor of {ratio:.2g}"


def _count(checked: Sequence[Checked]) -> tuple[int, int]:
    return sum(c.covered for c in checked), len(checked)
