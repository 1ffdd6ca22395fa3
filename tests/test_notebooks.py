"""The notebooks run from nothing, and what their text says is what came out."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("marimo", reason="the notebooks need the extra app")

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = ("first_steps", "your_own_study", "your_own_data")
MOST_LINES = 40

_RUN = """
import json, runpy, sys, warnings

warnings.simplefilter("error")
outputs, names = runpy.run_path(sys.argv[1])["app"].run()
print(json.dumps(eval(sys.argv[2], {**names, "outputs": outputs}), default=float))
"""

_VERDICTS = "{verdict.claim.id: verdict.verdict for verdict in %s.verdicts}"


@pytest.fixture
def conclusions(tmp_path):
    """A function that runs a notebook with a store of its own and returns an expression of its names."""

    def run(name, expression):
        homes = {variable: str(tmp_path) for variable in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        ended = subprocess.run(
            [sys.executable, "-c", _RUN, str(FOLDER / f"{name}.py"), expression],
            env={**os.environ, **homes, **threads, "UNLAZY_STORE": str(tmp_path / "store.sqlite")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""
        return json.loads(ended.stdout)

    return run


def test_first_steps_predicts_what_plain_numpy_measures_and_shows_a_failure(conclusions):
    names = ("few", "study", "digits")
    verdicts = ", ".join(f"{name!r}: {_VERDICTS % name}" for name in names)
    found = conclusions(
        "first_steps",
        f"{{{verdicts}, 'predicted': predicted, 'errors': errors, 'risk': line.risk.values.tolist(),"
        "'step': step.simulated.risk.mean('seed').values.tolist(), 'computed': [few.computed, study.computed]}",
    )
    errors = found["errors"]
    mean = sum(errors) / len(errors)
    deviation = (sum((e - mean) ** 2 for e in errors) / (len(errors) - 1) / len(errors)) ** 0.5
    assert abs(found["predicted"] - mean) < 4 * deviation < 0.2 * mean
    assert found["few"]["risk"] == "inconclusive"
    assert set(found["study"].values()) == {"holds"}
    assert found["digits"]["logistic"] == "fails"
    assert found["digits"]["ridge"] == found["digits"]["surrogate"] == "holds"
    assert min(found["risk"]) < 0.5 * found["risk"][0]
    assert min(found["step"]) < 0.5 * found["step"][0]
    assert min(found["risk"]) < found["risk"][-1]


def test_of_the_claims_of_the_own_study_the_true_one_holds_and_the_belief_fails(conclusions):
    found = conclusions(
        "your_own_study",
        f"{{'run': {_VERDICTS % 'run'}, 'near': {_VERDICTS % 'near'}, 'again': again.computed,"
        "'transition': near.simulated.overlap.sel(strength=0.7).mean('seed').values.tolist()}",
    )
    assert found["run"] == {"overlap": "holds", "variance": "fails"}
    assert found["near"]["overlap"] == "fails"
    assert found["again"] == 0
    transition = found["transition"]
    assert transition == sorted(transition, reverse=True)
    assert transition[-1] > 0.05


def test_own_data_shows_a_win_a_tie_and_two_losses(conclusions):
    found = conclusions(
        "your_own_data",
        "{'scores': scores, 'logistic': logistic_score, 'said': said.tolist(), 'came': came.tolist(),"
        "'inside': ((low <= came) & (came <= high)).tolist(), 'refitted': refitted, 'loo': loo.losses[::10].tolist()}",
    )
    diabetes, area, label, digit = found["scores"].values()
    assert max(diabetes.values()) - min(diabetes.values()) < 0.03
    assert area["SingleIndexRegressor"] > max(area["ridge"], area["kernel ridge"]) + 0.005
    assert label["ridge"] + 0.05 < min(label["OneStepRegressor"], label["SingleIndexRegressor"])
    assert max(label.values()) < found["logistic"]
    assert digit["ridge"] < digit["OneStepRegressor"] < digit["kernel ridge"]
    assert sum(found["said"]) == pytest.approx(sum(found["came"]), rel=0.1)
    assert sum(found["inside"]) >= 9
    assert sum(found["loo"]) == pytest.approx(sum(found["refitted"]), rel=0.02)


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
    from unlazy.lab.fingerprint import dependencies
    from unlazy.lab.registry import find

    assert dependencies(find(f"{FOLDER / 'your_own_study.py'}:HiddenDirection")) == {}


def test_marimo_finds_nothing_wrong():
    ended = subprocess.run(
        [sys.executable, "-m", "marimo", "check", "--strict", *(str(FOLDER / f"{name}.py") for name in NOTEBOOKS)],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
