"""What a reverse diffusion on a line reached: moments on and off the line, and the distance to its law."""

from __future__ import annotations

import numpy as np

from unlazy.observables.transport import distance_to_law
from unlazy.theory.diffusion.wrong_score import LineMixture
from unlazy.training.diffusion.line import off_line, run_on_line


def modes(center: float, separation: float, variance: float) -> LineMixture:
    """Two normals of equal weight at center +- separation, or one if that is 0."""
    if not separation:
        return LineMixture((1.0,), (center,), (variance,))
    return LineMixture((0.5, 0.5), (center - separation, center + separation), (variance,) * 2)


def line_record(
    rng: np.random.Generator,
    times: np.ndarray,
    *,
    center: float,
    separation: float,
    variance: float,
    particles: int,
    d: int,
    scheme: str,
) -> dict[str, float]:
    """Moments of points that are run backwards with the exact score of `modes`, and W1 along the line."""
    noisy, points = run_on_line(rng, modes(center, separation, variance), particles, d, times, scheme)
    along = points[:, 0] - center
    # about a centre at 0 the law is symmetric, and mirrored points keep the modes in balance
    balanced = np.concatenate([along, -along]) if center == 0 else along
    reach = separation + 9 * np.sqrt(variance)
    return {
        "mean_reached": points[:, 0].mean(),
        "variance_reached": points[:, 0].var(),
        "off_plane": off_line(noisy),
        "off_plane_denoised": off_line(points),
        "distance": distance_to_law(balanced, modes(0.0, separation, variance).cdf, -reach, reach),
    }
