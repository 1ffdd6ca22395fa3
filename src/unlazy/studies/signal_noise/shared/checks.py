"""Refusals that several studies share; what a field's own bounds cannot say."""

from __future__ import annotations

from typing import Any

from unlazy.checks import InputError


def check_even(name: str, count: int) -> None:
    """Raise unless the samples can be split into two classes of the same size."""
    if count % 2:
        raise InputError(f"{name} must be even, for as many samples of one class as of the other; got {count}")


def check_room(study: Any, **most: str) -> None:
    """Raise unless each named parameter is at most the one that says how many memory is kept for."""
    for name, limit in most.items():
        count, room = getattr(study, name), getattr(study, limit)
        if count > room:
            raise InputError(f"{name} must be at most {limit} = {room}, got {count}")


def check_dimension(d: float, *, samples: int, width: int, shared: int = 1, own: int = 1) -> None:
    """Raise unless there is room for features, `own` noise vectors of each sample and two classes of neurons."""
    least = shared + samples * own + 2 * width
    if d < least:
        raise InputError(
            f"d must be at least {least} = {shared} features + {samples * own} noises + {2 * width} neurons, got {d:g}"
        )
