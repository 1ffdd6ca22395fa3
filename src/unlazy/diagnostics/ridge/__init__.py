"""Ridge regression on a user's rows: which ridge, how good, in which regime."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.ridge.evidence import RidgeForecast
    from unlazy.diagnostics.ridge.report import RidgeReport, ridge_report

lazily(__name__)
