"""How an attention layer learns concepts with two meanings: gradient descent without noise, and its first growth.

The setting is that of `unlazy.data.concept_prompts` without noise: a prompt is about one of K concepts, its L
demonstrations are (a + y_l b, c + y_l d) and its query is a + y b, all meanings fair. The layer answers with

    f = sum_i r_i relu(w_i . v),      v = c + ybar d,      ybar = sum_l s_l y_l,      s_l ~ exp(theta_y y_l),

r_i = +-1/m in turn and theta_y = (W_K b) . W_Q (a + y b). Softmax does not see what is common to all demonstrations, so
gradients are in the plane of a and b of each concept and W_K a has none: concepts do not see each other, and each is
learned as if it were alone, K times as slowly.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole, common_shape

_LARGEST = 1e6
_MOST_STATES = 10**9
"""Numbers that all steps together may take."""


class ConceptGrowth(NamedTuple):
    """The first growth of one concept, in time = step size times steps."""

    attended_slope: Any
    """1 - 1/L, by which E[y ybar] grows with the score."""
    readout_rate: Any
    """By which the readout of the meaning first grows, q0^2 (1 - 1/L)/(4 K m)."""
    learning_time: Any
    """When the linearised score becomes infinite, sqrt(2 m) pi K / ((1 - 1/L) q0)."""


class ConceptDynamics(NamedTuple):
    """The layer after the recorded steps; arrays are (records, concepts)."""

    query_concept: np.ndarray
    """a^T W_Q a."""
    query_semantics: np.ndarray
    """b^T W_Q b."""
    key_concept: np.ndarray
    """a^T W_K a, which is q0 (1 - eta lambda)^steps."""
    key_semantics: np.ndarray
    """b^T W_K b."""
    output_concept: np.ndarray
    """The mean over neurons of |W_O c|."""
    output_semantics: np.ndarray
    """The mean over neurons of |W_O d|."""
    concept_score: np.ndarray
    """(W_K b) . (W_Q b)."""
    concept_readout: np.ndarray
    """The answer to c + d."""


def attended_meaning(context: int, concept_score: ArrayLike) -> Any:
    """E[y ybar], how well the attended demonstrations agree with the query, at the score theta of the same meaning.

        E tanh(theta + (1/2) log(n / (L - n))),      n ~ Binomial(L, 1/2) demonstrations of the query's meaning

    It is (1 - 1/L) theta for small theta and 1 - 2^(1 - L) for large ones. Exact without noise. Broadcasts over scores.

    >>> print(attended_meaning(context=8, concept_score=[0.1, 1]))
    [0.087 0.709]
    """
    length = check_whole("context", context, 1, 10_000)
    score = check_array("concept_score", concept_score, low=-_LARGEST, high=_LARGEST)
    counts = np.arange(length + 1)
    logs = [math.lgamma(length + 1) - math.lgamma(n + 1) - math.lgamma(length - n + 1) for n in counts]
    chances = np.exp(np.array(logs) - length * math.log(2))
    with np.errstate(divide="ignore"):
        odds = (np.log(counts) - np.log(length - counts)) / 2
    # exactly 0 at 0, where terms cancel
    return np.where(score == 0, 0.0, np.tanh(score[..., None] + odds) @ chances)[()]


def concept_growth(
    concepts: ArrayLike, width: ArrayLike, context: ArrayLike, initial_attention_scale: ArrayLike
) -> ConceptGrowth:
    """The rates at which a concept's semantics is first learned from a small output matrix, without noise.

    With W_Q = W_K = q0 I at the start, q = b^T W_Q b = b^T W_K b and the readout P = sum_i r_i 1(w_i.c > 0) w_i.d,

        q' = (1 - 1/L) P q / (2 K),      P' = (1 - 1/L) q^2 / (4 K m),

    so that q^2 - 2 m P^2 is conserved and q = q0 / cos(pi t / 2 t*), P = q0 tan(pi t / 2 t*) / sqrt(2 m) with t* the
    learning time. The readout of the concept itself, w_i.c, is pushed by E[y] = 0 as long as neurons do not switch: to
    this order it stays. For small scores, logits and output matrices, neurons that are on or off for all
    demonstrations of a concept, |w.d| < sqrt(L) |w.c|, and q0 > 1/((L - 1) sqrt(8 m)): below, the curvature of the
    logistic loss holds P back. Exact numbers beyond are those of `concept_dynamics`. The time is inf for L = 1, where
    attention has no choice, and for q0 = 0. Source: the project's, on the model of Bu et al. 2024. Broadcasts.

    >>> found = concept_growth(concepts=[3, 6], width=40, context=8, initial_attention_scale=0.1)
    >>> print(found.learning_time, f"{found.attended_slope[0]:.3f}")
    [ 963.403 1926.806] 0.875
    """
    number = check_array("concepts", concepts, low=1, high=_LARGEST, whole=True)
    neurons = check_array("width", width, low=1, high=_LARGEST)
    length = check_array("context", context, low=1, high=_LARGEST)
    scale = check_array("initial_attention_scale", initial_attention_scale, high=_LARGEST, low=-_LARGEST)
    common_shape(concepts=number, width=neurons, context=length, initial_attention_scale=scale)
    number, neurons, length, scale = np.broadcast_arrays(number, neurons, length, scale)
    attended = 1 - 1 / length
    with np.errstate(divide="ignore"):
        time = np.sqrt(2 * neurons) * math.pi * number / (attended * np.abs(scale))
    rate = attended * scale**2 / (4 * number * neurons)
    return ConceptGrowth(attended[()], rate[()], time[()])


def concept_dynamics(
    first_output_concept: ArrayLike,
    first_output_semantics: ArrayLike,
    concepts: int,
    context: int,
    initial_attention_scale: float,
    step_size: float,
    weight_decay: float,
    record_at: ArrayLike,
) -> ConceptDynamics:
    """Gradient descent of the expected logistic loss without noise, for each concept by itself.

    `first_output_concept` and `first_output_semantics` are W_O c and W_O d at the start, (m, any number of concepts);
    the loss of each has the weight 1/K, K = `concepts`. Query and key decay by lambda = `weight_decay`. Records are
    those after the steps `record_at`. The expectation is the sum over the meanings of query and demonstrations, no
    limit of any size; noise and finite batches are left out. Source: the project's, on the model of Bu et al. 2024.

    >>> concept, semantics = [[0.01], [-0.02]], [[0.02], [0.01]]
    >>> found = concept_dynamics(concept, semantics, 2, 8, 0.1, step_size=0.5, weight_decay=0, record_at=[0, 100, 200])
    >>> print(found.query_semantics[:, 0], found.key_concept[:, 0])
    [0.1   0.121 0.179] [0.1 0.1 0.1]
    """
    gamma = check_array("first_output_concept", first_output_concept, ndim=2, low=-_LARGEST, high=_LARGEST).copy()
    rho = check_array("first_output_semantics", first_output_semantics, ndim=2, low=-_LARGEST, high=_LARGEST).copy()
    if gamma.shape != rho.shape:
        raise InputError(
            f"first_output_semantics must have shape {gamma.shape} like first_output_concept, got {rho.shape}"
        )
    number, length = check_whole("concepts", concepts, 1), check_whole("context", context, 1, 1000)
    scale = float(check_array("initial_attention_scale", initial_attention_scale, low=-10, high=10, ndim=0))
    size = float(check_array("step_size", step_size, above=0, high=1e4, ndim=0))
    decay = float(check_array("weight_decay", weight_decay, low=0, high=1, ndim=0))
    stops = check_array("record_at", record_at, low=0, ndim=1, whole=True).astype(int)
    if (np.diff(stops) <= 0).any():
        raise InputError("record_at must grow, got an order that does not")
    width, columns = gamma.shape
    if int(stops[-1]) * width * columns * (length + 1) > _MOST_STATES:
        raise InputError(f"record_at must end earlier for so many neurons and concepts, got {stops[-1]}")
    counts = np.arange(length + 1.0)
    logs = [math.lgamma(length + 1) - math.lgamma(n + 1) - math.lgamma(length - n + 1) for n in counts]
    chances = np.exp(np.array(logs) - length * math.log(2)) / 2
    with np.errstate(divide="ignore"):
        odds = (np.log(counts) - np.log(length - counts)) / 2
    meanings = np.array([1.0, -1.0])
    signs = np.where(np.arange(width) % 2 == 0, 1.0, -1.0) / width
    asked = np.stack([np.ones(2), meanings])
    query = np.tile(scale * np.eye(2), (columns, 1, 1))
    key = query.copy()
    records = []
    for step in range(int(stops[-1]) + 1):
        if step in stops:
            records.append(_recorded(query, key, gamma, rho, signs))
        if step == stops[-1]:
            break
        scores = np.einsum("ki,kij,jy->ky", key[:, :, 1], query, asked)
        # (concept, meaning of the query, demonstrations of meaning 1)
        attended = np.tanh(scores[:, :, None] + odds)
        inner = gamma[:, :, None, None] + rho[:, :, None, None] * attended
        on = (inner > 0) * signs[:, None, None, None]
        answers = np.einsum("ikyn,ikyn->kyn", on, inner)
        margin = meanings[:, None] * answers
        pull = -meanings[:, None] * chances / (1 + np.exp(np.minimum(margin, 700))) / number
        by_score = np.sum(pull * np.einsum("ikyn,ik->kyn", on, rho) * (1 - attended**2), axis=-1)
        key_change = np.einsum("ky,kij,jy->ki", by_score, query, asked)
        query_change = np.einsum("ky,ki,jy->kij", by_score, key[:, :, 1], asked)
        gamma = gamma - size * np.einsum("kyn,ikyn->ik", pull, on)
        rho = rho - size * np.einsum("kyn,ikyn->ik", pull * attended, on)
        query, key = query - size * (query_change + decay * query), key * (1 - size * decay)
        key[:, :, 1] -= size * key_change
        if not (np.isfinite(query).all() and np.isfinite(gamma).all()):
            raise InputError(f"step_size must be small enough for descent to stay finite, got {size:g}")
    return ConceptDynamics(*(np.array(each) for each in zip(*records, strict=True)))


def _recorded(query: np.ndarray, key: np.ndarray, gamma: np.ndarray, rho: np.ndarray, signs: np.ndarray) -> tuple:
    return (
        query[:, 0, 0],
        query[:, 1, 1],
        key[:, 0, 0],
        key[:, 1, 1],
        np.abs(gamma).mean(axis=0),
        np.abs(rho).mean(axis=0),
        np.sum(key[:, :, 1] * query[:, :, 1], axis=1),
        signs @ np.maximum(gamma + rho, 0.0),
    )
