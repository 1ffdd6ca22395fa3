"""The same studies on fresh seeds, next to what they document."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, NamedTuple

from unlazy.checks import InputError
from unlazy.lab.claims import Verdict
from unlazy.lab.grid import MAIN, check_stream
from unlazy.lab.running.events import Listener, only_warn
from unlazy.lab.running.reproduce import Outcome, reproduce
from unlazy.lab.study import Study

_NO_TIME = 1e-6


class Pair(NamedTuple):
    """A claim's verdict in the main stream and in a fresh one."""

    study: type[Study]
    main: Verdict
    fresh: Verdict

    @property
    def documented(self) -> str:
        """What the study says of its claim."""
        if self.main.verdict == "untested":
            return "untested"
        return "holds" if self.main.claim.known_negative is None else "fails"

    @property
    def differs(self) -> bool:
        """Whether the fresh verdict is not the documented one."""
        return self.fresh.broken or self.fresh.verdict != self.documented

    def as_json(self) -> dict[str, Any]:
        return {
            "study": self.study.name,
            "id": self.fresh.claim.id,
            "documented": self.documented,
            "fresh": self.fresh.verdict,
            "measured": self.main.measured,
            "measured_fresh": self.fresh.measured,
            "criterion": str(self.fresh.claim.criterion),
            "chance": self.main.chance,
            "differs": self.differs,
        }


class Confirmation(NamedTuple):
    """What came of a main and a fresh run of the same studies."""

    stream: str
    main: Outcome
    fresh: Outcome

    @property
    def broken(self) -> dict[str, str]:
        return {**self.main.broken, **self.fresh.broken}

    @property
    def unfinished(self) -> list[str]:
        return [*dict.fromkeys([*self.main.unfinished, *self.fresh.unfinished])]

    @property
    def pairs(self) -> list[Pair]:
        main = {run.study.name: run for run in self.main.runs}
        both = [(main[run.study.name], run) for run in self.fresh.runs if run.study.name in main]
        return [Pair(a.study, *pair) for a, b in both for pair in zip(a.verdicts, b.verdicts, strict=True)]

    @property
    def expected(self) -> float:
        """How many verdicts fresh seeds change on average, if the chances are right."""
        chances = [pair.main.chance for pair in self.pairs if pair.main.as_documented]
        return sum(1 - chance for chance in chances if not math.isnan(chance))

    @property
    def confirmed(self) -> bool:
        return not self.broken and not any(pair.differs for pair in self.pairs)

    def as_json(self) -> dict[str, Any]:
        pairs = self.pairs
        return {
            "stream": self.stream,
            "claims": [pair.as_json() for pair in pairs],
            "differing": sum(pair.differs for pair in pairs),
            "expected": self.expected,
            "broken": self.broken,
            "unfinished": self.unfinished,
            "seconds": self.main.seconds + self.fresh.seconds,
        }


def fresh_stream() -> str:
    """A name that nobody has used."""
    return f"{datetime.now(UTC):%Y-%m-%d}-{secrets.token_hex(3)}"


def check_fresh(stream: str) -> None:
    """Refuse a name that is none, and the stream that everybody has looked at."""
    check_stream(stream)
    if stream == MAIN:
        raise InputError(f"stream must be another one than {MAIN}, which everybody has looked at")


def confirm(
    studies: Sequence[type[Study]],
    watch: Callable[[str], AbstractContextManager[Listener]] = lambda stream: nullcontext(only_warn),
    *,
    stream: str | None = None,
    budget: float | None = None,
    **options: Any,
) -> Confirmation:
    """Run studies in the main stream, as far as the store lacks it, and in a fresh one, and compare.

    `stream` goes on with one that was interrupted; `watch` makes the listener for each of the two; `budget` is in
    seconds and for both together; all else is as in `reproduce`.
    """
    name = fresh_stream() if stream is None else stream
    check_fresh(name)
    outcomes: list[Outcome] = []
    for one in (MAIN, name):
        left = budget if budget is None or not outcomes else max(budget - outcomes[0].seconds, _NO_TIME)
        with watch(one) as listener:
            outcomes.append(reproduce(studies, listener, stream=one, budget=left, **options))
    return Confirmation(name, *outcomes)
