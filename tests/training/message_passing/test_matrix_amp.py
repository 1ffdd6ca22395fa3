import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.theory.message_passing.multiclass.prox import softmax_prox
from unlazy.theory.message_passing.multiclass.softmax import multiclass_clusters
from unlazy.training.message_passing import matrix_amp as amp

N, D, RIDGE = 120, 40, 0.2


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def teacher_data(seed, n=N, d=D):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) / d**0.5
    scores = 2 * rows @ rng.standard_normal((d, 3))
    return rows, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def optimum(rows, labels, ridge=RIDGE):
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, labels).coef_.T


def flat_problem(rows, labels, **options):
    return amp.problem(jnp.asarray(rows), jnp.asarray(labels), 3, RIDGE, second=jnp.full(D, 1 / D), **options)


def test_fixed_point_is_the_optimum_of_scikit_learn_for_a_batch_of_problems():
    plain, other = teacher_data(0), teacher_data(1)
    used = np.arange(N) % 4 > 0
    rng = np.random.default_rng(3)
    rows, labels = teacher_data(3)
    rows = rows @ rng.standard_normal((D, D)) / D**0.5 + 0.05 * labels[:, None]
    second = rows.T @ rows / N
    rotated, basis = amp.rotated_problem(rows, labels, 3, RIDGE, second=second, spread=second)
    problems = (flat_problem(*plain), flat_problem(*other, used=jnp.asarray(used)), rotated)
    batch = jax.tree.map(lambda *parts: jnp.stack(parts), *problems)

    @jax.jit
    @jax.vmap
    def fit(given, damping):
        state, _ = amp.run(given, 150, damping)
        return amp.coefficients(given, state), amp.residual(given, state)

    weights, gradients = fit(batch, jnp.array([0.0, 0.0, 0.5]))
    assert float(gradients.max()) < 1e-7
    np.testing.assert_allclose(weights[0], optimum(*plain), atol=1e-5)
    np.testing.assert_allclose(weights[1], optimum(other[0][used], other[1][used]), atol=1e-5)
    np.testing.assert_allclose(basis @ np.asarray(weights[2]), optimum(rows, labels), atol=1e-5)
    np.testing.assert_allclose(weights.sum(axis=2), 0, atol=1e-12)


def test_proximal_operator_is_that_of_the_theory():
    rng = np.random.default_rng(4)
    response = np.array([[1.5, -0.7], [-0.7, 90.0]])
    fields, labels = 20 * rng.standard_normal((2, N)), rng.integers(0, 3, N)
    given = flat_problem(np.zeros((N, D)), labels)
    pull, slope, _ = jax.jit(amp.softmax_prox)(
        given, jnp.asarray(fields), amp.cholesky(jnp.asarray(response[None])), jnp.zeros((2, N))
    )
    for label in range(3):
        own = fields[:, labels == label]
        expected = softmax_prox(helmert_contrasts(3), label, own, np.linalg.cholesky(response))
        np.testing.assert_allclose(pull[:, labels == label], expected.pull, atol=1e-9)
        np.testing.assert_allclose(slope[:, :, labels == label], expected.slope, atol=1e-8)


def test_decay_factor_of_a_geometric_sequence_is_its_factor_and_of_an_explosion_nan():
    steps = np.arange(40)
    np.testing.assert_allclose(amp.decay_factor(3 * 0.4**steps), 0.4, rtol=1e-12)
    np.testing.assert_allclose(amp.decay_factor(0.01**steps + 1e-30), 0.01, rtol=1e-9)
    assert np.isnan(amp.decay_factor(np.where(steps > 20, np.nan, 1.0)))


@pytest.mark.slow
def test_clusters_of_different_covariances_converge_at_the_rate_of_the_block_operator():
    d, n, ridge = 300, 600, 1.0
    variances = np.ones((3, d)) / d
    variances[0, :30] *= 30.0
    variances[1, 30:] *= 0.1
    theory = multiclass_clusters(np.zeros((3, d)), n, ridge, variances=variances, with_overlap_stability=True)
    assert theory.stability > theory.overlap_stability
    pooled = multiclass_clusters(np.zeros((3, d)), n, ridge, variances=variances.mean(axis=0))
    assert abs(pooled.stability - theory.stability) > 0.04
    changes, rates = jax.jit(lambda given: amp.run(given, 26)[1].change), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.arange(n) % 3)
        rows = rng.standard_normal((n, d)) * np.sqrt(variances)[labels]
        given = amp.problem(
            *map(jnp.asarray, (rows, labels)), 3, ridge, second=jnp.asarray(variances), groups=jnp.asarray(labels)
        )
        rates.append(amp.decay_factor(changes(given)))
    assert abs(np.median(rates) - theory.stability) < 0.03


BROKEN = np.zeros((N, D))
BROKEN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": np.zeros(3, int)}, r"labels must have one entry per row, 120, got shape \(3,\)"),
        ({"labels": np.full(N, 3)}, "labels must be >= 0 and <= 2, got 3"),
        ({"labels": np.full(N, -1)}, "labels must be >= 0 and <= 2, got -1"),
        ({"labels": np.full(N, 0.5)}, "labels must be whole and >= 0 and <= 2, got 0.5"),
        ({"rows": BROKEN}, "rows must be finite, got nan"),
        ({"rows": np.zeros(N)}, "rows must have 2 dimension"),
        ({"rows": [[1.0, 2.0], [3.0]]}, "rows must be numeric"),
        ({"penalty": -1.0}, "penalty must be > 0, got -1"),
        ({"penalty": 0.0}, "penalty must be > 0, got 0"),
        ({"penalty": np.nan}, "penalty must be finite and > 0, got nan"),
        ({"classes": 1}, "classes must be an integer >= 2"),
        ({"second": np.ones(5)}, "second must have 40 columns"),
        ({"second": -np.ones(D)}, "second must be >= 0, got -1"),
        ({"spread": np.ones((2, D))}, "spread must have the shape of second"),
        ({"groups": np.ones(N, int)}, "groups must be >= 0 and <= 0, got 1"),
        ({"used": np.full(N, 2.0)}, "used must be >= 0 and <= 1, got 2"),
        ({"used": np.ones(3)}, "used must have one entry per row"),
    ],
)
def test_wrong_problems_are_refused_in_one_line(wrong, message):
    given = {"rows": np.zeros((N, D)), "labels": np.zeros(N, int), "classes": 3, "penalty": 1.0, "second": np.ones(D)}
    amp.problem(**given)
    with pytest.raises(InputError, match=message) as caught:
        amp.problem(**given | wrong)
    assert "\n" not in str(caught.value)
