"""The steps and the loop of mean-field Langevin dynamics; the door is `unlazy.training.mean_field.langevin`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_choice, check_known, check_whole
from unlazy.random import normals_at, uniforms_at
from unlazy.training.loop import evolve
from unlazy.training.mean_field.langevin.step import langevin_step

Functional = Callable[..., Array]
"""F(particles) or, for a mean over data, F(particles, rows): a scalar; the particles are (N, d)."""

BATCHES = ("reshuffled", "independent")


class LangevinState(NamedTuple):
    """The particles (N, d) and, with variance reduction, an earlier state of theirs with its gradient on all rows."""

    particles: Array
    anchor: Array | None = None
    anchor_gradient: Array | None = None


Step = Callable[..., LangevinState]


class LangevinRun(NamedTuple):
    """What `run` leaves behind.

    `energies` are F + confinement E|x|^2 on all rows after each number of steps in `record_at`; `averages` is the tree
    of `observables`, averaged over time; `records` is the same tree at the steps of `record_at`, None unless asked for.
    """

    particles: Array
    energies: Array
    averages: Any
    records: Any


def energy(functional: Functional, particles: Array, confinement: ArrayLike, data: Any = None) -> Array:
    """F + confinement mean|x|^2 of the empirical law of the particles, on all rows of `data`."""
    value = functional(particles) if data is None else functional(particles, data)
    return value + jnp.asarray(confinement, particles.dtype) * jnp.mean(jnp.sum(particles**2, axis=-1))


def variation_gradient(functional: Functional, particles: Array, rows: Any = None) -> Array:
    """N dF/dx_i (N, d), the gradient of the first variation of F at each particle; exact, self-interaction included."""
    arguments = () if rows is None else (rows,)
    return len(particles) * jax.grad(functional)(particles, *arguments)


def init(particles: Array) -> LangevinState:
    """The state at the given particles (N, d)."""
    return LangevinState(jnp.asarray(particles))


def anchor(state: LangevinState, functional: Functional, data: Any) -> LangevinState:
    """The same particles, remembered as the anchor of variance reduction together with their gradient on all rows."""
    return LangevinState(state.particles, state.particles, variation_gradient(functional, state.particles, data))


def build_step(
    functional: Functional,
    *,
    temperature: ArrayLike,
    confinement: ArrayLike,
    step_size: ArrayLike,
    variance_reduction: bool = False,
) -> Step:
    """One step of the dynamics, a pure function `step(key, state, rows=None)`.

    `rows` are the rows of data on which F is evaluated, the same for all particles: all of them or a mini-batch. With
    variance reduction (SVRG) the gradient is G_rows(x) - G_rows(anchor) + G_all(anchor), unbiased and exact at the
    anchor, which `anchor` sets, say once an epoch. The gradient of the confinement is always exact. All numbers may be
    traced. Cost in gradient evaluations per particle: as many as there are rows, twice that with variance reduction.
    """
    check_known("temperature", temperature, ndim=0, low=0)
    check_known("confinement", confinement, ndim=0, low=0)
    check_known("step_size", step_size, ndim=0, above=0)

    numbers = {"temperature": temperature, "confinement": confinement, "step_size": step_size}
    move = _build_move(functional, variance_reduction)

    def step(key: Array, state: LangevinState, rows: Any = None) -> LangevinState:
        noise = normals_at(key, 0, state.particles.shape, state.particles.dtype)
        return move(noise, state, rows, **numbers)

    return step


def _build_move(functional: Functional, variance_reduction: bool) -> Callable[..., LangevinState]:
    """The step with given standard normal numbers."""

    def move(noise: Array, state: LangevinState, rows: Any, **numbers: Any) -> LangevinState:
        gradient = variation_gradient(functional, state.particles, rows)
        if variance_reduction:
            if state.anchor is None or state.anchor_gradient is None:
                raise InputError("variance_reduction needs a state with an anchor; got none, set it with `anchor`")
            gradient += state.anchor_gradient - variation_gradient(functional, state.anchor, rows)
        return state._replace(particles=langevin_step(noise, state.particles, gradient, **numbers))

    return move


def run(
    key: Array,
    particles: Array,
    functional: Functional,
    *,
    steps: int,
    temperature: ArrayLike,
    confinement: ArrayLike,
    step_size: ArrayLike,
    data: Any = None,
    batch_size: int | None = None,
    used: int | Array | None = None,
    batches: str = "reshuffled",
    variance_reduction: bool = False,
    observables: Callable[[Array], Any] | None = None,
    observe_every: int = 1,
    average_from: int = 0,
    record_at: Sequence[int] | None = None,
    record_observables: bool = False,
) -> LangevinRun:
    """Run the dynamics for a number of steps, averaging observables over time.

    `data` is a tree of arrays with a common first axis of n rows, handed to F as `rows`. `batch_size` rows at a time
    are used if it is given, one batch for all particles: `batches="reshuffled"` cuts them from one permutation per
    epoch of n // batch_size steps, whose noise largely cancels, `"independent"` draws each one without replacement
    anew, as the theory has it (batches of thousands are slow to draw, as their number squared). `variance_reduction`
    sets the anchor at the start of every epoch. With `used`, which may be traced, the first so many rows of an
    independent batch are themselves one, for a functional that looks at no others.

    `observables(particles)` is any tree of arrays; its mean over the states after every `observe_every`-th step later
    than `average_from` is accumulated on the way. `record_at` (increasing, from 0 to `steps`; the end alone by default)
    are the steps at which the energy, and with `record_observables` the observables, are kept.

    A pure function of its arrays, for jit and vmap over instances; the step is compiled once. The particles' dtype is
    that of all arithmetic.
    """
    options = Options(batch_size, batches, variance_reduction, observables, observe_every)
    start, step = build_numbered_step(functional, options, data)
    numbers = {"temperature": temperature, "confinement": confinement, "step_size": step_size}

    def one(number: Array, carry: Carry) -> Carry:
        return step(key, number, carry, average_from=average_from, used=used, **numbers)

    def record(carry: Carry) -> tuple[Array, Any]:
        seen = observables(carry.state.particles) if record_observables and observables is not None else None
        return energy(functional, carry.state.particles, confinement, data), seen

    carry, (energies, records) = evolve(one, start(particles), steps, record=record, record_at=record_at)
    return LangevinRun(carry.state.particles, energies, carry.averages, records)


class Carry(NamedTuple):
    """What goes from step to step: the state, the order of the rows in this epoch, and the running averages."""

    state: LangevinState
    order: Array | None
    averages: Any


class Options(NamedTuple):
    """What the compiled step depends on, besides the functional and the data; the words are those of `run`."""

    batch_size: int | None
    batches: str
    variance_reduction: bool
    observables: Callable[[Array], Any] | None
    observe_every: int


def build_numbered_step(
    functional: Functional, options: Options, data: Any = None
) -> tuple[Callable[..., Carry], Callable[..., Carry]]:
    """`start(particles)` and `step(key, number, carry, average_from=..., temperature=..., ...)`, steps 0, 1, ...

    The randomness of a step depends on the key and its number alone; the number may be traced, but not batched: else
    `cond` would do the work of an epoch's start at every step.
    """
    batch_size, batches, variance_reduction, observables, observe_every = options
    count = None if data is None else data_length(data)
    check_choice("batches", batches, BATCHES)
    check_batch(batch_size, count, variance_reduction)
    check_whole("observe_every", observe_every, 1)
    size = batch_size if batch_size is not None and batch_size != count else None
    epoch = 1 if size is None or count is None else count // size
    move = _build_move(functional, variance_reduction)

    def start(particles: Array) -> Carry:
        state = init(particles)
        if variance_reduction:
            state = LangevinState(state.particles, state.particles, jnp.zeros_like(state.particles))
        order = None if size is None else jnp.arange(count, dtype=jnp.int32)
        shapes = None if observables is None else jax.eval_shape(observables, state.particles)
        return Carry(state, order, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, _real(leaf.dtype)), shapes))

    def step(
        key: Array,
        number: Array,
        carry: Carry,
        *,
        average_from: int | Array = 0,
        used: int | Array | None = None,
        **numbers: Any,
    ) -> Carry:
        shape, real = carry.state.particles.shape, carry.state.particles.dtype
        normal, place = math.prod(shape), number % epoch

        def new_epoch(carry: Carry) -> Carry:
            state, order = carry.state, carry.order
            if order is not None and batches == "reshuffled":
                ranks = uniforms_at(key, number, (len(order),), jnp.float32, first=normal)
                order = jnp.argsort(ranks).astype(jnp.int32)
            return carry._replace(state=anchor(state, functional, data) if variance_reduction else state, order=order)

        if (size is not None and batches == "reshuffled") or variance_reduction:
            carry = jax.lax.cond(place == 0, new_epoch, lambda carry: carry, carry)
        rows = data
        if size is not None and carry.order is not None:
            if batches == "reshuffled":
                chosen = jax.lax.dynamic_slice_in_dim(carry.order, place * size, size)
            else:
                chosen = _subset(uniforms_at(key, number, (size,), real, first=normal), len(carry.order), used)
            rows = jax.tree.map(lambda leaf: leaf[chosen], data)
        kicks = normals_at(key, number, shape, real)
        carry = carry._replace(state=move(kicks, carry.state, rows, **numbers))
        return carry if observables is None else observed(carry, number + 1, average_from)

    def observed(carry: Carry, number: Array, average_from: int | Array) -> Carry:
        seen_before = (number - 1) // observe_every - average_from // observe_every
        due = (number % observe_every == 0) & (number > average_from)

        def update(carry: Carry) -> Carry:
            share = 1 / (seen_before + 1)
            seen = observables(carry.state.particles)  # type: ignore[misc]
            mean = jax.tree.map(lambda old, new: old + (new - old) * share.astype(old.dtype), carry.averages, seen)
            return carry._replace(averages=mean)

        return jax.lax.cond(due, update, lambda carry: carry, carry)

    return start, step


def _subset(uniforms: Array, count: int, used: int | Array | None = None) -> Array:
    """As many of the numbers below `count` as there are uniforms on (-1, 1), none twice, by Floyd's algorithm.

    With `used` the first so many are such a subset, and the others any numbers.
    """
    size = len(uniforms)
    least = count - (size if used is None else used)
    most = jnp.minimum(least + jnp.arange(size), count - 1)
    # (1 + u)/2 of the largest u rounds to 1
    drawn = jnp.minimum(jnp.floor((uniforms + 1) / 2 * (most + 1)).astype(jnp.int32), most)

    def one(place: Array, chosen: Array) -> Array:
        taken = (chosen == drawn[place]).any()
        return chosen.at[place].set(jnp.where(taken, most[place], drawn[place]).astype(jnp.int32))

    return jax.lax.fori_loop(0, size, one, jnp.full((size,), -1, jnp.int32))


def data_length(data: Any) -> int:
    """The number n of rows of a tree of arrays, or an error."""
    leaves = jax.tree.leaves(data)
    lengths = {leaf.shape[0] if getattr(leaf, "ndim", 0) else -1 for leaf in leaves}
    if not leaves or len(lengths) > 1 or min(lengths) < 1:
        shapes = ", ".join(str(getattr(leaf, "shape", "a number")) for leaf in leaves) or "nothing"
        raise InputError(f"data must be arrays with one common first axis of at least 1 row, got the shapes {shapes}")
    return lengths.pop()


def check_batch(batch_size: int | None, count: int | None, variance_reduction: bool) -> None:
    """Raise an `InputError` if there can be no such mini-batches."""
    if batch_size is None:
        if variance_reduction:
            raise InputError("variance_reduction needs batch_size, an integer from 1 to the number of rows; got None")
        return
    if count is None:
        raise InputError(
            f"batch_size needs data, whose rows are drawn, and a functional F(particles, rows); got {batch_size}"
        )
    check_whole("batch_size", batch_size, 1, count)


def _real(dtype: Any) -> Any:
    return dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.result_type(float)
