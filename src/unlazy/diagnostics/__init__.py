"""What a user's own data say, measured with the project's theory."""

from typing import TYPE_CHECKING, Any

from unlazy.diagnostics.feature_probe import FeatureProbe, feature_probe
from unlazy.diagnostics.index_report import IndexReport, index_report
from unlazy.diagnostics.kernel_structure import KernelStructure, kernel_structure_test
from unlazy.diagnostics.loo_scores import LooPath, LooScores, loo_path, loo_scores
from unlazy.diagnostics.overfit_forecast import OverfitForecast, forecast_overfit
from unlazy.diagnostics.plan_pretraining import PretrainingPlan, plan_pretraining
from unlazy.diagnostics.ridge_report import RidgeForecast, RidgeReport, ridge_report

if TYPE_CHECKING:
    from unlazy.diagnostics.learning_curve import LearningCurve

__all__ = [
    "FeatureProbe",
    "IndexReport",
    "KernelStructure",
    "LearningCurve",
    "LooPath",
    "LooScores",
    "OverfitForecast",
    "PretrainingPlan",
    "RidgeForecast",
    "RidgeReport",
    "feature_probe",
    "forecast_overfit",
    "index_report",
    "kernel_structure_test",
    "loo_path",
    "loo_scores",
    "plan_pretraining",
    "ridge_report",
]


def __getattr__(name: str) -> Any:
    # its base class is scikit-learn's, which is heavy
    if name == "LearningCurve":
        from unlazy.diagnostics.learning_curve import LearningCurve

        return LearningCurve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
