"""Checks of a setting before anything is drawn: for the `validate` of studies and for users."""

from __future__ import annotations

from unlazy.errors import InputError, check_array


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
    initial scale of 0 with q >= 2, where the gradient vanishes at the start; probabilities and shares outside [0, 1].
    """
    at_least = {
        "power": (power, 1),
        "samples": (samples, 1),
        "width": (width, 1),
        "signal": (signal, 0),
        "scale": (scale, 0),
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
    if scale == 0 and power is not None and power >= 2:
        raise InputError(f"scale must be > 0 for power >= 2, as the gradient vanishes at zero weights; got {scale:g}")
