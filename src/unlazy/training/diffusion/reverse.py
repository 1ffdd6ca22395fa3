"""What a score gives: samples by the reverse diffusion, log densities by the probability flow.

The process is X_t = m_t X_0 + sigma_t xi, m_t = exp(-t), sigma_t^2 = 1 - exp(-2 t); times are in units of
dX = -X dt + sqrt(2) dB. A score is a JAX function of points (n, d) and times (n,). Networks are single precision; they
are trained in `unlazy.training.diffusion.score_matching`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.checks import check_array
from unlazy.models.score_network import ScoreNetwork
from unlazy.numerics.reverse_diffusion import Steps, denoised, reverse_steps
from unlazy.numerics.roots import ConvergenceError
from unlazy.random import normal

Score = Callable[[Array, Array], Array]
_MOST_STEPS = 4096


def reverse_samples(
    key: Array, score: Score, start: Array, times: Any, *, scheme: str = "exponential", denoise: bool = True
) -> Array:
    """Points of law p_0, approximately, from `start` of law p_T: one compiled scan over the decreasing `times`.

    The schemes and what they hold fixed during a step: `unlazy.numerics.reverse_diffusion.reverse_steps`. With
    `denoise` Tweedie's formula takes off the noise that is left at the last time.
    """
    steps = reverse_steps(scheme, times)
    last = float(np.asarray(times)[-1])

    def step(points: Array, inputs: tuple[Steps, Array]) -> tuple[Array, None]:
        now, key = inputs
        moved = now.state * points + now.score * score(points, jnp.full(points.shape[0], now.time, points.dtype))
        return moved + now.noise * normal(key, points.shape, points.dtype), None

    coefficients = Steps(*(jnp.asarray(column, start.dtype) for column in steps))
    points, _ = jax.lax.scan(step, start, (coefficients, jax.random.split(key, len(steps.time))))
    if not denoise:
        return points
    return denoised(points, score(points, jnp.full(points.shape[0], last, points.dtype)), last)


class FlowResult(NamedTuple):
    """Points at the other end of the flow, the logarithm of the volume change, and whether the solver got there."""

    points: Array
    log_volume: Array
    solved: Array


def solve_flow(
    score_and_divergence: Callable[[Array, Array], tuple[Array, Array]],
    points: Array,
    begin: Any,
    end: Any,
    *,
    tolerance: float = 1e-3,
) -> FlowResult:
    """The probability flow dx/dt = -x - s(x, t) from time `begin` to `end`, through diffrax with adaptive steps.

    `log_volume` is int (d + div s) dt from `begin` to `end`, the logarithm of p_end(x_end) / p_begin(x_begin) (Chen et
    al. 2018). Time runs as log t, in which the score of a law with edges is no stiffer near the data than elsewhere.
    """
    import diffrax

    d = points.shape[1]

    def flow(u: Any, state: Any, _: Any) -> tuple[Array, Array]:
        x, _volume = state
        time = jnp.exp(u).astype(x.dtype)
        score, divergence = score_and_divergence(x, jnp.full(x.shape[0], time))
        return -time * (x + score), time * (d + divergence)

    found = diffrax.diffeqsolve(
        diffrax.ODETerm(flow),
        diffrax.Tsit5(),
        jnp.log(begin),
        jnp.log(end),
        None,
        (points, jnp.zeros(points.shape[0], points.dtype)),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        max_steps=_MOST_STEPS,
        throw=False,
    )
    solved = found.result == diffrax.RESULTS.successful
    return FlowResult(found.ys[0][-1], found.ys[1][-1], solved)


@partial(jax.jit, static_argnums=4)
def _network_density(
    network: ScoreNetwork, points: Array, first_time: float, last_time: float, tolerance: float
) -> Any:
    def one(point: Array) -> tuple[Array, Array]:
        found = solve_flow(network.score_and_divergence, point[None], first_time, last_time, tolerance=tolerance)
        normal_density = -0.5 * jnp.sum(found.points**2) - 0.5 * point.size * np.log(2 * np.pi)
        return normal_density - found.log_volume[0], found.solved

    # each row has steps of its own, so that its density does not depend on the other rows
    return jax.vmap(one)(points)


def log_density(
    network: ScoreNetwork, rows: Any, *, first_time: float = 1e-3, last_time: float = 4.0, tolerance: float = 1e-3
) -> np.ndarray:
    """log of m^d p_{first_time}(m x): the law of the model smoothed by sigma/m, at rows x (n, d), by probability flow.

    From `first_time` to `last_time`, where the law is taken for N(0, I). `tolerance` is that of the solver's steps,
    relative and absolute.
    """
    rows = check_array("rows", rows, ndim=2)
    scale = np.exp(-first_time)
    with jax.enable_x64(False):
        found, solved = _network_density(
            network, jnp.asarray(scale * rows, jnp.float32), float(first_time), float(last_time), float(tolerance)
        )
    values = np.asarray(found, np.float64)
    if not np.asarray(solved).all():
        raise ConvergenceError(
            f"the probability flow took more than {_MOST_STEPS} steps at tolerance {tolerance:g}: rows up to "
            f"{np.abs(rows).max():g} deviations from the mean are too far out, or the network is too rough"
        )
    return values - first_time * rows.shape[1]


@partial(jax.jit, static_argnums=(2, 3, 4, 5, 6))
def _network_samples(
    network: ScoreNetwork, key: Array, count: int, d: int, times: tuple[float, ...], scheme: str, denoise: bool
) -> Array:
    start_key, run_key = jax.random.split(key)
    start = normal(start_key, (count, d), jnp.float32)
    return reverse_samples(run_key, network, start, np.array(times), scheme=scheme, denoise=denoise)


def network_samples(
    network: ScoreNetwork,
    seed: int,
    count: int,
    times: np.ndarray,
    *,
    scheme: str = "exponential",
    denoise: bool = True,
) -> np.ndarray:
    """`count` samples (count, d) of the model, from N(0, I) at `times[0]` by the reverse equation."""
    d = network.readout.shape[1]
    with jax.enable_x64(False):
        found = _network_samples(
            network, jax.random.key(seed), count, d, tuple(np.asarray(times).tolist()), scheme, denoise
        )
        return np.asarray(found, np.float64)


@jax.jit
def _network_score(network: ScoreNetwork, points: Array, times: Array) -> Array:
    return network(points, times)


def network_score(network: ScoreNetwork, points: Any, time: float) -> np.ndarray:
    """The network's score (n, d) at points (n, d) of one time."""
    with jax.enable_x64(False):
        x = jnp.asarray(points, jnp.float32)
        return np.asarray(_network_score(network, x, jnp.full(x.shape[0], time, jnp.float32)), np.float64)
