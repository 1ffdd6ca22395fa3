"""Checks of what optimisers are made of."""

from __future__ import annotations

from typing import Any

import optax

from unlazy.checks import InputError


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
