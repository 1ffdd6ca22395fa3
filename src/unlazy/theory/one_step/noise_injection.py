"""Ridge regression on random features of noisy copies of the inputs, and the penalty that the copies stand for.

    b minimises (1/(n l)) sum_i sum_{j <= l} (y_i - b.sigma(W^T (x_i + delta z_ij)))^2 + ridge |b|^2

with z ~ N(0, I_d), labels y = g(x.beta) + noise (centred) and W_ij ~ N(0, 1/d), d x N, as in `gradient_step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.functions.elementwise import Link, as_activation
from unlazy.numerics.fixed_points import newton
from unlazy.numerics.gaussian import normal_averages
from unlazy.theory.one_step.moments import (
    SMALLEST_RIDGE,
    activation_moments,
    link_moments,
    require_linear,
    wishart_resolvent,
)

_LARGEST = 1e150
_SWEEPS = 60
_SHORT_STEP = 1e-13
_NO_VARIANCE = 1e-150
_TABLE_DENSITY = 50


class NoiseMoments(NamedTuple):
    """Of sigma(u + delta z), u and z standard normal."""

    mean: float
    """E sigma."""
    linear: float
    """L = E[u sigma], the slope of the noise-averaged activation."""
    smooth: float
    """v_b = E (E_z sigma)^2 - mean^2 - L^2: what is nonlinear in the noise-averaged activation."""
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


def noise_moments(activation: Any, input_noise: float) -> NoiseMoments:
    """The moments of an activation of noisy inputs, delta = `input_noise` >= 0."""
    delta = _level(input_noise)
    function = as_activation(activation)
    smooth = normal_averages("activation", _averaged(function, delta), 0.0, 1.0)

    def noise_part(u: np.ndarray) -> np.ndarray:
        given = normal_averages("activation", function, u, delta)
        # the offset lets rounding errors of vanishing noise pass
        return given.rest + (given.linear - delta * smooth.linear) ** 2 + offset

    mean, linear, rest = (float(value) for value in smooth)
    offset = mean**2 + linear**2 + rest
    rough = normal_averages("activation", Link("own", noise_part, breakpoints=function.breakpoints), 0.0, 1.0).mean
    return NoiseMoments(mean, linear, rest, max(float(rough) - offset, 0.0))


def noise_averaged(activation: Any, input_noise: float) -> Callable[[ArrayLike], np.ndarray]:
    """The noise-averaged activation h -> E_z sigma(h + delta z), by a table for many h."""
    delta = _level(input_noise)
    value = _averaged(as_activation(activation), delta).value

    def tabulated(h: ArrayLike) -> np.ndarray:
        from scipy.interpolate import CubicSpline

        places = check_array("h", h)
        low, high = places.min(), places.max()
        # it varies on the scale delta, so that cubic interpolation is good to about 1e-9
        count = (high - low) / min(delta, 1.0) * _TABLE_DENSITY + 2 if delta > 0 else math.inf
        if high == low or places.size <= count:
            return value(places)
        table = np.linspace(low, high, math.ceil(count))
        return CubicSpline(table, value(table))(places)

    return tabulated


def noise_penalty(activation: Any, input_noise: float, weights: ArrayLike) -> np.ndarray:
    """The N x N matrix of which infinitely many noisy copies are the penalty, for weights W (d x N).

        (1/n) sum_i (y_i - b.E_z sigma(W^T (x_i + delta z)))^2 + b.(ridge + L^2 delta^2 W^T W + v_r) b

    Leading order for W_ij ~ N(0, 1/d) and Gaussian inputs. Dhifallah & Lu (2021).
    """
    delta = _level(input_noise)
    w = check_array("weights", weights, ndim=2)
    moments = noise_moments(activation, delta)
    return (moments.linear * delta) ** 2 * w.T @ w + moments.rough * np.eye(w.shape[1])


def noise_injection_equivalent(
    activation: Any,
    link: Any,
    samples_ratio: ArrayLike,
    features_ratio: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    input_noise: float,
    copies: ArrayLike = math.inf,
) -> NoiseInjection:
    """Test error on clean inputs and training error with `copies` (l) noisy copies of each input, without drawing data.

    The l copies of a sample are one mean (A) and l - 1 differences (B). With p = 1/(1 + chi) and the resolvents m, u of
    `wishart_resolvent` at t = B/A, N/d,

        A = p_A L^2 (1 + delta^2/l) + p_B (1 - 1/l) L^2 delta^2 + J mu1^2,             w = t m u / A,
        B = ridge + p_A (v_b + v_r/l) + p_B (1 - 1/l) v_r + J mu*^2,                      v = u / A,
        psi1 chi_A = L^2 (1 + delta^2/l) w + (v_b + v_r/l) v,              psi1 chi_B = (L^2 delta^2 w + v_r v) / l,
        Phi = (p_A + J) E y^2 - (p_A L + J mu1)^2 b1^2 w,

    test error = dPhi/dJ, objective = Phi and training error = Phi - ridge dPhi/dridge at J = 0. copies = infinity is
    ridge regression on the noise-averaged features with `noise_penalty`; input_noise 0 is `one_step_risk`.

    Exact as n, d and N grow in proportion, for odd activations or centred features. Dhifallah & Lu (2021) for
    infinitely many copies; own derivation for finitely many.
    """
    clean, target = activation_moments(activation), link_moments(link)
    slope = require_linear(clean)
    delta = _level(input_noise)
    noisy = noise_moments(activation, delta)
    psi1 = check_array("samples_ratio", samples_ratio, above=0, high=_LARGEST)
    psi2 = check_array("features_ratio", features_ratio, above=0, high=_LARGEST)
    ridge = check_array("ridge", ridge, low=SMALLEST_RIDGE, high=_LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    number = check_array("copies", copies, low=1, finite=False)
    named = {"samples_ratio": psi1, "features_ratio": psi2, "ridge": ridge, "noise_variance": noise, "copies": number}
    shape = common_shape(**named)
    psi1, psi2, ridge, noise, number = (a.reshape(-1) for a in np.broadcast_arrays(psi1, psi2, ridge, noise, number))

    one, others = 1 / number, 1 - 1 / number
    squared, noise_squared = noisy.linear**2, (noisy.linear * delta) ** 2
    linear = np.stack([squared + noise_squared * one, noise_squared * others])
    rest = np.stack([noisy.smooth + noisy.rough * one, noisy.rough * others])
    scale = np.stack([1 / psi1, 1 / (psi1 * np.where(number > 1, number - 1, 1))])
    system = _Copies(linear, rest, scale, psi2, ridge)
    log_chi = system.solved()

    chi = np.exp(log_chi)
    p = 1 / (1 + chi)
    jacobian, state = system.derivative(log_chi)
    w, w_linear, w_rest = state.w, state.w_linear, state.w_rest
    fitted, signal = p[0] * noisy.linear, target.linear**2
    energy = target.variance + noise
    objective = p[0] * energy - fitted**2 * signal * w
    by_weights = -(fitted**2) * signal * (w_linear * linear + w_rest * rest)
    by_weights[0] += energy - 2 * fitted * noisy.linear * signal * w
    # the adjoint of the two equations
    sources = np.moveaxis(by_weights * -chi * p**2, 0, -1)[..., None]
    adjoint = np.linalg.solve(np.moveaxis(jacobian, (0, 1), (-1, -2)), sources)[..., 0].T
    by_j = energy - 2 * fitted * clean.linear * signal * w
    by_j -= fitted**2 * signal * (w_linear * slope + w_rest * clean.nonlinear)
    test = by_j - np.sum(adjoint * system.shift(state, slope, clean.nonlinear), axis=0)
    norm = -(fitted**2) * signal * w_rest - np.sum(adjoint * system.shift(state, 0.0, 1.0), axis=0)
    fields = (test - noise, test, objective - ridge * norm, objective)
    return NoiseInjection(*(field.reshape(shape)[()] for field in fields))


class _State(NamedTuple):
    variance: np.ndarray
    w: np.ndarray
    v: np.ndarray
    w_linear: np.ndarray
    w_rest: np.ndarray
    v_linear: np.ndarray
    v_rest: np.ndarray


class _Copies:
    """The two equations chi = X(chi) for the means and the differences of copies, in logarithms."""

    def __init__(
        self, linear: np.ndarray, rest: np.ndarray, scale: np.ndarray, psi2: np.ndarray, ridge: np.ndarray
    ) -> None:
        self.linear, self.rest, self.scale, self.psi2, self.ridge = linear, rest, scale, psi2, ridge

    def solved(self) -> np.ndarray:
        start = np.zeros(self.linear.shape)
        for _ in range(_SWEEPS):
            start = (start + np.log(self.state(start).variance)) / 2
        return newton(self.equations, start.T, tolerance=_SHORT_STEP).T

    def equations(self, log_chi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The residuals (cases, 2) and their derivatives."""
        jacobian, state = self.derivative(log_chi.T)
        return log_chi - np.log(state.variance).T, np.moveaxis(jacobian, (0, 1), (-2, -1))

    def state(self, log_chi: np.ndarray) -> _State:
        p = 1 / (1 + np.exp(log_chi))
        a = np.sum(p * self.linear, axis=0)
        t = (self.ridge + np.sum(p * self.rest, axis=0)) / a
        m, u, _, u_slope = wishart_resolvent(t, self.psi2)
        w, v = t * m * u / a, u / a
        v_rest = u_slope / a**2
        v_linear = -v / a - t * v_rest
        # both are derivatives of one log determinant
        w_rest, w_linear = v_linear, -w / a - t * v_linear
        # without differences of copies (l = 1 or infinity) there is no chi_B
        variance = np.maximum((self.linear * w + self.rest * v) * self.scale, _NO_VARIANCE)
        return _State(variance, w, v, w_linear, w_rest, v_linear, v_rest)

    def shift(self, state: _State, linear: Any, rest: Any) -> np.ndarray:
        """The derivative of the residuals when A and B grow by `linear` and `rest`."""
        w_change = state.w_linear * linear + state.w_rest * rest
        v_change = state.v_linear * linear + state.v_rest * rest
        return -(self.linear * w_change + self.rest * v_change) * self.scale / state.variance

    def derivative(self, log_chi: np.ndarray) -> tuple[np.ndarray, _State]:
        state = self.state(log_chi)
        chi = np.exp(log_chi)
        rate = -chi / (1 + chi) ** 2
        columns = [self.shift(state, self.linear[i] * rate[i], self.rest[i] * rate[i]) for i in range(2)]
        return np.stack(columns, axis=1) + np.eye(2)[:, :, None], state


def _averaged(function: Link, delta: float) -> Link:
    def value(h: ArrayLike) -> np.ndarray:
        return normal_averages("activation", function, h, delta).mean

    return Link("own", value, breakpoints=function.breakpoints)


def _level(input_noise: Any) -> float:
    level = check_array("input_noise", input_noise, low=0, high=_LARGEST)
    if level.ndim:
        raise InputError(f"input_noise must be one number, got shape {level.shape}")
    return float(level)
