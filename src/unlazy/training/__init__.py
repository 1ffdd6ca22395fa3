"""How it is trained: one loop."""

from unlazy.training.loop import Training, train

__all__ = ["Training", "train"]
