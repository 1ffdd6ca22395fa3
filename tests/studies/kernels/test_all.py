"""The studies of kernels and random features: theory against published numbers, simulation against theory."""

import numpy as np
import pytest

from unlazy.studies.kernels.kernel_noninteger import KernelNoninteger
from unlazy.studies.kernels.kernel_ridge_multiple_descent import KernelRidgeMultipleDescent
from unlazy.studies.kernels.kernel_spectrum import KernelSpectrumStudy
from unlazy.studies.kernels.kernel_universality import KernelUniversality
from unlazy.studies.kernels.random_features_bottleneck import RandomFeaturesBottleneck
from unlazy.studies.kernels.random_features_double_descent import RandomFeaturesDoubleDescent
from unlazy.studies.kernels.shared import FUNCTIONS, finite_law, limit_law


@pytest.mark.parametrize(
    ("n", "risk"), [(10, 1.39), (30, 2.59), (100, 0.725), (200, 0.641), (464, 1.412), (1400, 0.387)]
)
def test_the_staircase_has_the_published_theory(n, risk):
    assert KernelRidgeMultipleDescent(n=n, penalty=(1e-6,)).predict()["risk"] == pytest.approx([risk], rel=4e-3)


def test_few_features_have_the_published_theory():
    found = RandomFeaturesBottleneck(n=2000, width=300, penalty=(1e-4,)).predict()
    assert found["risk"] == pytest.approx([0.357], rel=3e-3)
    assert found["approximation_error"] == pytest.approx(0.288, rel=3e-3)


@pytest.mark.parametrize(("features", "risk"), [(100, 1.39), (250, 2.80), (350, 17.0), (500, 2.52), (1200, 1.07)])
def test_double_descent_has_the_published_theory(features, risk):
    found = RandomFeaturesDoubleDescent(width=features, penalty=(1e-4,)).predict()["risk"]
    assert found == pytest.approx([risk], rel=6e-3)


def test_more_features_than_samples_tend_to_the_kernel_and_more_samples_to_the_approximation_error():
    many = RandomFeaturesBottleneck(n=50, width=20_000).predict()
    np.testing.assert_allclose(many["risk"], many["kernel_risk"], rtol=0.02)
    long = RandomFeaturesBottleneck(n=20_000, width=30).predict()
    np.testing.assert_allclose(long["risk"], long["approximation_error"], rtol=0.02)


@pytest.mark.parametrize("study", [KernelRidgeMultipleDescent, RandomFeaturesBottleneck, RandomFeaturesDoubleDescent])
def test_small_instances_agree_with_the_theory(study):
    small = {KernelRidgeMultipleDescent: {"n": 120}, RandomFeaturesBottleneck: {"n": 60, "width": 200}}.get(
        study, {"n": 60, "width": 200}
    )
    instance = study(**small)
    draws = np.array([instance.simulate(np.random.default_rng(seed))["risk"] for seed in range(12)])
    theory = instance.predict()["risk"]
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    # the equivalent is exact to leading order: allow 4% for its finite-size error
    slack = 4 * error + 0.04 * theory
    assert (abs(draws.mean(axis=0) - theory) < slack).all()
    assert (abs(draws.mean(axis=0) - 1.2 * theory) > slack).all()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("law", ["sphere", "rademacher"])
def test_the_laws_have_the_variance_of_the_function_of_drawn_inner_products(function, law):
    from unlazy.data.unit_vectors import unit_vectors

    rng = np.random.default_rng(3)
    rows, others = (unit_vectors(rng, 100_000, 21, law) for _ in range(2))
    squares = FUNCTIONS[function](np.sqrt(21) * np.sum(rows * others, axis=1)) ** 2
    error = squares.std() / np.sqrt(squares.size)
    variance = finite_law(function, 300, 21, law).moments(2)[1]
    assert abs(squares.mean() - variance) < 4 * error + 1e-12
    assert abs(squares.mean() - 1.2 * variance) > 4 * error


def test_the_limit_between_integers_is_a_semicircle_of_the_higher_degrees():
    law = limit_law("0.6he2+0.8he3", 1000, 100, 1.5)
    np.testing.assert_allclose(law.edges, [[-2.0, 2.0]], atol=1e-9)
    assert limit_law("he2+0.5he3", 1500, 45, 2).moments(2)[1] == pytest.approx(1.25)


@pytest.mark.parametrize(
    "instance",
    [
        KernelSpectrumStudy(n=300, d=20),
        KernelUniversality(n=300, d=24, law="rademacher"),
        KernelNoninteger(d=40),
    ],
)
def test_simulated_spectra_are_near_the_finite_size_law_and_not_near_a_stretched_one(instance):
    found = instance.simulate(np.random.default_rng(4))
    assert found["finite_distance"] < 0.04
    predicted = instance.predict()["eigenvalue"]
    spread = np.abs(predicted).mean()
    assert np.abs(found["eigenvalue"] - predicted).mean() < 0.06 * spread
    assert np.abs(found["eigenvalue"] - 1.2 * predicted).mean() > 0.06 * spread


@pytest.mark.parametrize(("function", "count"), [("relu", 31), ("tanh", 30), ("sign", 30)])
def test_a_function_has_its_linear_outliers_and_one_for_its_mean(function, count):
    study = KernelSpectrumStudy(n=500, d=30, kernel_function=function)
    assert study.simulate(np.random.default_rng(5))["outliers"] == count
    assert study.predict()["outliers"] == pytest.approx(count, rel=1e-6)
