"""The explorer's words."""

from pathlib import Path

import pytest

from unlazy.app.server import OWN_STORE
from unlazy.app.setting import default_setting, make_setting
from unlazy.app.theory import TheoryLines, found
from unlazy.app.words import progress, what_you_see, without_paths, wrong
from unlazy.lab import registry
from unlazy.lab.running.events import Event


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("store /home/ada/my results/s.sqlite cannot be used", "store s.sqlite cannot be used"),
        ("/srv/x/own.py was changed after this process had loaded it", "own.py was changed after this process had"),
        (r"output 'C:\\Users\\ada\\s.sqlite' is no file", "output 's.sqlite' is no file"),
        ("(/tmp/a/b.py:12)", "(b.py:12)"),
        (
            "n/d must be <= 2, and/or 1 / 2; see http://host/page",
            "n/d must be <= 2, and/or 1 / 2; see http://host/page",
        ),
    ],
)
def test_files_have_names_and_no_folders(text, shown, monkeypatch):
    monkeypatch.setenv(OWN_STORE, "/home/ada/my results/s.sqlite")
    assert shown in without_paths(text)
    assert shown.replace("<", "&lt;").replace("'", "&#x27;") in wrong(text)
    assert shown.replace("<", "&lt;").replace("'", "&#x27;") in progress(Event("failed", message=text))


def test_the_home_is_not_told():
    assert without_paths(f"store {Path.home()}/s.sqlite is damaged") == "store s.sqlite is damaged"


def test_two_sentences_say_what_is_drawn_and_what_is_claimed_of_it():
    setting = default_setting(registry.find("spike"))
    text = what_you_see(setting, setting.outputs, found(setting).lines(setting), None)
    assert text.startswith("Largest singular value and ")
    assert "against step size, a curve for each samples of the step per dimension: lines are the theory. " in text
    assert "points" not in text
    claims = [claim for claim in setting.study.claims if claim.statement.rstrip(".") in text]
    assert len(claims) == 1
    assert f"({claims[0].source}" in text
    assert what_you_see(setting, [], TheoryLines(None, 0.0, True), None) == ""


def test_the_claim_is_one_on_what_is_drawn():
    study = registry.find("spike")
    wanted = [claim for claim in study.claims if claim.id == "alignment"]
    setting = make_setting(study, "main", "step_size", [], [], outputs=["alignment"])
    assert wanted[0].statement.rstrip(".") in what_you_see(setting, ["alignment"], found(setting).lines(setting), None)
