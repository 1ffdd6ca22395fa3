"""What more rows of a table would bring."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.forecasting.answer import Forecast, MethodForecast, forecast
    from unlazy.diagnostics.forecasting.request import check_request

lazily(__name__)
