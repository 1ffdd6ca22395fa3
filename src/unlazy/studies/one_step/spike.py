"""The spike: from a certain step size on, the first layer has an outlier that points at the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, parameter, path, static, value
from unlazy.studies.one_step.shared.gradient_step import ACTIVATIONS, BA, BA_TEXT, LINKS, link_function

if TYPE_CHECKING:
    import xarray as xr

DIMS = ("step_size",)


def _away(part: Part, values: xr.DataArray) -> xr.DataArray:
    """Without the step sizes whose spike is within 10% of the transition."""
    spike, transition = part.predicted.spike, parameter(part.simulated, "features_per_dimension") ** 0.25
    kept = abs(spike / transition - 1) > 0.1
    cases = [dim for dim in values.dims if dim != "seed"]
    kept = kept.broadcast_like(values.isel(seed=0, drop=True)).transpose(*cases).stack(case=cases)
    return values.stack(case=cases).isel(case=kept.values).reset_index("case")


@dataclass(frozen=True)
class Spike(Study):
    name = "spike"
    topic = "one_step"
    question = (
        "Which gradient step leaves an outlier in the singular values of the first layer, how large is it, and how far "
        "does its singular vector point at the target?"
    )
    sources = (BA,)

    d: int = static(512, "dimension", symbol="d", low=2, high=10_000, scale="log")
    samples_per_dimension: float = static(4.0, "samples per dimension", symbol=r"\psi_0", above=0, high=100)
    features_per_dimension: float = static(2.0, "neurons per dimension", symbol=r"\psi_2", above=0, high=100)
    activation: str = static("erf", "activation", choices=ACTIVATIONS)
    link: str = static("erf", "link of the target", choices=tuple(LINKS))
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    step_size: tuple = path((1.0, 2.0, 3.0, 4.0, 6.0, 8.0), "step size", symbol=r"\eta", low=0, high=1e6)

    outputs = {
        "singular_value": Output("largest singular value", r"s_1(W_1)", DIMS),
        "alignment": Output("squared cosine of its vector with the target", r"(u_1\cdot\beta)^2", DIMS),
        "spike": Output("spike", r"\theta", DIMS, theory_only=True),
    }
    presets = {
        "quick": {"samples_per_dimension": [1.0, 4.0], "d": 400, "seeds": 56},
        "full": {"samples_per_dimension": [1.0, 2.0, 4.0], "d": [512, 1024], "seeds": 24},
    }
    lines = {"main": "step_size"}
    claims = (
        Claim(
            "singular-value",
            BA_TEXT,
            "The largest singular value is that of a spiked random matrix, within 3%, away from the transition.",
            between(-0.03, 0.03),
            check=lambda part: _away(part, part.simulated.singular_value / part.predicted.singular_value - 1),
        ),
        Claim(
            "alignment",
            BA_TEXT,
            "So is the squared cosine of its left vector with the target, within 0.05.",
            between(-0.05, 0.05),
            check=lambda part: _away(part, part.simulated.alignment - part.predicted.alignment),
        ),
        Claim(
            "transition",
            BA_TEXT,
            "Below the transition there is no outlier: the largest singular value is at most 2% above the edge 1 + "
            "sqrt(psi_2).",
            at_most(1.02),
            check=lambda part: _below(part),
        ),
    )

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """All step sizes share the network and its gradient, of which the residual is y alone as in the theory."""
        from unlazy.functions.activations import activation
        from unlazy.theory.one_step.moments import activation_moments
        from unlazy.training.one_step.gradient_step import draw_samples, first_step

        sigma = activation(self.activation)
        n, features = (round(r * self.d) for r in (self.samples_per_dimension, self.features_per_dimension))
        samples = draw_samples(rng, n, self.d, link_function(self.link), self.noise_variance)
        linear = activation_moments(self.activation).linear
        step = first_step(rng, samples, features, sigma, sigma.derivative, linear, with_output=False)
        found = []
        for size in self.step_size:
            weights = step.weights(size)
            squares, vectors = np.linalg.eigh(weights @ weights.T)
            found.append((np.sqrt(squares[-1]), vectors[0, -1] ** 2))
        return dict(zip(("singular_value", "alignment"), np.transpose(found), strict=True))

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.one_step.gradient_step import rank_one_step

        found = rank_one_step(
            self.activation,
            LINKS[self.link],
            np.array(self.step_size),
            self.samples_per_dimension,
            self.features_per_dimension,
            self.noise_variance,
        )
        return {name: getattr(found, name) for name in self.outputs}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.6, height=2.9)
        ratios = np.atleast_1d(parameter(main.simulated, "samples_per_dimension"))
        for index, ratio in enumerate(ratios):
            line, points = main.lines, main.simulated
            if "samples_per_dimension" in points.dims:
                line, points = (data.sel(samples_per_dimension=ratio) for data in (line, points))
            if "d" in points.dims:
                line, points = (data.isel(d=-1) for data in (line, points))
            color, marker = style.colour(index), style.marker(index)
            for axes, name in ((left, "singular_value"), (right, "alignment")):
                style.theory(axes, line.step_size, line[name], color=color, label=rf"$\psi_0 = {ratio:g}$")
                style.simulation(axes, points.step_size, points[name], color=color, marker=marker)
        left.set(xlabel=style.label("step size", r"\eta"), ylabel=style.label("largest singular value", "s_1"))
        right.set(xlabel=style.label("step size", r"\eta"), ylabel=r"alignment $(u_1\cdot\beta)^2$")
        left.legend()
        return figure


def _below(part: Part) -> xr.DataArray:
    """The singular value over the edge, at the step sizes below the transition by more than 10%."""
    ratio = parameter(part.simulated, "features_per_dimension")
    values = part.simulated.singular_value / (1 + ratio**0.5)
    kept = part.predicted.spike < 0.9 * ratio**0.25
    cases = [dim for dim in values.dims if dim != "seed"]
    kept = kept.broadcast_like(values.isel(seed=0, drop=True)).transpose(*cases).stack(case=cases)
    return values.stack(case=cases).isel(case=kept.values).reset_index("case")
