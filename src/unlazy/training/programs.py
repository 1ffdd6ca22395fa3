"""Compiled programs of hosted studies, whose instances run in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

_COMPILING = threading.Lock()
_PROGRAMS: dict[Any, Callable[..., Any]] = {}


def compiled(key: Hashable, function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The program of a function that the key stands for, at the arguments' shapes; only one thread compiles it."""
    known = key, tuple(np.shape(leaf) for leaf in jax.tree.leaves(arguments))
    with _COMPILING:
        if known not in _PROGRAMS:
            _PROGRAMS[known] = jax.jit(function).lower(*arguments).compile()
    return _PROGRAMS[known]
