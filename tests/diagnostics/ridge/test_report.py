import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics import ridge_report
from unlazy.functions.spectra import power_law
from unlazy.theory.regression.ridge import ridge_equivalent


def problem(n, d, spectrum_exponent, prior_exponent, *, noise=0.3, targets=10, seed=0, extra=0):
    """Rows, targets, the covariance spectrum, the mean squares of the drawn coefficients, and rows without target."""
    rng = np.random.default_rng([n, d, seed])
    spectrum, prior = power_law(d, spectrum_exponent), power_law(d, prior_exponent)
    X = rng.standard_normal((n + extra, d)) * np.sqrt(spectrum) + 2.0
    coefficients = rng.standard_normal((d, targets)) * np.sqrt(prior)[:, None]
    Y = X[:n] @ coefficients + np.sqrt(noise) * rng.standard_normal((n, targets)) - 1.0
    return X[:n], Y, spectrum, np.mean(coefficients**2, axis=1), X[n:]


def explicit_fit(X, Y, penalty, centre):
    """The hat matrix of ridge with an intercept that the penalty leaves alone, from the normal equations."""
    n, d = X.shape
    design = np.column_stack([X, np.ones(n)]) if centre else X
    penalties = np.append(np.full(d, penalty), 0.0) if centre else np.full(d, penalty)
    return design @ np.linalg.solve(design.T @ design + np.diag(penalties), design.T)


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("d", [4, 40])
def test_the_path_agrees_with_explicit_fits_that_leave_rows_out(d, centre):
    X, Y, *_ = problem(15, d, 0.5, 0.5, targets=3)
    ridges = np.array([0.02, 0.7])
    report = ridge_report(X, Y, ridge=ridges, fit_intercept=centre)
    for index, ridge in enumerate(ridges):
        hat = explicit_fit(X, Y, 15 * ridge, centre)
        residuals = Y - hat @ Y
        left_out = []
        for row in range(15):
            kept = np.arange(15) != row
            means = (X[kept].mean(axis=0), Y[kept].mean(axis=0)) if centre else (0.0, 0.0)
            inner, outer = X[kept] - means[0], Y[kept] - means[1]
            b = np.linalg.solve(inner.T @ inner + 15 * ridge * np.eye(d), inner.T @ outer)
            left_out.append(Y[row] - means[1] - (X[row] - means[0]) @ b)
        np.testing.assert_allclose(report.training_error[index], np.mean(residuals**2), rtol=1e-8)
        np.testing.assert_allclose(report.loo_error[index], np.mean(np.square(left_out)), rtol=1e-8)
        np.testing.assert_allclose(report.degrees_of_freedom[index], np.trace(hat), rtol=1e-9)
        gcv = np.mean(residuals**2) / (1 - np.trace(hat) / 15) ** 2
        np.testing.assert_allclose(report.gcv[index], gcv, rtol=1e-8)
        np.testing.assert_allclose(report.effective_ridge[index], 15 * ridge / (15 - np.trace(hat)), rtol=1e-9)


@pytest.mark.parametrize("d", [4, 40])
def test_ridge_0_is_the_limit_of_small_ridges(d):
    X, Y, *_ = problem(15, d, 0.5, 0.5)
    report = ridge_report(X, Y, ridge=[0.0, 1e-9])
    for name in ("gcv", "loo_error", "degrees_of_freedom"):
        values = getattr(report, name)
        np.testing.assert_allclose(values[0], values[1], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(report.effective_ridge[0], report.effective_ridge[1], rtol=1e-5, atol=2e-9)
    assert report.effective_ridge[0] == report.ridgeless_effective_ridge


def test_noise_is_the_residual_variance_of_least_squares_where_rows_outnumber_columns():
    X, Y, *_ = problem(40, 6, 0.5, 0.5, targets=2)
    report = ridge_report(X, Y)
    _, sums, *_ = np.linalg.lstsq(np.column_stack([X, np.ones(40)]), Y, rcond=None)
    assert report.noise_is_identified
    np.testing.assert_allclose(report.noise_variance, sums.mean() / (40 - 7), rtol=1e-10)
    np.testing.assert_allclose(report.target_variance, Y.var(axis=0, ddof=1).mean(), rtol=1e-12)
    np.testing.assert_allclose(report.signal_variance + report.noise_variance, report.target_variance, rtol=1e-12)
    np.testing.assert_allclose(report.noise_amplification, 6 / (39 - 6), rtol=1e-12)


@pytest.mark.parametrize(("a", "b", "d"), [(2.0, 0.0, 800), (0.5, 2.0, 1500)])
def test_unidentified_noise_is_noise_and_the_signal_out_of_sight(a, b, d):
    # kappa^2 sum p l/(l + kappa)^2 + s2 at ridge 0, from the known covariance
    found, expected = [], []
    for seed in range(12):
        X, Y, spectrum, prior, _ = problem(100, d, a, b, seed=seed)
        report = ridge_report(X, Y)
        assert not report.noise_is_identified
        theory = ridge_equivalent(spectrum, prior, 99, 0.0, 0.3)
        found.append(report.noise_variance)
        expected.append(theory.gcv * (1 - theory.variance_degrees_of_freedom / 99))
    ratio = np.divide(found, expected)
    allowed = 4 * ratio.std(ddof=1) / np.sqrt(12) + 0.02
    assert abs(ratio.mean() - 1) < allowed < 0.2


CASES = [(1.0, 0.5, 600), (1.5, 1.0, 1500), (2.0, 0.0, 1000), (0.5, 2.0, 1500), (1.0, 1.0, 60)]


@pytest.mark.parametrize(("a", "b", "d"), CASES)
def test_forecasts_agree_with_the_equivalent_of_the_known_covariance(a, b, d):
    n, noise, seeds, sizes = 120, 0.3, 12, np.array([40, 80, 120, 240, 480])
    at_best, at_zero, standard = [], [], []
    for seed in range(seeds):
        X, Y, spectrum, prior, _ = problem(n, d, a, b, seed=seed)
        forecast = ridge_report(X, Y, n=sizes).forecast
        # an intercept costs a row, and the mean is estimated from n of them
        factor = sizes / (sizes - 1)
        theory = ridge_equivalent(spectrum, prior, sizes - 1, forecast.ridge * factor, noise)
        ridgeless = ridge_equivalent(spectrum, prior, sizes - 1, 0.0, noise)
        at_best.append(forecast.test_error / (theory.gcv * factor))
        at_zero.append(forecast.ridgeless_test_error / (ridgeless.gcv * factor))
        standard.append(forecast.standard_error / forecast.test_error)
    # the equivalent is a limit, and the ridge was chosen on the same rows: a few per cent remain
    for ratios, remainder in ((at_best, 0.03), (np.array(at_zero)[:, :3], 0.05)):
        mean, deviation = np.mean(ratios, axis=0), np.std(ratios, axis=0, ddof=1) / np.sqrt(seeds)
        allowed = 4 * deviation + remainder
        assert (np.abs(mean - 1) < allowed).all(), (mean, allowed)
        assert (np.abs(1.2 * mean - 1) > allowed).all(), (mean, allowed)
    # the stated standard error is of the size of the scatter
    assert (np.std(at_best, axis=0, ddof=1) < 2 * np.mean(standard, axis=0)).all()


def test_forecasts_agree_with_fits_to_fresh_rows():
    a, b, d, noise, seeds = 1.3, 1.0, 500, 0.3, 10
    ratios = []
    for seed in range(seeds):
        X, Y, spectrum, _, _ = problem(100, d, a, b, seed=seed)
        forecast = ridge_report(X, Y, n=[250]).forecast
        # the same draw of coefficients with more rows: replay the generator
        rng = np.random.default_rng([100, d, seed])
        rng.standard_normal((100, d))
        coefficients = rng.standard_normal((d, 10)) * np.sqrt(power_law(d, b))[:, None]
        rows = rng.standard_normal((250, d)) * np.sqrt(spectrum)
        labels = rows @ coefficients + np.sqrt(noise) * rng.standard_normal((250, 10))
        rows, labels = rows - rows.mean(axis=0), labels - labels.mean(axis=0)
        fit = rows.T @ np.linalg.solve(rows @ rows.T + 250 * forecast.ridge[0] * np.eye(250), labels)
        truth = noise + np.mean(spectrum @ (fit - coefficients) ** 2)
        ratios.append(forecast.test_error[0] / truth)
    assert not forecast.is_bound[0]
    deviation = np.std(ratios, ddof=1) / np.sqrt(seeds)
    assert abs(np.mean(ratios) - 1) < 4 * deviation + 0.02
    assert abs(1.2 * np.mean(ratios) - 1) > 4 * deviation + 0.02


def test_the_forecast_for_n_rows_is_the_leave_one_out_error():
    X, Y, *_ = problem(60, 200, 1.0, 1.0)
    forecast = ridge_report(X, Y, n=[60]).forecast
    at_it = ridge_report(X, Y, ridge=[0.0, forecast.ridge[0]])
    np.testing.assert_allclose(forecast.test_error[0], at_it.loo_error[1], rtol=1e-9)
    np.testing.assert_allclose(forecast.ridgeless_test_error[0], at_it.loo_error[0], rtol=1e-9)


def test_forecasts_beyond_what_the_rows_show_are_bounds_and_say_so():
    X, Y, spectrum, prior, _ = problem(100, 1000, 0.5, 2.0)
    forecast = ridge_report(X, Y, n=[50, 100, 800]).forecast
    assert forecast.is_bound.tolist() == [False, False, True]
    assert np.isnan(forecast.ridgeless_test_error).tolist() == [False, False, True]
    best = ridge_equivalent(spectrum, prior, 799, np.append(0, np.geomspace(1e-4, 10, 200)), 0.3).gcv.min()
    assert best < forecast.test_error[2] + 4 * forecast.standard_error[2]
    # columns that n rows determine leave nothing open
    X, Y, *_ = problem(100, 30, 0.5, 2.0)
    forecast = ridge_report(X, Y, n=[50, 800]).forecast
    assert not forecast.is_bound.any()
    assert np.isfinite(forecast.ridgeless_test_error).all()


@pytest.mark.parametrize(
    ("a", "n", "d", "regime"),
    [
        (2.0, 150, 3000, "kernel"),
        (1.4, 150, 3000, "kernel"),
        (0.7, 200, 3000, "benign"),
        (0.3, 60, 6000, "harmful"),
        (0.0, 60, 6000, "harmful"),
        (1.0, 150, 3000, "undecided"),
        (1.0, 150, 50, "undecided"),
    ],
)
def test_clear_power_laws_are_put_into_their_regime(a, n, d, regime):
    for seed in range(4):
        X, Y, *_ = problem(n, d, a, 1.0, targets=1, seed=seed)
        report = ridge_report(X, Y[:, 0])
        assert report.regime == regime, report.reason


def test_the_exponent_of_the_spectrum_is_found_and_unlabelled_rows_sharpen_it():
    errors = []
    for seed in range(6):
        X, Y, _, _, extra = problem(80, 600, 0.6, 1.0, targets=1, seed=seed, extra=1500)
        few, many = ridge_report(X, Y), ridge_report(X, Y, unlabelled=extra)
        errors.append([few.spectrum_exponent - 0.6, many.spectrum_exponent - 0.6])
        np.testing.assert_array_equal(few.gcv, many.gcv)
        np.testing.assert_array_equal(few.forecast.test_error, many.forecast.test_error)
    few_error, many_error = np.sqrt(np.mean(np.square(errors), axis=0))
    assert many_error < 0.05 < few_error


def test_spikes_that_are_no_power_law_are_not_classified():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2000)) * np.sqrt(np.append(np.full(20, 500.0), np.ones(1980)))
    X[:, 20:25] *= 5
    report = ridge_report(X, X[:, 0] + rng.standard_normal(80))
    assert report.regime == "undecided"


def test_units_shifts_and_constant_columns_do_not_matter():
    X, Y, *_ = problem(50, 120, 1.0, 1.0)
    base = ridge_report(X, Y)
    padded = np.column_stack([X + 5.0, np.full((50, 3), 0.1)])
    same, scaled = ridge_report(padded, Y - 30.0), ridge_report(1e30 * X, 1e20 * Y)
    for report, ridge_unit, error_unit in ((same, 1.0, 1.0), (scaled, 1e60, 1e40)):
        assert (report.n, report.d, report.chosen, report.regime) == (50, 120, base.chosen, base.regime)
        np.testing.assert_allclose(report.ridge, ridge_unit * base.ridge, rtol=1e-9)
        np.testing.assert_allclose(report.gcv, error_unit * base.gcv, rtol=1e-8)
        np.testing.assert_allclose(report.loo_error, error_unit * base.loo_error, rtol=1e-8)
        np.testing.assert_allclose(report.noise_variance, error_unit * base.noise_variance, rtol=1e-8)
        np.testing.assert_allclose(report.forecast.test_error, error_unit * base.forecast.test_error, rtol=1e-8)


def test_several_targets_give_the_means_of_single_ones():
    X, Y, *_ = problem(40, 100, 1.0, 1.0, targets=3)
    ridges = [0.0, 0.01, 1.0]
    together = ridge_report(X, Y, ridge=ridges)
    alone = [ridge_report(X, Y[:, [target]], ridge=ridges) for target in range(3)]
    flat = ridge_report(X, Y[:, 0], ridge=ridges)
    np.testing.assert_array_equal(flat.gcv, alone[0].gcv)
    for name in ("gcv", "loo_error", "training_error", "noise_variance", "target_variance"):
        mean = np.mean([getattr(report, name) for report in alone], axis=0)
        np.testing.assert_allclose(getattr(together, name), mean, rtol=1e-10, atol=1e-25, err_msg=name)
    # copies of one target are one target, not three independent ones
    copies = ridge_report(X, np.repeat(Y[:, :1], 3, axis=1), ridge=ridges)
    np.testing.assert_allclose(copies.forecast.standard_error, alone[0].forecast.standard_error, rtol=1e-8)
    np.testing.assert_allclose(copies.noise_standard_error, alone[0].noise_standard_error, rtol=1e-8)
    assert together.noise_standard_error / together.noise_variance < copies.noise_standard_error / copies.noise_variance


def test_rows_of_unequal_leverage_are_forecast_by_leaving_out_and_named():
    # rows of random length: GCV is far too low, the forecast from leave-one-out errors is not
    rng = np.random.default_rng(0)
    n, d, noise, test = 60, 150, 0.1, 4000
    coefficients = rng.standard_normal((d, 20)) / np.sqrt(d)
    X = rng.standard_normal((n + test, d)) * rng.choice([0.2, 2.0], (n + test, 1))
    Y = X @ coefficients + np.sqrt(noise) * rng.standard_normal((n + test, 20))
    report = ridge_report(X[:n], Y[:n], n=[n])
    assert "trust the latter" in str(report)
    centre = X[:n].mean(axis=0), Y[:n].mean(axis=0)
    inner, ridge = X[:n] - centre[0], report.forecast.ridge[0]
    fit = inner.T @ np.linalg.solve(inner @ inner.T + n * ridge * np.eye(n) + 1e-9 * np.eye(n), Y[:n] - centre[1])
    error = np.mean((Y[n:] - centre[1] - (X[n:] - centre[0]) @ fit) ** 2)
    assert abs(report.forecast.test_error[0] - error) < 4 * report.forecast.standard_error[0]


def test_the_place_of_the_chosen_ridge_is_told():
    X, Y, *_ = problem(60, 100, 1.0, 1.0)
    inside = ridge_report(X, Y)
    assert inside.chosen_where == "inside"
    assert inside.gcv[inside.chosen] == inside.gcv.min()
    low, high = inside.chosen_ridge / 10, inside.chosen_ridge * 10
    assert ridge_report(X, Y, ridge=[high, 2 * high]).chosen_where == "smallest"
    assert ridge_report(X, Y, ridge=[low / 2, low]).chosen_where == "largest"
    noise = np.random.default_rng(3).standard_normal((60, 200))
    assert ridge_report(X, noise).chosen_ridge > 10 * inside.chosen_ridge


@pytest.mark.parametrize(("n", "d"), [(3, 1), (3, 5), (3, 2), (11, 10), (11, 11), (12, 10)])
@pytest.mark.parametrize("centre", [True, False])
def test_the_smallest_and_the_square_designs_have_a_report(n, d, centre):
    X, Y, *_ = problem(n, d, 0.0, 0.0, targets=2)
    report = ridge_report(X, Y, fit_intercept=centre)
    assert np.isfinite(report.gcv[1:]).all()
    assert np.isfinite(report.forecast.test_error).all()
    assert "nan" not in str(report)


def test_what_rounding_leaves_of_an_exact_fit_is_no_error():
    X = np.random.default_rng(0).standard_normal((6, 1))
    text = str(ridge_report(X, 2 * X[:, 0]))
    assert "e-" not in text
    assert "test error       0 by GCV, 0 by leaving one out\n" in text
    assert "label noise      0, so" in text


def test_text_and_figure_show_what_was_found():
    X, Y, *_ = problem(100, 600, 1.5, 1.0)
    report = ridge_report(X, Y, n=[50, 100, 200])
    lines = str(report).splitlines()
    assert 10 <= len(lines) <= 18
    assert max(map(len, lines)) <= 100
    assert f"{report.chosen_ridge:.4g} (least GCV, inside the path)" in lines[1]
    assert "kernel" in str(report)
    assert "unknown" in lines[-1]
    errors, spectrum, forecast = report.figure().axes
    assert [line.get_label() for line in errors.get_lines()[:3]] == ["GCV", "leave-one-out", "training"]
    np.testing.assert_array_equal(errors.get_lines()[0].get_ydata(), report.gcv[1:])
    assert "kernel" in spectrum.get_title(loc="left")
    np.testing.assert_array_equal(forecast.get_lines()[0].get_ydata(), report.forecast.test_error)
    # nothing stands out of an isotropic spectrum: still a figure
    X, Y, *_ = problem(30, 3000, 0.0, 1.0)
    assert len(ridge_report(X, Y).figure().axes) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones((1, 3)), "Y": [1.0]}, r"X must have at least 3 rows, got shape \(1, 3\)"),
        ({"X": np.eye(2), "Y": [1.0, 2.0]}, r"X must have at least 3 rows, got shape \(2, 2\)"),
        ({"X": np.ones(6)}, r"X must have 2 dimension\(s\), got shape \(6,\)"),
        ({"X": np.ones((6, 0))}, "X must not be empty"),
        ({"X": np.full((6, 2), np.nan)}, "X must be finite"),
        ({"X": np.full((6, 2), 0.1)}, "X must have a column that varies by more than 1e-100, got at most 0"),
        ({"X": 1e200 * np.arange(12.0).reshape(6, 2)}, "X must be >= -1e\\+100 and <= 1e\\+100, got 1e\\+200"),
        ({"Y": np.arange(5.0)}, r"Y must have shape \(6,\) or \(6, targets\) like the 6 rows of X, got shape \(5,\)"),
        ({"Y": np.ones((6, 2, 2))}, r"Y must have shape \(6,\) or \(6, targets\)"),
        ({"Y": np.full(6, 3.0)}, "Y must vary in every column, got the constant column 0"),
        (
            {"Y": np.column_stack([np.arange(6.0), np.ones(6)])},
            "Y must vary in every column, got the constant column 1",
        ),
        ({"Y": [np.inf] * 6}, "Y must be finite"),
        ({"Y": np.zeros(6), "fit_intercept": False}, "Y must vary in every column"),
        ({"ridge": [0.1, -0.1]}, "ridge must be >= 0 and <= 1e\\+200, got -0.1"),
        ({"ridge": []}, "ridge must not be empty"),
        ({"ridge": [[1.0]]}, r"ridge must have at most 1 dimension, got shape \(1, 1\)"),
        ({"n": [5]}, "n must be >= 10 and <= 1e\\+15, got 5"),
        ({"n": [20.5]}, r"n must be whole and >= 10 and <= .*, got 20.5"),
        ({"unlabelled": np.ones((4, 3))}, r"unlabelled must have 2 columns like X, got shape \(4, 3\)"),
        ({"unlabelled": [[np.nan, 1.0]]}, "unlabelled must be finite"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ],
)
def test_wrong_input_is_named(change, message):
    rng = np.random.default_rng(0)
    legal = {"X": rng.standard_normal((6, 2)), "Y": rng.standard_normal(6)}
    with pytest.raises(InputError, match=message):
        ridge_report(**legal | change)


@pytest.mark.parametrize(("n", "d"), [(30, 50), (100, 150), (200, 300), (100, 200)])
def test_equal_independent_columns_are_not_called_benign(n, d):
    """Their sample eigenvalues spread, which looks like a decay."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        report = ridge_report(rng.standard_normal((n, d)), rng.standard_normal(n))
        assert report.regime in ("undecided", "harmful")


def test_isotropic_squares_are_those_of_drawn_rows():
    from unlazy.diagnostics.ridge.evidence import isotropic_squares

    for rows, d in ((80, 200), (200, 80)):
        drawn = [
            np.sort(np.linalg.svd(np.random.default_rng(s).standard_normal((rows, d)), compute_uv=False) ** 2)[::-1]
            for s in range(20)
        ]
        np.testing.assert_allclose(isotropic_squares(rows, d)[5:-5], np.mean(drawn, axis=0)[5:-5], rtol=0.04)


def test_thousands_of_targets_take_little_memory():
    import tracemalloc

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 20)), rng.standard_normal((12, 2000))
    tracemalloc.start()
    ridge_report(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


@pytest.mark.parametrize("n", [3, 5, 9])
def test_a_handful_of_rows_has_no_regime(n):
    rng = np.random.default_rng(0)
    for _ in range(20):
        found = ridge_report(rng.normal(size=(n, 4 * n)), rng.normal(size=n))
        assert found.regime == "undecided"
        assert f"{n} rows show too little" in " ".join(str(found).split())
