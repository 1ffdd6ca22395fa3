"""Runs of small studies, from parameters to datasets and JSON."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab import Output, Study, path, registry, static, value
from unlazy.lab.claims import Claim, at_most
from unlazy.lab.grid import default_grid, preset_grids
from unlazy.plotting.panels import Panel, panels

TEXT = """
from dataclasses import dataclass
from unlazy.lab import Output, Study, path, static, value

CONSTANT = 1.0

@dataclass(frozen=True)
class Own(Study):
    name = "own-study"
    question = "?"
    sources = ()
    n: int = static(2, "n")
    outputs = {"y": Output("y"), "z": Output("z")}
    presets = {"quick": {"seeds": 2}}

    def simulate(self, rng):
        return {"y": CONSTANT * self.n, "z": 2.0}

    def predict(self):
        return {"y": self.n}
"""


@dataclass(frozen=True)
class Curves(Study):
    name = "test-curves"
    question = "?"
    sources = ()
    n: int = static(2, "size", low=1)
    speed: float = value(1, "speed", low=0)
    level: int = static(3, "level", choices=(1, 2, 3))
    horizon: float = value(1.0, "horizon")
    at: tuple = path((1, 2), "place")
    outputs = {
        "curve": Output("curve", dims=("time",)),
        "here": Output("here", dims=("at",)),
        "bound": Output("bound", theory_only=True),
    }
    presets = {
        "quick": {
            "one": {"n": [2, 4, 8], "speed": 0.5, "seeds": 3},
            "two": {("n", "speed"): [(2, 1.0), (4, 1.0), (2, 3.0)], "seeds": 2},
        },
    }
    lines = {"one": "n"}

    def validate(self):
        if self.n % 2:
            raise InputError(f"n must be even, got {self.n}")

    def coordinates(self):
        return {"time": np.linspace(0, self.horizon, 4)}

    def simulate(self, rng):
        return {"curve": self.speed * np.arange(4.0), "here": self.n * np.asarray(self.at)}

    def predict(self):
        return {"curve": self.speed * np.arange(4.0), "bound": 10.0 * self.n}


@dataclass(frozen=True)
class ManyPoints(Study):
    """Its theory counts its calls."""

    name = "test-many-points"
    question = "?"
    sources = ()
    n: int = static(2, "size")
    slope: float = value(1.0, "slope")
    kind: str = static("right", "kind of theory", choices=("right", "fine", "wrong", "flat"))
    at: tuple = path((1.0, 2.0), "place")
    outputs = {"line": Output("line", dims=("at",)), "square": Output("square"), "sort": Output("sort")}
    presets = {"quick": {}}
    broadcasts = ("n", "slope")
    calls = []

    def simulate(self, rng):
        return {"line": np.ones(2), "square": 1.0, "sort": 0.0}

    def predict(self):
        self.calls.append(np.size(self.n))
        if np.any(np.asarray(self.n) > 90):
            raise InputError(f"n must be at most 90, got {self.n}")
        slope = np.mean(self.slope) if self.kind == "wrong" else self.slope
        square = np.squeeze(self.n) ** 2 if self.kind == "flat" else self.n**2
        return {"line": slope * np.array(self.at) + self.n, "square": square, "sort": float(len(self.kind))}


@pytest.mark.parametrize(("kind", "calls"), [("right", 1 + 1), ("wrong", 1 + 1 + 12), ("flat", 1 + 1 + 12)])
def test_theory_that_takes_arrays_is_called_once_where_that_gives_the_same(kind, calls):
    ManyPoints.calls.clear()
    found = unlazy.predict(ManyPoints, set={"kind": kind}, over={"slope": [1.0, 2.0, 5.0], "n": [1, 2, 3, 7]})
    np.testing.assert_array_equal(found.line, (found.slope + 0 * found.n) * found["at"] + found.n)
    np.testing.assert_array_equal(found.square, np.tile([1, 4, 9, 49], (3, 1)))
    np.testing.assert_array_equal(found["sort"], len(kind))
    assert len(ManyPoints.calls) == calls


def test_axes_that_theory_takes_no_arrays_of_stay_apart():
    ManyPoints.calls.clear()
    found = unlazy.predict(ManyPoints, over={"n": [1, 2, 3, 7], "kind": ["right", "fine"], "slope": [1.0, 2.0]})
    assert found.line.dims == ("n", "kind", "slope", "at")
    for kind in ("right", "fine"):
        one = found.sel(kind=kind)
        np.testing.assert_array_equal(one.line, found.n + found.slope * found["at"])
        np.testing.assert_array_equal(one["sort"], len(kind))
    assert len(ManyPoints.calls) == 2 * (1 + 1)


def test_a_point_that_theory_refuses_is_named_among_many():
    with pytest.raises(InputError, match=r"^n must be at most 90, got 95$"):
        unlazy.predict(ManyPoints, over={"n": [1, 2, 95, 99], "slope": [1.0, 2.0]})


def test_broadcasts_names_parameters_that_are_one_number():
    for wrong in ("at", "kind", "speed"):
        with pytest.raises(InputError, match=f"broadcasts names '{wrong}'"):
            registry.find(type("Other", (ManyPoints,), {"name": "other", "broadcasts": (wrong,)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": {"line\x1b": Output("line")}},
        {"presets": {"quick": {"a\u202e": {}, "b": {}}}},
        {"inner": {"\x9b": [1, 2]}},
    ],
)
def test_names_that_cannot_be_printed_are_refused(changes):
    with pytest.raises(InputError, match=r"names that can be printed, got '.*\\"):
        registry.find(type("Other", (ManyPoints,), {"name": "other", **changes}))


def test_a_text_that_cannot_be_printed_is_no_value():
    @dataclass(frozen=True)
    class Texts(ManyPoints):
        text: str = static("a", "text")

    with pytest.raises(InputError, match="text must be a name, got"):
        default_grid(Texts, set={"text": "a\x1b"})


@pytest.fixture
def store(tmp_path):
    return tmp_path / "results.sqlite"


def test_datasets_carry_axes_paths_and_coordinates(store):
    result = unlazy.run(Curves, store=store)
    one = result.simulated["one"]
    assert dict(one.curve.sizes) == {"n": 3, "seed": 3, "time": 4}
    np.testing.assert_allclose(one.time, [0, 1 / 3, 2 / 3, 1])
    assert one["at"].values.tolist() == [1, 2]
    assert one.attrs["speed"] == 0.5
    two = result.simulated["two"]
    assert two.n.values.tolist() == [2, 4, 2]
    assert two.speed.dims == ("n",)
    assert "bound" in result.predicted["one"]
    assert "bound" not in one


def test_a_coordinate_that_differs_between_points_is_refused(store):
    with pytest.raises(InputError, match="coordinate time of test-curves differs"):
        unlazy.run(Curves, over={"horizon": [1.0, 10.0]}, store=store)


def test_json_has_every_parameter_once(store):
    answer = json.loads(json.dumps(unlazy.run(Curves, set={"n": 6}, store=store).as_json()))
    assert answer["parameters"]["n"] == 6
    assert answer["parameters"]["level"] == 3
    assert "speed" not in answer["parameters"]
    assert answer["results"]["one"]["speed"] == 0.5
    assert answer["results"]["two"]["speed"] == [1.0, 3.0]
    assert answer["results"]["one"]["n"] == [6]


def test_the_declared_type_of_a_parameter_counts_more_than_that_of_its_default():
    assert next(default_grid(Curves, set={"speed": 0.25}).points())["speed"] == 0.25


def test_choices_may_be_numbers_and_come_from_text():
    assert next(default_grid(Curves, set={"level": "2"}).points())["level"] == 2
    with pytest.raises(InputError, match="level must be one of 1, 2, 3"):
        default_grid(Curves, set={"level": 4})


def test_theory_lines_leave_out_what_the_study_refuses():
    grid = preset_grids(Curves, "quick")["one"].denser("n")
    assert grid.axes[0].column("n") == [2, 4, 6, 8]


def test_a_prediction_without_axes_and_dimensions_is_one_number():
    @dataclass(frozen=True)
    class Scalar(Study):
        name = "test-scalar"
        question = "?"
        sources = ()
        n: int = static(2, "n")
        outputs = {"y": Output("y")}
        presets = {"quick": {}}

        def simulate(self, rng):
            return {"y": 1.0}

        def predict(self):
            return {"y": 3.0}

    assert unlazy.predict(Scalar).y.item() == 3.0


def test_a_path_cannot_vary_together_with_other_parameters():
    @dataclass(frozen=True)
    class Zipped(Curves):
        name = "test-zipped"
        presets = {"quick": {("n", "at"): [(2, (1, 2))]}}
        lines = {}

    with pytest.raises(InputError, match="a path cannot vary together"):
        preset_grids(Zipped, "quick")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ("oen",)}, "claim 'c' has the argument 'oen', which is no part .did you mean one"),
        (
            {"parts": ("one",), "keys": ("nobody1900",)},
            "claim 'c' is from 'nobody1900', which is not among the sources",
        ),
    ],
)
def test_a_claim_that_names_nothing_is_refused(options, message):
    wrong = Claim("c", "t.", at_most(1), lambda p: p.simulated.here, **options)

    @dataclass(frozen=True)
    class Mistyped(Curves):
        name = "test-mistyped"
        claims = (wrong,)

    with pytest.raises(InputError, match=message):
        registry.find(Mistyped)


def test_an_instance_is_not_a_study():
    with pytest.raises(InputError, match="Study class"):
        unlazy.run(Curves(n=4))


@pytest.mark.parametrize(
    "options", [{"seeds": float("nan")}, {"seeds": [3]}, {"memory": "2"}, {"memory": float("inf")}]
)
def test_wrong_options_from_python_are_refused(store, options):
    with pytest.raises(InputError, match=next(iter(options))):
        unlazy.run(Curves, store=store, **options)


def test_the_default_figure_tells_zipped_cases_apart(store):
    result = unlazy.run(Curves, store=store)
    figure = result.figure()
    labels = [text.get_text() for axes in figure.axes if axes.get_legend() for text in axes.get_legend().get_texts()]
    assert "n = 2, speed = 3" in labels


def test_a_figure_that_does_not_fit_the_run_gives_way_to_the_plain_one(store):
    @dataclass(frozen=True)
    class Picky(Curves):
        name = "test-picky"

        figure = panels(Panel(part="one", draw=lambda axes, **parts: parts["no such part"]))

    result = unlazy.run(Picky, store=store)
    with pytest.warns(RuntimeWarning, match="does not fit this run"):
        assert result.figure().axes


@pytest.mark.parametrize(
    "options",
    [
        {"set": {"ridge": (0.0,)}},
        {"over": {"noise_variance": [0.1, 0.2]}},
        {"set": {"n": 5}},
        {"set": {"ridge": (0.1,)}},
    ],
)
def test_the_figure_of_the_ridge_study_takes_ordinary_options(store, options):
    options = {**options, "set": {"d": 8, **options.get("set", {})}}
    figure = unlazy.run("ridge-equivalent", seeds=2, store=store, **options).figure()
    assert figure.axes


class OwnFile:
    """A study in a file that a test edits."""

    def __init__(self, folder):
        self.file = folder / "own_study.py"
        self.file.write_text(TEXT)

    def edit(self, old, new):
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))


def test_code_that_was_edited_after_it_was_loaded_is_not_run_under_its_new_name(tmp_path, store):
    own = OwnFile(tmp_path)
    loaded = registry.find(str(own.file))
    own.edit("CONSTANT = 1.0", "CONSTANT = 22.0")
    with pytest.raises(InputError, match="changed after this process had loaded it"):
        unlazy.run(loaded, store=store)
    assert unlazy.run(str(own.file), store=store).simulated.y.values.tolist() == [44.0, 44.0]


def test_results_from_before_an_output_was_declared_are_computed_again(tmp_path, store):
    own = OwnFile(tmp_path)
    unlazy.run(str(own.file), store=store)
    own.edit(', "z": Output("z")}', "}")
    with pytest.raises(InputError, match="declares the outputs y but simulate returned y, z"):
        unlazy.run(str(own.file), seeds=3, store=store)
    assert list(unlazy.run(str(own.file), store=store).simulated.data_vars) == ["y"]
    own.edit('"y": Output("y")}', '"y": Output("y"), "z": Output("z"), "w": Output("w")}')
    with pytest.raises(InputError, match="declares the outputs w, y, z"):
        unlazy.run(str(own.file), store=store)


def test_a_study_that_imports_the_whole_package_depends_on_all_of_it(tmp_path):
    from unlazy.lab.running.fingerprint import dependencies

    own = OwnFile(tmp_path)
    own.edit("CONSTANT = 1.0", "import unlazy\nCONSTANT = float(unlazy.functions.spectra.power_law(1, 1.0)[0])")
    found = dependencies(registry.find(str(own.file)))
    assert "unlazy.functions.spectra" in found
    assert not any(name.startswith("unlazy.lab") for name in found)


def test_a_simulation_that_captures_variables_is_refused(store):
    def factory(constant):
        @dataclass(frozen=True)
        class Captured(Curves):
            name = "test-captured"

            def simulate(self, rng):
                return {"curve": constant * np.arange(4.0), "here": np.asarray(self.at)}

        return Captured

    with pytest.raises(InputError, match="'constant' of the function around the class"):
        unlazy.run(factory(1.0), store=store)


@pytest.mark.parametrize("given", ["n=3", 3, [3]])
@pytest.mark.parametrize("name", ["set", "over"])
def test_parameters_are_a_dict_or_a_list_of_texts(name, given):
    with pytest.raises(InputError, match=f"{name} must be a dict, or a list of texts like 'name=value', got"):
        unlazy.predict("spike", **{name: given})


def test_parameters_may_be_given_as_on_the_command_line():
    texts = unlazy.predict("spike", set=["d=64"], over=["step_samples_per_dimension=1,4"])
    numbers = unlazy.predict("spike", set={"d": 64}, over={"step_samples_per_dimension": [1.0, 4.0]})
    assert texts.identical(numbers)


def test_progress_is_a_function(study, store):
    with pytest.raises(InputError, match="progress must be a function of an event, got None"):
        unlazy.run(study("Hosted"), store=store, progress=None)
    assert not store.exists()
