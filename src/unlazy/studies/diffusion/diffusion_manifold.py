"""Data on a line: an estimator that finds the line does not see the dimension around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Output, Study, cite, path, static
from unlazy.lab.claims import OWN, Change, at_least, at_most, between, claim, parameter, slope
from unlazy.plotting.panels import Guide, Panel, panels

if TYPE_CHECKING:
    import xarray as xr

DIMS = ("n",)
THEOREM = "theorem on linear subspaces"
GRID = np.linspace(-1, 1, 1001)
TABLE = np.linspace(-1, 1, 8001)
"""Where the distribution function is tabulated for drawing, in steps of a quarter of the shortest wave."""
CELLS = 512
TERMS = 20
"""Down to wavelengths of 0.001 of the interval, far below what these numbers of rows resolve."""
SMOOTHNESS = 2.0


def _growth(values: xr.DataArray) -> xr.DataArray:
    """The error in ten dimensions over that in two, at the most rows."""
    means = values.sel(n=1600).mean("seed")
    return means.sel(d=10) / means.sel(d=2)


def _beside(data: xr.Dataset) -> xr.DataArray:
    """The numbers of rows, moved a little to the right in higher dimensions, where points would be on top of others."""
    return data.n * parameter(data, "d") ** 0.05


def _panel(shown: tuple[str, ...], part: str, title: str, legend: str, *marks: Guide) -> Panel:
    return Panel(
        shown,
        x=_beside,
        by="d",
        part=part,
        title=title,
        xlabel="rows $n$",
        ylabel="distance $W_1$",
        log="xy",
        marks=marks,
        legend=legend,
    )


@dataclass(frozen=True)
class DiffusionManifold(Study):
    """X = A u in R^d with A a random direction and u of smoothness 2 on [-1, 1], its phases drawn with every seed.

    The score splits into A grad log p_t(A.x) - (I - A A^T) x / sigma_t^2. The direction comes from the singular vectors
    of the rows, the density on the line is a spline of degree 2 with 3 n^(1/5) functions, and its W1 distance is the
    integral of |F_hat - F|, without sampling. The kernel density in R^d has the bandwidth 0.5 std n^(-1/(d+4)), optimal
    for densities and not tuned for W1: with a bandwidth that goes to 0 it becomes the empirical measure and escapes the
    dimension too. Its W1 distance is that of `points` draws, stratified along the line, to as many points at the
    quantiles of u, by exact transport.
    """

    question = "Does a diffusion model of data on a line in d dimensions learn as fast as on the line itself?"
    sources = cite("oko2023", "nilesweed2022")

    d: int = static(2, "dimension", symbol="d", low=2, high=1000, scale="log")
    n: tuple = path((50, 100, 200, 400, 800, 1600), "rows", symbol="n", low=10, high=100_000, scale="log")
    points: int = static(0, "draws of the kernel density and the network, 0 for none", low=0, high=5000)
    replicates: int = static(8, "data sets per seed, averaged", low=1, high=1000)
    steps: int = static(0, "training steps of the network, 0 for none", low=0, high=1_000_000)

    outputs = {
        "spline": Output("line and spline", "W_1", DIMS, scale="log"),
        "empirical": Output("empirical measure", "W_1", DIMS, scale="log"),
        "angle": Output("sine of the angle to the line", dims=DIMS),
        "kernel": Output("kernel density", "W_1", DIMS, scale="log", undefined=np.nan),
        "network": Output("network", "W_1", DIMS, scale="log", undefined=np.nan),
        "network_noisy": Output("network without the last denoising step", "W_1", DIMS, scale="log", undefined=np.nan),
    }
    presets = {
        "quick": {
            "main": {"d": [2, 10], "seeds": 32, "replicates": 16},
            "kernel": {"d": [2, 10], "n": (100, 1600), "points": 300, "replicates": 1, "seeds": 12},
        },
        "full": {
            "main": {"d": [2, 5, 10, 30], "seeds": 160},
            "kernel": {"d": [2, 5, 10], "n": (50, 200, 400, 1600), "points": 1500, "replicates": 1, "seeds": 16},
            "network": {
                "d": [2, 10],
                "n": (100, 400, 1600),
                "points": 1000,
                "steps": 4000,
                "replicates": 1,
                "seeds": 3,
            },
        },
    }
    history = (
        Change(
            "",
            "the replicates per seed, and draws of the kernel density that are stratified along the line",
            "against noise alone: with 100 and 10 plain seeds two claims were inconclusive",
        ),
    )
    figure = panels(
        _panel(("spline", "empirical"), "main", "on the line", "lower left", Guide(-0.5, "$n^{-1/2}$", 1.1)),
        _panel(("spline", "kernel"), "kernel", "kernel density, bandwidth best for densities", "center"),
        _panel(("spline", "network"), "network", "network that is not told of the line", "lower left"),
        width=3.8,
        height=3.1,
        caption="Points of higher dimensions are moved a little to the right.",
    )

    @claim("oko2023", THEOREM, between(-0.6, -0.45), resampled=True)
    def slope(main):
        """In every dimension W1 of line and spline falls as n^(-1/2): the slope in n is {criterion}."""
        return slope(main.simulated.spline.mean("seed"), "n", least=4)

    @claim("oko2023", THEOREM, between(0.8, 1.25), resampled=True)
    def dimension(main):
        """With 1600 rows W1 in 10 dimensions is that in 2 dimensions, up to a factor {criterion}."""
        return _growth(main.simulated.spline)

    @claim(OWN, "precondition of the claims above", at_most(1e-12))
    def line(main):
        """The singular vectors of the rows find the line up to rounding: the sine of the angle is {criterion}."""
        return main.simulated.angle

    @claim(
        "nilesweed2022",
        "with the exponent min(1/2, (s+1)/(2s+d')) at d' = 1",
        between(-0.6, -0.45),
        resampled=True,
    )
    def empirical(main):
        """On a line the empirical measure falls as n^(-1/2) too, with a slope {criterion}: the theorem's exponent
        (s+1)/(2s+1) > 1/2 is not reached."""
        return slope(main.simulated.empirical.mean("seed"), "n", least=4)

    @claim(
        OWN, "from the bandwidth n^(-1/(d+4)), which blurs the line in all d dimensions", at_least(4.0), resampled=True
    )
    def kernel(kernel):
        """W1 of the kernel density in R^d, with the bandwidth that is best for densities, grows from 2 to 10 dimensions
        at 1600 rows by a factor of {criterion}."""
        return _growth(kernel.simulated.kernel)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.functions.rough_densities import rough_density

        law = rough_density(SMOOTHNESS, rng, terms=TERMS)
        table = law.cdf(TABLE[:, None])
        truth = np.interp(GRID, TABLE, table)
        directions = rng.standard_normal((self.replicates, self.d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        found = []
        for n in self.n:
            along = np.interp(rng.random((self.replicates, n)), table, TABLE)
            line = self._on_the_line(along, directions, truth)
            quantiles = np.interp((np.arange(self.points) + 0.5) / max(self.points, 1), table, TABLE)
            found.append(line + self._in_space(rng, along[0], directions[0], quantiles))
        return dict(zip(self.outputs, np.transpose(found), strict=True))

    def _on_the_line(self, along: np.ndarray, directions: np.ndarray, truth: np.ndarray) -> list[float]:
        """W1 of the spline and of the empirical measure and the largest angle, means over the replicates."""
        from unlazy.numerics.splines.interval import SplineBasis
        from unlazy.numerics.splines.likelihood import fit_histograms

        n = along.shape[1]
        rows = along[:, :, None] * directions[:, None, :]
        lines = np.linalg.svd(rows, full_matrices=False)[2][:, 0]
        cosines = np.sum(lines * directions, axis=1, keepdims=True)
        # the root of 1 - cosine^2 would lose half the digits
        angle = float(np.linalg.norm(lines - cosines * directions, axis=1).max())
        seen = np.clip((rows @ (lines * np.sign(cosines))[:, :, None])[:, :, 0], -1, 1)
        basis = SplineBasis(round(3 * n**0.2), 2)
        counts = np.stack([np.histogram(one, CELLS, (-1, 1))[0] for one in seen])
        fitted = fit_histograms(basis, counts).coefficients @ basis.antiderivatives(GRID).T
        steps = np.stack([np.searchsorted(np.sort(one), GRID, side="right") for one in seen]) / n
        return [*(float(np.trapezoid(np.abs(cdf - truth), GRID).mean()) for cdf in (fitted, steps)), angle]

    def _in_space(
        self, rng: np.random.Generator, along: np.ndarray, direction: np.ndarray, quantiles: np.ndarray
    ) -> list[float]:
        """W1 of the kernel density and the network of one replicate to equally many points at the quantiles of u."""
        if not self.points:
            return [np.nan] * 3
        from unlazy.observables.transport import wasserstein_distance

        target = quantiles[:, None] * direction
        # rows at equal ranks instead of random ones: the noise of the drawing would be as large as what it measures
        ranks = (np.arange(self.points) + rng.random()) * len(along) / self.points
        centers = np.sort(along)[ranks.astype(int)]
        bandwidth = 0.5 * along.std() * len(along) ** (-1 / (self.d + 4))
        drawn = centers[:, None] * direction + bandwidth * rng.standard_normal(target.shape)
        found = [wasserstein_distance(drawn, target)]
        if not self.steps:
            return [*found, np.nan, np.nan]
        return found + [
            wasserstein_distance(samples, target) for samples in self._network(rng, along[:, None] * direction)
        ]

    def _network(self, rng: np.random.Generator, rows: np.ndarray) -> list[np.ndarray]:
        """Draws of a network that is not told of the line, with and without the last denoising step."""
        from unlazy.numerics.reverse_diffusion import time_grid
        from unlazy.training.diffusion.reverse import network_samples
        from unlazy.training.diffusion.score_matching import Schedule, train_score

        training, sampling = rng.integers(2**31, size=2).tolist()
        unit = rows.std()
        held = max(10, len(rows) // 8)
        trained = train_score(training, rows[held:] / unit, rows[:held] / unit, Schedule(steps=self.steps))
        times = time_grid(4.0, 1e-3, 250)
        return [
            unit * network_samples(trained.network, sampling, self.points, times, denoise=denoise)
            for denoise in (True, False)
        ]
