"""The chance of verdicts against what fresh streams of real studies say."""

import numpy as np
import pytest

from unlazy.lab import registry
from unlazy.lab.grid import MAIN, preset_grids
from unlazy.lab.running.laboratory import Laboratory

STUDIES = (
    "additive-localisation",
    "batch-reuse",
    "girsanov-bound",
    "information-exponent",
    "label-noise-gradient-descent",
    "large-learning-rate",
    "monomial-transform",
    "optimal-bound",
    "ridge-equivalent",
    "xor-overfitting",
)
STREAMS = (MAIN, *(f"try-{number}" for number in range(10)))
SEEDS = 8
"""Fewer than the presets have, whose verdicts are nearly sure."""


@pytest.fixture(scope="module")
def chances(tmp_path_factory):
    """The chance of each verdict of each stream, and the share of the other streams that have the same one."""
    found = []
    with Laboratory(tmp_path_factory.mktemp("chances") / "results.sqlite") as laboratory:
        for name in STUDIES:
            study = registry.find(name)
            grids = [preset_grids(study, "quick", seeds=SEEDS, stream=stream) for stream in STREAMS]
            for verdicts in zip(*(laboratory.run(study, one).verdicts for one in grids), strict=True):
                for verdict in verdicts:
                    if verdict.claim.kind != "theory" and verdict.verdict in ("holds", "fails"):
                        same = sum(other.verdict == verdict.verdict for other in verdicts) - 1
                        found.append((verdict.chance, same / (len(verdicts) - 1)))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(0, 0.8), (0.8, 0.95), (0.95, 0.999), (0.999, 1.01)])
def test_fresh_streams_repeat_verdicts_as_often_as_their_chances_say(chances, low, high):
    """A tenth more at most is promised, and with so few seeds a fifth less: the worst of many cases is always a little
    worse than it will be again (seen: 0.67 promised and 0.85 kept below 0.8; a tenth or nearer above)."""
    chance, repeated = chances[(chances[:, 0] >= low) & (chances[:, 0] < high)].T
    assert len(chance) >= 15
    assert -0.1 < repeated.mean() - chance.mean() < 0.2
