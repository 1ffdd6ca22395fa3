"""The race of signal against noise at initialisation, and the growth laws that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jax import Array

    from unlazy.training.signal_noise.token_gram.problem import Problem


class Growth(NamedTuple):
    """A leading pre-activation at the start, its rate c in x' = c x^(q-1), and where it is in W Z^T."""

    start: Array
    rate: Array
    place: tuple[Any, Any]


def paired_neurons(width: Any, capacity: int) -> Array:
    """Output weights +-1/m of `width` = m neurons of each class and 0 of those that are not there, (2 capacity,).

    One program serves all widths.
    """
    import jax.numpy as jnp

    index = jnp.arange(2 * capacity)
    return jnp.where(index % capacity < width, jnp.where(index < capacity, 1.0, -1.0) / width, 0.0)


def leading_growth(problem: Problem, power: int) -> tuple[Growth, Growth]:
    """The largest signal j <w0_jr, mu> and the largest noise <w0_jr, xi_i> with j = y_i, each with its rate."""
    import jax.numpy as jnp

    signal, noise, squares = _overlaps(problem)
    neuron = jnp.argmax(signal)
    pair = jnp.unravel_index(jnp.argmax(noise), noise.shape)
    largest, samples = jnp.max(jnp.abs(problem.second_layer)), problem.design.weights
    # 1/m is the output weight and 1/n the sample's: c = q |mu|^2 / (4m) and q |xi|^2 / (2nm).
    return (
        Growth(signal[neuron], power * problem.gram[0, 0] * largest / 4, (neuron, 0)),
        Growth(noise[pair], power * squares[pair[1]] * samples[pair[1]] * largest / 2, (pair[0], 1 + pair[1])),
    )


class RaceOutcome(NamedTuple):
    """Whether overfitting is predicted benign."""

    by_class: Array
    """`unlazy.theory.race`: both classes learn the signal while enough of their samples pull."""
    by_slowest: Array
    """The slower class is faster than the slowest sample."""


def race_outcome(problem: Problem, power: int) -> RaceOutcome:
    """What the initial overlaps predict, traced; at q = 2 the slowest sample decides for both."""
    import jax.numpy as jnp

    signal, noise, squares = _overlaps(problem)
    classes, weights = problem.design.classes, problem.design.weights
    # Times in units of 2m / (q (q-2)), or of 2m / q at q = 2.
    order = power - 2
    samples = jnp.where(weights > 0, 1 / (weights * squares * jnp.max(noise, axis=0) ** order), 0.0)
    by_class, times = [], []
    for label in (1.0, -1.0):
        best = jnp.max(jnp.where(label * problem.second_layer > 0, signal, 0.0))
        own = (classes == label) & (weights > 0)
        latest = jnp.max(jnp.where(own, samples, 0.0))
        mean = jnp.sum(jnp.where(own, samples, 0.0)) / jnp.sum(own)
        times.append(2 / (problem.gram[0, 0] * best**order))
        by_class.append(times[-1] < (mean if order else latest))
    return RaceOutcome(by_class[0] & by_class[1], jnp.maximum(*times) < jnp.max(samples))


def _overlaps(problem: Problem) -> tuple[Array, Array, Array]:
    """relu(j <w0, mu>) (R,), relu(<w0, xi_i>) of neurons of the sample's class (R, n), and |xi_i|^2 (n,).

    Pairs that are not there have overlap 0.
    """
    import jax.numpy as jnp

    side, design = jnp.sign(problem.second_layer), problem.design
    own = (side[:, None] == design.classes) & (design.weights > 0)
    noise = jnp.where(own, jnp.maximum(problem.preactivations[:, 1:], 0.0), 0.0)
    return jnp.maximum(side * problem.preactivations[:, 0], 0.0), noise, jnp.diagonal(problem.gram)[1:]


def growth_law(leader: Growth, power: int, step_size: Array, steps: Sequence[int]) -> Array:
    """x/x0 after these numbers of steps of x <- x + eta c x^(q-1)."""
    import jax
    import jax.numpy as jnp

    speed = step_size * leader.rate * leader.start ** (power - 2)

    def grow(x: Array, _: Any) -> tuple[Array, Array]:
        grown = x + speed * x ** (power - 1)
        return grown, grown

    return jax.lax.scan(grow, jnp.ones(()), length=steps[-1])[1][jnp.array(steps) - 1]
