"""`unlazy forecast` as a user meets it: four methods, the check, JSON, a figure, and mistakes in one line."""

import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from unlazy.cli import commands

NAMES = ["ridge", "kernel ridge", "random features", "metric machine"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["price"] = 50 * (np.sin(2 * x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=120))
    frame["name"] = [f"row {i}" for i in range(120)]
    path = tmp_path_factory.mktemp("data") / "houses.csv"
    frame.to_csv(path, index=False)
    return path


def test_four_methods_are_compared_and_checked_and_drawn(unlazy, file, tmp_path):
    picture = tmp_path / "curve.svg"
    words = ("--target", "price", "--width", 50, "--check", "--figure", picture)
    code, out, err = unlazy("forecast", file, *words)
    assert code in (0, None), err
    for title in NAMES:
        assert f"\n{title}: " in out
    for size in ("120", "240", "600", "1200"):
        assert f" {size}  " in out
    flat = " ".join(out.split())
    assert "On this table forecasts were over 2x within" in flat
    assert "Intervals covered" in flat
    assert "the metric machine learns all anew" in flat
    assert "x too low" in out or "x too high" in out
    assert picture.read_text().lstrip().startswith("<?xml")


def test_json_is_all_that_is_printed(unlazy, file):
    code, out, _ = unlazy("forecast", file, "--target", "price", "--kernel", "ridge,kernel-ridge", "--json", "--check")
    page = json.loads(out)
    assert code in (0, None)
    assert [method["name"] for method in page["methods"]] == NAMES[:2]
    assert page["rows"] == 120
    for method in page["methods"]:
        assert [round(error, 9) for error in method["r_squared"]] == [
            round(1 - error, 9) for error in method["test_error"]
        ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "prize"], "prize"),
        (["--target", "name"], "must hold numbers"),
        (["--target", "price", "--kernel", "rbff"], "did you mean rbf"),
        (["--target", "price", "--penalty", "-1"], "penalty must be"),
        (["--target", "price", "--gamma", "0"], "gamma must be"),
        (["--target", "price", "--width", "0"], "width must be"),
        (["--target", "price", "--n", "2y"], "got '2y'"),
        (["--target", "price", "--figure", "curve.doc"], "doc"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(unlazy, file, words, said):
    code, out, err = unlazy("forecast", file, *words)
    assert code == 2
    assert said in err
    assert out == ""
    assert len(err.strip().splitlines()) == 1


def test_a_wrong_column_or_size_is_refused_before_pandas_and_scikit_learn_are_imported(file):
    for words in (["--target", "prize"], ["--target", "price", "--n", "2y"]):
        code = (
            "import sys; from unlazy import cli; sys.argv = ['unlazy', 'forecast', *sys.argv[1:]]\n"
            "try: cli.main()\n"
            "except SystemExit as end: print(end.code, 'pandas' in sys.modules, 'sklearn' in sys.modules)"
        )
        found = subprocess.run([sys.executable, "-c", code, str(file), *words], capture_output=True, text=True)
        assert found.stdout.split() == ["2", "False", "False"], found.stderr


@pytest.mark.parametrize(("command", "goes_on"), [("forecast", False), ("run", True), ("reproduce", True)])
def test_an_interrupt_promises_to_go_on_only_where_results_are_stored(monkeypatch, unlazy, command, goes_on):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "app", interrupted)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    code, _, err = unlazy(command)
    assert code == 3
    assert err.startswith("interrupted")
    assert ("goes on from there" in err) == goes_on


def test_a_file_that_is_not_there_is_named(unlazy, tmp_path):
    code, _, err = unlazy("forecast", tmp_path / "no.csv", "--target", "y")
    assert code == 2
    assert "no.csv" in err
