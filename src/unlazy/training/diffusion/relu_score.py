"""Small ReLU networks for the score of data on [-1, 1], trained to the least empirical denoising risk that is found.

Risks are least squares in the networks' output, and the networks have tens to hundreds of weights: a case for the
Levenberg-Marquardt method, whose work is LAPACK's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from unlazy.numerics.quadrature import gauss_rule, panels

_DAMPING, _LEAST_DAMPING = 1.0, 1e-8
_ATTEMPTS = 8
_TRUSTED = 1e-10
"""Cells with less mass say nothing about the score."""


class DenoisingCells(NamedTuple):
    """Points of time and space at which the denoising risk of a histogram of the data is a weighted sum of squares.

    At each time the line is cut into cells. The risk of a score f is sum_q weight_q (f_q - target_q)^2 up to a constant
    that no f changes, where the weight is the time's weight and the cell's share of the noisy data, and the target the
    mean of their score in the cell: the average over all noise, in closed form.
    """

    x: np.ndarray
    times: np.ndarray
    time_weights: np.ndarray
    masses: np.ndarray
    """(cells, bins): what the data of each bin give to a cell."""
    slopes: np.ndarray
    """(cells, bins): the difference of the density, of the noisy data of each bin, over the cell."""


Weights = tuple[tuple[np.ndarray, np.ndarray], ...]
"""A matrix and a vector per layer."""


@dataclass(frozen=True)
class ReluScore:
    """The score of the uniform law on [-1, 1] plus m_t net(x, log t), for data on [-1, 1].

    There is a network for each of the windows of time between `ends`, the first for all earlier times, the last for all
    later ones. What it adds is at most `clip` / sigma_t.
    """

    ends: tuple[float, ...]
    networks: tuple[Weights, ...]
    clip: float = np.inf

    def __call__(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The score at points x and times t, which broadcast."""
        x, t = np.broadcast_arrays(x, t)
        answer = self.answer(x.ravel(), t.ravel()).reshape(x.shape)
        return uniform_score(x, t) + np.exp(-t) * answer

    def answer(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """What the layers say at points (n,) and times (n,), clipped."""
        found = np.empty(x.shape)
        window = np.searchsorted(self.ends, t)
        for index, network in enumerate(self.networks):
            here = window == index
            found[here] = _layers(network, _inputs(x[here], t[here], self.ends, index))[-1]
        most = self.clip * np.exp(t) / np.sqrt(-np.expm1(-2 * t))
        return np.clip(found, -most, most)

    @property
    def size(self) -> int:
        """The number of weights."""
        return sum(matrix.size + vector.size for network in self.networks for matrix, vector in network)


class TrainedRelu(NamedTuple):
    """The network with the least risk of several starts, and the risks of all, beyond the constant."""

    network: ReluScore
    risks: np.ndarray


def uniform_score(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The score of X_t for X_0 uniform on [-1, 1], also far outside."""
    from scipy.special import erfcx

    scale, deviation = np.exp(-t), np.sqrt(np.expm1(2 * t))
    y = np.abs(x) / scale
    near, far = (y - 1) / deviation, (y + 1) / deviation
    other = np.exp(-2 * y / deviation**2)
    inside = np.maximum(near, -8.0)
    tails = np.sqrt(np.pi / 2) * (erfcx(inside / np.sqrt(2)) - other * erfcx(far / np.sqrt(2)))
    # eight deviations inside both ends the law is flat
    found = np.where(near < -8.0, 0.0, (other - 1) / (deviation * tails))
    return np.sign(x) * found / scale


@lru_cache(maxsize=4)
def denoising_cells(bins: int, first_time: float, last_time: float, windows: int, cells: int) -> DenoisingCells:
    """The cells for histograms with `bins` equal bins of [-1, 1], with `cells` on [-1, 1] at small times.

    Times are three Gauss points of log t in each of the `windows` from `last_time` down by factors of four, and two of
    t in what is left. Where the noise is wide, cells are a third of its deviation. The law of a bin is uniform on it.
    """
    ends = last_time * 4.0 ** -np.arange(windows, -1, -1)
    late, early = panels(np.log(ends), 3), gauss_rule(first_time, ends[0] - first_time, 2)
    all_times = np.concatenate([early.points, np.exp(late.points)])
    all_weights = np.concatenate([early.weights, late.weights * np.exp(late.points)])
    found = []
    for t, weight in zip(all_times, all_weights, strict=True):
        deviation = np.sqrt(np.expm1(2 * t))
        reach = 1 + 4.5 * deviation
        edges = np.linspace(-reach, reach, 2 * int(np.ceil(reach / max(2 / cells, 0.35 * deviation))) + 1)
        cdf, density = _blurred_bins(edges, bins, deviation)
        middle = np.exp(-t) * (edges[1:] + edges[:-1]) / 2
        times = np.full(middle.size, t)
        found.append((middle, times, np.full(middle.size, weight), np.diff(cdf, axis=0), np.diff(density, axis=0)))
    return DenoisingCells(*(np.concatenate(part) for part in zip(*found, strict=True)))


def diffused_masses(histogram: np.ndarray, edges: np.ndarray, time: float) -> np.ndarray:
    """The masses of X_t / m_t between edges, the outer cells with all beyond, for a histogram (bins,) on [-1, 1]."""
    cdf = _blurred_bins(edges[1:-1], histogram.size, np.sqrt(np.expm1(2 * time)))[0] @ histogram
    return np.maximum(np.diff(np.r_[0.0, cdf, 1.0]), 0.0)


def _blurred_bins(edges: np.ndarray, bins: int, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Distribution functions and densities (edges, bins) of uniform laws on equal bins of [-1, 1] with noise."""
    from scipy.special import ndtr

    z = (edges[:, None] - np.linspace(-1, 1, bins + 1)) / deviation
    below = ndtr(z)
    primitive = deviation * (z * below + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
    return -np.diff(primitive, axis=1) * bins / 2, -np.diff(below, axis=1) * bins / 2


def score_targets(cells: DenoisingCells, histograms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Targets and weights (..., cells) of the network's output, for shares (..., bins) of the data that sum to 1."""
    scale = np.exp(-cells.times)
    even = np.full(cells.masses.shape[1], 1 / cells.masses.shape[1])
    (mass, slope), (even_mass, even_slope) = (
        (shares @ cells.masses.T, shares @ cells.slopes.T) for shares in (histograms, even)
    )
    target = slope / np.maximum(mass, _TRUSTED) - even_slope / np.maximum(even_mass, _TRUSTED)
    seen = (mass > _TRUSTED) & (even_mass > _TRUSTED)
    # the score in units of x is that of the cells over m_t, and the network's output is multiplied by m_t
    return np.where(seen, target / scale**2, 0.0), np.where(seen, cells.time_weights * scale**2 * mass, 0.0)


def draw_denoising(
    rng: np.random.Generator, rows: np.ndarray, draws: int, first_time: float, last_time: float, *, uniform: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Noisy rows x, their times, and targets and weights of the network's output, for `draws` draws of row and noise.

    Times are `uniform` on the interval, as in the paper, or else uniform in their logarithm, with the weights of the
    same risk.
    """
    places = rng.random(draws)
    span = np.log(last_time / first_time)
    times = first_time + (last_time - first_time) * places if uniform else first_time * np.exp(span * places)
    density = last_time - first_time if uniform else span * times
    scale, deviation = np.exp(-times), np.sqrt(-np.expm1(-2 * times))
    noise = rng.standard_normal(draws)
    x = scale * rows[rng.integers(rows.size, size=draws)] + deviation * noise
    target = (-noise / deviation - uniform_score(x, times)) / scale
    return x, times, target, density * scale**2 / draws


def train_relu(
    rng: np.random.Generator,
    x: np.ndarray,
    times: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    hidden: dict[float, tuple[int, ...]],
    *,
    steps: int,
    starts: int = 1,
    clip: float = np.inf,
) -> TrainedRelu:
    """The least risk over ReLU networks whose hidden layers are given for each end of a window of time.

    The risk is a sum over times, so that windows are trained one by one. After half of the steps the best of the starts
    goes on.
    """
    ends = tuple(sorted(hidden))[:-1]
    window, half = np.searchsorted(ends, times), steps // 2
    networks, risks = [], []
    for index, end in enumerate(sorted(hidden)):
        here = (weights > 0) & (window == index)
        inputs, wanted, roots = _inputs(x[here], times[here], ends, index), targets[here], np.sqrt(weights[here])
        shape = (inputs.shape[1], *hidden[end], 1)
        firsts = (_start(rng, inputs, hidden[end]) for _ in range(starts))
        tried = [_descend(flat, inputs, wanted, roots, half, shape) for flat in firsts]
        best = min(tried, key=lambda one: one[1])
        flat, risk = _descend(best[0], inputs, wanted, roots, steps - half, shape)
        networks.append(_unpacked(flat, shape))
        risks.append([risk, *(one[1] for one in tried)])
    return TrainedRelu(ReluScore(ends, tuple(networks), clip), np.sum(risks, axis=0))


def _inputs(x: np.ndarray, t: np.ndarray, ends: tuple[float, ...], index: int) -> np.ndarray:
    """x and the logarithm of the time, in units of four, from an end of the window."""
    origin = ends[min(index, len(ends) - 1)] if ends else 1.0
    return np.stack([x, np.maximum(np.log(t / origin) / np.log(4), -3.0)], axis=1)


def _layers(weights: Weights, inputs: np.ndarray) -> list[np.ndarray]:
    """The inputs, the hidden layers, and the answers (n,)."""
    found = [inputs]
    for matrix, vector in weights[:-1]:
        found.append(np.maximum(found[-1] @ matrix + vector, 0.0))
    matrix, vector = weights[-1]
    return [*found, (found[-1] @ matrix + vector)[:, 0]]


def _start(rng: np.random.Generator, inputs: np.ndarray, hidden: tuple[int, ...]) -> np.ndarray:
    """Directions at random, with the kink of every neuron at one of the points and a unit mean square; readout 0."""
    layer, parts = inputs, []
    for count in hidden:
        matrix = rng.standard_normal((layer.shape[1], count))
        matrix /= np.linalg.norm(matrix, axis=0)
        vector = -np.sum(matrix * layer[rng.integers(len(layer), size=count)].T, axis=0)
        after = np.maximum(layer @ matrix + vector, 0.0)
        unit = np.sqrt(np.mean(after**2, axis=0) + 1e-3)
        parts += [(matrix / unit).ravel(), vector / unit]
        layer = after / unit
    return np.concatenate([*parts, 0.01 * rng.standard_normal(hidden[-1]), np.zeros(1)])


def _unpacked(flat: np.ndarray, shape: tuple[int, ...]) -> Weights:
    found, at = [], 0
    for before, after in pairwise(shape):
        middle, end = at + before * after, at + (before + 1) * after
        found.append((flat[at:middle].reshape(before, after), flat[middle:end]))
        at = end
    return tuple(found)


def _jacobian(weights: Weights, layers: list[np.ndarray]) -> np.ndarray:
    """The derivative of the answers by all weights, (n, weights), in the order of `_unpacked`."""
    back, parts = np.ones((len(layers[0]), 1)), []
    for index in range(len(weights) - 1, -1, -1):
        parts += [back, (layers[index][:, :, None] * back[:, None, :]).reshape(len(back), -1)]
        if index:
            back = (back @ weights[index][0].T) * (layers[index] > 0)
    return np.concatenate(parts[::-1], axis=1)


def _descend(
    flat: np.ndarray, inputs: np.ndarray, targets: np.ndarray, roots: np.ndarray, steps: int, shape: tuple[int, ...]
) -> tuple[np.ndarray, float]:
    """Levenberg-Marquardt: (J^T J + damping diag(J^T J)) step = J^T residuals, with less damping after each success."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    damping = _DAMPING
    layers = _layers(_unpacked(flat, shape), inputs)
    residuals = roots * (layers[-1] - targets)
    for _ in range(steps):
        jacobian = _jacobian(_unpacked(flat, shape), layers) * roots[:, None]
        square, pull = jacobian.T @ jacobian, jacobian.T @ residuals
        scale = np.diag(square) + 1e-9 * np.trace(square)
        for _ in range(_ATTEMPTS):
            try:
                factor = cho_factor(square + np.diag(damping * scale), lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                damping *= 4
                continue
            step = cho_solve(factor, pull, check_finite=False)
            ahead = _layers(_unpacked(flat - step, shape), inputs)
            off = roots * (ahead[-1] - targets)
            if off @ off < residuals @ residuals:
                break
            damping *= 4
        else:
            break
        flat, layers, residuals = flat - step, ahead, off
        damping = max(damping / 3, _LEAST_DAMPING)
    return flat, float(residuals @ residuals)
