"""What the studies of one gradient step share: links, planted spikes, and the readout after steps of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.lab import parameter
from unlazy.plotting.panels import Level
from unlazy.theory.one_step.moments import link_moments
from unlazy.theory.one_step.spiked.features import gradient_step_equivalent
from unlazy.theory.one_step.spiked.statistics import NeuronGroups

LINKS: dict[str, Callable[[Any], Any] | str] = {"erf": "erf", "tanh": "tanh", "tanh3": lambda x: np.tanh(3 * x)}
"""Names of activations, or functions; tanh3 is tanh(3 x)."""
ACTIVATIONS = ("erf", "tanh")
PLANTED = {"none": (0.0,), "one group": (1.5,), "two groups": (2.0, -1.0), "four groups": (-1.5, -0.5, 0.7, 1.5)}
"""Spikes of groups of equal size."""
FRESH = 2000


def link_function(name: str) -> Any:
    """The link of that name on arrays."""
    link = LINKS[name]
    return as_activation(link) if isinstance(link, str) else link


def bound(link: str) -> float:
    """|P_{>1} g|^2, below which no kernel and no step of order one comes in this scaling."""
    return link_moments(LINKS[link]).nonlinear


KERNEL_BOUND = Level(
    lambda data: bound(str(np.atleast_1d(parameter(data, "link"))[-1])), "bound of all kernels", dashed=True
)
"""The line of `bound` for the link of a run's data, the last one if there are several."""


def planted_groups(name: str) -> Any:
    """The groups for the theory; the rest of each neuron has norm 1."""
    spikes = np.array(PLANTED[name])
    return NeuronGroups(np.full(spikes.size, 1 / spikes.size), spikes, np.ones(spikes.size))


def memory(study: Any) -> int:
    """Bytes of a readout of `n` samples on `width` neurons."""
    n, d, width = study.n, study.d, study.width
    return 8 * (3 * n + 5000) * (width + d) + 8 * 4 * min(n, width) ** 2


def simulated_risks(
    rng: np.random.Generator, study: Any, step_sizes: Sequence[float], support: Sequence[float] | None = None
) -> dict[str, Any]:
    """Risk and training error after steps of these sizes on one network, at the ridge of the study."""
    from unlazy.training.one_step.gradient_step import step_risks

    sizes = (study.n, study.d, study.width, study.noise_variance, step_sizes, (study.ridge,))
    found = step_risks(rng, study.activation, link_function(study.link), *sizes, support=support, fresh=FRESH)
    return {name: errors[:, 0] for name, errors in found._asdict().items()}


def predicted_risks(study: Any, step_sizes: Any, ridge: Any, support: Sequence[float] | None = None) -> dict[str, Any]:
    """The spiked-random-feature equivalent of `simulated_risks`; step sizes and ridge broadcast."""
    sizes = (study.n, study.d, study.width, step_sizes, ridge, study.noise_variance)
    second = "normal" if support is None else support
    theory = gradient_step_equivalent(study.activation, LINKS[study.link], *sizes, second_layer=second)
    return {"risk": theory.risk, "training_error": theory.training_error}
