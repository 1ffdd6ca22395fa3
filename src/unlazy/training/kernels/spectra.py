"""The eigenvalues of a drawn kernel matrix, next to laws of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.theory.kernels.spectrum import KernelSpectrum


def spectrum_record(values: np.ndarray, finite: KernelSpectrum, limit: KernelSpectrum) -> dict[str, Any]:
    """Kolmogorov distances to two laws and to the semicircle of this variance, and the eigenvalues above the first gap.

    `outside` is how far the outliers are from the bands of the finite-size law, relative to their size.
    """
    edges = finite.edges
    gap = edges[0, 1] + (edges[1, 0] - edges[0, 1]) / 2 if len(edges) > 1 else np.inf
    high = values[values > gap]
    # 0 inside a band, else the distance to the nearest edge
    beyond = np.maximum(edges[:, 0] - high[:, None], high[:, None] - edges[:, 1]).min(axis=1, initial=np.inf)
    return {
        "finite_distance": finite.distance(values),
        "limit_distance": limit.distance(values),
        "semicircle_distance": KernelSpectrum([float(np.mean(values**2))], [0.0]).distance(values),
        "outliers": float(high.size),
        "outside": float(np.max(np.maximum(beyond, 0.0) / high, initial=0.0)),
    }
