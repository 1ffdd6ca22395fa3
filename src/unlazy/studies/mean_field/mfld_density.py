"""Density estimation by maximum mean discrepancy with interacting particles: against its exact optimum, and KDE."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, at_most, between, cite, claim, enough, parameter, static, value
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels

if TYPE_CHECKING:
    from unlazy.theory.mean_field.optimum import MeanFieldOptimum

EXPANSION = "second-order expansion around mu*"
ON_OTHERS = "the exact optimum for six other samples of the same mixture, n = 100 and 400"
BANDWIDTH, SMOOTHING = 0.6, 0.3
DATA = np.array([-1.5, -1.2, -0.9, 0.8, 1.0, 1.1, 1.6, 1.9])
PLACES = np.linspace(-2.4, 2.4, 13)
"""Where the density of the fixed data is watched."""
TOTAL = 32
"""Particles of one instance, in clouds of N each."""
STEPS, SETTLED = 3500, 500
EVERY = 25
IN_FIXED, IN_SAMPLED = {"problem": ("fixed",)}, {"problem": ("sampled",)}
TESTS = np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
"""Centres of the test functions exp(-(x - centre)^2/(2 TEST_WIDTH^2)) of the control variates."""
TEST_WIDTH = 0.6
MODE, SPREAD = 1.2, 0.5
"""The true density is that of (N(-MODE, SPREAD^2) + N(MODE, SPREAD^2))/2."""
GRID = np.linspace(-4.5, 4.5, 181)
KDE_BANDWIDTHS = np.linspace(0.08, 0.6, 27)
FIT = {"step_size": 0.2, "confinement": 0.00125, "temperature": 0.01}
FIXED = {"problem": "fixed", "confinement": 0.02, "temperature": 0.05}


@cache
def fixed_optimum(confinement: float, temperature: float) -> MeanFieldOptimum:
    """The exact optimum for the eight fixed data."""
    from unlazy.theory.mean_field.optimum import density_optimum

    return density_optimum(
        DATA, bandwidth=BANDWIDTH, smoothing=SMOOTHING, confinement=confinement, temperature=temperature
    )


def bumps(places: Any, centres: Any, deviation: Any) -> Any:
    """The normal density of each deviation around each centre, (places, centres)."""
    ratio = (places[:, None] - centres) / deviation
    return np.exp(-(ratio**2) / 2) / (np.sqrt(2 * np.pi) * deviation)


def true_density(places: np.ndarray) -> np.ndarray:
    """The density from which the data of the part `sampled` come."""
    return bumps(places, np.array([-MODE, MODE]), SPREAD).mean(axis=1)


def _corrected(data):
    """N (F - F*) of each seed, less its regression over seeds on `drift`, which is 0 in the mean at stationarity."""

    def regress(gap: np.ndarray, drift: np.ndarray) -> np.ndarray:
        centred = drift - drift.mean(axis=-2, keepdims=True)
        deviation = gap - gap.mean(axis=-1, keepdims=True)
        coefficients = np.linalg.pinv(centred) @ deviation[..., None]
        return gap - (drift @ coefficients)[..., 0]

    import xarray as xr

    return xr.apply_ufunc(
        regress, data.energy_gap, data.drift, input_core_dims=[["seed"], ["seed", "test"]], output_core_dims=[["seed"]]
    )


def _variance(data):
    """N times the variance of the density, summed over places, about the mean of all clouds; at the shorter step."""
    data = data.isel(step_size=0, drop=True, missing_dims="ignore")
    return data.square - parameter(data, "particles") * (data.offset.mean("seed") ** 2).sum("place")


def _over(part, name):
    """The variance of the density over a predicted one."""
    data = part.simulated.isel(step_size=0, drop=True)
    common = parameter(data, "particles") * (data.offset.mean("seed") ** 2).sum("place")
    return (data.square.mean("seed") - common) / part.predicted[name].isel(step_size=0, drop=True)


def _energies(axes, fixed, small=None, **_):
    """The smaller N, straight lines through the steps of each N down to step 0, and the constant of theory."""
    gaps = _corrected(fixed.simulated).mean("seed")
    counts = np.atleast_1d(parameter(fixed.simulated, "particles"))
    if small is not None:
        look: dict[str, Any] = {"color": style.colour(len(counts)), "marker": style.marker(len(counts))}
        steps = np.atleast_1d(parameter(small.simulated, "step_size"))
        label = f"$N = {parameter(small.simulated, 'particles')}$"
        style.simulation(axes, steps, _corrected(small.simulated), label=label, **look)
    if gaps.sizes.get("step_size") == 2:
        ends = np.array([0, gaps.step_size[-1]])
        for index, one in enumerate(np.atleast_2d(gaps.transpose(..., "step_size"))):
            axes.plot(ends, np.polyval(np.polyfit(gaps.step_size, one, 1), ends), ":", color=style.colour(index), lw=1)
    constant = float(np.ravel(fixed.predicted.energy_excess)[0])
    axes.axhline(constant, color="black", linewidth=1, label="$c_F$ (step 0)")


def _widths(axes, fixed, small=None, **_):
    """The smaller N, and the theory for interacting and for independent particles."""
    if small is not None:
        look: dict[str, Any] = {"color": style.colour(1), "marker": style.marker(1)}
        style.simulation(axes, parameter(small.simulated, "particles"), _variance(small.simulated), **look)
    for name, line, label in (("width", "-", "theory"), ("independent_width", "--", "independent particles")):
        level = float(np.ravel(fixed.predicted[name])[0])
        axes.axhline(level, color="black", linestyle=line, linewidth=1, label=label)


def _densities(axes, sampled, **_):
    """The densities of one run and the truth."""
    data = sampled.simulated.isel(n=-1, missing_dims="ignore")
    axes.plot(GRID, true_density(GRID), color="black", linewidth=1, label="truth")
    axes.plot(GRID, data.average_density.isel(seed=0), color=style.colour(0), label="particles")
    axes.plot(GRID, data.kernel_density.isel(seed=0), "--", color=style.colour(1), label="KDE, best bandwidth")
    axes.set_title(f"{int(parameter(data, 'n'))} data")


@dataclass(frozen=True)
class MfldDensity(Study):
    """F = MMD^2(g * mu, data) + lambda_1 E|x|^2 with a Gaussian kernel (length 0.6) and g = N(0, 0.3^2), in R.

    Part `fixed`: eight given data, clouds of N particles from samples of mu* (`small`: N = 8), F* and constants by the
    dual; an instance has 32 particles, 32/N clouds at once. Energies at two steps are extrapolated to step 0, as N
    times the bias of a step is not small against c_F. Their noise is reduced by control variates: the expected growth
    of test functions in one step, 0 in the mean at stationarity, exactly for every step size. Part `sampled`: n
    data from a mixture of two normals, particles started at data; squared error of the density against the truth,
    next to kernel density estimates with the bandwidth that is best for each sample (which needs the truth) and
    with Silverman's.
    """

    question = (
        "Do particles that minimise a maximum mean discrepancy estimate a density, and what does their number cost?"
    )
    sources = cite("suzuki2023convergence", "chen2022uniform", "silverman1986density")
    precision = "float32"
    chunk_width = 32

    problem: str = static("fixed", "data: eight given numbers or a sample", choices=("fixed", "sampled"))
    particles: int = static(32, "particles", symbol="N", low=2, high=10_000, scale="log")
    n: int = static(200, "data", symbol="n", low=2, high=100_000, scale="log")
    step_size: float = value(0.1, "step size", symbol=r"\eta", above=0, high=0.5, scale="log")
    confinement: float = static(0.02, "confinement", symbol=r"\lambda_1", low=1e-4, high=10, scale="log")
    temperature: float = static(0.05, "temperature", symbol=r"\lambda_2", low=1e-3, high=10, scale="log")

    outputs = {
        "energy_gap": Output("N times the excess of F", r"N(F-F^*)", only=IN_FIXED),
        "drift": Output("N times the expected growth of the means of test functions", "", ("test",), only=IN_FIXED),
        "square": Output(
            "N times the squared deviation of the density, summed over places", scale="log", only=IN_FIXED
        ),
        "offset": Output("deviation of the density from the optimum's", "", ("place",), only=IN_FIXED),
        "snapshot_error": Output("squared error of the density at one time", scale="log", only=IN_SAMPLED),
        "average_error": Output("squared error of the density, averaged over time", scale="log", only=IN_SAMPLED),
        "kernel_error": Output("squared error of KDE, best bandwidth", scale="log", only=IN_SAMPLED),
        "silverman_error": Output("squared error of KDE, Silverman's bandwidth", scale="log", only=IN_SAMPLED),
        "average_density": Output("density, averaged over time", "", ("point",), only=IN_SAMPLED),
        "kernel_density": Output("density by KDE, best bandwidth", "", ("point",), only=IN_SAMPLED),
        "energy_excess": Output("constant of F", "c_F", theory_only=True),
        "width": Output("predicted N var of the density, summed over places", theory_only=True),
        "independent_width": Output("the same of independent particles", theory_only=True),
    }
    history = (
        Change(
            "energy",
            "N = 16, the control variates and more seeds",
            "runs with N = 32, then 8, and 64 seeds were inconclusive (the next order, 1/N^2, is 10% at N = 8)",
        ),
        Change("kernel-density", "lengths and temperature", ON_OTHERS),
        Change("few-particles", "lengths and temperature", ON_OTHERS),
    )
    presets = {
        "quick": {
            "fixed": FIXED | {"particles": 16, "step_size": [0.1, 0.2], "seeds": 192},
            "small": FIXED | {"particles": 8, "step_size": [0.1], "seeds": 192},
            "sampled": FIT | {"problem": "sampled", "seeds": 32},
        },
        "full": {
            "fixed": FIXED | {"particles": [16, 32], "step_size": [0.05, 0.1], "seeds": 768},
            "small": FIXED | {"particles": 8, "step_size": [0.05], "seeds": 768},
            "sampled": FIT | {"problem": "sampled", "n": [100, 200, 400], "particles": 64, "seeds": 64},
        },
    }
    figure = panels(
        Panel(
            _corrected,
            x="step_size",
            by="particles",
            part="fixed",
            theory=False,
            draw=_energies,
            log="",
            ylabel=r"$N\,(\mathrm{E}F-F^*)$",
            ylim=(0, None),
            legend="lower right",
        ),
        Panel(
            _variance,
            x="particles",
            part="fixed",
            theory=False,
            draw=_widths,
            log="",
            ylabel="$N$ variance of the density",
            ylim=(0, None),
            legend="center right",
        ),
        Panel(
            "average_density",
            x="point",
            part="sampled",
            points=False,
            theory=False,
            draw=_densities,
            xlabel="$x$",
            ylabel="density",
            xlim=(-3.5, 3.5),
            ylim=(0, 0.62),
            legend="upper center",
        ),
        width=3.1,
        caption="Dotted: straight lines through the points down to step 0. Black: theory, dashed for independent "
        "particles. Right: densities of one run, black the truth.",
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
    def width(fixed, small):
        """N times the variance of the estimated density is {criterion} times the predicted constant, N = 8 and 16."""
        return [_over(part, "width") for part in (fixed, small)]

    @claim(OWN, EXPANSION, at_most(2 / 3), resampled=True)
    def repulsion(fixed, small):
        """Interaction makes the density less noisy: its variance is at most 2/3 of that of independent particles."""
        return [_over(part, "independent_width") for part in (fixed, small)]

    @claim("suzuki2023convergence", "example of density estimation", at_most(1.0), resampled=True)
    def kernel_density(sampled):
        """The squared error of the density, averaged over time, over that of a kernel density estimate with the best
        bandwidth for each sample is {criterion}."""
        return sampled.simulated.average_error.mean("seed") / sampled.simulated.kernel_error.mean("seed")

    @claim("suzuki2023convergence", "example of density estimation", at_most(1.0), resampled=True)
    def few_particles(sampled):
        """At one time the squared error of N particles, fewer than data, over that of a kernel density estimate with
        Silverman's bandwidth is {criterion}."""
        return sampled.simulated.snapshot_error.mean("seed") / sampled.simulated.silverman_error.mean("seed")

    def validate(self) -> None:
        if self.problem == "fixed" and TOTAL % self.particles:
            raise InputError(f"particles must divide {TOTAL} for the fixed data, got {self.particles}")
        if self.problem == "sampled" and self.particles > self.n:
            raise InputError(f"particles must be at most n = {self.n}, where they start, got {self.particles}")

    def coordinates(self) -> dict[str, Any]:
        return {"place": PLACES.tolist(), "point": GRID.tolist(), "test": [np.inf, *TESTS.tolist()]}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        sizes = {name: len(values) for name, values in self.coordinates().items()}
        missing = {
            name: jnp.full(tuple(sizes[dim] for dim in output.dims), jnp.nan)
            for name, output in self.outputs.items()
            if not output.theory_only
        }
        return missing | (self._fixed(key) if self.problem == "fixed" else self._sampled(key))

    def _fixed(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.models.functionals import mmd_functional
        from unlazy.training.mean_field.langevin import run, variation_gradient

        found, single = fixed_optimum(self.confinement, self.temperature), mmd_functional(DATA, BANDWIDTH, SMOOTHING)
        best = jnp.asarray(bumps(PLACES, found.grid.points[:, 0], SMOOTHING) @ found.law.masses, jnp.float32)

        tests = jnp.asarray(TESTS, jnp.float32)

        def clouds(particles: Any) -> Any:
            return particles.reshape(TOTAL // self.particles, self.particles, 1)

        def functional(particles: Any) -> Any:
            return jax.vmap(single)(clouds(particles)).mean()

        def observables(particles: Any) -> dict[str, Any]:
            ratio = (jnp.asarray(PLACES, jnp.float32) - clouds(particles)) / SMOOTHING
            density = jnp.exp(-(ratio**2) / 2).mean(axis=1) / (np.sqrt(2 * np.pi) * SMOOTHING)
            energy = functional(particles) + self.confinement * jnp.mean(particles**2)
            force = variation_gradient(functional, particles) + 2 * self.confinement * particles
            moved, heat = particles - self.step_size * force, 2 * self.temperature * self.step_size
            wide = TEST_WIDTH**2 + heat
            after = TEST_WIDTH / jnp.sqrt(wide) * jnp.exp(-((moved - tests) ** 2) / (2 * wide))
            bumped = after - jnp.exp(-((particles - tests) ** 2) / (2 * TEST_WIDTH**2))
            grown = jnp.concatenate([(moved**2 + heat - particles**2) / 2, bumped], axis=1).mean(axis=0)
            return {
                "energy_gap": self.particles * (energy - found.energy),
                "drift": self.particles / self.step_size * grown,
                "square": self.particles * jnp.mean(jnp.sum((density - best) ** 2, axis=1)),
                "offset": jnp.mean(density - best, axis=0),
            }

        start_key, walk_key = jax.random.split(key)
        uniform = jax.random.uniform(start_key, (TOTAL,), jnp.float32)
        cumulative = jnp.asarray(np.cumsum(found.law.masses), jnp.float32)
        start = jnp.interp(uniform, cumulative, jnp.asarray(found.grid.points[:, 0], jnp.float32))[:, None]
        return run(
            walk_key,
            start,
            functional,
            steps=STEPS,
            temperature=self.temperature,
            confinement=self.confinement,
            step_size=self.step_size,
            observables=observables,
            observe_every=EVERY,
            average_from=SETTLED,
        ).averages

    def _sampled(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.models.functionals import mmd_functional
        from unlazy.random import normal
        from unlazy.training.mean_field.langevin import run

        data_key, walk_key = jax.random.split(key)
        draws = normal(data_key, (2 * self.n,), jnp.float32)
        data = MODE * jnp.sign(draws[: self.n]) + SPREAD * draws[self.n :]

        def density(centres: Any, deviation: Any) -> Any:
            ratio = (jnp.asarray(GRID, jnp.float32)[:, None] - centres) / deviation
            return jnp.exp(-(ratio**2) / 2).mean(axis=1) / (np.sqrt(2 * np.pi) * deviation)

        found = run(
            walk_key,
            data[: self.particles, None],
            # the data themselves are the rows: what they add to F on their own moves no particle
            mmd_functional([0.0], BANDWIDTH, SMOOTHING),
            steps=800,
            temperature=self.temperature,
            confinement=self.confinement,
            step_size=self.step_size,
            data=data[:, None],
            observables=lambda particles: density(particles[:, 0], SMOOTHING),
            observe_every=EVERY,
            average_from=300,
        )
        truth = jnp.asarray(true_density(GRID), jnp.float32)

        def error(estimate: Any) -> Any:
            return jnp.sum((estimate - truth) ** 2) * (GRID[1] - GRID[0])

        kernels = jax.lax.map(lambda h: density(data, h), jnp.asarray(KDE_BANDWIDTHS, jnp.float32))
        errors = jax.vmap(error)(kernels)
        return {
            "snapshot_error": error(density(found.particles[:, 0], SMOOTHING)),
            "average_error": error(found.averages),
            "kernel_error": errors.min(),
            "silverman_error": error(density(data, 1.06 * data.std() * self.n**-0.2)),
            "average_density": found.averages,
            "kernel_density": kernels[errors.argmin()],
        }

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.mean_field.dual import particle_constants, width_covariance

        if self.problem != "fixed":
            return {}
        found = fixed_optimum(self.confinement, self.temperature)
        features = bumps(found.grid.points[:, 0], PLACES, SMOOTHING)
        centred = features - found.law.masses @ features
        return {
            "energy_excess": particle_constants(found).energy_excess,
            "width": float(np.trace(width_covariance(found, features))),
            "independent_width": float(found.law.masses @ (centred**2).sum(axis=1)),
        }
