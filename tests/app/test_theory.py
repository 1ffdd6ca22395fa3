"""The theory's lines are dense where that is quick, and say so where it is not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from unlazy.app import theory
from unlazy.app.setting import default_setting, make_setting
from unlazy.lab import Output, Source, Study, registry, value


class Clock:
    """A processor's time that passes only where the theory is evaluated: the tests' machine has no part in it."""

    now = 0.0

    @classmethod
    def thread_time(cls):
        return cls.now


@dataclass(frozen=True)
class Square(Study):
    name = "square"
    topic = "own"
    question = "What is a square?"
    sources = (Source("k", "A, B", 2020, "T", "V"),)
    a: float = value(1.0, "a number", low=0, high=4)
    b: float = value(1.0, "another", low=0, high=4)
    outputs = {"y": Output("y")}
    presets = {"quick": {"a": [0.0, 1.0, 2.0, 4.0], "b": [1.0, 2.0]}}
    seconds: ClassVar[float] = 0.0

    def simulate(self, rng):
        return {"y": self.a**2 * self.b}

    def predict(self):
        Clock.now += self.seconds
        return {"y": self.a**2 * self.b}


def lines(setting, **options):
    return theory.found(setting, **options).lines(setting)


@pytest.fixture
def setting(monkeypatch):
    monkeypatch.setattr(theory, "_RATES", {})
    monkeypatch.setattr(theory, "time", Clock)
    return default_setting(Square, "main")


def test_quick_theory_is_drawn_between_the_points_too(setting):
    found = lines(setting)
    assert found.dense
    # 60 from end to end, and the two points that do not fall on them.
    assert found.dataset.sizes == {"a": 62, "b": 2}
    assert {0.0, 1.0, 2.0, 4.0} <= set(found.dataset.a.values)
    np.testing.assert_allclose(found.dataset.y.sel(b=2.0), 2 * found.dataset.a**2)


def test_slower_theory_is_drawn_at_the_points_alone(setting, monkeypatch):
    monkeypatch.setattr(Square, "seconds", 0.02)
    found = lines(setting, budget=0.1)
    assert not found.dense
    assert not found.waits
    assert found.dataset.sizes == {"a": 4, "b": 2}
    assert found.seconds == pytest.approx(4 * 2 * 0.02)


def test_very_slow_theory_waits_until_it_is_asked_for(setting, monkeypatch):
    monkeypatch.setattr(Square, "seconds", 0.02)
    found = lines(setting, budget=0.01, patience=0.1)
    assert found.waits
    assert found.dataset is None
    assert found.seconds == pytest.approx(4 * 2 * 0.02)
    assert lines(setting, budget=0.01, patience=100).dataset is not None


@dataclass(frozen=True)
class Pole(Square):
    """Infinite at a = pi/2."""

    name = "pole"

    def predict(self):
        Clock.now += self.seconds
        return {"y": self.b / abs(self.a - np.pi / 2)}


def test_lines_have_more_values_around_a_peak(setting):
    found = lines(default_setting(Pole, "main"))
    a, y = found.dataset.a.values, found.dataset.y.sel(b=1.0).values
    assert (np.diff(a) > 0).all()
    np.testing.assert_array_equal(y, 1 / abs(a - np.pi / 2))
    # Three times four times as near as 60 values from 0 to 4 are, which lie 4/59 apart.
    assert np.diff(a).min() <= 4 / 59 / 4**3
    assert abs(a - np.pi / 2).min() < 4 / 59 / 4**3
    np.testing.assert_array_equal(found.dataset.y.sel(b=2.0), 2 * y)
    # A rounded top is none, and what takes long gets none.
    assert lines(setting).dataset.sizes["a"] == 62


def test_no_value_of_quick_theory_is_evaluated_twice(setting, monkeypatch):
    monkeypatch.setattr(Square, "seconds", 1e-4)
    for _ in range(2):
        assert lines(setting).seconds == pytest.approx(2 * 62 * 1e-4)


def test_very_slow_theory_is_not_tried_again_before_a_size_changes(setting, monkeypatch):
    monkeypatch.setattr(Square, "seconds", 0.02)
    monkeypatch.setattr(theory, "_SIZES", {})
    other = make_setting(Square, "main", "a", [], ["a=0,1,2,4", "b=3,4"])
    assert lines(setting, budget=0.01, patience=0.1).waits
    before = Clock.now
    found = lines(other, budget=0.01, patience=0.1)
    assert found.waits
    assert found.seconds == pytest.approx(4 * 2 * 0.02)
    assert Clock.now == before


def test_theory_that_remembers_results_is_not_taken_for_quick(setting, monkeypatch):
    """A new value costs 0.3 s, one that was asked for before nothing."""
    known = set()

    def predict(self):
        Clock.now += 0.0 if (self.a, self.b) in known else 0.3
        known.add((self.a, self.b))
        return {"y": self.a**2 * self.b}

    monkeypatch.setattr(Square, "predict", predict)
    lines(setting, patience=10)
    for _ in range(5):
        before = Clock.now
        assert not lines(setting).dense
        # One new value at both b; sixty would be 36 s.
        assert Clock.now - before <= 0.6001


def test_the_peak_without_a_ridge_is_drawn_to_the_next_sample():
    study = registry.find("ridge-equivalent")
    setting = make_setting(study, "ridges", "n", ["ridge=0"], ["n=100,200,400,800"], outputs=["risk"])
    values = lines(setting, budget=60).dataset.n.values
    # The risk without a ridge is infinite at n = d.
    assert np.diff(values).min() == 1
    assert 400 in values


def test_a_study_without_theory_has_no_lines():
    assert lines(default_setting(registry.find("cutmix"), "main")).dataset is None


def test_a_path_is_evaluated_at_more_values_than_are_simulated():
    found = lines(default_setting(registry.find("spike"), "main"), budget=60)
    assert found.dataset.sizes["step_size"] > 12
    assert {1.0, 8.0} <= set(found.dataset.step_size.values)


def test_names_on_the_horizontal_axis_have_nothing_between_them():
    study = registry.find("spike")
    found = lines(make_setting(study, "main", "activation", ["step_size=4"], ["activation=erf,tanh"]))
    assert list(found.dataset.activation.values) == ["erf", "tanh"]
    assert found.dense
