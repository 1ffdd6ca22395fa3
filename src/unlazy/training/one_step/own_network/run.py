"""A network trained at several output scales, from one start and on the same rows; resumed where it was left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.checks import InputError, check_choice
from unlazy.data.rows import Rows
from unlazy.training.one_step.own_network.arms import AnyNetwork, Arm, TrainingPlan, TrainingRows
from unlazy.training.one_step.own_network.measures import MEASURES, Before, nothing

OPTIMISERS = ("sgd", "adam")
_MAKING = threading.Lock()
"""PyTorch's layers draw their start from one generator for all threads."""


def train_network(
    rng: np.random.Generator,
    saved: Any,
    make: Callable[[int, tuple[int, ...], int], Any],
    rows: Rows,
    *,
    output_scale: Sequence[float],
    step_size: float,
    steps: int,
    optimiser: str = "sgd",
    batch_size: int = 0,
    segment: int = 1000,
    kernel_rows: int = 32,
    permutations: int = 19,
) -> dict[str, Any]:
    """Train the network `make(seed, shape of a row, outputs)`, a module of Equinox or PyTorch; what changed in it.

    At every output scale s it starts anew and is trained on |s (f - f0) - y|^2 / (2 n s^2), f0 its outputs at the start
    (Chizat, Oyallon & Bach 2019). `step_size` of "sgd", gradient descent with momentum 0.9, is in units of n over the
    largest eigenvalue of the tangent kernel, the same for every parametrisation; Adam's is divided by s where s > 1.
    All is measured on fresh rows, tangent kernels on `kernel_rows` of them. Outliers stand out of `permutations`
    shuffled copies of a layer. `saved` keeps the state after every `segment` of steps.
    """
    check_choice("optimiser", optimiser, OPTIMISERS)
    if batch_size > len(rows.inputs):
        raise InputError(f"batch_size must be at most n = {len(rows.inputs)}, got {batch_size}")
    network, order = built(make, rng, rows), int(rng.integers(2**31))
    before = Before(network, rows, kernel_rows, permutations)
    data = TrainingRows(rows.inputs, rows.targets, before.outputs)
    kept = saved.load() or {"done": np.zeros((0, len(MEASURES) + 1)), "step": np.array(0)}
    done, at = [*kept["done"]], int(kept["step"])
    for scale in np.asarray(output_scale, float)[len(done) :]:
        unit = before.largest_eigenvalue if optimiser == "sgd" else max(scale, 1.0)
        plan = TrainingPlan(optimiser, step_size / unit, batch_size, scale, order)
        arm = Arm.unpacked(kept) if at else network.start(plan)
        while at < steps and arm.diverged_at < 0:
            count = min(segment, steps - at)
            arm = network.advance(arm, plan, data, at, count)
            at += count
            saved.save({**arm.packed(), "done": np.reshape(done, (-1, len(MEASURES) + 1)), "step": at})
        found = nothing() if arm.diverged_at >= 0 else before.change(arm.weights, plan, steps)
        done.append(np.array([*(found[name] for name in MEASURES), arm.diverged_at]))
        at = 0
    *columns, diverged_at = np.array(done).T
    return {**dict(zip(MEASURES, columns, strict=True)), "diverged_at": int(diverged_at.max())}


def built(make: Callable[[int, tuple[int, ...], int], Any], rng: np.random.Generator, rows: Rows) -> AnyNetwork:
    """The network as the trainer sees it, whichever library it is of."""
    shape, outputs, seed = rows.inputs.shape[1:], rows.targets.shape[1], int(rng.integers(2**31))
    with _MAKING:
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(seed)
        made = make(seed, shape, outputs)
        # a study's file may import it in `network` only: what was drawn before had no seed
        if torch is None and "torch" in sys.modules and isinstance(made, sys.modules["torch"].nn.Module):
            sys.modules["torch"].manual_seed(seed)
            made = make(seed, shape, outputs)
    if "torch" in sys.modules and isinstance(made, sys.modules["torch"].nn.Module):
        from unlazy.training.one_step.own_network.torch_network import TrainedTorch

        found: AnyNetwork = TrainedTorch(made, rows.inputs[:1])
    elif callable(made):
        from unlazy.training.one_step.own_network.equinox_network import EquinoxNetwork

        found = EquinoxNetwork(made, rows.inputs[0])
    else:
        raise InputError(f"network must be a module of Equinox or PyTorch, got {type(made).__name__}")
    given = found.seen(found.weights, rows.inputs[:1])[0].shape[1]
    if given != outputs:
        raise InputError(f"network must have {outputs} output{'s' * (outputs > 1)} as the targets, it has {given}")
    return found
