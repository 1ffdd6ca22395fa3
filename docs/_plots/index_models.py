"""A ReLU neuron finds the direction of a cubic link if it uses each example twice; long steps are fast, and stall."""

import numpy as np

from unlazy.plotting.style import panels, shades
from unlazy.theory import overlap_path, stall_overlap

n = np.linspace(0, 300, 301)
sizes = [0.05, 0.1, 0.2, 0.4]
figure, axes = panels(width=4.5)
for size, colour in zip(sizes, shades(len(sizes)), strict=True):
    path = overlap_path("He3", samples_per_dimension=n, step_size=size, sign=-1)
    axes.plot(n, path, color=colour, label=f"step size {size:g}")
    axes.axhline(stall_overlap("He3", step_size=size, sign=-1), color=colour, linestyle=":", linewidth=1)
once = overlap_path("He3", samples_per_dimension=n, step_size=0.1, sign=-1, reuse=False)
axes.plot(n, once, color="0.5", linestyle="--", label="each example once")
axes.set(xlabel="samples per dimension $n/d$", ylabel="overlap", ylim=(-0.03, 1.4))
axes.legend(loc="upper left", ncols=2)
