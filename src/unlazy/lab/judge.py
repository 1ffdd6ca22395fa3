"""How claims are judged: intervals over seeds against criteria."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.claims import Claim, Missing, Verdict
from unlazy.lab.study import Part
from unlazy.words import number

CONFIDENCE = 0.99
RESAMPLES = 400
_RESAMPLE_BYTES = 64 * 2**20


def judge(claim: Claim, parts: Mapping[str, Part]) -> Verdict:
    """The verdict on a claim.

    `holds` if every case's 99% interval lies inside the criterion, `fails` if some case's interval (at the Bonferroni
    level for the number of cases) lies outside, else `inconclusive`. The worst case is reported. A case to which an
    instance that diverged would contribute has no number. A claim that raises an exception is untested and broken, and
    the exception is the reason.
    """
    for name in claim.parts:
        if name not in parts:
            return Verdict(claim, "untested", reason=f"the run has no part {name!r}")
    args = [parts[name] for name in claim.parts]
    try:
        if claim.kind == "theory":
            cases = [_Cases(array, _like(array, 0.0), math.inf) for array in _arrays(claim.number(*args))]
        else:
            cases = _resampled(claim, args) if claim.kind == "resampled" else _seen(claim, args)
            cases = [_without_diverged(case, args) for case in cases]
        return _decide(claim, cases, diverged_among(args))
    except Exception as error:
        if missing := _missing(error, args):
            return Verdict(claim, "untested", reason=missing)
        return Verdict(claim, "untested", reason=f"the claim raised {type(error).__name__}: {error}", broken=True)


class _Cases(NamedTuple):
    """Estimates with standard errors and the degrees of freedom of these; infinite for numbers without error.

    `trials` is the number of seeds where the estimates are proportions of yes and no.
    """

    estimate: Any
    error: Any
    freedom: float
    trials: int = 0

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Student's interval; for proportions that of Clopper and Pearson, which knows that 8 of 8 is not always."""
        center = self.estimate.values.astype(float).ravel()
        if self.trials:
            from scipy.special import betaincinv

            yes, tail = np.round(center * self.trials), (1 - confidence) / 2
            no = self.trials - yes
            low = np.where(yes == 0, 0.0, betaincinv(np.maximum(yes, 1), no + 1, tail))
            return low, np.where(no == 0, 1.0, betaincinv(yes + 1, np.maximum(no, 1), 1 - tail))
        error = self.error.transpose(*self.estimate.dims).values.astype(float).ravel()
        # An infinite mean is a number to judge; the spread of infinities is not one.
        reach = np.where(np.isinf(center), 0.0, error * _quantile(confidence, self.freedom))
        return center - reach, center + reach


def diverged_among(parts: Iterable[Part]) -> str:
    """How many instances of some parts diverged and how early, in words; empty if none did."""
    found = [p.simulated.diverged_at.values.ravel() for p in parts if "diverged_at" in p.simulated]
    steps = np.concatenate(found) if found else np.array([])
    diverged = steps[steps >= 0]
    if not diverged.size:
        return ""
    return f"{diverged.size} of {steps.size} runs diverged, the first at step {diverged.min():g}"


def _without_diverged(cases: _Cases, parts: Iterable[Part]) -> _Cases:
    """The cases, NaN where a run diverged in what they may be made of: those left would be a selection."""
    estimate = cases.estimate
    for part in parts:
        if not diverged_among([part]):
            continue
        lost = part.simulated.diverged_at >= 0
        kept = [d for d in lost.dims if d in estimate.coords]
        lost = lost.any([d for d in lost.dims if d not in kept])
        # Another part may have other values on the same axis: none of those diverged.
        lost = lost.reindex({d: np.atleast_1d(estimate[d].values) for d in kept}, fill_value=False)
        estimate = estimate.where(~lost.squeeze([d for d in kept if not estimate[d].dims], drop=True))
    return cases._replace(estimate=estimate)


def _arrays(result: Any) -> list[Any]:
    import xarray as xr

    return [xr.DataArray(array) for array in (result if isinstance(result, list | tuple) else [result])]


def _like(array: Any, value: float) -> Any:
    return array.copy(data=np.full(array.shape, value))


def _over_seeds(values: Any) -> _Cases:
    if "seed" not in values.dims:
        raise InputError(f"a claim must return an array with dimension seed, got {values.dims}")
    count = values.sizes["seed"]
    estimate = values.mean("seed", skipna=False)
    if values.dtype == bool:
        return _Cases(estimate, _like(estimate, 0.0), count - 1, count)
    with np.errstate(invalid="ignore"):
        spread = values.std("seed", ddof=1, skipna=False) if count > 1 else _like(estimate, np.nan)
    return _Cases(estimate, spread / math.sqrt(count), count - 1)


def _seen(claim: Claim, parts: list[Part]) -> list[_Cases]:
    return [_over_seeds(array) for array in _arrays(claim.number(*parts))]


def _missing(error: Exception, parts: Iterable[Part]) -> str:
    """What the run lacks for a claim that raised this, in words; empty if that is not why."""
    if isinstance(error, Missing):
        return str(error)
    said = str(error.args[0]) if isinstance(error, KeyError | ValueError) and error.args else ""
    if found := re.match(r"not all values found in index '(\w+)'", said):
        value = error.__cause__.args[0] if isinstance(error.__cause__, KeyError) else "a value"
        return f"needs {found[1]} = {value}, which the run does not have"
    found = re.match(r"'(\w+)' is not a valid dimension or coordinate", said)
    if found and any(found[1] in part.simulated.attrs for part in parts):
        return f"needs several values of {found[1]}, the run has one"
    return ""


def _resampled(claim: Claim, parts: list[Part]) -> list[_Cases]:
    """A statistic with its standard error by resampling seeds with replacement.

    All parts are resampled by the same seeds, so that paired arms stay paired. sqrt(n/(n-1)) undoes the narrowness of
    the bootstrap in small samples.
    """
    import xarray as xr

    counts = {part.simulated.sizes["seed"] for part in parts}
    if len(counts) > 1:
        raise InputError(f"parts with different numbers of seeds cannot be resampled together: {sorted(counts)}")
    count = counts.pop()
    estimates = _arrays(claim.number(*parts))
    if count < 2:
        return [_Cases(estimate, _like(estimate, np.nan), 0) for estimate in estimates]
    indices = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    batch = max(1, int(_RESAMPLE_BYTES // max(1, sum(part.simulated.nbytes for part in parts))))
    draws: list[list[Any]] = [[] for _ in estimates]
    for start in range(0, RESAMPLES, batch):
        index = xr.DataArray(indices[start : start + batch], dims=("resample", "seed"))
        again = [part._replace(simulated=part.simulated.drop_vars("seed").isel(seed=index)) for part in parts]
        for found, drawn in zip(draws, _arrays(claim.number(*again)), strict=True):
            if "resample" not in drawn.dims:
                raise InputError("a resampled claim must be computed from the simulated data, over dimension seed")
            found.append(drawn)
    widen = math.sqrt(count / (count - 1))
    spreads = [xr.concat(found, "resample").std("resample", ddof=1, skipna=False) * widen for found in draws]
    return [_Cases(e, spread, count - 1) for e, spread in zip(estimates, spreads, strict=True)]


def _decide(claim: Claim, cases: list[_Cases], diverged: str) -> Verdict:
    total = sum(c.estimate.size for c in cases)
    if total == 0:
        raise InputError("it returned no number")
    criterion = claim.criterion
    center = np.concatenate([c.estimate.values.astype(float).ravel() for c in cases])
    low, high = _joined(cases, CONFIDENCE)
    low_all, high_all = _joined(cases, 1 - (1 - CONFIDENCE) / total)
    inside = (low >= criterion.low) & (high <= criterion.high)
    outside = (high_all < criterion.low) | (low_all > criterion.high)
    with np.errstate(invalid="ignore"):
        margin = np.minimum(low - criterion.low, criterion.high - high)
    margin = np.where(inside | outside, np.nan_to_num(margin, nan=np.inf), np.nan_to_num(margin, nan=-np.inf))
    worst = int(np.argmin(np.where(outside, margin, np.inf) if outside.any() else margin))
    verdict = "fails" if outside.any() else "holds" if inside.all() else "inconclusive"
    reason = ""
    if np.isnan(center[worst]):
        reason = diverged or "a value is not a number"
    elif np.isnan(low[worst]):
        reason = "one seed gives no interval"
    places = [(c.estimate, index) for c in cases for index in range(c.estimate.size)]
    return Verdict(
        claim, verdict, float(center[worst]), float(low[worst]), float(high[worst]), _case(*places[worst]), reason
    )


def _joined(cases: list[_Cases], confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the intervals of all cases."""
    lows, highs = zip(*(c.interval(confidence) for c in cases), strict=True)
    return np.concatenate(lows), np.concatenate(highs)


def _quantile(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t; infinite freedom marks numbers without error."""
    if math.isinf(freedom):
        return 0.0
    if freedom < 1:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _case(estimate: Any, index: int) -> str:
    """The coordinates of the reported case, such as 'n = 50, ridge = 0.1'."""
    position = np.unravel_index(index, estimate.shape) if estimate.shape else ()
    words = []
    for dim, i in zip(estimate.dims, position, strict=True):
        for name, coordinate in estimate.coords.items():
            if coordinate.dims == (dim,):
                words.append(f"{name} = {number(coordinate.values[i], 6)}")
    return ", ".join(words)
