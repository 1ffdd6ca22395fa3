"""One door for a table of your own: which method predicts a column best, how well, and what it needs."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.fitting.answer import FittedTable, fit
    from unlazy.diagnostics.fitting.files import check_model_file, load_model, save_model
    from unlazy.diagnostics.fitting.pages import check_page

lazily(__name__)
