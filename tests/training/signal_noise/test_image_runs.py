"""Runs on small made-up images: what each argument does, next to the same computed otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.data.images import DrawnImages
from unlazy.training.signal_noise.image_runs import _either, _uphill, optimiser_run, wrong_label_run

OPTIONS = {"width": 2, "batch_size": 8, "step_size": 3e-3, "steps": 30, "record_at": [0, 30]}


@pytest.fixture(scope="module")
def drawn():
    """Each class is a bright place of its own."""
    rng = np.random.default_rng(0)

    def part(count):
        classes = rng.integers(10, size=count).astype(np.int32)
        images = 0.3 * rng.standard_normal((count, 8, 8, 1)).astype(np.float32)
        images[np.arange(count), classes % 8, classes // 2, 0] += 4
        return images, classes

    return DrawnImages(*part(40), *part(30), *part(50))


def run(drawn, *, flip_probability=0.25, fresh_flip_probability=0.0, radius=0.0, **options):
    chosen = {"fresh_flip_probability": fresh_flip_probability, "radius": radius, **OPTIONS, **options}
    return wrong_label_run(np.random.default_rng(1), drawn, flip_probability=flip_probability, **chosen)


def test_wrong_labels_are_wrong_and_of_the_share_that_is_asked_for(drawn):
    start = run(drawn)
    # before training all scores are 0 and the first class is guessed
    rng = np.random.default_rng(1)
    wrong = np.arange(40) < 10
    labels = np.where(wrong, (drawn.classes + rng.integers(1, 10, 40)) % 10, drawn.classes)
    assert (labels != drawn.classes).sum() == 10
    assert start["clean_fit"][0] == pytest.approx((labels[~wrong] == 0).mean())
    assert start["flipped_fit"][0] == pytest.approx((labels[wrong] == 0).mean())
    assert start["flipped_recovered"][0] == pytest.approx((drawn.classes[wrong] == 0).mean())
    assert start["held_out_accuracy"][0] == pytest.approx((drawn.fresh_classes == 0).mean())
    assert start["training_loss"][0] == pytest.approx(np.log(10), rel=1e-5)
    assert start["diverged_at"] == -1


def test_fresh_flips_and_steps_uphill_change_the_run_and_nothing_else_does(drawn):
    plain, again = run(drawn), run(drawn)
    np.testing.assert_array_equal(plain["training_loss"], again["training_loss"])
    for changed in ({"radius": 0.1}, {"fresh_flip_probability": 0.3}):
        assert abs(run(drawn, **changed)["training_loss"][-1] - plain["training_loss"][-1]) > 1e-3


def test_the_step_uphill_has_its_radius_and_the_direction_of_the_gradient():
    weights = {"a": jnp.array([1.0, 2.0]), "b": jnp.array(-2.0)}

    def loss(weights):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(weights)) / 2

    moved = _uphill(loss, weights, jnp.float32(0.3))
    np.testing.assert_allclose(moved["a"], np.array([1.0, 2.0]) * (1 + 0.3 / 3), rtol=1e-6)
    slope = jax.grad(lambda w: loss(_uphill(loss, w, jnp.float32(0.3))))(weights)
    # the gradient there, as if the step did not depend on the weights
    np.testing.assert_allclose(slope["b"], -2.0 * 1.1, rtol=1e-6)
    np.testing.assert_array_equal(_uphill(loss, weights, jnp.float32(0.0))["a"], weights["a"])


@pytest.mark.parametrize("adaptive", [False, True])
def test_one_program_serves_both_optimisers(adaptive):
    wanted = optax.adam(0.1) if adaptive else optax.sgd(0.1, momentum=0.9)
    found = _either(jnp.bool_(adaptive), jnp.float32(0.1))
    weights = jnp.array([1.0, -2.0])
    states = wanted.init(weights), found.init(weights)
    for slope in (jnp.array([0.5, 1.0]), jnp.array([-0.2, 3.0])):
        (first, kept), (second, other) = wanted.update(slope, states[0]), found.update(slope, states[1])
        np.testing.assert_allclose(first, second, rtol=1e-5)
        states = kept, other


@pytest.mark.parametrize("network", ["mlp", "vgg"])
def test_filters_are_what_was_learned(drawn, network):
    options = {"width": 4, "filter_size": 3, "batch_size": 8, "steps": 60, "network": network}
    found = optimiser_run(np.random.default_rng(2), drawn, optimiser="adam", step_size=1e-2, **options)
    side = 8 if network == "mlp" else 3
    assert found["filters"].shape == (side, side, 4)
    changes = np.square(found["filters"]).sum(axis=(0, 1))
    assert (np.diff(changes) <= 0).all()
    assert 0 < found["fine_share"] < 1
    assert found["test_error"] < 0.7
