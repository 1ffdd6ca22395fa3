"""The study diffusion-vs-classification: the denoiser by brute force, and the verdicts."""

import numpy as np
import pytest

import unlazy


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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run("diffusion-vs-classification", over={"width": [20]}, seeds=6, store=store)


def test_verdicts_are_as_documented(run):
    verdicts = {v.claim.id: v.verdict for v in run.verdicts}
    assert {name for name, verdict in verdicts.items() if verdict == "fails"} == {
        "point-small-time",
        "trained-small-time",
    }
    assert set(verdicts.values()) == {"holds", "fails"}, verdicts


def test_the_classifier_has_the_denoisers_samples_and_no_diffusion_time(run):
    assert "time" not in run.simulated.classifier_balance.dims
    assert "time" in run.simulated.denoiser_balance.dims


def test_the_figure_has_four_panels(run):
    assert len(run.figure().axes) == 4
