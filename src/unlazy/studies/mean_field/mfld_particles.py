"""Propagation of chaos with its constant: what N particles add to the optimum of a mean-field network."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, between, static, value
from unlazy.studies.mean_field.shared.sources import CHEN, SUZUKI
from unlazy.studies.mean_field.shared.tanh_network import BOUND, INPUTS, TARGETS, optimum, step_bias, width_curve

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.theory.mean_field.optimum import MeanFieldOptimum

CHAOS = "Chen, Ren & Wang 2022, Suzuki, Wu & Nitanda 2023"
CONSTANT = "second-order expansion around mu*"
TOTAL, BLOCK = 128, 8
"""Particles of one instance, in networks of N each, and those of a block."""
BETWEEN = 0.2
"""Time between observations."""
EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 104)
"""Numbers of observations between which they are averaged."""
SEGMENT = 8
"""Observations of a piece of the run."""
STARTS = 5
"""Pieces from a start of their own, of which the last one goes on."""
NEEDS = {"particles": (8, 32, 128)}


def _width(main: Part) -> xr.DataArray:
    """N tr Cov(f_hat) at each time, about the mean over all networks.

    The squared deviation at the start, whose mean is tr C, is a control variate: the first times remember it. The
    coefficient is that of the regression over seeds.
    """
    simulated = main.simulated
    start = simulated.square.isel(time=0, drop=True) - main.predicted.independent_trace
    later = simulated.square - simulated.square.mean("seed")
    centred = start - start.mean("seed")
    coefficient = (centred * later).mean("seed") / (centred**2).mean("seed")
    # not at the start itself, where nothing would be left
    coefficient = coefficient.where(simulated.time > 0, 0.0)
    offset = simulated.offset.mean("seed")
    spread = simulated.square.mean("seed") - coefficient * start.mean("seed")
    return spread - simulated.particles * (offset**2).sum("input")


def _over_curve(main: Part, count: int) -> xr.DataArray:
    """The width at all times after the start over the linear theory, for N = count."""
    ratio = _width(main).sel(particles=count) / main.predicted.width_curve.sel(particles=count)
    return ratio.isel(time=slice(1, None))


def _late(values: xr.DataArray) -> xr.DataArray:
    return values.isel(time=slice(-2, None))


def _corrected_energy(main: Part) -> xr.DataArray:
    """N (E F - F*) over its prediction for N = 8 in the last window, with `drift` as control variate.

    The drift is the expected growth of E|x|^2/2 in a unit of time, 0 in the mean at stationarity. Its regression
    coefficient over seeds halves the noise, and takes off what has not relaxed yet.
    """
    cell = main.simulated.sel(particles=8).isel(time=-1)
    drift, gap = cell.drift - cell.drift.mean("seed"), cell.energy_gap - cell.energy_gap.mean("seed")
    coefficient = (drift * gap).mean("seed") / (drift**2).mean("seed")
    corrected = (cell.energy_gap - coefficient * cell.drift).mean("seed")
    return corrected / main.predicted.energy_excess.sel(particles=8)


@dataclass(frozen=True)
class MfldParticles(Study):
    """Networks of N tanh neurons, started from independent samples of mu*, with noise and step size eta.

    Each instance has 128 particles: 128/N independent networks at once, in one program for all N. The gradient of the
    mean over networks is that of each network, for which the number of particles is N. The first 1.6 units of time are
    run from five starts, the last of which goes on. What the step size adds to width and energy is part of the
    prediction, to first order: 3% and 10% (N = 8) at 0.02. The independent start relaxes at times from 0.1 (what the
    data see) to 10 (what they do not); the curve of `uniform` is that of continuous time and large N.

    Earlier criteria were replaced after a review by sharper ones: N tr Cov below that of independent particles (it is
    0.27 of it), and the energy within 30% of c_F, which hid the bias of the step size. The first one of all, that N tr
    Cov is the same for N = 8 and 128 at all times, fails around t = 0.5: the start is too far from mu* for N = 8.
    """

    name = "mfld-particles"
    topic = "mean_field"
    question = "How far are N interacting particles from the mean-field limit, and is it so at all times?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals, shifted a little aside. Lines: theory, on the right"
        " for the end of the runs; dotted: its constants."
    )
    sources = (CHEN, SUZUKI)
    precision = "float32"
    chunk_width = 32

    particles: int = value(32, "particles", symbol="N", low=BLOCK, high=TOTAL, scale="log")
    step_size: float = static(0.02, "step size", symbol=r"\eta", low=1e-4, high=0.05, scale="log")
    confinement: float = static(0.05, "confinement", symbol=r"\lambda_1", low=1e-3, high=10, scale="log")
    temperature: float = static(0.1, "temperature", symbol=r"\lambda_2", low=1e-2, high=10, scale="log")

    outputs = {
        "square": Output("N times the squared deviation of the predictions", "", ("time",), scale="log"),
        "offset": Output("deviation of the predictions from those of mu*", "", ("time", "input")),
        "energy_gap": Output("N times the excess of F", r"N(F-F^*)", ("time",)),
        "drift": Output("N times the growth of half the mean square of the particles", "", ("time",)),
        "width_trace": Output("predicted N tr Cov(f)", theory_only=True),
        "width_curve": Output("predicted N tr Cov(f) at each time", "", ("time",), scale="log", theory_only=True),
        "independent_trace": Output("N tr Cov(f) of independent particles", theory_only=True),
        "excess": Output("constant of L", "c", theory_only=True),
        "energy_excess": Output("predicted N times the excess of F", theory_only=True),
    }
    presets = {
        "quick": {"particles": [8, 32, 128], "seeds": 96},
        "full": {"particles": [8, 16, 32, 64, 128], "seeds": 512},
    }
    claims = (
        Claim(
            "width",
            CONSTANT,
            "N tr Cov(f_hat) of the predictions is tr(C - C (n lambda_2 + C)^-1 C) plus the bias of the step size "
            "within 10% for N = 8, 32, 128, at both late times (t = 6 to 13, 13 to 21).",
            between(0.9, 1.1),
            statistic=lambda main: _late(_width(main)) / main.predicted.width_trace,
            needs=NEEDS,
        ),
        Claim(
            "repulsion",
            CONSTANT,
            "The particles come to correct each other's errors: for N = 8 the variance falls by a factor of at least "
            "20 from that of independent ones (the theory has 28).",
            at_least(20.0),
            statistic=lambda main: (
                (width := _width(main).sel(particles=8)).isel(time=0, drop=True) / width.isel(time=-1, drop=True)
            ),
            needs=NEEDS,
        ),
        Claim(
            "uniform",
            CHAOS,
            "The error is 1/N at all times, with the constant of the linear theory of fluctuations: N tr Cov(f_hat) is "
            "within 20% of that curve at every time for N = 32.",
            between(0.8, 1.2),
            statistic=lambda main: _over_curve(main, 32),
            needs=NEEDS,
        ),
        Claim(
            "uniform-small",
            CHAOS,
            "For N = 8, where the start is far from the linear regime, it is within 60% of the curve.",
            between(0.4, 1.6),
            statistic=lambda main: _over_curve(main, 8),
            needs=NEEDS,
        ),
        Claim(
            "energy",
            CONSTANT,
            "N (E F - F*) for N = 8 is c_F = c - lambda_2 dc/dlambda_2 plus the bias of the step size within 15% at t "
            "= 13 to 21.",
            between(0.85, 1.15),
            statistic=_corrected_energy,
            needs=NEEDS,
        ),
    )

    def validate(self) -> None:
        if self.particles not in (8, 16, 32, 64, 128):
            raise InputError(f"particles must be 8, 16, 32, 64 or 128, got {self.particles}")
        if abs(BETWEEN / self.step_size - self._steps_between()) > 1e-6:
            raise InputError(f"step_size must divide {BETWEEN:g}, like 0.02 or 0.005, got {self.step_size:g}")

    def _steps_between(self) -> int:
        return max(1, round(BETWEEN / self.step_size))

    def coordinates(self) -> dict[str, Any]:
        means = [BETWEEN * (low + 1 + high) / 2 for low, high in pairwise(EDGES)]
        return {"time": [0.0, *means], "input": INPUTS.tolist()}

    def _optimum(self) -> MeanFieldOptimum:
        return optimum("square", self.confinement, self.temperature)

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.theory.mean_field.dual import place_samples
        from unlazy.training.mean_field import langevin

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
            force = langevin.variation_gradient(functional, particles) + 2 * self.confinement * particles
            pulled = jnp.mean(jnp.sum((particles - self.step_size / 2 * force) * force, axis=1))
            return {
                "square": self.particles * jnp.mean(jnp.sum((values - mean) ** 2, axis=1)),
                "offset": jnp.mean(values - mean, axis=0),
                "drift": self.particles * (particles.shape[1] * self.temperature - pulled),
            }

        count = STARTS * TOTAL
        uniform = jax.random.uniform(start_key, (3 * count,), jnp.float32)
        starts = place_samples(found, uniform[:count], uniform[count:].reshape(count, 2), jnp)
        starts = starts.reshape(STARTS, TOTAL, 2)
        every = self._steps_between()

        def piece(particles: Any, number: Any) -> tuple[Any, Any]:
            fresh = starts[jnp.minimum(number, STARTS - 1)]
            done = langevin.run(
                jax.random.fold_in(run_key, number),
                jnp.where(number < STARTS, fresh, particles),
                functional,
                steps=every * SEGMENT,
                temperature=self.temperature,
                confinement=self.confinement,
                step_size=self.step_size,
                observables=observables,
                observe_every=every * SEGMENT,
                record_at=[every * observation for observation in range(SEGMENT + 1)],
                record_observables=True,
            )
            gaps = self.particles * (done.energies - found.energy)
            return done.particles, done.records | {"energy_gap": gaps}

        pieces = STARTS - 1 + EDGES[-1] // SEGMENT
        _, records = jax.lax.scan(piece, starts[0], jnp.arange(pieces))
        average = jnp.asarray(window_shares(), jnp.float32)

        def windows(values: Any) -> Any:
            later = values[STARTS:, 1:].reshape(-1, *values.shape[2:])
            joined = jnp.concatenate([values[:STARTS].mean(axis=0), later])
            return jnp.tensordot(average, joined, axes=1)

        return {name: windows(values) for name, values in records.items()}

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.mean_field.dual import particle_constants, width_covariance

        found = self._optimum()
        constants, bias = particle_constants(found), step_bias(self.confinement, self.temperature)
        observed = tuple(BETWEEN * np.arange(EDGES[-1] + 1.0))
        added = self.particles * bias.energy_per_particle + bias.energy
        return {
            "width_trace": float(np.trace(width_covariance(found) + self.step_size * bias.width)),
            "width_curve": window_shares() @ width_curve(self.confinement, self.temperature, observed),
            "independent_trace": float(np.trace(found.covariance)),
            "excess": constants.excess,
            "energy_excess": constants.energy_excess + self.step_size * added,
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        simulated, theory = main.simulated, main.predicted
        if "particles" not in simulated.dims:
            count = simulated.attrs["particles"]
            simulated, theory = simulated.expand_dims(particles=[count]), theory.expand_dims(particles=[count])
        figure, (left, right) = style.panels(2, 1, width=3.7, height=3.0)
        times = simulated.time.values.astype(float)
        times[0] = times[1] / 2
        for index, count in enumerate(simulated.particles.values):
            cell = simulated.sel(particles=count)
            look: dict[str, Any] = {"color": style.colour(index), "marker": style.marker(index)}
            nudge = 1.06 ** (index - 1)
            common = count * (cell.offset.mean("seed") ** 2).sum("input")
            style.simulation(left, times * nudge, cell.square - common, label=f"$N = {count}$", **look)
            if count <= 32:
                style.simulation(right, times * nudge, cell.energy_gap, label=f"$N = {count}$", **look)
                late = float(theory.energy_excess.sel(particles=count))
                right.plot(times[-4:], [late] * 4, color=style.colour(index), linewidth=1)
        constants = {name: float(theory[name].isel(particles=0)) for name in ("width_trace", "excess")}
        curve = theory.width_curve.isel(particles=0)
        left.plot(times, curve, color="#000000", linewidth=1, label="linear theory")
        left.axhline(constants["width_trace"], color="#000000", linestyle=":", linewidth=1)
        right.axhline(constants["excess"], color="#000000", linestyle=":", linewidth=1)
        right.text(times[-1], constants["excess"] * 1.1, "$c$, the constant of $L$", fontsize=8, ha="right")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(style.label("time", "t") + " (first point: start)")
            axes.legend()
        left.set_ylabel(r"$N\,\mathrm{tr}\,\mathrm{Cov}(\hat f)$")
        right.set(ylabel=r"$N\,(\mathrm{E}F-F^*)$", title="lines: stationary, theory")
        right.set_ylim(0.03, 8)
        return figure


def window_shares() -> np.ndarray:
    """The matrix (1 + windows, 1 + observations) that averages the observations of each window; first the start."""
    shares = np.zeros((len(EDGES), EDGES[-1] + 1))
    shares[0, 0] = 1
    for row, (low, high) in enumerate(pairwise(EDGES), 1):
        shares[row, low + 1 : high + 1] = 1 / (high - low)
    return shares


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
