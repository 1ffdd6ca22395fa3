"""What is measured on the way."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.observables import (
        alignment,
        class_means,
        degrees_of_freedom,
        displacement,
        feature_kernels,
        filter_spectrum,
        kernels,
        label_slices,
        left_out_labels,
        linearised,
        localisation,
        margins,
        transport,
        weight_change,
    )

lazily(__name__)
