"""Whether the verdicts of `probe` are right on a small zoo of networks, and how far its measures are from the cuts.

Digits of scikit-learn (300 training rows, 400 held out); perceptrons with 2 and 3 layers (width 64) and a small
convolutional network; Adam and gradient descent with momentum; true labels, or 30% of them another one at random; two
seeds. Networks are trained on alpha (f - f_0) until they fit all labels, for at most 1000 steps: lazy with alpha = 100,
rich with alpha = 0.1, and standard, alpha = 1, of which nobody knows what it is, so that it is not judged. A distance
is that of the measure from its cut, positive on the right side. The cuts were set before this zoo, on other networks of
digits and of drawn mixtures, and none was changed after it; step sizes were chosen so that most networks fit their
labels and none diverges. `python -m benchmarks.probe_cuts` prints every network.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Benchmark, Row

_SCALES = {"lazy": 100.0, "standard": 1.0, "rich": 0.1}
_KINDS = ("depth 2", "depth 3", "convolutional")
_STEPS = 1000
_MIDDLE = 40
_ROWS = 300
_FLIPPED = 0.3


class Network(NamedTuple):
    """What a network of the zoo is, and what the report said of it."""

    kind: str
    regime: str
    optimiser: str
    flipped: bool
    seed: int
    report: Any

    @property
    def name(self) -> str:
        labels = "30% flipped" if self.flipped else "true labels"
        return f"{self.kind:14}{self.regime:9}{self.optimiser:5}{labels:12}seed {self.seed}"

    @property
    def fit(self) -> float:
        return float(self.report.dataset.training_fit[-1])

    @property
    def gap(self) -> float:
        return float(self.report.dataset.margin_gap[-1])

    @property
    def wrong_share(self) -> float:
        return float(self.report.dataset.wrong_share)


def probe_cuts() -> Benchmark:
    """The shares that are right, and the distances from the cuts."""
    return _summary(list(_zoo()))


def _summary(zoo: list[Network]) -> Benchmark:
    from unlazy.diagnostics.probing.report import FITS, LAZY, MEMORY, RICH, WRONG

    fitted = [one for one in zoo if one.fit >= FITS]
    rows = []
    for regime in ("lazy", "rich"):
        some = [one for one in zoo if one.regime == regime]
        sign, cut = (-1, LAZY) if regime == "lazy" else (1, RICH)
        rows += _judged(
            f"{regime} networks",
            [one.report.lazy_or_rich == regime for one in some],
            [sign * (one.report.outlier_share - cut) for one in some],
        )
    for flipped, verdict in ((False, "signal"), (True, "memory")):
        some = [one for one in fitted if one.flipped == flipped]
        rows += _judged(
            f"{verdict} in networks that fit",
            [one.report.signal_or_memory == verdict for one in some],
            [(1 if flipped else -1) * (one.gap - MEMORY) for one in some],
        )
    for flipped, verdict in ((False, "no wrong labels"), (True, "wrong labels")):
        some = [one for one in zoo if one.flipped == flipped]
        rows += _judged(
            f"{verdict} found",
            [bool(one.report.suspects.size) == flipped for one in some],
            [(1 if flipped else -1) * (one.wrong_share - WRONG) for one in some],
        )
    unknown = [one.report.lazy_or_rich for one in zoo if one.regime == "standard"]
    said = ", ".join(f"{word} {unknown.count(word)}" for word in dict.fromkeys(unknown))
    shares = {round(one.wrong_share, 6) for one in zoo}
    notes = [
        f"of {len(zoo)} networks {len(fitted)} fit {FITS:.0%} of the training labels and are judged for memory",
        f"of {len(unknown)} networks of the standard scale: {said}",
        f"the shares of wrong labels take {len(shares)} values: a kernel that knows no network gave them, they are "
        "of the data alone",
        "output scales of 100 and 0.1 are far apart: what lies between them is not judged",
        "these are digits again, on which cuts were set: the shares are no estimate for other data",
    ]
    return Benchmark(rows, notes)


def _judged(what: str, right: list[bool], distances: list[float]) -> list[Row]:
    if not right:
        return []
    return [
        Row(f"{what}: share that is right, of {len(right)}", [float(np.mean(right))], ""),
        Row(f"{what}: distance from the cut", [one for one in distances if np.isfinite(one)], ""),
    ]


def _zoo() -> Iterator[Network]:
    import torch

    torch.set_num_threads(1)
    combinations = itertools.product(_KINDS, _SCALES, ("Adam", "SGD"), (False, True), (0, 1))
    for kind, regime, optimiser, flipped, seed in combinations:
        report = _reported(kind, _SCALES[regime], optimiser, flipped, seed)
        yield Network(kind, regime, optimiser, flipped, seed, report)


_HEADS = ("fits", "outliers", "", "gap", "", "wrong", "suspects", "kernel", "forecast")


def _line(one: Network) -> str:
    data = one.report.dataset
    kernel = data.sel({"method": "its initial tangent kernel"})
    apart = float(kernel.method_error - data.method_error[0])
    equal = abs(apart) < 2 * float(kernel.method_difference_deviation)
    forecast = data.forecast_error.to_numpy()
    cells = (
        f"{one.fit:.2f}",
        f"{one.report.outlier_share:.2f}",
        one.report.lazy_or_rich,
        f"{one.gap:.2f}",
        one.report.signal_or_memory,
        f"{one.wrong_share:.2f}",
        str(one.report.suspects.size),
        "as well" if equal else "better" if apart < 0 else "worse",
        f"{forecast[np.isfinite(forecast)][-1]:.2f}",
    )
    return f"{one.name:46}" + "".join(f"{cell:>10}" for cell in cells)


def _reported(kind: str, scale: float, optimiser: str, flipped: bool, seed: int) -> Any:
    import torch
    from sklearn.datasets import load_digits

    from unlazy.diagnostics.probing import ProbeCallback

    rng = np.random.default_rng(seed)
    images, truth = load_digits(return_X_y=True)
    order = rng.permutation(len(images))[: _ROWS + 400]
    images, truth = (images[order] / 8 - 1).astype(np.float32), truth[order]
    X, y, X_val, y_val = images[:_ROWS], truth[:_ROWS], images[_ROWS:], truth[_ROWS:]
    if flipped:
        y = np.where(rng.random(_ROWS) < _FLIPPED, (y + rng.integers(1, 10, _ROWS)) % 10, y)
    torch.manual_seed(seed)
    model = _centred(kind, scale)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # what an output moves by in a step is alpha^2 times the step size of descent, alpha times that of Adam
    rules = {
        "Adam": lambda: torch.optim.Adam(trained, 4e-3 / max(scale, 1.0)),
        "SGD": lambda: torch.optim.SGD(trained, 0.2 / max(scale, 1.0) ** 2 / min(scale, 1.0) ** 0.4, momentum=0.9),
    }
    rule = rules[optimiser]()
    inputs, labels = torch.tensor(X), torch.tensor(y)
    with torch.no_grad():
        start = model.start(inputs)
    callback = ProbeCallback(steps=[_MIDDLE])
    callback.keep(model, 0)
    for step in range(1, _STEPS + 1):
        outputs = scale * (model.net(inputs) - start)
        loss = torch.nn.functional.cross_entropy(outputs, labels)
        rule.zero_grad()
        loss.backward()
        rule.step()
        callback.keep(model, step)
        if step > _MIDDLE and bool((outputs.argmax(1) == labels).all()):
            break
    callback.end(model, step)
    return callback.report(model, X, y, X_val, y_val, rows=200)


def _centred(kind: str, scale: float) -> Any:
    """alpha (f - f_0): lazy for a large scale, rich for a small one."""
    import copy

    from torch import nn

    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _layers(kind)
            self.start = copy.deepcopy(self.net).requires_grad_(False)

        def forward(self, rows: Any) -> Any:
            return scale * (self.net(rows) - self.start(rows))

    return Centred()


def _layers(kind: str) -> Any:
    from torch import nn

    if kind == "convolutional":
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 40, 3, 2, 1), nn.ReLU(), nn.Conv2d(40, 40, 3, 2, 1),
            nn.ReLU(), nn.Flatten(), nn.Linear(160, 64), nn.ReLU(),
            nn.Linear(64, 10),
        )  # fmt: skip
    hidden = [part for _ in range(int(kind[-1]) - 1) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(64, 10))


if __name__ == "__main__":
    print(f"{'':46}" + "".join(f"{head:>10}" for head in _HEADS))
    seen = []
    for network in _zoo():
        print(_line(network), flush=True)
        seen.append(network)
    found = _summary(seen)
    for row in found.rows:
        print(f"{row.label}: {row.measured}" + (f" ({row.spread})" if row.spread else ""))
    for note in found.notes:
        print(note)
