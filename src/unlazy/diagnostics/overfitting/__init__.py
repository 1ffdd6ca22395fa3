"""The test error of a network that fits its data completely, forecast without training it."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.overfitting.forecast import OverfitForecast, forecast_overfit

lazily(__name__)
