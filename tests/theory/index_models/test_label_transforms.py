"""Label transforms, powers of labels and sample sizes against closed forms, simulation and the published tables."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.functions.elementwise import LINKS, polynomial
from unlazy.theory.index_models.exponents.exponents import (
    generative_exponent,
    label_transform,
    monomial_exponents,
    sample_complexity,
)


class TestLabelTransform:
    def test_of_the_absolute_value_it_is_known(self):
        y = np.linspace(0.01, 4, 20)
        assert label_transform("abs", hermite_degree=2)(y) == pytest.approx((y**2 - 1) / math.sqrt(2), abs=1e-9)
        assert label_transform("abs", hermite_degree=1)(y) == pytest.approx(0, abs=1e-12)

    def test_atoms_give_the_mean_over_their_piece(self):
        found = label_transform("relu", hermite_degree=1)(np.array([0.0, 0.5, 2.0]))
        assert found == pytest.approx([-math.sqrt(2 / math.pi), 0.5, 2.0], abs=1e-9)

    def test_labels_outside_are_taken_to_the_nearest(self):
        transform = label_transform("sign", hermite_degree=1)
        assert transform([-7.0, -0.2, 0.3, 9.0]) == pytest.approx(math.sqrt(2 / math.pi) * np.array([-1, -1, 1, 1]))
        assert np.isfinite(label_transform("He3", 0.01, hermite_degree=2)([-1e6, 0.0, 1e6])).all()

    @pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
    def test_beyond_the_highest_label_it_stays_at_its_value_there(self, noise):
        # z is known to 9, where He3 is 286: labels beyond are those of z = 9
        labels = [200.0, 260.0, 280.0, 285.0, 290.0, 1e6]
        found = label_transform("He3", noise**2)(labels)
        assert (np.diff(found) >= 0).all()
        assert found == pytest.approx(label_transform("He3", hermite_degree=1)(labels), abs=0.01)
        assert label_transform("He3", noise**2)(-np.array(labels)) == pytest.approx(-found, abs=1e-9)

    def test_small_noise_is_close_to_none(self):
        y = np.array([-3.0, -0.5, 0.2, 0.5, 3.0, 40.0, 90.0])
        clean, noisy = label_transform("He3", hermite_degree=1)(y), label_transform("He3", 1e-6)(y)
        assert noisy == pytest.approx(clean, abs=1e-3)

    @pytest.mark.parametrize("noise", [0.0, 0.3])
    def test_its_correlation_is_the_largest(self, noise):
        rng = np.random.default_rng(0)
        z = rng.standard_normal(100_000)
        y = np.asarray(LINKS["He3"](z)) + noise * rng.standard_normal(z.size)
        best = label_transform("He3", noise**2)(y)
        reached = np.corrcoef(best, z)[0, 1] ** 2
        assert reached == pytest.approx(generative_exponent("He3", noise**2).squared_correlations[1], abs=0.012)
        for other in (y, np.clip(y, -1, 1), np.tanh(y)):
            assert np.corrcoef(other, z)[0, 1] ** 2 < reached

    @pytest.mark.parametrize("k", [-1, 1.5, 61])
    def test_bad_orders_are_refused(self, k):
        with pytest.raises(InputError, match="hermite_degree must be"):
            label_transform("He3", hermite_degree=k)

    def test_labels_must_be_numbers(self):
        with pytest.raises(InputError, match="y must be finite"):
            label_transform("He3")([np.nan])


class TestMonomialExponents:
    def test_powers_of_hermite_polynomials(self):
        for k in range(3, 9):
            found = monomial_exponents(f"He{k}", range(1, 5))
            assert found.exponents.tolist() == [k, 2, 2 if k % 2 == 0 else 1, 2]

    @pytest.mark.parametrize(
        ("name", "power", "order", "expected"),
        [
            ("He3", 2, 2, 3 * math.sqrt(2)),
            ("He3", 3, 1, 22.04540769),
            ("He4", 2, 2, 4 * math.sqrt(2)),
            ("He5", 2, 2, 5 * math.sqrt(2)),
            ("He5", 3, 1, 164.31676725),
        ],
    )
    def test_coefficients_of_powers(self, name, power, order, expected):
        found = monomial_exponents(name, [power])
        raised = lambda z: np.asarray(LINKS[name](z)) ** power * norm.pdf(z)  # noqa: E731
        mean = integrate.quad(raised, -20, 20, limit=400)[0]
        second = integrate.quad(lambda z: raised(z) ** 2 / norm.pdf(z), -20, 20, limit=400)[0]
        scale = math.sqrt(second - mean**2)
        assert found.relative_coefficients[0, order] * scale == pytest.approx(expected, rel=1e-7)

    def test_high_powers_do_not_overflow(self):
        # E[z^200 h_2] / sd(z^200) from double factorials: E[z^200 (z^2 - 1)] = 200 * 199!!, E z^400 = 399!!
        found = monomial_exponents("He1", [199, 200])
        assert found.exponents.tolist() == [1, 2]
        logs = [sum(math.log(odd) for odd in range(1, last + 1, 2)) for last in (199, 399)]
        expected = math.log(200 / math.sqrt(2)) + logs[0] - logs[1] / 2
        assert math.log(found.relative_coefficients[1, 2]) == pytest.approx(expected, rel=1e-9)

    def test_links_that_are_no_polynomials(self):
        assert monomial_exponents("sin", [1, 2, 3]).exponents.tolist() == [1, 2, 1]
        assert monomial_exponents("z2exp", [1, 2]).exponents.tolist() == [4, 4]
        # sign^2 is constant
        assert monomial_exponents("sign", [1, 2]).exponents.tolist() == [1, 0]

    def test_bad_powers_are_refused(self):
        for powers in ([0], [1.5], [-1]):
            with pytest.raises(InputError, match="label_powers"):
                monomial_exponents("He3", powers)
        with pytest.raises(InputError, match="degree \\* power"):
            monomial_exponents("He12", [100])
        with pytest.raises(InputError, match="largest_degree must be at least"):
            monomial_exponents("He5", [1], largest_degree=3)


class TestSampleComplexity:
    @pytest.mark.parametrize(
        ("link", "method", "exponent"),
        [
            ("He5", "information", 1),
            ("He5", "kernel", 5),
            ("tanh", "kernel", math.inf),
            ("tanh", "online-sgd", 1),
            ("He2", "online-sgd", 1),
            ("He5", "online-sgd", 4),
            ("He5", "smoothed-sgd", 2.5),
            ("He2", "smoothed-sgd", 1),
            ("He5", "batch-reuse", 1),
            ("He4", "batch-reuse", 1),
            ("z2exp", "batch-reuse", 3),
            ("z2exp", "spectral", 2),
            ("He3", "spectral", 1),
        ],
    )
    def test_exponents_are_those_of_the_table(self, link, method, exponent):
        assert sample_complexity(link, method).samples_exponent == exponent

    def test_logarithms_tasks_and_samples(self):
        assert "log d" in sample_complexity("He2", "online-sgd").logarithms
        assert sample_complexity("He1", "online-sgd").logarithms == ""
        found = sample_complexity("He4", "online-sgd", 10, tasks=5)
        assert found.n == 5000
        assert found.formula == "M d^3"
        assert sample_complexity("He4", "kernel", 10, tasks=5).n == 10_000
        assert sample_complexity("He4", "smoothed-sgd", 10, tasks=5).n == 500

    def test_no_power_of_the_dimension_is_infinite_at_every_dimension(self):
        assert sample_complexity("tanh", "kernel", 1).n == math.inf
        assert sample_complexity("tanh", "kernel", 10).n == math.inf
        assert sample_complexity("He3", "kernel", 1).n == 1

    def test_bad_input_is_refused(self):
        for method in ("information", "kernel", "online-sgd"):
            with pytest.raises(InputError, match=r"tasks must be at most d = 4, .*, got 5"):
                sample_complexity("He3", method, 4, tasks=5)
        with pytest.raises(InputError, match="tasks must be an integer >= 1"):
            sample_complexity("He3", "information", tasks=2.5)
        with pytest.raises(InputError, match="online-sgd"):
            sample_complexity("He3", "sgd")
        with pytest.raises(InputError, match="tasks"):
            sample_complexity("He3", "batch-reuse", tasks=2)
        with pytest.raises(InputError, match="tasks"):
            sample_complexity("He2", "online-sgd", tasks=2)
        with pytest.raises(InputError, match="d must be"):
            sample_complexity("He3", "spectral", 0)
        with pytest.raises(InputError, match="constant"):
            sample_complexity(polynomial([1.0]), "kernel")
