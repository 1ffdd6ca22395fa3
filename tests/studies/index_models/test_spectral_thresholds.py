import numpy as np
import pytest

from unlazy.studies.index_models.spectral_thresholds import ESTIMATORS, SpectralThresholds, transforms


def test_every_ratio_sees_the_first_samples_only():
    found = SpectralThresholds(link="He3", d=20, samples_per_dimension=(1.0, 6.0)).simulate(np.random.default_rng(5))
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((120, 20), dtype=np.float32).astype(float)
    z = rows[:, 0]
    y = (z**3 - 3 * z) / np.sqrt(6) + 0.1 * rng.standard_normal(120)
    for k, transform in enumerate(transforms("He3", 0.01)):
        for i, n in enumerate((20, 120)):
            weights = transform(y[:n])
            if k < 2:
                vector = weights @ rows[:n]
                expected = vector[0] ** 2 / (vector @ vector)
            else:
                values, vectors = np.linalg.eigh((rows[:n] * weights[:, None]).T @ rows[:n] / n)
                expected = vectors[0, -1] ** 2
                assert found["largest_eigenvalue"][k - 2, i] == pytest.approx(values[-1], rel=1e-4)
            assert found["squared_overlap"][k, i] == pytest.approx(expected, abs=1e-4)


def test_an_even_link_has_no_linear_direction():
    study = SpectralThresholds(link="He4", d=30, samples_per_dimension=(4.0,))
    best = ESTIMATORS.index("linear, best")
    assert study.simulate(np.random.default_rng(0))["squared_overlap"][best] == 0
    assert study.predict()["squared_overlap"][best] == 0
