"""What a simulation returned: checked against what the study declares, without what is no result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.running.plan import Chunk
from unlazy.lab.study import Study


def as_outputs(study: type[Study], result: Any) -> dict[str, Any]:
    if not isinstance(result, Mapping):
        raise InputError(f"simulate of {study.name} must return a dict of outputs by name, got {type(result).__name__}")
    return dict(result)


def as_arrays(study: type[Study], result: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in as_outputs(study, result).items()}


def check_same(study: type[Study], one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
    if set(one) != set(other):
        names = ", ".join(sorted(set(one) ^ set(other)))
        raise InputError(f"simulate of {study.name} returns {names} at some instances and not at others")
    for name in one:
        if one[name].shape != other[name].shape:
            raise InputError(
                f"output {name} of {study.name} changes its shape from instance to instance: {one[name].shape} and "
                f"{other[name].shape}; use a fixed grid"
            )


def check_outputs(chunk: Chunk, arrays: Mapping[str, np.ndarray]) -> None:
    study = chunk.study
    expected = set(study.simulated_outputs())
    if set(arrays) != expected:
        declared, returned = ", ".join(sorted(expected)), ", ".join(sorted(arrays))
        raise InputError(f"study {study.name} declares the outputs {declared} but simulate returned {returned}")
    for name, array in arrays.items():
        dims = study.outputs[name].dims
        if array.ndim != 1 + len(dims):
            raise InputError(
                f"output {name} of {study.name} is declared with dimensions {dims} but has shape {array.shape[1:]}"
            )
        for dim, length in zip(dims, array.shape[1:], strict=True):
            if dim in chunk.shared and length != len(chunk.shared[dim]):
                raise InputError(
                    f"output {name} of {study.name} has length {length} along {dim}, which has "
                    f"{len(chunk.shared[dim])} values"
                )
        if array.dtype.kind not in "biuf":
            raise InputError(f"output {name} of {study.name} must be real numbers, got {array.dtype}")


def check_finite(chunk: Chunk, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what is no number in instances that did not diverge, unless the study declares it."""
    study, count = chunk.study, len(chunk.entropy)
    sound = ~diverged(arrays, count)
    for name, array in arrays.items():
        output = study.outputs[name]
        for index in np.flatnonzero(sound & ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))):
            point = {**chunk.shared, **{n: column[index] for n, column in chunk.values.items()}}
            numbers = array[index].ravel()
            if any(point[parameter] not in values for parameter, values in output.only.items()):
                continue
            wrong = ~np.isfinite(numbers)
            if output.undefined is not None:
                wrong &= ~(np.isnan(numbers) if math.isnan(output.undefined) else numbers == output.undefined)
            if wrong.any():
                where = ", ".join(f"{n} = {v}" for n, v in point.items() if not isinstance(v, tuple))
                raise InputError(
                    f"output {name} of {study.name} is {numbers[wrong][0]} at {where}; a study whose training diverges "
                    "says so in an output diverged_at, one whose output is not always defined in Output(undefined=...)"
                )


def diverged(arrays: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Which of `count` instances diverged."""
    if "diverged_at" not in arrays:
        return np.zeros(count, bool)
    at = arrays["diverged_at"]
    return np.any(at >= 0, axis=tuple(range(1, at.ndim)))
