"""Shared fixtures: the tiny studies, what a store holds, and Python in another process."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from unlazy.lab import registry

FILE = Path(__file__).with_name("studies_for_tests.py")


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
