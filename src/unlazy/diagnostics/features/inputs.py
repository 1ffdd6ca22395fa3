"""The arguments of `feature_probe`, read and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array

_LARGEST_ENTRY = 1e100


def read_inputs(name: str, value: ArrayLike) -> np.ndarray:
    """Samples along the first axis, any shape after it."""
    found = check_array(name, value, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY)
    if found.ndim < 2:
        raise InputError(f"{name} must have at least 2 dimensions, samples first, got shape {found.shape}")
    return found


def read_classes(y_val: ArrayLike, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The sorted labels, and for every held-out sample the index of its own."""
    given = np.asarray(y_val)
    if given.shape != (n,):
        raise InputError(f"y_val must have shape ({n},) like the {n} rows of X_val, got shape {given.shape}")
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise InputError(f"y_val must be finite, got {given[~np.isfinite(given)][0]}")
    labels, codes, counts = np.unique(given, return_inverse=True, return_counts=True)
    if len(labels) < 2:
        raise InputError(f"y_val must hold at least 2 classes, got only {labels[0]}")
    if counts.min() < 2:
        raise InputError(f"y_val must hold every class at least twice, got {labels[counts.argmin()]} once")
    return labels, codes


def read_codes(name: str, value: ArrayLike, n: int, labels: np.ndarray) -> np.ndarray:
    """For every sample the index of its label."""
    given = np.asarray(value)
    if given.shape != (n,):
        raise InputError(f"{name} must have shape ({n},) like the {n} rows of X, got shape {given.shape}")
    strange = given[~np.isin(given, labels)]
    if strange.size:
        raise InputError(f"{name} must hold classes of y_val, got {strange[0]}")
    return np.searchsorted(labels, given)


def read_steps(steps: ArrayLike | None, count: int) -> np.ndarray:
    """Increasing numbers, by default 1, 2, ..."""
    if steps is None:
        return np.arange(1.0, count + 1)
    found = np.atleast_1d(check_array("steps", steps, low=0))
    if found.shape != (count,) or (np.diff(found) <= 0).any():
        raise InputError(f"steps must be {count} increasing numbers, one for each checkpoint, got {steps!r}")
    return found


def read_checkpoints(checkpoints: Any, initial: Any, plain: bool) -> tuple[Any, list[Any]]:
    """The initial parameters and the list of those to probe."""
    if plain:
        start = check_array("initial", initial, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY)
        if start.ndim not in (1, 2):
            raise InputError(f"initial must be weights (neurons, d) or (d,), got shape {start.shape}")
        found = check_array("checkpoints", checkpoints, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY)
        if found.shape[-start.ndim :] != start.shape or found.ndim - start.ndim not in (0, 1):
            raise InputError(f"checkpoints must have shape {start.shape} like initial, or a list, got {found.shape}")
        # weights kept with fewer digits differ from the initial ones by rounding, which is not learned
        coarse = min(np.asarray(initial).dtype, np.asarray(checkpoints).dtype, key=_digits)
        start, found = (weights.astype(coarse).astype(np.float64) for weights in (start, found))
        return start, list(found.reshape(-1, *start.shape))

    import jax

    structure: Any = jax.tree.structure(initial)
    shapes = _shapes(initial)
    if structure == jax.tree.structure(checkpoints):
        if _shapes(checkpoints) == shapes:
            return initial, [checkpoints]
        counts = {shape[0] for shape in _shapes(checkpoints) if shape}
        if len(counts) == 1 and [(*counts, *shape) for shape in shapes] == _shapes(checkpoints):
            return initial, [_entry(checkpoints, index) for index in range(*counts)]
        raise InputError(f"checkpoints must have leaves of shapes {shapes} like initial, got {_shapes(checkpoints)}")
    if not isinstance(checkpoints, list | tuple) or not checkpoints:
        raise InputError(f"checkpoints must be parameters like initial, or a list of them, got {type(checkpoints)}")
    for index, params in enumerate(checkpoints):
        if structure != jax.tree.structure(params) or _shapes(params) != shapes:
            raise InputError(f"checkpoints must be parameters like initial, got others at index {index}")
    return initial, list(checkpoints)


def _digits(dtype: np.dtype) -> int:
    import jax.numpy as jnp

    return jnp.finfo(dtype).nmant if jnp.issubdtype(dtype, jnp.floating) else 64


def _shapes(tree: Any) -> list[tuple[int, ...]]:
    import jax

    return [np.shape(leaf) for leaf in jax.tree.leaves(tree) if not callable(leaf)]


def _entry(tree: Any, index: int) -> Any:
    import jax

    return jax.tree.map(lambda leaf: leaf if callable(leaf) else leaf[index], tree)
