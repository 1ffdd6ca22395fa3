"""Theory in processes of its own: the same numbers, and an end to what takes too long or too much."""

import pytest
import xarray as xr

from unlazy.app.evaluator import Evaluator
from unlazy.app.setting import default_setting, from_query
from unlazy.app.words import theory_note
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.running.dataset import predicted


@pytest.fixture(scope="module")
def evaluator():
    made = Evaluator(processes=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def setting():
    return default_setting(registry.find("ridge-equivalent"))


def test_the_numbers_are_those_of_the_theory(evaluator, setting):
    # How many points there are between the setting's own depends on how fast the machine is.
    own = predicted(setting.grid)
    found = evaluator.lines(setting, slow=True)
    assert found.dataset is not None
    assert {50, 1600} <= set(own.n.values)
    xr.testing.assert_allclose(found.dataset.sel(n=own.n), own)


def test_too_much_memory_is_refused_in_words(evaluator):
    huge = from_query({"study": "mean-field-minibatch", "set": "n=100000"})
    with pytest.raises(InputError, match="more memory here than the explorer gives"):
        evaluator.lines(huge)


def test_what_takes_too_long_is_stopped_and_the_next_is_not(evaluator, setting):
    long = from_query({"study": "mean-field-exact", "set": "steps=10000000"})
    found = evaluator.lines(long, deadline=0.3)
    assert found.stopped
    assert found.dataset is None
    assert "was stopped after" in theory_note(long, found, None)
    assert evaluator.lines(setting, slow=True).dataset is not None


def test_a_study_without_theory_needs_no_process():
    alone = Evaluator()
    assert alone.lines(default_setting(registry.find("cutmix"))).dataset is None
    assert not alone._running
