import math

import numpy as np
import pytest
from scipy.stats import kstest

from unlazy.checks import InputError
from unlazy.functions.elementwise import as_activation
from unlazy.functions.orthogonal import Gegenbauer, Krawtchouk, coefficients
from unlazy.theory.kernels.free_probability import Discrete, FreeSum, MarchenkoPastur, Semicircle
from unlazy.theory.kernels.spectrum import KernelSpectrum, function_spectrum, kernel_spectrum, kernel_spectrum_limit

LAWS = {
    "one band": kernel_spectrum_limit(1.0, 2.0, 0.25),
    "two bands": kernel_spectrum_limit(0.5, 6.0, 0.01),
    "negative": kernel_spectrum_limit(-0.7, 0.4, 0.1),
    "semicircle": kernel_spectrum_limit(0.0, 1.0, 2.0),
    "atom": kernel_spectrum_limit(1.0, 2.0, 0.0),
    "atom on the right": kernel_spectrum_limit(-1.0, 3.0, 0.0),
    "hard edge": kernel_spectrum_limit(1.0, 1.0, 0.0),
    "many degrees": kernel_spectrum([0.4, 0.5, -0.3, 0.1, 0.05], [1, 30, 464, 4930, 40455], 600, 0.01),
    "atom in a gap": kernel_spectrum([0.5, -0.6], [30, 20], 100),
}
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())


def relu_spectrum(d, n):
    family = Gegenbauer(d)
    found = coefficients(as_activation("relu"), family, 8, (0,))
    return kernel_spectrum(found.polynomial_coefficients, family.multiplicities(8), n, found.tail)


def band_grid(law, nodes=300):
    """Points of all bands and the weights of integrals over them, roots at the edges removed."""
    angle, weight = np.polynomial.legendre.leggauss(nodes)
    angle, weight = (angle + 1) * np.pi / 2, weight * np.pi / 2
    points = [low + (high - low) * np.sin(angle / 2) ** 2 for low, high in law.edges]
    return np.array(points), np.array([(high - low) / 2 * np.sin(angle) * weight for low, high in law.edges])


def test_limit_law_has_its_independently_computed_values():
    law = LAWS["one band"]
    np.testing.assert_allclose(law.edges, [[-1.512480156064, 3.517305347682]], rtol=1e-12)
    np.testing.assert_allclose(
        law.density([-1, 0, 1, 3]), [0.468317929951, 0.293762303592, 0.139988760359, 0.042197094358], rtol=1e-10
    )
    np.testing.assert_allclose(law.stieltjes(1 + 0.5j), 0.370206807629 - 0.452000160677j, rtol=1e-11)
    np.testing.assert_allclose(law.moments(6), [0, 1.25, 1.41421356237, 5.125, 11.66726188958, 34.765625], rtol=1e-11)
    two = LAWS["two bands"]
    np.testing.assert_allclose(
        two.edges.ravel(), [-0.388175268101, -0.023383964197, 0.238589199443, 2.230541416793], rtol=1e-10
    )
    np.testing.assert_allclose(two.band_masses, [5 / 6, 1 / 6], rtol=1e-14)
    np.testing.assert_allclose(kernel_spectrum_limit(0.8, 1, 0.36).edges, [[-1.64087773, 2.62104979]], rtol=1e-8)


def test_bands_of_relu_are_the_degrees():
    law = relu_spectrum(45, 1500)
    np.testing.assert_allclose(law.edges, [[-0.474, 0.794], [1.917, 3.902], [14.761, 16.364]], atol=6e-4)
    np.testing.assert_allclose(law.band_masses * 1500, [1454, 45, 1], rtol=1e-11)


def test_limit_law_solves_its_cubic_equation():
    a, phi, v = 1.3, 0.6, 0.4
    s = a * math.sqrt(phi)
    z = np.array([0.3 + 0.2j, -2 + 1e-3j, 4 + 2j, 0.1 + 1e-9j])
    g = kernel_spectrum_limit(a, phi, v).stieltjes(z)
    assert (g.imag < 0).all()
    np.testing.assert_allclose(v * s * g**3 - (v + a**2 + s * z) * g**2 + (z + s) * g, 1, rtol=1e-11)


def test_semicircle_and_marchenko_pastur_are_special_cases():
    x = np.linspace(-2.8, 2.8, 9)
    np.testing.assert_allclose(LAWS["semicircle"].density(x), np.sqrt(8 - x**2) / (4 * np.pi), rtol=1e-12)
    np.testing.assert_allclose(LAWS["semicircle"].edges, [[-math.sqrt(8), math.sqrt(8)]], rtol=1e-14)
    np.testing.assert_allclose(
        LAWS["semicircle"].cdf(x),
        0.5 + x * np.sqrt(8 - x**2) / (8 * np.pi) + np.arcsin(x / math.sqrt(8)) / np.pi,
        rtol=1e-12,
    )
    shift = 1 / math.sqrt(2)
    np.testing.assert_allclose(
        LAWS["atom"].edges,
        [[shift * (1 - math.sqrt(2)) ** 2 - shift, shift * (1 + math.sqrt(2)) ** 2 - shift]],
        rtol=1e-13,
    )
    np.testing.assert_allclose([*LAWS["atom"].atoms], [[-shift], [0.5]], rtol=1e-14)


def test_law_is_the_free_sum_of_its_parts():
    z = np.array([0.4 + 0.3j, -1 + 0.1j, 3 + 1j])
    a, copies, n = (0.5, -0.6, 0.3), (20, 150, 300), 100
    found = kernel_spectrum(a, copies, n, 0.2).stieltjes(z)
    total = Semicircle(0.2)
    for coefficient, multiplicity in zip(a, copies, strict=True):
        phi = n / multiplicity
        scale = coefficient / math.sqrt(phi)
        total = FreeSum(FreeSum(total, MarchenkoPastur(phi, scale)), Discrete([-scale]))
    np.testing.assert_allclose(found, total.stieltjes(z), rtol=1e-9)


@each_law
def test_density_integrates_to_the_masses_and_the_moments(law):
    points, weights = band_grid(law)
    density = np.array([law.density(x) for x in points])
    np.testing.assert_allclose(np.sum(density * weights, axis=1), law.band_masses, rtol=1e-10)
    places, masses = law.atoms
    np.testing.assert_allclose(law.band_masses.sum() + masses.sum(), 1, rtol=1e-12)
    powers = [np.sum(density * weights * points**k) + masses @ places**k for k in range(1, 7)]
    np.testing.assert_allclose(powers, law.moments(6), rtol=1e-9, atol=1e-10)


@each_law
def test_density_is_the_limit_of_the_stieltjes_transform(law):
    points = np.concatenate([low + (high - low) * np.linspace(0.05, 0.95, 7) for low, high in law.edges])
    smoothed = -law.stieltjes(points + 1e-7j).imag / np.pi
    np.testing.assert_allclose(law.density(points), smoothed, rtol=1e-4)


@each_law
def test_density_is_0_outside_and_positive_inside_the_bands(law):
    width = law.edges[:, 1] - law.edges[:, 0]
    for side, sign in ((0, -1), (1, 1)):
        assert (law.density(law.edges[:, side] + sign * 1e-6 * width) == 0).all()
        assert (law.density(law.edges[:, side] - sign * 1e-6 * width) > 0).all()


@each_law
def test_cdf_is_the_integral_of_the_density(law):
    low, high = law.edges.min() - 0.3, law.edges.max() + 0.3
    x = np.linspace(low, high, 23)
    places, masses = law.atoms
    for at, found in zip(x, law.cdf(x), strict=True):
        expected = masses @ (places <= at)
        for (left, right), mass in zip(law.edges, law.band_masses, strict=True):
            if at >= right:
                expected += mass
            elif at > left:
                # integrate in the angle of the root at the left edge
                node, weight = np.polynomial.legendre.leggauss(100)
                s = (node + 1) / 2
                points = left + (at - left) * s**2
                expected += np.sum(law.density(points) * weight / 2 * 2 * s * (at - left))
        np.testing.assert_allclose(found, expected, atol=1e-7)


@each_law
def test_quantiles_invert_the_cdf(law):
    q = np.linspace(0, 1, 41)
    x = law.quantile(q)
    assert (np.diff(x) >= 0).all()
    at_atom = np.isin(x, law.atoms.locations)
    np.testing.assert_allclose(law.cdf(x)[~at_atom], q[~at_atom], atol=1e-12)
    assert (law.cdf(x)[at_atom] >= q[at_atom] - 1e-14).all()
    assert at_atom.any() == (law.atoms.probabilities.size > 0)
    support = [*law.edges[0], *law.edges[-1], *law.atoms.locations]
    np.testing.assert_allclose([x[0], x[-1]], [min(support), max(support)], rtol=1e-12)
    assert isinstance(law.quantile(0.3), float)


def test_quantiles_of_extreme_laws_invert_the_cdf():
    rng = np.random.default_rng(0)
    # isolated bands whose edges are not resolved by the roots next to them
    laws = [
        kernel_spectrum([-0.0701565], [37.39389948], 216425.85377951973, 0.0006132127442850693),
        kernel_spectrum([0.00075397, -0.00098099], [8.01058987e08, 1.29505237e01], 210524.8170402137),
    ]
    for _ in range(60):
        degrees = rng.integers(1, 9)
        a = rng.standard_normal(degrees) * 10 ** rng.uniform(-4, 0, degrees)
        tail = rng.choice([0.0, 10 ** rng.uniform(-14, 0)])
        laws.append(kernel_spectrum(a, 10 ** rng.uniform(0, 12, degrees), 10 ** rng.uniform(0, 7), tail))
    for law in laws:
        np.testing.assert_allclose(law.band_masses.sum() + law.atoms.probabilities.sum(), 1, rtol=1e-12)
        assert (np.diff(law.edges.ravel()) > 0).all()
        q = rng.uniform(0, 1, 5)
        x = law.quantile(q)
        at_atom = np.isin(x, law.atoms.locations)
        np.testing.assert_allclose(law.cdf(x)[~at_atom], q[~at_atom], atol=1e-8)


def test_an_atom_in_a_gap_counts_from_its_location_on():
    law = LAWS["atom in a gap"]
    (place,), (mass,) = law.atoms
    # 1 - (30 + 20)/100 at -sum of a_k sqrt(N_k/n)
    np.testing.assert_allclose([place, mass], [-(0.5 * math.sqrt(0.3) - 0.6 * math.sqrt(0.2)), 0.5], rtol=1e-13)
    assert law.edges[0, 1] < place < law.edges[1, 0]
    np.testing.assert_allclose(law.cdf([place - 1e-9, place, law.edges[1, 0]]), [0.2, 0.7, 0.7], rtol=1e-12)
    np.testing.assert_allclose(law.quantile([0.21, 0.45, 0.699]), place, rtol=1e-14)


def test_tiny_coefficients_and_equal_poles_change_nothing():
    plain = kernel_spectrum([0.5, 0.4], [30, 400], 100, 0.1)
    x = np.linspace(-2, 3, 50)
    tiny = kernel_spectrum([0.5, 0.4, 1e-12, 0.0], [30, 400, 5000, 6], 100, 0.1)
    np.testing.assert_array_equal(tiny.edges, plain.edges)
    np.testing.assert_array_equal(tiny.density(x), plain.density(x))
    # two degrees with the same pole a sqrt(n/N) are one whose a^2 is the sum
    split = KernelSpectrum([0.1, 0.15, 0.16, 0.1], [0.9, 0.9, 0.2, 0.0])
    merged = KernelSpectrum([0.25, 0.16, 0.1], [0.9, 0.2, 0.0])
    np.testing.assert_allclose(split.edges, merged.edges, rtol=1e-14)
    np.testing.assert_allclose(split.density(x), merged.density(x), rtol=1e-9)


def test_high_degrees_are_a_semicircle():
    x = np.linspace(-1.5, 1.5, 20)
    written = kernel_spectrum([0.5, 0.3, 0.4], [50, 1e13, 1e20], 1000)
    summed = kernel_spectrum([0.5], [50], 1000, 0.25)
    np.testing.assert_allclose(written.edges, summed.edges, atol=1e-5)
    np.testing.assert_allclose(written.cdf(x), summed.cdf(x), atol=1e-5)
    np.testing.assert_allclose(written.band_masses, summed.band_masses, atol=1e-9)


def test_a_narrow_band_takes_the_place_of_an_atom():
    law, sharp = kernel_spectrum_limit(1.0, 4.0, 1e-10), kernel_spectrum_limit(1.0, 4.0, 0.0)
    np.testing.assert_allclose(law.band_masses, [0.75, 0.25], rtol=1e-12)
    np.testing.assert_allclose(law.edges[0], sharp.atoms.locations[0], atol=1e-4)
    x = np.linspace(*law.edges[0], 11)[1:-1]
    # the semicircle of variance 1e-10 (1 - 1/phi) around the atom
    radius = 2 * math.sqrt(1e-10 * 0.75)
    centre = law.edges[0].mean()
    np.testing.assert_allclose(law.edges[0] - centre, [-radius, radius], rtol=1e-4)
    np.testing.assert_allclose(
        law.density(x), 0.75 * 2 / (np.pi * radius**2) * np.sqrt(radius**2 - (x - centre) ** 2), rtol=1e-4
    )


def kernel_eigenvalues(points, function):
    n, d = points.shape
    matrix = function(math.sqrt(d) * points @ points.T) / math.sqrt(n)
    np.fill_diagonal(matrix, 0.0)
    return np.linalg.eigvalsh(matrix)


def distance(eigenvalues, law):
    """The Kolmogorov distance of the empirical law from a continuous one."""
    predicted, steps = law.cdf(eigenvalues), np.arange(eigenvalues.size + 1) / eigenvalues.size
    return max(np.max(steps[1:] - predicted), np.max(predicted - steps[:-1]))


def test_finite_size_law_is_that_of_a_simulated_matrix():
    n, d = 700, 40
    rng = np.random.default_rng(1)
    points = rng.standard_normal((n, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    eigenvalues = kernel_eigenvalues(points, as_activation("relu"))
    law = relu_spectrum(d, n)
    assert distance(eigenvalues, law) < 0.01
    wider = KernelSpectrum(1.44 * law.residues, 1.2 * law.poles)
    assert distance(eigenvalues, wider) > 0.02
    # as many eigenvalues as functions of degree 0 and 1 above the gap
    assert np.count_nonzero(eigenvalues > law.edges[0, 1] + 0.1) == 1 + d
    inflated = law.edges[:, 1] + 0.03 * (law.edges[:, 1] - law.edges[:, 0])
    assert eigenvalues[-1] < inflated[-1]


def test_finite_size_law_holds_on_the_hypercube():
    n, d = 600, 35
    family = Krawtchouk(d)
    points = np.random.default_rng(2).choice([-1.0, 1.0], (n, d)) / math.sqrt(d)

    def function(t):
        return 0.8 * (t**2 - 1) / math.sqrt(2) + 0.6 * (t**3 - 3 * t) / math.sqrt(6)

    found = coefficients(function, family, 3)
    law = kernel_spectrum(found.polynomial_coefficients[1:], family.multiplicities(3)[1:], n, found.tail)
    eigenvalues = kernel_eigenvalues(points, function)
    assert distance(eigenvalues, law) < 0.015
    assert distance(eigenvalues, kernel_spectrum_limit(0.0, 1.0, float(np.sum(law.residues)))) > 0.06


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kernel_spectrum([1.0], [1.0, 2.0], 10),
            r"multiplicities must have shape \(1,\) like polynomial_coefficients",
        ),
        (lambda: kernel_spectrum([1.0], [0], 10), "multiplicities must be > 0, got 0"),
        (lambda: kernel_spectrum([1.0], [1], 0), "n must be >= 1, got 0"),
        (lambda: kernel_spectrum([np.nan], [1], 10), "polynomial_coefficients must be finite"),
        (lambda: kernel_spectrum([1.0], [1], 10, -0.1), "tail must be >= 0, got -0.1"),
        (lambda: kernel_spectrum([0.0], [1], 10), "polynomial_coefficients and tail must not all be 0"),
        (lambda: kernel_spectrum_limit(1.0, 0.0, 0.1), "samples_per_multiplicity must be > 0, got 0"),
        (lambda: KernelSpectrum([1.0, 0.0], [1.0, 2.0]), "residues must be > 0, got 0"),
        (lambda: KernelSpectrum([1.0], [1.0, 2.0]), r"poles must have shape \(1,\) like residues"),
        (lambda: LAWS["atom"].stieltjes(1.0), "z must have a positive imaginary part"),
        (lambda: LAWS["atom"].quantile(1.1), "q must be >= 0 and <= 1, got 1.1"),
        (lambda: LAWS["atom"].density(np.nan), "x must be finite"),
        (lambda: function_spectrum(np.tanh, 2.5, 100), r"family must be Gegenbauer\(d\) or Krawtchouk\(d\), got 2.5"),
        (lambda: function_spectrum("tan", Gegenbauer(20), 100), "kernel_function must be one of .*did you mean tanh"),
        (
            lambda: function_spectrum(math.tanh, Gegenbauer(20), 100),
            "kernel_function must be a function of NumPy arrays, but it raised TypeError",
        ),
        (
            lambda: function_spectrum(np.tanh, Gegenbauer(20), 100, last_degree=10**6),
            "last_degree must be an integer .*<= 1000",
        ),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_kolmogorov_distance_is_that_of_scipy():
    law = KernelSpectrum([0.5], [0.0])
    values = np.sort(np.random.default_rng(2).uniform(-1, 1, 50))
    assert law.distance(values) == pytest.approx(kstest(values, law.cdf).statistic, abs=1e-12)
