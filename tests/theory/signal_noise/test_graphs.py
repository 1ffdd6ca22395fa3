import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory import graph_gain


def test_gain_on_groups_is_that_of_fewer_samples_of_more_signal():
    n, signal_to_noise, neighbours = 96, 0.3, np.array([1, 2, 4, 16])
    for power in (2, 3, 4.5):
        strength = (n / neighbours) * (np.sqrt(neighbours) * signal_to_noise) ** power
        np.testing.assert_allclose(graph_gain(power, neighbours) * n * signal_to_noise**power, strength)


def test_there_is_no_gain_without_a_graph_or_for_the_square():
    assert graph_gain(power=5, neighbours=1) == 1
    np.testing.assert_array_equal(graph_gain(power=2, neighbours=[3, 30], homophily=0.3), 1.0)


@pytest.mark.parametrize("wrong", [{"power": 1.5}, {"neighbours": 0.5}, {"homophily": 1.1}, {"homophily": -0.1}])
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        graph_gain(**{"power": 3, "neighbours": 4, "homophily": 0.5} | wrong)
