"""Reuse helps SGD as far as a transform of the label helps: not at all where the generative exponent is the degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.elementwise import LINKS, Link
from unlazy.lab import OWN, Change, Output, Study, cite, claim, needs, slope, static, value
from unlazy.lab.claims import at_most, within
from unlazy.plotting.panels import Guide, Panel, panels
from unlazy.theory.index_models.exponents import generative_exponent, information_exponent
from unlazy.theory.index_models.online_sgd import crossing_time
from unlazy.theory.index_models.step_links import step_labels, step_link

TARGET = 0.5
HIDDEN, SEEN = 1.0, 2.0
"""Heights at which no transform of the label helps, and at which one does."""
ACTIVATION = LINKS["He3"]
STARTED = (
    "One neuron with the activation h_3 and of the favourable sign starts at the overlap d^(-1/2) on the favourable "
    "side. The loss is the correlation loss, and steps are cut at d^(-1/2)."
)
SLOW: dict[Any, Any] = {"height": [HIDDEN, SEEN], "reuse": [0, 1], "step_size_exponent": 0.5}
FAST: dict[Any, Any] = {
    "height": SEEN,
    "reuse": 1,
    "reuse_step_size": 0.3,
    "step_size_exponent": 0.0,
    "relative_step_size": 0.02,
}


def _n(slow: Any, **where: float) -> Any:
    return needs(slow, **where).n.sel(where)


def _exponent(n: Any) -> Any:
    return slope(n, "d", least=4)


@dataclass(frozen=True)
class GenerativeBarrier(Study):
    """The first n at which half of the chains (one neuron each, exact) have |m| >= 1/2, from m = d^(-1/2) > 0.

    The labels are those of `step_link`: two links with jumps at other places, of information exponent 3. Every example
    is used once or twice, by the rule of Lee et al. 2024. The step is gamma = g d^(-p), p = 1/2 being the largest at
    which noise does not win where the drift is m^2.
    """

    question = "Does SGD that uses each example twice still need d^2 examples if no transform of the label says more?"
    sources = cite("damian2024", "lee2024", "benarous2021")
    precision = "float32"
    chunk_width = 16

    height: float = value(HIDDEN, "height of the outer steps of the link", symbol="H", above=0, high=100)
    d: float = value(64.0, "dimension", symbol="d", low=3, high=1e6, scale="log")
    reuse: int = value(1, "whether each example is used twice", low=0, high=1)
    relative_step_size: float = value(0.15, "step size over d^(-1-p)", symbol="g", above=0, high=100)
    step_size_exponent: float = value(0.5, "decay of the step size with the dimension", symbol="p", low=0, high=4)
    reuse_step_size: float = value(
        0.1, "step size of the first of two uses, times the dimension", symbol="s", low=0, high=100
    )
    largest_samples_per_dimension: float = value(1e5, "most examples, over the dimension", low=1, high=1e8, scale="log")
    chains: int = static(32, "chains", low=2, high=65_536)

    outputs = {
        "n": Output("examples until half of the overlaps are 1/2", "n", scale="log", undefined=np.inf),
        "hidden_correlation": Output(
            "correlation with h_1 or h_2 that the best transform of the label has",
            r"\max_{k<3}\lambda_k",
            theory_only=True,
        ),
        "information_exponent": Output("information exponent", "k", theory_only=True),
    }
    presets = {
        "quick": {
            "slow": SLOW | {"d": [24.0, 48.0, 96.0, 192.0], "seeds": 32},
            "fast": FAST | {"d": [64.0, 160.0, 400.0, 1000.0], "seeds": 32},
        },
        "full": {
            "slow": SLOW | {"d": [32.0, 64.0, 128.0, 256.0, 512.0], "seeds": 32},
            "fast": FAST | {"d": [64.0, 160.0, 400.0, 1000.0, 2500.0], "seeds": 32},
        },
    }
    history = (
        Change("", "activation, sign and step sizes", "chosen so that the ODE reaches 1/2 in all arms, before any run"),
        Change(
            "twice-seen",
            "s = 0.3 and g = 0.02, first 0.1 and 0.05",
            "the slope was 1.21 there: the part of the drift that is m^2 still counted; the ODE has 1.20 and 1.10",
        ),
    )
    lines = dict.fromkeys(("slow", "fast"), "d")
    figure = panels(
        *(
            Panel(
                "n",
                x="d",
                by="reuse",
                part="slow",
                at={"height": height},
                title=title,
                ylabel="examples $n$",
                legend="upper left",
                marks=(Guide(2.0, "slope 2", factor=2.0),),
            )
            for height, title in ((HIDDEN, "label hides the direction"), (SEEN, "label transform sees it"))
        ),
        Panel(
            "n",
            x="d",
            part="fast",
            title="larger steps",
            ylabel="examples $n$",
            labels=("two uses",),
            legend="upper left",
            marks=(Guide(1.0, "slope 1", factor=2.0),),
        ),
        width=3.1,
        height=3.1,
    )

    @claim(OWN, "moments of the two links", at_most(1e-6), theory=True)
    def hidden_labels(slow):
        """At height 1 the best transform of the label has a correlation with h_1 and h_2 that is {criterion}. Both
        links have the information exponent 3; what they differ from it counts as well."""
        found = slow.predicted
        return [found.hidden_correlation.sel(height=HIDDEN), abs(found.information_exponent - 3)]

    @claim("benarous2021", "information exponent k: n of order d^(k-1)", within(0.25, absolute=True), departs=STARTED)
    def once(slow):
        """With one use of each example both links need n of order d^2. The slope of log n against log d is 2,
        {criterion}."""
        return [_exponent(_n(slow.simulated, height=height, reuse=0)) - 2 for height in (HIDDEN, SEEN)]

    @claim("damian2024", "generative exponent: no transform of labels helps", within(0.25, absolute=True), departs=(
        f"The source bounds all algorithms of a kind by d^(k*/2); here two uses of each example are run. {STARTED}"
    ))  # fmt: skip
    def twice_hidden(slow):
        """At generative exponent 3 two uses of each example do not lower the power of d. The slope of log n against
        log d is 2, {criterion}."""
        return _exponent(_n(slow.simulated, height=HIDDEN, reuse=1)) - 2

    @claim("lee2024", "complexity of SGD with reused batches", within(0.25, absolute=True), departs=(
        f"The link has jumps where the source has a polynomial. {STARTED}"
    ))  # fmt: skip
    def twice_seen(fast):
        """At generative exponent 1 two uses of each example, with steps of order 1/d, need n of order d. The slope of
        log n against log d is 1, {criterion}."""
        return _exponent(fast.simulated.n) - 1

    @claim(OWN, "ODE of the overlap", within(0.405, absolute=True))
    def equation(slow, fast):
        """The ODE of the overlap gives the number of examples within a factor of 1.5 from d = 90 on: log(n / n_ODE) is
        0, {criterion}."""
        found = [np.log(part.simulated.n / part.predicted.n) for part in (slow, fast)]
        return [error.sel(d=error.d >= 90) for error in found]

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.index_models.overlap_chain import Rule, crossing_step

        link = Link("steps", lambda z: step_labels(z, self.height))
        step_size = self.relative_step_size * self.d ** (-self.step_size_exponent)
        # the third coefficient of the links is negative
        rule = Rule(step_size, self.reuse_step_size, self.reuse, sign=-1.0, clip=1.0)
        start = jnp.full(self.chains, 1.0) / jnp.sqrt(self.d)
        limit = jnp.minimum(self.largest_samples_per_dimension * self.d, 2e9).astype(jnp.int32)
        found = crossing_step(key, start, self.d, rule, limit, link=link, activation=ACTIVATION, target_overlap=TARGET)
        return {"n": jnp.where(found < 0, jnp.inf, found)}

    def predict(self) -> dict[str, Any]:
        """The first time at which |m| is at the target, m or -m; the chains' clip is left out."""
        link, start = step_link(self.height), self.d**-0.5
        neuron: Any = {"activation": ACTIVATION, "reuse": bool(self.reuse), "reuse_step_size": self.reuse_step_size}
        step_size = self.relative_step_size * self.d ** (-self.step_size_exponent)
        # -m is the overlap with -theta, for which the labels of an odd link have the other sign
        times = [
            crossing_time(link, step_size, start_overlap=side * start, target_overlap=TARGET, sign=-side, **neuron)
            for side in (1.0, -1.0)
        ]
        seen = generative_exponent(link, largest_degree=3).squared_correlations
        return {
            "n": min(times) * self.d,
            "hidden_correlation": float(np.sqrt(max(seen[1:3].max(), 0.0))),
            "information_exponent": float(information_exponent(link).exponent),
        }
