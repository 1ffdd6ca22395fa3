"""The examples of docs/own_network.md, as a reader would run them."""

import re
from pathlib import Path

import numpy as np
import pytest

from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.laboratory import Laboratory

PAGE = Path(__file__).parents[2] / "docs" / "own_network.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("place", [0, 1])
def test_the_examples_of_the_page_run_in_thirty_lines(place, tmp_path):
    if "torch" in EXAMPLES[place]:
        pytest.importorskip("torch")
    assert len([line for line in EXAMPLES[place].splitlines() if line.strip()]) <= 30
    file = tmp_path / f"my_study_{place}.py"
    file.write_text(EXAMPLES[place])
    study = registry.find(str(file))
    with Laboratory(tmp_path / "results.sqlite") as laboratory:
        run = laboratory.run(study, preset_grids(study, "quick", seeds=2))
    change = run.simulated.feature_change
    assert study.topic == "own"
    # ten times the output scale, about a tenth of the change
    lazy, rich = (change.isel(output_scale=place).mean() for place in (-1, 0))
    assert np.isfinite(change).all()
    assert lazy < rich / 3


def test_a_study_without_a_network_says_so(tmp_path):
    file = tmp_path / "empty.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom unlazy.studies.own_network import OwnNetwork\n\n\n"
        "@dataclass(frozen=True)\nclass Empty(OwnNetwork):\n    question = 'None?'\n"
    )
    study = registry.find(str(file))
    with pytest.raises(NotImplementedError), Laboratory(tmp_path / "results.sqlite") as laboratory:
        laboratory.run(study, preset_grids(study, "quick", seeds=1))
