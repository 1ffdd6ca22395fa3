"""What several studies of regression share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.regression.shared import cases, learned_metric, risk_panels

lazily(__name__)
