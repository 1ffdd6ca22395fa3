"""Overfitting and label noise: the studies against closed forms, the direct simulation and published numbers."""

import dataclasses

import numpy as np
import pytest

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def simulated(study, name, values, seeds):
    """Outputs of a study with axes for the values of one traced parameter and for seeds, as the lab runs it."""

    def one(key, number):
        return dataclasses.replace(study, **{name: number}).simulate(key)

    keys = jax.random.split(jax.random.key(0), (len(values), seeds))
    found = jax.jit(jax.vmap(jax.vmap(one, (0, None))))(keys, np.array(values, float))
    return jax.tree.map(np.asarray, found)


@pytest.mark.slow
def test_overfitting_turns_from_harmful_to_benign_with_the_signal():
    """The theory note has errors .515 and 0 with 6 seeds at n = 20, q = 3."""
    from unlazy.studies.signal_noise.benign_overfitting import BenignOverfitting

    study = BenignOverfitting(power=3, n=20, largest_n=20, largest_width=10)
    found = simulated(study, "signal_strength", [0.3, 10.0], 8)
    assert (found["training_loss"] <= 0.05).all()
    assert found["test_error"][0].mean() > 0.45
    assert np.median(found["test_error"][1]) == 0
    np.testing.assert_allclose(found["signal_growth"], found["signal_growth_law"], rtol=0.05)
    np.testing.assert_allclose(found["noise_growth"], found["noise_growth_law"], rtol=0.05)
    # The faster one has nearly doubled: the laws were tested where growth is not linear.
    assert found["noise_growth"][0, :, -1].min() > 1.8
    assert np.median(found["signal_growth"][1, :, -1]) > 1.8


@pytest.mark.slow
def test_the_relu_error_is_the_measured_one_and_not_that_of_half_active_pairs():
    """The theory note measured .114 +- .004 at Lambda = 1, n = 20, d = 1e5 with twice the width."""
    from unlazy.studies.signal_noise.benign_overfitting_relu import BenignOverfittingRelu
    from unlazy.theory.signal_noise.relu_overfitting import relu_error

    study = BenignOverfittingRelu(n=20, width=20, largest_n=20, largest_width=20)
    found = simulated(study, "signal_level", [1.0], 32)
    error = found["test_error"][0]
    standard_error = np.hypot(error.std(ddof=1) / np.sqrt(32), 0.004)
    assert abs(error.mean() - 0.114) < 4 * standard_error < 0.2 * 0.114
    assert error.mean() > 2 * relu_error(1.0, 0.5)
    assert (found["training_loss"] <= 0.02).all()
    # All neurons carry gamma, and gamma / rho = n SNR^2 / 2 while logistic factors are equal.
    ratio = found["mean_signal_coefficient"][0, :, 0] / found["mean_noise_coefficient"][0, :, 0]
    np.testing.assert_allclose(ratio, np.sqrt(20 / 1e5) / 2, rtol=0.02)


@pytest.mark.slow
def test_clean_labels_are_fitted_before_flipped_ones():
    """The theory note has (.873, .443, .769) for signal, clean and flipped noise after 30 steps, with 6 seeds."""
    from unlazy.studies.signal_noise.label_noise_stages import STEPS, LabelNoiseStages

    study = LabelNoiseStages(d=300.0, signal_strength=6.0, flip_probability=0.2, width=10, largest_width=10)
    found = jax.tree.map(lambda array: array[0], simulated(study, "relative_step_size", [0.1], 16))
    early, middle = STEPS.index(10), STEPS.index(30)
    for name, published in (("mean_signal_coefficient", 0.873), ("clean_noise", 0.443), ("flipped_noise", 0.769)):
        values = found[name][:, middle]
        standard_error = values.std(ddof=1) * np.sqrt(1 / 16 + 1 / 6)
        assert abs(values.mean() - published) < 4 * standard_error < 0.2 * published
    assert found["clean_fit"][:, early].min() > 0.95
    assert found["flipped_fit"][:, early].mean() < 0.35
    assert found["flipped_fit"][:, -1].min() == 1
    assert found["test_error"][:, early].max() == 0
    assert found["test_error"][:, -1].mean() > 0


def test_the_race_has_no_skill_if_it_knows_n_and_strength_alone_and_full_skill_if_it_knows_all():
    import xarray as xr

    from unlazy.lab import Part
    from unlazy.studies.signal_noise.benign_overfitting import BenignOverfitting

    race = next(claim for claim in BenignOverfitting.claims if claim.id == "race")
    rng = np.random.default_rng(0)
    dims = ("power", "n", "signal_strength", "seed")
    chance = np.array([0.2, 0.5, 0.8, 0.99])
    benign = (rng.random((1, 2, 4, 4000)) < chance[:, None]).astype(float)
    guess = (rng.random(benign.shape) < chance[:, None]).astype(float)
    coordinates = {"power": [3], "n": [10, 20], "signal_strength": [1.0, 2.0, 3.0, 9.0]}
    predicted = xr.Dataset({"benign": (dims[:3], np.broadcast_to(chance, (1, 2, 4)))}, coordinates)

    def skill(said):
        data = xr.Dataset({"benign": (dims, benign), "race_benign": (dims, said)}, coordinates)
        return float(race.number(Part(data, predicted)))

    assert skill(benign) == 1
    # Six cells of 4000 runs: a difference of proportions has a deviation of at most 0.02 in each.
    assert abs(skill(guess)) < 4 * 0.02 / np.sqrt(6)
    half = np.where(rng.random(benign.shape) < 0.5, benign, guess)
    assert abs(skill(half) - 0.5) < 0.05


@pytest.mark.slow
def test_label_flips_keep_a_network_from_memorising_noise():
    """Gradient descent on the same samples guesses; with flips the loss ends at -log(1 - p)."""
    from unlazy.studies.signal_noise.label_noise_gradient_descent import LabelNoiseGradientDescent

    study = LabelNoiseGradientDescent(largest_width=10, steps=600)
    found = simulated(study, "flip_probability", [0.0, 0.2], 8)
    plain, noisy = ({name: values[k] for name, values in found.items()} for k in (0, 1))
    assert plain["test_error"][:, -1].min() > 0.4
    assert plain["training_loss"][:, -1].max() < 0.01
    assert noisy["test_error"][:, -1].max() < 0.05
    assert noisy["training_loss"][:, -5:].mean() == pytest.approx(-np.log(0.8), abs=0.03)
    assert (noisy["signal_coefficient"][:, -1] > noisy["noise_coefficient"][:, -1]).all()
    assert (plain["signal_coefficient"][:, -1] < 0.1 * plain["noise_coefficient"][:, -1]).all()
