"""Localisation: each neuron of a network trained on a sum of many tasks picks one of them, and none is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, between, parameter, path, static, value
from unlazy.studies.index_models.shared.sources import OKO, TALK

if TYPE_CHECKING:
    import xarray as xr

OKO_TEXT = "Oko et al. 2024, localisation"
ARRIVED = 0.8
TIME = ("progress",)


def _at_end(values: xr.DataArray) -> xr.DataArray:
    return values.isel(progress=-1)


def _against_coupons(part: Part) -> xr.DataArray:
    """The covered share of the tasks over that of N neurons which arrive or not and pick a task without preference."""
    data = part.simulated
    arrived = _at_end(data.arrived).mean("seed")
    expected = 1 - (1 - arrived / int(parameter(data, "tasks"))) ** data.width
    return data.covered.mean("seed") / expected - 1


def _missed(found: Any, neurons: int, width: Any) -> Any:
    """The chance C(K - k, N) / C(K, N) that N of K neurons are without any of the k that found a task."""
    import jax.numpy as jnp
    from jax.scipy.special import gammaln

    others = neurons - found
    enough = others >= width
    others = jnp.where(enough, others, width)
    logs = gammaln(others + 1) - gammaln(others - width + 1) + gammaln(neurons - width + 1) - gammaln(neurons + 1)
    return jnp.where(enough, jnp.exp(logs), 0.0)


@dataclass(frozen=True)
class AdditiveLocalisation(Study):
    """f = M^(-1/2) sum_m h_3(<x, theta_m>), N neurons on the same n = 0.7 M d^2 fresh samples, step 0.5 (dM)^(-1/2).

    Neurons do not see each other's output, so that N of them are a network of N: `covered` is the average over all
    choices of N. The criteria of the first two claims stand in the project's note and were set after three runs of a
    prototype; the last claim was inconclusive with the first N neurons in place of all choices.
    """

    name = "additive-localisation"
    topic = "index_models"
    question = "Do the neurons of a network that learns a sum of tasks each find one task, and is every task found?"
    caption = (
        "Left: colours are the overlaps of one run. Middle and right: points are simulation, means over seeds with "
        "99% intervals. Thin lines join them; dotted: theory; the line on the right is theory with the measured share"
        " of neurons that arrive."
    )
    sources = (OKO, TALK)
    precision = "float32"

    d: int = static(64, "dimension", symbol="d", low=4, high=10_000)
    tasks: int = static(8, "tasks", symbol="M", low=1, high=1000)
    samples: float = static(0.7, "samples over M d^2", above=0, high=100)
    records: int = static(7, "records on the way", low=1, high=1000)
    step: float = value(0.5, "step size, before the powers of d and M", symbol="g", above=0, high=100)
    noise: float = value(0.0, "deviation of the label noise", symbol=r"\tau", low=0, high=100)
    most_neurons: int = static(64, "neurons that are trained", low=1, high=100_000)
    width: tuple = path((4, 8, 16, 32, 64), "neurons", symbol="N", low=1, high=100_000, scale="log")

    outputs = {
        "overlap": Output("overlap at the end", r"|\langle w_j,\theta_m\rangle|", ("neuron", "task")),
        "best": Output("median over neurons of the best overlap", "", TIME),
        "worst_task": Output("best overlap of the task found worst", "", TIME),
        "share": Output("share of the best task in a neuron's overlaps", "", TIME),
        "arrived": Output("share of neurons at 0.8", "", TIME),
        "covered": Output("share of the tasks that have a neuron", "", ("width",)),
        "stall": Output("overlap at which the flow stalls", theory_only=True),
    }
    presets = {
        "quick": {"seeds": 8},
        "full": {"d": [64, 128], "seeds": 32},
    }
    claims = (
        Claim(
            "every-task",
            OKO_TEXT,
            "Every task has a neuron: the best overlap of the task that is found worst is at least 0.8.",
            at_least(ARRIVED),
            check=lambda part: _at_end(part.simulated.worst_task),
        ),
        Claim(
            "strong",
            OKO_TEXT,
            "The median over neurons of the best overlap is at least 0.85.",
            at_least(0.85),
            check=lambda part: _at_end(part.simulated.best),
        ),
        Claim(
            "one-task-each",
            OKO_TEXT,
            "Neurons are not spread over the tasks' subspace: the best task has at least 0.9 of the sum of squared "
            "overlaps (median over neurons).",
            at_least(0.9),
            check=lambda part: _at_end(part.simulated.share),
        ),
        Claim(
            "no-preference",
            "the project's equations",
            "Tasks are found like coupons: the share with a neuron is 1 - (1 - p/M)^N within 15%, p the share of "
            "neurons that arrived.",
            between(-0.15, 0.15),
            statistic=_against_coupons,
        ),
    )

    def validate(self) -> None:
        if self.d < self.tasks + 3:
            raise InputError(f"d must be at least tasks + 3 = {self.tasks + 3}, got {self.d}")
        if max(self.width) > self.most_neurons:
            raise InputError(f"width must be at most most_neurons = {self.most_neurons}, got {max(self.width)}")

    def coordinates(self) -> dict[str, Any]:
        return {
            "neuron": list(range(self.most_neurons)),
            "task": list(range(self.tasks)),
            "progress": np.linspace(0, self.samples, self.records + 1).tolist(),
        }

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.functions.links import link
        from unlazy.random import normal
        from unlazy.training.index_models.additive_chain import Rule, train_network

        start_key, train_key = jax.random.split(key)
        weights = normal(start_key, (self.most_neurons, self.d))
        weights = weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
        rule = Rule(link("He3"), self.tasks, self.d, self.step / (self.d * self.tasks) ** 0.5, self.noise)
        steps = round(self.samples * self.tasks * self.d**2)
        trained = train_network(train_key, weights, rule, steps, self.records)
        overlaps = jnp.abs(jnp.concatenate([weights[None, :, : self.tasks], trained.overlaps]))
        best, squares = overlaps.max(axis=2), overlaps**2
        found = (overlaps[-1] >= ARRIVED).sum(axis=0)
        return {
            "overlap": overlaps[-1],
            "best": jnp.median(best, axis=1),
            "worst_task": overlaps.max(axis=1).min(axis=1),
            "share": jnp.median(squares.max(axis=2) / squares.sum(axis=2), axis=1),
            "arrived": (best >= ARRIVED).mean(axis=1),
            "covered": 1 - _missed(found, self.most_neurons, jnp.asarray(self.width, float)[:, None]).mean(axis=1),
        }

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.index_models.additive import additive_stall_overlap, additive_step

        size = additive_step(self.step, self.d, self.tasks, 3)
        return {"stall": additive_stall_overlap("He3", self.tasks, size, self.noise**2)}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        data, theory = main.simulated, main.predicted
        if "d" in data.dims:
            data, theory = data.isel(d=-1), theory.isel(d=-1)
        tasks = data.sizes["task"]
        figure, (left, middle, right) = style.panels(3, 1, width=3.0, height=3.0)
        overlap = data.overlap.isel(seed=0).values
        order = np.lexsort((-overlap.max(axis=1), overlap.argmax(axis=1)))
        image = left.imshow(overlap[order], aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        left.grid(visible=False)
        left.set(xlabel="task", ylabel="neuron, sorted by its best task", xticks=range(tasks))
        figure.colorbar(image, ax=left, label=r"overlap $|\langle w_j,\theta_m\rangle|$")
        shown = {"best": "median neuron", "worst_task": "worst task", "share": "share of the best task"}
        for index, (name, text) in enumerate(shown.items()):
            style.simulation(
                middle, data.progress, data[name], color=style.colour(index), marker=style.marker(index), label=text
            )
            middle.plot(data.progress, data[name].mean("seed"), color=style.colour(index), linewidth=0.7)
        middle.axhline(float(theory.stall), color="#000000", linestyle=":", linewidth=1.1, label="the flow stalls")
        middle.set(xlabel=style.label("samples", "n/(Md^2)"), ylabel="best overlap", ylim=(0, 1.03))
        middle.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=7, columnspacing=0.8)
        dense = np.geomspace(float(data.width.min()), float(data.width.max()), 60)
        arrived = float(_at_end(data.arrived).mean("seed"))
        style.theory(right, dense, 1 - (1 - arrived / tasks) ** dense, color=style.colour(0), label="coupons")
        style.simulation(right, data.width, data.covered, color=style.colour(0))
        style.log_scale(right, "x")
        right.set(xlabel=style.label("neurons", "N"), ylabel="share of the tasks with a neuron", ylim=(0, 1.03))
        right.legend()
        return figure
