"""What a training loop has to keep so that its network can be probed: checkpoints on the way."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.diagnostics.probing.answer import probe
from unlazy.diagnostics.probing.report import NetworkReport

_LIGHTNING = ("setup", "teardown", "state_dict", "load_state_dict")


class ProbeCallback:
    """Keeps the parameters after 0, 1, 2, 4, 8, ... steps of a training loop, and at its end.

    In a loop of one's own, `keep(model, steps)` before the first step and after each; of PyTorch's modules it copies
    the state, of JAX's parameters the arrays. `end(model, steps)` keeps the last ones. To Lightning it is a callback:
    `Trainer(callbacks=[ProbeCallback()])`. With a `folder` checkpoints are also written there, as `unlazy probe` reads
    them: step_100.pt for PyTorch, step_100.npz for JAX. `steps` are other steps to keep.
    """

    def __init__(self, folder: str | os.PathLike | None = None, *, steps: Iterable[int] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._wanted = None if steps is None else {int(step) for step in steps}
        self._kept: dict[int, Any] = {}

    @property
    def steps(self) -> list[int]:
        return sorted(self._kept)

    @property
    def checkpoints(self) -> list[Any]:
        """The kept parameters, the initial ones first."""
        return [self._kept[step] for step in self.steps]

    def keep(self, model: Any, steps: int) -> None:
        """Keep the parameters if this number of steps is one of those wanted; 0 is before training."""
        wanted = steps & (steps - 1) == 0 if self._wanted is None else steps in self._wanted or steps == 0
        if wanted:
            self.end(model, steps)

    def end(self, model: Any, steps: int) -> None:
        """Keep the parameters."""
        step = int(steps)
        if hasattr(model, "state_dict"):
            state: Any = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        else:
            import jax

            # a copy: the loop may give the buffers away
            state = jax.tree.map(lambda leaf: np.array(leaf) if hasattr(leaf, "shape") else leaf, model)
        self._kept[step] = state
        if self.folder is not None:
            self._write(state, step)

    def report(
        self,
        model: Any,
        X: ArrayLike | None,
        y: ArrayLike,
        X_val: ArrayLike | None,
        y_val: ArrayLike,
        *,
        true_labels: ArrayLike | None = None,
        rows: int = 500,
        budget: float = 512,
        progress: Callable[[str], None] | None = None,
    ) -> NetworkReport:
        """`probe` with the checkpoints that were kept; of a PyTorch module a copy in evaluation mode is probed."""
        if 0 not in self._kept:
            raise InputError("the initial parameters were not kept: call keep(model, 0) before the first step")
        if hasattr(model, "state_dict"):
            model = copy.deepcopy(model).eval()
        options: dict[str, Any] = {"true_labels": true_labels, "rows": rows, "budget": budget, "progress": progress}
        return probe(model, self.checkpoints, X, y, X_val, y_val, steps=self.steps, **options)

    def _write(self, state: Any, step: int) -> None:
        assert self.folder is not None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if isinstance(state, dict) and any(hasattr(value, "detach") for value in state.values()):
                import torch

                torch.save(state, self.folder / f"step_{step}.pt")
                return
            import jax

            leaves = [leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, np.ndarray)]
            names = list(state) if isinstance(state, dict) and len(state) == len(leaves) else range(len(leaves))
            arrays: dict[str, Any] = dict(zip(map(str, _in_order(state, names)), leaves, strict=True))
            np.savez(self.folder / f"step_{step}.npz", **arrays)
        except OSError as error:
            raise InputError(f"folder {self.folder} cannot be written: {error}") from None

    def on_fit_start(self, *args: Any) -> None:
        """Lightning's hooks: args are the trainer, the module, and what the hook has besides."""
        self.keep(args[1], int(args[0].global_step))

    def on_train_batch_end(self, *args: Any) -> None:
        self.keep(args[1], int(args[0].global_step))

    def on_fit_end(self, *args: Any) -> None:
        self.end(args[1], int(args[0].global_step))

    def __getattr__(self, name: str) -> Any:
        # Lightning asks every callback for every hook
        if name.startswith("on_") or name in _LIGHTNING:
            return lambda *args, **kwargs: {} if name == "state_dict" else None
        if name == "state_key":
            return type(self).__name__
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _in_order(state: Any, names: Iterable[Any]) -> list[Any]:
    """JAX flattens a dict by its sorted names."""
    return sorted(names) if isinstance(state, dict) else list(names)
