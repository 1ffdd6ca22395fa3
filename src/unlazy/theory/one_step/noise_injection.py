"""Ridge regression on random features of noisy copies of the inputs, and the penalty that the copies stand for.

    b minimises (1/(n l)) sum_i sum_{j <= l} (y_i - b.sigma(W^T (x_i + delta z_ij)))^2 + ridge |b|^2

with delta^2 = `input_noise_variance`, z ~ N(0, I_d), labels y = g(x.beta) + noise (centred) and W_ij ~ N(0, 1/d),
d x N, as in `gradient_step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.functions.elementwise import Link, as_activation
from unlazy.numerics.gaussian import normal_averages
from unlazy.numerics.roots import increasing_root
from unlazy.theory.one_step.moments import (
    LARGEST,
    ROUNDING,
    VANISHING,
    activation_moments,
    at_limits,
    check_ratio,
    link_moments,
    wishart_resolvent,
)

_TABLE_DENSITY = 50
_LARGEST_NOISE = 1e12
# of the second moment: rounding errors of quadrature
_NOT_ROUGH = 1e-13
# what is left of 0 at its limit
_NOTHING = 1e-40


class NoiseMoments(NamedTuple):
    """Of sigma(u + delta z), u and z standard normal."""

    constant: float
    """E sigma."""
    linear: float
    """L = E[u sigma], the slope of the noise-averaged activation."""
    smooth: float
    """v_b = E (E_z sigma)^2 - constant^2 - L^2: what is nonlinear in the noise-averaged activation."""
    rough: float
    """v_r = E Var_z sigma - L^2 delta^2: what is nonlinear in the noise."""


class NoiseInjection(NamedTuple):
    """Every field has the broadcast shape of the numeric arguments."""

    risk: np.ndarray
    """E (f_hat - g)^2 on clean inputs."""
    test_error: np.ndarray
    """risk + noise_variance."""
    training_error: np.ndarray
    """Mean squared residual over all noisy copies."""
    objective: np.ndarray
    """training_error + ridge |b|^2."""


def noise_moments(activation: Any, input_noise_variance: float) -> NoiseMoments:
    """The moments of an activation of noisy inputs, delta^2 = `input_noise_variance` >= 0.

    >>> found = noise_moments("tanh", input_noise_variance=0.25)
    >>> print(f"{found.linear:.4f} {found.smooth:.4f} {found.rough:.4f}")
    0.565 0.0165 0.0195
    """
    delta = _deviation(input_noise_variance)
    function = as_activation(activation)
    smooth = normal_averages("activation", _averaged(function, delta), 0.0, 1.0)

    def noise_part(u: np.ndarray) -> np.ndarray:
        given = normal_averages("activation", function, u, delta)
        # the offset lets rounding errors of vanishing noise pass
        return given.rest + (given.linear - delta * smooth.linear) ** 2 + offset

    mean, linear, rest = (float(value) for value in smooth)
    offset = mean**2 + linear**2 + rest
    rough = normal_averages("activation", Link("own", noise_part, breakpoints=function.breakpoints), 0.0, 1.0).mean
    excess = float(rough) - offset
    return NoiseMoments(mean, linear, rest, excess if excess > _NOT_ROUGH * offset else 0.0)


def noise_averaged(activation: Any, input_noise_variance: float) -> Callable[[ArrayLike], np.ndarray]:
    """The noise-averaged activation h -> E_z sigma(h + delta z), by a table for many h.

    >>> print(noise_averaged("relu", input_noise_variance=1)([-1, 0, 1]))
    [0.08332 0.3989 1.083]
    """
    delta, sigma = _deviation(input_noise_variance), as_activation(activation)
    if not delta:
        return lambda h: sigma(check_array("h", h))
    value = _averaged(sigma, delta).value

    def tabulated(h: ArrayLike) -> np.ndarray:
        from scipy.interpolate import CubicSpline

        places = check_array("h", h)
        low, high = places.min(), places.max()
        # it varies on the scale delta, so that cubic interpolation is good to about 1e-9
        count = (high - low) / min(delta, 1.0) * _TABLE_DENSITY + 2
        if high == low or places.size <= count:
            return value(places)
        table = np.linspace(low, high, math.ceil(count))
        return CubicSpline(table, value(table))(places)

    return tabulated


def noise_penalty(activation: Any, first_layer: ArrayLike, input_noise_variance: float) -> np.ndarray:
    """The N x N matrix of which infinitely many noisy copies are the penalty, for a first layer W (d x N).

        (1/n) sum_i (y_i - b.E_z sigma(W^T (x_i + delta z)))^2 + b.(ridge + L^2 delta^2 W^T W + v_r) b

    Leading order for W_ij ~ N(0, 1/d) and Gaussian inputs. Dhifallah & Lu (2021).

    >>> print(noise_penalty("tanh", first_layer=[[1, 0.6], [0, 0.8]], input_noise_variance=0.25).round(4))
    [[0.0993 0.0479]
     [0.0479 0.0993]]
    """
    delta = _deviation(input_noise_variance)
    w = check_array("first_layer", first_layer, ndim=2)
    moments = noise_moments(activation, input_noise_variance)
    return (moments.linear * delta) ** 2 * w.T @ w + moments.rough * np.eye(w.shape[1])


def noise_injection_equivalent(
    activation: Any,
    link: Any,
    samples_per_dimension: ArrayLike,
    width_per_dimension: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    input_noise_variance: float,
    copies: ArrayLike = math.inf,
) -> NoiseInjection:
    """Test error on clean inputs and training error with `copies` (l) noisy copies of each input, without drawing data.

    The l copies of a sample are one mean (A) and l - 1 differences (B). With p = 1/(1 + chi) and the resolvents m, u of
    `wishart_resolvent` at t = B/A, N/d,

        A = p_A L^2 (1 + delta^2/l) + p_B (1 - 1/l) L^2 delta^2 + J mu1^2,             w = t m u / A,
        B = ridge + p_A (v_b + v_r/l) + p_B (1 - 1/l) v_r + J mu*^2,                      v = u / A,
        psi1 chi_A = L^2 (1 + delta^2/l) w + (v_b + v_r/l) v,              psi1 chi_B = (L^2 delta^2 w + v_r v) / l,
        Phi = (p_A + J) E y^2 - (p_A L + J mu1)^2 b1^2 w,

    test error = dPhi/dJ, objective = Phi and training error = Phi - ridge dPhi/dridge at J = 0, all computed as sums of
    positive terms. copies = infinity is ridge regression on the noise-averaged features with `noise_penalty`;
    input_noise_variance 0 is `one_step_risk`. Ridge 0 and infinite ratios are limits as there; `copies` and
    `width_per_dimension` must not both be infinite.

    Exact as n, d and N grow in proportion, for odd activations or centred features. Dhifallah & Lu (2021) for
    infinitely many copies; own derivation for finitely many.

    >>> found = noise_injection_equivalent(
    ...     "tanh", "sign", 2.5, 1.5, ridge=1e-3, noise_variance=0.04, input_noise_variance=0.25, copies=[1, 3, 100]
    ... )
    >>> print(found.test_error)
    [1.162 0.7594 0.6778]
    """
    clean, target = activation_moments(activation), link_moments(link)
    slope = clean.linear_square()
    delta = _deviation(input_noise_variance)
    noisy = noise_moments(activation, input_noise_variance)
    scale = noisy.linear**2 + noisy.smooth + noisy.rough
    if abs(noisy.linear) <= VANISHING * math.sqrt(noisy.constant**2 + scale):
        raise InputError(
            "input_noise_variance must leave the activation a linear part L = E[u sigma(u + delta z)] != 0, got L = "
            f"{noisy.linear:g} at {delta**2:g}"
        )
    given_samples = check_ratio("samples_per_dimension", samples_per_dimension)
    given_features = check_ratio("width_per_dimension", width_per_dimension)
    given_ridge = check_array("ridge", ridge, low=0, high=LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    number = check_ratio("copies", check_array("copies", copies, low=1, finite=False))
    named = {"samples_per_dimension": given_samples, "width_per_dimension": given_features, "ridge": given_ridge}
    shape = common_shape(**named, noise_variance=noise, copies=number)
    numbers = np.broadcast_arrays(*named.values(), noise, number)
    given_samples, given_features, given_ridge, noise, number = (a.reshape(-1) for a in numbers)
    rest = noisy.smooth + noisy.rough > ROUNDING * scale
    distinct = number if delta > 0 else 1.0
    psi1, psi2, ridge, inside, peak = at_limits(given_samples, given_features, given_ridge, rest, scale, distinct)
    system = _Copies(noisy, delta, number, psi1, psi2, ridge)
    p = system.solved()
    state = system.state(p, slice(None))
    f, g, learned = state.linear, state.rest, state.learned

    # dPhi/dlog p over p_A; a square and its spread in place of 1 - 2 x + y
    signal, unexplained = target.linear**2, target.nonlinear + noise
    excess = f[0] * (delta**2 / number) / (1 + delta**2 / number)
    share = f[0] - excess
    shrunk = excess + f[1] + share / (1 + state.u)
    spread = f[0] * state.learned_spread + excess * learned**2 + g[0] * state.mixed
    by_p = np.stack(
        [
            unexplained + signal * (shrunk**2 + share * spread),
            signal * share * (f[1] * state.squared + g[1] * state.mixed),
        ]
    )
    adjoint = system.adjoint(state, p, by_p)
    fitted = share / noisy.linear
    missed = (1 - fitted * clean.linear * learned) ** 2
    missed += fitted**2 * (slope * state.learned_spread + clean.nonlinear * state.mixed)
    through = np.sum(adjoint * system.shift(state, slope, clean.nonlinear), axis=0) * fitted / noisy.linear
    error = target.nonlinear + signal * missed + through
    nothing = target.nonlinear + signal * missed <= VANISHING * (target.variance + noise)
    risk = np.where(peak, np.where(nothing & (noise == 0), 0.0, np.inf), error)
    by_group = [by_p[i] + np.sum(adjoint * system.shift(state, f[i], g[i]), axis=0) for i in range(2)]
    weight = np.where(inside | (p[0] > _NOTHING), p[0], 0.0)
    objective = weight * (unexplained + signal * shrunk)
    training = np.where(weight > 0, weight * np.sum(p * by_group, axis=0), 0.0)
    fields = (risk, risk + noise, training, objective)
    return NoiseInjection(*(field.reshape(shape)[()] for field in fields))


class _State(NamedTuple):
    """At weights p: the parts of A and B in units of A, and the derivatives of A^2 w and A^2 v in positive terms."""

    linear: np.ndarray
    rest: np.ndarray
    ridge: np.ndarray
    u: np.ndarray
    learned: np.ndarray
    """A w."""
    squared: np.ndarray
    """-A^2 dw/dA."""
    mixed: np.ndarray
    """-A^2 dw/dB = -A^2 dv/dA."""
    plain: np.ndarray
    """-A^2 dv/dB."""
    learned_spread: np.ndarray
    """-A^2 dw/dA - (A w)^2."""


class _Copies:
    """p (1 + chi) = 1 for the means (first) and the differences (second) of copies.

    The derivatives of p_i (1 + chi_i) by log p_j are positive for i = j and negative else, with positive row sums, so
    that nothing cancels in their inverse.
    """

    def __init__(
        self,
        noisy: NoiseMoments,
        delta: float,
        number: np.ndarray,
        psi1: np.ndarray,
        psi2: np.ndarray,
        ridge: np.ndarray,
    ) -> None:
        one, others = 1 / number, 1 - 1 / number
        squared, noise_squared = noisy.linear**2, (noisy.linear * delta) ** 2
        self.linear = np.stack([squared + noise_squared * one, noise_squared * others])
        self.rest = np.stack([noisy.smooth + noisy.rough * one, noisy.rough * others])
        self.scale = np.stack([1 / psi1, 1 / (psi1 * np.where(number > 1, number - 1, 1))])
        self.psi1, self.psi2, self.ridge = psi1, psi2, ridge

    def solved(self) -> np.ndarray:
        """p (2, cases), the second root inside the first."""
        cases = np.arange(self.psi1.size)
        lowest = (1 - 1e-9) / (1 + self.scale * (self.linear + self.rest) * (self.psi2 / self.ridge))

        def second(p: np.ndarray, first: np.ndarray, cases: np.ndarray) -> np.ndarray:
            rows = cases.astype(int)
            both = np.stack([first, p])
            state = self.state(both, rows)
            return p + self.scale[1, rows] * (state.linear[1] * state.learned + state.rest[1] * state.u) - 1

        def differences(p: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return increasing_root(second, lowest[1, rows], 1.0, p, rows)

        def first(p: np.ndarray, cases: np.ndarray) -> np.ndarray:
            rows = cases.astype(int)
            state = self.state(np.stack([p, differences(p, rows)]), rows)
            fitted, other = state.linear * state.learned + state.rest * state.u
            # psi2 = fitted + free: the smaller of the two keeps its digits
            free = other + state.ridge * state.u
            psi1, psi2 = self.psi1[rows], self.psi2[rows]
            return p - np.where(fitted < free, 1 - fitted / psi1, (psi1 - psi2 + free) / psi1)

        found = increasing_root(first, lowest[0], 1.0, cases)
        return np.stack([found, differences(found, cases)])

    def state(self, p: np.ndarray, rows: Any) -> _State:
        linear, rest = p * self.linear[:, rows], p * self.rest[:, rows]
        whole = linear.sum(axis=0)
        linear, rest, ridge = linear / whole, rest / whole, self.ridge[rows] / whole
        t = ridge + rest.sum(axis=0)
        m, u = wishart_resolvent(t, self.psi2[rows])
        total, learned = 1 + u + m, u / (1 + u)
        return _State(
            linear,
            rest,
            ridge,
            u,
            learned,
            learned * ((u + m) / total),
            u / total * m,
            u / total * ((1 + u) / t),
            learned * (m / total) / (1 + u),
        )

    def shift(self, state: _State, linear: Any, rest: Any) -> np.ndarray:
        """-A p_i dchi_i when A and B grow by `linear` and `rest`."""
        by_linear = state.squared * linear + state.mixed * rest
        by_rest = state.mixed * linear + state.plain * rest
        return self.scale * (state.linear * by_linear + state.rest * by_rest)

    def adjoint(self, state: _State, p: np.ndarray, sources: np.ndarray) -> np.ndarray:
        """The sources times the inverse of the derivatives of p (1 + chi) by log p."""
        f, g = state.linear, state.rest
        coupling = f[0] * f[1] * state.squared + (f[0] * g[1] + g[0] * f[1]) * state.mixed + g[0] * g[1] * state.plain
        sums = p + self.scale * state.ridge * (f * state.mixed + g * state.plain)
        off = self.scale * coupling
        diagonal = sums + off
        determinant = sums[0] * diagonal[1] + off[0] * sums[1]
        return (
            np.stack([sources[0] * diagonal[1] + sources[1] * off[1], sources[0] * off[0] + sources[1] * diagonal[0]])
            / determinant
        )


def _averaged(function: Link, delta: float) -> Link:
    def value(h: ArrayLike) -> np.ndarray:
        return normal_averages("activation", function, h, delta).mean

    return Link("own", value, breakpoints=function.breakpoints)


def _deviation(input_noise_variance: Any) -> float:
    variance = check_array("input_noise_variance", input_noise_variance, low=0, high=_LARGEST_NOISE)
    if variance.ndim:
        raise InputError(f"input_noise_variance must be one number, got shape {variance.shape}")
    return math.sqrt(variance)
