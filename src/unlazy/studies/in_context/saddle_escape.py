"""Leaving a saddle of the attention landscape: how fast, by which perturbation, and where descent pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_most, between, claim, over_theory, parameter, within
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels

STARTS = ("no noise", "noise", "staggered noise", "kicks", "birth-death", "modified")
"""How the saddle is perturbed: at the start (the first three) or on the way."""
ACTIVE = ["kicks", "birth-death", "modified"]
STEP = 0.02
RECORD = 10
"""Steps between records."""
RECORDS = 150
TIME = RECORDS * RECORD * STEP
KICK_EVERY = 5
"""Records between kicks."""
PERIOD = KICK_EVERY * RECORD
NEAR = 1e-5
"""The step of the differences that give the Hessian's product in a kick."""
BIRTHS_END = 0.5
"""The share of the run after which no neuron is redrawn any more."""
WINDOW = (1e-6, 1e-3)
"""The gap m r - L between which the slope of its logarithm is measured."""
STAGGER = 1e-5
"""Each idle slot starts with this times the noise of the one before."""
SLOW = 0.01
"""A plateau: r falls by less than this per unit of time, relative."""
LANDSCAPE = "Theorem 1"
ESCAPE = "escape from saddle points; the rate is this project's"
CLOSED_FORM = "this project's closed form"
CASES = 3
"""Pairs (k, m) that the figure shows."""


def _final(part, starts):
    return part.simulated.loss.sel(perturbation=starts).isel(time=-1, drop=True)


def _of_case(index, draw):
    """Draws one of the pairs (k, m) that are shown, if the run has so many."""

    def drawn(axes, main):
        data, theory = main.simulated, main.predicted
        dims = [dim for dim in data.gap_slope.dims if dim != "seed"]
        data, theory = (found.stack(case=dims) if dims else found.expand_dims("case") for found in (data, theory))
        count = data.sizes["case"]
        shown = np.linspace(0, count - 1, min(count, CASES)).round().astype(int)
        if index >= len(shown):
            axes.set_axis_off()
            return
        data, theory = (found.isel(case=shown[index]) for found in (data, theory))
        draw(axes, data, theory, int(parameter(data, "missing")))

    return drawn


def _runs(axes, data, theory, missing):
    for level in range(missing + 1):
        axes.axhline(level, color="#999999", linewidth=0.8, linestyle=":")
    for number, start in enumerate(STARTS):
        run = data.loss.sel(perturbation=start).isel(seed=0)
        axes.plot(run.time, run, color=style.colour(number), linewidth=1.1, label=start)
    axes.set_title(f"$k = {int(parameter(data, 'features'))}$, $m = {missing}$")


def _growth(axes, data, theory, missing):
    gap = (missing - data.loss.sel(perturbation="noise")).transpose("time", "seed")
    gap = gap.where(gap > 0)
    axes.plot(gap.time, gap, color=style.colour(1), linewidth=0.5, alpha=0.5)
    times = np.linspace(0, 6, 20)
    level = float(np.exp(np.log(gap.sel(time=2.0, method="nearest")).mean()))
    style.theory(axes, times, level * np.exp(float(theory.gap_slope) * (times - 2)), color="black", dashed=True)


@dataclass(frozen=True)
class SaddleEscape(Study):
    """sigma = erf and x ~ N(0, I), where all moments are known: nothing is sampled but the perturbations.

    k - m of k slots have learned the teacher's coordinate, m watch irrelevant ones: gradient 0, L = m r. All dynamics
    are Euler steps of theta' = -N dL/dtheta from the same saddle. "noise" perturbs the start by N(0, eps^2); "staggered
    noise" turns each idle slot towards a missing feature of its own, every next one 1e5 times less; "kicks" go on the
    way, "birth-death" redraws neurons until half time, and "modified" is both.
    """

    question = (
        "How fast is a saddle of the attention landscape left, do kicks and birth-death leave it where the plain "
        "dynamics stays, and does descent pause at integers alone?"
    )
    sources = cite("kim2024")
    chunk_width = 32

    features: int = static(3, "features", symbol="k", low=1, high=32)
    missing: int = value(2, "features that the saddle misses", symbol="m", low=1, high=32)
    copies: int = static(4, "neurons of a slot", low=1, high=10_000, scale="log")
    noise: float = value(
        1e-4, "deviation of the initial perturbation", symbol=r"\epsilon", low=1e-8, high=1e-3, scale="log"
    )
    kick: float = value(1e-3, "size of a kick", low=0, high=10)
    rebirth: float = value(0.01, "probability per 10 steps that a neuron is redrawn", low=0, high=1)

    outputs = {
        "loss": Output("loss over strength", "L/r", ("perturbation", "time")),
        "gap_slope": Output("slope of log(m r - L) in time", ""),
        "eigenvalue": Output("most negative eigenvalue of N times the Hessian", r"-\nu", theory_only=True),
        "numerical_eigenvalue": Output("the same by differences", theory_only=True),
        "multiplicity": Output("its multiplicity", "m^2", theory_only=True),
        "numerical_multiplicity": Output("eigenvalues within 0.1% of it, by differences", theory_only=True),
        "curvature": Output("second derivative towards the missing features", r"L''(0)/r", theory_only=True),
        "numerical_curvature": Output("the same by differences", theory_only=True),
        "pause_distance": Output("largest distance of L/r from an integer while it hardly falls"),
        "pauses": Output("integers at which the staggered start pauses"),
    }
    presets = {
        "quick": {"missing": [1, 2, 3], "seeds": 8},
        "full": {
            ("features", "missing"): [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (5, 2), (5, 4)],
            "copies": 8,
            "seeds": 32,
        },
    }
    history = (
        Change(
            "staircase",
            "the staggered start, twice",
            "with noise in all coordinates the slots seed each other and idle slots leave together, without a pause in "
            "between",
        ),
        Change(
            "pauses-at-integers",
            "the staggered start, twice",
            "in the first run, 16 seeds with the first one, it was inconclusive at k = m = 3: mean 0.015, interval "
            "[-0.012, 0.041]",
        ),
        Change("", "neurons are redrawn every ten steps, first every step; k = 3 alone in `quick`", "after looks"),
        Change("eigenvalue", "by differences, first by automatic differentiation within 1e-6", "for speed"),
        Change("curvature", "by differences, first by automatic differentiation within 1e-6", "for speed"),
        Change("", "kicks by differences of gradients; 8 seeds in `quick`, first 12", "for speed", after_look=False),
    )
    figure = panels(
        *(
            Panel(
                "loss",
                x="time",
                points=False,
                xlabel="time",
                ylabel="loss $L/r$",
                xlim=(0, 0.8 * TIME),
                legend="center right" if index == 0 else False,
                draw=_of_case(index, _runs),
            )
            for index in range(CASES)
        ),
        *(
            Panel(
                "loss",
                x="time",
                points=False,
                xlabel="time",
                ylabel="$m - L/r$",
                xlim=(0, 9),
                ylim=(1e-9, 1e1),
                log="y",
                draw=_of_case(index, _growth),
            )
            for index in range(CASES)
        ),
        width=3.0,
        height=2.7,
        caption="Above: one run of each start; dotted: the levels of the saddles. Below: all runs that start from "
        "noise; dashed: the growth in theory, through their mean at time 2.",
    )

    @claim("kim2024", ESCAPE, within(0.02))
    def escape_rate(main):
        """From a small random perturbation log(m r - L) grows with slope 2 log(1 + dt nu)/dt, nu = 2 k c^2 s^2 / r,
        {criterion}."""
        return over_theory(main, "gap_slope")

    @claim(OWN, CLOSED_FORM, at_most(1e-5), theory=True)
    def eigenvalue(main):
        """The most negative eigenvalue of N times the Hessian, by differences, is -nu with a relative error of
        {criterion}."""
        return abs(main.predicted.numerical_eigenvalue / main.predicted.eigenvalue - 1)

    @claim(OWN, CLOSED_FORM, between(0.0, 0.0), theory=True)
    def multiplicity(main):
        """It has multiplicity m^2."""
        return main.predicted.numerical_multiplicity - main.predicted.multiplicity

    @claim("kim2024", LANDSCAPE, at_most(1e-5), theory=True)
    def curvature(main):
        """Towards the teacher's missing features the second derivative of the loss is -2 m k^2 r, with a relative error
        of {criterion}."""
        return abs(main.predicted.numerical_curvature / main.predicted.curvature - 1)

    @claim("kim2024", "why the dynamics is modified", at_most(1e-9))
    def stays(main):
        """Without a perturbation the dynamics stays at the saddle: the loss changes by {criterion} times r."""
        loss = main.simulated.loss.sel(perturbation="no noise", drop=True)
        return abs(loss - parameter(main.simulated, "missing")).max("time")

    @claim("kim2024", ESCAPE, at_most(1e-3))
    def noise_escapes(main):
        """A random perturbation of the start is enough: the loss ends at {criterion} times r."""
        return _final(main, ["noise"])

    @claim("kim2024", "modified dynamics", at_most(0.1))
    def modified_escapes(main):
        """From the saddle itself kicks, birth-death and both together end at {criterion} times r, where the plain
        dynamics stays at m r."""
        return _final(main, ACTIVE)

    @claim(
        "kim2024",
        LANDSCAPE,
        at_most(0.02),
        departs="The theorem is about the direction towards the teacher; of the gradient of finitely many neurons a "
        "slow stretch elsewhere is possible.",
    )
    def pauses_at_integers(main):
        """Whenever the loss of a perturbed start falls by less than 1% of r per unit of time, it is away from a
        multiple of r by {criterion} times r."""
        return main.simulated.pause_distance

    @claim("kim2024", LANDSCAPE, between(0.0, 0.0))
    def staircase(main):
        """A start whose idle slots are turned to missing features by very different amounts pauses at every multiple
        m r, (m - 1) r, ..., 0."""
        return (main.simulated.pauses - main.predicted.pauses).astype(float)

    def validate(self) -> None:
        if self.missing > self.features:
            raise InputError(f"missing must be at most features = {self.features}, got {self.missing}")

    def coordinates(self) -> dict[str, Any]:
        return {"perturbation": list(STARTS), "time": [RECORD * STEP * i for i in range(RECORDS + 1)]}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.random import normal
        from unlazy.studies.in_context.shared.saddle import moved
        from unlazy.training.in_context import mean_field_attention as mfa

        k, width, d = self.features, self.copies * self.features, 2 * self.features
        saddle, teacher = mfa.saddle(k, self.missing, width, d)
        strength = 2 / jnp.pi * jnp.arcsin(2 / 3)

        def loss(state: mfa.State) -> Any:
            return mfa.best_loss(mfa.gaussian_moments(state, teacher))

        # one draw for everything: XLA compiles every separate draw for half a second
        numbers, periods = width * (d + k), RECORDS // KICK_EVERY
        births_end = int(BIRTHS_END * RECORDS)
        parts = [d * k, numbers, k, periods * numbers, births_end * (width + numbers)]
        readout, rows, sizes, pushes, reborn = jnp.split(normal(key, (sum(parts),)), np.cumsum(parts)[:-1])
        pushes, reborn = pushes.reshape(periods, width, d + k), reborn.reshape(births_end, -1)
        law = mfa.NeuronLaw(readout.reshape(d, k), d**0.5, 0.5, 1.0)
        behind = jnp.maximum(jnp.arange(k) - (k - self.missing), 0)
        own = jnp.eye(k, d + k) * (self.noise * STAGGER**behind * sizes)[:, None]
        starts = [
            saddle,
            moved(saddle, self.noise * rows.reshape(width, d + k)),
            moved(saddle, jnp.repeat(own, self.copies, axis=0)),
        ]
        # the last three start at the saddle itself
        states = jax.tree.map(lambda *leaves: jnp.stack([*leaves, *[leaves[0]] * len(ACTIVE)]), *starts)
        kicks = self.kick * jnp.asarray([0.0, 0.0, 0.0, 1.0, 0.0, 1.0])
        births = self.rebirth * jnp.asarray([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])

        def tick(index: Any, carried: tuple) -> tuple:
            """A step, or one of the two gradients of a kick: one gradient in the program, which compiles slowly.

            In each period the first step is followed by the kick, H v by differences of gradients, then by the other
            steps; losses are recorded, and after that neurons redrawn, every `RECORD` steps.
            """
            states, losses, ahead = carried
            period, phase = index // (PERIOD + 2), index % (PERIOD + 2)
            side = jnp.where(phase == 1, 1.0, jnp.where(phase == 2, -1.0, 0.0))
            push = pushes[period]
            at = jax.vmap(lambda state: moved(state, side * NEAR * push))(states)
            values, slopes = jax.vmap(jax.value_and_grad(loss))(at)
            slopes = jnp.concatenate([slopes.weights, slopes.outputs], axis=2)
            bent = (ahead - slopes) / (2 * NEAR)
            root = jnp.sqrt(jnp.mean(bent**2, axis=(1, 2), keepdims=True))
            kicked = kicks[:, None, None] * jnp.where(root > 0, bent / jnp.where(root > 0, root, 1.0), 0.0)
            move = jnp.where(side == 0, -STEP * width * slopes, jnp.where(phase == 2, kicked, 0.0))
            states = jax.vmap(moved)(states, move)

            taken = period * PERIOD + jnp.where(phase == 0, 0, phase - 2)
            recorded = (side == 0) & (taken % RECORD == 0)
            place = taken // RECORD
            losses = jnp.where(recorded, losses.at[place].set(values / strength), losses)
            draws = reborn[jnp.minimum(place, births_end - 1)]
            chances = jnp.where(recorded & (place < births_end), births, 0.0)
            states = jax.vmap(lambda state, p: mfa.redrawn(draws, state, law, p))(states, chances)
            return states, losses, slopes

        first = jnp.zeros((RECORDS + 1, len(STARTS))), jnp.zeros((len(STARTS), width, d + k))
        losses = jax.lax.fori_loop(0, periods * (PERIOD + 2) + 1, tick, (states, *first))[1].T

        speed = (losses[1:3, :-2] - losses[1:3, 2:]) / (2 * RECORD * STEP)
        inner = losses[1:3, 1:-1]
        nearest = jnp.round(inner)
        paused = jnp.abs(speed) < SLOW
        distance = jnp.where(paused, jnp.abs(inner - nearest), 0.0)
        integers = jnp.arange(k + 1)
        visited = (paused[1, :, None] & (nearest[1, :, None] == integers)).any(axis=0)
        return {
            "loss": losses,
            "gap_slope": _window_slope(strength * (self.missing - losses[1])),
            "pause_distance": distance.max(),
            "pauses": visited.sum(),
        }

    def predict(self) -> dict[str, Any]:
        from unlazy.studies.in_context.shared.saddle import by_differences
        from unlazy.theory.in_context.landscape import attention_saddle, escape_slope

        saddle = attention_saddle("erf", self.features, self.missing)
        eigenvalues, curvature = by_differences(self.features, self.missing)
        return {
            "gap_slope": escape_slope(saddle.growth_rate, STEP),
            "eigenvalue": -saddle.growth_rate,
            "numerical_eigenvalue": eigenvalues[0],
            "multiplicity": float(saddle.multiplicity),
            "numerical_multiplicity": float(np.sum(eigenvalues < 0.999 * eigenvalues[0])),
            "curvature": saddle.curvature / saddle.strength,
            "numerical_curvature": curvature,
            "pauses": float(self.missing + 1),
        }


def _window_slope(gap: Any) -> Any:
    """The least-squares slope in time of log(gap) over the first records with the gap in the window."""
    import jax.numpy as jnp

    times = RECORD * STEP * jnp.arange(gap.size)
    before = jnp.cumsum(gap > WINDOW[1]) == 0
    inside = (before & (gap > WINDOW[0])).astype(gap.dtype)
    count = inside.sum()
    logs = jnp.log(jnp.where(inside > 0, gap, 1.0))
    centred = inside * (times - (inside * times).sum() / count)
    return (centred * logs).sum() / (centred * times).sum()
