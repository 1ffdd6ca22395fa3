"""A study that may be killed."""

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.lab.running.saved import Saved
from unlazy.studies.in_context.in_context_transformer import LEARNERS, InContextTransformer


class Killed(Exception):
    """What stops a run."""


class Mortal(Saved):
    """Keeps the state in a file and dies after some saves."""

    def __init__(self, file, lives):
        super().__init__(file)
        self.lives = lives

    def save(self, arrays):
        super().save(arrays)
        self.lives -= 1
        if not self.lives:
            raise Killed


@pytest.mark.parametrize(("tasks", "optimiser"), list(zip(LEARNERS, ("adam", "muon"), strict=True)))
def test_a_killed_instance_gives_the_same_numbers_bit_by_bit(tmp_path, tasks, optimiser):
    small = {"d": 2, "rank": 1, "pairs": 3, "width": 8, "layers": 1, "heads": 2, "batch": 4, "tests": 16}
    study = InContextTransformer(tasks=tasks, optimiser=optimiser, segment=2, stage=(2, 6), **small)
    whole = study.simulate(np.random.default_rng(7), Saved())
    mortal = Mortal(tmp_path / "state.npz", 2)
    with pytest.raises(Killed):
        study.simulate(np.random.default_rng(7), mortal)
    again = study.simulate(np.random.default_rng(7), mortal)
    assert mortal.lives == -1
    for name, array in whole.items():
        np.testing.assert_array_equal(again[name], array)
    other = study.simulate(np.random.default_rng(8), Saved())
    assert not np.array_equal(other["error"], whole["error"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"heads": 3}, "width must be a multiple of heads = 3, got 32"),
        ({"tasks": "single-index", "rank": 3}, "rank must be at most d = 2, got 3"),
        ({"tasks": "single-index", "lowest": 3}, "lowest must be at most highest = 2, got 3"),
        ({"stage": (200, 500)}, "stage must be increasing multiples of segment = 200, got"),
        ({"stage": (400, 400)}, "stage must be increasing multiples of segment = 200, got"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        InContextTransformer(**wrong).validate()
