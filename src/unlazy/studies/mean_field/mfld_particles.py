"""Propagation of chaos with its constant: what N particles add to the optimum of a mean-field network."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.errors import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, static, value
from unlazy.studies.mean_field._sources import CHEN, SUZUKI
from unlazy.studies.mean_field._tanh_network import BOUND, INPUTS, TARGETS, optimum

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.theory.mean_field_dual import MeanFieldOptimum

CHAOS = "Chen, Ren & Wang 2022, Suzuki, Wu & Nitanda 2023"
CONSTANT = "second-order expansion around mu*"
TOTAL, BLOCK = 128, 8
"""Particles of one instance, in networks of N each, and those of a block."""
EVERY = 10
EDGES = (0, 10, 20, 40, 80, 160, 300, 650, 1000)
"""Steps between which the observables of every tenth step are averaged."""
LATE = (475, 825)
"""The middles of the last two windows."""
NEEDS = {"particles": (8, 32, 128)}


def _width(main: Part) -> xr.DataArray:
    """N tr Cov(f_hat) at each time, about the mean over all networks."""
    simulated = main.simulated
    offset = simulated.offset.mean("seed")
    return simulated.square.mean("seed") - simulated.particles * (offset**2).sum("input")


def _corrected_energy(main: Part) -> xr.DataArray:
    """N (E F - F*) over c_F for N = 8 in the last window, with `drift` as control variate.

    The drift is the expected growth of E|x|^2/2 in a unit of time, 0 in the mean at stationarity. Its regression
    coefficient over seeds halves the noise, and takes off what has not relaxed yet.
    """
    cell = main.simulated.sel(particles=8, step=LATE[-1])
    drift, gap = cell.drift - cell.drift.mean("seed"), cell.energy_gap - cell.energy_gap.mean("seed")
    coefficient = (drift * gap).mean("seed") / (drift**2).mean("seed")
    corrected = (cell.energy_gap - coefficient * cell.drift).mean("seed")
    return corrected / main.predicted.energy_excess.sel(particles=8)


@dataclass(frozen=True)
class MfldParticles(Study):
    """Networks of N tanh neurons, started from independent samples of mu*, with noise and step size eta.

    Each instance has 128 particles: 128/N independent networks at once, in one program for all N. The gradient of the
    mean over networks is that of each network, for which the number of particles is N. Steps of 0.02 leave a bias of
    about 2%. The criteria on the energy and on the time before t = 6 were set after a look at pilot runs. A first one
    of the latter, that N tr Cov is the same for N = 8 and 128 at all times, fails around t = 0.5: the start is then too
    far from mu* for N = 8 to be in the linear regime. The independent start relaxes at times from 0.1 (what the data
    see) to 10 (what they do not).
    """

    name = "mfld-particles"
    topic = "mean_field"
    question = "How far are N interacting particles from the mean-field limit, and is it so at all times?"
    sources = (CHEN, SUZUKI)
    precision = "float32"
    chunk_width = 32

    particles: int = value(32, "particles", symbol="N", low=BLOCK, high=TOTAL, scale="log")
    step_size: float = value(0.02, "step size", symbol=r"\eta", above=0, high=0.08, scale="log")
    confinement: float = static(0.05, "confinement", symbol=r"\lambda_1", low=1e-3, high=10, scale="log")
    temperature: float = static(0.1, "temperature", symbol=r"\lambda_2", low=1e-2, high=10, scale="log")

    outputs = {
        "square": Output("N times the squared deviation of the predictions", "", ("step",), scale="log"),
        "offset": Output("deviation of the predictions from those of mu*", "", ("step", "input")),
        "energy_gap": Output("N times the excess of F", r"N(F-F^*)", ("step",)),
        "drift": Output("N times the growth of half the mean square of the particles", "", ("step",)),
        "width_trace": Output("predicted N tr Cov(f)", theory_only=True),
        "independent_trace": Output("N tr Cov(f) of independent particles", theory_only=True),
        "excess": Output("constant of L", "c", theory_only=True),
        "energy_excess": Output("constant of F", "c_F", theory_only=True),
    }
    presets = {
        "quick": {"particles": [8, 32, 128], "seeds": 96},
        "full": {"particles": [8, 16, 32, 64, 128], "seeds": 512},
    }
    claims = (
        Claim(
            "width",
            CONSTANT,
            "N tr Cov(f_hat) of the predictions is tr(C - C (n lambda_2 + C)^-1 C) within 10% for N = 8, 32, 128, at "
            "both late times (t = 6 to 13, 13 to 20).",
            between(0.9, 1.1),
            statistic=lambda main: _width(main).sel(step=list(LATE)) / main.predicted.width_trace,
            needs=NEEDS,
        ),
        Claim(
            "repulsion",
            CONSTANT,
            "The particles come to correct each other's errors: for N = 8 the variance falls by a factor of at least "
            "20 from that of independent ones (the theory has 28).",
            at_least(20.0),
            statistic=lambda main: (
                (width := _width(main).sel(particles=8)).sel(step=0) / width.sel(step=LATE[-1], drop=True)
            ),
            needs=NEEDS,
        ),
        Claim(
            "uniform",
            CHAOS,
            "The error is 1/N uniformly in time: N tr Cov(f_hat) never exceeds that of independent particles, tr C, "
            "for any N.",
            at_most(1.0),
            statistic=lambda main: _width(main).isel(step=slice(1, None)) / main.predicted.independent_trace,
            needs=NEEDS,
        ),
        Claim(
            "energy",
            CONSTANT,
            "N (E F - F*) for N = 8 is c_F = c - lambda_2 dc/dlambda_2 within 30% at t = 13 to 20.",
            between(0.7, 1.3),
            statistic=_corrected_energy,
            needs=NEEDS,
        ),
    )

    def validate(self) -> None:
        if self.particles not in (8, 16, 32, 64, 128):
            raise InputError(f"particles must be 8, 16, 32, 64 or 128, got {self.particles}")

    def coordinates(self) -> dict[str, Any]:
        middles = [(low + high) // 2 for low, high in pairwise(EDGES)]
        return {"step": [0, *middles], "input": INPUTS.tolist()}

    def _optimum(self) -> MeanFieldOptimum:
        return optimum("square", self.confinement, self.temperature)

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training._langevin_engine import build_advance, variation_gradient

        found = self._optimum()
        inputs, targets, mean = (jnp.asarray(a, jnp.float32) for a in (INPUTS, TARGETS, found.predictions))
        start_key, run_key = jax.random.split(key)
        share = network_shares(self.particles)

        def predictions(particles: Any) -> Any:
            return block_predictions(particles, inputs, share)

        def functional(particles: Any) -> Any:
            return jnp.mean((predictions(particles) - targets) ** 2) / 2

        def observables(particles: Any) -> dict[str, Any]:
            values = predictions(particles)
            fit = jnp.mean((values - targets) ** 2) / 2
            energy = fit + self.confinement * jnp.mean(jnp.sum(particles**2, axis=1))
            force = variation_gradient(functional, particles) + 2 * self.confinement * particles
            pulled = jnp.mean(jnp.sum((particles - self.step_size / 2 * force) * force, axis=1))
            return {
                "square": self.particles * jnp.mean(jnp.sum((values - mean) ** 2, axis=1)),
                "offset": jnp.mean(values - mean, axis=0),
                "energy_gap": self.particles * (energy - found.energy),
                "drift": self.particles * (particles.shape[1] * self.temperature - pulled),
            }

        begin, advance = build_advance(functional, observables=observables, observe_every=EVERY)
        carry = begin(_samples(start_key, found))

        def window(carry: Any, bounds: Any) -> tuple[Any, Any]:
            carry = advance(
                run_key,
                carry,
                bounds[0],
                bounds[1],
                average_from=bounds[0],
                temperature=self.temperature,
                confinement=self.confinement,
                step_size=self.step_size,
            )
            return carry, carry.averages

        bounds = jnp.asarray(np.stack([EDGES[:-1], EDGES[1:]], axis=1), jnp.int32)
        first = observables(carry.state.particles)
        _, rest = jax.lax.scan(window, carry, bounds)
        return {name: jnp.concatenate([first[name][None], rest[name]]) for name in first}

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.mean_field_dual import particle_constants, width_covariance

        found = self._optimum()
        constants = particle_constants(found)
        return {
            "width_trace": float(np.trace(width_covariance(found))),
            "independent_trace": float(np.trace(found.covariance)),
            "excess": constants.excess,
            "energy_excess": constants.energy_excess,
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        simulated, theory = main.simulated, main.predicted
        if "particles" not in simulated.dims:
            simulated = simulated.expand_dims(particles=[simulated.attrs["particles"]])
        figure, (left, right) = style.panels(2, 1, width=3.7, height=3.0)
        size = float(simulated.attrs.get("step_size", 0.02)) if "step_size" not in simulated.dims else 0.02
        times = size * simulated.step.values.astype(float)
        times[0] = times[1] / 2
        for index, count in enumerate(simulated.particles.values):
            cell = simulated.sel(particles=count)
            look: dict[str, Any] = {"color": style.colour(index), "marker": style.marker(index)}
            nudge = 1.06 ** (index - 1)
            common = count * (cell.offset.mean("seed") ** 2).sum("input")
            style.simulation(left, times * nudge, cell.square - common, label=f"$N = {count}$", **look)
            if count <= 32:
                style.simulation(right, times * nudge, cell.energy_gap, label=f"$N = {count}$", **look)
        constants = {name: float(np.ravel(theory[name])[0]) for name in self.outputs if name in theory}
        left.axhline(constants["width_trace"], color="#000000", linewidth=1)
        left.axhline(constants["independent_trace"], color="#000000", linestyle="--", linewidth=1)
        left.text(times[0], constants["width_trace"] * 1.12, "stationary, theory", fontsize=7.5)
        left.text(times[-1], constants["independent_trace"] * 0.72, "independent particles", fontsize=7.5, ha="right")
        right.axhline(constants["energy_excess"], color="#000000", linewidth=1)
        right.axhline(constants["excess"], color="#000000", linestyle=":", linewidth=1)
        right.text(times[0], constants["energy_excess"] * 1.1, "$c_F$", fontsize=8)
        right.text(times[0], constants["excess"] * 1.1, "$c$", fontsize=8)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(style.label("time", "t") + " (first point: start)")
            axes.legend()
        left.set_ylabel(r"$N\,\mathrm{tr}\,\mathrm{Cov}(\hat f)$")
        right.set(ylabel=r"$N\,(\mathrm{E}F-F^*)$", title="without control variate")
        right.set_ylim(0.03, 8)
        return figure


def network_shares(count: Any) -> Any:
    """The matrix that averages blocks of 8 particles over the networks of `count` particles they belong to."""
    import jax.numpy as jnp

    network = jnp.arange(TOTAL // BLOCK) * BLOCK // count
    return (network[:, None] == network) * (BLOCK / jnp.asarray(count, jnp.float32))


def block_predictions(particles: Any, inputs: Any, share: Any) -> Any:
    """The predictions of the network of each block, (blocks, n), of particles (TOTAL, 2)."""
    import jax.numpy as jnp

    hidden = BOUND * jnp.tanh(particles[:, :1] * inputs + particles[:, 1:])
    return share @ hidden.reshape(len(share), BLOCK, -1).mean(axis=1)


def _samples(key: Any, found: MeanFieldOptimum) -> Any:
    """Independent particles (TOTAL, 2) from mu*: a cell of the grid by its mass, a uniform point of the cell."""
    import jax
    import jax.numpy as jnp

    uniform = jax.random.uniform(key, (3 * TOTAL,), jnp.float32)
    cumulative = jnp.asarray(np.cumsum(found.law.masses), jnp.float32)
    cells = jnp.minimum(jnp.searchsorted(cumulative, uniform[:TOTAL]), len(cumulative) - 1)
    points = jnp.asarray(found.grid.points, jnp.float32)
    side = float(np.sqrt(found.grid.volume))
    return points[cells] + side * (uniform[TOTAL:].reshape(TOTAL, 2) - 0.5)
