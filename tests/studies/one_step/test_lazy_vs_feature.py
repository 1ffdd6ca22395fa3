"""The study lazy-vs-feature, at sizes at which it takes seconds."""

import numpy as np
import pytest

import unlazy
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.laboratory import Laboratory


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of the trained networks over three widths, shared by the tests."""
    study = registry.find("lazy-vs-feature")
    grids = preset_grids(study, "quick", over={"width": [64, 128, 256]}, seeds=32)
    with Laboratory(tmp_path_factory.mktemp("store") / "results.sqlite") as laboratory:
        return laboratory.run(study, {"main": grids["main"]})


@pytest.fixture(scope="module")
def simulated(run):
    return run.simulated


def slope_of(simulated, name, exponent):
    values = np.log(simulated[name].sel(output_exponent=exponent).transpose("seed", "width").values)
    x = np.log(simulated.width.values)
    return np.array([np.polyfit(x, row, 1)[0] for row in values])


@pytest.mark.parametrize(("exponent", "expected"), [(0.5, -0.5), (0.75, -0.25), (1.0, 0.0)])
def test_neurons_move_by_n_to_the_s_minus_one(simulated, exponent, expected):
    slopes = slope_of(simulated, "neuron_displacement", exponent)
    # The widths are finite: 0.02 for corrections to the power law.
    slack = 4 * slopes.std(ddof=1) / np.sqrt(slopes.size) + 0.02
    assert abs(slopes.mean() - expected) <= slack
    assert abs(slopes.mean() - (1.2 * expected or 0.1)) > slack


def test_verdicts_tell_lazy_training_from_feature_learning(run):
    verdicts = {v.claim.id: v.verdict for v in run.verdicts}
    assert verdicts["lazy-displacement"] == "holds"
    assert verdicts["feature-displacement"] == "holds"
    assert verdicts["slide-lazy"] == "fails"
    assert run.verdicts[-1].claim.known_negative


def test_all_arms_see_the_same_data(simulated):
    """The labels are shared, so that the linearised displacement of two widths is strongly correlated over seeds."""
    linear = simulated.linearised_displacement.sel(output_exponent=0.5)
    assert np.corrcoef(linear.isel(width=0), linear.isel(width=2))[0, 1] > 0.5


def test_the_lazy_network_moves_as_its_linearisation_and_the_other_does_not(simulated):
    ratio = (simulated.displacement / simulated.linearised_displacement).mean("seed").isel(width=-1)
    assert abs(ratio.sel(output_exponent=0.5) - 1) < 0.05
    assert abs(ratio.sel(output_exponent=1.0) - 1) > 0.05


def test_results_have_the_declared_precision_and_training_does_not_diverge(run, simulated):
    assert simulated.displacement.dtype == np.float32
    assert (simulated.diverged_at == -1).all()
    assert run.divergence == ""


def test_an_unstable_rate_says_at_which_step_it_diverged(tmp_path):
    """With a linear link and relu the loss grows without bound."""
    wild = {
        "width": 32,
        "d": 10,
        "n": 60,
        "relative_step_size": 100.0,
        "activation": "relu",
        "link": "identity",
        "steps": 200,
        "output_exponent": 0.5,
    }
    study = registry.find("lazy-vs-feature")
    with Laboratory(tmp_path / "s.sqlite") as laboratory:
        result = laboratory.run(study, {"main": preset_grids(study, "quick", set=wild, seeds=2)["main"]})
    steps = result.simulated.diverged_at.values
    assert (steps >= 0).all()
    assert f"the first at step {steps.min()}" in result.divergence
    assert {v.verdict for v in result.verdicts} <= {"untested", "inconclusive", "fails"}


@pytest.mark.slow
def test_the_figure_draws_every_exponent(tmp_path):
    figure = unlazy.run("lazy-vs-feature", seeds=2, store=tmp_path / "s.sqlite").figure()
    assert len(figure.axes) == 6
    assert all(len(axes.containers) == 3 for axes in figure.axes)


def test_the_alignment_of_one_step_is_measured_as_in_many_samples():
    """The integral against the mean over pairs of independent inputs, before and after training."""
    import jax
    import jax.numpy as jnp

    from unlazy.data.single_index import SingleIndex
    from unlazy.models.two_layer import TwoLayer
    from unlazy.observables.alignment import target_alignment

    data = SingleIndex(8, "tanh")
    network = TwoLayer.random(jax.random.key(0), 8, 50)
    spiked = jnp.concatenate([network.first_layer[:1] + 1.0, network.first_layer[1:]])

    @jax.jit
    def run(first_layer):
        trained = TwoLayer(first_layer, network.second_layer, network.scale, network.activation)
        x = data.inputs(jax.random.key(1), 100_000)
        return data.target(x)[:, None] * trained.features(x), target_alignment(trained, "tanh", data.direction)

    for first_layer in (network.first_layer, spiked):
        weighted, found = (np.array(values, float) for values in run(first_layer))
        means, errors = weighted.mean(0), weighted.std(0) / np.sqrt(len(weighted))
        expected = np.mean(means**2 - errors**2)
        slack = 5 * np.mean(2 * np.abs(means) * errors)  # all neurons see the same inputs
        assert abs(found - expected) < slack
        assert abs(1.2 * found - expected) > slack


@pytest.mark.parametrize("spike", [0.0, 3.0, 50.0])
@pytest.mark.parametrize("name", ["relu", "erf"])
def test_the_alignment_has_its_closed_forms(name, spike):
    import jax.numpy as jnp

    from unlazy.models.two_layer import TwoLayer
    from unlazy.observables.alignment import target_alignment

    rng = np.random.default_rng(3)
    weights = rng.standard_normal((20, 64)) / np.sqrt(20)
    weights[0] += spike * rng.standard_normal(64)
    norms = np.linalg.norm(weights, axis=0)
    if name == "relu":
        angle = np.arccos(weights[0] / norms)
        means = norms / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    else:
        means = 2 / np.pi * np.arcsin(2 * weights[0] / np.sqrt(3 * (1 + 2 * norms**2)))
    network = TwoLayer(jnp.asarray(weights, jnp.float32), jnp.ones(64), jnp.ones(()), name)
    found = target_alignment(network, name, jnp.eye(20, dtype=jnp.float32)[0])
    np.testing.assert_allclose(float(found), np.mean(means**2), rtol=1e-4)


def test_theory_is_that_of_one_step():
    from unlazy.checks import InputError

    found = unlazy.predict("lazy-vs-feature", set={"steps": 1, "output_exponent": 1.0})
    assert float(found.target_alignment) > 2 * float(found.initial_target_alignment)
    with pytest.raises(InputError, match="it has one for steps = 1"):
        unlazy.predict("lazy-vs-feature")
