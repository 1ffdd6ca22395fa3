"""What is measured on the way."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.observables import (
        alignment,
        degrees_of_freedom,
        displacement,
        filter_spectrum,
        kernels,
        label_slices,
        linearised,
        localisation,
        transport,
    )

lazily(__name__)
