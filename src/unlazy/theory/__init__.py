"""Numbers without training: NumPy in, NumPy out, no data drawn."""

from unlazy.theory.ridge import (
    RidgeCurve,
    RidgeEquivalent,
    ridge_curve_by_effective_ridge,
    ridge_equivalent,
    ridge_equivalent_matrices,
)

__all__ = [
    "RidgeCurve",
    "RidgeEquivalent",
    "ridge_curve_by_effective_ridge",
    "ridge_equivalent",
    "ridge_equivalent_matrices",
]
