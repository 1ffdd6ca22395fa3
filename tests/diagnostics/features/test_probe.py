import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics import feature_probe
from unlazy.training import train


def mixture(rng, n, d, energy):
    """Two balanced classes at +-mu with |mu|^2 = energy, noise of variance 1; mu is along the first axis."""
    y = np.where(np.arange(n) % 2, 1, -1)
    X = rng.standard_normal((n, d))
    X[:, 0] += y * np.sqrt(energy)
    return X, y


def three_classes(rng, n, d):
    y = np.arange(n) % 3
    return rng.standard_normal((n, d)) + 3 * np.eye(3, d)[y], y


def share_from_pairs(F, X, y):
    """tr(G^+ A) / |F|^2, where G and A are means over pairs of different rows of (x_i, x_j) and (F x_i, F x_j)."""
    labels = np.unique(y)
    G, A = np.zeros((2, len(labels), len(labels)))
    for a, one in enumerate(labels):
        for b, other in enumerate(labels):
            pairs = [(i, j) for i in np.flatnonzero(y == one) for j in np.flatnonzero(y == other) if i != j]
            G[a, b] = np.mean([X[i] @ X[j] for i, j in pairs])
            A[a, b] = np.mean([(F @ X[i]) @ (F @ X[j]) for i, j in pairs])
    centre = np.eye(len(labels)) - 1 / len(labels)
    return np.trace(np.linalg.pinv(centre @ G @ centre, rcond=1e-10) @ centre @ A @ centre) / np.sum(F**2)


def mlp(params, x):
    return jnp.tanh(x @ params["w"]) @ params["a"]


def mlp_problem(outputs=3, d=5, n=30):
    rng = np.random.default_rng(0)
    X, y = three_classes(rng, n, d)
    V, y_val = three_classes(rng, 24, d)
    draw = [{"w": rng.normal(size=(d, 4)), "a": rng.normal(size=(4, outputs))} for _ in range(3)]
    return draw[0], draw[1:], X, y, V, y_val


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


def test_the_example_shows_the_two_stages_of_learning_digits_with_flipped_labels():
    assert doctest.testmod(importlib.import_module("unlazy.diagnostics.features.probe")).failed == 0


@pytest.mark.parametrize(("energy", "held_out"), [(2.45, 200), (7.75, 75), (31.6, 75)])
def test_the_share_of_the_averaging_classifier_is_that_along_the_true_mean(energy, held_out):
    # its weights are mu + (noise of variance 1/n): |mu|^2 / (|mu|^2 + d/n) along mu, for any number of held-out rows
    n, d, seeds = 50, 1000, 40
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, int(energy)])
        X, y = mixture(rng, n, d, energy)
        probe = feature_probe(y @ X / n, np.zeros(d), X, y, *mixture(rng, held_out, d, energy))
        found.append(probe.signal_share[0])
    expected = energy / (energy + d / n)
    allowed = 4 * np.std(found, ddof=1) / np.sqrt(seeds)
    assert abs(np.mean(found) - expected) < allowed + 0.02 * expected
    # the means as they are, noise and all, would have given this
    shrunk = expected * energy / (energy + d / held_out)
    assert abs(np.mean(found) - shrunk) > allowed + 0.02 * expected


def test_the_response_gap_of_the_averaging_classifier_is_its_closed_form():
    # |w.xi_i|^2 is (d/n)^2 + |w|^2 on training noise and |w|^2 = |mu|^2 + d/n on fresh noise
    n, d, energy = 50, 1000, 10.0
    gaps = []
    for seed in range(30):
        rng = np.random.default_rng([1, seed])
        X, y = mixture(rng, n, d, energy)
        gaps.append(feature_probe(y @ X / n, np.zeros(d), X, y, *mixture(rng, 300, d, energy)).response_gap[0])
    level = (energy + d / n) / ((d / n) ** 2 + energy + d / n)
    allowed = 4 * np.std(gaps, ddof=1) / np.sqrt(30)
    assert abs(1 - np.mean(gaps) - level) < allowed + 0.02 * level
    assert abs(1.2 * (1 - np.mean(gaps)) - level) > allowed + 0.02 * level


def test_weights_that_learned_nothing_of_their_samples_have_no_response_gap():
    gaps = []
    for seed in range(30):
        rng = np.random.default_rng([2, seed])
        W = rng.standard_normal((6, 300))
        X, y = mixture(rng, 200, 300, 30.0)
        gaps.append(feature_probe(W, 0 * W, X, y, *mixture(rng, 200, 300, 30.0)).response_gap[0])
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / np.sqrt(30) < 0.05


@pytest.mark.parametrize("classes", [2, 3])
def test_the_share_is_a_mean_over_pairs_of_different_held_out_rows(classes):
    rng = np.random.default_rng(3)
    draw = three_classes if classes == 3 else lambda rng, n, d: mixture(rng, n, d, 9.0)
    (X, y), (V, y_val) = draw(rng, 20, 7), draw(rng, 31, 7)
    W, start = rng.standard_normal((2, 4, 7))
    probe = feature_probe(W, start, X, y, V, y_val)
    assert probe.directions == classes - 1
    assert probe.chance_share == (classes - 1) / 7
    np.testing.assert_allclose(probe.signal_share, share_from_pairs(W - start, V, y_val), rtol=1e-9)


@pytest.mark.usefixtures("_float64")
def test_the_share_of_a_network_is_that_of_its_input_gradients_by_finite_differences():
    start, (params, _), X, y, V, y_val = mlp_problem()

    def change(x):
        outputs = [np.tanh(x @ p["w"]) @ p["a"] for p in (params, start)]
        return (outputs[0] - outputs[0].mean()) - (outputs[1] - outputs[1].mean())

    step = 1e-6
    columns = [[(change(x + step * e) - change(x - step * e)) / (2 * step) for e in np.eye(5)] for x in V]
    F = np.concatenate([np.array(column).T for column in columns])
    probe = feature_probe(params, start, X, y, V, y_val, network=mlp)
    np.testing.assert_allclose(probe.signal_share, share_from_pairs(F, V, y_val), rtol=1e-6)


@pytest.mark.usefixtures("_float64")
def test_a_linear_network_has_the_share_of_its_weights():
    rng = np.random.default_rng(4)
    (X, y), (V, y_val) = mixture(rng, 20, 9, 16.0), mixture(rng, 700, 9, 16.0)
    w, start = rng.standard_normal((2, 9))
    plain = feature_probe(w, start, X, y, V, y_val)
    linear = feature_probe(w, start, X, y, V, y_val, network=lambda w, x: x @ w)
    np.testing.assert_allclose(linear.signal_share, plain.signal_share, rtol=1e-9)
    assert plain.response_gap is None
    assert plain.margin_gap is None
    assert linear.response_gap is None


def test_signal_and_noise_directions_have_the_shares_1_and_0():
    rng = np.random.default_rng(5)
    (X, y), held_out = three_classes(rng, 30, 40), three_classes(rng, 6000, 40)
    contrasts = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) @ np.eye(3, 40)
    for change, expected in ((contrasts, 1.0), (np.eye(40)[3:], 0.0), (np.ones((1, 3)) @ np.eye(3, 40), 0.0)):
        probe = feature_probe(change, np.zeros(change.shape), X, y, *held_out)
        assert abs(probe.signal_share[0] - expected) < 0.01


def test_shares_and_gaps_do_not_depend_on_units_origin_or_rotation():
    rng = np.random.default_rng(6)
    (X, y), (V, y_val) = mixture(rng, 12, 30, 16.0), mixture(rng, 40, 30, 16.0)
    W, start = rng.standard_normal((2, 3, 30))
    base = feature_probe(W, start, X, y, V, y_val)
    turn = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    for scale, small in ((1e80, 1e-80), (1e-80, 1e80)):
        other = feature_probe(small * W @ turn, small * start @ turn, scale * X @ turn, y, scale * V @ turn, y_val)
        np.testing.assert_allclose(other.signal_share, base.signal_share, rtol=1e-8)
        np.testing.assert_allclose(other.response_gap, base.response_gap, rtol=1e-8)
    moved = feature_probe(W, start, X + 5, y, V + 5, y_val)
    np.testing.assert_allclose(moved.signal_share, base.signal_share, rtol=1e-8)
    np.testing.assert_allclose(moved.response_gap, base.response_gap, rtol=1e-8)


def test_fits_and_margins_are_those_counted_by_hand():
    start, (params, _), X, y, V, y_val = mlp_problem()
    given = y.copy()
    given[:6] = (y[:6] + 1) % 3
    probe = feature_probe(params, start, X, given, V, y_val, network=mlp, true_labels=y)

    def outputs(rows):
        return np.tanh(rows @ params["w"]) @ params["a"]

    def margin(row, label):
        return row[label] - max(value for other, value in enumerate(row) if other != label)

    predicted = outputs(X).argmax(axis=1)
    np.testing.assert_allclose(probe.training_fit, np.mean(predicted == given))
    np.testing.assert_allclose(probe.clean_fit, np.mean(predicted[6:] == y[6:]))
    np.testing.assert_allclose(probe.flipped_fit, np.mean(predicted[:6] == given[:6]))
    np.testing.assert_allclose(probe.flipped_recovered, np.mean(predicted[:6] == y[:6]))
    np.testing.assert_allclose(probe.held_out_accuracy, np.mean(outputs(V).argmax(axis=1) == y_val))
    training_margin = np.mean([margin(row, label) for row, label in zip(outputs(X)[6:], y[6:], strict=True)])
    held_out_margin = np.mean([margin(row, label) for row, label in zip(outputs(V), y_val, strict=True)])
    np.testing.assert_allclose(probe.training_margin, training_margin, rtol=1e-5)
    np.testing.assert_allclose(probe.held_out_margin, held_out_margin, rtol=1e-5)
    assert probe.flipped_labels == 6
    expected = 1 - held_out_margin / training_margin if training_margin > 0 else np.nan
    np.testing.assert_allclose(probe.margin_gap, expected, rtol=1e-4)


def test_a_linear_output_of_two_classes_has_signed_margins_and_ties_are_half_hits():
    rng = np.random.default_rng(7)
    (X, y), (V, y_val) = mixture(rng, 20, 4, 16.0), mixture(rng, 50, 4, 16.0)
    w = np.eye(4)[0]
    probe = feature_probe([0 * w, w], 0 * w, X, y, V, y_val, network=lambda w, x: (x @ w)[:, None])
    np.testing.assert_allclose(probe.training_margin, [0, np.mean(y * X[:, 0])], rtol=1e-5)
    np.testing.assert_allclose(probe.training_fit, [0.5, np.mean(y * X[:, 0] > 0)])
    np.testing.assert_allclose(probe.held_out_accuracy, [0.5, np.mean(y_val * V[:, 0] > 0)])
    np.testing.assert_allclose(probe.margin_gap[1], 1 - np.mean(y_val * V[:, 0]) / np.mean(y * X[:, 0]), atol=1e-5)
    assert np.isnan(probe.margin_gap[0])
    assert np.isnan(probe.signal_share[0])


@pytest.mark.parametrize(("ratio", "expected"), [(1, 0.90), (10, 0.74)])
def test_the_margin_gap_of_a_trained_network_is_that_of_an_independent_run(ratio, expected):
    # a ReLU network from a small start on n = 50 rows in d = 1000 with n |mu|^4 / d = ratio
    n, d, neurons = 50, 1000, 20
    signs = np.repeat([1.0, -1.0], neurons) / neurons

    def network(w, x):
        return jnp.maximum(x @ w.T, 0) @ signs

    @jax.jit
    def trained(w, X, y):
        def loss(w):
            return jnp.mean(jnp.logaddexp(0, -y * network(w, X)))

        return train(w, loss, optax.sgd(0.4 * n * neurons / d), 300, trained=lambda w: w).model

    gaps, shares, along = [], [], []
    for seed in range(3):
        rng = np.random.default_rng([ratio, seed])
        energy = np.sqrt(ratio * d / n)
        X, y = mixture(rng, n, d, energy)
        held_out = mixture(rng, 400, d, energy)
        start = 1e-3 / np.sqrt(d) * rng.standard_normal((2 * neurons, d))
        end = trained(start, X, y)
        gaps.append(feature_probe(end, start, X, y, *held_out, network=network).margin_gap[0])
        shares.append(feature_probe(end, start, X, y, *held_out).signal_share[0])
        change = np.asarray(end) - start
        along.append(np.sum(change[:, 0] ** 2) / np.sum(change**2))
    assert abs(np.mean(gaps) - expected) < 0.02
    # the share of `feature_probe` is along the held-out mean with its noise; this one is along mu
    assert abs(np.mean(shares) - np.mean(along)) < 0.03


@pytest.mark.parametrize("form", [list, tuple, "stacked", "one by one"])
def test_checkpoints_come_in_a_list_in_a_stack_or_alone(form):
    start, (one, two), *data = mlp_problem()
    expected = feature_probe([one, two], start, *data, network=mlp, steps=[3, 7])
    np.testing.assert_array_equal(expected.steps, [3, 7])
    if form == "one by one":
        singles = [feature_probe(params, start, *data, network=mlp) for params in (one, two)]
        shares = [single.signal_share[0] for single in singles]
    else:
        given = jax.tree.map(lambda *a: np.stack(a), one, two) if form == "stacked" else form((one, two))
        shares = feature_probe(given, start, *data, network=mlp).signal_share
    np.testing.assert_allclose(shares, expected.signal_share, rtol=1e-6)


def test_modules_and_images_are_probed_like_trees_and_rows():
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), 2)
    start, end = (eqx.nn.MLP(6, 3, 4, 1, key=key) for key in keys)
    _, _, X, y, V, y_val = mlp_problem(d=6)
    flat = feature_probe(end, start, X, y, V, y_val, network=lambda model, x: jax.vmap(model)(x))
    images = feature_probe(
        [end],
        start,
        X.reshape(-1, 2, 3),
        y,
        V.reshape(-1, 2, 3),
        y_val,
        network=lambda model, x: jax.vmap(model)(x.reshape(len(x), -1)),
    )
    np.testing.assert_allclose(images.signal_share, flat.signal_share, rtol=1e-5)
    np.testing.assert_allclose(images.held_out_margin, flat.held_out_margin, rtol=1e-5)


def test_rounding_is_not_learned():
    rng = np.random.default_rng(8)
    (X, y), (V, y_val) = mixture(rng, 10, 20, 16.0), mixture(rng, 40, 20, 16.0)
    start = rng.standard_normal((3, 20))
    probe = feature_probe([start.astype(np.float32)], start, X, y, V, y_val)
    assert np.isnan(probe.signal_share[0])
    assert np.isnan(probe.response_gap[0])
    assert "signal share undefined" in str(probe)


def test_class_means_that_held_out_rows_do_not_tell_apart_are_refused_and_unresolved_directions_not_used():
    rng = np.random.default_rng(9)
    noise, labels = rng.standard_normal((60, 50)), np.arange(60) % 3
    W = rng.standard_normal((2, 50))
    with pytest.raises(InputError, match="X_val must tell the classes apart by their means, got 60 rows"):
        feature_probe(W, 0 * W, noise, labels, noise, labels)
    # the third class differs from the others, which are alike
    apart = noise + 5 * (labels == 2)[:, None] * np.eye(50)[0]
    assert feature_probe(W, 0 * W, apart, labels, apart, labels).directions == 1


def test_the_figure_draws_what_was_measured():
    start, checkpoints, X, y, V, y_val = mlp_problem()
    given = y.copy()
    given[:6] = (y[:6] + 1) % 3
    probe = feature_probe(checkpoints, start, X, given, V, y_val, network=mlp, true_labels=y, steps=[1, 100])
    left, right = probe.figure().axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "signal share",
        "margin gap",
        "share by chance",
    ]
    drawn = {line.get_label(): line.get_ydata() for line in right.lines}
    np.testing.assert_array_equal(drawn["held-out"], probe.held_out_accuracy)
    np.testing.assert_array_equal(drawn["flipped, memorised"], probe.flipped_fit)
    assert right.get_xscale() == "log"
    line = str(probe)
    assert "\n" not in line
    assert f"held-out accuracy {probe.held_out_accuracy[-1]:.3f}" in line
    assert "of 6 flipped labels memorised" in line
    weights = feature_probe(X[:2], 0 * X[:2], X, y, V, y_val)
    assert len(weights.figure().axes) == 1


def call(**changes):
    _, _, X, y, V, y_val = mlp_problem()
    arguments = {"checkpoints": X[:2], "initial": 0 * X[:2], "X": X, "y": y, "X_val": V, "y_val": y_val, **changes}
    return feature_probe(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.full((30, 5), np.nan)}, "X must be finite"),
        ({"X": np.zeros(30)}, r"X must have at least 2 dimensions, samples first, got shape \(30,\)"),
        ({"X_val": np.zeros((24, 4))}, r"X_val must have rows like X, got shapes \(24, 4\) and \(30, 5\)"),
        ({"y": np.zeros(29)}, r"y must have shape \(30,\) like the 30 rows of X, got shape \(29,\)"),
        ({"y": np.full(30, 7)}, "y must hold classes of y_val, got 7"),
        ({"true_labels": np.full(30, 7)}, "true_labels must hold classes of y_val, got 7"),
        ({"true_labels": (np.arange(30) + 1) % 3}, "true_labels must agree with y in some sample"),
        ({"y_val": np.zeros(24)}, "y_val must hold at least 2 classes, got only 0.0"),
        ({"y_val": np.r_[np.zeros(23), 1]}, "y_val must hold every class at least twice, got 1.0 once"),
        ({"y_val": np.zeros((24, 3))}, r"y_val must have shape \(24,\) like the 24 rows of X_val, got shape \(24, 3\)"),
        ({"initial": np.zeros((5, 2)), "checkpoints": np.ones((5, 2))}, r"got weights of shape \(5, 2\).*transpose"),
        ({"checkpoints": np.zeros((3, 5))}, r"checkpoints must have shape \(2, 5\) like initial, or a list"),
        ({"steps": [1, 2]}, r"steps must be 1 increasing numbers, one for each checkpoint, got \[1, 2\]"),
        ({"network": 3}, "network must be a JAX function of"),
        ({"network": lambda params, x: x @ params.T}, r"network must give outputs of shape \(30, 3\) for 30 rows of 3"),
        ({"network": lambda params, x: np.asarray(x)[:, :3]}, "network must be a JAX function of .* cannot be traced"),
        ({"network": lambda params, x: jnp.log(-jnp.abs(x[:, :3]))}, "network must give finite outputs, got others at"),
        ({"network": mlp, "initial": {"w": np.zeros(2)}}, "checkpoints must be parameters like initial, or a list"),
        ({"network": mlp, "checkpoints": [np.zeros((2, 5)), 1.0]}, "like initial, got others at index 1"),
        ({"network": mlp, "checkpoints": np.zeros((3, 5))}, r"leaves of shapes \[\(2, 5\)\] like initial, got"),
    ],
)
def test_bad_arguments_are_named_in_one_line(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        call(**changes)
    assert "\n" not in str(caught.value)
