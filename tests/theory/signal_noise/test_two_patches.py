import numpy as np
import pytest
from scipy.integrate import dblquad, solve_ivp
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal

from unlazy.checks import InputError
from unlazy.theory.signal_noise.growth import blow_up_time, growth_rates, power_growth
from unlazy.theory.signal_noise.label_flips import label_flip_descent, label_noise_plateau
from unlazy.theory.signal_noise.label_noise import fits_clean_labels_first, label_noise_descent
from unlazy.theory.signal_noise.relu_overfitting import (
    active_pairs,
    averaging_classifier_error,
    averaging_error,
    relu_error,
    small_start_error,
)
from unlazy.theory.signal_noise.two_patches import benign_probability, contrastive_rates, contrastive_threshold, race


def descend(weights, classes, patches, labels, power, step):
    """One gradient step of the two-layer patch network, written out; weights (R, d), patches (n, P, d)."""
    m = len(classes) // 2
    pre = np.einsum("rd,npd->rnp", weights, patches)
    output = np.einsum("r,rnp->n", classes / m, np.maximum(pre, 0.0) ** power)
    pull = labels * expit(-labels * output) / len(labels)
    slopes = power * np.where(pre > 0, np.abs(pre) ** (power - 1.0), 0.0)
    return weights + step * np.einsum("r,rnp,n,npd->rd", classes / m, slopes, pull, patches)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_growth_rates_are_those_of_a_gradient_step_with_orthogonal_patches(power):
    n, m = 6, 3
    labels = np.tile([1.0, -1.0], n // 2)
    basis = np.eye(n + 1)
    squares = np.array([4.0, 9.0, 7.0, 5.0, 8.0, 6.0])
    patches = np.stack([labels[:, None] * 1.5 * basis[0], np.sqrt(squares)[:, None] * basis[1:]], axis=1)
    classes = np.repeat([1.0, -1.0], m)
    weights = 1e-5 * np.random.default_rng(0).uniform(0.5, 1.5, (2 * m, n + 1))
    moved = descend(weights, classes, patches, labels, power, 1e-3)
    rates = growth_rates(signal_norm=1.5, noise_norm=np.sqrt(squares), power=power, n=n, width=m)
    signal, grown = 1.5 * weights[:m, 0], 1.5 * (moved - weights)[:m, 0] / 1e-3
    np.testing.assert_allclose(grown, rates.signal_growth_rate[0] * signal ** (power - 1), rtol=1e-3)
    for sample in range(n):
        own = classes == labels[sample]
        length = np.sqrt(squares[sample])
        noise, grown = length * weights[own, 1 + sample], length * (moved - weights)[own, 1 + sample] / 1e-3
        np.testing.assert_allclose(grown, rates.noise_growth_rate[sample] * noise ** (power - 1), rtol=1e-3)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 2.0001, 3.0, 4.5])
def test_power_growth_solves_its_equation(power):
    times = np.array([0.0, 0.3, 1.1])
    rate, start = 0.4, 0.9
    solution = solve_ivp(
        lambda _, x: rate * x ** (power - 1), (0, 1.1), [start], t_eval=times, rtol=1e-11, atol=1e-12, method="DOP853"
    )
    np.testing.assert_allclose(power_growth(start, rate, power, times), solution.y[0], rtol=1e-9)


def test_power_growth_has_the_limits_of_the_exponential_and_of_the_blow_up():
    np.testing.assert_allclose(power_growth(1e-3, 2.0, 2.0, 3.0), 1e-3 * np.exp(6.0), rtol=1e-14)
    np.testing.assert_allclose(power_growth(1e-3, 2.0, [2 - 1e-12, 2 + 1e-12], 3.0), 1e-3 * np.exp(6.0), rtol=1e-9)
    end = blow_up_time(0.2, 0.7, 3.0)
    np.testing.assert_allclose(end, 1 / (0.7 * 0.2))
    np.testing.assert_allclose(power_growth(0.2, 0.7, 3.0, 0.99 * end), 0.2 * 100, rtol=1e-10)
    assert power_growth(0.2, 0.7, 3.0, 1.01 * end) == np.inf
    assert (blow_up_time([0.2, -0.2, 0.0, 0.2], [1, 1, 1, 0], [2.0, 3.0, 3.0, 3.0]) == np.inf).all()
    # extreme, but legal
    np.testing.assert_allclose(power_growth(1e-90, 1e50, [1.0, 1.5], 1e-40), [1e10, 0.25e20], rtol=1e-12)
    np.testing.assert_array_equal(
        power_growth(1e100, [0.0, 1.0, 1e-300], 100.0, [1.0, 1.0, 0.0]), [1e100, np.inf, 1e100]
    )
    assert power_growth(1e-90, 1e50, 40.0, 1e50) == 1e-90
    # what is not active does not move
    np.testing.assert_array_equal(power_growth([-0.3, 0.0], 1.0, [1.0, 3.0], 5.0), [-0.3, 0.0])


def test_race_compares_the_signal_of_a_class_with_the_mean_of_its_samples():
    rng = np.random.default_rng(3)
    seeds, n, m, q, square = 40, 6, 4, 3.0, 2.5
    labels = np.array([1, -1, -1, 1, 1, -1])
    signal, noise = rng.standard_normal((seeds, 2, m)), rng.standard_normal((seeds, n, m))
    lengths = rng.uniform(3, 30, (seeds, n))
    found = race(signal, noise, np.sqrt(square), np.sqrt(lengths), labels, q)
    assert found.benign.shape == (seeds,)
    for seed in range(seeds):
        ahead = []
        for place, label in enumerate((1, -1)):
            best = max(*signal[seed, place], 0.0)
            signal_time = 4 * m / (q * (q - 2) * square * best ** (q - 2)) if best else np.inf
            noise_times = []
            for i in np.flatnonzero(labels == label):
                best = max(*noise[seed, i], 0.0)
                noise_times.append(2 * n * m / (q * (q - 2) * lengths[seed, i] * best ** (q - 2)) if best else np.inf)
            np.testing.assert_allclose(found.signal_time[seed, place], signal_time)
            np.testing.assert_allclose(found.noise_time[seed, place], np.mean(noise_times))
            ahead.append(signal_time < np.mean(noise_times))
        assert found.benign[seed] == all(ahead)
    assert 0 < found.benign.sum() < seeds


def test_the_mean_of_the_noise_times_is_what_a_signal_has_whose_samples_drop_out():
    # x' = c x^(q-1) (share of samples not memorised yet), integrated by hand
    noise_times, rate, q = np.array([1.0, 1.5, 4.0, 7.5]), 1.0, 3.0
    for start, blows_up in ((1.01 / 3.5, True), (0.99 / 3.5, False)):
        now, x = 0.0, start
        for position, end in enumerate(noise_times):
            x = power_growth(x, rate * (1 - position / 4), q, end - now) if np.isfinite(x) else x
            now = end
        assert np.isinf(x) == blows_up == (blow_up_time(start, rate, q) < noise_times.mean())


def test_at_power_2_the_rates_decide_and_the_start_does_not():
    overlaps = np.random.default_rng(0).uniform(0.1, 1, (2, 5)), np.random.default_rng(1).uniform(0.1, 1, (4, 5))
    lengths, labels = np.sqrt([10.0, 12.0, 9.0, 11.0]), [1, -1, 1, -1]
    # |mu|^2/2 against 9/4 in one class and 11/4 in the other
    assert race(*overlaps, np.sqrt(5.51), lengths, labels, 2).benign
    assert not race(*overlaps, np.sqrt(5.49), lengths, labels, 2).benign
    assert not race(1e-9 * overlaps[0], overlaps[1], np.sqrt(5.49), lengths, labels, 2).benign
    norms = np.sqrt([4.4, 4.6, 6.0])
    np.testing.assert_array_equal(race(*overlaps, norms, lengths, labels, 2).benign, [False, False, True])
    assert race(np.ones((7, 2, 5)), overlaps[1], np.sqrt(6.0), lengths, labels, 2).benign.shape == (7,)


@pytest.mark.parametrize(("power", "ratio"), [(3.0, 2.0), (4.0, 2.0), (2.0, 1.6), (2.5, 1.5)])
def test_benign_probability_is_the_share_of_drawn_races(power, ratio):
    n, d, m, draws = 10, 60, 4, 40_000
    rng = np.random.default_rng(int(10 * power))
    snr = (ratio / n) ** (1 / power)
    lengths = np.sqrt(rng.chisquare(d, (draws, n)))
    noise = lengths[..., None] * rng.standard_normal((draws, n, m))
    signal = snr * np.sqrt(d) * rng.standard_normal((draws, 2, m))
    share = race(signal, noise, snr * np.sqrt(d), lengths, np.tile([1, -1], n // 2), power).benign.mean()
    deviation = np.sqrt(share * (1 - share) / draws)
    assert 0.05 < share < 0.95
    assert 0.2 * share > 4 * deviation
    np.testing.assert_allclose(benign_probability(snr, power, n, d, m), share, atol=4 * deviation + 0.01)


def test_benign_probability_runs_from_0_to_1_and_broadcasts():
    grid = benign_probability([0.0, 0.02, 0.5, 50.0], 3.0, n=[[10], [40]], d=1e6, width=10)
    assert grid.shape == (2, 4)
    np.testing.assert_allclose(grid[:, 0], 0)
    np.testing.assert_allclose(grid[:, -1], 1, atol=3e-3)  # a class without active neuron: 2 / 2^10
    assert (np.diff(grid, axis=1) >= 0).all()


def test_relu_error_agrees_with_an_independent_computation():
    levels = [0.5, 1, 2, 4]
    np.testing.assert_allclose(
        relu_error(levels, 0.5), [0.0884240142, 0.0380416699, 0.0094700320, 0.0008306080], atol=1e-9
    )
    np.testing.assert_allclose(
        relu_error(levels, 0.8), [0.1777479677, 0.1197521221, 0.0637547798, 0.0219143443], atol=1e-9
    )
    np.testing.assert_allclose(
        relu_error(levels, 1.0), [0.2197317061, 0.1674727369, 0.1080676729, 0.0519105466], atol=1e-9
    )


def test_relu_error_has_its_limits():
    assert (relu_error(0.0, [0.1, 0.5, 1.0]) == 0.5).all()
    np.testing.assert_allclose(relu_error(1e-14, [0.1, 0.5]), 0.5, atol=1e-6)
    # few active pairs: h is linear with slope p/2
    np.testing.assert_allclose(relu_error([1e-7, 1e-6], 1e-3), ndtr(-np.sqrt([1e-7, 1e-6]) / 1e-3), rtol=1e-2)
    # all active: P(z2 > L + relu(z1))
    level = np.sqrt(0.7 / 2)
    density = multivariate_normal(np.zeros(2)).pdf
    positive, _ = dblquad(lambda b, a: density((a, b)), 0, 10, lambda a: a + level, 12)
    np.testing.assert_allclose(relu_error(0.7, 1.0), positive + ndtr(-level) / 2, rtol=1e-7)
    np.testing.assert_allclose(relu_error(0.7, 1 - 1e-10), relu_error(0.7, 1.0), rtol=1e-4)
    assert 0 <= relu_error(1e100, 0.5) < 1e-300
    assert (np.diff(relu_error(np.geomspace(1e-6, 1e3, 40), 0.7)) < 0).all()


@pytest.mark.parametrize("overlap", [None, 0.6])
def test_relu_error_is_that_of_neurons_drawn_one_by_one(overlap):
    # w_jr.xi = (shared part) + (own part), averaged over very many neurons by hand
    rng = np.random.default_rng(5)
    p, level, draws, neurons = 0.75, 1.3, 40_000, 400
    boost = 1.0 if overlap is None else overlap / p**2
    own = np.sqrt(boost * p - p**2)
    sums = []
    for _ in range(2):
        normals = np.sort(rng.standard_normal(neurons))
        normals = (normals - normals[::-1]) / 2
        normals /= normals.std()
        shared = p * rng.standard_normal(draws)
        sums.append(np.maximum(shared[:, None] + own * normals, 0).mean(axis=1))
    wrong = np.mean(sums[0] - sums[1] < -boost * np.sqrt(level / 2))
    deviation = np.sqrt(wrong * (1 - wrong) / draws)
    assert 0.2 * wrong > 8 * deviation
    np.testing.assert_allclose(relu_error(level, p, overlap), wrong, atol=4 * deviation + 0.02 * wrong)


def test_active_pairs_are_those_of_patches_that_push_each_other():
    # every patch of a class and one neuron: x_i' = sum over active k of J_ik, and active for ever above 0
    rng = np.random.default_rng(8)
    size, repeats, end = 400, 6, 8.0
    fractions = []
    for _ in range(repeats):
        normal = rng.standard_normal((size, size))
        push = np.triu(normal, 1) + np.triu(normal, 1).T
        position = rng.standard_normal(size)
        active = position > 0
        now, step = 0.0, 0.005
        while now < end:
            position = position + step * push @ active / np.sqrt(size)
            active |= position > 0
            now += step
        fractions.append(active.mean())
    deviation = np.std(fractions, ddof=1) / np.sqrt(repeats)
    assert deviation < 0.01
    np.testing.assert_allclose(active_pairs(end).active_fraction, np.mean(fractions), atol=4 * deviation + 0.003)


def test_active_pairs_start_at_one_half_and_only_grow():
    found = active_pairs(np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 30)]))
    np.testing.assert_allclose([field[0] for field in found], [0.5, 0.25, 0.5, 0.5])
    for field in found[:3]:
        assert (np.diff(field) >= 0).all()
    assert (found.both_active_fraction >= found.active_fraction**2 - 1e-9).all()
    assert (found.active_time_share <= found.active_fraction + 1e-12).all()
    assert (found.squared_active_time_share <= found.active_time_share + 1e-12).all()
    # early, E relu of N(0, t^2/2) times the normal density at 0
    small = 0.02
    np.testing.assert_allclose(active_pairs(small).active_fraction - 0.5, small / (2 * np.pi * np.sqrt(2)), rtol=0.05)
    assert active_pairs(1e4, first_step_time=100.0).active_fraction > active_pairs(1e4).active_fraction + 0.03


def trained_relu_network(n, d, m, start, level, step, loss, seed):
    """Test error and active fraction of a network trained on [y mu, xi], in the coordinates of its own tokens."""
    rng = np.random.default_rng(seed)
    size = n + 2 * m
    factor = np.tril(rng.standard_normal((size, size)), -1)
    factor[np.diag_indices(size)] = np.sqrt(rng.chisquare(d - 1 - np.arange(size)))
    noise, weights = factor[:n], factor[n:] * start / np.sqrt(d)
    square = np.sqrt(level * d / n)
    signal = start / np.sqrt(d) * np.sqrt(square) * rng.standard_normal(2 * m)
    labels, classes = np.tile([1.0, -1.0], n // 2), np.repeat([1.0, -1.0], m)
    gram, initial = noise @ noise.T, weights @ noise.T
    coefficients = np.zeros((2 * m, n))
    for _ in range(5000):
        pre = initial + coefficients @ gram
        both = signal[:, None] * labels
        margins = labels * (classes @ (np.maximum(both, 0) + np.maximum(pre, 0))) / m
        if np.logaddexp(0, -margins).mean() < loss:
            break
        pull = step * n * m / d * labels * expit(-margins) / n * classes[:, None] / m
        signal = signal + square * ((both > 0) * pull * labels).sum(axis=1)
        coefficients = coefficients + (pre > 0) * pull
    else:
        raise AssertionError("not trained")
    fresh = rng.standard_normal((8000, size)) @ factor.T
    noise_part = np.maximum(fresh[:, :n] @ coefficients.T + start / np.sqrt(d) * fresh[:, n:], 0) @ classes
    both = [np.maximum(y * signal, 0) @ classes for y in (1, -1)]
    error = ((noise_part + both[0] < 0).mean() + (noise_part + both[1] > 0).mean()) / 2
    return error, (pre > 0)[classes[:, None] == labels].mean()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "start", "level"), [(60, 1e6, 1e-3, 0.5), (100, 4e5, 1e-2, 2.0)])
def test_small_start_error_is_that_of_trained_networks(n, d, start, level):
    runs = np.array([trained_relu_network(n, d, 40, start, level, 0.3, 0.02, [seed, n]) for seed in range(24)])
    errors, active = runs.mean(axis=0)
    deviations = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    found = small_start_error(level, n, d, start, stop_loss=0.02, relative_step_size=0.3)
    # a tenth for n, m and d/n that are finite
    np.testing.assert_allclose(found.test_error, errors, atol=4 * deviations[0] + 0.1 * errors)
    np.testing.assert_allclose(found.active_fraction, active, atol=4 * deviations[1] + 0.02)
    assert 4 * deviations[0] < 0.1 * errors


def test_small_start_error_ends_at_the_margin_that_the_loss_asks_for():
    found = small_start_error([0.0, 1.0], 80, 1e6, 1e-4, stop_loss=0.02)
    tau = found.memorised[1] * np.sqrt(80 / 2e6) / 1e-4
    pairs = active_pairs(tau)
    np.testing.assert_allclose(np.logaddexp(0, -found.memorised[1] * pairs.active_time_share), 0.02, rtol=1e-3)
    np.testing.assert_allclose(found.active_fraction[1], pairs.active_fraction, rtol=1e-6)
    assert found.test_error[0] == 0.5
    # a tiny start: everything is active from the beginning of time
    late = small_start_error(1.0, 80, 1e6, 1e-9)
    pairs = active_pairs(1e4)
    again = relu_error(1.0, pairs.active_fraction, pairs.both_active_fraction)
    np.testing.assert_allclose(late.test_error, again, rtol=0.02)


def test_label_noise_without_pushes_has_its_invariant_and_without_flips_a_closed_form():
    # d so large that patches do not push each other: half of the pairs are active
    steps, f, x = np.array([0, 40, 600]), 0.2, 6.0
    found = label_noise_descent(x, 60, 1e40, 0.01, 0.05, steps, f)
    np.testing.assert_allclose(found.active_fraction, 0.5, atol=1e-6)
    share = (1 - f) * found.clean_noise - f * found.flipped_noise
    np.testing.assert_allclose(found.mean_signal_coefficient / x, share, rtol=1e-6)
    # margin M + e^M = 1 + (x/2 + p) t, the limit of small steps
    time = np.array([2.0, 30.0])
    whole, half = (label_noise_descent(3.0, 60, 1e40, 0.01, e, time / e, 0.0).clean_margin for e in (0.02, 0.01))
    limit = 2 * half - whole
    np.testing.assert_allclose(limit + np.exp(limit), 1 + 2.0 * time, rtol=2e-3)


def wrong_label_network(n, d, m, start, x, step, f, steps, seed):
    """Signal, clean noise, flipped noise, active fraction and test error of a trained network, in its own tokens."""
    rng = np.random.default_rng(seed)
    size = n + 2 * m
    factor = np.tril(rng.standard_normal((size, size)), -1)
    factor[np.diag_indices(size)] = np.sqrt(rng.chisquare(d - 1 - np.arange(size)))
    noise, weights = factor[:n], factor[n:] * start / np.sqrt(d)
    square = x * d / n
    signal = start / np.sqrt(d) * np.sqrt(square) * rng.standard_normal(2 * m)
    truth, classes = np.tile([1.0, -1.0], n // 2), np.repeat([1.0, -1.0], m)
    wrong = np.arange(n) < round(f * n)
    labels = np.where(wrong, -truth, truth)
    gram, initial, coefficients = noise @ noise.T, weights @ noise.T, np.zeros((2 * m, n))
    begin = signal
    for _ in range(steps):
        pre, both = initial + coefficients @ gram, signal[:, None] * truth
        margins = labels * (classes @ (np.maximum(both, 0) + np.maximum(pre, 0))) / m
        pull = step * n * m / d * labels * expit(-margins) / n * classes[:, None] / m
        signal = signal + square * ((both > 0) * pull * truth).sum(axis=1)
        coefficients = coefficients + (pre > 0) * pull
    own = classes[:, None] == labels
    memorised = np.where(own, coefficients * np.diagonal(gram), 0).sum(axis=0) / m
    fresh = rng.standard_normal((4000, size)) @ factor.T
    noise_part = np.maximum(fresh[:, :n] @ coefficients.T + start / np.sqrt(d) * fresh[:, n:], 0) @ classes
    both = [np.maximum(y * signal, 0) @ classes for y in (1, -1)]
    error = ((noise_part + both[0] < 0).mean() + (noise_part + both[1] > 0).mean()) / 2
    active = (initial + coefficients @ gram > 0)[own].mean()
    return (classes * (signal - begin)).mean(), memorised[~wrong].mean(), memorised[wrong].mean(), active, error


@pytest.mark.parametrize(("x", "d"), [(1.0, 600.0), (8.0, 6e4)])
def test_label_noise_descent_is_that_of_trained_networks(x, d):
    n, m, start, step, f, steps = 60, 20, 0.01, 0.05, 0.3, 200
    runs = np.array([wrong_label_network(n, d, m, start, x, step, f, steps, [seed, n]) for seed in range(12)])
    deviations = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    found = label_noise_descent(x, n, d, start, step, steps, f)
    means = runs.mean(axis=0)
    learned = (found.mean_signal_coefficient, found.clean_noise, found.flipped_noise)
    theory = np.array([*learned, found.active_fraction, found.test_error])
    # a tenth for n and m that are finite, and what 4000 draws do not see
    assert (np.abs(theory - means) < 0.1 * means + 4 * deviations + 1e-4).all()
    assert (4 * deviations < 0.2 * means + 1e-4).all()


def test_clean_labels_are_fitted_first_iff_the_signal_leads_at_the_start():
    for ratio in (1.6, 1.7):
        early = label_noise_descent(ratio, 60, 1e40, 0.01, 1e-3, 3, 0.2)
        leads = early.mean_signal_coefficient > early.flipped_noise
        assert fits_clean_labels_first(ratio, 0.5, 0.2) == leads == (ratio > 1 / 0.6)


def flipped_network(n, m, start, x, e, p, steps, seed):
    """log of the growth of the signal, and the margins of samples by their own noise, for orthogonal patches."""
    rng = np.random.default_rng(seed)
    patches = np.zeros((n, 2, n + 1))
    classes, truth = np.repeat([1.0, -1.0], m), np.tile([1.0, -1.0], n // 2)
    # |xi|^2 = 1 and |mu|^2 = x/n, so that eta = e n m
    patches[:, 0, 0] = truth * np.sqrt(x / n)
    patches[np.arange(n), 1, np.arange(n) + 1] = 1.0
    weights = begin = start * rng.standard_normal((2 * m, n + 1))
    for _ in range(steps):
        labels = np.where(rng.random(n) < p, -truth, truth)
        weights = descend(weights, classes, patches, labels, 2, e * n * m)
    alive = classes * begin[:, 0] > 0
    margins = np.maximum(weights[:, 1:], 0) ** 2
    return np.log(weights[alive, 0] / begin[alive, 0]).mean(), (margins * (classes[:, None] == truth)).sum(axis=0) / m


@pytest.mark.parametrize("p", [0.0, 0.1, 0.2])
def test_label_flip_descent_is_that_of_orthogonal_patches(p):
    n, m, start, x, e, steps = 100, 10, 0.05, 0.1, 0.4, 60
    runs = [flipped_network(n, m, start, x, e, p, steps, seed) for seed in range(8)]
    found = label_flip_descent(x, n, 1e6, m, start, e, steps, p)
    growth, margins = np.array([run[0] for run in runs]), np.array([run[1].mean() for run in runs])
    for values, theory in ((growth, found.log_signal_growth), (margins, found.noise_margin)):
        deviation = values.std(ddof=1) / np.sqrt(len(runs))
        np.testing.assert_allclose(theory, values.mean(), atol=4 * deviation + 0.03 * values.mean())
        assert 4 * deviation < 0.35 * values.mean()


def test_label_flips_leave_a_pull_of_second_order_and_none_without_them():
    x, e, p = 0.1, 0.05, 0.2
    growth = label_flip_descent(x, 40, 1e4, 10, 0.05, e, [2000, 5000], p).log_signal_growth
    pull = np.diff(growth)[0] / (3000 * e * x)
    # the mean of s is half of that of 2 e s^2 where log F has no drift; s^2 is p (1 - p) at rest
    np.testing.assert_allclose(pull, e * p * (1 - p), rtol=0.3)
    plain = label_flip_descent(x, 40, 1e4, 10_000, 0.05, 0.01, [0, 2000], 0.0)
    # all samples start alike: G = G_0 (F/F_0)^(x/2)
    gained = np.log(plain.noise_margin[1] / plain.noise_margin[0])
    np.testing.assert_allclose(plain.log_signal_growth[1], x / 4 * gained, rtol=0.02)


def test_label_flip_descent_has_an_error_of_one_half_without_signal_and_of_zero_after_it_took_over():
    found = label_flip_descent([0.0, 0.2], 40, 4000, 10, 0.05, 0.5, [[100], [2000]], 0.2)
    np.testing.assert_allclose(found.test_error[:, 0], 0.5)
    assert found.test_error[0, 1] > 0.4
    assert found.test_error[1, 1] == 0


def test_the_plateau_balances_flips():
    p = np.array([0.01, 0.2, 0.4])
    found = label_noise_plateau(p)
    np.testing.assert_allclose((1 - p) * expit(-found.margin), p * expit(found.margin), rtol=1e-12)
    np.testing.assert_allclose(found.clean_loss, np.logaddexp(0, -found.margin), rtol=1e-12)
    assert label_noise_plateau(0.0).margin == np.inf


def test_contrastive_rates_are_eigenvalues_of_the_two_encoders():
    # <w, mu>' = |mu|^2/2 <v, C mu>, <v, C mu>' = C^2 |mu|^2/2 <w, mu>; |mu|^2 = x sigma^2 d / n
    x, gain = 0.6, 3.0
    together = np.linalg.eigvals(np.array([[0, x / 2], [gain**2 * x / 2, 0]])).max()
    np.testing.assert_allclose(contrastive_rates(x, gain).signal_growth_rate, together)
    np.testing.assert_allclose(contrastive_rates([x, 2 * x]).signal_growth_rate, [x / 2, x])
    assert (contrastive_rates([x, 2 * x]).noise_growth_rate == 1).all()


def test_at_the_contrastive_threshold_signal_and_noise_come_to_one_together():
    x, n, d, width, start = 0.6, 40, 1000, 24, 1e-6
    rng = np.random.default_rng(0)
    encoders = rng.standard_normal((2, 400, width, 1 + n)).mean(0)
    signal = np.median(np.abs(encoders[..., 0]).max(-1)) * start * np.sqrt(x * d / n)
    noise = np.median(encoders[..., 1:].max((-2, -1))) * start * np.sqrt(d)
    gain = contrastive_threshold(x, n, d, width, start)
    rates = contrastive_rates(x, gain)
    assert np.log(1 / signal) / rates.signal_growth_rate == pytest.approx(np.log(1 / noise), rel=0.01)
    assert contrastive_threshold(x, n, d, width, 1e-200) == pytest.approx(2 / x, rel=0.01)
    assert contrastive_threshold(x, n, d, width, 0.1) == np.inf


def test_averaging_errors_agree_and_are_those_of_a_simulation():
    n, d = 40, 600
    rng = np.random.default_rng(2)
    variances = rng.uniform(0.3, 2.0, d)
    mean = 0.08 * rng.standard_normal(d)
    level = n * (mean @ mean) ** 2 / d
    np.testing.assert_allclose(
        averaging_classifier_error(mean, 1.0, n), averaging_error(level, np.linalg.norm(mean)), rtol=1e-12
    )
    np.testing.assert_allclose(averaging_error(level), ndtr(-np.sqrt(level)), rtol=1e-12)
    expected = averaging_classifier_error(mean, variances, n)
    np.testing.assert_allclose(averaging_classifier_error(mean, np.diag(variances), n), expected, rtol=1e-12)
    errors = []
    for _ in range(400):
        weights = mean + np.sqrt(variances / n) * rng.standard_normal(d)
        errors.append(ndtr(-weights @ mean / np.sqrt(weights**2 @ variances)))
    deviation = np.std(errors) / np.sqrt(len(errors))
    np.testing.assert_allclose(expected, np.mean(errors), atol=4 * deviation)
    assert 4 * deviation < 0.2 * np.mean(errors)
    assert averaging_error(0.0) == averaging_classifier_error(np.zeros(3), 1.0, 5) == 0.5
    assert averaging_classifier_error(np.ones(3), 0.0, 5) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: growth_rates(1, 1, 0.5, 10, 5), "power must be >= 1"),
        (lambda: power_growth(1, 1, 3, -1), "time must be >= 0"),
        (
            lambda: race(np.ones((2, 3)), np.ones((4, 5)), 1, np.ones(4), [1, 1, -1, -1], 3),
            "signal_overlaps must have shape",
        ),
        (
            lambda: race(np.ones((2, 5)), np.ones((4, 5)), 1, np.ones(3), [1, 1, -1, -1], 3),
            "noise_norm must have shape",
        ),
        (lambda: race(np.ones((2, 5)), np.ones((4, 5)), 1, np.ones(4), [1, 1, -1, -1], 1), "power must be"),
        (lambda: race(np.ones((2, 5)), np.ones((4, 5)), 1, np.ones(4), [1, 1, 1, 1], 3), "labels must be 4 numbers"),
        (lambda: benign_probability(0.1, 3, 11, 100, 5), "n must be even"),
        (lambda: relu_error(1, 0), "active_fraction must be"),
        (lambda: relu_error(-1, 0.5), "signal_level must be"),
        (lambda: relu_error(1, 0.5, 0.2), "both_active_fraction must be >= p"),
        (lambda: label_noise_descent(1, 60, 600, 0.01, 0.1, 10, 0.5), "flip_probability must be >= 0 and < 0.5"),
        (lambda: label_noise_descent(1, 60, 600, 0.01, 1.0, 10, 0.1), "relative_step_size must be"),
        (lambda: label_noise_descent(1, 60, 600, 0.01, 0.1, 1e9, 0.1), "steps must be"),
        (lambda: label_flip_descent(1, 60, 600, 10, 0.01, 0.6, 10, 0.1), "relative_step_size must be"),
        (lambda: label_flip_descent(1, 60, 600, 2.5, 0.01, 0.5, 10, 0.1), "width must be"),
        (lambda: label_noise_plateau(0.5), "flip_probability must be"),
        (lambda: small_start_error(1, 80, 1e6, 0.0), "initial_scale must be"),
        (lambda: averaging_classifier_error(np.ones(3), np.ones(4), 5), "covariance must be"),
        (
            lambda: small_start_error(1, 80, 1e6, 1e-3, relative_step_size=1.0),
            "relative_step_size must be >= 0 and <= 0.5, got 1",
        ),
        (lambda: averaging_classifier_error(np.ones(3), -1.0, 5), "positive semi-definite"),
        (
            lambda: averaging_classifier_error([1.0, 0.0], [[1.0, 5.0], [5.0, 1.0]], 5),
            "positive semi-definite, got the variance -4",
        ),
        (lambda: benign_probability(np.nan, 3, 10, 100, 5), "signal_to_noise must be"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
