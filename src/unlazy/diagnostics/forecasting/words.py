"""A forecast in a few short sentences."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from unlazy.diagnostics.curves import Curve
from unlazy.diagnostics.pages import EXACT, share
from unlazy.words import listed

if TYPE_CHECKING:
    from unlazy.diagnostics.forecasting.answer import Forecast

MULTIPLES = (1.0, 2.0, 5.0, 10.0)
# errors nearer than this are called the same
_SAME = 0.03
# a curve whose values differ by no more has one value
_FLAT = 0.05
# a smaller share of the least error comes from a method that nearly interpolates, and is no estimate
_NO_NOISE = 0.05


def sentence(found: Forecast) -> str:
    """Which method does how well; what more rows bring; what pays more and what is noise: short sentences."""
    errors = {method.name: method.growth for method in found.methods}
    now = {name: points.test_error[0] for name, points in errors.items() if points.in_range[0]}
    if not now:
        return (
            "No method has a forecast for as many rows as there are: too many rows for this penalty or these kernels."
        )
    best = min(now, key=lambda name: now[name])
    if now[best] < EXACT:
        return (
            f"Now {best} has an error below {EXACT:g} of the target's variance: the inputs determine the target, and "
            "more rows bring nothing."
        )
    parts = [_best(best, now), growth(best, errors[best])]
    if all(errors[name].high[0] >= 1 for name in now):
        parts.insert(0, "these rows do not tell whether any method does better than the target's mean")
    if len(errors) > 1:
        parts.append(_ranking(best, errors))
    if len(now) > 1:
        parts.append(_pays(best, now, errors[best], found[best].method.gain_of_twice))
    missing = [name for name in errors if name not in now]
    if missing:
        parts.append(f"nothing can be said of {listed(missing)} with so many rows")
    least = min(points.test_error[points.in_range].min() for points in errors.values() if points.in_range.any())
    parts.append(_noise(found.noise_variance, least))
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def _noise(noise: float, least: float) -> str:
    """What is called noise is never more than a forecast error."""
    what = "of the variance is noise or what no method here learned from these rows"
    if noise < _NO_NOISE * least:
        return "no noise can be made out: what is left may still be learned"
    if noise <= least:
        return f"about {share(noise)} {what}"
    return f"at most {share(least)} {what}"


def _best(best: str, now: dict[str, float]) -> str:
    level = f"an error of {share(now[best])} of the target's variance (R2 {1 - now[best]:.2f})"
    same = [name for name in now if name != best and now[name] <= (1 + _SAME) * now[best]]
    if len(now) == 1:
        return f"now {best} has {level}"
    if same:
        return f"now {listed([best, *same])} do equally well with {level}"
    return f"best now: {best} with {level}"


def growth(best: str, points: Curve) -> str:
    known = [i for i in range(1, len(MULTIPLES)) if points.in_range[i]]
    if not known:
        return f"more rows are out of range for {best}"
    now, values = points.test_error[0], points.test_error[known]
    farthest = f"{MULTIPLES[known[-1]]:g}x"
    remarks = [f"{share(points.low[known[-1]])}-{share(points.high[known[-1]])} at {farthest}"]
    if not points.reliable[known].all():
        remarks.append("doubtful at the end" if points.reliable[known].any() else "doubtful")
    if len(known) < len(MULTIPLES) - 1:
        remarks.append("more is out of range")
    remark = f"({', '.join(remarks)})"
    # where it is flat: from there on one number
    flat = next(j for j in range(len(known)) if values[j:].max() <= (1 + _FLAT) * values[j:].min())
    path = [now, *values[:flat], float(np.median(values[flat:]))]
    told = [f"{share(points.test_error[i])} with {MULTIPLES[i]:g}x" for i in known[:flat]]
    start = f"{MULTIPLES[known[flat]]:g}x"
    lasting = flat < len(known) - 1
    ends = " to ".join(dict.fromkeys((share(values[flat:].min()), share(values[flat:].max()))))
    told.append(f"{ends} from {start} the rows on" if lasting else f"{ends} with {start} the rows")
    if flat == 0 and abs(path[-1] / now - 1) <= _SAME:
        return f"the error of {best} stays at about {share(path[-1])} up to {farthest} the rows {remark}"
    if all(later < earlier for earlier, later in itertools.pairwise(path)):
        return f"the error of {best} falls to {listed(told)} {remark}"
    return f"the error of {best} is forecast as {listed(told)} {remark}; a rise is a reason to doubt it"


def _ranking(best: str, errors: dict[str, Curve]) -> str:
    for i, multiple in enumerate(MULTIPLES[1:], start=1):
        known = {name: points.test_error[i] for name, points in errors.items() if points.in_range[i]}
        if len(known) < 2 or best not in known:
            return f"which is best cannot be said beyond {MULTIPLES[i - 1]:g}x"
        first = min(known, key=lambda name: known[name])
        if first != best and known[best] > (1 + _SAME) * known[first]:
            sure = errors[first].reliable[i] and errors[best].reliable[i]
            return f"with {multiple:g}x the rows {first} {'should' if sure else 'may'} overtake it"
    sure = all(points.reliable.all() for points in errors.values())
    return "more rows do not change which is best" if sure else "more rows probably do not change which is best"


def _pays(best: str, now: dict[str, float], points: Curve, most: float | None = None) -> str:
    worst = max(now, key=lambda name: now[name])
    method = 1 - now[best] / now[worst]
    if not points.in_range[1]:
        return f"{best} in place of {worst} lowers the error by {method:.0%}"
    rows = 1 - points.test_error[1] / now[best]
    between = "" if most is None else f" (0 to {most:.0%})"
    told = f"twice the rows lower it by {max(rows, 0.0):.0%}{between}, {best} in place of {worst} by {method:.0%}"
    if max(rows, method) < _SAME:
        return f"{told}: neither pays much"
    if abs(rows - method) < _SAME:
        return f"{told}: about the same"
    return f"{told}: {'more rows pay' if rows > method else 'the method pays'} more"
