from itertools import islice

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.metric_path import metric_path


def waves(n=6, d=9, tasks=4):
    i, j, k = np.arange(1, n + 1)[:, None], np.arange(1, d + 1), np.arange(1, tasks + 1)
    return np.sin(0.3 * i * j), np.cos(0.7 * i * k)


def objectives(path, steps):
    return np.array([step.objective for step in islice(path, steps)])


def criterion_by_definition(design, targets, metric, penalty, criterion, degrees_of_freedom_weight):
    """The evidence as minus twice a Gaussian log-likelihood, the other as ridge minimum plus weighted trace."""
    n, tasks = targets.shape
    kernel = design @ np.diag(metric) @ design.T
    if criterion == "evidence":
        covariance = kernel + penalty * np.eye(n)
        return np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.solve(covariance, targets @ targets.T)) / tasks
    root = design * np.sqrt(metric)
    weights = np.linalg.solve(root.T @ root + penalty * np.eye(len(metric)), root.T @ targets)
    ridge = (np.sum((targets - root @ weights) ** 2) + penalty * np.sum(weights**2)) / (n * tasks)
    return ridge + degrees_of_freedom_weight / n * np.trace(np.linalg.solve(kernel + penalty * np.eye(n), kernel))


def test_dof_path_has_the_independently_computed_objectives():
    found = objectives(metric_path(*waves(), 0.6, criterion="degrees_of_freedom", degrees_of_freedom_weight=0.4), 4)
    np.testing.assert_allclose(found, [0.401774487613, 0.391449700999, 0.378170310925, 0.358444043617], rtol=1e-11)


def test_evidence_path_has_the_independently_computed_objectives():
    found = objectives(metric_path(*waves(), 0.4), 4)
    np.testing.assert_allclose(found, [10.519415367334, 4.412419874583, 2.053141835495, 1.119048782701], rtol=1e-11)


def test_dof_objective_of_a_given_metric_has_the_independently_computed_value():
    first = next(
        metric_path(
            *waves(), 0.6, criterion="degrees_of_freedom", degrees_of_freedom_weight=0.4, start=1 / np.arange(1.0, 10.0)
        )
    )
    np.testing.assert_allclose(first.objective, 0.41299847950246, rtol=1e-12)
    freedom = np.trace(first.kernel @ np.linalg.inv(first.kernel + 0.6 * np.eye(6)))
    np.testing.assert_allclose(freedom, 3.8813021186310, rtol=1e-12)


def random_problem(seed=0, n=12, d=30, tasks=5):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, tasks))


@pytest.mark.parametrize(
    ("criterion", "weight"), [("evidence", 0.7), ("degrees_of_freedom", 0.7), ("degrees_of_freedom", None)]
)
def test_objective_is_its_definition_at_every_step(criterion, weight):
    design, targets = random_problem()
    for step in islice(metric_path(design, targets, 0.3, criterion=criterion, degrees_of_freedom_weight=weight), 4):
        np.testing.assert_allclose(step.kernel, design @ np.diag(step.metric) @ design.T, rtol=1e-10, atol=1e-12)
        expected = criterion_by_definition(design, targets, step.metric, 0.3, criterion, weight or 0.6)
        np.testing.assert_allclose(step.objective, expected, rtol=1e-10)


@pytest.mark.parametrize("criterion", ["evidence", "degrees_of_freedom"])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_step_follows_the_gradient_found_by_finite_differences(criterion, power):
    """At power r the factor is (1 - slope/price)^r, where objective(m + h e_j) has slope price_j - gain_j."""
    design, targets = random_problem(1)
    start = np.linspace(0.5, 2, 30)
    path = metric_path(
        design, targets, 0.4, criterion=criterion, degrees_of_freedom_weight=0.5, start=start, power=power
    )
    factor = next(path) and next(path).metric / start
    inverse = np.linalg.inv(design @ np.diag(start) @ design.T + 0.4 * np.eye(12))
    price = np.einsum("ij,ij->j", design, inverse @ design)
    if criterion == "degrees_of_freedom":
        price = 0.5 * np.sum((inverse @ design) ** 2, axis=0)
    slopes = np.empty(30)
    for j in range(30):
        values = []
        for h in (1e-5, -1e-5):
            moved = start + h * (np.arange(30) == j)
            values.append(criterion_by_definition(design, targets, moved, 0.4, criterion, 0.5))
        slopes[j] = (values[0] - values[1]) / 2e-5 * (1.0 if criterion == "evidence" else 12 / 0.4)
    np.testing.assert_allclose(factor, (1 - slopes / price) ** power, rtol=2e-5)


@pytest.mark.parametrize("criterion", ["evidence", "degrees_of_freedom"])
@pytest.mark.parametrize("groups", [None, np.arange(30) % 7])
@pytest.mark.parametrize("seed", range(4))
def test_objective_never_rises_at_power_one_half(criterion, groups, seed):
    design, targets = random_problem(seed)
    found = objectives(metric_path(design, targets, 0.3, criterion=criterion, groups=groups), 60)
    assert (np.diff(found) <= 1e-10 * np.abs(found[:-1])).all()
    assert found[-1] < found[0] - 0.01 * abs(found[0])


@pytest.mark.parametrize("criterion", ["evidence", "degrees_of_freedom"])
@pytest.mark.parametrize("groups", [None, np.arange(30) % 7])
@pytest.mark.parametrize("seed", range(3))
def test_objective_rises_at_most_in_the_first_step_of_a_start_above_the_cap(criterion, groups, seed):
    design, targets = random_problem(seed)
    found = objectives(metric_path(design, targets, 0.3, criterion=criterion, groups=groups, cap=2.0, start=100.0), 60)
    assert (np.diff(found)[1:] <= 1e-12 * np.abs(found[1:-1])).all()
    below = 2.0 * 0.3 / np.sum(design**2, axis=0).max()
    found = objectives(metric_path(design, targets, 0.3, criterion=criterion, groups=groups, cap=2.0, start=below), 60)
    assert (np.diff(found) <= 1e-12 * np.abs(found[:-1])).all()


@pytest.mark.parametrize("seed", range(6))
def test_dof_path_without_a_cap_ends_where_double_precision_does(seed):
    """Its infimum lies at infinity, where the kernel would round the penalty away: the objective is its definition."""
    design, targets = random_problem(seed, d=9)
    steps = list(islice(metric_path(design, targets, 0.3, criterion="degrees_of_freedom", cap=np.inf), 400))
    found = np.array([step.objective for step in steps])
    assert (np.diff(found) <= 1e-5 * np.abs(found[:-1])).all()
    # with fewer features than rows the ridge minimum is a least-squares problem of d columns, well conditioned
    last = steps[-1].metric
    kept = last > 0
    root = design[:, kept] * np.sqrt(last[kept])
    stacked = np.vstack([root, np.sqrt(0.3) * np.eye(kept.sum())])
    left = np.linalg.qr(stacked)[0][:12]
    padded = np.vstack([targets, np.zeros((kept.sum(), 5))])
    residual = np.sum(padded**2) - np.sum((np.linalg.qr(stacked)[0].T @ padded) ** 2)
    expected = residual / 60 + 0.6 / 12 * np.sum(left**2)
    np.testing.assert_allclose(found[-1], expected, rtol=1e-5)


def test_dof_path_approaches_the_closed_form_infimum_where_the_kernel_is_free():
    """With as many orthogonal columns as rows the infimum over all kernels is mean_i min(s_i, weight)."""
    rng = np.random.default_rng(3)
    targets = rng.standard_normal((8, 40)) * np.linspace(0.2, 2, 8)[:, None]
    energies, vectors = np.linalg.eigh(targets @ targets.T / 40)
    found = objectives(
        metric_path(
            vectors, targets, 0.1, criterion="degrees_of_freedom", degrees_of_freedom_weight=0.8, cap=1e8, power=1.0
        ),
        300,
    )
    np.testing.assert_allclose(found[-1], np.minimum(energies, 0.8).mean(), rtol=1e-6)


def test_more_tasks_than_rows_are_compressed_without_loss():
    design, targets = random_problem(tasks=50)
    compressed = np.linalg.cholesky(targets @ targets.T / 50) * np.sqrt(12)
    for a, b in zip(islice(metric_path(design, targets, 0.3), 5), metric_path(design, compressed, 0.3), strict=False):
        np.testing.assert_allclose(a.metric, b.metric, rtol=1e-7)


@pytest.mark.parametrize("criterion", ["evidence", "degrees_of_freedom"])
def test_path_is_equivariant_to_the_units_of_features_and_targets(criterion):
    design, targets = random_problem()
    plain = list(islice(metric_path(design, targets, 0.3, criterion=criterion, cap=1e6), 5))[-1]
    large, small = 1e140, 1e-140
    for x, y in ((large, 1.0), (1.0, small), (small, small)):
        path = metric_path(x * design, y * targets, 0.3 * y * y, criterion=criterion, start=(y / x) ** 2, cap=1e6)
        np.testing.assert_allclose(list(islice(path, 5))[-1].metric * (x / y) * (x / y), plain.metric, rtol=1e-6)


def test_sent_penalty_continues_as_a_new_path_from_there():
    design, targets = random_problem()
    path = metric_path(design, targets, 0.3, criterion="degrees_of_freedom")
    next(path)
    middle = next(path)
    changed = path.send(0.9)
    fresh = metric_path(design, targets, 0.9, criterion="degrees_of_freedom", start=middle.metric)
    next(fresh)
    expected = next(fresh)
    np.testing.assert_allclose(changed.metric, expected.metric, rtol=1e-9)
    np.testing.assert_allclose(changed.objective, expected.objective, rtol=1e-9)


def test_single_precision_follows_double_even_far_above_the_penalty():
    rng = np.random.default_rng(0)
    design = rng.standard_normal((40, 3000))
    targets = design[:, :3] @ rng.standard_normal((3, 8)) + 0.1 * rng.standard_normal((40, 8))
    options = {"criterion": "degrees_of_freedom", "start": 1e-3, "power": 1.0}
    double = list(islice(metric_path(design, targets, 0.01, **options), 7))[-1]
    single = list(islice(metric_path(design, targets, 0.01, dtype=np.float32, **options), 7))[-1]
    assert (double.metric[:3] * np.sum(design[:, :3] ** 2, axis=0) > 1e4 * 0.01).all()
    # Rounding is relative to what is summed, not to the sum: entries off the diagonal may nearly cancel.
    size = np.sqrt(np.outer(np.diag(double.kernel), np.diag(double.kernel)))
    np.testing.assert_allclose(single.kernel / size, double.kernel / size, atol=1e-6)


def test_pruning_changes_the_kernel_by_less_than_its_share_of_the_penalty():
    design, targets = random_problem(d=200)
    kept = list(islice(metric_path(design, targets, 0.3, start=0.05), 2))[-1]
    pruned = list(islice(metric_path(design, targets, 0.3, start=0.05, prune=0.05), 2))[-1]
    assert 0 < np.count_nonzero(pruned.metric) < np.count_nonzero(kept.metric)
    lost = np.trace(kept.kernel - pruned.kernel) / 12
    assert 0 < lost <= 0.05 * 0.3


def test_cap_holds_and_columns_of_zeros_are_dropped():
    design, targets = random_problem()
    design[:, 4] = 0
    *_, last = islice(metric_path(design, targets, 0.3, criterion="degrees_of_freedom", power=1.0, cap=50), 30)
    weights = last.metric * np.sum(design**2, axis=0)
    assert weights.max() <= 50 * 0.3 * (1 + 1e-9)
    assert weights.max() > 40 * 0.3
    assert last.metric[4] == 0


@pytest.mark.parametrize("groups", [None, np.arange(30) % 7])
def test_path_from_which_everything_is_dropped_stays_at_the_model_without_features(groups):
    design, targets = random_problem()
    *_, last = islice(metric_path(design, targets, 0.3, prune=1e9, groups=groups), 4)
    assert (last.metric == 0).all()
    np.testing.assert_allclose(last.objective, 12 * np.log(0.3) + np.sum(targets**2) / 5 / 0.3)


def test_groups_share_one_factor():
    design, targets = random_problem()
    labels = np.array(["a", "b", "c"])[np.arange(30) % 3]
    *_, last = islice(metric_path(design, targets, 0.3, groups=labels), 6)
    assert len(np.unique(np.round(last.metric, 12))) == 3


@pytest.mark.parametrize("options", [{"cap": 5.0, "criterion": "degrees_of_freedom"}, {"prune": 0.3}])
def test_groups_are_capped_and_dropped_together(options):
    design, targets = random_problem()
    design *= np.linspace(0.1, 1, 30)
    start, labels = np.linspace(1, 2, 30), np.arange(30) % 10
    *_, last = islice(metric_path(design, targets, 0.3, groups=labels, start=start, power=1.0, **options), 8)
    factors = (last.metric / start).reshape(3, 10)
    np.testing.assert_allclose(factors, factors[:1] * np.ones((3, 1)), rtol=1e-9)
    weights = last.metric * np.sum(design**2, axis=0)
    if "cap" in options:
        np.testing.assert_allclose(weights.max(), 5.0 * 0.3, rtol=1e-9)
    else:
        assert 0 < np.count_nonzero(factors[0]) < 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": 0.0}, "penalty must be"),
        ({"criterion": "evidense"}, "did you mean evidence"),
        ({"targets": np.ones(5)}, r"targets must have shape \(12,\)"),
        ({"start": np.ones(3)}, "start must be a number or have shape"),
        ({"groups": np.ones(3)}, "groups must have shape"),
        ({"power": 2.0}, "power must be"),
        ({"cap": -1.0}, "cap must be > 0"),
        ({"cap": np.nan}, "cap must be > 0"),
        ({"cap": "x"}, "cap must be numeric, got 'x'"),
        ({"design": np.full((12, 3), np.nan)}, "design must be finite"),
        ({"design": np.ones(12)}, "design must have 2"),
    ],
)
def test_wrong_input_is_refused_at_the_call(change, message):
    design, targets = random_problem()
    arguments = {"design": design, "targets": targets, "penalty": 0.3} | change
    with pytest.raises(InputError, match=message):
        metric_path(**arguments)
