"""Quadrature of state evolution: averages over omega ~ N(location, scale^2) of the training margin and its slope.

Panels of Gauss-Legendre nodes whose edges stand at all kinks and, dyadically, around all places where the integrand is
steep; for the logistic loss the nodes are placed in the proximal point s, of which omega = s - V expit(-s) is an
explicit function, so that no equation is solved at a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.margin_losses import expit, logistic_prox
from unlazy.numerics.quadrature import gauss_rule

_NODES = 12
_REACH = 9
_EDGE_TOLERANCE = 1e-3
_NARROW = 1e-4


class FieldNodes(NamedTuple):
    """Nodes of all rows one below the other: rows of panels, columns of Gauss-Legendre nodes."""

    row: np.ndarray
    """The row that each panel belongs to."""
    starts: np.ndarray
    """The first panel of each row."""
    deviation: np.ndarray
    """(omega - location) / scale, to all digits however small the scale is."""
    field: np.ndarray
    """omega."""
    margin: np.ndarray
    """s = prox(omega)."""
    slope: np.ndarray
    """g(omega) = -loss'(s)."""
    decrease: np.ndarray
    """-dg/domega = l''/(1 + V l'')."""
    weight: np.ndarray
    """Quadrature weight times the normal density of omega."""

    def average(self, *values: np.ndarray) -> list[np.ndarray]:
        """The averages of products value, one number per row."""
        return [np.add.reduceat(np.einsum("ij,ij->i", self.weight, value), self.starts) for value in values]


def training_nodes(
    loss: str, variance: np.ndarray, location: np.ndarray, scale: np.ndarray, edges: np.ndarray
) -> FieldNodes:
    """Nodes for the averages over omega ~ N(location, scale^2), one row per entry of the three arrays.

    `edges` (rows, k) are further places in omega at which panels end.
    """
    if loss == "logistic":
        return _logistic_nodes(variance, location, scale, edges)
    kinks = [] if loss == "square" else [1 - variance, np.ones_like(variance)]
    panels, deviation, field, weight = _in_field(np.column_stack([*kinks, edges]), location, scale)
    v = variance[panels.row][:, None]
    if loss == "square":
        slope, decrease = (1 - field) / (1 + v), np.broadcast_to(1 / (1 + v), field.shape)
        return FieldNodes(panels.row, panels.starts, deviation, field, field + v * slope, slope, decrease, weight)
    below = field <= 1 - v
    slope = np.where(below, 1.0, np.maximum(1 - field, 0.0) / v)
    decrease = np.where((field < 1) & ~below, 1 / v, 0.0)
    # at the kink the margin is 1, not 1 up to rounding, so that the loss of separated samples is 0
    margin = np.where(below, field + v, np.maximum(field, 1.0))
    return FieldNodes(panels.row, panels.starts, deviation, field, margin, slope, decrease, weight)


def plain_nodes(location: np.ndarray, scale: np.ndarray, edges: np.ndarray) -> FieldNodes:
    """Nodes for averages over omega itself; the margin is omega and there is no slope."""
    reach = float((np.abs(location) + _REACH * scale).max())
    steep = np.broadcast_to(_around_zero(reach), (location.size, _around_zero(reach).size))
    panels, deviation, field, weight = _in_field(np.column_stack([steep, edges]), location, scale)
    return FieldNodes(panels.row, panels.starts, deviation, field, field, 0 * field, 0 * field, weight)


class _Panels(NamedTuple):
    row: np.ndarray
    starts: np.ndarray
    low: np.ndarray
    width: np.ndarray


def _logistic_nodes(variance: np.ndarray, location: np.ndarray, scale: np.ndarray, edges: np.ndarray) -> FieldNodes:
    v, centre, spread = variance[:, None], location[:, None], scale[:, None]
    standard = _standard_edges(edges, location, scale)
    middle = logistic_prox(location, variance)[:, None]
    middle_curvature = expit(middle) * expit(-middle)
    # where a panel ends exactly is of no consequence here: all integrands are analytic in s
    tolerance = _EDGE_TOLERANCE * np.minimum(1.0, spread / (1 + v)) / (1 + np.abs(centre))
    wide = logistic_prox(centre + spread * standard, v, np.maximum(tolerance, 1e-14)) - middle
    narrow = spread * standard / (1 + v * middle_curvature)
    shifts = np.sort(np.where(spread > _NARROW * (1 + np.abs(centre)), wide, narrow), axis=1)
    steep = np.clip(_around_zero(float(np.abs(middle + shifts).max())) - middle, shifts[:, :1], shifts[:, -1:])
    panels = _panels(np.sort(np.column_stack([shifts, steep]), axis=1))
    shift, weight = gauss_rule(panels.low, panels.width, _NODES)
    v, middle, centre, spread = (array[panels.row] for array in (v, middle, centre, spread))
    margin = middle + shift
    slope = expit(-margin)
    curvature = slope * (1 - slope)
    # omega - location = shift + V (slope at the middle - slope); at small shifts that difference is a product
    product = expit(middle) * slope * np.expm1(np.clip(shift, -1, 1))
    deviation = (shift + v * np.where(np.abs(shift) < 1, product, expit(-middle) - slope)) / spread
    stretch = 1 + v * curvature
    weight = _normalised(weight * stretch * np.exp(-(deviation**2) / 2), panels)
    field = centre + spread * deviation
    return FieldNodes(panels.row, panels.starts, deviation, field, margin, slope, curvature / stretch, weight)


def _in_field(
    edges: np.ndarray, location: np.ndarray, scale: np.ndarray
) -> tuple[_Panels, np.ndarray, np.ndarray, np.ndarray]:
    """Panels, deviations, fields and weights with nodes placed in (omega - location) / scale."""
    panels = _panels(_standard_edges(edges, location, scale))
    deviation, weight = gauss_rule(panels.low, panels.width, _NODES)
    field = location[panels.row][:, None] + scale[panels.row][:, None] * deviation
    return panels, deviation, field, _normalised(weight * np.exp(-(deviation**2) / 2), panels)


def _normalised(weight: np.ndarray, panels: _Panels) -> np.ndarray:
    return weight / np.add.reduceat(weight.sum(axis=1), panels.starts)[panels.row][:, None]


def _around_zero(reach: float) -> np.ndarray:
    """Dyadic edges up to `reach` for functions with the poles of the logistic function, at i pi."""
    count = np.ceil(np.log2(max(reach, np.pi) / np.pi)) + 1
    right = np.pi * 2.0 ** np.arange(count)
    return np.concatenate([-right[::-1], [0.0], right])


def _standard_edges(edges: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        standard = np.clip((edges - location[:, None]) / scale[:, None], -_REACH, _REACH)
    base = np.broadcast_to(np.arange(-_REACH, _REACH + 1.0), (location.size, 2 * _REACH + 1))
    return np.sort(np.column_stack([base, standard]), axis=1)


def _panels(edges: np.ndarray) -> _Panels:
    """The panels of positive width between sorted edges; every row has one at least."""
    width = np.diff(edges, axis=1)
    row, column = np.nonzero(width > 0)
    starts = np.searchsorted(row, np.arange(len(edges)))
    return _Panels(row, starts, edges[row, column], width[row, column])
