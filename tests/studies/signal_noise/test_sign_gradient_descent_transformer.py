"""sign-gradient-descent-transformer: its laws on a small network, the role of the basis, both rules on one sample."""

import jax
import numpy as np
import pytest

import unlazy
from unlazy.studies.signal_noise.sign_gradient_descent_transformer import RULES, SIGN, SignGradientDescentTransformer
from unlazy.theory.signal_noise import noise_token_attention

BY_SIGN = RULES.index(SIGN)


def test_a_sign_step_moves_the_signal_by_the_step_size():
    """Each coordinate of v moves by the step size times sum |w_o| = sqrt(width): <v, mu> by that times |mu|_1."""

    @jax.jit
    def signal(growth):
        study = SignGradientDescentTransformer(
            n=8,
            width=4,
            steps=1,
            early_steps=1,
            signal_to_noise=2.0,
            signal_coordinates=9,
            noise_coordinates=16,
            largest_noise_coordinates=16,
            value_growth=growth,
        )
        return study.simulate(jax.random.key(0))["value_signal"][BY_SIGN]

    growth = 0.05
    assert signal(growth) - signal(0.0) == pytest.approx(growth / np.sqrt(2 * 16 / np.pi) * 2.0 * 3, rel=1e-3)


def test_scores_follow_the_square_of_the_values():
    """With steps small against the start, in eight runs: the noise token's attention at <v, xi> = 0.7 and 1.4."""

    @jax.jit
    @jax.vmap
    def early(key, growth):
        study = SignGradientDescentTransformer(
            n=8,
            width=16,
            steps=80,
            early_steps=70,
            signal_to_noise=0.1,
            noise_coordinates=32,
            largest_noise_coordinates=32,
            initial_deviation=0.01,
            value_growth=growth,
        )
        return study.simulate(key)["noise_attention"][BY_SIGN]

    for growth in (0.01, 0.02):
        found = np.asarray(early(jax.random.split(jax.random.key(0), 8), np.full(8, growth)))
        assert np.mean(found) == pytest.approx(noise_token_attention(70 * growth), abs=0.05)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run("sign-gradient-descent-transformer", over={"signal_to_noise": [0.5, 2.0]}, seeds=4, store=store)


@pytest.mark.slow
def test_sign_descent_memorises_where_gradient_descent_learns(run):
    main = run.parts["main"].simulated
    gradient, sign = (main.sel(rule=rule) for rule in RULES)
    assert (gradient.test_error < 0.05).all()
    assert (sign.training_loss < 0.021).all()
    assert (sign.balance < 1).all()
    assert (gradient.balance > 1).all()
    assert (sign.test_loss > 5 * gradient.test_loss).all()


@pytest.mark.slow
def test_a_spread_signal_is_read_by_signs_too(run):
    basis = run.parts["basis"].simulated.sel(rule=SIGN, signal_to_noise=2.0)
    assert (basis.balance.sel(signal_coordinates=64) > 1).all()
    assert (basis.balance.sel(signal_coordinates=1) < 1).all()
