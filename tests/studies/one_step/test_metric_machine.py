"""The metric that a kernel machine learns: what is measured of it, and theory against draws."""

import numpy as np

from unlazy.studies.one_step.metric_machine import MetricMachineStudy, _missed


def test_a_planted_metric_has_its_share_outside_and_its_misalignment():
    """cos^2 = 0.36 with the first axis, and 3/10 of the trace isotropic in five dimensions."""
    direction = np.array([0.6, 0.8, 0.0, 0.0, 0.0])
    outside, misalignment = _missed(7 * np.outer(direction, direction) + 3 / 5 * np.eye(5), 1)
    np.testing.assert_allclose((outside, misalignment), (0.7 * 0.64 + 0.3 * 4 / 5, 0.64), rtol=1e-12)


def test_a_metric_without_a_positive_part_sees_every_direction_alike():
    assert _missed(-np.eye(8), 2)[0] == 6 / 8


def test_the_fixed_kernel_agrees_with_the_theory_on_small_instances():
    study = MetricMachineStudy(n=96, d=32, rounds=(0,))
    draws = [study.simulate(np.random.default_rng(seed)) for seed in range(24)]
    for name, theory in study.predict().items():
        values = np.array([one[name] for one in draws])
        slack = 4 * values.std(ddof=1) / np.sqrt(len(values)) + 0.05 * theory
        assert abs(values.mean() - theory) < slack
        assert abs(values.mean() - 1.5 * theory) > slack


def test_the_rounds_of_a_draw_do_not_depend_on_which_are_asked_for():
    all_rounds, last = (
        MetricMachineStudy(n=64, d=8, link="product", rounds=rounds).simulate(np.random.default_rng(0))
        for rounds in ((0, 1, 2), (2,))
    )
    for name in ("test_error", "misalignment", "metric_outside"):
        assert all_rounds[name][-1] == last[name][0]
    assert all_rounds["test_error"][0] == last["fixed_error"]
