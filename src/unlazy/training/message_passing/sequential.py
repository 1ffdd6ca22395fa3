"""Random sequential message passing for Gaussian latent variables, on instances of finite size.

K = O diag(k) O^T. A step proposes psi = A f(kappa) with A = O diag(a) O^T, and each site takes its proposal with the
`update_probability`. Rows of a state are students (inverse temperatures) or schedules that see the same instance. NumPy
and SciPy, whose cosine transform is three times as fast as XLA's on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.theory.message_passing.sequential.inference import CovarianceEnsemble, StaticSolution
from unlazy.theory.message_passing.sequential.tilted_averages import tilt

STARTS = ("zero", "stationary")


class FastRotation(NamedTuple):
    """O = S1 P1 C S2 P2 C S3: random signs S, random permutations P, the orthonormal cosine transform C.

    It acts on the last axis; any orthogonal matrix with `forward`, O x, and `backward`, O^T x, can take its place.
    """

    signs: np.ndarray
    order: np.ndarray
    inverse_order: np.ndarray

    def forward(self, x: np.ndarray) -> np.ndarray:
        from scipy.fft import dct

        for index in (1, 0):
            x = dct(self.signs[index + 1] * x, norm="ortho", overwrite_x=True).take(self.order[index], axis=-1)
        return self.signs[0] * x

    def backward(self, x: np.ndarray) -> np.ndarray:
        from scipy.fft import idct

        x = self.signs[0] * x
        for index in (0, 1):
            x = idct(x.take(self.inverse_order[index], axis=-1), norm="ortho", overwrite_x=True)
            x *= self.signs[index + 1]
        return x


class TeacherInstance(NamedTuple):
    """One draw of covariance, teacher and labels."""

    rotation: Any
    spectrum: np.ndarray
    """k_j of the student."""
    latent: np.ndarray
    """theta*, of mean square rho*."""
    labels: np.ndarray


class State(NamedTuple):
    """Rows are students."""

    fields: np.ndarray
    """kappa."""
    messages: np.ndarray
    """f(kappa)."""


class Algorithm(NamedTuple):
    """What a step needs to know besides the state; one row, entry or number per student."""

    students: tuple[StaticSolution, ...]
    multipliers: np.ndarray
    """a_j = k_j/(1 + Lambda k_j)/chi - 1."""
    update_probabilities: np.ndarray


class MessageRun(NamedTuple):
    """What `run` measured."""

    residual: np.ndarray
    """mean (psi - kappa)^2 before each iteration; shape (iterations, students)."""
    posterior_square: np.ndarray
    """q of the posterior means after the last iteration."""
    posterior_overlap: np.ndarray
    """m*."""


def fast_rotation(rng: np.random.Generator, n: int) -> FastRotation:
    """A random orthogonal matrix that is applied in O(N log N)."""
    size = check_whole("n", n, 2)
    signs = rng.choice([-1.0, 1.0], size=(3, size))
    order = np.stack([rng.permutation(size) for _ in range(2)])
    return FastRotation(signs, order, np.argsort(order, axis=1))


def quantiles(ensemble: CovarianceEnsemble, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n pairs of eigenvalues (k_j, k*_j) that follow the shares of the ensemble."""
    order = np.argsort(ensemble.teacher_spectrum)
    shares = np.maximum(ensemble.multiplicities[order], 0.0).cumsum()
    place = np.searchsorted(shares / shares[-1], (np.arange(check_whole("n", n, 2)) + 0.5) / n)
    return ensemble.spectrum[order][place], ensemble.teacher_spectrum[order][place]


def draw_instance(
    rng: np.random.Generator, rotation: Any, spectrum: ArrayLike, teacher_spectrum: ArrayLike, flip_probability: float
) -> TeacherInstance:
    """theta* = O sqrt(k*) g with g standard normal, scaled to mean square mean(k*), and its flipped signs."""
    student, teacher = (
        check_array(name, values, low=0, ndim=1)
        for name, values in (("spectrum", spectrum), ("teacher_spectrum", teacher_spectrum))
    )
    if student.shape != teacher.shape:
        raise InputError(f"teacher_spectrum must have shape {student.shape} like spectrum, got {teacher.shape}")
    for name, values in (("spectrum", student), ("teacher_spectrum", teacher)):
        if not values.sum() > 0:
            raise InputError(f"{name} must have a positive trace, got {values.sum():g}")
    error = float(check_array("flip_probability", flip_probability, low=0, below=0.5, ndim=0))
    coefficients = np.sqrt(teacher) * rng.standard_normal(teacher.size)
    try:
        latent = rotation.forward(coefficients)
    except (ValueError, IndexError):
        raise InputError(f"rotation must be of the size of spectrum, {student.size}, got one of another size") from None
    # the fluctuation of the teacher's power would dominate all others
    latent *= math.sqrt(teacher.mean() / np.mean(latent**2))
    labels = np.where(latent >= 0, 1.0, -1.0) * np.where(rng.random(latent.size) < error, -1.0, 1.0)
    return TeacherInstance(rotation, student, latent, labels)


def draw_from(
    rng: np.random.Generator, ensemble: CovarianceEnsemble, n: int, flip_probability: float
) -> TeacherInstance:
    """An instance whose eigenvalues are quantiles of the ensemble's, with the fast rotation."""
    return draw_instance(rng, fast_rotation(rng, n), *quantiles(ensemble, n), flip_probability)


def algorithm(
    instance: TeacherInstance, students: Sequence[StaticSolution], update_probability: ArrayLike
) -> Algorithm:
    """The multipliers of each student's static solution; one `update_probability` for all students or one for each."""
    if isinstance(students, StaticSolution) or not all(isinstance(student, StaticSolution) for student in students):
        raise InputError(f"students must be a list of static solutions, got {students!r:.60}")
    if not students:
        raise InputError("students must not be empty, got none")
    chances = check_array("update_probability", update_probability, above=0, high=1)
    if chances.shape not in ((), (1,), (len(students),)):
        raise InputError(
            f"update_probability must be one number or one per student, {len(students)}, got shape {chances.shape}"
        )
    chances = np.broadcast_to(chances, (len(students),))
    precisions = np.array([[student.precision] for student in students])
    posterior = instance.spectrum / (1 + precisions * instance.spectrum)
    return Algorithm(tuple(students), posterior / posterior.mean(axis=1, keepdims=True) - 1, chances)


def init(rng: np.random.Generator, instance: TeacherInstance, setting: Algorithm, start: str = "stationary") -> State:
    """kappa(0) = 0, or (mk/rho*) theta* + sqrt(tau - mk^2/rho*) noise, which makes one-time averages stationary."""
    fields = np.zeros((len(setting.students), instance.latent.size))
    if check_choice("start", start, STARTS) == "stationary":
        noise = rng.standard_normal(instance.latent.size)
        for row, student in zip(fields, setting.students, strict=True):
            slope = student.cavity_field_overlap / student.teacher_variance
            row += slope * instance.latent
            row += math.sqrt(max(student.cavity_field_variance - slope * student.cavity_field_overlap, 0.0)) * noise
    messages = [_messages(row, instance.labels, student) for row, student in zip(fields, setting.students, strict=True)]
    return State(fields, np.stack(messages))


def step(
    rng: np.random.Generator, instance: TeacherInstance, setting: Algorithm, state: State
) -> tuple[State, np.ndarray]:
    """One iteration of every student, and the residual mean (psi - kappa)^2 before it."""
    proposal = instance.rotation.forward(setting.multipliers * instance.rotation.backward(state.messages))
    change = proposal - state.fields
    residual = np.einsum("ij,ij->i", change, change) / instance.labels.size
    luck = rng.random(instance.labels.size)
    fields, messages = state.fields.copy(), state.messages.copy()
    chosen = {chance: np.flatnonzero(luck < chance) for chance in set(setting.update_probabilities.tolist())}
    labels = {chance: instance.labels[moved] for chance, moved in chosen.items()}
    for row, (student, chance) in enumerate(zip(setting.students, setting.update_probabilities.tolist(), strict=True)):
        new = proposal[row].take(chosen[chance])
        fields[row, chosen[chance]] = new
        messages[row, chosen[chance]] = _messages(new, labels[chance], student)
    return State(fields, messages), residual


def run(
    rng: np.random.Generator, instance: TeacherInstance, setting: Algorithm, iterations: int, start: str = "stationary"
) -> MessageRun:
    """So many iterations; all students see the same random choice of sites."""
    state = init(rng, instance, setting, start)
    residual = np.empty((check_whole("iterations", iterations, 1), len(setting.students)))
    for t in range(len(residual)):
        state, residual[t] = step(rng, instance, setting, state)
    means = np.stack(
        [
            tilt(row, instance.labels, student.cavity_variance, student.inverse_temperature)[0]
            for row, student in zip(state.fields, setting.students, strict=True)
        ]
    )
    return MessageRun(residual, np.mean(means**2, axis=1), means @ instance.latent / instance.latent.size)


def fitted_stability(
    residual: np.ndarray, update_probability: float, first: int, last: int, floor: float = 1e-30
) -> np.ndarray:
    """a = 1 - (1 - decay) / update_probability from the decay per iteration of residuals (iteration, student).

    A log-linear fit from iteration `first` to `last`, in shorter runs over their second half.
    """
    late = np.log(np.maximum(residual[min(first, len(residual) // 2) : last], floor))
    time = np.arange(len(late)) - (len(late) - 1) / 2
    return 1 - (1 - np.exp(time @ late / (time @ time))) / update_probability


def _messages(fields: np.ndarray, labels: np.ndarray, student: StaticSolution) -> np.ndarray:
    """f = (v/chi) eta - kappa."""
    mean = tilt(fields, labels, student.cavity_variance, student.inverse_temperature)[0]
    return student.cavity_variance / student.posterior_variance * mean - fields
