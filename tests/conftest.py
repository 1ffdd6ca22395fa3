"""What tests of all folders share."""

import pytest


@pytest.fixture(scope="module")
def compiled_for_one_run():
    """For programs that run for milliseconds: to optimise them takes longer than it saves."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
