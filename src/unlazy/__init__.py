"""unlazy: a laboratory for feature learning.

`unlazy.run(study)` simulates, predicts and judges; `unlazy.predict(study)` gives the theory alone. The subpackages
`theory`, `functions` and `numerics` are plain NumPy and stand alone.
"""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy import (
        data,
        diagnostics,
        estimators,
        functions,
        lab,
        models,
        numerics,
        observables,
        optim,
        plotting,
        studies,
        theory,
        training,
    )
    from unlazy.checks import InputError
    from unlazy.lab.running.result import Run
    from unlazy.lab.running.run import predict, run
    from unlazy.version import __version__

lazily(__name__)
