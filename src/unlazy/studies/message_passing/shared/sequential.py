"""What the studies of random sequential message passing share: ensembles by name, matched temperature, instances."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.theory.message_passing.sequential.inference import (
    CovarianceEnsemble,
    StaticSolution,
    at_line,
    row_orthogonal_ensemble,
    static_solution,
    wishart_ensemble,
)

ENSEMBLES = ("wishart", "row-orthogonal")


def ensemble(name: str, alpha: float) -> CovarianceEnsemble:
    """The ensemble called `name` at aspect ratio alpha."""
    return (wishart_ensemble if name == "wishart" else row_orthogonal_ensemble)(alpha)


def matched_beta(flip: float) -> float:
    """The inverse temperature at which the student knows the teacher's noise."""
    return math.log((1 - flip) / flip)


def draw(rng: np.random.Generator, spectra: CovarianceEnsemble, size: int, flip: float) -> Any:
    """An instance with the fast rotation."""
    from unlazy.training.message_passing.sequential import draw_instance, fast_rotation, quantiles

    student, teacher = quantiles(spectra, size)
    return draw_instance(rng, fast_rotation(rng, size), student, teacher, flip)


@cache
def students_at_line(name: str, alpha: float, flip: float, cooling: tuple[float, ...]) -> tuple[StaticSolution, ...]:
    """Static solutions at multiples of the inverse temperature of the AT line."""
    spectra = ensemble(name, alpha)
    line = at_line(spectra, flip)
    if not math.isfinite(line):
        raise InputError(
            f"alpha = {alpha:g}, flip = {flip:g} have no AT line up to beta = 246: the factor stays below 1"
        )
    return tuple(static_solution(spectra, ratio * line, flip) for ratio in cooling)
