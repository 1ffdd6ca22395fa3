import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.models.functionals import mmd_functional, smoothed_log_density, stein_functional, stein_gram
from unlazy.theory.mean_field.grid import Loss
from unlazy.theory.mean_field.optimum import density_optimum, mean_field_optimum
from unlazy.training.mean_field.langevin import sample_mean_field, variation_gradient

PAGE = Path(__file__).parents[2] / "docs/mean_field_functionals.md"
PRECISION = np.array([[1.5, -0.2], [-0.2, 0.8]])
RNG = np.random.default_rng(0)


def test_mmd_of_smoothed_particles_is_the_integral_over_their_densities():
    """MMD^2 = int int k (p - q)(p - q), with p the mixture of particles and q the data, by quadrature over p."""
    particles, data, length, spread = np.array([-0.4, 0.9, 1.3]), np.array([0.2, -1.0]), 0.7, 0.5

    def kernel(x, y):
        return np.exp(-((x - y) ** 2) / (2 * length**2))

    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    points = (particles[:, None] + spread * nodes).ravel()
    masses = np.tile(weights / weights.sum(), 3) / 3
    cross = masses @ kernel(points[:, None], data).mean(axis=1)
    expected = masses @ kernel(points[:, None], points) @ masses - 2 * cross + kernel(data[:, None], data).mean()
    with jax.enable_x64(True):
        found = mmd_functional(data, length, spread)(jnp.asarray(particles[:, None]))
    assert float(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("d", [5])
def test_particles_at_the_data_without_smoothing_have_no_discrepancy_and_far_data_change_nothing(d):
    data, particles = RNG.normal(size=(9, d)), RNG.normal(size=(6, d))
    plain = float(mmd_functional(data, 0.8, 0.4)(jnp.asarray(particles, jnp.float32)))
    assert float(mmd_functional(data, 0.8, 0.0)(jnp.asarray(data, jnp.float32))) == pytest.approx(0, abs=1e-6)
    with jax.enable_x64(True):
        moved = mmd_functional(data + 1e5, 0.8, 0.4)(jnp.asarray(particles + 1e5))
    assert float(moved) == pytest.approx(plain, abs=2e-6)


def test_mmd_is_a_mean_over_rows_and_runs_in_mini_batches():
    data = RNG.normal(size=(40, 2))
    functional = mmd_functional(data, 0.6, 0.3)
    particles = jnp.asarray(data[:8], jnp.float32)
    parts = [float(functional(particles, data[i : i + 10])) for i in range(0, 40, 10)]
    assert np.mean(parts) == pytest.approx(float(functional(particles)), abs=1e-6)
    sample = sample_mean_field(
        functional, data[:8], temperature=0.05, confinement=0.02, steps=64, data=data, batch_size=10
    )
    assert np.isfinite(sample.cloud).all()


@pytest.mark.slow
def test_particles_reach_the_energy_of_the_exact_optimum():
    data = np.array([-1.5, -1.2, -0.9, 0.8, 1.0, 1.1, 1.6, 1.9])
    found = density_optimum(data, bandwidth=0.6, smoothing=0.3, confinement=0.02, temperature=0.05)
    assert found.energy == pytest.approx(0.0461472536, abs=1e-9)
    functional = mmd_functional(data, 0.6, 0.3)

    def energy(x):
        return functional(x) + 0.02 * (x**2).mean()

    start = RNG.normal(size=(256, 1))
    sample = sample_mean_field(
        functional, start, temperature=0.05, confinement=0.02, steps=4000, step_size=0.1, observables=energy
    )
    # N = 256 adds 0.0002, the step 0.0003; the energy of the start is 0.03 higher
    assert sample.averages == pytest.approx(found.energy + 0.0005, abs=0.002)


def test_log_density_is_that_of_the_mixture_and_finite_far_away():
    centres, places = RNG.normal(size=(5, 2)), RNG.normal(size=(7, 2))
    expected = [np.log(np.mean([norm.pdf(z, x, 0.3).prod() for x in centres])) for z in places]
    np.testing.assert_allclose(smoothed_log_density(centres, 0.3, places), expected, rtol=1e-10)
    clouds = np.stack([centres, centres + 1])
    both = [smoothed_log_density(cloud, 0.3, places) for cloud in clouds]
    np.testing.assert_allclose(smoothed_log_density(clouds, 0.3, places), np.logaddexp(*both) - np.log(2), rtol=1e-10)
    assert smoothed_log_density([0.0], 1.0, [1e3]) == pytest.approx(-5e5 - 0.5 * np.log(2 * np.pi))


def test_stein_kernel_has_the_value_of_its_definition():
    """A value computed elsewhere, and u = trace of derivatives of k by automatic differentiation in five dimensions."""
    x, y = np.array([[0.3, -0.6]]), np.array([[1.0, 0.4]])
    assert stein_gram(x, -x @ PRECISION, y, -y @ PRECISION, 3.0, 1.0) == pytest.approx(-0.0375719003777, abs=1e-12)

    def kernel(x, y):
        return jnp.exp(-(x @ x + y @ y) / (2 * 1.5**2) - (x - y) @ (x - y) / (2 * 0.8**2))

    with jax.enable_x64(True):
        a, b, s, t = jnp.asarray(RNG.normal(size=(4, 5)))
        mixed = jnp.trace(jax.jacfwd(jax.grad(kernel), argnums=1)(a, b))
        expected = s @ t * kernel(a, b) + s @ jax.grad(kernel, 1)(a, b) + jax.grad(kernel)(a, b) @ t + mixed
        found = stein_gram(a[None], s[None], b[None], t[None], 1.5, 0.8)[0, 0]
    assert float(found) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("place", [-1.7, 0.4])
def test_stein_kernel_has_mean_zero_under_the_target(place):
    def kernel(x, y):
        x, y = np.array([[x]]), np.array([[y]])
        return stein_gram(x, 2 - x**3, y, 2 - y**3, 3.0, 1.0)[0, 0]

    def density(y):
        return np.exp(2 * y - y**4 / 4)

    total = quad(lambda y: abs(kernel(place, y)) * density(y), -6, 6, epsabs=1e-12)[0]
    assert abs(quad(lambda y: kernel(place, y) * density(y), -6, 6, epsabs=1e-12)[0]) < 1e-9 * total


def test_gradient_of_stein_discrepancy_is_that_of_the_first_variation():
    with jax.enable_x64(True):
        particles = RNG.normal(size=(6, 2))
        functional = stein_functional(jax.grad(lambda x: -x @ PRECISION @ x / 2), 3.0, 1.0)
        found = variation_gradient(functional, jnp.asarray(particles))

        def variation(x):
            x = x[None]
            return 2 * stein_gram(x, -x @ PRECISION, particles, -particles @ PRECISION, 3.0, 1.0).mean()

        for axis in range(2):
            shift = 1e-5 * np.eye(2)[axis]
            slope = (variation(particles[3] + shift) - variation(particles[3] - shift)) / 2e-5
            assert found[3, axis] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("kind", ["mmd", "stein"])
def test_memory_of_a_gradient_does_not_grow_with_n_squared_times_d(kind):
    count, d = 200, 100
    data = RNG.normal(size=(count, d))
    functional = mmd_functional(data, 3.0, 1.0) if kind == "mmd" else stein_functional(lambda x: -x, 10.0, 3.0)
    compiled = jax.jit(jax.grad(functional)).lower(jnp.asarray(data, jnp.float32)).compile()
    entries = compiled.memory_analysis().temp_size_in_bytes / 4
    assert entries < 12 * (count**2 + count * d)
    assert entries < count**2 * d / 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mmd_functional([], 1.0, 0.1), "data must not be empty"),
        (lambda: mmd_functional([[0.0, np.nan]], 1.0, 0.1), "data must be finite"),
        (lambda: mmd_functional([0.0], 0.0, 0.1), "bandwidth must be > 0, got 0"),
        (lambda: mmd_functional([0.0], 1.0, -0.1), "smoothing must be >= 0, got -0.1"),
        (lambda: mmd_functional([0.0], 1.0, 0.1)(jnp.ones((3, 2))), r"particles must have shape \(N, 1\).*\(3, 2\)"),
        (lambda: smoothed_log_density([0.0], 0.0, [1.0]), "smoothing must be > 0, got 0"),
        (lambda: smoothed_log_density([[0.0, 1.0]], 1.0, [1.0]), "points must have the dimension of the particles, 2"),
        (lambda: stein_functional(3.0, 1.0, 1.0), "score must be a function of one point"),
        (lambda: stein_functional(lambda x: -x, -1.0, 1.0), "damping_length must be > 0, got -1"),
        (
            lambda: stein_functional(lambda x: x @ x, 1.0, 1.0)(jnp.ones((3, 2))),
            r"score must map a point of shape \(2,\)",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.slow
def test_the_example_of_the_page_finds_the_exact_optimum(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    space = {}
    exec(blocks[0], space)
    assert "/curvature" in capsys.readouterr().out
    weights, targets = np.array([5.0, 50.0]), np.array([1.0, 0.1])
    exact = mean_field_optimum(
        lambda x: np.column_stack([x[:, 0], 1 / (1 + np.exp(-(x[:, 0] - 3) / 0.2))]),
        Loss(lambda f: (f - targets) ** 2, lambda f: 2 * (f - targets), lambda f: np.full(2, 2.0)),
        d=1,
        confinement=0.01,
        temperature=0.1,
        weights=weights,
    )
    sample = space["sample"]
    above = float(exact.law.grid_masses[exact.grid.points[:, 0] > 3].sum())
    assert sample.averages["mean"] == pytest.approx(exact.predictions[0], abs=0.05)
    assert sample.averages["above 3"] == pytest.approx(above, abs=0.01)
    exec(blocks[1], space)
    assert np.isfinite(space["log_density"]).all()
    assert space["draws"].shape == (50, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"damping_length": 0.0}, "damping_length must be > 0, got 0"),
        ({"damping_length": np.inf}, "damping_length must be finite and > 0, got inf"),
        ({"bandwidth": -1.0}, "bandwidth must be > 0, got -1"),
        ({"bandwidth": [1.0, 2.0]}, r"bandwidth must have 0 dimension\(s\)"),
        ({"points": [[0.0, 1.0], [2.0]]}, "points must be numeric"),
        ({"points": [0.0, 1.0]}, r"points must have 2 dimension\(s\)"),
        ({"scores": np.full((3, 2), np.nan)}, "scores must be finite, got nan"),
        ({"other_scores": np.ones((5, 2))}, r"other_scores must have the shape \(4, 2\) of others, got \(5, 2\)"),
        (
            {"others": np.ones((4, 3)), "other_scores": np.ones((4, 3))},
            "others must have the dimension of the points, 2",
        ),
    ],
)
def test_a_wrong_stein_kernel_is_named(change, message):
    given = {"points": np.ones((3, 2)), "scores": np.ones((3, 2)), "others": np.ones((4, 2))}
    given |= {"other_scores": np.ones((4, 2)), "damping_length": 1.0, "bandwidth": 1.0}
    with pytest.raises(InputError, match=message):
        stein_gram(**(given | change))


def test_the_stein_kernel_takes_lists_and_traced_lengths():
    x, scores = [[0.3, -0.2], [1.0, 0.5]], [[1.0, 2.0], [0.0, -1.0]]
    arrays = np.array(x), np.array(scores)
    expected = stein_gram(*arrays, *arrays, 2.0, 0.7)
    np.testing.assert_array_equal(stein_gram(x, scores, x, scores, 2.0, 0.7), expected)
    found = jax.jit(lambda damping: stein_gram(*map(jnp.asarray, arrays * 2), damping, 0.7))(2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
