"""Learning curves on real digits from their means and covariances: right for ridge, only in shape for logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, path, relative_deviation, static
from unlazy.studies.message_passing.shared.sources import FEATURES, MIXTURES

if TYPE_CHECKING:
    import xarray as xr

SOURCE = "Loureiro et al. 2021, generic feature maps"
NOTE = "theory note of this package"
POOL = 1797


class Digits(NamedTuple):
    """Centred pixels/16 that are not constant, and 1 for odd, -1 for even digits."""

    rows: np.ndarray
    labels: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    """Of even and odd digits."""
    shares: np.ndarray


@cache
def digits() -> Digits:
    from unlazy.data.real import load

    table = load("digit_classes")
    rows = table.inputs[:, np.ptp(table.inputs, axis=0) > 0] / 16
    rows = rows - rows.mean(axis=0)
    labels = np.where(table.targets.argmax(axis=1) % 2 == 1, 1.0, -1.0)
    parts = [rows[labels == sign] for sign in (-1, 1)]
    covariances = np.stack([np.cov(part.T, bias=True) for part in parts])
    shares = np.array([len(part) for part in parts]) / len(rows)
    return Digits(rows, labels, np.stack([part.mean(axis=0) for part in parts]), covariances, shares)


def _large_ridge(regression: Part) -> xr.DataArray:
    found = relative_deviation(regression.simulated.error, regression.predicted.error)
    return found.sel(ridge=found.ridge >= 1)


def _regret(part: Part) -> xr.DataArray:
    """How much more than the best ridge of the grid the one that theory names costs, as a share."""
    mean = part.simulated.error.mean("seed")
    chosen = part.predicted.error.argmin("ridge")
    return mean.isel(ridge=chosen) / mean.min("ridge") - 1


def _surrogate(*parts: Part) -> list[xr.DataArray]:
    found = [relative_deviation(part.simulated.surrogate_error, part.predicted.error) for part in parts]
    return [each.sel(n=each.n >= 200, ridge=each.ridge >= 1) for each in found]


def _descent(classification: Part) -> xr.DataArray:
    return np.log(classification.simulated.error.mean("seed")).diff("n")


@dataclass(frozen=True)
class CovariatesReal(Study):
    """Odd against even 8 x 8 digits; theory knows only means and covariances of the 1797 images.

    Ridge regression of +-1, centred, without bias: rows are drawn with replacement and errors are those of all images,
    the sense in which the moments are those of the population (`LearningCurve.fit_moments`). Logistic regression with
    bias: rows are drawn without replacement and errors are those of the images not drawn; theory takes each class as
    one Gaussian cluster. The surrogate is the same fit to Gaussian rows with the same moments, with its exact error.

    First runs of the logistic part had 24 and 72 seeds and were inconclusive in three claims; now there are more seeds,
    and the criteria are the same. The note's training loss within 10% turned out not to hold for 800 rows.
    """

    name = "covariates-real"
    topic = "message_passing"
    question = "Do the means and covariances of real images say how well linear models learn them?"
    caption = (
        "Lines: theory. Points: the digits, means over seeds with 99% intervals. Hollow squares: means of the same "
        "fit on Gaussian data with the digits' means and covariances."
    )
    sources = (FEATURES, MIXTURES)

    model: str = static("ridge", "loss", choices=("ridge", "logistic"))
    n: tuple = path((50, 100, 200, 400), "training rows", symbol="n", low=20, high=1200, scale="log")
    ridge: tuple = path((0.1, 1.0, 10.0), "ridge", symbol=r"\lambda", above=0, high=1e6, scale="log")

    outputs = {
        "error": Output("test error: mean square for ridge, share of wrong labels for logistic", "", ("n", "ridge")),
        "surrogate_error": Output("the same of Gaussian rows with these moments", "", ("n", "ridge")),
        "training_loss": Output("mean training loss: squares for ridge, logistic loss", "", ("n", "ridge")),
    }
    presets = {
        "quick": {
            "regression": {"ridge": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0], "seeds": 100},
            "classification": {
                "model": "logistic",
                "n": [100, 200, 400, 800],
                "ridge": [0.1, 1.0, 10.0],
                "seeds": 96,
            },
        },
        "full": {
            "regression": {
                "n": [50, 100, 200, 400, 800],
                "ridge": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0],
                "seeds": 400,
            },
            "classification": {
                "model": "logistic",
                "n": [100, 200, 400, 800],
                "ridge": [0.1, 0.3, 1.0, 3.0, 10.0],
                "seeds": 100,
            },
        },
    }
    claims = (
        Claim(
            "ridge",
            SOURCE,
            "Test errors of ridge regression on real pixels follow from covariances within 10% for a ridge of 1 or "
            "more.",
            between(-0.1, 0.1),
            check=_large_ridge,
            parts=("regression",),
        ),
        Claim(
            "best-ridge",
            SOURCE,
            "The ridge that covariances name best costs at most 1% more than the best of the grid, for each n.",
            at_most(0.01),
            statistic=_regret,
            parts=("regression",),
        ),
        Claim(
            "logistic",
            SOURCE,
            "Test errors of logistic regression on real pixels follow from means and covariances within 10%.",
            between(-0.1, 0.1),
            check=lambda part: relative_deviation(part.simulated.error, part.predicted.error),
            parts=("classification",),
            known_negative="digits are not Gaussian clusters: at ridge 1 the error is 11 to 18% above theory",
        ),
        Claim(
            "logistic-training",
            NOTE,
            "At ridge 1 the training loss of logistic regression on real pixels is that of theory within 10%.",
            between(-0.1, 0.1),
            check=lambda part: relative_deviation(part.simulated.training_loss, part.predicted.training_loss).sel(
                ridge=[1.0]
            ),
            parts=("classification",),
            needs={"ridge": (1.0,)},
            known_negative="it is 9, 11 and 13% above theory with 200, 400 and 800 rows",
        ),
        Claim(
            "logistic-shape",
            NOTE,
            "The test error of logistic regression falls with each doubling of the rows, at every ridge.",
            at_most(0.0),
            statistic=_descent,
            parts=("classification",),
            needs={"n": 2},
        ),
        Claim(
            "logistic-ranking",
            NOTE,
            "The ridge that theory names best for logistic regression costs at most 5% more errors than the best "
            "of the grid, for each n.",
            at_most(0.05),
            statistic=_regret,
            parts=("classification",),
        ),
        Claim(
            "surrogate",
            SOURCE,
            "For Gaussian rows with the moments of the digits theory is right within 10%, for 200 rows or more and a "
            "ridge of 1 or more: what fails on pixels is not the theory of Gaussian rows.",
            between(-0.1, 0.1),
            check=_surrogate,
            parts=("regression", "classification"),
        ),
    )

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        return self._regression(rng) if self.model == "ridge" else self._classification(rng)

    def _regression(self, rng: np.random.Generator) -> dict[str, Any]:
        pool = digits()
        targets = pool.labels - pool.labels.mean()
        covariance, cross, square = _moments()
        root, teacher, noise = _gaussian_model()
        most = max(self.n)
        drawn = rng.integers(0, POOL, most)
        gaussian = rng.standard_normal((most, len(root))) @ root
        gaussian_targets = gaussian @ teacher + noise * rng.standard_normal(most)
        shape = len(self.n), len(self.ridge)
        errors, surrogate, training = np.empty(shape), np.empty(shape), np.empty(shape)
        for i, n in enumerate(self.n):
            rows, labels = pool.rows[drawn[:n]], targets[drawn[:n]]
            weights = _ridge_weights(rows, labels, self.ridge)
            errors[i] = np.mean((targets[:, None] - pool.rows @ weights) ** 2, axis=0)
            training[i] = np.mean((labels[:, None] - rows @ weights) ** 2, axis=0)
            other = _ridge_weights(gaussian[:n], gaussian_targets[:n], self.ridge)
            surrogate[i] = square - 2 * cross @ other + np.sum(other * (covariance @ other), axis=0)
        return {"error": errors, "surrogate_error": surrogate, "training_loss": training}

    def _classification(self, rng: np.random.Generator) -> dict[str, Any]:
        from scipy.special import ndtr

        from unlazy.studies.message_passing.shared.convex_fits import fit_logistic

        pool = digits()
        most = max(self.n)
        order = rng.permutation(POOL)
        cluster = (rng.random(most) < pool.shares[1]).astype(int)
        normal = rng.standard_normal((most, pool.rows.shape[1]))
        roots = _class_roots()
        gaussian = np.where(cluster[:, None] == 1, normal @ roots[1], normal @ roots[0]) + pool.means[cluster]
        signs = 2.0 * cluster - 1
        shape = len(self.n), len(self.ridge)
        errors, surrogate, training = np.empty(shape), np.empty(shape), np.empty(shape)
        for i, n in enumerate(self.n):
            seen, unseen = order[:n], order[n:]
            for j, ridge in enumerate(self.ridge):
                weights, bias = fit_logistic(pool.rows[seen], pool.labels[seen], ridge, True)
                margins = pool.labels * (pool.rows @ weights + bias)
                errors[i, j] = np.mean(margins[unseen] < 0)
                training[i, j] = np.mean(np.logaddexp(0, -margins[seen]))
                weights, bias = fit_logistic(gaussian[:n], signs[:n], ridge, True)
                centres = np.array([-1.0, 1.0]) * (pool.means @ weights + bias)
                spread = np.sqrt(np.einsum("i,cij,j->c", weights, pool.covariances, weights))
                surrogate[i, j] = pool.shares @ ndtr(-centres / spread)
        return {"error": errors, "surrogate_error": surrogate, "training_loss": training}

    def predict(self) -> dict[str, Any]:
        sizes, ridges = np.array(self.n, dtype=float)[:, None], np.array(self.ridge)
        if self.model == "ridge":
            from unlazy.diagnostics import LearningCurve

            found = LearningCurve("linear").fit_moments(*_moments()).predict(sizes, ridges)
            return {"error": found.error, "surrogate_error": found.error, "training_loss": found.training_error}
        from unlazy.theory.message_passing.state_evolution.mixture import mixture_state_evolution

        pool = digits()
        theory = mixture_state_evolution(pool.means, pool.covariances, pool.shares, [-1, 1], sizes, ridges)
        return {
            "error": theory.test_error,
            "surrogate_error": theory.test_error,
            "training_loss": theory.train_loss,
        }

    def figure(self, regression: Part, classification: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.6, height=3.1)
        for axes, part in ((left, regression), (right, classification)):
            shown = [level for level in part.simulated.ridge.values if level in (0.1, 1.0, 10.0)]
            for index, level in enumerate(shown or part.simulated.ridge.values[:3]):
                points, line = part.simulated.sel(ridge=level), part.predicted.sel(ridge=level)
                text = rf"$\lambda = {level:g}$"
                style.theory(axes, line.n, line.error, color=style.colour(index), label=text)
                style.simulation(axes, points.n, points.error, color=style.colour(index))
                surrogate = points.surrogate_error.mean("seed")
                axes.plot(points.n, surrogate, "s", color=style.colour(index), markerfacecolor="white", zorder=4)
            style.log_scale(axes, "x")
            axes.set_xlabel(style.label("training rows", "n"))
        left.set(ylabel="mean squared test error", title="ridge regression")
        right.set(ylabel="share of wrong labels", title="logistic regression")
        left.legend(title="odd or even digits")
        right.plot([], [], "o", color="gray", label="digits")
        right.plot([], [], "s", color="gray", markerfacecolor="white", label="Gaussian surrogate")
        right.plot([], [], color="gray", label="theory")
        handles, words = right.get_legend_handles_labels()
        right.legend(handles[-3:], words[-3:])
        return figure


@cache
def _moments() -> tuple[np.ndarray, np.ndarray, float]:
    """Covariance of the pixels, their covariance with the label, and its variance."""
    pool = digits()
    targets = pool.labels - pool.labels.mean()
    return pool.rows.T @ pool.rows / POOL, pool.rows.T @ targets / POOL, float(np.mean(targets**2))


@cache
def _gaussian_model() -> tuple[np.ndarray, np.ndarray, float]:
    """R with R^T R the covariance, the best linear weights, and the deviation of the noise."""
    covariance, cross, square = _moments()
    teacher = np.linalg.solve(covariance, cross)
    return np.linalg.cholesky(covariance).T, teacher, float(np.sqrt(square - cross @ teacher))


@cache
def _class_roots() -> list[np.ndarray]:
    """R with R^T R the covariance of each class."""
    roots = []
    for covariance in digits().covariances:
        values, vectors = np.linalg.eigh(covariance)
        roots.append((vectors * np.sqrt(np.maximum(values, 0))).T)
    return roots


def _ridge_weights(rows: np.ndarray, targets: np.ndarray, ridges: Any) -> np.ndarray:
    """Weights (columns, ridges) of |targets - rows w|^2 + ridge |w|^2."""
    values, vectors = np.linalg.eigh(rows.T @ rows)
    inner = vectors.T @ (rows.T @ targets)
    return vectors @ (inner[:, None] / (np.maximum(values, 0)[:, None] + np.asarray(ridges)))
