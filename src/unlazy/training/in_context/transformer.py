"""Training a transformer on prompts of regression tasks that are drawn on the fly, in segments that can be stored.

A prompt is x_1, y_1, ..., x_k, y_k; the model's answer at x_i, having seen the i-1 pairs before, is compared with
f(x_i), and the loss is the mean of the squares over positions and prompts. Everything is single precision. Source:
Garg, Tsipras, Liang & Valiant (2022).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.checks import InputError, check_choice
from unlazy.models.transformer import Transformer
from unlazy.random import normal

OPTIMISERS = ("adam", "muon")
_KEPT = 16
"""How many sets of compiled programs stay in memory."""


class PromptLaw(NamedTuple):
    """Tasks on x ~ N(0, I_d), of variance E f(x)^2 = 1, with labels y = f(x) + noise in the prompt.

    highest_degree = 0: f(x) = x.w, w ~ N(0, I_d/d). Otherwise f(x) = sum_{j=k}^p c_j h_j(x.beta), h_j = He_j/sqrt(j!),
    with c uniform on a sphere and beta uniform on that of an r-dimensional subspace, k = `lowest_degree` and
    p = `highest_degree`. `d` and `rank` are those of the arrays: a subspace of fewer dimensions, among fewer
    coordinates, has rows and columns of zeros for the others, and one program serves all.
    """

    d: int
    context: int
    noise_variance: float
    rank: int = 1
    lowest_degree: int = 0
    highest_degree: int = 0


class PairPrompts(NamedTuple):
    """Inputs (n, k, d), the tasks' values at them (n, k) and the labels (n, k) that the prompt shows."""

    inputs: Array
    values: Array
    labels: Array


class Schedule(NamedTuple):
    """`steps` steps on `batch_size` fresh prompts each, in segments of `segment` steps.

    The step size grows from 0 to `step_size` over the first twentieth of the steps, then falls to 0 along half a
    cosine. "muon" orthogonalises the updates of the matrices inside the layers and leaves the other weights to Adam;
    "adam" is the source's, for all weights.
    """

    steps: int
    segment: int
    batch_size: int
    step_size: float
    optimiser: str = "muon"


class TransformerSizes(NamedTuple):
    """The sizes of the transformer, and how large a token is in its stream at the start."""

    width: int
    layers: int
    heads: int
    token_scale: float = 1.0


def draw_prompts(key: Array, law: PromptLaw, basis: Array, count: int) -> PairPrompts:
    """`count` prompts, each with a task of its own; `basis` (d, r) spans the subspace of single-index tasks.

    Inputs are 0 where all of a row of the basis is, and directions where a column is.
    """
    d, k = law.d, law.context
    linear = law.highest_degree == 0
    task = d if linear else law.rank
    degrees = 0 if linear else law.highest_degree - law.lowest_degree + 1
    drawn = normal(key, (count, k * d + k + task + degrees), jnp.float32)
    inputs = drawn[:, : k * d].reshape(count, k, d) * jnp.any(basis != 0, axis=1)
    noise, direction, mixture = jnp.split(drawn[:, k * d :], [k, k + task], axis=1)
    if linear:
        values = (inputs @ direction[:, :, None])[:, :, 0] / math.sqrt(d)
    else:
        direction = _unit(direction * jnp.any(basis != 0, axis=0))
        along = (inputs @ (direction @ basis.T)[:, :, None])[:, :, 0]
        values = jnp.einsum("jnk,nj->nk", _hermite(along, law.highest_degree)[law.lowest_degree :], _unit(mixture))
    return PairPrompts(inputs, values, values + jnp.float32(law.noise_variance**0.5) * noise)


def _unit(rows: Array) -> Array:
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)


def _hermite(x: Array, degree: int) -> Array:
    """h_0, ..., h_degree at x along a new first axis; `unlazy.functions` has the same for NumPy arrays only."""
    found = [jnp.ones_like(x), x]
    for j in range(1, degree):
        found.append((x * found[j] - math.sqrt(j) * found[j - 1]) / math.sqrt(j + 1))
    return jnp.stack(found[: degree + 1])


def prompt_tokens(prompts: PairPrompts) -> Array:
    """The sequences (n, 2k-1, d+1): tokens (x_i, 0) and (0, y_i) in turn, without y_k, which nothing comes after."""
    n, k, d = prompts.inputs.shape
    zeros = jnp.zeros((n, k, 1), jnp.float32)
    asked = jnp.concatenate([prompts.inputs, zeros], axis=2)
    told = jnp.concatenate([jnp.zeros((n, k, d), jnp.float32), prompts.labels[:, :, None]], axis=2)
    return jnp.stack([asked, told], axis=2).reshape(n, 2 * k, d + 1)[:, :-1]


def answers(model: Transformer, prompts: PairPrompts) -> Array:
    """What the model answers at x_1, ..., x_k, (n, k)."""
    return model(prompt_tokens(prompts))[:, ::2]


class Segment(NamedTuple):
    """Where training stands: after how many segments, the model, and arrays by name from which training can go on."""

    number: int
    model: Transformer
    arrays: dict[str, np.ndarray]


def train_in_segments(
    seed: int,
    law: PromptLaw,
    sizes: TransformerSizes,
    schedule: Schedule,
    basis: np.ndarray,
    *,
    resume: Mapping[str, np.ndarray] | None = None,
) -> Iterator[Segment]:
    """Train on fresh prompts and yield after every segment; with `resume`, the arrays of one, go on after it.

    The prompts of a step depend on the seed and the step's number only, and one compiled program makes all segments:
    a training that was interrupted ends, bit by bit, where one that was not does. `resume` of other sizes is refused.
    """
    if schedule.segment < 1 or schedule.steps < 1 or schedule.steps % schedule.segment:
        raise InputError(f"steps must be a multiple of segment = {schedule.segment}, got {schedule.steps}")
    check_choice("optimiser", schedule.optimiser, OPTIMISERS)
    # The mode belongs to the thread and must not leak into what runs between two segments.
    with jax.enable_x64(False):
        programs = _programs(law, sizes, schedule)
        key = jax.random.key(seed)
        state = programs.start(jax.random.fold_in(key, 2**31 - 1))
        subspace = jnp.asarray(basis, jnp.float32)
    leaves, structure = jax.tree.flatten(state)
    done = 0
    if resume is not None:
        found = [resume.get(f"leaf_{i}") for i in range(len(leaves))]
        if any(a is None or a.shape != b.shape for a, b in zip(found, leaves, strict=True)):
            raise InputError("resume must be the arrays of a segment of the same sizes and optimiser")
        done = int(resume["segment"])
        state = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in found])
    for number in range(done, schedule.steps // schedule.segment):
        with jax.enable_x64(False):
            state = programs.advance(state, key, subspace, jnp.int32(number * schedule.segment))
        arrays = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        yield Segment(number + 1, state[0], {**arrays, "segment": np.asarray(number + 1)})


class _Programs(NamedTuple):
    start: Callable[..., Any]
    advance: Callable[..., Any]


_COMPILING = threading.Lock()
"""Instances run side by side, and two that start together would both compile."""


def _programs(law: PromptLaw, sizes: TransformerSizes, schedule: Schedule) -> _Programs:
    with _COMPILING:
        return _compiled(law, sizes, schedule)


@lru_cache(maxsize=_KEPT)
def _compiled(law: PromptLaw, sizes: TransformerSizes, schedule: Schedule) -> _Programs:
    optimiser = scheduled_optimiser(schedule)

    def start(key: Array) -> tuple[Transformer, Any]:
        model = Transformer.random(key, law.d + 1, 2 * law.context - 1, **sizes._asdict())
        return model, optimiser.init(model)

    def loss(model: Transformer, key: Array, basis: Array) -> Array:
        prompts = draw_prompts(key, law, basis, schedule.batch_size)
        return jnp.mean((answers(model, prompts) - prompts.values) ** 2)

    def advance(state: tuple[Transformer, Any], key: Array, basis: Array, first: Array) -> tuple[Transformer, Any]:
        def step(state: tuple[Transformer, Any], number: Array) -> tuple[tuple[Transformer, Any], None]:
            model, inner = state
            gradient = jax.grad(loss)(model, jax.random.fold_in(key, number), basis)
            change, inner = optimiser.update(gradient, inner, model)
            return (optax.apply_updates(model, change), inner), None

        return jax.lax.scan(step, state, first + jnp.arange(schedule.segment, dtype=jnp.int32))[0]

    key, rank = jax.random.key(0), law.d if law.highest_degree == 0 else law.rank
    basis = jax.ShapeDtypeStruct((law.d, rank), jnp.float32)
    state = jax.eval_shape(start, key)
    return _Programs(
        start=jax.jit(start).lower(key).compile(),
        advance=jax.jit(advance).lower(state, key, basis, jnp.int32(0)).compile(),
    )


def scheduled_optimiser(schedule: Schedule) -> optax.GradientTransformation:
    """The optimiser of a schedule, with its step sizes."""
    rate = optax.warmup_cosine_decay_schedule(0.0, schedule.step_size, max(schedule.steps // 20, 1), schedule.steps)
    if schedule.optimiser == "adam":
        return optax.adam(rate, b2=0.98)
    from optax.contrib import MuonDimensionNumbers, muon

    def matrices(weights: Any) -> Any:
        return jax.tree.map(lambda leaf: MuonDimensionNumbers(1, 2) if leaf.ndim == 3 else None, weights)

    return muon(rate, adam_b2=0.98, muon_weight_dimension_numbers=matrices)


class FreshPrompts(NamedTuple):
    """Prompts as arrays of NumPy, for other learners too."""

    inputs: np.ndarray
    values: np.ndarray
    labels: np.ndarray


def fresh_prompts(seed: int, law: PromptLaw, basis: np.ndarray, count: int) -> FreshPrompts:
    """`count` fresh prompts."""
    with jax.enable_x64(False):
        drawn = _drawn(jax.random.key(seed), law, jnp.asarray(basis, jnp.float32), count)
    return FreshPrompts(*(np.asarray(a) for a in drawn))


def transformer_answers(model: Transformer, prompts: FreshPrompts) -> np.ndarray:
    """What the model answers at every x of the prompts, (n, k)."""
    with jax.enable_x64(False):
        return np.asarray(_answered(model, PairPrompts(*(jnp.asarray(a) for a in prompts))))


def errors_at(
    stages: Sequence[int],
    seeds: tuple[int, int],
    law: PromptLaw,
    sizes: TransformerSizes,
    schedule: Schedule,
    basis: np.ndarray,
    tests: int,
    saved: Any,
) -> tuple[np.ndarray, FreshPrompts]:
    """E (answer - f)^2 / E f^2 after the steps of `stages` and each number of pairs, on fresh prompts; and these.

    `saved` keeps the state after every segment (`load` and `save`): training goes on where it was.
    """
    prompts = fresh_prompts(seeds[0], law, basis, tests)
    resume = saved.load()
    errors = np.zeros((len(stages), law.context)) if resume is None else resume["errors"]
    for segment in train_in_segments(seeds[1], law, sizes, schedule, basis, resume=resume):
        step = segment.number * schedule.segment
        if step in stages:
            errors[stages.index(step)] = relative_errors(transformer_answers(segment.model, prompts), prompts.values)
        saved.save({**segment.arrays, "errors": errors})
    return errors, prompts


def relative_errors(answers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """E (answer - f)^2 / E f^2 over prompts, the last axis but one, for every number of pairs seen."""
    return np.mean((answers - values) ** 2, axis=-2) / np.mean(values**2, axis=-2)


_drawn = jax.jit(draw_prompts, static_argnums=(1, 3))
_answered = jax.jit(answers)
