"""sign-gradient-descent-transformer: the first step by brute force, the role of the basis, both rules on one sample."""

import jax
import numpy as np
import pytest

import unlazy
from unlazy.studies.signal_noise.sign_gradient_descent_transformer import RULES, SIGN, SignGradientDescentTransformer


@pytest.mark.parametrize("signal_coordinates", [1, 20, 60])
def test_the_first_sign_step_has_the_predicted_balance(signal_coordinates):
    """Drawn in NumPy without a network: signs of the sum of all tokens times their labels."""
    n, d, tokens, signal_strength = 20, 200, 3, 1.0
    rng, y = np.random.default_rng(signal_coordinates), np.tile([1.0, -1.0], 10)
    mu = np.where(np.arange(d) < signal_coordinates, np.sqrt(signal_strength * d / n / signal_coordinates), 0.0)
    signal, noise = [], []
    for _ in range(400):
        xi = rng.standard_normal((n, tokens - 1, d))
        step = np.sign(n * mu + np.einsum("i,ild->d", y, xi))
        signal.append(step @ mu)
        noise.append(np.mean(y[:, None] * (xi @ step)))
    signal_law = {"signal_strength": signal_strength, "signal_coordinates": signal_coordinates}
    expected = SignGradientDescentTransformer(n=n, d=d, tokens=tokens, **signal_law).predict()["balance"][1]
    ratio = np.mean(signal) / np.mean(noise)
    error = ratio * np.hypot(np.std(signal) / np.mean(signal), np.std(noise) / np.mean(noise)) / np.sqrt(400)
    assert abs(ratio - expected) < 4 * error
    assert abs(ratio - 1.2 * expected) > 4 * error


def test_a_sign_step_moves_the_signal_by_the_rate():
    """Each coordinate of v moves by the rate times sum |w_o| = sqrt(width): <v, mu> by that times |mu|."""

    @jax.jit
    def signal(rate):
        study = SignGradientDescentTransformer(n=8, d=50, width=4, steps=1, signal_strength=4.0, sign_step_size=rate)
        return study.simulate(jax.random.key(0))["value_signal"][RULES.index(SIGN)]

    norm, rate = np.sqrt(4.0 * 50 / 8), 0.08
    assert signal(rate) - signal(0.0) == pytest.approx(rate / 50 * 2 * norm, rel=1e-4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run(
        "sign-gradient-descent-transformer", over={"signal_strength": [4.0, 16.0], "width": [8]}, seeds=8, store=store
    )


@pytest.mark.slow
def test_sign_descent_memorises_where_gradient_descent_learns(run):
    main = run.parts["main"].simulated
    gradient, sign = (main.sel(rule=rule) for rule in RULES)
    assert (gradient.test_error < 0.05).all()
    assert (sign.test_error > 0.1).all()
    assert (sign.training_loss < 0.021).all()
    assert (sign.balance < 1).all()
    assert (gradient.balance > 1).all()


def test_a_dense_signal_is_learned_by_signs_too(run):
    dense = run.parts["dense"].simulated.sel(rule=SIGN)
    assert (dense.test_error < 0.05).all()
    assert (dense.balance > 1).all()


def test_verdicts_are_as_documented(run):
    assert all(verdict.as_documented for verdict in run.verdicts)
    assert len(run.figure().axes) == 3
