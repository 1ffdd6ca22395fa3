"""What is measured on the way."""

from unlazy.observables.alignment import target_alignment
from unlazy.observables.displacement import Displacement, displacement
from unlazy.observables.kernels import conjugate_kernel, first_layer_tangent_kernel, relative_change, tangent_kernel
from unlazy.observables.linearised import linearised_displacement

__all__ = [
    "Displacement",
    "conjugate_kernel",
    "displacement",
    "first_layer_tangent_kernel",
    "linearised_displacement",
    "relative_change",
    "tangent_kernel",
    "target_alignment",
]
