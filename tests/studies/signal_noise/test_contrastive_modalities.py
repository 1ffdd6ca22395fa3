"""The study contrastive-modalities: token coordinates against explicit weights, the loss by hand, the probe."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.studies.signal_noise.contrastive_modalities import ContrastiveModalities
from unlazy.studies.signal_noise.shared.contrastive import (
    Encoder,
    Modality,
    contrast,
    draw_modality,
    embed,
    learn,
    probe_error,
)

pytestmark = pytest.mark.usefixtures("optimised")
Y = np.tile([1.0, -1.0], 4)


def draw(seed, norm, *, neurons=6, d=30, start=0.05):
    return draw_modality(jax.random.key(seed), len(Y), d, neurons, norm, neurons, start)


def explicit_loss(weights, other_weights, tokens, other_tokens, augmentation):
    """The loss in d dimensions, sample by sample, with the second argument held fixed."""
    n = len(Y)
    fixed = jax.lax.stop_gradient(other_weights)
    total = 0.0
    for i in range(n):
        patches = Y[i] * tokens[0], tokens[1 + i]
        scores = []
        for j in (i, *(j for j in range(n) if Y[j] != Y[i])):
            partners = Y[j] * other_tokens[0], other_tokens[1 + j] + augmentation * other_tokens[1 + n + j]
            pairs = zip(patches, partners, strict=True)
            scores.append(sum(jax.nn.relu(weights @ a) @ jax.nn.relu(fixed @ b) for a, b in pairs))
        total += jax.nn.logsumexp(jnp.stack(scores)) - scores[0]
    return total / n


slope = jax.jit(jax.grad(explicit_loss))


@pytest.mark.parametrize("two", [False, True])
def test_token_coordinates_are_gradient_descent_in_d_dimensions(two):
    with jax.enable_x64(True):
        first, second = draw(0, 2.0), draw(1, 4.0)
        setting = {"augmentation": 0.5, "learning_rate": 0.02, "steps": 25, "target": 1e-9}
        learned = jax.jit(partial(learn, two=two, **setting))(first, second, jnp.asarray(Y))
        weights, others = first.weights, second.weights
        for _ in range(25):
            if two:
                steps = (
                    slope(weights, others, first.tokens, second.tokens, 0.0),
                    slope(others, weights, second.tokens, first.tokens, 0.0),
                )
                weights, others = weights - 0.02 * steps[0], others - 0.02 * steps[1]
            else:
                weights = weights - 0.02 * slope(weights, weights, first.tokens, first.tokens, 0.5)
        found = first.weights + learned.encoder.coefficients @ first.tokens[: len(Y) + 1]
        assert np.abs(weights - first.weights).max() > 0.05
        np.testing.assert_allclose(found, weights, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(learned.encoder.preactivations, weights @ first.tokens.T, rtol=1e-8, atol=1e-10)


def test_embeddings_that_tell_nothing_have_the_loss_of_guessing():
    modality = draw(2, 1.0, start=1e-9)
    found = embed(modality.weights @ modality.tokens.T, jnp.asarray(Y))
    assert contrast(found, found, jnp.asarray(Y)) == pytest.approx(np.log(1 + len(Y) / 2), rel=1e-5)


def test_the_loss_by_hand_for_two_samples():
    """One neuron on each patch: similarities 4 + 1 with the positive, 0 + 2 with the negative, and the like."""
    first = jnp.array([[2.0], [0.0]]), jnp.array([[1.0], [3.0]])
    second = jnp.array([[2.0], [0.0]]), jnp.array([[1.0], [2.0]])
    expected = (np.log1p(np.exp(2.0 - 5.0)) + np.log1p(np.exp(3.0 - 6.0))) / 2
    assert contrast(first, second, jnp.array([1.0, -1.0])) == pytest.approx(expected, rel=1e-6)


def test_the_probe_reads_a_signal_and_nothing_else():
    n, d, neurons = 8, 200, 10
    modality = draw_modality(jax.random.key(3), n, d, neurons, 10.0, neurons, 0.01)
    blind = modality.weights.at[:, 0].set(0.0)
    seeing = blind.at[:, 0].set(jnp.where(jnp.arange(neurons) % 2 == 0, 1.0, -1.0))
    errors = []
    for weights in (blind, seeing):
        encoder = Encoder(weights @ modality.tokens.T, jnp.zeros((neurons, n + 1)))
        errors.append(probe_error(jax.random.key(4), Modality(modality.tokens, weights), encoder, n))
    # 400 fresh samples: four standard errors of a fair coin are 0.1.
    assert abs(errors[0] - 0.5) < 0.1
    assert errors[1] == 0


def test_absent_neurons_stay_absent():
    first, second = (draw_modality(jax.random.key(k), 8, 30, 6, 2.0, 4, 0.05) for k in (5, 6))
    learned = learn(
        first, second, jnp.asarray(Y), two=True, augmentation=0.5, learning_rate=0.02, steps=25, target=0.01
    )
    assert (learned.encoder.preactivations[4:] == 0).all()
    assert (learned.encoder.coefficients[4:] == 0).all()
    assert (learned.encoder.coefficients[:4] != 0).any()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run("contrastive-modalities", over={"width": [24]}, set={"most_neurons": 24}, seeds=6, store=store)


def test_the_signal_grows_early_at_the_predicted_factor(run):
    small = run.parts["small"]
    growth, expected = small.simulated.signal_growth.mean("seed"), small.predicted.signal_growth
    error = small.simulated.signal_growth.std("seed") / np.sqrt(6)
    assert (abs(growth - expected) < 4 * error + 1e-3).all()
    # The rates themselves, 20% off, would be seen.
    assert (abs(growth - (1 + 1.2 * (expected - 1))) > 4 * error + 1e-3).all()


def test_two_modalities_learn_what_one_memorises(run):
    data = run.parts["main"].simulated.sel(strength=0.6).isel(width=0)
    single, strong = data.isel(modalities=0), data.isel(modalities=-1)
    assert (single.modalities, strong.gain) == (1, 8)
    assert (single.balance < 0.1).all()
    assert (strong.balance > 1).all()
    assert single.probe.mean() > 0.15
    assert (strong.probe < 0.02).all()


def test_the_declared_criterion_fails_at_rate_1_2(run):
    verdict = next(v for v in run.verdicts if v.claim.id == "signal-rate")
    assert verdict.verdict == "fails"
    assert verdict.claim.known_negative


def test_the_figure_has_a_row_for_each_size_of_the_start(run):
    assert len(run.figure().axes) == 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n": 5}, "n must be even"),
        ({"width": 50}, "width must be at most"),
        ({"steps": 30}, "steps must be more than"),
    ],
)
def test_impossible_sizes_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        ContrastiveModalities(**wrong).validate()
