"""How claims are judged: intervals over seeds against criteria."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.claims import Claim, Criterion, Missing, Verdict
from unlazy.lab.study import Part
from unlazy.words import number

CONFIDENCE = 0.99
RESAMPLES = 400
REPEATS = 2000
"""How many fresh runs are imagined for the chance of a verdict; fewer where there are very many cases."""
_REPEATED_NUMBERS = 10**7
_FEW_CASES, _FEW_SEEDS = 4, 64
_VERDICTS = ("inconclusive", "holds", "fails")
_RESAMPLE_BYTES = 64 * 2**20


def judge(claim: Claim, parts: Mapping[str, Part]) -> Verdict:
    """The verdict on a claim.

    `holds` if every case's 99% interval lies inside the criterion, `fails` if some case's interval (at the Bonferroni
    level for the number of cases) lies outside, else `inconclusive`. The worst case is reported. A case to which an
    instance that diverged would contribute has no number. A claim that raises an exception is untested and broken, and
    the exception is the reason.

    The chance is the probability that a run of as many fresh seeds comes to the same verdict. It differs from this run
    by the errors of both, drawn for all cases together as the seeds have them; cases that differ by their errors only
    are taken to have one truth. Variances that are known from few seeds are drawn too.
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

    `trials` is the number of seeds where the estimates are proportions of yes and no; `fresh` has draws of the errors
    of all estimates together, and of the ratios of a fresh standard error to the true one, (draw, case).
    """

    estimate: Any
    error: Any
    freedom: float
    trials: int = 0
    fresh: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Estimates and standard errors, (case,)."""
        error = self.error.transpose(*self.estimate.dims)
        return self.estimate.values.astype(float).ravel(), error.values.astype(float).ravel()

    def interval(self, center: np.ndarray, error: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Student's interval; for proportions that of Clopper and Pearson, which knows that 8 of 8 is not always."""
        if self.trials:
            from scipy.special import betaincinv

            yes, tail = np.arange(self.trials + 1), (1 - confidence) / 2
            no = self.trials - yes
            low = np.where(yes == 0, 0.0, betaincinv(np.maximum(yes, 1), no + 1, tail))
            high = np.where(no == 0, 1.0, betaincinv(yes + 1, np.maximum(no, 1), 1 - tail))
            found = np.isfinite(center)
            at = np.round(np.where(found, center, 0.0) * self.trials).astype(int)
            return np.where(found, low[at], np.nan), np.where(found, high[at], np.nan)
        # An infinite mean is a number to judge; the spread of infinities is not one.
        reach = np.where(np.isinf(center), 0.0, error * _quantile(confidence, self.freedom))
        return center - reach, center + reach

    def again(self, rng: np.random.Generator, repeats: int) -> tuple[np.ndarray, np.ndarray]:
        """Estimates and standard errors of fresh runs, (repeat, case)."""
        center, error = self.flat
        shape = repeats, center.size
        if self.trials:
            # Cases that all seeds agree on are taken to have one rate.
            yes = np.where(np.isfinite(center), np.round(center * self.trials), 0.0)
            same = [np.count_nonzero(yes == end) for end in (0, self.trials)]
            many = np.where(yes == 0, same[0], np.where(yes == self.trials, same[1], 1))
            rate = rng.beta(many * yes + 0.5, many * (self.trials - yes) + 0.5, shape)
            return rng.binomial(self.trials, rate) / self.trials + 0 * center, np.broadcast_to(error, shape)
        if self.fresh is None:
            return np.broadcast_to(center, shape), np.broadcast_to(error, shape)
        errors, ratios = self.fresh
        first, second = rng.integers(len(errors), size=(2, repeats))
        known = np.sqrt(rng.chisquare(self.freedom, (repeats, 1)) / self.freedom)
        with np.errstate(invalid="ignore"):
            truth = _shrunk(center, error, errors)(center + errors[first] / known)
            return np.where(np.isinf(center), center, truth + errors[second] / known), error * ratios[second] / known


def _shrunk(center: np.ndarray, error: np.ndarray, errors: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Estimates, (..., case), moved towards their mean, as far as the cases differ by their errors only.

    The variance of the truth between cases is what the estimates vary more than `errors`, which are partly common to
    them. A case that is far from the mean for its error stays where it is; so do few cases, of which little is known.
    """
    used = np.isfinite(center) & (error > 0)
    if np.count_nonzero(used) < _FEW_CASES:
        return lambda estimates: estimates

    def mean(estimates: np.ndarray) -> np.ndarray:
        return estimates[..., used].mean(-1, keepdims=True)

    def variance(estimates: np.ndarray) -> float:
        return float(((estimates - mean(estimates))[..., used] ** 2).mean())

    between = max(0.0, variance(center) - variance(errors))
    typical = np.hypot(error, mean(errors).std())
    moves = used & (np.abs(center - mean(center)) < 3 * np.hypot(typical, np.sqrt(between)))
    kept = np.where(moves, between / (between + np.where(used, error, 1.0) ** 2), 1.0)
    return lambda estimates: mean(estimates) * (1 - kept) + kept * estimates


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
        fresh = _fresh((values - estimate).transpose("seed", *estimate.dims).values.reshape(count, -1))
    return _Cases(estimate, spread / math.sqrt(count), count - 1, fresh=fresh)


def _fresh(deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """`_Cases.fresh` of means over seeds: of normal numbers with the covariance between cases that the seeds show."""
    count, cases = deviations.shape
    if count < 2:
        return None
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((RESAMPLES, count)) @ deviations / math.sqrt(count * (count - 1))
    if count > _FEW_SEEDS:
        return errors, np.sqrt(rng.chisquare(count - 1, (RESAMPLES, cases)) / (count - 1))
    # As many weights as a sample's variance has degrees of freedom.
    drawn = np.stack([rng.standard_normal((count - 1, count)) @ deviations for _ in range(RESAMPLES)])
    true = (deviations**2).sum(0)
    spread = (drawn**2).mean(1)
    return errors, np.sqrt(np.divide(spread, true, out=np.ones_like(spread), where=true > 0))


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
    # of the draws only the numbers count, not coordinates that differ between them, like a slope's halves
    found = [
        (e, xr.concat(d, "resample", coords="minimal", compat="override"))
        for e, d in zip(estimates, draws, strict=True)
    ]
    cases = []
    for estimate, drawn in found:
        spread = drawn.std("resample", ddof=1, skipna=False) * widen
        errors = widen * (drawn - drawn.mean("resample", skipna=False)).transpose("resample", *estimate.dims)
        flat = errors.values.reshape(RESAMPLES, -1)
        ratio = np.sqrt(np.random.default_rng(0).chisquare(count - 1, (RESAMPLES, 1)) / (count - 1))
        cases.append(_Cases(estimate, spread, count - 1, fresh=(flat, np.broadcast_to(ratio, flat.shape))))
    return cases


def _decide(claim: Claim, cases: list[_Cases], diverged: str) -> Verdict:
    criterion = claim.criterion
    ruling = _rule(criterion, [(c, *c.flat) for c in cases])
    if not ruling.center.size:
        raise InputError("it returned no number")
    low, high = ruling.low, ruling.high
    with np.errstate(invalid="ignore"):
        margin = np.minimum(low - criterion.low, criterion.high - high)
    decided = ruling.inside | ruling.outside
    margin = np.where(decided, np.nan_to_num(margin, nan=np.inf), np.nan_to_num(margin, nan=-np.inf))
    worst = int(np.argmin(np.where(ruling.outside, margin, np.inf) if ruling.outside.any() else margin))
    verdict = _VERDICTS[int(ruling.verdict)]
    reason = ""
    if np.isnan(ruling.center[worst]):
        reason = diverged or "a value is not a number"
    elif np.isnan(low[worst]):
        reason = "one seed gives no interval"
    places = [(c.estimate, index) for c in cases for index in range(c.estimate.size)]
    return Verdict(
        claim,
        verdict,
        float(ruling.center[worst]),
        float(low[worst]),
        float(high[worst]),
        _case(*places[worst]),
        reason,
        chance=_chance(criterion, cases, int(ruling.verdict)),
    )


class _Ruling(NamedTuple):
    """Estimates and the ends of their intervals, (..., case), which are inside and outside of the criterion, and the
    verdict by its number in _VERDICTS, (...)."""

    center: np.ndarray
    low: np.ndarray
    high: np.ndarray
    inside: np.ndarray
    outside: np.ndarray
    verdict: np.ndarray


def _rule(criterion: Criterion, found: list[tuple[_Cases, np.ndarray, np.ndarray]]) -> _Ruling:
    """The rule for cases with their estimates and standard errors, (..., case), of one run or of many."""

    def ends(confidence: float) -> list[np.ndarray]:
        pairs = zip(*(cases.interval(center, error, confidence) for cases, center, error in found), strict=True)
        return [np.concatenate(end, -1) for end in pairs]

    center = np.concatenate([center for _, center, _ in found], -1)
    low, high = ends(CONFIDENCE)
    low_all, high_all = ends(1 - (1 - CONFIDENCE) / max(1, center.shape[-1]))
    inside = (low >= criterion.low) & (high <= criterion.high)
    outside = (high_all < criterion.low) | (low_all > criterion.high)
    return _Ruling(center, low, high, inside, outside, np.where(outside.any(-1), 2, inside.all(-1)))


def _chance(criterion: Criterion, cases: list[_Cases], verdict: int) -> float:
    """The probability that a run of as many fresh seeds comes to the same verdict."""
    total = sum(c.estimate.size for c in cases)
    repeats = max(100, min(REPEATS, _REPEATED_NUMBERS // total))
    rng = np.random.default_rng(1)
    return float(np.mean(_rule(criterion, [(c, *c.again(rng, repeats)) for c in cases]).verdict == verdict))


def _quantile(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t; infinite freedom marks numbers without error."""
    if math.isinf(freedom):
        return 0.0
    if freedom < 1:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _case(estimate: Any, index: int) -> str:
    """The coordinates of the reported case, such as 'n = 50, ridge = 0.1', and how far a slope is from its limit."""
    position = dict(zip(estimate.dims, np.unravel_index(index, estimate.shape) if estimate.shape else (), strict=True))
    here = estimate.isel(position)
    words = [
        f"{name} = {number(here.coords[name].values[()], 6)}"
        for dim in estimate.dims
        for name, coordinate in estimate.coords.items()
        if coordinate.dims == (dim,) and name not in ("lower_slope", "upper_slope")
    ]
    if "lower_slope" in here.coords and here.lower_slope.size == 1:
        halves = (number(here.coords[f"{end}_slope"].item(), 3) for end in ("lower", "upper"))
        words.append("slope of the lower half {}, of the upper half {}".format(*halves))
    return ", ".join(words)
