"""Networks of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, jacrev, vmap

from unlazy.checks import InputError
from unlazy.training.one_step.own_network.arms import MOMENTUM, Arm, TrainingPlan, TrainingRows

_BLOCK = 64
"""Rows whose gradients are in memory together."""
_REFUSED = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)


class TrainedTorch:
    """A module that is called on rows (n, ...), in evaluation mode, so that nothing is random.

    Rows of images are (rows, columns, colours); a module whose first layer wants colours first moves them itself.
    Arrays with `requires_grad` are trained.
    """

    def __init__(self, network: Any, row: np.ndarray) -> None:
        for module in network.modules():
            if isinstance(module, _REFUSED):
                raise InputError(
                    f"network must answer each row by itself, but {type(module).__name__} mixes the rows of a batch; "
                    "LayerNorm and GroupNorm do not"
                )
        self._network = network.to(torch.float32).eval()
        self._names = [name for name, weights in network.named_parameters() if weights.requires_grad]
        if not self._names:
            raise InputError("network must have parameters to train, it has none")
        self.weights = [weights.detach().numpy().copy() for weights in network.parameters() if weights.requires_grad]
        try:
            self._count = self._outputs(self._tensors(self.weights), _tensor(row)).shape[1]
        except RuntimeError as error:
            said = str(error).strip().splitlines()[0]
            raise InputError(f"network must take rows of shape {row.shape[1:]}, but it raised {said}") from error
        wide = [name for name, weights in zip(self._names, self.weights, strict=True) if weights.size > self._count]
        self._readout = wide[-1] if wide else self._names[-1]

    def seen(self, weights: list[np.ndarray], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tensors = self._tensors(weights)

        def first_output(readout: Any, row: Any) -> Any:
            return self._outputs({**tensors, self._readout: readout}, row[None])[0, 0]

        with torch.no_grad():
            outputs = [self._outputs(tensors, block) for block in torch.split(_tensor(inputs), _BLOCK)]
        slopes = [
            vmap(grad(first_output), (None, 0))(tensors[self._readout], block).flatten(1)
            for block in torch.split(_tensor(inputs), _BLOCK)
        ]
        return torch.cat(outputs).double().numpy(), torch.cat(slopes).detach().double().numpy()

    def tangent_kernel(self, weights: list[np.ndarray], left: np.ndarray, right: np.ndarray) -> np.ndarray:
        tensors, sides = self._tensors(weights), [torch.split(_tensor(rows), _BLOCK) for rows in (left, right)]
        kernel = [torch.cat([self._kernel(tensors, one, other) for other in sides[1]], 1) for one in sides[0]]
        return torch.cat(kernel).double().numpy()

    def start(self, plan: TrainingPlan) -> Arm:
        moments = 2 if plan.optimiser == "adam" else 1
        return Arm(self.weights, [np.zeros_like(w) for w in self.weights for _ in range(moments)], -1)

    def advance(self, arm: Arm, plan: TrainingPlan, rows: TrainingRows, first: int, count: int) -> Arm:
        weights = [torch.tensor(array, requires_grad=True) for array in arm.weights]
        method = _optimiser(plan, weights, arm.memory, first)
        data, scale = [_tensor(array) for array in rows], plan.output_scale
        batches = plan.batches(len(rows.inputs), first, count)
        for step in range(count):
            x, y, off = data if batches is None else (array[torch.as_tensor(batches[step])] for array in data)
            answers = self._outputs(dict(zip(self._names, weights, strict=True)), x)
            loss = torch.sum((scale * (answers - off) - y) ** 2) / (2 * len(x) * scale**2)
            if not torch.isfinite(loss):
                return arm._replace(diverged_at=first + step)
            method.zero_grad()
            loss.backward()
            method.step()
        after = [w.detach().numpy() for w in weights]
        fine = all(np.isfinite(array).all() for array in after)
        return Arm(after, _remembered(method, plan, weights), -1 if fine else first + count)

    def _tensors(self, weights: list[np.ndarray]) -> dict[str, Any]:
        return {name: torch.tensor(array) for name, array in zip(self._names, weights, strict=True)}

    def _outputs(self, tensors: dict[str, Any], rows: Any) -> Any:
        return functional_call(self._network, tensors, (rows,)).reshape(len(rows), -1)

    def _kernel(self, tensors: dict[str, Any], left: Any, right: Any) -> Any:
        def gradients(rows: Any) -> list[Any]:
            found = vmap(jacrev(lambda t, row: self._outputs(t, row[None])[0]), (None, 0))(tensors, rows)
            return [leaf.reshape(len(rows) * self._count, -1).detach() for leaf in found.values()]

        return sum(one @ other.T for one, other in zip(gradients(left), gradients(right), strict=True))


def _optimiser(plan: TrainingPlan, weights: list[Any], memory: list[np.ndarray], first: int) -> Any:
    """PyTorch's, with what it remembers."""
    kept = [torch.tensor(array) for array in memory]
    if plan.optimiser == "adam":
        method: Any = torch.optim.Adam(weights, lr=plan.step_size)
        if first:
            for place, weight in enumerate(weights):
                moments = {"exp_avg": kept[2 * place], "exp_avg_sq": kept[2 * place + 1]}
                method.state[weight] = {"step": torch.tensor(float(first)), **moments}
        return method
    method = torch.optim.SGD(weights, lr=plan.step_size, momentum=MOMENTUM)
    for weight, buffer in zip(weights, kept, strict=True):
        method.state[weight] = {"momentum_buffer": buffer}
    return method


def _remembered(method: Any, plan: TrainingPlan, weights: list[Any]) -> list[np.ndarray]:
    names = ("exp_avg", "exp_avg_sq") if plan.optimiser == "adam" else ("momentum_buffer",)
    return [method.state[weight][name].numpy() for weight in weights for name in names]


def _tensor(array: Any) -> Any:
    return torch.as_tensor(np.asarray(array, np.float32))
