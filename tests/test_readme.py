"""The README and CONTRIBUTING say what happens."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import unlazy
from unlazy import cli
from unlazy.lab import registry

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING = (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))


def test_the_first_example_prints_what_the_readme_shows():
    block = re.search(r"```console\n\$ (unlazy .*?)\n(.*?)```", README.read_text(), re.DOTALL)
    assert block
    words = shlex.split(block[1])
    wide = {**os.environ, "COLUMNS": "120"}
    command = [sys.executable, "-m", "unlazy", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=wide)
    assert done.stdout.split() == block[2].split()


def test_the_commands_of_the_readme_exist(monkeypatch):
    table = set(re.findall(r"`unlazy (\w+)", README.read_text()))
    for command in sorted(table):
        monkeypatch.setattr(sys, "argv", ["unlazy", command, "--help"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code, command
    assert table >= {"list", "show", "cite", "predict", "run", "reproduce", "export", "store"}


def test_the_study_of_contributing_runs_and_its_claim_holds(tmp_path):
    block = re.search(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    assert block
    file = tmp_path / "sample_variance.py"
    file.write_text(block[1])
    result = unlazy.run(str(file), over={"n": [10, 40]}, store=tmp_path / "store.sqlite")
    assert [v.verdict for v in result.verdicts] == ["holds"]


@pytest.mark.parametrize(
    "folder", ["functions", "numerics", "theory", "data", "models", "observables", "training", "lab"]
)
def test_every_folder_has_its_line_in_contributing(folder):
    assert f"`{folder}`" in CONTRIBUTING.read_text()
    assert (ROOT / "src/unlazy" / folder).is_dir()


def test_the_walk_of_contributing_leads_through_rooms_that_exist():
    named = re.findall(r"`([\w.]+/[\w/.]+)`", CONTRIBUTING.read_text())
    assert {"theory/one_step/gradient_step.py", "studies/one_step/spike.py", "docs/theory/one_step.md"} <= set(named)
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src/unlazy" / path).exists(), path


def test_the_picture_of_the_readme_is_there():
    text = README.read_text()
    images = re.findall(r"!\[.*?\]\((.*?)\)", text) + re.findall(r'src(?:set)?="(.*?)"', text)
    assert len(images) >= 5
    for image in images:
        assert (ROOT / image).stat().st_size > 1000
    assert registry.names()
