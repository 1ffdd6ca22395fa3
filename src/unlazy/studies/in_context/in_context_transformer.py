"""A small transformer that is trained on prompts drawn on the fly, against learners that are told more or less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, parameter, path, static
from unlazy.studies.in_context.shared.prompt_learners import index_references, linear_references, relative_errors
from unlazy.studies.in_context.shared.sources import GARG, OKO

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.lab.running.saved import Saved

GARG_TEXT = "Garg et al. 2022, section 3.1 and figure 2"
COMPARED = "the project's comparison after Garg et al. 2022 and Oko et al. 2024"
BAYES, LEAST_SQUARES, AVERAGING, NEIGHBOURS = "Bayes", "least squares", "averaging", "3 nearest neighbours"
SUBSPACE, ALL, ATTENTION = "ridge in the subspace", "ridge in all dimensions", "pretrained attention"
LEARNERS = {"linear": (BAYES, LEAST_SQUARES, AVERAGING, NEIGHBOURS), "single-index": (SUBSPACE, ALL, ATTENTION)}
CONVERGED = 20_000
"""Steps of the preset `full`, before which nothing is said about how near the optimum training ends."""
LARGE = {
    "width": 64, "layers": 4, "batch": 64, "stage": (400, 2000, 6000, CONVERGED), "tests": 4096, "seeds": 5
}  # fmt: skip


def _end(part: Part) -> xr.DataArray:
    return part.simulated.error.isel(stage=-1, drop=True)


def _longest(part: Part, learner: Any) -> xr.DataArray:
    """The transformer's error over that of other learners, at the longest prompt."""
    return (_end(part) / part.simulated.reference.sel(learner=learner)).isel(seen=-1, drop=True)


def _against_bayes(part: Part) -> tuple[xr.DataArray, xr.DataArray]:
    return _end(part), part.simulated.reference.sel(learner=BAYES, drop=True)


def _floor(linear: Part) -> xr.DataArray:
    error, bayes = _against_bayes(linear)
    return error / bayes


def _gap(linear: Part) -> xr.DataArray:
    error, bayes = _against_bayes(linear)
    return error - bayes


def _regularised(linear: Part) -> xr.DataArray:
    """Where labels are noisy, at as many pairs as dimensions."""
    found = _end(linear) / linear.simulated.reference.sel(learner=LEAST_SQUARES, drop=True)
    if "noise" in found.dims:
        found = found.isel(noise=-1, drop=True)
    return found.sel(seen=int(parameter(linear.simulated, "d")), drop=True)


def _progress(*parts: Part) -> list[xr.DataArray]:
    """The mean error over the prompt at the last stage over that at the first."""
    means = [part.simulated.error.mean("seen") for part in parts]
    return [mean.isel(stage=-1, drop=True) / mean.isel(stage=0, drop=True) for mean in means]


@dataclass(frozen=True)
class InContextTransformer(Study):
    """A decoder-only transformer sees x_1, y_1, x_2, ... and answers at every x; prompts are never seen twice.

    Errors are E (answer - f)^2 / E f^2 on fresh tasks, after as many pairs as the prompt has shown so far; the training
    loss compares with f too, not with its noisy label, which has the same minimiser. Single precision, Muon instead of
    the source's Adam, no curriculum. `quick` trains a tiny model for seconds (the source: 500 000 steps of 9.5 million
    weights) and stops far from the optimum, so how near training comes to it is asked in `full` alone, which takes
    about ten hours of one core and goes on where it was if it is killed. Kernel ridge gets the ridge that is best on
    the test prompts.

    Sizes, rate and optimiser were chosen on trial runs. A first `quick` had single-index tasks of rank 2: after 800
    steps some seeds were still on the plateau at 1, so that what compares single-index learners was inconclusive.
    Since then its rank is 1 and its tokens start larger, and the comparison with pretrained attention, which is ahead
    there, is for `full`. With 600 steps and 5 seeds the claim on the subspace was still inconclusive: now it has 800
    and 8. The criteria are those of the first run.
    """

    name = "in-context-transformer"
    topic = "in_context"
    question = (
        "Does a transformer that is trained from scratch on prompts of regression tasks come near the best learner "
        "for these tasks, and find the subspace on which they depend?"
    )
    caption = (
        "Points, joined by lines: the transformer, means over seeds with 99% intervals, darker with training. Dashed:"
        " other learners on the same prompts, medians over seeds. Dotted: predicting 0."
    )
    sources = (GARG, OKO)

    tasks: str = static("linear", "tasks", choices=tuple(LEARNERS))
    d: int = static(2, "dimension", symbol="d", low=1, high=1000, scale="log")
    pairs: int = static(8, "pairs of a prompt", symbol="k", low=2, high=1000)
    noise: float = static(0.3, "deviation of the labels' noise", symbol=r"\sigma", low=0, high=100)
    rank: int = static(2, "dimension of the single-index tasks' subspace", symbol="r", low=1, high=20)
    lowest: int = static(1, "lowest degree of a single-index task", low=1, high=10)
    highest: int = static(2, "highest degree of a single-index task", low=1, high=10)
    width: int = static(32, "width of the transformer", low=2, high=4096, scale="log")
    layers: int = static(2, "layers", low=1, high=100)
    heads: int = static(4, "attention heads", low=1, high=64)
    token_scale: float = static(1.0, "size of a token in the stream at the start", above=0, high=100, scale="log")
    optimiser: str = static("muon", "optimiser", choices=("adam", "muon"))
    rate: float = static(0.01, "largest learning rate", symbol=r"\eta", above=0, high=10, scale="log")
    batch: int = static(32, "prompts per step", low=1, high=100_000, scale="log")
    segment: int = static(200, "steps after which the state is stored", low=1, high=1_000_000, scale="log")
    stage: tuple = path((200, 400, 800), "training steps", symbol="t", low=1, high=100_000_000)
    tests: int = static(1024, "test prompts", low=2, high=1_000_000, scale="log")

    outputs = {
        "error": Output("error of the transformer over the variance", "", ("stage", "seen"), scale="log"),
        "reference": Output("error of another learner over the variance", "", ("learner", "seen"), scale="log"),
    }
    presets = {
        "quick": {
            "linear": {"tasks": "linear", "seeds": 5},
            "index": {
                "tasks": "single-index",
                "d": 8,
                "pairs": 9,
                "noise": 0.1,
                "rank": 1,
                "token_scale": 3.0,
                "seeds": 8,
            },
        },
        "full": {
            "linear": {"tasks": "linear", "d": 5, "pairs": 11, "noise": [0.0, 0.3], **LARGE},
            "index": {"tasks": "single-index", "d": 8, "pairs": 16, "noise": 0.1, "token_scale": 3.0, **LARGE},
        },
    }
    claims = (
        Claim(
            "comparable-to-least-squares",
            GARG_TEXT,
            "After 20 000 steps the error is above that of Bayes, which is least squares without noise, by at most "
            "0.02 of the variance at any number of pairs.",
            at_most(0.02),
            check=_gap,
            parts=("linear",),
            needs={"stage": (CONVERGED,)},
        ),
        Claim(
            "simple-learners-are-worse",
            GARG_TEXT,
            "At the longest prompt of linear tasks the error is at most half of that of averaging y x, and of that of "
            "three nearest neighbours.",
            at_most(0.5),
            check=lambda linear: _longest(linear, [AVERAGING, NEIGHBOURS]),
            parts=("linear",),
        ),
        Claim(
            "learns-in-context",
            COMPARED,
            "At the longest prompt of linear tasks at most a quarter of the variance is left.",
            at_most(0.25),
            check=lambda linear: _end(linear).isel(seen=-1, drop=True),
            parts=("linear",),
        ),
        Claim(
            "bayes-is-the-floor",
            "the project's check",
            "At no number of pairs is the error below that of Bayes on the same prompts, within 3%.",
            at_least(0.97),
            check=_floor,
            parts=("linear",),
        ),
        Claim(
            "regularises",
            COMPARED,
            "With noisy labels and as many pairs as dimensions, where least squares is at its worst, the error is at "
            "most half of that of least squares.",
            at_most(0.5),
            check=_regularised,
            parts=("linear",),
        ),
        Claim(
            "more-training-helps",
            COMPARED,
            "For both kinds of tasks the mean error over the prompt falls by at least a tenth from the first stage to "
            "the last.",
            at_most(0.9),
            check=_progress,
            parts=("linear", "index"),
            needs={"stage": 2},
        ),
        Claim(
            "uses-the-subspace",
            "Oko et al. 2024, figure on GPT-2",
            "At the longest prompt of single-index tasks the error is at most half of that of kernel ridge regression "
            "on the prompt alone.",
            at_most(0.5),
            check=lambda index: _longest(index, ALL),
            parts=("index",),
        ),
        Claim(
            "beats-linear-attention",
            COMPARED,
            "After 20 000 steps it is there at most 0.9 of that of pretrained attention with one layer of neurons.",
            at_most(0.9),
            check=lambda index: _longest(index, ATTENTION),
            parts=("index",),
            needs={"stage": (CONVERGED,)},
        ),
        Claim(
            "as-if-the-subspace-were-known",
            COMPARED,
            "After 20 000 steps it is at most that of kernel ridge regression that knows the subspace.",
            at_most(1.0),
            check=lambda index: _longest(index, SUBSPACE),
            parts=("index",),
            needs={"stage": (CONVERGED,)},
        ),
    )

    def validate(self) -> None:
        if self.width % self.heads:
            raise InputError(f"width must be a multiple of heads = {self.heads}, got {self.width}")
        if self.tasks == "single-index":
            for small, large in (("rank", "d"), ("lowest", "highest")):
                if getattr(self, small) > getattr(self, large):
                    raise InputError(
                        f"{small} must be at most {large} = {getattr(self, large)}, got {getattr(self, small)}"
                    )
        stages = [int(step) for step in self.stage]
        if any(step % self.segment for step in stages) or any(np.diff(stages) <= 0):
            raise InputError(f"stage must be increasing multiples of segment = {self.segment}, got {tuple(stages)}")

    def memory(self) -> int:
        tokens = 2 * self.pairs
        weights = 12 * self.layers * self.width**2
        per_token = 4 * (20 * self.width + 3 * self.heads * tokens)
        trained = self.batch * tokens * self.layers * per_token
        return 16 * weights + max(trained, 2 * self.tests * tokens * per_token) + 24 * self.tests * self.pairs**2

    def coordinates(self) -> dict[str, Any]:
        return {"seen": list(range(self.pairs)), "learner": list(LEARNERS[self.tasks])}

    def simulate(self, rng: np.random.Generator, saved: Saved) -> dict[str, Any]:  # type: ignore[override]
        from unlazy.training.in_context.prompt_attention import TaskFamily
        from unlazy.training.in_context.transformer import (
            PromptLaw,
            Schedule,
            Sizes,
            fresh_prompts,
            train_in_segments,
            transformer_answers,
        )

        linear = self.tasks == "linear"
        degrees = {} if linear else {"rank": self.rank, "lowest": self.lowest, "highest": self.highest}
        law = PromptLaw(self.d, self.pairs, self.noise, **degrees)
        # Adam knows the coordinates, so the subspace must not be that of the first ones.
        basis = np.eye(self.d) if linear else np.linalg.qr(rng.standard_normal((self.d, self.rank)))[0]
        seeds = [int(seed) for seed in rng.integers(2**31, size=2)]
        prompts = fresh_prompts(seeds[0], law, basis, self.tests)
        stages = [int(step) for step in self.stage]
        schedule = Schedule(stages[-1], self.segment, self.batch, self.rate, self.optimiser)
        sizes = Sizes(self.width, self.layers, self.heads, self.token_scale)

        resume = saved.load()
        errors = np.zeros((len(stages), self.pairs)) if resume is None else resume["errors"]
        for segment in train_in_segments(seeds[1], law, sizes, schedule, basis, resume=resume):
            step = segment.number * self.segment
            if step in stages:
                errors[stages.index(step)] = relative_errors(
                    transformer_answers(segment.model, prompts), prompts.values
                )
            saved.save({**segment.arrays, "errors": errors})

        if linear:
            return {"error": errors, "reference": linear_references(prompts, self.noise)}
        family = TaskFamily(basis, self.lowest, self.highest, self.noise)
        return {"error": errors, "reference": index_references(rng, prompts, family)}

    def figure(self, linear: Part, index: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(2, 1, width=4.2, height=3.6)
        for axes, part, tasks in zip(panels, (linear, index), LEARNERS, strict=True):
            data = part.simulated
            if "noise" in data.dims:
                data = data.isel(noise=-1)
            for number, learner in enumerate(LEARNERS[tasks]):
                line = data.reference.sel(learner=learner).median("seed")
                axes.plot(line.seen, line, "--", color=style.colour(number), label=learner, linewidth=1.1)
            for color, step in zip(style.shades(data.sizes["stage"]), data.stage.values, strict=True):
                error = data.error.sel(stage=step)
                style.simulation(axes, error.seen, error, color=color, label=f"transformer, {step:g} steps")
                axes.plot(error.seen, error.mean("seed"), color=color, linewidth=1.0)
            axes.axhline(1.0, color="#000000", linewidth=0.8, linestyle=":")
            axes.set_yscale("log")
            axes.set_ylim(0.5 * float(data.reference.median("seed").min()), 3.0)
            style.log_scale(axes, "y")
            d, noise = parameter(data, "d"), float(parameter(data, "noise"))
            axes.set(
                xlabel="pairs in the prompt", ylabel="error over variance",
                title=f"{tasks} tasks, $d = {d}$, noise {noise:g}; dotted: predicting 0",
            )  # fmt: skip
            axes.legend(loc="lower left", fontsize=6.5)
        return figure
