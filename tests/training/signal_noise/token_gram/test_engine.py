"""The engine against automatic differentiation in d dimensions, and against values computed outside of the package."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.checks import InputError
from unlazy.optim import label_noise, sam_then
from unlazy.optim import mixup as optim_mixup
from unlazy.training import loop
from unlazy.training.signal_noise.token_gram import (
    CUBE,
    SQUARED,
    Mixing,
    Network,
    Patch,
    PatchDesign,
    PatchProblem,
    SeenBatch,
    UpdateRule,
    draw_signal_noise,
    from_vectors,
    full_batch,
    gradient_descent,
    gradient_flow,
    init,
    label_flips,
    mini_batch,
    mixup,
    muon,
    normalised,
    paired_second_layer,
    relu_power,
    signal_noise_design,
    step,
    switch,
    train,
)
from unlazy.training.signal_noise.token_gram.network import mean_loss

KEY = jax.random.key(0)
SAMPLES, WIDTH, DIMENSION = 6, 3, 60
QUADRATIC = Network(relu_power(2))


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def vectors():
    """Shared token, own tokens and initial weights in d = 60 dimensions, with mu not orthogonal to the noise."""
    rng = np.random.default_rng(0)
    mu = np.zeros((1, DIMENSION))
    mu[0, 0] = 2.0
    return mu, rng.normal(size=(SAMPLES, 1, DIMENSION)) / 2, 0.1 * rng.normal(size=(2 * WIDTH, DIMENSION))


class Vectors(NamedTuple):
    """Explicit patches (P, n, d), first layer (R, d) and second layer (R,)."""

    patches: jax.Array
    first_layer: jax.Array
    second_layer: jax.Array


def explicit(design, shared_tokens, own_tokens, initial_weights, second_layer):
    """The same network with explicit weights in d dimensions; the arguments are those of `from_vectors`."""
    features, own = jnp.asarray(shared_tokens), jnp.asarray(own_tokens)

    def of_patch(patch):
        parts = [] if patch.shared is None else [patch.shared @ features]
        parts += [] if patch.own is None else [jnp.einsum("nq,nqd->nd", patch.own, own)]
        return sum(parts[1:], start=parts[0])

    patches = jnp.stack([of_patch(patch) for patch in design.patches])
    return Vectors(patches, jnp.asarray(initial_weights), jnp.asarray(second_layer))


def direct_loss(vectors, network, batch):
    patches, mixing = vectors.patches, batch.mixing
    if mixing is not None:
        patches = mixing.stay[..., None] * patches + mixing.take[..., None] * patches[:, mixing.partner]
    outputs = network.activation(patches @ vectors.first_layer.T).sum(0) @ vectors.second_layer
    return mean_loss(batch, network, outputs)


def train_direct(vectors, design, network, optimiser, steps, *, view=full_batch, radius=None):
    """Train the first layer by any optax optimiser and automatic differentiation, with the engine's views and SAM."""

    def loss(model, step_key):
        batch = view(step_key, design)
        if radius is None:
            return direct_loss(model, network, batch)
        slope = jax.grad(lambda first: direct_loss(model._replace(first_layer=first), network, batch))(
            model.first_layer
        )
        norm = jnp.linalg.norm(slope)
        uphill = jnp.where(norm > 0, radius / jnp.where(norm > 0, norm, 1.0), 0.0) * slope
        # The gradient at the shifted point, with the shift held fixed.
        shifted = model.first_layer + jax.lax.stop_gradient(uphill)
        return direct_loss(model._replace(first_layer=shifted), network, batch)

    return loop.train(vectors, loss, optimiser, steps, trained=lambda model: model.first_layer, key=KEY)


def compared(make, *, network=QUADRATIC, steps=400):
    """The run of the engine and the direct one, a program of the numbers that `make` makes a rule and an optimiser of.

    It returns the first layer from the engine's coefficients, the one of the direct run, and the engine's last state.
    """
    design, second = signal_noise_design(SAMPLES), paired_second_layer(WIDTH)

    @jax.jit
    def run(numbers, mu, xi, start):
        rule, optimiser = make(*numbers)
        state = train(KEY, from_vectors(design, mu, xi, start, second), network, rule, steps).state
        found = state.weights.initial * start + state.weights.coefficients @ jnp.concatenate([mu, xi[:, 0]])
        reference, options = explicit(design, mu, xi, start, second), {"view": rule.view, "radius": rule.radius}
        direct = train_direct(reference, design, network, optimiser, steps, **options)
        return found, direct.model.first_layer, state

    def values(*numbers):
        found, expected, state = run(numbers, *vectors())
        return np.asarray(found), np.asarray(expected), state

    return values


@cache
def program(make, steps=400):
    """The comparison that several tests share."""
    return compared(make, steps=steps)


def plain(rate):
    return gradient_descent(rate), optax.sgd(rate)


def assert_same(found, expected, moved_from, tolerance=1e-11):
    moved = np.abs(expected - moved_from).max()
    assert moved > 0.01
    assert np.abs(found - expected).max() < tolerance * moved


@pytest.mark.parametrize(
    ("power", "steps", "coefficients", "outputs"),
    [
        pytest.param(
            1,
            5,
            [[0.0804106494, 0.0804106494, 0], [-0.0717903799, -0.0225083001, 0.0717903799]],
            (1.3453384416, -1.4332749384),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            2,
            10,
            [[0.0459913865, 0.1733915034, 0], [-0.0669146667, -0.0106137125, 0.1650073358]],
            (3.1800594937, -3.4051653313),
            marks=pytest.mark.slow,
        ),
        (
            3,
            20,
            [[0.0077351219, 0.1813009225, 0], [-0.0213502916, -0.0040629894, 0.1726936962]],
            (6.1476556167, -6.3985397567),
        ),
    ],
)
def test_two_samples_and_two_neurons_give_values_computed_outside_of_the_package(power, steps, coefficients, outputs):
    problem = PatchProblem(
        design=signal_noise_design(2),
        gram=jnp.diag(jnp.array([4.0, 9.0, 9.0])),
        preactivations=jnp.array([[0.1, 0.2, -0.3], [-0.2, 0.1, 0.3]]),
        initial_gram=jnp.eye(2),
        second_layer=jnp.array([1.0, -1.0]),
        noise_deviation=jnp.array(1.0),
        orthogonal=jnp.array(1.0),
    )
    state = trained(problem, Network(relu_power(power)), gradient_descent(0.1), steps).state
    np.testing.assert_allclose(state.weights.coefficients, coefficients, atol=6e-11)
    np.testing.assert_allclose(state.outputs, outputs, atol=6e-11)


# The power 3 is computed as the power 2 is, and the small problem has values for it.
@pytest.mark.parametrize("power", [1, 1.5, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_descent_equals_automatic_differentiation_over_a_whole_run(power):
    run = program(plain) if power == 2 else compared(plain, network=Network(relu_power(power)))
    found, expected, state = run(0.2)
    assert_same(found, expected, vectors()[2])
    assert state.step == 400
    assert state.diverged_at == -1


def test_another_activation_and_loss_equal_automatic_differentiation():
    found, expected, _ = compared(plain, network=Network(CUBE, SQUARED))(0.05)
    assert_same(found, expected, vectors()[2])


def polar():
    """The polar factor of a gradient in d dimensions by its singular value decomposition."""

    def update(updates, state, params=None):
        left, values, right = jnp.linalg.svd(updates, full_matrices=False)
        return (left * (values > 1e-5 * values[0])) @ right, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def with_momentum(rate, momentum, weight_decay):
    return (
        gradient_descent(rate, momentum=momentum, weight_decay=weight_decay),
        optax.chain(optax.add_decayed_weights(weight_decay), optax.sgd(rate, momentum=momentum)),
    )


def averaged_on_a_schedule(first, last, average):
    rate = optax.linear_schedule(first, last, 300)
    return gradient_descent(rate, average=average), optax.chain(optax.ema(average, debias=False), optax.sgd(rate))


def of_length_one(rate):
    return normalised(rate), optax.chain(optax.contrib.normalize(), optax.sgd(rate))


def orthogonal(rate, momentum):
    return muon(rate, momentum=momentum), optax.chain(optax.trace(momentum), polar(), optax.sgd(rate))


# Steps of fixed length end in an oscillation that magnifies rounding errors: a run before that.
RULES = {
    "heavy ball": (with_momentum, 400, (0.05, 0.9, 0.0)),
    "weight decay": (with_momentum, 400, (0.2, 0.0, 0.01)),
    "weight decay and momentum": (with_momentum, 400, (0.05, 0.9, 0.01)),
    "averaged on a schedule of rates": (averaged_on_a_schedule, 400, (0.3, 0.1, 0.95)),
    "normalised": (of_length_one, 100, (0.01,)),
    "Muon": (orthogonal, 100, (0.01, 0.0)),
    "Muon with momentum": (orthogonal, 100, (0.01, 0.9)),
}


@pytest.mark.parametrize("name", RULES)
def test_rule_equals_its_optimiser_in_d_dimensions(name):
    make, steps, numbers = RULES[name]
    found, expected, _ = program(make, steps)(*numbers)
    assert_same(found, expected, vectors()[2], tolerance=1e-9)


def flipped(probability, size):
    return gradient_descent(0.2, view=label_flips(probability, of=mini_batch(size))), optax.sgd(0.2)


def mixed(share, size):
    return gradient_descent(0.2, view=mixup(share, of=mini_batch(size))), optax.sgd(0.2)


VIEWS = {
    "mini-batch": (flipped, (0.0, 2)),
    "flips": (flipped, (0.2, SAMPLES)),
    "flips in a mini-batch": (flipped, (0.2, 3)),
    "mixup": (mixed, (0.6, SAMPLES)),
    "mixup of a mini-batch": (mixed, (0.7, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_random_views_equal_automatic_differentiation(name):
    make, numbers = VIEWS[name]
    found, expected, _ = program(make)(*numbers)
    assert_same(found, expected, vectors()[2], tolerance=1e-9)
    assert np.abs(found - program(plain)(0.2)[0]).max() > 0.01


def sharpness_aware(size, radius):
    return gradient_descent(0.1, radius=radius, view=mini_batch(size)), optax.sgd(0.1)


def sharpness_aware_and_mixed(share, radius):
    return gradient_descent(0.1, radius=radius, view=mixup(share)), optax.sgd(0.1)


@pytest.mark.parametrize(
    ("make", "number"),
    [(sharpness_aware, SAMPLES), (sharpness_aware, 3), (sharpness_aware_and_mixed, 0.6)],
    ids=["full batch", "mini-batch", "mixup"],
)
def test_sharpness_aware_descent_equals_automatic_differentiation(make, number):
    found, expected, _ = program(make, 200)(number, 0.3)
    assert_same(found, expected, vectors()[2], tolerance=1e-9)
    assert np.abs(found - program(make, 200)(number, 0.0)[0]).max() > 0.01


def test_sharpness_aware_steps_and_then_plain_ones_are_those_of_optim():
    sam = sam_then(optax.sgd(0.1), radius=0.3, switch_step=15)
    design, second = signal_noise_design(SAMPLES), paired_second_layer(WIDTH)

    @jax.jit
    def run(mu, xi, start):
        problem, reference = (make(design, mu, xi, start, second) for make in (from_vectors, explicit))
        state = train(KEY, problem, QUADRATIC, gradient_descent(0.1, radius=switch(0.3, 15)), 20).state
        found = start + state.weights.coefficients @ jnp.concatenate([mu, xi[:, 0]])
        # a sharpness-aware step is one uphill and one of the outer descent
        return found, train_direct(reference, design, QUADRATIC, sam, 2 * 15 + 5).model.first_layer

    found, expected = map(np.asarray, run(*vectors()))
    assert_same(found, expected, vectors()[2])


@pytest.mark.parametrize(
    ("view", "of_optim", "count"),
    [
        (label_flips(0.4), lambda loss: label_noise(loss, 0.4, (-1, 1)), 2**3),
        (mixup(0.7), lambda loss: optim_mixup(loss, mixing_weight=0.7), 6),
    ],
    ids=["label noise", "mixup"],
)
def test_random_losses_are_those_of_optim(view, of_optim, count):
    """All that flips of three labels, or pairings of three samples, can give, each as often as the other way."""
    design = signal_noise_design(3)
    mu, xi, start = vectors()
    reference = explicit(design, mu, xi[:3], start, paired_second_layer(WIDTH))

    def loss(first_layer, samples, labels):
        outputs = QUADRATIC.activation(samples @ first_layer.T).sum(1) @ reference.second_layer
        return QUADRATIC.loss.value(outputs, labels).mean()

    random, samples = of_optim(loss), reference.patches.transpose(1, 0, 2)
    keys = jax.random.split(KEY, 6000)
    found = jax.jit(jax.vmap(lambda key: direct_loss(reference, QUADRATIC, view(key, design))))(keys)
    expected = jax.jit(jax.vmap(lambda key: random(reference.first_layer, samples, design.labels, key)))(keys)
    (values, often), (others, as_often) = (np.unique(np.round(x, 12), return_counts=True) for x in (found, expected))
    assert len(values) == count
    np.testing.assert_allclose(values, others, atol=2e-12)
    assert np.abs(often - as_often).max() < 5 * np.sqrt(often + as_often).max()


def test_cutmix_and_erased_patches_equal_automatic_differentiation():
    def view(key, design):
        partner = jnp.roll(jnp.arange(SAMPLES), 2)
        stay = jnp.array([[1.0], [0.0]])
        erased = stay.at[1].set(0.25) * jnp.ones((2, SAMPLES))
        return SeenBatch(design.labels[None], design.weights[None], Mixing(partner, erased, 1 - stay))

    found, expected, _ = compared(lambda rate: (gradient_descent(rate, view=view), optax.sgd(rate)))(0.2)
    assert_same(found, expected, vectors()[2], tolerance=1e-9)


def test_several_features_and_own_tokens_equal_automatic_differentiation():
    rng = np.random.default_rng(1)
    n, d = 5, 30
    pieces = [jnp.asarray(piece) for piece in rng.normal(size=(4, n, 2))]
    design = PatchDesign(
        patches=(Patch(shared=pieces[0], own=pieces[1]), Patch(shared=pieces[2]), Patch(own=pieces[3])),
        labels=jnp.asarray(rng.choice([-1.0, 1.0], n)),
        classes=jnp.ones(n),
        weights=jnp.asarray(rng.dirichlet(np.ones(n))),
    )
    features, own, start = rng.normal(size=(2, d)) / 4, rng.normal(size=(n, 2, d)) / 8, 0.1 * rng.normal(size=(4, d))
    second, network = np.array([1.0, 0.5, -0.5, -1.0]), QUADRATIC
    rate, view = 0.05, mixup(0.6)

    @jax.jit
    def run(features, own, start):
        problem, reference = (make(design, features, own, start, second) for make in (from_vectors, explicit))
        state = train(KEY, problem, network, gradient_descent(rate, radius=0.1, view=view), 100).state
        return state, train_direct(reference, design, network, optax.sgd(rate), 100, view=view, radius=0.1)

    state, direct = run(features, own, start)
    found = start + state.weights.coefficients @ np.concatenate([features, own.reshape(-1, d)])
    assert state.diverged_at == -1
    assert_same(found, np.asarray(direct.model.first_layer), start)


def drawn(n=20, largest_n=None, scale=1e-3):
    return _drawn(n, largest_n, scale, jnp.result_type(float))


@cache
def _drawn(n, largest_n, scale, precision):
    """A problem for each of the precisions, drawn once for all tests."""
    setting = {"width": 4, "d": 500.0, "signal_norm": 3.0, "initial_deviation": scale}
    return jax.jit(lambda key: draw_signal_noise(key, n=n, largest_n=largest_n, **setting))(KEY)


def trained(problem, network, rule, steps, **options):
    return training(network, rule, steps, **options)(problem)


@cache
def training(network, rule, steps, **options):
    return jax.jit(lambda problem: train(KEY, problem, network, rule, steps, **options))


DESCENT = gradient_descent(0.1)


@pytest.mark.parametrize(
    "rule",
    [DESCENT, gradient_descent(0.1, view=mixup(0.6, of=mini_batch(4))), muon(0.01)],
    ids=["full batch", "mixup of a mini-batch", "Muon"],
)
def test_samples_that_do_not_count_change_nothing(rule):
    """The run on 8 of 20 samples is the one on a problem that has only those 8, draw by draw in distribution."""
    whole = drawn(8, largest_n=20)
    kept = np.arange(9)
    part = whole._replace(
        design=signal_noise_design(8),
        gram=whole.gram[kept][:, kept],
        preactivations=whole.preactivations[:, kept],
    )
    masked = trained(whole, QUADRATIC, rule, 50).state
    assert np.all(np.asarray(masked.weights.coefficients)[:, 9:] == 0)
    if rule.view is full_batch:
        unmasked = trained(part, QUADRATIC, rule, 50).state
        np.testing.assert_allclose(
            masked.weights.coefficients[:, :9], unmasked.weights.coefficients, rtol=1e-9, atol=1e-15
        )
        np.testing.assert_allclose(masked.loss, unmasked.loss, rtol=1e-12)


def test_one_program_serves_many_sizes_dimensions_and_rates():
    def run(n, d, rate):
        laws = {"signal_norm": 2.0, "initial_deviation": 0.01}
        problem = draw_signal_noise(KEY, n=n, d=d, width=3, largest_n=12, **laws)
        return train(KEY, problem, QUADRATIC, gradient_descent(rate), 30).state.loss

    settings = [jnp.array(values) for values in ([4, 8, 12], [100.0, 1e3, 1e6], [0.1, 0.01, 1e-5])]
    together = jax.jit(jax.vmap(run))(*settings)
    alone = jax.jit(run)
    apart = [alone(*(values[i] for values in settings)) for i in range(3)]
    np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_records_are_the_states_on_the_way():
    problem, rule = drawn(), gradient_descent(0.1, momentum=0.5, view=label_flips(0.2))
    run = trained(problem, QUADRATIC, rule, 25, record=lambda state: state.outputs, record_at=(0, 7, 20))
    advance = jax.jit(lambda state: step(jax.random.fold_in(KEY, state.step), state, problem, QUADRATIC, rule))
    states = [jax.jit(lambda problem: init(problem, QUADRATIC, rule))(problem)]
    for _ in range(25):
        states.append(advance(states[-1]))
    np.testing.assert_allclose(run.records, [states[at].outputs for at in (0, 7, 20)], rtol=1e-11)
    np.testing.assert_allclose(run.state.outputs, states[25].outputs, rtol=1e-11)
    assert run.state.step == 25


def test_going_on_with_another_rule_is_the_switch_of_the_radius():
    problem, network = drawn(), Network(relu_power(1))
    rate, view = 0.05, mini_batch(5)

    @jax.jit
    def run(problem):
        """One run with the schedule, and one in two parts."""
        scheduled = train(KEY, problem, network, gradient_descent(rate, radius=switch(0.1, 30), view=view), 80).state
        first = train(KEY, problem, network, gradient_descent(rate, radius=0.1, view=view), 30).state
        return scheduled, train(KEY, problem, network, gradient_descent(rate, view=view), 50, state=first).state

    scheduled, second = run(problem)
    np.testing.assert_allclose(second.weights.coefficients, scheduled.weights.coefficients, rtol=1e-9, atol=1e-15)
    assert second.step == 80


def test_a_traced_number_of_updates_is_made():
    options = {"record": lambda state: state.weights.coefficients, "record_at": (0, 7, 20)}
    run = jax.jit(lambda updates: train(KEY, drawn(), QUADRATIC, gradient_descent(0.2), 20, updates=updates, **options))
    exact = run(99)
    assert exact.state.step == 20
    for place, updates in enumerate((0, 7)):
        found = run(updates).state
        assert found.step == updates
        np.testing.assert_allclose(found.weights.coefficients, exact.records[place], rtol=1e-12)


def test_training_stops_where_the_loss_is_reached():
    options = {"record": lambda state: state.loss, "record_at": range(201)}
    rule = gradient_descent(0.2)
    run = jax.jit(lambda problem, stop: train(KEY, problem, QUADRATIC, rule, 200, stop_loss=stop, **options))
    losses = np.asarray(run(drawn(), 0.0).records)
    first = int(np.argmax(losses <= 0.3))
    assert 0 < first < 200
    stopped = run(drawn(), 0.3)
    assert stopped.state.stopped_at == stopped.state.step == first
    np.testing.assert_allclose(stopped.records, losses[np.minimum(np.arange(201), first)], rtol=1e-12)


def test_gradient_flow_moves_the_largest_preactivation_by_its_fraction():
    network = Network(relu_power(3))

    @jax.jit
    def run(problem):
        before = init(problem, network, gradient_flow(0.1))
        flow = step(KEY, before, problem, network, gradient_flow(0.1))
        descent = train(KEY, problem, network, gradient_descent(1.0), 1).state
        return before.weights, flow.weights, descent.weights

    before, flow, descent = run(drawn())
    change = flow.preactivations - before.preactivations
    largest = np.abs(before.preactivations).max()
    np.testing.assert_allclose(np.abs(change).max(), 0.1 * largest, rtol=1e-12)
    rate = float(flow.coefficients.sum() / descent.coefficients.sum())
    np.testing.assert_allclose(flow.coefficients, rate * descent.coefficients, rtol=1e-9)


def test_divergence_is_reported_with_its_step_and_the_last_finite_state():
    network = Network(relu_power(2), SQUARED)
    problem = drawn(scale=0.1)
    seen = {"record": lambda state: (state.weights.coefficients, state.diverged_at), "record_at": range(301)}
    run = jax.jit(jax.vmap(lambda rate: train(KEY, problem, network, gradient_descent(rate), 300, **seen)))(
        jnp.array([1e-3, 5.0])
    )
    assert run.state.diverged_at[0] == -1
    assert run.state.step[0] == 300
    failed = int(run.state.diverged_at[1])
    assert 0 < failed < 300
    assert run.state.step[1] == failed - 1
    for leaf in jax.tree.leaves(run):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert np.isfinite(leaf).all()
    coefficients, diverged_at = (np.asarray(values)[1] for values in run.records)
    assert np.all(diverged_at[:failed] == -1)
    np.testing.assert_array_equal(run.state.weights.coefficients[1], coefficients[failed - 1])
    assert np.abs(coefficients[failed - 1] - coefficients[failed - 2]).max() > 0.01


def test_divergence_is_seen_where_the_direct_run_overflows():
    network = Network(relu_power(2), SQUARED)
    mu, xi, start = vectors()
    design, second = signal_noise_design(SAMPLES), paired_second_layer(WIDTH)

    @jax.jit
    def run(mu, xi, start):
        problem, reference = (make(design, mu, xi, start, second) for make in (from_vectors, explicit))
        state = train(KEY, problem, network, gradient_descent(50.0), 100).state
        return state, train_direct(reference, design, network, optax.sgd(50.0), 100)

    state, direct = run(mu, xi, start)
    # Beyond the engine's limit on the loss a run squares it at every step: a few more reach the end of float64.
    assert 0 <= int(direct.diverged_at) - int(state.diverged_at) <= 6


def test_weights_that_are_not_finite_at_the_start_diverge_at_step_0():
    problem = drawn()
    broken = problem._replace(preactivations=problem.preactivations.at[0, 0].set(jnp.nan))
    state = trained(broken, QUADRATIC, DESCENT, 50).state
    assert state.diverged_at == 0
    assert state.step == 0


def test_weight_decay_before_the_polar_factor_is_reported_not_computed_wrongly():
    from unlazy.training.signal_noise.token_gram.rules import polar_factor

    rule = UpdateRule(optax.chain(optax.add_decayed_weights(0.1), polar_factor(), optax.scale(-0.01)))
    assert trained(drawn(), QUADRATIC, rule, 10).state.diverged_at == 1


# Growth over orders of magnitude, weight decay, steps of a fixed length.
SINGLE = {
    "sharpness-aware": gradient_descent(0.2, weight_decay=1e-3, momentum=0.9, radius=0.1),
    "Muon": muon(0.01),
    "flow": gradient_flow(),
    "normalised": normalised(0.1),
}


@pytest.mark.parametrize("name", SINGLE)
def test_neither_rounding_of_many_steps_nor_a_zero_gradient_is_a_divergence(name):
    """In single precision. With no initial weights and q = 2 all gradients vanish; no rule divides by them."""
    with jax.enable_x64(False):
        for scale in (1e-3, 0.0):
            state = trained(drawn(scale=scale), QUADRATIC, SINGLE[name], 5000).state
            assert state.step == 5000
            assert state.diverged_at == -1
            assert np.all(np.asarray(state.weights.coefficients) == 0) == (scale == 0)


def test_two_conventions_of_momentum_at_once_are_refused():
    with pytest.raises(InputError, match="momentum or average"):
        gradient_descent(0.1, momentum=0.9, average=0.9)


@pytest.mark.parametrize("record_at", [(5, 3), (0, 20), (-1,)])
def test_wrong_record_steps_are_refused(record_at):
    with pytest.raises(InputError, match="record_at"):
        train(KEY, drawn(), QUADRATIC, DESCENT, 10, record_at=record_at)


def test_rules_that_see_coordinates_are_reported_as_diverged():
    """Also if their steps are tiny, and though the loss seems to fall to where training stops."""

    @jax.jit
    def run(problem, rate, first, second):
        rule = UpdateRule(optax.adam(rate, b1=first, b2=second))
        return train(KEY, problem, QUADRATIC, rule, 50, stop_loss=0.5).state

    # Adam, and without memory the sign of each coordinate.
    for numbers in ((0.05, 0.9, 0.999), (1e-9, 0.0, 0.0)):
        state = run(drawn(), *numbers)
        assert state.diverged_at == state.step > 0
        assert state.stopped_at == -1


@pytest.mark.parametrize(("double", "values"), [(True, [1, 1e-2, 1e-4, 1e-6]), (False, [1, 0.3, 0.1, 0.0])])
def test_polar_factor_is_the_one_of_the_vectors(double, values):
    """Gradients with small singular values, and in single precision with one that is 0 but for rounding."""
    from unlazy.optim import scale_by_polar_factor
    from unlazy.training.signal_noise.token_gram import Weights
    from unlazy.training.signal_noise.token_gram.rules import polar_factor

    rng = np.random.default_rng(3)
    mu, xi, _ = vectors()
    tokens = np.concatenate([mu, xi[:, 0]])
    left = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    right = np.linalg.qr(tokens.T @ rng.normal(size=(len(tokens), 4)))[0]
    gradient = (left * values) @ right.T
    coefficients = gradient @ np.linalg.pinv(tokens)
    expected, _ = scale_by_polar_factor(1e-12).update(gradient, optax.EmptyState())
    with jax.enable_x64(double):

        @jax.jit
        def run(mu, xi, slope):
            problem = from_vectors(signal_noise_design(SAMPLES), mu, xi, np.ones((4, DIMENSION)), np.ones(4))
            return polar_factor().update(slope, optax.EmptyState(), slope, problem=problem)[0]

        found = run(mu, xi, Weights(coefficients, np.zeros(()), coefficients @ tokens @ tokens.T))
    # an eigenvalue of 1e-12 is known to 2e-4, and an entry in single precision to 1e-5
    np.testing.assert_allclose(np.asarray(found.coefficients) @ tokens, expected, atol=2e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mini_batch(0), "batch_size must be >= 1, got 0"),
        (lambda: mini_batch(2.5), "batch_size must be whole and >= 1, got 2.5"),
        (lambda: label_flips(1.5), "flip_probability must be >= 0 and <= 1, got 1.5"),
        (lambda: mixup(-0.1), "mixing_weight must be >= 0 and <= 1, got -0.1"),
        (lambda: gradient_descent(float("nan")), "step_size must be finite"),
        (lambda: gradient_descent(0.1, momentum=2.0), "momentum must be >= 0 and <= 1, got 2"),
        (lambda: muon(0.1, radius=-1.0), "radius must be >= 0, got -1"),
        (lambda: switch(-1.0, 5), "radius must be >= 0, got -1"),
        (lambda: gradient_flow(0.0), "fraction must be > 0, got 0"),
        (
            lambda: train(KEY, drawn(), QUADRATIC, gradient_descent(0.1), 2.5),
            "steps must be whole and >= 0, got 2.5",
        ),
        (
            lambda: train(KEY, drawn(), QUADRATIC, UpdateRule(optax.sgd(0.1), radius=-1.0), 2),
            "radius must be >= 0, got -1",
        ),
    ],
)
def test_wrong_numbers_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_traced_numbers_pass():
    problem = drawn()

    def run(size, flips, share, radius, rate):
        view = mixup(share, of=label_flips(flips, of=mini_batch(size)))
        return train(KEY, problem, QUADRATIC, gradient_descent(rate, view=view, radius=radius), 3).state

    assert jax.jit(run)(4, 0.1, 0.6, 0.1, 0.1).diverged_at == -1
