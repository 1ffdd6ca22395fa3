"""Running the Ornstein-Uhlenbeck process backwards on a grid of times, with any score.

Forwards X_t = m_t X_0 + sigma_t xi with m_t = exp(-t), sigma_t^2 = 1 - exp(-2 t); backwards
dY = (Y + 2 s(Y, T - t)) dt + sqrt(2) dB, or without noise dY = (Y + s(Y, T - t)) dt, the probability flow. Times are in
units of the process dX = -X dt + sqrt(2) dB and count from the data on, so that a run goes from large to small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.numerics.monte_carlo import ranked_normals

SCHEMES = ("exponential", "euler", "stationary", "posterior", "flow", "flow-euler", "flow-noise")


class Steps(NamedTuple):
    """All steps y <- state y + score s(y, time) + noise xi of a run, four arrays (steps,) of NumPy or JAX."""

    time: Any
    state: Any
    score: Any
    noise: Any


class ReverseMoments(NamedTuple):
    """Mean and variance of a Gaussian law, per coordinate."""

    mean: np.ndarray
    variance: np.ndarray


def time_grid(start: float, stop: float, steps: int) -> np.ndarray:
    """The geometric grid of steps + 1 times from `start` down to `stop` > 0."""
    stop = float(check_array("stop", stop, above=0, ndim=0))
    start = float(check_array("start", start, above=0, ndim=0))
    if start <= stop:
        raise InputError(f"start must be above stop = {stop:g}, got {start:g}")
    return np.geomspace(start, stop, check_whole("steps", steps, 1) + 1)


def reverse_steps(scheme: str, times: ArrayLike) -> Steps:
    """The coefficients of a scheme on decreasing times, h being the length of a step from t to t - h.

    - "exponential": linear part exact, score held: exp(h) y + 2 (exp(h) - 1) s + sqrt(exp(2 h) - 1) xi;
    - "euler": (1 + h) y + 2 h s + sqrt(2 h) xi;
    - "stationary": s + y held, so that N(0, 1) stays as it is:
      (2 - exp(-h)) y + 2 (1 - exp(-h)) s + sqrt(1 - exp(-2 h)) xi;
    - "posterior": the denoised point held, that is the law of X_{t-h} given X_t and X_0 = (y + sigma^2 s) / m:
      exp(h) y + 2 sinh(h) s + sigma_{t-h} sqrt(1 - exp(-2 h)) / sigma_t xi;
    - "flow" and "flow-euler": as the first two for the probability flow, with half the score and no noise;
    - "flow-noise": the flow with -sigma s held: exp(h) y + sigma_t (sigma_t exp(h) - sigma_{t-h}) s.

    All have order one in h. Sources: Zhang & Chen (2023) for holding the score, Ho, Jain & Abbeel (2020) for the
    posterior, Song, Meng & Ermon (2021) for the flow with the noise held.
    """
    check_choice("scheme", scheme, SCHEMES)
    times = check_array("times", times, above=0, ndim=1)
    if times.size < 2 or not (np.diff(times) < 0).all():
        raise InputError(f"times must be at least two decreasing numbers, got {times.tolist()!s:.60}")
    now, h = times[:-1], -np.diff(times)
    deviation, after = np.sqrt(-np.expm1(-2 * now)), np.sqrt(-np.expm1(-2 * times[1:]))
    grown, none = np.exp(h), np.zeros_like(h)
    coefficients = {
        "exponential": (grown, 2 * np.expm1(h), np.sqrt(np.expm1(2 * h))),
        "euler": (1 + h, 2 * h, np.sqrt(2 * h)),
        "stationary": (1 - np.expm1(-h), -2 * np.expm1(-h), np.sqrt(-np.expm1(-2 * h))),
        "posterior": (grown, 2 * np.sinh(h), after * np.sqrt(-np.expm1(-2 * h)) / deviation),
        "flow": (grown, np.expm1(h), none),
        "flow-euler": (1 + h, h, none),
        "flow-noise": (grown, deviation * (deviation * grown - after), none),
    }
    return Steps(now, *coefficients[scheme])


def denoised(points: Any, scores: Any, time: float) -> Any:
    """Tweedie's formula E[X_0 | X_t] = (y + sigma_t^2 s) / m_t, for arrays of NumPy or JAX."""
    return np.exp(time) * (points - np.expm1(-2 * time) * scores)


def run_reverse(
    rng: np.random.Generator,
    score: Callable[[np.ndarray, float], np.ndarray],
    start: ArrayLike,
    times: ArrayLike,
    *,
    scheme: str = "exponential",
    denoise: bool = True,
    ranked: bool = False,
) -> np.ndarray:
    """Take the points `start` of time `times[0]` to `times[-1]` by `score(points, time)`, a NumPy function.

    With `denoise` the last points are replaced by their denoised ones, which removes the noise of deviation sigma that
    is left at the last time in directions in which the data have no spread. `ranked` is for averages over points whose
    coordinates move independently: the noise is `ranked_normals`.
    """
    points = np.array(check_array("start", start))
    steps = reverse_steps(scheme, times)
    noisy = bool(steps.noise.any())
    for time, state, gain, noise in zip(*steps, strict=True):
        points = state * points + gain * score(points, float(time))
        if noisy:
            points += noise * (ranked_normals(rng, points) if ranked else rng.standard_normal(points.shape))
    last = float(np.asarray(times)[-1])
    return denoised(points, score(points, last), last) if denoise else points


def gaussian_reverse(
    scheme: str, times: ArrayLike, mean: ArrayLike, variance: ArrayLike, *, denoise: bool = True
) -> ReverseMoments:
    """Mean and variance that a scheme reaches from N(0, 1) with the exact score of data N(mean, variance).

    The score -(y - m mean) / V, V = m^2 variance + sigma^2, is linear, so a step maps moments to moments:
    M <- (state - score / V) M + score m mean / V and Var <- (state - score / V)^2 Var + noise^2. Exact for every number
    of steps; `mean` and `variance` >= 0 broadcast and are coordinates of their own.
    """
    mean, variance = check_array("mean", mean), check_array("variance", variance, low=0)
    steps = reverse_steps(scheme, times)
    reached, spread = np.zeros(np.broadcast_shapes(mean.shape, variance.shape)), np.float64(1)

    def law(time: float) -> tuple[float, np.ndarray]:
        return float(np.exp(-time)), np.exp(-2 * time) * variance - np.expm1(-2 * time)

    for time, state, gain, noise in zip(*steps, strict=True):
        scale, total = law(time)
        factor = state - gain / total
        reached, spread = factor * reached + gain * scale * mean / total, factor**2 * spread + noise**2
    if denoise:
        time = float(np.asarray(times)[-1])
        scale, total = law(time)
        rest = -np.expm1(-2 * time) / total
        # 1 - rest would cancel where the variance is small
        factor = scale * variance / total
        reached, spread = factor * reached + rest * mean, factor**2 * spread
    return ReverseMoments(reached, np.broadcast_to(spread, reached.shape))


def gaussian_limit(
    scheme: str, start: float, stop: float, mean: ArrayLike, variance: ArrayLike, *, denoise: bool = True
) -> ReverseMoments:
    """What `gaussian_reverse` tends to as the steps become short, in closed form.

    An error of N(0, 1) against the law N(m mean, V) at the start is multiplied by m_start V_stop / (m_stop V_start) in
    the stochastic equation, the regression of X_stop on X_start, and by sqrt(V_stop / V_start) in the flow.
    """
    check_choice("scheme", scheme, SCHEMES)
    times = time_grid(start, stop, 1)
    mean, variance = check_array("mean", mean), check_array("variance", variance, low=0)
    scales = np.exp(-times)
    begin, end = (scale**2 * variance - np.expm1(-2 * time) for scale, time in zip(scales, times, strict=True))
    kept = np.sqrt(end / begin) if scheme.startswith("flow") else scales[0] * end / (scales[1] * begin)
    reached, spread = scales[1] * mean - kept * scales[0] * mean, end + kept**2 * (1 - begin)
    if denoise:
        factor, rest = scales[1] * variance / end, -np.expm1(-2 * times[1]) / end
        reached, spread = factor * reached + rest * mean, factor**2 * spread
    return ReverseMoments(reached, spread)
