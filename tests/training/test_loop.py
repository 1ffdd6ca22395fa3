import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.checks import InputError
from unlazy.models.two_layer import TwoLayer
from unlazy.training.loop import evolve, train


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def problem():
    """A small network, its data and its loss."""
    rng = np.random.default_rng(0)
    w, a, x = (jnp.asarray(rng.normal(size=size)) for size in ((3, 6), 6, (8, 3)))
    network = TwoLayer(w, a, jnp.asarray(0.5), "tanh")
    y = jnp.tanh(2 * x[:, 0])
    return network, x, y, lambda model: jnp.mean((model(x) - y) ** 2) / 2


def everything(model):
    return model


def first_layer(model):
    return model.first_layer


def both_layers(model):
    return model.first_layer, model.second_layer


def test_trained_weights_equal_gradient_descent_written_by_hand():
    network, x, y, loss = problem()
    w, a, inputs, labels = (np.array(v) for v in (network.first_layer, network.second_layer, x, y))
    for _ in range(50):
        hidden = np.tanh(inputs @ w)
        residual = 0.5 * hidden @ a - labels
        w = w - 0.7 * inputs.T @ (residual[:, None] * 0.5 * a * (1 - hidden**2)) / len(labels)
    result = train(network, loss, optax.sgd(0.7), 50, trained=first_layer)
    np.testing.assert_allclose(result.model.first_layer, w, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(result.model.second_layer, network.second_layer)
    assert np.abs(w - network.first_layer).max() > 0.1
    assert int(result.diverged_at) == -1


def test_least_squares_follows_its_closed_form_at_every_record():
    hessian, optimum = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -2.0])

    def loss(w):
        return (w - optimum) @ hessian @ (w - optimum) / 2

    at = (0, 1, 5, 30)
    result = train(jnp.zeros(2), loss, optax.sgd(0.3), 40, trained=everything, record=lambda w: {"w": w}, record_at=at)
    contraction = np.eye(2) - 0.3 * hessian
    expected = [optimum - np.linalg.matrix_power(contraction, t) @ optimum for t in (*at, 40)]
    np.testing.assert_allclose(result.records["w"], expected[:-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(result.model, expected[-1], rtol=1e-12)


def test_only_the_selected_leaves_are_touched_even_by_weight_decay():
    network, _, _, loss = problem()
    result = train(network, loss, optax.adamw(0.1, weight_decay=0.5), 3, trained=both_layers)
    assert not np.allclose(result.model.second_layer, network.second_layer)
    assert float(result.model.scale) == float(network.scale)


def test_layers_may_have_rates_of_their_own():
    network, _, _, loss = problem()
    rates = {"fast": optax.sgd(0.5), "frozen": optax.set_to_zero()}
    two_rates = optax.multi_transform(rates, ("fast", "frozen"))
    together = train(network, loss, two_rates, 10, trained=both_layers).model
    alone = train(network, loss, optax.sgd(0.5), 10, trained=first_layer).model
    np.testing.assert_allclose(together.first_layer, alone.first_layer, rtol=1e-13)
    np.testing.assert_array_equal(together.second_layer, network.second_layer)


def test_stateful_optimiser_with_mini_batches_equals_a_plain_python_loop():
    x = jnp.asarray(np.random.default_rng(2).normal(size=(20, 3)))
    y = x[:, 0] - x[:, 1]

    def loss(w, key):
        batch = jax.random.randint(key, (5,), 0, 20)
        return jnp.mean((x[batch] @ w - y[batch]) ** 2)

    optimiser, key, w = optax.adam(0.05), jax.random.key(3), jnp.zeros(3)
    result = train(w, loss, optimiser, 7, trained=everything, key=key, record=everything, record_at=(2, 4))

    @jax.jit
    def update(w, state, step):
        change, state = optimiser.update(jax.grad(loss)(w, jax.random.fold_in(key, step)), state)
        return optax.apply_updates(w, change), state

    state, visited = optimiser.init(w), [w]
    for step in range(7):
        w, state = update(w, state, step)
        visited.append(w)
    np.testing.assert_allclose(result.model, w, rtol=1e-12)
    np.testing.assert_allclose(result.records, [visited[2], visited[4]], rtol=1e-12)


def test_many_runs_at_once_equal_single_runs():
    network, _, _, loss = problem()

    def losses(rate):
        optimiser = optax.sgd(rate)
        return train(network, loss, optimiser, 20, trained=first_layer, record=loss, record_at=(5, 20)).records

    rates, one_run = jnp.array([0.1, 0.5, 1.0]), jax.jit(losses)
    single = [one_run(rate) for rate in rates]
    np.testing.assert_allclose(jax.jit(jax.vmap(losses))(rates), single, rtol=1e-12)


@pytest.mark.parametrize(("steps", "expected"), [(64, -1), (65, 64), (200, 64)])
def test_divergence_is_reported_at_the_step_where_the_loss_overflows(steps, expected):
    """With rate 3 the loss w^2/2 is driven through w = (-2)^t, and w^2 = 4^t leaves float32 at t = 64."""
    start = jnp.ones((), jnp.float32)
    result = train(start, lambda w: w**2 / 2, optax.sgd(3.0), steps, trained=everything)
    assert int(result.diverged_at) == expected


def test_divergence_of_the_last_update_is_reported():
    result = train(jnp.zeros(()), jnp.sqrt, optax.sgd(0.1), 1, trained=everything)
    assert not np.isfinite(result.model)
    assert int(result.diverged_at) == 1


def test_the_program_does_not_grow_with_the_number_of_records():
    network, _, _, loss = problem()

    def evaluations(record_at):
        program = jax.make_jaxpr(
            lambda net: (
                train(net, loss, optax.sgd(0.1), 100, trained=first_layer, record=loss, record_at=record_at).records
            )
        )(network)
        return str(program).count(" tanh ")

    assert evaluations((0, 100)) == evaluations(range(100)) > 0


def test_no_steps_leave_the_model_as_it_was():
    network, _, _, loss = problem()
    result = train(network, loss, optax.sgd(0.1), 0, trained=first_layer, record=loss)
    np.testing.assert_array_equal(result.model.first_layer, network.first_layer)
    np.testing.assert_allclose(result.records, [loss(network)], rtol=1e-13)


@pytest.mark.parametrize("record_at", [(), (3, 2), (1, 1), (-1, 2), (5, 11)])
def test_wrong_record_steps_are_refused(record_at):
    with pytest.raises(InputError, match="record_at must be increasing steps from 0 to 10"):
        train(jnp.zeros(()), jnp.sin, optax.sgd(0.1), 10, trained=everything, record_at=record_at)


def test_steps_equal_a_plain_loop_and_are_recorded_on_the_way():
    def step(number, state):
        return {"x": 0.5 * state["x"] + number, "key": jax.random.fold_in(state["key"], number)}

    start = {"x": jnp.array([1.0, -2.0]), "key": jax.random.key(4)}
    visited = [start]
    for number in range(6):
        visited.append(step(number, visited[-1]))
    end, records = jax.jit(lambda state: evolve(step, state, 6, record=lambda s: s["x"], record_at=(0, 2, 5)))(start)
    np.testing.assert_array_equal(records, [visited[number]["x"] for number in (0, 2, 5)])
    np.testing.assert_array_equal(end["x"], visited[-1]["x"])
    assert end["key"] == visited[-1]["key"]


def test_steps_end_for_good_where_they_are_stopped_each_instance_on_its_own():
    def run(limit):
        return evolve(
            lambda number, x: x + number + 1,
            jnp.float64(0.0),
            20,
            record=lambda x: x,
            record_at=(1, 3, 9),
            stop=lambda x: x >= limit,
        )

    end, records = jax.jit(jax.vmap(run))(jnp.array([0.0, 5.0, 1e9]))
    # 1, 3, 6, ... are the triangular numbers
    np.testing.assert_array_equal(end, [0.0, 6.0, 210.0])
    np.testing.assert_array_equal(records, [[0.0, 0.0, 0.0], [1.0, 6.0, 6.0], [1.0, 6.0, 45.0]])
