"""A forecast that checks itself: from a part of the rows to a larger part, which is then really trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unlazy.diagnostics._forecast_methods import ONE_STEP, fit_methods
from unlazy.diagnostics._forecast_points import QUANTILE
from unlazy.errors import InputError

FACTORS = (2, 5, 10)
SPLITS = 3
_HELD_OUT = 0.2
_MOST_HELD_OUT = 2000
# for the sake of time: the parts are decomposed anew for every method and split
_MOST_TRAINED = 1200
_FEWEST = 10


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
        spread = np.hypot(np.log(self.high / self.low) / 2, QUANTILE * self.measured_deviation)
        return bool(abs(np.log(self.forecast / self.measured)) <= spread)


def check_methods(
    names: Sequence[str],
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    ridge: float | None,
    gamma: float | None,
    features: int | None,
    splits: int = SPLITS,
    progress: Callable[[str], None] | None = None,
) -> tuple[Checked, ...]:
    """Forecast from 1/2, 1/5 and 1/10 of the rows to all but the held-out ones, with random splits of fixed seeds.

    A part has at least 10 rows; at most 1200 rows are trained on. Every method is set anew on every part, as if there
    were no other rows, and trained on the larger part with the settings that the forecast was made for.
    """
    chosen = [name for name in names if name != ONE_STEP]
    if not chosen:
        raise InputError("check needs a method that can be trained here: ridge, kernel-ridge or random-features")
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
        for factor in factors:
            say(f"checking: split {split + 1} of {splits}, from 1/{factor} of {trained} rows")
            part = rows[: -(-trained // factor)]
            if not np.ptp(targets[part], axis=0).any():
                continue
            for method in fit_methods(chosen, inputs[part], targets[part], ridge=ridge, gamma=gamma, features=features):
                point = method.at(np.array([float(trained)]))
                errors = method.trained_error(inputs[rows], targets[rows], inputs[new], targets[new], seed=split)
                measured = float(errors.mean())
                spread = float(errors.std() / np.sqrt(len(errors)) / measured) if measured > 0 else np.inf
                found.append(
                    Checked(
                        method.name,
                        factor,
                        split,
                        len(part),
                        trained,
                        float(point.error[0]),
                        float(point.low[0]),
                        float(point.high[0]),
                        bool(point.reliable[0]),
                        measured,
                        spread,
                    )
                )
    if not found:
        raise InputError("check needs a target that varies in the parts; these hold one value only")
    return tuple(found)


def verdict(checked: Sequence[Checked]) -> str:
    """How near the forecasts came, over each factor, and how often their intervals held."""
    near = []
    for factor in sorted({c.factor for c in checked}):
        here = [c for c in checked if c.factor == factor]
        known = [abs(np.log(c.forecast / c.measured)) for c in here if np.isfinite(c.forecast)]
        if not known:
            near.append(f"over {factor}x there were none")
            continue
        typical, worst = (np.expm1(value) for value in (np.median(known), np.max(known)))
        without = len(here) - len(known)
        missing = f" ({without} of {len(here)} out of range)" if without else ""
        near.append(f"over {factor}x within {typical:.0%} in half of the cases and {worst:.0%} in all{missing}")
    known_cases = [c for c in checked if np.isfinite(c.forecast)]
    sentence = "on this table forecasts were " + ", ".join(near)
    if not known_cases:
        return sentence
    kept, of = _count(known_cases)
    sentence += f"; intervals covered {kept} of {of}"
    sure = [c for c in known_cases if c.reliable]
    if 0 < len(sure) < len(known_cases):
        sentence += ", of those without a doubt {} of {}".format(*_count(sure))
    if kept < 0.8 * of:
        sentence += ": do not trust these intervals"
    return sentence


def _count(checked: Sequence[Checked]) -> tuple[int, int]:
    return sum(c.covered for c in checked), len(checked)
