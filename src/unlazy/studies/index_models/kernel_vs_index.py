"""A rotation-invariant kernel needs d^p samples for a polynomial of one index, a method that looks for the index d."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unlazy.lab import Change, Output, Study, at_least, at_most, cite, claim, parameter, static, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.index_models.shared.one_shot import LINKS

KERNELS = ("matched kernel", "exponential kernel")
LEARNERS = (*KERNELS, "one-shot index", "refined index")
RIDGES = (1e-6, 1.0, 10.0, 1e3)
JITTER = 1e-9
SERIES = 30
FRESH = 700
STEPS = 12
RATIOS = [2.0, 4.0, 8.0, 16.0]


def _overlap_error(part: Any) -> Any:
    error = part.simulated.overlap - part.predicted.overlap
    return error.sel(d=error.d >= 30, samples_per_dimension=[8.0, 16.0])


def _lead(part: Any, d: int) -> Any:
    score = part.simulated.score.sel(d=d, samples_per_dimension=16.0, drop=True)
    return score.sel(learner="one-shot index", drop=True) - score.sel(learner=list(KERNELS)).max("learner")


def _score(learner: str, data: Any) -> Any:
    return data.score.sel(learner=learner)


def _draw_large(learner: str, name: str, axes: Any, small: Any, large: Any = None) -> None:
    """The dimensions of the part `large` beside those of `small`."""
    from unlazy.plotting import style

    if large is None:
        return
    first = np.size(parameter(small.simulated, "d"))
    for index, d in enumerate(np.atleast_1d(parameter(large.simulated, "d")), first):
        points, line = (
            _score(learner, data).sel({key: at for key, at in (("link", name), ("d", d)) if key in data.dims})
            for data in (large.simulated, large.lines)
        )
        color, x = style.colour(index), "samples_per_dimension"
        if learner != "refined index":
            style.theory(axes, line[x], line, color=color)
        style.simulation(axes, points[x], points, color=color, marker=style.marker(index), label=f"$d = {d}$")


@dataclass(frozen=True)
class KernelVsIndex(Study):
    """y = h_p(<x, theta>) without noise, x uniform on the sphere of radius sqrt(d), theta random; test R^2.

    The matched kernel has harmonics of degree p alone, so that it is the best linear estimator of a function of degree
    p that knows nothing of theta; the exponential kernel exp(<x, x'>/d) gets the ridge that is best on the test data.
    The one-shot index takes a direction from one half of the samples and fits a polynomial of degree p on the other;
    R^2 = overlap^(2p) then. The refined one takes the direction from all and makes Gauss-Newton steps with polynomials
    of degree p. Index learners know the link's transform and degree, kernels (the matched one) its degree.
    """

    question = (
        "How many samples of a polynomial of one index does a rotation-invariant kernel need, and how many a method "
        "that looks for the index?"
    )
    sources = cite("wu2024talk", "ghorbani2021", "damian2024", "lu2020")

    link: str = static("He3", "link", choices=LINKS)
    d: int = static(40, "dimension", symbol="d", low=8, high=2000, scale="log")
    samples_per_dimension: float = static(8.0, "samples per dimension", symbol="n/d", low=1, high=1000, scale="log")

    outputs = {
        "score": Output("test R^2", "R^2", ("learner",)),
        "overlap": Output("squared overlap of the one-shot direction, mean of four", r"\langle w,\theta\rangle^2"),
        "bound": Output("what no kernel exceeds", "n/N_p", theory_only=True),
    }
    presets = {
        "quick": {
            "small": {"link": list(LINKS), "d": [15, 30], "samples_per_dimension": RATIOS, "seeds": 32},
            "large": {"link": list(LINKS), "d": [50], "samples_per_dimension": RATIOS, "seeds": 16},
        },
        "full": {
            "small": {"link": list(LINKS), "d": [15, 30], "samples_per_dimension": [1.0, *RATIOS], "seeds": 96},
            "large": {"link": list(LINKS), "d": [50, 100], "samples_per_dimension": [1.0, *RATIOS], "seeds": 32},
        },
    }
    lines = {"small": "samples_per_dimension", "large": "samples_per_dimension"}
    history = (
        Change("", "more ridges and more seeds", "after a first run"),
        Change("", "largest d 50 in place of 60", "its cost"),
        Change(
            "one-shot-theory",
            "about the overlap in place of R^2 within 0.1",
            "the fit of the link costs up to 0.1 of R^2 at d = 30, n = 8 d",
        ),
    )
    figure = panels(
        *(
            Panel(
                partial(_score, learner),
                x="samples_per_dimension",
                by="d",
                part="small",
                at={"link": name},
                title=learner,
                ylabel="test $R^2$",
                ylim=(-0.3, 1.05),
                theory=learner != "refined index",
                legend="upper left" if (learner, name) == ("matched kernel", "He3") else False,
                draw=partial(_draw_large, learner, name),
            )
            for name in LINKS
            for learner in LEARNERS
        ),
        columns=len(LEARNERS),
        width=2.6,
        height=2.4,
        caption="The refined index has no theory.",
    )

    @claim("ghorbani2021 wu2024talk", "baseline II", within(0.08, absolute=True))
    def kernel_theory(small, large):
        """The R^2 of both kernels is that of the theory, n/N_p for the matched one until it is 1, {criterion}."""
        return [(p.simulated.score - p.predicted.score).sel(learner=list(KERNELS)) for p in (small, large)]

    @claim("ghorbani2021 wu2024talk", "baseline II", at_most(0.1))
    def kernel_fails(large):
        """With n = 16 d samples of h_3 no kernel learns: at d = 50 the better one's R^2 is {criterion}."""
        score = large.simulated.score
        at = {"link": "He3", "d": 50, "samples_per_dimension": 16.0}
        return score.sel(learner=list(KERNELS), **at, drop=True).max("learner")

    @claim("wu2024talk damian2024", "baseline I", at_least(0.9), resampled=True)
    def index_learns(large):
        """With as many the refined index has a median R^2 of {criterion} there, for both links."""
        score = large.simulated.score.sel(link=list(LINKS))
        return score.sel(learner="refined index", d=50, samples_per_dimension=16.0, drop=True).median("seed")

    @claim("lu2020", "overlap of spectral estimators", within(0.05, absolute=True))
    def one_shot_theory(small, large):
        """For d >= 30 and n = 8 d, 16 d the squared overlap of the one-shot direction is that of the theory
        {criterion}."""
        return [_overlap_error(part) for part in (small, large)]

    @claim("ghorbani2021 wu2024talk", "baselines I and II", at_least(0.1))
    def gap_grows(small, large):
        """With n = 16 d the lead of the one-shot index over the better kernel is larger at d = 50 than at d = 15 by
        {criterion}, for both links."""
        return _lead(large, 50) - _lead(small, 15)

    @property
    def _n(self) -> int:
        return round(self.samples_per_dimension * self.d)

    @property
    def _degree(self) -> int:
        return int(self.link[2:])

    def memory(self) -> int:
        return 8 * self._n * (5 * self._n + 4 * FRESH + 2 * self.d)

    def coordinates(self) -> dict[str, Any]:
        return {"learner": list(LEARNERS)}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """All learners see the same samples and are tested on the same points."""
        from unlazy.data.unit_vectors import unit_vectors
        from unlazy.functions.links import link
        from unlazy.studies.index_models.shared.one_shot import one_shot_direction

        n, d = self._n, self.d
        theta = unit_vectors(rng, 1, d)[0]
        x, fresh = unit_vectors(rng, n, d), unit_vectors(rng, FRESH, d)
        y, truth = (np.asarray(link(self.link)(np.sqrt(d) * points @ theta)) for points in (x, fresh))
        rows, new = np.sqrt(d) * x, np.sqrt(d) * fresh
        known, crossed = x @ x.T, fresh @ x.T
        half = n // 2
        first = one_shot_direction(rows[:half], y[:half], self.link)
        refined = self._refined(rows, y, one_shot_direction(rows, y, self.link))
        predictions = {
            "matched kernel": self._matched(known, crossed, y),
            "exponential kernel": self._exponential(known, crossed, y, truth),
            "one-shot index": self._along(first, rows[half:], y[half:], new),
            "refined index": self._along(refined, rows, y, new),
        }
        scale = np.mean(truth**2)
        score = [1 - np.mean((predictions[name] - truth) ** 2) / scale for name in LEARNERS]
        return {"score": score, "overlap": np.mean([(first @ theta) ** 2, *self._more_overlaps(rng, theta, half)])}

    def _more_overlaps(self, rng: np.random.Generator, theta: np.ndarray, n: int) -> list[float]:
        """Of directions from further samples, which cost little next to a kernel."""
        from unlazy.data.unit_vectors import unit_vectors
        from unlazy.functions.links import link
        from unlazy.studies.index_models.shared.one_shot import one_shot_direction

        found = []
        for _ in range(3):
            rows = np.sqrt(self.d) * unit_vectors(rng, n, self.d)
            found.append((one_shot_direction(rows, link(self.link)(rows @ theta), self.link) @ theta) ** 2)
        return found

    def _matched(self, known: np.ndarray, crossed: np.ndarray, y: np.ndarray) -> np.ndarray:
        kernel, new = (np.polyval(self._harmonic, products) for products in (known, crossed))
        return new @ _solve(kernel, JITTER, y)

    @property
    def _harmonic(self) -> np.ndarray:
        """Coefficients of the kernel of degree p alone that is 1 at 1, as a polynomial of <x, x'>."""
        from unlazy.functions.orthogonal import Gegenbauer

        points = np.cos(np.arange(self._degree + 1))
        values = Gegenbauer(self.d).values(np.sqrt(self.d) * points, self._degree)[-1]
        return np.polyfit(points, values / np.sqrt(Gegenbauer(self.d).multiplicity(self._degree)), self._degree)

    def _exponential(self, known: np.ndarray, crossed: np.ndarray, y: np.ndarray, truth: np.ndarray) -> np.ndarray:
        kernel, new = np.exp(known), np.exp(crossed)
        found = [new @ _solve(kernel, ridge, y) for ridge in RIDGES]
        return min(found, key=lambda values: float(np.mean((values - truth) ** 2)))

    def _along(self, direction: np.ndarray, rows: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        fit = np.polynomial.Polynomial.fit(rows @ direction, y, self._degree)
        return fit(new @ direction)

    def _refined(self, rows: np.ndarray, y: np.ndarray, direction: np.ndarray) -> np.ndarray:
        from unlazy.numerics.index_directions import refined_directions

        def smooth(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            fit = np.polynomial.Polynomial.fit(index[:, 0], y, self._degree)
            return fit(index[:, 0]), fit.deriv()(index)

        def solve(design: np.ndarray, response: np.ndarray) -> np.ndarray:
            return np.linalg.lstsq(design, response, rcond=1e-8)[0]

        found = refined_directions(rows, y, direction[:, None], STEPS, smooth, solve)[:, 0]
        length = np.linalg.norm(found)
        return found / length if length > 0 else direction

    def predict(self) -> dict[str, Any]:
        """The refined index has no theory here; 1, its limit for n/d beyond a few, stands for it."""
        import math

        from unlazy.functions.links import link
        from unlazy.functions.orthogonal import Gegenbauer, coefficients
        from unlazy.studies.index_models.shared.one_shot import one_shot_overlap
        from unlazy.theory.kernels.blocks import kernel_blocks
        from unlazy.theory.kernels.random_features import kernel_regression_equivalent

        family, degree, n = Gegenbauer(self.d), self._degree, self._n
        energies = coefficients(link(self.link).value, family, degree).values ** 2
        total, copies = energies.sum(), np.array(family.multiplicities(degree), dtype=float)
        alone = np.eye(degree + 1)[degree] / copies
        matched = kernel_regression_equivalent(alone, energies, n, JITTER, 0.0, multiplicities=copies)
        blocks = kernel_blocks([1 / math.factorial(k) for k in range(SERIES)], family)
        risks = kernel_regression_equivalent(
            blocks.eigenvalues,
            blocks.energies(energies.tolist()),
            n,
            np.array(RIDGES),
            0.0,
            multiplicities=blocks.multiplicities,
        ).risk
        overlap = one_shot_overlap(self.link, (n // 2) / self.d)
        score = [1 - matched.risk / total, 1 - risks.min() / total, overlap**degree, 1.0]
        return {"score": score, "overlap": overlap, "bound": min(n / copies[-1], 1.0)}


def _solve(kernel: np.ndarray, ridge: float, y: np.ndarray) -> np.ndarray:
    from scipy.linalg import cho_factor, cho_solve

    return cho_solve(cho_factor(kernel + ridge * np.eye(len(y))), y)
