import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.in_context.finite_size import exact_error, finite_size_errors, gaussian_task_moments, task_moments
from unlazy.training.in_context.linear_attention import (
    Prompts,
    PromptStream,
    draw_prompts,
    iterative_weights,
    pretrained_weights,
    prompt_features,
)


def problem(n, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return draw_prompts(rng, rng.standard_normal((5, d)), n, 9, 0.3)


def by_least_squares(prompts, ridge):
    """The weights from all products of query and feature, with the ridge as further rows."""
    n, d = prompts.queries.shape
    products = (prompts.queries[:, :, None] * prompts.features[:, None, :]).reshape(n, -1)
    rows = np.sqrt(n / d * ridge) * np.eye(products.shape[1])
    design, target = np.vstack([products, rows]), np.append(prompts.labels, np.zeros(len(rows)))
    return np.linalg.lstsq(design, target, rcond=1e-13)[0].reshape(d, d + 1)


@pytest.mark.parametrize("n", [20, 42, 150])
@pytest.mark.parametrize("method", ["auto", "dual", "primal", "iterative"])
def test_all_solvers_agree_with_least_squares_on_all_products(n, method):
    prompts = problem(n)
    ridges = [1e-4, 0.1, 3.0] if n == 42 else [0.0, 1e-4, 0.1, 3.0]
    found = pretrained_weights(prompts, ridges, method=method)
    expected = np.array([by_least_squares(prompts, ridge) for ridge in ridges])
    np.testing.assert_allclose(found, expected, atol=2e-7 * np.abs(expected).max())
    one = pretrained_weights(prompts, 0.1, method=method)
    assert one.shape == (6, 7)
    np.testing.assert_allclose(one, by_least_squares(prompts, 0.1), atol=2e-7 * np.abs(one).max())


def test_a_ridge_path_has_the_shape_of_the_ridges():
    assert pretrained_weights(problem(30), np.ones((2, 3))).shape == (2, 3, 6, 7)
    assert pretrained_weights(problem(100), np.ones((2, 3)), method="iterative").shape == (2, 3, 6, 7)


def test_ridge_zero_below_interpolation_is_the_least_norm():
    prompts = problem(20)
    found = {method: pretrained_weights(prompts, 0.0, method=method) for method in ("dual", "primal", "iterative")}
    for weights in found.values():
        fitted = np.einsum("nd,de,ne->n", prompts.queries, weights, prompts.features)
        np.testing.assert_allclose(fitted, prompts.labels, atol=1e-7)
        np.testing.assert_allclose(np.sum(weights**2), np.sum(found["dual"] ** 2), rtol=1e-6)


def raw_features(rng, task, n, context, noise):
    d = len(task)
    tokens = rng.standard_normal((n, context, d)) / np.sqrt(d)
    return prompt_features(tokens, tokens @ task + np.sqrt(noise) * rng.standard_normal((n, context)))


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("context", [1, 4])
def test_features_drawn_by_their_law_are_those_of_drawn_contexts(noise, context):
    from scipy.stats import ks_2samp

    rng, n = np.random.default_rng(7), 30_000
    task = np.array([2.0, -1.0, 0.5])
    drawn = draw_prompts(rng, task[None], n, context, noise).features
    raw = raw_features(rng, task, n, context, noise)
    # one-dimensional laws along the task, across it, of the mean square, and of products that tie them together
    views = {
        "along": lambda h: h[:, :3] @ task,
        "across": lambda h: h[:, :3] @ np.array([1.0, 2.0, 0.0]),
        "mean square": lambda h: h[:, 3],
        "along over mean square": lambda h: h[:, :3] @ task / h[:, 3],
        "length over mean square": lambda h: np.sum(h[:, :3] ** 2, axis=1) / h[:, 3],
        "across given the length": lambda h: (h[:, 0] + 2 * h[:, 1]) / np.sqrt(h[:, 3]) + h[:, 3],
    }
    for name, view in views.items():
        # without noise h.w is d times the mean square, and only rounding would be compared
        first, second = np.round(view(drawn), 9), np.round(view(raw), 9)
        assert ks_2samp(first, second).pvalue > 1e-4, name
        assert ks_2samp(1.2 * first, second).pvalue < 1e-4, name


def test_labels_of_queries_follow_the_task_of_their_features():
    tasks = np.array([[30.0, 0.0], [0.0, 30.0]])
    prompts = draw_prompts(np.random.default_rng(0), tasks, 2000, 50, 0.0)
    chosen = tasks[np.argmax(prompts.features[:, :2], axis=1)]
    np.testing.assert_allclose(prompts.labels, np.sum(prompts.queries * chosen, axis=1), rtol=1e-12)
    assert 0.4 < np.mean(chosen[:, 0] > 0) < 0.6


def test_tasks_without_any_signal_have_the_features_of_noise():
    noise_only = draw_prompts(np.random.default_rng(1), np.zeros((1, 3)), 50_000, 4, 2.0).features
    np.testing.assert_allclose(noise_only[:, 3].mean(), 2.0, rtol=0.02)
    np.testing.assert_allclose(np.mean(noise_only[:, :3] ** 2, axis=0), 3 / 4 * 2.0, rtol=0.05)
    nothing = draw_prompts(np.random.default_rng(1), np.zeros((1, 3)), 10, 4, 0.0)
    assert (nothing.features == 0).all()
    assert (pretrained_weights(nothing, 0.1, method="dual") == 0).all()


def test_a_stream_repeats_itself_and_gives_the_weights_of_its_prompts():
    tasks = np.random.default_rng(0).standard_normal((5, 6))
    stream = PromptStream(3, tasks, 150, 9, 0.3, batch_size=64)
    once, again = list(stream), list(stream)
    assert [len(batch.labels) for batch in once] == [64, 64, 22]
    np.testing.assert_array_equal(once[1].features, again[1].features)
    assert not np.array_equal(once[0].features[:22], once[2].features)
    whole = Prompts(*(np.concatenate(fields) for fields in zip(*once, strict=True)))
    expected = by_least_squares(whole, 0.2)
    np.testing.assert_allclose(pretrained_weights(stream, 0.2), expected, atol=1e-7 * np.abs(expected).max())


def test_iterations_that_do_not_converge_say_so():
    with pytest.raises(ConvergenceError, match="in 3 iterations, not 1e-09: n = 150 prompts are near the 42 weights"):
        iterative_weights(problem(150), 0.0, max_iterations=3)


def test_pretrained_errors_are_those_of_the_finite_size_theory():
    d, context, noise, ridge, seeds = 30, 60, 0.2, 0.3, 16
    n, ratios = int(1.5 * d * (d + 1)), []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        tasks = rng.standard_normal((2 * d, d))
        own, new = task_moments(tasks, context, noise), gaussian_task_moments(np.eye(d), context, noise)
        weights = pretrained_weights(draw_prompts(rng, tasks, n, context, noise), ridge)
        theory = finite_size_errors(own, n, ridge, test_moments=new)
        ratios.append(
            [exact_error(new, weights) / theory.test_error, exact_error(own, weights) / theory.pretraining_task_error]
        )
    mean, deviation = np.mean(ratios, axis=0), np.std(ratios, axis=0, ddof=1) / np.sqrt(seeds)
    # the equivalent misses terms of relative size 1/d
    assert (np.abs(mean - 1) <= 4 * deviation + 1 / d).all()
    assert (np.abs(mean - 1.2) > 4 * deviation + 1 / d).all()


def test_features_of_a_context_are_its_moments():
    tokens, labels = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]), np.array([1.0, -1.0, 2.0])
    np.testing.assert_allclose(prompt_features(tokens, labels), [2 / 3 * -2, 0.0, 2.0])
    assert prompt_features(np.ones((7, 5, 3, 2)), np.ones((7, 5, 3))).shape == (7, 5, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pretrained_weights(problem(20), -1.0), "ridge_times_dimension must be >= 0"),
        (lambda: pretrained_weights(problem(20), 1.0, method="exact"), "method must be one of auto, dual, primal"),
        (lambda: pretrained_weights([problem(20)], 1.0, method="dual"), "method must be auto or iterative for batches"),
        (lambda: pretrained_weights([], 1.0), "prompts must have at least one batch, got none"),
        (lambda: draw_prompts(np.random.default_rng(0), np.ones((2, 3)), 0, 5, 0.1), "n must be an integer >= 1"),
        (lambda: draw_prompts(np.random.default_rng(0), np.ones((2, 3)), 5, 2.5, 0.1), "context must be an integer"),
        (lambda: draw_prompts(np.random.default_rng(0), np.ones((2, 3)), 5, 5, -1), "noise_variance must be >= 0"),
        (lambda: draw_prompts(np.random.default_rng(0), [[np.nan]], 5, 5, 1), "tasks must be finite"),
        (lambda: prompt_features(np.ones((3, 2)), np.ones(2)), r"tokens must have shape \(..., l, d\)"),
        (
            lambda: pretrained_weights(problem(20)._replace(labels=np.ones(3)), 1.0),
            "one row per prompt, got 20, 20 and 3",
        ),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(("method", "n"), [("primal", 20), ("dual", 100)])
@pytest.mark.parametrize("ridge", [1e-14, 1e-20])
def test_tiny_ridges_do_not_blow_up_rounding_in_either_solver(method, n, ridge):
    prompts = draw_prompts(np.random.default_rng(3), np.random.default_rng(4).standard_normal((5, 6)), n, 12, 0.2)
    found = pretrained_weights(prompts, ridge, method=method)
    products = (prompts.queries[:, :, None] * prompts.features[:, None, :]).reshape(n, -1)
    limit = np.linalg.lstsq(products, prompts.labels, rcond=None)[0].reshape(found.shape)
    np.testing.assert_allclose(found, limit, rtol=1e-5, atol=1e-6 * np.abs(limit).max())
