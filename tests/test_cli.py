"""The command line, as a user meets it."""

import importlib
import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import unlazy.__main__ as entry
from unlazy import cli

SMALL = {
    "quick": {
        "sizes": {"n": [3], "d": 4},
        "ridges": {"d": 4, "n": 3, ("spectrum_exponent", "prior_exponent"): [(1.0, 0.5)]},
    }
}
FAST = ["--set", "d=30", "--over", "n=10,20", "--over", "ridge=0.1,1", "--seeds", "4"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store") / "results.sqlite"


def test_list_shows_every_study_and_its_json_has_the_documented_form(unlazy):
    code, out, _ = unlazy("list")
    assert code == 0
    assert "ridge-equivalent" in out
    code, out, _ = unlazy("list", "--json", "--topic", "regression")
    studies = json.loads(out)["studies"]
    assert all({"name", "topic", "question", "source", "claims"} <= set(s) for s in studies)
    assert {s["topic"] for s in studies} == {"regression"}


def test_show_and_cite_tell_all_about_a_study(unlazy):
    code, out, _ = unlazy("show", "lazy-vs-feature")
    assert code == 0
    for word in ("exponent", "paired", "slide-lazy", "negative:", "quick", "full"):
        assert word in out
    assert unlazy("cite", "ridge-equivalent")[1].count("@") == 3


def test_predict_prints_the_theory_of_the_ridge(unlazy):
    """Isotropic data at ridge 0 with d = 4n: risk is 1 - n/d + noise/(d/n - 1) (Hastie et al. 2022)."""
    words = ["--set", "n=50", "--set", "d=200", "--set", "spectrum_exponent=0", "--set", "prior_exponent=0"]
    code, out, err = unlazy(
        "predict", "ridge-equivalent", *words, "--set", "noise_variance=0.5", "--set", "ridge=0", "--json"
    )
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert {"study", "parameters", "claims", "seconds", "results"} <= set(answer)
    assert answer["results"]["main"]["risk"] == pytest.approx([0.75 + 0.5 / 3])
    assert answer["parameters"]["n"] == 50


def test_infinite_predictions_are_strings_in_json(unlazy):
    code, out, _ = unlazy("predict", "ridge-equivalent", "--set", "n=30", "--set", "d=30", "--set", "ridge=0", "--json")
    assert code == 0
    assert json.loads(out)["results"]["main"]["risk"] == ["inf"]


def test_predict_broadcasts_over_axes_in_the_order_given(unlazy):
    code, out, _ = unlazy(
        "predict", "ridge-equivalent", "--over", "n=10,20,30", "--over", "noise_variance=0,1", "--json"
    )
    answer = json.loads(out)
    assert code == 0
    assert answer["dims"]["main"]["risk"] == ["n", "noise_variance", "ridge"]
    risk = answer["results"]["main"]["risk"]
    assert (len(risk), len(risk[0]), len(risk[0][0])) == (3, 2, 5)


def test_run_simulates_once_and_then_reads_the_store(unlazy, store):
    code, out, _ = unlazy("run", "ridge-equivalent", *FAST, "--store", store)
    assert code in (0, 1)
    assert "computed now" in out
    code, out, err = unlazy("run", "ridge-equivalent", *FAST, "--store", store)
    assert ", 0 computed now" in out
    assert err == ""


def test_run_json_is_one_object_with_claims_and_results(unlazy, store):
    code, out, err = unlazy("run", "ridge-equivalent", *FAST, "--store", store, "--json")
    answer = json.loads(out)
    assert err == ""
    assert answer["study"] == "ridge-equivalent"
    keys = {"id", "statement", "source", "measured", "low", "high", "criterion", "verdict", "known_negative"}
    assert all(keys <= set(claim) for claim in answer["claims"])
    sizes = answer["results"]["sizes"]
    assert sizes["n"] == [10, 20]
    assert sizes["ridge"] == [0.1, 1]
    assert len(sizes["risk"]) == 2
    verdicts = {claim["verdict"] for claim in answer["claims"]}
    assert code == (0 if verdicts <= {"holds", "untested"} else 1)


def test_the_exit_code_is_one_where_a_verdict_differs_from_the_documented_one(unlazy, store):
    """At n = 3 and four seeds no claim about the limit of large n can be concluded."""
    words = ["--set", "n=3", "--set", "d=4", "--set", "ridge=0", "--seeds", "4", "--store", store, "--json"]
    code, out, _ = unlazy("run", "ridge-equivalent", *words)
    assert code == 1
    assert "holds" not in {c["verdict"] for c in json.loads(out)["claims"] if c["id"] == "risk"}


def test_the_figure_comes_in_the_format_of_its_ending(unlazy, store, tmp_path):
    file = tmp_path / "figure.svg"
    unlazy("run", "ridge-equivalent", *FAST, "--store", store, "--figure", file)
    assert file.read_bytes().startswith(b"<?xml")


def test_dry_run_counts_instances_and_computes_nothing(unlazy, tmp_path):
    fresh = tmp_path / "fresh.sqlite"
    code, out, _ = unlazy("run", "ridge-equivalent", *FAST, "--store", fresh, "--dry-run", "--json")
    assert code == 0
    programs = json.loads(out)["programs"]
    # Two sizes in the part over sizes; two sizes times three priors' spectra in the other, four seeds each.
    assert sum(p["instances"] for p in programs) == sum(p["missing"] for p in programs) == 4 * (2 + 2 * 4)
    assert all(p["seconds"] > 0 for p in programs)
    code, out, _ = unlazy("run", "ridge-equivalent", *FAST, "--store", fresh, "--dry-run")
    assert "40 missing" in out


def test_dry_run_of_a_traced_study_knows_its_memory(unlazy, tmp_path):
    study = f"{Path(__file__).parent / 'samples/studies_for_tests.py'}:Traced"
    code, out, _ = unlazy("run", study, "--over", "d=5,50", "--store", tmp_path / "s.sqlite", "--dry-run", "--json")
    assert code == 0
    small, large = json.loads(out)["programs"]
    assert 0 < small["bytes"] < large["bytes"]
    assert small["known_from"] == "measured"


def test_export_writes_what_is_stored_as_netcdf(unlazy, store, tmp_path):
    import xarray

    file = tmp_path / "results.nc"
    unlazy("run", "ridge-equivalent", *FAST, "--store", store)
    code, out, _ = unlazy("export", "ridge-equivalent", file, *FAST, "--store", store)
    assert (code, out.strip()) == (0, f"wrote {file}")
    with xarray.open_dataset(file, group="sizes", engine="h5netcdf") as data:
        assert dict(data.risk.sizes) == {"n": 2, "seed": 4, "ridge": 2}
    code, _, err = unlazy("export", "ridge-equivalent", file, "--set", "d=31", "--store", store)
    assert code == 2
    assert "lacks" in err


def test_store_says_where_it_is_and_prune_keeps_current_results(unlazy, store):
    unlazy("run", "ridge-equivalent", *FAST, "--store", store)
    code, out, _ = unlazy("store", "--store", store)
    assert code == 0
    assert str(store) in out.replace("\n", "")
    assert "current" in out
    assert "removed 0 instances" in unlazy("store", "--store", store, "prune")[1]


WRONG = [
    (["frobnicate"], "No such command"),
    (["run"], "STUDY"),
    (["run", "ridge-equivalent", "--wrong", "3"], "--wrong"),
    (["run", "ridge-equivalent", "--seeds", "x"], "--seeds"),
    (["run", "ridge-equivalnt"], "did you mean ridge-equivalent"),
    (["run", "ridge-equivalent", "--set", "nosie_variance=1"], "did you mean noise_variance"),
    (["run", "ridge-equivalent", "--set", "noise_variance=-1"], "noise_variance must be a number >= 0"),
    (["run", "ridge-equivalent", "--set", "n=0"], "n must be an integer >= 1"),
    (["run", "ridge-equivalent", "--set", "n=x"], "n must be an integer >= 1"),
    (["run", "ridge-equivalent", "--set", "noise_variance=nan"], "noise_variance must be"),
    (["run", "ridge-equivalent", "--over", "n="], "name=value"),
    (["run", "ridge-equivalent", "--preset", "slow"], "preset must be one of quick, full"),
    (["run", "ridge-equivalent", "--memory", "0"], "memory must be"),
    (["run", "ridge-equivalent", "--figure", "figure.bmp"], ".png, .svg, .pdf"),
    (["run", "ridge-equivalent", "--figure", "/dev/null/figure.png"], "cannot be written"),
    (["run", "ridge-equivalent", "--store", "/dev/null/store"], "store /dev/null/store cannot be used"),
    (["run", "ridge-equivalent", "--set", "n=20000", "--set", "d=100000", "--memory", "1"], "needs about"),
    (["run", "lazy-vs-feature", "--set", "width=7"], "width must be even"),
    (["run", "ridge-equivalent", "--cluster", "local:none"], "local:N"),
    (["run", "missing.py:Study"], "does not exist"),
    (["predict", "lazy-vs-feature"], "has no theory at these parameters"),
    (["predict", "ridge-equivalent", "--set", "ridge=-1"], "ridge must be a number >= 0"),
    (["reproduce", "--topic", "nothing"], "topic must be one of"),
    (["reproduce", "--preset", "nope"], "preset must be one of quick, full"),
    (["run", "ridge-equivalent", "--seeds", "1000000000000"], "seeds must be an integer"),
    (["run", "ridge-equivalent", "--cluster", "foo"], "cluster must be local:N"),
    (["reproduce", "--out", "/dev/null/report"], "cannot be written"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_wrong_input_gets_one_clear_line_and_exit_code_2(unlazy, tmp_path, monkeypatch, words, message):
    monkeypatch.setenv("UNLAZY_STORE", str(tmp_path / "store.sqlite"))
    code, out, err = unlazy(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_json_numbers_survive_the_way_to_json():
    from unlazy.lab.running.dataset import as_json

    assert as_json({"a": [1.0, math.inf, -math.inf, math.nan], "b": (True, "x")}) == {
        "a": [1.0, "inf", "-inf", None],
        "b": [True, "x"],
    }


def test_a_closed_pipe_is_not_an_error():
    first = subprocess.Popen(
        [sys.executable, "-m", "unlazy", "show", "lazy-vs-feature"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert first.stdout
    first.stdout.close()
    assert first.communicate()[1] == b""
    assert first.returncode == 0


def test_a_broken_study_does_not_take_the_report_of_the_others_with_it(unlazy, tmp_path, monkeypatch):
    from unlazy.lab import registry
    from unlazy.lab.study import Study

    good, bad = registry.find("ridge-equivalent"), registry.find("lazy-vs-feature")
    monkeypatch.setattr(good, "presets", SMALL)
    monkeypatch.setattr(bad, "validate", lambda self: 1 / 0)
    monkeypatch.setattr(registry, "all_studies", lambda topics: [bad, good])
    assert issubclass(bad, Study)
    code, out, err = unlazy("reproduce", "--out", tmp_path / "report", "--store", tmp_path / "s.sqlite")
    assert code == 1
    assert "lazy-vs-feature did not run: ZeroDivisionError" in err
    assert "ridge-equivalent" in out
    assert "ZeroDivisionError" in (tmp_path / "report" / "index.html").read_text()


OWN = """
from dataclasses import dataclass
from unlazy.lab import Output, Study, static, value

@dataclass(frozen=True)
class Own(Study):
    name = "own"
    topic = "own"
    question = "?"
    sources = ()
    n: int = static(2, "n")
    s: float = value(1.0, "s")
    outputs = {"second": Output("y"), "first": Output("y")}
    presets = {"quick": {"seeds": 2}}

    def simulate(self, rng):
        return {"first": 1.0, "second": 2.0}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'return {"first": 1.0, "second": 2.0}',
            "return self.nn",
            "simulate (",
        ),
        ('return {"first": 1.0, "second": 2.0}', "return 1 / 0", "raised ZeroDivisionError"),
        ('return {"first": 1.0, "second": 2.0}', "return 3", "must return a dict"),
        ("rng):", "key):\n        if self.s > 0: return {}", "raised TracerBoolConversionError"),
        (
            "    def simulate",
            "    def predict(self):\n        return {'first': 'x'}\n\n    def simulate",
            "real numbers",
        ),
        ("    def simulate", "    def predict(self):\n        return 1 / 0\n\n    def simulate", "predict ("),
    ],
)
def test_errors_in_a_user_s_study_are_one_line_with_the_place(unlazy, tmp_path, old, new, message):
    file = tmp_path / "own.py"
    file.write_text(OWN.replace(old, new))
    code, _, err = unlazy("run", file, "--store", tmp_path / "s.sqlite")
    assert code == 2
    assert err.count("\n") == 1
    assert message in err


def test_outputs_keep_the_order_of_their_declaration(unlazy, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    for _ in range(2):
        _, out, _ = unlazy("run", file, "--store", tmp_path / "s.sqlite", "--json")
        assert [n for n in json.loads(out)["results"]["main"] if n in ("first", "second")] == ["second", "first"]


def test_the_bare_command_shows_the_help(unlazy):
    code, out, err = unlazy()
    assert (code, err) == (0, "")
    assert out.startswith("Usage: unlazy")
    assert out.count("\n") > 10


def test_looking_at_a_store_that_is_not_there_makes_none(unlazy, tmp_path):
    missing = tmp_path / "missing.sqlite"
    export = ["export", "ridge-equivalent", tmp_path / "x.nc", "--store", missing]
    for words in (["store", "--store", missing], ["store", "prune", "--store", missing], export):
        code, _, err = unlazy(*words)
        assert code == 2
        assert "is no file" in err
    assert not missing.exists()


def test_an_error_of_unlazy_itself_is_not_blamed_on_the_input(monkeypatch, tmp_path):
    from unlazy.lab.running import laboratory

    monkeypatch.setattr(laboratory, "judge", lambda claim, parts: 1 / 0)
    words = ["unlazy", "run", "ridge-equivalent", *FAST, "--store", str(tmp_path / "s.sqlite")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_a_prediction_that_does_not_converge_is_one_line(unlazy, monkeypatch):
    from unlazy.numerics.roots import ConvergenceError
    from unlazy.studies.regression.ridge_equivalent import RidgeEquivalentStudy

    def refuse(self):
        raise ConvergenceError("the drift still changes")

    monkeypatch.setattr(RidgeEquivalentStudy, "predict", refuse)
    code, out, err = unlazy("predict", "ridge-equivalent")
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert "the drift still changes" in err


TITLE, ERASE, TURN = "\x1b]0;owned\x07", "\x9b2J\r", "\u202e"
EVIL = TITLE + ERASE + TURN


def commands(text):
    """The characters in a text that a terminal obeys, or that turn the text around."""
    return {sign for sign in text if sign in EVIL and not sign.isprintable()}


OWN_EVIL = (
    OWN.replace("from unlazy.lab import", "from unlazy.lab import Source,")
    .replace(
        'question = "?"\n    sources = ()',
        f"question = {EVIL!r}\n    sources = (Source('a1', *({EVIL!r}, 1, *[{EVIL!r}] * 2)),)",
    )
    .replace('Output("y")', f"Output({EVIL!r})")
    .replace('static(2, "n")', f"static(2, {EVIL!r})")
)


def test_what_a_study_says_commands_no_terminal_and_no_page(unlazy, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN_EVIL)
    store = ["--store", tmp_path / "s.sqlite"]
    for words in (["show", file], ["cite", file], ["run", file, *store], ["run", file, "--dry-run", *store]):
        code, out, err = unlazy(*words)
        assert code in (0, 1)
        assert not commands(out + err)
        if words[0] != "run" or "--dry-run" not in words:
            assert r"\x1b]0;owned" in "".join(out.split())


def test_the_report_shows_no_control_characters(tmp_path):
    import unlazy as house
    from unlazy.reporting.html.report import write_report

    file = tmp_path / "own.py"
    file.write_text(OWN_EVIL)
    run = house.run(str(file), store=tmp_path / "s.sqlite")
    write_report([run], tmp_path / "index.html", "quick", {f"lost{TURN}": f"it said {EVIL}"})
    page = (tmp_path / "index.html").read_text()
    assert not commands(page)
    assert r"it said \x1b]0;owned\x07\x9b2J\r\u202e" in page


@pytest.mark.parametrize(
    "words",
    [
        ["show", EVIL],
        ["show", f"{EVIL}.py:Own"],
        ["predict", "ridge-equivalent", "--set", f"{EVIL}=1"],
        ["predict", "ridge-equivalent", "--set", f"n={EVIL}"],
        ["run", "ridge-equivalent", "--preset", EVIL],
        ["run", "ridge-equivalent", "--cluster", EVIL],
        ["run", "ridge-equivalent", "--seeds", EVIL],
        ["run", "ridge-equivalent", "--figure", f"{EVIL}.bmp"],
        ["run", "ridge-equivalent", "--store", f"/dev/null/{EVIL}"],
        ["list", "--topic", EVIL],
        ["store", "--store", EVIL],
        ["forecast", EVIL, "--target", EVIL],
        [EVIL],
        [f"--{EVIL}"],
    ],
)
def test_what_an_argument_says_commands_no_terminal(unlazy, words):
    code, out, err = unlazy(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not commands(err)


def test_the_columns_of_a_table_command_no_terminal(unlazy, tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 3))
    header = ",".join(["a", "b", f"y{TITLE}{TURN}"])
    for name in ("data", f"data{TURN}"):
        file = tmp_path / f"{name}.csv"
        np.savetxt(file, table, delimiter=",", header=header, comments="")
        for target in (f"y{TITLE}{TURN}", "z"):
            code, out, err = unlazy("forecast", file, "--target", target, "--kernel", "ridge")
            assert (code, out) == (2, "")
            assert err.count("\n") == 1
            assert "must have" in err
            assert not commands(err)


DELAYS = ["0.0", "0.02", "0.05", "0.1", "0.2", "0.4", "0.8"]
SELF_INTERRUPTED = """
import os, signal, sys, threading

moment = sys.argv[1]

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)
        elif name == "unlazy.cli" and moment.startswith("0."):
            # Only now is it the program that is interrupted, not Python that starts.
            threading.Timer(float(moment), os.kill, (os.getpid(), signal.SIGINT)).start()

sys.meta_path.insert(0, Watch())
from unlazy.__main__ import main

sys.argv[:] = ["unlazy", *sys.argv[2:]]
main()
"""


@pytest.mark.parametrize(
    "moment",
    ["unlazy.cli", "typer", "numpy", "unlazy.lab.grid", "rich.console", "jax", "jax._src.core", *DELAYS],
)
def test_ctrl_c_while_modules_are_imported_is_one_line(python, reference_of, tmp_path, moment):
    store = tmp_path / "s.sqlite"
    process = python(SELF_INTERRUPTED, moment, "run", reference_of("SlowTraced"), "--store", store)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert out == ""
    # While the program itself is imported there is no run to go on with.
    goes_on = "interrupted: what was finished is stored; the same command goes on from there\n"
    assert err in ("interrupted\n", goes_on)


def test_little_is_imported_before_ctrl_c_is_one_line(python):
    code = "import sys; before = set(sys.modules); import unlazy.__main__; print(*sorted(set(sys.modules) - before))"
    out, err = python(code).communicate(timeout=60)
    assert (set(out.split()), err) == ({"unlazy", "unlazy.__main__", "unlazy.doors"}, "")


def test_what_ignores_ctrl_c_still_does(python):
    """As behind nohup, and as in the background of a shell script."""
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv = ['unlazy', '--version']\n"
    code += "from unlazy.__main__ import main\ntry: main()\n"
    code += "finally: assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    process = python(code)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out[:6], err) == (0, "unlazy", "")


def test_the_console_script_has_the_entry_that_hears_ctrl_c():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["unlazy"].partition(":")
    assert getattr(importlib.import_module(module), function) is entry.main


def test_files_that_are_no_store_are_one_line_and_stay_as_they_are(unlazy, study, tmp_path):
    import unlazy as house

    good = tmp_path / "good.sqlite"
    house.run(study("Hosted"), store=good, seeds=1)
    whole = good.read_bytes()
    files = {
        "empty": b"",
        "junk": bytes(range(256)) * 40,
        "cut": whole[:6000],
        "damaged": whole[:4096] + b"U" * (len(whole) - 4096),
    }
    (tmp_path / "folder").mkdir()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in (*files, "folder", "none", "good.sqlite/below"):
        for words in (["store"], ["store", "prune"], ["export", "ridge-equivalent", tmp_path / "x.nc"]):
            code, out, err = unlazy(*words, "--store", tmp_path / name)
            assert (code, out) == (2, ""), name
            assert err.startswith(f"error: store {tmp_path}")
            assert err.count("\n") == 1
        if name in files:
            assert (tmp_path / name).read_bytes() == files[name]


READ_ONLY = """
import os, sys
from unlazy.checks import InputError
from unlazy.lab.running.store import Store

os.chmod(os.path.dirname(sys.argv[1]), 0o555)
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
with Store(sys.argv[1], create=False) as store:
    print(sum(c.instances for c in store.contents()))
    try:
        store.discard(b"", [0])
    except InputError as error:
        print(error)
"""


def test_a_store_in_a_folder_that_cannot_be_written_is_read(python, study):
    import tempfile

    import unlazy as house

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.sqlite"
        result = house.run(study("Hosted"), store=file, seeds=2)
        out, err = python(READ_ONLY, file).communicate(timeout=60)
        Path(folder).chmod(0o755)
    assert err == ""
    count, refused = out.splitlines()
    assert int(count) == result.computed
    assert refused == f"store {file} cannot be written: attempt to write a readonly database"


def test_confirm_names_its_stream_and_refuses_what_it_cannot_do(unlazy, store, reference_of):
    code, out, _ = unlazy("confirm", reference_of("Claiming"), "--store", str(store), "--json")
    found = json.loads(out)
    assert code == (1 if found["differing"] else 0)
    assert [claim["documented"] for claim in found["claims"]] == ["holds", "fails"]
    code, out, _ = unlazy("confirm", reference_of("Claiming"), "--store", str(store), "--stream", found["stream"])
    assert f"stream {found['stream']}" in out
    for words, message in (
        (["confirm", "spike", "--topic", "kernels"], "give either studies or topics"),
        (["confirm", reference_of("Claiming"), "--stream", "main"], "another one than main"),
        (["confirm", reference_of("Claiming"), "--budget", "soon"], "a time must be such as 90s"),
        (["reproduce", "--topic", "kernels", "--record", "x/full.json"], "record is for the preset full"),
        (["run", reference_of("Claiming"), "--stream", "a/b"], "stream must be a name"),
    ):
        code, _, err = unlazy(*words, "--store", str(store))
        assert code == 2
        assert message in err
