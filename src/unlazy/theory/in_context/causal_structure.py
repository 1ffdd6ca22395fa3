"""In-context learning of causal structure: what the first gradient of an attention layer knows of the parents.

A prompt draws a transition matrix pi from a prior; position i of the sequence is drawn from pi(. | s_p(i)) where it has
a parent p(i) < i, and from the stationary law mu of pi where it has none. A last token is uniform, and its successor is
asked for. Source: Nichani, Damian & Lee (2024).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array

_ROUNDING = 1e-9
_MOST_NUMBERS = 10**7
"""Of the powers that are held at a time."""


class CausalGradient(NamedTuple):
    """What the first layer's gradient is made of, as means over the transition matrices."""

    token_information: np.ndarray
    """g, (T, T): entry (i, j) for a token i that attends to j <= i; 0 above the diagonal."""
    chi_square_information: float
    """That of a token and its parent, the largest entry of every row that has one."""
    attention_gradient: np.ndarray
    """The gradient's direction in the logits of the first layer at uniform attention, (g_ij - mean_j g_ij) / i."""


def causal_gradient(transition_matrices: ArrayLike, parents: ArrayLike) -> CausalGradient:
    """The first gradient of the first attention layer on sequences with the given parents, without drawing sequences.

    The reduced model is f(s') = sum_i v_i 1(s_i = s'), v = softmax_i(b sum_j a_ij 1(s_j = s_T)), with a_i the softmax
    over j <= i of row i of the first layer's logits, which start at 0, and b > 0 small. Then for long sequences

        -dL/da_ij = (b / (S T)) g_ij,    g_ij = E_pi sum_{s,s'} P(s_j = s, s_i = s') (pi(s'|s) / mu(s') - 1),

    and the gradient in the logits is that of row i less its mean, over the i tokens that it attends to. If the walk
    from j to i goes u steps up the tree to their nearest common ancestor and v steps down, P = (pi^u)^T diag(mu) pi^v;
    tokens of two trees are independent, and g_ij = 0. For the parent g is the chi-squared mutual information of token
    and parent, E sum mu(s) pi(s'|s)^2 / mu(s') - 1, and the data processing inequality makes it the largest of the row
    among other tokens. g_ii = E tr pi - 1 is that of the token itself.

    `transition_matrices` (n, S, S) or (S, S) have positive rows of sum 1; `parents` (T,) has p(i) < i, or -1 for none.
    Exact for b -> 0 and T -> infinity, where the tokens' frequencies are mu. Source: Nichani, Damian & Lee (2024).

    >>> found = causal_gradient(transition_matrices=[[0.9, 0.1], [0.1, 0.9]], parents=[-1, 0, 1])
    >>> print(found.token_information)
    [[0.8   0.    0.   ]
     [0.64  0.8   0.   ]
     [0.512 0.64  0.8  ]]
    """
    matrices = check_array("transition_matrices", transition_matrices, above=0, high=1)
    matrices = matrices[None] if matrices.ndim == 2 else matrices
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2]:
        raise InputError(
            f"transition_matrices must have shape (n, S, S) or (S, S), got {np.shape(transition_matrices)}"
        )
    if np.abs(matrices.sum(axis=2) - 1).max() > _ROUNDING:
        raise InputError("transition_matrices must have rows of sum 1")
    tree = _tree(parents)
    length, size = len(tree), matrices.shape[1]
    walks = {(i, j): steps for i in range(length) for j in range(i + 1) if (steps := _steps(tree, j, i)) is not None}
    known = dict.fromkeys(walks.values(), -1.0)
    chi = -1.0
    # In blocks: all powers of all matrices need not fit into memory.
    for block in np.array_split(matrices, -(-matrices.size * length // _MOST_NUMBERS)):
        stationary = stationary_laws(block)
        ratio = block / stationary[:, None, :]
        powers = [np.broadcast_to(np.eye(size), block.shape)]
        for _ in tree:
            powers.append(powers[-1] @ block)
        for up, down in known:
            joint = (powers[up] * stationary[:, :, None]).transpose(0, 2, 1) @ powers[down]
            known[up, down] += float(np.sum(joint * ratio)) / len(matrices)
        chi += float(np.sum(stationary[:, :, None] * block * ratio)) / len(matrices)
    information = np.zeros((length, length))
    for place, steps in walks.items():
        information[place] = known[steps]
    seen = np.tril(np.ones((length, length)))
    count = seen.sum(axis=1, keepdims=True)
    direction = seen * (information - information.sum(axis=1, keepdims=True) / count) / count
    return CausalGradient(information, chi, direction)


def stationary_laws(transition_matrices: np.ndarray) -> np.ndarray:
    """The laws mu with mu pi = mu, one for each of the positive matrices (n, S, S)."""
    size = transition_matrices.shape[1]
    system = np.eye(size) - transition_matrices.transpose(0, 2, 1) + 1.0
    return np.linalg.solve(system, np.ones((len(transition_matrices), size, 1)))[:, :, 0]


def _tree(parents: ArrayLike) -> list[int]:
    """The parents as whole numbers, each before its child."""
    array = check_array("parents", parents, ndim=1, low=-1, high=1e6)
    tree = [int(parent) for parent in array]
    if any(parent != given for parent, given in zip(tree, array, strict=True)):
        raise InputError("parents must be whole numbers: places from 0 on, or -1 for none")
    late = [place for place, parent in enumerate(tree) if parent >= place]
    if late:
        raise InputError(f"parents must come before their children, got parent {tree[late[0]]} of token {late[0]}")
    return tree


def _steps(tree: list[int], first: int, second: int) -> tuple[int, int] | None:
    """Steps from the first token up to the nearest common ancestor and down to the second; None if there is none."""
    up = {}
    place, count = first, 0
    while place >= 0:
        up[place] = count
        place, count = tree[place], count + 1
    place, count = second, 0
    while place >= 0:
        if place in up:
            return up[place], count
        place, count = tree[place], count + 1
    return None
