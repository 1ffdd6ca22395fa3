"""Algorithm 1 on He_3: a ReLU network learns direction and link if it uses each example twice, and not otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, static, value
from unlazy.studies.index_models.shared.sources import DANDI, LEE, TALK

LEE_TEXT = "Lee et al. 2024, Algorithm 1; the talk's ReLU figure"
RECORDS = 15
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def _of(part: Part, name: str, reuse: int) -> Any:
    return part.simulated[name].sel(reuse=reuse)


def _median_at_end(part: Part, reuse: int) -> Any:
    return _of(part, "overlaps", reuse).sel(fraction=0.5).isel(stage=-1)


@dataclass(frozen=True)
class BatchReuse(Study):
    """N ReLU neurons, one example per step for all, once or twice; then ridge regression for the second layer.

    Phase I: random signs, biases 0.5 N(0, 1), s = 1, gamma = 0.1, uniform start. Phase II: fresh biases U(-3, 3), 5 N
    fresh examples, the ridge chosen on half as many more. The arms share start, signs, biases and all examples: reuse
    is the only difference. The windows were set after a prototype of the same experiment had been seen, except that of
    the ablation, which is the difference of two of them and a margin. With n = 300 d at d = 50 the network without
    reuse begins to learn too, as its biases give it a third Hermite coefficient.
    """

    name = "batch-reuse"
    topic = "index_models"
    question = "Does a network trained by SGD learn a cubic link from n of order d examples if it uses each one twice?"
    caption = (
        "All simulation. Left and middle: points are means over seeds with 99% intervals; lines join the means on the"
        " left and are single runs in the middle. Right: dots are runs, bars medians; dotted: predicting the mean."
    )
    sources = (LEE, DANDI, TALK)
    # Phase I runs in single precision.
    agreement = 1e-3

    reuse: int = value(1, "whether each example is used twice", low=0, high=1, paired=True)
    step: float = value(0.1, "step", symbol=r"\gamma", above=0, high=100, paired=True)
    strength: float = value(1.0, "strength of the first of two steps", symbol="s", low=0, high=100, paired=True)
    noise: float = value(0.1, "deviation of the label noise", symbol=r"\tau", low=0, high=100)
    bias: float = value(0.5, "deviation of the biases in phase I", low=0, high=10)
    ratio: int = static(150, "examples per dimension in phase I", symbol="n/d", low=RECORDS, high=100_000)
    d: int = static(100, "dimension", symbol="d", low=3, high=10_000, scale="log")
    neurons: int = static(128, "neurons", symbol="N", low=1, high=10_000, scale="log")
    link: str = static("He3", "link", choices=("He2", "He3", "He4", "relu", "abs", "tanh", "sin", "z2exp"))

    outputs = {
        "overlaps": Output("quantiles of |overlap|", r"|m|", dims=("stage", "fraction")),
        "relative_error": Output("test error over the variance of the link"),
    }
    presets = {
        "quick": {"reuse": [0, 1], "seeds": 8},
        "full": {"reuse": [0, 1], "d": [50, 100, 200], "seeds": 32},
    }
    claims = (
        Claim(
            "direction",
            LEE_TEXT,
            "With reuse half of the neurons have an overlap of at least 0.5 after 150 d examples.",
            at_least(0.5),
            check=lambda part: _median_at_end(part, 1),
            needs={"reuse": (1,)},
        ),
        Claim(
            "no-direction",
            LEE_TEXT,
            "Without reuse the median overlap is at most 0.25.",
            at_most(0.25),
            check=lambda part: _median_at_end(part, 0),
            needs={"reuse": (0,)},
        ),
        Claim(
            "error",
            LEE_TEXT,
            "With reuse the test error is at most half of the variance.",
            at_most(0.5),
            check=lambda part: _of(part, "relative_error", 1),
            needs={"reuse": (1,)},
        ),
        Claim(
            "no-error",
            LEE_TEXT,
            "Without reuse it is at least 0.9 of the variance.",
            at_least(0.9),
            check=lambda part: _of(part, "relative_error", 0),
            needs={"reuse": (0,)},
        ),
        Claim(
            "ablation",
            LEE_TEXT,
            "With the same start, examples and second-layer data reuse raises the median overlap by at least 0.3.",
            at_least(0.3),
            check=lambda part: _median_at_end(part, 1) - _median_at_end(part, 0),
            needs={"reuse": (0, 1)},
        ),
    )

    def validate(self) -> None:
        if self.ratio % RECORDS:
            raise InputError(f"ratio must be a multiple of {RECORDS}, got {self.ratio}")

    def coordinates(self) -> dict[str, Any]:
        return {"stage": (np.arange(1, RECORDS + 1) / RECORDS).tolist(), "fraction": list(QUANTILES)}

    def simulate(self, key: Any) -> dict[str, Any]:
        """Phase I in single precision, the regression in double."""
        import jax
        import jax.numpy as jnp

        from unlazy.functions.links import link
        from unlazy.random import normal
        from unlazy.training.index_models.online_index import fit_second_layer, init, train
        from unlazy.training.index_models.overlap_chain import Rule

        start_key, neuron_key, train_key, fit_key = jax.random.split(key, 4)
        teacher = link(self.link)
        signs, biases = normal(neuron_key, (2, self.neurons))
        rule = Rule(self.step, self.strength, self.reuse, jnp.sign(signs), self.bias * biases, self.noise)
        rule = Rule(*(jnp.asarray(number, jnp.float32) for number in rule))
        start = init(start_key, self.neurons, self.d, jnp.float32)
        stops = [self.ratio // RECORDS * self.d * stage for stage in range(1, RECORDS + 1)]
        run = train(train_key, start, rule, stops[-1], teacher=teacher, record_at=stops)
        fit = fit_second_layer(fit_key, run.weights, self.noise, teacher=teacher)
        return {
            "overlaps": jnp.quantile(jnp.abs(run.overlaps), jnp.asarray(QUANTILES), axis=1).T,
            "relative_error": fit.relative_error,
        }

    def figure(self, main: Part) -> Any:
        from unlazy.lab import parameter
        from unlazy.plotting import style

        data = main.simulated
        sizes = np.atleast_1d(parameter(data, "d")).tolist()
        shown = 100 if 100 in sizes else sizes[0]
        ratio = float(parameter(data, "ratio"))
        figure, (path, law, error) = style.panels(3, 1, width=2.9, height=2.8)
        for reuse in np.atleast_1d(parameter(data, "reuse")).astype(int).tolist():
            color, text = style.colour(reuse), ("one use", "two uses")[reuse]
            arm = data.sel(reuse=reuse) if "reuse" in data.dims else data
            one = arm.sel(d=shown) if "d" in arm.dims else arm
            for fraction, width in ((0.5, 1.6), (0.9, 0.9)):
                values = one.overlaps.sel(fraction=fraction)
                path.plot(ratio * values.stage, values.mean("seed"), color=color, linewidth=width, zorder=2)
                label = f"{text}, {'median' if fraction == 0.5 else '90%'}"
                style.simulation(
                    path, ratio * values.stage, values, color=color, marker="o" if fraction == 0.5 else "^", label=label
                )
            end = one.overlaps.isel(stage=-1)
            law.plot(end.fraction, end.transpose("fraction", "seed"), "-", color=color, alpha=0.35, linewidth=0.8)
            style.simulation(law, end.fraction, end, color=color, label=text)
            for place, d in enumerate(sizes):
                dots = (arm.sel(d=d) if "d" in arm.dims else arm).relative_error
                jitter = np.linspace(-0.08, 0.08, dots.size)
                error.plot(place + 0.25 * (reuse - 0.5) + jitter, dots, ".", color=color, alpha=0.6, zorder=2)
                error.plot(place + 0.25 * (reuse - 0.5), dots.median(), "_", color="#000000", markersize=14)
        path.set(xlabel=style.label("examples per dimension", "n/d"), ylabel=style.label("overlap", "|m|"))
        path.set(title=f"{self.link_text(data)}, $d = {shown}$; lines join the means", ylim=(0, 1.5))
        law.set(xlabel="share of neurons", ylabel=style.label("overlap", "|m|"), title="at the end; lines: runs")
        error.axhline(1, color="#000000", linewidth=0.8, linestyle=":")
        error.set_xticks(range(len(sizes)), [f"$d = {d}$" for d in sizes])
        error.set(ylabel="test error / variance", title="after phase II; bars: medians", xlim=(-0.6, len(sizes) - 0.4))
        path.legend(loc="upper left")
        law.legend(loc="upper left")
        return figure

    @staticmethod
    def link_text(data: Any) -> str:
        from unlazy.lab import parameter

        return str(np.atleast_1d(parameter(data, "link"))[0])
