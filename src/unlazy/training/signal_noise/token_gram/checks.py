"""Checks of a setting before anything is drawn, for the `validate` of studies and for users, and of arguments."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from unlazy.checks import InputError, check_array


def check_known(name: str, value: Any, *, whole: bool = False, below: float | None = None, **bounds: Any) -> None:
    """Raise an `InputError` if the numbers are not as they must be; traced ones cannot be judged and pass."""
    if isinstance(value, jax.core.Tracer):
        return
    found = check_array(name, value, **bounds)
    if whole and (wrong := found != np.round(found)).any():
        raise InputError(f"{name} must be a whole number, got {found[wrong].flat[0]:g}")
    if below is not None and (wrong := found >= below).any():
        raise InputError(f"{name} must be < {below:g}, got {found[wrong].flat[0]:g}")


def check_signs(name: str, value: Any) -> None:
    """Raise an `InputError` if not all are 1 or -1."""
    if isinstance(value, jax.core.Tracer):
        return
    found = check_array(name, value, ndim=1)
    if (wrong := np.abs(found) != 1).any():
        raise InputError(f"{name} must be 1 or -1, got {found[wrong].flat[0]:g}")


def validate(
    *,
    power: float | None = None,
    samples: int | None = None,
    balanced: bool = True,
    width: int | None = None,
    dimension: float | None = None,
    shared: int = 1,
    own: int = 1,
    signal: float | None = None,
    noise: float | None = None,
    scale: float | None = None,
    learning_rate: float | None = None,
    flipped: float | None = None,
    flip_probability: float | None = None,
    batch: int | None = None,
    share: float | None = None,
    radius: float | None = None,
) -> None:
    """Raise an `InputError` if the setting is impossible or meaningless; what is None is not checked.

    Refused: an activation power q < 1; an odd number of samples where classes are balanced; a dimension below
    S + nQ + 2m, for which the d-free law does not exist (use `from_vectors`); half or more of the labels wrong; an
    initial scale of 0, where the gradient vanishes as the slope of ReLU^q at 0 is 0; probabilities and shares outside
    [0, 1].
    """
    at_least = {
        "power": (power, 1),
        "samples": (samples, 1),
        "width": (width, 1),
        "signal": (signal, 0),
        "batch": (batch, 1),
        "radius": (radius, 0),
    }
    for name, (number, low) in at_least.items():
        if number is not None:
            check_array(name, number, ndim=0, low=low)
    for name, number in {"dimension": dimension, "noise": noise, "learning_rate": learning_rate}.items():
        if number is not None:
            check_array(name, number, ndim=0, above=0)
    if share is not None:
        check_array("share", share, ndim=0, low=0, high=1)
    for name, number in {"flipped": flipped, "flip_probability": flip_probability}.items():
        if number is not None:
            check_array(name, number, ndim=0, low=0, high=1)
            if number >= 0.5:
                raise InputError(f"{name} must be < 0.5, else the labels say nothing of the classes; got {number:g}")
    if samples is not None and balanced and samples % 2:
        raise InputError(f"samples must be even for balanced classes, got {samples}")
    if samples is not None and batch is not None and batch > samples:
        raise InputError(f"batch must be <= samples = {samples}, got {batch}")
    if dimension is not None and samples is not None and width is not None:
        least = shared + samples * own + 2 * width
        if dimension < least:
            raise InputError(
                f"dimension must be >= {least} = {shared} features + {samples * own} noises + {2 * width} neurons "
                f"to be drawn without vectors (below, give vectors to from_vectors), got {dimension:g}"
            )
    if scale is not None:
        check_array("scale", scale, ndim=0, low=0)
        if scale == 0:
            raise InputError("scale must be > 0, as the gradient vanishes at zero weights; got 0")
