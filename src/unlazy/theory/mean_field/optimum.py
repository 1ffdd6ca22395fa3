"""The optimum of a convex functional with an entropy: grid, box, refinement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.grid import (
    MOST_ENTRIES,
    Gibbs,
    GridProblem,
    Loss,
    called,
    covariance,
    dual_value,
    energy_and_entropy,
    face_share,
    newton,
    on_grid,
    resolves,
    square_loss,
    tensor_grid,
)
from unlazy.theory.mean_field.kernel import kernel_diagonal, kernel_factors, squared_distances

Features = Callable[[np.ndarray], np.ndarray]
Build = Callable[[np.ndarray, float, float], GridProblem]
"""Of the points of a grid, the volume of its cell and the temperature."""
_START = {1: 401, 2: 161, 3: 61}
_REFINEMENT = 1.25
# The density of a Gaussian there is 2e-16 of its maximum.
_DEVIATIONS = 8.5
# Lengths, temperatures and the like whose squares and quotients neither overflow nor vanish.
_LEAST = 1e-60
# Of the largest density, at the faces of a box.
_NEGLIGIBLE = 1e-15
_GROWTHS = 3
# Products in a step of Newton's method on one of many grids, and on the only one.
_WORK = 1e9, 1e10
_DOUBLINGS = 60


class MeanFieldOptimum(NamedTuple):
    """The minimiser mu* of L = F + temperature int mu log mu, on a grid of points with masses."""

    free_energy: float
    """L*, from the dual."""
    energy: float
    """F*."""
    entropy: float
    """int mu* log mu*, so that L* = F* + temperature entropy."""
    predictions: np.ndarray
    """f_i = E_mu* h_i."""
    multipliers: np.ndarray
    """g_i = l_i'(f_i), the optimum of the dual."""
    covariance: np.ndarray
    """C_ij = Cov_mu*(h_i, h_j)."""
    loss_curvature: np.ndarray
    """w_i l_i''(f_i); the second variation of F is sum_i of these times h_i(x) h_i(y)."""
    duality_gap: float
    """L(mu*) - D(g): what rounding and the last Newton step leave."""
    refinement_change: float | None
    """How much L* and F* changed with the last refinement of the grid (the larger of the two); None without any."""
    half_width: float
    r"""The box is centre + [-half_width, half_width\]^d."""
    centre: np.ndarray
    """(d,); 0 unless the optimum is far from there."""
    grid: GridProblem
    """Points, features, potential and loss on the grid."""
    law: Gibbs
    """Masses of mu* on the grid; the density is masses / grid.volume."""


def mean_field_optimum(
    feature_map: Features,
    loss: Loss,
    *,
    d: int,
    confinement: float,
    temperature: float,
    potential: Callable[[np.ndarray], np.ndarray] | None = None,
    loss_weights: ArrayLike | None = None,
    added_constant: float = 0.0,
    grid_points: int | None = None,
    half_width: float | None = None,
    tolerance: float = 3e-11,
) -> MeanFieldOptimum:
    """The exact minimiser of L(mu) = sum_i w_i l_i(E h_i) + E V + confinement E|x|^2 + c + temperature Ent(mu).

    c is the `added_constant`.

    `feature_map` maps points (G, d) to h (G, n); `potential` maps them to V (G,), 0 if not given; weights are 1/n
    unless given. The dual

        D(g) = c - sum_i w_i l_i*(g_i) - temperature log int exp(-(sum_i w_i g_i h_i + V + confinement |x|^2)
               / temperature) dx,     max D = L*,

    is maximised by Newton's method on a tensor grid with the trapezoid rule, whose error falls exponentially for smooth
    features. Without `half_width` the box starts at 8.5 standard deviations of the prior, sqrt(temperature / (2
    confinement)), around 0 and grows until the density at its faces is below 1e-15 of its maximum (a given one is
    refused above 1e-9); an optimum that a box 1.44 times as large does not hold is followed down from a temperature at
    which one around 0 does. Without `grid_points` the grid is refined until L* and F* change by less than `tolerance`
    times 1 + their size. What memory (4e7 entries of h) does not allow is refused with `ConvergenceError`. Far from 0
    rounding leaves about 1e-16 of the potential over the temperature in the logarithm of the density.

    Exact for any convex, twice differentiable loss. Source: the dual of Nitanda, Wu & Suzuki (2021) and Oko, Suzuki, Wu
    & Nitanda (2022).

    >>> def feature_map(x):
    ...     return np.tanh(x + np.array([0.5, -1]))
    >>> found = mean_field_optimum(feature_map, square_loss([1, 0]), d=1, confinement=0.1, temperature=0.1)
    >>> print(f"{found.free_energy:.4f} {found.energy:.4f}", found.predictions.round(4))
    0.0223 0.1224 [ 0.7231 -0.2303]
    """
    given = (d, confinement, temperature, tolerance, added_constant)
    d, confinement, temperature, tolerance, added_constant = _checked(*given)
    if not isinstance(loss, Loss):
        raise InputError(f"loss must be a Loss, such as square_loss(targets), got {loss!r}")

    def build(mesh: np.ndarray, volume: float, temperature: float) -> GridProblem:
        rows = on_grid("feature_map", called("feature_map", feature_map, mesh), len(mesh), 2)
        extra = 0.0 if potential is None else on_grid("potential", called("potential", potential, mesh), len(mesh), 1)
        shares = (
            np.full(rows.shape[1], 1 / rows.shape[1]) if loss_weights is None else _weights(loss_weights, rows.shape[1])
        )
        _check_loss(loss, rows.shape[1])
        outside = confinement * (mesh**2).sum(axis=1) + extra
        return GridProblem(mesh, rows, outside, volume, loss, shares, temperature, added_constant)

    return _refined(build, d, confinement, temperature, grid_points, half_width, tolerance)


def quadratic_optimum(
    interaction_kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    d: int,
    confinement: float,
    temperature: float,
    potential: Callable[[np.ndarray], np.ndarray] | None = None,
    added_constant: float = 0.0,
    grid_points: int | None = None,
    half_width: float | None = None,
    tolerance: float = 3e-11,
) -> MeanFieldOptimum:
    """The minimiser for F(mu) = int int k dmu dmu + int V dmu + confinement E|x|^2 + c, k positive semidefinite.

    c is the `added_constant`.

    `interaction_kernel(x, y)` maps points (G, d), (H, d) to the matrix (G, H); `potential` maps points to V (G,). The
    kernel is factored on the grid, k = Phi Phi^T, by a pivoted Cholesky decomposition (to 1e-13 in F under mu*), and
    then F is a sum of squares of E Phi_j: `predictions` are E Phi_j and `loss_curvature` is 2. The second variation of
    F is 2 k. Grid, box and refusals are those of `mean_field_optimum`.

    >>> def repulsion(x, y):
    ...     return np.exp(-((x - y.T) ** 2))
    >>> found = quadratic_optimum(interaction_kernel=repulsion, d=1, confinement=0.1, temperature=0.1)
    >>> print(f"{found.free_energy:.4f} {found.energy:.4f}")
    0.3463 0.5187
    """
    given = (d, confinement, temperature, tolerance, added_constant)
    d, confinement, temperature, tolerance, added_constant = _checked(*given)

    most_work = _WORK[grid_points is not None]

    def build(mesh: np.ndarray, volume: float, temperature: float) -> GridProblem:
        extra = 0.0 if potential is None else on_grid("potential", called("potential", potential, mesh), len(mesh), 1)
        outside = confinement * (mesh**2).sum(axis=1) + extra
        diagonal = kernel_diagonal(interaction_kernel, mesh)

        def factored(weights: np.ndarray, precision: float) -> tuple[Gibbs, GridProblem, float]:
            rows, left = kernel_factors(interaction_kernel, mesh, diagonal, weights, precision, most_work)
            squares, rank = square_loss(np.zeros(rows.shape[1])), rows.shape[1]
            grid = GridProblem(mesh, rows, outside, volume, squares, np.full(rank, 2.0), temperature, added_constant)
            law = newton(grid, np.zeros(rank))[1]
            return law, grid, float(law.grid_masses @ np.sqrt(left)) ** 2

        # Where mu* has no mass the kernel need not be known: this keeps the rank small in more than one dimension.
        law, grid, missing = factored(np.ones(len(mesh)), 1e-5)
        for _ in range(6):
            law, grid, missing = factored(law.grid_masses / law.grid_masses.max(), 1e-15)
            if missing <= 1e-13 * diagonal.max():
                return grid
        raise ConvergenceError(f"the factors of the kernel leave {missing:.2g} of F(mu*) out")

    return _refined(build, d, confinement, temperature, grid_points, half_width, tolerance)


def density_optimum(
    data: ArrayLike,
    *,
    bandwidth: float,
    smoothing: float,
    confinement: float,
    temperature: float,
    grid_points: int | None = None,
    half_width: float | None = None,
    tolerance: float = 3e-11,
) -> MeanFieldOptimum:
    """The optimum of density estimation by maximum mean discrepancy, F = MMD^2(g * mu, data) + confinement E|x|^2.

    With k = exp(-r^2/(2 l^2)) (`bandwidth` l) and g = N(0, s^2 I) (`smoothing` s), F = E k2(x - x') - 2 mean_j E k1(x -
    data_j) + mean k(data, data), where k2 and k1 are k convolved with g twice and once: k_m = (l^2/(l^2 + m s^2))^(d/2)
    exp(-r^2 / (2 (l^2 + m s^2))). `data` has shape (n,) or (n, d), d <= 3. Source: Suzuki, Wu & Nitanda (2023),
    example of density estimation.

    >>> points = [-1.5, -1.2, 0.8, 1.1]
    >>> found = density_optimum(data=points, bandwidth=0.6, smoothing=0.3, confinement=0.02, temperature=0.05)
    >>> print(f"{found.free_energy:.4f} {found.energy:.4f}")
    0.0094 0.0583
    """
    rows = check_array("data", data)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise InputError(f"data must have shape (n,) or (n, d), got {rows.shape}")
    bandwidth = _positive("bandwidth", bandwidth)
    smoothing = float(check_array("smoothing", smoothing, low=0, high=1 / _LEAST, ndim=0))
    d = rows.shape[1]

    def smoothed(times: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        wide = bandwidth**2 + times * smoothing**2
        return lambda x, y: (bandwidth**2 / wide) ** (d / 2) * np.exp(-squared_distances(x, y) / (2 * wide))

    return quadratic_optimum(
        smoothed(2),
        d=d,
        confinement=confinement,
        temperature=temperature,
        potential=lambda x: -2 * smoothed(1)(x, rows).mean(axis=1),
        added_constant=float(smoothed(0)(rows, rows).mean()),
        grid_points=grid_points,
        half_width=half_width,
        tolerance=tolerance,
    )


def _refined(
    build: Build,
    d: int,
    confinement: float,
    temperature: float,
    grid_points: int | None,
    half_width: float | None,
    tolerance: float,
) -> MeanFieldOptimum:
    """Find the box, then refine the grid, until neither matters."""
    count = _START[d] if grid_points is None else check_whole("grid_points", grid_points, 5, 100_000)
    middle = np.zeros(d)
    found: MeanFieldOptimum | None
    if half_width is not None:
        half = _positive("half_width", half_width)
        found = _solve(build, temperature, middle, half, count)
        if (share := face_share(found.grid, found.law)) >= 1e-9:
            raise ConvergenceError(
                f"half_width = {half:g} cuts the optimum off: the density at the faces of the box is {share:.2g} of "
                f"its maximum"
            )
    else:
        half = _DEVIATIONS * float(np.sqrt(temperature / (2 * confinement)))
        try:
            found = _fitted(build, temperature, middle, half, count, grid_points is None)
        except ConvergenceError:
            found = None
        if found is None:
            found = _followed(build, temperature, middle, half)
            if grid_points is not None:
                found = _solve(build, temperature, found.centre, found.half_width, count)
    if grid_points is not None:
        if not resolves(found.grid, found.law):
            raise ConvergenceError(
                f"grid_points = {grid_points} do not resolve the optimum, which covers less than three cells"
            )
        return found
    count = round(len(found.grid.points) ** (1 / d))
    while True:
        count = round(_REFINEMENT * count) | 1
        finer = _solve(build, temperature, found.centre, found.half_width, count, found.predictions)
        change = max(
            abs(finer.free_energy - found.free_energy) / (1 + abs(finer.free_energy)),
            abs(finer.energy - found.energy) / (1 + abs(finer.energy)),
        )
        found = finer._replace(refinement_change=change)
        if change <= tolerance and resolves(found.grid, found.law):
            return found


def _fitted(
    build: Build, temperature: float, centre: np.ndarray, half: float, count: int, denser: bool
) -> MeanFieldOptimum | None:
    """The optimum in the box, or one up to 1.44 times as large, whose faces it does not reach; None if there is none.

    `denser` keeps the spacing, by more points in larger boxes.
    """
    for _ in range(_GROWTHS):
        found = _solve(build, temperature, centre, half, count)
        if face_share(found.grid, found.law) < _NEGLIGIBLE:
            return found
        half, count = 1.2 * half, round(1.2 * count) if denser else count
    return None


def _followed(build: Build, temperature: float, centre: np.ndarray, half: float) -> MeanFieldOptimum:
    """The optimum far from `centre`, followed by quarters from the first temperature at which a box around it will do.

    The law at a quarter of the temperature is half as wide and inside what is not negligible before: every grid
    resolves its law.
    """
    count, warmer = _START[centre.size], 0
    found = None
    while found is None:
        warmer += 1
        if warmer > _DOUBLINGS:
            raise ConvergenceError(f"a box of half width {half * 2.0**_DOUBLINGS:g} still cuts the optimum off")
        found = _fitted(build, temperature * 4.0**warmer, centre, half * 2.0**warmer, count, True)
    # the last temperature twice: then in a box of its own law
    for heat in temperature * 4.0 ** np.append(np.arange(warmer)[::-1], 0):
        held = found.grid.points[found.law.grid_masses > _NEGLIGIBLE * found.law.grid_masses.max()]
        spacing = found.grid.volume ** (1 / centre.size)
        low, high = held.min(axis=0) - spacing, held.max(axis=0) + spacing
        found = _fitted(build, float(heat), (low + high) / 2, float((high - low).max()) / 2, count, True)
        if found is None:
            raise ConvergenceError(f"the optimum was lost at temperature {heat:g} on the way to it")
    return found


def _solve(
    build: Build,
    temperature: float,
    centre: np.ndarray,
    half: float,
    count: int,
    start: np.ndarray | None = None,
) -> MeanFieldOptimum:
    d = centre.size
    if count**d > MOST_ENTRIES / 20:
        raise ConvergenceError(
            f"{count} points along each of {d} axes are more than memory allows; the optimum is too narrow for "
            f"its box, or tolerance is too small (give grid_points= for the grid of your choice)"
        )
    mesh, volume = tensor_grid(np.full(d, half), count)
    grid = build(mesh + centre, volume, temperature)
    if grid.feature_values.size > MOST_ENTRIES:
        raise ConvergenceError(
            f"{count}^{d} points and {grid.feature_values.shape[1]} features are more than {MOST_ENTRIES:g} entries; "
            f"take fewer features, or grid_points= below {count}"
        )
    if start is None or start.size != grid.feature_values.shape[1]:
        start = np.zeros(grid.feature_values.shape[1])
    u, law = newton(grid, start)
    objective = dual_value(grid, u, law)
    primal, energy, entropy = energy_and_entropy(grid, law.grid_masses, law.log_grid_masses)
    return MeanFieldOptimum(
        free_energy=objective,
        energy=energy,
        entropy=entropy,
        predictions=law.predictions,
        multipliers=grid.loss.first_derivative(law.predictions),
        covariance=covariance(grid, law),
        loss_curvature=grid.loss_weights * grid.loss.second_derivative(law.predictions),
        duality_gap=primal - objective,
        refinement_change=None,
        half_width=half,
        centre=centre,
        grid=grid,
        law=law,
    )


def _checked(
    d: int, confinement: float, temperature: float, tolerance: float, added_constant: float
) -> tuple[int, float, float, float, float]:
    return (
        check_whole("d", d, 1, 3),
        _positive("confinement", confinement),
        _positive("temperature", temperature),
        _positive("tolerance", tolerance),
        float(check_array("added_constant", added_constant, ndim=0)),
    )


def _positive(name: str, value: Any) -> float:
    return float(check_array(name, value, above=_LEAST, high=1 / _LEAST, ndim=0))


def _weights(loss_weights: ArrayLike, count: int) -> np.ndarray:
    array = check_array("loss_weights", loss_weights, above=0, ndim=1)
    if array.size != count:
        raise InputError(f"loss_weights must have one entry per feature ({count}), got {array.size}")
    return array


def _check_loss(loss: Loss, count: int) -> None:
    """Raise an `InputError` if the loss is not one of `count` predictions."""
    for name, function in zip(loss._fields, loss, strict=True):
        try:
            shape = np.shape(function(np.zeros(count)))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(
                f"loss must take one prediction per feature ({count}), got one whose {name} does not: {error}"
            ) from None
        if shape != (count,):
            raise InputError(f"loss must give one {name} per feature, shape ({count},), got {shape}")
