"""Density estimation in Wasserstein distance: smoothness is worth nothing on a line and a faster rate in a cube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.rough_densities import rough_density
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, path, slope, static
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_tensor_histogram
from unlazy.studies.diffusion.shared.rate_fits import HISTOGRAM, fit_cells
from unlazy.studies.diffusion.shared.sources import NILES_WEED, OKO
from unlazy.theory.diffusion.process import rates, wasserstein_bound

RESOLUTION = 64
"""Cells per axis of the histogram in the cube; half as many for the fits."""
_RESOLVED = 4**8
"""The largest n for which most of the cube's cells are empty: beyond, the grid hides the empirical measure's error."""
_CELLS_FACTOR = {1: 0.5, 2: 0.85}
LINE = tuple(4**k for k in range(5, 12))
CUBE = tuple(4**k for k in range(5, 11))


def _fine(part: Part) -> Any:
    return part.simulated.where(part.simulated.n <= _RESOLVED, drop=True)


@dataclass(frozen=True)
class DiffusionRateW1(Study):
    """Each seed draws densities and their data as histogram counts.

    On the line W1 is exact, int |F - F_hat|. In the cube it is the dyadic bound on 64^3 cells, some three times W1 (2.6
    to 3.8 in trials against exact transport): it shows rates, not W1 itself. After a pilot: the cells of the cube's
    splines are 0.5 n^(1/5) and 0.85 n^(1/7) for s = 1, 2, near the best; and the empirical measure is judged up to
    n = 4^8 only, because the histogram resolves no finer.
    """

    name = "diffusion-rate-w1"
    topic = "diffusion"
    question = "Does a smooth density estimate beat the empirical measure in W1, and at the rate n^(-(s+1)/(2s+d))?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Lines: the slopes of the theory, laid through the "
        "middle of the simulation; the black one on the left belongs to the empirical measure, whose points are not "
        "drawn. Middle: a ratio, black line at 1."
    )
    sources = (OKO, NILES_WEED)

    smoothness: int = static(2, "smoothness of the density", symbol="s", low=1, high=3)
    support: int = static(1, "dimension of the support", symbol="d'", choices=(1, 3))
    n: tuple = path(LINE, "observations", symbol="n", low=16, high=1 << 24, scale="log")
    draws: int = static(12, "densities per instance, each with its data", low=1, high=64)

    outputs = {
        "spline": Output("W1 of the spline", "W_1", ("n",), scale="log"),
        "empirical": Output("W1 of the empirical measure", "W_1", ("n",), scale="log"),
        "exponent": Output("exponent", theory_only=True),
        "stated_exponent": Output("exponent without the limit 1/2", theory_only=True),
        "empirical_exponent": Output("exponent of the empirical measure", theory_only=True),
    }
    presets = {
        "quick": {
            "line": {"smoothness": [1, 2, 3], "support": 1, "n": LINE, "draws": 12, "seeds": 12},
            "cube": {"smoothness": [2], "support": 3, "n": CUBE, "draws": 1, "seeds": 10},
        },
        "full": {
            "line": {"smoothness": [1, 2, 3], "support": 1, "n": LINE, "draws": 12, "seeds": 64},
            "cube": {"smoothness": [1, 2], "support": 3, "n": CUBE, "draws": 1, "seeds": 32},
        },
    }
    claims = (
        Claim(
            "line",
            "Niles-Weed & Berthet 2022",
            "On a line the spline's W1 falls as n^(-1/2) for every smoothness, exponent within 0.03.",
            between(-0.03, 0.03),
            check=lambda line: slope(line.simulated.spline, "n") + line.predicted.exponent,
            parts=("line",),
            needs={"n": 5},
        ),
        Claim(
            "line-empirical",
            "Niles-Weed & Berthet 2022",
            "So does that of the empirical measure.",
            between(-0.03, 0.03),
            check=lambda line: slope(line.simulated.empirical, "n") + line.predicted.empirical_exponent,
            parts=("line",),
            needs={"n": 5},
        ),
        Claim(
            "line-stated",
            "Oko et al. 2023",
            "On a line it falls as n^(-(s+1)/(2s+1)), exponent within 0.03.",
            between(-0.03, 0.03),
            check=lambda line: slope(line.simulated.spline, "n") + line.predicted.stated_exponent,
            parts=("line",),
            needs={"n": 5},
            known_negative="The exponent is above 1/2, and no estimator of a mean beats n^(-1/2), which W1 bounds; the "
            "rate is max(n^(-1/2), n^(-(s+1)/(2s+d'))).",
        ),
        Claim(
            "line-gain",
            "Niles-Weed & Berthet 2022",
            "On a line smoothing gains little: the spline's W1 is 0.9 to 1 times that of the empirical measure.",
            between(0.9, 1.0),
            statistic=lambda line: (line.simulated.spline / line.simulated.empirical).mean(("seed", "n")),
            parts=("line",),
        ),
        Claim(
            "cube",
            "Niles-Weed & Berthet 2022",
            "In a cube the dyadic bound of the spline's W1 falls as n^(-(s+1)/(2s+3)), exponent within 0.05.",
            between(-0.05, 0.05),
            check=lambda cube: slope(cube.simulated.spline, "n") + cube.predicted.exponent,
            parts=("cube",),
            needs={"n": 5},
        ),
        Claim(
            "cube-empirical",
            "Niles-Weed & Berthet 2022",
            "The bound of the empirical measure falls as n^(-1/3), exponent within 0.05.",
            between(-0.05, 0.05),
            check=lambda cube: slope(_fine(cube).empirical, "n") + cube.predicted.empirical_exponent,
            parts=("cube",),
            needs={"n": (4**5, 4**6, 4**7, 4**8)},
        ),
        Claim(
            "cube-gain",
            "Niles-Weed & Berthet 2022",
            "In a cube the spline is far closer: at n = 4^8 its bound is at most half that of the empirical measure.",
            at_most(0.5),
            statistic=lambda cube: (
                cube.simulated.spline.sel(n=4**8).mean("seed") / cube.simulated.empirical.sel(n=4**8).mean("seed")
            ),
            parts=("cube",),
            needs={"n": (4**8,)},
        ),
        Claim(
            "cube-steeper",
            "Niles-Weed & Berthet 2022",
            "And the gap widens: up to n = 4^8 the spline's slope is steeper by at least 0.03.",
            at_least(0.03),
            check=lambda cube: slope(_fine(cube).empirical, "n") - slope(_fine(cube).spline, "n"),
            parts=("cube",),
            needs={"n": (4**5, 4**6, 4**7, 4**8)},
        ),
    )

    def validate(self) -> None:
        if self.support == 3 and self.smoothness == 3:
            raise InputError("smoothness must be 1 or 2 for support 3, got 3")

    def memory(self) -> int:
        return 8 * 8 * RESOLUTION**3 if self.support == 3 else 0

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        one = self._on_a_line if self.support == 1 else self._in_a_cube
        logs = np.log(one(rng)).mean(axis=0)
        return {"spline": np.exp(logs[0]), "empirical": np.exp(logs[1])}

    def _on_a_line(self, rng: np.random.Generator) -> np.ndarray:
        """W1 = int |F - F_hat| of the spline with s n^(1/(2s+1)) cells and of the data, (draws, 2, n)."""
        n = np.array(self.n)
        masses = np.stack([rough_density(self.smoothness, rng).masses(HISTOGRAM) for _ in range(self.draws)])
        counts = np.concatenate([rng.multinomial(n, p) for p in masses])
        truth = np.repeat(masses.cumsum(axis=1), len(n), axis=0)
        found = np.empty((self.draws * len(n), HISTOGRAM))
        for index, size in enumerate(n):
            rows = slice(index, None, len(n))
            cells = max(2, round(self.smoothness * size ** (1 / (2 * self.smoothness + 1))))
            fits = fit_cells(counts[rows], cells, self.smoothness)
            found[rows] = fits.coefficients @ fits.tables.masses.T
        data = counts / counts.sum(axis=1, keepdims=True)
        distances = [2 * np.abs(q.cumsum(axis=1) - truth).mean(axis=1) for q in (found, data)]
        return np.stack(distances).reshape(2, self.draws, len(n)).transpose(1, 0, 2)

    def _in_a_cube(self, rng: np.random.Generator) -> np.ndarray:
        """The dyadic bounds of W1 on 64^3 cells, (draws, 2, n)."""
        result = np.empty((self.draws, 2, len(self.n)))
        half = RESOLUTION // 2
        for draw in range(self.draws):
            masses = rough_density(self.smoothness, rng, d=3).masses(RESOLUTION)
            for index, n in enumerate(self.n):
                counts = rng.multinomial(n, masses.ravel()).reshape(masses.shape)
                cells = max(2, round(_CELLS_FACTOR[self.smoothness] * n ** (1 / (2 * self.smoothness + 3))))
                basis = SplineBasis(cells + self.smoothness, self.smoothness)
                merged = counts.reshape(half, 2, half, 2, half, 2).sum(axis=(1, 3, 5))
                # far below the n_basis / (2n) by which likelihoods of samples differ
                gap = 0.03 * basis.n_basis**3 / n
                weights = fit_tensor_histogram((basis,) * 3, merged, gap=gap).coefficients
                axis = basis.masses(np.linspace(-1, 1, RESOLUTION + 1))
                found = np.einsum("abc,ia,jb,kc->ijk", weights, axis, axis, axis, optimize=True)
                result[draw, :, index] = [wasserstein_bound(q / q.sum(), masses) for q in (found, counts)]
        return result

    def predict(self) -> dict[str, Any]:
        found = rates(self.smoothness, self.support)
        return {
            "exponent": found.wasserstein,
            "stated_exponent": found.wasserstein_as_stated,
            "empirical_exponent": found.wasserstein_empirical,
        }

    def figure(self, line: Part, cube: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, middle, right) = style.panels(3, 1, width=3.2, height=2.9)
        data = line.simulated
        n = data.n.values.astype(float)
        for index, s in enumerate(np.atleast_1d(data.smoothness.values)):
            color, marker = style.colour(index), style.marker(index)
            some = data.sel(smoothness=s)
            style.simulation(left, n, some.spline, color=color, marker=marker, label=f"spline, $s={s}$")
            ratio = some.spline / some.empirical
            style.simulation(middle, n, ratio, color=color, marker=marker, label=f"$s={s}$")
        _guide(left, n, data.empirical.mean([d for d in data.empirical.dims if d != "n"]), 0.5, "black", "$n^{-1/2}$")
        middle.axhline(1, color="black", lw=1)
        style.log_scale(left)
        style.log_scale(middle, "x")
        left.set(title="line", xlabel=style.label("observations", "n"), ylabel="$W_1$")
        middle.set(title="line", xlabel=style.label("observations", "n"), ylabel="$W_1$ of spline / of data")
        self._draw_cube(right, cube)
        for axes in (left, middle, right):
            axes.legend()
        return figure

    def _draw_cube(self, axes: Any, cube: Part) -> None:
        from unlazy.plotting import style

        some = cube.simulated.isel(smoothness=-1)
        s, n = int(some.smoothness), some.n.values.astype(float)
        found = rates(s, 3)
        arms = (
            ("empirical measure", _fine(cube).isel(smoothness=-1).empirical, float(found.wasserstein_empirical), "1/3"),
            (f"spline, $s={s}$", some.spline, float(found.wasserstein), f"{s + 1}/{2 * s + 3}"),
        )
        for index, (text, values, exponent, name) in enumerate(arms):
            color, at = style.colour(index), values.n.values.astype(float)
            style.simulation(axes, at, values, color=color, marker=style.marker(index), label=text)
            _guide(axes, at, values.mean("seed"), exponent, color, f"$n^{{-{name}}}$")
        style.log_scale(axes)
        axes.set(
            title="cube", xlabel=style.label("observations", "n"), ylabel="bound of $W_1$", xlim=(n[0] / 2, n[-1] * 2)
        )


def _guide(axes: Any, n: np.ndarray, values: Any, exponent: float, color: str, text: str) -> None:
    """A line of the theory's slope through the middle of the points."""
    from unlazy.plotting import style

    middle = float(np.log(values).mean()) - exponent * (np.log(n) - np.log(n).mean())
    style.theory(axes, n, np.exp(middle), color=color, label=text)
