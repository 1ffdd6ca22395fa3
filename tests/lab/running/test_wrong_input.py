"""Whatever is given to the Python door by mistake is refused in one line."""

from pathlib import Path

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.running.reproduce import reproduce
from unlazy.lab.running.run import ask, estimate
from unlazy.reporting.export import export

STUDY = "ridge-equivalent"
WRONG = {
    "nan": float("nan"),
    "large": 10**30,
    "very large": 10**5000,
    "bytes": b"x",
    "set": {1, 2},
    "generator": (x for x in "ab"),
    "ragged": [[1], [2, 3]],
    "matrix": np.ones((3, 3)),
    "object": object(),
    "two lines": "nö\nname \x1b",
    "text array": np.array("x"),
    "null": "\x00",
    "path": Path("q"),
    "type": int,
    "complex": 3j,
}
DOORS = {
    "study": unlazy.predict,
    "preset": lambda wrong: unlazy.run(STUDY, preset=wrong),
    "seeds": lambda wrong: unlazy.run(STUDY, seeds=wrong),
    "set": lambda wrong: unlazy.predict(STUDY, set=wrong),
    "over": lambda wrong: unlazy.predict(STUDY, over=wrong),
    "set n": lambda wrong: unlazy.predict(STUDY, set={"n": wrong}),
    "over n": lambda wrong: unlazy.predict(STUDY, over={"n": wrong}),
    "over ridge": lambda wrong: ask(STUDY, over={"ridge": wrong}),
    "cluster": lambda wrong: unlazy.run(STUDY, cluster=wrong),
    "asked": estimate,
    "topics": registry.all_studies,
    "studies": lambda wrong: reproduce(wrong, jobs=1),
    "jobs": lambda wrong: reproduce([], jobs=wrong),
    "file": lambda wrong: export(STUDY, wrong),
}
LEGAL = {("over ridge", "large"), ("study", "path")}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_given_by_mistake_is_refused_in_one_line(door, tmp_path, monkeypatch):
    monkeypatch.setenv("UNLAZY_STORE", str(tmp_path / "s.sqlite"))
    monkeypatch.chdir(tmp_path)
    for name, wrong in WRONG.items():
        if (door, name) in LEGAL:
            continue
        with pytest.raises(InputError) as caught:
            DOORS[door](wrong)
        assert str(caught.value).isprintable(), name
        assert 10 < len(str(caught.value)) < 800, name
