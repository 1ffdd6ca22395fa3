"""State evolution of softmax regression on labels of a softmax teacher, at one number of rows and one penalty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.numerics.quadrature import unit_rule
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.multiclass.modes import MODES, overlap_stability, settle
from unlazy.theory.message_passing.multiclass.nodes import nodes_for, sobol
from unlazy.theory.message_passing.multiclass.prox import loss, root, softmax, softmax_prox, solve_positive
from unlazy.theory.message_passing.multiclass.training import flux_chance

_LARGEST_RESPONSE = 1e4
_REACH = 7.2
_MOST_LINE_NODES = 400
# both grids err by exp(-20) relative, before the small weight of the singularities
_ACCURACY = 20.0
_ERROR_ACCURACY = {1: 20.0, 2: 14.0}


class TeacherPoint(NamedTuple):
    response: np.ndarray
    overlap: np.ndarray
    norm: np.ndarray


class TeacherAverages(NamedTuple):
    """n E of -dg, g g^T, g dZ^T and dg (x) dg, and the mean loss of a training row."""

    curvature: np.ndarray
    noise: np.ndarray
    signal: np.ndarray
    squares: np.ndarray
    training_loss: float


class TeacherEquations:
    """One solution; keeps the proximal points of the last step to start the next from."""

    def __init__(self, spectrum: np.ndarray, teacher: np.ndarray, n: float, penalty: float) -> None:
        self.spectrum, self.teacher, self.n, self.penalty = spectrum, teacher, n, penalty
        self.r = len(teacher)
        self.basis = helmert_contrasts(self.r + 1)
        self.per_variance = teacher / spectrum.sum()
        self.kept: dict[int, np.ndarray] = {}
        self.accuracy: float | None = None

    def first(self) -> TeacherPoint:
        eye = np.eye(self.r)
        start = min(self.spectrum.sum() / self.penalty, _LARGEST_RESPONSE)
        return TeacherPoint(start * eye, np.zeros_like(eye), 1e-12 * eye)

    def largest_penalty(self) -> float:
        """Where responses are of order 1 or less."""
        return float(self.spectrum.sum())

    def solve(self, point: TeacherPoint | None, max_iterations: int) -> tuple[TeacherPoint, int]:
        return settle(self, self.first() if point is None else point, max_iterations)

    def step(self, point: TeacherPoint) -> TeacherPoint:
        return self.update(self.averages(point))

    def resolvent(self, curvature: np.ndarray) -> np.ndarray:
        """A_j = (penalty + s_j Vh)^-1 as (r, r, d)."""
        inner = curvature[:, :, None] * self.spectrum + self.penalty * np.eye(self.r)[:, :, None]
        return solve_positive(inner, np.repeat(np.eye(self.r)[:, :, None], len(self.spectrum), axis=2))

    def update(self, means: TeacherAverages) -> TeacherPoint:
        """V = sum_j s_j A_j, M = sum s_j^2 A_j mh S0, Q = sum s_j^2 A_j qh A_j + s_j^3 A_j mh S0 mh^T A_j."""
        s, a = self.spectrum, self.resolvent(means.curvature)
        response = a @ s
        overlap = (a @ s**2) @ means.signal @ self.per_variance
        aligned = means.signal @ self.per_variance @ means.signal.T
        drive = s**2 * means.noise[:, :, None] + s**3 * aligned[:, :, None]
        covariance = np.einsum("abj,bcj,cdj->ad", a, drive, a, optimize=True)
        return TeacherPoint((response + response.T) / 2, overlap, (covariance + covariance.T) / 2)

    def averages(self, point: TeacherPoint) -> TeacherAverages:
        omega, weights, chances, slopes = self.fields(point)
        r, size = self.r, root(point.response)
        curvature, noise, signal = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
        squares, train = np.zeros((r, r, r, r)), 0.0
        for label in range(r + 1):
            start = self.kept.get(label)
            start = start if start is not None and start.shape == omega.shape else None
            prox = softmax_prox(self.basis, label, omega, size, start)
            self.kept[label] = prox.start
            chance = self.n * weights * chances[label]
            slope = prox.slope @ chance
            curvature -= (slope + slope.T) / 2
            noise += (prox.pull * chance) @ prox.pull.T
            signal += (prox.pull * (self.n * weights)) @ slopes[label].T
            flat = prox.slope.reshape(r * r, -1)
            squares += ((flat * chance) @ flat.T).reshape(r, r, r, r)
            train += float(chance @ loss(self.basis @ prox.point, label)) / self.n
        return TeacherAverages(curvature, noise, signal, squares, train)

    def fields(self, point: TeacherPoint) -> tuple[np.ndarray, ...]:
        """Scores omega (r, N), weights, Z (K, N) and dZ (K, r, N) at a standard set of nodes.

        With more than two contrasts the teacher's field has one Sobol draw per score instead of an average.
        """
        half = root(point.norm)
        if self.r <= 2:
            nodes, weights = nodes_for(self.r, float(np.linalg.norm(half, 2)), self.accuracy or _ACCURACY)
            omega = half @ nodes
            return omega, weights, *self.label_law(point, omega)
        nodes, weights = sobol(2 * self.r, 14 if self.accuracy is None else 11)
        omega = half @ nodes[: self.r]
        mean, left = self.conditional(point)
        shares = softmax(self.basis @ (mean @ omega + root(left) @ nodes[self.r :]))
        return omega, weights, shares, self.share_slopes(shares)

    def conditional(self, point: TeacherPoint) -> tuple[np.ndarray, np.ndarray]:
        """The matrix G and the covariance of t given omega: t ~ N(G omega, R - G M)."""
        mean = np.linalg.solve(point.norm, point.overlap).T
        left = self.teacher - mean @ point.overlap
        return mean, (left + left.T) / 2

    def share_slopes(self, shares: np.ndarray) -> np.ndarray:
        """The derivatives of softmax_k(B t) with respect to t: (K, r, N)."""
        center = self.basis.T @ shares.reshape(len(shares), -1)
        centered = self.basis[:, :, None] - center[None]
        return shares.reshape(len(shares), 1, -1) * centered

    def label_law(self, point: TeacherPoint, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Z_k = E[softmax_k(B t) | omega] (K, N) and its derivative with respect to the mean of t (K, r, N).

        In coordinates where t given omega is N(nu, I), on a product grid the normal law is a product of lines, so that
        the average is a contraction with one matrix per coordinate.
        """
        mean, left = self.conditional(point)
        values, vectors = np.linalg.eigh(left)
        deviations = np.sqrt(np.maximum(values, 1e-12 * np.trace(self.teacher)))
        center = (vectors / deviations).T @ mean @ omega
        step = min(0.6, 2 * np.pi * 2.2 / ((self.accuracy or _ACCURACY) * deviations.max()))
        lines, kernels = [], []
        for nu in center:
            count = int(np.ceil((nu.max() - nu.min() + 2 * _REACH) / step)) + 1
            if count > _MOST_LINE_NODES:
                raise ConvergenceError(
                    f"the teacher's field is known to {deviations.min():.2g} from the scores: too sharp for the grid"
                )
            line = (nu.max() + nu.min()) / 2 + step * (np.arange(count) - (count - 1) / 2)
            lines.append(line)
            kernels.append(step / np.sqrt(2 * np.pi) * np.exp(-((line[:, None] - nu) ** 2) / 2))
        grid = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(self.r, -1)
        shares = softmax(self.basis @ ((vectors * deviations) @ grid))
        # the last class follows from the others: chances sum to 1, their derivatives to 0
        functions = np.concatenate([shares[:-1], self.share_slopes(shares)[:-1].reshape(-1, grid.shape[1])])
        shape = [len(line) for line in lines]
        result = []
        for function in functions:
            table = function.reshape(shape[0], -1).T @ kernels[0]
            for i in range(1, self.r):
                table = np.einsum("anm,am->nm", table.reshape(shape[i], -1, omega.shape[1]), kernels[i])
            result.append(table[0])
        chances = np.array(result[: self.r])
        slopes = np.array(result[self.r :]).reshape(self.r, self.r, -1)
        return (
            np.concatenate([chances, 1 - chances.sum(axis=0, keepdims=True)]),
            np.concatenate([slopes, -slopes.sum(axis=0, keepdims=True)]),
        )

    def stability(self, means: TeacherAverages) -> float:
        """The largest eigenvalue of Y -> sum_j s_j^2 A_j (n E[dg Y dg^T]) A_j."""
        a = self.resolvent(means.curvature)
        pairs = np.einsum("j,agj,hbj->abgh", self.spectrum**2, a, a, optimize=True)
        # squares is dg_ab dg_cd: g p from the first factor, h q from the second
        operator = np.einsum("abgh,gphq->abpq", pairs, means.squares).reshape(self.r**2, self.r**2)
        return float(np.abs(np.linalg.eigvals(operator)).max())

    def test_error(self, point: TeacherPoint) -> float:
        """1 - sum_k E[Z_k 1(omega in cone k)], each cone in the coordinates of its margins."""
        if self.r > 2:
            omega, weights, chances, _ = self.fields(point)
            best = (self.basis @ omega).argmax(axis=0)
            return 1 - float(weights @ np.take_along_axis(chances, best[None], axis=0)[0])
        x, w = unit_rule({1: 96, 2: 48}[self.r])
        right = 0.0
        for label in range(self.r + 1):
            sides = np.delete(self.basis[label] - self.basis, label, axis=0)
            margins = sides @ point.norm @ sides.T
            ends = _REACH * np.sqrt(np.diag(margins))
            nodes = np.stack(np.meshgrid(*[x * end for end in ends], indexing="ij")).reshape(self.r, -1)
            weights = np.prod(np.meshgrid(*[w * end for end in ends], indexing="ij"), axis=0).ravel()
            form = (nodes * np.linalg.solve(margins, nodes)).sum(axis=0)
            density = np.exp(-form / 2) / np.sqrt(np.linalg.det(2 * np.pi * margins))
            chances, _ = self.label_law(point, np.linalg.solve(sides, nodes))
            right += float((weights * density) @ chances[label])
        return 1 - right

    def training_error(self, point: TeacherPoint) -> float:
        """1 - sum_k E_t[softmax_k(B t) P(row of class k is right | t)], omega given t being normal; Sobol for r > 2."""
        if self.r > 2:
            omega, weights, chances, _ = self.fields(point)
            size, right = root(point.response), 0.0
            for label, chance in enumerate(chances):
                found = softmax_prox(self.basis, label, omega, size, self.kept.get(label))
                right += float((weights * chance) @ ((self.basis @ found.point).argmax(axis=0) == label))
            return 1 - right
        half = root(self.teacher)
        nodes, weights = nodes_for(self.r, float(np.linalg.norm(half, 2)), _ERROR_ACCURACY[self.r])
        slope = np.linalg.solve(self.teacher, point.overlap.T).T
        left = point.norm - slope @ point.overlap.T
        centers, shares = (slope @ half @ nodes).T, softmax(self.basis @ half @ nodes)
        right = 0.0
        for label, share in enumerate(shares):
            chances = flux_chance(self.basis, label, point.response, centers, (left + left.T) / 2)
            right += float((weights * share) @ chances)
        return 1 - right

    def outputs(self, point: TeacherPoint, iterations: int, modes: bool) -> tuple[np.ndarray, ...]:
        means = self.averages(point)
        omega, weights, chances, _ = self.fields(point)
        scores = self.basis @ omega
        test = sum(float((weights * chances[k]) @ loss(scores, k)) for k in range(self.r + 1))
        errors = (self.test_error(point), self.training_error(point))
        stability = self.stability(means)
        self.accuracy = MODES
        slowest = overlap_stability(self.step, point) if modes else np.nan
        scalars = (*errors, means.training_loss, test, stability, slowest, iterations)
        return (*point, *(np.asarray(value) for value in scalars))
