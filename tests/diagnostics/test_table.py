"""Tables of a user's own: files, targets, and what becomes of mistakes."""

import numpy as np
import pandas as pd
import pytest

from unlazy.checks import InputError
from unlazy.data.table_encoder import TableEncoder
from unlazy.diagnostics.table import learning_table, read_table


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": rng.normal(50, 10, 30),
            "age": np.where(np.arange(30) % 7 == 0, np.nan, rng.normal(5, 2, 30)),
            "colour": np.array(["red", "green", None] * 10, dtype=object),
            "name": [f"house {i}" for i in range(30)],
            "empty": [np.nan] * 30,
            "same": [1.0] * 30,
            "new": [True, False] * 15,
            "price": rng.normal(size=30),
        }
    )


def test_columns_are_those_of_the_encoder_and_notes_say_what_happened(frame):
    table = learning_table(frame, "price")
    encoder = TableEncoder()
    np.testing.assert_array_equal(table.inputs, encoder.fit_transform(frame.drop(columns="price")))
    assert table.columns == tuple(encoder.get_feature_names_out())
    assert table.sources[:4] == ("size", "age", "age", "colour")
    text = " | ".join(table.notes)
    for part in ("no values are left out: empty", "constant are left out: same", "most rows are left out: name", "age"):
        assert part in text
    np.testing.assert_array_equal(table.targets[:, 0], frame["price"])


def test_rows_without_a_target_are_left_out(frame):
    frame.loc[:4, "price"] = np.nan
    table = learning_table(frame, "price")
    assert len(table.inputs) == 25
    assert "5 rows without a target are left out" in table.notes


def test_several_targets_stand_side_by_side(frame):
    assert learning_table(frame, ["price", "size"]).targets.shape == (30, 2)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet"])
def test_every_format_gives_the_same_table(frame, tmp_path, ending):
    file = tmp_path / f"data{ending}"
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(file)
    else:
        frame.to_csv(file, index=False, sep="\t" if "tsv" in ending else ",")
    found, expected = learning_table(read_table(file), "price"), learning_table(frame, "price")
    np.testing.assert_allclose(found.inputs, expected.inputs, rtol=1e-9, atol=1e-12)
    assert found.columns == expected.columns


@pytest.mark.parametrize(
    ("change", "target", "message"),
    [
        (lambda f: f, "prise", r"there is no column 'prise' \(did you mean price\?\)"),
        (lambda f: f.assign(price=3.0), "price", "target column 'price' is constant: 3 in every row"),
        (lambda f: f, "name", "target column 'name' must hold numbers, or two classes, got 30 texts such as 'house 0'"),
        (lambda f: f.assign(price="yes"), "price", "target column 'price' is constant: 'yes' in every row"),
        (lambda f: f.iloc[:1], "price", "at least 10 rows with a target, got 1"),
        (lambda f: f.iloc[:0], "price", "at least 10 rows with a target, got 0"),
        (lambda f: f[["price"]], "price", "no column to learn from besides the target"),
        (lambda f: f[["price", "empty"]], "price", "no column to learn from besides the target"),
        (lambda f: f.assign(price=np.inf), "price", "target column 'price' must be finite, got inf"),
        (lambda f: f, [], "target must name at least one column"),
        (lambda f: f, ["price", "price"], "column names must differ, got 'price' more than once"),
        (
            lambda f: pd.concat([f, f[["price"]]], axis=1),
            "price",
            "column names must differ, got 'price' more than once",
        ),
        (lambda f: f.rename(columns={"price": "\x1b[31m"}), "\x1b[31m", r"no control characters, got '\\x1b\[31m': "),
        (
            lambda f: f.rename(columns={"colour": "a\u202eb"}),
            "price",
            r"no control characters, got 'a\\u202eb': rename",
        ),
        (lambda f: f.assign(size=1e300), "price", r"column 'size' must be between -1e\+100 and 1e\+100, got 1e\+300"),
        (
            lambda f: f.assign(colour=[[1]] * len(f)),
            "price",
            "column 'colour' must hold numbers or text, got a list in",
        ),
    ],
)
def test_mistakes_are_named(frame, change, target, message):
    with pytest.raises(InputError, match=message) as told:
        learning_table(change(frame), target)
    assert str(told.value).isprintable()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.xlsx", b"", "must end in one of"),
        ("data.csv", b"", "is empty"),
        ("data.csv", b"a,b,a\n1,2,3\n", "column names must differ, got 'a' more than once"),
        ("data.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot be read"),
        ("data.csv", b"a\x1b[2J,b\n1,2\n", r"column names must have no control characters, got 'a\\x1b\[2J'"),
        ("a\x1b[2J.csv", b"a,b\n1,2\n", r"data file must have a name without control characters, got '.*a\\x1b\[2J"),
        ("data.csv", b"\xff\xfe\x00\xd8a,b", "cannot be read"),
        ("data.csv.gz", b"not zipped", "cannot be read"),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(file)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_and_decimal_commas_are_recognised(frame, tmp_path, separator):
    file = tmp_path / "data.csv"
    frame.to_csv(file, index=False, sep=separator, decimal=",")
    table, expected = learning_table(read_table(file), "price"), learning_table(frame, "price")
    np.testing.assert_allclose(table.inputs, expected.inputs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.targets, expected.targets)
    assert "columns are separated by a" in table.notes[0]
    assert table.notes[1].endswith("in: size, age, same, price")


def test_commas_stay_the_separator_where_text_holds_semicolons(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text('a,b\n"x;1,5",2\n"y;2,5",3\n')
    found = read_table(file)
    assert list(found.columns) == ["a", "b"]
    assert found.attrs["notes"] == []
    assert found["a"].tolist() == ["x;1,5", "y;2,5"]


def test_one_column_and_quoted_line_breaks_are_read(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("a\n1\n2\n")
    assert read_table(file)["a"].tolist() == [1, 2]
    file.write_text('a,b\n"two\nlines",2\nthree,3\n')
    assert read_table(file)["b"].tolist() == [2, 3]
    file.write_text("a;b\n" + '"two\n\nlines";2\n' * 30)
    assert read_table(file)["b"].tolist() == [2] * 30
    file.write_text("\ufeffa\tb\r\n1\t2\r\n", encoding="utf-8")
    assert list(read_table(file).columns) == ["a", "b"]


@pytest.mark.parametrize("lines_before", [0, 50])
def test_latin_1_is_read_with_a_note(tmp_path, lines_before):
    file = tmp_path / "data.csv"
    file.write_bytes(("a,b\n" + "x,1\n" * lines_before + "Größe,2\n").encode("latin-1"))
    found = read_table(file)
    assert found["a"].iloc[-1] == "Größe"
    assert "Latin-1" in found.attrs["notes"][0]


def test_infinite_inputs_are_told_and_filled_like_gaps(frame):
    gap, infinite = frame.copy(), frame.copy()
    gap.loc[3, "size"], infinite.loc[3, "size"] = np.nan, -np.inf
    found = learning_table(infinite, "price")
    np.testing.assert_array_equal(found.inputs, learning_table(gap, "price").inputs)
    assert "infinite values count as gaps: size" in found.notes
    assert any(note.endswith("marked: size, age") for note in found.notes)


def test_classes_as_targets_are_told(frame):
    whole = frame.assign(price=np.arange(30) % 3)
    assert any("has 3 distinct whole numbers" in note for note in learning_table(whole, "price").notes)
    for numbers in (np.arange(30) % 3 + 0.5, np.arange(30)):
        assert not any("distinct" in note for note in learning_table(frame.assign(price=numbers), "price").notes)


def test_two_texts_as_a_target_are_0_and_1_and_the_note_says_which(frame):
    words = np.array(["yes", "no"] * 15)
    for given in (words.astype(object), pd.Categorical(words)):
        found = learning_table(frame.assign(price=given), "price")
        np.testing.assert_array_equal(found.targets[:, 0], words == "yes")
        assert found.classes == {"price": ("no", "yes")}
        assert any(note.startswith("target 'price' is 0 for 'no' and 1 for 'yes'") for note in found.notes)
    assert learning_table(frame, "price").classes == {}


def test_a_missing_file_is_not_named_with_a_far_one(tmp_path):
    (tmp_path / "nan.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=r"does not exist$"):
        read_table(tmp_path / "nosuch.csv")


def test_a_missing_file_is_named_with_the_nearest_one(tmp_path):
    (tmp_path / "houses.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=r"does not exist \(did you mean houses.csv\?\)"):
        read_table(tmp_path / "house.csv")
