"""What starts light: theory and the command line's quick words load no JAX."""

import json
import subprocess
import sys

import pytest

HEAVY = ("jax", "sklearn", "matplotlib", "xarray", "equinox", "optax", "distributed")


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh process has loaded after running `code`."""
    probe = f"import json, sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
    probe += "print('\\n' + json.dumps([m for m in sys.modules if '.' not in m]))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1])) & set(HEAVY)


def command(*words: str) -> str:
    return f"sys.argv = ['unlazy', *{list(words)!r}]; from unlazy.cli import main; main()"


@pytest.mark.parametrize(
    "code",
    [
        "import unlazy",
        "import unlazy; unlazy.theory, unlazy.functions, unlazy.numerics",
        "import unlazy.theory.ridge, unlazy.functions.activations, unlazy.numerics.ridge_path",
        command("--help"),
        command("list"),
        command("list", "--json"),
        command("show", "lazy-vs-feature"),
        command("cite", "ridge-equivalent"),
        command("predict", "ridge-equivalent"),
        command("predict", "ridge-equivalent", "--over", "n=10,20", "--json"),
        command("run", "no-such-study"),
    ],
)
def test_nothing_heavy_is_loaded(code):
    assert loaded_by(code) == set()


def test_the_probe_sees_what_is_loaded():
    assert loaded_by("import matplotlib") == {"matplotlib"}
