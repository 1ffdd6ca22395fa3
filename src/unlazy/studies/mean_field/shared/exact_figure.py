"""The panels of `mfld-exact`."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.lab import Part, parameter
from unlazy.studies.mean_field.shared.exact_checks import (
    EARLY,
    ERRORS,
    added_by_width,
    batch_bias,
    has_rule,
    knees,
    step_bias,
)


def _first(data: Any, **wanted: Any) -> Any:
    """The data at given values of those axes that it has; the last value of all other axes."""
    for name in data.dims:
        if name not in ("seed", "checkpoint", *wanted):
            data = data.isel({name: -1})
    return data.sel({name: value for name, value in wanted.items() if name in data.dims})


def draw_decay(axes: Any, width_axes: Any, part: Part) -> None:
    from unlazy.plotting import style

    # early times, of which what width adds has many, would crowd the other panel
    data, exact = (x.isel(checkpoint=~x.checkpoint.isin(EARLY[1:])) for x in (part.simulated, part.predicted))
    time = data.checkpoint.values * float(np.atleast_1d(parameter(data, "step_size"))[-1])
    shown = _first(data, interaction=np.atleast_1d(parameter(data, "interaction")))
    predicted = _first(exact, interaction=np.atleast_1d(parameter(data, "interaction")))
    a, h, c = (float(np.atleast_1d(parameter(data, name))[-1]) for name in ("curvature", "field", "target"))
    for index, b in enumerate(np.atleast_1d(parameter(data, "interaction"))):
        best, text = (h + b * c) / (a + b), f"mean, $b = {b:g}$"
        style.simulation(axes, time, abs(_first(shown, interaction=b).mean_place - best), color=style.colour(index))
        line = abs(_first(predicted, interaction=b).mean_place - best)
        style.theory(axes, time, line, color=style.colour(index), label=text)
    heat, rate = (float(np.atleast_1d(parameter(data, name))[-1]) for name in ("temperature", "step_size"))
    end = 2 * heat / (a * (2 - rate * a))
    gap = abs(_first(data).spread - end)
    style.simulation(axes, time[:-1], gap.isel(checkpoint=slice(-1)), color=style.colour(2), marker="s")
    line = abs(_first(exact).spread - end).isel(checkpoint=slice(-1))
    style.theory(axes, time[:-1], line, color=style.colour(2), label="variance")
    axes.set(ylim=(1e-2, 3), xlabel="time", ylabel="distance from the end", title="decay of the moments")
    style.log_scale(axes, "y")
    axes.legend()

    data = part.simulated
    time = data.checkpoint.values * rate
    for index, number in enumerate(np.atleast_1d(parameter(data, "particles"))):
        one, color = _first(data, particles=number), style.colour(index)
        width_axes.plot(
            time, added_by_width(one, one.mean("seed")), style.marker(index), color=color, label=f"$N = {number:g}$"
        )
        if not index:
            theory = _first(part.predicted, particles=number)
            style.theory(width_axes, time, added_by_width(one, theory), color="black", label="theory, any $N$")
    width_axes.set(xlabel="time", ylabel=r"$N(\mathcal{L}^N/N - \mathcal{L})$", title="what finite width adds")
    width_axes.legend()


def draw_biases(axes: Any, step: Part | None, batch: Part | None) -> None:
    from unlazy.plotting import style

    if step is not None and "step_size" in step.simulated.dims:
        for index, name in enumerate(("energy", "free energy")):
            measured, exact = step_bias(step, name), step_bias(step, name, step.predicted)
            axes.plot(measured.step_size, measured, style.marker(index), color=style.colour(index))
            text = f"step, {'F' if name == 'energy' else 'L'}"
            style.theory(axes, exact.step_size, exact, color=style.colour(index), label=text)
    if batch is not None and "step_size" in batch.simulated.dims:
        measured, exact = batch_bias(batch, batch.simulated.mean("seed")), batch_bias(batch, batch.predicted)
        for index, name in enumerate(np.atleast_1d(parameter(batch.simulated, "batches")), 2):
            found, line = (x.sel(batches=name) if "batches" in x.dims else x for x in (measured, exact))
            axes.plot(found.step_size, found, style.marker(index), color=style.colour(index))
            style.theory(axes, line.step_size, line, color=style.colour(index), label=f"batch, {name}")
    axes.set(xlabel=style.label("step size", r"\eta"), ylabel="bias", title="what steps and batches add")
    style.log_scale(axes)
    axes.set_ylim(5e-5, 0.5)
    axes.legend(fontsize=7, loc="upper left")


def draw_knees(axes: Any, part: Part | None) -> None:
    from unlazy.plotting import style

    if part is None or not has_rule(part.simulated):
        axes.axis("off")
        return
    cases = {("free energy", 1.0): "free energy", ("energy", 1.0): "energy", ("free energy", 0.5): "start near the end"}
    for index, ((judged, variance), text) in enumerate(cases.items()):
        axes.plot(ERRORS, knees(judged, variance), style.marker(index) + "-", color=style.colour(index), label=text)
    guide = knees("free energy", 1.0)[-1] * np.sqrt(ERRORS[-1] / np.array(ERRORS))
    axes.plot(ERRORS, guide, ":", color="grey", label=r"$\epsilon^{-1/2}$")
    axes.set(
        xlabel=style.label("error", r"\epsilon"), ylabel="largest batch without waste", title="batch rule (theory)"
    )
    style.log_scale(axes)
    axes.legend(fontsize=7)
