"""What is trained: Equinox modules."""

from unlazy.models.two_layer import TwoLayer

__all__ = ["TwoLayer"]
