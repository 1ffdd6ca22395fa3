"""The risk of ridge regression peaks where it begins to interpolate, n = d, unless the ridge is large enough."""

import numpy as np

from unlazy.plotting.style import log_scale, panels, shades
from unlazy.theory import ridge_equivalent

n = np.geomspace(20, 2000, 400)
ridges = [0, 1e-3, 1e-2, 1e-1]
figure, axes = panels(width=4.5)
for ridge, colour in zip(ridges, shades(len(ridges)), strict=True):
    found = ridge_equivalent(spectrum=[1], multiplicities=[200], prior=1 / 200, n=n, ridge=ridge, noise_variance=0.2)
    axes.plot(n, found.risk, color=colour, label=f"ridge {ridge:g}")
log_scale(axes)
axes.set(xlabel="samples $n$", ylabel="risk", ylim=(1e-2, 30))
axes.legend()
