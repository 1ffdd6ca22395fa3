"""Training in two time scales: the first layer moves while the second layer is always at its ridge optimum.

The network is f(x) = (1/M) sum_k a_k sigma(w_k . x) with M neurons, on m tasks that share the first layer, and the
objective is the mean over tasks of (1/n)|y - f|^2 + (ridge/M) sum_k a_k^2. With the hidden layer H (n, M), the kernel
K = H H^T / M and G = (K + n ridge I)^-1 the best second layer for labels y is a = H^T G y. `activation="identity"` is
the two-layer linear network, for which K = X (W W^T / M) X^T with the neurons as the columns of W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice
from unlazy.functions.elementwise import as_activation
from unlazy.observables.degrees_of_freedom import degrees_of_freedom, log_volume, ridge_inverse, solve_ridge
from unlazy.random import normal, uniform
from unlazy.training.mean_field.langevin import langevin_step

PENALTIES = ("none", "degrees_of_freedom", "frozen")
GRADIENTS = ("through", "frozen")


class State(NamedTuple):
    """The first layer (d, M), whose columns w_k are the neurons."""

    first_layer: Array


Step = Callable[[Array, State], State]


def init(key: Array, d: int, width: int) -> State:
    """Independent neurons w_k ~ N(0, I)."""
    if d < 1 or width < 1:
        raise InputError(f"d and width must be >= 1, got d={d} and width={width}")
    return State(normal(key, (d, width)))


def hidden_layer(first_layer: Array, inputs: Array, activation: str = "tanh") -> Array:
    """The hidden layer H = sigma(X W), (n, M), on inputs X (n, d)."""
    return as_activation(activation)(inputs @ first_layer)


def intrinsic_kernel(hidden: Array) -> Array:
    """The kernel K = H H^T / M of the hidden layer on its own inputs, (n, n)."""
    return hidden @ hidden.T / hidden.shape[1]


def second_layer(hidden: Array, labels: Array, ridge: ArrayLike) -> Array:
    """The ridge optimum a = H^T (K + n ridge I)^-1 y for each column y of the labels (n, m): (M, m)."""
    return hidden.T @ solve_ridge(intrinsic_kernel(hidden), ridge, labels)


def objective(
    hidden: Array, labels: Array, ridge: ArrayLike, *, fitted_labels: Array | None = None, gradient: str = "through"
) -> Array:
    """The regularised training error on `labels` (n, m) of the second layer that is optimal for `fitted_labels`.

        mean over tasks of (1/n)|y - H a/M|^2 + (ridge/M)|a|^2,     a = H^T G y~

    With y~ = y it is F = ridge tr(G T), T the mean over tasks of y y^T. With y~ = y + e, where e has independent
    entries of mean 0 and variance v, it is G on the slides, and its expectation is exactly

        E G = F + (v/n) DoF,     DoF = tr[K (K + n ridge I)^-1].

    `gradient="through"` differentiates through the closed form of a, and the expected gradient is that of the right
    side. `gradient="frozen"` holds every a_k fixed, and the expected gradient is that of another penalty,
    F + (v/n)[log det(I + K/(n ridge)) - DoF]. Source: Takakura & Suzuki 2024 (the first; their constant on the slides
    differs); the second follows from E[(y - f) (G y~)^T].
    """
    check_choice("gradient", gradient, GRADIENTS)
    fitted = second_layer(hidden, labels if fitted_labels is None else fitted_labels, ridge)
    if gradient == "frozen":
        fitted = jax.lax.stop_gradient(fitted)
    n, width = hidden.shape
    residuals = labels - hidden @ fitted / width
    return (jnp.sum(residuals**2) / n + jnp.asarray(ridge) * jnp.sum(fitted**2) / width) / labels.shape[1]


def noise_penalty_value(
    hidden: Array, ridge: ArrayLike, label_noise_variance: ArrayLike, noise_penalty: str = "degrees_of_freedom"
) -> Array:
    """The penalty that label noise of a variance v amounts to in expectation.

    `"degrees_of_freedom"` is (v/n) DoF, of gradients through the second layer; `"frozen"` is (v/n)[log det(I + K/(n
    ridge)) - DoF], of gradients with the second layer held fixed; `"none"` is 0.
    """
    check_choice("noise_penalty", noise_penalty, PENALTIES)
    if noise_penalty == "none":
        return jnp.zeros((), hidden.dtype)
    kernel = intrinsic_kernel(hidden)
    freedom = degrees_of_freedom(kernel, ridge)
    size = freedom if noise_penalty == "degrees_of_freedom" else log_volume(kernel, ridge) - freedom
    return jnp.asarray(label_noise_variance) * size / len(hidden)


def label_noise(key: Array, shape: tuple[int, ...], variance: ArrayLike) -> Array:
    """Independent noise of mean 0 and variance v, uniform on [-sqrt(3 v), sqrt(3 v)]."""
    return jnp.sqrt(3 * jnp.asarray(variance)) * uniform(key, shape, -1.0, 1.0)


def balanced_noise(n: int, variance: ArrayLike) -> Array:
    """The 2n noise vectors +-sqrt(n v) e_i as columns (n, 2n), whose mean is 0 and whose covariance is v I.

    As the objective is quadratic in the noise, its mean over them is its expectation over any noise with these moments.
    """
    half = jnp.sqrt(n * jnp.asarray(variance)) * jnp.eye(n)
    return jnp.concatenate([half, -half], axis=1)


def noise_gap(hidden: Array, labels: Array, noise: Array, ridge: ArrayLike, *, gradient: str = "through") -> Array:
    """The mean of G - F over the columns e of `noise` (n, k), each added to the labels of every task.

    Its gradient with respect to the hidden layer is the mean noise part of the gradient of that name in `objective`.
    """
    n = len(labels)
    clean = jnp.repeat(labels, noise.shape[1], axis=1)
    noisy = (labels[:, :, None] + noise[:, None, :]).reshape(n, -1)
    return objective(hidden, clean, ridge, fitted_labels=noisy, gradient=gradient) - objective(hidden, labels, ridge)


class NoiseEffect(NamedTuple):
    """What label noise does to the objective at one first layer, averaged over the noise exactly.

    `noise_gap` is E G - F and `noise_penalty` its formula (v/n) DoF. `through_error` is the distance of the noise part
    of the expected gradient from that of `noise_penalty`, relative to the latter; `frozen_error` is that of the frozen
    gradient from its own penalty, and `frozen_distance` that of the frozen gradient from the gradient of (v/n) DoF.
    """

    noise_gap: Array
    noise_penalty: Array
    through_error: Array
    frozen_error: Array
    frozen_distance: Array


def noise_effect(
    first_layer: Array,
    inputs: Array,
    labels: Array,
    ridge: ArrayLike,
    label_noise_variance: ArrayLike,
    activation: str = "tanh",
) -> NoiseEffect:
    """Compare the expected objective and both expected gradients with the penalties that they should be."""
    noise = balanced_noise(len(inputs), label_noise_variance)

    def gap(weights: Array, gradient: str) -> Array:
        return noise_gap(hidden_layer(weights, inputs, activation), labels, noise, ridge, gradient=gradient)

    def penalty(weights: Array, kind: str) -> Array:
        return noise_penalty_value(hidden_layer(weights, inputs, activation), ridge, label_noise_variance, kind)

    def distance(one: Array, other: Array) -> Array:
        return jnp.linalg.norm(one - other) / jnp.linalg.norm(other)

    found, through = jax.value_and_grad(gap)(first_layer, "through")
    exact, freedom = jax.value_and_grad(penalty)(first_layer, "degrees_of_freedom")
    frozen, frozen_penalty = jax.grad(gap)(first_layer, "frozen"), jax.grad(penalty)(first_layer, "frozen")
    return NoiseEffect(
        noise_gap=found,
        noise_penalty=exact,
        through_error=distance(through, freedom),
        frozen_error=distance(frozen, frozen_penalty),
        frozen_distance=distance(frozen, freedom),
    )


def build_step(
    inputs: Array,
    labels: Array,
    *,
    ridge: ArrayLike,
    step_size: ArrayLike,
    weight_decay: ArrayLike = 0.0,
    temperature: ArrayLike = 0.0,
    label_noise_variance: ArrayLike = 0.0,
    frozen: ArrayLike = 0.0,
    freedom_variance: ArrayLike = 0.0,
    frozen_variance: ArrayLike = 0.0,
    activation: str = "tanh",
) -> Step:
    """One step of mean-field Langevin dynamics of the first layer on inputs (n, d) and labels (n, m).

        w_k <- w_k - step_size [M grad_{w_k} (objective + penalty) + decay w_k] + sqrt(2 step_size temperature) xi_k

    The factor M turns the gradient of the objective, a function of all neurons, into that of its first variation. At
    every step the second layer is fitted to labels with fresh noise of `label_noise_variance`, none if it is 0. The
    gradient is `through` that of `objective` if `frozen` is 0 and `frozen` if it is 1. The exact penalties of
    `noise_penalty_value` are added, `degrees_of_freedom` with `freedom_variance` and `frozen` with `frozen_variance`.
    All numbers may be traced, so that one compiled step serves all variants. The step is a pure function
    `step(key, state)`; steps with the same key share the Langevin noise, whatever their variant.

    Source: Takakura & Suzuki 2024. Their global convergence is for the objective without noise, which is convex in
    the law of the neurons; (v/n) DoF is concave in it.
    """
    inputs, labels = _checked_data(inputs, labels)
    sigma = as_activation(activation)
    # A smaller ridge is lost in the rounding of K, whose largest eigenvalue is of order n.
    _check_number("ridge", ridge, low=len(inputs) * float(jnp.finfo(inputs.dtype).eps))
    _check_number("step_size", step_size, above=0)
    for name, number in (
        ("weight_decay", weight_decay),
        ("temperature", temperature),
        ("label_noise_variance", label_noise_variance),
        ("frozen", frozen),
        ("freedom_variance", freedom_variance),
        ("frozen_variance", frozen_variance),
    ):
        _check_number(name, number, low=0)

    def step(key: Array, state: State) -> State:
        label_key, langevin_key = jax.random.split(key)
        weights = state.first_layer
        noise = label_noise(label_key, labels.shape, label_noise_variance)
        preactivation = inputs @ weights
        hidden = sigma(preactivation)
        by_hidden = 2 * _kernel_gradient_times_hidden(
            hidden, labels, noise, ridge, frozen, freedom_variance, frozen_variance
        )
        moved = langevin_step(
            normal(langevin_key, weights.shape),
            weights,
            inputs.T @ (sigma.slope(preactivation) * by_hidden),
            temperature=temperature,
            confinement=jnp.asarray(weight_decay) / 2,
            step_size=step_size,
        )
        return State(moved)

    return step


def _kernel_gradient_times_hidden(
    hidden: Array,
    labels: Array,
    noise: Array,
    ridge: ArrayLike,
    frozen: ArrayLike,
    freedom_variance: ArrayLike,
    frozen_variance: ArrayLike,
) -> Array:
    """P H, where M/2 times the gradient of objective and penalty with respect to the hidden layer H is P H.

    Through the second layer P is the derivative with respect to K, ridge G (mean of e e^T - y y^T) G, as the objective
    is F + (1/n) mean of e^T K G e. With the second layer frozen it is -(1/n) mean of (y - f) (G y~)^T. This closed form
    is two to four times as fast as automatic differentiation, with which the tests compare it.
    """
    n, tasks = labels.shape
    ridge, frozen = jnp.asarray(ridge), jnp.asarray(frozen)
    freedom_variance, frozen_variance = jnp.asarray(freedom_variance), jnp.asarray(frozen_variance)
    inverse = ridge_inverse(intrinsic_kernel(hidden), ridge)
    fits = inverse @ jnp.concatenate([labels, noise], axis=1)
    signal, noisy = fits[:, :tasks], fits[:, tasks:]
    fitted = signal + noisy
    through = ridge / tasks * (noisy @ (noisy.T @ hidden) - signal @ (signal.T @ hidden))
    held = (noise - n * ridge * fitted) @ (fitted.T @ hidden) / (n * tasks)
    once = inverse @ hidden
    freedom = n * ridge * (inverse @ once)
    penalty = freedom_variance * freedom + frozen_variance * (once - freedom)
    return (1 - frozen) * through + frozen * held + penalty / n


def _checked_data(inputs: Array, labels: Array) -> tuple[Array, Array]:
    for name, array in (("inputs", inputs), ("labels", labels)):
        if jnp.ndim(array) != 2 or 0 in jnp.shape(array):
            raise InputError(f"{name} must be a matrix with a row per sample, got shape {jnp.shape(array)}")
        if not isinstance(array, jax.core.Tracer):
            check_array(name, array)
    if len(inputs) != len(labels):
        raise InputError(f"inputs and labels must have as many rows, got {len(inputs)} and {len(labels)}")
    return jnp.asarray(inputs, float), jnp.asarray(labels, float)


def _check_number(name: str, number: ArrayLike, *, low: float | None = None, above: float | None = None) -> None:
    # A traced number has no value to check; the study that traces it checks its parameters.
    if not isinstance(number, jax.core.Tracer):
        check_array(name, number, ndim=0, low=low, above=above)
