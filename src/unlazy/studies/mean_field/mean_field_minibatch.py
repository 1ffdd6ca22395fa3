"""Mini-batches and variance reduction in mean-field Langevin dynamics: the floor of one, and who is there first."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, at_most, between, cite, claim, parameter, slope, static, value
from unlazy.numerics.roots import ConvergenceError
from unlazy.plotting.panels import Guide, Panel, panels
from unlazy.theory.mean_field.grid import square_loss
from unlazy.theory.mean_field.tanh_network import tanh_optimum

PAPER, PLACE = "suzuki2023convergence", "stochastic gradient and variance reduction"
FLOOR = "The paper bounds L; here the floor of F is judged"
BUDGET = "The paper compares bounds on the evaluations that are needed; here F after one number of them is judged."
CHANGED = (
    "start of the floors at the optimal law, their zero at the floor of variance reduction, F recorded 500 times in "
    "place of 100, runs of different lengths paired; the criteria are the first ones"
)
AMPLITUDE = 4.0
LATE_STEPS = 1000, 6000
SIZES = [2, 4, 8, 16]
LARGER = 8.5, 10.2, 12.24
"""Half sides of boxes, in deviations of the prior, where 7 are too few."""
METHODS: dict[str, dict[str, Any]] = {
    "full": {},
    "sgd-4": {"batch_size": 4},
    "sgd-16": {"batch_size": 16},
    "svrg-4": {"batch_size": 4, "variance_reduction": True},
    "reshuffled-4": {"batch_size": 4, "batches": "reshuffled"},
}
PLAIN = {"gradient_estimate": "sgd-16", "used": SIZES, "evaluations": LATE_STEPS[1] * 16, "near": 1.0}
"""The floors of plain batches, of which the first rows are used: one program."""
OTHERS = [("svrg-4", 100_000), ("reshuffled-4", LATE_STEPS[1] * 4)]
"""Other floors, with enough evaluations for their steps; the first has the program of the race."""


def network_data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """z on a grid of [-2, 2] and y = sin(2z) + noise of deviation 0.5, the same in every run."""
    z = np.linspace(-2.0, 2.0, n)
    return z, np.sin(2 * z) + 0.5 * np.random.default_rng(0).standard_normal(n)


@cache
def optimum(n: int, confinement: float, temperature: float) -> Any:
    """The optimal law of the network on its data."""
    z, y = network_data(n)
    problem = {"amplitude": AMPLITUDE, "confinement": confinement, "temperature": temperature}
    return tanh_optimum(z, square_loss(y), grid_points=71, relative_half_width=7, **problem)


def _least_energy(n: int, confinement: float, temperature: float) -> float:
    """That of the optimal law, in larger boxes where that of the simulation cuts it off."""
    with suppress(ConvergenceError):
        return optimum(n, confinement, temperature).energy
    z, y = network_data(n)
    problem: dict[str, Any] = {"confinement": confinement, "temperature": temperature, "amplitude": AMPLITUDE}
    for wide in LARGER:
        with suppress(ConvergenceError):
            return tanh_optimum(z, square_loss(y), grid_points=71, relative_half_width=wide, **problem).energy
    raise InputError(
        f"temperature must be larger for the quadrature of the optimal law at confinement = {confinement:g} and "
        f"n = {n}, got {temperature:g}"
    )


def _of(data: Any, gradient: str) -> Any:
    return data.sel(gradient_estimate=gradient, drop=True)


def _floor(part):
    """The mean over late times and seeds of F - F*."""
    return part.simulated.late_energy.mean("seed") - part.predicted.least_energy


def _batch_floor(energy, others):
    """The mean of late energies above what variance reduction with the same Langevin noise leaves."""
    return (energy - _of(others.simulated.late_energy, "svrg-4")).mean("seed")


def _share_at_end(part, other):
    """F - F* with variance reduction over that of another estimate, at the last budget."""
    excess = part.simulated.energy.isel(budget=-1).mean("seed") - part.predicted.least_energy
    return _of(excess, "svrg-4") / _of(excess, other)


def _excess(name):
    """An energy above F*, for figures."""

    def above(data):
        return data[name] - optimum(*(parameter(data, key) for key in ("n", "confinement", "temperature"))).energy

    return above


EVALUATIONS: dict[str, Any] = {
    "x": lambda data: data.budget * parameter(data, "evaluations"),
    "xlabel": "gradient evaluations per particle",
}


@dataclass(frozen=True)
class MeanFieldMinibatch(Study):
    """f(z) = (1/N) sum_j 4 tanh(w_j z + b_j), F = (1/2n) sum (f(z_i) - y_i)^2 + lambda_1 E|x|^2; F* by the dual.

    All particles see the same batch, drawn anew at every step, as in the theory and in the source of the criteria
    (`reshuffled-4` has one permutation per epoch). A step costs B evaluations per particle, 2B + n/m with variance
    reduction, whose anchor is renewed every m = n/B steps, and n with the full gradient. The race starts from N(0, I);
    the floors are means of F over the steps from 1000 to 6000 of runs from the optimal law. Runs of one seed share
    their Langevin noise, and the floors of plain batches are counted from that of variance reduction, as F itself
    fluctuates slowly by more than they are (counted from F*, which adds what steps and width leave to both floors,
    those of 4 and 16 rows had the ratio 3.9 in 80 runs, 2.9 in the first 16). The quick preset has 100 particles where
    the criteria come from 200.
    """

    question = "Do mini-batches leave a floor that falls like 1/B, and does variance reduction remove it at less cost?"
    sources = cite("suzuki2023convergence")
    precision = "float32"
    chunk_width = 8

    gradient_estimate: str = static("svrg-4", "estimate of the gradient", choices=tuple(METHODS), paired=True)
    particles: int = static(100, "particles", symbol="N", low=2, high=100_000, scale="log")
    n: int = static(256, "samples, at least two batches of 16", low=32, high=100_000, scale="log")
    evaluations: int = static(
        100_000, "gradient evaluations per particle", low=10_000, high=10**8, scale="log", paired=True
    )
    used: int = value(
        16, "rows of a batch that are used, all if it has fewer", short="rows", low=1, high=16, paired=True
    )
    near: float = value(0.0, "start: 0 from N(0, I), 1 from the optimal law", low=0, high=1)
    step_size: float = value(0.02, "step size", symbol=r"\eta", above=0, high=0.1, scale="log")
    confinement: float = static(0.005, "confinement", symbol=r"\lambda_1", above=0, high=10, scale="log")
    temperature: float = static(0.01, "temperature", symbol=r"\lambda_2", above=0, high=10, scale="log")

    outputs = {
        "energy": Output("energy F", "F", ("budget",), scale="log"),
        "late_energy": Output("mean of F from step 1000 to 6000", scale="log"),
        "least_energy": Output("least energy F*", theory_only=True),
    }
    inner = {"budget": np.geomspace(0.01, 1.0, 10).tolist()}
    history = (
        Change("", CHANGED, "F fluctuates slowly by more than the floors are"),
        Change(
            "floor-exponent",
            "four batch sizes in place of the ratio of the floors of 4 and 16, and 32 seeds in place of 16",
            "a scaling is shown by an exponent; the ratio was too near to its criterion for fresh seeds; with 32 rows, "
            "whose floor is hardly above that of variance reduction, the exponent is -1.09",
        ),
        Change("race-batches", "16 seeds in place of 8", "8 fresh seeds left it undecided"),
        Change("reshuffling", "this claim", "one permutation per epoch leaves a lower floor"),
    )
    presets = {
        "quick": {
            "race": {"gradient_estimate": ["full", "sgd-4", "svrg-4"], "seeds": 16},
            "floor": PLAIN | {"seeds": 32},
            "others": {("gradient_estimate", "evaluations"): OTHERS[:1], "near": 1.0, "seeds": 32},
        },
        "full": {
            "race": {"gradient_estimate": list(METHODS), "particles": 200, "seeds": 16},
            "floor": PLAIN | {"particles": 200, "seeds": 48},
            "others": {("gradient_estimate", "evaluations"): OTHERS, "near": 1.0, "particles": 200, "seeds": 48},
        },
    }
    figure = panels(
        Panel(
            _excess("energy"),
            by="gradient_estimate",
            part="race",
            line=True,
            **EVALUATIONS,
            log="xy",
            ylabel="$F - F^*$",
            ylim=(2e-5, 0.3),
        ),
        Panel(
            _excess("late_energy"),
            x="used",
            part="floor",
            log="xy",
            xlabel="rows $B$ of a batch",
            ylabel="floor of $F - F^*$",
            marks=(Guide(-1.0, "$1/B$"),),
        ),
    )

    @claim(PAPER, PLACE, between(-1.15, -0.85), resampled=True, departs=f"{FLOOR}.")
    def floor_exponent(floor, others):
        """The floor that mini-batches of B of n rows leave falls like (n - B)/((n - 1) B), the variance of their
        mean. What they leave above variance reduction with the same Langevin noise, divided by (n - B)/(n - 1), has
        the exponent {criterion} in B, for B from 2 to 16."""
        n, found = parameter(floor.simulated, "n"), _batch_floor(floor.simulated.late_energy, others)
        return slope(found * (n - 1) / (n - found.used), "used", least=4)

    @claim(PAPER, PLACE, at_most(1 / 3), resampled=True, departs=f"{FLOOR}; the third is this project's.")
    def variance_reduction(floor, others):
        """Variance reduction leaves at most a third of the floor of as large batches."""
        return _of(_floor(others), "svrg-4") / _floor(floor).sel(used=4, drop=True)

    @claim(PAPER, PLACE, at_most(1.0), resampled=True, departs=BUDGET)
    def race_batches(race):
        """After 1e5 evaluations per particle variance reduction is ahead of plain batches of 4: its F - F* divided
        by theirs is {criterion}."""
        return _share_at_end(race, "sgd-4")

    @claim(PAPER, PLACE, at_most(1.0), resampled=True, departs=BUDGET)
    def race_full(race):
        """After 1e5 evaluations per particle variance reduction is ahead of the full gradient: its F - F* divided by
        that of the full gradient is {criterion}."""
        return _share_at_end(race, "full")

    @claim(OWN, "recursion over an epoch of the Gaussian problem of mean-field-exact", at_most(0.8), resampled=True)
    def reshuffling(floor, others):
        """Batches of 4 cut from one permutation per epoch leave {criterion} of the floor of those drawn anew."""
        cut, anew = (
            _of(others.simulated.late_energy, "reshuffled-4"),
            floor.simulated.late_energy.sel(used=4, drop=True),
        )
        return _batch_floor(cut, others) / _batch_floor(anew, others)

    def _cost(self) -> float:
        """Gradient evaluations per particle and step."""
        batch = float(METHODS[self.gradient_estimate].get("batch_size", self.n))
        return 3 * batch if "variance_reduction" in METHODS[self.gradient_estimate] else batch

    def simulate(self, key: Any) -> dict[str, Any]:
        from unlazy.training.mean_field.batch_races import race_energies

        at_budgets = [max(int(share * self.evaluations // self._cost()), 1) for share in self.coordinates()["budget"]]
        law = optimum(self.n, self.confinement, self.temperature)
        options = self.as_dict("temperature", "confinement", "step_size", "near", "particles", "used")
        options |= {"amplitude": AMPLITUDE, "batches": "independent"} | METHODS[self.gradient_estimate]
        energy, late = race_energies(key, law, network_data(self.n), at_budgets, LATE_STEPS, **options)
        return {"energy": energy, "late_energy": late}

    def predict(self) -> dict[str, Any]:
        return {"least_energy": _least_energy(self.n, self.confinement, self.temperature)}
