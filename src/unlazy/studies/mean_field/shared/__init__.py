"""What several studies of mean field share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.mean_field.shared import exact_checks, stein_targets, tanh_network

lazily(__name__)
