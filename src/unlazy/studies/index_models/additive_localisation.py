"""Localisation: each neuron of a network trained on a sum of many tasks picks one of them, and none is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, at_least, cite, claim, parameter, path, static, value, within
from unlazy.plotting.panels import Panel, panels

ARRIVED = 0.8
TIME = ("progress",)


def _missed(found: Any, neurons: int, width: Any) -> Any:
    """The chance C(K - k, N) / C(K, N) that N of K neurons are without any of the k that found a task."""
    import jax.numpy as jnp
    from jax.scipy.special import gammaln

    others = neurons - found
    enough = others >= width
    others = jnp.where(enough, others, width)
    logs = gammaln(others + 1) - gammaln(others - width + 1) + gammaln(neurons - width + 1) - gammaln(neurons + 1)
    return jnp.where(enough, jnp.exp(logs), 0.0)


def _coupons(data: Any, width: Any) -> Any:
    """The covered share of the tasks if neurons arrive or not and pick a task without preference."""
    arrived = data.arrived.isel(progress=-1).mean("seed")
    return 1 - (1 - arrived / int(parameter(data, "tasks"))) ** width


def _last(data: Any) -> Any:
    return data.isel(d=-1) if "d" in data.dims else data


def _draw_overlaps(axes: Any, main: Any) -> None:
    overlap = _last(main.simulated).overlap.isel(seed=0).values
    order = np.lexsort((-overlap.max(axis=1), overlap.argmax(axis=1)))
    image = axes.imshow(overlap[order], aspect="auto", vmin=0, vmax=1, interpolation="nearest")
    axes.grid(visible=False)
    axes.set_xticks(range(overlap.shape[1]))
    axes.figure.colorbar(image, ax=axes, label=r"overlap $|\langle w_j,\theta_m\rangle|$")


def _draw_stall(axes: Any, main: Any) -> None:
    stall = float(_last(main.predicted).stall)
    axes.axhline(stall, color="#000000", linestyle=":", linewidth=1.1)
    axes.text(0, stall + 0.01, "the flow stalls", fontsize=8)


def _draw_coupons(axes: Any, main: Any) -> None:
    from unlazy.plotting import style

    data = _last(main.simulated)
    width = np.geomspace(float(data.width.min()), float(data.width.max()), 60)
    style.theory(axes, width, [float(_coupons(data, n)) for n in width], color=style.colour(0), label="coupons")


@dataclass(frozen=True)
class AdditiveLocalisation(Study):
    """f = M^(-1/2) sum_m h_3(<x, theta_m>), N neurons on the same n = 0.7 M d^2 fresh samples, step 0.5 (dM)^(-1/2).

    Neurons do not see each other's output, so that N of them are a network of N: `covered` is the average over all
    choices of N.
    """

    question = "Do the neurons of a network that learns a sum of tasks each find one task, and is every task found?"
    sources = cite("oko2024", "wu2024talk")
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
    history = (
        Change("every-task", "criterion", "set after three runs of a prototype"),
        Change("strong", "criterion", "set after three runs of a prototype"),
        Change(
            "no-preference",
            "all choices of N neurons in place of the first N",
            "the claim was inconclusive with the first N",
        ),
    )
    figure = panels(
        Panel(
            "overlap",
            x="task",
            points=False,
            theory=False,
            ylabel="neuron, sorted by its best task",
            title="overlaps of one run",
            draw=_draw_overlaps,
        ),
        Panel(
            ("best", "worst_task", "share"),
            x="progress",
            labels=("median neuron", "worst task", "share of the best task"),
            theory=False,
            line=True,
            xlabel=r"samples $n/(Md^2)$",
            ylabel="best overlap",
            ylim=(0, 1.03),
            legend="lower right",
            draw=_draw_stall,
        ),
        Panel(
            "covered",
            x="width",
            theory=False,
            ylabel="share of tasks with a neuron",
            ylim=(0, 1.03),
            draw=_draw_coupons,
        ),
        width=3.2,
        height=3.0,
        caption="Dotted: theory; the line of the coupons: theory with the measured share of neurons that arrive.",
    )

    @claim("oko2024", "localisation", at_least(ARRIVED))
    def every_task(main):
        """Every task has a neuron: the best overlap of the task that is found worst is {criterion}."""
        return main.simulated.worst_task.isel(progress=-1)

    @claim("oko2024", "localisation", at_least(0.85))
    def strong(main):
        """The median over neurons of the best overlap is {criterion}."""
        return main.simulated.best.isel(progress=-1)

    @claim("oko2024", "localisation", at_least(0.9))
    def one_task_each(main):
        """Neurons are not spread over the tasks' subspace: the share of the best task in the sum of squared overlaps is
        {criterion} (median over neurons)."""
        return main.simulated.share.isel(progress=-1)

    @claim(OWN, "neurons that choose tasks independently and uniformly", within(0.15), resampled=True)
    def no_preference(main):
        """Tasks are found like coupons: the share with a neuron is 1 - (1 - p/M)^N {criterion}, p the share of neurons
        that arrived."""
        return main.simulated.covered.mean("seed") / _coupons(main.simulated, main.simulated.width) - 1

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
