"""One gradient step on the first layer of a two-layer network, at step sizes that stay of order 1.

    labels    y = g(x.beta) + noise, x ~ N(0, I_d), |beta| = 1, centred (E y = 0)
    network   f(x) = N^(-1/2) a.sigma(W^T x), W_ij ~ N(0, 1/d), a_i ~ N(0, 1/N)
    step      W1 = W0 + step_size sqrt(N) G, G = minus the gradient of the HALF mean squared error of n0 samples
    readout   b minimises (1/n)|y - F b|^2 + ridge |b|^2 with F = sigma(X W1) on n FRESH samples

So `ridge` is alpha / n in scikit-learn's `Ridge`, and the ridge of papers that write F/sqrt(N) and (ridge/N)|a|^2.
Ratios: psi0 = n0/d (`step_samples_per_dimension`), psi1 = n/d (`samples_per_dimension`) and psi2 = N/d
(`width_per_dimension`).
`activation` (sigma) and `link` (g) are names, `Link`s, functions, or their moments. Step sizes of order
sqrt(N) are the subject of `unlazy.theory.one_step.spiked.features`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.numerics.roots import increasing_root
from unlazy.theory.one_step.moments import (
    LARGEST,
    ROUNDING,
    VANISHING,
    activation_moments,
    at_limits,
    check_ratio,
    link_moments,
    wishart_resolvent,
)

# what is left of 0 and of 1 over infinity at their limits
_NOTHING = 1e-40


class RankOneStep(NamedTuple):
    """W1 = W0 + spike u a^T, u and a unit vectors; every field has the broadcast shape of the arguments."""

    displacement: np.ndarray
    """The Frobenius norm of W1 - W0."""
    spike: np.ndarray
    """theta, the operator norm of W1 - W0."""
    aligned_spike: np.ndarray
    """theta1 = eta mu1 b1, its part along beta."""
    cosine: np.ndarray
    """zeta, the cosine of the gradient with beta."""
    singular_value: np.ndarray
    """The largest singular value of W1."""
    alignment: np.ndarray
    """The squared cosine of the leading left singular vector of W1 with beta; 0 without an outlier."""
    kernel_alignment_growth: np.ndarray
    """E[y y' phi.phi'] after the step over that before it, (psi2 + theta1^2) / psi2."""


class Outlier(NamedTuple):
    """The largest singular value of a spiked Gaussian matrix, and the squared cosine of its left singular vector."""

    singular_value: np.ndarray
    alignment: np.ndarray


class OneStepRisk(NamedTuple):
    """Every field has the broadcast shape of the arguments."""

    effective_ridge: np.ndarray
    """kappa."""
    risk: np.ndarray
    """E (f_hat - g)^2."""
    test_error: np.ndarray
    """risk + noise_variance."""
    training_error: np.ndarray
    """Mean squared residual, (ridge / kappa)^2 test_error."""


def rank_one_step(
    activation: Any,
    link: Any,
    step_samples_per_dimension: ArrayLike,
    width_per_dimension: ArrayLike,
    step_size: ArrayLike,
    noise_variance: ArrayLike,
) -> RankOneStep:
    """How far one gradient step moves the first layer, and the outlier that it leaves in its singular values.

        theta1 = eta mu1 b1,    theta^2 = eta^2 mu1^2 (b1^2 + E y^2 / psi0),    zeta = b1 / sqrt(b1^2 + E y^2 / psi0),
        |W1 - W0|_F^2 = eta^2 (mu1^2 b1^2 + E y^2 E sigma'^2 / psi0)

    and `spiked_outlier` of theta. Exact as n0, d and N grow in proportion at eta = O(1), where the gradient is
    mu1 X^T y a^T / (n0 sqrt(N)) up to a part whose operator norm (not Frobenius norm) vanishes like n0^(-1/2). Ba,
    Erdogdu, Suzuki, Wang, Wu & Yang (2022), Proposition 2 and Theorem 3. At d = 200 the alignment of an actual step
    is about 0.03 higher, because the residual contains -f(x); a step on y itself has no such bias.

    >>> found = rank_one_step(
    ...     "erf", "erf", step_samples_per_dimension=4, width_per_dimension=2, step_size=[2, 4, 8], noise_variance=0.01
    ... )
    >>> print(found.alignment)
    [0. 0.5244 0.7252]
    """
    moments, target = activation_moments(activation), link_moments(link)
    slope = moments.slope_square()
    eta = check_array("step_size", step_size, low=0, high=LARGEST)
    psi0, psi2 = (
        check_ratio("step_samples_per_dimension", step_samples_per_dimension),
        check_ratio("width_per_dimension", width_per_dimension),
    )
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    shape = common_shape(step_size=eta, step_samples_per_dimension=psi0, width_per_dimension=psi2, noise_variance=noise)
    spread = (target.variance + noise) / psi0
    theta1 = eta * moments.linear * target.linear
    theta = eta * abs(moments.linear) * np.sqrt(target.linear**2 + spread)
    displacement = eta * np.sqrt((moments.linear * target.linear) ** 2 + spread * slope)
    singular_value, alignment = _outlier(theta1, theta, psi2)
    fields = (
        displacement,
        theta,
        theta1,
        gradient_cosine(target, psi0, noise),
        singular_value,
        alignment,
        1 + (theta1 / np.sqrt(psi2)) ** 2,
    )
    return RankOneStep(*(np.broadcast_to(field, shape).copy()[()] for field in fields))


def gradient_cosine(link: Any, step_samples_per_dimension: ArrayLike, noise_variance: ArrayLike) -> Any:
    """zeta = b1 / sqrt(b1^2 + E y^2 / psi0), the cosine of X^T y with beta on n0 = psi0 d samples.

    Exact as n0 and d grow in proportion. Ba et al. (2022); Dandi et al. (2024).

    >>> print(gradient_cosine("erf", step_samples_per_dimension=[1, 4, 16], noise_variance=0.01))
    [0.6871 0.884 0.9668]
    """
    target = link_moments(link)
    psi0 = check_ratio("step_samples_per_dimension", step_samples_per_dimension)
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    common_shape(step_samples_per_dimension=psi0, noise_variance=noise)
    total = target.linear**2 + (target.variance + noise) / psi0
    if not (total > 0).all():
        raise InputError("link must not be constant without noise: the labels are 0 and there is no gradient")
    return (target.linear / np.sqrt(total))[()]


def spiked_outlier(aligned_spike: ArrayLike, spike: ArrayLike, width_per_dimension: ArrayLike) -> Outlier:
    """The largest singular value of W0 + theta u a^T and (u1.beta)^2 of its left vector, for u.beta = theta1/theta.

        s1^2 = (1 + theta^2) (psi2 + theta^2) / theta^2,
        (u1.beta)^2 = (theta1/theta)^2 [1 - (psi2 + theta^2) / (theta^2 (1 + theta^2))]       if theta^4 > psi2,

    else s1 = 1 + sqrt(psi2) and 0; width_per_dimension may be inf. W0 is d x N with entries N(0, 1/d), u and a are unit
    vectors independent of it. Benaych-Georges & Nadakuditi (2012).

    >>> print(spiked_outlier(aligned_spike=[0.9, 1.8], spike=[1, 2], width_per_dimension=2).singular_value)
    [2.414 2.739]
    """
    theta1, theta = check_array("aligned_spike", aligned_spike), check_array("spike", spike, low=0, high=LARGEST)
    psi2 = check_ratio("width_per_dimension", width_per_dimension)
    shape = common_shape(aligned_spike=theta1, spike=theta, width_per_dimension=psi2)
    if (np.abs(theta1) > theta * (1 + 1e-12)).any():
        raise InputError("aligned_spike must not exceed spike in absolute value")
    return Outlier(*(np.broadcast_to(field, shape).copy()[()] for field in _outlier(theta1, theta, psi2)))


def one_step_risk(
    activation: Any,
    link: Any,
    samples_per_dimension: ArrayLike,
    width_per_dimension: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    step_size: ArrayLike = 0.0,
    step_samples_per_dimension: ArrayLike | None = None,
) -> OneStepRisk:
    """Ridge regression on the features after one gradient step of size O(1), and random features at step size 0.

        ridge = kappa [1 - (psi2/psi1) (1 - kappa s)],      s = u(t) / (psi2 mu1^2),     t = (mu*^2 + kappa) / mu1^2,
        q(t) = t m [1 - theta1^2 m / (1 + (1 + theta^2) m)],         gamma = (psi2/psi1) (1 - 2 kappa s + kappa^2 s2),
        test error = [b1^2 (q - (kappa/mu1^2) q') + noise + |P_{>1} g|^2] / (1 - gamma)

    with m, u of `wishart_resolvent`, s2 = -ds/dkappa and the spike of `rank_one_step`. n0 = n unless
    `step_samples_per_dimension` is given; the readout sees fresh samples. The risk falls with step_size and saturates,
    but never below |P_{>1} g|^2. Activations with mu0 != 0 have a free intercept; centre the labels otherwise.

    Computed as sums of positive terms, to some 1e-13 for ratios from 1e-40 to 1e40. Ridge 0 is the limit from above:
    least squares, or the interpolator of least norm; where samples and features (for a linear activation: or
    dimensions) are equally many, the risk is infinite unless nothing is missed. width_per_dimension = inf is the
    kernel, at any ridge (a fixed ridge per feature is none for the kernel) with an infinite effective ridge unless the
    samples determine the readout; samples_per_dimension = inf is the best readout. Not both.

    Exact as n0, n, d and N grow in proportion at step_size = O(1). Ba et al. (2022), Theorem 5; Mei & Montanari
    (2022) at step_size 0, whose ridge is ridge / psi2.

    >>> found = one_step_risk(
    ...     "erf", "erf", 3, width_per_dimension=2, ridge=1e-3, noise_variance=0.01, step_size=[0, 1, 3]
    ... )
    >>> print(found.risk)
    [0.2124 0.2057 0.1792]
    """
    moments, target = activation_moments(activation), link_moments(link)
    slope = moments.linear_square()
    given_samples, given_features = (
        check_ratio("samples_per_dimension", samples_per_dimension),
        check_ratio("width_per_dimension", width_per_dimension),
    )
    given_ridge = check_array("ridge", ridge, low=0, high=LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    eta = check_array("step_size", step_size, low=0, high=LARGEST)
    psi0 = (
        given_samples
        if step_samples_per_dimension is None
        else check_ratio("step_samples_per_dimension", step_samples_per_dimension)
    )
    named = {"samples_per_dimension": given_samples, "width_per_dimension": given_features, "ridge": given_ridge}
    shape = common_shape(**named, noise_variance=noise, step_size=eta, step_samples_per_dimension=psi0)
    scale = slope + moments.nonlinear
    rest = moments.nonlinear / slope if moments.nonlinear > ROUNDING * scale else 0.0
    psi1, psi2, ridge, inside, peak = at_limits(given_samples, given_features, given_ridge, rest, scale)

    def excess(kappa: np.ndarray, psi1: np.ndarray, psi2: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        a = kappa / slope
        m, u = wishart_resolvent(rest + a, psi2)
        # psi2 = fitted + a u: the smaller of the two keeps its digits
        fitted = u * ((rest + a) * m + rest)
        unused = np.where(fitted < a * u, 1 - fitted / psi1, (psi1 - psi2 + a * u) / psi1)
        return unused - ridge / kappa

    highest = ridge + psi2 / psi1 * scale
    kappa = increasing_root(excess, ridge * (1 - 1e-9), highest * (1 + 1e-9), psi1, psi2, ridge)
    a = kappa / slope
    t = rest + a
    m, u = wishart_resolvent(t, psi2)
    missed, total = t * m, 1 + u + m
    # 1 - gamma and gamma as sums of positive terms
    remaining = ridge / kappa + (a / t) * (u / total) * (missed + rest * (1 + u)) / psi1
    spread = missed * (u + m) + 2 * rest * m + rest * (rest / t) * (1 + u)
    gamma = (u / total) * spread / psi1
    # the spike in units of 1 + eta^2, which may overflow
    before, after = 1 / (1 + eta**2), eta**2 / (1 + eta**2)
    aligned = after * m * slope * target.linear**2
    others = m * (before + after * slope * (target.variance + noise) / psi0)
    whole = before + others + aligned
    lost, kept = (before + others) / whole, aligned / whole
    bias = lost**2 * (missed * (1 + m) + rest * m * u)
    bias += kept * (others / whole * missed * (1 + m) + rest * m * (lost * u + before / whole * (1 + m)))
    signal = target.linear**2 * bias / total + target.nonlinear
    error = signal + noise * gamma
    learned = error <= VANISHING * (target.variance + noise)
    risk = np.where(peak, np.where(learned, 0.0, np.inf), error / remaining)
    unfitted = np.where(inside | (ridge / kappa > _NOTHING), ridge / kappa, 0.0)
    training = np.where(peak, 0.0, unfitted**2 * (np.where(peak, 0.0, risk) + noise))
    kappa = np.where(
        inside, kappa, np.where(kappa < _NOTHING * scale, 0.0, np.where(kappa * _NOTHING > scale, np.inf, kappa))
    )
    fields = (kappa, risk, risk + noise, training)
    return OneStepRisk(*(np.broadcast_to(field, shape).copy()[()] for field in fields))


def preconditioned_cosine(
    link: Any, step_samples_per_dimension: ArrayLike, direction_ridge: ArrayLike, noise_variance: ArrayLike
) -> Any:
    """The cosine with beta of the ridge direction (X^T X / n0 + rho)^-1 X^T y, in place of the gradient X^T y.

        kappa = (sqrt(B^2 + 4 rho) - B) / 2,      B = 1 - 1/psi0 - rho,         s2 = noise + |P_{>1} g|^2,
        v2 = (kappa^2 b1^2 / (1 + kappa)^2 + s2) / (1 - 1 / (psi0 (1 + kappa)^2)) - s2 - b1^2 + 2 b1^2 / (1 + kappa),
        zeta = b1 / (1 + kappa) / sqrt(v2)

    rho = 0 is least squares (of least norm for psi0 < 1; cosine 0 at psi0 = 1 unless nothing is missed), rho ->
    infinity is the gradient, `gradient_cosine`; `best_direction_ridge` gives the highest cosine. Exact as n0
    and d grow in proportion, because x is Gaussian and so what is nonlinear in g acts on it as noise.

    >>> print(preconditioned_cosine("erf", 4, direction_ridge=[0, 0.03, 1e6], noise_variance=0.01))
    [0.9809 0.9811 0.884]
    """
    target = link_moments(link)
    psi0 = check_ratio("step_samples_per_dimension", step_samples_per_dimension)
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    rho = check_array("direction_ridge", direction_ridge, low=0, high=LARGEST)
    common_shape(step_samples_per_dimension=psi0, direction_ridge=rho, noise_variance=noise)
    unexplained = noise + target.nonlinear
    if not (target.linear**2 + unexplained > 0).all():
        raise InputError("link must not be constant without noise: the labels are 0 and there is no direction")
    with np.errstate(invalid="ignore"):
        b = np.where(np.isinf(psi0), 1.0, (psi0 - 1) / psi0) - rho
    larger = (np.hypot(b, 2 * np.sqrt(rho)) + np.abs(b)) / 2
    # kappa (rho / kappa) = rho, and their difference is b: the larger one does not cancel
    other = np.divide(rho, larger, out=np.zeros(larger.shape), where=larger > 0)
    kappa, unfitted = np.where(b > 0, other, larger), np.where(b > 0, larger, other)
    shrink = 1 / (1 + kappa)
    # |v|^2 is signal + norm: the same number as v2, without its differences
    remaining = unfitted + kappa * shrink**2 / psi0
    signal = (target.linear * shrink) ** 2 * remaining
    norm = (target.linear**2 * (kappa * shrink) ** 2 + unexplained) * shrink**2 / psi0
    with np.errstate(invalid="ignore"):
        square = np.where(norm > 0, signal / (signal + norm), 1.0)
    return np.copysign(np.sqrt(square), target.linear)[()]


def best_direction_ridge(link: Any, step_samples_per_dimension: ArrayLike, noise_variance: ArrayLike) -> Any:
    """rho = (noise + |P_{>1} g|^2) / (psi0 b1^2), at which `preconditioned_cosine` is highest.

    Dobriban & Wager (2018).

    >>> print(best_direction_ridge("erf", step_samples_per_dimension=[1, 4], noise_variance=0.01))
    [0.1182 0.02954]
    """
    target = link_moments(link)
    psi0 = check_ratio("step_samples_per_dimension", step_samples_per_dimension)
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    common_shape(step_samples_per_dimension=psi0, noise_variance=noise)
    if abs(target.linear) <= VANISHING * math.sqrt(target.variance):
        raise InputError(f"link must have a linear coefficient b1 = E[z g(z)] != 0, got {target.linear:g}")
    return ((noise + target.nonlinear) / (psi0 * target.linear**2))[()]


def _outlier(theta1: np.ndarray, theta: np.ndarray, psi2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    root = np.sqrt(psi2)
    leaves = theta > np.sqrt(root)
    safe = np.where(leaves, theta, 1.0)
    singular_value = np.where(leaves, np.hypot(1, 1 / safe) * np.hypot(safe, root), 1 + root)
    # 1 - psi2 / theta^4 by its factors
    edge = np.where(leaves, np.sqrt(root) / safe, 1.0)
    cosine = np.minimum(np.abs(theta1 / safe), 1.0) / np.hypot(1, 1 / safe)
    return singular_value, np.where(leaves, cosine**2 * (1 - edge) * (1 + edge) * (1 + edge**2), 0.0)
