"""The layout: topics in every room, doors that list what is public, no hidden files."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import unlazy
from unlazy.doors import contents
from unlazy.lab import registry

ROOT = Path(__file__).parents[1]
PACKAGE = Path(unlazy.__file__).parent
FOLDERS = ["unlazy", *(m.name for m in pkgutil.walk_packages(unlazy.__path__, "unlazy.") if m.ispkg)]


@pytest.mark.parametrize("room", ["theory", "training", "studies", "tests/theory", "tests/training", "docs/theory"])
def test_every_room_has_the_same_topics(room):
    folder = ROOT / room if "/" in room else PACKAGE / room
    found = {path.stem for path in folder.iterdir() if path.suffix in ("", ".md")} - {"index", "__pycache__"}
    assert found == set(registry.topics())


def test_no_file_hides_behind_an_underscore():
    assert [file for file in PACKAGE.rglob("_*.py") if not file.name.startswith("__")] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_door_lists_is_there_and_no_module_hides_it(folder):
    package = importlib.import_module(folder)
    modules = {m.name for m in pkgutil.iter_modules(package.__path__)}
    listed = contents(folder)
    assert not [name for name, home in listed.items() if home != folder and name in modules]
    for name in listed:
        assert getattr(package, name) is not None
    assert set(listed) <= set(dir(package))


def test_a_name_that_a_door_does_not_list_is_refused():
    with pytest.raises(AttributeError, match=r"module 'unlazy.theory' has no attribute 'no_such_theory'"):
        unlazy.theory.no_such_theory  # noqa: B018


def test_all_public_theory_is_in_one_list():
    topics = {name for topic in registry.topics() for name in contents(f"unlazy.theory.{topic}")}
    assert topics == set(unlazy.theory.__all__)
    assert len(topics) > 200
