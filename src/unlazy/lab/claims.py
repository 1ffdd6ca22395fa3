"""Claims and verdicts: a criterion written before the run, an interval from the run, and what follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.errors import InputError
from unlazy.lab.study import Part

if TYPE_CHECKING:
    import xarray as xr

CONFIDENCE = 0.99
RESAMPLES = 400
_RESAMPLE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Criterion:
    """The closed range in which a claim's number must lie."""

    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"<= {self.high:g}"
        if math.isinf(self.high):
            return f">= {self.low:g}"
        return f"in [{self.low:g}, {self.high:g}]"


def between(low: float, high: float) -> Criterion:
    """The number lies in [low, high]."""
    return Criterion(low, high)


def at_most(high: float) -> Criterion:
    """The number is at most `high`."""
    return Criterion(high=high)


def at_least(low: float) -> Criterion:
    """The number is at least `low`."""
    return Criterion(low=low)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, with the number that decides it.

    Exactly one of three functions gives the number; each gets one `Part` per name in `parts`. `check` returns an array
    with dimension `seed` (other dimensions are cases), and the mean over seeds is judged. `statistic` reduces `seed`
    itself (a ratio of means, a median), and the lab resamples seeds. `theory` needs no simulation. Each may return a
    list of arrays, such as one per part, whose cases are then judged together. `needs` maps a dimension to the fewest
    values with which the claim makes sense, or to a tuple of values that it must have. A claim that is known not to
    hold carries the reason as `known_negative`.
    """

    id: str
    source: str
    statement: str
    criterion: Criterion
    check: Callable[..., Any] | None = None
    statistic: Callable[..., Any] | None = None
    theory: Callable[..., Any] | None = None
    parts: tuple[str, ...] = ("main",)
    needs: Mapping[str, int | tuple] = field(default_factory=dict)
    known_negative: str | None = None

    def __post_init__(self) -> None:
        if sum(f is not None for f in (self.check, self.statistic, self.theory)) != 1:
            raise InputError(f"claim {self.id!r} must have exactly one of check, statistic and theory")


@dataclass(frozen=True)
class Verdict:
    """What a run says about a claim: holds, fails, inconclusive, or untested where the run lacks what it needs."""

    claim: Claim
    verdict: str
    measured: float = math.nan
    low: float = math.nan
    high: float = math.nan
    case: str = ""
    reason: str = ""

    @property
    def as_documented(self) -> bool:
        """Whether the verdict is the one the study documents: known negatives do not hold, all others do."""
        if self.verdict == "untested":
            return True
        return (self.verdict == "holds") != (self.claim.known_negative is not None)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.claim.id,
            "statement": self.claim.statement,
            "source": self.claim.source,
            "measured": self.measured,
            "low": self.low,
            "high": self.high,
            "criterion": str(self.claim.criterion),
            "verdict": self.verdict,
            "known_negative": self.claim.known_negative,
            "theory_only": self.claim.theory is not None,
            "case": self.case,
            "reason": self.reason,
        }


def judge(claim: Claim, parts: Mapping[str, Part]) -> Verdict:
    """The verdict on a claim.

    `holds` if every case's 99% interval lies inside the criterion, `fails` if some case's interval (at the Bonferroni
    level for the number of cases) lies outside, else `inconclusive`. The worst case is reported.
    """
    missing = _missing(claim, parts)
    if missing:
        return Verdict(claim, "untested", reason=missing)
    args = [parts[name] for name in claim.parts]
    if claim.theory is not None:
        cases = [
            _Cases(found, found.copy(data=np.zeros(found.shape)), math.inf) for found in _arrays(claim.theory(*args))
        ]
    elif claim.check is not None:
        cases = [_over_seeds(claim, found) for found in _arrays(claim.check(*args))]
    else:
        cases = _resampled(claim, args)
    return _decide(claim, cases)


class _Cases(NamedTuple):
    """Estimates, their standard errors and the degrees of freedom of these; infinite for numbers without error."""

    estimate: Any
    error: Any
    freedom: float


def _arrays(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _over_seeds(claim: Claim, values: Any) -> _Cases:
    if "seed" not in values.dims:
        raise InputError(f"claim {claim.id!r}: check must keep dimension seed, got {values.dims}")
    count = values.sizes["seed"]
    estimate = values.mean("seed", skipna=False)
    spread = values.std("seed", ddof=1, skipna=False) if count > 1 else estimate * np.nan
    return _Cases(estimate, spread / math.sqrt(count), count - 1)


def _missing(claim: Claim, parts: Mapping[str, Part]) -> str:
    for name in claim.parts:
        if name not in parts:
            return f"the run has no part {name!r}"
    for dim, needed in claim.needs.items():
        found = [parts[name].simulated.coords.get(dim) for name in claim.parts]
        values = max(([] if f is None else f.values.tolist() for f in found), key=len)
        if isinstance(needed, tuple):
            lacking = [value for value in needed if value not in values]
            if lacking:
                return f"needs {dim} = {lacking[0]}, which the run does not have as an axis"
        elif len(values) < needed:
            return f"needs at least {needed} values of {dim}, the run has {len(values)}"
    return ""


def _resampled(claim: Claim, parts: list[Part]) -> list[_Cases]:
    """A statistic with its standard error by resampling seeds with replacement.

    All parts are resampled by the same seeds, so that paired arms stay paired. sqrt(n/(n-1)) undoes the narrowness of
    the bootstrap in small samples.
    """
    import xarray as xr

    assert claim.statistic is not None
    counts = {part.simulated.sizes["seed"] for part in parts}
    if len(counts) > 1:
        raise InputError(f"claim {claim.id!r} resamples parts with different numbers of seeds: {sorted(counts)}")
    count = counts.pop()
    estimates = _arrays(claim.statistic(*parts))
    if count < 2:
        return [_Cases(estimate, estimate * np.nan, 0) for estimate in estimates]
    indices = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    batch = max(1, int(_RESAMPLE_BYTES // max(1, sum(part.simulated.nbytes for part in parts))))
    draws: list[list[Any]] = [[] for _ in estimates]
    for start in range(0, RESAMPLES, batch):
        index = xr.DataArray(indices[start : start + batch], dims=("resample", "seed"))
        again = [part._replace(simulated=part.simulated.drop_vars("seed").isel(seed=index)) for part in parts]
        for found, drawn in zip(draws, _arrays(claim.statistic(*again)), strict=True):
            found.append(drawn)
    widen = math.sqrt(count / (count - 1))
    spreads = [xr.concat(found, "resample").std("resample", ddof=1, skipna=False) * widen for found in draws]
    return [_Cases(e, spread, count - 1) for e, spread in zip(estimates, spreads, strict=True)]


def _decide(claim: Claim, cases: list[_Cases]) -> Verdict:
    total = sum(c.estimate.size for c in cases)
    center = np.concatenate([c.estimate.values.astype(float).ravel() for c in cases])
    error = np.concatenate([c.error.transpose(*c.estimate.dims).values.astype(float).ravel() for c in cases])
    sizes = [c.estimate.size for c in cases]
    reach = error * np.repeat([_quantile(CONFIDENCE, c.freedom) for c in cases], sizes)
    reach_all = error * np.repeat([_quantile(1 - (1 - CONFIDENCE) / total, c.freedom) for c in cases], sizes)
    criterion = claim.criterion
    margin = np.minimum(center - reach - criterion.low, criterion.high - center - reach)
    broken = np.isnan(margin)
    margin[broken] = -np.inf
    outside = (center + reach_all < criterion.low) | (center - reach_all > criterion.high)
    worst = int(np.argmin(np.where(outside, margin, np.inf) if outside.any() else margin))
    verdict = "fails" if outside.any() else "holds" if (margin >= 0).all() else "inconclusive"
    reason = ""
    if broken[worst]:
        reason = "one seed gives no interval" if error.size and np.isnan(error[worst]) else "a value is not a number"
    low, high = center[worst] - reach[worst], center[worst] + reach[worst]
    names = [_case(c.estimate, index) for c in cases for index in range(c.estimate.size)]
    return Verdict(claim, verdict, float(center[worst]), float(low), float(high), names[worst], reason)


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
        if dim in estimate.coords:
            coordinate = estimate.coords[dim].values[i]
            words.append(f"{dim} = {coordinate:g}" if isinstance(coordinate, float) else f"{dim} = {coordinate}")
    return ", ".join(words)


def slope(values: xr.DataArray, dim: str) -> xr.DataArray:
    """The least-squares slope of log(values) against log(coordinate) along `dim`."""
    x = np.log(values[dim].astype(float))
    x = x - x.mean()
    return (np.log(values) * x).sum(dim, skipna=False) / (x * x).sum()


def relative_deviation(simulated: xr.DataArray, predicted: xr.DataArray) -> xr.DataArray:
    """(simulated - predicted) / |predicted|."""
    return (simulated - predicted) / abs(predicted)


def exceeds(larger: xr.DataArray, smaller: xr.DataArray) -> xr.DataArray:
    """By which fraction of `smaller` the first number is above it."""
    return (larger - smaller) / abs(smaller)


def parameter(data: xr.Dataset, name: str) -> Any:
    """A parameter of a run's data: its coordinate where it varies, else its one value."""
    return data[name] if name in data.coords else data.attrs[name]
