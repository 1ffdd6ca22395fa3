"""A quadratic denoiser and a classifier, trained on the same samples [mu_y, xi] with orthogonal mu_1 and mu_-1."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.training.loop import evolve
from unlazy.training.signal_noise import token_gram as engine

SMALL = 0.01
"""The length of an initial neuron, over that of a denoiser's at its end or of a unit vector."""


class Descended(NamedTuple):
    """Where a descent is: weights (m, c), the loss and its gradient there, and the step that is tried next."""

    weights: Array
    loss: Array
    gradient: Array
    step_size: Array

    @property
    def gradient_norm(self) -> Array:
        """|gradient| |W| / |loss|."""
        return jnp.linalg.norm(self.gradient) * jnp.linalg.norm(self.weights) / jnp.abs(self.loss)


def token_denoising_loss(weights: Array, tokens: Array, shares: Array, time: ArrayLike, width: ArrayLike) -> Array:
    """`theory.denoising_loss` of m = `width` neurons, as a sum over distinct patches, the tokens, with these shares.

    Rows of zeros among the weights are neurons that are not there.
    """
    t = jnp.asarray(time)
    alpha, variance = jnp.exp(-t), -jnp.expm1(-2 * t)
    a, gram = alpha * tokens @ weights.T, weights @ weights.T
    lengths = jnp.diagonal(gram)
    squares = a**2 + variance * lengths
    sixth = jnp.sum(squares * (squares @ gram), 1) + 4 * variance * jnp.sum(a * (a @ gram**2), 1)
    sixth = sixth + 2 * variance**2 * jnp.sum(gram**3)
    return shares @ (sixth / width - 4 * jnp.sqrt(variance / width) * (a @ lengths))


def descend(
    start: Array, tokens: Array, shares: Array, time: ArrayLike, width: ArrayLike, *, steps: int, tolerance: float
) -> Descended:
    """Gradient descent on `token_denoising_loss` until its `gradient_norm` is at most `tolerance`, or for `steps`.

    The step size, at first a tenth of |W| / |gradient|, grows by a fifth with every step. One that would raise the loss
    is not made, and halves it.
    """
    slope = jax.value_and_grad(token_denoising_loss)

    def step(_: Array, state: Descended) -> Descended:
        weights = state.weights - state.step_size * state.gradient
        new = Descended(weights, *slope(weights, tokens, shares, time, width), 1.2 * state.step_size)
        better = new.loss <= state.loss
        refused = state._replace(step_size=state.step_size / 2)
        return jax.tree.map(lambda a, b: jnp.where(better, a, b), new, refused)

    loss, gradient = slope(start, tokens, shares, time, width)
    first = 0.1 * jnp.linalg.norm(start) / jnp.linalg.norm(gradient)
    state = Descended(start, loss, gradient, first)
    return evolve(step, state, steps, stop=lambda state: state.gradient_norm <= tolerance)[0]


def draw_samples(
    key: Array, *, n: int, d: ArrayLike, width: ArrayLike, largest_width: int, signal_norm: ArrayLike
) -> engine.PatchProblem:
    """n samples with alternating labels, a classifier of `width` neurons of each class, and a denoiser's as many.

    Those of the denoiser are the last `largest_width` rows, and their second layer is 0: the classifier has no use for
    them. All of them are N(0, I/d) times `SMALL`; the noise is orthogonal to both signals.
    """
    even = jnp.arange(n) % 2
    labels = 1.0 - 2.0 * even
    design = engine.PatchDesign(
        patches=(engine.Patch(shared=jnp.stack([1.0 - even, even], 1)), engine.Patch(own=jnp.ones((n, 1)))),
        labels=labels,
        classes=labels,
        weights=jnp.full(n, 1 / n),
    )
    readout = jnp.concatenate([engine.paired_second_layer(width, largest_width), jnp.zeros(largest_width)])
    norms = jnp.stack([jnp.asarray(signal_norm, float)] * 2)
    return engine.draw(key, design, norms, readout, d=d, initial_deviation=SMALL / jnp.sqrt(jnp.asarray(d, float)))


def denoise(
    problem: engine.PatchProblem, time: ArrayLike, *, width: ArrayLike, steps: int, tolerance: float
) -> dict[str, Array]:
    """Train a denoiser on the samples of `draw_samples` from small random weights, and one whose neurons are all alike.

    The latter starts at a small multiple of the mean patch and stays in the patches' span: it ends at the symmetric
    stationary point, and one neuron, of which the loss is the same, stands for all. A balance is the mean of
    |<w_r, mu>| over that of |<w_r, xi_i>|; a turned neuron has a negative mean overlap with the signals or the noises.
    """
    n, tokens_there = len(problem.design.labels), len(problem.gram)
    largest_width = len(problem.second_layer) // 3
    # An orthonormal basis of all that is there, tokens first: a Cholesky factor of all inner products.
    start, own = problem.preactivations[-largest_width:], problem.initial_gram[-largest_width:, -largest_width:]
    rows = jnp.linalg.cholesky(jnp.block([[problem.gram, start.T], [start, own]]))
    tokens, neurons = rows[:tokens_there], rows[tokens_there:]
    shares = jnp.concatenate([jnp.full(2, 0.5), jnp.full(n, 1 / n)])
    # Neurons of this length have overlaps of order beta^(1/3) with e^-t x, as at the minimum.
    length = jnp.exp(time) * jnp.cbrt(jnp.sqrt(-jnp.expm1(-2 * jnp.asarray(time))))
    length = length / jnp.sqrt(shares @ jnp.diagonal(problem.gram) / 2)
    present = (jnp.arange(largest_width) < width)[:, None]
    options: dict[str, Any] = {"steps": steps, "tolerance": tolerance}
    trained = descend(length * present * neurons, tokens, shares, time, width, **options)
    mean = shares @ tokens
    alike = descend(SMALL * length * mean[None] / jnp.linalg.norm(mean), tokens, shares, time, 1, **options)

    def balance(weights: Array) -> Array:
        sizes = jnp.abs(weights @ tokens.T).sum(0)
        return sizes[:2].mean() / sizes[2:].mean()

    overlaps = trained.weights @ tokens.T
    turned = (overlaps[:, :2].mean(1) < 0) | (overlaps[:, 2:].mean(1) < 0)
    return {
        "denoiser_balance": balance(trained.weights),
        "symmetric_balance": balance(alike.weights),
        "relative_depth": trained.loss / alike.loss,
        "turned_share": jnp.sum(turned) / width,
        "gradient_norm": jnp.maximum(trained.gradient_norm, alike.gradient_norm),
    }


def classify(problem: engine.PatchProblem, *, steps: int) -> dict[str, Array]:
    """Train a ReLU^2 classifier of the samples by gradient flow, to the loss 0.05 or for `steps`.

    Its balance is the largest coefficient of a signal over the largest of a noise.
    """
    network, rule = engine.Network(engine.relu_power(2)), engine.gradient_flow()
    state = engine.train(jax.random.key(0), problem, network, rule, steps, stop_loss=0.05).state
    learned = state.weights.coefficients * jnp.diagonal(problem.gram)
    return {
        "classifier_balance": jnp.max(learned[:, :2]) / jnp.max(jnp.abs(learned[:, 2:])),
        "classifier_loss": state.loss,
        "diverged_at": state.diverged_at,
    }


def both_learners(
    key: Array,
    *,
    signal_strength: ArrayLike,
    time: ArrayLike,
    n: int,
    d: ArrayLike,
    width: ArrayLike,
    largest_width: int,
    steps: int,
    tolerance: float,
) -> dict[str, Array]:
    """A denoiser for every one of the times (k,), and a classifier, on the same samples of n SNR^2 = `signal_strength`.

    What `denoise` has is of shape (k,), what `classify` has a number.
    """
    sizes: dict[str, Any] = {"n": n, "d": d, "width": width, "largest_width": largest_width}
    problem = draw_samples(key, signal_norm=jnp.sqrt(signal_strength * d / n), **sizes)
    options: dict[str, Any] = {"width": width, "steps": steps, "tolerance": tolerance}
    found = jax.vmap(lambda one: denoise(problem, one, **options))(jnp.asarray(time, float))
    return found | classify(problem, steps=steps)
