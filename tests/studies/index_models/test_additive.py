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


def test_from_random_starts_one_task_is_learned_too_and_a_task_of_many_sooner_than_alone():
    n = [AdditiveScaling(tasks=tasks).predict()["n"] / tasks for tasks in (1, 4, 16)]
    assert np.isfinite(n[0])
    assert n[0] > n[1] > n[2]
    shares = [AdditiveScaling(tasks=8, strength_ratio=c).predict()["weak_share"] for c in (1.0, 1.5, 3.0)]
    np.testing.assert_allclose(shares[0], 0.5)
    assert shares[0] > shares[1] > shares[2] > 0
