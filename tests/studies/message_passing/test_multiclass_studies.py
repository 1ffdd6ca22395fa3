import numpy as np
import pytest

from unlazy.studies.message_passing.multiclass_learning_curve import MulticlassLearningCurve
from unlazy.studies.message_passing.multiclass_message_passing import MulticlassMessagePassing


def test_message_passing_stops_at_the_minimum_and_depends_on_its_seed_only():
    study = MulticlassMessagePassing(d=40, n=120)
    found = [study.simulate(np.random.default_rng(7)) for _ in range(2)]
    assert found[0]["distance_bound"] < 1e-6
    np.testing.assert_array_equal(found[0]["change"], found[1]["change"])


@pytest.mark.parametrize("classes", [2, 3])
def test_hebbian_limit_of_the_fits_is_that_of_the_theory(classes):
    # with a huge ridge all losses are log K and only the scale of the scores is left to predict
    study = MulticlassLearningCurve(classes=classes, penalty=1e4, d=100, samples_per_dimension=3.0)
    runs = [study.simulate(np.random.default_rng(seed)) for seed in range(8)]
    theory = study.predict()
    np.testing.assert_allclose(theory["test_loss"], np.log(classes), rtol=0.01)
    for name in ("norm", "test_error"):
        values = np.array([run[name] for run in runs])
        error = values.std(ddof=1) / len(values) ** 0.5
        assert abs(values.mean() - theory[name]) < 5 * error + 0.02 * theory[name]
        assert 5 * error + 0.02 * theory[name] < 0.2 * theory[name]
