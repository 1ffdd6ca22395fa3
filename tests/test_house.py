"""The layout: topics in every room, doors that list what is public, no hidden files, a name for every class."""

import ast
import importlib
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

import unlazy
from unlazy.doors import contents
from unlazy.lab import registry

ROOT = Path(__file__).parents[1]
PACKAGE = Path(unlazy.__file__).parent
ALIKE = {"State"}
"""Classes that may have the same name: each engine has one."""
FOLDERS = ["unlazy", *(m.name for m in pkgutil.walk_packages(unlazy.__path__, "unlazy.") if m.ispkg)]


@pytest.mark.parametrize("room", ["theory", "training", "studies", "tests/theory", "tests/training", "docs/theory"])
def test_every_room_has_the_same_topics(room):
    folder = ROOT / room if "/" in room else PACKAGE / room
    found = {path.stem for path in folder.iterdir() if path.suffix in ("", ".md")} - {"index", "__pycache__"}
    assert found == set(registry.topics())


def test_no_file_hides_behind_an_underscore():
    assert [file for file in PACKAGE.rglob("_*.py") if not file.name.startswith("__")] == []


def test_class_names_are_unique():
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py"))
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} <= ALIKE


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_says_what_it_is_and_lists_what_is_public(folder):
    package = importlib.import_module(folder)
    assert package.__doc__
    # studies are found by their files
    if folder.split(".")[1:2] != ["studies"]:
        assert contents(folder) or getattr(package, "__all__", ()) or _imported(package)


def _imported(package):
    """What an `__init__` that is not lazy imports from its own folder."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module.startswith(package.__name__)]


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
