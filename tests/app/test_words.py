"""The explorer's words."""

from pathlib import Path

import pytest

from unlazy.app.server import OWN_STORE
from unlazy.app.words import progress, without_paths, wrong
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
