"""What several studies of kernels share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.kernels.shared import curves_from_data, features, spectrum, sphere

lazily(__name__)
