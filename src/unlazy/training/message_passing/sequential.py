"""Random sequential message passing for Gaussian latent variables, on instances of finite size.

K = O diag(k) O^T. A step proposes psi = A f(kappa) with A = O diag(a) O^T, and each site takes its proposal with
probability `rate`. Rows of a state are students (inverse temperatures) or schedules that see the same instance. NumPy
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
from unlazy.theory.message_passing.teachers import check_flip

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
    eigenvalues: np.ndarray
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
    rates: np.ndarray


class MessageRun(NamedTuple):
    """What `run` measured."""

    residual: np.ndarray
    """mean (psi - kappa)^2 before each step; shape (steps, students)."""
    mean_square: np.ndarray
    """q of the posterior means after the last step."""
    mean_overlap: np.ndarray
    """m*."""


def fast_rotation(rng: np.random.Generator, size: int) -> FastRotation:
    """A random orthogonal matrix that is applied in O(N log N)."""
    size = check_whole("size", size, 2)
    signs = rng.choice([-1.0, 1.0], size=(3, size))
    order = np.stack([rng.permutation(size) for _ in range(2)])
    return FastRotation(signs, order, np.argsort(order, axis=1))


def quantiles(ensemble: CovarianceEnsemble, size: int) -> tuple[np.ndarray, np.ndarray]:
    """`size` pairs of eigenvalues (k_j, k*_j) that follow the shares of the ensemble."""
    order = np.argsort(ensemble.teacher)
    shares = np.maximum(ensemble.weights[order], 0.0).cumsum()
    place = np.searchsorted(shares / shares[-1], (np.arange(check_whole("size", size, 2)) + 0.5) / size)
    return ensemble.student[order][place], ensemble.teacher[order][place]


def draw_instance(
    rng: np.random.Generator, rotation: Any, student: ArrayLike, teacher: ArrayLike, flip: float
) -> TeacherInstance:
    """theta* = O sqrt(k*) g with g standard normal, scaled to mean square mean(k*), and its flipped signs."""
    student_spectrum = check_array("student", student, low=0, ndim=1)
    teacher_spectrum = check_array("teacher", teacher, low=0, ndim=1)
    if student_spectrum.shape != teacher_spectrum.shape:
        raise InputError(f"teacher must have shape {student_spectrum.shape} like student, got {teacher_spectrum.shape}")
    for name, spectrum in (("student", student_spectrum), ("teacher", teacher_spectrum)):
        if not spectrum.sum() > 0:
            raise InputError(f"{name} must have a positive trace, got {spectrum.sum():g}")
    error = check_flip("flip", flip)
    coefficients = np.sqrt(teacher_spectrum) * rng.standard_normal(teacher_spectrum.size)
    try:
        latent = rotation.forward(coefficients)
    except (ValueError, IndexError):
        raise InputError(
            f"rotation must be of the size of student, {student_spectrum.size}, got one of another size"
        ) from None
    # the fluctuation of the teacher's power would dominate all others
    latent *= math.sqrt(teacher_spectrum.mean() / np.mean(latent**2))
    labels = np.where(latent >= 0, 1.0, -1.0) * np.where(rng.random(latent.size) < error, -1.0, 1.0)
    return TeacherInstance(rotation, student_spectrum, latent, labels)


def draw_from(rng: np.random.Generator, ensemble: CovarianceEnsemble, size: int, flip: float) -> TeacherInstance:
    """An instance whose eigenvalues are quantiles of the ensemble's, with the fast rotation."""
    return draw_instance(rng, fast_rotation(rng, size), *quantiles(ensemble, size), flip)


def algorithm(instance: TeacherInstance, students: Sequence[StaticSolution], rates: ArrayLike) -> Algorithm:
    """The multipliers of each student's static solution; `rates` has one entry per student or is one number."""
    if isinstance(students, StaticSolution) or not all(isinstance(student, StaticSolution) for student in students):
        raise InputError(f"students must be a list of static solutions, got {students!r:.60}")
    if not students:
        raise InputError("students must not be empty, got none")
    steps = check_array("rates", rates, above=0, high=1)
    if steps.shape not in ((), (1,), (len(students),)):
        raise InputError(f"rates must be one number or one per student, {len(students)}, got shape {steps.shape}")
    steps = np.broadcast_to(steps, (len(students),))
    precisions = np.array([[student.precision] for student in students])
    posterior = instance.eigenvalues / (1 + precisions * instance.eigenvalues)
    return Algorithm(tuple(students), posterior / posterior.mean(axis=1, keepdims=True) - 1, steps)


def init(rng: np.random.Generator, instance: TeacherInstance, setting: Algorithm, start: str = "stationary") -> State:
    """kappa(0) = 0, or (mk/rho*) theta* + sqrt(tau - mk^2/rho*) noise, which makes one-time averages stationary."""
    fields = np.zeros((len(setting.students), instance.latent.size))
    if check_choice("start", start, STARTS) == "stationary":
        noise = rng.standard_normal(instance.latent.size)
        for row, student in zip(fields, setting.students, strict=True):
            slope = student.field_overlap / student.teacher_power
            row += slope * instance.latent
            row += math.sqrt(max(student.field_variance - slope * student.field_overlap, 0.0)) * noise
    messages = [_messages(row, instance.labels, student) for row, student in zip(fields, setting.students, strict=True)]
    return State(fields, np.stack(messages))


def step(
    rng: np.random.Generator, instance: TeacherInstance, setting: Algorithm, state: State
) -> tuple[State, np.ndarray]:
    """One step of every student, and the residual mean (psi - kappa)^2 before it."""
    proposal = instance.rotation.forward(setting.multipliers * instance.rotation.backward(state.messages))
    change = proposal - state.fields
    residual = np.einsum("ij,ij->i", change, change) / instance.labels.size
    luck = rng.random(instance.labels.size)
    fields, messages = state.fields.copy(), state.messages.copy()
    chosen = {rate: np.flatnonzero(luck < rate) for rate in set(setting.rates.tolist())}
    labels = {rate: instance.labels[moved] for rate, moved in chosen.items()}
    for row, (student, rate) in enumerate(zip(setting.students, setting.rates.tolist(), strict=True)):
        new = proposal[row].take(chosen[rate])
        fields[row, chosen[rate]] = new
        messages[row, chosen[rate]] = _messages(new, labels[rate], student)
    return State(fields, messages), residual


def run(
    rng: np.random.Generator, instance: TeacherInstance, setting: Algorithm, steps: int, start: str = "stationary"
) -> MessageRun:
    """`steps` steps; all students see the same random choice of sites."""
    state = init(rng, instance, setting, start)
    residual = np.empty((check_whole("steps", steps, 1), len(setting.students)))
    for t in range(len(residual)):
        state, residual[t] = step(rng, instance, setting, state)
    means = np.stack(
        [
            tilt(row, instance.labels, student.cavity_variance, student.beta)[0]
            for row, student in zip(state.fields, setting.students, strict=True)
        ]
    )
    return MessageRun(residual, np.mean(means**2, axis=1), means @ instance.latent / instance.latent.size)


def effective_factor(residual: np.ndarray, rate: float, first: int, last: int, floor: float = 1e-30) -> np.ndarray:
    """a = 1 - (1 - decay)/rate from the decay per step of residuals (time, student), by a log-linear fit.

    It is fitted from step `first` to `last`, in shorter runs over their second half.
    """
    late = np.log(np.maximum(residual[min(first, len(residual) // 2) : last], floor))
    time = np.arange(len(late)) - (len(late) - 1) / 2
    return 1 - (1 - np.exp(time @ late / (time @ time))) / rate


def _messages(fields: np.ndarray, labels: np.ndarray, student: StaticSolution) -> np.ndarray:
    """f = (v/chi) eta - kappa."""
    mean = tilt(fields, labels, student.cavity_variance, student.beta)[0]
    return student.cavity_variance / student.posterior_variance * mean - fields
