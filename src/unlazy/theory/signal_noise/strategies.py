"""Where large step sizes decide between a strong and a weak feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape

_LARGEST = 1e60
"""Numbers whose products do not overflow."""


class StableOutput(NamedTuple):
    """What descent at a step size can keep; see `stable_output`."""

    stable_step_size: np.ndarray
    """The largest stable step size of the solution that uses the strong feature alone, in units of m/|u|^2."""
    strong_output: np.ndarray
    """f_u, the largest stable part of the output that is due to the strong feature."""


def stable_output(
    feature_ratio: ArrayLike, n: ArrayLike, weak_samples: ArrayLike, relative_step_size: ArrayLike
) -> StableOutput:
    """The edge of stability of ReLU^2 networks on [y u or 0, y v, xi] with squared loss, u missing in n' samples.

    Where f uses u alone, f_u = (1/m) sum_r z_r^2 = 1 on the samples of a class that carry u, a part s = (n - n')/(2n)
    of all. The gradient of f has the square 4 sum_r z_r^2 |u|^2/m^2 = 4 f_u |u|^2/m, so that the loss has the curvature
    4 s f_u |u|^2/m, and descent is stable for eta < 2/(4s) m/|u|^2 = n/(n - n') m/|u|^2. Where the weak feature gives
    the rest of the output, f_v = 1 - f_u, the square is 4 (f_u |u|^2 + f_v |v|^2)/m, and the largest stable f_u
    follows. `feature_ratio` is |u|/|v|, n' are the `weak_samples`, `relative_step_size` is in units of m/|u|^2; where
    no sample carries u, the stable step size is inf. Noise is neglected. Source: this project's.

    >>> found = stable_output(feature_ratio=2, n=40, weak_samples=4, relative_step_size=[1.0, 1.5])
    >>> print(found.stable_step_size, found.strong_output)
    [1.111 1.111] [1.         0.6543]
    """
    ratio = check_array("feature_ratio", feature_ratio, low=1 / _LARGEST, high=_LARGEST)
    n, weak = check_array("n", n, low=1), check_array("weak_samples", weak_samples, low=0)
    step_size = check_array("relative_step_size", relative_step_size, above=0)
    shape = common_shape(feature_ratio=ratio, n=n, weak_samples=weak, relative_step_size=step_size)
    _check_at_most("weak_samples", weak, "n", n)
    ratio, n, weak, step_size = (np.broadcast_to(a, shape) for a in (ratio, n, weak, step_size))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        edge, part = n / (n - weak), 1 / ratio**2
        stable = np.where(ratio > 1, (edge / step_size - part) / (1 - part), 1.0)
    return StableOutput(edge[()], np.clip(stable, 0.0, 1.0)[()])


def _check_at_most(name: str, value: np.ndarray, bound_name: str, bound: np.ndarray) -> None:
    value, bound = np.broadcast_arrays(value, bound)
    if (wrong := value > bound).any():
        raise InputError(
            f"{name} must be at most {bound_name} = {bound[wrong].flat[0]:g}, got {value[wrong].flat[0]:g}"
        )
