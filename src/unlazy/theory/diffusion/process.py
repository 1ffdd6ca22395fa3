"""The diffusion dX = -X dt + sqrt(2) dB in closed form, what a wrong score costs, and the rates of estimation.

Time runs forward from the data, X_t = m X_0 + sigma xi with m = e^-t, sigma^2 = 1 - e^(-2t). The reverse process is
dY = (Y + 2 s(Y, T - t)) dt + sqrt(2) dB with the score s = grad log p_t. Logarithms are natural, KL is in nats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.numerics.quadrature import unit_rule

_LARGEST = 1e100
"""Coordinates whose squares do not overflow."""
_VARIANCES: dict[str, Any] = {"low": 1e-150, "high": 1e150}
"""Variances whose quotients do not overflow."""


class ForwardProcess(NamedTuple):
    """X_t = m X_0 + sigma xi; each field has the shape of the time."""

    signal_factor: np.ndarray
    """m_t = e^-t."""
    noise_deviation: np.ndarray
    """sigma_t, sigma^2 = 1 - e^(-2t)."""


class MixtureScore(NamedTuple):
    """A diffused Gaussian mixture at n points."""

    log_density: np.ndarray
    """(n,)."""
    score: np.ndarray
    """grad log p_t, (n, d)."""


class ScoreErrorCost(NamedTuple):
    """What a wrong score costs; every field has the broadcast shape of the arguments."""

    divergence: np.ndarray
    """KL(p_0 || law of Y_T), Y started from p_T and driven by the wrong score."""
    integral: np.ndarray
    """int_0^T E_(p_t) |s - s_hat|^2 dt."""
    final_divergence: np.ndarray
    """KL(p_T || q_T)."""
    final_mean: np.ndarray
    """Of Y_T."""
    final_variance: np.ndarray
    """Of Y_T."""


class DensityRates(NamedTuple):
    """Exponents e of errors n^-e; every field has the broadcast shape of the arguments."""

    total_variation: np.ndarray
    """s / (2s + d'), on the support."""
    wasserstein: np.ndarray
    """min(1/2, (s+1) / (2s + d')): no estimator beats 1/2."""
    wasserstein_logarithm: np.ndarray
    """Whether a logarithm comes on top, at d' = 2."""
    wasserstein_as_stated: np.ndarray
    """(s+1) / (2s + d') as in the theorem, above 1/2 at d' = 1."""
    wasserstein_empirical: np.ndarray
    """Of the empirical measure, min(1/2, 1/d')."""


def forward_process(time: ArrayLike) -> ForwardProcess:
    """m_t = e^-t and sigma_t = sqrt(1 - e^(-2t)), without cancellation at small t > 0.

    >>> found = forward_process(time=[0.01, 1, 4])
    >>> print(found.signal_factor, found.noise_deviation)
    [0.9900 0.3679 0.01832] [0.1407 0.9299  0.9998]
    """
    t = check_array("time", time, above=0)
    return ForwardProcess(np.exp(-t)[()], np.sqrt(-np.expm1(-2 * t))[()])


def diffused_variance(data_variance: ArrayLike, time: ArrayLike) -> np.ndarray:
    """The variance m^2 v + sigma^2 of X_t for a start of variance v >= 0; t >= 0.

    >>> print(diffused_variance(data_variance=0.5, time=[0, 0.3, 4]))
    [0.5        0.7256 0.9998]
    """
    variance, t = check_array("data_variance", data_variance, low=0), check_array("time", time, low=0)
    common_shape(data_variance=variance, time=t)
    return (np.exp(-2 * t) * variance - np.expm1(-2 * t))[()]


def gaussian_divergence(
    data_mean: ArrayLike, data_variance: ArrayLike, model_mean: ArrayLike, model_variance: ArrayLike
) -> np.ndarray:
    """KL(N(mu, v) || N(mu_q, v_q)) of data and a model on the line, elementwise.

        (r - 1 - log r) / 2 + (mu - mu_q)^2 / (2 v_q),    r = v / v_q

    To 1e-14 of itself, also where the two nearly agree; inf where it overflows.

    >>> print(gaussian_divergence(data_mean=0, data_variance=0.5, model_mean=[0, 1], model_variance=0.8))
    [0.04750 0.6725]
    """
    mean, other_mean = check_array("data_mean", data_mean), check_array("model_mean", model_mean)
    variance = check_array("data_variance", data_variance, above=0)
    other_variance = check_array("model_variance", model_variance, above=0)
    common_shape(data_mean=mean, data_variance=variance, model_mean=other_mean, model_variance=other_variance)
    with np.errstate(over="ignore"):
        excess = (variance - other_variance) / other_variance
        apart = (mean - other_mean) ** 2 / (2 * other_variance)
        return (0.5 * _above_logarithm(excess, np.log(variance) - np.log(other_variance)) + apart)[()]


def _above_logarithm(excess: np.ndarray, logarithm: np.ndarray) -> np.ndarray:
    """x - log(1 + x) for x = `excess`, without its cancellation at small x; `logarithm` is log(1 + x) for large x.

    With u = x/(2 + x), x = 2u + xu and log(1 + x) = 2 artanh u.
    """
    close = np.abs(excess) < 0.5
    x = np.where(close, excess, 0.0)
    u = x / (2 + x)
    series = np.polyval(1 / np.arange(39, 2, -2), u**2)
    return np.where(close, u * (x - 2 * u**2 * series), excess - logarithm)


def gaussian_score_error(
    data_mean: ArrayLike, data_variance: ArrayLike, model_mean: ArrayLike, model_variance: ArrayLike, time: ArrayLike
) -> ScoreErrorCost:
    """The cost of driving the reverse process of p_0 = N(mu, v), the data, by the score of q_0 = N(mu_q, v_q), a model.

    The reverse kernel of q is Gaussian, so with K = m v_q / (m^2 v_q + sigma^2) at time T

        Y_T ~ N(mu_q + K m (mu - mu_q), K^2 (m^2 v + sigma^2) + v_q sigma^2 / (m^2 v_q + sigma^2)),
        int_0^T E |s - s_hat|^2 dt = KL(p_0 || q_0) - KL(p_T || q_T)                          (de Bruijn).

    With k = K m the first is N(mu - (1 - k)(mu - mu_q), v - (1 - k^2)(v - v_q)), and the difference of the divergences
    is a sum of positive terms: every field has 12 digits or more at every T, also where it nearly vanishes. Girsanov's
    theorem bounds the divergence by the integral with constant 1; the constant 1/4 belongs to the error of the drift
    2 s. Exact. Sources: Chen et al. 2023; Oko, Akiyama & Suzuki 2023, whose talk has 1/4.

    >>> found = gaussian_score_error(data_mean=0, data_variance=0.5, model_mean=0, model_variance=0.8, time=[1, 6])
    >>> print(found.divergence, found.integral)
    [0.04663 0.04750] [0.04705 0.04750]
    """
    numbers = {
        "data_mean": check_array("data_mean", data_mean, low=-_LARGEST, high=_LARGEST),
        "data_variance": check_array("data_variance", data_variance, **_VARIANCES),
        "model_mean": check_array("model_mean", model_mean, low=-_LARGEST, high=_LARGEST),
        "model_variance": check_array("model_variance", model_variance, **_VARIANCES),
        "time": check_array("time", time, above=0),
    }
    shape = common_shape(**numbers)
    mean, variance, model_mean, model_variance, time = numbers.values()
    signal, noise = forward_process(time)
    at_end, model_at_end = diffused_variance(variance, time), diffused_variance(model_variance, time)
    wider, apart = variance - model_variance, mean - model_mean
    kept, lost = signal**2 * model_variance / model_at_end, noise**2 / model_at_end
    gone = lost * (1 + kept) * wider
    final_mean = kept * mean + lost * model_mean
    final_variance = kept**2 * variance + lost * (1 + kept) * model_variance
    logarithms = [np.log(v) for v in (variance, model_variance, at_end, model_at_end, final_variance)]
    own, model, own_end, model_end, final = logarithms
    divergence = _above_logarithm(gone / final_variance, own - final) / 2 + (lost * apart) ** 2 / (2 * final_variance)
    remaining = _above_logarithm(signal**2 * wider / model_at_end, own_end - model_end) / 2
    # of KL(p_0 || q_0) - KL(p_T || q_T): the product of the excesses of r_0/r_T and r_T, the first one, and the means
    faster = noise**2 / model_variance * (wider / at_end)
    between = lost * (wider / model_variance) * (signal**2 * wider / at_end)
    between = between + _above_logarithm(faster, (own - model) - (own_end - model_end))
    shifted = apart**2 / (2 * model_variance)
    fields = (divergence, between / 2 + lost * shifted, remaining + kept * shifted, final_mean, final_variance)
    return ScoreErrorCost(*(np.broadcast_to(field, shape).copy()[()] for field in fields))


def scaled_score_error(data_variance: ArrayLike, score_scale: ArrayLike, time: ArrayLike) -> ScoreErrorCost:
    """The cost of the score of p_0 = N(0, v) multiplied by c > 0, the `score_scale`, which is nobody's diffused score.

    With V_t = 1 + (v - 1) e^(-2t) the reverse process is linear, and what it has at forward time t is multiplied by
    g_t = e^((1 - 2c) t) (v / V_t)^c on the way to 0:

        Var Y_T = g_T^2 V_T + 2 int_0^T g_t^2 dt = v - 4 (c - 1) int_0^T g_t^2 dt,
        int_0^T E |s - s_hat|^2 dt = (c - 1)^2 int_0^T dt / V_t,

    the first integral by a Gauss rule to 1e-9, the second log(1 + (e^(2T) - 1)/v) / 2; T <= 50, c <= 1e6.
    `final_divergence` is 0, for both processes start from p_T.

    >>> found = scaled_score_error(data_variance=0.5, score_scale=1.4, time=[0.25, 4])
    >>> print(found.divergence / found.integral)
    [0.7784 0.1526]
    """
    variance = check_array("data_variance", data_variance, **_VARIANCES)
    scale = check_array("score_scale", score_scale, above=0, high=1e6)
    time = check_array("time", time, above=0, high=50)
    shape = common_shape(data_variance=variance, score_scale=scale, time=time)
    variance, scale, time = (np.broadcast_to(a, shape) for a in (variance, scale, time))
    unit, weights = unit_rule(200)
    # uniform in log(1 + 2 max(scale, 1) t/v): small variances and large scales make the kernel steep at 0
    narrow = (np.minimum(variance, 1.0) / np.maximum(scale, 1.0))[..., None]
    length = np.log1p(2 * time[..., None] / narrow)
    t = narrow * np.expm1(length * unit) / 2
    jacobian = length * (t + narrow / 2)

    def gain(t: np.ndarray, v: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.exp(t - c * np.log1p(np.expm1(2 * t) / v))

    at_end = diffused_variance(variance, time)
    noise = 2 * (gain(t, variance[..., None], scale[..., None]) ** 2 * jacobian * weights).sum(axis=-1)
    final = gain(time, variance, scale) ** 2 * at_end + noise
    integral = (scale - 1) ** 2 * np.log1p(np.expm1(2 * time) / variance) / 2
    divergence = _above_logarithm(2 * (scale - 1) * noise / final, np.log(variance) - np.log(final)) / 2
    zero = np.zeros(shape)
    fields = (divergence, integral, zero, zero, final)
    return ScoreErrorCost(*(np.asarray(field).copy()[()] for field in fields))


def mixture_score(
    component_weights: ArrayLike, means: ArrayLike, variances: ArrayLike, x: ArrayLike, time: float
) -> MixtureScore:
    """log p_t and grad log p_t at points x (n, d) for the start sum_k w_k N(mu_k, v_k), k = 1, ..., K.

        p_t = sum_k w_k N(m mu_k, m^2 v_k + sigma^2)

    `means` (K, d); `variances` (K,) or (K, d) along the axes, 0 for points (an empirical measure); t >= 1e-100.

    >>> found = mixture_score([0.5, 0.5], means=[[-1], [1]], variances=[0.1, 0.1], x=[[0], [0.5], [2]], time=0.2)
    >>> print(found.score[:, 0])
    [ 0.          0.3384 -2.979]
    """
    points = check_array("x", x, low=-_LARGEST, high=_LARGEST, ndim=2)
    means = check_array("means", means, low=-_LARGEST, high=_LARGEST, ndim=2)
    shares = check_array("component_weights", component_weights, low=0, ndim=1)
    spread = check_array("variances", variances, low=0)
    k, d = means.shape
    if points.shape[1] != d:
        raise InputError(f"x must have {d} column(s) like means, got shape {points.shape}")
    if shares.shape != (k,) or not abs(shares.sum() - 1) < 1e-8:
        raise InputError(
            f"component_weights must be {k} numbers that sum to 1, got shape {shares.shape}, sum {shares.sum():.10g}"
        )
    if spread.shape not in ((k,), (k, d)):
        raise InputError(f"variances must have shape ({k},) or ({k}, {d}), got {spread.shape}")
    spread = np.broadcast_to(spread.reshape(k, -1), (k, d))
    t = float(check_array("time", time, low=1 / _LARGEST, ndim=0))
    total = diffused_variance(spread, t)
    apart = forward_process(t).signal_factor * means - points[:, None, :]
    pull = apart / total
    with np.errstate(divide="ignore"):
        logs = np.log(shares) - 0.5 * (apart**2 / total + np.log(2 * np.pi * total)).sum(axis=2)
    top = logs.max(axis=1, keepdims=True)
    responsibilities = np.exp(logs - top)
    norm = responsibilities.sum(axis=1)
    score = np.einsum("nk,nkd->nd", responsibilities, pull) / norm[:, None]
    return MixtureScore(top[:, 0] + np.log(norm), score)


def density_rates(smoothness: ArrayLike, d: ArrayLike, support_dimension: ArrayLike | None = None) -> DensityRates:
    """The exponents of the minimax errors of estimating a density of `smoothness` s from n observations.

        TV ~ n^(-s/(2s+d')),    W1 ~ max(n^(-1/2), n^(-(s+1)/(2s+d'))), times a logarithm at d' = 2,

    on a linear support of dimension d' <= d, the `support_dimension` (all of space by default). Total variation is that
    of the density on the support, which noiseless data show exactly. The theorem on diffusion models states
    (s+1)/(2s+d') (up to any delta > 0), which at d' = 1 is above the parametric 1/2 and no estimator attains. The
    empirical measure has min(1/2, 1/d'), so smoothness helps W1 from d' = 3 on. Sources: Oko, Akiyama & Suzuki
    2023; Niles-Weed & Berthet 2022.

    >>> found = density_rates(smoothness=2, d=10, support_dimension=[1, 3])
    >>> print(found.total_variation, found.wasserstein, found.wasserstein_empirical)
    [0.4        0.2857] [0.5        0.4286] [0.5        0.3333]
    """
    s = check_array("smoothness", smoothness, above=0)
    dimension = check_array("d", d, low=1, whole=True)
    inner = dimension
    if support_dimension is not None:
        inner = check_array("support_dimension", support_dimension, low=1, whole=True)
    shape = common_shape(smoothness=s, d=dimension, support_dimension=inner)
    s, dimension, inner = (np.broadcast_to(a, shape) for a in (s, dimension, inner))
    if (wrong := inner > dimension).any():
        raise InputError(
            f"support_dimension must be at most d = {dimension[wrong].flat[0]:g}, got {inner[wrong].flat[0]:g}"
        )
    stated = (s + 1) / (2 * s + inner)
    fields = (s / (2 * s + inner), np.minimum(0.5, stated), inner == 2, stated, np.minimum(0.5, 1 / inner))
    return DensityRates(*(field[()] for field in fields))


def wasserstein_bound(masses: ArrayLike, other_masses: ArrayLike, *, side: float = 2.0) -> np.ndarray:
    """An upper bound of the W1 distance of two histograms on a cube of the given side with 2^K cells per axis.

    With p the `masses`, q the `other_masses`, S_k the sum of |p(C) - q(C)| over the 2^(dk) cubes of level k and diam_k
    = side sqrt(d) 2^-k,

        W1 <= sum_(k=1)^K diam_(k-1) (S_k - S_(k-1)) / 2:

    excess mass is matched inside the smallest cube that holds both. The bound is of W1 between the measures at the
    centres of the cells, or of any that differ from these inside cells only, plus diam_K. Arrays of d axes, each with
    total 1. Source: Weed & Bach 2019, proposition 1, with the exact bookkeeping of the excess.

    >>> print(wasserstein_bound([0.5, 0.5, 0, 0], other_masses=[0, 0.5, 0.5, 0], side=1))
    0.5
    """
    p, q = check_array("masses", masses, low=0), check_array("other_masses", other_masses, low=0)
    side = float(check_array("side", side, above=0, ndim=0))
    levels = int(p.shape[0]).bit_length() - 1 if p.ndim else 0
    if p.ndim == 0 or p.shape != (1 << levels,) * p.ndim or levels < 1:
        raise InputError(
            f"masses must have the same number of cells along every axis, a power of 2 above 1, got {p.shape}"
        )
    if q.shape != p.shape:
        raise InputError(f"other_masses must have the shape {p.shape} of masses, got {q.shape}")
    for name, array in (("masses", p), ("other_masses", q)):
        if not abs(array.sum() - 1) < 1e-8:
            raise InputError(f"{name} must sum to 1, got {array.sum():.10g}")
    excess, bound, d = p - q, 0.0, p.ndim
    for level in range(levels, 0, -1):
        coarse = excess.reshape(sum(((n // 2, 2) for n in excess.shape), ())).sum(axis=tuple(range(1, 2 * d, 2)))
        matched = (np.abs(excess).sum() - np.abs(coarse).sum()) / 2
        bound += side * np.sqrt(d) * 2.0 ** (1 - level) * max(float(matched), 0.0)
        excess = coarse
    return np.asarray(bound)[()]
