"""How training has changed the weights of a layer: its size, and how much of it stands out of the noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole

LEAST_WIDTH = 40
"""Rows and columns from which on the singular values of random weights have a sharp edge."""


class OutlierShare(NamedTuple):
    """How much of a layer's change stands out of the noise of its weights."""

    share: float
    """Of |W - W0|^2, from 0 to 1; NaN if nothing changed."""
    outliers: int
    """Singular values of W above the edge."""
    edge: float
    """The largest singular value of all shuffled copies of W."""


def frobenius_change(initial: ArrayLike, final: ArrayLike) -> float:
    """The relative change |W - W0|_F / |W0|_F of weights of any shape; infinite if W0 = 0 and W is not."""
    start, end = _pair(initial, final)
    change, size = np.linalg.norm(end - start), np.linalg.norm(start)
    return float(change / size) if size > 0 else (np.inf if change > 0 else 0.0)


def outlier_share(initial: ArrayLike, final: ArrayLike, *, permutations: int = 19, seed: int = 0) -> OutlierShare:
    """The share of a layer's change that lies along those singular directions of its weights that are no noise.

    With U, V the left and right singular vectors of the weights W, less their mean, whose singular values exceed those
    of all `permutations` copies of W with shuffled entries,

        share = |U^T (W - W0) V|_F^2 / |W - W0|_F^2.

    Shuffling keeps the entries and forgets where they stand, so that the scale of W does not matter, nor the law of its
    entries: of independent entries at most one matrix in permutations + 1 has an outlier. In the lazy limit every
    weight changes by less than the noise of the initial ones can show, and the share is 0. A change by one direction,
    W - W0 = theta u v^T, is seen once theta exceeds the threshold of Baik, Ben Arous & Péché (2005), sigma (n m)^(1/4)
    for n x m weights of standard deviation sigma; the share is then the product of the squared overlaps of u and v with
    the singular vectors (Benaych-Georges & Nadakuditi 2012). Weights (outputs, inputs, ...) of a convolution are read
    as a matrix (outputs, rest). Both sides must be at least 40 wide: of narrower ones edge and outliers are not told
    apart.
    """
    start, end = _pair(initial, final)
    if start.ndim < 2:
        raise InputError(f"initial must be weights (outputs, inputs, ...), got shape {start.shape}")
    start, end = (weights.reshape(len(weights), -1) for weights in (start, end))
    if min(start.shape) < LEAST_WIDTH:
        raise InputError(f"initial must be at least {LEAST_WIDTH} wide on both sides, got {start.shape}")
    copies = check_whole("permutations", permutations, 1)
    change = end - start
    energy = float(np.sum(change**2))
    centred = end - end.mean()
    rng = np.random.default_rng(seed)
    edge = max(_largest_singular_value(rng.permuted(centred.ravel()).reshape(end.shape), rng) for _ in range(copies))
    left, right = _above(centred, edge)
    along = float(np.sum((left.T @ change @ right) ** 2))
    return OutlierShare(along / energy if energy > 0 else np.nan, left.shape[1], edge)


def _pair(initial: ArrayLike, final: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    start, end = check_array("initial", initial), check_array("final", final)
    if start.shape != end.shape:
        raise InputError(f"final must have shape {start.shape} like initial, got {end.shape}")
    return start, end


def _largest_singular_value(matrix: np.ndarray, rng: np.random.Generator) -> float:
    from scipy.sparse.linalg import svds

    if not matrix.any():
        return 0.0
    start = rng.standard_normal(min(matrix.shape))
    return float(svds(matrix, k=1, v0=start, return_singular_vectors=False)[0])


def _above(matrix: np.ndarray, edge: float) -> tuple[np.ndarray, np.ndarray]:
    """Left and right singular vectors (n, outliers), (m, outliers) of the singular values above the edge."""
    from scipy.linalg import eigh

    wide = matrix.shape[0] <= matrix.shape[1]
    gram = matrix @ matrix.T if wide else matrix.T @ matrix
    squares, vectors = eigh(gram, subset_by_value=(edge**2 * (1 + 1e-12), np.inf))
    others = (matrix.T if wide else matrix) @ vectors / np.sqrt(squares)
    return (vectors, others) if wide else (others, vectors)
