"""The share of training rows that a fit of softmax regression gets right.

A row of class k whose score without its own pull is omega ends at the proximal point p, and is right if p lies in the
cone of class k: all margins u_j = p_k - p_j of its scores are positive. As omega = p - V g(p) is smooth and invertible,
the image of the cone has smooth faces u_j = 0, and its chance under a normal law is a flux through them: an integral in
one dimension less without a kink.
"""

from __future__ import annotations

import numpy as np

from unlazy.numerics.quadrature import panels
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.multiclass.nodes import sobol
from unlazy.theory.message_passing.multiclass.prox import root, softmax_prox

_REACH = 9.0
# margins beyond this have no curvature left
_FLAT = 40.0
_MOST_PANELS = 120
_LOST = 1e-5
_SOBOL = 14
_RULES = {0: (1, 1.0), 1: (8, 1.0), 2: (4, 2.0)}
"""Nodes of a Gauss-Legendre panel and its width, in standard deviations and in margins, by the dimension of a face."""


def right_chance(
    basis: np.ndarray, label: int, response: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> float:
    """P(the proximal point of omega ~ N(mean, Q) has its largest score at `label`).

    For r <= 3 by `flux_chance`; beyond, and where its panels do not suffice (r = 3 with very large responses or very
    small scores), as a share of 16384 Sobol points, which errs by 1e-3.
    """
    r = basis.shape[1]
    if r <= 3:
        try:
            return float(flux_chance(basis, label, response, mean[None], covariance)[0])
        except ConvergenceError:
            pass
    nodes, weights = sobol(r, _SOBOL)
    point = softmax_prox(basis, label, mean[:, None] + root(covariance) @ nodes, root(response)).point
    return float(weights @ ((basis @ point).argmax(axis=0) == label))


def flux_chance(
    basis: np.ndarray, label: int, response: np.ndarray, means: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    """`right_chance` for means (T, r) and r <= 3.

    With eta = O^T Q^(-1/2) omega and the first axis of the rotation O inside of the cone,

        P = sum_j int_{u_j = 0} (1 - Phi(eta_1)) phi(eta_2) ... phi(eta_r) |d(eta_2, ..., eta_r)/du|,

    where the last factor is signed. Exact to about 1e-10 for r <= 2 and 1e-5 for r = 3.
    """
    from scipy.special import ndtr

    r = basis.shape[1]
    sides = np.delete(basis[label] - basis, label, axis=0)
    edges = np.linalg.inv(sides)
    values, vectors = np.linalg.eigh(covariance)
    deviations = np.sqrt(np.maximum(values, 1e-13 * values[-1] + 1e-24))
    whiten = (vectors / deviations).T
    rays = whiten @ edges
    inner = (rays / np.linalg.norm(rays, axis=0)).sum(axis=1)
    frame = np.linalg.qr(np.column_stack([inner, np.eye(r)]))[0]
    frame[:, 0] *= np.sign(frame[:, 0] @ inner)
    turn = frame.T @ whiten
    centers = means @ turn.T
    sign = np.sign(np.linalg.det(turn @ edges))
    order, width = _RULES[r - 1]
    for refinement in range(2):
        total, lines = np.zeros(len(means)), np.zeros(len(means))
        for face in range(r):
            margins, weights = _face_nodes(
                face, edges, response, basis, label, turn, centers, order, width / 2**refinement
            )
            omega, slope = _unpulled(margins, edges, response, basis, label)
            eta = turn @ omega
            minors = np.einsum("ab,bcn->nac", turn[1:], np.delete(slope, face, axis=1))
            flux = (-1) ** face * sign * weights * np.linalg.det(minors)
            for first in range(0, len(means), 64):
                off = eta[:, None] - centers[first : first + 64].T[:, :, None]
                density = np.exp(-(off[1:] ** 2).sum(axis=0) / 2) / (2 * np.pi) ** ((r - 1) / 2)
                total[first : first + 64] += (ndtr(-off[0]) * density) @ flux
                lines[first : first + 64] += density @ flux
        # every line along the first axis enters the image of the cone once
        lost = np.abs(lines - 1).max()
        if lost < _LOST:
            return np.clip(total, 0.0, 1.0)
    raise ConvergenceError(f"the training error of {r + 1} classes misses {lost:.2g} of the normal law")


def _unpulled(
    margins: np.ndarray, edges: np.ndarray, response: np.ndarray, basis: np.ndarray, label: int
) -> tuple[np.ndarray, np.ndarray]:
    """omega = p - V g(p) (r, N) and d omega/du = (I + V H) dp/du (r, r, N) at margins u (r, N)."""
    weights = np.insert(np.exp(-margins), label, 1.0, axis=0)
    shares = weights / weights.sum(axis=0)
    mean = basis.T @ shares
    hessian = np.einsum("ka,kb,kn->abn", basis, basis, shares, optimize=True) - mean[:, None] * mean[None]
    moved = edges[:, :, None] + np.einsum("ab,bcn,cd->adn", response, hessian, edges, optimize=True)
    return edges @ margins - response @ (basis[label][:, None] - mean), moved


def _face_nodes(
    face: int,
    edges: np.ndarray,
    response: np.ndarray,
    basis: np.ndarray,
    label: int,
    turn: np.ndarray,
    centers: np.ndarray,
    order: int,
    width: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Margins (r, N) on the face u_face = 0 and their weights, in panels short where omega moves fast."""
    r = len(edges)
    low, high = centers.min(axis=0) - _REACH, centers.max(axis=0) + _REACH
    # beyond `far` every score is out of reach: the pull is at most sqrt 2
    size = np.abs(np.linalg.solve(turn, np.diag(np.maximum(np.abs(low), np.abs(high))))).sum()
    far = 2 * np.linalg.norm(np.linalg.inv(edges), 2) * (size + 2 * np.linalg.norm(response, 2)) + _FLAT
    near = min(1e-6 * far, 1e-2 / np.linalg.norm(turn, 2) / (1 + np.linalg.norm(response, 2)))
    line = np.append(0.0, np.geomspace(1e-3 * near, far, 4000 if r == 2 else 800))
    rests = np.append(0.0, np.geomspace(near, far, 60)) if r == 3 else np.zeros(1)
    lines, line_weights = [np.zeros(1)] * r, [np.ones(1)] * r
    for axis in range(r):
        if axis == face:
            continue
        margins = np.tile(np.repeat(rests, len(line)), (r, 1))
        margins[face], margins[axis] = 0.0, np.tile(line, len(rests))
        eta = turn @ _unpulled(margins, edges, response, basis, label)[0]
        seen = np.clip(eta, low[:, None], high[:, None]).reshape(r, len(rests), len(line))
        moves = np.abs(np.diff(seen, axis=2)).sum(axis=0).max(axis=0)
        # the logarithm, so that no panel reaches from the scale of small scores to that of softmax
        moves += np.diff(np.minimum(line, _FLAT)) + np.diff(np.log(line + near))
        length = np.append(0.0, np.cumsum(moves)) / width
        # a last panel without motion carries nothing
        count = min(int(np.ceil(length[-1])), _MOST_PANELS)
        cuts = np.interp(np.linspace(0.0, length[-1], count + 1), length, line)
        lines[axis], line_weights[axis] = panels(cuts, order)
    margins = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(r, -1)
    weights = np.prod(np.meshgrid(*line_weights, indexing="ij"), axis=0).ravel()
    return margins, weights
