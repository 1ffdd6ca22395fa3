"""Claims and verdicts: a criterion written before the run, and what a run says about it."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.words import number

if TYPE_CHECKING:
    pass


KINDS = ("holds", "fails (known)", "fragile", "untested", "inconclusive", "differs")
"""What a verdict counts as, in the terminal, the JSON and the report; the last two are not what the study documents.

A fragile one is, but fresh seeds would change it with a probability of more than 1 - SURE.

A claim differs if it fails, if it holds though it is known not to, or if it raised an exception.
"""

SURE = 0.95
"""The chance of a verdict below which it is fragile."""

VERDICT_COLUMNS = ("claim", "verdict", "measured", "99% interval", "criterion", "chance", "worst case")
"""What a table of verdicts shows: the claim's id, `Verdict.cells` and `Verdict.where`."""


@dataclass(frozen=True)
class Criterion:
    """The closed range in which a claim's number must lie, and how a sentence says it."""

    low: float = -math.inf
    high: float = math.inf
    words: str = ""

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
    return Criterion(low, high, f"between {low:g} and {high:g}" if low < high else f"exactly {low:g}")


def at_most(high: float) -> Criterion:
    """The number is at most `high`."""
    return Criterion(high=high, words=f"at most {high:g}")


def at_least(low: float) -> Criterion:
    """The number is at least `low`."""
    return Criterion(low=low, words=f"at least {low:g}")


def within(share: float, *, absolute: bool = False) -> Criterion:
    """The number, a relative deviation, is at most `share` in size; `absolute`: a difference."""
    return Criterion(-share, share, f"within {share:g}" if absolute else f"within {100 * share:g}%")


STANDINGS = ("as stated", "departs", "own")
"""What is simulated is what the source states; it differs, and `departs` says how; no source states it."""

OWN = ""
"""The source of a claim that no paper makes: this project's own."""


@dataclass(frozen=True)
class Change:
    """What was chosen or changed of a study, why, and whether after a look at its results."""

    claim: str
    """The claim's id; empty where it is about the whole study."""
    what: str
    why: str
    after_look: bool = True

    def __str__(self) -> str:
        return f"{'Chosen after a look' if self.after_look else 'Changed'}: {self.what}: {self.why.rstrip('.')}."


def changes(claims: str, what: str, why: str) -> tuple[Change, ...]:
    """One change for each of several claims, whose ids are separated by spaces; of the whole study if there is none."""
    return tuple(Change(claim, what, why) for claim in claims.split() or [""])


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, with the number that decides it; `claim` makes one of a function."""

    id: str
    statement: str
    criterion: Criterion
    number: Callable[..., Any]
    parts: tuple[str, ...] = ("main",)
    keys: tuple[str, ...] = ()
    place: str = ""
    kind: str = "seeds"
    """How the number comes with an interval: "seeds", "resampled" or "theory"."""
    known_negative: str | None = None
    departs: str = ""
    source: str = ""
    """The sources and the place in them, in words."""
    history: tuple[Change, ...] = ()
    """Those changes of the study that are about this claim, or about all."""
    study_departs: str = ""
    """How the whole study departs, where the claim does not say it of itself."""

    @property
    def standing(self) -> str:
        """Whether what is simulated is what the source states, one of STANDINGS."""
        if not self.keys:
            return "own"
        return "departs" if self.departs or self.study_departs else "as stated"

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands beside its verdict alone; `Study.notes` has what is the same for all claims."""
        return noted(self.known_negative, self.departs, (change for change in self.history if change.claim))


def noted(known_negative: str | None, departs: str, history: Iterable[Change]) -> tuple[str, ...]:
    """In words: why a claim does not hold, how it departs from its source, what was changed after a look."""
    known = [f"Known negative: {known_negative}"] if known_negative else []
    return (*known, *([f"Departs from the source: {departs}"] if departs else []), *map(str, history))


def claim(
    source: str,
    place: str,
    criterion: Criterion,
    *,
    theory: bool = False,
    resampled: bool = False,
    known_negative: str | None = None,
    departs: str = "",
) -> Callable[[Callable[..., Any]], Claim]:
    """Declare a function of a study's class, without `self`, as a claim.

        @claim("ba2022", "Theorem 3", within(0.03))
        def singular_value(main):
            "The largest singular value is that of a spiked random matrix, {criterion} of it."
            return over_theory(main, "singular_value")

    The claim's id is the function's name, its sentence the docstring, in which {criterion} is said in words, and what
    it is told are the parts of the run that its arguments name. `source` has keys of the study's sources, separated by
    spaces, or is OWN; `place` says where in them. The function returns an array with dimension `seed` (other dimensions
    are cases), of which the mean over seeds is judged, or the share of yes where it is of booleans; `resampled`: it
    reduces `seed` itself (a ratio of means, a median), and seeds are resampled; `theory`: it needs no simulation. It
    may return a list of arrays, whose cases are judged together. A value that it selects and the run does not have
    makes the claim untested. `known_negative` is the reason of a claim that is known not to hold, `departs` how what is
    simulated differs from what the source states.
    """

    def declare(number: Callable[..., Any]) -> Claim:
        name = number.__name__.strip("_").replace("_", "-")
        sentence = " ".join((number.__doc__ or "").split())
        if not sentence:
            raise InputError(f"claim {name!r} needs a docstring: the sentence that it judges")
        if not isinstance(criterion, Criterion):
            raise InputError(f"claim {name!r} must have a criterion such as within or at_most, got {criterion!r}")
        if theory and resampled:
            raise InputError(f"claim {name!r} cannot be both theory and resampled")
        kind = "theory" if theory else "resampled" if resampled else "seeds"
        return Claim(
            name,
            sentence.replace("{criterion}", criterion.words),
            criterion,
            number,
            tuple(inspect.signature(number).parameters),
            tuple(source.split()),
            place,
            kind,
            known_negative,
            departs,
        )

    return declare


class Missing(InputError):
    """What a claim asks of a run that the run does not have."""


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
    chance: float = math.nan
    """The probability that a run of as many fresh seeds comes to the same verdict."""

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
    def fragile(self) -> bool:
        """Whether the verdict is the documented one, but fresh seeds might well give another."""
        return self.as_documented and self.chance < SURE

    @property
    def kind(self) -> str:
        """What the verdict counts as, one of KINDS."""
        if self.verdict == "inconclusive":
            return "inconclusive"
        if not self.as_documented:
            return "differs"
        if self.fragile:
            return "fragile"
        return "fails (known)" if self.verdict == "fails" else self.verdict

    @property
    def word(self) -> str:
        """The verdict, marked where the study documents that the claim does not hold."""
        if self.broken:
            return "raised"
        notes = ["known" if self.verdict == "fails" else "should fail"] if self.claim.known_negative is not None else []
        notes += ["fragile"] * self.fragile
        return f"{self.verdict} ({', '.join(notes)})" if notes and self.verdict in ("holds", "fails") else self.verdict

    @property
    def interval(self) -> str:
        """The 99% interval for people; a number of theory has none."""
        if self.claim.kind == "theory":
            return "exact" if self.verdict != "untested" else ""
        return "" if math.isnan(self.low) else f"[{number(self.low)}, {number(self.high)}]"

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Its row of a table: the word, the measured number, its interval, the criterion, the chance."""
        shown = "> .999" if self.chance > 0.999 else f"{self.chance:.3f}".lstrip("0")
        chance = "" if math.isnan(self.chance) or self.claim.kind == "theory" else shown
        return self.word, number(self.measured), self.interval, str(self.claim.criterion), chance

    @property
    def where(self) -> str:
        """The worst case, after the reason of what has one."""
        return ": ".join(filter(None, (self.reason, self.case)))

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
            "chance": self.chance,
            "known_negative": self.claim.known_negative,
            "theory_only": self.claim.kind == "theory",
            "standing": self.claim.standing,
            "departs": self.claim.departs or self.claim.study_departs,
            "history": [asdict(change) for change in self.claim.history],
            "case": self.case,
            "reason": self.reason,
        }


def count(found: Iterable[Verdict]) -> Counter[str]:
    """How many verdicts there are of each kind."""
    return Counter(verdict.kind for verdict in found)


def tally(words: Sequence[str]) -> str:
    """How often each word occurs, in words."""
    return ", ".join(f"{times} {word}" for word, times in Counter(words).items()) or "no claims"
