"""State evolution of linear classifiers on Gaussian clusters: errors of convex fits without drawing data.

The estimator minimises sum_i loss(y_i, w.x_i + b) + (penalty/2) |w|^2, a SUM over the n samples; the bias b is not
penalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_flag, common_shape
from unlazy.numerics.fixed_points import along_the_ridge, fixed_points
from unlazy.numerics.margin_losses import LOSSES, loss_of
from unlazy.theory.message_passing.state_evolution.clusters import GaussianClusters, check_clusters, on_support
from unlazy.theory.message_passing.state_evolution.hinge import ignored_cases
from unlazy.theory.message_passing.state_evolution.mixture_equations import (
    Response,
    bias_of,
    fields_of,
    hats_of,
    response_of,
    state_of,
    unknowns_of,
)
from unlazy.theory.message_passing.state_evolution.nodes import plain_nodes

_FIRST_VARIANCE = 1e4
_FIRST_NORM = 1e-12
_TINY = 1e-290


class MixtureStateEvolution(NamedTuple):
    """Limits of the fit; arrays have the broadcast shape of n and penalty, the first three a last axis of clusters."""

    response: np.ndarray
    """V_c; infinite where the square loss interpolates without penalty, NaN where w = 0."""
    overlap: np.ndarray
    """M_c = mu_c.w, without the bias."""
    norm: np.ndarray
    """Q_c = w.Sigma_c.w, the variance of the score in cluster c."""
    bias: np.ndarray
    """b, 0 for a fit without bias."""
    test_error: np.ndarray
    """P(y (w.x + b) < 0) of a new sample."""
    test_loss: np.ndarray
    """Mean loss of a new sample."""
    training_error: np.ndarray
    """Share of wrong signs on the training samples."""
    training_loss: np.ndarray
    """Mean loss on the training samples, without the penalty."""
    stability: np.ndarray
    """The factor by which message passing contracts, the largest eigenvalue of the clusters' matrix; below 1.

    NaN where w = 0.
    """


def mixture_state_evolution(
    means: ArrayLike,
    covariances: ArrayLike,
    cluster_probabilities: ArrayLike,
    cluster_labels: ArrayLike,
    n: ArrayLike,
    penalty: ArrayLike,
    *,
    loss: str = "logistic",
    fit_intercept: bool = True,
) -> MixtureStateEvolution:
    """Training and test error of a convex linear classifier on Gaussian clusters, without drawing data.

    Cluster c has mean mu_c (rows of `means`, (C, d)), covariance Sigma_c (`covariances`: a number s for s I, (C, d)
    diagonals, or (C, d, d)), probability p_c and label y_c = -1 or 1, which several clusters may share. With scores
    z_c = M_c + b + sqrt(Q_c) xi and g, dg of the loss at (y_c, z_c, V_c),

        Vh_c = -n p_c E dg,     qh_c = n p_c E g^2,     mh_c = n p_c E g,       sum_c mh_c = 0 (with `fit_intercept`),
        A = (penalty + sum_c Vh_c Sigma_c)^-1,        w = A sum_c mu_c mh_c,
        V_c = tr(Sigma_c A),   M_c = mu_c.w,   Q_c = w.Sigma_c.w + tr(Sigma_c A (sum_e qh_e Sigma_e) A),
        stability = spectral radius of tr(Sigma_c A Sigma_e A) n p_e E_e dg^2.

    The iteration treats the means semi-implicitly, w = (A^-1 + sum_c Vh_c mu_c mu_c^T)^-1 sum_c mu_c (mh_c + Vh_c M_c):
    the plain one ends in two-cycles for well separated clusters. n and penalty broadcast. Means must be comparable with
    the noise of one coordinate: |mu| = 1 with Sigma = I/d is perfectly separable.

    Exact as n and d grow at a fixed ratio for Gaussian clusters; real data are not such clusters. penalty must be > 0,
    except for the square loss, where 0 is the limit from above and n must differ from the rank of the covariances. A
    case that does not converge raises `ConvergenceError`. The hinge loss with bias ignores the smaller class where the
    classes are unequal and weakly separated, whatever the penalty is: then w = 0 and b = 1 or -1 minimise the training
    loss, the errors are the share of the smaller class, the losses twice that, and V and the stability, which have no
    limit, are NaN. Source: Loureiro, Sicuro, Gerbelot, Pacco, Krzakala & Zdeborova (2021), "Learning Gaussian mixtures
    with generalised linear models".

    >>> found = mixture_state_evolution(means=[[0.3, 0], [-0.3, 0]], covariances=0.1, cluster_probabilities=[0.7, 0.3],
    ...     cluster_labels=[1, -1], n=[10, 100], penalty=1, loss="logistic", fit_intercept=True)
    >>> print(found.test_error.round(4), found.bias.round(4))
    [0.2831 0.1593] [0.7759 0.7418]
    """
    check_choice("loss", loss, LOSSES)
    bias = check_flag("fit_intercept", fit_intercept)
    clusters = check_clusters(means, covariances, cluster_probabilities, cluster_labels)
    n, penalty = check_array("n", n, low=1, high=1e100), check_array("penalty", penalty, low=0, high=1e100)
    shape = common_shape(n=n, penalty=penalty)
    n, penalty = (np.broadcast_to(array, shape).ravel() for array in (n, penalty))
    interpolates = np.zeros(n.size, bool)
    if (penalty == 0).any():
        if loss != "square":
            raise InputError(f"penalty must be > 0 for the {loss} loss (separable data: no solution without it), got 0")
        clusters, interpolates = _without_penalty(clusters, n, penalty)
    # an interpolator is the limit of V = V'/penalty, which the same equations with 1 + V = V' have at any penalty
    scale = np.where(interpolates, clusters.traces.mean(), penalty)
    unit = np.where(interpolates, 0.0, 1.0)
    respond, count = response_of(clusters), len(clusters.labels)

    def solve(n: np.ndarray, penalty: np.ndarray, start: np.ndarray, unit: np.ndarray) -> np.ndarray:
        offset = np.zeros(n.size)

        def step(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            variance, mean, norm = state_of(x)
            seen = variance - (1 - unit[rows, None])
            if bias:
                offset[rows] = bias_of(loss, clusters, n[rows], seen, mean, norm, offset[rows])
            fields = fields_of(loss, clusters, seen, mean, norm, offset[rows])
            hats = hats_of(fields, clusters, n[rows])
            found = respond(clusters, penalty[rows], *hats, mean, bias)
            return unknowns_of(found.variance, found.mean, found.norm)

        return fixed_points(step, start, lambda row: f"n = {n[row]:g}, penalty = {penalty[row] * unit[row]:g}", depth=6)

    start = np.zeros((n.size, 3 * count))
    with np.errstate(divide="ignore"):
        start[:, :count] = np.log(np.clip(clusters.traces / scale[:, None], _TINY, _FIRST_VARIANCE))
    start[:, 2 * count :] = np.log(_FIRST_NORM)
    if loss == "hinge" and bias:
        ignored, x = ignored_cases(clusters, n, penalty, start, lambda n, r, x: solve(n, r, x, np.ones(n.size)))
    else:
        ignored = np.zeros(n.size, bool)
        x = along_the_ridge(solve, n, scale, start, clusters.large_penalty(n), unit)
    found = _summary(loss, clusters, n, scale, respond, state_of(x), bias, unit)
    found = _interpolated(found, interpolates)
    found = _with_ignored(found, clusters, ignored)
    return MixtureStateEvolution(
        *(field.reshape(*shape, count) for field in found[:3]),
        *(field.reshape(shape)[()] for field in found[3:]),
    )


def _without_penalty(
    clusters: GaussianClusters, n: np.ndarray, penalty: np.ndarray
) -> tuple[GaussianClusters, np.ndarray]:
    """The clusters where they have variance, and which cases have no penalty and fewer samples than directions."""
    support, rank, spanned = on_support(clusters)
    if ((penalty == 0) & (n == rank)).any():
        raise InputError(f"penalty must be > 0 where n = rank = {rank} (V diverges there), got 0")
    if spanned:
        clusters = support
    elif ((penalty == 0) & (n > rank)).any():
        raise InputError("penalty must be > 0 where means differ from 0 in directions without any variance, got 0")
    return clusters, (penalty == 0) & (n < rank)


def _interpolated(found: MixtureStateEvolution, rows: np.ndarray) -> MixtureStateEvolution:
    if not rows.any():
        return found
    return found._replace(
        response=np.where(rows[:, None], np.inf, found.response),
        training_error=np.where(rows, 0.0, found.training_error),
        training_loss=np.where(rows, 0.0, found.training_loss),
    )


def _with_ignored(found: MixtureStateEvolution, clusters: GaussianClusters, rows: np.ndarray) -> MixtureStateEvolution:
    """The same with the limits of fits that ignore the smaller class, at which the equations are singular."""
    if not rows.any():
        return found
    balance = float(clusters.labels @ clusters.probabilities)
    share = (1 - abs(balance)) / 2
    limits = (np.nan, 0.0, 0.0, np.sign(balance), share, 2 * share, share, 2 * share, np.nan)
    return MixtureStateEvolution(
        *(
            np.where(rows[:, None] if field.ndim == 2 else rows, limit, field)
            for field, limit in zip(found, limits, strict=True)
        )
    )


def _summary(
    loss: str,
    clusters: GaussianClusters,
    n: np.ndarray,
    penalty: np.ndarray,
    respond: Callable[..., Response],
    state: tuple[np.ndarray, np.ndarray, np.ndarray],
    bias: bool,
    unit: np.ndarray,
) -> MixtureStateEvolution:
    from scipy.special import ndtr

    variance, mean, norm = state
    seen = variance - (1 - unit[:, None])
    offset = bias_of(loss, clusters, n, seen, mean, norm, np.zeros(n.size)) if bias else np.zeros(n.size)
    fields = fields_of(loss, clusters, seen, mean, norm, offset)
    pairs = respond(clusters, penalty, *hats_of(fields, clusters, n), mean, bias).pairs
    of_loss, probabilities = loss_of(loss), clusters.probabilities
    slope_square, training_loss = (
        average.reshape(mean.shape) for average in fields.average(fields.decrease**2, of_loss.value(fields.margin))
    )
    stability = np.abs(np.linalg.eigvals(pairs * (n[:, None] * probabilities * slope_square)[:, None, :])).max(axis=1)
    location, deviation = clusters.labels * (mean + offset[:, None]), np.sqrt(norm)
    plain = plain_nodes(location.ravel(), deviation.ravel(), np.ones((location.size, 1)))
    test_loss = plain.average(of_loss.value(plain.field))[0].reshape(mean.shape)
    return MixtureStateEvolution(
        variance,
        mean,
        norm,
        offset,
        ndtr(-location / deviation) @ probabilities,
        test_loss @ probabilities,
        ndtr((-variance * of_loss.pull - location) / deviation) @ probabilities,
        training_loss @ probabilities,
        stability,
    )
