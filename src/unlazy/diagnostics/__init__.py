"""What a user's own data say, measured with the project's theory."""

from unlazy.diagnostics.ridge_report import RidgeForecast, RidgeReport, ridge_report

__all__ = ["RidgeForecast", "RidgeReport", "ridge_report"]
