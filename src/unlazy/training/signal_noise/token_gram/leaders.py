"""The neurons ahead at the start: how they grow, and what their race of signal against noise predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.training.signal_noise.token_gram.drawing import draw_signal_noise
from unlazy.training.signal_noise.token_gram.engine import State, train
from unlazy.training.signal_noise.token_gram.fresh import fresh_error
from unlazy.training.signal_noise.token_gram.network import Network, relu_power
from unlazy.training.signal_noise.token_gram.observables import noise_coefficients, own_pairs, signal_coefficients
from unlazy.training.signal_noise.token_gram.problem import PatchProblem
from unlazy.training.signal_noise.token_gram.rules import gradient_descent, gradient_flow


class Growth(NamedTuple):
    """A leading pre-activation at the start, its growth rate c in x' = c x^(q-1), and where it is in W Z^T."""

    start: Array
    growth_rate: Array
    place: tuple[Any, Any]


class EarlyGrowth(NamedTuple):
    """The leading signal and the leading noise over their starts, by simulation and by the growth law."""

    signal_growth: Array
    signal_growth_law: Array
    noise_growth: Array
    noise_growth_law: Array


class RaceOutcome(NamedTuple):
    """Whether overfitting is predicted benign."""

    by_class: Array
    """`unlazy.theory.race`: both classes learn the signal while enough of their samples pull."""
    by_slowest: Array
    """The slower class is faster than the slowest sample."""


def early_growth(
    key: Array, problem: PatchProblem, power: int, steps: Sequence[int], *, pace: float
) -> tuple[EarlyGrowth, State]:
    """Follow the leaders for these numbers of steps of descent, activation ReLU^q; also the state at the end.

    The step size is `pace` times the time in which the faster of the two blows up, 1 / (c (q-2) x^(q-2)); at q = 2,
    where growth never does, the unit is growth by e.
    """
    leaders = leading_growth(problem, power)
    speeds = [leader.growth_rate * max(power - 2, 1) * leader.start ** (power - 2) for leader in leaders]
    step_size = pace / jnp.maximum(*speeds)

    def lead(state: State) -> list[Array]:
        return [jnp.abs(state.weights.preactivations[leader.place]) / leader.start for leader in leaders]

    network, rule = Network(relu_power(power)), gradient_descent(step_size)
    slow = train(key, problem, network, rule, steps[-1], record=lead, record_at=steps)
    signal_law, noise_law = (growth_law(leader, power, step_size, steps) for leader in leaders)
    return EarlyGrowth(slow.records[0], signal_law, slow.records[1], noise_law), slow.state


def race_run(
    key: Array,
    *,
    power: int,
    n: ArrayLike,
    d: ArrayLike,
    signal_strength: ArrayLike,
    width: ArrayLike,
    initial_scale: ArrayLike,
    stop_loss: ArrayLike,
    largest_n: int,
    largest_width: int,
    steps: int,
    slow_steps: Sequence[int],
    draws: int = 500,
) -> dict[str, Array]:
    """Train a ReLU^q network on [y mu, xi], n SNR^q = `signal_strength`: short steps first, then gradient flow.

    The short steps are a hundredth of the time of `early_growth`. Benign is a test error below 0.1.
    """
    draw_key, train_key, test_key = jax.random.split(key, 3)
    network, root = Network(relu_power(power)), jnp.sqrt(jnp.asarray(d, float))
    problem = draw_signal_noise(
        draw_key,
        n=n,
        d=d,
        width=width,
        signal_norm=root * (signal_strength / n) ** (1 / power),
        initial_deviation=initial_scale / root,
        largest_n=largest_n,
        largest_width=largest_width,
    )
    early, state = early_growth(train_key, problem, power, slow_steps, pace=0.01)
    state = train(train_key, problem, network, gradient_flow(), steps, stop_loss=stop_loss, state=state).state
    tested, outcome = fresh_error(test_key, problem, state.weights, network, draws=draws), race_outcome(problem, power)
    return {
        "test_error": tested.error,
        "test_loss": tested.loss,
        "training_loss": state.loss,
        "signal_coefficient": jnp.max(signal_coefficients(problem, state.weights)),
        "noise_coefficient": jnp.max(noise_coefficients(problem, state.weights)),
        "benign": (tested.error < 0.1).astype(float),
        "race_benign": outcome.by_class.astype(float),
        "slowest_benign": outcome.by_slowest.astype(float),
        "diverged_at": state.diverged_at,
        **early._asdict(),
    }


def leading_growth(problem: PatchProblem, power: int) -> tuple[Growth, Growth]:
    """The largest signal j <w0_jr, mu> and the largest noise <w0_jr, xi_i> with j = y_i, each with its rate."""
    signal, noise, squares = _overlaps(problem)
    neuron = jnp.argmax(signal)
    pair = jnp.unravel_index(jnp.argmax(noise), noise.shape)
    largest, samples = jnp.max(jnp.abs(problem.second_layer)), problem.design.weights
    # 1/m is the output weight and 1/n the sample's: c = q |mu|^2 / (4m) and q |xi|^2 / (2nm).
    return (
        Growth(signal[neuron], power * problem.gram[0, 0] * largest / 4, (neuron, 0)),
        Growth(noise[pair], power * squares[pair[1]] * samples[pair[1]] * largest / 2, (pair[0], 1 + pair[1])),
    )


def growth_law(leader: Growth, power: int, step_size: Array, steps: Sequence[int]) -> Array:
    """x/x0 after these numbers of steps of x <- x + eta c x^(q-1)."""
    speed = step_size * leader.growth_rate * leader.start ** (power - 2)

    def grow(x: Array, _: Any) -> tuple[Array, Array]:
        grown = x + speed * x ** (power - 1)
        return grown, grown

    return jax.lax.scan(grow, jnp.ones(()), length=steps[-1])[1][jnp.array(steps) - 1]


def race_outcome(problem: PatchProblem, power: int) -> RaceOutcome:
    """What the initial overlaps predict, traced; at q = 2 the slowest sample decides for both."""
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


def _overlaps(problem: PatchProblem) -> tuple[Array, Array, Array]:
    """relu(j <w0, mu>) (R,), relu(<w0, xi_i>) of neurons of the sample's class (R, n), and |xi_i|^2 (n,).

    Pairs that are not there have overlap 0.
    """
    noise = jnp.where(own_pairs(problem), jnp.maximum(problem.preactivations[:, 1:], 0.0), 0.0)
    signal = jnp.maximum(jnp.sign(problem.second_layer) * problem.preactivations[:, 0], 0.0)
    return signal, noise, jnp.diagonal(problem.gram)[1:]
