"""unlazy: a laboratory for feature learning.

`unlazy.run(study)` simulates, predicts and judges; `unlazy.predict(study)` gives the theory alone. The subpackages
`theory`, `functions` and `numerics` are plain NumPy and stand alone.
"""

import os

from unlazy.doors import lazily

# jaxlib 0.10 takes two tuning preferences of LLVM for instructions that the processor lacks, and says so in lines of
# 4,000 letters for every kept program that it loads (jax issue 38445). It reads this when it is imported; what goes
# really wrong is an exception.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

TYPE_CHECKING = False
"""What `typing` calls so: to import that takes longer than all the rest of this file."""
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
    from unlazy.diagnostics.fitting import fit
    from unlazy.lab.running.result import Run
    from unlazy.lab.running.run import predict, run
    from unlazy.version import __version__

lazily(__name__)
