"""Only a step of order sqrt(N) takes the risk below what every kernel keeps, and there is a best size of it."""

import numpy as np

from unlazy.plotting.style import log_scale, panels, shades
from unlazy.theory import gradient_step_equivalent, link_moments


def link(x):
    return np.tanh(3 * x)


n = [500, 1000, 4000]
step_size = np.geomspace(0.5, 200, 20)
figure, axes = panels(width=4.5)
for samples, colour in zip(n, shades(len(n)), strict=True):
    found = gradient_step_equivalent("erf", link, samples, 250, 500, step_size, ridge=0.03, noise_variance=0.01)
    axes.plot(step_size, found.risk, color=colour, label=f"$n = {samples}$")
axes.axhline(link_moments(link).nonlinear, color="0.5", linestyle="--", label="bound of all kernels")
axes.axvline(np.sqrt(500), color="0.8", label=r"$\sqrt{N}$")
log_scale(axes)
axes.set(xlabel=r"step size $\eta$", ylabel="risk")
axes.legend()
