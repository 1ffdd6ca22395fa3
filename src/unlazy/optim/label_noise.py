"""Fresh label noise at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_known
from unlazy.optim.checks import check_loss

_LARGEST_COUNT = 2**31 - 1


def label_noise(
    loss: Callable[[Any, Any, Any], Array], flip_probability: ArrayLike, classes: int | Sequence[float] = 2
) -> Callable[[Any, Any, ArrayLike, Array], Array]:
    """The loss under labels of which each is replaced, with probability p, by one of the K - 1 others.

    `loss(params, x, y)` becomes `noisy(params, x, y, key)`, which draws new labels from every new key. For a loss that
    is a mean over samples its expectation is

        (1 - p) loss(y) + p/(K - 1) sum_{c != y} loss(c),

    whose least value on two classes with the logistic loss is at the margin log((1-p)/p). `classes` is the number K of
    labels 0, ..., K-1, or their values: (-1, 1). y holds labels, of any shape, not one-hot vectors. p lies below
    1 - 1/K, where labels say nothing; it may be traced. Labels that are not among the classes are refused, except in
    traced y, where they stay as they are. Source: Huang et al. (2025), label-noise gradient descent.

    >>> import jax, jax.numpy as jnp, optax
    >>> x, y = jnp.eye(4), jnp.array([1.0, -1.0, 1.0, -1.0])
    >>> logistic = lambda w, x, y: jnp.mean(jnp.logaddexp(0, -y * (x @ w)))
    >>> noisy, optimiser = label_noise(logistic, 0.2, classes=(-1, 1)), optax.sgd(1.0)
    >>> def step(state, key):
    ...     w, memory = state
    ...     change, memory = optimiser.update(jax.grad(noisy)(w, x, y, key), memory, w)
    ...     return (optax.apply_updates(w, change), memory), y * (x @ w)
    >>> start = (jnp.zeros(4), optimiser.init(jnp.zeros(4)))
    >>> _, margins = jax.lax.scan(step, start, jax.random.split(jax.random.key(0), 4000))
    >>> bool(abs(margins[2000:].mean() - jnp.log(0.8 / 0.2)) < 0.1)
    True
    """
    check_loss(loss)
    values = _values(classes)
    count = int(np.asarray(classes)) if values is None else len(values)
    check_known("flip_probability", flip_probability, low=0, ndim=0)
    if not isinstance(flip_probability, jax.core.Tracer) and np.asarray(flip_probability) >= 1 - 1 / count:
        raise InputError(
            f"flip_probability must be below 1 - 1/classes = {1 - 1 / count:.4g}, where labels say nothing, "
            f"got {flip_probability}"
        )

    def noisy(params: Any, x: Any, y: ArrayLike, key: Array) -> Array:
        labels = _numbers(y)
        _check_labels(y, labels.dtype, count, values)
        flip_key, class_key = jax.random.split(key)
        if values is None:
            known, index = (labels >= 0) & (labels < count), labels.astype(jnp.int32)
        else:
            matches = labels[..., None] == jnp.asarray(values, labels.dtype)
            known, index = matches.any(-1), matches.argmax(-1).astype(jnp.int32)
        # index + shift itself may exceed the integers
        shift = jax.random.randint(class_key, labels.shape, 1, count)
        other = jnp.where(index < count - shift, index + shift, index - (count - shift))
        others = other if values is None else jnp.asarray(values)[other]
        others = jnp.where(known, others.astype(labels.dtype), labels)
        return loss(params, x, replaced(flip_key, labels, others, flip_probability))

    return noisy


def replaced(key: Array, labels: Array, others: Array, flip_probability: ArrayLike) -> Array:
    """Labels of which each gives way to the one of `others` in its place, independently with this probability."""
    return jnp.where(jax.random.bernoulli(key, flip_probability, labels.shape), others, labels)


def _values(classes: Any) -> np.ndarray | None:
    """The labels, None if they are 0, 1, 2, ..."""
    if isinstance(classes, jax.core.Tracer):
        raise InputError("classes must be known before tracing, got a traced value")
    if np.ndim(classes) == 0:
        check_known("classes", classes, low=2, high=_LARGEST_COUNT, ndim=0, whole=True)
        return None
    values = check_array("classes", classes, ndim=1)
    if len(values) < 2 or len(np.unique(values)) < len(values):
        raise InputError(f"classes must be at least 2 different labels, got {classes!r}")
    return values


def _numbers(y: Any) -> Array:
    try:
        return jnp.asarray(y)
    except TypeError:
        raise InputError(f"y must hold numbers, not {np.asarray(y).dtype}: number the classes 0, 1, ...") from None


def _check_labels(y: Any, dtype: np.dtype, count: int, values: np.ndarray | None) -> None:
    labels = np.arange(max(count - 2, 0), count) if values is None else values
    named = f"0, ..., {count - 1}" if values is None else ", ".join(f"{value:g}" for value in values)
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        fits = (labels == np.round(labels)).all() and labels.min() >= limits.min and labels.max() <= limits.max
    else:
        fits = jnp.issubdtype(dtype, jnp.floating) and len(np.unique(labels.astype(dtype))) == len(labels)
    if not fits:
        raise InputError(f"y must be of a type that holds the classes {named}, got {dtype}")
    if not isinstance(y, jax.core.Tracer):
        given = np.asarray(y).astype(dtype)
        whole = (given >= 0) & (given < count) & (given == np.round(given))
        fine = whole if values is None else np.isin(given, values.astype(dtype))
        if not fine.all():
            raise InputError(f"y must hold the classes {named}, got {given[~fine].flat[0]}")
