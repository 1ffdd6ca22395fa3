"""Kernel regression on the sphere learns degree by degree; without a penalty the risk peaks at each new one."""

import numpy as np

from unlazy.functions.orthogonal import Gegenbauer
from unlazy.plotting.style import log_scale, panels, shades
from unlazy.theory import kernel_regression_equivalent

multiplicities = np.array(Gegenbauer(30).multiplicities(3), dtype=float)
spectrum = np.array([0, 1, 0.02, 0.02**2]) / multiplicities
n = np.geomspace(5, 3000, 400)
penalties = [1e-6, 1e-2, 1e-1]
figure, axes = panels(width=4.5)
for penalty, colour in zip(penalties, shades(len(penalties)), strict=True):
    found = kernel_regression_equivalent(
        spectrum, [0, 1, 0.3, 0.1], n, penalty, noise_variance=0.3, multiplicities=multiplicities
    )
    axes.plot(n, found.risk, color=colour, label=f"penalty {penalty:g}")
for degree, style in ((1, "-"), (2, "--")):
    axes.axvline(multiplicities[degree], color="0.7", linestyle=style, label=f"functions of degree {degree}")
log_scale(axes)
axes.set(xlabel="samples $n$", ylabel="risk")
axes.legend()
