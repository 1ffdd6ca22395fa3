import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.mean_field.gaussian_problem import Modes, batch_variance, gaussian_moments, reshuffled_mean_variance
from unlazy.training.mean_field.langevin import (
    anchor,
    build_step,
    curvature,
    init,
    noisy_step,
    run,
    sample_mean_field,
    variation_gradient,
)

MODE, HEAT = Modes(0.5, 1.5, 0.3, 1.0), 0.2
ROWS = np.array([-1.2, 0.1, 0.4, 0.3, 0.9, 1.3])
START = np.random.default_rng(0).normal(size=(20, 50))
USUAL = {"temperature": 0.2, "confinement": 0.25, "steps": 64}


def problem_q(particles, rows=0.3):
    """Problem Q for each column, without its confinement a/2 = 0.25."""
    centre = particles.mean(axis=0)
    return jnp.sum(0.75 * (centre - 1.0) ** 2 - jnp.mean(jnp.asarray(rows)) * centre)


def moments_of_q(x):
    return {"mean": x.mean(), "spread": x.var(axis=0, ddof=1).mean(), "wander": ((x.mean(axis=0) - 0.9) ** 2).mean()}


def network(particles, rows):
    inputs, labels = rows
    return 0.5 * jnp.mean((4 * jnp.tanh(particles[:, :1] * inputs + particles[:, 1:]).mean(axis=0) - labels) ** 2)


def test_the_gradient_is_that_of_the_first_variation():
    """F = mean_ij k(x_i, x_j) has the first variation 2 mean_j k(x, x_j); its gradient by finite differences."""
    with jax.enable_x64(True):
        points = np.random.default_rng(1).normal(size=(7, 2))

        def kernel(x, y):
            return jnp.exp(-jnp.sum((x - y) ** 2))

        def functional(particles):
            return jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(particles))(particles).mean()

        found = np.asarray(jax.jit(lambda x: variation_gradient(functional, x))(jnp.asarray(points)))

        def variation(x):
            return 2 * np.mean([np.exp(-np.sum((x - y) ** 2)) for y in points])

        for place in (0, 5):
            for axis in range(2):
                shift = 1e-5 * np.eye(2)[axis]
                slope = (variation(points[place] + shift) - variation(points[place] - shift)) / 2e-5
                assert found[place, axis] == pytest.approx(slope, abs=1e-8)


def test_a_step_is_a_gradient_step_plus_noise_of_its_variance():
    particles, gradient = jnp.full((300, 101), 2.0), jnp.full((300, 101), 3.0)
    settings = {"temperature": 0.5, "confinement": 0.25, "step_size": 0.1}
    step = jax.jit(lambda *arrays: noisy_step(jax.random.key(0), 7, *arrays, **settings))
    moved = np.asarray(step(particles, gradient), np.float64)
    size = moved.size
    assert moved.mean() == pytest.approx(2 - 0.1 * (3 + 1), abs=4.5 * np.sqrt(0.1 / size))
    assert moved.var() == pytest.approx(0.1, rel=4.5 * np.sqrt(2 / size))


def test_a_step_without_heat_is_gradient_descent_and_variance_reduction_is_exact_at_its_anchor():
    data = (jnp.linspace(-2, 2, 12), jnp.sin(jnp.linspace(-3, 3, 12)))
    start = np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32)
    numbers = {"temperature": 0.0, "confinement": 0.1, "step_size": 0.05}

    @jax.jit
    def steps(start, data, key):
        full = build_step(network, **numbers)(key, init(start), data).particles
        some = jax.tree.map(lambda leaf: leaf[jnp.array([3, 7])], data)
        state = anchor(init(start), network, data)
        reduced = build_step(network, variance_reduction=True, **numbers)(key, state, some).particles
        return full, reduced, start - 0.05 * (5 * jax.grad(network)(start, data) + 0.2 * start)

    full, reduced, expected = map(np.asarray, steps(start, data, jax.random.key(0)))
    assert full == pytest.approx(expected, abs=1e-6)
    assert reduced == pytest.approx(full, abs=1e-6)


@pytest.mark.parametrize(
    "kind", ["independent", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("full", "reshuffled", "reduced"))]
)
def test_particles_have_the_moments_of_problem_q(kind):
    eta, number, batch = 0.2, 5, None if kind == "full" else 2
    clouds = 500

    def cloud(key):
        return run(
            key,
            0.9 + np.sqrt(0.4) * jax.random.normal(key, (number, 1)),
            problem_q,
            steps=240,
            temperature=HEAT,
            confinement=0.25,
            step_size=eta,
            data=jnp.asarray(ROWS, jnp.float32),
            batch_size=batch,
            batches="independent" if kind == "independent" else "reshuffled",
            variance_reduction=kind == "reduced",
            observables=moments_of_q,
            average_from=60,
        ).averages

    found = jax.jit(jax.vmap(cloud))(jax.random.split(jax.random.key(5), clouds))
    noise = {"independent": batch_variance(6, 2, ROWS.var())}.get(kind, 0.0)
    exact = gaussian_moments(MODE, HEAT, eta, np.inf, particles=number, gradient_variance=noise)
    wander = exact.mean_variance[0]
    if kind == "reshuffled":
        wander = reshuffled_mean_variance(MODE, 6, 2, HEAT, eta, ROWS.var(), particles=number)[0]
    for values, value in ((found["spread"], exact.particle_variance[0]), (found["wander"], wander)):
        error = float(values.std()) / np.sqrt(clouds)
        assert abs(float(values.mean()) - value) < 4 * error
        assert error < 0.05 * value / 1.5  # so that a value wrong by 20% would be seen


def test_batches_of_an_epoch_are_disjoint_and_the_same_for_all_particles():
    """The functional is linear in indicators of the rows, so that without heat the particles count the rows seen."""

    def functional(particles, rows):
        return -(rows.mean(axis=0) * particles.mean(axis=0)).sum()

    def counts(record_at, batches):
        seen = jax.jit(
            lambda key: (
                run(
                    key,
                    jnp.zeros((4, 6)),
                    functional,
                    steps=record_at[-1],
                    temperature=0.0,
                    confinement=0.0,
                    step_size=1.0,
                    data=jnp.eye(6),
                    batch_size=2,
                    batches=batches,
                    observables=lambda x: x,
                    record_at=record_at,
                    record_observables=True,
                ).records
            )
        )(jax.random.key(3))
        assert np.ptp(np.asarray(seen), axis=1).max() == 0
        return np.asarray(seen)[:, 0] * 2

    for steps, found in zip((1, 3, 4, 6), counts((1, 3, 4, 6), "reshuffled"), strict=True):
        assert found.sum() == pytest.approx(2 * steps)
        assert np.ptp(found) == pytest.approx(0 if steps % 3 == 0 else 1)
    one, many = counts((1, 600), "independent")
    assert sorted(one) == [0, 0, 0, 0, 1, 1]
    assert many.sum() == 1200
    assert abs(many - 200).max() < 4 * np.sqrt(600 * (1 / 3) * (2 / 3))
    assert abs(many - 200).max() > 0


def test_time_averages_and_records_are_those_of_the_path():
    start = jnp.asarray(START[:, :1], jnp.float32)
    path = jax.jit(
        lambda key: run(
            key,
            start,
            problem_q,
            steps=12,
            temperature=0.2,
            confinement=0.25,
            step_size=0.1,
            observables=lambda x: x.mean(),
            average_from=5,
            observe_every=3,
            record_at=range(13),
            record_observables=True,
        )
    )(jax.random.key(0))
    records = np.asarray(path.records)
    assert path.averages == pytest.approx(records[[6, 9, 12]].mean(), rel=1e-5)
    assert records[-1] == pytest.approx(float(path.particles.mean()), rel=1e-5)
    centre = START[:, 0].mean()
    assert records[0] == pytest.approx(centre, rel=1e-5)
    energy = 0.75 * (centre - 1) ** 2 - 0.3 * centre + 0.25 * (START[:, 0] ** 2).mean()
    assert path.energies[0] == pytest.approx(energy, rel=1e-5)


def test_an_epoch_starts_for_all_instances_at_once():
    """A branch whose condition is batched would become a selection, and an anchor's gradient be taken at every step."""
    data = (jnp.linspace(-2, 2, 12), jnp.ones(12))

    def instance(key, rate):
        options = {"steps": 9, "temperature": 0.1, "confinement": 0.1, "step_size": rate}
        start = jax.random.normal(key, (5, 2))
        return run(key, start, network, data=data, batch_size=4, variance_reduction=True, **options).particles

    keys = jax.random.split(jax.random.key(0), 3)
    program = str(jax.make_jaxpr(jax.vmap(instance))(keys, jnp.ones(3)))
    assert program.count(" cond[") == 1


def test_the_curvature_is_the_largest_eigenvalue_also_below_a_larger_negative_one():
    """N times the Hessian is 6 and -14 for each particle, and 4 more along the mean of the first coordinates."""
    start = jnp.asarray(np.random.default_rng(3).normal(size=(4, 2)), jnp.float32)

    def functional(particles):
        return jnp.mean(3 * particles[:, 0] ** 2 - 7 * particles[:, 1] ** 2) + 2 * particles[:, 0].mean() ** 2

    assert curvature(functional, start, 0.5) == pytest.approx(11.0, rel=1e-3)


def test_a_sample_has_the_moments_of_problem_q_with_the_bias_that_it_states():
    sample = sample_mean_field(problem_q, START, **USUAL | {"steps": 2000}, observables=moments_of_q, seed=1)
    assert sample.step_size == pytest.approx(0.125, rel=1e-3)
    assert "0.25/curvature, 2 at the start" in sample.step_reason
    assert "14%" in sample.step_reason
    exact = gaussian_moments(MODE, HEAT, sample.step_size, np.inf, particles=20)
    values = {"mean": 0.9, "spread": exact.particle_variance[0], "wander": exact.mean_variance[0]}
    for name, value in values.items():
        error = float(sample.standard_errors[name])
        assert abs(sample.averages[name] - value) < 4 * error
        assert error < 0.02 * value
    # of the mean, the stiffest direction, without the bias of the step; a step of 1/curvature would give 2
    unbiased = HEAT / (20 * (0.5 + 1.5))
    assert 1.05 < sample.averages["wander"] / unbiased < 1.15 + 4 * sample.standard_errors["wander"] / unbiased
    assert sample.energies.shape == sample.recorded_at.shape
    assert sample.recorded_at[-1] == 2000


def test_a_step_above_the_linear_limit_is_refused_only_if_a_trial_runs_away():
    with pytest.raises(InputError, match=r"below 2/curvature = 1, the largest linearly stable .* got 1.01"):
        sample_mean_field(problem_q, START, **USUAL, observables=moments_of_q, step_size=1.01)
    z = np.linspace(-2, 2, 20)
    # at the origin the curvature is R^2 lmax(Z^T Z/n) + 2 confinement, Z the inputs with a column of ones
    limit = 2 / (16 * np.linalg.eigvalsh(np.stack([z, np.ones(20)]) @ np.stack([z, np.ones(20)]).T / 20)[-1] + 0.01)
    options = {"temperature": 0.01, "confinement": 0.005, "steps": 64, "data": (z, np.sin(2 * z))}
    with pytest.warns(UserWarning, match=f"= {limit:.3g}, the largest linearly stable"):
        sample = sample_mean_field(network, 1e-3 * START[:, :2], **options, step_size=3 * limit)
    assert "trial" in sample.step_reason
    assert np.isfinite(sample.energies).all()


@pytest.mark.slow
def test_an_automatic_step_follows_the_curvature():
    """x^4 is flat where this cloud starts, and the first step too long for where it goes."""
    sample = sample_mean_field(
        lambda x: jnp.mean(jnp.sum(x**4, axis=1)),
        0.01 * START[:, :1],
        temperature=0.2,
        confinement=0.25,
        steps=640,
    )
    assert np.isfinite(sample.energies).all()
    assert sample.step_size < 0.5
    assert sample.curvature > 2
    with pytest.raises(InputError, match="bounded below"):
        sample_mean_field(lambda x: -jnp.mean(jnp.sum(x**4, axis=1)), START[:, :1], **USUAL | {"steps": 640})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"functional": lambda x: x.mean(axis=0)}, "one real number"),
        ({"functional": lambda x: x[0].sum()}, "order of the particles"),
        ({"functional": lambda x: x.mean() * jnp.nan}, "finite at the starting particles"),
        ({"functional": lambda x: jnp.mean(jnp.sqrt(jnp.abs(x - x.mean()) * 0))}, "finite gradient"),
        ({"functional": lambda x: float(x.mean())}, "JAX function"),
        ({"functional": 3}, "function of the particles"),
        ({"start": START[:1]}, "N >= 2"),
        ({"start": START[:, 0]}, "shape"),
        ({"start": START * np.inf}, "finite"),
        ({"temperature": 0.0}, "temperature must be > 0"),
        ({"confinement": 0.0}, "self_confined"),
        ({"confinement": -1.0}, "confinement must be >= 0"),
        ({"steps": 0}, "steps must be an integer >= 1"),
        ({"step_size": 0.0}, "step_size must be > 0"),
        ({"step_size": "fast"}, "auto"),
        ({"batch_size": 2}, "batch_size needs data"),
        ({"variance_reduction": True}, "variance_reduction needs batch_size"),
        ({"functional": problem_q, "data": ROWS, "batch_size": 7}, "batch_size must be an integer >= 1 and <= 6"),
        ({"functional": lambda x, r: (r.mean() - x.mean()) ** 2, "data": ROWS, "batch_size": 2}, "mean over rows"),
        ({"functional": problem_q, "data": np.zeros((0, 2))}, "at least 1 row"),
        ({"discard": 1.0}, "discard"),
        ({"batches": "other"}, "batches must be one of"),
    ],
)
def test_wrong_input_is_named(changes, message):
    arguments = {"functional": problem_q, "start": START} | USUAL | changes
    with pytest.raises(InputError, match=message):
        sample_mean_field(**arguments)


def test_a_step_that_becomes_unstable_is_diagnosed():
    quartic = {
        "functional": lambda x: jnp.mean(jnp.sum(x**4, axis=1)),
        "start": 0.01 * START[:, :1],
        "step_size": 1.0,
    }
    with pytest.raises(InputError, match=r"step_size=1 is unstable.*take at most"):
        sample_mean_field(**quartic, **USUAL | {"steps": 640})


def test_a_run_shorter_than_the_relaxation_of_the_confinement_is_warned_of():
    start, numbers = np.zeros((4, 1)), {"temperature": 0.1, "confinement": 0.05, "step_size": 0.1}

    def flat(x):
        return 0 * x.sum()

    with pytest.warns(UserWarning, match=r"lasted 9.9 units of time, less than 1/\(2 confinement\) = 10, .* steps=100"):
        sample_mean_field(flat, start, steps=99, **numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample_mean_field(flat, start, steps=101, **numbers)


@pytest.mark.parametrize("used", [2, 4, 6])
def test_the_first_rows_of_an_independent_batch_are_a_batch_themselves(used):
    """One step of a functional that is linear in the rows shows which it saw: each row, and each pair, as often."""
    count, runs, rows = 8, 4000, jnp.eye(8)

    def functional(cloud, seen):
        weights = 1.0 if len(seen) == count else (jnp.arange(len(seen)) < used)[:, None]
        return jnp.sum(weights * seen * cloud.mean(axis=0))

    def one(key):
        numbers = {"temperature": 0.0, "confinement": 0.0, "step_size": 1.0}
        options = {"data": rows, "batch_size": 6, "used": used, "batches": "independent", "steps": 1}
        return -run(key, jnp.zeros((2, count)), functional, **options, **numbers).particles[0]

    seen = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), runs)))
    assert set(np.unique(seen)) == {0.0, 1.0}
    assert (seen.sum(axis=1) == used).all()
    share, both = used / count, used * (used - 1) / (count * (count - 1))
    off = ~np.eye(count, dtype=bool)
    assert np.abs(seen.mean(axis=0) - share).max() < 4 * np.sqrt(share / runs)
    assert np.abs((seen.T @ seen / runs)[off] - both).max() < 4 * np.sqrt(both / runs)
