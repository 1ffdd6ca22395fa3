"""Variational inference by kernel Stein discrepancy with entropy: its exact bias, blindness, and rivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, between, cite, claim, parameter, static, value
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.mean_field.shared.stein_targets import (
    BANDWIDTH,
    CENTRE,
    MEAN,
    MODE,
    PRECISION,
    PRIOR,
    SPREAD,
    WEIGHT,
    exact_moments,
    optimum,
    score_of,
    svgd_force,
    target_discrepancy,
    width_slope,
)

EXAMPLE = "example of the kernel Stein discrepancy"
DEPARTS = "The damping of the kernel is s1 = 10 where the source's example has 3."
NARROW = (
    "N particles are far narrower than mu*, by 45% at N = 32 and lambda_2 = 0.1: their own terms u(x, x)/N may confine "
    "them, and the expansion in 1/N seems to need N lambda_2 above about 20"
)
BUDGETS = (100, 200, 400, 800)
MOMENTS, RACE = {"target": ("gaussian", "modes")}, {"target": ("race",)}
RACE_STEPS = {"svgd": 0.5, "ula": 0.1, "stein": 0.3}


def _race(race, rival, budget):
    """The discrepancy of the Stein particles over a rival's, means over seeds, after so many evaluations."""
    end = race.simulated.sel(budget=budget).mean("seed")
    return end.stein_error / end[rival]


def _dispersion(axes, gaussian, **_):
    """The exact excess of infinitely many particles for two dampings, and that with the 1/N term."""
    heats = np.geomspace(1e-3, 1.0, 13)
    for index, damping in enumerate((10.0, 3.0)):
        excess = [exact_moments("gaussian", heat, damping)[1] - 1 for heat in heats.tolist()]
        style.theory(axes, heats, excess, color=style.colour(index), label=rf"$N = \infty$, $s_1 = {damping:g}$")
    shown, exact = parameter(gaussian.simulated, "temperature"), gaussian.predicted.spread - 1
    axes.plot(np.atleast_1d(shown), np.atleast_1d(exact), "_", color="black", markersize=9, label="with $1/N$ term")


def _densities(axes, modes, **_):
    """The target of two modes and the exact optimum, and in the title what the particles find."""
    data = modes.simulated.isel(temperature=0, missing_dims="ignore")
    found = optimum("modes", float(parameter(data, "temperature")), float(parameter(data, "damping")))
    x = found.grid.points[:, 0]
    bump = [np.exp(-((x - at) ** 2) / (2 * SPREAD**2)) for at in (-MODE, MODE)]
    truth = (WEIGHT * bump[0] + (1 - WEIGHT) * bump[1]) / (SPREAD * np.sqrt(2 * np.pi))
    axes.plot(x, truth, color="black", linewidth=1, label="target")
    axes.plot(x, found.law.masses / found.grid.volume, color=style.colour(0), label="exact optimum")
    axes.set_title(f"particles left of 0: {float(data.left_mass.mean()):.2f} (target {WEIGHT:g})", fontsize=8)


@dataclass(frozen=True)
class MfldStein(Study):
    """F = KSD^2(mu, pi) + lambda_1 E|x|^2, kernel exp(-(|x|^2 + |y|^2)/(2 s1^2) - |x - y|^2/2), prior deviation 3.

    Part `gaussian`: pi = N(0.5, 1), particles from a normal law with the spread of mu*, time averages against the
    dual. Part `modes`: 0.2 N(-2, 0.5^2) + 0.8 N(2, 0.5^2), particles from N(0, 4). Part `race`: a Gaussian in the
    plane, clouds of N from N(0, 9 I), discrepancy (MMD^2 with a Gaussian kernel of length 1) of the cloud at one
    time, against Stein variational gradient descent (kernel by the median rule, log 2 times the mean for the
    median) and unadjusted Langevin chains, after equal numbers of score evaluations per particle, a vector-Jacobian
    product of the score counted as one; s1 = 10, lambda_2 = 0.001.
    """

    question = "Does minimising a kernel Stein discrepancy with entropy sample the target, and at what bias and cost?"
    sources = cite("suzuki2023convergence", "liu2016kernelized", "liu2016stein")
    precision = "float32"
    chunk_width = 32

    target: str = static("gaussian", "target", choices=("gaussian", "modes", "race"))
    particles: int = static(32, "particles", symbol="N", low=2, high=10_000, scale="log")
    temperature: float = value(0.1, "temperature", symbol=r"\lambda_2", low=1e-4, high=10, scale="log")
    damping: float = static(10.0, "damping of the kernel", symbol="s_1", low=1, high=1000, scale="log")
    step_size: float = value(0.05, "step size", symbol=r"\eta", above=0, high=0.5, scale="log")
    steps: int = static(2000, "steps", low=10, high=10_000_000, scale="log")

    outputs = {
        "mean_place": Output("mean of the particles", only=MOMENTS),
        "spread": Output("mean square of the particles about the target's mean", scale="log", only=MOMENTS),
        "left_mass": Output("share of particles left of 0", only=MOMENTS),
        "stein_error": Output("MMD^2 of the Stein particles", "", ("budget",), scale="log", only=RACE),
        "svgd_error": Output("MMD^2 of Stein variational gradient descent", "", ("budget",), scale="log", only=RACE),
        "ula_error": Output("MMD^2 of independent Langevin chains", "", ("budget",), scale="log", only=RACE),
    }
    history = (
        Change("spread", "lambda_2 = 0.3 and 1 alone, and the correction in 1/N", NARROW),
        Change("over-dispersion", "lambda_2 = 0.3 and 1 alone", NARROW),
        Change("damping-cost", "this claim, and s1 = 10 where the theory's example has 3", "the exact optimum"),
        Change("race-langevin", "steps of 0.3 here and 0.1 for the chains", "the better of 0.1 and 0.3 on other seeds"),
        Change("race-svgd-early", "100 and 800 evaluations, each with a claim", "undecided after 400"),
        Change("race-svgd-early", "steps of 0.5 for the rival", "between the tried 0.3 and 1, which end alike"),
        Change("race-svgd-late", "100 and 800 evaluations, each with a claim", "undecided after 400"),
        Change("race-svgd-late", "steps of 0.5 for the rival", "between the tried 0.3 and 1, which end alike"),
    )
    presets = {
        "quick": {
            "gaussian": {"temperature": [0.3, 1.0], "particles": 64, "steps": 1500, "seeds": 48},
            "modes": {"target": "modes", "temperature": 0.03, "steps": 1000, "seeds": 16},
            "race": {"target": "race", "temperature": 1e-3, "step_size": RACE_STEPS["stein"], "seeds": 32},
        },
        "full": {
            "gaussian": {"temperature": [0.03, 0.1, 0.3, 1.0], "steps": 8000, "particles": 128, "seeds": 96},
            "modes": {"target": "modes", "temperature": [0.003, 0.03], "particles": 64, "steps": 8000, "seeds": 48},
            "race": {
                "target": "race",
                "temperature": [1e-3, 1e-2],
                "step_size": RACE_STEPS["stein"],
                "particles": 64,
                "seeds": 96,
            },
        },
    }
    figure = panels(
        Panel(
            lambda data: data.spread - 1,
            x="temperature",
            by="particles",
            part="gaussian",
            theory=False,
            draw=_dispersion,
            log="xy",
            ylabel="excess of the mean square",
            legend="lower right",
        ),
        Panel(
            "left_mass",
            x="temperature",
            part="modes",
            points=False,
            theory=False,
            draw=_densities,
            log="",
            xlabel="$x$",
            ylabel="density",
            xlim=(-5, 5),
            legend="upper left",
        ),
        Panel(
            ("stein_error", "svgd_error", "ula_error"),
            x="budget",
            part="race",
            at={"temperature": 1e-3},
            labels=("Stein, mean-field", "SVGD", "Langevin chains"),
            theory=False,
            log="y",
            xlabel="score evaluations per particle",
            ylabel="MMD$^2$ to the target",
        ),
        width=3.1,
        caption="Left: lines are theory for infinitely many particles, short dashes theory with the correction for "
        "their number. Middle: exact densities; of the simulation there is the share in the title.",
    )

    @claim(OWN, "dual optimum", between(0.9, 1.1), resampled=True)
    def spread(gaussian):
        """The mean square of the particles about the target's mean is {criterion} times that of the exact optimum with
        its first-order correction in 1/N, at lambda_2 = 0.3 and 1."""
        return (gaussian.simulated.spread.mean("seed") / gaussian.predicted.spread).sel(temperature=[0.3, 1.0])

    @claim(OWN, "dual optimum", at_least(1.5), resampled=True)
    def over_dispersion(gaussian):
        """The particles are over-dispersed: at lambda_2 = 0.3 and 1 their mean square about the target's mean is
        {criterion} times the target's."""
        return gaussian.simulated.spread.mean("seed").sel(temperature=[0.3, 1.0])

    @claim("suzuki2023convergence", EXAMPLE, at_most(0.05), theory=True, departs=DEPARTS)
    def limit(gaussian):
        """As temperature and confinement vanish together the moments are the target's: at lambda_2 = 0.0003 the
        relative deviations of the exact mean and variance are {criterion}."""
        mean, variance, _ = exact_moments("gaussian", 3e-4, 10.0)
        return max(abs(mean / CENTRE - 1), abs(variance - 1))

    @claim(OWN, "dual optimum", at_least(5.0), theory=True)
    def damping_cost(gaussian):
        """Damping is dear: at lambda_2 = 0.01 the excess of the variance with s1 = 3 is {criterion} times that with
        s1 = 10."""
        return (exact_moments("gaussian", 0.01, 3.0)[1] - 1) / (exact_moments("gaussian", 0.01, 10.0)[1] - 1)

    @claim(
        "suzuki2023convergence",
        EXAMPLE,
        at_most(0.1),
        known_negative="the discrepancy hardly sees weights of modes apart, even at the exact optimum: the entropy "
        "makes them about equal",
        departs=DEPARTS,
    )
    def mode_weights(modes):
        """The particles find the weight 0.2 of the smaller of two modes: their share is above it by {criterion}."""
        return modes.simulated.left_mass - WEIGHT

    @claim(OWN, "unadjusted Langevin chains", at_most(1.0), resampled=True)
    def race_langevin(race):
        """After 400 score evaluations the discrepancy of the particles over that of as many independent chains is
        {criterion}."""
        return _race(race, "ula_error", 400)

    @claim(
        "liu2016stein",
        "",
        at_most(1.0),
        resampled=True,
        known_negative="the rival is far ahead from this wide start; why was not isolated",
    )
    def race_svgd_early(race):
        """After 100 score evaluations their discrepancy over that of Stein variational gradient descent is
        {criterion}."""
        return _race(race, "svgd_error", 100)

    @claim("liu2016stein", "", at_most(1.0), resampled=True)
    def race_svgd_late(race):
        """After 800 score evaluations their discrepancy over that of Stein variational gradient descent is
        {criterion}."""
        return _race(race, "svgd_error", 800)

    def coordinates(self) -> dict[str, Any]:
        return {"budget": list(BUDGETS)}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        missing = {
            name: jnp.full((len(BUDGETS),) if output.dims else (), jnp.nan) for name, output in self.outputs.items()
        }
        return missing | (self._rivals(key) if self.target == "race" else self._moments(key))

    def _moments(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.models.functionals import stein_functional
        from unlazy.random import normal
        from unlazy.training.mean_field.langevin import run

        start_key, walk_key = jax.random.split(key)
        draws = normal(start_key, (self.particles, 1), jnp.float32)
        start = 2.0 * draws
        if self.target == "gaussian":
            known = np.geomspace(0.01, 1.0, 5)
            spreads = [exact_moments("gaussian", heat, self.damping)[1] for heat in known.tolist()]
            spread = jnp.interp(jnp.log(self.temperature), np.log(known), np.array(spreads))
            start = CENTRE + jnp.sqrt(spread).astype(jnp.float32) * draws

        def observables(particles: Any) -> dict[str, Any]:
            return {
                "first": particles.mean(),
                "second": ((particles - CENTRE) ** 2).mean(),
                "left": (particles < 0).mean(),
            }

        seen = run(
            walk_key,
            start,
            stein_functional(score_of(self.target, jnp), self.damping, BANDWIDTH),
            steps=self.steps,
            temperature=self.temperature,
            confinement=self.temperature / (2 * PRIOR**2),
            step_size=self.step_size,
            observables=observables,
            observe_every=10,
            average_from=self.steps // 4,
        ).averages
        return {
            "mean_place": seen["first"],
            "spread": seen["second"],
            "left_mass": seen["left"],
        }

    def _rivals(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.models.functionals import stein_functional
        from unlazy.random import normal
        from unlazy.training.mean_field.langevin import run

        precision, mean = jnp.asarray(PRECISION, jnp.float32), jnp.asarray(MEAN, jnp.float32)
        start_key, walk_key = jax.random.split(key)
        start = PRIOR * normal(start_key, (self.particles, 2), jnp.float32)

        def recorded(functional: Any, steps: np.ndarray, **numbers: Any) -> Any:
            return run(
                walk_key,
                start,
                functional,
                steps=int(steps[-1]),
                observables=target_discrepancy,
                observe_every=int(steps[-1]),
                record_at=tuple(steps.tolist()),
                record_observables=True,
                **numbers,
            ).records

        def potential(particles: Any) -> Any:
            centred = particles - mean
            return jnp.mean(jnp.sum((centred @ precision) * centred, axis=1)) / 2

        budgets = np.array(BUDGETS)
        stein = recorded(
            stein_functional(lambda x: precision @ (mean - x), self.damping, BANDWIDTH),
            budgets // 2,
            temperature=self.temperature,
            confinement=self.temperature / (2 * PRIOR**2),
            step_size=self.step_size,
        )
        # independent chains are the dynamics of a linear functional
        chains = recorded(potential, budgets, temperature=1.0, confinement=0.0, step_size=RACE_STEPS["ula"])

        def segment(cloud: Any, count: Any) -> tuple[Any, Any]:
            cloud = jax.lax.fori_loop(
                0, count, lambda _, x: x + RACE_STEPS["svgd"] * svgd_force(x, precision, mean), cloud
            )
            return cloud, target_discrepancy(cloud)

        rival = jax.lax.scan(segment, start, jnp.asarray(np.diff(budgets, prepend=0)))[1]
        return {"stein_error": stein, "ula_error": chains, "svgd_error": rival}

    def predict(self) -> dict[str, Any]:
        if self.target == "race":
            return {}
        mean, spread, left = exact_moments(self.target, self.temperature, self.damping)
        if self.target == "gaussian":
            spread += width_slope(self.target, self.temperature, self.damping) / self.particles
        return {"mean_place": mean, "spread": spread, "left_mass": left}
