"""A transformer that is trained on prompts, next to learners that are told more or less, on the same test prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.training.in_context import prompt_learners, transformer
from unlazy.training.in_context.prompt_attention import TaskFamily


def train_and_compare(
    rng: np.random.Generator,
    saved: Any,
    stages: Sequence[int],
    sizes: transformer.TransformerSizes,
    *,
    linear: bool,
    d: int,
    context: int,
    noise_variance: float,
    rank: int,
    lowest_degree: int,
    highest_degree: int,
    segment: int,
    batch_size: int,
    step_size: float,
    optimiser: str,
    tests: int,
    shared_d: int = 0,
    shared_rank: int = 0,
) -> dict[str, Any]:
    """Errors of the transformer at the stages, and those of other learners, after every number of pairs.

    Tokens have `shared_d` coordinates, of which those beyond d are 0, and directions `shared_rank`: all d and ranks up
    to these share a program.
    """
    degrees = {} if linear else {"rank": max(rank, shared_rank)}
    degrees |= {} if linear else {"lowest_degree": lowest_degree, "highest_degree": highest_degree}
    law = transformer.PromptLaw(d if linear else max(d, shared_d), context, noise_variance, **degrees)
    # Adam knows the coordinates, so the subspace must not be that of the first ones.
    own = np.eye(d) if linear else np.linalg.qr(rng.standard_normal((d, rank)))[0]
    basis = own if linear else np.pad(own, ((0, law.d - d), (0, law.rank - rank)))
    seeds = rng.integers(2**31, size=2).tolist()
    schedule = transformer.Schedule(stages[-1], segment, batch_size, step_size, optimiser)
    errors, prompts = transformer.errors_at(stages, seeds, law, sizes, schedule, basis, tests, saved)
    if linear:
        return {
            "relative_risk": errors,
            "reference_relative_risk": prompt_learners.linear_references(prompts, noise_variance),
        }
    prompts = prompts._replace(inputs=prompts.inputs[:, :, :d])
    family = TaskFamily(own, lowest_degree, highest_degree, noise_variance)
    return {"relative_risk": errors, "reference_relative_risk": prompt_learners.index_references(prompts, family)}
