"""What was found on fresh seeds and at the papers' sizes: records that are committed, with the code that made them.

A file of records has by study and stream when it was run, by which code, on which grid, in how many core hours, and by
claim the verdict, the number with its interval, and the criterion.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError, check_writable, write_at_once
from unlazy.lab.claims import Claim
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.dataset import as_json
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.plan import canonical
from unlazy.lab.study import Study, remembered
from unlazy.words import brief, number

if TYPE_CHECKING:
    from unlazy.lab.running.result import Run

FRESH, FULL = "fresh", "full"
"""The records of streams that nobody had looked at, and those of the papers' sizes."""
_PRESETS = {FRESH: "quick", FULL: "full"}


@dataclass(frozen=True)
class Record:
    """What one run said about one claim."""

    stream: str
    date: str
    core_hours: float
    """Of the whole study, on the processor; of runs that were interrupted, by what the last part took."""
    verdict: str
    measured: float | str | None
    low: float | str | None
    high: float | str | None
    stale: bool
    """Whether the study's code, its grid or the criterion has changed since."""

    @property
    def number(self) -> str:
        """The measured number with its interval, for people."""
        ends = "" if self.low is None or self.low == self.high else f" [{_shown(self.low)}, {_shown(self.high)}]"
        return _shown(self.measured) + ends

    @property
    def words(self) -> str:
        """The record in a few words."""
        found = "" if self.verdict == "untested" else f" {self.number}"
        old = ", before the code, the sizes or the criterion last changed" if self.stale else ""
        return f"{self.verdict}{found} ({self.date}, {number(self.core_hours, 2)} core hours{old})"


def _shown(value: float | str | None) -> str:
    return number(float("nan") if value is None else float(value))


def folder() -> Path:
    """Where the records are: in the installed package, or in the checkout that it is run from."""
    package = Path(__file__).resolve().parents[2]
    return next((f for f in (package / "evidence", package.parents[1] / "evidence") if f.is_dir()), package)


@cache
def _read(file: Path, _: tuple[int, int] | None) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except ValueError as error:
        raise InputError(f"evidence {file} is no JSON: {error}") from None
    if not (isinstance(found, dict) and all(isinstance(streams, dict) for streams in found.values())):
        raise InputError(f"evidence {file} must have records by study and stream, as 'unlazy confirm' writes them")
    return found


def _stored(file: Path) -> Mapping[str, Any]:
    stamp = (file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None
    return _read(file, stamp)


def records(study: type[Study], claim: Claim, kind: str) -> list[Record]:
    """What is recorded of a claim, the last stream last."""
    found = []
    for stream, run in _stored(folder() / f"{kind}.json").get(study.name, {}).items():
        one = run["claims"].get(claim.id)
        if one is None:
            continue
        now = _identity(study, _PRESETS[kind])
        stale = {name: run[name] for name in now} != now or one["criterion"] != str(claim.criterion)
        numbers = {name: one[name] for name in ("verdict", "measured", "low", "high")}
        found.append(Record(stream, run["date"], run["core_hours"], stale=stale, **numbers))
    return found


def core_seconds(study: type[Study], preset: str) -> float | None:
    """What a preset took in all when it was last recorded, by whatever code; None if it was not, or on other points."""
    kind = next((kind for kind, one in _PRESETS.items() if one == preset), None)
    runs = list(_stored(folder() / f"{kind}.json").get(study.name, {}).values())
    if not runs or runs[-1]["grid"] != _identity(study, preset)["grid"]:
        return None
    return 3600 * runs[-1]["core_hours"]


def told(study: type[Study], claim: Claim) -> tuple[str, ...]:
    """What is recorded of a claim, in sentences."""
    fresh, full = records(study, claim, FRESH), records(study, claim, FULL)
    lines = []
    if fresh:
        verdicts = Counter(record.verdict for record in fresh)
        found = ", ".join(f"{verdict} {_times(count)}" for verdict, count in verdicts.items())
        old = sum(record.stale for record in fresh)
        which = "" if old == len(fresh) else f"{old} of them "
        before = f", {which}before the code, the sizes or the criterion last changed" if old else ""
        lines.append(f"Run again with new random numbers: {found}{before}.")
    lines += [f"At the paper's sizes: {record.words}." for record in full]
    return tuple(lines)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def evidence_json(study: type[Study], claim: Claim) -> dict[str, Any]:
    """What is recorded of a claim, for `--json`."""
    return {kind: [asdict(record) for record in records(study, claim, kind)] for kind in _PRESETS}


@remembered
def _identity(study: type[Study], preset: str) -> dict[str, str]:
    """What a record is of: the code of the simulation and the points and seeds of the preset."""
    grids = preset_grids(study, preset if preset in study.presets else "quick")
    points = {name: [dict(g.fixed), [[a.names, a.rows] for a in g.axes], g.seeds] for name, g in grids.items()}
    return {"code": fingerprint(study), "grid": hashlib.sha256(canonical(points).encode()).hexdigest()[:16]}


def recorder(file: Path | None, kind: str, stream: str) -> Callable[[Run], None]:
    """What puts a run into a file of records; those of the same study that other code or another grid made go."""
    if file is None:
        return lambda run: None
    if file.name != f"{kind}.json":
        raise InputError(f"record must be a file {kind}.json, got {brief(str(file))}")
    check_writable(file)

    def record(run: Run) -> None:
        kept = {study: dict(streams) for study, streams in _stored(file).items()}
        identity = _identity(run.study, _PRESETS[kind])
        claims = {
            v.claim.id: {
                "verdict": v.verdict,
                **{name: _rounded(getattr(v, name)) for name in ("measured", "low", "high")},
                "criterion": str(v.claim.criterion),
            }
            for v in run.verdicts
        }
        own = {name: one for name, one in kept.get(run.study.name, {}).items() if identity.items() <= one.items()}
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        own[stream] = {"date": today, "core_hours": _rounded(run.core_seconds / 3600), **identity, "claims": claims}
        kept[run.study.name] = own
        write_at_once(json.dumps(as_json(dict(sorted(kept.items()))), indent=1, allow_nan=False) + "\n", file)

    return record


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
