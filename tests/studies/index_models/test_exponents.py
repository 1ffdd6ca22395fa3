"""The studies on exponents against brute force in the full dimension and against closed forms."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

from unlazy.functions.elementwise import LINKS
from unlazy.lab import Missing, Part
from unlazy.studies.index_models.generative_exponent import GenerativeExponentStudy
from unlazy.studies.index_models.information_exponent import LEAST, PAIRS, InformationExponentStudy
from unlazy.studies.index_models.monomial_transform import MonomialTransform
from unlazy.studies.index_models.superorthogonal import CASES, SuperOrthogonalStudy


def mean_and_error(values):
    values = np.array(values)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))


def test_a_gradient_in_all_dimensions_aligns_as_its_projections():
    d, n, runs = 8, 400, 400
    study = InformationExponentStudy(d=d, n=(float(n),))
    rng = np.random.default_rng(0)
    mine, error = mean_and_error([np.ravel(study.simulate(rng)["alignment"]) for _ in range(runs)])
    m, weight = d**-0.5, np.eye(d)[1]
    direction = np.zeros(d)
    direction[:2] = math.sqrt(1 - m**2), m
    full = []
    for _ in range(runs):
        x = rng.standard_normal((n, d))
        row = []
        for link, activation in PAIRS.values():
            u = x @ weight
            slope = np.cos(u) - np.sin(u) if activation.name == "sine" else u > 0
            gradient = (link(x @ direction) * slope) @ x
            gradient -= gradient @ weight * weight
            row.append(gradient[0] ** 2 / (gradient @ gradient))
        full.append(row)
    other, other_error = mean_and_error(full)
    assert np.abs(mine - other).max() < 4.5 * np.hypot(error, other_error).max()
    assert np.abs(1.2 * other - mine)[:2].min() > 4.5 * np.hypot(error, other_error)[:2].max()


def test_the_predicted_signal_is_stein_s_integral():
    predicted = InformationExponentStudy(d=9).predict()
    m = 1 / 3
    for (link, activation), signal in zip(PAIRS.values(), predicted["gradient_signal"], strict=True):
        u = np.linspace(-8, 8, 801)[:-1] + 0.01
        grid_u, grid_v = np.meshgrid(u, u, indexing="ij")
        z = m * grid_u + math.sqrt(1 - m**2) * grid_v
        slopes = np.cos(grid_u) - np.sin(grid_u) if activation.name == "sine" else grid_u > 0
        exact = (link(z) * slopes * grid_v * norm.pdf(grid_u) * norm.pdf(grid_v)).sum() * 0.02**2
        assert signal == pytest.approx(exact, abs=2e-4)


def test_the_measured_signal_is_that_of_the_theory_with_little_noise():
    study, rng, runs = InformationExponentStudy(d=64, n=(4000.0,)), np.random.default_rng(3), 60
    mean, error = mean_and_error([study.simulate(rng)["gradient_signal"] for _ in range(runs)])
    predicted = study.predict()
    assert (np.abs(mean - predicted["gradient_signal"]) < 4 * error).all()
    # of the plain mean of y activation'(u) v the error would be sqrt(V / samples) or more
    plain = np.sqrt(np.array(predicted["update_square"]) / (4000 * runs))
    assert (error < 0.6 * plain).all()


def test_claims_on_many_samples_say_that_they_need_them():
    claims = {claim.id: claim for claim in InformationExponentStudy.claims}
    few = xr.DataArray(np.zeros((len(PAIRS), 1)), {"case": list(PAIRS), "n": [LEAST / 2]}).to_dataset(name="alignment")
    for name in ("alignment", "blind-activation"):
        with pytest.raises(Missing, match="of n, the run has 0"):
            claims[name].number(Part(few, few))


def test_slices_are_unbiased_where_the_label_is_pure_noise():
    study = GenerativeExponentStudy(link="He1", noise_variance=1e4, n=20_000)
    rng = np.random.default_rng(1)
    mean, error = mean_and_error([study.simulate(rng)["squared_correlations"] for _ in range(60)])
    # lambda_k^2 is 1e-4 for k = 1 and less beyond
    assert (np.abs(mean) < 4 * error + 2e-4).all()
    assert error.max() < 0.01


def test_slices_keep_equal_labels_together():
    rng = np.random.default_rng(2)
    found = GenerativeExponentStudy(link="sign", noise_variance=0.0, n=20_000).simulate(rng)
    assert found["squared_correlations"][0] == pytest.approx(2 / math.pi, abs=0.03)
    # of two labels the label itself is the best transform
    assert found["squared_correlations"][0] == pytest.approx(found["plain_squared_correlations"][0], abs=2e-3)


@pytest.mark.parametrize("step", [0, 1])
def test_steps_in_all_dimensions_align_as_their_projections(step):
    d, ratio, runs, m = 6, 30, 300, 0.4
    study = MonomialTransform(link="He3", d=d, samples_per_dimension=ratio, overlap=m)
    rng = np.random.default_rng(4)
    mine, error = mean_and_error([study.simulate(rng)["alignment"][step] for _ in range(runs)])
    weight, full = np.eye(d)[1], []
    direction = np.zeros(d)
    direction[:2] = math.sqrt(1 - m**2), m
    for _ in range(runs):
        x = rng.standard_normal((ratio * d, d))
        y = LINKS["He3"](x @ direction)
        row = []
        for power in (1, 2, 3):
            if step == 0:
                found = (y**power) @ x
                row.append((found @ direction) ** 2 / (found @ found))
            else:
                found = (y**power * (x @ weight)) @ x
                found -= found @ weight * weight
                row.append(found[0] ** 2 / (found @ found))
        full.append(row)
    other, other_error = mean_and_error(full)
    assert (np.abs(mine - other) < 4.5 * np.hypot(error, other_error)).all()


def test_the_predicted_step_is_blind_exactly_where_the_coefficient_vanishes():
    linear, quadratic = MonomialTransform(link="He4").predict()["alignment"]
    assert linear.tolist() == [0, 0, 0]
    assert quadratic[0] == 0
    assert 0 < quadratic[2] < quadratic[1] < 1
    linear, quadratic = MonomialTransform(link="He3").predict()["alignment"]
    assert linear[2] > 0
    assert (linear[:2] == 0).all()
    assert quadratic[1] > 0


@pytest.mark.parametrize("case", list(CASES))
def test_superorthogonal_links_have_the_promised_zeros(case):
    largest_order, largest_power, *_ = CASES[case]
    predicted = SuperOrthogonalStudy(case=case).predict()
    assert predicted["moment_residual"] < 1e-10
    assert np.abs(predicted["relative_moment"][0, :largest_power, :largest_order]).max() < 1e-9
    assert np.abs(predicted["relative_moment"][1, :largest_power, :largest_order]).max() > 0.1
