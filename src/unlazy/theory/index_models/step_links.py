"""Odd links of three jumps that gradients see from degree 3 on, and of which a transform of the label may see more."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.checks import check_array
from unlazy.functions.elementwise import Link, array_namespace


def step_link(height: float = 1.0) -> Link:
    """The link sign(z) where |z| < c and -height sign(z) beyond, c = sqrt(2 log(1 + height)).

    The place of the jump makes E[g(z) z] = 2 phi(0) - 2 (1 + height) phi(c) = 0, so that the information exponent is 3.
    At height 1 the label is a sign: all transforms of it are linear, and the generative exponent is 3, too. It is
    superorthogonal with K = 2 for all powers. At any other height |g| tells on which side of c the input is, the label
    then has a mean of z, and the generative exponent is 1.

    >>> from unlazy.theory import generative_exponent, information_exponent
    >>> links = [step_link(1.0), step_link(2.0)]
    >>> [information_exponent(link).exponent for link in links]
    [3, 3]
    >>> [generative_exponent(link).exponent for link in links]
    [3, 1]
    """
    outer = float(check_array("height", height, ndim=0, above=0, high=1e6))
    jump = float(np.sqrt(2 * np.log1p(outer)))
    return Link(f"step link of height {outer:g}", lambda z: step_labels(z, outer), np.zeros_like, (-jump, 0.0, jump))


def step_labels(z: Any, height: Any) -> Any:
    """`step_link(height)` at z, of NumPy or JAX, where the height may be traced."""
    xp = array_namespace(z)
    return xp.sign(z) * xp.where(z**2 < 2 * xp.log1p(height), 1.0, -height)
