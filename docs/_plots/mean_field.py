"""How fast the free energy falls to its least value: interaction helps, and the guarantee is far below both."""

import numpy as np

from unlazy.plotting.style import COLOURS, log_scale, panels
from unlazy.theory import decay_rates, scalar_problem


def bump(x):
    return np.exp(-2 * x**2)


heat = np.geomspace(0.05, 3, 25)
problem = {"interaction": 2, "target_mean": 0.3, "confinement": 0.2}
found = [decay_rates(scalar_problem(bump, np.tanh, temperature=each, **problem)) for each in heat]
figure, axes = panels(width=4.5)
labels = {"decay_rate": "exact", "frozen_decay_rate": "frozen drift", "guaranteed_decay_rate": "guaranteed"}
for (name, label), colour in zip(labels.items(), COLOURS, strict=False):
    axes.plot(heat, [getattr(rates, name) for rates in found], color=colour, label=label)
log_scale(axes)
axes.set(xlabel=r"temperature $\lambda_2$", ylabel=r"decay rate of $\mathcal{L}-\mathcal{L}_*$", ylim=(1e-9, 10))
axes.legend()
