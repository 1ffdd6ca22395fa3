import numpy as np

from unlazy.studies.index_models.additive_scaling import AdditiveScaling
from unlazy.studies.index_models.kernel_vs_index import LEARNERS, KernelVsIndex


def test_one_shot_overlaps_agree_with_an_independent_computation():
    def overlap(link, ratio):
        return KernelVsIndex(link=link, d=2000, samples_per_dimension=2 * ratio).predict()["squared_overlap"]

    # |z| with T = 1 - 1/max(z^2, 1e-3) and lambda_1^2 of He3
    found = [overlap("He2", ratio) for ratio in (1.0, 2.0, 4.0)]
    np.testing.assert_allclose(found, [0.2307, 0.6388811, 0.92449], atol=2e-3)
    assert overlap("He2", 0.499) == 0 < overlap("He2", 0.6)
    signal = 4 * 0.6678316716
    np.testing.assert_allclose(overlap("He3", 4.0), signal / (1 + signal), rtol=1e-8)


def test_a_kernel_learns_all_and_the_index_too_where_samples_abound():
    score = KernelVsIndex(link="He2", d=8, samples_per_dimension=40.0).simulate(np.random.default_rng(2))["r_squared"]
    found = dict(zip(LEARNERS, score, strict=True))
    assert found["matched kernel"] > 0.999
    assert found["refined index"] > 0.999
    assert found["one-shot index"] > 0.9


def test_without_samples_of_the_second_degree_a_kernel_has_n_over_its_multiplicity():
    d = 40
    harmonics = (d - 1) * (d + 2) / 2
    predicted = KernelVsIndex(link="He2", d=d, samples_per_dimension=4.0).predict()
    np.testing.assert_allclose(predicted["kernel_bound"], 4 * d / harmonics)
    np.testing.assert_allclose(predicted["r_squared"][0], predicted["kernel_bound"], rtol=0.02)


def test_random_starts_of_one_task_have_no_flow():
    assert np.isinf(AdditiveScaling(tasks=1, relative_start_overlap=0.0).predict()["n"])
    many = [
        AdditiveScaling(tasks=tasks, relative_start_overlap=0.0).predict()["drift_only_n"] / tasks
        for tasks in (2, 4, 16)
    ]
    assert many[0] > many[1] > many[2]
