"""Fine-tuning: neurons that localised on tasks serve a new target of two of them with few samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, path, static, value
from unlazy.studies.index_models.shared.sources import OKO, TALK

if TYPE_CHECKING:
    import xarray as xr

OKO_TEXT = "Oko et al. 2024, fine-tuning"
ARMS = {
    "exact": "the tasks themselves",
    "localised": "trained neurons",
    "constant": "trained, constant step",
    "subspace": "random in the tasks' subspace",
    "random": "random, untrained",
}
FEW = (50, 100)
FRESH = 2000
LAST_STEP = 0.25


def _gap(part: Part, better: str, worse: str) -> xr.DataArray:
    score = part.simulated.score.sel(fresh_samples=list(FEW))
    return score.sel(arm=better, drop=True) - score.sel(arm=worse, drop=True)


def _half_the_samples(part: Part) -> xr.DataArray:
    score = part.simulated.score
    few, more = FEW
    return score.sel(arm="localised", fresh_samples=few, drop=True) - score.sel(
        arm="subspace", fresh_samples=more, drop=True
    )


@dataclass(frozen=True)
class FineTuning(Study):
    """A Lasso on relu(+-<w_j, x> + b_j), N neurons frozen, for tanh(2 z_2) + |z_4| with z_m = <x, theta_m>.

    All first layers get the same signs, biases and samples, and the penalty by five-fold cross-validation. Trained
    neurons have seen n = 1.2 M d^2 samples of M^(-1/2) sum_m h_3(z_m), the last third with a quarter of the step size.
    The random directions lie in the exact subspace, which no training gives: the comparison favours them.

    The criterion 0.08 stands in the project's note, for a constant step. There the overlaps stall at 0.93 and it is not
    safe: the gap to the subspace was some 0.1 at 50 samples and 0.05 at 100 (40 runs; too noisy to call it a failure).
    After 24 of them the smaller step at the end was added, with the criterion unchanged; the constant step is shown.
    """

    name = "fine-tuning"
    topic = "index_models"
    question = (
        "If a new target depends on two of the tasks that a network was trained on, do its localised neurons learn it "
        "from fewer samples than random features in the right subspace?"
    )
    caption = "Points: simulation, means over seeds with 99% intervals, joined by thin lines. There is no theory here."
    sources = (OKO, TALK)
    precision = "float32"

    d: int = static(64, "dimension", symbol="d", low=12, high=10_000)
    tasks: int = static(8, "tasks", symbol="M", low=4, high=1000)
    neurons: int = static(96, "neurons", symbol="N", low=1, high=10_000)
    samples: float = static(1.2, "training samples over M d^2", above=0, high=100)
    most_samples: int = static(200, "largest number of new samples", low=10, high=100_000)
    step: float = value(0.5, "step size, before the powers of d and M", symbol="g", above=0, high=100)
    noise: float = value(0.0, "deviation of the noise of all labels", symbol=r"\tau", low=0, high=100)
    fresh_samples: tuple = path((50, 100, 200), "samples of the new target", symbol="n'", low=10, scale="log")

    outputs = {
        "score": Output("test R^2 on the new target", "R^2", ("arm", "fresh_samples")),
        "overlap": Output("median over neurons of the best overlap", "", ("arm",)),
    }
    presets = {
        "quick": {"seeds": 16},
        "full": {
            "neurons": [96, 192],
            "most_samples": 400,
            "fresh_samples": (50, 100, 200, 400),
            "seeds": 32,
        },
    }
    claims = (
        Claim(
            "localised-beats-subspace",
            OKO_TEXT,
            "With 50 and with 100 samples the R^2 of localised neurons is higher by at least 0.08 than that of random "
            "directions in the exact subspace.",
            at_least(0.08),
            check=lambda part: _gap(part, "localised", "subspace"),
            needs={"fresh_samples": FEW},
        ),
        Claim(
            "half-the-samples",
            OKO_TEXT,
            "With 50 samples it is at least what random directions in the subspace reach with 100.",
            at_least(0.0),
            check=_half_the_samples,
            needs={"fresh_samples": FEW},
        ),
        Claim(
            "training-needed",
            OKO_TEXT,
            "Without the subspace there is little: untrained neurons are below random directions in it by 0.2 or more.",
            at_least(0.2),
            check=lambda part: _gap(part, "subspace", "random"),
            needs={"fresh_samples": FEW},
        ),
    )

    def validate(self) -> None:
        if self.d < self.tasks + 3:
            raise InputError(f"d must be at least tasks + 3 = {self.tasks + 3}, got {self.d}")
        if max(self.fresh_samples) > self.most_samples:
            raise InputError(
                f"fresh_samples must be at most most_samples = {self.most_samples}, got {max(self.fresh_samples)}"
            )

    def coordinates(self) -> dict[str, Any]:
        return {"arm": list(ARMS)}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.functions.links import link
        from unlazy.random import normal
        from unlazy.studies.index_models.shared.lasso import lasso_cv
        from unlazy.training.index_models.additive_chain import Rule, train_network

        train_key, draw_key, bias_key = jax.random.split(key, 3)
        n, neurons = self.most_samples, self.neurons
        numbers = normal(draw_key, ((2 * neurons + n + FRESH) * self.d + n,))
        drawn, noise = numbers[:-n].reshape(-1, self.d), numbers[-n:]
        start, other, x = drawn[:neurons], drawn[neurons : 2 * neurons], drawn[2 * neurons :]
        start = start / jnp.linalg.norm(start, axis=1, keepdims=True)
        rule = Rule(link("He3"), self.tasks, self.d, self.step / (self.d * self.tasks) ** 0.5, self.noise)
        total = round(self.samples * self.tasks * self.d**2)
        first_key, last_key = jax.random.split(train_key)
        halfway = train_network(first_key, start, rule, total - total // 3).weights

        def finish(step_size: Any) -> Any:
            return train_network(last_key, halfway, rule._replace(step_size=step_size), total // 3).weights

        localised, constant = jax.vmap(finish)(rule.step_size * jnp.array([LAST_STEP, 1.0]))
        inside = jnp.where(jnp.arange(self.d) < self.tasks, other, 0.0)
        layers = {
            "exact": jnp.eye(self.d)[jnp.arange(neurons) % self.tasks],
            "localised": localised,
            "constant": constant,
            "subspace": inside / jnp.linalg.norm(inside, axis=1, keepdims=True),
            "random": start,
        }
        signs, biases = jax.random.uniform(bias_key, (2 * neurons,), float, -2.5, 2.5).reshape(2, neurons)
        target = jnp.tanh(2 * x[:, 1]) + jnp.abs(x[:, 3])
        known, new = target[:n] + self.noise * noise, target[n:]

        def score(weights: Any, size: Any) -> Any:
            features = jnp.maximum(jnp.sign(signs) * (x @ weights.T) + biases, 0.0)
            fit = lasso_cv(features[:n], known, size)
            error = new - fit.intercept - features[n:] @ fit.coefficients
            return 1 - (error**2).mean() / new.var()

        stacked = jnp.stack([layers[arm] for arm in ARMS])
        scores = jax.vmap(lambda weights: jax.vmap(lambda size: score(weights, size))(jnp.asarray(self.fresh_samples)))
        return {
            "score": scores(stacked),
            "overlap": jnp.median(jnp.abs(stacked[..., : self.tasks]).max(axis=2), axis=1),
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        data = main.simulated
        if "neurons" in data.dims:
            data = data.isel(neurons=0)
        figure, axes = style.panels(1, 1, width=4.4, height=3.4)
        for index, (arm, text) in enumerate(ARMS.items()):
            color, points = style.colour(index), data.score.sel(arm=arm)
            style.simulation(axes, points.fresh_samples, points, color=color, marker=style.marker(index), label=text)
            axes.plot(points.fresh_samples, points.mean("seed"), color=color, linewidth=0.7)
        axes.axhline(0, color="#888888", linewidth=0.6)
        style.log_scale(axes, "x")
        axes.set(xlabel=style.label("samples of the new target", "n'"), ylabel="test $R^2$", ylim=(-0.12, 1.0))
        axes.legend(title="directions of the first layer", title_fontsize=8)
        return figure
