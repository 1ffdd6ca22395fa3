import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.estimators import SharedMetricRegressor


# MetaMetricRegressor is fitted on a list of tasks, not on one matrix, so these checks cannot call it.
@pytest.mark.filterwarnings("ignore:y has one target")
@parametrize_with_checks([SharedMetricRegressor(cv=2, steps=(0, 1, 3))])
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has one target")
@parametrize_with_checks([SharedMetricRegressor()])
def test_estimator_of_five_folds_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)
