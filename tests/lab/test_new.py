"""A new study's file runs as it stands, and asks for everything that a study has."""

import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab.new import new_study
from unlazy.lab.registry import find


def test_the_file_of_a_new_study_runs_and_its_claim_holds(tmp_path):
    file = new_study("my-result", tmp_path)
    assert file == tmp_path / "my_result.py"
    result = unlazy.run(str(file), over={"n": [10, 40]}, store=tmp_path / "store.sqlite")
    assert result.study.name == "my-result"
    assert [verdict.verdict for verdict in result.verdicts] == ["holds"]
    assert {"quick", "full"} <= set(result.study.presets)


def test_every_question_stands_above_what_answers_it(tmp_path):
    text = new_study("an-idea", tmp_path).read_text()
    asked = [line for line in text.splitlines() if line.strip().startswith("#") and "?" in line]
    assert len(asked) >= 9
    study = find(str(tmp_path / "an_idea.py"))
    for name in ("question", "sources", "departs", "outputs", "presets", "figure", "claims"):
        assert getattr(study, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My Result", "must be small letters and digits with single dashes between"),
        ("../x", "must be small letters"),
        ("spike", "there is a study spike already"),
        ("class", "class is a word of Python"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        new_study(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path):
    file = new_study("my-result", tmp_path)
    file.write_text("mine")
    with pytest.raises(InputError, match="exists; nothing was written"):
        new_study("my-result", tmp_path)
    assert file.read_text() == "mine"
