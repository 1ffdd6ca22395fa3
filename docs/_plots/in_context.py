"""Linear attention on new tasks errs most where it interpolates its prompts; the best ridge removes the peak."""

import numpy as np

from unlazy.plotting.style import log_scale, panels, shades
from unlazy.theory import bayes_error, linear_attention_errors, optimal_ridge

prompts = np.geomspace(0.1, 30, 400)
system = {"context_per_dimension": 2, "tasks_per_dimension": 2, "noise_variance": 0.25}
ridges = [0, 1e-2, 1e-1]
figure, axes = panels(width=4.5)
for ridge, colour in zip(ridges, shades(len(ridges)), strict=True):
    found = linear_attention_errors(prompts, ridge_times_dimension=ridge, **system)
    axes.plot(prompts, found.new_task_error, color=colour, label=f"ridge times $d$ {ridge:g}")
best = optimal_ridge(prompts, **system).errors.new_task_error
axes.plot(prompts, best, color="black", label="best ridge")
axes.axhline(bayes_error(2, 0.25), color="grey", linestyle=":", label="Bayes")
log_scale(axes)
axes.set(xlabel=r"prompts $\tau = n/d^2$", ylabel="error on new tasks", ylim=(0.3, 30))
axes.legend()
