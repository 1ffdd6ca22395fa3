"""Kernel theory against what one would do instead: train at every point, or form every spectrum.

BLAS on one thread. The training of KernelRidge is timed on a few of the 50 sizes x 30 ridges and scaled up by the cube
of the size, which favours it. The eigenlearning repository's number was measured elsewhere and is quoted. A feature
product is the making of Phi and Phi Phi^T as the simulation does it; its rate is compared with that of one large GEMM.
"""

from __future__ import annotations

import itertools
import time

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

PEER_SECONDS = 0.76
TIMED = (200, 500, 1000)
DIGITS_SIZES = (600, 3000)


def kernels() -> Benchmark:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        theory, notes = _theory()
        return Benchmark([*theory, *_density(), *_products(), *_curve()], notes)


def _theory() -> tuple[list[Row], list[str]]:
    import numpy as np
    from sklearn.kernel_ridge import KernelRidge

    from unlazy.theory.kernels.random_features import kernel_regression_equivalent

    rng = np.random.default_rng(0)
    modes = np.arange(1, 10_001.0)
    six = np.array([10, 30, 100, 300, 1000, 3000.0])
    eigenvalues, energies = np.sort(rng.gamma(0.3, size=2000))[::-1] + 1e-9, rng.gamma(0.5, size=2000)
    sizes, ridges = np.geomspace(10, 2000, 50), np.geomspace(1e-4, 10, 30)
    x, y = rng.standard_normal((max(TIMED), 20)), rng.standard_normal(max(TIMED))
    calls = {
        "six": lambda: kernel_regression_equivalent(modes**-1.5, modes**-2.0, six, 1e-3, 0.05),
        "grid": lambda: kernel_regression_equivalent(eigenvalues, energies, sizes[:, None], ridges, 0.1),
    }
    seconds = interleaved(calls, rounds=15, clock=time.process_time)
    training = interleaved(
        {f"{n}": lambda n=n: KernelRidge(alpha=0.1, kernel="rbf").fit(x[:n], y[:n]) for n in TIMED},
        rounds=3,
        clock=time.process_time,
    )
    per_cube = min(min(training[f"{n}"]) / n**3 for n in TIMED)
    total = ridges.size * per_cube * np.sum(sizes**3)
    return [
        Row("10,000 modes at 6 sizes", [1e3 * t for t in seconds["six"]], "CPU ms", at_most=5),
        against("eigenlearning", "10,000 modes at 6 sizes", ratios([PEER_SECONDS] * 15, seconds["six"]), quoted=True),
        Row("50 sizes x 30 ridges from 2,000 eigenvalues", [1e3 * t for t in seconds["grid"]], "CPU ms", at_most=100),
        against("KernelRidge at each", "50 sizes x 30 ridges", ratios([total] * 15, seconds["grid"]), at_least=200),
    ], [
        f"eigenlearning's {PEER_SECONDS} s were measured on another machine",
        f"KernelRidge was trained at {TIMED} only: {total:.0f} s for all points, by the best time per n^3",
    ]


def _density() -> list[Row]:
    import numpy as np

    from unlazy.functions.orthogonal import Gegenbauer
    from unlazy.theory.kernels.spectrum import function_spectrum

    law = function_spectrum("relu", Gegenbauer(45), 1500)
    x = np.linspace(-1, 5, 1000)
    seconds = interleaved({"density": lambda: law.density(x)}, rounds=9, clock=time.process_time)["density"]
    return [Row("density of a spectrum on 1,000 points", [1e3 * t for t in seconds], "CPU ms", at_most=50)]


def _products() -> list[Row]:
    import numpy as np

    n, p, d = 800, 3200, 30
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((n, d)), rng.standard_normal((p, d))
    left, right = rng.standard_normal((n, p)), rng.standard_normal((p, n))

    def features() -> None:
        phi = np.maximum(x @ w.T, 0.0) / np.sqrt(p)
        phi @ phi.T

    seconds = interleaved({"features": features, "gemm": lambda: left @ right}, rounds=9)
    work = 2 * n * p * (n + d)
    rate = [work / t for t in seconds["features"]]
    best = [2 * n * p * n / t for t in seconds["gemm"]]
    return [Row("rate of feature products over that of a GEMM", ratios(rate, best), "", at_least=0.5)]


def _curve() -> list[Row]:
    import numpy as np
    from sklearn.kernel_ridge import KernelRidge

    from unlazy.data.real import load
    from unlazy.diagnostics.learning_curve.curve import LearningCurve

    data = load("digit_classes")
    x = data.inputs / 16
    gamma = 1 / (x.shape[1] * x.var())
    sizes, penalties = np.geomspace(50, 1797, 50), np.geomspace(1e-3, 10, 30)
    fast = LearningCurve("rbf", gamma=gamma, penalty=0.3, method="fast").fit(x, data.targets)
    pointwise = LearningCurve("rbf", gamma=gamma, penalty=0.3, method="pointwise").fit(x, data.targets)
    # a size that was asked for before is remembered, so that every round asks for another
    below, beyond = (itertools.count(size, 7) for size in DIGITS_SIZES)
    calls = {
        "fit": lambda: fast.fit(x, data.targets),
        "grid": lambda: fast.predict(n=sizes[:, None], penalty=penalties),
        "pointwise": lambda: pointwise.predict(n=next(below)),
        "beyond": lambda: pointwise.predict(n=next(beyond)),
        "training": lambda: KernelRidge(alpha=0.3, kernel="rbf", gamma=gamma).fit(x, data.targets),
    }
    seconds = interleaved(calls, rounds=2, clock=time.process_time)
    return [
        Row("digits, 1,797 rows: fit (one decomposition)", seconds["fit"], "CPU s"),
        Row("digits: 50 sizes x 30 penalties after it, with intervals", seconds["grid"], "CPU s"),
        Row(f"digits: pointwise at n = {DIGITS_SIZES[0]} or so", seconds["pointwise"], "CPU s", at_most=10),
        Row(f"digits: pointwise at n = {DIGITS_SIZES[1]} or so", seconds["beyond"], "CPU s"),
        Row("digits: one KernelRidge fit, for comparison", seconds["training"], "CPU s"),
    ]
