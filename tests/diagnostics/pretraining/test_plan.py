import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics import plan_pretraining
from unlazy.diagnostics.pretraining.plan import _bayes_error
from unlazy.theory.in_context.finite_size import exact_error, finite_size_errors, gaussian_task_moments, task_moments
from unlazy.theory.in_context.linear_attention import bayes_error
from unlazy.training.in_context.linear_attention import draw_prompts, pretrained_weights


def simulated(option, covariance, noise, seeds=8):
    """Errors on new tasks, exact given the weights, of linear attention pretrained on drawn prompts."""
    root = np.linalg.cholesky(covariance)
    test = gaussian_task_moments(covariance, option.context, noise)
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(1000 + seed)
        tasks = rng.standard_normal((option.tasks, len(root))) @ root.T
        prompts = draw_prompts(rng, tasks, option.prompts, option.context, noise)
        weights = pretrained_weights(prompts, option.ridge_times_dimension)
        errors.append(exact_error(test, weights))
    return np.mean(errors), np.std(errors, ddof=1) / np.sqrt(seeds)


def power_law(d):
    values = np.arange(1.0, d + 1) ** -1.2
    return np.diag(values * d / values.sum())


@pytest.mark.parametrize(("covariance", "target"), [(np.eye(20), 0.6), (power_law(20), 0.45)])
def test_planned_sizes_reach_the_target_and_half_the_prompts_do_not(covariance, target):
    plan = plan_pretraining(20, target, 0.1, task_covariance=covariance, max_context=150)
    assert plan.reachable
    for option in (plan.best, plan.fewer_tasks[0]):
        error, deviation = simulated(option, covariance, 0.1)
        assert abs(error / target - 1) < 0.04 + 4 * deviation / target
    halved, deviation = simulated(plan.best._replace(prompts=plan.best.prompts // 2), covariance, 0.1)
    assert halved > target + 4 * deviation


@pytest.mark.parametrize("covariance", [np.eye(14), power_law(14)])
def test_errors_of_options_are_the_finite_size_ones_at_their_ridge(covariance):
    plan = plan_pretraining(14, 0.7, 0.2, task_covariance=covariance)
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(values)
    drawn = [rng.standard_normal((1400, 14)) @ root.T for _ in range(2)]
    ridges = np.concatenate([[0.0], np.logspace(-4, 2, 200)])
    for option in plan.options + plan.fewer_tasks:
        test = gaussian_task_moments(covariance, option.context, 0.2)
        sets = [task_moments(tasks[: option.tasks], option.context, 0.2) for tasks in drawn]

        def error(n, ridge, sets=sets, test=test):
            return np.mean(
                [finite_size_errors(moments, n, ridge, test_moments=test).test_error for moments in sets], axis=0
            )

        np.testing.assert_allclose(
            option.new_task_error, error(option.prompts, option.ridge_times_dimension), rtol=3e-3
        )
        # no ridge is much better, and with fewer prompts none suffices
        assert error(option.prompts, ridges).min() > 0.995 * option.new_task_error
        if option.prompts > option.tasks:
            assert error(0.98 * option.prompts, ridges).min() > plan.target_error


def test_options_keep_the_limits_and_more_of_one_saves_another():
    plan = plan_pretraining(12, 0.7, 0.2, max_tasks=40, max_context=80, max_prompts=5000)
    assert plan.reachable
    for option in plan.options + plan.fewer_tasks:
        assert option.tasks <= 40
        assert option.context <= 80
        assert option.tasks <= option.prompts <= 5000
        assert option.new_task_error <= 0.7
        assert option.rows == option.prompts * (option.context + 1)
    assert plan.best.rows == min(option.rows for option in plan.options)
    assert (np.diff([option.prompts for option in plan.fewer_tasks]) < 0).all()
    assert (np.diff([option.tasks for option in plan.fewer_tasks]) > 0).all()
    text = str(plan)
    assert f"{plan.best.tasks} tasks, {plan.best.context} context rows, {plan.best.prompts} prompts" in text
    assert text.count("<- fewest rows") == 2


def test_reasons_why_an_error_cannot_be_reached():
    assert plan_pretraining(20, 0.1, 0.1).verdict == "unreachable"
    bayes = bayes_error(1.0, 0.1)
    below = plan_pretraining(20, 0.99 * bayes, 0.1, max_context=20)
    assert below.verdict == "unreachable"
    np.testing.assert_allclose(below.bayes_error, bayes, rtol=1e-9)
    above = plan_pretraining(20, 1.05 * bayes, 0.1, max_context=20)
    assert above.verdict == "needs longer contexts"
    few = plan_pretraining(40, 0.5, 0.1, max_tasks=20)
    assert few.verdict == "needs more tasks"
    # the floor of the limit: noise + 1 - tasks / dimension
    assert few.floor > 0.1 + 1 - 20 / 40 - 0.05
    short = plan_pretraining(20, 0.6, 0.1, max_prompts=50)
    assert short.verdict == "needs more prompts"
    for plan in (below, above, few, short):
        assert not plan.reachable
        assert plan.best is None
        assert plan.options == ()
        assert plan.verdict in str(plan)
        assert "\n" not in str(plan)


def test_bayes_error_of_a_low_rank_prior_is_that_of_its_directions():
    d, rank = 40, 10
    covariance = np.diag(np.where(np.arange(d) < rank, d / rank, 0.0))
    # tokens of variance 1/d and weights of variance d/rank are the isotropic problem in `rank` dimensions
    np.testing.assert_allclose(_bayes_error(covariance, 0.2, 30), bayes_error(3.0, 0.2), rtol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e6])
def test_extreme_limits_and_noise_give_finite_plans(noise):
    rank_one = np.zeros((10, 10))
    rank_one[0, 0] = 10.0
    for covariance in (np.eye(10), rank_one):
        for tasks in (1, 3, 10**12):
            plan = plan_pretraining(
                10,
                noise + 0.9,
                noise,
                max_tasks=tasks,
                max_context=10**12,
                max_prompts=10**12,
                task_covariance=covariance,
            )
            assert np.isfinite([plan.floor, plan.bayes_error]).all()
            assert plan.floor >= plan.bayes_error * (1 - 1e-9)
            for option in plan.options + plan.fewer_tasks:
                assert option.new_task_error <= plan.target_error
                assert 0 <= option.ridge_times_dimension < np.inf
                assert option.tasks <= tasks


def test_no_noise_is_planned_for():
    plan = plan_pretraining(10, 0.3, 0.0, max_context=100)
    assert plan.reachable
    assert plan.best.new_task_error <= 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": 0}, "d must be an integer >= 8"),
        ({"d": 10.5}, "d must"),
        ({"d": 10**6}, "d must"),
        ({"noise_variance": -1}, "noise_variance"),
        ({"noise_variance": np.nan}, "noise_variance"),
        ({"target_error": 0}, "target_error"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_context": 2.5}, "max_context"),
        ({"max_prompts": True}, "max_prompts"),
        ({"random_state": "x"}, "random_state must be an integer >= 0"),
        ({"task_covariance": np.eye(3)}, "task_covariance must be a symmetric"),
        ({"task_covariance": -np.eye(10)}, "positive semidefinite"),
        ({"task_covariance": np.triu(np.ones((10, 10)))}, "symmetric"),
        ({"task_covariance": np.zeros((10, 10))}, "not zero"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        plan_pretraining(**({"d": 10, "target_error": 0.5, "noise_variance": 0.1} | change))
