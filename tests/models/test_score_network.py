import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from unlazy.models.score_network import ScoreNetwork, moments


def _network(d=3):
    """With readout and linear part that are not zero, or nothing but the normal law would be tested."""
    network = ScoreNetwork.random(jax.random.key(0), d, width=16)
    rng = np.random.default_rng(1)
    drawn = [jnp.asarray(rng.standard_normal(a.shape) / 4, jnp.float32) for a in (network.readout, network.linear)]
    return eqx.tree_at(lambda net: (net.readout, net.linear), network, drawn)


def test_off_a_subspace_the_linear_part_is_the_exact_score():
    network = ScoreNetwork.random(jax.random.key(0), 3, width=8)
    # data move along the first coordinate alone, where they are normal
    network = eqx.tree_at(lambda net: net.linear, network, jnp.diag(jnp.array([0.0, 1.0, 1.0])))
    x, t = jnp.array([[0.3, -0.02, 0.1], [1.0, 0.7, -2.0]]), jnp.array([1e-3, 0.5])
    variance = jnp.stack([jnp.ones(2), -jnp.expm1(-2 * t), -jnp.expm1(-2 * t)], axis=1)
    np.testing.assert_allclose(jax.jit(network.__call__)(x, t), -x / variance, rtol=1e-4)


def test_untrained_it_is_the_score_of_the_normal_law():
    network = ScoreNetwork.random(jax.random.key(0), 2)
    x, t = jnp.array([[0.3, -2.0], [1.0, 5.0]]), jnp.array([1e-3, 2.0])
    np.testing.assert_allclose(jax.jit(network.__call__)(x, t), -x, rtol=1e-5)


def test_the_divergence_is_the_trace_of_the_jacobian():
    network = _network()
    x = jnp.asarray(np.random.default_rng(2).standard_normal((5, 3)), jnp.float32)
    t = jnp.array([1e-3, 0.01, 0.3, 1.0, 4.0], jnp.float32)

    def one(row, time):
        return network(row[None], time[None])[0]

    @jax.jit
    def both():
        return network.score_and_divergence(x, t), network(x, t), jax.vmap(jax.jacfwd(one))(x, t)

    (score, divergence), plain, jacobians = both()
    np.testing.assert_allclose(score, plain, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(divergence, np.trace(jacobians, axis1=1, axis2=2), rtol=1e-3, atol=1e-3)


def test_the_moments_keep_their_digits_at_small_times():
    scale, deviation = moments(jnp.float32(1e-6))
    np.testing.assert_allclose(deviation, np.sqrt(2e-6), rtol=1e-5)
    np.testing.assert_allclose(scale, 1, rtol=1e-5)
