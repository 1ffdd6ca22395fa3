"""What nature draws."""

from unlazy.data.normal import normal
from unlazy.data.single_index import SingleIndex

__all__ = ["SingleIndex", "normal"]
