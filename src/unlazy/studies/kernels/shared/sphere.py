"""What the studies of regression on the sphere share: targets of known energy per degree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unlazy.training.kernels.ridge import Covariances


def by_degree(products: np.ndarray, d: int, weights: Sequence[float]) -> np.ndarray:
    """sum_k weights[k] q_k(sqrt(d) <x, y>) / sqrt(N_k): a dot-product kernel of these masses, from <x, y>."""
    from unlazy.functions.orthogonal import Gegenbauer

    family = Gegenbauer(d)
    values = family.values(np.sqrt(d) * products, len(weights) - 1)
    scaled = [w / np.sqrt(n) for w, n in zip(weights, family.multiplicities(len(weights) - 1), strict=True)]
    return np.tensordot(scaled, values, axes=1)


def target_covariances(x: np.ndarray, fresh: np.ndarray, energies: Sequence[float]) -> Covariances:
    """The Gaussian process with energy V_k in degree k: a generic function of that energy on the sphere."""
    from unlazy.training.kernels.ridge import Covariances

    d = x.shape[1]
    return Covariances(by_degree(x @ x.T, d, energies), by_degree(fresh @ x.T, d, energies), float(sum(energies)))
