"""A setting of the explorer is the same as a link, as a command line and as a grid."""

import shlex
from functools import cache
from urllib.parse import parse_qs, urlencode

import numpy as np
import pytest
import typer

from unlazy import cli
from unlazy.app.choices import parts
from unlazy.app.controls import as_text, control
from unlazy.app.setting import default_setting, from_query, make_setting
from unlazy.app.words import wrong
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.parse import parse_over, parse_set
from unlazy.lab.running.plan import canonical


def follow(setting, own=None):
    """The setting behind its link, through the text of a URL."""
    return from_query(parse_qs(urlencode(setting.query)), own)


@cache
def run_command():
    return typer.main.get_command(cli.app).commands["run"]


def grids_of(command):
    """The grids that the command line makes of a command, with its own parser."""
    words = shlex.split(command)
    assert words[:2] == ["unlazy", "run"]
    context = run_command().make_context("run", words[2:])
    given = context.params
    study = registry.find(given["study"])
    fixed, axes = parse_set(study, given["set"] or ()), parse_over(study, given["over"] or ())
    return preset_grids(study, given["preset"], set=fixed, over=axes, seeds=given["seeds"], part=given["part"])


def moved(setting, rng):
    """The setting with every control somewhere else, or None if the study refuses that."""
    study = setting.study
    texts = []
    for name, value in setting.values.items():
        made = control(study.parameter(name), value)
        options = made.options or (value,)
        texts.append(f"{name}={as_text(options[rng.integers(len(options))])}")
    over = [f"{name}={text}" for name, text in setting.over.items()]
    try:
        return make_setting(study, setting.part, setting.x, texts, over, 3, setting.outputs)
    except InputError:
        return None


@pytest.mark.parametrize("topic", registry.topics())
def test_links_and_commands_give_the_same_points(topic):
    rng = np.random.default_rng(0)
    others = 0
    for study in registry.all_studies([topic]):
        for part in parts(study):
            start = default_setting(study, part)
            for setting in filter(None, (start, moved(start, rng))):
                others += setting is not start
                assert follow(setting) == setting
                grids = grids_of(setting.command())
                # What is shown, and no other part.
                assert list(grids) == [part]
                assert grids[part].seeds == setting.seeds
                # What the page simulates, the command finds: the keys of the store are made of points.
                assert list(map(canonical, grids[part].points())) == list(map(canonical, setting.grid.points()))
    assert others


def test_fields_of_a_link_have_different_names():
    """marimo keeps only the last of several fields of the same name."""
    names = [name for name, _ in default_setting(registry.find("spike")).query]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("study=spyke", "did you mean spike"),
        ("part=main", "names no study"),
        ("study=spike&study=mixup", "twice"),
        ("study=spike&colour=red", "must be one of study, part"),
        ("study=spike&part=other", "part must be one of main"),
        ("study=spike&x=temperature", "x must be one of"),
        ("study=spike&x=d&over=step_size=1,2", "does not vary"),
        ("study=spike&set=d=many", "d must be an integer >= 2"),
        ("study=spike&set=d=1e9", "d must be an integer >= 2"),
        ("study=spike&set=depth=3", "no parameter 'depth'"),
        ("study=spike&set=d", "must be name=value"),
        ("study=spike&set=activation=__import__('os').system('id')", "activation must be one of"),
        ("study=spike&set=d=100&over=d=100,200", "both as one value and as an axis"),
        ("study=spike&over=step_size=1:2:0", "steps >= 1"),
        ("study=spike&over=step_size=nan", "must be a number"),
        ("study=spike&seeds=0", "seeds must be an integer >= 1"),
        ("study=spike&seeds=1e9", "seeds must be an integer"),
        ("study=spike&show=loss", "show must be one of"),
        ("study=spike&over=d=100:1000:20&over=width_per_dimension=1:2:20", "400 points"),
        ("study=spike&set=step_size=" + "1," * 2000, "at most 2000 characters"),
    ],
)
def test_a_wrong_link_is_told_what_is_wrong(query, message):
    with pytest.raises(InputError) as caught:
        from_query(parse_qs(query))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_range_that_no_memory_holds_is_refused_before_it_is_made():
    # Made, these would be 3e16 bytes.
    with pytest.raises(InputError, match="1000000000000001 values"):
        from_query(parse_qs("study=spike&over=step_size=0,1:2:1000000000000000"))


def test_a_link_cannot_load_a_file(tmp_path):
    file, mark = tmp_path / "evil.py", tmp_path / "mark"
    file.write_text(f"open({str(mark)!r}, 'w')")
    for name in (str(file), f"{file}:Evil", "evil.py:Evil"):
        with pytest.raises(InputError, match="study must be one that `unlazy list` names"):
            from_query({"study": name})
    assert not mark.exists()


def test_a_link_may_name_the_study_of_the_command_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from unlazy.lab import Output, Source, Study, value\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Study):\n"
        "    name = 'mine'\n    topic = 'own'\n    question = 'Why?'\n"
        "    sources = (Source('k', 'A, B', 2020, 'T', 'V'),)\n"
        "    a: float = value(1.0, 'a number', low=0, high=2)\n"
        "    outputs = {'y': Output('y')}\n    presets = {'quick': {'a': [0.0, 1.0, 2.0]}}\n"
        "    def simulate(self, rng):\n        return {'y': self.a}\n"
    )
    own = registry.find(f"{file}:Mine")
    setting = from_query({"study": "mine", "over": "a=0:2:5"}, own)
    # The command names the file and not the folder.
    assert setting.command().split()[2] == "mine.py:Mine"
    assert [point["a"] for point in setting.grid.points()] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert follow(setting, own) == setting
    assert from_query({}, own) == default_setting(own)


def test_a_link_that_names_only_a_study_shows_its_preset():
    study = registry.find("spike")
    assert from_query({"study": "spike"}) == default_setting(study)
    assert from_query({}) is None


def test_a_link_that_fixes_the_curves_keeps_the_horizontal_axis():
    setting = from_query({"study": "spike", "set": "step_samples_per_dimension=2"})
    assert setting.values["step_samples_per_dimension"] == 2.0
    assert list(setting.over) == ["step_size"]


def test_a_wrong_name_is_told_the_nearest_one_and_cut():
    with pytest.raises(InputError, match="did you mean spike") as told:
        from_query({"study": "spyke"})
    assert len(str(told.value)) < 160
    with pytest.raises(InputError) as told:
        from_query({"study": "y" * 5000})
    assert len(str(told.value)) < 200
    with pytest.raises(InputError) as told:
        from_query({"study": "spike", "set": "activation=" + "y" * 1500})
    shown = wrong(str(told.value) + "<b>")
    assert "y" * 81 not in shown
    assert "<b>" not in shown
