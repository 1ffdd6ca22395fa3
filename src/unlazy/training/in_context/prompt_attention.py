"""Algorithm of Oko, Song, Suzuki & Wu (2024): attention that is pretrained on prompts of single-index tasks.

The model answers a query x after a prompt of n labelled inputs with

    f = psi(x)^T Gamma phi,      psi(x) = relu(W x + b),      phi = (1/n) sum_l y_l relu(W x_l + b).

Phase I is one gradient step on W from unit rows and a diagonal Gamma of entries +-gamma, on the mean of (y - f)^2 over
prompts with one query each. Its weight decay 1/eta makes the initial weights cancel: W becomes minus eta times the
gradient, whose rows lie near the subspace of the tasks. Then the biases are drawn again, and phase II is ridge
regression for Gamma on new prompts. Prompts are drawn in the span of the weights and the subspace only, and what the
other directions add to the gradient is drawn from its law: exact, and the cost does not grow with d beyond the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.orthogonal import Hermite

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
    """Of the labels' noise in pretraining and in prompts; the labels of test queries have none."""


class Tasks(NamedTuple):
    """Some tasks of a family."""

    directions: np.ndarray
    """beta in the coordinates of the subspace, (T, r)."""
    coefficients: np.ndarray
    """c, (T, p-k+1)."""


class FirstLayer(NamedTuple):
    """The first layer before phase I."""

    weights: np.ndarray
    """Unit rows, (m, d)."""
    biases: np.ndarray
    """(m,), uniform on [-1, 1]."""
    attention: np.ndarray
    """The diagonal of Gamma, (m,), entries +-gamma."""


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


def draw_layer(rng: np.random.Generator, d: int, width: int, attention_scale: float) -> FirstLayer:
    """The start of the algorithm, gamma = `attention_scale`."""
    weights = unit_rows(rng.standard_normal((width, d)))
    return FirstLayer(weights, rng.uniform(-1, 1, width), attention_scale * rng.choice([-1.0, 1.0], width))


def first_gradients(
    rng: np.random.Generator, layer: FirstLayer, family: TaskFamily, tasks: Sequence[int], context: int
) -> np.ndarray:
    """Minus the gradient of the mean of (y - f)^2 in W, on the first T prompts for every T of `tasks`, (T's, m, d).

    Each prompt has a task of its own, `context` rows and one query. With rows x_l and coefficients a_lj the gradient of
    neuron j is sum_l a_lj x_l, where a depends on x in the span of weights and subspace only; so its part outside that
    span is normal with covariance sum_l a_l a_l^T in each direction, and is drawn as such. Exact in law, in single
    precision. To first order in gamma its mean is 4 gamma_j times that of `unlazy.theory.prompt_gradient`.
    """
    m, d = layer.weights.shape
    r = family.subspace.shape[1]
    check_whole("highest_degree", family.highest_degree, check_whole("lowest_degree", family.lowest_degree, 1))
    if r > d or not np.allclose(family.subspace.T @ family.subspace, np.eye(r)):
        raise InputError(f"the subspace must be orthonormal columns (d, r) with r <= d, got shape {(d, r)}")
    counts = [check_whole("tasks", count, 1) for count in tasks]
    if context < 1 or counts != sorted(set(counts)):
        raise InputError(f"tasks must increase and context be at least 1, got {tuple(counts)} and {context}")
    span = _span(family.subspace, layer.weights)
    inner, shift, attention = (
        np.asarray(a, dtype=np.float32) for a in (layer.weights @ span, layer.biases, layer.attention)
    )
    total, found = np.zeros((m, d)), []
    for more in np.diff([0, *counts]):
        inside, covariance = np.zeros((m, span.shape[1])), np.zeros((m, m))
        for count in _batches(int(more), context + 1):
            x = _normals(rng, (count, context + 1, span.shape[1]))
            y = task_values(family, draw_tasks(rng, family, count), x[:, :, :r])
            y += np.float32(family.noise_variance**0.5) * _normals(rng, y.shape)
            a = _row_coefficients(x @ inner.T + shift, y, attention).reshape(-1, m)
            inside += a.T @ x.reshape(len(a), -1)
            if span.shape[1] < d:
                covariance += a.T @ a
        total += inside @ span.T
        if span.shape[1] < d:
            sizes, vectors = np.linalg.eigh(covariance)
            outside = (vectors * np.sqrt(np.maximum(sizes, 0.0))) @ rng.standard_normal((m, d))
            total += outside - (outside @ span) @ span.T
        found.append(total.copy())
    return np.stack(found) / np.asarray(counts)[:, None, None]


def _row_coefficients(hidden: np.ndarray, y: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """a_lj for every row of every prompt, (T, n+1, m), of which the last is the query."""
    n = hidden.shape[1] - 1
    active = hidden > 0
    values = np.maximum(hidden, 0, out=hidden)
    asked = values[:, n]
    phi = np.matmul(y[:, None, :n], values[:, :n])[:, 0] / np.float32(n)
    missed = 2 * (y[:, n] - (asked * phi) @ attention)
    pulled = missed[:, None] * attention
    a = values
    np.multiply(y[:, :n, None], (pulled * asked / np.float32(n))[:, None], out=a[:, :n])
    a[:, n] = pulled * phi
    a *= active
    return a


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
        x = _normals(rng, (count, int(ends[-1]), span.shape[1]))
        y = task_values(family, some, x[:, :, : family.subspace.shape[1]])
        y += np.float32(family.noise_variance**0.5) * _normals(rng, y.shape)
        values = np.maximum(x @ inner.T + shift, 0)
        total, start = np.zeros((count, len(weights))), 0
        for i, end in enumerate(ends):
            total += np.matmul(y[:, None, start:end], values[:, start:end])[:, 0]
            found[i, done : done + count] = total / end
            start = end
        done += count
    return found[np.searchsorted(ends, contexts)]


def query_features(weights: np.ndarray, biases: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """psi at inputs (..., d)."""
    return np.maximum(inputs @ weights.T + biases, 0.0)


def attention_path(
    query_features: ArrayLike, prompt_features: ArrayLike, labels: ArrayLike, relative_ridges: ArrayLike
) -> np.ndarray:
    """Phase II: Gamma for a path of ridges from prompts with one query each, (ridges, m, m).

    With psi_t (`query_features`, (T, m)), phi_t (`prompt_features`, (T, m)) and `labels` (T,) it minimises

        mean_t (y_t - psi_t^T Gamma phi_t)^2 + relative_ridge s |Gamma|^2,

    s the largest eigenvalue of the mean of the squares of vec(psi phi^T). One decomposition serves all ridges: of the
    matrix of the m^2 entries or, if there are fewer, of the T prompts.
    """
    psi, phi = (
        check_array("query_features", query_features, ndim=2),
        check_array("prompt_features", prompt_features, ndim=2),
    )
    labels = check_array("labels", labels, ndim=1)
    ridges = np.atleast_1d(check_array("relative_ridges", relative_ridges, above=0))
    if not len(psi) == len(phi) == len(labels):
        raise InputError(f"labels must be as many as prompts and queries, got {len(labels)}, {len(phi)}, {len(psi)}")
    rows = (psi[:, :, None] * phi[:, None, :]).reshape(len(psi), -1)
    few = len(rows) < rows.shape[1]
    sizes, vectors = np.linalg.eigh((rows @ rows.T if few else rows.T @ rows) / len(rows))
    if sizes[-1] <= 0:
        raise InputError("query_features and prompt_features must not be 0 everywhere")
    rotated = vectors.T @ (labels if few else rows.T @ labels) / len(rows)
    solved = (rotated / (np.maximum(sizes, 0.0) + ridges[:, None] * sizes[-1])) @ vectors.T
    return (solved @ rows if few else solved).reshape(len(ridges), psi.shape[1], phi.shape[1])


def _normals(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers of single precision from 24 bits each, at most 5.9, in half the time of `standard_normal`."""
    half = (int(np.prod(shape)) + 1) // 2
    bits = rng.bit_generator.random_raw(half).view(np.uint32) >> np.uint32(8)
    lengths, angles = bits[:half].astype(np.float32), bits[half:].astype(np.float32)
    lengths += np.float32(0.5)
    lengths *= np.float32(2.0**-24)
    np.log(lengths, out=lengths)
    lengths *= np.float32(-2)
    np.sqrt(lengths, out=lengths)
    angles *= np.float32(2 * np.pi * 2.0**-24)
    found = np.empty(2 * half, np.float32)
    np.cos(angles, out=found[:half])
    np.sin(angles, out=found[half:])
    found.reshape(2, half)[:] *= lengths
    return found[: int(np.prod(shape))].reshape(shape)


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
