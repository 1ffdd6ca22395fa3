"""Labels of teachers, and choices whose number is the same in every draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, ProbitTeacher, SignTeacher


def fixed_count(uniform: np.ndarray, share: float, sizes: Sequence[int]) -> np.ndarray:
    """Which samples are chosen, given a uniform number each: the same number in every draw of each nested set."""
    chosen = np.zeros(uniform.size, bool)
    begin, count = 0, 0
    for end in sorted(sizes):
        more = round(share * end) - count
        chosen[begin + np.argsort(uniform[begin:end])[:more]] = True
        begin, count = end, count + more
    return chosen


def draw_labels(
    rng: np.random.Generator,
    teacher: LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher,
    fields: np.ndarray,
    sizes: Sequence[int],
) -> np.ndarray:
    """Labels of the fields (n,); of flipped signs there is a fixed number in the first `sizes` samples each."""
    from scipy.special import expit

    noise, uniform = rng.standard_normal(fields.size), rng.random(fields.size)
    if isinstance(teacher, LinearTeacher):
        return fields + np.sqrt(teacher.noise_variance) * noise
    if isinstance(teacher, SignTeacher):
        return np.where(fixed_count(uniform, teacher.flip_probability, sizes), -1.0, 1.0) * np.sign(fields)
    if isinstance(teacher, ProbitTeacher):
        return np.sign(fields + np.sqrt(teacher.noise_variance) * noise)
    return np.where(uniform < expit(teacher.slope * fields), 1.0, -1.0)


def softmax_rows(
    rng: np.random.Generator, n: int, spectrum: np.ndarray, classes: int, size: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rows N(0, diag(spectrum)) and labels of a random softmax teacher with T^T Omega T = size^2 I in contrasts."""
    rows = rng.standard_normal((n, spectrum.size)) * np.sqrt(spectrum)
    teacher = rng.standard_normal((spectrum.size, classes - 1))
    overlap = teacher.T @ (spectrum[:, None] * teacher)
    teacher = size * np.linalg.solve(np.linalg.cholesky(overlap), teacher.T).T
    scores = rows @ teacher @ helmert_contrasts(classes).T
    return rows, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
