"""Directions of an index model from one look at the data: exact limits of linear and spectral estimators.

y = link(z) + noise with z = x . theta, x ~ N(0, I_d) and |theta| = 1; n/d = `samples_per_dimension` is fixed while both
grow, and called alpha in formulas. A transform T of the label makes two estimators: the vector sum_i T(y_i) x_i and the
top eigenvector of (1/n) sum_i T(y_i) x_i x_i^T. The squared overlap is that of the unit vector with theta.

Links are names of `LINKS`, `Link`s or callables, as for `exponents`; transforms are callables of arrays of
labels, smooth between the numbers in their attribute `breakpoints` if they have one, which
`unlazy.functions.Link` gives to any function. `transform=None` is the best one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice
from unlazy.functions.elementwise import Elementwise, Link, as_link
from unlazy.theory.index_models.exponents.exponents import noise_deviation
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

LinkLike = str | Link | Elementwise
Transform = Callable[[np.ndarray], Any]


class SpectralOverlap(NamedTuple):
    """Limits for the top eigenvector of (1/n) sum_i T(y_i) x_i x_i^T, in the shape of samples_per_dimension."""

    squared_overlap: np.ndarray
    """0 where no eigenvalue leaves the bulk."""
    largest_eigenvalue: np.ndarray
    bulk_edge: np.ndarray
    """The right end of the bulk."""


def linear_overlap(
    link: LinkLike,
    samples_per_dimension: ArrayLike,
    noise_variance: float = 0.0,
    *,
    transform: Transform | None = None,
) -> np.ndarray:
    """The squared overlap of sum_i T(y_i) x_i with the direction.

        a^2 / (a^2 + E[T^2]/alpha),   a = E[T(y) z]

    Best is T = E[z | y], for which a = E[T^2] = lambda_1^2: alpha lambda_1^2 / (1 + alpha lambda_1^2), above 0 at every
    alpha if lambda_1 is not 0. The formula follows from the law of large numbers. alpha is from 1e-12 to 1e12.

    >>> print(linear_overlap("He3", samples_per_dimension=[1, 4], noise_variance=0.01, transform=np.tanh).round(3))
    [0.131 0.376]
    """
    ratios = _check_ratios(samples_per_dimension)
    signal = ratios * _linear_signal(link, noise_variance, transform)
    return signal / (1 + signal)


def spectral_overlap(
    link: LinkLike,
    samples_per_dimension: ArrayLike,
    noise_variance: float = 0.0,
    *,
    transform: Transform | None = None,
) -> SpectralOverlap:
    """The squared overlap of the top eigenvector of (1/n) sum_i T(y_i) x_i x_i^T with the direction.

        psi(s) = s (1/alpha + E[T/(s-T)]),  phi(s) = s E[z^2 T/(s-T)],   s > max(sup T, 0),
        edge = min psi = psi(s_0);  if phi(s_0) > psi(s_0), phi = psi at one s > s_0, where
        overlap^2 = psi'(s) / (psi'(s) - phi'(s)) and the top eigenvalue is psi(s); else 0 and the edge.

    The best T is 1 - 1/G with G = E[z^2 | y], whatever alpha (Luo, Alghamdi & Lu 2019). Its overlap q is the root of
    1/alpha = (1-q) E[(G-1)^2 / (1-q+qG)] and its eigenvalue 1/alpha; q is above 0 for alpha > 1/E[(G-1)^2] = 1/(2
    lambda_2^2), where also the best known algorithms start if lambda_1 = 0. This T is kept above -1e16, since labels in
    double precision do not tell a smaller G; only the edge at alpha beyond 1e7 feels that. A given T must be bounded
    above, and not everywhere <= 0 unless alpha > 1, because n < d samples leave a null space then. alpha is from 1e-12
    to 1e12. Mondelli & Montanari 2018; Lu & Li 2020.

    >>> found = spectral_overlap("abs", samples_per_dimension=[0.4, 1, 2], noise_variance=0.0)
    >>> print(found.squared_overlap.round(3))
    [0. 0.231 0.639]
    """
    ratios = _check_ratios(samples_per_dimension)
    flat = ratios.reshape(-1)
    if transform is None:
        found = best_spectral(_nodes(link, noise_variance, ()), flat)
    else:
        moments = _moments(link, noise_variance, transform)
        if moments.highest <= 0 and (flat <= 1).any():
            raise InputError(
                f"transform must take values above 0 if samples_per_dimension <= 1, got at most {moments.highest:g} "
                f"and {flat.min():g}: n <= d samples leave a null space on top"
            )
        found = with_transform(moments, flat)
    return SpectralOverlap(*found.reshape(3, *ratios.shape))


def spectral_threshold(link: LinkLike, noise_variance: float = 0.0, *, transform: Transform | None = None) -> float:
    """The least n/d from which the spectral estimator sees the direction; infinity (inf) if it never does.

    1/(2 lambda_2^2) for the best T;  in general 1/E[T^2/(s-T)^2] at the s where it is 1/E[(z^2-1) T/(s-T)]

    >>> print(round(spectral_threshold("He4", noise_variance=0.0), 3))
    0.645
    """
    return float(samples_for_overlap(link, 0.0, noise_variance, transform=transform))


def samples_for_overlap(
    link: LinkLike,
    squared_overlap: ArrayLike,
    noise_variance: float = 0.0,
    *,
    method: str = "spectral",
    transform: Transform | None = None,
) -> np.ndarray:
    """The least n/d at which a linear or spectral estimator has the squared overlap q < 1.

        linear    q E[T^2] / ((1-q) a^2),  best q / ((1-q) lambda_1^2)
        spectral  1/B at the s with q = (B-A)/(B-A+C);  best 1 / ((1-q) E[(G-1)^2/(1-q+qG)])

    with A = E[T^2/(s-T)^2], B = E[(z^2-1) T/(s-T)] and C = E[z^2 T^2/(s-T)^2]; infinity (inf) where no number suffices.
    The inverse of `linear_overlap` and `spectral_overlap`; `method` is linear or spectral.

    >>> print(samples_for_overlap("He3", squared_overlap=[0.5, 0.9], noise_variance=0.01, method="linear").round(2))
    [ 1.67 15.01]
    """
    check_choice("method", method, ("linear", "spectral"))
    targets = check_array("squared_overlap", squared_overlap, low=0, below=1)
    if method == "linear":
        signal = _linear_signal(link, noise_variance, transform)
        return targets / (1 - targets) / signal if signal > 0 else np.where(targets > 0, np.inf, 0.0)[()]
    if transform is not None:
        return least_ratio(_moments(link, noise_variance, transform), targets)
    nodes = _nodes(link, noise_variance, ())
    if not nodes.seen[1]:
        return np.full(targets.shape, np.inf)[()]
    q = targets[..., None]
    mean = ((nodes.square - 1) ** 2 / (1 - q + q * nodes.square)) @ nodes.weights
    return 1 / ((1 - targets) * mean)


def best_linear_transform(link: LinkLike, noise_variance: float = 0.0) -> Callable[[ArrayLike], np.ndarray]:
    """E[z | y] as a function of arrays of labels; 0 if lambda_1 is, where no linear estimator sees the direction.

    >>> transform = best_linear_transform("He3", noise_variance=0.01)
    >>> print(transform([-1.0, -0.5, 1.0]).round(3))
    [ 0.47   0.562 -0.47 ]
    """
    return conditional_moment(_law(link, noise_variance), 1)


def best_spectral_transform(
    link: LinkLike, noise_variance: float = 0.0, *, least_second_moment: float = 1e-3
) -> Callable[[ArrayLike], np.ndarray]:
    """1 - 1/E[z^2 | y] as a function of arrays of labels, E[z^2 | y] kept above `least_second_moment` <= 1.

    >>> transform = best_spectral_transform("He3", noise_variance=0.01, least_second_moment=1e-3)
    >>> print(transform([-1.0, 0.0, 1.0]).round(3))
    [ 0.335 -0.804  0.335]
    """
    floor = float(check_array("least_second_moment", least_second_moment, above=0, high=1, ndim=0))
    moment = conditional_moment(_law(link, noise_variance), 2)

    def transform(y: ArrayLike) -> np.ndarray:
        return 1 - 1 / np.maximum(1 + math.sqrt(2) * moment(y), floor)

    return transform


def _check_ratios(samples_per_dimension: ArrayLike) -> np.ndarray:
    return check_array("samples_per_dimension", samples_per_dimension, low=_SMALLEST, high=_LARGEST)


def _law(link: LinkLike, noise_variance: Any) -> LabelLaw:
    return label_law(_remembered(link), noise_deviation(noise_variance))


def _nodes(link: LinkLike, noise_variance: Any, breaks: tuple[float, ...]) -> LabelNodes:
    return label_nodes(_remembered(link), noise_deviation(noise_variance), breaks)


def _remembered(link: LinkLike) -> Link:
    """The link as a key of what is known of its labels."""
    found = as_link(link)
    try:
        hash(found)
    except TypeError:
        value, slope = found.value, found.derivative
        own = None if slope is None else (lambda z: slope(z))
        return Link(found.name, lambda z: value(z), own, tuple(found.breakpoints))
    return found


def _values(link: LinkLike, noise_variance: float, transform: Transform) -> tuple[LabelNodes, np.ndarray]:
    """The transform at the nodes, if two sets of them agree on its averages."""
    if not callable(transform):
        raise InputError(f"transform must be a callable of labels or None, got {transform!r}")
    own = check_array("breakpoints", [0.0, *getattr(transform, "breakpoints", ())])[1:].tolist()
    nodes = _nodes(link, noise_variance, tuple(own))
    middle = float(nodes.labels[np.argsort(nodes.labels)[nodes.labels.size // 2]])
    found, averages, size = [], [], 0.0
    for at in (nodes, _nodes(link, noise_variance, (*own, _ELSEWHERE * (1 + abs(middle))))):
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


def _linear_signal(link: LinkLike, noise_variance: float, transform: Transform | None) -> float:
    """a^2 / E[T^2], lambda_1^2 for the best T."""
    if transform is None:
        nodes = _nodes(link, noise_variance, ())
        return float(nodes.weights @ nodes.first**2) if nodes.seen[0] else 0.0
    nodes, values = _values(link, noise_variance, transform)
    size = float(np.abs(values).max())
    if not nodes.seen[0] or size == 0:
        return 0.0
    scaled = values / size
    return float((nodes.weights @ (nodes.first * scaled)) ** 2 / (nodes.weights @ scaled**2))


def _moments(link: LinkLike, noise_variance: float, transform: Transform) -> TransformMoments:
    nodes, values = _values(link, noise_variance, transform)
    if grows_without_bound(transform, as_link(link), float(noise_variance), nodes.labels):
        raise InputError(
            "transform must be bounded above, got one that grows without bound with the label: the largest eigenvalue "
            "has no limit then; clip it, as in np.minimum(T(y), 4)"
        )
    return TransformMoments.of(nodes, values)
