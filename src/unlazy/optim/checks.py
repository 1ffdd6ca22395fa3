"""Checks of arguments that may be traced: what jit or vmap hides cannot be judged and passes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax

from unlazy.checks import InputError, check_array


def check_number(name: str, value: Any, **bounds: Any) -> Any:
    """Return a single number as it is, or say what is wrong with it; a tracer must be a scalar."""
    if not isinstance(value, jax.core.Tracer):
        check_array(name, value, ndim=0, **bounds)
    elif value.ndim:
        raise InputError(f"{name} must be a single number, got shape {value.shape}")
    return value


def check_whole(name: str, value: Any, **bounds: Any) -> Any:
    """The same for a whole number."""
    check_number(name, value, **bounds)
    if not isinstance(value, jax.core.Tracer) and value != np.round(value):
        raise InputError(f"{name} must be a whole number, got {value}")
    return value


def check_optimiser(name: str, value: Any) -> optax.GradientTransformationExtraArgs:
    """The optimiser, made to accept extra arguments of `update`."""
    if not isinstance(value, optax.GradientTransformation):
        raise InputError(f"{name} must be an optax.GradientTransformation, got {value!r}")
    return optax.with_extra_args_support(value)


def check_loss(value: Any) -> Any:
    """Return the loss if it can be called."""
    if not callable(value):
        raise InputError(f"loss must be a function loss(params, x, y), got {value!r}")
    return value
