"""Problem Q: the mean-field problem whose Langevin dynamics is Gaussian, so that every number is a closed form.

    F(mu) = sum over modes of a/2 E x^2 - h E x + b/2 (E x - c)^2,        a > 0, b >= 0

The last axis of every mode's number is the mode; results are sums over it, except for moments, which keep it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_flag, check_kind, check_whole, common_shape

_ENTROPY = np.log(2 * np.pi * np.e)
_LARGEST = 1e60
"""Fields whose squares do not overflow."""


class Modes(NamedTuple):
    """The numbers of problem Q, one of each for every mode, or scalars for a single one."""

    external_curvature: ArrayLike
    """a > 0, twice the confinement lambda_1 if nothing else confines."""
    interaction: ArrayLike
    """b >= 0."""
    data_field: ArrayLike = 0.0
    """h, linear in the data: its mean over the samples is what mini-batches estimate."""
    target_mean: ArrayLike = 0.0
    """c."""


class GaussianMoments(NamedTuple):
    """Of each mode: the expectation of the particles, and the two parts of their variance."""

    particle_mean: np.ndarray
    """m."""
    particle_variance: np.ndarray
    """v, of a particle's deviation from the mean of all, times N/(N-1)."""
    mean_variance: np.ndarray
    """w, of the mean over the particles."""


class GaussianOptimum(NamedTuple):
    """The minimiser N(m, v) of L = F + temperature Ent, and what N particles add."""

    particle_mean: np.ndarray
    particle_variance: np.ndarray
    energy: np.ndarray
    """F at the minimiser."""
    free_energy: np.ndarray
    """L at the minimiser."""
    free_energy_excess: np.ndarray
    """lim N (min L^N/N - L*) = sum (temperature/2) log((a + b)/a); here it holds for every N. That of F is 0."""


def gaussian_optimum(modes: Modes, temperature: ArrayLike) -> GaussianOptimum:
    """The minimiser of problem Q: m = (h + b c)/(a + b), variance temperature/a. `temperature` broadcasts.

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> found = gaussian_optimum(modes, temperature=[0.1, 0.2])
    >>> print(found.energy.round(4), found.free_energy.round(4))
    [-0.01  0.04] [-0.0714 -0.1522]
    """
    a, b, h, c = _checked(modes)
    heat = check_array("temperature", temperature, above=0)[..., None]
    mean, variance = (h + b * c) / (a + b), heat / a
    energy = a / 2 * (mean**2 + variance) - h * mean + b / 2 * (mean - c) ** 2
    return GaussianOptimum(
        particle_mean=np.broadcast_to(mean, variance.shape),
        particle_variance=variance,
        energy=energy.sum(-1),
        free_energy=(energy - heat / 2 * (_ENTROPY + np.log(variance))).sum(-1),
        free_energy_excess=(heat / 2 * np.log1p(b / a)).sum(-1),
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

    >>> modes = Modes(external_curvature=0.5, interaction=1.5)
    >>> found = gaussian_moments(modes, temperature=0.2, step_size=0.1, steps=[0, 10, 100], start_mean=2)
    >>> print(found.particle_mean[:, 0].round(4), found.particle_variance[:, 0].round(4))
    [2.     0.2147 0.    ] [1.     0.6217 0.4103]
    """
    a, b, h, c = _checked(modes)
    heat = check_array("temperature", temperature, above=0)[..., None]
    eta = check_array("step_size", step_size, above=0)[..., None]
    k = _checked_steps(steps)[..., None]
    number = _checked_particles(particles)[..., None]
    m0 = check_array("start_mean", start_mean)
    v0 = check_array("start_variance", start_variance, low=0)
    s2 = check_array("gradient_variance", gradient_variance, low=0)
    common_shape(
        modes=a,
        temperature=heat,
        step_size=eta,
        steps=k,
        particles=number,
        start_mean=m0,
        start_variance=v0,
        gradient_variance=s2,
    )
    check_stable(a + b, eta)

    best = (h + b * c) / (a + b)
    # the factor 1 - (1 - eta a)^2 = eta a (2 - eta a) of the geometric sums
    v_end = 2 * heat / (a * (2 - eta * a))
    w_end = (2 * heat / number + eta * s2) / ((a + b) * (2 - eta * (a + b)))
    mean = _relaxed(m0, best, eta * (a + b), k)
    variance = _relaxed(v0, v_end, eta * a, 2 * k)
    mean_variance = _relaxed(v0 / number, w_end, eta * (a + b), 2 * k)
    return GaussianMoments(*np.broadcast_arrays(mean, variance, mean_variance))


def gaussian_energy(modes: Modes, particle_moments: GaussianMoments, *, particles: ArrayLike = np.inf) -> np.ndarray:
    """E F of N particles: sum over modes of a/2 (m^2 + w + (N-1)v/N) - h m + b/2 ((m-c)^2 + w).

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> moments = gaussian_moments(modes, temperature=0.2, step_size=0.1, steps=[0, 10, 100], particles=20)
    >>> print(gaussian_energy(modes, particle_moments=moments, particles=20).round(4))
    [1.0375 0.1031 0.043 ]
    """
    a, b, h, c = _checked(modes)
    m, v, w = _checked_moments(particle_moments)
    number = _checked_particles(particles)[..., None]
    common_shape(particle_moments=m, particles=number)
    share = 1 - 1 / number
    return (a / 2 * (m**2 + w + share * v) - h * m + b / 2 * ((m - c) ** 2 + w)).sum(-1)


def gaussian_free_energy(
    modes: Modes, particle_moments: GaussianMoments, temperature: ArrayLike, *, particles: ArrayLike = np.inf
) -> np.ndarray:
    """L^N/N = E F + temperature Ent(mu^N)/N of N Gaussian particles; at N = inf the entropy is that of v alone.

        L^N/N = E F - lambda sum over modes of [(N-1)/(2N) log(2 pi e v) + 1/(2N) log(2 pi e N w)]

    Exact without mini-batches, whose noise is not Gaussian; inf where a variance is 0.

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> moments = gaussian_moments(modes, temperature=0.2, step_size=0.1, steps=[0, 10, 100], particles=20)
    >>> print(gaussian_free_energy(modes, particle_moments=moments, temperature=0.2, particles=20).round(4))
    [ 0.7537 -0.125  -0.1452]
    """
    m, v, w = _checked_moments(particle_moments)
    heat = check_array("temperature", temperature, above=0)[..., None]
    number = _checked_particles(particles)[..., None]
    common_shape(particle_moments=m, temperature=heat, particles=number)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(number == 1, 0.0, (1 - 1 / number) * np.log(v))
        joint = np.where(np.isinf(number), 0.0, np.log(number * w) / number)
    return gaussian_energy(modes, particle_moments, particles=particles) - (heat / 2 * (_ENTROPY + own + joint)).sum(-1)


def gaussian_wander(modes: Modes, particle_moments: GaussianMoments) -> np.ndarray:
    """E |x_bar - m*|^2: how far the particles' mean is from that of the optimum, squared and summed over modes.

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> moments = gaussian_moments(modes, temperature=0.2, step_size=0.1, steps=[0, 10, 100], particles=20)
    >>> print(gaussian_wander(modes, particle_moments=moments).round(4))
    [0.86   0.0154 0.0056]
    """
    a, b, h, c = _checked(modes)
    m, _, w = _checked_moments(particle_moments)
    return ((m - (h + b * c) / (a + b)) ** 2 + w).sum(-1)


def added_by_width(modes: Modes, particle_variance: Any, mean_variance: Any, particles: Any, temperature: Any) -> Any:
    """N (L^N/N - L), what N particles add to the free energy, N times, from measured or exact moments v and w.

    Of each mode it is (a+b)/2 N w - a v/2 + (lambda/2) log(v/(N w)), as m and v do not depend on N: the same for every
    N, b v0/2 at the start, and the `free_energy_excess` of the optimum in the end, but for the bias of a step.

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> found = gaussian_moments(modes, temperature=0.2, step_size=0.01, steps=300, particles=20)
    >>> v, w = found.particle_variance, found.mean_variance
    >>> print(added_by_width(modes, particle_variance=v, mean_variance=w, particles=20, temperature=0.2).round(4))
    [0.1384]
    """
    _checked(modes)
    given = {"particle_variance": particle_variance, "mean_variance": mean_variance, "temperature": temperature}
    for name, number in given.items():
        check_array(name, number, above=1 / _LARGEST, high=_LARGEST)
    check_array("particles", particles, low=1, high=_LARGEST, whole=True)
    # labelled arrays stay labelled
    v, w, heat, number = (
        np.asarray(value, float) if isinstance(value, list | tuple | np.ndarray) else value
        for value in (*given.values(), particles)
    )
    if not any(hasattr(each, "dims") for each in (v, w, heat, number)):
        common_shape(particle_variance=v, mean_variance=w, particles=number, temperature=heat)
    a: Any = modes.external_curvature
    wide = number * w
    return (a + modes.interaction) / 2 * wide - a * v / 2 + heat / 2 * np.log(v / wide)


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

    >>> found = width_excess(Modes(external_curvature=0.5, interaction=1.5), temperature=0.2, step_size=0.01,
    ...                      steps=[0, 10, 100], particles=[10, 100], start_mean=2, start_variance=[0.1, 1])
    >>> print(found.round(4))
    [[0.9668 0.9668]
     [1.     1.    ]]
    """
    _, b, _, _ = _checked(modes)
    if len(b) != 1 or b[0] == 0:
        raise InputError(f"modes must be one with an interaction > 0, got {len(b)} with the interactions {b.tolist()}")
    number = check_array("particles", particles, ndim=1, low=1, whole=True)[:, None]
    v0 = check_array("start_variance", start_variance, ndim=1, above=0)
    start: dict[str, Any] = {"start_mean": start_mean, "start_variance": v0[:, None, None, None]}
    found = gaussian_moments(modes, temperature, step_size, steps, particles=number, **start)
    added = added_by_width(modes, found.particle_variance[..., 0], found.mean_variance[..., 0], number, temperature)
    ends = np.maximum(np.asarray(modes.interaction) * v0 / 2, gaussian_optimum(modes, temperature).free_energy_excess)
    return added.max(axis=-1) / ends[:, None]


class GaussianDecayRates(NamedTuple):
    """Rates r per unit of time of each mode; its parts of L - L* decay as exp(-r t)."""

    mean_decay_rate: np.ndarray
    """2(a+b)."""
    variance_decay_rate: np.ndarray
    """4a."""


def gaussian_decay_rates(modes: Modes) -> GaussianDecayRates:
    """The rates per unit of time at which L - L* decays in continuous time: 2(a+b) of the means, 4a of the variances.

    F - F* is of first order in the variance and decays at 2a there. The log-Sobolev bound 2 min a is attained by b = 0.

    >>> found = gaussian_decay_rates(modes=Modes(external_curvature=0.5, interaction=1.5))
    >>> print(found.mean_decay_rate, found.variance_decay_rate)
    [4.] [2.]
    """
    a, b, _, _ = _checked(modes)
    return GaussianDecayRates(2 * (a + b), np.broadcast_to(4 * a, (a + b).shape))


def batch_variance(n: ArrayLike, batch_size: ArrayLike, data_field_variance: ArrayLike) -> np.ndarray:
    """The variance s2 = V (n-B)/(B (n-1)) of a mean over B of n samples without replacement, V their 1/n variance.

    >>> print(batch_variance(n=100, batch_size=[1, 10, 100], data_field_variance=1.0).round(4))
    [1.     0.0909 0.    ]
    """
    whole = check_array("n", n, low=1)
    size = check_array("batch_size", batch_size, low=1)
    spread = check_array("data_field_variance", data_field_variance, low=0)
    common_shape(n=whole, batch_size=size, data_field_variance=spread)
    if (size > whole).any():
        raise InputError(f"batch_size must be <= n, got batch_size={size.max():g} with n={whole.min():g}")
    return spread * (whole - size) / (size * np.maximum(whole - 1, 1))


def batched_moments(
    modes: Modes,
    n: int,
    batch_size: int,
    temperature: float,
    step_size: float,
    steps: ArrayLike,
    data_field_variance: ArrayLike,
    *,
    reshuffled: bool = False,
    particles: float = np.inf,
    start_mean: ArrayLike = 0.0,
    start_variance: ArrayLike = 1.0,
) -> GaussianMoments:
    """`gaussian_moments` with mini-batches, drawn anew at every step or cut from one permutation per epoch.

    The fields h of the samples have the variance `data_field_variance`; of a `reshuffled` epoch see
    `reshuffled_mean_variance`.

    >>> found = batched_moments(Modes(external_curvature=0.5, interaction=1.5), n=64, batch_size=4, temperature=0.2,
    ...                         step_size=0.1, steps=[10, 100], data_field_variance=1.0, reshuffled=True)
    >>> print(found.mean_variance[:, 0].round(5))
    [0.00381 0.00504]
    """
    n = check_whole("n", n, 1)
    batch_size, reshuffled = check_whole("batch_size", batch_size, 1, n), check_flag("reshuffled", reshuffled)
    start: dict[str, Any] = {"particles": particles, "start_variance": start_variance}
    noise = batch_variance(n, batch_size, data_field_variance)
    found = gaussian_moments(
        modes, temperature, step_size, steps, start_mean=start_mean, gradient_variance=noise, **start
    )
    if not reshuffled or batch_size == n:
        return found
    numbers = (modes, n, batch_size, temperature, step_size, data_field_variance)
    return found._replace(mean_variance=reshuffled_mean_variance(*numbers, steps=steps, **start))


def reshuffled_mean_variance(
    modes: Modes,
    n: int,
    batch_size: int,
    temperature: float,
    step_size: float,
    data_field_variance: ArrayLike,
    *,
    steps: ArrayLike | None = None,
    particles: float = np.inf,
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

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> w = reshuffled_mean_variance(modes, n=64, batch_size=4, temperature=0.2, step_size=0.1, data_field_variance=1.0)
    >>> print(w.round(5))
    [0.00416]
    """
    a, b, _, _ = _checked(modes)
    n = check_whole("n", n, 1, 10**7)
    batch_size = check_whole("batch_size", batch_size, 1, n)
    spread, s2 = (
        check_array("data_field_variance", data_field_variance, low=0),
        batch_variance(n, batch_size, data_field_variance),
    )
    heat = float(check_array("temperature", temperature, ndim=0, above=0))
    eta = float(check_array("step_size", step_size, ndim=0, above=0))
    number = float(check_array("particles", particles, low=1, finite=False, whole=True, ndim=0))
    check_stable(a + b, eta)
    kept, own = 1 - eta * (a + b), 2 * heat * eta / number + eta**2 * s2
    length = n // batch_size
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


def _relaxed(start: np.ndarray, end: np.ndarray, share: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """end + (1 - share)^steps (start - end), share below 2, where neither may be lost in the other's rounding."""
    flips = (share > 1) & np.isfinite(steps) & (np.mod(np.where(np.isfinite(steps), steps, 0), 2) == 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = steps * np.where(share > 1, np.log1p(share - 2), np.log1p(-np.minimum(share, 1)))
    exponent = np.where(steps == 0, 0.0, np.where(np.isinf(steps), -np.inf, exponent))
    kept, gone = np.exp(exponent), -np.expm1(exponent)
    return np.where(flips, -kept, kept) * start + np.where(flips, 1 + kept, gone) * end


def _checked(modes: Modes) -> tuple[np.ndarray, ...]:
    check_kind("modes", modes, Modes)
    a = np.atleast_1d(check_array("external_curvature", modes.external_curvature, above=1 / _LARGEST, high=_LARGEST))
    b = np.atleast_1d(check_array("interaction", modes.interaction, low=0, high=_LARGEST))
    wide: dict[str, Any] = {"low": -_LARGEST, "high": _LARGEST}
    h, c = (np.atleast_1d(check_array(name, getattr(modes, name), **wide)) for name in ("data_field", "target_mean"))
    common_shape(external_curvature=a, interaction=b, data_field=h, target_mean=c)
    return tuple(np.broadcast_arrays(a, b, h, c))


def _checked_moments(particle_moments: GaussianMoments) -> tuple[np.ndarray, ...]:
    check_kind("particle_moments", particle_moments, GaussianMoments, "as gaussian_moments gives them")
    m = np.atleast_1d(check_array("particle_mean", particle_moments.particle_mean, low=-_LARGEST, high=_LARGEST))
    v, w = (
        np.atleast_1d(check_array(name, getattr(particle_moments, name), low=0, high=_LARGEST))
        for name in ("particle_variance", "mean_variance")
    )
    common_shape(particle_mean=m, particle_variance=v, mean_variance=w)
    return m, v, w


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
            f"step_size must be below 2/(external_curvature + interaction) = {2 / stiffness.max():.6g}, else the means "
            f"run away; got {worst:g}"
        )
