import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.studies.message_passing.hard_phase import HardPhaseStudy
from unlazy.studies.message_passing.lasso_error import LassoError
from unlazy.studies.message_passing.mixture_classification import MixtureClassification


def test_clusters_of_one_draw_have_the_declared_moments():
    study = MixtureClassification(d=50, variance_ratio=2.0, tilt=1.0, first_probability=0.3, separation=1.5)
    means, variances, shares = study._clusters()
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 1.5 / np.sqrt(50))
    np.testing.assert_allclose(variances.sum(axis=1), [1.0, 2.0])
    np.testing.assert_allclose(shares, [0.3, 0.7])


@pytest.mark.parametrize("separation", [0.0, 1.5])
def test_the_closed_form_is_judged_only_where_the_clusters_differ(separation, tmp_path):
    from unlazy.lab.running.run import run

    small = {"separation": separation, "d": 20, "n": (40,)}
    result = run(MixtureClassification, set=small, seeds=2, store=tmp_path / "store.sqlite")
    verdicts = {verdict.claim.id: verdict.verdict for verdict in result.verdicts}
    for claim in ("averaging", "averaging-theory"):
        assert (verdicts[claim] == "untested") == (separation == 0)


def test_a_lasso_fit_satisfies_its_optimality_conditions():
    """What the fit minimises is |y - A s|^2 / 2 + penalty |s|_1: the correlations of its residual are the penalty."""
    study = LassoError(d=60, noise_variance=0.01, l1_penalty=(0.3, 0.1))
    found = study.simulate(np.random.default_rng(3))
    rng = np.random.default_rng(3)
    signal = np.zeros(60)
    signal[:6] = study._values()
    np.testing.assert_allclose(signal @ signal, 6)
    design = rng.standard_normal((36, 60)) / 6
    y = design @ signal + 0.1 * rng.standard_normal(36)
    for i, penalty in enumerate((0.3, 0.1)):
        fit = np.zeros(60)
        length = 1 / np.linalg.norm(design, 2) ** 2
        for _ in range(20_000):
            moved = fit + length * design.T @ (y - design @ fit)
            fit = np.sign(moved) * np.maximum(np.abs(moved) - length * penalty, 0)
        np.testing.assert_allclose(found["training_error"][i], np.mean((y - design @ fit) ** 2), rtol=1e-4)
        np.testing.assert_allclose(found["coefficient_error"][i], np.mean((fit - signal) ** 2), rtol=1e-3)
        assert found["selected_share"][i] == np.mean(fit != 0)


def test_more_samples_than_the_program_has_are_refused():
    with pytest.raises(InputError, match=r"samples_per_dimension must be at most most_samples = 1\.7, got 2"):
        HardPhaseStudy(samples_per_dimension=2.0).validate()


def test_signs_are_found_with_many_samples_and_not_with_few(tmp_path):
    from unlazy.lab.running.run import run

    few = {"d": 150, "most_samples": 2.5}
    axes = {"samples_per_dimension": [1.0, 2.5]}
    result = run(HardPhaseStudy, set=few, over=axes, seeds=8, store=tmp_path / "store.sqlite")
    found = result.simulated["signs"].found.mean("seed")
    assert found.sel(samples_per_dimension=1.0) == 0
    assert found.sel(samples_per_dimension=2.5) >= 0.75
