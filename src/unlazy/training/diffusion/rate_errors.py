"""How far fitted splines, kernel densities and the data themselves are from drawn densities, at every sample size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.observables.transport import expected_deviation
from unlazy.theory.diffusion.process import wasserstein_bound
from unlazy.training.diffusion.density_fits import (
    draw_histograms,
    fit_cells,
    kernel_errors,
    rate_cells,
    spline_errors,
    tensor_fits,
)


def total_variations(
    rng: np.random.Generator,
    smoothness: int,
    n: Sequence[int],
    densities: int,
    *,
    cells: tuple[int, ...],
    bandwidths: np.ndarray,
    plane_bins: int,
    plane_factor: float,
) -> dict[str, Any]:
    """Means over densities of the total variation, of splines of degree s and of degree 3, kernels, and in the plane.

    Splines have up to 2 n^(1/3) cells. Where these are chosen by AIC, and for kernels and the bias, the mean is
    geometric: its slope is the mean of the slopes.
    """
    count = len(n)
    masses, truth, counts = draw_histograms(rng, smoothness, n, densities)
    # the exact masses are a histogram too: what is left then is the bias
    most = [round(2 * size ** (1 / 3)) for size in n]
    own = spline_errors(np.concatenate([counts, masses[:, None]], axis=1), truth, cells, smoothness, [*most, np.inf])
    cubic = own if smoothness == 3 else spline_errors(counts, truth, cells, 3, most)
    error, aic = (np.stack([a[:, :count], b[:, :count]]) for a, b in zip(own, cubic, strict=True))
    best = aic.argmin(axis=-1)
    chosen = np.take_along_axis(error, best[..., None], axis=-1)[..., 0]
    kernel = [kernel_errors(c, p, bandwidths) for c, p in zip(counts, truth, strict=True)]
    plane = tensor_fits(rng, smoothness, n, 2, plane_bins, plane_factor)
    basis = np.array(cells)[best] + np.array([smoothness, 3])[:, None, None]
    return {
        "spline_error": error.mean(axis=1),
        "aic_error": geometric_mean(chosen, axis=1),
        "aic_basis": geometric_mean(basis, axis=1),
        "kernel_density_error": geometric_mean(kernel, axis=0),
        "bias_error": geometric_mean(own.error[:, -1], axis=0),
        "plane_error": [np.abs(found - p).sum() / 2 for p, found, _ in plane],
    }


def line_distances(rng: np.random.Generator, smoothness: int, n: Sequence[int], densities: int) -> np.ndarray:
    """W1 = int |F - F_hat| of the spline with s n^(1/(2s+1)) cells and of the data, (densities, 2, n).

    That of the data is its exact mean; their own distance is a control variate of the spline's.
    """
    s = smoothness
    masses, _, counts = draw_histograms(rng, s, n, densities)
    splines = [fit_cells(counts[:, i], rate_cells(size, s, 1, s), s).masses for i, size in enumerate(n)]
    found = np.stack([np.stack(splines, axis=1), counts / counts.sum(axis=2, keepdims=True)])
    law = masses.cumsum(axis=1)[:, None]
    spline, drawn = 2 * np.abs(found.cumsum(axis=3) - law).mean(axis=3)
    expected = 2 * expected_deviation(np.array(n)[:, None], np.clip(law, 0, 1)).mean(axis=2)
    return np.stack([spline - drawn + expected, expected], axis=1)


def cube_bounds(
    rng: np.random.Generator, smoothness: int, n: Sequence[int], densities: int, resolution: int, factor: float
) -> np.ndarray:
    """The dyadic bounds of W1 of the spline and of the data in a cube, (densities, 2, n)."""
    bounds = []
    for _ in range(densities):
        fits = tensor_fits(rng, smoothness, n, 3, resolution, factor, merged=2)
        bounds.append([[wasserstein_bound(q / q.sum(), p) for q in found] for p, *found in fits])
    return np.array(bounds).transpose(0, 2, 1)


def geometric_mean(values: Any, axis: int) -> np.ndarray:
    """exp of the mean logarithm."""
    return np.exp(np.log(values).mean(axis=axis))
