"""The tangent kernel of a PyTorch model, exact, from what its layers see and what comes back to them.

The gradient of output k at row x in the weights of a layer is sum_p g_p a_p^T over positions p (pixels, tokens, uses of
the weights), with a the layer's inputs and g the signals that come back. So a dense layer adds

    <grad f_k(x), grad f_l(x')>  =  (a . a') (g_k . g'_l)

to the kernel, and no gradient is ever formed; with several positions the products are summed, or the gradients of one
layer are formed in slices, whichever is less work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unlazy.checks import InputError
from unlazy.diagnostics.probing.torch_calls import BatchAxis, Call, GradientPart, Recorder, batch_axis, parts

_MOST_ROWS_TOGETHER = 128
_SYMMETRIC_BLOCKS = 8
# of rounding, in units of it, between two ways to compute the same gradients
_ALLOWED = 1e4


class TangentKernel(NamedTuple):
    """Inner products of the gradients of a network's outputs in its parameters."""

    values: np.ndarray
    """(left, n): the mean over outputs; or (left, K, n, K) for each pair of outputs."""
    by_samples: tuple[str, ...]
    """Parameters whose gradients were computed sample by sample, because no known layer uses them."""


def tangent_kernel(
    model: torch.nn.Module,
    rows: Tensor,
    *,
    left: int | None = None,
    each_output: bool = False,
    budget: float = 2**30,
    progress: Callable[[str], None] | None = None,
) -> TangentKernel:
    """The tangent kernel of the first `left` rows (all by default) with all rows, exact up to rounding.

    The parameters are those that are trained (`requires_grad`). Known are dense and convolutional layers (1 and 2
    axes), normalisations, embeddings and multi-head attention, however often a model uses them and whatever it does
    between them. What they give is compared with automatic differentiation on two rows; parameters for which it
    differs, or that other layers use, are left to per-sample gradients (`torch.func`) in blocks. `budget` is the memory
    in bytes for what is kept of the rows, beside the kernel itself. The model must treat rows independently, as in
    evaluation mode.
    """
    n = len(rows)
    left = n if left is None else left
    say = progress or (lambda text: None)
    work = _Work(model, left, n, each_output, budget)
    with torch.no_grad():
        work.outputs = _two_axes(model(rows[:2])).shape[1]
    try:
        known, strange = _checked(rows, work)
        total = work.empty(rows)
        done = 0
        for group in known:
            say(f"tangent kernel: {done} of {sum(len(g) for g in known)} parts")
            for gram in _grams(work, rows, group):
                total += gram
            done += len(group)
        if strange:
            say(f"tangent kernel: {len(strange)} parameters by per-sample gradients")
            for place, gram in _by_samples(work, rows, strange):
                total[place] += gram
    finally:
        for parameter in work.trained.values():
            parameter.requires_grad_(True)
    values = total.numpy()
    return TangentKernel(values if each_output else values / work.outputs, tuple(strange))


def _two_axes(outputs: Tensor) -> Tensor:
    return outputs[:, None] if outputs.ndim == 1 else outputs


class _Slice(NamedTuple):
    """A share of the work that fits the budget: some signals of the weights of a layer, or a plain vector."""

    name: str
    formed: bool
    """Whether gradients are formed when they are collected, and not kept as signals and inputs."""
    place: slice


class _Work:
    def __init__(self, model: torch.nn.Module, left: int, n: int, each_output: bool, budget: float) -> None:
        self.model, self.left, self.n, self.each_output, self.budget = model, left, n, each_output, budget
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.names = {id(p): name for name, p in self.trained.items()}
        self.shapes = {name: p.shape for name, p in self.trained.items()}
        self.outputs = 1
        self.folds: list[BatchAxis | None] = []
        self.block = 1

    def empty(self, rows: Tensor) -> Tensor:
        k = self.outputs
        shape = (self.left, k, self.n, k) if self.each_output else (self.left, self.n)
        return torch.zeros(shape, dtype=torch.float64)

    def forward(self, rows: Tensor) -> tuple[Tensor, list[Call]]:
        with Recorder(self.names) as mode:
            outputs = _two_axes(self.model(rows))
        return outputs, mode.calls

    def collected(self, rows: Tensor, wanted: Callable[[str], bool]) -> dict[str, list[GradientPart]]:
        """The parts of the wanted parameters for a block of rows."""
        outputs, calls = self.forward(rows)
        if len(calls) != len(self.folds):
            raise InputError("model must call its layers alike for all rows, got another number of calls for some")
        here = [
            (call, fold)
            for call, fold in zip(calls, self.folds, strict=True)
            if fold is not None and any(name is not None and wanted(name) for name in (call.weight, call.bias))
        ]
        if not here:
            return {}
        probes, found = [call.probe for call, _ in here], []
        for k in range(self.outputs):
            last = k == self.outputs - 1
            found.append(torch.autograd.grad(outputs[:, k].sum(), probes, retain_graph=not last, allow_unused=True))
        uses: dict[str, list[GradientPart]] = {}
        for i, (call, fold) in enumerate(here):
            signals = [torch.zeros_like(call.probe) if one[i] is None else one[i] for one in found]
            for part in parts(call, fold, torch.stack(signals), len(rows), self.shapes):
                if wanted(part.name):
                    uses.setdefault(part.name, []).append(part)
        return uses


def _checked(rows: Tensor, work: _Work) -> tuple[list[list[_Slice]], list[str]]:
    """The parameters that the layers explain, in groups that fit the budget, and the others.

    Compared on two rows with a random mixture of the outputs each.
    """
    sample = rows[:: max(len(rows) // 2, 1)][:2] if len(rows) > 1 else rows[[0, 0]]
    names = list(work.shapes)
    truth = _mixed_gradients(work, sample)
    for parameter in work.trained.values():
        parameter.requires_grad_(False)
    calls = [work.forward(sample[[0, 1][:count] if count == 2 else [0, 1, 1]])[1] for count in (2, 3)]
    if len(calls[0]) != len(calls[1]):
        return [], names
    work.folds = [batch_axis(two, three) for two, three in zip(*calls, strict=True)]
    # a use whose input is not one of rows adds what no other use of the parameter knows of
    unclear = {
        name
        for call, fold in zip(calls[0], work.folds, strict=True)
        if fold is None
        for name in (call.weight, call.bias)
    }
    found = work.collected(sample, lambda name: name not in unclear)
    mixtures = _mixtures(sample, work.outputs)
    size = max((float(truth[name].norm()) for name in names), default=0.0)
    known = []
    for name in names:
        if name in found and name not in unclear:
            formed = torch.einsum("knp,nk->np", _formed(found[name]), mixtures)
            difference = formed - truth[name].reshape(formed.shape)
            scale = float(truth[name].norm()) + torch.finfo(formed.dtype).eps * size
            if float(difference.norm()) <= _ALLOWED * torch.finfo(formed.dtype).eps * scale:
                known.append(name)
        elif not truth[name].any():
            # no output depends on it
            known.append(name)
    used = [name for name in known if name in found]
    work.block = _block(work, found, rows)
    return _groups(work, {name: found[name] for name in used}, rows), [name for name in names if name not in known]


def _mixtures(sample: Tensor, outputs: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    dtype = sample.dtype if sample.is_floating_point() else torch.get_default_dtype()
    return torch.randn(len(sample), outputs, generator=generator, dtype=torch.float64).to(sample.device, dtype)


def _mixed_gradients(work: _Work, sample: Tensor) -> dict[str, Tensor]:
    """The gradients (rows, p) of a mixture of the outputs at each row, by automatic differentiation."""
    found: dict[str, list[Tensor]] = {name: [] for name in work.trained}
    for row, mixture in zip(sample, _mixtures(sample, work.outputs), strict=True):
        # twice: some models drop an axis of length 1
        value = _two_axes(work.model(torch.stack([row, row])))[0]
        try:
            grads = torch.autograd.grad(value @ mixture.to(value.dtype), list(work.trained.values()), allow_unused=True)
        except RuntimeError as error:
            raise InputError(f"model must be differentiable in its parameters: {error}") from None
        for (name, parameter), grad in zip(work.trained.items(), grads, strict=True):
            found[name].append(torch.zeros_like(parameter) if grad is None else grad)
    return {name: torch.stack(grads).flatten(1) for name, grads in found.items()}


def _formed(uses: Sequence[GradientPart], place: slice = slice(None)) -> Tensor:
    """The gradients (K, rows, p) of one parameter, summed over its uses; of a slice of its rows or columns."""
    total = None
    for use in uses:
        if use.activity is None:
            grads = use.signal[..., place]
        elif use.groups > 1:
            signal = use.signal.unflatten(-1, (use.groups, -1))
            activity = use.activity.unflatten(-1, (use.groups, -1))
            grads = torch.einsum("knpgr,npgc->kngrc", signal, activity).flatten(2)
        else:
            grads = use.signal[..., place].transpose(-2, -1) @ use.activity
            if use.turned:
                grads = grads.transpose(-2, -1)
            grads = grads.flatten(2)
        total = grads if total is None else total + grads
    assert total is not None
    return total


def _is_mixed(uses: Sequence[GradientPart]) -> bool:
    """Whether the uses have no common form but the gradient itself."""
    return len({use.turned for use in uses}) > 1 or any(use.groups > 1 for use in uses)


def _floats(uses: Sequence[GradientPart]) -> tuple[int, int, bool]:
    """Numbers kept of a row beside the signals, numbers of these, and whether gradients are formed at once."""
    first = uses[0]
    k = first.signal.shape[0]
    if first.activity is None:
        return 0, k * first.signal.shape[-1], True
    positions = sum(use.signal.shape[2] for use in uses)
    r, c = first.signal.shape[-1], first.activity.shape[-1]
    formed = k * r * c // first.groups
    if _is_mixed(uses) or formed <= positions * (c + k * r):
        return 0, formed, True
    return positions * c, positions * k * r, False


def _block(work: _Work, found: dict[str, list[GradientPart]], rows: Tensor) -> int:
    """Rows in one pass forward: inputs and signals of all layers take at most a quarter of the budget."""
    each = 0
    for uses in found.values():
        for use in uses:
            each += use.signal[:, 0].numel() + (0 if use.activity is None else use.activity[0].numel())
    size = 8 if rows.dtype == torch.float64 else 4
    return int(np.clip(work.budget / 4 / max(2 * each * size, 1), 1, _MOST_ROWS_TOGETHER))


def _groups(work: _Work, found: dict[str, list[GradientPart]], rows: Tensor) -> list[list[_Slice]]:
    """Slices of the parameters, in groups of which each needs one pass over the rows and half the budget."""
    size = 8 if rows.dtype == torch.float64 else 4
    room = work.budget / 2 / size / work.n
    groups: list[list[_Slice]] = [[]]
    filled = 0.0
    for name, uses in found.items():
        beside, floats, formed = _floats(uses)
        wide = uses[0].signal.shape[-1]
        if 2 * beside > room:
            # inputs that leave no room for signals: gradients can be formed in slices
            k, r, c = uses[0].signal.shape[0], wide, uses[0].activity.shape[-1] if uses[0].activity is not None else 1
            beside, floats, formed = 0, k * r * c, True
        if floats > room * wide:
            raise InputError(
                f"budget must be at least {2 * size * work.n * floats / wide / 2**20:.0f} MB for {name} at {work.n} "
                f"rows, got {work.budget / 2**20:.0f} MB: take fewer rows"
            )
        pieces = max(1, int(np.ceil(floats / (room - beside))))
        if _is_mixed(uses):
            # their gradients have no slices; per-sample gradients have
            pieces = 1
        for ends in np.array_split(np.arange(wide), min(pieces, wide)):
            cost = beside + floats * len(ends) / wide
            if groups[-1] and filled + cost > room:
                groups.append([])
                filled = 0.0
            place = slice(None) if pieces == 1 else slice(int(ends[0]), int(ends[-1]) + 1)
            groups[-1].append(_Slice(name, formed, place))
            filled += cost
    return [group for group in groups if group]


def _grams(work: _Work, rows: Tensor, group: Sequence[_Slice]) -> Iterator[Tensor]:
    """What the slices of a group add to the kernel, after one pass over the rows."""
    wanted = {piece.name for piece in group}
    kept: list[tuple[Tensor, Tensor | None]] = []
    done = 0
    for block in rows.split(work.block):
        uses = work.collected(block, wanted.__contains__)
        here = slice(done, done + len(block))
        for index, piece in enumerate(group):
            mine = uses[piece.name]
            activity = None
            if piece.formed:
                signal = _formed(mine, piece.place)
            else:
                signal = torch.cat([use.signal[..., piece.place] for use in mine], dim=2)
                activity = torch.cat([use.activity for use in mine if use.activity is not None], dim=1)
            if len(kept) == index:
                whole = signal.new_empty((signal.shape[0], work.n, *signal.shape[2:]))
                kept.append((whole, None if activity is None else activity.new_empty((work.n, *activity.shape[1:]))))
            signals, activities = kept[index]
            signals[:, here] = signal
            if activity is not None and activities is not None:
                activities[here] = activity
        done += len(block)
        del uses, mine, signal, activity
    while kept:
        yield _gram(work, *kept.pop())


def _gram(work: _Work, signal: Tensor, activity: Tensor | None) -> Tensor:
    """(left, n), summed over outputs, or (left, K, n, K) from signals (K, n, p) or (K, n, positions, r)."""
    if activity is None:
        return _inner(work, signal)
    positions, r, c = signal.shape[2], signal.shape[3], activity.shape[-1]
    if positions == 1:
        return _expand(work, _inner_of(work, activity[:, 0])) * _inner(work, signal[:, :, 0])
    k = signal.shape[0]
    pairs = positions**2 * (c + k * r * (k if work.each_output else 1))
    if pairs < k * r * c * (k if work.each_output else 1):
        return _over_pairs(work, signal, activity)
    total: Tensor | float = 0.0
    columns = max(1, int(work.budget / 4 / (signal.element_size() * work.n * c * (k if work.each_output else 1))))
    for ends in range(0, r, columns):
        some = signal[..., ends : ends + columns].transpose(-2, -1)
        if work.each_output:
            total = total + _inner(work, (some @ activity).flatten(2))
        else:
            for one in some:
                total = total + _inner_of(work, (one @ activity).flatten(1))
    assert isinstance(total, Tensor)
    return total


def _inner_of(work: _Work, rows: Tensor, left: int | None = None) -> Tensor:
    """(left, n); of the symmetric part little more than a half is computed."""
    left = work.left if left is None else left
    gram = rows.new_empty((left, len(rows)))
    block = -(-left // _SYMMETRIC_BLOCKS)
    for i in range(0, left, block):
        here = slice(i, min(i + block, left))
        torch.mm(rows[here], rows[i:].T, out=gram[here, i:])
        gram[here.stop :, here] = gram[here, here.stop : left].T
    return gram.double()


def _inner(work: _Work, found: Tensor) -> Tensor:
    """Inner products of vectors (K, n, p)."""
    if not work.each_output:
        return sum((_inner_of(work, one) for one in found[1:]), _inner_of(work, found[0]))
    k, n, _ = found.shape
    flat = found.transpose(0, 1).reshape(n * k, -1)
    return _inner_of(work, flat, work.left * k).reshape(work.left, k, n, k)


def _expand(work: _Work, gram: Tensor) -> Tensor:
    return gram[:, None, :, None] if work.each_output else gram


def _over_pairs(work: _Work, signal: Tensor, activity: Tensor) -> Tensor:
    """sum over pairs of positions of (a_p . a'_q) (g_p . g'_q), in blocks of rows."""
    k, n, positions, _ = signal.shape
    total = torch.zeros((work.left, k, n, k) if work.each_output else (work.left, n), dtype=torch.float64)
    floats = work.budget / 8 / signal.element_size() / positions**2
    block = int(np.clip(np.sqrt(floats), 1, n))
    for i in range(0, work.left, block):
        for j in range(0, n, block):
            here, there = slice(i, min(i + block, work.left)), slice(j, j + block)
            inputs = torch.einsum("ipc,jqc->ipjq", activity[here], activity[there])
            for a in range(k):
                for b in range(k) if work.each_output else (a,):
                    back = torch.einsum("ipr,jqr->ipjq", signal[a, here], signal[b, there])
                    gram = (inputs * back).sum(dim=(1, 3)).double()
                    if work.each_output:
                        total[here, a, there, b] = gram
                    else:
                        total[here, there] += gram
    return total


def _by_samples(work: _Work, rows: Tensor, names: Sequence[str]) -> Iterator[tuple[Any, Tensor]]:
    """Blocks of the kernel of the named parameters, from the gradients of single samples."""
    model, k = work.model, work.outputs
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    chosen = {name: work.trained[name].detach() for name in names}
    frozen = {name: value.detach() for name, value in state.items() if name not in chosen}

    def outputs(some: dict[str, Tensor], row: Tensor) -> Tensor:
        # twice: some models drop an axis of length 1
        return _two_axes(torch.func.functional_call(model, {**frozen, **some}, (torch.stack([row, row]),)))[0]

    def gradients(block: Tensor) -> Tensor:
        """(rows, K, p)"""
        try:
            # of the ways to compute attention only this one is known to vmap
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                found = torch.func.vmap(torch.func.jacrev(outputs), in_dims=(None, 0))(chosen, block)
        except RuntimeError:
            # what vmap cannot trace is computed row by row
            each = [torch.func.jacrev(outputs)(chosen, row) for row in block]
            found = {name: torch.stack([one[name] for one in each]) for name in chosen}
        return torch.cat([found[name].flatten(2) for name in chosen], dim=2)

    size = sum(p.numel() for p in chosen.values()) * k * next(iter(chosen.values())).element_size()
    block = int(np.clip(work.budget / 4 / size, 1, _MOST_ROWS_TOGETHER))
    for i in range(0, work.left, block):
        here = slice(i, min(i + block, work.left))
        mine = gradients(rows[here])
        for j in range(0, work.n, block):
            there = slice(j, min(j + block, work.n))
            theirs = mine if here == there else gradients(rows[there])
            if work.each_output:
                flat = mine.flatten(0, 1) @ theirs.flatten(0, 1).T
                yield (here, slice(None), there), flat.double().reshape(len(mine), k, len(theirs), k)
            else:
                yield (here, there), (mine.flatten(1) @ theirs.flatten(1).T).double()
