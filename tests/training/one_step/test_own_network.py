import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.rows import Rows
from unlazy.lab.running.saved import Saved
from unlazy.training.one_step.own_network import train_network
from unlazy.training.one_step.own_network.equinox_network import EquinoxNetwork
from unlazy.training.one_step.own_network.measures import MEASURES, linearised_outputs

torch = pytest.importorskip("torch")


def rows(n=20, d=5, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n + 30, d))
    y = np.tanh(x @ rng.standard_normal((d, outputs))) - 0.1
    return Rows(x[:n], y[:n], x[n:], y[n:])


def equinox_network(seed, shape, outputs, width=48):
    """The weights of `torch_network`."""
    return Pair(*(jnp.asarray(w.detach().numpy()) for w in torch_network(seed, shape, outputs, width).parameters()))


class Pair(eqx.Module):
    first: jax.Array
    second: jax.Array
    third: jax.Array

    def __call__(self, x):
        return self.third @ jnp.tanh(self.second @ jnp.tanh(self.first @ x))


def torch_network(seed, shape, outputs, width=48):
    torch.manual_seed(seed)
    sizes = [(shape[0], width), (width, width), (width, outputs)]
    first, second, third = (torch.nn.Linear(*size, bias=False) for size in sizes)
    return torch.nn.Sequential(first, torch.nn.Tanh(), second, torch.nn.Tanh(), third)


def trained(make, saved=None, **options):
    chosen = {
        "output_scale": (0.3, 3.0),
        "step_size": 0.1,
        "steps": 12,
        "kernel_rows": 10,
        "permutations": 3,
        "segment": 5,
    }
    outputs = options.pop("outputs", 1)
    return train_network(np.random.default_rng(1), saved or Saved(), make, rows(outputs=outputs), **chosen | options)


@pytest.mark.parametrize(
    "options", [{}, {"optimiser": "adam", "step_size": 0.01}, {"batch_size": 6}, {"outputs": 3}], ids=str
)
def test_both_libraries_train_and_measure_the_same(options):
    one, other = trained(equinox_network, **options), trained(torch_network, **options)
    for name in MEASURES:
        np.testing.assert_allclose(one[name], other[name], rtol=2e-3, atol=2e-4, err_msg=name)
    assert (one["feature_change"] > 1e-3).all()
    assert one["diverged_at"] == other["diverged_at"] == -1


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_tangent_kernel_is_the_product_of_all_gradients(outputs):
    data = rows(40, outputs=outputs)
    network = EquinoxNetwork(equinox_network(0, (5,), outputs), data.inputs[0])
    found = network.tangent_kernel(network.weights, data.inputs, data.fresh_inputs[:7])
    first, second, third = (w.astype(float) for w in network.weights)

    def gradient(x):
        one = np.tanh(first @ x)
        two = np.tanh(second @ one)
        back = third * (1 - two**2)
        further = back @ second * (1 - one**2)
        parts = [np.einsum("ka,b->kab", further, x), np.einsum("ka,b->kab", back, one)]
        parts.append(np.einsum("kj,b->kjb", np.eye(outputs), two))
        return np.concatenate([part.reshape(outputs, -1) for part in parts], axis=1)

    left, right = (np.concatenate([gradient(x) for x in part]) for part in (data.inputs, data.fresh_inputs[:7]))
    np.testing.assert_allclose(found, left @ right.T, rtol=1e-4, atol=1e-5)
    # the gradient of the first output by the readout is what the readout sees, and 0 for the other outputs
    seen = network.seen(network.weights, data.inputs)[1].sum(axis=1)
    expected = [np.tanh(second @ np.tanh(first @ x)).sum() for x in data.inputs]
    np.testing.assert_allclose(seen, expected, rtol=1e-4, atol=1e-4)


def test_a_network_that_is_linear_in_its_weights_is_its_own_linearisation():
    def linear(seed, shape, outputs):
        return eqx.nn.Linear(shape[0], outputs, key=jax.random.key(seed))

    found = trained(linear, steps=30)
    assert (found["linearised_distance"] < 1e-4).all()
    assert (found["feature_change"] == 0).all()
    assert (trained(equinox_network, steps=30)["linearised_distance"][0]) > 0.01


def test_linear_descent_ends_in_kernel_regression():
    rng = np.random.default_rng(3)
    features = rng.standard_normal((12, 20))
    kernel = features @ features[:8].T
    targets = rng.standard_normal((8, 2))
    found = linearised_outputs(kernel, targets, 0.01, 5000)
    np.testing.assert_allclose(found, kernel @ np.linalg.solve(kernel[:8], targets), rtol=1e-6, atol=1e-8)


class Interrupted(Saved):
    """A file in memory, and a kill after some saves."""

    def __init__(self, lives):
        super().__init__()
        self.lives, self.kept = lives, None

    def load(self):
        return self.kept

    def save(self, arrays):
        self.kept = {name: np.array(array) for name, array in arrays.items()}
        self.lives -= 1
        if not self.lives:
            raise KeyboardInterrupt


@pytest.mark.parametrize("make", [equinox_network, torch_network])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("lives", [1, 4])
def test_a_run_that_was_killed_goes_on_to_the_same_numbers(make, optimiser, lives):
    options = {"optimiser": optimiser, "batch_size": 7, "step_size": 0.02}
    saved = Interrupted(lives)
    with pytest.raises(KeyboardInterrupt):
        trained(make, saved, **options)
    resumed, whole = trained(make, saved, **options), trained(make, **options)
    for name in MEASURES:
        np.testing.assert_array_equal(resumed[name], whole[name], err_msg=name)


def test_a_training_that_diverges_says_when():
    found = trained(lambda *sizes: torch.nn.Linear(5, 1), step_size=1000.0, steps=200)
    assert 0 < found["diverged_at"] <= 200
    assert np.isnan(found["test_error"]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda *sizes: torch.nn.Linear(5, 2), "network must have 1 output as the targets, it has 2"),
        (lambda *sizes: torch.nn.Linear(4, 1), r"network must take rows of shape \(5,\), but it raised"),
        (lambda *sizes: torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1)), "BatchNorm1d mixes"),
        (lambda *sizes: torch.nn.Flatten(), "network must have parameters to train"),
        (lambda *sizes: jnp.sum, "network must have arrays of floating-point numbers"),
        (lambda *sizes: eqx.nn.Linear(4, 1, key=jax.random.key(0)), r"network must take a row of shape \(5,\)"),
        (lambda *sizes: 3, "network must be a module of Equinox or PyTorch, got int"),
    ],
)
def test_networks_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        trained(make)
    with pytest.raises(InputError, match="batch_size must be at most n = 20"):
        trained(equinox_network, batch_size=21)
