import jax
import numpy as np
import pytest

from unlazy.training.mean_field.coupled_clouds import mean_differences

NUMBERS = {"temperature": 0.3, "start_mean": 0.02, "start_variance": 1e-4, "steps": 20, "step_size": 0.05}


@pytest.mark.parametrize(("interaction", "d"), [(0.0, 1), (2.0, 4)])
def test_a_small_cold_start_forgets_at_the_rate_of_its_linear_force(interaction, d):
    """At temperature 1e-6 around 0, where tanh is x: each step is a factor 1 - eta (2 lambda_1 + V'' + kappa)."""
    numbers = NUMBERS | {"temperature": 1e-6, "interaction": interaction, "target_mean": 0.0, "confinement": 0.2}
    found = mean_differences(
        jax.random.key(0), lambda x: 0.3 * x**2, d, particles=200, record_at=[0, 10, 20], **numbers
    )
    factor = 1 - 0.05 * (0.4 + 0.6 + interaction)
    np.testing.assert_allclose(found, 0.04 * factor ** np.array([0, 10, 20]), rtol=2e-3)
