"""How many tasks, rows and prompts pretraining needs."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.pretraining.plan import PlanOption, PretrainingPlan, plan_pretraining

lazily(__name__)
