import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.signal_noise.patch_attention import logistic_loss


def test_the_loss_is_logistic():
    outputs, y = jnp.array([0.3, -2.0]), jnp.array([1.0, 1.0])
    assert logistic_loss(outputs, y) == pytest.approx((np.log1p(np.exp(-0.3)) + np.log1p(np.exp(2.0))) / 2, rel=1e-6)
