import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.kernels import free_probability
from unlazy.theory.kernels.free_probability import (
    Discrete,
    FreeSum,
    MarchenkoPastur,
    Semicircle,
    moments_from_free_cumulants,
)

SIGNS = Discrete([-1.0, 1.0])
POINTS = np.array([0.7 + 0.3j, -2 + 0.01j, 5 + 1j, -1e3 + 1j, 0.1 + 1e-3j])


def integrated(density, low, high, z):
    """E 1/(z - x) of a density on [low, high], with its square roots at the ends removed."""
    angle, weight = np.polynomial.legendre.leggauss(200)
    angle = (angle + 1) * np.pi / 2
    x = low + (high - low) * np.sin(angle / 2) ** 2
    return np.sum(weight * np.pi / 2 * density(x) * (high - low) / 2 * np.sin(angle) / (z[:, None] - x), axis=1)


def test_transforms_are_those_of_the_densities():
    z = POINTS[:3]
    v = 0.7
    semicircle = integrated(lambda x: np.sqrt(4 * v - x**2) / (2 * np.pi * v), -2 * np.sqrt(v), 2 * np.sqrt(v), z)
    np.testing.assert_allclose(Semicircle(v).stieltjes(z), semicircle, rtol=1e-9)
    for phi in (0.3, 2.5):
        low, high = (1 - np.sqrt(phi)) ** 2, (1 + np.sqrt(phi)) ** 2
        continuous = integrated(
            lambda x, a=low, b=high, p=phi: np.sqrt((b - x) * (x - a)) / (2 * np.pi * p * x), low, high, z
        )
        expected = continuous + max(1 - 1 / phi, 0) / z
        np.testing.assert_allclose(MarchenkoPastur(phi).stieltjes(z), expected, rtol=1e-9)
        # x -> -2x
        np.testing.assert_allclose(
            MarchenkoPastur(phi, -2.0).stieltjes(-2 * z.conj()), -np.conj(expected) / 2, rtol=1e-9
        )


@pytest.mark.parametrize(
    ("law", "r_transform"),
    [
        (Semicircle(0.4), lambda g: 0.4 * g),
        (MarchenkoPastur(0.3), lambda g: 1 / (1 - 0.3 * g)),
        (MarchenkoPastur(2.0, 1.5), lambda g: 1.5 / (1 - 3 * g)),
    ],
    ids=["semicircle", "narrow", "wide"],
)
def test_r_transforms_invert_the_stieltjes_transform(law, r_transform):
    g = law.stieltjes(np.array([5 + 3j, -4 + 2j, 10j]))
    np.testing.assert_allclose(law.stieltjes(r_transform(g) + 1 / g), g, rtol=1e-11)


def test_transforms_have_their_branch_and_their_digits_far_away_and_near_an_atom():
    z = np.array([1e9, -1e9, 1e9j, -1e9 + 1j])
    for law in (Semicircle(2.0), MarchenkoPastur(0.5), MarchenkoPastur(3.0)):
        mean = 0.0 if isinstance(law, Semicircle) else 1.0
        np.testing.assert_allclose(law.stieltjes(z) * z, 1 + mean / z, rtol=1e-14)
    near = -1e-12
    np.testing.assert_allclose(MarchenkoPastur(2.0).stieltjes(near) * near, 0.5, rtol=1e-10)
    # E 1/x = 1 / (1 - phi)
    np.testing.assert_allclose(MarchenkoPastur(0.5).stieltjes(near), -2.0, rtol=1e-10)


@pytest.mark.parametrize(
    ("law", "z", "expected"),
    [
        (FreeSum(SIGNS, SIGNS), 0.7 + 0.3j, 0.0304855968218 - 0.5243825472979j),
        (FreeSum(SIGNS, Semicircle(0.25)), 0.5 + 0.1j, -0.5654457196883 - 0.7283026733479j),
        (FreeSum(MarchenkoPastur(0.5), MarchenkoPastur(2)), 0.5 + 0.1j, -0.6294911715091 - 1.3042973246654j),
    ],
)
def test_convolutions_have_their_independently_computed_values(law, z, expected):
    np.testing.assert_allclose(law.stieltjes(z), expected, rtol=2e-12)


def test_sums_within_a_family_stay_in_it():
    z = POINTS
    np.testing.assert_allclose(
        FreeSum(Semicircle(1), Semicircle(2)).stieltjes(z), Semicircle(3).stieltjes(z), rtol=1e-11
    )
    np.testing.assert_allclose(FreeSum(SIGNS, SIGNS).stieltjes(z), 1 / (np.sqrt(z - 2) * np.sqrt(z + 2)), rtol=1e-11)

    def poisson(rate, jump):
        return MarchenkoPastur(1 / rate, rate * jump)

    for jump in (1.5, -1.5):
        found = FreeSum(poisson(0.5, jump), poisson(0.8, jump)).stieltjes(z)
        np.testing.assert_allclose(found, poisson(1.3, jump).stieltjes(z), rtol=1e-11)
    # a number is added to every eigenvalue
    shifted = FreeSum(Discrete([2.0]), Semicircle(1.0)).stieltjes(z)
    np.testing.assert_allclose(shifted, Semicircle(1.0).stieltjes(z - 2), rtol=1e-12)
    np.testing.assert_allclose(FreeSum(SIGNS, SIGNS).stieltjes(z.conj()), FreeSum(SIGNS, SIGNS).stieltjes(z).conj())


def test_sums_of_three_do_not_depend_on_the_order():
    laws = SIGNS, MarchenkoPastur(0.7), Semicircle(0.3)
    z = POINTS[:3]
    first = FreeSum(FreeSum(laws[0], laws[1]), laws[2]).stieltjes(z)
    np.testing.assert_allclose(first, FreeSum(laws[0], FreeSum(laws[2], laws[1])).stieltjes(z), rtol=1e-9)


def test_moments_of_free_cumulants_are_sums_over_noncrossing_partitions():
    k2, k3, k4, k5, k6 = kappa = np.array([0.7, -0.4, 1.1, 0.3, 2.0])
    found = moments_from_free_cumulants([0.0, *kappa])
    expected = [0, k2, k3, k4 + 2 * k2**2, k5 + 5 * k2 * k3, k6 + 6 * k2 * k4 + 3 * k3**2 + 5 * k2**3]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    # Catalan numbers for semicircle and Marchenko-Pastur
    np.testing.assert_allclose(moments_from_free_cumulants([0, 1, 0, 0, 0, 0, 0, 0]), [0, 1, 0, 2, 0, 5, 0, 14])
    np.testing.assert_allclose(moments_from_free_cumulants(np.ones(6)), [1, 2, 5, 14, 42, 132])
    # the signs: m_2k = 1
    np.testing.assert_allclose(moments_from_free_cumulants([0, 1, 0, -1, 0, 2]), [0, 1, 0, 1, 0, 1])


def test_points_next_to_the_real_line_converge_or_are_refused(monkeypatch):
    x = np.linspace(-1.9, 1.9, 20)
    density = -FreeSum(SIGNS, SIGNS).stieltjes(x + 1e-6j).imag / np.pi
    np.testing.assert_allclose(density, 1 / (np.pi * np.sqrt(4 - x**2)), rtol=1e-4)
    monkeypatch.setattr(free_probability, "_MOST_ITERATIONS", 5)
    with pytest.raises(ConvergenceError, match="no convergence in 5 iterations at 20 of 20 points z"):
        FreeSum(SIGNS, SIGNS).stieltjes(x + 1e-6j)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Semicircle(0.0), "second_moment must be > 0, got 0"),
        (lambda: MarchenkoPastur(0.0), "aspect_ratio must be > 0, got 0"),
        (lambda: MarchenkoPastur(1.0, 0.0), "scale must not be 0"),
        (lambda: Discrete([1.0, np.nan]), "locations must be finite"),
        (lambda: Discrete([1.0, 2.0], [0.5, 0.6]), "probabilities must add up to 1, got 1.1"),
        (lambda: Discrete([1.0, 2.0], [1.0]), "probabilities must be 2 numbers like locations, got 1"),
        (lambda: FreeSum(SIGNS, SIGNS).stieltjes(0.5), "z must not be real, got 0.5"),
        (lambda: Semicircle().stieltjes("a"), "z must be numeric, got 'a'"),
        (lambda: Semicircle().stieltjes(np.nan), "z must be finite"),
        (lambda: moments_from_free_cumulants([np.inf]), "free_cumulants must be finite"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
