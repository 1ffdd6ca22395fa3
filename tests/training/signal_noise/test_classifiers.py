import numpy as np
import pytest

from unlazy.training.signal_noise.classifiers import train_classifiers


@pytest.mark.slow
def test_absent_neurons_do_not_change_the_law_of_the_classifier():
    count, keys = 64, np.random.default_rng(2).integers(2**32, size=(2, 64, 2), dtype=np.uint32)
    norms, logs = np.full(count, np.sqrt(2.0 * 2000 / 10)), []
    for largest_width, words in zip((5, 9), keys, strict=True):
        found = train_classifiers(words, norms, n=10, d=2000.0, width=5, largest_width=largest_width, steps=1000)
        assert (found.training_loss <= 0.05).all()
        logs.append(np.log(found.signal_coefficient / found.noise_coefficient))
    difference = np.mean(logs[0]) - np.mean(logs[1])
    error = np.hypot(*(np.std(log, ddof=1) / 8 for log in logs))
    assert abs(difference) < 4 * error
