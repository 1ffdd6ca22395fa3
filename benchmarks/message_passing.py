"""State evolution: a logistic learning curve of 10 points from a 1000 x 1000 covariance, and a perceptron's.

CPU seconds after start (imports done, one warm-up), BLAS on one thread, the eigendecomposition included. The baseline
is a minimal version of the published GCMProject scripts (`benchmarks/_gcm.py`, nested adaptive quadrature around a
scalar minimiser), which took 66 to 97 s for such a curve elsewhere; two of the ten points are timed here, times 5.
Tree-AMP's 0.9 s for a perceptron's state evolution was measured elsewhere: it could not be installed here. The best
estimate of weights that are signs has no peer here; its curve of fixed points is made anew each time. The last rows are
random sequential message passing (aspect ratio 3, flips of 10%, twice the matched inverse temperature, updates with
probability 0.25) on one instance, its draw included, and the static solution that it needs.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

D = 1000
SHARE = (2, 7)
TREE_AMP_SECONDS = 0.9
LATENT, STEPS = 32_768, 60


def message_passing() -> Benchmark:
    import numpy as np
    from threadpoolctl import threadpool_limits

    from benchmarks._gcm import gcm_curve
    from unlazy.theory.message_passing.optimal import SignWeights, _fixed_points, optimal_estimate
    from unlazy.theory.message_passing.state_evolution.glm import glm_state_evolution, glm_state_evolution_matrices
    from unlazy.theory.message_passing.teachers import SignTeacher

    covariance, cross = _population()
    sizes, penalty, flip = np.geomspace(100, 5000, 10), 0.02, 0.05

    def curve() -> Any:
        return glm_state_evolution_matrices(covariance, cross, 1.0, sizes, penalty, label_law=SignTeacher(flip))

    def baseline() -> Any:
        return gcm_curve(covariance, cross, 1.0, sizes[list(SHARE)], penalty, flip)

    def perceptron() -> Any:
        return glm_state_evolution([1 / D], 1 / D**2, 1.0, np.linspace(0.5, 5, 10) * D, 0.1, multiplicities=D)

    def optimal() -> Any:
        _fixed_points.cache_clear()
        return optimal_estimate(np.linspace(0.5, 5, 10), SignWeights(), SignTeacher())

    with threadpool_limits(1, user_api="blas"):
        fast = interleaved(
            {
                "curve": curve,
                "perceptron": perceptron,
                "optimal": optimal,
                "eigh": lambda: np.linalg.eigh(covariance),
                "sequential": _sequential,
                "static": _static,
            },
            rounds=7,
            clock=time.process_time,
        )
        begin = time.process_time()
        slow = baseline()
        once = (time.process_time() - begin) * len(sizes) / len(SHARE)
    found = curve()
    apart = max(
        abs(float(getattr(found, name)[index]) / value - 1)
        for index, point in zip(SHARE, slow, strict=True)
        for name, value in point.items()
    )
    count = len(fast["curve"])
    return Benchmark(
        [
            Row(f"logistic curve of 10 points, d = {D}", fast["curve"], "CPU s", at_most=0.7),
            Row("of that the eigendecomposition", fast["eigh"], "CPU s"),
            against("GCMProject's quadrature", "logistic curve", ratios([once] * count, fast["curve"]), at_least=50),
            Row("the two apart, relative", [apart], "", at_most=1e-6),
            Row("perceptron of 10 points", fast["perceptron"], "CPU s", at_most=0.1),
            Row("best estimate of 10 points, weights are signs", fast["optimal"], "CPU s", at_most=0.2),
            against("Tree-AMP", "perceptron", ratios([TREE_AMP_SECONDS] * count, fast["perceptron"]), quoted=True),
            Row(f"sequential run of {STEPS} steps, N = {LATENT}", fast["sequential"], "CPU s", at_most=2.0),
            Row("its static solution", fast["static"], "CPU s", at_most=0.1),
        ],
        ["Tree-AMP was not run, as it could not be installed here: its 0.9 s is of another machine"],
    )


def _static() -> Any:
    import math

    from unlazy.theory.message_passing.sequential.inference import static_solution, wishart_ensemble

    return static_solution(wishart_ensemble(3.0), 2 * math.log(9), 0.1)


def _sequential() -> Any:
    import numpy as np

    from unlazy.theory.message_passing.sequential.inference import wishart_ensemble
    from unlazy.training.message_passing.sequential import algorithm, draw_instance, fast_rotation, quantiles, run

    rng = np.random.default_rng(0)
    spectra = quantiles(wishart_ensemble(3.0), LATENT)
    instance = draw_instance(rng, fast_rotation(rng, LATENT), *spectra, 0.1)
    return run(rng, instance, algorithm(instance, [_static()], 0.25), STEPS)


def _population() -> tuple[Any, Any]:
    """A covariance with eigenvalues 1/j and trace 1, and its product with a random teacher of variance 1."""
    import numpy as np

    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    spectrum = 1 / np.arange(1, D + 1)
    covariance = (basis * (spectrum / spectrum.sum())) @ basis.T
    covariance = (covariance + covariance.T) / 2
    teacher = rng.standard_normal(D)
    return covariance, covariance @ teacher / np.sqrt(teacher @ covariance @ teacher)
