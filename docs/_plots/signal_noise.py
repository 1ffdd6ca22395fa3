"""A network that fits its samples learns their common signal if n SNR^q is large, and their noise if it is small."""

import numpy as np

from unlazy.plotting.style import log_scale, panels, shades
from unlazy.theory import benign_probability

signal_strength = np.geomspace(0.1, 30, 200)
powers = [2, 3, 4]
figure, axes = panels(width=4.5)
for power, colour in zip(powers, shades(len(powers)), strict=True):
    ratio = (signal_strength / 20) ** (1 / power)
    found = benign_probability(signal_to_noise=ratio, power=power, n=20, d=20_000, width=10)
    axes.plot(signal_strength, found, color=colour, label=rf"$\mathrm{{ReLU}}^{power}$")
log_scale(axes, "x")
axes.set(xlabel=r"signal strength $n\,\mathrm{SNR}^q$", ylabel="probability of benign overfitting", ylim=(0, 1.02))
axes.legend()
