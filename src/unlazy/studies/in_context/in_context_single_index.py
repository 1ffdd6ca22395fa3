"""Single-index tasks in context: pretraining finds their subspace, then the prompt's length need not grow with d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, path, static
from unlazy.studies.in_context.shared.prompts import attention_risks, prompt_only_risks
from unlazy.studies.in_context.shared.sources import OKO

if TYPE_CHECKING:
    import xarray as xr

OKO_TEXT = "Oko et al. 2024, theorem on in-context sample complexity"
PRETRAINED, RANDOM = "pretrained attention", "random attention"
SUBSPACE, ALL = "ridge in the subspace", "ridge in all dimensions"
LEARNERS = (PRETRAINED, RANDOM, SUBSPACE, ALL)
SUBSPACE_PROMPTS = 400
"""Test prompts of ridge regression in the found subspace; those of attention are `_prompts.TEST`."""
KERNEL_WORK = 2048
"""Test prompts of n rows for ridge regression in all dimensions, which is slow: this over n, from 4 to 40."""


def _risk(part: Part, learner: str) -> xr.DataArray:
    """The geometric mean over seeds."""
    return np.exp(np.log(part.simulated.risk.sel(learner=learner)).mean("seed"))


def _spread(part: Part, learner: str) -> xr.DataArray:
    """The largest over the smallest of the dimensions' risks, for each prompt length."""
    risk = _risk(part, learner)
    return risk.max("d") / risk.min("d")


def _gradient(gradient: Part) -> xr.DataArray:
    return gradient.simulated.gradient.mean("seed") / gradient.simulated.gradient_theory.mean("seed") - 1


def _beside(gradient: Part) -> xr.DataArray:
    return gradient.simulated.gradient_beside.mean("seed") / gradient.simulated.gradient_theory.mean("seed")


@dataclass(frozen=True)
class InContextSingleIndex(Study):
    """The pretraining prompts grow with d, as the theorem lets them; what must not is the prompt of a new task.

    Every learned direction gets several biases in the attention layer, which saves prompts of the first phase. Gamma is
    fitted on the same many queries for all prompts, on weights projected on the found subspace, without which the risk
    is larger. Risks are means over 400 test prompts; those of ridge regression in all dimensions over 2048/n,
    from 4 to 40. The ridge of attention is chosen on prompts of its own, that of ridge regression on the test.

    Sizes were chosen, and the claims on the second step and on pretrained weights were written, after runs of the
    parts. First runs judged medians over seeds and the gradients of the main part, which were too noisy for the same
    criteria (a part with a smaller d has less noise), and a claim that 512 rows halve the risk of 32, which was at the
    limit (0.44 +- 0.08) and was dropped. Prompts of a gradient step were 16 d and are 8 d, for speed.
    """

    name = "in-context-single-index"
    topic = "in_context"
    question = (
        "If all tasks depend on directions of one r-dimensional subspace, does pretrained attention learn a new one "
        "from a prompt whose length depends on r and not on d?"
    )
    caption = (
        "All simulation: points, joined by lines, are medians over seeds; thin bars reach from the smallest seed to "
        "the largest. Colours: the dimension."
    )
    sources = (OKO,)

    d: int = static(32, "dimension", symbol="d", low=2, high=10_000, scale="log")
    rank: int = static(2, "dimension of the tasks' subspace", symbol="r", low=1, high=20)
    lowest: int = static(2, "lowest degree of a task", symbol="k", low=1, high=10)
    highest: int = static(3, "highest degree of a task", symbol="p", low=1, high=10)
    noise: float = static(0.1, "deviation of the labels' noise", symbol=r"\sigma", low=0, high=100)
    queries: str = static("each", "queries of a pretraining prompt: one, or each of its rows", choices=("each", "one"))
    prompts_per_dimension: int = static(8, "prompts of a gradient step, over d", low=1, high=100_000, scale="log")
    length: int = static(512, "rows of a pretraining prompt", symbol="n_1", low=2, high=100_000, scale="log")
    neurons: int = static(16, "neurons of the first layer", symbol="m", low=1, high=4096)
    biases: int = static(2, "biases of each neuron in the attention layer", low=1, high=100)
    steps: int = static(3, "gradient steps on the first layer", low=1, high=100)
    project: bool = static(True, "whether the learned weights are projected on the found subspace")
    fitted: int = static(300, "prompts on which the attention is fitted", low=10, high=1_000_000, scale="log")
    context: tuple = path((32, 128, 512), "rows of the prompt", symbol="n^*", low=1, high=100_000)

    outputs = {
        "risk": Output("risk of a new task over its variance", "R", ("learner", "context"), scale="log"),
        "overlap": Output("overlap of the found subspace with that of the tasks", "", ("gradient_step",)),
        "gradient": Output("first gradient times its expectation, over all neurons", scale="log"),
        "gradient_beside": Output(
            "product of two first gradients' differences from it; of runs of one step", undefined=np.nan
        ),
        "gradient_theory": Output("the square of its expectation", scale="log", predicts="gradient"),
    }
    presets = {
        "quick": {
            "main": {"d": [16, 32, 64], "seeds": 8},
            "literal": {
                "d": 32,
                "lowest": 1,
                "queries": "one",
                "prompts_per_dimension": 64,
                "length": 256,
                "steps": 1,
                "context": (32,),
                "seeds": 8,
            },
            "gradient": {
                "d": 8,
                "prompts_per_dimension": 1024,
                "length": 64,
                "steps": 1,
                "context": (32,),
                "seeds": 8,
            },
        },
        "full": {
            "main": {
                "d": [16, 32, 64, 128],
                "prompts_per_dimension": 48,
                "neurons": 32,
                "fitted": 3000,
                "context": (16, 32, 64, 128, 256, 512, 1024),
                "seeds": 16,
            },
            "literal": {
                "d": [16, 32, 64],
                "lowest": 1,
                "queries": "one",
                "prompts_per_dimension": 128,
                "length": 256,
                "steps": 1,
                "context": (32,),
                "seeds": 16,
            },
            "gradient": {
                "d": [8, 16],
                "prompts_per_dimension": 1024,
                "length": 64,
                "steps": 1,
                "context": (32,),
                "seeds": 16,
            },
        },
    }
    claims = (
        Claim(
            "gradient",
            "the project's closed form",
            "The first gradient has the expectation of the closed form: its product with that is its square within "
            "10%.",
            between(-0.1, 0.1),
            statistic=_gradient,
            parts=("gradient",),
        ),
        Claim(
            "gradient-beside",
            "the project's closed form",
            "It has no other part: the product of two independent gradients' differences from the closed form is "
            "within 10% of its square.",
            between(-0.1, 0.1),
            statistic=_beside,
            parts=("gradient",),
        ),
        Claim(
            "literal-step",
            f"{OKO_TEXT}, phase I",
            "One step of the literal algorithm, one query per prompt and tasks with a linear part, finds the subspace: "
            "overlap at least 0.9.",
            at_least(0.9),
            check=lambda literal: literal.simulated.overlap.isel(gradient_step=-1, drop=True),
            parts=("literal",),
        ),
        Claim(
            "subspace",
            f"{OKO_TEXT}, phase I",
            "Without a linear part, the repeated step with many queries finds it at every d: overlap at least 0.95.",
            at_least(0.95),
            check=lambda main: main.simulated.overlap.isel(gradient_step=-1, drop=True),
        ),
        Claim(
            "second-step",
            "the project's own observation",
            "At d = 64 one step is not enough: the second raises the overlap by at least 0.2.",
            at_least(0.2),
            check=lambda main: main.simulated.overlap.sel(d=64).diff("gradient_step").isel(gradient_step=0, drop=True),
            needs={"d": (64,), "gradient_step": 2},
        ),
        Claim(
            "attention-and-dimension",
            OKO_TEXT,
            "At every prompt length the risk of attention on the found subspace varies over d by at most a "
            "factor of 2.",
            at_most(2.0),
            statistic=lambda main: _spread(main, PRETRAINED),
            needs={"d": (16, 64)},
        ),
        Claim(
            "ridge-and-dimension",
            OKO_TEXT,
            "So does that of cubic ridge regression on the prompt's coordinates in the found subspace, by at most 2.5.",
            at_most(2.5),
            statistic=lambda main: _spread(main, SUBSPACE),
            needs={"d": (16, 64)},
        ),
        Claim(
            "prompt-alone",
            OKO_TEXT,
            "Without pretraining, cubic ridge regression on the prompt alone has at least 10 times the risk of that in "
            "the subspace at 128 rows.",
            at_least(10.0),
            statistic=lambda main: _risk(main, ALL).sel(context=128) / _risk(main, SUBSPACE).sel(context=128),
            needs={"context": (128,)},
        ),
        Claim(
            "random-weights",
            OKO_TEXT,
            "With random weights in the first layer attention does not learn: risk at least 0.9 at 512 rows.",
            at_least(0.9),
            check=lambda main: main.simulated.risk.sel(learner=RANDOM, context=512),
            needs={"context": (512,)},
        ),
        Claim(
            "pretrained-weights",
            OKO_TEXT,
            "On the found subspace it does: at most 0.3 there.",
            at_most(0.3),
            check=lambda main: main.simulated.risk.sel(learner=PRETRAINED, context=512),
            needs={"context": (512,)},
        ),
    )

    def validate(self) -> None:
        for small, large in (("rank", "d"), ("lowest", "highest"), ("rank", "neurons")):
            if getattr(self, small) > getattr(self, large):
                raise InputError(
                    f"{small} must be at most {large} = {getattr(self, large)}, got {getattr(self, small)}"
                )

    def memory(self) -> int:
        from unlazy.training.in_context.prompt_attention import ROWS_TOGETHER

        width = self.neurons * self.biases
        rows = max(ROWS_TOGETHER, self.length, *self.context)
        kernels = max(40 * (self.context[0] + 50) * self.d, 4 * (max(self.context) + 50) * (self.d + max(self.context)))
        return 4 * rows * (6 * width + self.rank) + 8 * kernels + 8 * 20 * (self.fitted + 400) * 500

    def coordinates(self) -> dict[str, Any]:
        return {"learner": list(LEARNERS), "gradient_step": list(range(1, self.steps + 1))}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """The inputs are isotropic, so the subspace is that of the first coordinates."""
        from unlazy.theory.in_context.first_step import prompt_gradient
        from unlazy.training.in_context.prompt_attention import TaskFamily, drawn_gradient, pretrain_weights

        family = TaskFamily(np.eye(self.d)[:, : self.rank], self.lowest, self.highest, self.noise)
        tasks = self.prompts_per_dimension * self.d
        found = pretrain_weights(
            rng,
            family,
            neurons=self.neurons,
            tasks=tasks,
            length=self.length,
            steps=self.steps,
            queries=self.queries,
        )
        theory = prompt_gradient(found.start, found.biases, family.subspace, self.lowest, self.highest).gradient
        beside = np.nan
        if self.steps == 1:
            # at the same weights: the mean of the product of the differences has no noise of its own
            again = drawn_gradient(rng, found.start, found.biases, family, tasks, self.length, self.queries)
            beside = np.sum((found.first - theory) * (again - theory))

        biases = rng.uniform(-3, 3, self.neurons * self.biases)
        random = rng.standard_normal(found.weights.shape)
        learned = found.weights @ found.basis @ found.basis.T if self.project else found.weights
        layers = learned, random / np.linalg.norm(random, axis=1, keepdims=True)
        lengths = [int(n) for n in self.context]
        risks = [
            attention_risks(rng, np.repeat(weights, self.biases, axis=0), biases, family, self.fitted, lengths)
            for weights in layers
        ]
        few = [(n, SUBSPACE_PROMPTS) for n in lengths]
        fewer = [(n, min(max(KERNEL_WORK // n, 4), 40)) for n in lengths]
        risks += [
            prompt_only_risks(rng, found.basis, family, few),
            prompt_only_risks(rng, np.eye(self.d), family, fewer),
        ]
        return {
            "risk": risks,
            "overlap": found.overlaps,
            "gradient": np.sum(found.first * theory),
            "gradient_beside": beside,
            "gradient_theory": np.sum(theory**2),
        }

    def figure(self, main: Part, literal: Part, gradient: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right, step) = style.panels(3, 1, width=3.0, height=3.0)
        data = main.simulated if "d" in main.simulated.dims else main.simulated.expand_dims("d")
        colors = style.shades(data.sizes["d"])
        shown = (
            (left, PRETRAINED, "-", "o"),
            (left, RANDOM, ":", "s"),
            (right, SUBSPACE, "-", "o"),
            (right, ALL, "--", "s"),
        )
        for axes, learner, line, marker in shown:
            for color, d in zip(colors, data.d.values, strict=True):
                risk = data.risk.sel(learner=learner, d=d)
                axes.plot(risk.context, risk.median("seed"), line, color=color, marker=marker, label=f"$d = {d:g}$")
                for low, high, n in zip(
                    risk.min("seed").values, risk.max("seed").values, risk.context.values, strict=True
                ):
                    axes.plot([n, n], [low, high], color=color, linewidth=0.7, alpha=0.6)
        for axes in (left, right):
            axes.set_ylim(0.008, 1.5)
            style.log_scale(axes)
            axes.set_xlabel(style.label("rows of the prompt", "n^*"))
        left.set(ylabel="risk over variance", title="attention: learned (solid), random (dotted)")
        right.set(title="ridge: subspace (solid), $R^d$ (dashed)")
        right.set_xlabel(style.label("rows of the prompt", "n^*"))
        for color, d in zip(colors, data.d.values, strict=True):
            overlap = data.overlap.sel(d=d)
            step.plot(overlap.gradient_step, overlap.median("seed"), "o-", color=color, label=f"$d = {d:g}$")
        step.set(xlabel="gradient step", ylabel="overlap with the tasks' subspace", ylim=(0, 1.03))
        step.set_xticks(data.gradient_step.values)
        step.legend(loc="lower right")
        return figure
