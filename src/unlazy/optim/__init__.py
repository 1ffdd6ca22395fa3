"""Training strategies that optax lacks, in its manner: losses with random labels or inputs, and transformations.

`ascent`, `langevin_kick` and `replaced` are their formulas, by which the engines of `unlazy.training` do the same in
coordinates of their own. What optax has is not here: `optax.sign_sgd`, `optax.contrib.sam`, `optax.contrib.normalize`,
`optax.contrib.muon`.
"""

from unlazy.optim.label_noise import label_noise, replaced
from unlazy.optim.langevin_noise import LangevinNoiseState, langevin_kick, langevin_noise
from unlazy.optim.mixup import mixup
from unlazy.optim.polar_factor import scale_by_polar_factor
from unlazy.optim.sam_then import SamThenState, ascent, sam_then
from unlazy.optim.stop_at_margin import StopAtMarginState, stop_at_margin

__all__ = [
    "LangevinNoiseState",
    "SamThenState",
    "StopAtMarginState",
    "ascent",
    "label_noise",
    "langevin_kick",
    "langevin_noise",
    "mixup",
    "replaced",
    "sam_then",
    "scale_by_polar_factor",
    "stop_at_margin",
]
