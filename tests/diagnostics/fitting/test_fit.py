"""One door for a table: the choice on tables whose answer is known, honest scores, files and bad input."""

import signal
import time

import numpy as np
import pandas as pd
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics.fitting import answer, contest, fit, load_model, save_model
from unlazy.diagnostics.fitting.candidates import CONSTANT, LINEAR, Contender, candidates
from unlazy.diagnostics.fitting.contest import chosen


@pytest.fixture
def quick(monkeypatch):
    """Without mean-field networks, whose training takes longer than all the rest."""
    monkeypatch.setattr(
        answer,
        "candidates",
        lambda *given: [one for one in candidates(*given) if one.name not in ("mean field", "index")],
    )


def bent(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
    frame["city"] = rng.choice(["Rome", "Oslo"], n)
    frame["y"] = np.sin(2.5 * frame.a) * frame.b + (frame.city == "Rome") + 0.1 * rng.standard_normal(n)
    frame.loc[::17, "c"] = np.nan
    return frame


@pytest.mark.usefixtures("quick")
def test_a_bent_table_is_left_to_a_method_that_bends_and_the_score_is_that_of_new_rows():
    found = fit(bent(300, 0), "y")
    assert found.chosen not in (CONSTANT, LINEAR)
    new = bent(4000, 1)
    truth = 1 - np.mean((found.model.predict(new.drop(columns="y")) - new.y) ** 2) / new.y.var()
    # the model for all rows has half as many again as those that were judged
    assert found.score.low - 0.05 < truth < found.score.high + 0.15
    assert set(list(found.importances)[:3]) == {"a", "b", "city"}
    assert all(found.importances[name].high < 0.1 for name in "cd")
    assert "y best" in str(found)
    assert "city" in str(found)


@pytest.mark.usefixtures("quick")
def test_a_linear_table_is_left_to_a_linear_model_and_noise_to_a_constant():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.standard_normal((200, 5)), columns=list("abcde"))
    line = fit(frame.assign(y=frame.a - frame.b + rng.standard_normal(200)), "y")
    assert line.chosen == LINEAR
    noise = fit(frame.assign(y=rng.standard_normal(200)), "y")
    assert noise.chosen == CONSTANT
    assert "better than by a constant" in str(noise)


@pytest.mark.usefixtures("quick")
def test_classes_are_seen_and_their_model_can_be_kept(tmp_path):
    pytest.importorskip("skops")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((240, 3)), columns=list("abc"))
    frame["kind"] = np.where(frame.a * frame.b > 0, "same", "other")
    found = fit(frame, "kind")
    assert found.kind == "classes"
    assert found.chosen not in (CONSTANT, LINEAR)
    assert found.errors[found.chosen] < 0.25 < found.errors[LINEAR]
    save_model(found.model, tmp_path / "kind.skops")
    again = load_model(tmp_path / "kind.skops")
    rows = frame.drop(columns="kind")
    np.testing.assert_array_equal(again.predict_proba(rows), found.model.predict_proba(rows))
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert found.chosen in page
    assert found.as_json()["chosen"] == found.chosen


def graded(n=120):
    rng = np.random.default_rng(9)
    frame = pd.DataFrame(rng.standard_normal((n, 2)), columns=list("ab"))
    return frame, np.digitize(frame.a, [-0.5, 0.5])


@pytest.mark.parametrize(
    ("target", "of", "values"),
    [
        (lambda grade: grade, np.integer, [0, 1, 2]),
        (lambda grade: pd.Series(grade, dtype="Int64"), np.integer, [0, 1, 2]),
        (lambda grade: pd.Series(grade).where(np.arange(len(grade)) % 9 > 0), np.integer, [0, 1, 2]),
        (lambda grade: grade > 0, np.bool_, [False, True]),
        (lambda grade: pd.Series(grade > 0).where(np.arange(len(grade)) % 9 > 0), np.bool_, [False, True]),
        (lambda grade: pd.Categorical(grade), np.integer, [0, 1, 2]),
        (lambda grade: np.array(["low", "middle", "top"])[grade], str, ["low", "middle", "top"]),
    ],
    ids=["int", "Int64", "int with gaps", "bool", "bool with gaps", "categories", "text"],
)
@pytest.mark.usefixtures("quick")
def test_classes_are_predicted_with_the_values_and_the_type_of_the_target(target, of, values, tmp_path):
    pytest.importorskip("skops")
    rows, grade = graded()
    found = fit(rows.assign(grade=target(grade)), "grade", budget=0.0)
    save_model(found.model, tmp_path / "grade.skops")
    for model in (found.model, load_model(tmp_path / "grade.skops")):
        predictions = model.predict(rows)
        assert isinstance(predictions[0], of)
        assert np.unique(predictions).tolist() == values


def test_rare_classes_are_named_with_their_own_values():
    rows, grade = graded()
    grade[:3] = 7
    assert "fewer than 6 different rows are left out: 7" in str(fit(rows.assign(grade=grade), "grade", budget=0.0))


def test_texts_among_the_numbers_of_a_target_are_named():
    frame = bent(60, 10)
    dirty = frame.y.astype(object).where(np.arange(60) != 4, "unknown")
    for options, wanted in (({}, "numbers or classes"), ({"kind": "numbers"}, "numbers")):
        with pytest.raises(InputError) as caught:
            fit(frame.assign(y=dirty), "y", **options)
        message = f"target column 'y' must hold {wanted}, got 1 text such as 'unknown' among 59 numbers"
        assert str(caught.value) == message
    with pytest.raises(InputError, match="must hold numbers or classes, got numbers as text such as"):
        fit(frame.assign(y=frame.y.astype(str)), "y")
    with pytest.raises(InputError, match="got 0 rows in 0 such classes, of 60 classes such as"):
        fit(frame.assign(y=dirty), "y", kind="classes")


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_every_method_draws_from_the_seed(kind):
    for one in candidates(kind, 2, 5):
        for name, value in one.build().get_params().items():
            if name.split("__")[-1] == "random_state" and one.name != CONSTANT:
                assert value == 5, (one.name, name)


def test_choice_is_not_flattered_by_the_rows_that_it_was_made_on():
    """Of forty methods that only guess, the best looks good on the rows that chose it, and the choice does not."""
    rng = np.random.default_rng(4)
    target = rng.standard_normal(60)

    class Guess:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return rng.standard_normal(len(X))

    tried = [Contender(f"guess {i}", "chance", Guess) for i in range(40)]
    excess, table = [], (pd.DataFrame({"a": target}), target, np.arange(60))
    for seed in range(20):
        found = contest.contest(tried, *table, "numbers", 60.0, seed, lambda _: None)
        assert min(one.losses.mean() for one in found.results) < found.choice_losses.mean()
        excess.append(found.choice_losses.mean() - (target.var() + target.mean() ** 2 + 1))
    # a guess misses by var y + 1
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(20)
    assert np.mean(excess) > -0.2


def test_a_simple_method_is_left_only_for_a_clear_gain():
    rng = np.random.default_rng(5)
    base, noise = rng.random(400), 0.1 * rng.standard_normal(400)
    names = [CONSTANT, LINEAR, "other"]
    assert chosen(names, np.array([base + 1, base, base - 0.001 + noise - noise.mean()])) == LINEAR
    assert chosen(names, np.array([base + 1, base, base - 0.1 + noise])) == "other"
    assert chosen(names, np.array([base, base + 0.1, base + 0.1])) == CONSTANT


def nearest(monkeypatch, kind):
    """A contest of the constant and of a method that only remembers."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    constant, memory = (
        (DummyRegressor, KNeighborsRegressor)
        if kind == "numbers"
        else (lambda: DummyClassifier(strategy="prior"), KNeighborsClassifier)
    )
    tried = [Contender(CONSTANT, "mean", constant), Contender("memory", "the nearest row", lambda: memory(1))]
    monkeypatch.setattr(answer, "candidates", lambda *_: tried)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
@pytest.mark.parametrize("rows", [150, 1200])
def test_copies_of_rows_are_no_unseen_rows(monkeypatch, kind, rows):
    nearest(monkeypatch, kind)
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(rng.standard_normal((rows, 3)), columns=list("abc"))
    frame["y"] = rng.standard_normal(rows) if kind == "numbers" else rng.integers(0, 2, rows)
    twice = pd.concat([frame, frame.sample(frac=1, random_state=0)], ignore_index=True)
    found = fit(twice, "y")
    assert found.n == 2 * rows
    assert f"{rows} of {2 * rows} rows repeat the inputs of another one" in found.notes[-1]
    # noise that was remembered is worse than the constant
    assert found.scores["memory"].value < -0.2
    assert "repeat" not in str(fit(frame, "y"))


def test_equal_rows_of_a_table_of_few_values_are_separate_rows():
    rng = np.random.default_rng(12)
    frame = pd.DataFrame({"a": rng.integers(0, 3, 300), "b": rng.integers(0, 2, 300)})
    frame["y"] = frame.a + frame.b + rng.standard_normal(300)
    found = fit(frame, "y", budget=0.0)
    assert "with 6 different inputs they are taken for separate rows" in found.notes[-1]
    assert 0.2 < found.score.value < 0.7


def test_fit_tells_what_was_done_to_the_columns_as_forecast_does():
    from unlazy.diagnostics import forecast

    frame = bent(60, 13).assign(id=[f"row {i}" for i in range(60)], one=1.0)
    frame.loc[3, "a"] = np.inf
    told = fit(frame, "y", budget=0.0).notes
    assert told == forecast(frame, "y", kernel="ridge").table.notes
    assert [note.split(":")[0] for note in told][:3] == [
        "infinite values count as gaps",
        "columns that are constant are left out",
        "columns that hold a different text in most rows are left out",
    ]


def test_methods_that_differ_by_chance_alone_are_named_together(monkeypatch):
    from sklearn.dummy import DummyRegressor
    from sklearn.neighbors import KNeighborsRegressor

    neighbours = {"five": 5, "six": 6, "all": 190}
    tried = [Contender(name, "", lambda count=count: KNeighborsRegressor(count)) for name, count in neighbours.items()]
    monkeypatch.setattr(answer, "candidates", lambda *_: [Contender(CONSTANT, "", DummyRegressor), *tried])
    rng = np.random.default_rng(22)
    frame = pd.DataFrame(rng.standard_normal((300, 2)), columns=["a", "b"])
    frame["y"] = np.sin(2 * frame.a) + frame.b + 0.3 * rng.standard_normal(300)
    found = fit(frame, "y")
    assert {found.chosen, *found.as_good} == {"five", "six"}


@pytest.mark.parametrize(
    ("chosen_one", "score", "gain", "start"),
    [
        ("metric machine", (0.62, 0.55, 0.69), (0.3, 0.2, 0.4), "The method 'metric machine' predicts y best, 'boo"),
        ("boosting", (0.62, 0.55, 0.69), (0.3, 0.2, 0.4), "Boosting predicts y best: "),
        ("boosting", (0.62, 0.55, 0.69), (0.01, -0.1, 0.1), "Boosting was chosen for y, but a linear model may be as"),
        ("metric machine", (0.03, -0.13, 0.18), (-0.08, -0.2, 0.1), "Nothing predicts y surely: the method 'metric "),
        (LINEAR, (0.1, 0.05, 0.15), None, "A linear model predicts y as well as any other, up to chance: "),
        (LINEAR, (0.1, -0.05, 0.15), None, "Nothing predicts y surely: a linear model "),
        (CONSTANT, (0.0, 0.0, 0.0), None, "These rows do not tell "),
    ],
)
def test_the_sentence_is_no_surer_than_the_intervals(chosen_one, score, gain, start):
    share = answer.ExplainedShare
    own = {CONSTANT: 0.0, LINEAR: 0.11, "boosting": 0.6, "metric machine": 0.64}
    found = answer.FittedTable(
        target="y",
        kind="numbers",
        n=100,
        model=None,
        chosen=chosen_one,
        score=share(*score),
        gain=None if gain is None else share(*gain),
        as_good=("boosting",) if chosen_one == "metric machine" else (),
        scores={name: share(value, value - 0.1, value + 0.1) for name, value in own.items()},
        errors=dict.fromkeys(own, 1.0),
        seconds=dict.fromkeys(own, 1.0),
        skipped={},
        importances={},
        notes=(),
    )
    said = found.as_json()["sentences"][0]
    assert said.startswith(start)
    assert ("best" in said) == (score[1] > 0 and gain is not None and gain[1] > 0)
    if chosen_one != CONSTANT:
        # methods are compared by their own scores, and the choice has its own interval
        assert f"explains {own[chosen_one]:.0%} of the variance of rows it has not seen, against " in said
        assert f"what was chosen explains {score[0]:.0%} ({score[1]:.0%} to {score[2]:.0%})" in said


def test_budget_ends_the_contest_and_says_so():
    frame = bent(60, 6)
    found = fit(frame, "y", budget=0.0)
    assert set(found.scores) == {CONSTANT, LINEAR}
    assert "budget" in found.skipped["metric machine"]


def test_a_method_that_outlasts_the_budget_is_broken_off_or_left_out():
    class Slow:
        def fit(self, X, y):
            until = time.perf_counter() + 20
            while time.perf_counter() < until:
                time.sleep(0.01)

    guess = [one for one in candidates("numbers", 0, 0) if one.name in (CONSTANT, LINEAR)]
    tried = [*guess, Contender("slow", "", Slow), Contender("expected", "", Slow, lambda rows, columns: 10.0 * rows)]
    frame = bent(60, 14)
    begin = time.perf_counter()
    table = frame.drop(columns="y"), frame.y.to_numpy(), np.arange(60)
    found = contest.contest(tried, *table, "numbers", 2.0, 0, lambda _: None)
    assert time.perf_counter() - begin < 5
    assert [one.candidate.name for one in found.results] == [CONSTANT, LINEAR]
    assert "too few: given up after" in found.skipped["slow"]
    # four fits to 40 rows of 10 s each
    assert "about 1600 s are expected" in found.skipped["expected"]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_no_method_computes_a_certificate_that_the_contest_does_not_use(kind):
    (network,) = [one for one in candidates(kind, 2, 0) if one.name == "mean field"]
    assert not network.build().certificate
    assert network.seconds(100, 5) < network.seconds(100, 200) < network.seconds(8000, 200)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"target": "x"}, "there is no column 'x'"),
        ({"y": 1.0}, {}, "target column 'y' is constant"),
        ({"y": "text"}, {"kind": "numbers"}, "target column 'y' must hold numbers"),
        ({}, {"kind": "both"}, "kind must be"),
        ({}, {"budget": -1}, "budget must be"),
        ({}, {"random_state": 0.5}, "random_state must be"),
        ({"y": np.inf}, {}, "target column 'y' must be finite"),
    ],
)
def test_bad_input_is_one_line(change, options, message):
    with pytest.raises(InputError, match=message) as caught:
        fit(bent(50, 7).assign(**change), **({"target": "y"} | options))
    assert "\n" not in str(caught.value)


def test_too_few_rows_and_no_columns_are_refused():
    with pytest.raises(InputError, match="at least 30 rows"):
        fit(bent(20, 8), "y")
    with pytest.raises(InputError, match="no column to learn from"):
        fit(bent(50, 8)[["y"]], "y")


def test_a_file_of_another_kind_is_refused(tmp_path):
    pytest.importorskip("skops")
    for name, message in (("m.pkl", "must end in .skops"), ("m.skops", "does not exist")):
        with pytest.raises(InputError, match=message):
            load_model(tmp_path / name)
