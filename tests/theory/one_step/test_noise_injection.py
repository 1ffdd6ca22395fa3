import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.one_step.gradient_step import one_step_risk
from unlazy.theory.one_step.moments import activation_moments, link_moments
from unlazy.theory.one_step.noise_injection import (
    noise_averaged,
    noise_injection_equivalent,
    noise_moments,
    noise_penalty,
)

SIGN = "sign"


def equivalent(**changes):
    arguments = {
        "activation": "tanh",
        "link": SIGN,
        "samples_per_dimension": 2.5,
        "width_per_dimension": 1.5,
        "ridge": 1e-3,
    }
    return noise_injection_equivalent(**(arguments | {"noise_variance": 0.04, "input_noise_variance": 0.25} | changes))


def test_equivalent_has_its_independently_computed_values():
    found = equivalent(copies=[3, math.inf, 100])
    np.testing.assert_allclose(found.test_error, [0.759448134, 0.675776644, 0.67777], atol=4e-6)
    np.testing.assert_allclose(found.test_error[:2], [0.759448134, 0.675776644], atol=1e-9)
    np.testing.assert_allclose(found.training_error[:2], [0.369047158, 0.423915429], atol=1e-9)
    np.testing.assert_allclose(found.objective[:2], [0.372826383, 0.426365333], atol=1e-9)
    few = equivalent(samples_per_dimension=1.25, copies=[20, 1, math.inf])
    np.testing.assert_allclose(few.test_error, [0.8582, 2.75, 0.8327], rtol=1e-3)


@pytest.mark.parametrize("delta", [0.1, 0.5, 3.0])
def test_moments_of_erf_have_their_closed_forms(delta):
    found = noise_moments("erf", delta**2)
    width = 1 + delta**2
    linear = 2 / math.sqrt(math.pi * (1 + 2 * width))
    second = 2 / math.pi * math.asin(2 * width / (1 + 2 * width))
    correlation = 2 / math.pi * math.asin(2 / (1 + 2 * width))
    expected = [0, linear, correlation - linear**2, second - correlation - (linear * delta) ** 2]
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("delta", [0.05, 1.0])
def test_moments_of_relu_have_their_closed_forms(delta):
    """E relu(a) relu(b) of normal a, b with correlation cos(t) is the arc-cosine kernel of degree 1."""
    found = noise_moments("relu", delta**2)
    width = 1 + delta**2
    angle = math.acos(1 / width)
    correlation = width * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
    mean = math.sqrt(width / (2 * math.pi))
    expected = [mean, 0.5, correlation - mean**2 - 0.25, width / 2 - correlation - delta**2 / 4]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("delta", [0.0, 0.1, 0.5, 4.0])
def test_averaged_activations_have_their_closed_forms(delta):
    from scipy.special import erf, ndtr

    h = np.random.default_rng(0).normal(size=(150, 100)) * 2
    for places in (h, h[:2, :3]):
        found = noise_averaged("erf", delta**2)(places)
        np.testing.assert_allclose(found, erf(places / math.sqrt(1 + 2 * delta**2)), atol=1e-8)
        by_rule = noise_averaged(lambda x: np.maximum(x, 0), delta**2)(places)
        if delta:
            density = np.exp(-((places / delta) ** 2) / 2) / math.sqrt(2 * math.pi)
            np.testing.assert_allclose(
                by_rule, places * ndtr(places / delta) + delta * density, atol=1e-4 * (1 + delta)
            )
        else:
            np.testing.assert_allclose(by_rule, np.maximum(places, 0), atol=1e-14)


@pytest.mark.parametrize("copies", [1, 3, math.inf])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
def test_without_input_noise_it_is_ridge_on_random_features(delta, copies):
    found = equivalent(input_noise_variance=delta**2, copies=copies)
    limit = one_step_risk("tanh", SIGN, 2.5, 1.5, 1e-3, 0.04)
    np.testing.assert_allclose(limit.test_error, 1.079733454, atol=1e-9)
    np.testing.assert_allclose(found.test_error, limit.test_error, rtol=1e-6)
    np.testing.assert_allclose(found.training_error, limit.training_error, rtol=1e-6)


@pytest.mark.parametrize("copies", [1, 3, 1e15, math.inf])
def test_without_input_noise_it_is_ridge_on_random_features_at_extreme_sizes(copies):
    samples = np.array([1, 1e-10, 1e-12, 1e15, 1e15, 1.0, 2.0, 1.0, np.inf])
    features = np.array([1e15, 1e10, 1e-12, 1e-12, 1e15, 3.0, 1.0, 1.0, 3.0])
    ridge = np.array([1e-3, 1e-3, 1e-15, 1e9, 1e-3, 0.0, 0.0, 0.0, 0.0])
    found = noise_injection_equivalent(
        "tanh", SIGN, samples, features, ridge, 0.04, input_noise_variance=0.0, copies=copies
    )
    limit = one_step_risk("tanh", SIGN, samples, features, ridge, 0.04)
    np.testing.assert_allclose(found.risk, limit.risk, rtol=1e-11)
    np.testing.assert_allclose(found.training_error, limit.training_error, rtol=1e-11)
    if copies < math.inf:
        wide = noise_injection_equivalent(
            "tanh", SIGN, 2.0, math.inf, 0.1, 0.04, input_noise_variance=0.0, copies=copies
        )
        np.testing.assert_allclose(wide.risk, one_step_risk("tanh", SIGN, 2.0, math.inf, 0.1, 0.04).risk, rtol=1e-11)


def written(samples, features, ridge, noise, delta, copies):
    """Test error and objective from the equations as they are written, in 60 digits, by nested bisection."""
    with localcontext() as context:
        context.prec = 60
        clean, noisy, target = activation_moments("tanh"), noise_moments("tanh", delta**2), link_moments(SIGN)
        psi1, psi2, ridge, noise, delta, copies = (Decimal(x) for x in (samples, features, ridge, noise, delta, copies))
        mu1, mu_rest, slope, smooth, rough, b1, b_rest = (
            Decimal(x) for x in (clean.linear, clean.nonlinear, noisy.linear, noisy.smooth, noisy.rough, *target)
        )

        def weights(p_mean, p_other, shift):
            a = p_mean * slope**2 * (1 + delta**2 / copies) + p_other * (1 - 1 / copies) * slope**2 * delta**2
            b = ridge + p_mean * (smooth + rough / copies) + p_other * (1 - 1 / copies) * rough
            a, b = a + shift * mu1**2, b + shift * mu_rest
            t = b / a
            linear = t + psi2 - 1
            m = ((linear**2 + 4 * t).sqrt() - linear) / (2 * t)
            u = m + (psi2 - 1) / t
            w, v = t * m * u / a, u / a
            mean = (slope**2 * (1 + delta**2 / copies) * w + (smooth + rough / copies) * v) / psi1
            return w, mean, (slope**2 * delta**2 * w + rough * v) / (copies * psi1)

        def root(function):
            low, high = Decimal(-40), Decimal(0)
            for _ in range(110):
                middle = (low + high) / 2
                low, high = (middle, high) if function(10**middle) < 0 else (low, middle)
            return 10 ** ((low + high) / 2)

        def phi(shift):
            # p counts its own share of the shift, the equations hold for p alone
            def other(p):
                return root(lambda q: q * (1 + weights(p, q, shift)[2]) - 1)

            p = root(lambda p: p * (1 + weights(p, other(p), shift)[1]) - 1)
            w = weights(p, other(p), shift)[0]
            return (p + shift) * (b1**2 + b_rest + noise) - (p * slope + shift * mu1) ** 2 * b1**2 * w

        objective = phi(Decimal(0))
        h = objective / 10**10
        return float((phi(h) - phi(-h)) / (2 * h)), float(objective)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("samples", "features", "ridge", "copies"), [(1.0, 1e12, 1e-3, 2), (1e-6, 1e6, 1e-9, 3), (1e9, 0.01, 1e-12, 5)]
)
def test_copies_keep_their_digits_at_extreme_sizes(samples, features, ridge, copies):
    test, objective = written(samples, features, ridge, 0.04, 0.5, copies)
    found = noise_injection_equivalent(
        "tanh", SIGN, samples, features, ridge, 0.04, input_noise_variance=0.25, copies=copies
    )
    np.testing.assert_allclose([found.test_error, found.objective], [test, objective], rtol=1e-9)


def test_no_ridge_is_the_limit_of_small_ones():
    arguments = {"copies": [1, 2, 20, math.inf], "samples_per_dimension": 2.0, "width_per_dimension": 3.0}
    found, small = equivalent(ridge=0.0, **arguments), equivalent(ridge=1e-11, **arguments)
    np.testing.assert_allclose(found.risk, small.risk, rtol=1e-6)
    np.testing.assert_allclose(found.training_error, small.training_error, rtol=1e-6, atol=1e-15)
    # two copies of one and a half times as many samples as features are exactly interpolated
    assert equivalent(ridge=0.0, copies=2, samples_per_dimension=1.5, width_per_dimension=3.0).risk == math.inf


def test_many_copies_are_infinitely_many():
    many, limit = equivalent(copies=[1e3, 1e6]), equivalent(copies=math.inf)
    distance = np.abs(many.test_error - limit.test_error)
    assert distance[1] < 1e-6
    np.testing.assert_allclose(distance[0] / distance[1], 1e3, rtol=0.05)


def test_training_error_is_the_objective_without_its_penalty():
    ridge, h = 0.02, 1e-6
    above, here, below = (equivalent(ridge=r, copies=[1, 2, 10, math.inf]) for r in (ridge + h, ridge, ridge - h))
    norm = (above.objective - below.objective) / (2 * h)
    np.testing.assert_allclose(here.training_error, here.objective - ridge * norm, rtol=1e-8)
    assert (norm > 0).all()


def test_extreme_parameters_give_possible_numbers():
    rng = np.random.default_rng(0)
    for _ in range(25):
        samples, features = 10 ** rng.uniform(-2, 3, size=2)
        found = noise_injection_equivalent(
            str(rng.choice(["tanh", "erf", "relu"])),
            "tanh",
            samples,
            rng.choice([samples, features]),
            10 ** rng.uniform(-12, 3),
            rng.choice([0, 1.0]),
            input_noise_variance=100 ** rng.uniform(-3, 1),
            copies=[1, 2, 50, math.inf],
        )
        assert np.isfinite(found).all()
        assert (found.risk > -1e-9).all()
        assert (found.training_error >= -1e-12).all()
        assert (found.training_error <= found.objective).all()


def drawn(seed, d, n, neurons, ridge, delta, copies, noise):
    """Clean test and noisy training error with copies, and the clean test error with the penalty instead."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(d, neurons)) / math.sqrt(d)
    x, fresh = rng.normal(size=(n, d)), rng.normal(size=(4000, d))
    y = np.sign(x[:, 0]) + noise * rng.normal(size=n)
    target = np.sign(fresh[:, 0])
    gram, moment = np.zeros((neurons, neurons)), np.zeros(neurons)
    for _ in range(copies):
        features = np.tanh((x + delta * rng.normal(size=(n, d))) @ weights)
        gram += features.T @ features / (n * copies)
        moment += features.T @ y / (n * copies)
    b = np.linalg.solve(gram + ridge * np.eye(neurons), moment)
    training = y @ y / n - 2 * moment @ b + b @ gram @ b
    averaged = noise_averaged("tanh", delta**2)(x @ weights)
    penalty = ridge * np.eye(neurons) + noise_penalty("tanh", weights, delta**2)
    explicit = np.linalg.solve(averaged.T @ averaged / n + penalty, averaged.T @ y / n)
    clean = np.tanh(fresh @ weights)
    return [np.mean((clean @ v - target) ** 2) + noise**2 for v in (b, explicit)] + [training]


def test_copies_and_penalty_give_the_errors_of_drawn_problems():
    d, n, neurons, ridge, delta, noise = 120, 300, 180, 1e-3, 0.5, 0.2
    runs = np.array([drawn(seed, d, n, neurons, ridge, delta, 3, noise) for seed in range(10)])
    three, infinite = equivalent(copies=3), equivalent(copies=math.inf)
    for values, predicted in zip(runs.T, (three.test_error, infinite.test_error, three.training_error), strict=True):
        mean, error = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
        assert abs(mean - predicted) <= max(0.05 * predicted, 4 * error), (mean, error, predicted)
        for wrong in (0.8 * predicted, 1.2 * predicted):
            assert abs(mean - wrong) > max(0.05 * wrong, 4 * error), (mean, error, predicted)


def test_the_penalty_is_what_many_copies_do():
    copies, penalty, _ = np.mean([drawn(seed, 80, 200, 120, 1e-3, 0.5, 100, 0.2) for seed in range(4)], axis=0)
    np.testing.assert_allclose(copies, penalty, rtol=0.03)


def test_numbers_broadcast_and_scalars_give_scalars():
    assert np.shape(equivalent().risk) == ()
    assert equivalent(ridge=[0.1, 0.2], copies=[[1], [2], [3]]).risk.shape == (3, 2)
    np.testing.assert_allclose(equivalent().test_error - equivalent().risk, 0.04, rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_noise_variance": -1}, "input_noise_variance must be >= 0"),
        ({"input_noise_variance": [0.1, 0.2]}, "input_noise_variance must be one number"),
        ({"copies": 0}, "copies must be >= 1"),
        ({"ridge": -1}, "ridge must be >= 0"),
        (
            {"width_per_dimension": math.inf, "samples_per_dimension": math.inf},
            "samples_per_dimension and width_per_dimension must not both be inf",
        ),
        ({"width_per_dimension": math.inf, "copies": math.inf}, "copies and width_per_dimension must not both be inf"),
        (
            {"activation": lambda x: x**3 - 6 * x, "input_noise_variance": 1.0},
            "input_noise_variance must leave the activation a linear part",
        ),
        ({"activation": "tan"}, "activation must be one of"),
        ({"activation": lambda x: x**2}, "linear coefficient mu1"),
        ({"samples_per_dimension": 0}, "samples_per_dimension must be > 0"),
    ],
)
def test_wrong_input_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        equivalent(**changes)
