"""Linear regression tasks that share their inputs, with a covariance and a prior that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class TaskSample(NamedTuple):
    """What a learner sees, and the truth behind it."""

    design: np.ndarray
    """X, shape (n, d)."""
    targets: np.ndarray
    """Y = X B + noise, shape (n, tasks)."""
    coefficients: np.ndarray
    """B, shape (d, tasks)."""


@dataclass(frozen=True)
class LinearTasks:
    """Tasks y = x.b + noise with x ~ N(0, diag(spectrum)), b ~ N(0, diag(prior)), noise ~ N(0, noise_variance)."""

    spectrum: np.ndarray
    prior: np.ndarray
    noise_variance: float

    def sample(self, rng: np.random.Generator, n: int, tasks: int) -> TaskSample:
        """n rows that all tasks share."""
        design = rng.standard_normal((n, len(self.spectrum))) * np.sqrt(self.spectrum)
        coefficients = rng.standard_normal((len(self.prior), tasks)) * np.sqrt(self.prior)[:, None]
        noise = rng.standard_normal((n, tasks)) * np.sqrt(self.noise_variance)
        return TaskSample(design, design @ coefficients + noise, coefficients)

    def risk(self, coefficients: np.ndarray, estimate: np.ndarray) -> float:
        """The exact excess risk E_x (x.b - x.b_hat)^2, averaged over tasks."""
        return float(self.spectrum @ np.mean((coefficients - estimate) ** 2, axis=1))
