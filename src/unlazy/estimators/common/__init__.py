"""What all estimators ask of their rows: checks, scales, folds, and the gate between models."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.common import folds, gate, inputs, scaling

lazily(__name__)
