"""A sum of links, one of each index, fitted together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlazy.estimators.index.links import (
    Affine,
    BoundedLink,
    IndexLink,
    PolynomialLink,
    choose_kind,
    fit_kind,
    kinds,
    reach,
)
from unlazy.estimators.index.newton import IndexFit, mean_square

SMOOTH = "s8"
# on the diagonal of the terms' correlation matrix, which is singular where two directions agree
_JITTER = 1e-10
# of a term's largest scale: below it a column of the basis is empty
_EMPTY = 1e-9
# passes of backfitting where no terms are known yet
_FIRST_CYCLES = 3
# passes in which the kinds of links may still change
_CHOICE_CYCLES = 3


@dataclass(frozen=True)
class SumOfLinks:
    """f(t) = sum_m g_m(t_m), every g_m of mean 0 over the rows it was fitted to."""

    links: tuple[IndexLink, ...]

    def __call__(self, indices: Any) -> np.ndarray:
        return self.terms(indices).sum(axis=1)

    def terms(self, indices: Any) -> np.ndarray:
        """g_m(t_m), (n, M)."""
        return np.column_stack([link(t) for link, t in zip(self.links, np.asarray(indices).T, strict=True)])

    def slopes(self, indices: Any) -> np.ndarray:
        return np.column_stack([link.slope(t) for link, t in zip(self.links, np.asarray(indices).T, strict=True)])


class TermSmoother:
    """Fits a sum of links of given kinds; it starts from the terms of the last fit, which are near in a search."""

    def __init__(self, wanted: tuple[str, ...]):
        self.kinds = wanted
        self._terms: np.ndarray | None = None

    def __call__(self, indices: np.ndarray, labels: np.ndarray) -> IndexFit:
        warm = self._terms is not None and self._terms.shape == indices.shape
        terms = np.array(self._terms) if warm else np.zeros(indices.shape)
        fit = fit_terms(indices, labels, self.kinds, terms, 1 if warm else _FIRST_CYCLES)
        self._terms = fit.function.terms(indices)
        return fit


def fit_terms(
    indices: np.ndarray, labels: np.ndarray, wanted: tuple[str, ...], terms: np.ndarray, cycles: int
) -> IndexFit:
    """Penalised least squares for all links at once.

    Passes over the terms choose each smoothness on what the others leave (backfitting); with these penalties S_m

        min sum_i (y_i - sum_m B_m(t_im) c_m)^2 + sum_m c_m^T S_m c_m

    is solved exactly, the B_m centred, so that no constant can go from one term to another.
    """
    terms = np.array(terms)
    fits: list[IndexFit] = []
    for _ in range(cycles):
        fits = []
        for m, kind in enumerate(wanted):
            partial = labels - terms.sum(axis=1) + terms[:, m]
            fit = fit_kind(indices[:, m], partial, kind)
            terms[:, m] = fit.values - fit.values.mean()
            fits.append(fit)
    means = [fit.basis.mean(axis=0) for fit in fits]
    basis = np.column_stack([fit.basis - mean for fit, mean in zip(fits, means, strict=True)])
    gram = basis.T @ basis
    penalised = np.array(gram)
    ends = np.cumsum([0, *(fit.basis.shape[1] for fit in fits)])
    for fit, begin, end in zip(fits, ends, ends[1:], strict=False):
        if not isinstance(fit.function, PolynomialLink):
            penalty = np.linalg.inv(fit.inverse) - fit.basis.T @ fit.basis
            penalised[begin:end, begin:end] += (penalty + penalty.T) / 2
    scale = np.sqrt(np.diag(penalised))
    scale[scale <= _EMPTY * max(float(scale.max()), 1e-300)] = np.inf
    inverse = np.linalg.inv(penalised / np.outer(scale, scale) + _JITTER * np.eye(len(scale))) / np.outer(scale, scale)
    coefficients = inverse @ (basis.T @ labels)
    coefficients += inverse @ (basis.T @ labels - penalised @ coefficients)
    values = basis @ coefficients + labels.mean()
    links = tuple(
        Affine(replace(fit.function, coefficients=tuple(coefficients[begin:end].tolist())), -float(mean @ own), 1.0)
        for fit, mean, begin, end in zip(fits, means, ends, ends[1:], strict=False)
        for own in (coefficients[begin:end],)
    )
    return IndexFit(
        SumOfLinks(links), values, basis, inverse, mean_square(labels - values), float(np.sum(inverse * gram))
    )


def choose_kinds(
    indices: np.ndarray, labels: np.ndarray, fit: IndexFit, columns: int, only: dict[int, str] | None = None
) -> tuple[str, ...]:
    """The link of least BIC for every term, given the others; `only` says with which letter that of a term begins."""
    terms = fit.function.terms(indices)
    spent = columns * indices.shape[1] + fit.freedom
    allowed = [kinds(labels.size, np.unique(t).size) or ("p1",) for t in indices.T]
    for m, letter in (only or {}).items():
        allowed[m] = tuple(kind for kind in allowed[m] if kind[0] == letter) or ("p1",)
    found: tuple[str, ...] = ()
    for _ in range(_CHOICE_CYCLES):
        last, chosen = found, []
        for m, t in enumerate(indices.T):
            partial = labels - terms.sum(axis=1) + terms[:, m]
            chosen.append(choose_kind(t, partial, allowed[m], spent))
            values = fit_kind(t, partial, chosen[-1]).values
            terms[:, m] = values - values.mean()
        found = tuple(chosen)
        if found == last:
            break
    return found


def limited_terms(indices: np.ndarray, labels: np.ndarray, fit: IndexFit, wanted: tuple[str, ...]) -> SumOfLinks:
    """The fitted sum, whose links are constant where they are no longer known."""
    terms = fit.function.terms(indices)
    links = []
    for m, (t, kind, link) in enumerate(zip(indices.T, wanted, fit.function.links, strict=True)):
        partial = labels - terms.sum(axis=1) + terms[:, m]
        links.append(BoundedLink(link, *reach(fit_kind(t, partial, kind), kind, t, partial, fit.freedom)))
    return SumOfLinks(tuple(links))
