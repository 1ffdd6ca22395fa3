"""unlazy: a laboratory for feature learning.

`unlazy.run(study)` simulates, predicts and judges; `unlazy.predict(study)` gives the theory alone. The subpackages
`theory`, `functions` and `numerics` are plain NumPy and stand alone.
"""

import importlib as _importlib
from typing import Any as _Any

from unlazy.errors import InputError
from unlazy.lab.result import Run
from unlazy.lab.run import predict, run

__all__ = ["InputError", "Run", "__version__", "predict", "run"]

_SUBPACKAGES = (
    *("data", "diagnostics", "estimators", "functions", "lab", "models", "numerics", "observables", "optim"),
    *("plotting", "studies", "theory", "training"),
)


def __getattr__(name: str) -> _Any:
    if name in _SUBPACKAGES:
        return _importlib.import_module(f"unlazy.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("unlazy")
    raise AttributeError(f"module 'unlazy' has no attribute {name!r}")
