"""The study diffusion-vs-classification: the denoiser by brute force, the classifier's two phases."""

import numpy as np
import pytest

import unlazy
from unlazy.studies.signal_noise.diffusion_vs_classification import DiffusionVsClassification


def test_the_denoiser_is_where_sampled_gradients_vanish():
    """Gradient descent on the loss itself in d dimensions, with the diffusion noise drawn: a short run from the point.

    At the stationary point of the whole loss the mean gradient over many draws is 0 within its error; at 1.2 times the
    weights it is not.
    """
    from unlazy.theory.signal_noise.denoising import symmetric_stationary_point

    n, d, time, rng = 4, 12, 1.0, np.random.default_rng(0)
    patches = np.zeros((n, 2, d))
    patches[np.arange(n), 0, np.arange(n) % 2] = 2.0
    patches[:, 1, 2:] = rng.standard_normal((n, d - 2))
    weights = symmetric_stationary_point(patches, time).weights
    alpha, beta = np.exp(-time), np.sqrt(1 - np.exp(-2 * time))
    noise = rng.standard_normal((40_000, n, 2, d))

    def slopes(w):
        inputs = alpha * patches + beta * noise
        overlap = inputs @ w
        gap = overlap[..., None] ** 2 * w - noise
        # d/dw of |overlap^2 w - eps|^2
        found = 2 * (2 * overlap * (gap @ w))[..., None] * inputs + 2 * overlap[..., None] ** 2 * gap
        return found.sum(axis=2).mean(axis=1)

    at, off = slopes(weights), slopes(1.2 * weights)
    scores = [np.abs(s.mean(0)) / (s.std(0) / np.sqrt(len(s))) for s in (at, off)]
    assert scores[0].max() < 4.5
    assert scores[1].max() > 10


def test_the_ratio_does_not_depend_on_the_denoisers_width():
    one, many = (
        DiffusionVsClassification(width=width, n=6, d=40, signal_strength=(0.5, 4.0)).simulate(np.random.default_rng(1))
        for width in (1, 20)
    )
    np.testing.assert_allclose(one["denoiser_balance"], many["denoiser_balance"], rtol=1e-6)


@pytest.mark.parametrize("time", [0.2, 4.0])
def test_the_ratio_follows_the_equations_for_orthogonal_patches(time):
    study = DiffusionVsClassification(n=10, d=20_000, time=time, signal_strength=(0.2, 1.0, 8.0))
    found = [study.simulate(np.random.default_rng(seed))["denoiser_balance"] for seed in range(8)]
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(8)
    expected = study.predict()["denoiser_balance"]
    # n/d is finite: 1%.
    slack = 4 * error + 0.01 * expected
    assert (abs(mean - expected) < slack).all()
    assert (abs(mean - 1.2 * expected) > slack).all()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run("diffusion-vs-classification", over={"width": [10]}, seeds=16, store=store)


def test_verdicts_are_as_documented(run):
    assert all(verdict.as_documented for verdict in run.verdicts), [(v.claim.id, v.verdict) for v in run.verdicts]
    assert {v.claim.id for v in run.verdicts if v.verdict == "fails"} == {"small-time"}


def test_the_classifier_does_not_see_the_diffusion_time(run):
    ratio = run.simulated.classifier_balance
    np.testing.assert_array_equal(ratio.isel(time=0), ratio.isel(time=1))


def test_the_figure_has_two_panels(run):
    assert len(run.figure().axes) == 2
