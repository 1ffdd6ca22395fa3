"""Directions of an index model from one look at the data: exact limits of linear and spectral estimators.

y = link(z) + noise N(0, 1) with z = x . theta, x ~ N(0, I_d) and |theta| = 1; n/d = `ratio` is fixed while both grow. A
transform T of the label makes two estimators: the vector sum_i T(y_i) x_i and the top eigenvector of
(1/n) sum_i T(y_i) x_i x_i^T. The squared overlap is that of the unit vector with theta.

Links are names of `LINKS`, `Link`s or callables, as for `exponents`; transforms are callables of arrays of
labels, smooth between the numbers in their attribute `breakpoints` if they have one, which
`unlazy.functions.Link` gives to any function. `transform=None` is the best one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice
from unlazy.theory.index_models.exponents.pieces import as_function
from unlazy.theory.index_models.spectral.equations import TransformMoments, best_spectral, least_ratio, with_transform
from unlazy.theory.index_models.spectral.label_nodes import (
    LabelLaw,
    LabelNodes,
    conditional_moment,
    grows_without_bound,
    label_law,
    label_nodes,
)

_SMALLEST, _LARGEST = 1e-12, 1e12
_UNSETTLED = 3e-4
_ELSEWHERE = 0.3819

Transform = Callable[[np.ndarray], Any]


class SpectralOverlap(NamedTuple):
    """Limits for the top eigenvector of (1/n) sum_i T(y_i) x_i x_i^T; every field has the shape of the ratio."""

    square: np.ndarray
    """The squared overlap, 0 where no eigenvalue leaves the bulk."""
    eigenvalue: np.ndarray
    """The largest eigenvalue."""
    edge: np.ndarray
    """The right end of the bulk."""


def linear_overlap(
    link: Any,
    noise: float = 0.0,
    transform: Transform | None = None,
    ratio: ArrayLike = 1.0,
    *,
    breakpoints: Iterable[float] = (),
) -> np.ndarray:
    """The squared overlap of sum_i T(y_i) x_i with the direction.

        a^2 / (a^2 + E[T^2]/ratio),   a = E[T(y) z]

    Best is T = E[z | y], for which a = E[T^2] = lambda_1^2: ratio lambda_1^2 / (1 + ratio lambda_1^2), above 0 at every
    ratio if lambda_1 is not 0. The formula follows from the law of large numbers.
    """
    ratios = check_array("ratio", ratio, low=_SMALLEST, high=_LARGEST)
    signal = ratios * _linear_signal(link, noise, transform, breakpoints)
    return signal / (1 + signal)


def spectral_overlap(
    link: Any,
    noise: float = 0.0,
    transform: Transform | None = None,
    ratio: ArrayLike = 1.0,
    *,
    breakpoints: Iterable[float] = (),
) -> SpectralOverlap:
    """The squared overlap of the top eigenvector of (1/n) sum_i T(y_i) x_i x_i^T with the direction.

        psi(s) = s (1/ratio + E[T/(s-T)]),  phi(s) = s E[z^2 T/(s-T)],   s > max(sup T, 0),
        edge = min psi = psi(s_0);  if phi(s_0) > psi(s_0), phi = psi at one s > s_0, where
        overlap^2 = psi'(s) / (psi'(s) - phi'(s)) and the top eigenvalue is psi(s); else 0 and the edge.

    The best T is 1 - 1/G with G = E[z^2 | y], whatever the ratio (Luo, Alghamdi & Lu 2019). Its overlap q is the root
    of 1/ratio = (1-q) E[(G-1)^2 / (1-q+qG)] and its eigenvalue 1/ratio; q is above 0 for ratio > 1/E[(G-1)^2] = 1/(2
    lambda_2^2), where also the best known algorithms start if lambda_1 = 0. This T is kept above -1e16, since labels in
    double precision do not tell a smaller G; only the edge at ratios beyond 1e7 feels that. A given T must be bounded
    above, and not everywhere <= 0 unless ratio > 1, because n < d samples leave a null space then. Mondelli & Montanari
    2018; Lu & Li 2020.
    """
    ratios = check_array("ratio", ratio, low=_SMALLEST, high=_LARGEST)
    flat = ratios.reshape(-1)
    if transform is None:
        found = best_spectral(_nodes(link, noise, (), breakpoints), flat)
    else:
        moments = _moments(link, noise, transform, breakpoints)
        if moments.highest <= 0 and (flat <= 1).any():
            raise InputError(
                f"transform must take values above 0 if ratio <= 1, got at most {moments.highest:g} and ratio "
                f"{flat.min():g}: n <= d samples leave a null space on top"
            )
        found = with_transform(moments, flat)
    return SpectralOverlap(*found.reshape(3, *ratios.shape))


def spectral_threshold(
    link: Any, noise: float = 0.0, transform: Transform | None = None, *, breakpoints: Iterable[float] = ()
) -> float:
    """The least n/d from which the spectral estimator sees the direction; infinity if it never does.

    1/(2 lambda_2^2) for the best T;  in general 1/E[T^2/(s-T)^2] at the s where it is 1/E[(z^2-1) T/(s-T)]
    """
    return float(ratio_for_overlap(0.0, link, noise, "spectral", transform, breakpoints=breakpoints))


def ratio_for_overlap(
    target: ArrayLike,
    link: Any,
    noise: float = 0.0,
    method: str = "spectral",
    transform: Transform | None = None,
    *,
    breakpoints: Iterable[float] = (),
) -> np.ndarray:
    """The least n/d at which a linear or spectral estimator has the squared overlap q = `target` < 1.

        linear    q E[T^2] / ((1-q) a^2),  best q / ((1-q) lambda_1^2)
        spectral  1/B at the s with q = (B-A)/(B-A+C);  best 1 / ((1-q) E[(G-1)^2/(1-q+qG)])

    with A = E[T^2/(s-T)^2], B = E[(z^2-1) T/(s-T)] and C = E[z^2 T^2/(s-T)^2]; infinity where no ratio suffices. The
    inverse of `linear_overlap` and `spectral_overlap`.
    """
    check_choice("method", method, ("linear", "spectral"))
    targets = check_array("target", target, low=0, below=1)
    if method == "linear":
        signal = _linear_signal(link, noise, transform, breakpoints)
        return targets / (1 - targets) / signal if signal > 0 else np.where(targets > 0, np.inf, 0.0)
    if transform is not None:
        return least_ratio(_moments(link, noise, transform, breakpoints), targets)
    nodes = _nodes(link, noise, (), breakpoints)
    if not nodes.seen[1]:
        return np.full(targets.shape, np.inf)
    q = targets[..., None]
    mean = ((nodes.square - 1) ** 2 / (1 - q + q * nodes.square)) @ nodes.weights
    return 1 / ((1 - targets) * mean)


def best_linear_transform(
    link: Any, noise: float = 0.0, *, breakpoints: Iterable[float] = ()
) -> Callable[[ArrayLike], np.ndarray]:
    """E[z | y] as a function of arrays of labels; 0 if lambda_1 is, where no linear estimator sees the direction."""
    return conditional_moment(_law(link, noise, breakpoints), 1)


def best_spectral_transform(
    link: Any, noise: float = 0.0, *, least: float = 1e-3, breakpoints: Iterable[float] = ()
) -> Callable[[ArrayLike], np.ndarray]:
    """1 - 1/E[z^2 | y] as a function of arrays of labels, with `least` in place of smaller E[z^2 | y]."""
    floor = float(check_array("least", least, above=0, high=1, ndim=0))
    moment = conditional_moment(_law(link, noise, breakpoints), 2)

    def transform(y: ArrayLike) -> np.ndarray:
        return 1 - 1 / np.maximum(1 + math.sqrt(2) * moment(y), floor)

    return transform


def _law(link: Any, noise: Any, breakpoints: Iterable[float]) -> LabelLaw:
    return label_law(*_checked(link, noise, breakpoints))


def _nodes(link: Any, noise: Any, breaks: tuple[float, ...], breakpoints: Iterable[float]) -> LabelNodes:
    return label_nodes(*_checked(link, noise, breakpoints), breaks)


def _checked(link: Any, noise: Any, breakpoints: Iterable[float]) -> tuple[Any, float, tuple[float, ...]]:
    """What the laws of labels are remembered by."""
    if not isinstance(link, Hashable):
        link = as_function(link)
    deviation = float(check_array("noise", noise, low=0, ndim=0))
    return link, deviation, tuple(np.unique(check_array("breakpoints", [0.0, *breakpoints])[1:]).tolist())


def _values(
    link: Any, noise: float, transform: Transform, link_breaks: Iterable[float]
) -> tuple[LabelNodes, np.ndarray]:
    """The transform at the nodes, if two sets of them agree on its averages."""
    if not callable(transform):
        raise InputError(f"transform must be a callable of labels or None, got {transform!r}")
    own = check_array("breakpoints", [0.0, *getattr(transform, "breakpoints", ())])[1:].tolist()
    link_breaks = tuple(link_breaks)
    nodes = _nodes(link, noise, tuple(own), link_breaks)
    middle = float(nodes.labels[np.argsort(nodes.labels)[nodes.labels.size // 2]])
    found, averages, size = [], [], 0.0
    for at in (nodes, _nodes(link, noise, (*own, _ELSEWHERE * (1 + abs(middle))), link_breaks)):
        with np.errstate(all="ignore"):
            values = np.asarray(check_array("transform", transform(at.labels), finite=False))
        if values.shape not in ((), at.labels.shape):
            raise InputError(f"transform must return one number per label, got shape {values.shape}")
        values = np.broadcast_to(values, at.labels.shape)
        wrong = ~np.isfinite(values)
        if wrong.any():
            raise InputError(f"transform must be finite, got {values[wrong][0]:g} at the label {at.labels[wrong][0]:g}")
        found.append(values)
        # of a bounded function of T, which has averages for every T
        size = size or float(np.median(np.abs(values))) or 1.0
        bounded = values / (np.abs(values) + size)
        averages.append([at.weights @ bounded, at.weights @ (at.first * bounded), at.weights @ (at.square * bounded)])
    change = float(np.abs(np.diff(averages, axis=0)).max())
    if change > _UNSETTLED:
        raise InputError(
            f"transform must be smooth between its breakpoints {tuple(own)}: on other points its averages change by "
            f"{change:.2g}; name its jumps by Link(name, transform, breakpoints=...)"
        )
    return nodes, found[0]


def _linear_signal(link: Any, noise: float, transform: Transform | None, breakpoints: Iterable[float]) -> float:
    """a^2 / E[T^2], lambda_1^2 for the best T."""
    if transform is None:
        nodes = _nodes(link, noise, (), breakpoints)
        return float(nodes.weights @ nodes.first**2) if nodes.seen[0] else 0.0
    nodes, values = _values(link, noise, transform, breakpoints)
    size = float(np.abs(values).max())
    if not nodes.seen[0] or size == 0:
        return 0.0
    scaled = values / size
    return float((nodes.weights @ (nodes.first * scaled)) ** 2 / (nodes.weights @ scaled**2))


def _moments(link: Any, noise: float, transform: Transform, breakpoints: Iterable[float]) -> TransformMoments:
    nodes, values = _values(link, noise, transform, breakpoints)
    if grows_without_bound(transform, link, float(noise), nodes.labels):
        raise InputError(
            "transform must be bounded above, got one that grows without bound with the label: the largest eigenvalue "
            "has no limit then; clip it, as in np.minimum(T(y), 4)"
        )
    return TransformMoments.of(nodes, values)
