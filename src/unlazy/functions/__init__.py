"""The vocabulary that theory and simulation share, for NumPy and JAX arrays alike."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.functions import orthogonal
    from unlazy.functions.elementwise import ACTIVATIONS, LINKS, Activation, Link, as_activation, as_link, polynomial
    from unlazy.functions.rough_densities import rough_density
    from unlazy.functions.spectra import harmful_example, index_blocks, misaligned_example, power_law, two_level

lazily(__name__)
