"""What a PyTorch model does with its parameters: every call of a known layer, its input, and a probe at its output.

The gradient of an output in a probe, a zero that is added to the layer's output, is the signal that comes back to the
layer. It is taken there and not in the output itself, which an activation may overwrite in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Call(NamedTuple):
    """One use of parameters by a layer."""

    kind: str
    given: Tensor
    """The layer's input."""
    weight: str | None
    bias: str | None
    probe: Tensor
    options: dict[str, Any]
    place: slice
    """Rows of the weight that are used."""


class Recorder(TorchFunctionMode):
    """Notes the calls of layers that use the named parameters, and adds a probe to the output of each."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self.names = names
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = _LAYERS.get(func)
        # inside a layer the mode is off, so that nothing is noted twice
        return func(*args, **(kwargs or {})) if known is None else known(self, *args, **(kwargs or {}))

    def note(
        self, kind: str, out: Tensor, given: Tensor, weight: Any, bias: Any, place: slice = slice(None), **options: Any
    ) -> Tensor:
        named, beside = (self.names.get(id(part)) for part in (weight, bias))
        if named is None and beside is None:
            return out
        probe = torch.zeros((), dtype=out.dtype, device=out.device).expand(out.shape).detach().requires_grad_()
        # not a copy: a model that overwrites the input of a layer in place cannot be trained
        self.calls.append(Call(kind, given.detach(), named, beside, probe, options, place))
        return out + probe


def _linear(mode: Recorder, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return mode.note("linear", F.linear(input, weight, bias), input, weight, bias)


def _conv(axes: int) -> Callable[..., Tensor]:
    plain: Callable[..., Tensor] = (F.conv1d, F.conv2d)[axes - 1]

    def call(
        mode: Recorder,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        out = plain(input, weight, bias, stride, padding, dilation, groups)
        if input.ndim != axes + 2:
            return out
        stride, dilation = (_each(value, axes) for value in (stride, dilation))
        options = {"stride": stride, "dilation": dilation, "groups": groups, "size": tuple(weight.shape[2:])}
        if padding == "same":
            total = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
            around = [(one // 2, one - one // 2) for one in total]
        else:
            around = [(one, one) for one in _each(0 if padding == "valid" else padding, axes)]
        return mode.note("conv", out, input, weight, bias, around=around, **options)

    return call


def _each(value: Any, axes: int) -> tuple[int, ...]:
    found = tuple(value) if isinstance(value, Sequence) else (value,)
    return found * axes if len(found) == 1 else found


def _layer_norm(
    mode: Recorder, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    out = F.layer_norm(input, normalized_shape, weight, bias, eps)
    return mode.note("layer_norm", out, input, weight, bias, normalized_shape=tuple(normalized_shape), eps=eps)


def _group_norm(
    mode: Recorder, input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    out = F.group_norm(input, num_groups, weight, bias, eps)
    return mode.note("group_norm", out, input, weight, bias, num_groups=num_groups, eps=eps)


def _batch_norm(
    mode: Recorder,
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if training:
        return out
    return mode.note("batch_norm", out, input, weight, bias, mean=running_mean, variance=running_var, eps=eps)


def _embedding(
    mode: Recorder,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    out = F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if max_norm is not None or scale_grad_by_freq:
        return out
    rows = len(weight)
    silent = None if padding_idx is None else padding_idx % rows
    return mode.note("embedding", out, input, weight, None, silent=silent, rows=rows)


def _attention(mode: Recorder, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Multi-head attention from its projections on, so that each of them is noted; unusual kinds are left alone."""
    names = (
        "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "add_zero_attn",
        "dropout_p", "out_proj_weight", "out_proj_bias", "training", "key_padding_mask", "need_weights", "attn_mask",
        "use_separate_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "static_k", "static_v",
        "average_attn_weights", "is_causal",
    )  # fmt: skip
    asked = {
        **dict.fromkeys(names),
        "training": True,
        "need_weights": True,
        "average_attn_weights": True,
        **dict(zip(names, args, strict=False)),
        **kwargs,
    }
    unusual = ("bias_k", "bias_v", "static_k", "static_v", "q_proj_weight", "k_proj_weight", "v_proj_weight")
    other_form = query.ndim != 3 or asked["add_zero_attn"]
    random = asked["training"] and asked["dropout_p"]
    causal_alone = asked["is_causal"] and asked["attn_mask"] is None
    if other_form or random or causal_alone or any(asked[name] is not None for name in unusual):
        return F.multi_head_attention_forward(query, key, value, *args, **kwargs)
    width, heads = query.shape[-1], asked["num_heads"]
    weight, bias = asked["in_proj_weight"], asked["in_proj_bias"]
    parts = []
    if query is key and key is value:
        parts = list(mode.note("linear", F.linear(query, weight, bias), query, weight, bias).chunk(3, dim=-1))
    else:
        for index, part in enumerate((query, key, value)):
            place = slice(index * width, (index + 1) * width)
            out = F.linear(part, weight[place], None if bias is None else bias[place])
            parts.append(mode.note("linear", out, part, weight, bias, place))
    steps, count = query.shape[:2]
    q, k, v = (part.reshape(part.shape[0], count, heads, -1).permute(1, 2, 0, 3) for part in parts)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    mask, padding = asked["attn_mask"], asked["key_padding_mask"]
    if mask is not None:
        mask = mask.reshape(count, heads, *mask.shape[1:]) if mask.ndim == 3 else mask
        scores = scores.masked_fill(mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if padding is not None:
        padding = padding[:, None, None, :]
        scores = scores.masked_fill(padding, -torch.inf) if padding.dtype == torch.bool else scores + padding
    shares = scores.softmax(dim=-1)
    mixed = (shares @ v).permute(2, 0, 1, 3).reshape(steps, count, -1)
    out = F.linear(mixed, asked["out_proj_weight"], asked["out_proj_bias"])
    out = mode.note("linear", out, mixed, asked["out_proj_weight"], asked["out_proj_bias"])
    if not asked["need_weights"]:
        return out, None
    return out, shares.mean(dim=1) if asked["average_attn_weights"] else shares


_LAYERS: dict[Any, Callable[..., Any]] = {
    F.linear: _linear,
    F.conv1d: _conv(1),
    F.conv2d: _conv(2),
    F.layer_norm: _layer_norm,
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
    F.embedding: _embedding,
    F.multi_head_attention_forward: _attention,
}


class BatchAxis(NamedTuple):
    """Where the rows of a batch stand in the input of a call: along an axis, each as so many neighbours."""

    axis: int
    times: int


def batch_axis(two: Call, three: Call) -> BatchAxis | None:
    """From the same call for two and for three rows; None if its input is not one of rows."""
    shapes = tuple(two.given.shape), tuple(three.given.shape)
    if len(shapes[0]) != len(shapes[1]):
        return None
    differ = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if sizes[0] != sizes[1]]
    if len(differ) != 1 or shapes[0][differ[0]] * 3 != shapes[1][differ[0]] * 2:
        return None
    return BatchAxis(differ[0], shapes[0][differ[0]] // 2)


def rows_first(tensor: Tensor, fold: BatchAxis, count: int, axis: int = 0) -> Tensor:
    """The tensor with the rows of the batch along an axis of their own, the first one."""
    return tensor.unflatten(fold.axis, (count, fold.times)).movedim(fold.axis, axis)


class GradientPart(NamedTuple):
    """What a use adds to the gradient of one parameter: sum_p signal_p activity_p^T, or a plain vector."""

    name: str
    signal: Tensor
    """(K, rows, positions, r), or the vector (K, rows, p)."""
    activity: Tensor | None
    """(rows, positions, c)"""
    turned: bool
    """Whether the signal belongs to the columns of the parameter, as for an embedding."""
    groups: int = 1


def parts(call: Call, fold: BatchAxis, signals: Tensor, count: int, shapes: dict[str, Any]) -> Iterator[GradientPart]:
    """The parts of a call whose probe has the gradients `signals` (K, ...)."""
    channels_second = call.kind in ("conv", "group_norm", "batch_norm")
    if channels_second:
        signals = signals.movedim(2, -1)
    back = rows_first(signals, BatchAxis(fold.axis + 1, fold.times), count, 1)
    outputs = back.shape[0]
    wide = len(call.options["normalized_shape"]) if call.kind == "layer_norm" else 1
    back = back.reshape(outputs, count, -1, math.prod(back.shape[-wide:]))
    if call.bias is not None:
        yield GradientPart(call.bias, _placed(back.sum(dim=2), call.place, shapes[call.bias][0]), None, False)
    if call.weight is None:
        return
    if call.kind == "linear":
        activity = rows_first(call.given, fold, count).reshape(count, -1, call.given.shape[-1])
        yield GradientPart(call.weight, _placed(back, call.place, shapes[call.weight][0]), activity, False)
    elif call.kind == "conv":
        yield GradientPart(call.weight, back, _patches(call, count), False, call.options["groups"])
    elif call.kind == "embedding":
        codes = rows_first(call.given, fold, count).reshape(count, -1)
        hot = F.one_hot(codes, call.options["rows"]).to(back.dtype)
        if call.options["silent"] is not None:
            hot[..., call.options["silent"]] = 0
        yield GradientPart(call.weight, back, hot, True)
    else:
        spread = _standardised(call)
        if channels_second:
            spread = spread.movedim(1, -1)
        spread = rows_first(spread, fold, count).reshape(count, -1, back.shape[-1])
        yield GradientPart(call.weight, torch.einsum("knpr,npr->knr", back, spread), None, False)


def _placed(back: Tensor, place: slice, rows: int) -> Tensor:
    """With zeros for the rows of the weight that the call does not use."""
    if place == slice(None):
        return back
    full = back.new_zeros((*back.shape[:-1], rows))
    full[..., place] = back
    return full


def _patches(call: Call, count: int) -> Tensor:
    """(rows, positions, columns of the weight): what every position of a convolution looks at."""
    given, options = call.given, call.options
    around, stride, dilation, size = (list(options[name]) for name in ("around", "stride", "dilation", "size"))
    if given.ndim == 3:
        given = given.unsqueeze(2)
        around, stride, dilation, size = [(0, 0), *around], [1, *stride], [1, *dilation], [1, *size]
    given = F.pad(given, [edge for pair in reversed(around) for edge in pair])
    found = F.unfold(given, tuple(size), dilation=tuple(dilation), stride=tuple(stride)).transpose(1, 2)
    return found.reshape(count, -1, found.shape[-1])


def _standardised(call: Call) -> Tensor:
    given, options = call.given, call.options
    if call.kind == "layer_norm":
        return F.layer_norm(given, options["normalized_shape"], eps=options["eps"])
    if call.kind == "group_norm":
        return F.group_norm(given, options["num_groups"], eps=options["eps"])
    return F.batch_norm(given, options["mean"], options["variance"], training=False, eps=options["eps"])
