"""What `probe` found: four sentences, a figure, and every number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics.probing import pages

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

LAZY, RICH = 0.1, 0.3
"""Outlier shares below and above which a network is called lazy and rich; from networks that no check has used."""
FITS = 0.95
"""The share of the training labels that a network must fit for its margin gap to speak of memory."""
MEMORY = 0.35
"""The margin gap above which a network that fits is said to have memorised; set on digits and drawn mixtures, with and
without flipped labels. MNIST gave the same answers, but was on the table when `FITS` was set."""
WRONG = 0.1
"""Share of labels that look wrong from which on a network that fits all has memorised, where the gap is undecided."""
SUSPECT = 2.0
"""Standard errors above which a share of wrong labels is said to be there."""
BETTER = 2.0
"""Standard errors by which more training labels than by chance, or at the start, must be right to say it learned."""
HARDLY = 1e-3
"""Relative change of the weights below which a network that has not learned is said to have hardly been trained."""


def fits_already(fit: float, classes: int) -> bool:
    """Whether a first checkpoint predicts so many training labels that it cannot be the one before training."""
    return fit > 0.5 * (1 + 1 / classes)


@dataclass(frozen=True)
class NetworkReport:
    """What a network has learned.

    `dataset` has every number, over checkpoints (`checkpoint`), layers, methods, training rows and sizes; what could
    not be measured is missing there and said in `notes`.
    """

    dataset: xr.Dataset
    notes: tuple[str, ...] = ()

    @property
    def lazy_or_rich(self) -> str:
        """'lazy', 'rich', 'between', 'untrained' if it did not learn, or 'unknown' if no layer is at least 40 wide."""
        if self._unchanged or self._by_chance or self._as_at_start:
            return "untrained"
        share = self.outlier_share
        if not np.isfinite(share):
            return "unknown"
        return "lazy" if share < LAZY else "rich" if share > RICH else "between"

    @property
    def outlier_share(self) -> float:
        """The median over layers of the share of their change along outlier directions; NaN without wide layers."""
        shares = self._values("outlier_share")
        return float(np.nanmedian(shares)) if np.isfinite(shares).any() else np.nan

    @property
    def signal_or_memory(self) -> str:
        """'signal', 'memory', 'between' if the margin gap is within two errors of the cut, or 'unfitted'.

        A network that fits its labels although more of them look wrong than it misses has memorised these.
        """
        fit, gap, error = (float(self._values(name)[-1]) for name in _GAP)
        if fit < FITS or not np.isfinite(gap):
            return "unfitted"
        if abs(gap - MEMORY) < 2 * error:
            if self.suspects.size and float(self.dataset.wrong_share) > WRONG + 1 - fit:
                return "memory"
            return "between"
        return "memory" if gap > MEMORY else "signal"

    @property
    def suspects(self) -> np.ndarray:
        """Indices of training rows whose label the other rows contradict, the clearest first; as many as are estimated.

        Empty where the estimated share of wrong labels is within two standard errors of 0.
        """
        if "wrong_share" not in self.dataset:
            return np.array([], int)
        share, error = float(self.dataset.wrong_share), float(self.dataset.wrong_share_deviation)
        if share < SUSPECT * error:
            return np.array([], int)
        margins = self.dataset.label_margin.to_numpy()
        order = np.argsort(margins)[: round(share * len(margins))]
        return self.dataset.row.to_numpy()[order[margins[order] < 0]]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Lazy or rich; signal or memory; what else would do; more data."""
        return pages.sentences(self)

    @property
    def _by_chance(self) -> bool:
        """Whether the training labels are predicted no better than by chance."""
        fit, chance = (float(self._values(name)[-1]) for name in ("training_fit", "training_fit_by_chance"))
        return fit <= chance + BETTER * np.sqrt(chance * (1 - chance) / self.dataset.attrs["n"])

    @property
    def _as_at_start(self) -> bool:
        """Whether they are predicted no better than at the start, though they could be, or hardly any weight moved."""
        fit = self._values("training_fit")
        # of outputs that are all 0 half is right, and none of it is known
        known = fit - self._values("training_fit_by_chance")
        better = known[-1] - known[0] > BETTER * float(self.dataset.training_fit_gain_deviation)
        return not better and (self._moved < HARDLY or not fits_already(fit[0], self.dataset.attrs["classes"]))

    @property
    def _moved(self) -> float:
        """The relative change of the weights, median over layers; NaN without weights."""
        changes = self._values("relative_change")[-1]
        finite = changes[np.isfinite(changes)]
        return float(np.median(finite)) if finite.size else np.nan

    @property
    def _unchanged(self) -> bool:
        margins = [self._values(f"{rows}_margin")[[0, -1]] for rows in ("training", "held_out")]
        changes = self._values("relative_change")[-1]
        return not np.ptp(margins, axis=1).any() and not np.any(changes > 0)

    def _values(self, name: str) -> np.ndarray:
        return self.dataset[name].to_numpy() if name in self.dataset else np.array([np.nan])

    def as_json(self) -> dict[str, Any]:
        return pages.as_json(self)

    def __str__(self) -> str:
        return pages.text(self)

    def figure(self) -> Figure:
        """Fits and margins over the checkpoints, layers, labels, and the errors of other learners."""
        return pages.figure_of(self)

    def save(self, file: str | Path) -> None:
        """Write a page (.html) that needs no network, or all numbers as netCDF (.nc)."""
        pages.save(self, Path(file))


_GAP = ("training_fit", "margin_gap", "margin_gap_deviation")
