"""A certificate of the optimality gap of a mean-field network: how far a law is from the best one, without knowing it.

The objective is L(mu) = sum_i c_i l(f_mu(z_i), y_i) + lambda_1 E|x|^2 + lambda_2 E log mu with f_mu = E_mu h_x (see
`models.mean_field`). Any vector g of slopes has a Gibbs law

    q_g(x) ∝ exp(-V(x) / lambda_2),    V(x) = sum_i c_i g_i h_x(z_i) + lambda_1 |x|^2,

and a dual value D(g) = -sum_i c_i l*(g_i) - lambda_2 log int exp(-V / lambda_2) <= min L. In the difference entropy and
partition function cancel:

    L(q_g) - min L <= L(q_g) - D(g) = sum_i c_i [l(f_q) + l*(g_i) - g_i f_q],    f_q = E_{q_g} h(z_i),

which is sum_i c_i (f_q - y_i - g_i)^2 / 2 for squares. Only means under a frozen potential are needed; MALA gives
them without bias of its step, and annealing from the Gaussian puts its chains into the right modes. The certified
object is q_g, not a network of N neurons.

g is kept through the predictions u of which it is the slope, g_i = l'(u_i), so that it is always feasible; the gap is
then a Bregman divergence of f_q from u, and zero where they agree. One step of Newton's method on the dual,

    u <- u + (I + C diag(c l''(u)) / lambda_2)^{-1} (f_q - u),    C = Cov_q(h(z_i), h(z_j)),

lowers it; with the sample covariance it is called a polish step. Sources: Nitanda, Wu & Suzuki (2021), Oko, Suzuki,
Nitanda & Wu (2022) for the dual; the estimate from two halves and its standard error are this project's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.models.mean_field import ConvexLoss, neurons
from unlazy.random import normals_at
from unlazy.training.mean_field.annealed_chains import Chains, Frozen, empty_sums, sample

_MOST_SOLVED = 1024
_NEAR = 0.25


def _gauss_jacobi() -> tuple[list[float], list[float]]:
    """Nodes and weights of int_0^1 (1 - s) k(s) ds."""
    from scipy.special import roots_jacobi

    places, weights = roots_jacobi(3, 1.0, 0.0)
    return ((1 + places) / 2).tolist(), (weights / 4).tolist()


_NODES, _WEIGHTS = _gauss_jacobi()


class Certificate(NamedTuple):
    """The estimated gap L(q_g) - D(g) >= L(q_g) - min L and what its honesty rests on.

    `gap` is free of the bias that noise in f_q would give (exactly for squares, to second order else), so that it can
    be negative by about `gap_se`. `disagreement` is the difference of the gaps of the two halves, `drift` the change of
    the means during the run, both in standard errors.
    """

    gap: Array
    gap_se: Array
    disagreement: Array
    drift: Array
    effective_draws: Array
    """How many independent draws from q_g have the variance of f_q."""
    acceptance: Array
    annealed: Array
    """How far the path from the Gaussian to q_g was gone, 1 if to the end."""
    ancestors: Array
    """Of how many first draws of a half, at least, the chains descend."""
    predictions: Array
    """f_q at the rows."""
    anchor: Array
    """u, whose slopes are g."""
    clouds: Array
    """(8, chains, d + 1): the chains at several times, draws from q_g."""


def certify(
    key: Array,
    rows: tuple[Array, Array, Array],
    anchor: Array,
    *,
    loss: ConvexLoss,
    amplitude: ArrayLike,
    temperature: ArrayLike,
    confinement: ArrayLike,
    markov_chains: int = 1024,
    steps: int = 200,
    annealing: int = 200,
    polish: int = 2,
) -> Certificate:
    """Certify the Gibbs law of the slopes at `anchor`, after `polish` steps of Newton's method on the dual.

    `rows` are inputs with a column of ones, labels and weights c that sum to 1; `anchor` are predictions at the rows,
    best a mean over time: from one snapshot of N particles the gap is about tr(C + C^2/(n lambda_2)) / (2 n N). Half of
    the chains each gives an independent f_q. They start as draws from the Gaussian of the confinement, not from a
    trained cloud, are brought to q_g in `annealing` steps and then measured for `steps` (a multiple of 8).

    A pure function of its arrays, for jit and vmap, in their precision; memory O(chains x rows).
    """
    inputs, labels, weights = rows
    dtype = inputs.dtype
    scale, heat, confining = (jnp.asarray(x, dtype) for x in (amplitude, temperature, confinement))
    half, width = markov_chains // 2, inputs.shape[1]
    frozen = Frozen(inputs, heat / (2 * confining))
    total = annealing + steps
    # two arrays are drawn at each step
    drawn = normals_at(key, 2 * total * (polish + 1), (2, half, width), dtype)
    particles = jnp.sqrt(frozen.prior_variance) * drawn
    state = Chains(
        particles,
        jnp.tanh(particles @ inputs.T),
        jnp.broadcast_to(jnp.arange(half), (2, half)),
        jnp.log(0.5 * frozen.prior_variance / width ** (1 / 3)),
    )
    sums = empty_sums(state)

    def one_round(carry: tuple[Any, ...], turn: Array) -> tuple[tuple[Any, ...], None]:
        state, pull, gone, _, anchor, _ = carry
        target = weights * loss.slope(anchor, labels) * scale / heat
        state, share, sums = sample(key, state, frozen, (pull, target), annealing, steps, turn * total)

        def polished() -> Array:
            kept = sums.clouds if anchor.size <= _MOST_SOLVED else sums.clouds[-1:]
            drawn = scale * neurons(kept.reshape(-1, width), inputs)
            predictions = scale * sums.values.mean(axis=(0, 1, 2))
            return anchor + newton_change(drawn, predictions, anchor, labels, weights, heat, loss)

        after = jax.lax.cond(turn == polish, lambda: anchor, polished) if polish else anchor
        return (state, target, gone * share, anchor, after, sums), None

    carry = (state, jnp.zeros_like(anchor), jnp.ones((), dtype), anchor, anchor, sums)
    carry, _ = jax.lax.scan(one_round, carry, jnp.arange(polish + 1))
    state, _, gone, anchor, _, sums = carry
    means, moves = scale * sums.values.mean(axis=0), scale * (sums.values[1] - sums.values[0])
    found = _judge(means, moves, scale**2 * sums.squares, state.ancestors, (labels, weights, loss), anchor)
    return Certificate(
        **found,
        acceptance=sums.accepted,
        annealed=gone,
        predictions=means.mean(axis=(0, 1)),
        anchor=anchor,
        clouds=sums.clouds,
    )


class Stages(NamedTuple):
    """Certificates of k anchors at each of several stages: (stages, k), and the anchors themselves (stages, k, n)."""

    gap: Array
    gap_se: Array
    disagreement: Array
    anchor: Array


def certify_stages(keys: Array, rows: tuple[Array, Array, Array], anchors: Array, **options: Any) -> Stages:
    """Certificates of anchors (k, n), then of what one polish step makes of each, and so on; keys (stages, k).

    `options` are those of `certify`, without `polish`.
    """
    inputs, labels, weights = rows
    loss, scale, heat = (options[name] for name in ("loss", "amplitude", "temperature"))

    def certified(arguments: tuple[Array, Array]) -> tuple[Array, Stages]:
        key, anchor = arguments
        found = certify(key, rows, anchor, polish=0, **options)
        drawn = scale * neurons(found.clouds.reshape(-1, inputs.shape[1]), inputs)
        change = newton_change(drawn, found.predictions, anchor, labels, weights, jnp.asarray(heat, float), loss)
        return anchor + change, Stages(found.gap, found.gap_se, found.disagreement, anchor)

    return jax.lax.scan(lambda anchors, keys: jax.lax.map(certified, (keys, anchors)), anchors, keys)[1]


def newton_change(
    drawn: Array, predictions: Array, anchor: Array, labels: Array, weights: Array, temperature: Array, loss: ConvexLoss
) -> Array:
    """(I + C S^2)^{-1} (f_q - u), S^2 = diag(c l''(u)) / lambda_2, C the covariance of neurons (draws, n) of q_g.

    Damped by 1/(1 + decrement), as for self-concordant functions, which is nothing near the optimum.
    """
    centred = (drawn - drawn.mean(axis=0)) / jnp.sqrt(jnp.asarray(len(drawn), drawn.dtype))
    root = jnp.sqrt(weights * loss.curvature(anchor, labels) / temperature)
    # symmetric: (I + C S^2)^{-1} r = r - C S (I + S C S)^{-1} S r
    scaled = centred * root
    residual = predictions - anchor
    right = root * residual

    def solve(gram: Array, right: Array) -> Array:
        return jax.scipy.linalg.solve(gram + jnp.eye(len(gram), dtype=gram.dtype), right, assume_a="pos")

    if scaled.shape[1] <= scaled.shape[0]:
        inner = solve(scaled.T @ scaled, right)
    else:
        inner = right - scaled.T @ solve(scaled @ scaled.T, scaled @ right)
    change = residual - centred.T @ (scaled @ inner)
    decrement = jnp.sqrt(jnp.maximum(right @ (root * change), 0.0))
    return change / (1 + decrement)


def divergence(loss: ConvexLoss, predictions: Array, anchor: Array, labels: Array) -> Array:
    """l(f) + l*(g) - g f with g = l'(u), the Bregman divergence of f from u: int_0^1 (1-s) l''(u + s(f-u)) ds (f-u)^2.

    Where f is near to u the sum of three terms would cancel, and three nodes give the integral to rounding.
    """
    change = predictions - anchor
    near = sum(w * loss.curvature(anchor + s * change, labels) for s, w in zip(_NODES, _WEIGHTS, strict=True))
    slopes = loss.slope(anchor, labels)
    plain = loss.value(predictions, labels) + loss.conjugate(slopes, labels) - slopes * predictions
    return jnp.where(jnp.abs(change) < _NEAR, near * change**2, plain)


def _judge(
    means: Array, moves: Array, square: Array, ancestors: Array, problem: tuple[Array, Array, ConvexLoss], anchor: Array
) -> dict[str, Array]:
    """Gap, standard error and checks from the mean of every chain (2, m, n) at every row.

    With f the mean of both halves and e their difference the gap is sum c [phi(f) - l''(f) e^2 / 8]: for squares that
    is sum c (f_A - u)(f_B - u) / 2, without bias. Its variance is that of a bilinear form of two independent means.
    Chains that descend from one first draw count as one (Chan & Lai 2013, Lee & Whiteley 2018).
    """
    labels, weights, loss = problem
    half = means.shape[1]
    centres = means.mean(axis=1)
    middle, apart = centres.mean(axis=0), centres[0] - centres[1]
    slopes = loss.slope(anchor, labels)
    curvature = loss.curvature(middle, labels)
    # all three at once, and one sum over families: each is compiled once
    own, other, both = divergence(loss, jnp.concatenate([centres, middle[None]]), anchor, labels)
    gap = weights @ (both - curvature * apart**2 / 8)
    root = jnp.sqrt(weights * curvature)
    # sums over the descendants of each first draw, whose sum of squares is the covariance of the mean
    ones = jnp.ones((2, half, 1), means.dtype)
    apiece = jnp.concatenate([means - centres[:, None], moves - moves.mean(axis=1, keepdims=True), ones], axis=2)
    families = jnp.zeros_like(apiece).at[jnp.arange(2)[:, None], ancestors].add(apiece)
    descendants = families[..., -1]
    families = families / jnp.sqrt(half * (half - 1.0))
    n = len(anchor)
    deviations, drifted = families[..., :n], families[..., n : 2 * n]
    pulls = weights * (loss.slope(jnp.concatenate([centres, middle[None]]), labels) - slopes)
    along = jnp.sum((deviations @ pulls.T) ** 2, axis=1)
    scaled, drifted = deviations * root, drifted * root / 2
    cross, first, second, moved = _traces(scaled, drifted)
    linear = along[0, 1] + along[1, 0]
    gap_se = 0.5 * jnp.sqrt(jnp.maximum(linear - cross, cross))
    noise = jnp.sum(scaled**2, axis=(1, 2)) / 2
    apart_by = weights @ (own - other) - (noise[0] - noise[1])
    own_variance = along[0, 2] + along[1, 2] + 0.5 * (first + second)
    drift = moves.mean(axis=(0, 1)) * root
    variance = weights @ (square - middle**2)
    return {
        "gap": gap,
        "gap_se": gap_se,
        "disagreement": apart_by / jnp.sqrt(own_variance),
        "drift": (jnp.sum(drift**2) - jnp.sum(drifted**2)) / jnp.sqrt(2 * moved),
        "effective_draws": variance / (weights @ jnp.sum(deviations**2, axis=(0, 1)) / 4),
        "ancestors": (descendants > 0).sum(axis=1).min(),
    }


def _traces(scaled: Array, drifted: Array) -> tuple[Array, Array, Array, Array]:
    """tr(A^T A B^T B), tr (A^T A)^2, tr (B^T B)^2 of the pair (A, B) and tr (D^T D)^2, D = both of the second pair.

    Through the smaller side of the matrices.
    """
    if scaled.shape[2] <= scaled.shape[1]:
        both = jnp.concatenate([scaled, drifted])
        one, other, early, late = jnp.einsum("kmi,kmj->kij", both, both)
        moved = early + late
        return jnp.sum(one * other), jnp.sum(one**2), jnp.sum(other**2), jnp.sum(moved**2)
    drifted = drifted.reshape(-1, drifted.shape[2])
    pairs = ((scaled[0], scaled[1]), (scaled[0], scaled[0]), (scaled[1], scaled[1]), (drifted, drifted))
    cross, first, second, moved = (jnp.sum((left @ right.T) ** 2) for left, right in pairs)
    return cross, first, second, moved
