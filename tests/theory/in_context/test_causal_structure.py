"""The first gradient of attention on sequences with a causal graph, against sums over all sequences."""

from itertools import product

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory import causal_gradient
from unlazy.theory.in_context import causal_structure

CHAIN, TREE, FOREST = [-1, 0, 1, 2], [-1, 0, 0, 1], [-1, 0, -1, 2]


def matrix(seed, size=3):
    return np.random.default_rng(seed).dirichlet(np.ones(size), size)


def stationary(transition):
    return np.linalg.matrix_power(transition, 2000)[0]


@pytest.mark.parametrize("parents", [CHAIN, TREE, FOREST])
def test_information_is_the_mean_of_the_likelihood_ratio_over_all_sequences(parents):
    transition, size = matrix(1), 3
    law = stationary(transition)
    wanted = np.zeros((4, 4))
    for tokens in product(range(size), repeat=4):
        chance = np.prod([law[s] if p < 0 else transition[tokens[p], s] for s, p in zip(tokens, parents, strict=True)])
        for i in range(4):
            for j in range(i + 1):
                wanted[i, j] += chance * (transition[tokens[j], tokens[i]] / law[tokens[i]] - 1)
    np.testing.assert_allclose(causal_gradient(transition, parents).token_information, wanted, atol=1e-10)


def test_the_parent_has_the_chi_squared_information_of_a_chain():
    transition = matrix(2)
    law = stationary(transition)
    joint = law[:, None] * transition
    independent = np.outer(law, law)
    wanted = np.sum((joint - independent) ** 2 / independent)
    found = causal_gradient(transition, CHAIN)
    assert found.chi_square_information == pytest.approx(wanted)
    np.testing.assert_allclose(np.diagonal(found.token_information, -1), wanted)


@pytest.mark.parametrize("parents", [CHAIN, TREE, FOREST])
def test_no_other_token_has_more_information_than_the_parent(parents):
    """The data processing inequality, in the mean over a prior; a token itself has none in the mean."""
    many = np.random.default_rng(3).dirichlet(np.ones(3), (4000, 3))
    information = causal_gradient(many, parents).token_information
    for token, parent in enumerate(parents):
        if parent >= 0:
            others = np.delete(information[token], parent)
            assert others.max() < 0.6 * information[token, parent]


def test_the_gradient_of_logits_is_that_of_the_softmax():
    found = causal_gradient(matrix(4), TREE)
    for token in range(4):
        attention = np.full(token + 1, 1 / (token + 1))
        jacobian = np.diag(attention) - np.outer(attention, attention)
        wanted = jacobian @ found.token_information[token, : token + 1]
        np.testing.assert_allclose(found.attention_gradient[token, : token + 1], wanted, atol=1e-12)


def test_graphs_and_matrices_that_are_none_are_refused():
    with pytest.raises(InputError, match="parents must come before their children, got parent 2 of token 1"):
        causal_gradient(matrix(0), [-1, 2, 0])
    with pytest.raises(InputError, match="parents must be whole numbers"):
        causal_gradient(matrix(0), [-1, 0.5])
    with pytest.raises(InputError, match="rows of sum 1"):
        causal_gradient(2 * matrix(0) / 3, CHAIN)
    with pytest.raises(InputError, match=r"shape \(n, S, S\) or \(S, S\)"):
        causal_gradient(np.full((2, 3), 0.5), CHAIN)


def test_blocks_of_matrices_give_the_mean_of_single_ones(monkeypatch):
    matrices = np.array([matrix(seed) for seed in range(7)])
    single = [causal_gradient(each, TREE) for each in matrices]
    for most in (1, 100, 10**7):
        monkeypatch.setattr(causal_structure, "_MOST_NUMBERS", most)
        found = causal_gradient(matrices, TREE)
        wanted = np.mean([each.token_information for each in single], axis=0)
        np.testing.assert_allclose(found.token_information, wanted, atol=1e-13)
        assert found.chi_square_information == pytest.approx(np.mean([e.chi_square_information for e in single]))
