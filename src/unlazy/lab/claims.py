"""Claims and verdicts: a criterion written before the run, and what a run says about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError

if TYPE_CHECKING:
    import xarray as xr


KINDS = ("holds", "fails (known)", "untested", "inconclusive", "differs")
"""What a verdict counts as, in the terminal, the JSON and the report; the last two are not what the study documents.

A claim differs if it fails, if it holds though it is known not to, or if it raised an exception.
"""


def number(value: float) -> str:
    """A number for people: four significant digits."""
    return "–" if math.isnan(value) else f"{value:.4g}"


@dataclass(frozen=True)
class Criterion:
    """The closed range in which a claim's number must lie."""

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InputError(f"criterion must have low <= high, got [{self.low}, {self.high}]")

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
    with dimension `seed` (other dimensions are cases), of which the mean over seeds is judged, or the share of yes
    where it is of booleans. `statistic` reduces `seed` itself (a ratio of means, a median), and the lab resamples
    seeds. `theory` needs no simulation. Each may return a list of arrays, such as one per part, whose cases are then
    judged together. `needs` maps a dimension to the fewest values with which the claim makes sense, to a tuple of
    values that it must have, or a parameter to a criterion that at least one of its values must meet. A claim that is
    known not to hold carries the reason as `known_negative`.
    """

    id: str
    source: str
    statement: str
    criterion: Criterion
    check: Callable[..., Any] | None = None
    statistic: Callable[..., Any] | None = None
    theory: Callable[..., Any] | None = None
    parts: tuple[str, ...] = ("main",)
    needs: Mapping[str, int | tuple | Criterion] = field(default_factory=dict)
    known_negative: str | None = None

    def __post_init__(self) -> None:
        if sum(f is not None for f in (self.check, self.statistic, self.theory)) != 1:
            raise InputError(f"claim {self.id!r} must have exactly one of check, statistic and theory")
        if not isinstance(self.criterion, Criterion):
            raise InputError(
                f"claim {self.id!r}: criterion must be between, at_most or at_least, got {self.criterion!r}"
            )


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
    broken: bool = False
    """Whether the claim itself raised an exception; the reason says which."""

    def __repr__(self) -> str:
        interval = "" if math.isnan(self.low) else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"<{self.claim.id} {self.verdict}: {self.measured:.4g}{interval}, criterion {self.claim.criterion}>"

    @property
    def as_documented(self) -> bool:
        """Whether the verdict is the one the study documents: known negatives fail, all others hold."""
        return not self.broken and self.verdict in (
            "untested",
            "fails" if self.claim.known_negative is not None else "holds",
        )

    @property
    def kind(self) -> str:
        """What the verdict counts as, one of KINDS."""
        if self.verdict == "inconclusive":
            return "inconclusive"
        if not self.as_documented:
            return "differs"
        return "fails (known)" if self.verdict == "fails" else self.verdict

    @property
    def word(self) -> str:
        """The verdict, marked where the study documents that the claim does not hold."""
        if self.broken:
            return "raised"
        if self.claim.known_negative is None or self.verdict not in ("holds", "fails"):
            return self.verdict
        return "fails (known)" if self.verdict == "fails" else "holds (should fail)"

    @property
    def interval(self) -> str:
        """The 99% interval for people; a number of theory has none."""
        if self.claim.theory is not None:
            return "exact" if self.verdict != "untested" else ""
        return "" if math.isnan(self.low) else f"[{number(self.low)}, {number(self.high)}]"

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


def count(found: Iterable[Verdict]) -> Counter[str]:
    """How many verdicts there are of each kind."""
    return Counter(verdict.kind for verdict in found)


def slope(values: xr.DataArray, dim: str) -> xr.DataArray:
    """The least-squares slope of log(values) against log(coordinate) along `dim`."""
    x = np.log(values[dim].astype(float))
    x = x - x.mean()
    return (np.log(values) * x).sum(dim, skipna=False) / (x * x).sum()


def relative_deviation(simulated: xr.DataArray, predicted: xr.DataArray) -> xr.DataArray:
    """(simulated - predicted) / |predicted|, without the cases whose prediction is infinite: no finite system is."""
    deviation = (simulated - predicted) / abs(predicted)
    infinite = predicted.copy(data=np.isinf(predicted.values))
    if not infinite.any():
        return deviation
    dims = [dim for dim in deviation.dims if dim != "seed"]
    kept = ~infinite.broadcast_like(deviation.isel(seed=0, drop=True)).stack(case=dims)
    return deviation.stack(case=dims).isel(case=kept.values).reset_index("case")


def exceeds(larger: xr.DataArray, smaller: xr.DataArray) -> xr.DataArray:
    """By which fraction of `smaller` the first number is above it."""
    return (larger - smaller) / abs(smaller)


def parameter(data: xr.Dataset, name: str) -> Any:
    """A parameter of a run's data: its coordinate where it varies, else its one value."""
    return data[name] if name in data.coords else data.attrs[name]
