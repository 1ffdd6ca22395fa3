"""What the studies of one gradient step share: links, one drawn instance at several step sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.lab import parameter

LINKS: dict[str, Callable[[Any], Any] | str] = {"erf": "erf", "tanh": "tanh", "tanh3": lambda x: np.tanh(3 * x)}
"""Names of activations, or functions; tanh3 is tanh(3 x)."""
ACTIVATIONS = ("erf", "tanh")
FRESH = 2000


def link_function(name: str) -> Any:
    """The link of that name on arrays."""
    from unlazy.functions.activations import activation

    link = LINKS[name]
    return activation(link) if isinstance(link, str) else link


def step_risks(
    rng: np.random.Generator,
    activation: str,
    link: str,
    n: int,
    d: int,
    features: int,
    noise_variance: float,
    step_sizes: Sequence[float],
    ridges: Sequence[float],
    *,
    n_step: int | None = None,
    support: Sequence[float] | None = None,
) -> dict[str, np.ndarray]:
    """Risk and training error by step size and ridge; all step sizes share network, gradient, readout and test data."""
    from unlazy.functions.activations import activation as activation_of
    from unlazy.theory.one_step.moments import activation_moments
    from unlazy.training.one_step.gradient_step import draw_samples, first_step, readout

    sigma, g = activation_of(activation), link_function(link)
    step_data = draw_samples(rng, n if n_step is None else n_step, d, g, noise_variance)
    linear = activation_moments(activation).linear
    step = first_step(rng, step_data, features, sigma, sigma.derivative, linear, support=support)
    data, test = draw_samples(rng, n, d, g, noise_variance), draw_samples(rng, FRESH, d, g, 0.0)
    found = []
    for size in step_sizes:
        weights = step.weights(size)
        known, new = (sigma(points.inputs @ weights) for points in (data, test))
        found.append(readout(known, data.labels, new, test.truth, ridges))
    return {
        "risk": np.array([f.risk for f in found]),
        "training_error": np.array([f.training_error for f in found]),
    }


def predicted_step_risks(
    activation: str,
    link: str,
    n: int,
    d: int,
    features: int,
    noise_variance: float,
    step_sizes: Sequence[float],
    ridges: Sequence[float],
    *,
    n_step: int | None = None,
    support: Sequence[float] | None = None,
) -> dict[str, np.ndarray]:
    """The spiked-random-feature equivalent of `step_risks`."""
    from unlazy.theory.one_step.spiked.features import gradient_step_equivalent

    theory = gradient_step_equivalent(
        activation,
        LINKS[link],
        np.array(step_sizes)[:, None],
        n,
        d,
        features,
        np.array(ridges),
        noise_variance,
        n_step=n_step,
        second_layer="normal" if support is None else support,
    )
    return {"risk": theory.risk, "training_error": theory.training_error}


def kernel_bound(data: Any) -> float:
    """`bound` for the link of a run's data, the last one if there are several."""
    return bound(str(np.atleast_1d(parameter(data, "link"))[-1]))


def bound(link: str) -> float:
    """|P_{>1} g|^2, below which no kernel and no step of order one comes in this scaling."""
    from unlazy.theory.one_step.moments import link_moments

    return link_moments(LINKS[link]).nonlinear
