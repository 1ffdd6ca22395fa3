import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.spectra import harmful_example, index_blocks, power_law
from unlazy.theory.regression.benign_overfitting import classify_regime, overfitting_regime, tsigler_bartlett
from unlazy.theory.regression.ridge import ridge_equivalent

SIZES = np.array([50, 100, 200, 400, 800])


def written_out(spectrum, prior, n, ridge, noise, k):
    """B and V of sorted spectra, term by term."""
    t1 = n * ridge + spectrum[k:].sum()
    bias = sum(prior[:k] * t1**2 / (n**2 * spectrum[:k])) + sum(prior[k:] * spectrum[k:])
    squares = n * sum(spectrum[k:] ** 2)
    return bias, noise * (k / n + (squares / t1**2 if squares else 0.0))


def admissible(spectrum, n, ridge):
    """All k with t1(k) >= n l_{k+1}, k = d included."""
    following = np.append(spectrum, 0.0)
    return [k for k in range(spectrum.size + 1) if n * ridge + spectrum[k:].sum() >= n * following[k] * (1 - 1e-12)]


def drawn_blocks(rng):
    entries = rng.integers(1, 5)
    spectrum = np.sort(rng.choice([2, 1, 0.5, 0.3, 0.1, 0.01], entries))[::-1]
    prior, copies = rng.choice([0, 0.1, 1, 30, 300.0], entries), rng.integers(1, 25, entries)
    return (
        spectrum,
        prior,
        copies,
        rng.choice([3, 7, 20, 50, 200]),
        rng.choice([0, 0.01, 0.3]),
        rng.choice([0, 0.01, 1, 20.0]),
    )


def regime_risks(a, gamma):
    """Ridgeless bias and variance, the risk at the best ridge and that of predicting 0, at all SIZES."""
    rows = []
    for n in SIZES:
        indices, copies = index_blocks(int(n**gamma + 1e-9))
        ridges = np.append(0, np.geomspace(1e-8, 1e2, 120))
        found = ridge_equivalent(indices**-a, indices**-2.0, n, ridges, 0.25, multiplicities=copies)
        rows.append((found.bias[0], found.variance[0], found.risk.min(), copies @ indices ** (-a - 2)))
    return np.array(rows).T


def test_orders_have_their_independently_computed_values():
    found = tsigler_bartlett(power_law(400, 1.0), power_law(400, 0.5), 100, 0.01, 0.3)
    assert found.learned_directions == 26
    np.testing.assert_allclose((found.bias, found.variance), (0.41381628386637, 0.15456890769740), rtol=1e-13)
    assert found.risk == found.bias + found.variance


@pytest.mark.parametrize("seed", range(4))
def test_orders_agree_with_exact_risk_within_a_factor_of_four(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        a, b, d = rng.uniform(0.3, 2), rng.uniform(0, 2), int(np.exp(rng.uniform(np.log(500), np.log(20_000))))
        n, ridge = np.exp(rng.uniform(np.log(50), np.log(800))), rng.choice([0, 1e-4, 1e-2, 0.1])
        if ridge == 0 and abs(d / n - 1) < 0.5:
            # at the interpolation threshold the exact variance diverges and an order statement has no constant
            continue
        spectrum, prior = power_law(d, a), power_law(d, b)
        ratio = (
            tsigler_bartlett(spectrum, prior, n, ridge, 0.25).risk
            / ridge_equivalent(spectrum, prior, n, ridge, 0.25).risk
        )
        assert 1 / 4 <= ratio <= 4, (a, b, d, n, ridge)


def test_the_rule_the_best_and_a_given_k_agree_with_enumeration_of_the_expanded_spectrum():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(300):
        spectrum, prior, copies, n, ridge, noise = drawn_blocks(rng)
        long_spectrum, long_prior = np.repeat(spectrum, copies), np.repeat(prior, copies)
        allowed = admissible(long_spectrum, n, ridge)
        given = rng.integers(0, copies.sum() + 1)
        for k, expected in ((None, allowed[0]), (given, given)):
            found = tsigler_bartlett(spectrum, prior, n, ridge, noise, learned_directions=k, multiplicities=copies)
            assert found.learned_directions == expected
            orders = written_out(long_spectrum, long_prior, n, ridge, noise, expected)
            np.testing.assert_allclose(found[1:3], orders, rtol=1e-11, atol=1e-13)
        eligible = [k for k in allowed if k <= n] or allowed[:1]
        sums = [sum(written_out(long_spectrum, long_prior, n, ridge, noise, k)) for k in eligible]
        inside += eligible[np.argmin(sums)] not in np.append(0, np.cumsum(copies))
        for arrays, grouped in (((spectrum, prior), copies), ((long_spectrum, long_prior), None)):
            best = tsigler_bartlett(*arrays, n, ridge, noise, learned_directions="best", multiplicities=grouped)
            np.testing.assert_allclose(best.risk, min(sums), rtol=1e-10, atol=1e-14)
            assert best.learned_directions in eligible
    assert inside >= 5  # the draws do reach optima between equal eigenvalues


@pytest.mark.parametrize(("n", "weight"), [(20, 1.0), (20, 1.05), (2000, 1.0)])
def test_the_best_k_may_balance_bias_and_variance_between_equal_eigenvalues(n, weight):
    # each of the 10 n equal directions that is learned spares the strong one some bias and costs variance 1/n
    strong, copies, noise = 100.0, 10 * n, 0.5
    spectrum, prior = np.append(strong, np.ones(copies)), np.append(strong * noise * weight / 19, np.zeros(copies))
    # k = 0 is not admissible: t1 = 100 + 10 n < 100 n
    left = copies - np.arange(0, n)
    sums = prior[0] / strong * (left / n) ** 2 + noise * ((1 + np.arange(0, n)) / n + n / left)
    expected = 1 + np.argmin(sums)
    assert 1 < expected < n
    for arguments, grouped in (((spectrum, prior), None), (([strong, 1.0], prior[:2]), [1, copies])):
        best = tsigler_bartlett(*arguments, n, 0.0, noise, learned_directions="best", multiplicities=grouped)
        assert best.learned_directions == expected
        np.testing.assert_allclose(best.risk, sums.min(), rtol=1e-12)


def test_best_k_is_never_above_the_rule_nor_far_below_it():
    spectrum, prior = power_law(2000, 0.8), power_law(2000, 1.0)
    n, ridge, noise = np.array([30, 100, 300])[:, None, None], np.array([[0.0], [1e-3]]), np.array([0.01, 1.0])
    rule = tsigler_bartlett(spectrum, prior, n, ridge, noise)
    best = tsigler_bartlett(spectrum, prior, n, ridge, noise, learned_directions="best")
    assert (best.risk <= rule.risk).all()
    assert (best.risk < rule.risk).any()
    assert (best.risk >= rule.risk / 4).all()


def test_the_order_of_the_spectrum_does_not_matter():
    rng = np.random.default_rng(3)
    spectrum, prior, copies = power_law(60, 0.7), rng.uniform(0, 1, 60), rng.integers(1, 9, 60)
    shuffle = rng.permutation(60)
    for k in (None, 17, "best"):
        first = tsigler_bartlett(spectrum, prior, 40, 0.01, 0.3, learned_directions=k, multiplicities=copies)
        second = tsigler_bartlett(
            spectrum[shuffle], prior[shuffle], 40, 0.01, 0.3, learned_directions=k, multiplicities=copies[shuffle]
        )
        np.testing.assert_allclose(second, first, rtol=1e-14)


def test_all_directions_may_be_learned_and_then_nothing_is_left_to_divide_by():
    found = tsigler_bartlett([2.0, 1.0], [3.0, 5.0], 100, [0.0, 0.1], 0.5, learned_directions=2)
    np.testing.assert_allclose(found.variance, 0.5 * 2 / 100)
    np.testing.assert_allclose(found.bias, [0, 0.01 * (3 / 2 + 5)])
    # least squares: the rule itself ends at d
    assert tsigler_bartlett([2.0, 1.0], 1.0, 100, 0.0, 0.5).learned_directions == 2


def test_directions_without_variance_are_not_learned():
    spectrum, prior = np.append(power_law(20, 1.0), np.zeros(10)), np.full(30, 0.5)
    for k in (None, "best", 7):
        padded = tsigler_bartlett(spectrum, prior, [5, 50], 0.02, 0.3, learned_directions=k)
        np.testing.assert_allclose(
            padded, tsigler_bartlett(spectrum[:20], 0.5, [5, 50], 0.02, 0.3, learned_directions=k), rtol=1e-14
        )
    assert tsigler_bartlett(spectrum, prior, 5, 0.02, 0.3, learned_directions=21).bias == np.inf
    nothing = tsigler_bartlett(np.zeros(3), 1.0, 5, [0.0, 1.0], 1.0)
    np.testing.assert_array_equal(nothing.risk, 0)


def test_units_of_covariance_and_prior_cancel_even_at_the_ends_of_floats():
    spectrum, prior = power_law(50, 1.0), power_law(50, 0.3)
    for k in (None, "best"):
        base = tsigler_bartlett(spectrum, prior, 30, [0.0, 0.01], 0.1, learned_directions=k)
        for scale in (1e-200, 1e200):
            scaled = tsigler_bartlett(
                scale * spectrum, prior / scale, 30, np.multiply([0.0, 0.01], scale), 0.1, learned_directions=k
            )
            np.testing.assert_allclose(scaled, base, rtol=1e-12)
    huge = tsigler_bartlett(spectrum * 1e-200, prior, 30, 1e300, 0.1)
    np.testing.assert_allclose((huge.learned_directions, huge.risk), (0, 1e-200 * spectrum @ prior), rtol=1e-13)
    steep = tsigler_bartlett([1.0, 1e-100], [0.0, 1.0], 1, 0.0, 1.0)
    np.testing.assert_allclose((steep.learned_directions, steep.bias, steep.variance), (0, 1e-100, 1.0), rtol=1e-13)


def test_billions_of_directions_are_read_from_multiplicities():
    n = 1280
    example = harmful_example(n)
    found = tsigler_bartlett(example.spectrum, example.prior, n, 0.0, 1.0, multiplicities=example.multiplicities)
    # k = 0: all of the signal is bias; t1 = sum_{i<=n} 1/i + (n^3 - n)/n
    harmonic, squares = np.sum(1 / np.arange(1.0, n + 1)), np.sum(np.arange(1.0, n + 1) ** -2)
    assert found.learned_directions == 0
    np.testing.assert_allclose(found.variance, n * (squares + n - 1 / n) / (harmonic + n**2 - 1) ** 2, rtol=1e-12)
    np.testing.assert_allclose(found.bias, 1.2020569, atol=1e-6)


def test_orders_broadcast_and_scalars_stay_scalars():
    spectrum = power_law(30, 1.0)
    for n, ridge, noise, k, shape in (
        (5, 0.1, 0.2, None, ()),
        ([[5], [6]], [0.0, 0.1, 1.0], 0.2, None, (2, 3)),
        (5, 0.1, [0.2, 0.3], [[0], [4], [30]], (3, 2)),
        ([5, 6], 0.1, [[0.2]] * 4, "best", (4, 2)),
    ):
        found = tsigler_bartlett(spectrum, 1.0, n, ridge, noise, learned_directions=k)
        assert [np.shape(field) for field in found] == [shape] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spectrum": [1.0, -2.0]}, "spectrum must be >= 0 and <= 1e\\+300, got -2"),
        ({"spectrum": [[1.0]]}, r"spectrum must have 1 dimension\(s\)"),
        ({"spectrum": [1.0, 1e-200]}, "spectrum must be 0 or at least 1e-150 times its largest value 1, got 1e-200"),
        ({"spectrum": [1e300, 1e299], "prior": 1e300}, "spectrum times prior must be finite"),
        ({"prior": [1.0, 2.0, 3.0]}, r"prior must be a number or have shape \(2,\) like spectrum, got \(3,\)"),
        ({"multiplicities": [1.0, 2.5]}, "multiplicities must be whole and >= 0, got 2.5"),
        ({"n": 0}, "n must be > 0, got 0"),
        ({"ridge": -1}, "ridge must be >= 0"),
        ({"noise_variance": np.nan}, "noise_variance must be finite"),
        ({"learned_directions": 3}, "learned_directions must be <= d = 2, got 3"),
        ({"learned_directions": -1}, "learned_directions must be >= 0, got -1"),
        ({"learned_directions": 1.5}, "learned_directions must be whole and >= 0, got 1.5"),
        ({"learned_directions": "worst"}, "learned_directions must be None, 'best' or whole numbers, got 'worst'"),
        (
            {"n": [1, 2], "learned_directions": [0, 1, 2]},
            "n has 2 values and learned_directions 3: give arrays that broadcast",
        ),
    ],
)
def test_wrong_orders_are_named(change, message):
    legal = {"spectrum": [1.0, 2.0], "prior": 1.0, "n": 5, "ridge": 0.1, "noise_variance": 0.1}
    with pytest.raises(InputError, match=message):
        tsigler_bartlett(**legal | change)


@pytest.mark.parametrize(
    ("a", "gamma", "regime", "bias", "variance"),
    [
        (2.0, 2.0, "kernel", [0, 0, 0], [0.2492, 0.2498, 0.2499]),
        (1.5, 2.0, "kernel", [0.0008, 0, 0], [0.1379, 0.1317, 0.1284]),
        (0.5, 1.5, "benign", [0.2706, 0.1901, 0.1259], [0.0553, 0.0295, 0.0164]),
        (0.5, 1.3, "benign", [0.1435, 0.0808, 0.0415], [0.1325, 0.0819, 0.0539]),
        (0.5, 3.0, "harmful", [1.188, 1.2606, None], [0.0003, 0, None]),
        (0.3, 2.5, "harmful", [1.3443, 1.3993, 1.4204], [0.0009, 0.0001, 0]),
    ],
)
def test_exponents_and_slopes_name_the_same_regime(a, gamma, regime, bias, variance):
    found_bias, found_variance, best, zero = regime_risks(a, gamma)
    for found, expected in ((found_bias, bias), (found_variance, variance)):
        pairs = [(f, e) for f, e in zip(found[::2], expected, strict=True) if e is not None]
        np.testing.assert_allclose(*zip(*pairs, strict=True), atol=6e-5)
    assert overfitting_regime(a, gamma) == regime
    assert classify_regime(SIZES, found_bias + found_variance, best, zero) == regime


def test_the_boundary_of_the_harmful_regime_keeps_a_constant_risk_below_that_of_zero():
    assert overfitting_regime(0.5, 2.0) == "harmful"
    n = 10**7
    indices, copies = index_blocks(n**2)
    found = ridge_equivalent(indices**-0.5, indices**-2.0, n, 0.0, 1.0, multiplicities=copies)
    # kappa -> 1/(1 - a) = 2, hence bias -> 4 sum_j j^-2.5/(j^-0.5 + 2)^2
    j = np.arange(1.0, 1e5)
    np.testing.assert_allclose(found.effective_ridge, 2, rtol=1e-5)
    np.testing.assert_allclose(found.risk, 4 * np.sum(j**-2.5 / (j**-0.5 + 2) ** 2), rtol=1e-4)


@pytest.mark.parametrize("gamma", [1.5, 2.0])
def test_at_exponent_one_the_variance_vanishes_logarithmically(gamma):
    assert overfitting_regime(1.0, gamma) == "benign"
    scaled = []
    for n in (10**4, 10**8):
        indices, copies = index_blocks(int(n**gamma))
        found = ridge_equivalent(1 / indices, 1.0, n, 0.0, 1.0, multiplicities=copies)
        scaled.append(found.variance * (gamma - 1) * np.log(n))
    assert 0.7 < scaled[0] < 1.4
    assert abs(scaled[1] - 1) < abs(scaled[0] - 1)


def test_regimes_by_exponents_broadcast():
    found = overfitting_regime([[0.0], [0.5], [0.9], [1.0], [1.1]], [1.5, 2.0, 10.0])
    assert found.tolist() == [
        ["harmful"] * 3,
        ["benign", "harmful", "harmful"],
        # 1/(1 - 0.9) = 10 although 1 - 0.9 is not 0.1 in floats
        ["benign", "benign", "harmful"],
        ["benign"] * 3,
        ["kernel"] * 3,
    ]


def test_slopes_that_fit_no_regime_are_undecided():
    n = np.array([10.0, 100.0, 1000.0])
    flat, falling = np.full(3, 0.3), n**-0.7
    assert classify_regime(n, flat, flat, 1.0) == "undecided"
    assert classify_regime(n, n**-0.12, n**-0.12, 1e3) == "undecided"
    assert classify_regime(n, 2 * n**-0.05, 2 * n**-0.05, 1.0) == "undecided"
    # ridgeless no better than zero, but a ridge helps: not harmful
    assert classify_regime(n, 0 * n + 1.2, 0 * n + 0.5, 1.0) == "undecided"
    assert classify_regime(n, 0 * n + 1.2, falling, 1.0) == "kernel"
    both = classify_regime(n[::-1], [0 * n + 1.2, falling[::-1]], [0 * n + 0.9, falling[::-1]], [[1.0], [1.0]])
    assert both.tolist() == ["harmful", "benign"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: overfitting_regime(0.5, 1.0), "dimension_exponent must be > 1, got 1"),
        (lambda: overfitting_regime(-0.5, 2.0), "spectrum_exponent must be >= 0, got -0.5"),
        (lambda: overfitting_regime([1, 2], [2, 3, 4]), "give arrays that broadcast"),
        (lambda: classify_regime([1, 2], [1, 1], [1, 1], 1), r"n must have at least 3 sizes, all different, got \[1"),
        (lambda: classify_regime([1, 2, 2], [1] * 3, [1] * 3, 1), "n must have at least 3 sizes, all different"),
        (lambda: classify_regime([1, 2, 3], [1] * 2, [1] * 3, 1), "ridgeless_risk must have 3 values"),
        (lambda: classify_regime([1, 2, 3], [1] * 3, 1.0, 1), "best_risk must have 3 values"),
        (lambda: classify_regime([1, 2, 3], [1] * 3, [1, 0, 1], 1), "best_risk must be > 0, got 0"),
        (lambda: classify_regime([1, 2, 3], [1, np.inf, 1], [1] * 3, 1), "ridgeless_risk must be finite"),
        (lambda: classify_regime([1, 2, 3], [1] * 3, [1] * 3, [1, 2]), "zero_risk must be a number or have 3 values"),
    ],
)
def test_wrong_regime_arguments_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
