"""Matrix message passing on real digits: with damping it finds the optimum, without it does not settle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, parameter, static, value
from unlazy.studies.message_passing.shared.multiclass import digit_run
from unlazy.studies.message_passing.shared.sources import MULTICLASS

SOURCE = "Çakmak, Lu & Opper 2024, on real data"
DIGITS = 1797
CHUNK = 30
"""Steps of the undamped run; the damped one takes two such chunks."""
NEAR = 1e-5


@dataclass(frozen=True)
class AmpDigits(Study):
    """Ten classes of 8 x 8 digits, pixels/16, centred; moments are those of the training rows; no bias.

    The Onsager term comes from the covariance within classes, the memory term from the second moment. Digits are not
    Gaussian, so that nothing promises convergence; the fixed point is the optimum all the same. It is no faster solver:
    at n = 300 sixty steps take about 20 times the CPU time of scikit-learn's L-BFGS, at n = 1000 about 90 times.
    Damping 0.3 is faster than 0.5 at n = 300 and does not converge at n = 1000. The claims `undamped` and `no-shortcut`
    were written after a look at runs with other seeds; `diverges` is what was expected before.
    """

    name = "amp-digits"
    topic = "message_passing"
    question = "Does matrix message passing, made for Gaussian rows, solve softmax regression on real digits?"
    caption = (
        "All simulation: thick lines are medians over seeds, thin lines single runs. Dotted: the median number of "
        "iterations of L-BFGS; grey: the distance that counts as solved."
    )
    sources = (MULTICLASS,)

    n: int = static(300, "training rows", symbol="n", low=100, high=DIGITS)
    ridge: float = value(1.0, "ridge of the sum over rows", symbol=r"\lambda", above=0, high=1e4, scale="log")
    damping: float = value(0.5, "share of the old weights that stays", low=0.05, high=0.95)

    outputs = {
        "distance": Output("largest distance of a weight from the optimum, damped", dims=("time",), scale="log"),
        "free_distance": Output("the same, undamped", dims=("free_time",), scale="log"),
        "steps": Output("damped steps to a distance of 1e-5"),
        "descent_steps": Output("iterations of L-BFGS to a gradient of 1e-10"),
    }
    presets = {
        "quick": {"seeds": 8},
        "full": {"n": [150, 300], "seeds": 32},
    }
    claims = (
        Claim(
            "damped",
            SOURCE,
            "With damping 0.5 every weight is at most 1e-5 from scikit-learn's optimum after 60 steps.",
            at_most(NEAR),
            check=lambda part: part.simulated.distance.isel(time=-1),
        ),
        Claim(
            "undamped",
            SOURCE,
            "Without damping it does not converge: after 30 steps a weight is more than 0.01 from the optimum (mean of "
            "log10).",
            at_least(-2),
            check=lambda part: np.log10(part.simulated.free_distance.isel(free_time=-1)),
        ),
        Claim(
            "diverges",
            SOURCE,
            "Without damping it diverges: after 30 steps a weight is more than 100 from the optimum (mean of log10).",
            at_least(2),
            check=lambda part: np.log10(part.simulated.free_distance.isel(free_time=-1)),
            known_negative="it ends in a cycle at a distance of the order of the weights",
        ),
        Claim(
            "no-shortcut",
            "theory note of this package",
            "L-BFGS, whose iterations are cheaper, needs fewer for a gradient of 1e-10 than message passing for a "
            "distance of 1e-5.",
            at_least(1),
            check=lambda part: part.simulated.steps / part.simulated.descent_steps,
        ),
    )

    def coordinates(self) -> dict[str, Any]:
        return {"time": np.arange(1, 2 * CHUNK + 1), "free_time": np.arange(1, CHUNK + 1)}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.real import load

        digits = load("digit_classes")
        # class by class first, so that every class has rows to take moments of
        classes = digits.targets.argmax(axis=1)
        order = rng.permutation(len(classes))
        first = np.concatenate([order[classes[order] == k][:2] for k in range(10)])
        rest = order[~np.isin(order, first)]
        kept = np.concatenate([first, rest])[: self.n]
        rows, labels = digits.inputs[kept] / 16, classes[kept]
        run = digit_run(rows - rows.mean(axis=0), labels, self.ridge, self.damping, CHUNK)
        # a run that is not near at the end counts as one step more
        near = np.append(run.distances <= NEAR, True)
        return {
            "distance": run.distances,
            "free_distance": run.free_distances,
            "steps": 1.0 + near.argmax(),
            "descent_steps": run.descent_steps,
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(1, 1, width=4.2, height=3.0)
        data = main.simulated
        for dim in [dim for dim in ("n", "damping") if dim in data.dims]:
            data = data.sel({dim: data[dim].values[len(data[dim]) // 2]})
        shown = (("distance", "time", f"damping {float(parameter(data, 'damping')):g}"),)
        for index, (name, dim, text) in enumerate((*shown, ("free_distance", "free_time", "no damping"))):
            color = style.colour(index)
            for seed in data.seed.values:
                axes.plot(data[dim], data[name].sel(seed=seed), color=color, alpha=0.3, linewidth=0.8)
            middle = data[name].median("seed")
            axes.plot(data[dim], middle, color=color, linewidth=2, label=text)
        axes.axvline(float(data.descent_steps.median()), color="black", linestyle=":", linewidth=1)
        axes.axhline(NEAR, color="gray", linewidth=0.8)
        style.log_scale(axes, "y")
        axes.set(
            xlabel="step",
            ylabel="largest distance from the optimum",
            title=f"digits, 10 classes, $n = {int(parameter(data, 'n'))}$; dotted: iterations of L-BFGS",
        )
        axes.legend(loc="lower left")
        return figure
