import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

from unlazy.checks import InputError
from unlazy.diagnostics import LearningCurve
from unlazy.diagnostics.forecasting.answer import forecast
from unlazy.diagnostics.learning_curve.index_model import index_evidence, random_folds
from unlazy.diagnostics.learning_curve.link import fitted_link
from unlazy.functions.elementwise import Link
from unlazy.theory.one_step.gradient_step import best_direction_ridge, preconditioned_cosine
from unlazy.theory.one_step.spiked.features import gradient_step_equivalent, normal_groups, spiked_features_equivalent
from unlazy.training.one_step.gradient_step import draw_samples, readout

NOISE = 0.04


def steep(x):
    return np.tanh(3 * x)


def kinked(x):
    return 1.5 * np.maximum(x, 0) - 1.5 / np.sqrt(2 * np.pi)


KINKED = Link("own", kinked, breakpoints=(0.0,))


def simulated_errors(link, n, d, features, penalties, *, spike, bias, direction_ridge, seeds):
    """Test errors of the preconditioned step with fresh rows for the readout, (seeds, penalties)."""
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        first, second, test = (draw_samples(rng, size, d, link, NOISE) for size in (n, n, 2000))
        gram = first.inputs.T @ first.inputs / n + direction_ridge * np.eye(d)
        v = np.linalg.solve(gram, first.inputs.T @ (first.labels - first.labels.mean()))
        weights = rng.standard_normal((d, features)) / np.sqrt(d)
        weights += spike * np.outer(v / np.linalg.norm(v), rng.standard_normal(features))
        biases, mean = bias * rng.standard_normal(features), second.labels.mean()
        hidden, fresh = (np.tanh(part.inputs @ weights + biases) for part in (second, test))
        found = readout(hidden, second.labels - mean, fresh, test.truth - mean, np.asarray(penalties) * features / n)
        errors.append(found.risk + NOISE)
    return np.array(errors)


@pytest.mark.parametrize(("link", "bias"), [(steep, 0.0), (steep, 1.0), (KINKED, 1.0)])
@pytest.mark.parametrize("n", [300, 1200])
def test_error_of_a_link_is_that_of_simulations(link, bias, n):
    d, features, seeds = 60, 300, 12
    curve = LearningCurve("one-step", penalty="opt", kernel_params={"bias_deviation": bias}).fit_link(link, d, NOISE)
    found = curve.predict(n, width=features)
    penalties = float(found.penalty) * np.array([1.0, 5.0, 0.2])
    errors = simulated_errors(
        link,
        n,
        d,
        features,
        penalties,
        spike=1.5,
        bias=bias,
        direction_ridge=best_direction_ridge(link, n / d, NOISE),
        seeds=seeds,
    )
    allowed = 4 * np.std(errors[:, 0], ddof=1) / np.sqrt(seeds) + 0.04 * found.test_error
    assert abs(errors[:, 0].mean() - found.test_error) < allowed < 0.2 * found.test_error
    # and its penalty is better than others
    assert errors.mean(axis=0).argmin() == 0


def test_given_penalty_without_biases_is_the_theory_of_spiked_features():
    d, n, features, penalty = 100.0, 500.0, 300.0, 0.2
    curve = LearningCurve(
        "one-step", penalty=penalty, kernel_params={"spike_deviation": 1.0, "bias_deviation": 0.0}
    ).fit_link(steep, d, NOISE)
    cosine = preconditioned_cosine(steep, n / d, best_direction_ridge(steep, n / d, NOISE), NOISE)
    groups = normal_groups(np.hypot(1.0, d**-0.5))
    expected = spiked_features_equivalent("tanh", steep, groups, cosine, n, d, features, penalty * features / n, NOISE)
    found = curve.predict(n, width=features)
    np.testing.assert_allclose(found.test_error, expected.test_error, rtol=1e-3)
    np.testing.assert_allclose(found.training_error, expected.training_error, rtol=1e-3)


def test_plain_gradient_step_is_the_theory_of_gradient_steps():
    d, n, features, penalty = 100.0, 500.0, 400.0, 0.2
    curve = LearningCurve("one-step", penalty=penalty, kernel_params={"step_size": 20.0, "step_samples": 300})
    found = curve.fit_link(np.tanh, d, NOISE).predict(n, width=features)
    expected = gradient_step_equivalent(
        "tanh", np.tanh, n, d, features, 20.0, penalty * features / n, NOISE, step_samples=300
    )
    np.testing.assert_allclose(found.test_error, expected.test_error, rtol=1e-3)


def test_penalty_is_alpha_of_kernel_ridge_on_the_features_kernel():
    d, n, features, penalty, seeds = 20, 200, 1000, 2.0, 6
    curve = LearningCurve("one-step", penalty=penalty).fit_link(steep, d, NOISE)
    rho = best_direction_ridge(steep, n / d, NOISE)
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        first, second, test = (draw_samples(rng, size, d, steep, NOISE) for size in (n, n, 2000))
        v = np.linalg.solve(first.inputs.T @ first.inputs / n + rho * np.eye(d), first.inputs.T @ first.labels)
        weights = rng.standard_normal((d, features)) / np.sqrt(d)
        weights += 1.5 * np.outer(v / np.linalg.norm(v), rng.standard_normal(features))
        biases = rng.standard_normal(features)
        F, T = (np.tanh(part.inputs @ weights + biases) for part in (second, test))
        model = KernelRidge(alpha=penalty, kernel="precomputed").fit(F @ F.T / features, second.labels)
        errors.append(np.mean((model.predict(T @ F.T / features) - test.truth) ** 2) + NOISE)
    spread = 4 * np.std(errors, ddof=1) / np.sqrt(seeds)
    # without the factor N/n between the two conventions the penalty would be 5 or 1/5 of it
    expected, low, high = curve.predict(n, penalty * np.array([1.0, 0.2, 5.0]), features).test_error
    assert abs(np.mean(errors) - expected) < 0.04 * expected + spread
    assert min(abs(low - np.mean(errors)), abs(high - np.mean(errors))) > 0.04 * expected + spread


@pytest.fixture(scope="module")
def of_link():
    return LearningCurve("one-step", penalty="opt").fit_link(steep, 50, NOISE)


def test_best_penalty_has_the_least_error_of_a_grid(of_link):
    best = of_link.best_penalty()
    assert best.where == "inside"
    grid = of_link.predict(of_link.rows_, penalty=best.penalty * np.array([0.3, 0.6, 1.6, 3.0]))
    assert (grid.test_error > best.test_error).all()
    np.testing.assert_allclose(of_link.predict(of_link.rows_).penalty, best.penalty)


def test_infinitely_many_features_are_the_limit_of_many(of_link):
    few, many, all_of_them = of_link.predict(500, 0.1, np.array([300, 3e5, np.inf])).test_error
    assert many == pytest.approx(all_of_them, rel=1e-3)
    assert few > 1.05 * all_of_them


def test_errors_fall_with_rows_towards_the_noise(of_link):
    found = of_link.predict([50, 100, 200, 800, 20_000])
    assert (np.diff(found.test_error) < 0).all()
    assert NOISE < found.test_error[-1] < 1.2 * NOISE
    np.testing.assert_allclose(found.r_squared, 1 - found.test_error / of_link.target_variance_)
    needed = of_link.samples_needed(float(found.test_error[2])).n
    assert needed == pytest.approx(200, rel=0.02)


@pytest.fixture(scope="module")
def rows():
    """Correlated inputs of different units, which whitening must undo."""
    rng = np.random.default_rng(5)
    samples = draw_samples(rng, 600, 40, steep, NOISE)
    return samples.inputs @ rng.standard_normal((40, 40)) * 100 + 7, 10 * samples.labels + 3


@pytest.fixture(scope="module")
def fitted(rows):
    return LearningCurve("one-step", penalty="opt").fit(*rows)


def test_curve_of_rows_is_near_that_of_their_link(fitted):
    expected = LearningCurve("one-step", penalty="opt").fit_link(steep, 40, NOISE).predict([300, 1200], width=300)
    found = fitted.predict([300, 1200], width=300)
    np.testing.assert_allclose(found.test_error, 100 * expected.test_error, rtol=0.15)
    assert (found.interval.low < found.test_error).all()
    assert (found.test_error < found.interval.high).all()
    assert found.in_range.all()
    assert set(found.method) == {"one-step"}


def test_curve_of_rows_can_be_stored(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(400, penalty=0.3).test_error == fitted.predict(400, penalty=0.3).test_error


@pytest.mark.parametrize("link", [steep, KINKED])
def test_noise_and_index_of_rows_are_found(link):
    noises, cosines, overlaps = [], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        samples = draw_samples(rng, 500, 40, link, NOISE)
        found = index_evidence(samples.inputs, samples.labels, random_folds(500, rng))
        noises.append(found.model.noise_variance / np.var(samples.labels - samples.truth))
        cosines.append(found.cosine)
        overlaps.append(np.corrcoef(found.scores, samples.inputs[:, 0])[0, 1])
    assert np.mean(noises) == pytest.approx(1, abs=0.15)
    # least squares alone has 0.97 here
    assert np.mean(overlaps) > 0.99
    assert np.mean(cosines) == pytest.approx(np.mean(overlaps), abs=0.005)


def test_spline_undoes_the_average_over_what_the_index_does_not_see():
    rng = np.random.default_rng(2)
    s, h = rng.standard_normal((2, 20_000))
    cosine = 0.9
    y = steep(cosine * s + np.sqrt(1 - cosine**2) * h)
    places = np.linspace(-1.5, 1.5, 31)
    with_average, without = (fitted_link(s, y, c, None).link(places) - steep(places) for c in (cosine, 1.0))
    assert np.sqrt(np.mean(with_average**2)) < 0.06
    assert np.sqrt(np.mean(without**2)) > 0.12


@pytest.mark.parametrize("link", [lambda x: x**2 - 1, np.abs, lambda x: np.cos(2 * x)])
def test_even_targets_are_refused_with_the_reason(link):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 40))
    with pytest.raises(InputError, match=r"linear correlation with X.*even targets have none") as caught:
        LearningCurve("one-step").fit(X, link(X[:, 0]) + 0.1 * rng.standard_normal(800))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="link must have a linear coefficient"):
        LearningCurve("one-step").fit_link(link, 40, NOISE)


@pytest.mark.parametrize("power", [2, 4])
def test_even_targets_are_refused_though_their_squares_follow_the_rows(power):
    accepted = 0
    for seed in range(100):
        rng = np.random.default_rng([1, seed])
        X = rng.standard_normal((200, 5))
        try:
            index_evidence(X, X[:, 0] ** power + 0.1 * rng.standard_normal(200), random_folds(200, rng))
        except InputError:
            continue
        accepted += 1
    # 13 and 24 if y^2 were independent of x
    assert accepted <= 6


def test_noise_alone_is_almost_always_refused():
    refused = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        try:
            # twenty columns, then more columns than rows
            shape = (100, 20) if seed % 2 else (60, 80)
            index_evidence(rng.standard_normal(shape), rng.standard_normal(shape[0]), random_folds(shape[0], rng))
        except InputError:
            refused += 1
    assert refused >= 38


def test_few_rows_give_a_curve_that_is_marked_unreliable():
    rng = np.random.default_rng(1)
    samples = draw_samples(rng, 90, 60, steep, NOISE)
    found = LearningCurve("one-step", penalty=0.3).fit(samples.inputs, samples.labels).predict(500)
    assert np.isfinite(found.test_error)
    assert not found.reliable


def test_curve_is_marked_reliable_only_where_its_assumptions_hold():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((500, 20))
    noise = 0.2 * rng.standard_normal(500)
    curve = LearningCurve("one-step", penalty=0.3, kernel_params={"bias_deviation": 0.0})
    assert clone(curve).fit(X, steep(X[:, 0]) + noise).predict(500).reliable
    other_direction = clone(curve).fit(X, steep(X[:, 0]) + 0.4 * (X[:, 1] ** 2 - 1) + noise)
    assert other_direction.evidence_.other_signal > 4
    assert not other_direction.predict(500).reliable
    correlated = clone(curve).fit(X + 3 * X[:, :1], steep(X[:, 0]) + noise)
    assert correlated.evidence_.isotropy < 0.3
    assert not correlated.predict(500).reliable


def test_few_rows_features_and_dimensions_are_not_reliable():
    curve = LearningCurve("one-step", penalty=0.3).fit_link(steep, 8, NOISE)
    assert curve.predict(100, width=200).reliable
    # simulations are 20 to 40% from the theory there
    assert not curve.predict([1, 4, 10]).reliable.any()
    assert not curve.predict(100, width=[1, 5]).reliable.any()
    assert not LearningCurve("one-step", penalty=0.3).fit_link(steep, 1, NOISE).predict(100).reliable
    assert (
        not clone(curve).set_params(kernel_params={"step_samples": 5}).fit_link(steep, 8, NOISE).predict(100).reliable
    )


def test_interpolation_peak_is_not_reliable():
    curve = LearningCurve("one-step", penalty=1e-6).fit_link(steep, 30, NOISE)
    found = curve.predict([50, 200], width=200)
    assert found.test_error[1] > 2 * found.test_error[0]
    assert found.reliable.tolist() == [True, False]
    assert curve.predict(200, penalty=0.01, width=200).reliable


@pytest.mark.slow
def test_jumps_and_heavy_tails_widen_the_interval():
    def fitted_curve(link):
        samples = draw_samples(np.random.default_rng(4), 400, 20, link, 0.1)
        return LearningCurve("one-step", penalty=0.3).fit(samples.inputs, samples.labels)

    smooth, jump, tails = (fitted_curve(link) for link in (steep, np.sign, lambda s: s**3 / 4))
    assert smooth.evidence_.least_noise_variance == smooth.noise_estimate().noise_variance
    # a spline cannot follow the jump, and takes what it leaves for noise
    assert jump.noise_estimate().noise_variance > 1.25 * 0.1
    assert jump.evidence_.least_noise_variance == pytest.approx(0.1, rel=0.25)
    assert "caution" in str(jump)
    assert "caution" not in str(smooth)
    for curve in (jump, tails):
        found = curve.predict(1200, width=200)
        truth = LearningCurve("one-step", penalty=0.3).fit_link(
            "sign" if curve is jump else lambda s: s**3 / 4, 20, 0.1
        )
        assert found.interval.low < truth.predict(1200, width=200).test_error < found.interval.high
    # E y^4 / (E y^2)^2 of s^3 is 46
    assert tails.evidence_.tails > 3 * smooth.evidence_.tails
    assert not tails.predict(1200, width=200).reliable


def test_inputs_of_few_values_are_refused_with_the_reason():
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((120, 4)), rng.standard_normal(120)
    y = steep(X[:, 0]) + 0.1 * noise
    for rows, labels in [(X[:, :1] > 0, y), (np.sign(X), X[:, 0] > 0)]:
        with pytest.raises(InputError, match="X must take more values along the direction of y") as caught:
            LearningCurve("one-step", penalty=0.3).fit(rows, labels)
        assert "\n" not in str(caught.value)
    assert np.isfinite(LearningCurve("one-step", penalty=0.3).fit(np.rint(X), y).predict(300).test_error)
    clusters = LearningCurve("one-step", penalty=0.3).fit(np.sign(X), np.sign(X[:, 0]) + 0.1 * noise).predict(300)
    assert np.isfinite(clusters.test_error)
    assert not clusters.reliable


@pytest.mark.filterwarnings("error")
def test_units_and_offsets_do_not_matter():
    samples = draw_samples(np.random.default_rng(3), 200, 8, steep, NOISE)
    folds = random_folds(200, np.random.default_rng(0))
    expected = index_evidence(samples.inputs, samples.labels, folds)
    tiny = index_evidence(samples.inputs, 1e-90 * samples.labels, folds)
    assert tiny.signal == pytest.approx(expected.signal)
    with pytest.raises(InputError, match="y must have a standard deviation >= 1e-100, got"):
        LearningCurve("one-step").fit(samples.inputs, 1e-200 * samples.labels)
    # the numbers have four digits left after their offset
    far = index_evidence(samples.inputs + 1e12, samples.labels, folds)
    assert far.signal == pytest.approx(expected.signal, rel=1e-2)
    assert far.model.noise_variance == pytest.approx(expected.model.noise_variance, rel=1e-2)


def test_constant_links_are_refused_and_tiny_ones_learn_nothing():
    for link in (lambda x: 0 * x + 1, lambda x: 0 * x):
        with pytest.raises(InputError, match="link must have a linear coefficient b1"):
            LearningCurve("one-step").fit_link(link, 10, NOISE)
    found = LearningCurve("one-step", penalty=0.3).fit_link(lambda x: 1e-150 * steep(x), 10, NOISE).predict(100)
    constant = LearningCurve("one-step", penalty=0.3).fit_link(lambda x: 1e-9 * steep(x), 10, NOISE).predict(100)
    assert found.test_error == pytest.approx(constant.test_error, rel=1e-6)
    assert found.test_error > NOISE


def test_residuals_of_a_single_index_have_no_quadratic_signal():
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        samples = draw_samples(rng, 400, 20, KINKED if seed % 2 else steep, NOISE)
        found.append(index_evidence(samples.inputs, samples.labels, random_folds(400, rng)).other_signal)
    # eight standard normal numbers
    assert np.abs(found).max() < 4
    assert abs(np.mean(found)) < 4 / np.sqrt(8)


def test_pages_tell_the_curve():
    curve = LearningCurve("one-step", penalty=0.3, kernel_params={"bias_deviation": 0.0})
    samples = draw_samples(np.random.default_rng(6), 200, 8, steep, NOISE)
    page = str(clone(curve).fit(samples.inputs, samples.labels))
    assert "200 rows, features after one gradient step, penalty 0.3" in page
    assert "with twice the rows the error should fall" in page
    assert all(len(line) <= 100 for line in page.splitlines())
    figure = curve.fit_link(steep, 8, NOISE).plot()
    assert [axes.get_xlabel().split()[0] for axes in figure.axes] == ["rows", "index"]


def test_forecast_of_a_table_takes_it(tmp_path):
    samples = draw_samples(np.random.default_rng(7), 200, 8, steep, NOISE)
    header = ",".join([*(f"x{i}" for i in range(8)), "y"])
    table = np.column_stack([samples.inputs, samples.labels])
    np.savetxt(tmp_path / "table.csv", table, delimiter=",", header=header, comments="")
    found = forecast(tmp_path / "table.csv", "y", kernel="one-step", n="1x,2x")
    assert "one-step has an error of" in str(found)
    error = found["one-step"].points.test_error
    assert error[1] < error[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kernel_params": {"spike_deviations": 1.0}},
            "kernel_params of kernel='one-step' must be one of .*did you mean spike_deviation",
        ),
        ({"kernel_params": {"spike_deviation": -1.0}}, "spike_deviation must be >= 0"),
        ({"kernel_params": {"activation": "tan"}}, "activation must be one of"),
        ({"kernel_params": {"step_size": 1.0, "spike_deviation": 1.0}}, "step_size is that of the plain gradient"),
        ({"kernel_params": {"precondition": "no"}}, "precondition must be True or False, got 'no'"),
        ({"penalty": 0.0}, "penalty must be > 0"),
        ({"penalty": "best"}, "penalty must be numeric"),
        ({"confidence": 1.0}, "confidence must be"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        LearningCurve("one-step", **options).fit_link(steep, 40, NOISE)
    assert "\n" not in str(caught.value)


def test_questions_about_a_kernel_matrix_are_refused(fitted, rows):
    for question in (fitted.alignment, fitted.penalty_path):
        with pytest.raises(InputError, match="has none: ask predict"):
            question()
    X, y = rows
    with pytest.raises(InputError, match="kernel must be 'one-step' for a link"):
        LearningCurve("rbf").fit_link(steep, 40)
    with pytest.raises(InputError, match='penalty="opt" is for kernel="one-step"'):
        LearningCurve("rbf", penalty="opt").fit(X, y)
    with pytest.raises(InputError, match="link\\(\\) is for kernel='one-step'"):
        LearningCurve("rbf").fit(X[:50], y[:50]).link(0.0)
    with pytest.raises(InputError, match="y must be one target"):
        clone(fitted).fit(X, np.column_stack([y, y]))
    with pytest.raises(InputError, match="X must have a column that varies"):
        clone(fitted).fit(np.ones((50, 3)), y[:50])
    with pytest.raises(InputError, match="at least 30 rows"):
        clone(fitted).fit(X[:20], y[:20])
