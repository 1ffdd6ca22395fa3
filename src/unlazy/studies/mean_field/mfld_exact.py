"""Problem Q: particles of mean-field Langevin dynamics against closed forms for rate, step, width and batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Output, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_most, between, claim, enough, parameter, relative_deviation, slope, within
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.mean_field.shared import exact_checks
from unlazy.studies.mean_field.shared.exact_checks import EARLY, ERRORS, GRID, added_by_batches, knees, step_bias

SUZUKI = "suzuki2023convergence"
CLOSED = "closed form of problem Q"
STEP = {"particles": 16, "interaction": 0.5, "start_mean": 0.8, "start_variance": 0.4, "replicates": 384}
BATCH = {
    "batches": ["independent", "reshuffled"],
    "batch": 4,
    "temperature": 0.02,
    "start_mean": 0.9,
    "start_variance": 0.04,
    "replicates": 384,
}


def _late(data):
    """Without the early checkpoints, of which there are many for what width adds."""
    return data.sel(checkpoint=~data.checkpoint.isin(EARLY[1:]))


def _mean_gap(data):
    a, b, h, c = (parameter(data, name) for name in ("curvature", "interaction", "field", "target"))
    return abs(_late(data).mean_place - (h + b * c) / (a + b))


def _variance_gap(data):
    a, heat, rate = (parameter(data, name) for name in ("curvature", "temperature", "step_size"))
    return abs(_late(data).spread - 2 * heat / (a * (2 - rate * a)))


def _added_by_width(data):
    """N (L^N/N - L); of the theory that of the first N, as it is the same for all."""
    found = exact_checks.added_by_width(data)
    return found if "seed" in data.dims else found.isel(particles=0, missing_dims="ignore").broadcast_like(found)


def _time(data):
    return data.checkpoint * parameter(data, "step_size")


def _knees(axes, decay, **_):
    if not exact_checks.has_rule(decay.simulated):
        axes.axis("off")
        return
    cases = {("free energy", 1.0): "free energy", ("energy", 1.0): "energy", ("free energy", 0.5): "start near the end"}
    for index, (case, text) in enumerate(cases.items()):
        axes.plot(ERRORS, knees(*case), style.marker(index) + "-", color=style.colour(index), label=text)
    guide = knees("free energy", 1.0)[-1] * np.sqrt(ERRORS[-1] / np.array(ERRORS))
    axes.plot(ERRORS, guide, ":", color="grey", label=r"$\epsilon^{-1/2}$")


@dataclass(frozen=True)
class MfldExact(Study):
    """Problem Q: F = a/2 E x^2 - h E x + b/2 (E x - c)^2 in one dimension; all laws are Gaussian.

    An instance is `replicates` independent clouds of N particles, in NumPy: compiling the engine for each shape would
    cost more than the runs. Batches drawn anew at every step are what the bound is about; cut from one permutation per
    epoch their noise largely cancels, which has a closed form of its own. The knee of the batch rule is theory only:
    1e5 rows, V = 1, infinitely many particles, start N(2, 1), and the default parameters, without which it is untested.
    """

    question = (
        "Do particles of mean-field Langevin dynamics attain the rates and the biases that problem Q gives exactly?"
    )
    sources = cite("suzuki2023convergence", "chen2022uniform", "nitanda2022convex", "chizat2022mean")

    interaction: float = value(1.5, "interaction of the particles", symbol="b", low=0, high=100)
    step_size: float = value(0.02, "step size", symbol=r"\eta", above=0, high=10, scale="log")
    temperature: float = value(0.2, "temperature", symbol=r"\lambda_2", above=0, high=100)
    curvature: float = value(0.5, "curvature", symbol="a", above=0, high=100)
    field: float = value(0.3, "field", symbol="h", low=-100, high=100)
    target: float = value(1.0, "target", symbol="c", low=-100, high=100)
    start_mean: float = value(2.0, "mean of the start", low=-100, high=100)
    start_variance: float = value(1.5, "variance of the start", above=0, high=100)
    particles: int = static(6, "particles", symbol="N", low=2, high=10_000, scale="log")
    batch: int = static(0, "rows in a batch, 0 for all", symbol="B", low=0, high=1000)
    batches: str = static("independent", "how batches are drawn", choices=("independent", "reshuffled"))
    rows: int = static(32, "rows, of variance 1", symbol="n", low=2, high=1000)
    replicates: int = static(768, "clouds per seed", low=2, high=100_000)
    steps: int = static(250, "steps", symbol="k", low=GRID, high=10_000_000)

    outputs = {
        "mean_place": Output("mean of the particles", "m", ("checkpoint",)),
        "spread": Output("variance of deviations", "v", ("checkpoint",), scale="log"),
        "mean_square": Output("variance of the particles' mean", "w", ("checkpoint",), scale="log"),
        "mean_spread": Output("time average of the variance of deviations", scale="log"),
        "mean_wander": Output("time average of the square of the mean's distance from the optimum", scale="log"),
        "mean_energy": Output("time average of F", scale="log"),
    }
    history = (
        Change(
            "",
            "more clouds, a lower temperature for batches, larger steps and less interaction for the step bias",
            "noise; the criteria stayed as they were",
        ),
        Change("moments", "the scale of the mean's deviation", "relative to itself it is infinite for a start at 0"),
        Change(
            "uniform-exact",
            "an excess of 1e-4 in place of none (1e-9)",
            "none is true in continuous time, but a step adds 4e-5",
        ),
        Change(
            "reshuffling",
            "at most 0.5 for short epochs in place of 0.7 at every step",
            "the noise of an epoch cancels where the mean does not relax meanwhile",
        ),
    )
    presets = {
        "quick": {
            "decay": {"particles": [4, 12], "interaction": [0.0, 1.5], "seeds": 16},
            "step": STEP | {"step_size": [0.15, 0.3, 0.6], "seeds": 12},
            "batch": BATCH | {"step_size": [0.05, 0.1, 0.2], "seeds": 12},
        },
        "full": {
            "decay": {"particles": [4, 12, 48], "interaction": [0.0, 0.5, 1.5], "seeds": 48},
            "step": STEP | {"step_size": [0.1, 0.15, 0.3, 0.6], "seeds": 48},
            "batch": BATCH | {"step_size": [0.025, 0.05, 0.1, 0.2], "seeds": 48},
        },
    }
    figure = panels(
        Panel(
            _mean_gap,
            x=_time,
            by="interaction",
            part="decay",
            log="y",
            title="decay of the mean",
            xlabel="time",
            ylabel="distance from the end",
            ylim=(1e-2, 3),
        ),
        Panel(
            _variance_gap,
            x=_time,
            by="particles",
            part="decay",
            log="y",
            title="decay of the variance",
            xlabel="time",
            ylabel="distance from the end",
            ylim=(1e-2, 3),
        ),
        Panel(
            _added_by_width,
            x=_time,
            by="particles",
            part="decay",
            log="",
            title="what finite width adds",
            xlabel="time",
            ylabel=r"$N(\mathcal{L}^N/N - \mathcal{L})$",
        ),
        Panel(
            (lambda data: step_bias(data, "energy"), lambda data: step_bias(data, "free energy")),
            x="step_size",
            part="step",
            labels=("$F$", "$L$"),
            log="xy",
            title="what steps add",
            ylabel="bias",
        ),
        Panel(
            added_by_batches,
            x="step_size",
            by="batches",
            part="batch",
            log="xy",
            title="what batches add",
            ylabel="bias of $F$",
        ),
        Panel(
            "mean_energy",
            x="step_size",
            part="decay",
            points=False,
            theory=False,
            draw=_knees,
            log="xy",
            title="batch rule (theory)",
            xlabel=r"error $\epsilon$",
            ylabel="largest batch without waste",
            ylim=(4, 9000),
        ),
        width=3.1,
        height=2.7,
        caption="Intervals in the first two panels only. Last panel: theory alone.",
    )

    @claim(OWN, CLOSED, within(0.1), resampled=True)
    def moments(decay):
        """At every checkpoint the variance of deviations and that of the particles' mean are as predicted {criterion},
        and so is the mean, relative to its distance from the optimum at the start, or to the optimal law's deviation if
        that is larger."""
        return exact_checks.moment_deviations(decay)

    @claim("nitanda2022convex chizat2022mean", "", between(0.95, 1.05), resampled=True)
    def mean_rate(decay):
        """The mean's part of L - L* decays at {criterion} times the rate 2(a+b); at b = 0 that is the bound
        2 lambda_2/alpha, attained."""
        return exact_checks.mean_rates(decay)

    @claim(OWN, CLOSED, between(0.95, 1.05), resampled=True)
    def variance_rate(decay):
        """The variance's part of L - L*, of second order in v - v*, decays at {criterion} times the rate 4a."""
        return exact_checks.variance_rates(decay)

    @claim(OWN, CLOSED, within(0.1), resampled=True)
    def width(decay):
        """N times what N particles add to L is the same number for every N at every time from the start, that of the
        closed form, {criterion}."""
        return exact_checks.width_deviation(decay)

    @claim("chen2022uniform suzuki2023convergence", "", at_most(1.1), resampled=True)
    def uniform(decay):
        """N times what N particles add to L, over the larger of its values at the start, b v0/2, and at the end,
        (lambda_2/2) log((a+b)/a), is {criterion} for every N, at every time from the start."""
        return exact_checks.width_excess(decay)

    @claim("chen2022uniform suzuki2023convergence", "", at_most(1.0001), theory=True)
    def uniform_exact(decay):
        """In the closed form with steps of 0.01 that ratio is {criterion} for N = 10 and 100 and for starts from narrow
        to wide (v0 from 0.01 to 5)."""
        exact_checks.need_rule(decay)
        return exact_checks.exact_width_excess()

    @claim(SUZUKI, "uniform-in-time bound", between(0.85, 1.25), resampled=True)
    def energy_step(step):
        """The bias of F is linear in the step: its exponent is {criterion}."""
        return slope(step_bias(step.simulated, "energy"), "step_size")

    @claim(SUZUKI, "uniform-in-time bound", between(1.8, 2.3), resampled=True)
    def free_energy_step(step):
        """The bias of L is quadratic in the step, below the bound's linear term: its exponent is {criterion}."""
        return slope(step_bias(step.simulated, "free energy"), "step_size")

    @claim(OWN, CLOSED, within(0.1), resampled=True)
    def batch_bias(batch):
        """Mini-batches add eta s2/(2(2 - eta(a+b))) to F if drawn anew at every step, and what the recursion over an
        epoch gives if cut from one permutation, {criterion}."""
        enough(batch.simulated, "step_size", 3)
        return relative_deviation(added_by_batches(batch.simulated), added_by_batches(batch.predicted))

    @claim(SUZUKI, "uniform-in-time bound", between(0.9, 1.25), resampled=True)
    def batch_step(batch):
        """The bias of mini-batches drawn anew is linear in the step, below the bound's sqrt(eta): its exponent is
        {criterion}."""
        enough(batch.simulated, "step_size", 3)
        return slope(added_by_batches(batch.simulated).sel(batches="independent"), "step_size")

    @claim(OWN, "recursion over an epoch", at_most(0.5), resampled=True)
    def reshuffling(batch):
        """Where an epoch is shorter than the relaxation time of the mean, eta(a+b) n/B < 1, one permutation per epoch
        leaves {criterion} of the bias of batches drawn anew."""
        return exact_checks.reshuffled_share(batch)

    @claim(SUZUKI, "optimal mini-batch", between(0.45, 0.65), theory=True)
    def batch_rule(decay):
        """The largest batch within 1.5 times the least cost of a free energy within eps of the optimum grows like
        eps^(-1/2): its exponent in 1/eps is {criterion}."""
        exact_checks.need_rule(decay)
        return exact_checks.knee_exponent("free energy", 1.0)

    @claim(
        SUZUKI,
        "optimal mini-batch",
        between(0.45, 0.65),
        theory=True,
        known_negative="the bias of F is linear in the step, like that of batches: the knee stays where it is",
    )
    def batch_rule_energy(decay):
        """The same exponent is {criterion} if F, and not the free energy, must be within eps."""
        exact_checks.need_rule(decay)
        return exact_checks.knee_exponent("energy", 1.0)

    @claim(
        SUZUKI,
        "optimal mini-batch",
        between(0.45, 0.65),
        theory=True,
        known_negative="at these errors the variance hardly has to move, and the fast mean sets the steps",
    )
    def batch_rule_start(decay):
        """The same exponent is {criterion} from a start whose variance, 0.5, is close to the optimum's 0.4."""
        exact_checks.need_rule(decay)
        return exact_checks.knee_exponent("free energy", 0.5)

    def validate(self) -> None:
        if self.step_size * (self.curvature + self.interaction) >= 2:
            limit = 2 / (self.curvature + self.interaction)
            raise InputError(f"step_size must be below 2/(curvature + interaction) = {limit:g}, got {self.step_size:g}")
        if self.batch > self.rows:
            raise InputError(f"batch must be <= rows = {self.rows}, got {self.batch}")

    def _checkpoints(self) -> list[int]:
        """The start, early steps, at which width costs most, and a grid of all."""
        return sorted({*EARLY, *(self.steps * k // GRID for k in range(1, GRID + 1))})

    def coordinates(self) -> dict[str, Any]:
        return {"checkpoint": self._checkpoints()}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        a, b, rate, count = self.curvature, self.interaction, self.step_size, self.particles
        best = (self.field + b * self.target) / (a + b)
        line = np.linspace(-1.0, 1.0, self.rows)
        rows = self.field + line / line.std()
        kick = np.sqrt(2 * self.temperature * rate)
        # in units of the noise, and particles first, as sums over a short last axis are slow
        x = np.sqrt(self.start_variance) / kick * rng.standard_normal((count, self.replicates), np.float32)
        x = (self.start_mean / kick + x).astype(np.float32)
        noise, fields, keep = np.empty_like(x), self._batch_means(rng, rows), np.float32(1 - rate * a)
        toward, push = np.float32(-rate * b / count), rate * b * self.target / kick
        checkpoints, sums, total = {}, np.zeros(3), np.add.reduce(x)
        for block in self._blocks():
            centres, seconds = np.empty((2, len(block), self.replicates), np.float32)
            for place, step in enumerate(block):
                if step:
                    x *= keep
                    x += toward * total + (push + rate / kick * next(fields)).astype(np.float32)
                    rng.standard_normal(dtype=np.float32, out=noise)
                    x += noise
                total = np.add.reduce(x, out=centres[place])
                np.einsum("ij,ij->j", x, x, out=seconds[place])
            total, centre, second = total.copy(), kick / count * centres.astype(float), kick**2 / count * seconds
            spread = (second - centre**2) * (count / (count - 1))
            for place, step in enumerate(block):
                if step in self._checkpoints():
                    checkpoints[step] = centre[place].mean(), spread[place].mean(), centre[place].var(ddof=1)
            late = np.array(block) > self.steps // 4
            energy = a / 2 * second - self.field * centre + b / 2 * (centre - self.target) ** 2
            sums += [values[late].sum() / self.replicates for values in (spread, (centre - best) ** 2, energy)]
        mean_place, spread, mean_square = np.transpose([checkpoints[step] for step in self._checkpoints()])
        mean_spread, mean_wander, mean_energy = sums / (self.steps - self.steps // 4)
        return {
            "mean_place": mean_place,
            "spread": spread,
            "mean_square": mean_square,
            "mean_spread": mean_spread,
            "mean_wander": mean_wander,
            "mean_energy": mean_energy,
        }

    def _blocks(self) -> Iterator[range]:
        """The steps from 0, cut so that what is kept of a block is small."""
        length = max(1, 200_000 // self.replicates)
        for first in range(0, self.steps + 1, length):
            yield range(first, min(first + length, self.steps + 1))

    def _batch_means(self, rng: np.random.Generator, rows: np.ndarray) -> Iterator[Any]:
        """The mean of the rows that each cloud sees, step after step."""
        n, size = self.rows, self.batch
        while not size:
            yield np.full(self.replicates, rows.mean())
        ahead = max(1, 200_000 // (self.replicates * n))
        while self.batches == "reshuffled":
            order = rng.permuted(np.tile(rows, (ahead * self.replicates, 1)), axis=1)
            means = order[:, : n // size * size].reshape(ahead, self.replicates, n // size, size).mean(axis=3)
            yield from means.transpose(0, 2, 1).reshape(-1, self.replicates)
        while True:
            # Floyd's algorithm: a number that is taken gives way to the largest one allowed
            chosen = rng.integers(0, n - size + 1 + np.arange(size), (ahead * self.replicates, size))
            for place in range(1, size):
                taken = (chosen[:, :place] == chosen[:, place, None]).any(axis=1)
                chosen[taken, place] = n - size + place
            yield from rows[chosen].mean(axis=1).reshape(ahead, self.replicates)

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.mean_field.gaussian_problem import (
            Modes,
            batch_variance,
            gaussian_energy,
            gaussian_moments,
            gaussian_optimum,
            reshuffled_mean_variance,
        )

        modes = Modes(self.curvature, self.interaction, self.field, self.target)
        noise = batch_variance(1.0, self.rows, self.batch or self.rows)
        checkpoints, ahead = self._checkpoints(), np.arange(self.steps // 4 + 1, self.steps + 1)
        steps = np.concatenate([checkpoints, ahead])
        moments = gaussian_moments(
            modes,
            self.temperature,
            self.step_size,
            steps,
            particles=self.particles,
            start_mean=self.start_mean,
            start_variance=self.start_variance,
            gradient_variance=noise,
        )
        if self.batch and self.batches == "reshuffled":
            wander = reshuffled_mean_variance(
                modes,
                self.temperature,
                self.step_size,
                1.0,
                self.rows,
                self.batch,
                self.particles,
                steps=steps,
                start_variance=self.start_variance,
            )
            moments = moments._replace(mean_variance=wander)
        best = gaussian_optimum(modes, self.temperature).mean
        m, v, w = (moment[:, 0] for moment in moments)
        first, last = slice(len(checkpoints)), slice(len(checkpoints), None)
        return {
            "mean_place": m[first],
            "spread": v[first],
            "mean_square": w[first],
            "mean_spread": v[last].mean(),
            "mean_wander": ((m - best) ** 2 + w)[last].mean(),
            "mean_energy": gaussian_energy(modes, moments, self.particles)[last].mean(),
        }
