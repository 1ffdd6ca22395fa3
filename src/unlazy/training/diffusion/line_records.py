"""What a reverse diffusion on a line reached: moments on and off the line, and the distance to its law."""

from __future__ import annotations

import numpy as np

from unlazy.observables.transport import distance_to_law
from unlazy.theory.diffusion.wrong_score import LineMixture
from unlazy.training.diffusion.line import off_line, run_on_line


def modes(data_mean: float, mode_separation: float, mode_variance: float) -> LineMixture:
    """Two normals of equal weight at data_mean +- mode_separation, or one if that is 0."""
    if not mode_separation:
        return LineMixture((1.0,), (data_mean,), (mode_variance,))
    ends = (data_mean - mode_separation, data_mean + mode_separation)
    return LineMixture((0.5, 0.5), ends, (mode_variance,) * 2)


def line_record(
    rng: np.random.Generator,
    times: np.ndarray,
    *,
    data_mean: float,
    mode_separation: float,
    mode_variance: float,
    particles: int,
    d: int,
    scheme: str,
) -> dict[str, float]:
    """Moments of points that are run backwards with the exact score of `modes`, and W1 along the line."""
    noisy, points = run_on_line(rng, modes(data_mean, mode_separation, mode_variance), particles, d, times, scheme)
    along = points[:, 0] - data_mean
    # about a mean of 0 the law is symmetric, and mirrored points keep the modes in balance
    balanced = np.concatenate([along, -along]) if data_mean == 0 else along
    reach = mode_separation + 9 * np.sqrt(mode_variance)
    return {
        "mean_reached": points[:, 0].mean(),
        "variance_reached": points[:, 0].var(),
        "off_plane": off_line(noisy),
        "off_plane_denoised": off_line(points),
        "line_distance": distance_to_law(balanced, modes(0.0, mode_separation, mode_variance).cdf, -reach, reach),
    }
