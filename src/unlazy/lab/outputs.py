"""What a simulation returned: checked against what the study declares, without what is no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unlazy.errors import InputError
from unlazy.lab.plan import Chunk
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


def results(chunk: Chunk, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs without those of instances that diverged, which are no results; any other non-number is refused."""
    study = chunk.study
    stopped = arrays.get("diverged_at", np.full(len(chunk.entropy), -1))
    lost = stopped.reshape(len(stopped), -1).max(axis=1) >= 0
    kept = {}
    for name, array in arrays.items():
        numbers = array.reshape(len(array), -1)
        wrong = ~np.isfinite(numbers).all(axis=1) & ~lost
        if wrong.any() and not study.outputs[name].optional:
            raise _no_number(chunk, name, int(np.argmax(wrong)), numbers)
        kept[name] = array
        if lost.any() and name != "diverged_at":
            kept[name] = np.where(lost.reshape(-1, *[1] * (array.ndim - 1)), np.nan, array)
    return kept


def _no_number(chunk: Chunk, name: str, index: int, numbers: np.ndarray) -> InputError:
    found = next(value for value in numbers[index] if not np.isfinite(value))
    point = {n: column[index] for n, column in chunk.values.items()}
    where = ", ".join(
        f"{n} = {value}" for n, value in {**chunk.shared, **point}.items() if not isinstance(value, tuple)
    )
    return InputError(
        f"output {name} of {chunk.study.name} is {found} at {where}; if training diverges there, the study must say so "
        "in an output diverged_at, and if it is not defined there, the output must be declared with optional=True"
    )
