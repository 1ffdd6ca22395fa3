"""The tangent kernel of a JAX function, with few numbers in place of gradients where these have few factors.

The gradient of an output in a matrix W (m, p) of parameters is a sum of products of a column and a row, one for each
time that a row of data uses W: one in a dense layer, one for each place of a convolution or a sequence. With random
V (p, s) and U (m, s), s at least their number,

    G = (G V) (U' G V)^+ (U' G),

and G V and U' G are the gradients in A and B of W + A V' + U B, which are s (m + p) numbers for m p. Two further
columns of U and V tell of every gradient whether this is so; where it is not, or would not pay, whole gradients are
taken. All parameters are asked at once, for as many rows and outputs at a time as there is memory for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

_COLUMNS = (4, 12, 36)
"""Of U and V, tried one after the other."""
_CHECKS = 2
_WORTH = 2
"""Factors are taken where they are so many times fewer numbers."""
_FIRST_ROWS = 4
_MOST_ROWS_TOGETHER = 512
Pair = tuple[np.ndarray, np.ndarray]


class NotSoFewError(Exception):
    """Some gradients in the parameter of this number are sums of more products than there are columns."""


class Sides(NamedTuple):
    """U (m, s) and V (p, s) of one array of parameters."""

    here: np.ndarray
    there: np.ndarray


class Question(NamedTuple):
    """outputs(leaves, others, row) gives (K,); arrays are arguments, since jaxlib may fold constants."""

    outputs: Callable[[Any, Any, Any], Any]
    leaves: Sequence[Any]
    others: Any
    inputs: Any
    classes: int
    """K."""


def tangent_kernel(question: Question, left: int, budget: float, progress: Callable[[str], None]) -> np.ndarray:
    """(left, n), summed over outputs, in about `budget` bytes."""
    tried = [0 for _ in question.leaves]
    while True:
        sides = [_sides(leaf, place) for leaf, place in zip(question.leaves, tried, strict=True)]
        try:
            # a few rows tell soon which parameters have few factors
            first = question._replace(inputs=question.inputs[:_FIRST_ROWS])
            _kernel(first, sides, len(first.inputs), budget, lambda _: None)
            return _kernel(question, sides, left, budget, progress)
        except NotSoFewError as error:
            tried[error.args[0]] += 1


def _sides(leaf: Any, place: int) -> Sides | None:
    """None for whole gradients."""
    shape = np.shape(leaf)
    if place >= len(_COLUMNS) or len(shape) < 2:
        return None
    m, p = int(np.prod(shape[:-1])), shape[-1]
    columns = _COLUMNS[place] + _CHECKS
    if _WORTH * columns * (m + p) > m * p:
        return None
    random, kind = np.random.default_rng(0), leaf.dtype
    return Sides(*(random.standard_normal((size, columns)).astype(kind) for size in (m, p)))


def _kernel(
    question: Question, sides: Sequence[Sides | None], left: int, budget: float, progress: Callable[[str], None]
) -> np.ndarray:
    """Of as many outputs at a time as can be kept of all rows; of one, and not kept, if there is no such number."""
    n, leaves = len(question.inputs), question.leaves
    sizes = [max(np.size(leaf), 1) * leaf.dtype.itemsize for leaf in leaves]
    kept_bytes = sum(
        size if side is None else 8 * (side.here.size + side.there.size)
        for side, size in zip(sides, sizes, strict=True)
    )
    together = int(np.clip(budget / 2 / (n * kept_bytes), 1, question.classes))
    keeps = together * n * kept_bytes <= budget / 2
    # on the way to its factors every gradient is there as a whole
    block = int(np.clip(budget / 4 / (together * (sum(sizes) + kept_bytes)), 1, min(n, _MOST_ROWS_TOGETHER)))
    total = np.zeros((left, n))
    groups = np.array_split(np.eye(question.classes), -(-question.classes // together))
    for number, chosen in enumerate(groups):
        kept: dict[int, list[Any]] = {}

        def of(first: int, chosen: np.ndarray = chosen, kept: dict[int, list[Any]] = kept) -> list[Any]:
            if first in kept:
                return kept[first]
            # the last block is filled up with copies of the last row, so that one program serves all
            rows = question.inputs[np.minimum(np.arange(first, first + block), n - 1)]
            found = _gradients(question, sides, rows, chosen)
            return kept.setdefault(first, found) if keeps else found

        for i in range(0, left, block):
            progress(f"tangent kernel: {100 * (number + i / left) / len(groups):.0f}%")
            mine = of(i)
            for j in range(0, n, block):
                for found in map(_products, mine, mine if i == j else of(j)):
                    total[i : i + block, j : j + block] += found[: left - i, : n - j]
    return total


def _gradients(question: Question, sides: Sequence[Sides | None], rows: Any, chosen: np.ndarray) -> list[Any]:
    """Of each array of parameters: (rows, outputs p), or the factors."""
    found = _program()(question.outputs, question.leaves, question.others, rows, chosen, sides)
    return [
        np.asarray(one).reshape(len(rows), -1) if side is None else _factors(number, side, *one)
        for number, (side, one) in enumerate(zip(sides, found, strict=True))
    ]


@cache
def _program() -> Callable[..., Any]:
    """Gradients of the chosen outputs of some rows: in an array itself, or in A and B."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    def gradients(outputs: Any, leaves: Any, others: Any, rows: Any, chosen: Any, sides: Any) -> Any:
        def start(leaf: Any, side: Any) -> Any:
            return leaf if side is None else tuple(jnp.zeros(one.shape, one.dtype) for one in (side.here, side.there.T))

        def moved(leaf: Any, side: Any, part: Any) -> Any:
            return part if side is None else leaf + (part[0] @ side.there.T + side.here @ part[1]).reshape(leaf.shape)

        def one(row: Any) -> Any:
            found, pull = jax.vjp(lambda parts: outputs(list(map(moved, leaves, sides, parts)), others, row), starts)
            return jax.vmap(pull)(chosen.astype(found.dtype))[0]

        starts = list(map(start, leaves, sides))
        return jax.vmap(one)(rows)

    return eqx.filter_jit(gradients)


def _factors(number: int, side: Sides, tall: Any, wide: Any) -> Pair:
    """Columns (rows, outputs, m, r) and lines (rows, outputs, r, p) whose product is the gradient."""
    import jax.numpy as jnp

    left, rounding = side.here.astype(np.float64), float(jnp.finfo(side.here.dtype).eps)
    tall, wide = np.asarray(tall, np.float64), np.asarray(wide, np.float64)
    used = left.shape[1] - _CHECKS
    core = left.T @ tall
    inside, values, outside = np.linalg.svd(core[..., :used, :used])
    known = values > 1e3 * rounding * values[..., :1]
    rank = max(int(known.sum(axis=-1).max()), 1)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=known)[..., :rank]
    columns = tall[..., :used] @ outside[..., :rank, :].swapaxes(-1, -2) * inverse[..., None, :]
    back = inside[..., :rank].swapaxes(-1, -2)
    said = (left[:, used:].T @ columns) @ (back @ core[..., :used, used:])
    missed = np.abs(said - core[..., used:, used:]).max(axis=(-1, -2))
    if (missed > np.sqrt(rounding) * np.sqrt(np.sum(tall[..., used:] ** 2, axis=(-1, -2)))).any():
        raise NotSoFewError(number)
    return columns, back @ wide[..., :used, :]


def _products(mine: np.ndarray | Pair, theirs: np.ndarray | Pair) -> np.ndarray:
    """Between all rows of two blocks, summed over outputs."""
    if isinstance(mine, np.ndarray):
        return mine @ theirs.T  # type: ignore[union-attr]
    total = np.zeros((len(mine[0]), len(theirs[0])))
    for output in range(mine[0].shape[1]):
        tall = _pairs(*(one[0][:, output].swapaxes(-1, -2) for one in (mine, theirs)))
        wide = _pairs(*(one[1][:, output] for one in (mine, theirs)))
        total += np.einsum("iajb,iajb->ij", tall, wide)
    return total


def _pairs(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Inner products of all vectors (rows, r, size) of two blocks: (rows, r, rows, r)."""
    flat = mine.reshape(-1, mine.shape[-1]) @ theirs.reshape(-1, theirs.shape[-1]).T
    return flat.reshape(*mine.shape[:2], *theirs.shape[:2])
