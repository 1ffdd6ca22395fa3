"""What the studies of batch reuse rest on: crossing times, starts, and shared examples."""

import dataclasses

import jax
import numpy as np
import pytest

from unlazy.studies.index_models.batch_reuse import BatchReuse
from unlazy.studies.index_models.reuse_dynamics import PLACES, TIMES, ReuseDynamics
from unlazy.studies.index_models.reuse_scaling import ReuseScaling
from unlazy.studies.index_models.superorthogonal_sgd import GENERIC, SuperorthogonalSgd


def test_scaling_without_diffusion_is_that_of_the_ode():
    # in a large dimension and from a start far above d^(-1/2) fluctuations the chain crosses when the ODE does
    study = ReuseScaling(degree=2, reuse=0, matched=1, relative_step_size=0.25, sign=1.0, d=2000.0, chains=32)
    found = float(jax.jit(study.simulate)(jax.random.key(0))["n"])
    assert found == pytest.approx(study.predict()["n"], rel=0.2)


def test_a_budget_that_is_too_small_is_infinite_and_not_a_number_of_examples():
    study = ReuseScaling(d=50.0, largest_samples_per_dimension=2.0, chains=8)
    assert np.isinf(float(jax.jit(study.simulate)(jax.random.key(0))["n"]))


def test_network_and_chain_start_at_the_same_overlap_and_measure_the_same_drift():
    found = {}
    for engine in ("chain", "network"):
        study = ReuseDynamics(engine=engine, network_d=20, d=20.0, start_overlap=0.4, step_size=1e-6, chains=4)
        found[engine] = jax.jit(study.simulate)(jax.random.key(0))
        np.testing.assert_allclose(found[engine]["overlap"], np.full(len(TIMES), 0.4), atol=1e-3)
    np.testing.assert_allclose(found["chain"]["pull"], found["network"]["pull"], atol=1e-6)
    assert found["chain"]["pull"].shape == (len(PLACES),)


def test_reuse_is_all_that_differs_between_the_arms_of_the_network():
    # with reuse_step_size 0 the second use repeats the first: the same as one use of twice the step
    study = BatchReuse(d=20, width=8, samples_per_dimension=15, reuse_step_size=0.0, step_size=0.1, reuse=1)
    with jax.enable_x64(True):
        simulate = jax.jit(
            lambda size, reuse: dataclasses.replace(study, step_size=size, reuse=reuse).simulate(jax.random.key(0))
        )
        twice, double, once = simulate(0.1, 1), simulate(0.2, 0), simulate(0.1, 0)
    np.testing.assert_allclose(twice["overlap_quantiles"], double["overlap_quantiles"], atol=1e-4)
    assert np.abs(twice["overlap_quantiles"] - once["overlap_quantiles"]).max() > 1e-3


@pytest.mark.parametrize(("jumps", "factor", "uses"), [(0, GENERIC, 2), (1, 1.0, 3)])
def test_further_uses_need_the_examples_of_the_ode_and_fewer_than_one(jumps, factor, uses):
    # from a start far above the fluctuations, where the arms without a signal of low degree are slower
    study = SuperorthogonalSgd(
        jumps=jumps, first_factor=factor, uses=uses, d=300.0, relative_start_overlap=3.0, step_size_exponent=0.0,
        relative_step_size=0.03, reuse_step_size=0.3, chains=32,
    )  # fmt: skip
    found = float(jax.jit(study.simulate)(jax.random.key(0))["n"])
    assert found == pytest.approx(study.predict()["n"], rel=0.2)
    assert dataclasses.replace(study, uses=1).predict()["n"] > 1.5 * found


def test_both_uses_of_a_superorthogonal_link_see_the_same_examples_and_need_as_many():
    one, two = (
        SuperorthogonalSgd(uses=uses, d=30.0, relative_step_size=0.2, reuse_step_size=0.01, chains=8) for uses in (1, 2)
    )
    found = [float(jax.jit(study.simulate)(jax.random.key(3))["n"]) for study in (one, two)]
    assert found[1] == pytest.approx(found[0], rel=0.1)
    assert two.predict()["n"] == pytest.approx(one.predict()["n"], rel=0.01)
