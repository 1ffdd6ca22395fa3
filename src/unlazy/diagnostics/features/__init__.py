"""What a trained network learned: the signal that a class shares, or the noise of single samples."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.features.probe import FeatureProbe, feature_probe

lazily(__name__)
