"""The vocabulary that theory and simulation share, for NumPy and JAX arrays alike."""

from unlazy.functions.activations import ACTIVATIONS, Activation, activation
from unlazy.functions.spectra import power_law, two_level

__all__ = ["ACTIVATIONS", "Activation", "activation", "power_law", "two_level"]
