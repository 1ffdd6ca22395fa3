"""What a wrong score costs is at most the integral of its squared error: with constant 1, and not with 1/4."""

import numpy as np

from unlazy.plotting.style import log_scale, panels, shades
from unlazy.theory import gaussian_score_error, scaled_score_error

time = np.geomspace(0.02, 5, 200)
costs = {
    "variance 0.8 for 0.5": gaussian_score_error(0, 0.5, 0, 0.8, time),
    "mean 0.2 for 0": gaussian_score_error(0, 0.3, 0.2, 0.3, time),
    "1.4 times the score": scaled_score_error(0.5, 1.4, time),
}
figure, axes = panels(width=4.5)
for (name, cost), colour in zip(costs.items(), shades(len(costs)), strict=True):
    axes.plot(time, cost.divergence / cost.integral, color=colour, label=name)
for constant, style in ((1, "--"), (0.25, ":")):
    axes.axhline(constant, color="0.5", linestyle=style, linewidth=0.8)
log_scale(axes, "x")
axes.set(xlabel="time $T$", ylabel=r"KL over $\int E\,|s-\hat s|^2\,dt$", ylim=(0, 1.05))
axes.legend()
