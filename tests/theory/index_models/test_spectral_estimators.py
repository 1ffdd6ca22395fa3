"""Linear and spectral estimators against published values, closed forms, plain quadrature and eigenvectors of data."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.functions.elementwise import LINKS, Link
from unlazy.theory.index_models.exponents.exponents import generative_exponent, label_transform
from unlazy.theory.index_models.spectral.estimators import (
    best_linear_transform,
    best_spectral_transform,
    linear_overlap,
    samples_for_overlap,
    spectral_overlap,
    spectral_threshold,
)


def floored(y):
    return 1 - 1 / np.maximum(y**2, 1e-3)


def clipped_square(y):
    return np.minimum(y**2, 4.0)


def clipped(y):
    return np.clip(y, -1.0, 1.0)


class TestPublishedValues:
    def test_spectral_overlaps_agree_with_an_independent_computation(self):
        found = spectral_overlap("abs", [1.0, 2.0, 4.0], transform=floored).squared_overlap
        assert found == pytest.approx([0.2307, 0.6388811, 0.92449], abs=5e-5)
        assert found[1] == pytest.approx(0.6388811, abs=2e-7)
        found = spectral_overlap("He3", [2.0, 4.0, 8.0, 16.0], 0.01, transform=clipped_square).squared_overlap
        assert found == pytest.approx([0.1116, 0.2898, 0.4931324, 0.6771], abs=5e-5)
        assert found[2] == pytest.approx(0.4931324, abs=1e-6)

    def test_linear_overlaps_agree_with_an_independent_computation(self):
        assert linear_overlap("He3", [4.0, 16.0], 0.01, transform=clipped) == pytest.approx([0.4013, 0.7284], abs=1e-4)

    @pytest.mark.parametrize(
        ("link", "expected"),
        [("He2", 0.5), ("abs", 0.5), ("He4", 0.6448505), ("cos", 0.50910), ("relu", 1.0), ("sign", math.inf)],
    )
    def test_thresholds(self, link, expected):
        assert spectral_threshold(link) == pytest.approx(expected, abs=1e-5)

    def test_a_link_of_exponent_four_is_out_of_reach_of_both(self):
        assert spectral_threshold("z2exp") == math.inf
        assert spectral_overlap("z2exp", 1e6).squared_overlap == 0
        assert linear_overlap("z2exp", 1e6) == 0
        assert samples_for_overlap("z2exp", 0.5, method="linear") == math.inf


class TestAgainstOtherMethods:
    @pytest.mark.parametrize(("link", "noise"), [("He3", 0.0), ("relu", 0.3), ("tanh", 1.0), ("He3", 0.02)])
    def test_the_best_linear_overlap_has_the_generative_coefficient(self, link, noise):
        signal = 3.0 * generative_exponent(link, noise**2).squared_correlations[1]
        assert linear_overlap(link, 3.0, noise**2) == pytest.approx(signal / (1 + signal), abs=2e-6)
        given = linear_overlap(link, 3.0, noise**2, transform=label_transform(link, noise**2))
        assert given == pytest.approx(signal / (1 + signal), abs=1e-5)

    def test_the_equations_by_plain_quadrature(self):
        """min(z^2, 3) of labels |z|: psi and phi from integrals on two pieces."""
        ratio, top = 2.5, 3.0

        def mean(f):
            inner = integrate.quad(lambda z: 2 * norm.pdf(z) * f(z, z * z), 0, math.sqrt(top))[0]
            return inner + integrate.quad(lambda z: 2 * norm.pdf(z) * f(z, top), math.sqrt(top), 12)[0]

        def psi(s):
            return s * (1 / ratio + mean(lambda z, t: t / (s - t)))

        def phi(s):
            return s * mean(lambda z, t: z * z * t / (s - t))

        edge = optimize.minimize_scalar(psi, bounds=(top + 1e-6, 60), method="bounded", options={"xatol": 1e-9})
        s = optimize.brentq(lambda s: psi(s) - phi(s), edge.x, 100)
        step = 1e-4
        slopes = [(f(s + step) - f(s - step)) / (2 * step) for f in (psi, phi)]
        plain = Link("cut", lambda y: np.minimum(y**2, top), breakpoints=(math.sqrt(top),))
        # a kink that is not named costs digits only
        for transform, tolerance in ((plain, 1e-7), (plain.value, 1e-4)):
            found = spectral_overlap("abs", ratio, transform=transform)
            assert found.squared_overlap == pytest.approx(slopes[0] / (slopes[0] - slopes[1]), abs=tolerance)
            assert found.largest_eigenvalue == pytest.approx(psi(s), rel=tolerance)
            assert found.bulk_edge == pytest.approx(edge.fun, rel=tolerance)

    def test_a_constant_transform_gives_the_law_of_marchenko_and_pastur(self):
        ratio = np.array([0.3, 1.0, 4.0])
        found = spectral_overlap("He2", ratio, transform=lambda y: 1.5 + 0 * y)
        assert (found.squared_overlap == 0).all()
        assert found.bulk_edge == pytest.approx(1.5 * (1 + ratio**-0.5) ** 2)
        below = spectral_overlap("He2", 4.0, transform=lambda y: -1.0 + 0 * y)
        assert below.largest_eigenvalue == pytest.approx(-0.25)

    @pytest.mark.parametrize(("link", "noise"), [("He2", 0.0), ("He3", 0.1), ("He4", 0.1), ("relu", 0.0)])
    def test_the_best_transform_s_short_equation_agrees_with_the_general_one(self, link, noise):
        ratio = np.array([0.2, 1.0, 3.0, 30.0])
        short = spectral_overlap(link, ratio, noise**2)
        general = spectral_overlap(
            link, ratio, noise**2, transform=best_spectral_transform(link, noise**2, least_second_moment=1e-6)
        )
        assert short.squared_overlap == pytest.approx(general.squared_overlap, abs=3e-5)
        seen = short.squared_overlap > 0
        assert short.largest_eigenvalue[seen] == pytest.approx(1 / ratio[seen])
        assert general.largest_eigenvalue[seen] == pytest.approx(1 / ratio[seen], rel=2e-3)

    def test_no_other_transform_is_better_than_the_best(self):
        ratio = np.array([0.9, 2.0, 8.0])
        best = spectral_overlap("He3", ratio, 0.01).squared_overlap
        linear = linear_overlap("He3", ratio, 0.01)
        optimal = best_spectral_transform("He3", 0.01)
        for other in (clipped_square, np.arctan, lambda y: y**2 / (1 + y**2), lambda y: optimal(y) + 0.1 * np.cos(y)):
            assert (spectral_overlap("He3", ratio, 0.01, transform=other).squared_overlap <= best).all()
        for other in (clipped, np.arctan, lambda y: y):
            assert (linear_overlap("He3", ratio, 0.01, transform=other) < linear).all()

    @pytest.mark.parametrize(
        ("method", "transform"),
        [("linear", None), ("linear", clipped), ("spectral", None), ("spectral", clipped_square)],
    )
    def test_the_ratio_is_the_inverse_of_the_overlap(self, method, transform):
        target = np.array([0.02, 0.3, 0.81, 0.95])
        ratio = samples_for_overlap("He3", target, 0.01, method=method, transform=transform)
        if method == "linear":
            found = linear_overlap("He3", ratio, 0.01, transform=transform)
        else:
            found = spectral_overlap("He3", ratio, 0.01, transform=transform).squared_overlap
        assert found == pytest.approx(target, abs=1e-8)

    def test_the_threshold_is_where_the_overlap_starts(self):
        start = spectral_threshold("He3", 0.01, transform=clipped_square)
        below, above = spectral_overlap(
            "He3", start * np.array([0.999, 1.001]), 0.01, transform=clipped_square
        ).squared_overlap
        assert below == 0 < above

    @pytest.mark.parametrize("kind", ["linear", "spectral"])
    @pytest.mark.parametrize("link", ["He3", "relu"])
    def test_overlaps_of_drawn_data(self, link, kind):
        rng = np.random.default_rng(3)
        d, n, noise = 150, 900, 0.2
        transform = (best_linear_transform if kind == "linear" else best_spectral_transform)(link, noise**2)
        squares, values = [], []
        for _ in range(20):
            rows = rng.standard_normal((n, d))
            weights = transform(LINKS[link](rows[:, 0]) + noise * rng.standard_normal(n))
            if kind == "linear":
                found = weights @ rows
                squares.append(found[0] ** 2 / (found @ found))
            else:
                value, vectors = np.linalg.eigh((rows * weights[:, None]).T @ rows / n)
                squares.append(vectors[0, -1] ** 2)
                values.append(value[-1])
        error = np.std(squares, ddof=1) / math.sqrt(20)
        exact = spectral_overlap(link, n / d, noise**2)
        expected = linear_overlap(link, n / d, noise**2) if kind == "linear" else exact.squared_overlap
        assert abs(np.mean(squares) - expected) < 4 * error + 1 / d
        assert abs(np.mean(squares) - 0.8 * expected) > 4 * error + 1 / d
        if kind == "spectral":
            spread = np.std(values, ddof=1) / math.sqrt(20)
            assert abs(np.mean(values) - exact.largest_eigenvalue) < 4 * spread + 2 / d

    def test_a_transform_with_jumps_needs_its_breakpoints(self):
        def far(y):
            return (np.abs(y) > 1.3).astype(float)

        share, second = 2 * norm.sf(1.3), 2 * (1.3 * norm.pdf(1.3) + norm.sf(1.3))
        found = spectral_overlap("abs", 6.0, transform=Link("own", far, breakpoints=(-1.3, 1.3)))
        # T is 0 or 1, so that psi and phi are rational: s (1/6 + p/(s-1)) and s m/(s-1)
        s = 1 + 6 * (second - share)
        rise = 1 / 6 - share / (s - 1) ** 2
        assert found.squared_overlap == pytest.approx(rise / (rise + second / (s - 1) ** 2), abs=1e-9)


class Unhashable:
    """Equal to others like a list, so that nothing can be remembered by it."""

    __hash__ = None

    def __eq__(self, other):
        return self is other

    def __call__(self, z):
        return np.abs(z)


def test_a_link_need_not_be_hashable():
    assert spectral_threshold(Unhashable()) == pytest.approx(0.5, abs=1e-6)


class TestRefusals:
    @pytest.mark.parametrize("transform", [lambda y: y, lambda y: np.log1p(y**2), np.exp])
    def test_a_transform_that_grows_is_refused_for_labels_that_grow(self, transform):
        with pytest.raises(InputError, match="bounded above"):
            spectral_overlap("He3", 2.0, transform=transform)
        with pytest.raises(InputError, match="bounded above"):
            spectral_overlap("tanh", 2.0, 0.25, transform=transform)
        assert np.isfinite(spectral_overlap("tanh", 2.0, transform=transform).squared_overlap)

    def test_bounded_transforms_that_saturate_late_are_accepted(self):
        assert spectral_overlap("abs", 4.0, 1e-4, transform=np.arctan).squared_overlap > 0.1

    def test_wrong_input(self):
        with pytest.raises(InputError, match="samples_per_dimension"):
            linear_overlap("He3", 0.0)
        with pytest.raises(InputError, match="noise_variance"):
            linear_overlap("He3", 1.0, -1.0)
        with pytest.raises(InputError, match="squared_overlap must be >= 0 and < 1"):
            samples_for_overlap("He3", 1.0)
        with pytest.raises(InputError, match="method"):
            samples_for_overlap("He3", 0.5, method="other")
        with pytest.raises(InputError, match="constant"):
            spectral_overlap(lambda z: 0 * z + 1, 1.0)
        with pytest.raises(InputError, match="transform must be a number"):
            linear_overlap("He3", 1.0, transform=lambda y: np.full(y.shape, np.nan))
        with pytest.raises(InputError, match="one number per label"):
            linear_overlap("He3", 1.0, transform=lambda y: np.ones(3))
        with pytest.raises(InputError, match="callable"):
            spectral_overlap("He3", 1.0, transform="square")
        with pytest.raises(InputError, match="null space"):
            spectral_overlap("He2", 0.5, transform=lambda y: -(y**2))
        with pytest.raises(InputError, match="0 everywhere"):
            spectral_overlap("He2", 2.0, transform=lambda y: 0 * y)

    def test_far_ratios_stay_numbers(self):
        for transform in (None, clipped_square):
            found = spectral_overlap("He3", [1e-9, 1e-3, 1e9], 0.01, transform=transform)
            assert np.isfinite(np.array(found)).all()
            assert found.squared_overlap[:2] == pytest.approx([0, 0])
            assert found.squared_overlap[2] > 0.999

    @pytest.mark.parametrize("link", ["He2", "abs"])
    def test_labels_without_noise_that_tell_the_size_of_z_have_the_limits_of_many_samples(self, link):
        """G = z^2: for large t, E[(G-1)^2/(1+tG)] = sqrt(pi/2t) and E[((G-1)/(1+tG))^2] = sqrt(pi/8t), so that
        1 - overlap^2 = 2/(pi ratio^2), and the edge s (1/ratio - E[1/(1+sG)]) is -pi ratio/8."""
        ratios = np.array([1e5, 1e6])
        found = spectral_overlap(link, ratios)
        np.testing.assert_allclose((1 - found.squared_overlap) * ratios**2, 2 / np.pi, rtol=1e-3)
        np.testing.assert_allclose(found.bulk_edge / ratios, -np.pi / 8, rtol=1e-3)

    @pytest.mark.parametrize("link", ["He1", "He2", "He4", "abs", "relu", "cos"])
    def test_any_number_of_samples_gives_an_overlap_that_tends_to_one(self, link):
        found = spectral_overlap(link, np.logspace(6, 12, 13))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.squared_overlap, 1, atol=1e-4)
        assert (np.diff(found.squared_overlap) >= -1e-15).all()
