"""What several studies of regression share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.regression.shared import learned_metric, sources

lazily(__name__)
