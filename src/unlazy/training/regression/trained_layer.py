"""The first layer of a two-layer linear network, trained over many tasks by noisy gradient descent.

The network is f(x) = v.W x with a first layer W that all tasks share and a second layer v of each task, at its ridge
optimum for labels with fresh noise. Tasks come in groups, inputs X (groups, n, d) and labels Y (groups, n, m): one
group of m tasks shares its inputs, groups of one task have inputs of their own. With K = X W^T W X^T, c = n ridge
(`penalty`) and G = (K + c I)^-1 the second layer predicts K G y, and label noise of variance v (`label_noise_variance`)
makes the expected objective the degrees-of-freedom criterion with weight v,

    R(W) = mean over groups of (1/n) [c tr(G Y Y^T)/m + v tr(K G)].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_whole
from unlazy.data.linear_tasks import LinearTasks, first_tasks, linear_tasks
from unlazy.observables.degrees_of_freedom import ridge_inverse
from unlazy.random import normal
from unlazy.training.loop import evolve
from unlazy.training.mean_field.langevin.step import noisy_step
from unlazy.training.regression.two_timescale import label_noise

Step = Callable[[Array, ArrayLike, Array], Array]


class LayerRisks(NamedTuple):
    """What a first layer is worth."""

    criterion: Array
    """R(W), on all tasks that it was trained on."""
    risk: Array
    """Excess risk of these tasks at new inputs, exact over the inputs."""
    new_risk: Array
    """Excess risk of new tasks with n inputs of their own, exact over tasks and noise."""
    degrees_of_freedom: Array


def init(key: Array, spectrum: ArrayLike, width: int, penalty: ArrayLike) -> Array:
    """W (width, d) with independent normal entries, so small that the mean diagonal of K is the penalty."""
    spectrum = jnp.asarray(spectrum)
    scale = jnp.sqrt(jnp.asarray(penalty) / (check_whole("width", width, 1) * spectrum.sum()))
    return scale * normal(key, (width, spectrum.size))


def hidden_layer(first_layer: Any, inputs: Any) -> Any:
    """W x for every row x of the inputs; a first layer of shape (d,) is diagonal."""
    return inputs * first_layer if first_layer.ndim == 1 else inputs @ first_layer.mT


def gradient(first_layer: Any, inputs: Any, labels: Any, noise: Any, penalty: Any, inverse: Callable) -> Any:
    """The gradient in W of the training error on `labels` of the second layers that are fitted to labels + noise.

    It goes through the second layer: with noise E it is the mean over groups of

        2 W X^T P X,     P = (c/n) G (E E^T - Y Y^T) G / m.

    Written once for NumPy and JAX: `inverse(K, c)` is (K + c I)^-1 of every group.
    """
    groups, n, tasks = labels.shape
    hidden = hidden_layer(first_layer, inputs)
    resolvent = inverse(hidden @ hidden.mT, penalty)
    signal, noisy = resolvent @ labels, resolvent @ noise
    moved = (noisy @ noisy.mT - signal @ signal.mT) @ hidden
    scale = 2 * penalty / (n * tasks * groups)
    if first_layer.ndim == 1:
        return scale * (moved * inputs).sum((0, 1))
    flat = (groups * n, -1)
    return scale * moved.reshape(flat).mT @ inputs.reshape(flat)


def inverses(kernels: Array, penalty: ArrayLike) -> Array:
    """(K + c I)^-1 of kernels (groups, n, n)."""
    return jax.vmap(ridge_inverse, (0, None))(kernels, jnp.asarray(penalty) / kernels.shape[-1])


def build_step(
    data: LinearTasks,
    *,
    penalty: ArrayLike,
    batch_size: int,
    tasks: ArrayLike,
    label_noise_variance: ArrayLike,
    weight_decay: ArrayLike = 0.0,
    temperature: ArrayLike = 0.0,
) -> Step:
    """One step of noisy gradient descent on the first layer W, `step(key, step_size, W)`.

        W <- W - step_size [gradient + weight_decay W] + sqrt(2 step_size temperature) xi

    Every step draws `batch_size` of the first `tasks` tasks, a number that may be traced, with replacement, and fresh
    uniform noise on their labels.
    """
    groups, _, together = data.labels.shape
    if groups > 1 and together > 1:
        raise InputError(f"labels must have one group or groups of one task, got shape {data.labels.shape}")
    check_whole("batch_size", batch_size, 1)

    def step(key: Array, step_size: ArrayLike, first_layer: Array) -> Array:
        task_key, label_key, langevin_key = jax.random.split(key, 3)
        chosen = jax.random.randint(task_key, (batch_size,), 0, tasks)
        inputs = data.inputs if groups == 1 else data.inputs[chosen]
        labels = data.labels[:, :, chosen] if groups == 1 else data.labels[chosen]
        noise = label_noise(label_key, labels.shape, label_noise_variance)
        slope = gradient(first_layer, inputs, labels, noise, penalty, inverses)
        return noisy_step(
            langevin_key,
            0,
            first_layer,
            slope,
            temperature=temperature,
            confinement=jnp.asarray(weight_decay) / 2,
            step_size=step_size,
        )

    return step


def layer_risks(
    key: Array,
    first_layer: Array,
    data: LinearTasks,
    spectrum: Array,
    prior: Array,
    *,
    penalty: ArrayLike,
    noise_variance: ArrayLike,
    label_noise_variance: ArrayLike,
    designs: int = 16,
) -> LayerRisks:
    """The criterion on all tasks, their risk, and the risk of new tasks as a mean over so many new designs."""
    groups, n, d = data.inputs.shape
    fresh = normal(key, (designs, n, d)) * jnp.sqrt(spectrum)
    # one call for all: its program is long to compile
    hidden = hidden_layer(first_layer, jnp.concatenate([data.inputs, fresh]))
    kernels = hidden @ hidden.mT
    resolvents = inverses(kernels, penalty)
    dual = resolvents[:groups] @ data.labels
    missed = first_layer.mT @ (hidden[:groups].mT @ dual) - data.coefficients
    freedom = jnp.mean(jnp.sum((kernels * resolvents)[:groups], axis=(1, 2)))
    fit = jnp.asarray(penalty) * jnp.mean(jnp.sum(dual * data.labels, axis=1))

    def new_risk(design: tuple[Array, Array, Array]) -> Array:
        inputs, seen, resolvent = design
        map_to_fit = first_layer.mT @ (seen.mT @ resolvent)
        bias = (jnp.eye(d) - map_to_fit @ inputs) ** 2 @ prior
        return spectrum @ (bias + jnp.asarray(noise_variance) * jnp.sum(map_to_fit**2, axis=1))

    return LayerRisks(
        criterion=(fit + jnp.asarray(label_noise_variance) * freedom) / n,
        risk=jnp.mean(jnp.sum(missed**2 * spectrum[:, None], axis=1)),
        new_risk=jnp.mean(jax.lax.map(new_risk, (fresh, hidden[groups:], resolvents[groups:]))),
        degrees_of_freedom=freedom,
    )


class ClosedRisks(NamedTuple):
    """Criterion and risk of gradient descent on R(W) itself, at the end."""

    closed_criterion: Array
    closed_risk: Array


def closed_descent(
    first_layer: Array,
    data: LinearTasks,
    spectrum: Array,
    step_sizes: Array,
    *,
    penalty: ArrayLike,
    label_noise_variance: ArrayLike,
) -> ClosedRisks:
    """Gradient descent on R(W) from W_0 with all tasks, which share their inputs, and no noise, in n x n matrices.

    The gradient is -2 W X^T A X with A = (c/n) G (Y Y^T/m - v I) G, so that every iterate is W = W_0 (I + X^T P X) with

        P <- P + 2 step_size (I + P X X^T) A,     K = (I + P X X^T)^T X W_0^T W_0 X^T (I + P X X^T).
    """
    inputs, labels = data.inputs[0], data.labels[0]
    n, tasks = labels.shape
    penalty, weight = jnp.asarray(penalty), jnp.asarray(label_noise_variance)
    gram, identity = inputs @ inputs.T, jnp.eye(n)
    hidden = hidden_layer(first_layer, inputs)
    start, above = hidden @ hidden.T, labels @ labels.T / tasks - weight * identity

    def step(carried: tuple[Array, Array], step_size: Array) -> tuple[tuple[Array, Array], None]:
        path, _ = carried
        factor = identity + path @ gram
        found = inverses((factor.T @ start @ factor)[None], penalty)[0]
        slope = penalty / n * found @ above @ found
        return (path + 2 * step_size * (slope + path @ (gram @ slope)), found), None

    # the last step has size 0: it finds G at the end
    none = jnp.zeros((n, n))
    (path, found), _ = jax.lax.scan(step, (none, none), jnp.append(step_sizes, 0.0))
    factor = identity + path @ gram
    reached = (first_layer.T @ hidden.T + inputs.T @ (path.T @ start)) @ factor
    missed = reached @ (found @ labels) - data.coefficients[0]
    return ClosedRisks(
        closed_criterion=weight + penalty / n * jnp.sum(found * above),
        closed_risk=jnp.mean(jnp.sum(missed**2 * spectrum[:, None], axis=0)),
    )


def train_layer(
    key: Array,
    spectrum: Array,
    prior: Array,
    record_at: Sequence[int],
    *,
    n: int,
    tasks: ArrayLike,
    largest_tasks: int,
    shared: bool,
    batch_size: int,
    step_size: ArrayLike,
    noise_variance: ArrayLike,
    label_noise_variance: ArrayLike,
    **dynamics: ArrayLike,
) -> dict[str, Array]:
    """Draw `largest_tasks` tasks, train a square W on the first `tasks` of them, and measure it.

    W has a random start, and the step size falls linearly to 0. The penalty of the second layers is the noise variance.
    Records are those of `LayerRisks`; on shared inputs `closed_descent` makes as many steps from the same start, on
    others it has no numbers.
    """
    data_key, start_key, step_key, fresh_key = jax.random.split(key, 4)
    data = linear_tasks(data_key, spectrum, prior, n, largest_tasks, noise_variance, shared=shared)
    objective: dict[str, Any] = {"penalty": noise_variance, "label_noise_variance": label_noise_variance}
    start = init(start_key, spectrum, spectrum.size, noise_variance)
    step = build_step(data, batch_size=batch_size, tasks=tasks, **objective, **dynamics)
    used = first_tasks(data, tasks)
    step_sizes = jnp.asarray(step_size) * (1 - jnp.arange(record_at[-1]) / record_at[-1])

    def advance(number: Array, layer: Array) -> Array:
        return step(jax.random.fold_in(step_key, number), step_sizes[number], layer)

    def measure(layer: Array) -> LayerRisks:
        return layer_risks(fresh_key, layer, used, spectrum, prior, noise_variance=noise_variance, **objective)

    _, records = evolve(advance, start, record_at[-1], record=measure, record_at=record_at)
    nothing = ClosedRisks(*jnp.full(2, jnp.nan))
    closed = closed_descent(start, used, spectrum, step_sizes, **objective) if shared else nothing
    return {**records._asdict(), **closed._asdict()}
