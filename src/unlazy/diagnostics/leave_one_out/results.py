"""What `loo_scores` and `loo_path` answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# a change of the score by leaving the row out above which one Newton step is a rough guess of the refit
ROUGH = 2.0


@dataclass(frozen=True, eq=False, repr=False)
class LooScores:
    """What a fitted model would have said of each of its rows, had it not seen that row."""

    scores: np.ndarray
    """In the shape and units of `decision_function` (`predict` for regression); over classes they sum to 0."""
    probabilities: np.ndarray | None
    """(n, K) of logistic regression, else None."""
    losses: np.ndarray
    """Of each row: minus the log probability of its label; 0 or 1; or the squared residual, summed over outputs."""
    leverage: np.ndarray
    """Between 0 and 1: how far each row holds its own score."""
    rough_rows: int
    """Rows whose log odds of two classes one Newton step moves by more than 2 and that were not refitted."""
    distance_from_optimum: float
    """The largest distance of a score of the fit from its optimum, to which it was moved first."""
    loo_error: float
    """Share of wrong labels, or mean squared error for regression."""
    loo_error_deviation: float
    """Its standard error over rows, as if their losses were independent."""
    loo_log_loss: float | None
    """None for a ridge, which has no probabilities; so are its standard error and the training log loss."""
    loo_log_loss_deviation: float | None
    training_error: float
    training_log_loss: float | None
    is_exact: bool
    """True for the square loss; one Newton step for the logistic one."""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        n = len(self.losses)
        lines = [f"leave-one-out of {n} rows, {'exact' if self.is_exact else 'one Newton step from the fit'}"]
        measures: list[tuple[str, float, float | None, float | None]] = [
            ("error", self.loo_error, self.loo_error_deviation, self.training_error)
        ]
        if self.loo_log_loss is not None:
            measures.append(("log loss", self.loo_log_loss, self.loo_log_loss_deviation, self.training_log_loss))
        for name, value, deviation, training in measures:
            lines.append(f"  {name:<10}{value:.4g} +- {deviation:.2g}  (training {training:.4g})")
        lines.append(f"  {'leverage':<10}mean {self.leverage.mean():.3g}, largest {self.leverage.max():.3g}")
        if self.rough_rows:
            refits = f"refits={self.rough_rows} leaves the worst out by true refits"
            lines.append(f"  {'caution':<10}rough guesses of {self.rough_rows} row(s); {refits}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class LooPath:
    """Leave-one-out errors of logistic regression for each C."""

    Cs: np.ndarray
    loo_log_loss: np.ndarray
    loo_log_loss_deviation: np.ndarray
    """Standard errors over rows."""
    loo_error: np.ndarray
    loo_error_deviation: np.ndarray
    leverage: np.ndarray
    """The largest of a row, for each C."""
    scores: np.ndarray
    """(m, n) for two classes, else (m, n, K)."""

    @property
    def best_C(self) -> float:
        """That of least leave-one-out log loss."""
        return float(self.Cs[int(np.argmin(self.loo_log_loss))])

    def __str__(self) -> str:
        lines = ["        C   log loss      +-      error      +-  leverage"]
        best = int(np.argmin(self.loo_log_loss))
        columns = (
            self.loo_log_loss,
            self.loo_log_loss_deviation,
            self.loo_error,
            self.loo_error_deviation,
            self.leverage,
        )
        for i, C in enumerate(self.Cs):
            a, b, c, d, e = (float(column[i]) for column in columns)
            lines.append(f"{C:9.3g}  {a:9.4g}  {b:6.2g}  {c:9.4g}  {d:6.2g}  {e:8.3f}{'  best' if i == best else ''}")
        return "\n".join(lines)
