"""Exponents of index models against closed forms, plain sampling, other quadratures and the published examples."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.functions.elementwise import LINKS, Link, polynomial
from unlazy.functions.orthogonal import Hermite
from unlazy.studies.index_models.partial_trace import SIGN3
from unlazy.theory.index_models.exponents.exponents import (
    generative_exponent,
    information_exponent,
    label_transform,
)

CUBIC = (-1.0, 3.0, -math.sqrt(2), math.sqrt(6))
"""z^2 (z - 1) in the orthonormal h_k."""


def squares_from_roots(hermite, degree, points=2_801):
    """lambda_k^2 by polynomial roots at equidistant points, without any of the evaluator's code."""
    z = np.linspace(-7, 7, points)
    power = np.polynomial.hermite_e.herme2poly([a / math.sqrt(math.factorial(k)) for k, a in enumerate(hermite)])
    slope = np.polynomial.polynomial.polyder(power)
    found = np.zeros(degree + 1)
    for at in z:
        shifted = power.copy()
        shifted[0] -= np.polynomial.polynomial.polyval(at, power)
        roots = np.polynomial.polynomial.polyroots(shifted)
        real = roots[np.abs(roots.imag) < 1e-7].real
        weights = norm.pdf(real) / np.abs(np.polynomial.polynomial.polyval(real, slope))
        found += norm.pdf(at) * (Hermite().values(real, degree) @ weights / weights.sum()) ** 2
    return found * (z[1] - z[0])


def _assigned(z):
    y = z.copy()
    y[y > 0.5] = 0.5
    return y


class TestInformationExponent:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "relu",
                [1 / math.sqrt(2 * math.pi), 0.5, 1 / (2 * math.sqrt(math.pi)), 0, -0.0814337520, 0, 0.0446031029],
            ),
            ("abs", [math.sqrt(2 / math.pi), 0, 0.5641895835, 0, -0.1628675040, 0, 0.0892062058]),
            ("sign", [0, math.sqrt(2 / math.pi), 0, -0.3257350079, 0, 0.2185096861]),
            ("sin", [0, math.exp(-0.5), 0, -math.exp(-0.5) / math.sqrt(6), 0, math.exp(-0.5) / math.sqrt(120)]),
            ("tanh", [0, 0.6057055096, 0, -0.1484371908, 0, 0.0625475237]),
            ("z2exp", [0.1924500897, 0, 0, 0, -0.0523782801, 0, 0.0637528123]),
        ],
    )
    def test_coefficients_are_the_published_ones(self, name, expected):
        found = information_exponent(name).hermite_coefficients[: len(expected)]
        assert found == pytest.approx(expected, abs=2e-10)

    @pytest.mark.parametrize("k", range(1, 13))
    def test_a_hermite_polynomial_has_its_degree(self, k):
        assert information_exponent(f"He{k}").exponent == k

    @pytest.mark.parametrize(
        ("name", "exponent"), [("relu", 1), ("abs", 2), ("cos", 2), ("z2exp", 4), ("sign", 1), (SIGN3, 3)]
    )
    def test_exponents_of_named_links(self, name, exponent):
        assert information_exponent(name).exponent == exponent

    def test_kinks_and_jumps_of_callables_are_found(self):
        shifted = information_exponent(lambda z: np.abs(z - 0.3))
        # E|z - b| = 2 phi(b) + b (2 Phi(b) - 1), and E[|z-b| z] = 1 - 2 Phi(b)
        mean = 2 * norm.pdf(0.3) + 0.3 * (2 * norm.cdf(0.3) - 1)
        assert shifted.hermite_coefficients[:2] == pytest.approx([mean, 1 - 2 * norm.cdf(0.3)], abs=1e-10)
        steps = information_exponent(lambda z: (z > 0.3) * 1.0 + (z > 1) * 2.0)
        assert steps.hermite_coefficients[1] == pytest.approx(norm.pdf(0.3) + 2 * norm.pdf(1), abs=1e-10)

    def test_a_tiny_first_coefficient_is_pointed_out(self):
        found = information_exponent(lambda z: np.sin(3 * z))
        assert found.exponent == 1
        assert found.hermite_coefficients[1] == pytest.approx(3 * math.exp(-4.5), abs=1e-12)
        assert "k = 3" in found.remark
        assert information_exponent("tanh").remark == ""

    def test_relative_sizes_square_to_at_most_one(self):
        found = information_exponent("relu", largest_degree=40)
        assert 0.99 < (found.relative_coefficients[1:] ** 2).sum() < 1

    @pytest.mark.parametrize("link", [polynomial([2.0]), lambda z: 3.0 + 0 * z, lambda z: 1.0])
    def test_a_constant_link_is_refused(self, link):
        with pytest.raises(InputError, match="constant"):
            information_exponent(link)

    def test_a_degree_below_the_exponent_is_refused(self):
        with pytest.raises(InputError, match="largest_degree must be at least the information exponent"):
            information_exponent("He5", largest_degree=4)

    @pytest.mark.parametrize("degree", [0, 61, 2.5, None])
    def test_bad_degrees_are_refused(self, degree):
        with pytest.raises(InputError, match="degree"):
            information_exponent("He2", largest_degree=degree)

    def test_bad_links_are_refused(self):
        with pytest.raises(InputError, match="link must be one of"):
            information_exponent("He33")
        with pytest.raises(InputError, match="link must be one of"):
            information_exponent(3)
        with pytest.raises(InputError, match="breakpoints must be a list of numbers, got 3"):
            information_exponent(Link("own", np.tanh, breakpoints=3))
        with pytest.raises(InputError, match="finite"):
            information_exponent(lambda z: 1 / np.maximum(z, 0))
        with pytest.raises(InputError, match="square integrable"):
            information_exponent(lambda z: np.exp(z**2))


class TestGenerativeExponent:
    @pytest.mark.parametrize(
        ("link", "exponent", "expected", "accuracy"),
        [
            ("He3", 1, [0.6678316716, 0.6230459462, 1, 0.7066390955, 0.8958771089, 0.8748056386], 2e-10),
            ("He4", 2, [0, 0.7753735530, 0, 1, 0, 0.8856923445], 2e-10),
            (polynomial(CUBIC), 1, [0.9529016883, 0.9875501396], 2e-10),
            ("sign", 1, [2 / math.pi, 0, 2 / math.pi / 6], 1e-10),
            ("abs", 2, [0, 1, 0, 1], 1e-10),
            ("He2", 2, [0, 1, 0, 1], 1e-10),
            ("cos", 2, [0, 0.98213], 1e-5),
            ("relu", 1, [0.5 + 1 / math.pi, 0.5, 0.55305165], 1e-8),
            ("z2exp", 4, [0, 0, 0, 0.2299576], 1e-7),
            ("tanh", 1, [1, 1, 1, 1], 1e-10),
        ],
    )
    def test_squares_are_the_published_ones(self, link, exponent, expected, accuracy):
        found = generative_exponent(link)
        assert found.exponent == exponent
        assert found.squared_correlations[1 : len(expected) + 1] == pytest.approx(expected, abs=accuracy)
        assert found.squared_correlations[0] == pytest.approx(1, abs=1e-7)

    def test_the_hard_link_agrees_with_its_closed_form(self):
        # preimages a < 1 < b in size: zeta_4 = ((1-a^2)(b^2-1) - 2)/sqrt(24), as a function of either
        def partner(a):
            low, high = (1.0, 40.0) if a < 1 else (0.0, 1.0)
            for _ in range(80):
                middle = (low + high) / 2
                above = 2 * math.log(middle) - middle**2 > 2 * math.log(a) - a**2 if middle > 0 else False
                low, high = (middle, high) if above == (a < 1) else (low, middle)
            return (low + high) / 2

        def integrand(a):
            b = partner(a)
            small, large = min(a, b), max(a, b)
            return 2 * norm.pdf(a) * ((1 - small**2) * (large**2 - 1) - 2) ** 2 / 24

        exact = sum(integrate.quad(integrand, *ends, limit=200)[0] for ends in ((1e-12, 1), (1, 6), (6, 12)))
        assert generative_exponent("z2exp").squared_correlations[4] == pytest.approx(exact, abs=2e-6)

    @pytest.mark.parametrize("hermite", [(0, 0.3, 0, 1.0, 0.5), (0, 0, 1.0, 0.4, 0, 0.2)])
    def test_polynomials_agree_with_their_roots(self, hermite):
        found = generative_exponent(polynomial(hermite), largest_degree=4).squared_correlations
        # zeta jumps at a few points, which costs the order of the distance of neighbours
        assert found == pytest.approx(squares_from_roots(hermite, 4), abs=5e-3)
        assert (np.abs(found[1:] * 1.2 - squares_from_roots(hermite, 4)[1:]) > 5e-3).all()

    @pytest.mark.parametrize("name", ["He3", "relu", "sin", "z2exp"])
    def test_derivatives_need_not_be_known(self, name):
        known, unknown = (
            generative_exponent(name, largest_degree=5),
            generative_exponent(lambda z: LINKS[name](z), largest_degree=5),
        )
        assert unknown.exponent == known.exponent
        assert unknown.squared_correlations == pytest.approx(known.squared_correlations, abs=1e-6)

    @pytest.mark.parametrize("capped", [lambda z: np.array([min(x, 0.5) for x in z]), lambda z: _assigned(z)])
    def test_a_link_may_be_any_callable_of_arrays(self, capped):
        known = generative_exponent(lambda z: np.minimum(z, 0.5), largest_degree=4)
        assert generative_exponent(capped, largest_degree=4).squared_correlations == pytest.approx(
            known.squared_correlations, abs=1e-12
        )
        assert information_exponent(capped).exponent == 1

    def test_flat_pieces_of_equal_value_are_one(self):
        # y = 0 outside [-1, 1] and 1 inside: two values, both known in closed form
        found = generative_exponent(lambda z: (np.abs(z) < 1) * 1.0, largest_degree=4).squared_correlations
        inside = 2 * norm.cdf(1) - 1
        moment = math.sqrt(2) * -norm.pdf(1)
        assert found[2] == pytest.approx(moment**2 * (1 / inside + 1 / (1 - inside)), abs=1e-9)
        assert found[1] == pytest.approx(0, abs=1e-12)

    def test_a_discontinuous_link_keeps_what_its_pieces_tell(self):
        # z for z > 0 and z - 10 below: y determines z, although the link jumps
        assert generative_exponent(
            lambda z: np.where(z > 0, z, z - 10), largest_degree=4
        ).squared_correlations == pytest.approx(1, abs=1e-8)
        # z for z > 0 and z + 3 below: y in (0, 3) has two preimages
        folded = generative_exponent(lambda z: np.where(z > 0, z, z + 3), largest_degree=1).squared_correlations[1]

        def zeta(y):
            weights = norm.pdf(y) * (y > 0), norm.pdf(y - 3) * (y < 3)
            return (y * weights[0] + (y - 3) * weights[1]) / sum(weights)

        exact = sum(
            integrate.quad(lambda y: zeta(y) ** 2 * (norm.pdf(y) * (y > 0) + norm.pdf(y - 3) * (y < 3)), *ends)[0]
            for ends in ((-8, 0), (0, 3), (3, 10))
        )
        assert folded == pytest.approx(exact, abs=1e-7)

    def test_monotone_transforms_of_the_label_change_nothing(self):
        plain = generative_exponent(lambda z: z**3 - 3 * z, largest_degree=4).squared_correlations
        bent = generative_exponent(lambda z: np.arctan(z**3 - 3 * z), largest_degree=4).squared_correlations
        assert bent == pytest.approx(plain, abs=1e-6)

    @pytest.mark.parametrize(("name", "noise"), [("He3", 0.1), ("He3", 1.0), ("relu", 0.3), ("z2exp", 0.05)])
    def test_noisy_squares_agree_with_a_plain_double_integral(self, name, noise):
        z = np.linspace(-8.5, 8.5, 6001)
        centers = np.asarray(LINKS[name](z))
        largest = 60 if noise == 1 else 9 if name == "relu" else 6
        y = np.arange(-largest, largest, noise / 6)
        kept = np.abs(centers) < largest + 8 * noise
        bell = norm.pdf(y[:, None], centers[kept], noise)
        densities = Hermite().values(z[kept], 2) * norm.pdf(z[kept]) * (z[1] - z[0]) @ bell.T
        inner = (densities**2 / np.maximum(densities[0], 1e-300)).sum(axis=1) * (y[1] - y[0])
        found = generative_exponent(name, noise**2, largest_degree=4).squared_correlations[:3]
        # of He3 the integral leaves out large |y|, where z is known up to the noise
        outside = np.abs(centers) > largest
        tail = (Hermite().values(z[outside], 2) ** 2 * norm.pdf(z[outside])).sum(axis=1) * (z[1] - z[0])
        assert found == pytest.approx(inner + (tail if name == "He3" else 0), abs=3e-3)

    def test_noise_of_a_sign_is_a_gaussian_mixture(self):
        # zeta_1(y) = sqrt(2/pi) tanh(y/tau^2)
        tau = 0.7
        density = lambda y: (norm.pdf(y, 1, tau) + norm.pdf(y, -1, tau)) / 2  # noqa: E731
        exact = integrate.quad(lambda y: 2 / math.pi * math.tanh(y / tau**2) ** 2 * density(y), -9, 9)[0]
        assert generative_exponent("sign", tau**2).squared_correlations[1] == pytest.approx(exact, abs=1e-9)
        transform = label_transform("sign", tau**2, hermite_degree=1)
        y = np.linspace(-3, 3, 13)
        assert transform(y) == pytest.approx(math.sqrt(2 / math.pi) * np.tanh(y / tau**2), abs=1e-5)

    def test_noise_lowers_squares_and_keeps_the_exponent(self):
        found = [generative_exponent("He3", variance, largest_degree=4) for variance in (0, 1e-4, 0.01, 1.0, 100.0)]
        assert [one.exponent for one in found] == [1] * 5
        assert (np.diff([one.squared_correlations[1:] for one in found], axis=0) < 0).all()
        assert generative_exponent("He2", 2500.0).exponent == 2

    def test_large_noise_leaves_the_correlation_of_the_label(self):
        # lambda_k^2 tau^2 tends to a_k^2
        found = generative_exponent("relu", 300.0**2, largest_degree=2).squared_correlations[1:] * 300**2
        assert found == pytest.approx([0.25, 1 / (4 * math.pi)], rel=1e-4)

    @pytest.mark.parametrize("scale", [1e-150, 1e149])
    def test_units_do_not_matter_with_noise(self, scale):
        scaled = generative_exponent(
            lambda z: scale * np.tanh(z), (0.5 * scale) ** 2, largest_degree=2
        ).squared_correlations
        assert scaled == pytest.approx(
            generative_exponent("tanh", 0.25, largest_degree=2).squared_correlations, abs=1e-6
        )
        assert generative_exponent("tanh", 1e300, largest_degree=2).squared_correlations == pytest.approx(
            [1, 0, 0], abs=1e-9
        )

    @pytest.mark.parametrize("name", ["He3", "relu"])
    def test_sampled_slices_agree(self, name):
        rng = np.random.default_rng(3)
        estimates = []
        for _ in range(10):
            z = rng.standard_normal(100_000)
            y = np.asarray(LINKS[name](z))
            slices = np.array_split(np.argsort(y + 1e-9 * rng.standard_normal(y.size)), 500)
            # less what chance gives; slices of 200 are not of width 0, which costs up to 0.01
            estimates.append(np.mean([z[s].mean() ** 2 - z[s].var(ddof=1) / s.size for s in slices]))
        error = np.std(estimates, ddof=1) / math.sqrt(10)
        exact = generative_exponent(name).squared_correlations[1]
        assert np.mean(estimates) == pytest.approx(exact, abs=4 * error + 0.01)
        assert abs(np.mean(estimates) - 1.2 * exact) > 4 * error + 0.01

    def test_what_is_beyond_the_grids_is_refused(self):
        with pytest.raises(InputError, match="monotone pieces"):
            generative_exponent(lambda z: np.cos(40 * z))
        with pytest.raises(InputError, match="noise_variance must be 0 or larger than 1e-12 for a link this steep"):
            generative_exponent("He8", 1e-12)
        with pytest.raises(InputError, match="noise_variance must be 0 or larger than 1e-18 for values as far apart"):
            generative_exponent("sign", 1e-18)
        with pytest.raises(InputError, match=r"noise_variance must be >= 0 and <= 1e\+300, got 1e\+301"):
            generative_exponent("He3", 1e301)
        with pytest.raises(InputError, match="largest_degree must be at least the generative exponent"):
            generative_exponent("z2exp", largest_degree=3)
        with pytest.raises(InputError, match="noise_variance"):
            generative_exponent("He3", -0.1)
        with pytest.raises(InputError, match="noise_variance"):
            generative_exponent("He3", np.nan)
        with pytest.raises(InputError, match="constant"):
            generative_exponent(lambda z: 0 * z)
        with pytest.raises(InputError, match="finite, got infinity or NaN"):
            generative_exponent(np.sqrt)
        with pytest.raises(InputError, match="one number per point"):
            generative_exponent(lambda z: z[:3])

    @pytest.mark.parametrize("scale", [1e-150, 1e150])
    def test_scales_do_not_matter(self, scale):
        found = information_exponent(lambda z: scale * np.tanh(z))
        assert found.hermite_coefficients[1] / scale == pytest.approx(0.6057055096, abs=1e-9)
        assert generative_exponent(lambda z: scale * np.sin(z), largest_degree=4).squared_correlations == pytest.approx(
            generative_exponent("sin", largest_degree=4).squared_correlations, abs=1e-7
        )

    def test_a_link_of_many_magnitudes_with_noise(self):
        # exp(3z) is monotone: where it is steep lambda is that without noise, where it is flat nothing is seen
        z = np.linspace(-8, 8, 8001)
        y = np.concatenate([np.arange(-1.6, 90, 0.02), np.geomspace(90, 1e6, 4000)])
        centers, step = np.exp(3 * z), np.gradient(y)
        width = np.maximum(0.2, 2 * step)
        masses, densities = Hermite().values(z, 1) * norm.pdf(z) * (z[1] - z[0]), np.empty((2, y.size))
        for rows in np.array_split(np.arange(y.size), 100):
            # beyond twelve widths a bell adds nothing
            ends = y[rows[[0, -1]]] + 12 * width[rows].max() * np.array([-1, 1])
            near = slice(*np.searchsorted(centers, ends))
            densities[:, rows] = masses[:, near] @ norm.pdf(y[rows, None], centers[near], width[rows, None]).T
        exact = (densities[1] ** 2 / np.maximum(densities[0], 1e-300) * step).sum()
        assert generative_exponent(lambda z: np.exp(3 * z), 0.04, largest_degree=2).squared_correlations[
            1
        ] == pytest.approx(exact, abs=3e-3)
