"""Pretraining attention on prompts of single-index tasks: the subspace of the tasks, then the attention matrix.

The model answers a query x after a prompt of n labelled inputs with

    psi(x)^T Gamma phi,      psi(x) = relu(W x + b),      phi = (1/n) sum_l y_l relu(W x_l + b).

Phase I takes gradient steps on W from a small diagonal Gamma, in which the initial weights cancel (weight decay 1/eta):
W becomes the gradient, whose rows lie near the subspace of the tasks. Phase II is ridge regression for Gamma. Source:
Oko, Song, Suzuki & Wu (2024), Algorithm 1. Prompts are drawn in the span of the weights and the subspace only, and what
the other directions add to a gradient is drawn from its law: the cost does not grow with d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.functions.orthogonal import Hermite

QUERIES = ("each", "one")
ROWS_TOGETHER = 2**14
"""Rows that are drawn together: few enough to stay in the cache."""
_FLAT = 1e-10


class TaskFamily(NamedTuple):
    """Tasks f(x) = sum_{i=k}^p c_i h_i(x.beta), with beta and c uniform on unit spheres, beta in a subspace."""

    subspace: np.ndarray
    """Orthonormal columns, (d, r)."""
    lowest_degree: int
    """k."""
    highest_degree: int
    """p."""
    noise_variance: float = 0.0
    """Of the labels' noise in a prompt; the labels of test queries have none."""


class Tasks(NamedTuple):
    """Some tasks of a family."""

    directions: np.ndarray
    """beta in the coordinates of the subspace, (T, r)."""
    coefficients: np.ndarray
    """c, (T, p-k+1)."""


class PretrainedLayer(NamedTuple):
    """The first layer after phase I."""

    weights: np.ndarray
    """(m, d), of mean length 1."""
    basis: np.ndarray
    """Orthonormal columns (d, r): the r largest left singular vectors of the last gradient."""
    first: np.ndarray
    """The gradient of the first step, (m, d)."""
    start: np.ndarray
    """The unit weights (m, d) at which it was taken."""
    biases: np.ndarray
    """The biases (m,) of all steps."""
    overlaps: np.ndarray
    """|U^T U_hat|_F^2 / r after every step: 1 if the subspace is found, about r/d at random."""


def draw_tasks(rng: np.random.Generator, family: TaskFamily, count: int) -> Tasks:
    """`count` independent tasks."""
    r, degrees = family.subspace.shape[1], family.highest_degree - family.lowest_degree + 1
    drawn = rng.standard_normal((count, r)), rng.standard_normal((count, degrees))
    return Tasks(*(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in drawn))


def task_values(family: TaskFamily, tasks: Tasks, inputs: np.ndarray) -> np.ndarray:
    """f_t at inputs given in the coordinates of the subspace: (T, n, r), or (n, r) for all tasks; result (T, n)."""
    along = np.matmul(inputs, tasks.directions[:, :, None].astype(inputs.dtype))[..., 0]
    hermite = Hermite().values(along, family.highest_degree)[family.lowest_degree :]
    return np.einsum("itn,ti->tn", hermite, tasks.coefficients.astype(inputs.dtype))


def drawn_gradient(
    rng: np.random.Generator,
    weights: np.ndarray,
    biases: np.ndarray,
    family: TaskFamily,
    tasks: int,
    context: int,
    queries: str = "each",
) -> np.ndarray:
    """Half of y_q grad_w [psi(x_q) phi] on fresh prompts, one task each, (m, d): its mean is `prompt_gradient`.

    "one" is the literal algorithm: a prompt of n rows and one further query. "each" takes every row as the query of a
    prompt of the n-1 others: the same mean, much less noise. With rows x_l and coefficients a_lj the gradient of neuron
    j is sum_l a_lj x_l, where a depends on x in the span of weights and subspace only; so its part outside that span is
    normal with covariance sum_l a_l a_l^T in each direction, and is drawn as such. Exact in law, in single precision.
    """
    check_choice("queries", queries, QUERIES)
    m, d = weights.shape
    r = family.subspace.shape[1]
    span = _span(family.subspace, weights)
    inner = (weights @ span).astype(np.float32)
    shift = np.asarray(biases, dtype=np.float32)
    inside, covariance = np.zeros((m, span.shape[1])), np.zeros((m, m))
    rows = context + (queries == "one")
    for count in _batches(tasks, rows):
        x = rng.standard_normal((count, rows, span.shape[1]), dtype=np.float32)
        some = draw_tasks(rng, family, count)
        y = task_values(family, some, x[:, :, :r])
        noise = np.float32(family.noise_variance**0.5) * rng.standard_normal((count, context), dtype=np.float32)
        y[:, :context] += noise
        hidden = x @ inner.T + shift
        a = _row_coefficients(hidden, y, context, queries).reshape(-1, m)
        inside += a.T @ x.reshape(len(a), -1)
        if span.shape[1] < d:
            covariance += a.T @ a
    found = inside @ span.T
    if span.shape[1] < d:
        sizes, vectors = np.linalg.eigh(covariance)
        outside = (vectors * np.sqrt(np.maximum(sizes, 0.0))) @ rng.standard_normal((m, d))
        found += outside - (outside @ span) @ span.T
    return found / tasks


def _row_coefficients(hidden: np.ndarray, y: np.ndarray, context: int, queries: str) -> np.ndarray:
    """a_lj for every row of every prompt, (T, rows, m)."""
    active = hidden > 0
    values = np.maximum(hidden, 0)
    values *= y[:, :, None]
    if queries == "each":
        # a_lj = y_l 1(h_lj > 0) sum_{l' != l} y_l' relu(h_l'j) / (n (n-1))
        a = values.sum(axis=1, keepdims=True) - values
        a *= (y / np.float32(context * (context - 1)))[:, :, None]
        return a * active
    a = np.empty_like(values)
    a[:, :context] = values[:, context:] * (y[:, :context, None] / (2 * context))
    a[:, context:] = y[:, context:, None] * values[:, :context].mean(axis=1, keepdims=True) / 2
    return a * active


def pretrain_weights(
    rng: np.random.Generator,
    family: TaskFamily,
    *,
    width: int,
    tasks: int,
    context: int,
    steps: int = 1,
    queries: str = "each",
) -> PretrainedLayer:
    """Phase I: `steps` gradient steps, each on fresh prompts and from the unit vectors of the last gradient.

    The first weights are uniform on the unit sphere, the biases on [-1, 1]; the last gradient is scaled to rows of mean
    length 1 and has the random signs of Gamma. One step is the source's algorithm; a second one starts from weights
    that already lean towards the subspace, which makes its signal larger by powers of d/r.
    """
    d, r = family.subspace.shape
    check_whole("highest_degree", family.highest_degree, check_whole("lowest_degree", family.lowest_degree, 1))
    if r > d or not np.allclose(family.subspace.T @ family.subspace, np.eye(r)):
        raise InputError(f"the subspace must be orthonormal columns (d, r) with r <= d, got shape {(d, r)}")
    if min(width, tasks, steps) < 1 or context < 2 or width < r:
        raise InputError(
            f"width must be >= r = {r}, tasks and steps >= 1 and context >= 2; got width={width}, tasks={tasks}, "
            f"steps={steps}, context={context}"
        )
    start = current = unit_rows(rng.standard_normal((width, d)))
    biases = rng.uniform(-1, 1, width)
    gradients, overlaps = [], []
    for _ in range(steps):
        gradients.append(drawn_gradient(rng, current, biases, family, tasks, context, queries))
        current = unit_rows(gradients[-1])
        basis = np.linalg.svd(gradients[-1], full_matrices=False)[2][:r].T
        overlaps.append(np.sum((family.subspace.T @ basis) ** 2) / r)
    signs = rng.choice([-1.0, 1.0], width)
    last = gradients[-1] / np.linalg.norm(gradients[-1], axis=1).mean()
    return PretrainedLayer(signs[:, None] * last, basis, gradients[0], start, biases, np.array(overlaps))


def prompt_features(
    rng: np.random.Generator,
    weights: np.ndarray,
    biases: np.ndarray,
    family: TaskFamily,
    tasks: Tasks,
    contexts: Sequence[int],
) -> np.ndarray:
    """phi of one fresh prompt per task, (contexts, T, m); a prompt of one length begins with the shorter ones."""
    span = _span(family.subspace, weights)
    inner, shift = (weights @ span).astype(np.float32), np.asarray(biases, dtype=np.float32)
    if min(contexts) < 1:
        raise InputError(f"contexts must be at least 1, got {min(contexts)}")
    ends = np.sort(contexts)
    found, done = np.empty((len(ends), len(tasks.directions), len(weights))), 0
    for count in _batches(len(tasks.directions), int(ends[-1])):
        some = Tasks(*(rows[done : done + count] for rows in tasks))
        x = rng.standard_normal((count, ends[-1], span.shape[1]), dtype=np.float32)
        y = task_values(family, some, x[:, :, : family.subspace.shape[1]])
        y += np.float32(family.noise_variance**0.5) * rng.standard_normal(y.shape, dtype=np.float32)
        values = np.maximum(x @ inner.T + shift, 0)
        total, start = np.zeros((count, len(weights))), 0
        for i, end in enumerate(ends):
            total += np.matmul(y[:, None, start:end], values[:, start:end])[:, 0]
            found[i, done : done + count] = total / end
            start = end
        done += count
    return found[np.searchsorted(ends, contexts)]


class Queries(NamedTuple):
    """Fresh inputs as the model and as the tasks see them."""

    features: np.ndarray
    """psi, (Q, m)."""
    inside: np.ndarray
    """Coordinates in the subspace, (Q, r)."""


def draw_queries(
    rng: np.random.Generator, weights: np.ndarray, biases: np.ndarray, family: TaskFamily, count: int
) -> Queries:
    """Fresh inputs to ask about, the same for all prompts."""
    span = _span(family.subspace, weights)
    x = rng.standard_normal((count, span.shape[1]))
    return Queries(np.maximum(x @ (weights @ span).T + biases, 0.0), x[:, : family.subspace.shape[1]])


def attention_path(
    query_features: ArrayLike, prompt_features: ArrayLike, labels: ArrayLike, relative_ridges: ArrayLike
) -> np.ndarray:
    """Phase II: Gamma for a path of ridges when every prompt is asked the same queries, (ridges, m, m).

    With psi_q (`query_features`, (Q, m)), phi_t (`prompt_features`, (T, m)) and `labels` (T, Q) it minimises

        mean_{t,q} (y_tq - psi_q^T Gamma phi_t)^2 + relative_ridge s |Gamma|^2,

    s the product of the largest eigenvalues of P = mean psi psi^T and F = mean phi phi^T. The normal equations
    P Gamma F + relative_ridge s Gamma = mean y psi phi^T are diagonal in the eigenvectors of P and F: one decomposition
    of each serves all ridges, and m^4 never appears.
    """
    psi, phi = (
        check_array("query_features", query_features, ndim=2),
        check_array("prompt_features", prompt_features, ndim=2),
    )
    labels = check_array("labels", labels, ndim=2)
    ridges = np.atleast_1d(check_array("relative_ridges", relative_ridges, above=0))
    if labels.shape != (len(phi), len(psi)):
        raise InputError(f"labels must have shape (prompts, queries) = {(len(phi), len(psi))}, got {labels.shape}")
    sizes_psi, left = np.linalg.eigh(psi.T @ psi / len(psi))
    sizes_phi, right = np.linalg.eigh(phi.T @ phi / len(phi))
    crossed = left.T @ (psi.T @ labels.T @ phi) @ right / labels.size
    sizes = np.maximum(sizes_psi, 0.0)[:, None] * np.maximum(sizes_phi, 0.0)
    if sizes[-1, -1] == 0:
        raise InputError("query_features and prompt_features must not be 0 everywhere")
    return left @ (crossed / (sizes + ridges[:, None, None] * sizes[-1, -1])) @ right.T


def _span(subspace: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Orthonormal columns that begin with the subspace and whose span holds the weights."""
    outside = (weights - (weights @ subspace) @ subspace.T).T
    left, sizes, _ = np.linalg.svd(outside, full_matrices=False)
    kept = left[:, sizes > _FLAT * np.linalg.norm(weights)]
    return np.concatenate([subspace, kept], axis=1)


def _batches(tasks: int, rows: int) -> list[int]:
    """How many prompts to draw together, until there are enough."""
    size = max(1, ROWS_TOGETHER // rows)
    return [min(size, tasks - done) for done in range(0, tasks, size)]


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """The rows over their lengths; rows of 0 stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
