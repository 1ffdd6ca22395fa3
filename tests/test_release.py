"""A release is a tag: every file names one version, and the workflows call what there is."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
RELEASE = ROOT / "tools" / "release.py"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_file_names_the_same_version():
    versions = runpy.run_path(str(RELEASE))["versions"]()
    assert len(set(versions.values())) == 1, versions


def test_a_tag_gets_the_part_of_the_changelog_and_a_wrong_one_is_refused():
    version = runpy.run_path(str(RELEASE))["versions"]()["pyproject.toml"]
    done = subprocess.run([sys.executable, RELEASE, f"v{version}"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("- ")
    assert "\n## " not in done.stdout
    wrong = subprocess.run([sys.executable, RELEASE, "v99.0.0"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "the tag says 99.0.0, but pyproject.toml" in wrong.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=[file.stem for file in WORKFLOWS])
def test_a_workflow_calls_targets_and_tools_that_exist(file):
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for step in steps:
        assert ("uses" in step) != ("run" in step)
        assert "@" in step.get("uses", "@")
        run = step.get("run", "")
        # what others write, such as the name of a tag, never becomes part of a command
        assert "${{" not in run
        assert set(re.findall(r"(?m)^make ([a-z-]+)", run)) <= targets
        for tool in re.findall(r"tools/[\w.]+", run):
            assert (ROOT / tool).is_file()
