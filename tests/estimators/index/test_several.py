"""What both regressors on several directions promise, and the parts that they share."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import ShuffleSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import AdditiveIndexRegressor, MultiIndexRegressor
from unlazy.estimators.index.additive.links import TermSmoother
from unlazy.estimators.index.certainty import is_certain_compressed

BOTH = (AdditiveIndexRegressor, MultiIndexRegressor)


# one direction and one division of the rows: the checks make some sixty fits
@parametrize_with_checks([kind(1, cv=ShuffleSplit(1, test_size=0.3, random_state=0)) for kind in BOTH])
@pytest.mark.filterwarnings("ignore:held-out rows show no dependence")
@pytest.mark.filterwarnings("ignore:n = .* is below the rule")
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([kind(cv=3) for kind in BOTH])
@pytest.mark.filterwarnings("ignore:held-out rows show no dependence")
@pytest.mark.filterwarnings("ignore:n = .* is below the rule")
def test_estimator_of_two_directions_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["correlated", "heavy-tailed", "uniform", "signs"])
@pytest.mark.parametrize(
    ("estimator", "function", "n", "seed", "least"),
    [
        (AdditiveIndexRegressor, lambda t: np.abs(t[:, 0]) + np.tanh(2 * t[:, 1]), 600, 5, 0.95),
        (MultiIndexRegressor, lambda t: np.linalg.norm(t, axis=1), 500, 6, 0.93),
    ],
)
def test_inputs_need_not_be_normal_or_independent(kind, estimator, function, n, seed, least, draw_inputs):
    rng = np.random.default_rng(seed)
    x = draw_inputs(kind, (n + 2000, 20), rng)
    indices = x @ rng.standard_normal((20, 2))
    target = function((indices - indices.mean(axis=0)) / indices.std(axis=0))
    y = target + 0.05 * rng.standard_normal(len(x))
    model = estimator(2, random_state=0).fit(x[:n], y[:n])
    assert np.mean((model.predict(x[n:]) - target[n:]) ** 2) < (1 - least) * np.var(target[n:])


@pytest.mark.parametrize("estimator", BOTH)
def test_noise_is_not_taken_for_a_signal(estimator):
    excess = []
    for seed in range(3):
        rng = np.random.default_rng([7, seed])
        x, y = rng.standard_normal((120, 12)), rng.standard_normal(120)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = estimator(2, cv=2, random_state=0).fit(x, y)
        assert not model.certain_
        if model.stage_ == "mean":
            weak = [warning for warning in caught if "no dependence of y" in str(warning.message)]
            assert [warning.filename for warning in weak] == [__file__]
        excess.append(np.mean(model.predict(rng.standard_normal((2000, 12))) ** 2))
    assert np.median(excess) < 0.02
    assert max(excess) < 0.1


@pytest.mark.parametrize(("estimator", "name"), list(zip(BOTH, ("n_terms", "n_components"), strict=True)))
@pytest.mark.parametrize(
    ("count", "cv", "change", "message"),
    [
        (2, 5, lambda x, y: (x[:9], y[:9]), "twice as many rows"),
        (6, 5, lambda x, y: (x, y), "{name} must be at most .*, got 6 with n_features = 5"),
        (0, 5, lambda x, y: (x, y), "{name}"),
        ("many", 5, lambda x, y: (x, y), "{name}"),
        (True, 5, lambda x, y: (x, y), "{name}"),
        (2.5, 5, lambda x, y: (x, y), "{name}"),
        (2, 5, lambda x, y: (x, np.ones(len(y))), "not constant"),
        (2, 5, lambda x, y: (np.ones_like(x), y), "constant columns only"),
        (2, 5, lambda x, y: (np.where(x > 2, np.nan, x), y), "NaN"),
        (2, 1, lambda x, y: (x, y), "cv"),
        (2, 1, lambda x, y: (np.tile(x, (4, 1)), np.tile(x[:, 0] * x[:, 1], 4)), "cv"),
        (2, 1, lambda x, y: (np.tile(x, (4, 1)), np.tile(x[:, 0] + x[:, 1] ** 2, 4)), "cv"),
    ],
)
def test_bad_input_is_refused(estimator, name, count, cv, change, message):
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((60, 5)), rng.standard_normal(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises((InputError, ValueError), match=message.format(name=name)):
            estimator(count, cv=cv).fit(*change(x, y))


def test_more_components_than_a_function_can_have_are_referred_to_the_sum_of_links():
    rng = np.random.default_rng(8)
    with pytest.raises(InputError, match="n_components must be at most 6, got 7: use AdditiveIndexRegressor"):
        MultiIndexRegressor(7).fit(rng.standard_normal((60, 5)), rng.standard_normal(60))


def test_outliers_that_are_hit_are_not_certain():
    rng = np.random.default_rng(15)
    x, y = rng.standard_normal((300, 5)), rng.standard_normal(300)
    y[0] = 1000.0
    fit = TermSmoother(("p3",))(x[:, :1], y)
    hit = fit._replace(values=np.where(np.arange(300) == 0, y, 0.0))
    hit = hit._replace(error=float(np.mean((y - hit.values) ** 2)))
    assert hit.error < 1e-3 * y.var()
    assert not is_certain_compressed(hit, y, 5)
    assert is_certain_compressed(hit._replace(values=y + 1e-3 * rng.standard_normal(300)), y, 5)
