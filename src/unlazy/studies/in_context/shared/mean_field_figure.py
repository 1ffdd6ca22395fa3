"""The figure of `mean-field-attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import parameter
from unlazy.studies.in_context.shared.mean_field import MAPS, MODELS, ROWS, TASKS, landscapes

if TYPE_CHECKING:
    from unlazy.lab import Part


def draw_runs(main: Part, misaligned: Part) -> Any:
    """Losses of both parts, transfer errors, and slopes of the landscape with their bound."""
    from unlazy.plotting import style

    figure, axes = style.panels(4, 1, width=2.9, height=2.9)
    for panel, part in zip(axes[:2], (main, misaligned), strict=True):
        data, floor = part.simulated, float(part.predicted.floor)
        for index, name in enumerate(MODELS):
            loss = data.loss.sel(model=name) - floor
            panel.plot(data.step, loss.mean("seed"), color=style.colour(index), linewidth=0.8)
            style.simulation(panel, data.step, loss, color=style.colour(index), marker=style.marker(index), label=name)
        linear = float(data.linear_floor.mean()) - floor
        if linear > 0:
            style.theory(panel, [0, float(data.step[-1])], [linear] * 2, color="#000000", dashed=True, label="affine")
        style.log_scale(panel, "y")
        true = int(parameter(data, "true_features"))
        panel.set(xlabel="step", ylabel="loss" if floor == 0 else f"loss $-\\,{floor:g}r$", title=f"$k' = {true}$")
    axes[0].legend()
    places = np.arange(len(TASKS))
    for index, name in enumerate(MAPS):
        error = main.simulated.transfer.sel(feature_map=name)
        color = "#000000" if name == "teacher" else style.colour((index - 1) % 6)
        style.simulation(
            axes[2], places + 0.14 * (index - 2), error, color=color, marker=style.marker(index), label=name
        )
    axes[2].set_xticks(places, ["$v\\cdot f$", "$\\max_j f_j$", "$|f|^2$"])
    style.log_scale(axes[2], "y")
    axes[2].set(ylabel="error / second moment", title=f"prompts of {ROWS} rows")
    axes[2].legend(fontsize=7)
    found = landscapes(main.simulated)
    for index, (values, label) in enumerate(((found.derivative, "slope"), (found.bound, "bound"))):
        axes[3].plot(found.loss.ravel(), -values.ravel(), ".", color=style.colour(index), markersize=3, label=label)
    low, high = -found.bound.max(), -found.derivative.min()
    axes[3].set_ylim(low / 2, high * 12)
    style.log_scale(axes[3], "y")
    axes[3].set(xlabel="loss $L/r$", ylabel="descent towards a rotated teacher")
    axes[3].legend(loc="upper right", ncols=2)
    return figure
