from itertools import combinations

import jax.numpy as jnp
import numpy as np

from unlazy.observables.localisation import chance_to_miss


def test_a_task_is_missed_with_the_chance_over_all_choices_of_neurons():
    neurons, found = 7, 2
    for width in range(1, 8):
        without = [not {0, 1} & set(chosen) for chosen in combinations(range(neurons), width)]
        np.testing.assert_allclose(
            chance_to_miss(jnp.asarray(found), neurons, jnp.asarray(float(width))), np.mean(without), atol=1e-5
        )
