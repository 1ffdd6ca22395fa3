"""Transformers that are pretrained on a finite set of prompts with finitely many tasks, many sets in one program.

A prompt has pairs of one task w, x ~ N(0, I_d), y = x.w + noise. Its tokens are (x_1, 0), (x_1, y_1), (x_2, 0), ...:
the answer at (x_i, 0) has seen i-1 pairs. The label's token repeats its input, so that one layer of attention can use
the pair. The loss is the mean square of answer less label, over all positions. Everything is single precision.
Sources: Raventós, Paul, Chen & Ganguli (2023) for the finite pool of tasks; Lu et al. (2024) for tokens that are pairs.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.checks import InputError
from unlazy.models.transformer import Transformer
from unlazy.theory.in_context.finite_size import finite_size_errors, gaussian_task_moments, task_moments
from unlazy.training.in_context.prompt_learners import linear_answers
from unlazy.training.in_context.transformer import Schedule, TransformerSizes, scheduled_optimiser

_KEPT = 8
_COMPILING = threading.Lock()
"""Instances run side by side, and two that start together would both compile."""
_ROWS = 256
"""Prompts whose squared residuals for all tasks are in memory at once."""
TINY_RIDGE = 1e-6
"""Times d, of linear attention without regularisation: with as many prompts as weights its error is finite."""


class PoolPrompts(NamedTuple):
    """Inputs (n, l, d), the tasks' values (n, l) at them and the labels (n, l) that the prompt shows."""

    inputs: np.ndarray
    values: np.ndarray
    labels: np.ndarray


def draw_tasks(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    """Tasks w ~ N(0, I_d/d), (count, d): their values x.w have variance 1."""
    return rng.standard_normal((count, d)) / math.sqrt(d)


def draw_pool_prompts(rng: np.random.Generator, tasks: np.ndarray, context: int, noise_variance: float) -> PoolPrompts:
    """One prompt of `context` pairs for each row of `tasks`."""
    inputs = rng.standard_normal((len(tasks), context, tasks.shape[1]))
    values = np.einsum("nld,nd->nl", inputs, tasks)
    return PoolPrompts(inputs, values, values + math.sqrt(noise_variance) * rng.standard_normal(values.shape))


def pair_tokens(inputs: Array, labels: Array) -> Array:
    """The sequences (n, 2l-1, d+1) of tokens (x_i, 0) and (x_i, y_i) in turn, without the last label's."""
    n, length, d = inputs.shape
    told = labels[:, :, None]
    rows = [jnp.concatenate([inputs, part], axis=2) for part in (jnp.zeros_like(told), told)]
    return jnp.stack(rows, axis=2).reshape(n, 2 * length, d + 1)[:, :-1]


def pool_answers(model: Transformer, inputs: Array, labels: Array) -> Array:
    """What the model answers at x_1, ..., x_l, (n, l)."""
    return model(pair_tokens(inputs, labels))[:, ::2]


class Arms(NamedTuple):
    """What is trained side by side: numbers of prompts and of tasks, one of each for every arm."""

    prompts: Sequence[int]
    tasks: Sequence[int]


def train_arms(
    seed: int,
    arms: Arms,
    stored: PoolPrompts,
    labels: np.ndarray,
    sizes: TransformerSizes,
    schedule: Schedule,
) -> Transformer:
    """A transformer for every arm, from the same start, stacked along a first axis.

    An arm with n prompts passes through the first n of the stored ones again and again, `batch_size` at a step; their
    `labels`, (arms, stored prompts, l), are those of its own tasks.
    """
    total = len(stored.inputs)
    if min(arms.prompts) < 1 or max(arms.prompts) > total:
        raise InputError(
            f"prompts must be from 1 to the {total} stored, got {min(arms.prompts)} to {max(arms.prompts)}"
        )
    shape = (*stored.inputs.shape, len(arms.prompts))
    with jax.enable_x64(False):
        with _COMPILING:
            run = _compiled(shape, sizes, schedule)
        return run(
            jax.random.key(seed),
            jnp.asarray(stored.inputs, jnp.float32),
            jnp.asarray(labels, jnp.float32),
            jnp.asarray(arms.prompts, jnp.int32),
        )


@lru_cache(maxsize=_KEPT)
def _compiled(
    shape: tuple[int, int, int, int], sizes: TransformerSizes, schedule: Schedule
) -> Callable[..., Transformer]:
    total, length, d, arms = shape
    optimiser = scheduled_optimiser(schedule)

    def run(key: Array, inputs: Array, labels: Array, prompts: Array) -> Transformer:
        start = Transformer.random(key, d + 1, 2 * length - 1, **sizes._asdict())

        def loss(model: Transformer, number: Array) -> Array:
            rows = (number * schedule.batch_size + jnp.arange(schedule.batch_size, dtype=jnp.int32)) % prompts
            return jnp.mean((pool_answers(model, inputs[rows], labels[rows]) - labels[rows]) ** 2)

        def step(state: tuple[Transformer, Any], number: Array) -> tuple[tuple[Transformer, Any], None]:
            model, inner = state
            change, inner = optimiser.update(jax.grad(loss)(model, number), inner, model)
            return (optax.apply_updates(model, change), inner), None

        numbers = jnp.arange(schedule.steps, dtype=jnp.int32)
        return jax.lax.scan(step, (start, optimiser.init(start)), numbers)[0][0]

    given = (
        jax.random.key(0),
        jax.ShapeDtypeStruct((total, length, d), jnp.float32),
        jax.ShapeDtypeStruct((arms, total, length), jnp.float32),
        jax.ShapeDtypeStruct((arms,), jnp.int32),
    )
    return jax.jit(jax.vmap(run, (None, None, 0, 0))).lower(*given).compile()


def arm_answers(models: Transformer, asked: Sequence[PoolPrompts]) -> np.ndarray:
    """What every arm answers to prompts of its own, (arms, n, l)."""
    with jax.enable_x64(False):
        parts = [p.inputs for p in asked], [p.labels for p in asked]
        given = (jnp.asarray(np.stack(part), jnp.float32) for part in parts)
        return np.asarray(_answered(models, *given), float)


_answered = jax.jit(jax.vmap(pool_answers))


def discrete_answers(prompts: PoolPrompts, known: np.ndarray, noise_variance: float) -> np.ndarray:
    """x_{i+1}.w with w the posterior mean over the rows of `known` after i pairs, i = 0, ..., l-1, (n, l).

    w = sum_j p_j w_j, p = softmax_j(-sum over pairs of (y - x.w_j)^2 / (2 rho)): Bayes for these tasks, each as likely.
    """
    found = []
    for start in range(0, len(prompts.inputs), _ROWS):
        rows = slice(start, start + _ROWS)
        guesses = prompts.inputs[rows] @ known.T
        told = np.cumsum((prompts.labels[rows, :, None] - guesses) ** 2, axis=1)[:, :-1] / (-2 * noise_variance)
        logits = np.concatenate([np.zeros((len(told), 1, len(known))), told], axis=1)
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        found.append(np.sum(weights * guesses, axis=2) / weights.sum(axis=2))
    return np.concatenate(found)


def linear_attention_curve(
    known: np.ndarray, context: int, prompts: int, noise_variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Errors of linear attention after 0, ..., context-1 pairs, on new and on the known tasks, by `finite_size_errors`.

    It is fitted to prompts of each length apart, nearly without ridge. Without a pair it answers 0.
    """
    scaled = math.sqrt(known.shape[1]) * known
    found = [(1 + noise_variance, np.mean(np.sum(known**2, axis=1)) + noise_variance)]
    for seen in range(1, context):
        own = task_moments(scaled, seen, noise_variance)
        new = gaussian_task_moments(np.eye(known.shape[1]), seen, noise_variance)
        errors = finite_size_errors(own, prompts, TINY_RIDGE, test_moments=new)
        found.append((float(errors.test_error), float(errors.pretraining_task_error)))
    return tuple(np.array(found).T)


def pretrain_and_compare(
    rng: np.random.Generator,
    prompts: Sequence[int],
    tasks: Sequence[int],
    sizes: TransformerSizes,
    schedule: Schedule,
    *,
    d: int,
    context: int,
    noise_variance: float,
    tests: int,
) -> dict[str, np.ndarray]:
    """Errors of transformers for all numbers of prompts and of tasks, and of others on the same test prompts.

    Entries are (prompts, tasks, l), after 0, ..., l-1 pairs; errors are E (answer - f)^2 + rho. A smaller pool of tasks
    is the beginning of a larger one, a smaller set of prompts that of a larger one, and all arms share their test
    prompts of new tasks. `training_error`, (prompts, tasks), is on prompts that the arm was trained on.
    """
    pool = draw_tasks(rng, max(tasks), d)
    stored = draw_pool_prompts(rng, np.zeros((schedule.steps * schedule.batch_size, d)), context, noise_variance)
    place = rng.random(len(stored.inputs))
    arms = Arms([n for n in prompts for _ in tasks], [k for _ in prompts for k in tasks])
    chosen = [pool[(place * k).astype(int)] for k in arms.tasks]
    labels = [stored.labels + np.einsum("nld,nd->nl", stored.inputs, own) for own in chosen]
    models = train_arms(int(rng.integers(2**31)), arms, stored, np.stack(labels), sizes, schedule)

    new = draw_pool_prompts(rng, draw_tasks(rng, tests, d), context, noise_variance)
    old = {k: draw_pool_prompts(rng, pool[rng.integers(k, size=tests)], context, noise_variance) for k in tasks}
    shape = (len(prompts), len(tasks), context)
    found: dict[str, np.ndarray] = {}
    for kind, asked in (("new_task", dict.fromkeys(tasks, new)), ("pretraining_task", old)):
        given = arm_answers(models, [asked[k] for k in arms.tasks])
        discrete = {k: discrete_answers(asked[k], pool[:k], noise_variance) for k in tasks}
        ridge = {k: linear_answers(asked[k].inputs, asked[k].labels, d * noise_variance) for k in tasks}
        for name, others in (("discrete", discrete), ("bayes", ridge)):
            errors = [np.mean((others[k] - asked[k].values) ** 2, axis=0) + noise_variance for k in arms.tasks]
            apart = [np.mean((one - others[k]) ** 2) for one, k in zip(given, arms.tasks, strict=True)]
            found[f"{name}_{kind}_error"] = np.reshape(errors, shape)
            found[f"{name}_{kind}_distance"] = np.reshape(apart, shape[:2])
        own = [np.mean((one - asked[k].values) ** 2, axis=0) for one, k in zip(given, arms.tasks, strict=True)]
        found[f"{kind}_error"] = np.reshape(own, shape) + noise_variance
    linear = np.array(
        [linear_attention_curve(pool[:k], context, n, noise_variance) for n, k in zip(*arms, strict=True)]
    )
    for row, kind in enumerate(("new_task", "pretraining_task")):
        found[f"linear_{kind}_error"] = linear[:, row].reshape(shape)
    rows = [np.arange(tests) % n for n in arms.prompts]
    seen = [PoolPrompts(stored.inputs[r], stored.values[r], own[r]) for r, own in zip(rows, labels, strict=True)]
    residuals = arm_answers(models, seen) - np.stack([one.labels for one in seen])
    found["training_error"] = np.mean(residuals**2, axis=(1, 2)).reshape(shape[:2])
    return found
