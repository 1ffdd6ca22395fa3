"""What starts light: theory and the command line's quick words load no JAX."""

import json
import subprocess
import sys

HEAVY = ("jax", "sklearn", "matplotlib", "xarray", "equinox", "optax", "distributed")


def loaded_after(codes: list[str]) -> list[set[str]]:
    """The heavy packages that a fresh process has loaded after each of the codes, which it runs one after the other."""
    probe = "import json, sys\nfound = []\n"
    for code in codes:
        probe += f"try:\n    {code}\nexcept SystemExit:\n    pass\n"
        probe += "found.append([m for m in sys.modules if '.' not in m])\n"
    probe += "print('\\n' + json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return [set(modules) & set(HEAVY) for modules in json.loads(done.stdout.splitlines()[-1])]


def command(*words: str) -> str:
    return f"sys.argv = ['unlazy', *{list(words)!r}]; from unlazy.cli import main; main()"


def test_nothing_heavy_is_loaded():
    """One process for all, since what one of them loads stays loaded: the first that has loaded more is to blame."""
    codes = [
        "import unlazy",
        "import unlazy; unlazy.theory, unlazy.functions, unlazy.numerics",
        "import unlazy.theory.regression.ridge, unlazy.functions.elementwise, unlazy.numerics.ridge",
        command("--help"),
        command("list"),
        command("list", "--json"),
        command("show", "lazy-vs-feature"),
        command("cite", "ridge-equivalent"),
        command("predict", "ridge-equivalent"),
        command("predict", "ridge-equivalent", "--over", "n=10,20", "--json"),
        command("run", "no-such-study"),
        "import matplotlib",
    ]
    *light, last = zip(codes, loaded_after(codes), strict=True)
    assert [(code, loaded) for code, loaded in light if loaded] == []
    # the probe sees what is loaded
    assert last[1] == {"matplotlib"}


def test_list_and_completion_import_no_study_and_no_numpy():
    """They answer while somebody waits for a shell; an index says what the studies would."""
    probe = f"""import sys
from unlazy.cli.options import complete_study
assert complete_study("ridge-eq") == ["ridge-equivalent"]
try:
    {command("list")}
except SystemExit:
    pass
print("loaded:", sorted(m for m in sys.modules if m == "numpy" or m.count(".") == 3 and m.startswith("unlazy.studies")))
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "ridge-equivalent" in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded: []"
