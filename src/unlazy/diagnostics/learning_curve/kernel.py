"""Learning curves of a kernel matrix: which method answers where, with what deviation, and whether to trust it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.diagnostics.curves import FEWEST_ROWS, forecast_deviation, is_useful, is_vouched_for, upper_factor
from unlazy.diagnostics.learning_curve import pages
from unlazy.diagnostics.learning_curve.pointwise import Anchor, PointwiseError, first_anchor, pointwise_error
from unlazy.diagnostics.learning_curve.results import Alignment, BestPenalty, PenaltyErrors
from unlazy.diagnostics.learning_curve.rows import RowTable, relative_deviation
from unlazy.diagnostics.learning_curve.spectral import SpectralCurve, pool_spectrum, spectral_curve
from unlazy.diagnostics.learning_curve.theory import CurveLists, Theory, one_size
from unlazy.numerics.roots import ConvergenceError

# times min(1, n/N): the coefficient of variation of G_ii beyond which one effective penalty for all rows is not enough,
# because kappa_i amplifies differences of G_ii by about N/n
_UNEVEN = 0.2
# pointwise at penalty 0, in units of the mean of K_ii
_LEAST_PENALTY = 1e-9
_PATIENCE = 60.0
_SECONDS_PER_CUBE = 3e-10
_PENALTIES = 1200


class KernelTheory(Theory):
    """A pool as its kernel matrix and targets (rows, outputs), decomposed once; with or without an intercept."""

    optimises = False
    page = pages.KERNEL

    def __init__(self, kernel_matrix: np.ndarray, targets: np.ndarray, *, intercept: bool = False):
        if intercept:
            kernel_matrix, targets = centred_kernel(kernel_matrix), targets - targets.mean(axis=0)
        unit = kernel_unit(kernel_matrix)
        self._kernel, self._targets = kernel_matrix / unit, targets
        self._unit, self._intercept, self.fewest = unit, intercept, 1 + intercept
        if intercept:
            # nothing depends on what the kernel has along the constant vector: make it more than the trace
            self._kernel += 2.0
        eigenvalues, vectors = decompose_kernel(self._kernel, unit)
        if intercept:
            eigenvalues, vectors = eigenvalues[:-1], vectors[:, :-1]
        projections = vectors.T @ targets
        self._eigenvalues, self._energies = eigenvalues, np.sum(projections**2, axis=1)
        self._spectrum = pool_spectrum(eigenvalues, self._energies)
        self._table = RowTable(eigenvalues, vectors, projections)
        self._solved: dict[tuple[float, float, float], PointwiseError | None] = {}
        self._anchors: dict[float, list[Anchor]] = {}
        self._path: PenaltyErrors | None = None

    def predict(self, n: np.ndarray, penalty: np.ndarray, width: np.ndarray, method: str) -> CurveLists:
        if ((n > len(self._targets)) & (penalty == 0)).any():
            raise InputError(f"penalty must be > 0 for n > {len(self._targets)}, the number of rows in the pool, got 0")
        curve = self._spectral(n, penalty, width)
        rows = self._table.statistics(curve.kappa)
        in_range = np.isfinite(curve.kappa)
        error = curve.test_error.copy() if method == "fast" else curve.test_error * rows.loo_to_gcv
        training, deviation = curve.training_error.copy(), relative_deviation(curve.unused, rows.influences)
        uneven = ~(rows.unevenness <= _UNEVEN * np.minimum(n / len(self._targets), 1.0))
        reliable = in_range & ~uneven
        kinds = np.full(n.shape, "fast" if method == "fast" else "hybrid", dtype="<U9")
        chosen = (np.full(n.shape, method == "pointwise") | ((method == "auto") & uneven)) & ~np.isinf(curve.test_error)
        # with eigenvalues of that size the least penalty of `pointwise` is not the same as none
        vague = ((self._eigenvalues > 0) & (self._eigenvalues < 1e3 * _LEAST_PENALTY)).any()
        points = np.full((n.size if chosen.any() else 0, len(self._targets)), np.nan)
        self._warn_of_wait(list(zip(n[chosen], penalty[chosen], width[chosen], strict=True)))
        for i in sorted(np.flatnonzero(chosen), key=lambda i: abs(np.log(n[i] / len(self._targets)))):
            solved = self._pointwise(
                (float(n[i]), float(penalty[i]), float(width[i])), curve.kappa[i], curve.freedom[i]
            )
            if solved is not None:
                error[i], training[i], points[i] = solved.errors.mean(), solved.training_error, solved.errors
                deviation[i] = solved.deviation / error[i] if error[i] else 0.0
                in_range[i], kinds[i] = True, "pointwise"
                reliable[i] = not (vague and penalty[i] < _LEAST_PENALTY * self._unit)
            elif method == "pointwise":
                error[i], training[i], deviation[i] = np.nan, np.nan, np.nan
                in_range[i], reliable[i], kinds[i] = False, False, "pointwise"
        at_pool, above = np.full((2, n.size), np.nan), upper_factor(rows.tail)
        more = n > len(self._targets)
        if more.any():
            pool = np.full(np.count_nonzero(more), float(len(self._targets)))
            now = self.predict(pool, penalty[more], width[more], method)
            at_pool[:, more] = now.test_error, now.deviation
            share = self._spectral(pool, penalty[more], width[more]).freedom / pool
            deviation[more], above[more] = forecast_deviation(now.deviation, share, n[more] / pool), now.above
            deviation[more & ~in_range] = np.nan
        reliable &= is_useful(deviation, above) & is_vouched_for(error, self._targets)
        reliable &= len(self._targets) >= FEWEST_ROWS
        deviation[in_range & ~np.isfinite(deviation)] = np.inf
        deviation[np.isinf(error)] = 0.0
        points_found = points if len(points) else None
        found = penalty, error, deviation, training, in_range, reliable, kinds, points_found
        return CurveLists(*found, (at_pool[0], at_pool[1]), above)

    def penalty_path(self) -> PenaltyErrors:
        if self._path is None:
            penalties = np.geomspace(1e-9 * self._eigenvalues[-1], 10 * self._eigenvalues.sum(), _PENALTIES)
            pool = len(self._targets)
            unused, squares = np.empty(_PENALTIES), np.empty(_PENALTIES)
            for part in np.array_split(np.arange(_PENALTIES), 12):
                missed = penalties[part, None] / (self._eigenvalues + penalties[part, None])
                unused[part], squares[part] = missed.sum(axis=1), np.square(missed) @ self._energies
            self._path = PenaltyErrors(
                penalties * self._unit,
                self._table.loo_errors(penalties),
                pool * squares / unused**2,
                squares / unused,
            )
        return self._path

    def best_penalty(self, n: float) -> BestPenalty:
        """Of least leave-one-out error on the pool, whatever n."""
        path = self.penalty_path()
        best = int(np.argmin(path.loo_error))
        where = "smallest" if best == 0 else "largest" if best == path.penalty.size - 1 else "inside"
        return BestPenalty(float(path.penalty[best]), float(path.loo_error[best]), where)

    def noise_estimate(self) -> tuple[float, float]:
        path = self.penalty_path()
        best = int(np.argmin(path.gcv))
        return float(path.noise_variance[best]), float(path.penalty[best])

    def alignment(self, n: ArrayLike, penalty: Any) -> Alignment:
        size, level = one_size(n, penalty, self.fewest)
        kappa = float(self._spectral(np.array([size]), np.array([level]), np.array([np.inf])).kappa[0])
        if np.isnan(kappa):
            raise InputError(
                f"n must be smaller or penalty larger: no prediction for n = {size:g} at penalty = {level:g}"
            )
        return Alignment.at(self._eigenvalues, self._energies, kappa, self._unit)

    def _spectral(self, n: np.ndarray, penalty: np.ndarray, width: np.ndarray) -> SpectralCurve:
        return spectral_curve(self._spectrum, n, penalty / self._unit, width, intercept=self._intercept)

    def _pointwise(self, key: tuple[float, float, float], kappa: float, freedom: float) -> PointwiseError | None:
        if key not in self._solved:
            n, penalty, width = key
            level = max(penalty / self._unit, _LEAST_PENALTY)
            share = max(1 - freedom / width, 1e-6)
            anchors = self._anchors.setdefault(level, []) if np.isinf(width) else []
            try:
                if np.isinf(width) and not anchors and n != len(self._targets):
                    anchors.append(first_anchor(self._kernel, level, intercept=self._intercept))
                solved = pointwise_error(
                    self._kernel,
                    self._targets,
                    n,
                    level,
                    width,
                    (kappa * share, share),
                    anchors,
                    intercept=self._intercept,
                )
                if solved.anchor is not None and n not in (anchor.part * len(self._targets) for anchor in anchors):
                    anchors.append(solved.anchor)
                self._solved[key] = solved
            except ConvergenceError:
                self._solved[key] = None
        return self._solved[key]

    def _warn_of_wait(self, keys: list[tuple[float, float, float]]) -> None:
        rows, new = len(self._targets), sum(key not in self._solved for key in keys)
        seconds = new * _SECONDS_PER_CUBE * rows**3
        if seconds > _PATIENCE:
            warnings.warn(
                f"{new} predictions by `pointwise` from {rows} rows take some {seconds / 60:.0f} minutes; "
                'method="hybrid" or a smaller max_rows are faster',
                stacklevel=4,
            )


def centred_kernel(matrix: np.ndarray) -> np.ndarray:
    """The kernel of rows whose images have the mean 0, which is all of a kernel that a fit with an intercept knows."""
    means = matrix.mean(axis=1)
    found = matrix - means - (means - means.mean())[:, None]
    varies = float(np.diagonal(found).mean())
    if abs(varies) <= len(matrix) * np.finfo(np.float64).eps * np.abs(matrix).max():
        raise InputError("the kernel must differ between rows, got the same for all: only the mean can be learned")
    return found


def kernel_unit(matrix: np.ndarray) -> float:
    """The mean of the diagonal."""
    unit = float(np.diagonal(matrix).mean())
    if not unit > 0:
        raise InputError(f"the kernel must be positive definite, got a mean of K_ii of {unit:g}")
    return unit


def decompose_kernel(matrix: np.ndarray, unit: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (ascending) and eigenvectors of a kernel matrix in that unit."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    if eigenvalues[0] < -1e-8 * eigenvalues[-1]:
        raise InputError(f"the kernel must be positive semi-definite, got the eigenvalue {eigenvalues[0] * unit:.3g}")
    # what is left below are rounding errors, by which penalty 0 would divide
    eigenvalues[eigenvalues <= len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]] = 0.0
    return eigenvalues, vectors
