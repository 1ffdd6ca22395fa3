"""The notebooks run from nothing, and what their text says is what came out."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("marimo", reason="the notebooks need the extra app")

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = ("first_steps", "your_own_study", "your_own_data", "your_own_network")
MOST_LINES = 40


@pytest.fixture
def conclusions(monkeypatch):
    """A function that returns what the names of a notebook stand for in the end; the site shows the same run."""
    monkeypatch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)
    monkeypatch.syspath_prepend(FOLDER.parent / "docs" / "_hooks")
    import tutorials

    return lambda name: tutorials.ran(FOLDER / f"{name}.py")["names"]


def simulated(run, output, **at):
    """Means over seeds of an output of a run."""
    import xarray as xr

    return xr.Dataset.from_dict(run["results"])[output].sel(at).mean("seed").values


def test_first_steps_predicts_what_plain_numpy_measures_and_shows_a_failure(conclusions):
    found = conclusions("first_steps")
    errors = found["errors"]
    mean = sum(errors) / len(errors)
    deviation = (sum((e - mean) ** 2 for e in errors) / (len(errors) - 1) / len(errors)) ** 0.5
    assert abs(found["predicted"] - mean) < 4 * deviation < 0.2 * mean
    few, study, digits = (found[name]["verdicts"] for name in ("few", "study", "digits"))
    assert few["risk"] == "inconclusive"
    assert set(study.values()) == {"holds"}
    assert digits["logistic"] == "fails"
    assert digits["ridge-regression"] == digits["surrogate"] == "holds"
    risk, step = found["line"]["data_vars"]["risk"]["data"], simulated(found["step"], "risk")
    assert min(risk) < 0.5 * risk[0]
    assert step.min() < 0.5 * step[0]
    assert min(risk) < risk[-1]


def test_of_the_claims_of_the_own_study_the_true_one_holds_and_the_belief_fails(conclusions):
    found = conclusions("your_own_study")
    assert found["run"]["verdicts"] == {"squared-overlap": "holds", "reported-variance": "fails"}
    assert found["near"]["verdicts"]["squared-overlap"] == "fails"
    assert found["again"]["computed"] == 0
    transition = simulated(found["near"], "squared_overlap", extra_variance=0.7)
    assert list(transition) == sorted(transition, reverse=True)
    assert transition[-1] > 0.05


def test_own_data_shows_a_win_a_tie_and_two_losses(conclusions):
    found = conclusions("your_own_data")
    diabetes, area, label, digit = found["scores"].values()
    assert max(diabetes.values()) - min(diabetes.values()) < 0.03
    assert area["SingleIndexRegressor"] > max(area["ridge"] + 0.01, area["kernel ridge"] - 0.002)
    assert label["ridge"] + 0.05 < min(label["OneStepRegressor"], label["SingleIndexRegressor"])
    assert max(label.values()) < found["logistic_score"]
    assert digit["ridge"] < digit["OneStepRegressor"] < digit["kernel ridge"]
    assert sum(found["said"]) == pytest.approx(sum(found["came"]), rel=0.1)
    assert sum(low <= c <= high for low, c, high in zip(*(found[n] for n in ("low", "came", "high")), strict=True)) >= 9
    assert sum(found["loo"]["losses"][::10]) == pytest.approx(sum(found["refitted"]), rel=0.02)


def test_own_network_is_found_to_have_memorised_and_mends_without_the_suspects(conclusions):
    found = conclusions("your_own_network")
    looked, wrong, flipped = found["found"].values()
    assert found["verdicts"] == ["memory", "signal"]
    assert wrong > 0.85 * looked
    assert wrong > 0.7 * flipped
    assert found["after"] > found["before"] + 0.08


def test_the_own_study_has_at_most_forty_lines_and_runs_from_the_command_line(tmp_path):
    from unlazy.lab.registry import find

    tree = ast.parse((FOLDER / "your_own_study.py").read_text(encoding="utf-8"))
    (study,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name != "_" and n.decorator_list]
    lines = sum(node.end_lineno - node.lineno + 1 for node in (study, *checks))
    assert 20 < lines + 1 <= MOST_LINES + len(checks)
    assert study.end_lineno - study.lineno + 2 <= MOST_LINES
    assert find(f"{FOLDER / 'your_own_study.py'}:HiddenDirection").name == "hidden-direction"


def test_a_new_version_of_the_package_does_not_recompute_the_own_study():
    from unlazy.lab.registry import find
    from unlazy.lab.running.fingerprint import dependencies

    assert dependencies(find(f"{FOLDER / 'your_own_study.py'}:HiddenDirection")) == {}


def test_marimo_finds_nothing_wrong():
    ended = subprocess.run(
        [sys.executable, "-m", "marimo", "check", "--strict", *(str(FOLDER / f"{name}.py") for name in NOTEBOOKS)],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
