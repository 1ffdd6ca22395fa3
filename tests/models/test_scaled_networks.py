import jax
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.models.scaled_networks import ScaledCNN, ScaledMLP

rng = np.random.default_rng(0)


def test_convolutions_are_those_of_xla():
    image = rng.standard_normal((14, 16, 3)).astype(np.float32)
    network = ScaledCNN.random(rng, image.shape, 5, outputs=2, activation="tanh")
    h = image.transpose(2, 0, 1)[None]
    for weights, multiplier in zip(network.layers[:-1], network.multipliers, strict=False):
        h = np.tanh(multiplier * jax.lax.conv_general_dilated(h, weights, (2, 2), "VALID"))
    expected = network.multipliers[-1] * network.layers[-1] @ h[0].mean(axis=(1, 2))
    np.testing.assert_allclose(network(image), expected, rtol=2e-5)


@pytest.mark.parametrize(("parametrisation", "variance"), [("standard", 1.0), ("ntk", 1.0), ("mup", 1 / 64)])
def test_outputs_at_the_start_have_the_variance_of_the_parametrisation(parametrisation, variance):
    row = np.ones(30, np.float32)
    options = {"depth": 3, "parametrisation": parametrisation, "activation": "erf"}
    outputs = np.array([ScaledMLP.random(rng, row.shape, 64, **options)(row)[0] for _ in range(600)])
    ratio = np.mean(outputs**2) / variance
    # widths of 64 make the tails heavier than a normal law's
    assert abs(ratio - 1) < 4 * np.std(outputs**2 / variance) / np.sqrt(len(outputs))


def test_images_that_are_too_small_and_unknown_parametrisations_are_refused():
    with pytest.raises(InputError, match="3 convolutions need images"):
        ScaledCNN.random(rng, (14, 14, 1), 8, depth=3)
    with pytest.raises(InputError, match="parametrisation must be one of"):
        ScaledMLP.random(rng, (4,), 8, parametrisation="lazy")
