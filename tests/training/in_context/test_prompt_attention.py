import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.in_context.first_step import prompt_gradient
from unlazy.training.in_context import prompt_attention
from unlazy.training.in_context.prompt_attention import (
    TaskFamily,
    attention_path,
    draw_queries,
    draw_tasks,
    drawn_gradient,
    pretrain_weights,
    prompt_features,
    task_values,
)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def unit_rows(rng, m, d):
    rows = rng.standard_normal((m, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def family(d, r=2, lowest=1, highest=3, noise_variance=0.01):
    return TaskFamily(np.eye(d)[:, :r], lowest, highest, noise_variance)


def test_tasks_have_variance_one_and_the_stated_degrees(rng):
    some = family(5, lowest=2, highest=3)
    tasks = draw_tasks(rng, some, 40)
    x = rng.standard_normal((20_000, 2))
    z = x @ tasks.directions.T
    by_hand = tasks.coefficients[:, 0] * (z**2 - 1) / np.sqrt(2) + tasks.coefficients[:, 1] * (z**3 - 3 * z) / np.sqrt(
        6
    )
    found = task_values(some, tasks, x)
    np.testing.assert_allclose(found, by_hand.T, atol=1e-10)
    np.testing.assert_allclose(np.mean(found**2), 1, atol=0.1)


@pytest.mark.parametrize("queries", ["each", "one"])
def test_mean_of_drawn_gradients_is_the_closed_form(queries, rng):
    weights, biases, some = unit_rows(rng, 3, 6), rng.uniform(-1, 1, 3), family(6)
    runs = np.stack([drawn_gradient(rng, weights, biases, some, 500, 64, queries) for _ in range(150)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    theory = prompt_gradient(weights, biases, some.subspace, 1, 3).gradient
    assert np.abs((runs.mean(axis=0) - theory) / error).max() < 4.5
    # the same comparison rejects a theory that is 20% off where the signal is largest
    largest = np.unravel_index(np.argmax(np.abs(theory / error)), theory.shape)
    assert abs(runs.mean(axis=0)[largest] - 1.2 * theory[largest]) > 4.5 * error[largest]


def autodiff_gradient(weights, biases, x, y, queries):
    """Half of y_q grad psi(x_q) phi by JAX on given prompts, rows of one prompt each."""
    import jax
    import jax.numpy as jnp

    def correlation(w):
        values = jax.nn.relu(x @ w.T + biases)
        if queries == "one":
            phi = jnp.mean(y[:, :-1, None] * values[:, :-1], axis=1)
            return jnp.mean(y[:, -1, None] * values[:, -1] * phi, axis=0).sum() / 2
        n = x.shape[1]
        terms = y[:, :, None] * values
        return jnp.mean(jnp.sum(terms, axis=1) ** 2 - jnp.sum(terms**2, axis=1), axis=0).sum() / (n * (n - 1)) / 2

    return np.asarray(jax.grad(correlation)(jnp.asarray(weights)))


@pytest.mark.parametrize("queries", ["each", "one"])
def test_row_coefficients_give_the_gradient_of_automatic_differentiation(queries, rng):
    weights, biases = unit_rows(rng, 4, 6), rng.uniform(-1, 1, 4)
    length = 9
    rows = length + (queries == "one")
    x, y = rng.standard_normal((3, rows, 6)), rng.standard_normal((3, rows))
    a = prompt_attention._row_coefficients(x @ weights.T + biases, y, length, queries)
    by_hand = np.einsum("tlj,tld->jd", a, x) / 3
    np.testing.assert_allclose(by_hand, autodiff_gradient(weights, biases, x, y, queries), atol=2e-6)


def test_directions_outside_the_span_have_the_law_of_full_draws(rng, monkeypatch):
    weights, biases, some = unit_rows(rng, 3, 20), rng.uniform(-1, 1, 3), family(20, highest=1)
    span = prompt_attention._span(some.subspace, weights)

    def outside_squares():
        runs = np.stack([drawn_gradient(rng, weights, biases, some, 30, 20) for _ in range(1000)])
        outer = runs - (runs @ span) @ span.T
        return np.einsum("sjd,skd->sjk", outer, outer)

    reduced = outside_squares()
    monkeypatch.setattr(prompt_attention, "_span", lambda subspace, rows: np.eye(20))
    full = outside_squares()
    error = np.sqrt((reduced.var(axis=0) + full.var(axis=0)) / 1000)
    assert np.abs((reduced.mean(axis=0) - full.mean(axis=0)) / error).max() < 4.5
    assert np.abs((0.8 * reduced.mean(axis=0) - full.mean(axis=0)) / error).max() > 4.5


def test_one_query_per_prompt_is_noisier_than_one_per_row(rng):
    weights, biases, some = unit_rows(rng, 4, 10), np.zeros(4), family(10)
    spreads = [
        np.stack([drawn_gradient(rng, weights, biases, some, 200, 64, q) for _ in range(20)]).std(axis=0).mean()
        for q in ("one", "each")
    ]
    assert spreads[0] > 2 * spreads[1]


def test_repeated_steps_find_a_subspace_that_one_does_not(rng):
    found = pretrain_weights(rng, family(64, lowest=2), width=16, tasks=1000, context=512, steps=3)
    assert found.overlaps[0] < 0.9
    assert found.overlaps[-1] > 0.95
    np.testing.assert_allclose(np.linalg.norm(found.weights, axis=1).mean(), 1)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(2), atol=1e-12)


def test_prompt_features_approach_the_closed_correlations(rng):
    """phi of a long prompt is E[f(x) relu(w.x + b)], of which `prompt_gradient` has the mean square over tasks."""
    weights, biases, some = unit_rows(rng, 3, 8), np.array([-0.5, 0.0, 0.8]), family(8, noise_variance=0.25)
    tasks = draw_tasks(rng, some, 2000)
    phi = prompt_features(rng, weights, biases, some, tasks, [500, 2000])
    square = prompt_gradient(weights, biases, some.subspace, 1, 3).mean_square
    # E phi_n^2 = E phi^2 + c/n: extrapolated from two lengths
    long = (2000 * np.mean(phi[1] ** 2, axis=0) - 500 * np.mean(phi[0] ** 2, axis=0)) / 1500
    np.testing.assert_allclose(long, square, rtol=0.15)


def test_contexts_may_come_in_any_order(rng):
    weights, biases, some = unit_rows(rng, 3, 8), np.zeros(3), family(8)
    tasks = draw_tasks(rng, some, 5)
    up, down = (
        prompt_features(np.random.default_rng(3), weights, biases, some, tasks, contexts)
        for contexts in ([4, 16, 64], [64, 4, 16])
    )
    np.testing.assert_array_equal(up, down[[1, 2, 0]])


def test_attention_path_solves_the_kronecker_ridge_problem(rng):
    psi, phi = rng.standard_normal((7, 3)), rng.standard_normal((9, 4))[:, :3]
    labels, ridges = rng.standard_normal((9, 7)), np.array([1e-6, 0.1, 3.0])
    rows = np.einsum("qi,tj->tqij", psi, phi).reshape(63, 9)
    largest = np.linalg.eigvalsh(psi.T @ psi / 7)[-1] * np.linalg.eigvalsh(phi.T @ phi / 9)[-1]
    for ridge, gamma in zip(ridges, attention_path(psi, phi, labels, ridges), strict=True):
        normal = rows.T @ rows / 63 + ridge * largest * np.eye(9)
        by_hand = np.linalg.solve(normal, rows.T @ labels.ravel() / 63).reshape(3, 3)
        np.testing.assert_allclose(gamma, by_hand, rtol=1e-8, atol=1e-10)


def test_queries_see_the_same_inputs_as_the_tasks(rng):
    weights, some = np.concatenate([np.eye(6)[:2], unit_rows(rng, 2, 6)]), family(6)
    queries = draw_queries(rng, weights, np.zeros(4), some, 50)
    np.testing.assert_allclose(queries.features[:, :2], np.maximum(queries.inside, 0), atol=1e-12)


def test_wrong_sizes_are_refused(rng):
    with pytest.raises(InputError, match="width must be >= r = 2"):
        pretrain_weights(rng, family(8), width=1, tasks=10, context=10)
    with pytest.raises(InputError, match="queries must be one of"):
        drawn_gradient(rng, np.eye(3), np.zeros(3), family(3), 2, 4, "none")
    with pytest.raises(InputError, match="highest_degree must be an integer >= 4, got 3"):
        pretrain_weights(rng, family(8, lowest=4), width=4, tasks=10, context=10)
    with pytest.raises(InputError, match="orthonormal"):
        pretrain_weights(rng, TaskFamily(np.ones((8, 2)), 1, 3), width=4, tasks=10, context=10)
    with pytest.raises(InputError, match="labels must have shape"):
        attention_path(np.ones((3, 2)), np.ones((4, 2)), np.ones((3, 4)), 1.0)
    with pytest.raises(InputError, match="relative_ridges must be"):
        attention_path(np.ones((3, 2)), np.ones((4, 2)), np.ones((4, 3)), 0.0)
