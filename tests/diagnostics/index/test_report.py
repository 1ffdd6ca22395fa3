"""`index_report` on drawn index models, against theory, brute force over pairs and permutations, and on bad input."""

import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics import index_report
from unlazy.diagnostics.index.evidence import Slices, even_part, linear_part, slices_of
from unlazy.functions.elementwise import LINKS


def model(name, n, d, noise=0.1, seed=0):
    rng = np.random.default_rng([seed, n, d])
    X = rng.standard_normal((n, d))
    theta = rng.standard_normal(d)
    signal = LINKS[name](X @ theta / np.linalg.norm(theta)) if name else 0.0
    return X, signal + noise * rng.standard_normal(n)


@pytest.mark.parametrize("part", [linear_part, even_part])
def test_estimates_are_means_over_pairs(part):
    rng = np.random.default_rng(0)
    n, d = 40, 5
    rows, number = rng.standard_normal((n, d)), np.sort(rng.integers(0, 4, n))
    gram = rows @ rows.T
    norms = np.diag(gram)
    kernel = gram if part is linear_part else (gram**2 - np.outer(norms, norms) / d) / (2 * (1 - 1 / d))
    apart = ~np.eye(n, dtype=bool)
    expected = -kernel[apart].mean()
    for h in range(4):
        here = number == h
        expected += here.mean() * kernel[np.ix_(here, here)][apart[np.ix_(here, here)]].mean()
    assert part(rows, Slices(number, np.bincount(number))).square == pytest.approx(expected)


@pytest.mark.parametrize("name", ["He3", "relu"])
def test_estimates_are_those_of_the_slices(name):
    """Of the same slices of very many z, whose E[h_k | slice] are means."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal(200_000)
    y = LINKS[name](z) + 0.2 * rng.standard_normal(z.size)
    fine = slices_of(y, 12)
    shares = fine.counts / z.size
    for part, values in ((linear_part, z), (even_part, (z**2 - 1) / math.sqrt(2))):
        expected = float(shares @ (np.bincount(fine.part, values) / fine.counts) ** 2)
        found = []
        for _ in range(60):
            x = rng.standard_normal((2000, 8))
            labels = LINKS[name](x[:, 0]) + 0.2 * rng.standard_normal(2000)
            found.append(part(x, slices_of(labels, 12)).square)
        error = np.std(found, ddof=1) / math.sqrt(60)
        assert abs(np.mean(found) - expected) < 4 * error
        assert abs(np.mean(found) - 0.8 * expected) > 4 * error


def test_slices_keep_equal_labels_together_and_have_pairs():
    rng = np.random.default_rng(2)
    for labels in (rng.integers(0, 3, 100), np.maximum(rng.standard_normal(100), 0), rng.standard_normal(100)):
        found = slices_of(labels.astype(float), 10)
        assert found.counts.min() >= 2
        assert found.counts.sum() == 100
        for value in np.unique(labels):
            assert np.unique(found.part[labels == value]).size == 1
    assert slices_of(np.array([0.0] * 50 + [1.0] * 50), 10).counts.tolist() == [50, 50]
    assert slices_of(np.array([0.0] * 99 + [1.0]), 10).counts.tolist() == [100]


@pytest.mark.parametrize(("name", "carrier"), [("tanh", "linear"), ("He2", "even"), ("He3", "linear"), ("He4", "even")])
def test_the_part_that_carries_the_signal_is_named(name, carrier):
    report = index_report(*model(name, 500, 25), permutations=99)
    assert report.verdict == "spectral works"
    assert carrier in report.carriers
    assert report.p_values[("linear", "even").index(carrier)] == 0.01
    assert 25 < report.recommended_rows < 500
    if carrier == "even":
        assert report.carriers == ("even",)
        assert report.rows_needed[0] == (math.inf, math.inf)


def test_what_the_data_cannot_show_is_not_claimed():
    hard = index_report(*model("z2exp", 1500, 12, noise=0.02), permutations=99)
    assert hard.verdict == "needs hard search"
    assert hard.carriers == ()
    assert max(high for _, high in hard.intervals) < 0.15
    few = index_report(*model("", 100, 20, noise=1.0, seed=1), permutations=99)
    assert few.verdict == "no signal seen"
    assert few.recommended_rows == math.inf


@pytest.mark.slow
def test_noise_is_taken_for_signal_no_more_often_than_the_level_says():
    rng = np.random.default_rng(3)
    runs, seen = 80, 0
    for seed in range(runs):
        X = rng.lognormal(size=(60, 6)) if seed % 2 else rng.standard_normal((60, 6))
        seen += bool(
            index_report(
                X, rng.standard_cauchy(60), permutations=39, significance_level=0.2, random_state=seed
            ).carriers
        )
    # at most level * runs = 16 are expected, with a deviation of 3.6
    assert seen <= 16 + 4 * math.sqrt(runs * 0.2 * 0.8)
    assert seen > 0


def test_scales_shifts_constant_and_repeated_columns_change_nothing():
    X, y = model("He3", 400, 10)
    plain = index_report(X, y, permutations=39)
    moved = np.column_stack([X * np.geomspace(1e-8, 1e8, 10) + 3, np.full(400, 7.0)])
    other = index_report(moved, 5 * y - 2, permutations=39)
    assert other.d == 10
    np.testing.assert_allclose(other.squared_correlations, plain.squared_correlations, rtol=1e-6)
    assert other.p_values == plain.p_values
    assert index_report(np.column_stack([X, X[:, 0]]), y, permutations=39).d == 10


def test_binary_labels():
    X, y = model("tanh", 300, 10, noise=0.3)
    report = index_report(X, (y > 0).astype(float), permutations=99)
    assert report.slices == (2, 2)
    assert "linear" in report.carriers


def test_the_page_says_what_was_found():
    report = index_report(*model("He2", 600, 20), permutations=99)
    page = str(report)
    assert "spectral works" in page
    assert "even part    seen, p <= 0.01" in page
    assert "linear part  not seen" in page
    assert max(map(len, page.splitlines())) <= 100
    assert len(report.figure().axes) == 2
    assert len(index_report(*model("", 100, 20, noise=1.0, seed=1), permutations=39).figure().axes) == 2


def test_wrong_input_is_refused_with_a_hint():
    X, y = model("He3", 100, 10)
    for arguments, match in (
        ((X[:15], y[:15]), "at least 20 rows, twice its 10 directions, got 15: use ridge"),
        ((X, np.ones(100)), "y must vary, got 1 in every row"),
        ((np.where(X > 2, np.nan, X), y), "X must be finite"),
        ((X, np.append(y[:-1], np.nan)), "y must be finite"),
        ((X, y[:50]), "y must have 100 entries"),
        ((X[:, :1], y), "at least 2 directions, got 1"),
        ((np.ones((100, 3)), y), "at least 2 directions, got 0"),
        ((X[:, 0], y), "X must have 2 dimension"),
    ):
        with pytest.raises(InputError, match=match):
            index_report(*arguments)
    for options, match in (
        ({"target_overlap": 1.0}, "target_overlap must be > 0 and < 1"),
        ({"significance_level": 0.0}, "significance_level must be"),
        ({"confidence": 2.0}, "confidence must be"),
        ({"permutations": 3}, "permutations must be an integer >= 39"),
        ({"random_state": "x"}, "random_state must be an integer >= 0"),
    ):
        with pytest.raises(InputError, match=match):
            index_report(X, y, **options)
