"""Training strategies that optax lacks, in its manner: losses with random labels or inputs, and transformations.

What optax has is not here: `optax.sign_sgd`, `optax.contrib.sam`, `optax.contrib.normalize`, `optax.contrib.muon`.
"""

from unlazy.optim.label_noise import label_noise
from unlazy.optim.langevin_noise import LangevinNoiseState, langevin_kick, langevin_noise
from unlazy.optim.mixup import mixup
from unlazy.optim.polar_factor import scale_by_polar_factor
from unlazy.optim.sam_then import SamThenState, sam_then
from unlazy.optim.stop_at_margin import StopAtMarginState, stop_at_margin

__all__ = [
    "LangevinNoiseState",
    "SamThenState",
    "StopAtMarginState",
    "label_noise",
    "langevin_kick",
    "langevin_noise",
    "mixup",
    "sam_then",
    "scale_by_polar_factor",
    "stop_at_margin",
]
