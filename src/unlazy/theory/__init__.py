"""Numbers without training: NumPy in, NumPy out, no data drawn. Every public name, topic by topic."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.diffusion import *
    from unlazy.theory.in_context import *
    from unlazy.theory.index_models import *
    from unlazy.theory.kernels import *
    from unlazy.theory.mean_field import *
    from unlazy.theory.message_passing import *
    from unlazy.theory.one_step import *
    from unlazy.theory.regression import *
    from unlazy.theory.signal_noise import *

lazily(__name__)
