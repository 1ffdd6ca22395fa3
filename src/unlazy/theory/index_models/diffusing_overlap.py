"""An overlap that drifts and diffuses from a random start: the share of neurons that has arrived by a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import ConvergenceError

_CELLS = 600
_TIMES = 600


class Motion(NamedTuple):
    """dm = drift(m) dt + sqrt(2 spread (1 - m^2)) dW in time t = n/d."""

    drift: np.ndarray
    """Coefficients of powers of m."""
    spread: float


def race_times(motion: Motion, d: float) -> np.ndarray:
    """From much less to much more than diffusion and drift take for an overlap of d^(-1/2)."""
    diffusion = 1 / (2 * d * motion.spread)
    push = abs(np.polynomial.polynomial.polyval(d**-0.5, np.abs(motion.drift)))
    slow, fast = max(diffusion, d**-0.5 / push), min(diffusion, d**-0.5 / push)
    return np.geomspace(1e-3 * fast, 1e3 * slow, _TIMES)


def arrived_share(motion: Motion, d: float, target: float, times: np.ndarray) -> np.ndarray:
    """The share of the diffusions that have arrived by each time: a Fokker-Planck equation in finite volumes.

    The fluxes are those of Scharfetter & Gummel (1969), exact for a constant drift between cells, which are
    narrow where overlaps begin. The cell before the first and the one after the last take what arrives.
    """
    from scipy.integrate import solve_ivp

    value = np.polynomial.polynomial.polyval
    both = value(-target, motion.drift) < 0
    low, high = (math.asinh(math.sqrt(d) * end) for end in (-target if both else -1.0, target))
    faces = np.sinh(np.linspace(low, high, _CELLS + 1)) / math.sqrt(d)
    middles = (faces[1:] + faces[:-1]) / 2
    places = np.concatenate([faces[:1], middles, faces[-1:]])
    widths, distances = np.diff(faces), np.diff(places)
    spread = motion.spread * np.maximum(1 - faces**2, 1e-12)
    ratio = value(faces, motion.drift) * distances / spread
    forward, backward = (spread / distances * _bernoulli(sign * ratio) for sign in (-1.0, 1.0))
    rising = np.concatenate([[0.0], forward[1:] / widths])
    falling = np.concatenate([backward[:-1] / widths, [0.0]])
    if not both:
        falling[0] = 0.0
    # of cell i + 1 to cell i and back, the cells at both ends included
    loss = np.zeros(_CELLS + 2)
    loss[1:-1] = rising[1:] + falling[:-1]
    jacobian = np.zeros((3, _CELLS + 2))
    jacobian[0, 1:], jacobian[1], jacobian[2, :-1] = falling, -loss, rising
    first = np.zeros(_CELLS + 2)
    density = np.exp((d - 3) / 2 * np.log1p(-np.minimum(middles**2, 1 - 1e-12)))
    inside = density * widths
    first[1:-1] = inside / inside.sum()

    def motion_of(_: float, mass: np.ndarray) -> np.ndarray:
        change = jacobian[1] * mass
        change[1:] += rising * mass[:-1]
        change[:-1] += falling * mass[1:]
        return change

    found = solve_ivp(
        motion_of,
        (0.0, times[-1]),
        first,
        "LSODA",
        times,
        jac=lambda _, mass: jacobian,
        lband=1,
        uband=1,
        rtol=1e-7,
        atol=1e-12,
    )
    if not found.success or found.y.shape[1] != times.size:
        raise ConvergenceError(f"the race cannot be followed: {found.message}")
    arrived = np.maximum.accumulate(found.y[0] + found.y[-1])
    return np.clip(arrived, 0.0, 1 - 1e-12)


def _bernoulli(x: np.ndarray) -> np.ndarray:
    """x / (e^x - 1)."""
    small = np.abs(x) < 1e-8
    return np.where(small, 1 - x / 2, x / np.expm1(np.where(small, 1.0, np.clip(x, -700, 700))))
