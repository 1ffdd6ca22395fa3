from itertools import permutations

import numpy as np
import pytest
from scipy.special import expit, ndtr

from unlazy.checks import InputError
from unlazy.diagnostics import forecast_overfit
from unlazy.diagnostics.overfitting.two_sample import inner_products, margins, moments_of, sums_of, without_one_row
from unlazy.theory.signal_noise.relu_overfitting import averaging_classifier_error


def mixture(n, d, level, seed, *, share=0.5):
    """Rows of two normal classes +-mu with covariance I and n |mu|^4 / d = level, their labels, and mu."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    mu = (level * d / n) ** 0.25 * direction / np.linalg.norm(direction)
    labels = np.where(np.arange(n) < round(share * n), 1.0, -1.0)
    return labels[:, None] * mu + rng.standard_normal((n, d)), labels, mu


def trained_network(X, y, fresh, neurons=25, start=1e-3, loss=0.02, seed=0):
    """Predictions on fresh rows of a two-layer ReLU network trained by gradient descent from a small start."""
    rng = np.random.default_rng(seed)
    centre = X.mean(axis=0)
    scale = np.sqrt(np.mean(np.sum((X - centre) ** 2, axis=1)))
    X, fresh = (X - centre) / scale, (fresh - centre) / scale
    weights = start * rng.standard_normal((2 * neurons, X.shape[1])) / np.sqrt(X.shape[1])
    second = np.repeat([1.0, -1.0], neurons) / neurons
    step = neurons * len(X) / np.linalg.eigvalsh(X @ X.T)[-1]
    for _ in range(20_000):
        pre = weights @ X.T
        margin = y * (second @ np.maximum(pre, 0))
        if np.logaddexp(0, -margin).mean() < loss:
            return second @ np.maximum(weights @ fresh.T, 0)
        weights = weights + step * ((pre > 0) * second[:, None] * (y * expit(-margin) / len(y))) @ X
    raise AssertionError("not trained")


def test_moments_are_means_over_distinct_rows():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((5, 3)) + 1.0, rng.standard_normal((4, 3))
    found = moments_of(sums_of(inner_products(first, second)))

    def mean_over(rows, others, function, count, other_count):
        return np.mean(
            [
                function(*(rows[i] for i in own), *(others[i] for i in other))
                for own in permutations(range(len(rows)), count)
                for other in permutations(range(len(others)), other_count)
            ]
        )

    signal = mean_over(first, second, lambda a, b, u, v: (a - u) @ (b - v), 2, 2) / 4
    np.testing.assert_allclose(found.signal, signal, rtol=1e-11)
    squares, along = [], []
    for rows, others in ((first, second), (second, first)):
        # S = E (a - b)(a - c)^T for distinct a, b, c of a class
        squares.append(mean_over(rows, others, lambda a, b, c, e: ((a - b) @ (c - e)) ** 2 / 4, 4, 0))
        along.append(
            mean_over(
                rows,
                others,
                lambda a, b, c, e, u, v: (a @ (b - u)) * (a @ (c - v)) - (a @ (b - u)) * (e @ (c - v)),
                4,
                2,
            )
            / 4
        )
    np.testing.assert_allclose(found.along, np.maximum(along, 0), rtol=1e-10)
    np.testing.assert_allclose(found.noise_square_trace, np.mean(squares), rtol=1e-11)
    cross = mean_over(first, second, lambda a, b, u, v: ((a - b) @ (u - v)) ** 2 / 4, 2, 2)
    expected = np.array([squares[0] / 5 + cross / 4, cross / 5 + squares[1] / 4]) / 4
    np.testing.assert_allclose(found.fluctuation, expected, rtol=1e-11)


def test_leaving_a_row_out_is_the_same_as_not_having_it():
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((7, 4)) + 0.7, rng.standard_normal((6, 4))
    products = inner_products(first, second)
    parts = [moments_of(part) for part in without_one_row(products, sums_of(products))]
    for index in range(7):
        direct = moments_of(sums_of(inner_products(np.delete(first, index, axis=0), second)))
        for quick, slow in zip(parts[0], direct, strict=True):
            np.testing.assert_allclose(quick[..., index], slow, rtol=1e-9, atol=1e-12)
    for index in range(6):
        direct = moments_of(sums_of(inner_products(first, np.delete(second, index, axis=0))))
        for quick, slow in zip(parts[1], direct, strict=True):
            np.testing.assert_allclose(quick[..., index], slow, rtol=1e-9, atol=1e-12)


def test_margins_are_those_of_the_other_rows_means_and_average_to_the_signal():
    rng = np.random.default_rng(2)
    first, second = rng.standard_normal((6, 4)) + 0.7, rng.standard_normal((5, 4))
    products = inner_products(first, second)
    found = margins(products)
    signal = moments_of(sums_of(products)).signal
    np.testing.assert_allclose((found[:6].mean() + found[6:].mean()) / 2, signal, rtol=1e-11)
    others = np.delete(first, 2, axis=0)
    square = (others @ others.T).sum() - np.sum(others**2), (second @ second.T).sum() - np.sum(second**2)
    offset = (square[0] / 20 - square[1] / 20) / 4
    direct = first[2] @ (others.mean(axis=0) - second.mean(axis=0)) / 2 - offset
    np.testing.assert_allclose(found[2], direct, rtol=1e-11)


def test_moments_are_unbiased_for_skewed_noise_and_unequal_classes():
    rng = np.random.default_rng(3)
    d, draws = 12, 4000
    spread, mu = np.linspace(0.5, 2.0, d), 0.4 * np.ones(d)
    found = []
    for _ in range(draws):
        noise = (rng.exponential(size=(24, d)) - 1) * np.sqrt(spread)
        first, second = mu + noise[:10], -mu + 0.5 * noise[10:]
        moments = moments_of(sums_of(inner_products(first + 3.0, second + 3.0)))
        found.append((moments.signal, *moments.fluctuation))
    squares = np.sum(spread**2)
    cross = squares / 4
    expected = [mu @ mu, (squares / 10 + cross / 14) / 4, (cross / 10 + squares / 16 / 14) / 4]
    deviations = np.std(found, axis=0) / np.sqrt(draws)
    assert (4 * deviations < 0.2 * np.array(expected)).all()
    for value, target, deviation in zip(np.mean(found, axis=0), expected, deviations, strict=True):
        assert abs(value - target) < 4 * deviation


def test_the_forecast_does_not_depend_on_origin_scale_rotation_order_or_names():
    X, y, _ = mixture(40, 60, 2.0, 4, share=0.4)
    base = forecast_overfit(X, y)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))[0]
    order = np.random.default_rng(1).permutation(40)
    for rows, labels in (
        (X + 1e3, y),
        (1e-20 * X, y),
        (1e20 * X, y),
        (X @ rotation, y),
        (X[order], y[order]),
        (X, -y),
        (X, np.where(y > 0, "cat", "dog")),
        (X, y > 0),
    ):
        other = forecast_overfit(rows, labels)
        for name in ("test_error", "low", "high", "separation", "standard_error", "loo_error", "effective_rank"):
            np.testing.assert_allclose(getattr(other, name), getattr(base, name), rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(forecast_overfit(3 * X, y).squared_signal_norm, 9 * base.squared_signal_norm, rtol=1e-9)
    np.testing.assert_allclose(forecast_overfit(3 * X, y).signal_level, base.signal_level, rtol=1e-9)


@pytest.mark.parametrize(("n", "d", "level"), [(50, 1000, 0.3), (50, 1000, 3.0), (120, 300, 1.0), (24, 2000, 2.0)])
def test_the_forecast_is_right_on_average_and_its_interval_covers(n, d, level):
    errors, true, covered = [], [], []
    for seed in range(150):
        X, y, mu = mixture(n, d, level, [seed, n])
        found = forecast_overfit(X, y)
        weights = y @ (X - X.mean(axis=0))
        truth = ndtr(-weights @ mu / np.linalg.norm(weights))
        errors.append(found.test_error)
        true.append(truth)
        covered.append(found.low <= truth <= found.high)
    # 90% asked for; 150 draws have a standard error of .025
    assert np.mean(covered) > 0.82
    deviation = np.std(errors) / np.sqrt(len(errors))
    expected = averaging_classifier_error(mu, 1.0, n)
    np.testing.assert_allclose(np.mean(true), expected, rtol=0.04)
    # the normal tail of an uncertain number is larger than that of its mean
    assert -4 * deviation < np.mean(errors) - expected < 4 * deviation + 1.5 / n


def test_the_interval_is_not_all_there_is():
    X, y, _ = mixture(200, 400, 3.0, 5)
    found, wide = forecast_overfit(X, y), forecast_overfit(X, y, confidence=0.99)
    assert 0 < wide.low < found.low < found.test_error < found.high < wide.high < 0.5
    assert found.high - found.low < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "level"), [(50, 1000, 0.5), (60, 400, 2.0)])
def test_the_forecast_is_the_test_error_of_trained_networks(n, d, level):
    rows = []
    for seed in range(24):
        X, y, mu = mixture(n, d, level, [seed, d])
        rng = np.random.default_rng([seed, 99])
        labels = np.where(rng.random(3000) < 0.5, 1.0, -1.0)
        fresh = labels[:, None] * mu + rng.standard_normal((3000, d))
        error = np.mean(labels * trained_network(X, y, fresh, seed=seed) < 0)
        found = forecast_overfit(X, y)
        rows.append((found.test_error, error, found.low <= error <= found.high))
    forecast, error, covered = np.mean(rows, axis=0)
    deviation = np.std([row[0] - row[1] for row in rows], ddof=1) / np.sqrt(len(rows))
    assert abs(forecast - error) < 4 * deviation + 0.005
    assert covered > 0.7


def test_the_forecast_for_more_rows_is_that_of_the_formula():
    X, y, mu = mixture(400, 200, 40.0, 6)
    found = forecast_overfit(X, y, n=[50, 400, 800])
    lines = np.array([found.curve.test_error, *found.curve.interval])
    np.testing.assert_allclose(lines[:, 1], [found.test_error, found.low, found.high], rtol=1e-12)
    for size, error, low, high in zip(found.curve.n, *lines, strict=True):
        assert low < averaging_classifier_error(mu, 1.0, size) < high
        assert low < error < high
    assert (np.diff(lines, axis=1) < 0).all()


def test_no_signal_gives_one_half_and_says_so():
    X, y, _ = mixture(60, 300, 0.0, 7)
    found = forecast_overfit(X, y)
    assert found.high == 0.5
    assert found.test_error > 0.4
    assert "cannot be told apart" in str(found)


def test_more_rows_than_effective_dimensions_are_named():
    X, y, _ = mixture(60, 1000, 3.0, 8)
    found = forecast_overfit(X, y)
    assert found.in_range
    np.testing.assert_allclose(found.effective_rank, 1000, rtol=0.25)
    assert "effective dimensions" not in str(found)
    assert "\n" not in str(found)
    few = forecast_overfit(X[:, :20], y)
    assert not few.in_range
    assert "effective dimensions" in str(few)
    assert few.curve.n.max() < 5 * few.effective_rank < 16 * 60


def test_the_figure_shows_forecast_and_scores():
    X, y, _ = mixture(60, 300, 3.0, 9)
    growth, scores = forecast_overfit(X, y).figure().axes
    assert growth.get_xscale() == "log"
    assert growth.get_ylabel() == "test error"
    assert scores.get_legend() is not None


@pytest.mark.parametrize("entry", [1e-40, 1e40])
def test_extreme_scales_are_legal(entry):
    X, y, _ = mixture(30, 50, 2.0, 10)
    assert 0 <= forecast_overfit(entry * X, y).test_error <= 0.5


def good():
    return mixture(40, 30, 2.0, 11)[:2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[::3], y[::3]), "X must have at least 20 rows.*got 14"),
        (lambda X, y: (X, np.ones(40)), "exactly 2 different labels, got 1: 1"),
        (lambda X, y: (X, np.arange(40) % 3), "exactly 2 different labels, got 3: 0, 1, 2"),
        (lambda X, y: (X, np.linspace(0, 1, 40)), "exactly 2 different labels, got 40"),
        (lambda X, y: (X, np.where(np.arange(40) == 3, np.nan, y)), "y must be finite"),
        (lambda X, y: (X, np.array([None, 1] * 20, dtype=object)), "y must have no missing labels"),
        (lambda X, y: (np.where(np.arange(30) == 2, np.nan, X), y), "X must be finite"),
        (lambda X, y: (X, np.where(np.arange(40) < 9, 1, -1)), "30% of its labels in each class, got 9 of 40"),
        (lambda X, y: (X, y[:-1]), r"y must have shape \(40,\)"),
        (lambda X, y: (X[0], y), "X must have 2 dimension"),
        (lambda X, y: (np.ones((40, 3)), y), "X must vary"),
        (lambda X, y: (X[:, :3], y), "at most 5 rows for each of .* effective dimensions"),
        (lambda X, y: (np.outer(y, np.ones(3)), y), "X must vary within the classes"),
    ],
)
def test_what_cannot_be_forecast_is_refused_with_the_reason(change, message):
    with pytest.raises(InputError, match=message):
        forecast_overfit(*change(*good()))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"confidence": 1.0}, "confidence must be"),
        ({"n": [2.5]}, "n must be whole"),
        ({"n": [10_000]}, "n must be at most"),
    ],
)
def test_wrong_options_are_refused(option, message):
    with pytest.raises(InputError, match=message):
        forecast_overfit(*good(), **option)
