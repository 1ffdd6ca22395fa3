"""State evolution of generalised linear models: errors of ridge, logistic and hinge fits without drawing data.

Data: (t, x) jointly normal with mean 0, the teacher's field t with variance rho, E[x t] = u, E[x x^T] = Omega; the
label y follows P(y|t). The estimator minimises sum_i loss(y_i, x_i.w) + (penalty/2) |w|^2: a SUM over the n samples,
where `theory.regression.ridge` has (1/n)|y - X b|^2 + ridge |b|^2, so that the square loss here with the penalty n r is
ridge regression there with the ridge r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_like, check_symmetric, common_shape
from unlazy.numerics.margin_losses import LOSSES
from unlazy.numerics.spectral_sums import Spectrum
from unlazy.theory.message_passing.state_evolution.glm_solvers import (
    GLMStateEvolution,
    convex_evolution,
    square_evolution,
)
from unlazy.theory.message_passing.teachers import (
    LinearTeacher,
    SignTeacher,
    Teacher,
    check_teacher,
)

_LARGEST = 1e300


def glm_state_evolution(
    spectrum: ArrayLike,
    squared_cross_covariance: ArrayLike,
    teacher_variance: float,
    n: ArrayLike,
    penalty: ArrayLike,
    *,
    loss: str = "logistic",
    label_law: Teacher = SignTeacher(),  # noqa: B008
    multiplicities: ArrayLike | None = None,
) -> GLMStateEvolution:
    """Training and test error, losses and overlaps of a convex fit in high dimension, without drawing data.

    With eigenvalues s_j of Omega (`spectrum`), squared components u2_j of u = E[x t] along their eigenvectors
    (`squared_cross_covariance`), rho the `teacher_variance`, g and dg = dg/domega of the loss, Z(y, omega) = E P(y|t)
    over t ~ N(m omega/q, rho - m^2/q) and its derivative dZ in the mean,

        V-hat = -n E sum_y Z dg,    q-hat = n E sum_y Z g^2,    m-hat = n E sum_y dZ g,      omega ~ N(0, q),
        A_j = 1 / (penalty + V-hat s_j),      V = sum_j s_j A_j,      m = m-hat sum_j u2_j A_j,
        q = q-hat sum_j s_j^2 A_j^2 + m-hat^2 sum_j u2_j s_j A_j^2,
        stability = n E[sum_y Z dg^2] sum_j s_j^2 A_j^2.

    `loss` is "square", (y - z)^2/2, "logistic", log(1 + e^-yz), or "hinge", max(0, 1 - yz); `label_law` is a
    `LinearTeacher`, `SignTeacher`, `ProbitTeacher` or `LogitTeacher`, or any smooth function that gives P(y = 1 | t)
    elementwise. Entry j stands for `multiplicities[j]` directions, each with u2_j. A target t = theta.x has
    u2_j = (s_j theta_j)^2 and rho = sum_j s_j theta_j^2. n and penalty broadcast; scalars give scalars. penalty must be
    > 0, except for the square loss, where 0 is the limit from above and n must differ from the rank.

    Exact as n and d grow at a fixed ratio for Gaussian (t, x); at finite size the relative error is O(1/d), larger for
    the training loss of the hinge loss with heavy spectra. The square loss needs second moments of x and y only.
    A case that does not converge raises `ConvergenceError`. Source: Loureiro, Gerbelot, Cui, Goldt, Krzakala, Mezard &
    Zdeborova (2021), "Learning curves of generic features maps for realistic datasets with a teacher-student model".

    >>> found = glm_state_evolution(spectrum=[0.01], squared_cross_covariance=1e-4, teacher_variance=1, n=[100, 900],
    ...     penalty=0.1, loss="logistic", label_law=SignTeacher(flip_probability=0.05), multiplicities=[100])
    >>> print(found.test_error.round(4), found.training_error.round(4))
    [0.3064 0.1377] [0.0046 0.0803]
    """
    population = _population(spectrum, squared_cross_covariance, teacher_variance, multiplicities)
    return _evolve(population, teacher_variance, n, penalty, loss, label_law)


def glm_state_evolution_matrices(
    covariance: ArrayLike,
    cross_covariance: ArrayLike,
    teacher_variance: float,
    n: ArrayLike,
    penalty: ArrayLike,
    *,
    loss: str = "logistic",
    label_law: Teacher = SignTeacher(),  # noqa: B008
) -> GLMStateEvolution:
    """`glm_state_evolution` for a full covariance Omega = E[x x^T] (d, d) and `cross_covariance` u = E[x t] (d,).

    One eigendecomposition serves all n and penalty. In the notation of Loureiro et al. (2021), t = theta.c with teacher
    features c: rho = theta.Psi.theta, u = Phi^T theta, and Omega is the students' covariance.

    >>> covariance, cross_covariance = [[1, 0.5], [0.5, 1]], [0.5, 0.1]
    >>> found = glm_state_evolution_matrices(covariance, cross_covariance, teacher_variance=1, n=[20, 80], penalty=1)
    >>> print(found.test_error.round(4), found.response.round(4))
    [0.3598 0.3334] [0.3894 0.1145]
    """
    matrix = check_symmetric("covariance", covariance)
    vector = check_array("cross_covariance", cross_covariance, ndim=1, low=-1e150, high=1e150)
    if vector.shape != matrix.shape[:1]:
        raise InputError(
            f"cross_covariance must have shape {matrix.shape[:1]} like a row of covariance, got {vector.shape}"
        )
    eigenvalues, vectors = np.linalg.eigh(matrix)
    # what rounding leaves in the null space of a singular covariance is no signal
    rounding = len(matrix) * np.finfo(np.float64).eps * np.abs(eigenvalues).max()
    components = (vectors.T @ vector) ** 2
    null = np.abs(eigenvalues) <= rounding
    components[null & (components <= (1e-7**2) * components.sum())] = 0.0
    eigenvalues[null] = 0.0
    population = _population(eigenvalues, components, teacher_variance, None, "covariance")
    return _evolve(population, teacher_variance, n, penalty, loss, label_law)


def _population(
    spectrum: ArrayLike,
    squared_cross_covariance: ArrayLike,
    teacher_variance: float,
    multiplicities: ArrayLike | None,
    name: str = "spectrum",
) -> Spectrum:
    eigenvalues = check_array(name, spectrum, ndim=1, high=_LARGEST)
    copies = check_array("multiplicities", 1.0 if multiplicities is None else multiplicities, low=0)
    squares = check_array("squared_cross_covariance", squared_cross_covariance, low=0, high=_LARGEST)
    total = check_array("teacher_variance", teacher_variance, above=0, high=_LARGEST, ndim=0)
    copies, squares = check_like(name, eigenvalues, multiplicities=copies, squared_cross_covariance=squares)
    trace = copies @ np.abs(eigenvalues)
    if eigenvalues.min() < -1e-10 * trace:
        raise InputError(f"{name} must have eigenvalues >= 0, got {eigenvalues.min():g}")
    kept = (eigenvalues > 0) & (copies > 0)
    if not kept.any():
        raise InputError(f"{name} must have a positive eigenvalue, got none")
    if ((squares > 0) & (copies > 0) & ~kept).any():
        raise InputError(
            "squared_cross_covariance must be 0 where the eigenvalue is 0: x has no variance there to correlate with t"
        )
    eigenvalues, copies, squares = eigenvalues[kept], copies[kept], squares[kept]
    explained = copies * (squares / eigenvalues)
    if not explained.sum() <= total * (1 + 1e-9):
        raise InputError(
            f"teacher_variance must be at least u.Omega^-1.u = {explained.sum():g}, the variance of t that x explains, "
            f"got {total:g}"
        )
    return Spectrum(eigenvalues, copies, explained, float(max(total - explained.sum(), 0.0)))


def _evolve(
    spectrum: Spectrum, rho: float, n: ArrayLike, penalty: ArrayLike, loss: str, label_law: Teacher
) -> GLMStateEvolution:
    check_choice("loss", loss, LOSSES)
    check_teacher(label_law)
    n, penalty = check_array("n", n, low=1, high=1e100), check_array("penalty", penalty, low=0, high=1e100)
    shape = common_shape(n=n, penalty=penalty)
    n, penalty = (np.broadcast_to(array, shape).ravel() for array in (n, penalty))
    if loss != "square":
        if isinstance(label_law, LinearTeacher):
            raise InputError(f"label_law must give labels -1 and 1 for the {loss} loss, got {label_law!r}")
        if (penalty <= 0).any():
            raise InputError(f"penalty must be > 0 for the {loss} loss (separable data: no solution without it), got 0")
    else:
        critical = (penalty == 0) & (n == spectrum.rank)
        if critical.any():
            raise InputError(f"penalty must be > 0 where n = rank = {spectrum.rank:g} (V diverges there), got 0")
    rho = float(rho)
    found = (
        square_evolution(spectrum, rho, n, penalty, label_law)
        if loss == "square"
        else convex_evolution(spectrum, rho, n, penalty, loss, label_law)
    )
    shaped: list[Any] = [None if field is None else field.reshape(shape)[()] for field in found]
    return GLMStateEvolution(*shaped)
