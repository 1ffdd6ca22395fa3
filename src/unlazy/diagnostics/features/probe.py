"""What a trained network learned: the signal that a class shares, or the noise of single samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.diagnostics.features import pages
from unlazy.diagnostics.features.inputs import read_checkpoints, read_classes, read_codes, read_inputs, read_steps
from unlazy.diagnostics.features.measures import ProbedNetwork, class_means, response_gap

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FeatureProbe:
    """What `feature_probe` found; arrays have an entry for each checkpoint. A tie of outputs counts as half a hit."""

    steps: np.ndarray
    classes: int
    n: int
    held_out: int
    directions: int
    """Directions along which the held-out class means are known to differ, at most classes - 1."""
    chance_share: float
    """The signal share of a change in a random direction: directions / d."""
    signal_share: np.ndarray
    """The energy of what was learned along the class-mean differences, from 0 to 1; NaN where nothing was learned."""
    response_gap: np.ndarray | None = None
    """For plain weights with d > n: 1 - mean square response to held-out deviations / to those of training samples."""
    training_margin: np.ndarray | None = None
    """The mean margin of the training samples, of those with their true label if `true_labels` were given.

    This and what follows is None for plain weights.
    """
    held_out_margin: np.ndarray | None = None
    training_fit: np.ndarray | None = None
    """The share of the training samples whose given label is predicted."""
    held_out_accuracy: np.ndarray | None = None
    flipped_labels: int = 0
    """Training samples whose given label is not the true one, if `true_labels` were given."""
    clean_fit: np.ndarray | None = None
    """`training_fit` of the others."""
    flipped_fit: np.ndarray | None = None
    """`training_fit` of the flipped samples: memorised."""
    flipped_recovered: np.ndarray | None = None
    """The share of the flipped samples whose true label is predicted: seen through."""

    @property
    def margin_gap(self) -> np.ndarray | None:
        """1 - held-out margin / training margin: the part of the margin that new samples do not share.

        NaN where the training margin is not positive, as before training.
        """
        if self.training_margin is None or self.held_out_margin is None:
            return None
        positive = self.training_margin > 0
        ratio = np.divide(
            self.held_out_margin, self.training_margin, out=np.full(positive.shape, np.nan), where=positive
        )
        return 1 - ratio

    @property
    def best(self) -> int:
        """The index of the highest held-out accuracy, the last one for plain weights."""
        return self.steps.size - 1 if self.held_out_accuracy is None else int(np.argmax(self.held_out_accuracy))

    def __str__(self) -> str:
        return pages.text(self)

    def figure(self) -> Figure:
        """Shares and gaps, and for networks fits and held-out accuracy, over the checkpoints."""
        return pages.figure_of(self)


def feature_probe(
    checkpoints: Any,
    initial: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_val: ArrayLike,
    y_val: ArrayLike,
    *,
    network: Callable[[Any, Any], Any] | None = None,
    true_labels: ArrayLike | None = None,
    steps: ArrayLike | None = None,
) -> FeatureProbe:
    """How much of what was learned from (X, y) is signal shared by a class, and how much memory of single samples.

    Without a `network` the parameters are weights W (neurons, d) or (d,) that act on rows as W x; with one they are
    what the JAX function `network(params, X)` takes, whose outputs are (n,) for two classes (positive: the larger
    label) or (n, classes) in the order of the sorted labels. `checkpoints` are parameters like `initial`, a sequence
    of them, or one tree of arrays with the checkpoints along a further first axis. With h = f - f_0 the learned change,
    which for weights is (W - W_0) x, and m the mean of the class of x,

        signal share  = sum |P grad h(x)|^2 / sum |grad h(x)|^2,      P onto the differences of the classes' means,
        margin gap    = 1 - mean margin of f, held out / training                                (networks),
        response gap  = 1 - mean |h(x - m)|^2, held out / training                               (weights, d > n).

    The gradients are those at (up to 1000) held-out rows; of several outputs their mean is removed first. The means are
    those of held-out rows, without x itself: means of training rows contain the very noise that was memorised. The
    noise of the held-out means is removed from the squares, so the share is that along the population's means, provided
    that held-out rows served neither training nor the choice of the network. It is to be compared with `chance_share`,
    and says nothing of a signal that is not in the class means, such as parity. With more samples than columns memory
    changes the signs of responses more than their size, so there is no response gap.

    A margin is y f(x) for one output, else f_y - max of the others. `true_labels` (n,) of the training samples, if some
    of y are flipped, restrict the training margin to samples with their true label, show the fits of clean and flipped
    ones, and give every x the mean of its own class. The measures are this project's, after the signal-noise
    decomposition of Cao et al. (2022), Kou et al. (2023) and Han et al. (2025b).

    The two stages of learning digits of which 30% have a wrong label:

    >>> import jax, jax.numpy as jnp, numpy as np, optax
    >>> from sklearn.datasets import load_digits
    >>> from unlazy.training import train
    >>> rng = np.random.default_rng(0)
    >>> X, truth = load_digits(return_X_y=True)
    >>> order = rng.permutation(len(X))
    >>> X, truth = X[order] / 16 - 0.3, truth[order]
    >>> y = np.where(rng.random(400) < 0.3, (truth[:400] + rng.integers(1, 10, 400)) % 10, truth[:400])
    >>> network = lambda params, x: jnp.maximum(x @ params["w"], 0) @ params["a"]
    >>> start = {"w": 0.05 * rng.standard_normal((64, 256)), "a": 0.05 * rng.standard_normal((256, 10))}
    >>> def loss(params):
    ...     return optax.softmax_cross_entropy_with_integer_labels(network(params, X[:400]), y).mean()
    >>> at = [0, 10, 30, 100, 300, 1000, 2000]
    >>> everything = lambda params: params
    >>> run = train(start, loss, optax.adam(3e-3), 2000, trained=everything, record=everything, record_at=at)
    >>> probe = feature_probe(
    ...     run.records, start, X[:400], y, X[400:], truth[400:], network=network, true_labels=truth[:400], steps=at
    ... )
    >>> early, late = probe.best, -1  # figure() draws it all
    >>> bool(probe.flipped_fit[early] < 0.2 < 0.9 < probe.flipped_fit[late])
    True
    >>> bool(probe.held_out_accuracy[early] - probe.held_out_accuracy[late] > 0.1)
    True
    """
    rows, held_out = read_inputs("X", X), read_inputs("X_val", X_val)
    if rows.shape[1:] != held_out.shape[1:]:
        raise InputError(f"X_val must have rows like X, got shapes {held_out.shape} and {rows.shape}")
    labels, held_out_codes = read_classes(y_val, len(held_out))
    codes = read_codes("y", y, len(rows), labels)
    truth = codes if true_labels is None else read_codes("true_labels", true_labels, len(rows), labels)
    if (codes != truth).all():
        raise InputError("true_labels must agree with y in some sample, got none that does")
    start, found = read_checkpoints(checkpoints, initial, network is None)
    at = read_steps(steps, len(found))
    means = class_means(held_out.reshape(len(held_out), -1), held_out_codes, len(labels))

    common = {
        "steps": at,
        "classes": len(labels),
        "n": len(rows),
        "held_out": len(held_out),
        "directions": means.directions,
        "chance_share": means.directions / rows[0].size,
        "flipped_labels": int(np.count_nonzero(codes != truth)),
    }
    if network is None:
        _check_columns(start, rows)
        changes = [np.atleast_2d(weights - start) for weights in found]
        gaps = None
        if rows.shape[1] > len(rows):
            gaps = np.array([response_gap(change, means, rows / means.unit, truth) for change in changes])
        shares = np.array([means.share(change) for change in changes])
        return FeatureProbe(**common, signal_share=shares, response_gap=gaps)

    if not callable(network):
        raise InputError(f"network must be a JAX function of (params, X), got {network!r}")
    probe = ProbedNetwork(network, start, len(labels))
    margins = []
    for step, params in zip(at, found, strict=True):
        own, new = probe.outputs(params, rows), probe.outputs(params, held_out)
        if not (np.isfinite(own).all() and np.isfinite(new).all()):
            raise InputError(f"network must give finite outputs, got others at step {step:g}: leave it out")
        margins.append((_margins(own, codes), _margins(own, truth), _margins(new, held_out_codes)))
    given, true, fresh = (np.stack(column) for column in zip(*margins, strict=True))
    flips = codes != truth
    return FeatureProbe(
        **common,
        signal_share=np.array([means.share(probe.gradients(params, held_out)) for params in found]),
        training_margin=given[:, ~flips].mean(axis=1),
        held_out_margin=fresh.mean(axis=1),
        training_fit=_hits(given),
        held_out_accuracy=_hits(fresh),
        clean_fit=None if true_labels is None else _hits(given[:, ~flips]),
        flipped_fit=_hits(given[:, flips]) if flips.any() else None,
        flipped_recovered=_hits(true[:, flips]) if flips.any() else None,
    )


def _check_columns(weights: np.ndarray, rows: np.ndarray) -> None:
    d = rows.shape[-1]
    if rows.ndim != 2 or weights.shape[-1] != d:
        hint = ": transpose them" if weights.ndim == 2 and weights.shape[0] == d else ""
        raise InputError(
            f"weights must have one column for each column of X, got weights of shape {weights.shape} and X of shape "
            f"{rows.shape}{hint}"
        )


def _margins(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    if outputs.shape[1] == 1:
        return (2 * codes - 1) * outputs[:, 0]
    own = np.arange(outputs.shape[1]) == codes[:, None]
    return outputs[own] - np.where(own, -np.inf, outputs).max(axis=1)


def _hits(margins: np.ndarray) -> np.ndarray:
    return np.mean((margins > 0) + 0.5 * (margins == 0), axis=1)
