"""A PyTorch model as the probe asks it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlazy.checks import InputError
from unlazy.diagnostics.probing.networks import Seen, blocks
from unlazy.diagnostics.probing.torch_calls import Recorder
from unlazy.diagnostics.probing.torch_kernel import tangent_kernel
from unlazy.words import first_of

_NESTED = ("state_dict", "model_state_dict", "model")
"""Where checkpoints that hold more than parameters keep them."""
_COMPILED = "_orig_mod."
"""What `torch.compile` puts before the names of what it compiled, the whole model or a part."""
_SHOWN_NAMES = 2


class TorchNetwork:
    """A copy of the model, into which the state of each checkpoint is loaded."""

    def __init__(self, model: torch.nn.Module) -> None:
        if model.training:
            raise InputError("model must be in evaluation mode, got training mode: call model.eval() first")
        if not any(p.requires_grad for p in model.parameters()):
            raise InputError("model must have parameters that are trained, got none")
        self.model = copy.deepcopy(model)
        first = next(p for p in model.parameters())
        self.dtype, self.device = first.dtype, first.device
        self.loaded: Any = None
        self.notes: list[str] = []
        self.whole_numbers: bool | None = None

    def read(self, state: Any, name: str) -> dict[str, Tensor]:
        if not isinstance(state, Mapping):
            raise InputError(f"checkpoints must be state dicts of the model, got for {name} a {type(state).__name__}")
        inner = next((state[key] for key in _NESTED if isinstance(state.get(key), Mapping)), state)
        own = set(self.model.state_dict())
        fitting, prefix = _named_as(own, {str(key): value for key, value in inner.items()})
        try:
            found = {key: torch.as_tensor(value) for key, value in fitting.items()}
            self.load(found)
        except (RuntimeError, TypeError, ValueError) as error:
            if set(fitting) != own:
                raise InputError(_other_names(own, fitting, name)) from None
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise InputError(f"checkpoints must fit the model: {lines[min(1, len(lines) - 1)]} ({name})") from None
        for key, value in self.model.state_dict().items():
            if value.is_floating_point() and not value.isfinite().all():
                raise InputError(f"checkpoints must be finite, got NaN or infinity in {key} of {name}: leave it out")
        note = f"the names in the checkpoints fit the model without their prefix {prefix!r}, which was left out"
        if prefix and note not in self.notes:
            self.notes.append(note)
        return found

    def load(self, state: dict[str, Tensor]) -> None:
        if state is not self.loaded:
            self.model.load_state_dict(state)
            self.loaded = state

    def tensor(self, rows: np.ndarray) -> Tensor:
        """Whole numbers are tokens if the model takes them, else numbers like others."""
        if self.whole_numbers is None:
            self.whole_numbers = rows.dtype.kind in "iu" and self._takes(torch.as_tensor(rows[:2]).long())
        kind = torch.long if self.whole_numbers else self.dtype
        return torch.as_tensor(np.ascontiguousarray(rows)).to(self.device, kind)

    def _takes(self, rows: Tensor) -> bool:
        try:
            with torch.no_grad():
                self.model(rows.to(self.device))
        except (RuntimeError, TypeError):
            return False
        return True

    def seen(self, state: Any, part: str, rows: np.ndarray | None, chosen: np.ndarray) -> Seen:
        self.load(state)
        assert rows is not None
        outputs, features = [], []
        # a frozen copy, as of the start, may have the last word
        names = {id(p): name for name, p in self.model.named_parameters() if p.requires_grad}
        for block, here in blocks(rows, chosen):
            with torch.no_grad(), Recorder(names) as mode:
                found = self._called(self.tensor(block))
            readout = [call for call in mode.calls if call.weight is not None and call.kind in ("linear", "conv")]
            outputs.append(found.double().reshape(len(block), -1).cpu().numpy())
            if readout and len(readout[-1].given) == len(block):
                features.append(readout[-1].given[here].double().reshape(len(here), -1).cpu().numpy())
        # a reshape of no rows has no columns
        features = [each for each in features if len(each)]
        whole = sum(map(len, features)) == len(chosen) and len({each.shape[1] for each in features}) == 1
        return Seen(np.concatenate(outputs), np.concatenate(features) if whole else None)

    def _called(self, rows: Tensor) -> Tensor:
        try:
            found = self.model(rows)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            shape = tuple(rows.shape)
            raise InputError(f"model must take rows like those of X, got for shape {shape}: {error}") from None
        if not isinstance(found, Tensor) or found.ndim not in (1, 2) or len(found) != len(rows):
            got = str(tuple(found.shape)) if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise InputError(f"model must give outputs (n, classes) for {len(rows)} rows, got {got}")
        return found

    def input_gradients(self, state: Any, rows: np.ndarray) -> np.ndarray | None:
        self.load(state)
        if self.whole_numbers:
            return None
        parts = []
        for block, _ in blocks(rows, np.array([], int)):
            inputs = self.tensor(block).requires_grad_()
            outputs = self._called(inputs).reshape(len(block), -1)
            count = outputs.shape[1]
            grads = [
                torch.autograd.grad(outputs[:, k].sum(), inputs, retain_graph=k < count - 1)[0] for k in range(count)
            ]
            parts.append(torch.stack(grads).double().flatten(2).cpu().numpy())
        return np.concatenate(parts, axis=1)

    def kernel(
        self, state: Any, rows: np.ndarray, left: int, budget: float, progress: Callable[[str], None]
    ) -> tuple[np.ndarray, tuple[str, ...]]:
        self.load(state)
        found = tangent_kernel(self.model, self.tensor(rows), left=left, budget=budget, progress=progress)
        return found.values, found.by_samples

    def weights(self, state: Any) -> dict[str, np.ndarray]:
        self.load(state)
        trained = [name for name, p in self.model.named_parameters() if p.requires_grad and p.ndim >= 2]
        whole = {name: self.model.get_parameter(name).detach().double().cpu().numpy() for name in trained}
        found = {}
        for name, value in whole.items():
            if name.endswith("in_proj_weight"):
                parts = zip(("query", "key", "value"), np.array_split(value, 3), strict=True)
                found.update({f"{name.removesuffix('in_proj_weight')}{one}": part for one, part in parts})
            else:
                found[name] = value.reshape(len(value), -1)
        return found


def _named_as(own: set[str], state: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The state under the names `own`, and the prefix that they had: of what wraps a model (DDP, Lightning, compiled).

    As it is if no common prefix explains the difference.
    """
    if set(state) == own or not state:
        return state, ""
    plain = {key.replace(_COMPILED, ""): value for key, value in state.items()}
    first, plain_first = next(iter(state)), next(iter(plain))
    for end in (0, *(place + 1 for place, sign in enumerate(plain_first) if sign == ".")):
        shorter = {key[end:]: value for key, value in plain.items() if key.startswith(plain_first[:end])}
        if len(shorter) == len(state) and set(shorter) == own:
            rest = plain_first[end:]
            return shorter, first.removesuffix(rest) if first.endswith(rest) else _COMPILED
    return state, ""


def _other_names(own: set[str], state: dict[str, Any], name: str) -> str:
    lacks, strange = sorted(own - set(state)), sorted(set(state) - own)
    parts = [f"without {first_of(lacks, _SHOWN_NAMES)}"] if lacks else []
    parts += [f"with {first_of(strange, _SHOWN_NAMES)}"] if strange else []
    return (
        f"checkpoints must fit the model, got {name} {' and '.join(parts)}: "
        "save the state_dict() of the model itself, not of what wraps it"
    )
