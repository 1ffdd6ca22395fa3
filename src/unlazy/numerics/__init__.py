"""The project's numerical methods, one of each kind."""

from unlazy.numerics.ridge_path import (
    ConditionalRisk,
    RidgeDecomposition,
    RidgePath,
    conditional_risk,
    decompose,
    ridge_path,
)
from unlazy.numerics.roots import ConvergenceError, increasing_root

__all__ = [
    "ConditionalRisk",
    "ConvergenceError",
    "RidgeDecomposition",
    "RidgePath",
    "conditional_risk",
    "decompose",
    "increasing_root",
    "ridge_path",
]
