import numpy as np
import pytest

from unlazy.errors import InputError
from unlazy.studies.mean_field.mfld_exact import BATCH, MfldExact


@pytest.mark.parametrize("batches", ["independent", "reshuffled"])
def test_clouds_of_particles_have_the_predicted_moments(batches):
    study = MfldExact(**BATCH | {"batches": batches, "step_size": 0.1, "replicates": 2000})
    found, exact = study.simulate(np.random.default_rng(0)), study.predict()
    assert found["mean_wander"] == pytest.approx(exact["mean_wander"], rel=0.05)
    assert found["mean_spread"] == pytest.approx(exact["mean_spread"], rel=0.02)
    assert found["mean_energy"] == pytest.approx(exact["mean_energy"], rel=0.02)


def test_batches_have_no_row_twice_and_every_row_equally_often():
    study = MfldExact(batch=5, rows=8, replicates=4000)
    powers = 10.0 ** np.arange(8)
    means = next(study._batch_means(np.random.default_rng(1), powers))
    digits = np.array([[int(d) for d in f"{round(5 * mean):08d}"] for mean in means])
    assert set(digits.ravel()) == {0, 1}
    assert (digits.sum(axis=1) == 5).all()
    assert digits.mean(axis=0) == pytest.approx(np.full(8, 5 / 8), abs=4 * np.sqrt(15 / 64 / 4000))


def test_unstable_steps_are_refused():
    with pytest.raises(InputError, match="step_size must be below"):
        MfldExact(step_size=1.0).validate()
