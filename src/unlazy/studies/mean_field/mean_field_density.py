"""Density estimation by maximum mean discrepancy with interacting particles: against its exact optimum, and KDE."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, changes, cite, claim, static, value
from unlazy.lab.claims import at_most, between
from unlazy.lab.measures import enough, parameter
from unlazy.numerics.monte_carlo import without_controls
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.mean_field.shared import of_one_problem
from unlazy.theory.mean_field.dual import particle_constants, width_covariance
from unlazy.theory.mean_field.normal_mixture import TwoNormals, normal_densities
from unlazy.theory.mean_field.optimum import density_optimum

EXPANSION = "second-order expansion around mu*"
RIVALS = "comparison with kernel densities, on an example of Suzuki et al. 2023"
ON_OTHERS = "the exact optimum for six other samples of the same mixture, n = 100 and 400"
MORE = "runs with N = 32, then 8, and 64 seeds were inconclusive (the next order, 1/N^2, is 10% at N = 8)"
LENGTHS: dict[str, Any] = {"bandwidth": 0.6, "smoothing": 0.3}
DATA = np.array([-1.5, -1.2, -0.9, 0.8, 1.0, 1.1, 1.6, 1.9])
PLACES, GRID = np.linspace(-2.4, 2.4, 13), np.linspace(-4.5, 4.5, 181)
"""Where the density of the fixed data and that of a sample are watched."""
TOTAL = 32
"""Particles of one instance, in clouds of N each."""
IN_FIXED, IN_SAMPLED = {"kind": ("fixed",)}, {"kind": ("sampled",)}
CENTRES = np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
"""Of the test functions of the control variates."""
BANDWIDTHS = np.linspace(0.08, 0.6, 27)
TRUTH = TwoNormals(left_weight=0.5, centre=1.2, deviation=0.5)
FIT = {"kind": "sampled", "step_size": 0.2, "confinement": 0.00125, "temperature": 0.01}
FIXED = {"kind": "fixed", "confinement": 0.02, "temperature": 0.05}


@cache
def fixed_optimum(confinement, temperature):
    """The exact optimum for the eight fixed data."""
    return density_optimum(DATA, confinement=confinement, temperature=temperature, **LENGTHS)


def _corrected(data):
    """N (F - F*) of each seed, less its regression over seeds on `drift`, which is 0 in the mean at stationarity."""
    import xarray as xr

    dims: dict[str, Any] = {"input_core_dims": [["seed"], ["seed", "test"]], "output_core_dims": [["seed"]]}
    return xr.apply_ufunc(without_controls, data.scaled_energy_gap, data.drift, **dims)


def _down_to_0(data):
    """The same, and what it is at step 0 on a straight line."""
    gap = _corrected(data)
    if gap.sizes.get("step_size", 1) < 2:
        return gap
    first, second = (gap.isel(step_size=k, drop=True) for k in (0, 1))
    low, high = gap.step_size.values[:2]
    at_zero = (high * first - low * second) / (high - low)
    return gap.reindex(step_size=[0.0, *gap.step_size.values]).fillna(at_zero)


def _variance(data):
    """N times the variance of the density at the shorter step, for figures."""
    data = data.isel(step_size=0, drop=True, missing_dims="ignore")
    return data.square - _common(data)


def _common(data):
    """N times the squared mean deviation of all clouds, summed over places: what is no variance."""
    return parameter(data, "particles") * (data.offset.mean("seed") ** 2).sum("place")


def _over(part, name):
    """N times the variance of the density at the shorter step over a predicted one."""
    data = part.simulated.isel(step_size=0, drop=True)
    return (data.square.mean("seed") - _common(data)) / part.predicted[name].isel(step_size=0, drop=True)


SMALL: dict[str, Any] = {"x": "step_size", "by": "particles", "part": "small"}
STEPS = SMALL | {"part": "fixed", "log": "", "xlim": (-0.01, None), "ylim": (0, None)}
OF_SMALL: dict[str, Any] = {"x": "particles", "part": "small"}
WIDE = OF_SMALL | {"part": "fixed", "log": "", "ylim": (0, None)}
STEP_0 = Level(lambda data: data.energy_excess.values.flat[0], "$c_F$ (step 0)", theory=True)
ONE_RUN = lambda data: data.average_density.isel(seed=0), lambda data: data.kernel_density.isel(seed=0)
WIDTHS = (
    Level(lambda data: data.width_variance.values.flat[0], "theory", theory=True),
    Level(lambda data: data.independent_variance.values.flat[0], "independent", dashed=True, theory=True),
)


@dataclass(frozen=True)
class MeanFieldDensity(Study):
    """F = MMD^2(g * mu, data) + lambda_1 E|x|^2 with a Gaussian kernel (length 0.6) and g = N(0, 0.3^2), in R.

    Part `fixed`: eight given data, clouds of N particles from samples of mu* (`small`: N = 8), F* and constants by the
    dual; an instance has 32 particles, 32/N clouds at once. Energies at two steps are extrapolated to step 0, as N
    times the bias of a step is not small against c_F, and their noise is reduced by control variates. Part `sampled`: n
    data from a mixture of two normals, at which the particles start, next to kernel density estimates (KDE) with the
    bandwidth that is best for each sample, which needs the truth, and with Silverman's.
    """

    question = (
        "Can particles that minimise a maximum mean discrepancy estimate a density, and what does their number cost?"
    )
    sources = cite("suzuki2023convergence", "chen2022uniform", "silverman1986density")
    precision = "float32"
    chunk_width = 32

    kind: str = static("fixed", "data: eight given numbers or a sample", choices=("fixed", "sampled"))
    particles: int = static(32, "particles", symbol="N", low=2, high=10_000, scale="log")
    n: int = static(200, "data", symbol="n", low=2, high=100_000, scale="log")
    step_size: float = value(0.1, "step size", symbol=r"\eta", above=0, high=0.5, scale="log")
    confinement: float = static(0.02, "confinement", symbol=r"\lambda_1", low=1e-4, high=10, scale="log")
    temperature: float = static(0.05, "temperature", symbol=r"\lambda_2", low=1e-3, high=10, scale="log")

    theory_for = {"kind": ("fixed",)}
    outputs = {
        "scaled_energy_gap": Output("N times the excess of F", r"N(F-F^*)", only=IN_FIXED),
        "drift": Output("N times the expected growth of the means of test functions", "", ("test",), only=IN_FIXED),
        "square": Output("N times the squared deviation of the density, summed", scale="log", only=IN_FIXED),
        "offset": Output("deviation of the density from the optimum's", "", ("place",), only=IN_FIXED),
        "snapshot_error": Output("squared error of the density at one time", scale="log", only=IN_SAMPLED),
        "average_error": Output("squared error of the density, averaged over time", scale="log", only=IN_SAMPLED),
        "best_bandwidth_error": Output("squared error of KDE, best bandwidth", scale="log", only=IN_SAMPLED),
        "silverman_error": Output("squared error of KDE, Silverman's bandwidth", scale="log", only=IN_SAMPLED),
        "average_density": Output("density, averaged over time", "", ("point",), only=IN_SAMPLED),
        "kernel_density": Output("density by KDE, best bandwidth", "", ("point",), only=IN_SAMPLED),
        "energy_excess": Output("constant of F", "c_F", theory_only=True),
        "width_variance": Output("predicted N var of the density, summed over places", theory_only=True),
        "independent_variance": Output("the same of independent particles", theory_only=True),
    }
    inner = {"place": PLACES.tolist(), "point": GRID.tolist(), "test": [np.inf, *CENTRES.tolist()]}
    history = (
        Change("energy", "N = 16, the control variates and more seeds", MORE),
        Change("width-small", "a claim of its own with 48 seeds", "192 as for N = 16 were more than it needs"),
        *changes("kernel-density few-particles", "lengths and temperature", ON_OTHERS),
    )
    presets = {
        "quick": {
            "fixed": FIXED | {"particles": 16, "step_size": [0.1, 0.2], "seeds": 192},
            "small": FIXED | {"particles": 8, "step_size": [0.1], "seeds": 48},
            "sampled": FIT | {"seeds": 48},
        },
        "full": {
            "fixed": FIXED | {"particles": [16, 32], "step_size": [0.05, 0.1], "seeds": 768},
            "small": FIXED | {"particles": 8, "step_size": [0.05], "seeds": 768},
            "sampled": FIT | {"n": [100, 200, 400], "particles": 64, "seeds": 64},
        },
    }
    figure = panels(
        Panel(
            _down_to_0,
            line=True,
            also=(Panel(_corrected, **SMALL),),
            **STEPS,
            ylabel=r"$N\,(\mathrm{E}F-F^*)$",
            marks=(STEP_0,),
            legend="lower right",
        ),
        Panel(_variance, ylabel="$N$ variance", marks=WIDTHS, also=(Panel(_variance, **OF_SMALL),), **WIDE),
        Panel(
            (*ONE_RUN, lambda data: data.point.copy(data=TRUTH.density(data.point.values))),
            x="point",
            part="sampled",
            points=False,
            line=True,
            labels=("particles", "KDE, best bandwidth", "truth"),
            ylabel="density, one sample",
            ylim=(0, 0.62),
        ),
        width=3.1,
        caption="Left: the points at step 0 are extrapolated.",
    )

    @claim(OWN, EXPANSION, between(0.8, 1.2), resampled=True)
    def energy(fixed):
        """N (E F - F*), extrapolated to step 0, is {criterion} times c_F = c - lambda_2 dc/dlambda_2 for N = 16."""
        enough(fixed.simulated, "step_size", 2)
        gap = _corrected(fixed.simulated).mean("seed")
        # The longer step is twice the shorter.
        at_zero = 2 * gap.isel(step_size=0) - gap.isel(step_size=1)
        return at_zero / fixed.predicted.energy_excess.isel(step_size=0, drop=True)

    @claim(OWN, EXPANSION, between(0.9, 1.1), resampled=True)
    def width(fixed):
        """N times the variance of the estimated density is {criterion} times the predicted constant for N = 16."""
        return _over(fixed, "width_variance")

    @claim(OWN, EXPANSION, between(0.9, 1.1), resampled=True)
    def width_small(small):
        """So it is for N = 8: {criterion} times."""
        return _over(small, "width_variance")

    @claim(OWN, EXPANSION, at_most(2 / 3), resampled=True)
    def repulsion(fixed):
        """Interaction makes the density less noisy: its variance is at most 2/3 of that of independent particles."""
        return _over(fixed, "independent_variance")

    @claim(OWN, RIVALS, at_most(1.0), resampled=True)
    def kernel_density(sampled):
        """The particles, averaged over time, estimate the density at least as well as a kernel density estimate with
        the best bandwidth for each sample: their squared error divided by its squared error is {criterion}."""
        return sampled.simulated.average_error.mean("seed") / sampled.simulated.best_bandwidth_error.mean("seed")

    @claim(OWN, RIVALS, at_most(1.0), resampled=True)
    def few_particles(sampled):
        """At a single time N particles, fewer than data, do at least as well as a kernel density estimate with
        Silverman's bandwidth: their squared error divided by its squared error is {criterion}."""
        return sampled.simulated.snapshot_error.mean("seed") / sampled.simulated.silverman_error.mean("seed")

    def validate(self) -> None:
        if self.kind == "fixed" and TOTAL % self.particles:
            raise InputError(f"particles must divide {TOTAL} for the fixed data, got {self.particles}")
        if self.kind == "sampled" and self.particles > self.n:
            raise InputError(f"particles must be at most n = {self.n}, where they start, got {self.particles}")

    def simulate(self, key: Any) -> dict[str, Any]:
        from unlazy.training.mean_field import density

        options = LENGTHS | self.as_dict("particles", "temperature", "confinement", "step_size")
        if self.kind == "sampled":
            options |= {"steps": 800, "average_from": 300, "observe_every": 25, "kernel_bandwidths": BANDWIDTHS}
            return of_one_problem(self, density.fit_and_rivals(key, TRUTH, self.n, GRID, **options))
        options |= {"steps": 3500, "average_from": 500, "every": 25, "total": TOTAL, "places": PLACES}
        found, tests = fixed_optimum(self.confinement, self.temperature), density.TestFunctions(CENTRES, 0.6)
        return of_one_problem(self, density.watch_clouds(key, found, DATA, tests=tests, **options))

    def predict(self) -> dict[str, Any]:
        if self.kind != "fixed":
            return {}
        found = fixed_optimum(self.confinement, self.temperature)
        features = normal_densities(found.grid.points[:, 0], PLACES, LENGTHS["smoothing"])
        centred = features - found.law.grid_masses @ features
        return {
            "energy_excess": particle_constants(found).energy_excess,
            "width_variance": float(np.trace(width_covariance(found, features))),
            "independent_variance": float(found.law.grid_masses @ (centred**2).sum(axis=1)),
        }
