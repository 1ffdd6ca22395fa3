import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.reverse_diffusion import time_grid
from unlazy.numerics.roots import ConvergenceError
from unlazy.training.diffusion.reverse import network_samples, network_score
from unlazy.training.diffusion.score_matching import ScoreSchedule, train_score


def test_training_finds_the_score_of_a_mixture_and_samples_it():
    """Two narrow Gaussians, a mixture of variance one: at least 3/4 of what the normal score misses is learned."""
    rng = np.random.default_rng(0)
    width = 0.3
    scale = np.sqrt(1 + width**2)
    rows = ((2 * rng.integers(0, 2, 3000) - 1 + width * rng.standard_normal(3000)) / scale)[:, None]
    schedule = ScoreSchedule(steps=700, width=32)
    found = train_score(0, rows[:2500], rows[2500:], schedule)
    assert found.losses[0] > 1.02 * found.losses.min()
    assert found.step == found.checkpoints[int(np.argmin(found.losses))] > 0

    def exact(x, time):
        center = np.exp(-time) / scale
        total = (np.exp(-time) * width / scale) ** 2 + 1 - np.exp(-2 * time)
        return -(x - center * np.tanh(x * center / total)) / total, (
            np.logaddexp(-((x - center) ** 2) / (2 * total), -((x + center) ** 2) / (2 * total))
            - 0.5 * np.log(8 * np.pi * total)
        )

    x = np.linspace(-1.6, 1.6, 41)
    for time in (0.05, 0.3):
        score, density = exact(x, time)
        error = network_score(found.network, x[:, None], time)[:, 0] - score
        assert (np.exp(density) * error**2).sum() < 0.25 * (np.exp(density) * (score + x) ** 2).sum()
    samples = network_samples(found.network, 3, 4000, time_grid(4.0, 1e-3, 100))
    assert abs(np.abs(samples).mean() - 1 / scale) < 0.05
    assert abs((samples > 0).mean() - 0.5) < 0.05


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (ScoreSchedule(first_time=0.0), "first_time must be above 0 and below last_time = 4, got 0"),
        (ScoreSchedule(first_time=5.0), "first_time must be above 0 and below last_time = 4, got 5"),
        (ScoreSchedule(steps=0), "steps must be an integer >= 1, got 0"),
        (ScoreSchedule(step_size=-1.0), "step_size must be > 0, got -1"),
    ],
)
def test_wrong_schedules_are_named(schedule, message):
    with pytest.raises(InputError, match=message):
        train_score(0, np.zeros((4, 1)), schedule=schedule)


@pytest.mark.slow
def test_a_rate_that_is_too_large_is_an_error_and_not_a_density():
    rows = np.random.default_rng(0).standard_normal((40, 1))
    with pytest.raises(ConvergenceError, match="step_size must be smaller, got 1e"):
        train_score(0, rows[:30], rows[30:], ScoreSchedule(steps=20, width=4, step_size=1e30))
