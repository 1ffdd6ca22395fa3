"""Small words that studies are written with."""

from dataclasses import dataclass

import pytest

from unlazy.checks import InputError
from unlazy.lab import Change, Study, changes, static


@dataclass(frozen=True)
class Small(Study):
    n: int = static(4, "samples")
    d: int = static(3, "dimension")


def test_parameters_are_arguments_by_their_own_or_another_name():
    study = Small()
    assert study.as_dict() == {"n": 4, "d": 3}
    assert study.as_dict("d", size="n") == {"d": 3, "size": 4}


def test_a_parameter_above_its_bound_is_refused_with_both_names():
    Small().check_at_most(("d", "n"))
    with pytest.raises(InputError, match="n must be at most d = 3, got 4"):
        Small().check_at_most(("d", "n"), ("n", "d"))


def test_one_change_stands_beside_each_of_its_claims():
    assert changes("one other", "what", "why") == (Change("one", "what", "why"), Change("other", "what", "why"))
