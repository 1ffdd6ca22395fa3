"""Test errors (lines) and training errors (dashed) of three losses that learn a sign, from state evolution alone."""

import numpy as np

from unlazy.plotting.style import colour, log_scale, panels
from unlazy.theory import glm_state_evolution

d = 200
samples_per_dimension = np.geomspace(0.3, 30, 60)
figure, axes = panels(width=4.5)
for i, loss in enumerate(("square", "logistic", "hinge")):
    found = glm_state_evolution(
        spectrum=[1 / d],
        squared_cross_covariance=1 / d**2,
        teacher_variance=1,
        n=d * samples_per_dimension,
        penalty=1e-2,
        loss=loss,
        multiplicities=d,
    )
    axes.plot(samples_per_dimension, found.test_error, color=colour(i), label=loss)
    axes.plot(samples_per_dimension, found.training_error, "--", color=colour(i))
log_scale(axes, "x")
axes.set(xlabel="samples per dimension $n/d$", ylabel="share of wrong labels", ylim=(0, 0.5))
axes.legend(title="loss")
