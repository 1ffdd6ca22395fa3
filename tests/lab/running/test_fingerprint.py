"""Results are kept as long as the code that made them is the same, and no longer."""

import shutil
import sys
import textwrap
from pathlib import Path

import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.running.fingerprint import dependencies, fingerprint

STUDY = '''
"""A study."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import sibling
from family.core import base
from unlazy.checks import InputError
from unlazy.lab import OWN, Output, Study, at_most, claim, path, static, value

FACTOR = 2.0
TABLE = {}
for entry in ("a", "b"):
    TABLE[entry] = len(entry)


def helper(x):
    """Doubles."""
    return inner(FACTOR * x)


def inner(x):
    return x + 1  # one more


def unused(x):
    return x


def check(part):
    return part.simulated.result


@dataclass(frozen=True)
class Own(Study):
    """A study."""

    name = "own"
    topic = "tests"
    question = "?"
    sources = ()
    outputs = {"result": Output("result")}
    presets = {"quick": {"scale": [1.0, 2.0], "seeds": 2}}

    @claim(OWN, "nowhere", at_most(1000.0))
    def sum(main):
        """It is small."""
        return check(main)

    weights: ClassVar[np.ndarray] = np.linspace(0, 1, 5)

    scale: float = value(1.0, "the scale")
    steps: int = static(3, "steps", low=1)
    """How many."""

    def simulate(self, rng):
        import late

        points = self.coordinates()["point"]
        return {"result": late.shift(helper(self.scale)) + sibling.one() + base() + points.sum() + TABLE["a"]}

    def coordinates(self):
        return {"point": np.arange(3.0)}

    def predict(self):
        return {"result": self.scale}

    def figure(self, main):
        import matplotlib.figure

        return matplotlib.figure.Figure()
'''
FILES = {
    "own.py": STUDY,
    "sibling.py": "from deeper import one\n",
    "deeper.py": "def one():\n    return 1\n",
    "late.py": "def shift(x):\n    return x + 3\n",
    "family/__init__.py": "",
    "family/core.py": "from .util import four\nfrom family.more import zero\n\nbase = lambda: four() + zero()\n",
    "family/util.py": "def four():\n    return 4\n",
    "family/more.py": "def zero():\n    return 0\n",
    "stranger.py": "x = 1\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


def edit(folder, old, new, name="own.py"):
    text = (folder / name).read_text()
    assert text.count(old) == 1
    (folder / name).write_text(text.replace(old, new))


def code(folder):
    return fingerprint(registry.find(f"{folder / 'own.py'}:Own"))


UNRELATED = {
    "a comment": ("# one more", "# and one more", "own.py"),
    "a docstring of a function": ('"""Doubles."""', '"""Twice."""', "own.py"),
    "a docstring of the class": ('    """A study."""\n\n    name', '    """The study."""\n\n    name', "own.py"),
    "a docstring of a field": ('"""How many."""', '"""How often."""', "own.py"),
    "a criterion": ("at_most(1000.0)", "at_most(2000.0)", "own.py"),
    "a check": ("return part.simulated.result", "return 2 * part.simulated.result", "own.py"),
    "the prediction": ('return {"result": self.scale}', 'return {"result": 2 * self.scale}', "own.py"),
    "the figure": ("return matplotlib.figure.Figure()", "return matplotlib.figure.Figure((3, 3))", "own.py"),
    "a preset": ('"scale": [1.0, 2.0]', '"scale": [1.0, 3.0]', "own.py"),
    "an output's label": ('Output("result")', 'Output("the result")', "own.py"),
    "a field's label": ('"the scale"', '"scale"', "own.py"),
    "a field's default": ("value(1.0,", "value(1.5,", "own.py"),
    "a field's range": ("low=1", "low=2", "own.py"),
    "a function that nothing calls": ("def unused(x):\n    return x", "def unused(x):\n    return -x", "own.py"),
    "the layout": ("def inner(x):\n    return x + 1", "def inner(\n    x,\n):\n    return (x + 1)", "own.py"),
    "a comment in a sibling": ("return 1", "return 1  # one", "deeper.py"),
    "a file that is not imported": ("x = 1", "x = 2", "stranger.py"),
}
RELATED = {
    "simulate": ("sibling.one() +", "2 * sibling.one() +", "own.py"),
    "a helper": ("inner(FACTOR * x)", "inner(FACTOR + x)", "own.py"),
    "a helper's helper": ("return x + 1", "return x + 2", "own.py"),
    "a constant": ("FACTOR = 2.0", "FACTOR = 2.5", "own.py"),
    "a constant of the class": ("np.linspace(0, 1, 5)", "np.linspace(0, 1, 9)", "own.py"),
    "a statement of the module": ("TABLE[entry] = len(entry)", "TABLE[entry] = 2 * len(entry)", "own.py"),
    "a method that simulate calls": ("np.arange(3.0)", "np.arange(4.0)", "own.py"),
    "the kind of a field": ('value(1.0, "the scale")', 'static(1.0, "the scale")', "own.py"),
    "pairing": ('"the scale"', '"the scale", paired=True', "own.py"),
    "the precision": ('    topic = "tests"', '    topic = "tests"\n    precision = "float32"', "own.py"),
    "a sibling's import": ("return 1", "return 2", "deeper.py"),
    "an import inside simulate": ("x + 3", "x + 4", "late.py"),
    "a relative import": ("return 4", "return 5", "family/util.py"),
    "an absolute import in a package": ("return 0", "return 1", "family/more.py"),
}


@pytest.mark.parametrize("change", UNRELATED)
def test_what_does_not_touch_the_simulation_recomputes_nothing(folder, change):
    before = code(folder)
    edit(folder, *UNRELATED[change])
    assert code(folder) == before


@pytest.mark.parametrize("change", RELATED)
def test_what_touches_the_simulation_recomputes(folder, change):
    before = code(folder)
    edit(folder, *RELATED[change])
    assert code(folder) != before


@pytest.mark.parametrize("name", ["sibling", "late"])
def test_a_star_import_counts(folder, name):
    (folder / "many.py").write_text("def thing():\n    return 1\n")
    (folder / f"{name}.py").write_text("from many import *\n" + (folder / f"{name}.py").read_text())
    before = code(folder)
    edit(folder, "return 1", "return 2", "many.py")
    assert code(folder) != before


def result(folder):
    """The run and its first number, in this process, as in a notebook."""
    run = unlazy.run(f"{folder / 'own.py'}:Own", store=folder / "s.sqlite")
    return run.computed, float(run.simulated.result[0, 0])


def test_a_run_sees_the_edited_modules_even_in_one_process(folder):
    """Old results do not pass for new ones, nor does old code that Python keeps loaded."""
    computed, first = result(folder)
    assert computed == 4
    assert result(folder) == (0, first)
    for old, new, name in (("return 1", "return 11", "deeper.py"), ("x + 3", "x + 13", "late.py")):
        edit(folder, old, new, name)
        computed, now = result(folder)
        assert computed == 4
        assert now == first + 10
        first = now
    edit(folder, "at_most(1000.0)", "at_most(5.0)")
    assert result(folder) == (0, first)
    edit(folder, "return 11", "return 1", "deeper.py")
    assert result(folder)[0] == 4, "late.py still differs from the first run"
    edit(folder, "x + 13", "x + 3", "late.py")
    assert result(folder) == (0, first - 20)


def test_siblings_of_one_name_in_two_folders_are_told_apart(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name, text in FILES.items():
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text(text.replace("return 1", "return 101"))
    (_, one), (_, two) = result(folder), result(other)
    assert two == one + 100


PACKAGE_STUDY = """
from dataclasses import dataclass
from unlazy.lab import Output, Study, static

@dataclass(frozen=True)
class Own(Study):
    name, topic, question, sources = "own", "tests", "?", ()
    outputs = {"result": Output("result")}
    presets = {"quick": {"seeds": 2}}
    d: int = static(3, "dimension")

    def simulate(self, rng):
        from unlazy.functions.spectra import power_law
        return {"result": power_law(self.d, 1.0).sum()}
"""


@pytest.mark.parametrize(
    "line", ["from unlazy.functions import power_law", "from unlazy.functions.spectra import power_law"]
)
def test_a_door_is_passed_through_to_the_module_behind_it(tmp_path, line):
    file = tmp_path / "own.py"
    file.write_text(PACKAGE_STUDY.replace("from unlazy.functions.spectra import power_law", line))
    assert set(dependencies(registry.find(str(file)))) == {"unlazy.functions.spectra"}


def test_a_module_with_imports_for_type_checkers_is_no_door():
    found = set(dependencies(registry.find("transformer-overfitting")))
    assert {"unlazy.data.signal_tokens", "unlazy.models.patch_attention"} <= found
    assert "unlazy.training.loop" in found


def test_theory_by_its_short_name_is_the_module_that_has_it(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        PACKAGE_STUDY.replace(
            "from unlazy.functions.spectra import power", "from unlazy.theory import rank_one_step, power"
        )
    )
    found = set(dependencies(registry.find(str(file))))
    assert "unlazy.theory.one_step.gradient_step" in found
    assert not [name for name in found if ".kernels" in name]


RUN = """
import sys, unlazy
run = unlazy.run(sys.argv[1], store=sys.argv[2])
print(unlazy.__file__, run.computed, float(run.simulated.result[0]))
"""


def test_editing_a_module_of_unlazy_recomputes_what_imports_it(tmp_path, python):
    """In a copy of the package: an edit of what simulate imports, of something else, and of a comment."""
    source = Path(unlazy.__file__).parent
    copy = tmp_path / "lib" / "unlazy"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "own.py").write_text(PACKAGE_STUDY)

    def computed():
        process = python(RUN, tmp_path / "own.py", tmp_path / "s.sqlite", path=copy.parent)
        output, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
        file, count, number = output.split()
        assert Path(file).parent == copy
        return int(count), float(number)

    def append(name, text):
        file = copy / name
        file.write_text(f"{file.read_text()}\n{text}\n")

    first = computed()
    assert first[0] == 2
    append("functions/spectra.py", "# a comment")
    append("theory/regression/ridge.py", "UNRELATED = 1")
    append("lab/running/run.py", "UNRELATED = 1")
    assert computed() == (0, first[1])
    append(
        "functions/spectra.py", "_given = power_law\n\ndef power_law(*arguments):\n    return 2 * _given(*arguments)"
    )
    assert computed() == (2, 2 * first[1])


FINGERPRINT = """
import sys
from unlazy.lab.registry import find
from unlazy.lab.running.fingerprint import fingerprint
print(fingerprint(find(sys.argv[1])))
"""


def test_of_what_studies_share_only_that_counts_which_the_simulation_uses(tmp_path, python):
    """In a copy of the package: a measure of other studies is new, then how a run ends."""
    copy = tmp_path / "lib" / "unlazy"
    shutil.copytree(Path(unlazy.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shared = copy / "studies" / "signal_noise" / "shared.py"

    def found():
        output, error = python(FINGERPRINT, "mixup", path=copy.parent).communicate(timeout=60)
        assert output, error
        return output

    first = found()
    shared.write_text(shared.read_text().replace('"guessing", dashed=True', '"a coin", dashed=True') + "\nNEW = 1\n")
    assert found() == first
    text = shared.read_text()
    assert text.count("import jax.numpy as jnp\n\n    return {") == 1
    shared.write_text(
        text.replace("import jax.numpy as jnp\n\n    return {", "import jax.numpy as jnp\n\n    return 2 * {")
    )
    assert found() != first


def test_what_studies_share_needs_no_other_study():
    """Else what it takes from there would be left out of a fingerprint."""
    folder = Path(unlazy.__file__).parent / "studies"
    assert not [file for file in folder.glob("*/shared.py") if "unlazy.studies" in file.read_text()]


def test_a_study_of_the_package_depends_on_what_its_simulation_imports():
    found = dependencies(registry.find("ridge-equivalent"))
    assert {"unlazy.numerics.ridge", "unlazy.functions.spectra"} <= found.keys()
    assert not any(name.startswith(("unlazy.lab", "unlazy.plotting", "unlazy.theory")) for name in found)
    assert all(path.is_file() for path in found.values())


def test_a_study_inside_a_function_has_the_code_of_that_function(tmp_path):
    """Two versions of `build`, whose class differs only in what it simulates."""
    file, found = tmp_path / "local.py", set()
    for number in (1, 2):
        text = PACKAGE_STUDY.replace("power_law(self.d, 1.0).sum()", f"{number} * self.d")
        file.write_text(f"{PACKAGE_STUDY}\n\ndef build():\n{textwrap.indent(text, '    ')}\n    return Own\n")
        module = sys.modules[registry.find(f"{file}:Own").__module__]
        found.add(fingerprint(module.build()))
    assert len(found) == 2


def test_a_study_without_a_file_is_refused():
    """As in a console: its code could change unseen."""
    names = {"__name__": "__console__"}
    exec(PACKAGE_STUDY, names)
    with pytest.raises(InputError, match="study own must stand in a file"):
        fingerprint(names["Own"])
