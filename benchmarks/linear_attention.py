"""Pretraining linear attention with twice as many prompts as weights, and the theory of it.

CPU seconds after start (imports done, one warm-up), BLAS on one thread; alpha = 2, kappa = 1/2, rho = 0.25, ridge 1e-6.
Prompts and weights are timed together. The dense solver forms the normal matrix of all d (d+1) products; drawn contexts
are the l tokens and labels of every prompt, which the exact law of their features replaces. The stream draws prompts
anew in every iteration and stores none.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

NOISE, RIDGE = 0.25, 1e-6
SMALL, MEDIUM, LARGE = 40, 64, 100
PATH_SIZE = 20


def linear_attention() -> Benchmark:
    import numpy as np
    from threadpoolctl import threadpool_limits

    from unlazy.theory.in_context.linear_attention import linear_attention_errors, optimal_ridge
    from unlazy.training.in_context.linear_attention import PromptStream, draw_prompts, pretrained_weights

    prompts = np.geomspace(0.01, 100, 200)
    path = np.geomspace(1e-6, 10, PATH_SIZE)

    def tasks_of(d: int) -> Any:
        return np.random.default_rng(d).standard_normal((d // 2, d))

    def prompts_of(d: int, ratio: float = 2.0) -> Any:
        return draw_prompts(np.random.default_rng(0), tasks_of(d), round(ratio * d * (d + 1)), 2 * d, NOISE)

    def drawn_contexts() -> None:
        """What a prompt costs if its tokens are drawn: normal numbers and the sum of y x alone."""
        rng = np.random.default_rng(0)
        for _ in range(2 * (MEDIUM + 1)):
            tokens = rng.standard_normal((MEDIUM, 2 * MEDIUM, MEDIUM))
            np.einsum("nid,ni->nd", tokens, tokens[:, :, 0])

    small, few = prompts_of(SMALL), prompts_of(SMALL, 0.5)
    stream = PromptStream(0, tasks_of(MEDIUM), 2 * MEDIUM * (MEDIUM + 1), 2 * MEDIUM, NOISE)
    with threadpool_limits(1, user_api="blas"):
        fast = interleaved(
            {
                "curve": lambda: linear_attention_errors(prompts, 2, 0.5, 0.1, NOISE),
                "optimal": lambda: optimal_ridge(prompts, 2, 0.5, NOISE),
            },
            rounds=9,
            clock=time.process_time,
        )
        slow = interleaved(
            {
                "medium": lambda: pretrained_weights(prompts_of(MEDIUM), RIDGE),
                "large": lambda: pretrained_weights(prompts_of(LARGE), RIDGE),
                "stream": lambda: pretrained_weights(stream, RIDGE),
                "iterative": lambda: pretrained_weights(small, RIDGE, method="iterative"),
                "dense": lambda: pretrained_weights(small, RIDGE, method="primal"),
                "law": lambda: prompts_of(MEDIUM),
                "contexts": drawn_contexts,
                "path": lambda: pretrained_weights(few, path),
                "one by one": lambda: [pretrained_weights(few, ridge) for ridge in path],
            },
            rounds=3,
            clock=time.process_time,
        )
        dense, iterative = (pretrained_weights(small, RIDGE, method=name) for name in ("primal", "iterative"))
    apart = float(np.abs(dense - iterative).max() / np.abs(dense).max())
    return Benchmark(
        [
            Row("theory, curve of 200 points", [1e3 * t for t in fast["curve"]], "CPU ms", at_most=100),
            Row("the same at the optimal ridge", [1e3 * t for t in fast["optimal"]], "CPU ms"),
            Row(f"d = {MEDIUM}, tau = 2: prompts and weights", slow["medium"], "CPU s", at_most=3),
            Row(f"d = {LARGE}, tau = 2: prompts and weights", slow["large"], "CPU s", at_most=15),
            Row(f"d = {MEDIUM}, prompts drawn anew in every iteration", slow["stream"], "CPU s"),
            against("the dense normal matrix", f"weights, d = {SMALL}", ratios(slow["dense"], slow["iterative"])),
            against("drawing the contexts", f"prompts, d = {MEDIUM}", ratios(slow["contexts"], slow["law"])),
            Row(f"d = {SMALL}, tau = 1/2: path of {PATH_SIZE} ridges", slow["path"], "CPU s"),
            against("one ridge at a time", f"path of {PATH_SIZE} ridges", ratios(slow["one by one"], slow["path"])),
        ],
        [f"dense and iterative weights are {apart:.0e} of the largest weight apart"],
    )
