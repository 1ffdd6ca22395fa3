"""One language: every public name is a word of `docs/glossary.md`, and means there what it means everywhere."""

import dataclasses
import functools
import importlib
import inspect
import json
import pkgutil
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from unlazy.lab.registry import all_studies, topics

SPOKEN = [f"theory.{topic}" for topic in topics()] + ["functions", "estimators", "diagnostics", "optim", "data"]
"""Rooms of which users call every function: all their names are in the glossary."""
INNER = [f"training.{topic}" for topic in topics()] + ["numerics", "models", "observables"]
"""Rooms that the others are built of: their names are their own, but none says in another word what has one."""
REFUSED_INSIDE = {"learning_rate", "rate", "eta", "alpha", "ratio", "neurons", "features_ratio", "samples_ratio"}
OF_SCIKIT_LEARN = {"alpha", "n_components", "random_state"}
"""Words of estimators alone."""
OF_SCIKIT_LEARNS_METHODS = {"input_features", "n_samples", "return_std"}
OF_FORMULAS = {"k", "q", "t", "z"}
"""Letters that methods of functions and laws take, as in the formula of their docstring."""
OF_PYTHON = {"self", "cls", "args", "kwargs", "options"}
OF_STUDIES = {"parameters", "results", "dims", "sizes", "counts"}
"""Keys of JSON under which a study's own names stand, or the words of verdicts."""


def public(room):
    """What the door of a room lists, and the public names of modules among it: {dotted name: object}."""
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
    if inspect.isclass(found) and issubclass(found, Exception):
        return set()
    names = set(getattr(found, "_fields", ()))
    if dataclasses.is_dataclass(found):
        names |= {field.name for field in dataclasses.fields(found)}
    if inspect.isclass(found) or inspect.isfunction(found):
        names |= set(inspect.signature(found).parameters)
    if inspect.isclass(found):
        members = members_of(found)
        names |= {name for name, member in members.items() if not callable(member)}
        taken = {
            name for member in members.values() if callable(member) for name in inspect.signature(member).parameters
        }
        names |= taken - OF_SCIKIT_LEARNS_METHODS - OF_FORMULAS
    return {name.rstrip("_") for name in names if not name.startswith("_")} - OF_PYTHON


def members_of(found):
    """The public methods and properties that a class has from this package: {name: function or property}."""
    members = {}
    for name in dir(found):
        home = next((base for base in found.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not home.__module__.startswith("unlazy"):
            continue
        member = vars(home)[name]
        member = getattr(member, "__func__", member)
        if inspect.isfunction(member) or isinstance(member, property | functools.cached_property):
            members[name] = member
    return members


def keys_of(value):
    """All keys of a JSON value, without a study's own names."""
    if isinstance(value, list):
        return {key for entry in value for key in keys_of(entry)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {key for name, inner in value.items() if name not in OF_STUDIES for key in keys_of(inner)}


@pytest.fixture(scope="module")
def said_in_json(tmp_path_factory):
    """The keys of what the commands print with --json: {command: keys}."""
    import unlazy
    from unlazy.cli.commands import app
    from unlazy.lab.running.confirm import Confirmation
    from unlazy.lab.running.cost import Outlook, StudyCost
    from unlazy.lab.running.evidence import Record
    from unlazy.lab.running.reproduce import Outcome

    folder = tmp_path_factory.mktemp("json")
    table, store = folder / "table.csv", folder / "results.sqlite"
    np.savetxt(table, np.random.default_rng(0).standard_normal((80, 4)), delimiter=",", header="a,b,c,y", comments="")
    # a study with claims and a history
    small = ["mixture-classification", "--set", "d=20", "--seeds", 2, "--store", store]
    done = unlazy.run("mixture-classification", set={"d": 20}, seeds=2, store=store)

    def printed(*words):
        return json.loads(CliRunner().invoke(app, [*map(str, words), "--json"]).stdout)

    def probed():
        """A report on a network, and the names of all its numbers."""
        import jax.numpy as jnp

        from unlazy.diagnostics import probe

        rng = np.random.default_rng(0)
        rows, codes = rng.standard_normal((110, 3)), np.arange(110) % 2
        rows[:, 0] += 4 * codes
        given = np.where(np.arange(60) < 6, 1 - codes[:60], codes[:60])
        params = {"w": rng.standard_normal((3, 4)), "a": rng.standard_normal((4, 1))}

        def network(params, x):
            hidden = jnp.tanh(x @ params["w"])
            return hidden @ params["a"], hidden

        states = [params, {name: value + 0.3 for name, value in params.items()}]
        report = probe(network, states, rows[:60], given, rows[60:], codes[60:], true_labels=codes[:60]).as_json()
        return {**report, **report["results"]}

    found = {
        "probe": probed(),
        "list": printed("list", "--topic", "regression"),
        "predict": printed("predict", "ridge-equivalent"),
        "run": printed("run", *small),
        "run --dry-run": printed("run", *small, "--dry-run"),
        "reproduce": {**Outcome([done.study], [done], {}, 1.0).as_json(), "report": "index.html"},
        "confirm": Confirmation("fresh", *2 * [Outcome([done.study], [done], {}, 1.0)]).as_json(),
        "evidence": dataclasses.asdict(Record("main", "today", 1.0, "holds", 0.0, 0.0, 0.0, False)),
        "reproduce --dry-run": Outlook("quick", [StudyCost("own", "own")], 1).as_json(),
        "fit": printed("fit", table, "--target", "y", "--budget", "0.001s"),
        "forecast": printed("forecast", table, "--target", "y", "--kernel", "ridge", "--check", "--columns"),
    }
    return {command: keys_of(value) for command, value in found.items()}


@pytest.mark.parametrize("room", SPOKEN)
def test_every_public_name_is_in_the_glossary(room, glossary):
    words, _ = glossary
    missing = {name: sorted(names_of(found) - set(words)) for name, found in public(room).items()}
    assert {name: unknown for name, unknown in missing.items() if unknown} == {}


@pytest.mark.parametrize("room", SPOKEN + INNER)
def test_no_public_name_says_in_another_word_what_has_one(room, glossary):
    _, refused = glossary
    refused = refused & REFUSED_INSIDE if room in INNER else refused
    if room.startswith("theory"):
        refused = refused | OF_SCIKIT_LEARN
    found = {name: sorted(names_of(thing) & refused) for name, thing in public(room).items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("room", SPOKEN + INNER)
def test_no_method_is_called_what_has_another_name(room, glossary):
    _, refused = glossary
    classes = {name: thing for name, thing in public(room).items() if inspect.isclass(thing)}
    found = {name: sorted(refused.intersection(members_of(thing))) for name, thing in classes.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_every_key_of_json_is_in_the_glossary(said_in_json, glossary):
    words, refused = glossary
    assert {command: sorted(keys - set(words)) for command, keys in said_in_json.items() if keys - set(words)} == {}
    assert all(len(keys) > 3 and not keys & refused for keys in said_in_json.values())


@pytest.mark.parametrize("kind", ["fields", "outputs"])
def test_studies_speak_the_same_language(kind, glossary):
    words, refused = glossary
    names = {
        "fields": lambda study: [field.name for field in dataclasses.fields(study)],
        "outputs": lambda study: list(study.outputs),
    }[kind]
    said = {study.name: names(study) for study in all_studies()}
    shared = {name for name, times in Counter(name for found in said.values() for name in found).items() if times > 1}
    assert sorted(shared - set(words)) == []
    wrong = {study: sorted((refused | OF_SCIKIT_LEARN) & set(found)) for study, found in said.items()}
    assert {study: found for study, found in wrong.items() if found} == {}


def test_the_glossary_has_no_word_that_nothing_uses(glossary, said_in_json):
    words, _ = glossary
    used = {name for room in SPOKEN + INNER for found in public(room).values() for name in names_of(found)}
    used |= {field.name for study in all_studies() for field in dataclasses.fields(study)}
    used |= {name for study in all_studies() for name in study.outputs}
    used = used.union(*said_in_json.values())
    assert sorted(set(words) - used - {"random_state"}) == []


def test_a_name_that_is_not_in_the_glossary_is_found():
    def risk(n, learning_rate):
        return n * learning_rate

    class Answer:
        __module__ = "unlazy.theory"

        def predict(self, eta, *, return_std=False):
            return eta

        @property
        def train_error(self):
            return 0.0

    assert names_of(risk) == {"n", "learning_rate"}
    assert names_of(Answer) == {"eta", "train_error"}
    assert keys_of({"train_error": [{"eta": 1}], "results": {"main": {}}}) == {"train_error", "eta", "results"}


SIZES = {"n", "d", "width", "tasks", "context", "prompts", "samples_per_dimension", "width_per_dimension"}
CHOICES = {"ridge", "penalty", "step_size", "relative_step_size", "temperature", "ridge_times_dimension", "l1_penalty"}
NUISANCE = {"noise_variance", "label_noise_variance", "flip_probability"}


@pytest.mark.parametrize("topic", topics())
def test_sizes_come_before_choices_and_these_before_the_noise(topic):
    for name, found in public(f"theory.{topic}").items():
        if inspect.isfunction(found):
            positional = [p.name for p in inspect.signature(found).parameters.values() if p.kind != p.KEYWORD_ONLY]
            ranks = [rank for p in positional for rank, kind in enumerate((SIZES, CHOICES, NUISANCE)) if p in kind]
            assert ranks == sorted(ranks), f"{name}({', '.join(positional)})"
