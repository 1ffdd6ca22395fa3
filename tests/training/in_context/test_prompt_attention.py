import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.in_context.first_step import prompt_gradient
from unlazy.theory.in_context.first_step_noise import prompt_gradient_squares
from unlazy.training.in_context import prompt_attention
from unlazy.training.in_context.prompt_attention import (
    TaskFamily,
    attention_path,
    draw_layer,
    draw_tasks,
    first_gradients,
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


def layer(rng, m, d, attention_scale=1e-4):
    return draw_layer(rng, d, m, attention_scale)


def test_mean_of_drawn_gradients_is_the_closed_form(rng):
    start, some = layer(rng, 3, 6), family(6, highest=2)
    runs = np.stack([first_gradients(rng, start, some, [1000], 64)[0] for _ in range(150)])
    runs /= 4 * start.attention[:, None]
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    theory = prompt_gradient(start.weights, start.biases, some.subspace, 1, 2).gradient
    assert np.abs((runs.mean(axis=0) - theory) / error).max() < 4.5
    # the same comparison rejects a theory that is 20% off where the signal is largest
    largest = np.unravel_index(np.argmax(np.abs(theory / error)), theory.shape)
    assert abs(runs.mean(axis=0)[largest] - 1.2 * theory[largest]) > 4.5 * error[largest]


def test_row_coefficients_give_the_gradient_of_the_loss_by_automatic_differentiation(rng):
    import jax
    import jax.numpy as jnp

    start = layer(rng, 4, 6, attention_scale=0.7)
    x, y = rng.standard_normal((3, 10, 6)), rng.standard_normal((3, 10))

    def loss(w):
        values = jax.nn.relu(x @ w.T + start.biases)
        phi = jnp.mean(y[:, :-1, None] * values[:, :-1], axis=1)
        return jnp.mean((y[:, -1] - (values[:, -1] * phi) @ start.attention) ** 2)

    a = prompt_attention._row_coefficients(x @ start.weights.T + start.biases, y, start.attention)
    by_hand = np.einsum("tlj,tld->jd", a, x) / 3
    np.testing.assert_allclose(by_hand, -jax.grad(loss)(jnp.asarray(start.weights)), atol=2e-6)


def test_directions_outside_the_span_have_the_law_of_full_draws(rng, monkeypatch):
    start, some = layer(rng, 3, 20), family(20, highest=1)
    span = prompt_attention._span(some.subspace, start.weights)

    def outside_squares():
        runs = np.stack([first_gradients(rng, start, some, [30], 20)[0] for _ in range(1000)]) / start.attention[0]
        outer = runs - (runs @ span) @ span.T
        return np.einsum("sjd,skd->sjk", outer, outer)

    reduced = outside_squares()
    monkeypatch.setattr(prompt_attention, "_span", lambda subspace, rows: np.eye(20))
    full = outside_squares()
    error = np.sqrt((reduced.var(axis=0) + full.var(axis=0)) / 1000)
    assert np.abs((reduced.mean(axis=0) - full.mean(axis=0)) / error).max() < 4.5
    assert np.abs((0.8 * reduced.mean(axis=0) - full.mean(axis=0)) / error).max() > 4.5


def test_squares_of_drawn_gradients_are_those_of_the_formula(rng):
    """Linear tasks, whose squares have the lightest tails; the second number of prompts contains the first."""
    start, some = layer(rng, 6, 12), family(12, lowest=1, highest=1, noise_variance=0.25)
    runs = (
        np.stack([first_gradients(rng, start, some, [5, 20], 10) for _ in range(1500)]) / start.attention[:, None] / 4
    )
    inside = np.sum((runs @ some.subspace) ** 2, axis=-1)
    outside = np.sum(runs**2, axis=-1) - inside
    law = start.weights, start.biases, some.subspace, 1, 1
    theory = prompt_gradient_squares(*law, tasks=[5, 20], context=10, noise_variance=0.25)
    for found, wanted in ((inside, theory.inside), (outside, theory.outside)):
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert np.abs((found.mean(axis=0) - wanted) / error).max() < 4.5
        assert np.abs((found.mean(axis=0) - 1.2 * wanted) / error).max() > 4.5


def test_fast_normals_are_normal(rng):
    numbers = prompt_attention._normals(rng, (1001, 999)).ravel().astype(float)
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        sample = numbers**power
        assert abs(sample.mean() - moment) < 5 * sample.std() / np.sqrt(sample.size)
    assert abs(np.mean(numbers[:-1] * numbers[1:])) < 5 / np.sqrt(numbers.size)
    half = numbers.size // 2
    assert abs(np.mean(numbers[:half] ** 2 * numbers[half : 2 * half] ** 2) - 1) < 5 * np.sqrt(8 / half)


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


@pytest.mark.parametrize("prompts", [5, 40])
def test_attention_path_solves_the_kronecker_ridge_problem(prompts, rng):
    psi, phi, labels = (
        rng.standard_normal((prompts, 3)),
        rng.standard_normal((prompts, 3)),
        rng.standard_normal(prompts),
    )
    rows = np.einsum("ti,tj->tij", psi, phi).reshape(prompts, 9)
    largest = np.linalg.eigvalsh(rows.T @ rows / prompts)[-1]
    ridges = np.array([1e-3, 0.1, 3.0])
    for ridge, gamma in zip(ridges, attention_path(psi, phi, labels, ridges), strict=True):
        normal = rows.T @ rows / prompts + ridge * largest * np.eye(9)
        by_hand = np.linalg.solve(normal, rows.T @ labels / prompts).reshape(3, 3)
        np.testing.assert_allclose(gamma, by_hand, rtol=1e-8, atol=1e-10)


def test_wrong_sizes_are_refused(rng):
    with pytest.raises(InputError, match="tasks must increase"):
        first_gradients(rng, layer(rng, 4, 8), family(8), [20, 10], 10)
    with pytest.raises(InputError, match="highest_degree must be an integer >= 4, got 3"):
        first_gradients(rng, layer(rng, 4, 8), family(8, lowest=4), [10], 10)
    with pytest.raises(InputError, match="orthonormal"):
        first_gradients(rng, layer(rng, 4, 8), TaskFamily(np.ones((8, 2)), 1, 3), [10], 10)
    with pytest.raises(InputError, match="labels must be as many"):
        attention_path(np.ones((3, 2)), np.ones((4, 2)), np.ones(3), 1.0)
    with pytest.raises(InputError, match="relative_ridges must be"):
        attention_path(np.ones((3, 2)), np.ones((3, 2)), np.ones(3), 0.0)
