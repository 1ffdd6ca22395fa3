"""Problem Q: the mean-field problem whose Langevin dynamics is Gaussian, so that every number is a closed form.

    F(mu) = sum over modes of a/2 E x^2 - h E x + b/2 (E x - c)^2,        a > 0, b >= 0

The last axis of every mode's number is the mode; results are sums over it, except for moments, which keep it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_flag, check_whole, common_shape

_ENTROPY = np.log(2 * np.pi * np.e)
_LARGEST = 1e60
"""Fields whose squares do not overflow."""


class Modes(NamedTuple):
    """The numbers of problem Q, one of each for every mode, or scalars for a single one."""

    curvature: ArrayLike
    """a > 0, twice the confinement lambda_1 if nothing else confines."""
    interaction: ArrayLike
    """b >= 0."""
    field: ArrayLike = 0.0
    """h, linear in the data: its mean over rows is what mini-batches estimate."""
    target: ArrayLike = 0.0
    """c."""


class GaussianMoments(NamedTuple):
    """Of each mode: the expectation of the particles, and the two parts of their variance."""

    mean: np.ndarray
    """m."""
    variance: np.ndarray
    """v, of a particle's deviation from the mean of all, times N/(N-1)."""
    mean_variance: np.ndarray
    """w, of the mean over the particles."""


class GaussianOptimum(NamedTuple):
    """The minimiser N(mean, variance) of L = F + temperature Ent, and the constants of N particles."""

    mean: np.ndarray
    variance: np.ndarray
    energy: np.ndarray
    """F at the minimiser."""
    free_energy: np.ndarray
    """L at the minimiser."""
    particle_constant: np.ndarray
    """lim N (min L^N/N - L*) = sum (temperature/2) log((a + b)/a); here it holds for every N. That of F is 0."""


def gaussian_optimum(modes: Modes, temperature: ArrayLike) -> GaussianOptimum:
    """The minimiser of problem Q: m = (h + b c)/(a + b), variance temperature/a. `temperature` broadcasts."""
    a, b, h, c = _checked(modes)
    heat = check_array("temperature", temperature, above=0)[..., None]
    mean, variance = (h + b * c) / (a + b), heat / a
    energy = a / 2 * (mean**2 + variance) - h * mean + b / 2 * (mean - c) ** 2
    return GaussianOptimum(
        mean=np.broadcast_to(mean, variance.shape),
        variance=variance,
        energy=energy.sum(-1),
        free_energy=(energy - heat / 2 * (_ENTROPY + np.log(variance))).sum(-1),
        particle_constant=(heat / 2 * np.log1p(b / a)).sum(-1),
    )


def gaussian_moments(
    modes: Modes,
    temperature: ArrayLike,
    step_size: ArrayLike,
    steps: ArrayLike,
    *,
    particles: ArrayLike = np.inf,
    start_mean: ArrayLike = 0.0,
    start_variance: ArrayLike = 1.0,
    gradient_variance: ArrayLike = 0.0,
) -> GaussianMoments:
    """The moments after a number of steps, np.inf for the stationary ones, from N independent N(m0, v0) particles.

        m <- m - eta ((a+b) m - h - b c),   v <- (1 - eta a)^2 v + 2 lambda eta,
        w <- (1 - eta (a+b))^2 w + 2 lambda eta/N + eta^2 s2,      w_0 = v0/N

    `gradient_variance` s2 is that of a gradient noise common to all particles and independent at every step, as
    `batch_variance` gives it. All numbers broadcast, modes last: `step_size`, `steps` and `particles` have no axis for
    the modes. Steps eta >= 2/(a + b) never settle and are refused. Exact.
    """
    a, b, h, c = _checked(modes)
    heat = check_array("temperature", temperature, above=0)[..., None]
    eta = check_array("step_size", step_size, above=0)[..., None]
    k = _checked_steps(steps)[..., None]
    number = _checked_particles(particles)[..., None]
    m0 = check_array("start_mean", start_mean)
    v0 = check_array("start_variance", start_variance, low=0)
    s2 = check_array("gradient_variance", gradient_variance, low=0)
    common_shape(curvature=a, step_size=eta, steps=k, temperature=heat, particles=number, start_mean=m0)
    check_stable(a + b, eta)

    best = (h + b * c) / (a + b)
    kept, slow = _power(1 - eta * (a + b), k), _power(1 - eta * a, k)
    # the factor 1 - (1 - eta a)^2 = eta a (2 - eta a) of the geometric sums
    v_end = 2 * heat / (a * (2 - eta * a))
    w_end = (2 * heat / number + eta * s2) / ((a + b) * (2 - eta * (a + b)))
    mean = best + kept * (m0 - best)
    variance = v_end + slow**2 * (v0 - v_end)
    mean_variance = w_end + kept**2 * (v0 / number - w_end)
    return GaussianMoments(*np.broadcast_arrays(mean, variance, mean_variance))


def gaussian_energy(modes: Modes, moments: GaussianMoments, particles: ArrayLike = np.inf) -> np.ndarray:
    """E F of N particles: sum over modes of a/2 (m^2 + w + (N-1)v/N) - h m + b/2 ((m-c)^2 + w)."""
    a, b, h, c = _checked(modes)
    m, v, w = moments
    share = 1 - 1 / _checked_particles(particles)[..., None]
    return (a / 2 * (m**2 + w + share * v) - h * m + b / 2 * ((m - c) ** 2 + w)).sum(-1)


def gaussian_free_energy(
    modes: Modes, moments: GaussianMoments, temperature: ArrayLike, particles: ArrayLike = np.inf
) -> np.ndarray:
    """L^N/N = E F + temperature Ent(mu^N)/N of N Gaussian particles; at N = inf the entropy is that of v alone.

        L^N/N = E F - lambda sum over modes of [(N-1)/(2N) log(2 pi e v) + 1/(2N) log(2 pi e N w)]

    Exact without mini-batches, whose noise is not Gaussian.
    """
    heat = check_array("temperature", temperature, above=0)[..., None]
    number = _checked_particles(particles)[..., None]
    common_shape(temperature=heat[..., 0], particles=number[..., 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        own = (1 - 1 / number) * np.log(moments.variance)
        joint = np.where(np.isinf(number), 0.0, np.log(number * moments.mean_variance) / number)
    return gaussian_energy(modes, moments, particles) - (heat / 2 * (_ENTROPY + own + joint)).sum(-1)


def gaussian_wander(modes: Modes, moments: GaussianMoments) -> np.ndarray:
    """E |x_bar - m*|^2: how far the particles' mean is from that of the optimum, squared and summed over modes."""
    a, b, h, c = _checked(modes)
    return ((moments.mean - (h + b * c) / (a + b)) ** 2 + moments.mean_variance).sum(-1)


def added_by_width(modes: Modes, variance: Any, mean_variance: Any, temperature: Any, particles: Any) -> Any:
    """N (L^N/N - L), what N particles add to the free energy, N times, from measured or exact moments v and w.

    Of each mode it is (a+b)/2 N w - a v/2 + (lambda/2) log(v/(N w)), as m and v do not depend on N: the same for every
    N, b v0/2 at the start, and the `particle_constant` of the optimum in the end, but for the bias of a step.
    """
    _checked(modes)
    for name, number in {"variance": variance, "mean_variance": mean_variance, "temperature": temperature}.items():
        check_array(name, number, above=0)
    check_array("particles", particles, low=1, whole=True)
    variance, mean_variance, temperature, particles = (
        np.asarray(value) if isinstance(value, list | tuple) else value
        for value in (variance, mean_variance, temperature, particles)
    )
    a: Any = modes.curvature
    wide = particles * mean_variance
    return (a + modes.interaction) / 2 * wide - a * variance / 2 + temperature / 2 * np.log(variance / wide)


def width_excess(
    modes: Modes,
    temperature: float,
    step_size: float,
    steps: ArrayLike,
    *,
    particles: ArrayLike,
    start_mean: float,
    start_variance: ArrayLike,
) -> np.ndarray:
    """The largest of `added_by_width` over the steps, over the larger of b v0/2 and the particle constant.

    For one mode, (starts, widths); at most 1 in continuous time, and above it by a share of the order of step_size^2.
    """
    if (count := len(_checked(modes)[0])) != 1:
        raise InputError(f"modes must be one, got {count}")
    number = check_array("particles", particles, ndim=1, low=1, whole=True)[:, None]
    v0 = check_array("start_variance", start_variance, ndim=1, above=0)
    start: dict[str, Any] = {"start_mean": start_mean, "start_variance": v0[:, None, None, None]}
    found = gaussian_moments(modes, temperature, step_size, steps, particles=number, **start)
    added = added_by_width(modes, found.variance[..., 0], found.mean_variance[..., 0], temperature, number)
    ends = np.maximum(np.asarray(modes.interaction) * v0 / 2, gaussian_optimum(modes, temperature).particle_constant)
    return added.max(axis=-1) / ends[:, None]


def gaussian_rates(modes: Modes) -> tuple[np.ndarray, np.ndarray]:
    """The rates per unit of time at which L - L* decays in continuous time: 2(a+b) of the means, 4a of the variances.

    F - F* is of first order in the variance and decays at 2a there. The log-Sobolev bound 2 min a is attained by b = 0.
    """
    a, b, _, _ = _checked(modes)
    return 2 * (a + b), np.broadcast_to(4 * a, (a + b).shape)


def batch_variance(row_variance: ArrayLike, n: ArrayLike, batch: ArrayLike) -> np.ndarray:
    """The variance s2 = V (n-B)/(B (n-1)) of a mean over B of n rows without replacement, V their 1/n variance."""
    rows = check_array("n", n, low=1)
    size = check_array("batch", batch, low=1)
    spread = check_array("row_variance", row_variance, low=0)
    common_shape(row_variance=spread, n=rows, batch=size)
    if (size > rows).any():
        raise InputError(f"batch must be <= n, got batch={size.max():g} with n={rows.min():g}")
    return spread * (rows - size) / (size * np.maximum(rows - 1, 1))


def batched_moments(
    modes: Modes,
    temperature: float,
    step_size: float,
    steps: ArrayLike,
    *,
    row_variance: ArrayLike,
    n: int,
    batch: int,
    reshuffled: bool = False,
    particles: float = np.inf,
    start_mean: ArrayLike = 0.0,
    start_variance: ArrayLike = 1.0,
) -> GaussianMoments:
    """`gaussian_moments` with mini-batches of the rows, drawn anew at every step, or cut from a permutation per epoch.

    The fields of the rows have the variance `row_variance`; of a reshuffled epoch see `reshuffled_mean_variance`.
    """
    n = check_whole("n", n, 1)
    batch, reshuffled = check_whole("batch", batch, 1, n), check_flag("reshuffled", reshuffled)
    start: dict[str, Any] = {"particles": particles, "start_variance": start_variance}
    noise = batch_variance(row_variance, n, batch)
    found = gaussian_moments(
        modes, temperature, step_size, steps, start_mean=start_mean, gradient_variance=noise, **start
    )
    if not reshuffled or batch == n:
        return found
    wander = reshuffled_mean_variance(modes, temperature, step_size, row_variance, n, batch, steps=steps, **start)
    return found._replace(mean_variance=wander)


def reshuffled_mean_variance(
    modes: Modes,
    temperature: float,
    step_size: float,
    row_variance: ArrayLike,
    n: int,
    batch: int,
    particles: float = np.inf,
    *,
    steps: ArrayLike | None = None,
    start_variance: ArrayLike = 1.0,
) -> np.ndarray:
    """The variance w of the particles' mean if the batches are cut from one permutation per epoch.

    After each of the numbers in `steps` from N independent particles of variance `start_variance`, w_0 = v0/N, with an
    axis for the modes last; without `steps` the stationary one of each mode, averaged over an epoch.

    The means of two batches of an epoch have the covariance -V/(n-1), as their sum over the epoch is fixed if B divides
    n, so that their noise largely cancels where an epoch is shorter than 1/(eta (a+b)). With p the covariance of the
    particles' mean and the next batch's, p = 0 at the start of an epoch,

        w <- r^2 w + 2 r eta p + 2 lambda eta/N + eta^2 s2,    p <- r p - eta V/(n-1),    r = 1 - eta (a+b).

    Exact; for batches drawn anew at every step see `gaussian_moments`.
    """
    a, b, _, _ = _checked(modes)
    n = check_whole("n", n, 1, 10**7)
    batch = check_whole("batch", batch, 1, n)
    spread, s2 = check_array("row_variance", row_variance, low=0), batch_variance(row_variance, n, batch)
    heat = float(check_array("temperature", temperature, ndim=0, above=0))
    eta = float(check_array("step_size", step_size, ndim=0, above=0))
    number = float(check_array("particles", particles, low=1, finite=False, whole=True, ndim=0))
    check_stable(a + b, eta)
    kept, own = 1 - eta * (a + b), 2 * heat * eta / number + eta**2 * s2
    length = n // batch
    # w at step j of an epoch is gain w_0 + added, with w_0 at its start
    gain, added, linked = np.ones_like(kept + s2), np.zeros_like(kept + s2), np.zeros_like(kept + s2)
    gains, sums = [gain], [added]
    for _ in range(length):
        gain, added = kept**2 * gain, kept**2 * added + 2 * kept * eta * linked + own
        linked = kept * linked - eta * spread / max(n - 1, 1)
        gains.append(gain)
        sums.append(added)
    # 1 - gain without its cancellation at small steps
    with np.errstate(divide="ignore"):
        decay = np.where(kept > 0, np.log1p(-np.minimum(eta * (a + b), 1)), np.log(np.abs(kept)))
    settled = added / -np.expm1(2 * length * decay)
    if steps is None:
        return np.mean(gains[1:], axis=0) * settled + np.mean(sums[1:], axis=0)
    k = check_array("steps", steps, low=0, whole=True)
    v0 = check_array("start_variance", start_variance, low=0)
    epochs, place = np.divmod(k, length)
    at_start = settled + gain ** epochs[..., None] * (v0 / number - settled)
    return np.take(gains, place.astype(int), axis=0) * at_start + np.take(sums, place.astype(int), axis=0)


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """base^exponent for |base| < 1, also where the base is negative and the exponent infinite."""
    size = np.abs(base) ** exponent
    flips = (base < 0) & np.isfinite(exponent) & (np.mod(np.where(np.isfinite(exponent), exponent, 0), 2) == 1)
    return np.where(flips, -size, size)


def _checked(modes: Modes) -> tuple[np.ndarray, ...]:
    a = np.atleast_1d(check_array("curvature", modes.curvature, above=0))
    b = np.atleast_1d(check_array("interaction", modes.interaction, low=0))
    wide: dict[str, Any] = {"low": -_LARGEST, "high": _LARGEST}
    h, c = (np.atleast_1d(check_array(name, getattr(modes, name), **wide)) for name in ("field", "target"))
    common_shape(curvature=a, interaction=b, field=h, target=c)
    return tuple(np.broadcast_arrays(a, b, h, c))


def _checked_particles(particles: ArrayLike) -> np.ndarray:
    return check_array("particles", particles, low=1, finite=False, whole=True)


def _checked_steps(steps: ArrayLike) -> np.ndarray:
    return check_array("steps", steps, low=0, finite=False, whole=True)


def check_stable(stiffness: ArrayLike, step_size: ArrayLike) -> None:
    """Raise an `InputError` unless step_size < 2/(a + b), the stiffness."""
    stiffness, eta = np.asarray(stiffness), np.asarray(step_size)
    unstable = eta * stiffness >= 2
    if unstable.any():
        worst = np.broadcast_to(eta, unstable.shape)[unstable].flat[0]
        raise InputError(
            f"step_size must be below 2/(curvature + interaction) = {2 / stiffness.max():.6g}, else the means run "
            f"away; got {worst:g}"
        )
