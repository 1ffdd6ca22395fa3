"""What training changed in a network: its answers, features, kernels and weights against those at the start."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.data.rows import Rows
from unlazy.observables.feature_kernels import centred_kernel_alignment, feature_kernel
from unlazy.observables.left_out_labels import left_out_labels
from unlazy.observables.weight_change import LEAST_WIDTH, frobenius_change, outlier_share
from unlazy.training.one_step.own_network.arms import MOMENTUM, AnyNetwork, TrainingPlan

MEASURES = (
    "training_error",
    "test_error",
    "wrong_class_share",
    "feature_change",
    "conjugate_kernel_change",
    "tangent_kernel_change",
    "kernel_alignment",
    "readout_gain",
    "outlier_share",
    "linearised_distance",
)


class Before:
    """A network before training, on the rows that it will be measured on.

    `outputs` are those on the training rows, `largest_eigenvalue` is that of the tangent kernel there, over n.
    """

    def __init__(self, network: AnyNetwork, rows: Rows, kernel_rows: int, permutations: int) -> None:
        self._network, self._rows, self._permutations = network, rows, permutations
        self._probe = rows.fresh_inputs[:kernel_rows]
        self.outputs = network.seen(network.weights, rows.inputs)[0]
        self._fresh, self._features = network.seen(network.weights, rows.fresh_inputs)
        self._readout_error = _readout_error(self._features, classes(rows.fresh_targets))
        everything = np.concatenate([rows.inputs, self._probe])
        self._kernel = network.tangent_kernel(network.weights, everything, rows.inputs)
        self._probed = network.tangent_kernel(network.weights, self._probe, self._probe)
        n = self.outputs.size
        self.largest_eigenvalue = float(np.linalg.eigvalsh(self._kernel[:n, :n])[-1]) / len(rows.inputs)

    def change(self, weights: list[np.ndarray], plan: TrainingPlan, steps: int) -> dict[str, float]:
        """All of `MEASURES` of the weights after training."""
        network, rows, scale = self._network, self._rows, plan.output_scale
        answers = scale * (network.seen(weights, rows.inputs)[0] - self.outputs)
        after, features = network.seen(weights, rows.fresh_inputs)
        tested = scale * (after - self._fresh)
        kernels = self._probed, network.tangent_kernel(weights, self._probe, self._probe)
        conjugate = feature_kernel(self._features), feature_kernel(features)
        return {
            "training_error": _relative(answers, rows.targets),
            "test_error": _relative(tested, rows.fresh_targets),
            "wrong_class_share": float(np.mean(classes(tested) != classes(rows.fresh_targets))),
            "feature_change": frobenius_change(self._features, features),
            "conjugate_kernel_change": frobenius_change(*conjugate),
            "tangent_kernel_change": frobenius_change(*kernels),
            "kernel_alignment": centred_kernel_alignment(*conjugate),
            "readout_gain": self._readout_error - _readout_error(features, classes(rows.fresh_targets)),
            "outlier_share": largest_outlier_share(network.weights, weights, self._permutations),
            "linearised_distance": self._from_linearised(tested[: len(self._probe)], plan, steps),
        }

    def _from_linearised(self, answers: np.ndarray, plan: TrainingPlan, steps: int) -> float:
        """Distance of the answers from those of the network linearised at its start; NaN if batches or Adam decide."""
        if plan.optimiser != "sgd" or plan.batch_size:
            return np.nan
        n = self.outputs.size
        step_size = plan.step_size / len(self._rows.inputs)
        found = linearised_outputs(self._kernel[:, :n], self._rows.targets.ravel(), step_size, steps)[n:]
        return float(np.linalg.norm(answers.ravel() - found) / np.linalg.norm(found))


def linearised_outputs(kernel: np.ndarray, targets: np.ndarray, step_size: float, steps: int) -> np.ndarray:
    """What gradient descent with momentum on half the squared error makes of a network that is linear in its weights.

    `kernel` is the tangent kernel of all rows with the training rows, which come first, (rows, n); `targets` are (n,),
    or (n, m) for m trainings. From outputs 0, m <- 0.9 m + u - y and u <- u - step_size K m.
    """
    n = len(targets)
    eigenvalues, vectors = np.linalg.eigh(kernel[:n])
    goal = vectors.T @ targets.reshape(n, -1)
    outputs, momentum, total = np.zeros((3, *goal.shape))
    for _ in range(steps):
        momentum = MOMENTUM * momentum + outputs - goal
        outputs = outputs - step_size * eigenvalues[:, None] * momentum
        total = total + momentum
    return (-step_size * (kernel @ (vectors @ total))).reshape(len(kernel), *targets.shape[1:])


def largest_outlier_share(initial: list[np.ndarray], final: list[np.ndarray], permutations: int) -> float:
    """The largest share among the layers that are wide enough; NaN if there is none or nothing is shuffled."""
    pairs = [(one, other) for one, other in zip(initial, final, strict=True) if one.ndim > 1 and permutations]
    wide = [pair for pair in pairs if min(len(pair[0]), pair[0].size // max(len(pair[0]), 1)) >= LEAST_WIDTH]
    shares = [outlier_share(*pair, permutations=permutations).share for pair in wide]
    # a layer that did not change has none
    return max(map(float, np.nan_to_num(shares)), default=np.nan)


def classes(values: np.ndarray) -> np.ndarray:
    """The class of each row: 1 where one output is positive, else 0; the largest of several."""
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)


def _readout_error(features: np.ndarray, labels: np.ndarray) -> float:
    """Of a fresh readout of fresh rows, each left out; NaN if all rows have the same features, as saturated ones do."""
    try:
        return left_out_labels(feature_kernel(features), labels).error
    except InputError:
        return np.nan


def _relative(answers: np.ndarray, targets: np.ndarray) -> float:
    return float(np.sum((answers - targets) ** 2) / np.sum(targets**2))


def nothing() -> dict[str, Any]:
    """The measures of a training that diverged."""
    return dict.fromkeys(MEASURES, np.nan)
