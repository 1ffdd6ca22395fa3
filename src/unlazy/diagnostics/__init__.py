"""What a user's own data say, measured with the project's theory."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.curves import Curve
    from unlazy.diagnostics.fitting import FittedTable, fit, load_model, save_model
    from unlazy.diagnostics.forecasting import Forecast, forecast
    from unlazy.diagnostics.index import IndexReport, index_report
    from unlazy.diagnostics.kernel_structure import KernelStructure, kernel_structure_test
    from unlazy.diagnostics.learning_curve import LearningCurve
    from unlazy.diagnostics.leave_one_out import LooPath, LooScores, loo_path, loo_scores
    from unlazy.diagnostics.overfitting import OverfitForecast, forecast_overfit
    from unlazy.diagnostics.pretraining import PretrainingPlan, plan_pretraining
    from unlazy.diagnostics.probing import (
        NetworkReport,
        ProbeCallback,
        TangentKernel,
        probe,
        probe_files,
        tangent_kernel,
    )
    from unlazy.diagnostics.ridge import RidgeForecast, RidgeReport, ridge_report

lazily(__name__)
