"""What several studies of diffusion share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.diffusion.shared import discretisation, rate_fits, rate_lines, score_errors

lazily(__name__)
