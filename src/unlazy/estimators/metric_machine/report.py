"""What a fitted machine found: how well it does, how far from simpler ones, and what it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unlazy.plotting import style
from unlazy.words import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN_COLUMNS, _SAID_COLUMNS, _SAID_PARTS = 12, 3, 3
_LEAST_SHARE = 0.005


class Gain:
    """Squared error of a simpler machine over that of the sum, cross-fitted, with its 95% interval."""

    def __init__(self, errors: np.ndarray, simple_errors: np.ndarray):
        unit = errors.mean() or 1.0
        self.ratio = float(simple_errors.mean() / unit)
        spread = 1.96 * np.std(simple_errors - self.ratio * errors, ddof=1) / unit / np.sqrt(len(errors))
        self.low, self.high = self.ratio - float(spread), self.ratio + float(spread)

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class MachineReport:
    """As text (`print`) and as a figure; all numbers are cross-fitted, on rows that did not teach the metric."""

    n: int
    score: float
    score_interval: np.ndarray
    score_word: str
    stage_scores: dict[str, float]
    """R^2 of every stage."""
    gains: dict[str, Gain]
    """Over ridge regression and the best fixed kernel."""
    importances: dict[str, float]
    """Shares of the metric, by column, the largest first."""
    directions: tuple[str, ...]
    """What the metric sees most, as sums of encoded columns."""
    direction_shares: np.ndarray

    def __str__(self) -> str:
        low, high = self.score_interval
        largest = list(self.importances.items())[:_SAID_COLUMNS]
        said = [f"{name} ({share:.0%})" for name, share in largest if share >= _LEAST_SHARE]
        lines = [
            f"metric machine: {self.n} rows taught the metric",
            f"{self.score_word:<16} {self.score:.3f}, 95% interval {low:.3f} to {high:.3f}",
            *(f"{'error of ' + name:<16} {gain} times that of the machine" for name, gain in self.gains.items()),
            f"{'what matters':<16} {listed(said) if said else 'no column'}",
            *(
                f"{f'direction {place}':<16} {share:.0%} of the metric: {words}"
                for place, (share, words) in enumerate(zip(self.direction_shares, self.directions, strict=True), 1)
                if share > 1 / len(self.importances)
            ),
        ]
        return "\n".join(lines)

    def figure(self) -> Figure:
        """Scores of the stages, and shares of the columns."""
        drawing, axes = style.panels(2, width=3.6, height=2.9)
        stages = sorted(self.stage_scores.items(), key=lambda pair: pair[1])
        columns = list(self.importances.items())[:_SHOWN_COLUMNS][::-1]
        with style.style():
            axes[0].plot([score for _, score in stages], range(len(stages)), "o", color=style.colour(0))
            axes[0].set_yticks(range(len(stages)), [name for name, _ in stages])
            axes[0].set_xlabel("cross-fitted $R^2$")
            axes[0].set_title("stages of the machine")
            axes[1].barh(range(len(columns)), [share for _, share in columns], color=style.colour(0), height=0.6)
            axes[1].set_yticks(range(len(columns)), [name for name, _ in columns])
            axes[1].set_xlabel("share of the metric")
            axes[1].set_title("what matters")
        return drawing


def direction_words(direction: np.ndarray, names: np.ndarray) -> str:
    """The largest parts of a direction, such as '0.9 age - 0.3 height'."""
    direction = direction * np.sign(direction[np.abs(direction).argmax()] or 1.0)
    parts = [place for place in np.argsort(-np.abs(direction))[:_SAID_PARTS] if abs(direction[place]) >= 0.1]
    words = " ".join(f"{'-' if direction[p] < 0 else '+'} {abs(direction[p]):.2f} {names[p]}" for p in parts)
    return words.removeprefix("+ ")
