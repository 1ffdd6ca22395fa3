"""What several studies of index models share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.index_models.shared import importance, lasso, one_shot, traced_links

lazily(__name__)
