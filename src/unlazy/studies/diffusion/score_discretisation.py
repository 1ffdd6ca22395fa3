"""Running a diffusion backwards in finitely many steps, with the exact score: what steps, start and stop cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Output, Study, cite, static
from unlazy.lab.claims import (
    OWN,
    Change,
    at_most,
    between,
    claim,
    enough,
    over_theory,
    parameter,
    relative_deviation,
    slope,
    within,
)
from unlazy.numerics.reverse_diffusion import SCHEMES, gaussian_limit, gaussian_reverse, time_grid
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.diffusion.shared.discretisation import BUDGETS, VARIANCE, step_errors, stopping_errors

if TYPE_CHECKING:
    import xarray as xr


def _start_limit(data: xr.Dataset) -> xr.DataArray:
    """The mean that is reached in the limit of short steps, which has the error of the start and nothing else."""
    limit = data.mean_reached.isel(seed=0, drop=True).copy(deep=True)
    for scheme in np.atleast_1d(parameter(data, "scheme")):
        for last in np.atleast_1d(parameter(data, "last_time")):
            found = gaussian_limit(str(scheme), float(last), data.attrs["first_time"], data.attrs["center"], VARIANCE)
            limit.loc[{"scheme": scheme, "last_time": last}] = float(found.mean)
    return limit


ORDER = ("exponential", "flow", *(scheme for scheme in SCHEMES if scheme not in ("exponential", "flow")))
"""Of the schemes in panels: first those that all parts have, so that they have the same colours everywhere."""


def _by_scheme(name: str) -> Callable[[xr.Dataset], xr.DataArray]:
    """What a panel shows: an output with its schemes in this order."""

    def shown(data: xr.Dataset) -> xr.DataArray:
        if "scheme" not in data.dims:
            return data[name]
        return data[name].sortby(data.scheme.copy(data=[ORDER.index(s) for s in data.scheme.values]))

    return shown


def _draw_stops(axes: Any, **_) -> None:
    from unlazy.plotting import style

    errors = stopping_errors()
    for color, steps in zip(style.shades(len(BUDGETS)), BUDGETS, strict=True):
        style.theory(axes, errors.stop, errors.sel(steps=steps), color=color, label=f"$K = {steps}$")


@dataclass(frozen=True)
class ScoreDiscretisation(Study):
    """Data (x, 0, ..., 0) in R^d, x of the law N(center - a, v)/2 + N(center + a, v)/2, with a = 0 for a Gaussian.

    Points start at N(0, I) at the last time, the start of x at equally spaced quantiles, and go to the first time on a
    geometric grid by the exact score; then Tweedie's formula. For a Gaussian every scheme maps moments to moments, and
    the theory is exact for any number of steps. Two modes have their centre at 0, and their points are mirrored.
    """

    question = (
        "What does it cost to run a diffusion backwards in few steps, from the wrong start, and to stop before the end?"
    )
    sources = cite("chen2023", "oko2023", "song2021")

    scheme: str = static("exponential", "scheme", choices=SCHEMES)
    steps: int = static(100, "steps", symbol="K", low=1, high=100_000, scale="log")
    first_time: float = static(1e-3, "time at which the run stops", symbol="T_0", above=0, high=1, scale="log")
    last_time: float = static(4.0, "time at which it starts", symbol="T_1", above=0, high=50)
    center: float = static(0.5, "mean of the data", symbol=r"\mu", low=-100, high=100)
    separation: float = static(0.0, "half the distance of the two modes, 0 for one", symbol="a", low=0, high=100)
    variance: float = static(VARIANCE, "variance of a mode", symbol="v", above=0, high=100)
    d: int = static(3, "dimension", symbol="d", low=1, high=1000)
    particles: int = static(4000, "points", low=2, high=10_000_000, scale="log")

    outputs = {
        "mean_reached": Output("mean"),
        "variance_reached": Output("variance along the line"),
        "off_plane": Output("distance off the line before denoising", scale="log"),
        "off_plane_denoised": Output("distance off the line after denoising"),
        "distance": Output("distance along the line", "W_1", scale="log"),
    }
    presets = {
        "quick": {
            "main": {
                "scheme": ["exponential", "euler", "flow"],
                "steps": [25, 50, 100, 200],
                "particles": 2000,
                "seeds": 10,
            },
            "start": {
                "scheme": ["exponential", "flow"],
                "last_time": [0.5, 1.0],
                "steps": 100,
                "d": 1,
                "seeds": 8,
            },
            "mixture": {
                "scheme": ["exponential", "flow"],
                "steps": [20, 40, 80],
                "center": 0.0,
                "separation": 1.0,
                "variance": 0.09,
                "first_time": 1e-4,
                "d": 1,
                "particles": 5000,
                "seeds": 8,
            },
        },
        "full": {
            "main": {"scheme": list(SCHEMES), "steps": [25, 50, 100, 200, 400], "particles": 10_000, "seeds": 24},
            "start": {
                "scheme": ["exponential", "flow"],
                "last_time": [0.25, 0.5, 1.0, 2.0, 4.0],
                "steps": 400,
                "d": 1,
                "particles": 10_000,
                "seeds": 16,
            },
            "mixture": {
                "scheme": list(SCHEMES),
                "steps": [20, 40, 80, 160, 320],
                "center": 0.0,
                "separation": 1.0,
                "variance": 0.09,
                "first_time": 1e-4,
                "d": 1,
                "particles": 30_000,
                "seeds": 12,
            },
        },
    }
    lines = {"main": "steps", "start": "last_time"}
    history = tuple(
        Change(claim, what, why)
        for claim in ("mixture-order", "flow")
        for what, why in (
            (
                "two modes have their centre at 0, and their points are mirrored",
                "the noise of the shares of the modes was as large as the error of 80 steps",
            ),
            (
                "from 20 steps on, not from 10",
                "there the first step of 2.6 is beyond what the exponential scheme can take",
            ),
        )
    )
    figure = panels(
        Panel(
            _by_scheme("variance_reached"),
            x="steps",
            by="scheme",
            title="one mode",
            ylabel="variance reached",
            log="x",
            marks=(Level(VARIANCE),),
        ),
        Panel(
            _by_scheme("distance"),
            x="steps",
            by="scheme",
            part="mixture",
            title="two modes",
            ylabel="distance $W_1$",
            log="xy",
            line=True,
            legend=False,
        ),
        Panel(
            _by_scheme("mean_reached"),
            x="last_time",
            by="scheme",
            part="start",
            title="error of the start",
            xlabel="start $T_1$",
            ylabel="mean reached",
            marks=(Level(lambda data: data.attrs["center"]),),
            legend=False,
        ),
        Panel(
            lambda data: None,
            x="first_time",
            title="line in ten dimensions",
            xlabel="stop $T_0$",
            ylabel="distance $W_2$",
            log="xy",
            draw=_draw_stops,
        ),
        columns=4,
        width=2.9,
        caption="Dotted: the value of the data. The last panel is theory alone.",
    )

    @claim(OWN, "exact recursion of the moments", within(0.05))
    def moments(main):
        """The variances of simulated points on and off the line are those of the recursion, {criterion}."""
        return [
            over_theory(main, "variance_reached"),
            relative_deviation(main.simulated.off_plane**2, main.predicted.off_plane**2),
        ]

    @claim("chen2023", "exponential integrator; Euler and probability flow alike", between(-1.1, -0.9), theory=True)
    def order(main):
        """The error of the variance is of order one in the number of steps: its slope from 100 to 1600 steps is
        {criterion} for every scheme."""
        return slope(step_errors(), "steps")

    @claim("chen2023", "", between(-1.3, -0.7), resampled=True)
    def mixture_order(mixture):
        """With two modes W1 falls with the number of steps at a slope {criterion}."""
        return slope(mixture.simulated.distance.sel(scheme=["exponential", "flow"]).mean("seed"), "steps")

    @claim(
        OWN,
        "from the exact errors of one mode",
        at_most(0.8),
        resampled=True,
        known_negative=(
            "Between two modes the flow has to split the mass by its drift alone, where noise corrects what a long "
            "step did wrong: its W1 is about 1.2 times as large."
        ),
    )
    def flow(mixture):
        """At the same number of steps the probability flow is nearer to two modes than the reverse equation, as it is
        to one: its W1 is {criterion} times that of the exponential scheme."""
        means = mixture.simulated.distance.mean("seed")
        return means.sel(scheme="flow") / means.sel(scheme="exponential")

    @claim("chen2023", "error of the start", within(0.02, absolute=True))
    def start(start):
        """From N(0, 1) instead of p_T1 the mean is off by m^2 V_0/V_1 mu in the reverse equation and by the larger
        m sqrt(V_0/V_1) mu in the flow: simulations have that mean {criterion}."""
        enough(start.simulated, "last_time", 2)
        enough(start.simulated, "scheme", 2)
        return start.simulated.mean_reached - _start_limit(start.simulated)

    @claim("oko2023", "early stopping", between(-2.5, -1.5), theory=True)
    def stop(main):
        """For data on a line in ten dimensions the best time to stop falls as the square of the number of steps,
        without a denoising step: the slope is {criterion}."""
        return slope(stopping_errors().idxmin("stop"), "steps")

    @claim(OWN, "variance of the noise at the time of the stop", between(0.95, 1.05))
    def noise(main):
        """Without a denoising step every point is off the line by sigma_T0 sqrt(d - 1): at 200 steps the ratio
        is {criterion}."""
        off = main.simulated.off_plane.sel(scheme="exponential", steps=200)
        sigma = np.sqrt(-np.expm1(-2 * main.simulated.attrs["first_time"]))
        return off / (sigma * np.sqrt(main.simulated.attrs["d"] - 1))

    @claim(OWN, "Tweedie's formula for data on a line", at_most(1e-12))
    def tweedie(main):
        """Tweedie's formula puts every point on the line, up to rounding: off by {criterion}."""
        return main.simulated.off_plane_denoised

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from scipy.special import ndtri

        from unlazy.numerics.reverse_diffusion import denoised, run_reverse
        from unlazy.theory.diffusion.process import mixture_score

        ranks = (np.arange(self.particles) + 0.5) / self.particles
        start = rng.standard_normal((self.particles, self.d))
        start[:, 0] = rng.permutation(ndtri(ranks))
        means = self.center + self.separation * np.array([[-1.0], [1.0]])
        if self.separation == 0:
            means = means[:1]
        shares, variances = np.full(len(means), 1 / len(means)), np.full(len(means), self.variance)

        def score(points: np.ndarray, time: float) -> np.ndarray:
            # off the line the data are one point, whose score is that of the noise
            found = points / np.expm1(-2 * time)
            found[:, :1] = mixture_score(points[:, :1], time, shares, means, variances).score
            return found

        times = time_grid(self.last_time, self.first_time, self.steps)
        noisy = run_reverse(rng, score, start, times, scheme=self.scheme, denoise=False)
        points = denoised(noisy, score(noisy, self.first_time), self.first_time)
        return {
            "mean_reached": points[:, 0].mean(),
            "variance_reached": points[:, 0].var(),
            "off_plane": _spread(noisy[:, 1:]),
            "off_plane_denoised": _spread(points[:, 1:]),
            "distance": self._distance(points[:, 0]),
        }

    def _distance(self, along: np.ndarray) -> float:
        """W1 to the data; about a centre at 0 the law is symmetric, and mirrored points keep the modes in balance."""
        from scipy.special import ndtr

        if self.center == 0:
            along = np.concatenate([along, -along])
        ranks = (np.arange(along.size) + 0.5) / along.size
        width = np.sqrt(self.variance)
        reach = self.separation + 9 * width
        x = np.linspace(-reach, reach, 20_001)
        cdf = 0.5 * (ndtr((x - self.separation) / width) + ndtr((x + self.separation) / width))
        return float(np.abs(np.sort(along) - self.center - np.interp(ranks, cdf, x)).mean())

    def predict(self) -> dict[str, Any]:
        times = time_grid(self.last_time, self.first_time, self.steps)
        variances = np.array([self.variance, 0.0])
        centers = np.array([self.center, 0.0])
        noisy = gaussian_reverse(self.scheme, times, centers, variances, denoise=False)
        found = {"off_plane": float(np.sqrt((self.d - 1) * noisy.variance[1])), "off_plane_denoised": 0.0}
        if self.separation:
            return found
        final = gaussian_reverse(self.scheme, times, centers, variances)
        return {"mean_reached": float(final.mean[0]), "variance_reached": float(final.variance[0]), **found}


def _spread(off: np.ndarray) -> float:
    """The root mean square distance from the line."""
    return float(np.sqrt((off**2).sum(axis=1).mean())) if off.shape[1] else 0.0
