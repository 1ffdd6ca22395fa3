from math import comb
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.studies.mean_field.mean_field_parities import KERNEL_RATIOS, RATIOS, MeanFieldParities

SIZES = np.array([8, 12, 19, 30])


def part(degree, needed, kernel_needed):
    """Accuracies that are straight lines in log n and are 80% at the given numbers of samples of each d."""
    own, kernel = np.array(RATIOS[degree]), np.array(KERNEL_RATIOS)
    count = np.array([comb(int(d), degree) for d in SIZES])
    accuracy = 0.8 + 0.2 * np.log(own * SIZES[:, None] / np.array(needed)[:, None])
    kernel_accuracy = 0.8 + 0.2 * np.log(kernel * count[:, None] / np.array(kernel_needed)[:, None])
    data = xr.Dataset(
        {
            "accuracy": (("seed", "d", "samples_per_dimension"), accuracy[None]),
            "kernel_accuracy": (("seed", "d", "samples_per_multiplicity"), kernel_accuracy[None]),
        },
        coords={"d": SIZES, "samples_per_dimension": own, "samples_per_multiplicity": kernel},
        attrs={"degree": degree},
    )
    return SimpleNamespace(simulated=data)


def number(name, given):
    return float(next(claim for claim in MeanFieldParities.claims if claim.id == name).number(given))


def test_exponents_are_those_of_the_samples_that_are_needed():
    two = part(2, 3 * SIZES**1.1, 0.3 * SIZES**1.9)
    assert number("linear", two) == pytest.approx(1.1)
    assert number("kernel", two) == pytest.approx(1.9)
    three = part(3, 4 * SIZES**1.2, 0.06 * SIZES**3.1)
    assert number("square", three) == pytest.approx(1.2)
    assert number("kernel-three", three) == pytest.approx(3.1)
    assert number("decoupled", three) == pytest.approx(1.9)


def test_a_parity_of_more_signs_than_there_are_is_refused():
    with pytest.raises(InputError, match="degree must be at most d = 2, got 3"):
        MeanFieldParities(degree=3, d=2).validate()
