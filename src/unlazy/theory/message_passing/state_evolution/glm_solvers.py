"""Solvers of state evolution for generalised linear models: the iteration for convex losses, and the square loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.numerics.fixed_points import along_the_ridge, fixed_points
from unlazy.numerics.margin_losses import loss_of
from unlazy.numerics.spectral_sums import SOLVER_EVALUATIONS, SpectralNodes, Spectrum, effective_ridge, spectral_sums
from unlazy.theory.message_passing.state_evolution.nodes import FieldNodes, plain_nodes, training_nodes
from unlazy.theory.message_passing.teachers import (
    LinearTeacher,
    LogitTeacher,
    ProbitTeacher,
    SignTeacher,
    Teacher,
    is_symmetric,
    label_average,
    width,
)

_LARGEST = 1e300
_LEAST_NORM = 1e-12
_FIRST_VARIANCE = 1e4
_LEAST_REMAINDER = 1e-14
_ITERATIONS = 25
# a normal tail ends at 9 widths, a logistic one at about 22
_STEEP = np.array([1.0, 2.0, 4.0, 6.0, 9.0, 14.0, 22.0])
_SETTLED = 1e-8
_TINY = 1e-290


State = tuple[np.ndarray, np.ndarray, np.ndarray]


class GLMStateEvolution(NamedTuple):
    """Limits of the fit; every field has the broadcast shape of n and penalty, and every case has converged."""

    response: np.ndarray
    """V: the training field is prox_V of a test-like field omega."""
    overlap: np.ndarray
    """m = w.u, the covariance of the fit's field x.w with the teacher's field t."""
    norm: np.ndarray
    """q = w.Omega.w, the variance of the fit's field."""
    cosine: np.ndarray
    """m / sqrt(rho q)."""
    test_error: np.ndarray | None
    """P(y x.w < 0) of a new sample; None for real labels."""
    test_loss: np.ndarray
    """E loss(y, x.w) of a new sample; for the square loss half of the mean squared error."""
    training_error: np.ndarray | None
    """Share of wrong signs on the training samples; None for real labels."""
    training_loss: np.ndarray
    """Mean loss on the training samples, without the penalty."""
    test_square_error: np.ndarray | None
    """E (y - x.w)^2 of a new sample; None unless the loss is the square."""
    training_square_error: np.ndarray | None
    """Mean squared residual on the training samples; None unless the loss is the square."""
    stability: np.ndarray
    """The factor by which message passing contracts (replicon); below 1 for convex losses."""
    conjugate_response: np.ndarray
    """V-hat: the estimator sees directions of variance s with weight s / (penalty + s V-hat)."""
    conjugate_norm: np.ndarray
    """q-hat, the variance of the effective noise."""
    conjugate_overlap: np.ndarray
    """m-hat, the size of the effective signal."""


def convex_evolution(
    spectrum: Spectrum, rho: float, n: np.ndarray, penalty: np.ndarray, loss: str, teacher: Teacher
) -> GLMStateEvolution:
    _check_function(teacher, rho)
    nodes = spectrum.nodes(_ITERATIONS * n.size)

    def solve(n: np.ndarray, penalty: np.ndarray, start: np.ndarray) -> np.ndarray:
        def step(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            state = _state(x)
            fields = _fields(loss, teacher, rho, *state)
            hats = _hats(fields, teacher, rho, state, n[rows])
            variance, overlap, norm, _ = _weights(nodes, penalty[rows], *hats)
            norm = np.maximum(norm, _TINY)
            return np.stack([np.log(variance), overlap / np.sqrt(norm), np.log(norm)], axis=1)

        return fixed_points(
            step,
            start,
            lambda row: f"n = {n[row]:g}, penalty = {penalty[row]:g}",
            admissible=lambda x: np.abs(x[:, 1]) < np.sqrt(rho),
        )

    trace = spectrum.eigenvalues @ spectrum.multiplicities
    start = np.zeros((n.size, 3))
    start[:, 0] = np.log(np.minimum(trace / penalty, _FIRST_VARIANCE))
    start[:, 2] = np.log(_LEAST_NORM)
    state = _state(along_the_ridge(solve, n, penalty, start, float(trace)))
    _, overlap, norm = state
    fields = _fields(loss, teacher, rho, *state)
    precision, noise, drive = _hats(fields, teacher, rho, state, n)
    square = _weights(nodes, penalty, precision, noise, drive)[3]
    share, _ = _labels(fields, teacher, rho, *state)
    stability, training_loss = _both_labels(
        teacher, *fields.average(share * fields.decrease**2, share * loss_of(loss).value(fields.margin))
    )
    _check_resolution(fields, teacher, rho, state)
    return GLMStateEvolution(
        *state,
        overlap / np.sqrt(rho * norm),
        *_test(loss, teacher, rho, *state),
        training_loss,
        None,
        None,
        n * stability * square,
        precision,
        noise,
        drive,
    )


def _state(x: np.ndarray) -> State:
    norm = np.exp(x[:, 2])
    return np.exp(x[:, 0]), x[:, 1] * np.sqrt(norm), norm


def _remainder(rho: float, overlap: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """The variance of t given omega."""
    return np.maximum(rho - (overlap / np.sqrt(norm)) ** 2, _LEAST_REMAINDER * rho)


def _steep_edges(teacher: Teacher, rho: float, overlap: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Panel edges where the label's probability given omega rises."""
    with np.errstate(divide="ignore", over="ignore"):
        scale = width(teacher, _remainder(rho, overlap, norm)) * norm / np.abs(overlap)
        steep = np.minimum(scale, _LARGEST)[:, None] * _STEEP
    return np.column_stack([-steep, np.zeros(norm.size), steep])


def _rows(teacher: Teacher, *arrays: np.ndarray) -> list[np.ndarray]:
    """One row per case; for a teacher without symmetry those of y = 1, then those of y = -1."""
    return [array if is_symmetric(teacher) else np.concatenate([array, array]) for array in arrays]


def _both_labels(teacher: Teacher, *averages: np.ndarray) -> list[np.ndarray]:
    """Sums over y of averages in the margin y omega."""
    if is_symmetric(teacher):
        return [2 * average for average in averages]
    return [average.reshape(2, -1).sum(axis=0) for average in averages]


def _fields(
    loss: str, teacher: Teacher, rho: float, variance: np.ndarray, overlap: np.ndarray, norm: np.ndarray
) -> FieldNodes:
    edges = _steep_edges(teacher, rho, overlap, norm)
    rows = _rows(teacher, variance, 0 * norm, np.sqrt(norm), edges)
    return training_nodes(loss, *rows)


def _labels(
    fields: FieldNodes,
    teacher: Teacher,
    rho: float,
    variance: np.ndarray,
    overlap: np.ndarray,
    norm: np.ndarray,
    refinement: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Z(y, omega) at the nodes, of which `deviation` is y omega / sqrt(q), and y dZ."""
    ratio, remainder = _rows(teacher, overlap / np.sqrt(norm), _remainder(rho, overlap, norm))
    ratio, remainder = ratio[fields.row][:, None], remainder[fields.row][:, None]
    if is_symmetric(teacher):
        return label_average(teacher, ratio * fields.deviation, remainder)
    sign = np.where(fields.row < norm.size, 1.0, -1.0)[:, None]
    share, derivative = label_average(teacher, sign * ratio * fields.deviation, remainder, refinement)
    return np.where(sign > 0, share, 1 - share), derivative


def _hats(fields: FieldNodes, teacher: Teacher, rho: float, state: State, n: np.ndarray) -> list[np.ndarray]:
    share, derivative = _labels(fields, teacher, rho, *state)
    averages = fields.average(share * fields.decrease, share * fields.slope**2, derivative * fields.slope)
    return [n * total for total in _both_labels(teacher, *averages)]


def _check_resolution(fields: FieldNodes, teacher: Teacher, rho: float, state: State) -> None:
    """A function with kinks or jumps is not resolved by the nodes in t: twice as many must give the same."""
    if isinstance(teacher, SignTeacher | ProbitTeacher | LogitTeacher):
        return
    once, twice = (np.array(_resolved(fields, teacher, rho, state, k)) for k in (1, 2))
    change = np.abs(once - twice).max() / np.abs(twice).max()
    if not change <= _SETTLED:
        raise InputError(
            f"label_law must be a smooth function of t: with twice the quadrature nodes the averages change by "
            f"{change:.2g}; SignTeacher is the one with a jump"
        )


def _check_function(teacher: Teacher, rho: float) -> None:
    """The same at a fit that explains a quarter of the teacher, before anything is solved with it."""
    state = np.ones(1), np.full(1, np.sqrt(rho) / 2), np.ones(1)
    fields = plain_nodes(*_rows(teacher, np.zeros(1), np.ones(1), np.zeros((1, 1))))
    _check_resolution(fields, teacher, rho, state)


def _resolved(fields: FieldNodes, teacher: Teacher, rho: float, state: State, refinement: int) -> list[np.ndarray]:
    """Averages of Z, of its part with the wrong sign, and of dZ, with the slope of the loss where there is one."""
    share, derivative = _labels(fields, teacher, rho, *state, refinement)
    slope = fields.slope if fields.slope.any() else np.ones_like(share)
    values = (share * slope, share * slope * (fields.field < 0), derivative * slope, share * fields.decrease)
    return _both_labels(teacher, *fields.average(*values))


def _weights(
    nodes: SpectralNodes, penalty: np.ndarray, precision: np.ndarray, noise: np.ndarray, drive: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """V, m, q and sum_j s_j^2 A_j^2."""
    learned = nodes.values / (penalty[:, None] + precision[:, None] * nodes.values)
    learned_twice = learned**2
    square = learned_twice @ nodes.multiplicities
    norm = noise * square + drive**2 * (learned_twice @ nodes.signal)
    return learned @ nodes.multiplicities, drive * (learned @ nodes.signal), norm, square


def _test(
    loss: str, teacher: Teacher, rho: float, variance: np.ndarray, overlap: np.ndarray, norm: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test error, test loss and training error."""
    negative = -variance * loss_of(loss).pull
    edges = np.column_stack([_steep_edges(teacher, rho, overlap, norm), negative, np.ones_like(norm)])
    fields = plain_nodes(*_rows(teacher, 0 * norm, np.sqrt(norm), edges))
    share, _ = _labels(fields, teacher, rho, variance, overlap, norm)
    threshold = _rows(teacher, negative)[0][fields.row][:, None]
    _check_resolution(fields, teacher, rho, (variance, overlap, norm))
    averages = fields.average(
        share * (fields.field < 0), share * loss_of(loss).value(fields.field), share * (fields.field < threshold)
    )
    error, test_loss, training_error = _both_labels(teacher, *averages)
    return error, test_loss, training_error


def square_evolution(
    spectrum: Spectrum, rho: float, n: np.ndarray, penalty: np.ndarray, teacher: Teacher
) -> GLMStateEvolution:
    """In closed form given the effective ridge kappa = penalty (1 + V) / n; no iteration, and penalty 0 is
    allowed."""
    real = isinstance(teacher, LinearTeacher)
    if not real:
        _check_function(teacher, rho)
    # the linear part of the label: E[x y] = gain u
    gain = 1.0 if real else 2 * float(label_average(teacher, np.zeros((1, 1)), np.full((1, 1), rho))[1][0, 0])
    explained = gain**2 * float(spectrum.signal.sum())
    second = rho + teacher.noise_variance if isinstance(teacher, LinearTeacher) else 1.0
    spectrum = spectrum._replace(signal=gain**2 * spectrum.signal)
    nodes = spectrum.nodes(SOLVER_EVALUATIONS * n.size)
    kappa = np.zeros(n.shape)
    positive = (penalty > 0) | (n < spectrum.rank)
    if positive.any():
        kappa[positive] = effective_ridge(spectrum, nodes, n[positive], penalty[positive] / n[positive])
    unused = np.where(positive, penalty / np.where(positive, n * kappa, 1.0), (n - spectrum.rank) / n)
    df1, df2, mixed, missed = nodes.summed(spectral_sums, kappa)
    mse = (missed + max(second - explained, 0.0)) / (unused + mixed / n)
    learned = nodes.values / (nodes.values + kappa[:, None])
    overlap, norm = learned @ nodes.signal, learned**2 @ nodes.signal + mse * df2 / n
    with np.errstate(divide="ignore"):
        variance = df1 / (n * unused)
    overlap = overlap / gain if gain else 0 * overlap
    errors: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if not real:
        error, _, training_error = _test("square", teacher, rho, variance, overlap, norm)
        errors = (error, training_error)
    return GLMStateEvolution(
        variance,
        overlap,
        norm,
        overlap / np.sqrt(rho * norm),
        errors[0],
        mse / 2,
        errors[1],
        mse * unused**2 / 2,
        mse,
        mse * unused**2,
        df2 / n,
        n * unused,
        n * mse * unused**2,
        n * unused * gain,
    )
