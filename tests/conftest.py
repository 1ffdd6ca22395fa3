"""What tests of all folders share: the command line, tiny studies, what a store holds, Python in another process."""

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from unlazy.lab import registry

# Most programs of the tests run for milliseconds: to optimise them takes longer than it saves.
UNOPTIMISED = "JAX_DISABLE_MOST_OPTIMIZATIONS"
os.environ.setdefault(UNOPTIMISED, "1")


@pytest.fixture(scope="module")
def optimised():
    """For programs that run for seconds; to the end of the module, in this process and in those that a test starts."""
    import jax

    before = jax.config.read(UNOPTIMISED.lower())
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(UNOPTIMISED, raising=False)
        _compile_anew(False)
        yield
    _compile_anew(before)


def _compile_anew(unoptimised):
    """Programs that were compiled the other way round differ in the last digit: none of them is kept."""
    import jax

    from unlazy.lab.running import execute

    jax.config.update(UNOPTIMISED.lower(), unoptimised)
    jax.clear_caches()
    execute._PROGRAMS.clear()


@pytest.fixture(scope="session", autouse=True)
def programs_need_no_proof():
    """Every program would be compiled twice; `tests/lab/test_proof.py` has its own, `unlazy reproduce` proves all."""
    from unlazy.lab.running.proof import Proof

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Proof, "give", lambda *_: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_is_shipped():
    """Pages show what a test has stored, and nothing else."""
    from unlazy.lab.running import pack

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "NAME", "none.pack")
        yield


@pytest.fixture
def unlazy(monkeypatch, capsys):
    """Call the command line in this process; returns exit code, standard output and standard error."""

    from unlazy import cli

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["unlazy", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return call


FILE = Path(__file__).parent / "samples/studies_for_tests.py"


@pytest.fixture(scope="session")
def study():
    """A study of the shared file by its class name."""
    found = {}

    def find(name):
        if name not in found:
            found[name] = registry.find(reference(name))
        return found[name]

    return find


@pytest.fixture(scope="session")
def reference_of():
    return reference


def reference(name):
    return f"{FILE}:{name}"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture(scope="session")
def stored():
    """Everything a store holds: {(point, seed): (created, layout, data)}."""

    def read(file):
        if not file.exists():
            return {}
        db = sqlite3.connect(file, timeout=60)
        try:
            rows = db.execute("SELECT point, seed, created, layout, data FROM results").fetchall()
        except sqlite3.OperationalError:
            return {}
        finally:
            db.close()
        return {(point, seed): tuple(rest) for point, seed, *rest in rows}

    return read


@pytest.fixture(scope="session")
def python():
    """Start Python on a piece of code with arguments; standard output and error are pipes."""

    def start(code, *arguments, path=None, cwd=None):
        environment = dict(os.environ)
        if path is not None:
            environment["PYTHONPATH"] = str(path)
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=cwd,
        )

    return start


class Word(NamedTuple):
    """A row of `docs/glossary.md`."""

    section: str
    meaning: str
    allowed: str


@pytest.fixture(scope="session")
def glossary():
    """The words of `docs/glossary.md`, and those of its column "not" that stand alone."""
    words, refused, section = {}, set(), ""
    for line in (Path(__file__).parents[1] / "docs/glossary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| `"):
            names, _, meaning, allowed, *instead = (cell.strip() for cell in line.strip("|").split("|"))
            for name in re.findall(r"`(\w+)`", names):
                word = Word(section, meaning, allowed)
                assert words.get(name, word)[1:] == word[1:], f"{name} has two meanings in the glossary"
                words[name] = word
            # "noise (a deviation)" is refused in that role only, which no test can see
            refused |= {word.strip() for cell in instead for word in cell.split(",") if word.strip().isidentifier()}
    assert len(words) > 40
    return words, refused - set(words)
