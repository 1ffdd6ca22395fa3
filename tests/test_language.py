"""One language: every public name is a word of `docs/glossary.md`, and means there what it means everywhere."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections import Counter

import pytest

import unlazy
from unlazy.lab.registry import all_studies

SPOKEN = ("theory", "functions", "estimators", "diagnostics", "optim", "data")
"""Rooms of which users call every function: all their names are in the glossary."""
INNER = ("training", "numerics", "models", "observables")
"""Rooms that the others are built of: their names are their own, but none says in another word what has one."""
OF_PYTHON = {"self", "args", "kwargs", "options"}
TO_COME = {
    "one_step",
    "kernels",
    "signal_noise",
    "index_models",
    "in_context",
    "message_passing",
    "mean_field",
    "diffusion",
}
"""Topics of theory, training and studies that do not speak it yet."""
ROOMS_TO_COME = {"estimators", "diagnostics", "optim", "data", "numerics", "observables"}
REFUSED_INSIDE = {"learning_rate", "rate", "eta", "alpha", "ratio", "neurons", "features_ratio", "samples_ratio"}


def public(room):
    """What the door of a room lists, of inner rooms also those of their folders: {dotted name: object}."""
    top = importlib.import_module(f"unlazy.{room}")
    inside = [m.name for m in pkgutil.walk_packages(top.__path__, f"{top.__name__}.") if m.ispkg and room in INNER]
    found = {}
    for folder in map(importlib.import_module, (top.__name__, *inside)):
        found |= {f"{folder.__name__}.{name}": getattr(folder, name) for name in folder.__all__}
    for module in [thing for thing in found.values() if inspect.ismodule(thing)]:
        names = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in names if not name.startswith("_")}
    return found


def names_of(found):
    """The parameters of a function or of what makes a class, and the fields of a result."""
    if not (inspect.isclass(found) or inspect.isfunction(found)) or issubclass_of_exception(found):
        return set()
    try:
        names = set(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        names = set()
    names |= set(getattr(found, "_fields", ()))
    if dataclasses.is_dataclass(found):
        names |= {field.name for field in dataclasses.fields(found)}
    return {name.rstrip("_") for name in names if not name.startswith("_")} - OF_PYTHON


def issubclass_of_exception(found):
    return inspect.isclass(found) and issubclass(found, Exception)


@pytest.mark.parametrize("room", SPOKEN)
def test_every_public_name_is_in_the_glossary(room, glossary):
    words, _ = glossary
    missing = {name: sorted(names_of(found) - set(words)) for name, found in public(room).items()}
    assert {name: unknown for name, unknown in missing.items() if unknown} == {}


@pytest.mark.parametrize("room", SPOKEN + INNER)
def test_no_public_name_says_in_another_word_what_has_one(room, glossary):
    _, refused = glossary
    refused = refused if room in SPOKEN else refused & REFUSED_INSIDE
    # scikit-learn's users know `alpha`, and the column "not" is about the word `penalty`
    found = {name: sorted(names_of(thing) & refused) for name, thing in public(room).items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_words_that_several_studies_share_are_in_the_glossary(glossary):
    words, refused = glossary
    fields = [(field.name, study.name) for study in all_studies() for field in dataclasses.fields(study)]
    outputs = [(name, study.name) for study in all_studies() for name in study.outputs]
    for pairs in (fields, outputs):
        counts = Counter(name for name, _ in pairs)
        shared = {name for name, times in counts.items() if times > 1}
        assert sorted(shared - set(words)) == []
        assert sorted({f"{study}: {name}" for name, study in pairs if name in refused}) == []


def test_the_glossary_has_no_word_that_nothing_uses(glossary):
    words, _ = glossary
    used = {name for room in SPOKEN + INNER for found in public(room).values() for name in names_of(found)}
    used |= {field.name for study in all_studies() for field in dataclasses.fields(study)}
    used |= {name for study in all_studies() for name in study.outputs}
    used |= {"rng", "key", "random_state"} | set(dir(unlazy))
    assert sorted(set(words) - used) == []
