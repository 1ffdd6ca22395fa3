"""What a trained network learned, measured from its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.diagnostics.probing.alternatives import held_out_misses, linear_kernel, rbf_kernel
from unlazy.diagnostics.probing.inputs import (
    Checkpoints,
    ProbeData,
    ProbeLimits,
    chosen_rows,
    read_checkpoints,
    read_data,
    read_limits,
    read_steps,
)
from unlazy.diagnostics.probing.networks import ProbedNetwork, SavedActivations, Seen
from unlazy.diagnostics.probing.report import NetworkReport, fits_already
from unlazy.observables.class_means import ClassMeans, class_means
from unlazy.observables.feature_kernels import centred_kernel_alignment, feature_kernel
from unlazy.observables.left_out_labels import fresh_readout_gain, left_out_labels
from unlazy.observables.margins import hits, margin_gap, margins
from unlazy.observables.weight_change import LEAST_WIDTH, frobenius_change, outlier_share

_GRADIENT_ROWS = 200
_SIZES = (1, 2, 5, 10)
"""Multiples of the held-out rows at which a fresh readout is forecast."""


def probe(
    model: Any,
    checkpoints: Sequence[Any],
    X: ArrayLike | None,
    y: ArrayLike,
    X_val: ArrayLike | None,
    y_val: ArrayLike,
    *,
    true_labels: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    rows: int = 500,
    budget: float = 512,
    progress: Callable[[str], None] | None = None,
) -> NetworkReport:
    """What a classifier has learned: lazily or richly, signal or memory, what else would do, and what more rows bring.

    `model` is a PyTorch module in evaluation mode and `checkpoints` are state dicts; or a JAX function model(params, X)
    and `checkpoints` are its parameters (an Equinox module: `lambda model, x: jax.vmap(model)(x)`; a Flax one:
    `model.apply`), which may return a pair (outputs, what the readout sees); or None and `checkpoints` are mappings
    with the arrays `outputs`, `outputs_val` and, if they were kept, `features`, `features_val` and weights. The first
    checkpoint is the one before training. Outputs are (n, classes) in the order of the sorted labels, or one for two
    classes. (X, y) were trained on, (X_val, y_val) neither for training nor for choosing anything. `true_labels` are
    those of X before some were flipped, if they are known. At most `rows` training rows, and as many held-out ones, go
    into kernels; `budget` is the memory for the tangent kernel, in megabytes.

    - Lazy or rich: `outlier_share` of the layers at least 40 wide decides; beside it stand the relative change of the
      weights, the centred alignment of the last hidden kernel with the initial one, and the gain of a fresh readout of
      the final features over one of the initial ones, by leave-one-out on held-out rows.
    - Signal or memory: the margin gap, if the network fits its training labels; the signal share at the end over
      the highest on the way; how many training labels the initial kernel (tangent, or rbf if that is
      better) predicts from the other rows, and which rows it contradicts most.
    - What else would do: errors on the same held-out rows of the network, kernel ridge with the initial tangent kernel,
      ridge on the last hidden layer, and a linear model.
    - More data: the squared error of a fresh readout with more rows, forecast from held-out rows alone. In the features
      of training rows their labels have leaked: forecasts from them were up to 37% lower in deep networks that learned
      features. X_val that repeats X is refused.

    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neural_network import MLPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y, X_val, y_val = X[:600] / 16, y[:600], X[600:1000] / 16, y[600:1000]
    >>> saved = []
    >>> for steps in (1, 60):  # scikit-learn's network has no state before training: one step has to do
    ...     fitted = MLPClassifier((80,), max_iter=steps, random_state=0, solver="adam").fit(X, y)
    ...     hidden = [np.maximum(rows @ fitted.coefs_[0] + fitted.intercepts_[0], 0) for rows in (X, X_val)]
    ...     outputs = [one @ fitted.coefs_[1] + fitted.intercepts_[1] for one in hidden]
    ...     saved.append({"outputs": outputs[0], "outputs_val": outputs[1],
    ...                   "features": hidden[0], "features_val": hidden[1], "first": fitted.coefs_[0]})
    >>> report = probe(None, saved, X, y, X_val, y_val)
    >>> float(report.dataset.held_out_accuracy[-1]) > 0.85
    True
    """
    states = read_checkpoints(checkpoints)
    data = read_data(X, y, X_val, y_val, true_labels)
    at = read_steps(steps, len(states))
    named = Checkpoints(states, at, [f"the checkpoint {step:g}" for step in at])
    return probed(model, named, data, read_limits(rows, budget), progress)


def probed(
    model: Any, checkpoints: Checkpoints, data: ProbeData, limits: ProbeLimits, progress: Callable[[str], None] | None
) -> NetworkReport:
    """`probe` of what has been read."""
    say = progress or (lambda text: None)
    _, at, names = checkpoints
    most, memory = limits
    network = _network(model, checkpoints.states, data)
    states = [network.read(state, name) for state, name in zip(checkpoints.states, names, strict=True)]
    notes: list[str] = list(network.notes)

    chosen, chosen_val = chosen_rows(len(data.codes), most, 0), chosen_rows(len(data.codes_val), most, 1)
    seen = []
    for name, state in zip(names, states, strict=True):
        say(f"outputs of {name}")
        parts = (("", data.X, chosen), ("_val", data.X_val, chosen_val))
        seen.append([_checked(network.seen(state, *part), data, name) for part in parts])
    found: dict[str, tuple] = {}
    found |= _fits(seen, data)
    found |= _features([pair[1] for pair in seen], data.codes_val[chosen_val], notes)
    say("changes of the weights")
    found |= _layers(network, states, names, notes)
    say("directions of what was learned")
    found |= _signal(network, states, data, chosen_val, notes)
    kernel = None
    if data.X is not None and data.X_val is not None:
        both = np.concatenate([data.X[chosen], data.X_val[chosen_val]])
        answer = network.kernel(states[0], both, len(chosen), memory, say)
        if answer is not None:
            kernel = answer[0]
            # of products in single precision and several threads the last digits depend on the order of the factors
            square = kernel[:, : len(chosen)]
            kernel[:, : len(chosen)] = (square + square.T) / 2
            if answer[1]:
                notes.append(f"per-sample gradients of {', '.join(answer[1])}: no layer that is known uses them")
    else:
        both = None
    say("other learners")
    found |= _others(seen, data, chosen, chosen_val, kernel, both)
    found |= _labels(seen[0], data, chosen, chosen_val, kernel, both)
    say("forecast")
    found |= _forecast(seen[-1][1], data.codes_val[chosen_val])
    notes += _late_start(names[0], at[0], float(found["training_fit"][1][0]), data.classes)
    return _report(found, at, data, chosen, notes)


def _late_start(name: str, step: float, fit: float, classes: int) -> list[str]:
    reasons = [f"its step is {step:g} and not 0"] if step > 0 else []
    reasons += [f"it predicts {100 * fit:.0f}% of the training labels"] if fits_already(fit, classes) else []
    if not reasons:
        return []
    return [
        f"{name} is taken for the start of training, though {' and '.join(reasons)}: lazy or rich and memory are "
        "measured from there"
    ]


def _network(model: Any, states: list[Any], data: ProbeData) -> ProbedNetwork:
    import sys

    if model is None:
        return SavedActivations(len(data.codes), len(data.codes_val))
    if data.X is None or data.X_val is None:
        raise InputError("X and X_val must be given for a model; without them give saved activations and model=None")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from unlazy.diagnostics.probing.torch_network import TorchNetwork

        return TorchNetwork(model)
    if not callable(model):
        raise InputError(
            f"model must be a PyTorch module, a JAX function of (params, X) or None, got a {type(model).__name__}"
        )
    from unlazy.diagnostics.probing.jax_network import JaxNetwork

    return JaxNetwork(model, states[0])


def _checked(seen: Seen, data: ProbeData, name: str) -> Seen:
    columns = seen.outputs.shape[1]
    if columns != data.classes and not (columns == 1 and data.classes == 2):
        raise InputError(f"model must give an output for each of the {data.classes} classes of y_val, got {columns}")
    if not np.isfinite(seen.outputs).all():
        raise InputError(f"model must give finite outputs, got others of {name}: leave it out")
    return seen


def _fits(seen: list[list[Seen]], data: ProbeData) -> dict[str, tuple]:
    own = np.stack([margins(pair[0].outputs, data.codes) for pair in seen])
    new = np.stack([margins(pair[1].outputs, data.codes_val) for pair in seen])
    right = np.ones(len(data.codes), bool) if data.truth is None else data.truth == data.codes
    gains = hits(own[-1]) - hits(own[0])
    found: dict[str, tuple] = {
        "training_fit": ("checkpoint", hits(own).mean(axis=1)),
        "training_fit_by_chance": ("checkpoint", [_fit_by_chance(pair[0].outputs, data) for pair in seen]),
        "training_fit_gain_deviation": ((), gains.std(ddof=1) / np.sqrt(len(gains))),
        "held_out_accuracy": ("checkpoint", hits(new).mean(axis=1)),
        "training_margin": ("checkpoint", own.mean(axis=1)),
        "held_out_margin": ("checkpoint", new.mean(axis=1)),
        "margin_gap": ("checkpoint", [margin_gap(a, b) for a, b in zip(own, new, strict=True)]),
        "margin_gap_deviation": ("checkpoint", [_gap_error(a, b) for a, b in zip(own, new, strict=True)]),
    }
    if data.truth is not None and not right.all():
        true = np.stack([margins(pair[0].outputs, data.truth) for pair in seen])
        found["clean_fit"] = ("checkpoint", hits(own[:, right]).mean(axis=1))
        found["flipped_fit"] = ("checkpoint", hits(own[:, ~right]).mean(axis=1))
        found["flipped_recovered"] = ("checkpoint", hits(true[:, ~right]).mean(axis=1))
    return found


def _fit_by_chance(outputs: np.ndarray, data: ProbeData) -> float:
    """The fit of labels with the same shares of classes that do not depend on the rows."""
    shares = np.bincount(data.codes, minlength=data.classes) / len(data.codes)
    each = [hits(margins(outputs, np.full(len(outputs), code))).mean() for code in range(data.classes)]
    return float(shares @ each)


def _gap_error(training: np.ndarray, held_out: np.ndarray) -> float:
    """Standard error of 1 - mean/mean."""
    own, new = training.mean(), held_out.mean()
    parts = [part.std(ddof=1) / np.sqrt(len(part)) for part in (training, held_out)]
    return float(np.hypot(parts[1] / own, parts[0] * new / own**2)) if own > 0 else np.nan


def _features(seen: list[Seen], codes: np.ndarray, notes: list[str]) -> dict[str, tuple]:
    """Of held-out rows alone."""
    if any(one.features is None for one in seen):
        notes.append("no features of the last hidden layer: their alignment, readout and forecast are missing")
        return {}
    features = [one.features for one in seen if one.features is not None]
    if len({part.shape[1] for part in features}) > 1:
        raise InputError("features must have the same number of columns in all checkpoints, got different ones")
    kernels = [feature_kernel(part) for part in features]
    gain = fresh_readout_gain(features[0], features[-1], codes)
    return {
        "kernel_alignment": ("checkpoint", [centred_kernel_alignment(kernels[0], kernel) for kernel in kernels]),
        "readout_error": ("checkpoint", [left_out_labels(kernel, codes).error for kernel in kernels]),
        "readout_gain": ((), gain.gain),
        "readout_gain_deviation": ((), gain.deviation),
    }


def _layers(network: ProbedNetwork, states: list[Any], checkpoints: list[str], notes: list[str]) -> dict[str, tuple]:
    weights = [network.weights(state) for state in states]
    names = list(weights[0])
    if not names:
        notes.append("no weights: how far they moved, and along which directions, is missing")
        return {}
    for checkpoint, other in zip(checkpoints[1:], weights[1:], strict=True):
        if list(other) != names or any(other[name].shape != weights[0][name].shape for name in names):
            raise InputError(
                f"weights must have the same names and shapes in all checkpoints, got others in {checkpoint}"
            )
    shares, counts = np.full(len(names), np.nan), np.full(len(names), -1)
    for i, name in enumerate(names):
        if min(weights[0][name].shape) >= LEAST_WIDTH:
            one = outlier_share(weights[0][name], weights[-1][name])
            shares[i], counts[i] = one.share, one.outliers
    changes = [[frobenius_change(weights[0][name], other[name]) for name in names] for other in weights]
    return {
        "layer": ("layer", names),
        "outlier_share": ("layer", shares),
        "outliers": ("layer", counts),
        "relative_change": (("checkpoint", "layer"), changes),
    }


def _signal(
    network: ProbedNetwork, states: list[Any], data: ProbeData, chosen: np.ndarray, notes: list[str]
) -> dict[str, tuple]:
    if data.X_val is None:
        return {}
    held_out = np.asarray(data.X_val, np.float64).reshape(len(data.X_val), -1)
    some = chosen[:: -(-len(chosen) // _GRADIENT_ROWS)]
    start = network.input_gradients(states[0], data.X_val[some])
    if start is None:
        return {}
    try:
        means = class_means(held_out, data.codes_val, data.classes)
    except InputError as error:
        notes.append(f"no signal share: {error}")
        return {}
    shares = [np.nan]
    for state in states[1:]:
        later = network.input_gradients(state, data.X_val[some])
        assert later is not None
        shares.append(_share(means, later - start))
    return {
        "signal_share": ("checkpoint", shares),
        "chance_share": ((), means.directions / held_out.shape[1]),
    }


def _share(means: ClassMeans, gradients: np.ndarray) -> float:
    """Without what is common to all outputs of a classifier, which decides nothing."""
    if len(gradients) > 1:
        gradients = gradients - gradients.mean(axis=0)
    return means.share(gradients.reshape(-1, gradients.shape[-1]))


def _others(
    seen: list[list[Seen]],
    data: ProbeData,
    chosen: np.ndarray,
    chosen_val: np.ndarray,
    kernel: np.ndarray | None,
    both: np.ndarray | None,
) -> dict[str, tuple]:
    codes, codes_val = data.codes[chosen], data.codes_val[chosen_val]
    misses = {"the network": 1 - hits(margins(seen[-1][1].outputs[chosen_val], codes_val))}
    if kernel is not None:
        misses["its initial tangent kernel"] = held_out_misses(kernel, codes, codes_val)
    last = [part.features for part in seen[-1]]
    if last[0] is not None and last[1] is not None:
        features = np.concatenate([last[0], last[1]])
        misses["ridge on its last layer"] = held_out_misses(linear_kernel(features, len(chosen)), codes, codes_val)
    if both is not None:
        misses["a linear model"] = held_out_misses(linear_kernel(both, len(chosen)), codes, codes_val)
    table = np.stack(list(misses.values()))
    paired = table - table[0]
    count = np.sqrt(table.shape[1])
    return {
        "method": ("method", list(misses)),
        "method_error": ("method", table.mean(axis=1)),
        "method_deviation": ("method", table.std(axis=1, ddof=1) / count),
        "method_difference_deviation": ("method", paired.std(axis=1, ddof=1) / count),
    }


def _labels(
    seen: list[Seen],
    data: ProbeData,
    chosen: np.ndarray,
    chosen_val: np.ndarray,
    kernel: np.ndarray | None,
    both: np.ndarray | None,
) -> dict[str, tuple]:
    """What kernels that know nothing of training say of the training labels, each from the others."""
    codes, codes_val = data.codes[chosen], data.codes_val[chosen_val]
    kernels = {}
    if kernel is not None:
        kernels["initial tangent kernel"] = kernel
    elif seen[0].features is not None and seen[1].features is not None:
        features = np.concatenate([seen[0].features, seen[1].features])
        kernels["kernel of the initial features"] = linear_kernel(features, len(chosen))
    if both is not None:
        kernels["rbf kernel"] = rbf_kernel(both, codes)
    if not kernels:
        return {}
    answers = {name: left_out_labels(one[:, : len(chosen)], codes, data.classes) for name, one in kernels.items()}
    name = min(answers, key=lambda one: answers[one].squared_error)
    best = answers[name]
    predicted, expected = 1 - best.error, 1 - held_out_misses(kernels[name], codes, codes_val).mean()
    found: dict[str, tuple] = {
        "row": ("row", chosen),
        "label_margin": ("row", best.margins),
        "label_kernel": ((), name),
        "labels_predicted": ((), predicted),
        "labels_expected": ((), expected),
    }
    by_chance = (1 - expected) / (data.classes - 1)
    if expected > by_chance:
        # a right label is predicted as often as a held-out one, a wrong one where the kernel errs towards it
        wrong = (expected - predicted) / (expected - by_chance)
        errors = [np.sqrt(p * (1 - p) / n) for p, n in ((predicted, len(codes)), (expected, len(codes_val)))]
        found["wrong_share"] = ((), wrong)
        found["wrong_share_deviation"] = ((), np.hypot(*errors) / (expected - by_chance))
    if data.truth is not None and (data.truth != data.codes)[chosen].any():
        from sklearn.metrics import roc_auc_score

        found["wrong_label_auc"] = ((), roc_auc_score(data.truth[chosen] != codes, -best.margins))
    return found


def _forecast(seen: Seen, codes: np.ndarray) -> dict[str, tuple]:
    """Squared errors of a fresh readout in units of the labels' variance, with 95% intervals."""
    if seen.features is None:
        return {}
    from unlazy.diagnostics.learning_curve import LearningCurve
    from unlazy.observables.left_out_labels import indicators

    kernel = feature_kernel(seen.features)
    targets = indicators(codes, int(codes.max()) + 1)
    variance = targets.var(axis=0).sum()
    penalty = left_out_labels(kernel, codes).penalty
    sizes = len(codes) * np.array(_SIZES)
    curve = LearningCurve("precomputed", penalty=penalty).fit(kernel, targets).predict(n=sizes)
    return {
        "size": ("size", sizes),
        "forecast_error": ("size", np.ravel(curve.test_error) / variance),
        "forecast_low": ("size", np.ravel(curve.low) / variance),
        "forecast_high": ("size", np.ravel(curve.high) / variance),
        "forecast_reliable": ("size", np.ravel(curve.reliable)),
    }


def _report(
    found: dict[str, tuple], at: np.ndarray, data: ProbeData, chosen: np.ndarray, notes: list[str]
) -> NetworkReport:
    import xarray as xr

    coordinates = {name: found.pop(name) for name in ("layer", "method", "row", "size") if name in found}
    dataset = xr.Dataset(
        {name: (dims, np.asarray(values)) for name, (dims, values) in found.items()},
        coords={"checkpoint": at, **{name: (dims, values) for name, (dims, values) in coordinates.items()}},
        attrs={"n": len(data.codes), "held_out": len(data.codes_val), "classes": data.classes, "rows": len(chosen)},
    )
    return NetworkReport(dataset, tuple(notes))
