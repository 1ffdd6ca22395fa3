"""Networks of Equinox, or any callable tree of JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.checks import InputError
from unlazy.training.one_step.own_network.arms import MOMENTUM, Arm, TrainingPlan, TrainingRows
from unlazy.training.programs import compiled

_BLOCK = 32
"""Rows of one call: one program serves any number of them."""
_KEPT_BYTES = 2**28
"""Of gradients of single rows."""


class EquinoxNetwork:
    """A callable tree whose floating-point arrays are trained, called on one row as Equinox's layers are.

    One that does not take a single row is called on all rows. A factor that is not trained is a Python number or
    stands under `jax.lax.stop_gradient`.
    """

    def __init__(self, network: Any, row: np.ndarray) -> None:
        trained, self._fixed = eqx.partition(network, eqx.is_inexact_array)
        leaves, self._tree = jax.tree.flatten(trained)
        if not leaves:
            raise InputError("network must have arrays of floating-point numbers to train, it has none")
        self.weights = [np.asarray(leaf) for leaf in leaves]
        one = jax.ShapeDtypeStruct(row.shape, jnp.float32)
        self._single, shape = _called(network, one)
        self._count = int(np.prod(shape, dtype=int))
        sizes = [leaf.size for leaf in leaves]
        readouts = [place for place, size in enumerate(sizes) if size > self._count]
        self._readout = readouts[-1] if readouts else len(leaves) - 1
        self._key = jax.tree.structure(self._fixed), tuple(map(_identity, jax.tree.leaves(self._fixed)))

    def seen(self, weights: list[np.ndarray], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [self._run("seen", self._seen, weights, block) for block in _blocks(inputs)]
        outputs, features = (np.concatenate([np.asarray(part[k], np.float64) for part in parts]) for k in (0, 1))
        return outputs[: len(inputs)], features[: len(inputs)]

    def tangent_kernel(self, weights: list[np.ndarray], left: np.ndarray, right: np.ndarray) -> np.ndarray:
        def gradients(block: np.ndarray) -> list[np.ndarray]:
            return [np.asarray(leaf) for leaf in self._run("gradients", self._gradients, weights, block)]

        def product(one: list[np.ndarray], other: list[np.ndarray]) -> np.ndarray:
            return sum(a @ b.T for a, b in zip(one, other, strict=True))

        size, blocks = 4 * sum(array.size for array in weights) * self._count * _BLOCK, _blocks(right)
        # kept where there is room, else made again for every block of the others
        kept: Any = [gradients(block) for block in blocks] if size * len(blocks) < _KEPT_BYTES else None
        own = kept if kept and left is right else map(gradients, _blocks(left))
        parts = [[product(one, other) for other in kept or map(gradients, blocks)] for one in own]
        return np.block(parts)[: len(left) * self._count, : len(right) * self._count].astype(np.float64)

    def start(self, plan: TrainingPlan) -> Arm:
        memory = jax.tree.leaves(_optimiser(plan.optimiser, 1.0).init([jnp.asarray(w) for w in self.weights]))
        return Arm(self.weights, [np.asarray(leaf) for leaf in memory], -1)

    def advance(self, arm: Arm, plan: TrainingPlan, rows: TrainingRows, first: int, count: int) -> Arm:
        batches = plan.batches(len(rows.inputs), first, count)
        # without batches the number of steps is traced: one program for all segments
        moves = np.int32(count) if batches is None else batches
        numbers = np.float32(plan.output_scale), np.float32(plan.step_size), np.int32(first)

        def advance(*arrays: Any) -> Any:
            return self._advance(plan.optimiser, *arrays)

        arrays = arm.weights, arm.memory, *numbers, moves, *map(_single, rows)
        weights, memory, diverged_at = self._run(f"advance by {plan.optimiser}", advance, *arrays)
        return Arm([np.asarray(w) for w in weights], [np.asarray(leaf) for leaf in memory], int(diverged_at))

    def _advance(
        self, optimiser: str, weights: list[Array], memory: list[Array], scale: Array, step_size: Array, first: Array,
        moves: Array, inputs: Array, targets: Array, taken: Array,
    ) -> Any:  # fmt: skip
        method = _optimiser(optimiser, step_size)
        remembered = jax.tree.structure(method.init(weights))

        def loss(weights: list[Array], x: Array, y: Array, off: Array) -> Array:
            return jnp.sum((scale * (self._outputs(weights, x) - off) - y) ** 2) / (2 * len(x) * scale**2)

        def step(number: Array, state: tuple[Any, Any, Array]) -> tuple[Any, Any, Array]:
            weights, memory, diverged_at = state
            rows = inputs, targets, taken
            batch = rows if moves.ndim == 0 else tuple(array[moves[number]] for array in rows)
            value, slope = jax.value_and_grad(loss)(weights, *batch)
            change, memory = method.update(slope, memory, weights)
            diverged_at = jnp.where((diverged_at < 0) & ~jnp.isfinite(value), first + number, diverged_at)
            return optax.apply_updates(weights, change), memory, diverged_at

        state = weights, jax.tree.unflatten(remembered, memory), jnp.int32(-1)
        count = moves if moves.ndim == 0 else len(moves)
        weights, kept, diverged_at = jax.lax.fori_loop(0, count, step, state)
        finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in weights]).all()
        diverged_at = jnp.where((diverged_at < 0) & ~finite, first + count, diverged_at)
        return weights, jax.tree.leaves(kept), diverged_at

    def _network(self, weights: list[Array]) -> Any:
        return eqx.combine(jax.tree.unflatten(self._tree, weights), self._fixed)

    def _outputs(self, weights: list[Array], rows: Array) -> Array:
        network = self._network(weights)
        return (jax.vmap(network)(rows) if self._single else network(rows)).reshape(len(rows), -1)

    def _seen(self, weights: list[Array], rows: Array) -> tuple[Array, Array]:
        def first_output(readout: Array, row: Array) -> Array:
            return self._outputs([*weights[: self._readout], readout, *weights[self._readout + 1 :]], row[None])[0, 0]

        slopes = jax.vmap(jax.grad(first_output), (None, 0))(weights[self._readout], rows)
        return self._outputs(weights, rows), slopes.reshape(len(rows), -1)

    def _gradients(self, weights: list[Array], rows: Array) -> list[Array]:
        """Of every output of every row, (n k, entries) for each array."""
        found = jax.vmap(lambda row: jax.jacrev(lambda w: self._outputs(w, row[None])[0])(weights))(rows)
        return [leaf.reshape(len(rows) * self._count, -1) for leaf in found]

    def _run(self, name: str, function: Callable[..., Any], *arrays: Any) -> Any:
        return compiled((name, self._key), function, *arrays)(*arrays)


def _called(network: Any, row: Any) -> tuple[bool, tuple[int, ...]]:
    """Whether a network takes one row, and the shape of its outputs for one."""
    try:
        return True, _shape(network, row)
    except Exception as error:
        single = error
    try:
        return False, _shape(network, jax.ShapeDtypeStruct((3, *row.shape), row.dtype))[1:]
    except Exception:
        said = str(single).strip().splitlines()[0] if str(single).strip() else type(single).__name__
        raise InputError(f"network must take a row of shape {row.shape}, but it raised {said}") from single


def _shape(network: Any, row: Any) -> tuple[int, ...]:
    arrays, fixed = eqx.partition(network, eqx.is_array)
    found = jax.eval_shape(lambda arrays, row: eqx.combine(arrays, fixed)(row), arrays, row)
    return tuple(found.shape)


def _identity(leaf: Any) -> Any:
    """What tells a leaf that is no array from others: a function made anew by every network is the same program."""
    if eqx.is_array(leaf):
        return np.asarray(leaf).tobytes()
    code = getattr(leaf, "__code__", None)
    if code is None:
        return leaf
    cells = tuple(cell.cell_contents for cell in getattr(leaf, "__closure__", None) or ())
    return code, tuple(_identity(cell) for cell in cells)


def _optimiser(name: str, rate: Any) -> optax.GradientTransformation:
    return optax.adam(rate) if name == "adam" else optax.sgd(rate, momentum=MOMENTUM)


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    """The rows in blocks of one size; the last one repeats a row."""
    padded = rows[np.minimum(np.arange(-(-len(rows) // _BLOCK) * _BLOCK), len(rows) - 1)]
    return [_single(padded[first : first + _BLOCK]) for first in range(0, len(padded), _BLOCK)]


def _single(array: Any) -> np.ndarray:
    return np.asarray(array, np.float32)
