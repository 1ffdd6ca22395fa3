"""The first gradient of a two-layer network is close to rank one, in operator norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, relative_deviation, slope, static, value
from unlazy.studies.one_step.shared.gradient_step import ACTIVATIONS, BA, BA_TEXT, LINKS, link_function


@dataclass(frozen=True)
class RankOneGradient(Study):
    name = "rank-one-gradient"
    topic = "one_step"
    question = (
        "How close is the first gradient of a two-layer network to the rank-one matrix mu_1 X^T y a^T / (n sqrt(N)), "
        "and how far does one step move the weights?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Left, dashed: a slope through the first point to "
        "compare with. Right: the line is theory."
    )
    sources = (BA,)

    d: int = static(256, "dimension", symbol="d", low=2, high=10_000, scale="log")
    samples_per_dimension: float = static(2.0, "samples per dimension", symbol=r"\psi_0", above=0, high=100)
    features_per_dimension: float = static(2.0, "neurons per dimension", symbol=r"\psi_2", above=0, high=100)
    activation: str = static("erf", "activation", choices=ACTIVATIONS)
    link: str = static("erf", "link of the target", choices=tuple(LINKS))
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    outputs = {
        "operator_ratio": Output("rest in operator norm", r"\|G-A\|/\|G\|", scale="log"),
        "frobenius_ratio": Output("rest in Frobenius norm", r"\|G-A\|_F/\|G\|_F"),
        "displacement": Output("displacement by a step of size 1", r"\|W_1-W_0\|_F"),
    }
    presets = {
        "quick": {"d": [64, 128, 256, 512], "seeds": 8},
        "full": {"d": [64, 128, 256, 512, 1024, 2048], "seeds": 16},
    }
    lines = {"main": "d"}
    claims = (
        Claim(
            "rank-one",
            BA_TEXT,
            "In operator norm the rest vanishes like n^-1/2: the slope of its log ratio in log d is between -0.6 and "
            "-0.4.",
            between(-0.6, -0.4),
            check=lambda part: slope(part.simulated.operator_ratio, "d"),
            needs={"d": 3},
        ),
        Claim(
            "constant",
            BA_TEXT,
            "The ratio times n^1/2 stays below 3.",
            at_most(3.0),
            check=lambda part: (
                part.simulated.operator_ratio
                * (part.simulated.attrs["samples_per_dimension"] * part.simulated.d) ** 0.5
            ),
        ),
        Claim(
            "not-in-frobenius-norm",
            "the project's own observation",
            "In Frobenius norm the rest does not vanish: its ratio stays above 0.25.",
            at_least(0.25),
            check=lambda part: part.simulated.frobenius_ratio,
        ),
        Claim(
            "displacement",
            BA_TEXT,
            "The displacement is the step size times a constant of activation, link and samples per dimension, within "
            "5% at the largest d.",
            between(-0.05, 0.05),
            check=lambda part: relative_deviation(part.simulated.displacement, part.predicted.displacement).isel(d=-1),
            needs={"d": 3},
        ),
    )

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """One network, one gradient; norms of it and of what the rank-one part leaves."""
        from unlazy.functions.activations import activation
        from unlazy.theory.one_step.moments import activation_moments
        from unlazy.training.one_step.gradient_step import draw_samples, first_step

        sigma = activation(self.activation)
        n, features = (round(r * self.d) for r in (self.samples_per_dimension, self.features_per_dimension))
        samples = draw_samples(rng, n, self.d, link_function(self.link), self.noise_variance)
        linear = activation_moments(self.activation).linear
        step = first_step(rng, samples, features, sigma, sigma.derivative, linear)
        rest = step.direction - step.rank_one
        norms = [np.linalg.norm(matrix, order) for order in (2, "fro") for matrix in (rest, step.direction)]
        return {
            "operator_ratio": norms[0] / norms[1],
            "frobenius_ratio": norms[2] / norms[3],
            "displacement": norms[3],
        }

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.one_step.gradient_step import rank_one_step

        found = rank_one_step(
            self.activation,
            LINKS[self.link],
            1.0,
            self.samples_per_dimension,
            self.features_per_dimension,
            self.noise_variance,
        )
        return {"displacement": found.displacement}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.5, height=2.9)
        points = main.simulated
        for index, (name, text) in enumerate(
            (("operator_ratio", "operator norm"), ("frobenius_ratio", "Frobenius norm"))
        ):
            color, marker = style.colour(index), style.marker(index)
            style.simulation(left, points.d, points[name], color=color, marker=marker, label=text)
        first = float(points.operator_ratio.isel(d=0).mean())
        guide = first * (points.d / points.d[0]) ** -0.5
        style.theory(left, points.d, guide, color=style.colour(0), dashed=True, label="$d^{-1/2}$")
        style.theory(right, main.lines.d, main.lines.displacement, color=style.colour(0), label="theory")
        style.simulation(right, points.d, points.displacement, color=style.colour(0), label="simulation")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(points.d.values, [str(d) for d in points.d.values])
            axes.minorticks_off()
            axes.set_xlabel(style.label("dimension", "d"))
            axes.legend()
        style.log_scale(left, "y")
        left.set_ylabel("what rank one leaves, relative")
        right.set_ylabel(style.label("displacement", r"\|W_1-W_0\|_F"))
        right.set_ylim(0)
        return figure
