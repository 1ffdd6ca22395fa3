"""Mixup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_known
from unlazy.optim.checks import check_loss


def mixup(
    loss: Callable[[Any, Any, Any], Array],
    *,
    mixing_weight: ArrayLike | None = None,
    concentration: ArrayLike | None = None,
) -> Callable[[Any, Any, Any, Array], Array]:
    """The loss on mixtures of two samples, with the labels of both.

    `loss(params, x, y)` becomes `mixed(params, x, y, key)`, which for a random permutation s of the batch is

        c loss(x~, y) + (1 - c) loss(x~, y_s),      x~_i = c x_i + (1 - c) x_s(i).

    c is the `mixing_weight`, or drawn from Beta(concentration, concentration), once for each batch: give one of the
    two. x and y are arrays or trees of arrays with the samples along their first axis. A sample is its own partner
    with probability 1/n. For a loss linear in its labels, such as cross-entropy, this is the loss at mixed one-hot
    labels. Source: Zhang, Cissé, Dauphin & Lopez-Paz (2018); a fixed weight: Zou et al. (2023b).

    >>> import jax, jax.numpy as jnp
    >>> x, y = jnp.array([[0.0], [1.0]]), jnp.array([0.0, 1.0])
    >>> square = lambda w, x, y: jnp.mean((x @ w - y) ** 2)
    >>> mixed = mixup(square, mixing_weight=0.5)
    >>> losses = {float(mixed(jnp.ones(1), x, y, jax.random.key(seed))) for seed in range(20)}
    >>> sorted(losses)  # each with itself, or the two with each other
    [0.0, 0.25]
    """
    check_loss(loss)
    if (mixing_weight is None) == (concentration is None):
        got = f"mixing_weight = {mixing_weight} and concentration = {concentration}"
        raise InputError(f"give mixing_weight or concentration, got {got}")
    if mixing_weight is not None:
        check_known("mixing_weight", mixing_weight, low=0, high=1, ndim=0)
    else:
        check_known("concentration", concentration, above=0, ndim=0)

    def mixed(params: Any, x: Any, y: Any, key: Array) -> Array:
        samples = _samples(x, y)
        pair_key, weight_key = jax.random.split(key)
        partners = jax.random.permutation(pair_key, samples)
        share = _beta(weight_key, concentration) if mixing_weight is None else mixing_weight
        other = jax.tree.map(lambda leaf: jnp.asarray(leaf)[partners], (x, y))
        inputs = jax.tree.map(lambda one, two: _mixture(share, jnp.asarray(one), two), x, other[0])
        return _mixture(share, loss(params, inputs, y), loss(params, inputs, other[1]))

    return mixed


def _mixture(share: ArrayLike, one: Array, other: Array) -> Array:
    """share * one + (1 - share) * other in the precision of these, whatever that of the share."""
    weight = jnp.asarray(share, one.dtype if jnp.issubdtype(one.dtype, jnp.inexact) else float)
    return weight * one + (1 - weight) * other


def _beta(key: Array, concentration: Any) -> Array:
    """As a logistic of logarithms of gamma variates: their ratio is 0/0 for a small concentration."""
    one, other = jax.random.loggamma(key, concentration, (2,))
    return jax.nn.sigmoid(one - other)


def _samples(x: Any, y: Any) -> int:
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves((x, y))]
    if not shapes or not all(shapes) or len({shape[0] for shape in shapes}) > 1 or shapes[0][0] == 0:
        listed = " and ".join(map(str, shapes)) or "nothing"
        raise InputError(f"x and y must have the same number of samples along their first axis, got shapes {listed}")
    for leaf in jax.tree.leaves((x, y)):
        if not isinstance(leaf, jax.Array) and np.asarray(leaf).dtype.kind not in "biufcV":
            raise InputError(f"x and y must hold numbers, got {np.asarray(leaf).dtype}")
    return shapes[0][0]
