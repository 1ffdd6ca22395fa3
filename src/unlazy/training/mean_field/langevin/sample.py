"""The door for users: checks, a step that is stable, time averages with their errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.training.mean_field.langevin.checks import (
    check_functional,
    checked_particles,
    curvature,
    largest_energy,
    total_energy,
)
from unlazy.training.mean_field.langevin.engine import (
    BATCHES,
    Carry,
    Functional,
    Options,
    build_numbered_step,
    check_batch,
    data_length,
    energy,
)

_PIECES = 32
_MEASURED = 1, 2, 4, 8, 16
_HALVINGS = 60
_SHARE = 0.25
"""Of 1/curvature, for the automatic step: 1/(1 - 0.25/2) = 8/7 of the variance along the stiffest direction."""
_TRIAL = 64, 2000
_GROWTH = 1e6


class MeanFieldSample(NamedTuple):
    """Particles from the law that minimises F + confinement E|x|^2 + temperature E log mu, up to step and width biases.

    `energies` are F + confinement mean|x|^2 after `recorded_at` steps; they fluctuate and need not fall, as it is the
    free energy that does. `averages` is the tree of observables, averaged over the steps that were not discarded, and
    `standard_errors` its Monte-Carlo errors from the means of equal pieces of the run: too small if the pieces are
    shorter than the relaxation, NaN with fewer than 4 pieces. `curvature` is the largest one measured, and
    `step_reason` says where `step_size`, the last one used, comes from.
    """

    cloud: np.ndarray
    energies: np.ndarray
    recorded_at: np.ndarray
    averages: Any
    standard_errors: Any
    step_size: float
    step_reason: str
    curvature: float
    temperature: float
    confinement: float


def sample_mean_field(
    functional: Functional,
    start: Any,
    *,
    temperature: float,
    confinement: float,
    steps: int,
    step_size: float | str = "auto",
    data: Any = None,
    batch_size: int | None = None,
    batches: str = "reshuffled",
    variance_reduction: bool = False,
    observables: Callable[[Array], Any] | None = None,
    observe_every: int = 1,
    discard: float = 0.5,
    self_confined: bool = False,
    seed: int = 0,
) -> MeanFieldSample:
    """Minimise F(mu) + confinement E|x|^2 + temperature E log mu over laws mu, by N particles of Langevin dynamics.

    `functional(particles)`, or `functional(particles, rows)` with `data`, is F of the empirical law of the particles
    (N, d), as a JAX function without the confinement; the library differentiates it, multiplies by N and adds the rest.
    `start` are their places at the start, `steps` how many steps to take, `batch_size` how many of the rows to use at
    each, all if None; see `run` in the same folder for `batches` and `variance_reduction`. `observables(particles)` is
    any tree of arrays whose time average is wanted, after the share `discard` of the steps.

    `step_size="auto"` is 1/(4 curvature), an eighth of what is stable. A step eta multiplies the stationary variance
    along a direction of curvature a by 1/(1 - eta a/2), exactly so if F is quadratic: here 8/7, 14% too much, along the
    stiffest one, and less along others. The curvature is measured at the start and after 1, 2, 4, 8 and 16 of 32 pieces
    of the run, later increases only shorten the step, and a piece whose energy runs away is redone with half the step.
    A given step above 2/curvature, the largest linearly stable one at the start, is first tried for as many steps as
    such an instability needs to show (64 to 2000): if the energy runs away it is an `InputError` that names the largest
    stable step, and else, as with bounded features, a warning. The same error stops a run that becomes unstable later.
    A run shorter in time (step size times steps) than 1/(2 confinement), in which what the confinement alone holds
    forgets its start, ends with a warning.

    The law converges to the minimiser at the rate that the log-Sobolev constant gives, uniformly in N, if F is convex
    along mixtures of laws and its first variation is bounded and smooth: neither can be checked. The stationary law is
    off by O(step_size) and, in F, by a constant over N. Source: Suzuki, Wu & Nitanda (2023); Chen, Ren & Wang (2022).

    >>> import jax.numpy as jnp, numpy as np
    >>> def functional(x):
    ...     return 0.75 * (x.mean() - 1) ** 2 - 0.3 * x.mean()
    >>> start = np.random.default_rng(0).normal(size=(100, 1))
    >>> sample = sample_mean_field(functional, start, temperature=0.2, confinement=0.25, steps=4000,
    ...                            step_size=0.1, observables=lambda x: {"mean": x.mean()})
    >>> bool(abs(sample.averages["mean"] - 0.9) < 0.02)                     # (h + b c)/(a + b) of the closed form
    True
    """
    start = checked_particles(start)
    heat = float(check_array("temperature", temperature, ndim=0, above=0))
    weight = _checked_confinement(confinement, self_confined)
    steps = check_whole("steps", steps, 1)
    share = float(check_array("discard", discard, ndim=0, low=0, below=1))
    data = None if data is None else jax.tree.map(jnp.asarray, data)
    count = None if data is None else data_length(data)
    check_batch(batch_size, count, variance_reduction)
    check_choice("batches", batches, BATCHES)
    check_whole("observe_every", observe_every, 1)
    functional = functional if not callable(functional) or isinstance(functional, Hashable) else partial(functional)
    check_functional(functional, start, data, mean_over_rows=batch_size is not None and batch_size != count)
    automatic = isinstance(step_size, str)
    if automatic:
        check_choice("step_size", step_size, ["auto"])
    else:
        check_array("step_size", step_size, ndim=0, above=0)

    bend = float(curvature(functional, start, weight, data))
    if not np.isfinite(bend):
        raise InputError(
            "functional must have finite second derivatives at the starting particles, got a curvature NaN"
        )
    limit = largest_energy(functional, start, heat, weight, data)
    options = Options(batch_size, batches, variance_reduction, observables, observe_every)
    key, carry = jax.random.key(seed), build_numbered_step(functional, options, data)[0](start)

    def advance(carry: Carry, first: int, last: int, rate: float) -> tuple[Carry, float]:
        moved, value = _piece(functional, options, key, carry, data, first, last, heat, weight, rate)
        return moved, float(value)

    rate = _automatic_step(bend, heat, start) if automatic else float(step_size)
    reason = _reason(bend, "at the start") if automatic else "given"
    if not automatic and rate * bend >= 2:
        reason = _tried(rate, bend, limit, lambda last: advance(carry, 0, last, rate)[1])
    ends = np.unique(np.linspace(0, steps, min(_PIECES, steps) + 1).round().astype(int))
    energies, means = [float(total_energy(functional, start, weight, data))], []
    halvings, highest, settled, lasted = 0, bend, share * steps, 0.0
    for piece, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True), 1):
        while True:
            moved, value = advance(carry, first, last, rate)
            if value <= limit:
                if value < -1e6 * limit:
                    raise InputError(_unbounded(value, last))
                break
            halvings += 1
            if halvings > _HALVINGS:
                raise InputError(_unbounded(value, last))
            if not automatic:
                raise InputError(_diagnosis(functional, carry, data, weight, rate, value, last))
            rate, reason = rate / 2, f"halved {halvings} times, as the energy ran away with the step before"
        carry, lasted = moved, lasted + rate * (last - first)
        energies.append(value)
        means.append(carry.averages)
        if automatic and piece in _MEASURED and last < steps:
            bend = float(curvature(functional, carry.state.particles, weight, data))
            highest = max(highest, bend)
            # longer steps only before the averages begin, and never after a failure
            longest = 2 * rate if last <= settled and not halvings else rate
            if bend > 0 and (wanted := min(_SHARE / bend, longest)) != rate:
                rate, reason = wanted, _reason(bend, f"after {last} steps")
    _warn_if_short(lasted, weight, rate)
    averages, errors = _time_average(means, ends, settled, observe_every)
    return MeanFieldSample(
        cloud=np.asarray(carry.state.particles),
        energies=np.asarray(energies),
        recorded_at=ends,
        averages=averages,
        standard_errors=errors,
        step_size=float(rate),
        step_reason=reason,
        curvature=highest,
        temperature=heat,
        confinement=weight,
    )


@partial(jax.jit, static_argnames=("functional", "options"))
def _piece(
    functional: Functional,
    options: Options,
    key: Array,
    carry: Carry,
    data: Any,
    first: int,
    last: int,
    temperature: float,
    confinement: float,
    step_size: float,
) -> tuple[Carry, Array]:
    """The steps from `first` to `last` with their own averages, and the energy at their end, NaN if anything is."""
    step = build_numbered_step(functional, options, data)[1]
    carry = carry._replace(averages=jax.tree.map(jnp.zeros_like, carry.averages))
    numbers = {"temperature": temperature, "confinement": confinement, "step_size": step_size}

    def one(number: Array, carry: Carry) -> Carry:
        return step(key, number, carry, average_from=first, **numbers)

    # traced bounds, so that all pieces are one program: `evolve` knows its number of steps
    carry = jax.lax.fori_loop(first, last, one, carry)
    value = energy(functional, carry.state.particles, confinement, data)
    return carry, jnp.where(jnp.isfinite(carry.state.particles).all(), value, jnp.nan)


def _checked_confinement(confinement: Any, self_confined: bool) -> float:
    weight = float(check_array("confinement", confinement, ndim=0, low=0))
    if weight == 0 and not self_confined:
        raise InputError(
            "confinement must be > 0, or the particles spread without end; it may be 0 with self_confined=True if the "
            "functional itself grows in all directions"
        )
    return weight


def _automatic_step(bend: float, temperature: float, particles: Array) -> float:
    # a functional that is flat or concave at the start, and no confinement: one step of the size of the cloud
    spread = float(np.asarray(particles).var(axis=0).mean())
    return _SHARE / bend if bend > 0 else max(spread, 1e-6) / (2 * temperature)


def _reason(bend: float, when: str) -> str:
    excess = 1 / (1 - _SHARE / 2) - 1
    return (
        f"{_SHARE:g}/curvature, {bend:.3g} {when}; variances along the stiffest direction are up to {excess:.0%} too "
        "large"
    )


def _tried(rate: float, bend: float, limit: float, energy_after: Callable[[int], float]) -> str:
    """The reason of a given step above 2/curvature that a trial finds bounded, with a warning; else an error."""
    # a deviation grows by rate * bend - 1 at every step, if the curvature stays what it is
    growth = np.log(max(rate * bend - 1, 1 + 1e-9))
    last = int(np.clip(np.ceil(np.log(_GROWTH) / growth), *_TRIAL))
    stable = f"2/curvature = {2 / bend:.3g}, the largest linearly stable step at the starting particles"
    value = energy_after(last)
    if not value <= limit:
        raise InputError(
            f"step_size must be below {stable} (curvature {bend:.4g}), or 'auto' for an eighth of it; got {rate:g}, "
            f"with which the energy went to {value:.3g} within {last} steps"
        )
    warnings.warn(
        f"step_size={rate:g} is not below {stable}; the energy stayed bounded in a trial of {last} steps, but the "
        "stationary law may be far from the optimum",
        stacklevel=3,
    )
    return f"given, above {stable}, and bounded in a trial of {last} steps"


def _warn_if_short(lasted: float, confinement: float, rate: float) -> None:
    if 2 * confinement * lasted < 1 and confinement > 0:
        relaxation = 1 / (2 * confinement)
        warnings.warn(
            f"the run lasted {lasted:.3g} units of time, less than 1/(2 confinement) = {relaxation:.3g}, in which the "
            f"particles forget their start where only the confinement holds them; take several times "
            f"steps={int(np.ceil(relaxation / rate))}",
            stacklevel=3,
        )


def _diagnosis(
    functional: Functional, carry: Carry, data: Any, confinement: float, rate: float, value: float, last: int
) -> str:
    """Why the run stopped: what the energy did, and the largest stable step where it was still fine."""
    bend = float(curvature(functional, carry.state.particles, confinement, data))
    largest = min(2 / bend, rate / 2) if bend > 0 else rate / 2
    return (
        f"step_size={rate:g} is unstable: the energy went to {value:.3g} before step {last}; take at most "
        f"{largest:.3g} (curvature {bend:.3g} where it was still fine), or 'auto'"
    )


def _unbounded(value: float, last: int) -> str:
    return (
        f"functional must be bounded below together with the confinement: before step {last} the energy ran away to "
        f"{value:.3g}, however short the step"
    )


def _time_average(means: list[Any], ends: np.ndarray, settled: float, every: int) -> tuple[Any, Any]:
    """The weighted mean of the pieces after `settled` steps, and its standard error from their spread."""
    counts = ends[1:] // every - ends[:-1] // every
    used = [k for k in range(len(means)) if (ends[k] >= settled or k == len(means) - 1) and counts[k]]
    if not used or means[0] is None:
        return None, None
    weights = counts[used] / counts[used].sum()

    def over_pieces(*leaves: Array) -> tuple[np.ndarray, np.ndarray]:
        stacked = np.stack([np.asarray(leaf, np.float64) for leaf in leaves])
        mean = np.tensordot(weights, stacked, 1)
        if len(used) < 4:
            return mean, np.full_like(mean, np.nan)
        return mean, stacked.std(axis=0, ddof=1) / np.sqrt(len(used))

    pairs = jax.tree.map(over_pieces, *(means[k] for k in used))
    outer = jax.tree.structure(means[0])
    return jax.tree.transpose(outer, jax.tree.structure((0, 0)), pairs)
