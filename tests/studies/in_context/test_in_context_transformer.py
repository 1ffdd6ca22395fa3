"""A study that may be killed."""

import numpy as np
import pytest

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
    small = {"d": 2, "rank": 1, "context": 3, "width": 8, "layers": 1, "heads": 2, "batch_size": 4, "tests": 16}
    study = InContextTransformer(task_kind=tasks, optimiser=optimiser, segment=2, steps=(2, 6), **small)
    whole = study.simulate(np.random.default_rng(7), Saved())
    mortal = Mortal(tmp_path / "state.npz", 2)
    with pytest.raises(Killed):
        study.simulate(np.random.default_rng(7), mortal)
    again = study.simulate(np.random.default_rng(7), mortal)
    assert mortal.lives == -1
    for name, array in whole.items():
        np.testing.assert_array_equal(again[name], array)
    other = study.simulate(np.random.default_rng(8), Saved())
    assert not np.array_equal(other["relative_risk"], whole["relative_risk"])
