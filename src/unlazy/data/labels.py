"""Labels of given laws, and choices whose number is the same in every draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, ProbitTeacher, SignTeacher


def fixed_count(uniform: np.ndarray, chosen_share: float, n: Sequence[int]) -> np.ndarray:
    """Which samples are chosen, given a uniform number each: the same number in every draw of the first n each."""
    chosen = np.zeros(uniform.size, bool)
    begin, count = 0, 0
    for end in sorted(n):
        more = round(chosen_share * end) - count
        chosen[begin + np.argsort(uniform[begin:end])[:more]] = True
        begin, count = end, count + more
    return chosen


def draw_labels(
    rng: np.random.Generator,
    label_law: LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher,
    fields: np.ndarray,
    n: Sequence[int],
) -> np.ndarray:
    """Labels of the fields (n,); of flipped signs there is a fixed number in the first n samples each."""
    from scipy.special import expit

    noise, uniform = rng.standard_normal(fields.size), rng.random(fields.size)
    if isinstance(label_law, LinearTeacher):
        return fields + np.sqrt(label_law.noise_variance) * noise
    if isinstance(label_law, SignTeacher):
        return np.where(fixed_count(uniform, label_law.flip_probability, n), -1.0, 1.0) * np.sign(fields)
    if isinstance(label_law, ProbitTeacher):
        return np.sign(fields + np.sqrt(label_law.noise_variance) * noise)
    return np.where(uniform < expit(label_law.logit_slope * fields), 1.0, -1.0)


def softmax_rows(
    rng: np.random.Generator, n: int, spectrum: np.ndarray, classes: int, field_deviation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rows N(0, diag(spectrum)) and softmax labels of random fields T^T x of that deviation, in contrasts."""
    rows = rng.standard_normal((n, spectrum.size)) * np.sqrt(spectrum)
    directions = rng.standard_normal((spectrum.size, classes - 1))
    overlap = directions.T @ (spectrum[:, None] * directions)
    directions = field_deviation * np.linalg.solve(np.linalg.cholesky(overlap), directions.T).T
    scores = rows @ directions @ helmert_contrasts(classes).T
    return rows, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
