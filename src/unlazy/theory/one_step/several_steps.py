"""Several gradient steps on the first layer: what the second large one learns that the first could not.

Network and step are those of `unlazy.theory.one_step.gradient_step`, each step with n0 samples of its own. Steps of
order one need no theory of their own: their output stays small, so that t of them are one step of size t eta on the
same samples, or on the t n0 samples of all, for `one_step_risk`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape
from unlazy.functions.elementwise import Link, as_activation
from unlazy.numerics.gaussian import normal_averages, normal_nodes
from unlazy.theory.one_step.moments import LARGEST, activation_moments, check_ratio

_NODES = 80


def staircase_component(
    activation: Any, step_samples_per_dimension: ArrayLike, relative_step_size: ArrayLike, noise_variance: ArrayLike
) -> np.ndarray:
    """The mean over the neurons of their weight along x_2 after two large steps, for the target y = x_1 + x_1 x_2.

        E_alpha[h alpha (c/s) E[z sigma'(s z)]],
        c = h alpha mu1,    s^2 = c^2 + 1 + (h alpha)^2 E y^2 E sigma'^2 / psi0

    with alpha = sqrt(N) a_i standard normal and h = eta / sqrt(N) (`relative_step_size`). After the first step a neuron
    sees x_1 with weight c, and through it x_1 x_2 is linear in x_2 for the second; the first alone leaves 0 there. Odd
    activations have 0 too.

    Exact as n0 = psi0 d, d and N grow in proportion, with fresh samples in the second step. Own computation, for the
    staircase of Dandi, Krzakala, Loureiro, Pesce & Stephan (2024).

    >>> print(staircase_component("relu", [2, 8], relative_step_size=1, noise_variance=0.01))
    [0.1223 0.1448]
    """
    moments, function = activation_moments(activation), as_activation(activation)
    psi0 = check_ratio("step_samples_per_dimension", step_samples_per_dimension)
    step = check_array("relative_step_size", relative_step_size, low=0, high=LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=LARGEST)
    shape = common_shape(step_samples_per_dimension=psi0, relative_step_size=step, noise_variance=noise)
    psi0, step, noise = (np.broadcast_to(a, shape)[..., None] for a in (psi0, step, noise))
    alpha, weights = normal_nodes(_NODES)
    moved = step * alpha
    c = moved * moments.linear
    s = np.sqrt(c**2 + 1 + moved**2 * (2 + noise) * moments.slope_square() / psi0)
    slope = Link("slope", function.slope, breakpoints=function.breakpoints)
    bent = normal_averages("activation", slope, 0.0, s).linear
    return (moved * c / s * bent @ weights)[()]
