"""Running a diffusion backwards in finitely many steps, with the exact score: what steps, start and stop cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, parameter, relative_deviation, slope, static
from unlazy.numerics.reverse_diffusion import SCHEMES, gaussian_limit, gaussian_reverse, time_grid
from unlazy.studies.diffusion.shared.discretisation import BUDGETS, VARIANCE, step_errors, stopping_errors
from unlazy.studies.diffusion.shared.sources import CHEN, OKO, SONG

if TYPE_CHECKING:
    import xarray as xr

TEXTS = {"exponential": "exponential", "euler": "Euler", "flow": "flow"}


def _start_error(part: Part) -> xr.DataArray:
    """The mean reached less its limit for short steps, which holds the error of the start and nothing else."""
    simulated = part.simulated
    limit = simulated.mean_reached.isel(seed=0, drop=True).copy(deep=True)
    for scheme in np.atleast_1d(parameter(simulated, "scheme")):
        for last in np.atleast_1d(parameter(simulated, "last_time")):
            found = gaussian_limit(
                str(scheme), float(last), simulated.attrs["first_time"], simulated.attrs["center"], VARIANCE
            )
            limit.loc[{"scheme": scheme, "last_time": last}] = float(found.mean)
    return simulated.mean_reached - limit


def _noise_left(part: Part) -> xr.DataArray:
    """Off-plane noise over sigma sqrt(d - 1), at the most steps of the exponential scheme."""
    simulated = part.simulated
    sigma = np.sqrt(-np.expm1(-2 * simulated.attrs["first_time"]))
    return simulated.off_plane.sel(scheme="exponential", steps=200) / (sigma * np.sqrt(simulated.attrs["d"] - 1))


@dataclass(frozen=True)
class ScoreDiscretisation(Study):
    """Data (x, 0, ..., 0) in R^d, x of the law N(center - a, v)/2 + N(center + a, v)/2, with a = 0 for a Gaussian.

    Points start at N(0, I) at the last time, the start of x at equally spaced quantiles, and go to the first time on a
    geometric grid by the exact score; then Tweedie's formula. For a Gaussian every scheme maps moments to moments, and
    the theory is exact for any number of steps. Changed after a look: two modes have their centre at 0 and their points
    are mirrored, because the noise of the shares of the modes was as large as the error of 80 steps; they start at 20
    steps instead of 10, where the first step of 2.6 is beyond what the exponential scheme can take.
    """

    name = "score-discretisation"
    topic = "diffusion"
    question = (
        "What does it cost to run a diffusion backwards in few steps, from the wrong start, and to stop before the end?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Lines: theory; in the second panel thin lines only "
        "join the points, the last panel is theory alone. Grey, dotted: the value of the data."
    )
    sources = (CHEN, OKO, SONG)

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
    lines = {"main": "steps"}
    claims = (
        Claim(
            "moments",
            "exact recursion",
            "The variances of simulated points on and off the line are those of the recursion, within 5%.",
            between(-0.05, 0.05),
            check=lambda part: [
                relative_deviation(part.simulated.variance_reached, part.predicted.variance_reached),
                relative_deviation(part.simulated.off_plane**2, part.predicted.off_plane**2),
            ],
        ),
        Claim(
            "order",
            "Chen et al. 2023 (exponential integrator), Euler and probability flow alike",
            "The error of the variance is of order one in the number of steps: its slope from 100 to 1600 steps is in "
            "[-1.1, -0.9] for every scheme.",
            between(-1.1, -0.9),
            theory=lambda part: slope(step_errors(), "steps"),
        ),
        Claim(
            "mixture-order",
            "Chen et al. 2023",
            "With two modes W1 falls with the number of steps at a slope in [-1.3, -0.7].",
            between(-1.3, -0.7),
            statistic=lambda mixture: slope(
                mixture.simulated.distance.sel(scheme=["exponential", "flow"]).mean("seed"), "steps"
            ),
            parts=("mixture",),
            needs={"steps": 3, "scheme": ("exponential", "flow")},
        ),
        Claim(
            "flow",
            "project, from the exact errors of one mode",
            "At the same number of steps the probability flow is nearer to two modes than the reverse equation, as it "
            "is to one: its W1 is at most 0.8 of that of the exponential scheme.",
            at_most(0.8),
            statistic=lambda mixture: (
                mixture.simulated.distance.sel(scheme="flow").mean("seed")
                / mixture.simulated.distance.sel(scheme="exponential").mean("seed")
            ),
            parts=("mixture",),
            needs={"scheme": ("exponential", "flow")},
            known_negative="Between two modes the flow has to split the mass by its drift alone, where noise corrects "
            "what a long step did wrong: its W1 is about 1.2 times as large.",
        ),
        Claim(
            "start",
            "Chen et al. 2023 (error of the start)",
            "From N(0, 1) instead of p_T1 the mean is off by m^2 V_0/V_1 mu in the reverse equation and by the larger "
            "m sqrt(V_0/V_1) mu in the flow: simulations differ from that by at most 0.02.",
            between(-0.02, 0.02),
            check=_start_error,
            parts=("start",),
            needs={"last_time": 2, "scheme": 2},
        ),
        Claim(
            "stop",
            "Oko, Akiyama & Suzuki 2023 (early stopping)",
            "For data on a line in ten dimensions the best time to stop falls as the square of the number of steps, "
            "without a denoising step: slope in [-2.5, -1.5].",
            between(-2.5, -1.5),
            theory=lambda part: _best_stop_slope(),
        ),
        Claim(
            "noise",
            "project note",
            "Without a denoising step every point is off the line by sigma_T0 sqrt(d - 1), within 5% at 200 steps.",
            between(0.95, 1.05),
            check=_noise_left,
            needs={"scheme": ("exponential",), "steps": (200,)},
        ),
        Claim(
            "tweedie",
            "project note",
            "Tweedie's formula puts every point on the line, up to rounding: off by at most 1e-12.",
            at_most(1e-12),
            check=lambda part: part.simulated.off_plane_denoised,
        ),
    )

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

    def figure(self, main: Part, start: Part, mixture: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(4, 1, width=2.7, height=2.9)
        left, middle, right, last = axes
        for index, scheme in enumerate(np.atleast_1d(parameter(main.simulated, "scheme"))):
            color, marker = style.colour(index), style.marker(index)
            points, line = main.simulated.sel(scheme=scheme), main.lines.sel(scheme=scheme)
            style.theory(left, line.steps, line.variance_reached, color=color)
            style.simulation(
                left, points.steps, points.variance_reached, color=color, marker=marker, label=TEXTS.get(scheme, scheme)
            )
            if scheme in mixture.simulated.scheme:
                values = mixture.simulated.distance.sel(scheme=scheme)
                style.simulation(middle, values.steps, values, color=color, marker=marker)
                middle.plot(values.steps, values.mean("seed"), color=color, linewidth=0.7)
            if scheme in start.simulated.scheme:
                values = start.simulated.mean_reached.sel(scheme=scheme)
                style.simulation(right, values.last_time, values, color=color, marker=marker)
                ends = np.linspace(float(values.last_time.min()), float(values.last_time.max()), 60)
                stop, center = main.simulated.attrs["first_time"], start.simulated.attrs["center"]
                limits = [float(gaussian_limit(str(scheme), end, stop, center, VARIANCE).mean) for end in ends]
                style.theory(right, ends, limits, color=color)
        errors = stopping_errors()
        for color, steps in zip(style.shades(len(BUDGETS)), BUDGETS, strict=True):
            style.theory(last, errors.stop, errors.sel(steps=steps), color=color, label=f"$K = {steps}$")
        left.axhline(VARIANCE, color="#888888", linestyle=":", linewidth=1)
        right.axhline(start.simulated.attrs["center"], color="#888888", linestyle=":", linewidth=1)
        style.log_scale(left, "x")
        style.log_scale(middle)
        style.log_scale(last)
        left.set(xlabel=style.label("steps", "K"), ylabel="variance reached", title="one mode")
        middle.set(xlabel=style.label("steps", "K"), ylabel="distance $W_1$", title="two modes")
        right.set(xlabel=style.label("start", "T_1"), ylabel="mean reached", title="error of the start")
        last.set(xlabel=style.label("stop", "T_0"), ylabel="distance $W_2$", title="line in ten dimensions")
        left.legend()
        last.legend(fontsize=6.5)
        return figure


def _best_stop_slope() -> xr.DataArray:
    return slope(stopping_errors().idxmin("stop"), "steps")


def _spread(off: np.ndarray) -> float:
    """The root mean square distance from the line."""
    return float(np.sqrt((off**2).sum(axis=1).mean())) if off.shape[1] else 0.0
