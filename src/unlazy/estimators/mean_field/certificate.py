"""What a user is told about the distance of a trained mean-field network from the optimum."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.estimators.mean_field.fit import NetworkSetting, PaddedRows, mean_predictions, padded

_MOST_STANDARD_ERRORS = 3.0
# a chi-squared number with one degree of freedom exceeds this with probability 0.002
_MOST_DRIFT = 6.0
_FEWEST_ANCESTORS = 20
_FEWEST_EFFECTIVE = 50
_ACCEPTANCES = (0.3, 0.95)
_WIDE = 50


class CertificateEffort(NamedTuple):
    """How a certificate is computed."""

    markov_chains: int = 1024
    steps: int = 200
    annealing: int = 200
    polish: int = 2
    """Steps that improve the law before it is judged."""


class OptimalityCertificate(NamedTuple):
    """An upper bound of L(q_g) - min L, where q_g is the law that `draws` are from.

    The objective L = mean loss + confinement E|x|^2 + temperature E log mu is in units of the loss: half the squared
    error over the variance of y, or nats. The bound is estimated without bias: `optimality_gap` +- `standard_error`,
    which can be below 0 where it is as good as 0. If `reasons` is not empty the estimate is not trusted and must not be
    quoted as a bound. N neurons drawn from q_g are worse than q_g by another term of order 1/N.
    """

    optimality_gap: float
    standard_error: float
    reasons: tuple[str, ...]
    acceptance: float
    effective_draws: float
    """How many independent draws have the variance of the predictions behind `optimality_gap`."""
    draws: np.ndarray
    """(draws, d + 1 or more) of q_g, in standardised inputs; weights of the columns of X, then the bias."""

    @property
    def holds(self) -> bool:
        """Whether the estimate passed all checks."""
        return not self.reasons


def network_certificate(
    cloud: Any,
    X: Any,
    y: Any,
    *,
    loss: str = "square",
    amplitude: float,
    temperature: float,
    confinement: float,
    markov_chains: int = 1024,
    steps: int = 200,
    annealing: int = 200,
    polish: int = 2,
    random_state: int = 0,
) -> OptimalityCertificate:
    """Certify a network f(z) = amplitude mean tanh(w.z + b) on X (n, d) and y (n,).

    Its `cloud` (N, d + 1) has a row (w, b) for each particle. The loss is "square", (f - y)^2 / 2, or "logistic", log(1
    + exp(-y f)) with y = -1 or 1; X and y are taken as they are. Best give particles of several times of the training
    together: from few of them the gap is that of their noise. See `training.mean_field.certificate` for the method;
    `polish` steps improve the law before it is judged.
    """
    inputs = check_array("X", X, ndim=2)
    labels = check_array("y", y, ndim=1)
    cloud = check_array("cloud", cloud, ndim=2)
    check_choice("loss", loss, ("square", "logistic"))
    if len(labels) != len(inputs):
        raise InputError(f"y must have one entry per row of X, got {len(labels)} for {len(inputs)}")
    if cloud.shape[1] != inputs.shape[1] + 1:
        raise InputError(f"cloud must have d + 1 = {inputs.shape[1] + 1} columns, got {cloud.shape[1]}")
    if loss == "logistic" and not np.isin(labels, (-1.0, 1.0)).all():
        raise InputError(f"y must be -1 or 1 for the logistic loss, got {labels[~np.isin(labels, (-1.0, 1.0))][0]:g}")
    temperature, confinement, amplitude = (
        float(check_array(name, value, ndim=0, above=0))
        for name, value in (("temperature", temperature), ("confinement", confinement), ("amplitude", amplitude))
    )
    rows = padded(inputs, labels[None])
    predictions = np.zeros(len(rows.weights))
    with_one = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    predictions[: rows.real] = mean_predictions(cloud, with_one, amplitude)
    setting = NetworkSetting(amplitude, float(np.sqrt(temperature / (2 * confinement))), temperature)
    return certified(
        rows,
        rows.labels[0],
        predictions,
        setting,
        CertificateEffort(
            check_whole("markov_chains", markov_chains, 4),
            check_whole("steps", steps, 8),
            check_whole("annealing", annealing, 10),
            check_whole("polish", polish, 0),
        ),
        loss=loss,
        seed=check_whole("random_state", random_state, 0),
    )


@cache
def _compiled(loss: str, effort: CertificateEffort) -> Any:
    import jax

    from unlazy.models.mean_field import named_loss
    from unlazy.training.mean_field.certificate import certify

    def program(key: Any, rows: Any, anchor: Any, setting: NetworkSetting) -> Any:
        return certify(
            key,
            rows,
            anchor,
            loss=named_loss(loss),
            amplitude=setting.amplitude,
            temperature=setting.temperature,
            confinement=setting.confinement,
            **effort._asdict(),
        )

    return jax.jit(program)


def certified(
    rows: PaddedRows,
    labels: np.ndarray,
    predictions: np.ndarray,
    setting: NetworkSetting,
    effort: CertificateEffort,
    *,
    loss: str,
    seed: int,
) -> OptimalityCertificate:
    """The certificate of the slopes at `predictions` (at the padded rows), with its checks, in float32."""
    import jax

    even = effort._replace(
        markov_chains=effort.markov_chains - effort.markov_chains % 2, steps=effort.steps - effort.steps % 8
    )
    program = _compiled(loss, even)
    with jax.enable_x64(False):
        arrays = (rows.inputs, labels.astype(np.float32), rows.weights)
        numbers = NetworkSetting(*(np.float32(x) for x in setting))
        found = program(jax.random.key(seed), arrays, predictions.astype(np.float32), numbers)
        found = jax.tree.map(np.asarray, found)
    return OptimalityCertificate(
        float(found.gap),
        float(found.gap_se),
        _reasons(found),
        float(found.acceptance),
        float(found.effective_draws),
        found.clouds.reshape(-1, found.clouds.shape[-1]),
    )


def _reasons(found: Any) -> tuple[str, ...]:
    (low, high), worth = _ACCEPTANCES, found.effective_draws
    numbers = [found.gap, found.gap_se, found.disagreement, found.drift, worth]
    if not np.isfinite(numbers).all():
        return ("the chains did not stay finite",)
    checks = {
        f"annealing went only {found.annealed:.0%} of the way (raise annealing)": found.annealed < 1 - 1e-5,
        f"two halves differ by {abs(found.disagreement):.1f} standard errors": abs(found.disagreement)
        > _MOST_STANDARD_ERRORS,
        f"the means moved during the run, by {found.drift:.1f} standard errors": found.drift > _MOST_DRIFT,
        f"the chains descend from {found.ancestors} first draws only (raise markov_chains)": found.ancestors
        < _FEWEST_ANCESTORS,
        f"the chains are worth {worth:.0f} draws only (raise markov_chains or steps)": worth < _FEWEST_EFFECTIVE,
        f"{found.acceptance:.2f} of the moves were accepted, not {low} to {high}": not low <= found.acceptance <= high,
    }
    return tuple(reason for reason, is_bad in checks.items() if is_bad)


def warn_of_width(width: int, stacklevel: int = 3) -> None:
    """Say that chains in so many dimensions may mix badly where no check sees it."""
    if width > _WIDE:
        warnings.warn(
            f"the certificate rests on chains in d + 1 = {width} dimensions, above {_WIDE}: its checks of mixing are "
            "necessary, not sufficient",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
