import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from unlazy.checks import InputError
from unlazy.numerics.gaussian import normal_nodes
from unlazy.theory.in_context.landscape import attention_saddle, escape_slope
from unlazy.training.in_context import mean_field_attention as mfa


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def random_state(seed, width=6, d=4, k=2):
    rng = np.random.default_rng(seed)
    draws = (rng.standard_normal((width, d)), rng.standard_normal((width, k)), rng.standard_normal((k, k)))
    return mfa.State(*map(jnp.asarray, draws))


def sample(seed, n=300, d=4, teachers=2):
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((n, d))
    return mfa.TokenBatch(jnp.asarray(tokens), jnp.asarray(np.tanh(tokens @ rng.standard_normal((d, teachers)))))


def test_best_loss_is_that_of_least_squares():
    state, batch = random_state(0), sample(1, teachers=3)
    features = np.asarray(mfa.feature_map(state, batch.tokens, jnp.tanh))
    by_hand = sum(np.outer(np.tanh(batch.tokens @ w), a) for w, a in zip(state.weights, state.outputs, strict=True)) / 6
    np.testing.assert_allclose(features, by_hand, rtol=1e-10)
    fit = np.linalg.lstsq(features, batch.targets, rcond=None)[0]
    expected = np.mean(np.sum((batch.targets - features @ fit) ** 2, axis=1))
    np.testing.assert_allclose(mfa.best_loss(mfa.sampled_moments(state, batch, jnp.tanh)), expected, rtol=1e-10)


def test_attention_loss_is_the_mean_over_tasks_and_is_least_at_the_inverse_covariance():
    state, batch = random_state(0), sample(1)
    moments = mfa.sampled_moments(state, batch, jnp.tanh)
    features = np.asarray(mfa.feature_map(state, batch.tokens, jnp.tanh))
    # the error on a long prompt is quadratic in the task v, so that its mean is the sum over unit vectors
    context = np.asarray(batch.targets).T @ features / len(features)
    errors = [
        np.mean((batch.targets[:, j] - features @ np.asarray(state.attention).T @ context[j]) ** 2) for j in range(2)
    ]
    np.testing.assert_allclose(mfa.attention_loss(state, moments, moments), sum(errors), rtol=1e-10)
    best = state._replace(attention=jnp.linalg.inv(moments.covariance))
    np.testing.assert_allclose(mfa.attention_loss(best, moments, moments), mfa.best_loss(moments), rtol=1e-10)


def test_the_folded_loss_is_the_mean_over_folds_with_the_rest_as_context():
    state, batch, folds = random_state(0), sample(1, n=24, teachers=3), 4
    state = state._replace(outputs=3 * state.outputs)
    losses = []
    for asked in np.split(np.arange(24), folds):
        rest = np.setdiff1d(np.arange(24), asked)
        query, context = (
            mfa.sampled_moments(state, mfa.TokenBatch(batch.tokens[rows], batch.targets[rows]), jnp.tanh)
            for rows in (asked, rest)
        )
        losses.append(mfa.attention_loss(state, context, query))
    found = mfa.folded_attention_loss(state, batch, folds, jnp.tanh)
    np.testing.assert_allclose(found, np.mean(losses), rtol=1e-10)


def test_derivatives_of_the_best_loss_agree_with_differences():
    state, batch = random_state(2), sample(3)
    flat, restore = jax.flatten_util.ravel_pytree(state)

    def loss(vector):
        return mfa.best_loss(mfa.sampled_moments(restore(vector), batch, jnp.tanh))

    direction = jnp.asarray(np.random.default_rng(0).standard_normal(flat.size))
    ends = [loss(flat + step * direction) for step in (1e-5, -1e-5)]
    gradient = jax.jit(jax.grad(loss))
    np.testing.assert_allclose(gradient(flat) @ direction, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)
    pushed = jax.jvp(gradient, (flat,), (direction,))[1]
    slopes = [gradient(flat + step * direction) for step in (1e-5, -1e-5)]
    np.testing.assert_allclose(pushed, (slopes[0] - slopes[1]) / 2e-5, atol=1e-6 * np.abs(pushed).max())


def test_gaussian_moments_are_those_of_a_large_sample():
    state, teacher = random_state(4, d=3), random_state(5, d=3)
    tokens = np.random.default_rng(6).standard_normal((400_000, 3))
    features, targets = (
        np.asarray(mfa.feature_map(one, jnp.asarray(tokens), jax.scipy.special.erf)) for one in (state, teacher)
    )
    np.testing.assert_allclose(features[:5], erf(tokens[:5] @ state.weights.T) @ state.outputs / 6, rtol=1e-9)
    exact = mfa.gaussian_moments(state, teacher)
    for left, right, expected in ((targets, features, exact.cross), (features, features, exact.covariance)):
        products = left[:, :, None] * right[:, None, :]
        allowed = 4 * products.std(axis=0) / np.sqrt(len(tokens))
        assert (np.abs(products.mean(axis=0) - expected) <= allowed).all()
        assert (np.abs(products.mean(axis=0) - 1.2 * expected) > allowed).any()
    np.testing.assert_allclose(exact.power, np.mean(np.sum(targets**2, axis=1)), rtol=0.01)


def product_grid(nodes, d):
    points, weights = normal_nodes(nodes)
    x = np.stack(np.meshgrid(*[points] * d, indexing="ij"), axis=-1).reshape(-1, d)
    masses = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    return jnp.asarray(x), jnp.asarray(masses)


def hessian_eigenvalues(saddle, loss):
    flat, restore = jax.flatten_util.ravel_pytree(saddle[:2])
    hessian = jax.jit(jax.hessian(lambda vector: loss(mfa.State(*restore(vector), saddle.attention))))(flat)
    return len(saddle.weights) * np.linalg.eigvalsh(hessian)


@pytest.mark.parametrize(("features", "missing", "copies"), [(2, 1, 1), (3, 2, 2)])
def test_the_saddle_of_erf_has_the_predicted_loss_eigenvalue_and_multiplicity(features, missing, copies):
    saddle, teacher = mfa.saddle(features, missing, copies * features, 2 * features)
    theory = attention_saddle("erf", features, missing)

    def loss(state):
        return mfa.best_loss(mfa.gaussian_moments(state, teacher))

    np.testing.assert_allclose(loss(saddle), theory.loss, rtol=1e-12)
    assert all(np.abs(leaf).max() < 1e-14 for leaf in jax.jit(jax.grad(loss))(saddle))
    eigenvalues = hessian_eigenvalues(saddle, loss)
    np.testing.assert_allclose(eigenvalues[: theory.multiplicity], -theory.escape_rate, rtol=1e-9)
    assert eigenvalues[theory.multiplicity] > -1e-9


def test_the_saddle_of_tanh_on_a_grid_has_the_eigenvalue_of_the_grid():
    saddle, _ = mfa.saddle(2, 1, 2, 4)
    # the coordinate that nothing watches is left out
    kept = jnp.asarray([0, 1, 3])
    saddle = saddle._replace(weights=saddle.weights[:, kept])
    x, masses = product_grid(12, 3)
    targets = jnp.tanh(x[:, :2])
    power = masses @ jnp.sum(targets**2, axis=1)

    def loss(state):
        features = mfa.feature_map(state, x, jnp.tanh)
        weighted = features * masses[:, None]
        return mfa.best_loss(mfa.FeatureMoments(power, targets.T @ weighted, features.T @ weighted))

    np.testing.assert_allclose(loss(saddle), 0.3956276133, rtol=1e-9)
    eigenvalues = hessian_eigenvalues(saddle, loss)
    np.testing.assert_allclose(eigenvalues[0], -1.35654645, rtol=1e-8)
    np.testing.assert_allclose(eigenvalues[0], -attention_saddle("tanh", 2, 1, nodes=12).escape_rate, rtol=1e-9)


def test_perturbed_saddles_are_left_at_the_predicted_rate_and_the_exact_one_never():
    saddle, teacher = mfa.saddle(2, 1, 4, 4)
    theory, step = attention_saddle("erf", 2, 1), 0.05

    def loss(state):
        return mfa.best_loss(mfa.gaussian_moments(state, teacher))

    @jax.jit
    def run(state):
        def body(state, _):
            return mfa.descend(state, loss, step), loss(state)

        return jax.lax.scan(body, state, None, length=400)[1]

    assert np.abs(run(saddle) - theory.loss).max() < 1e-12
    noise = 1e-5 * np.random.default_rng(0).standard_normal((4, 4))
    gap = theory.loss - run(saddle._replace(weights=saddle.weights + noise))
    window = slice(np.argmax(gap > 1e-6), np.argmax(gap > 1e-3))
    slope = np.polyfit(step * np.arange(400)[window], np.log(gap[window]), 1)[0]
    np.testing.assert_allclose(slope, escape_slope(theory.escape_rate, step), rtol=0.005)
    assert abs(slope / (2 * theory.escape_rate) - 1) > 0.02
    assert abs(gap[-1] - theory.loss) < 1e-4
    kicked = mfa.kick(jax.random.normal(jax.random.key(0), (24,)), saddle, loss, 1e-3)
    assert abs(run(kicked)[-1]) < 1e-3


def test_kicks_have_their_size_and_leave_flat_directions_alone():
    saddle, teacher = mfa.saddle(2, 1, 2, 6)

    def loss(state):
        return mfa.best_loss(mfa.gaussian_moments(state, teacher))

    draws = jax.random.normal(jax.random.key(1), (16,))
    kicked = mfa.kick(draws, saddle, loss, 0.01)
    moved = np.concatenate([np.ravel(kicked.weights - saddle.weights), np.ravel(kicked.outputs - saddle.outputs)])
    np.testing.assert_allclose(np.sqrt(np.mean(moved**2)), 0.01, rtol=1e-10)
    # the idle slot may turn to any coordinate that is not in the teacher without changing the loss
    np.testing.assert_allclose(kicked.weights[1, 4:], 0, atol=1e-15)
    assert abs(kicked.weights[1, 1]) > 1e-4
    flat = mfa.kick(draws, saddle, lambda state: jnp.sum(state.weights), 0.01)
    np.testing.assert_array_equal(flat.weights, saddle.weights)


def test_rebirth_redraws_the_expected_share_from_the_law():
    width, d, k = 20_000, 3, 2
    law = mfa.NeuronLaw(jnp.asarray([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), 3.0**0.5 * 0.5, 0.5, 2.0)
    state = mfa.State(jnp.zeros((width, d)), jnp.full((width, k), 7.0), jnp.eye(k))
    draws = jax.random.normal(jax.random.key(0), (width * (1 + d + k),))
    unchanged = mfa.rebirth(draws, state, law, 0.0)
    np.testing.assert_array_equal(unchanged.weights, 0)
    reborn = mfa.rebirth(draws, state, law, 0.3)
    chosen = np.asarray(reborn.weights != 0).all(axis=1)
    assert abs(chosen.mean() - 0.3) < 4 * np.sqrt(0.21 / width)
    np.testing.assert_array_equal(reborn.outputs[~chosen], 7.0)
    both = np.concatenate([reborn.weights[chosen], reborn.outputs[chosen]], axis=1)
    expected = np.zeros((5, 5))
    expected[:3, :3] = 0.25 * np.eye(3)
    expected[:3, 3:] = 0.25 * 2 * np.asarray(law.readout)
    expected[3:, :3] = expected[:3, 3:].T
    expected[3:, 3:] = 4 * (0.25 * np.diag([1.0, 4.0]) + 0.25 * np.eye(2))
    np.testing.assert_allclose(np.cov(both.T), expected, atol=0.25)
    assert np.abs(np.cov(both.T)[0, 3] - 0.5) < 0.04


@pytest.mark.slow
def test_the_start_is_scaled_and_its_features_do_not_vanish_with_width():
    batch = sample(0, n=2000, d=5)
    traces, losses = [], []
    for width in (200, 20_000):
        state, law = mfa.init(jax.random.key(0), 5, 2, width, tokens=batch.tokens, activation=jnp.tanh)
        moments = mfa.sampled_moments(state, batch, jnp.tanh)
        traces.append(jnp.trace(moments.covariance))
        losses.append(law.scale)
        np.testing.assert_allclose(state.attention, 0.3 * np.eye(2))
    np.testing.assert_allclose(traces, 2, rtol=1e-10)
    # second layers without a part from the first would need a scale that grows by 10
    assert losses[1] / losses[0] < 1.5


def test_descent_in_the_mean_field_scaling_does_not_depend_on_how_often_neurons_are_repeated():
    state, batch = random_state(7), sample(8)
    doubled = mfa.State(*(jnp.concatenate([leaf, leaf]) for leaf in state[:2]), state.attention)

    def loss(state):
        moments = mfa.sampled_moments(state, batch, jnp.tanh)
        return mfa.attention_loss(state, moments, moments)

    one, two = (mfa.descend(start, loss, 0.1, 0.2) for start in (state, doubled))
    for field in ("weights", "outputs"):
        np.testing.assert_allclose(getattr(two, field)[:6], getattr(one, field), rtol=1e-10)
    np.testing.assert_allclose(two.attention, one.attention, rtol=1e-10)
    assert np.abs(one.weights - state.weights).max() > 1e-4


def test_prompt_errors_agree_with_drawn_prompts():
    rng = np.random.default_rng(0)
    features, rows = rng.standard_normal((50, 2)), 7
    labels = np.stack([features[:, 0] + 0.3 * rng.standard_normal(50), features[:, 1] ** 2], axis=1)
    attention = rng.standard_normal((2, 2))
    expected = mfa.prompt_errors(jnp.asarray(features), jnp.asarray(labels), jnp.asarray(attention), rows)
    context, query = rng.integers(50, size=(100_000, rows)), rng.integers(50, size=100_000)
    for task in range(2):
        vector = np.einsum("pr,prk->pk", labels[context, task], features[context]) / rows
        errors = (labels[query, task] - np.sum(vector @ attention * features[query], axis=1)) ** 2
        allowed = 4 * errors.std() / np.sqrt(len(errors))
        assert abs(errors.mean() - expected[task]) <= allowed
        assert abs(errors.mean() - 1.2 * expected[task]) > allowed


def test_wrong_sizes_are_named():
    tokens = jnp.zeros((3, 2))
    with pytest.raises(InputError, match=r"width must be at least features = 5, .* got 4"):
        mfa.init(jax.random.key(0), 2, 5, 4, tokens=tokens, activation=jnp.tanh)
    with pytest.raises(InputError, match="d must be >= 1, got 0"):
        mfa.init(jax.random.key(0), 0, 1, 4, tokens=tokens, activation=jnp.tanh)
    with pytest.raises(InputError, match="width must be a positive multiple of features = 2, got 3"):
        mfa.saddle(2, 1, 3, 4)
    with pytest.raises(InputError, match="d must be at least 2 features = 4, got 3"):
        mfa.saddle(2, 1, 2, 3)
