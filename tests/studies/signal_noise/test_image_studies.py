"""The studies on real images, on small made-up images in a folder of IDX files."""

import struct

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError

PARTS = {"train": 60, "t10k": 40}


def write(folder, seed=0):
    """Images of 16 x 16 pixels in which each class is a bright square of its own."""
    rng = np.random.default_rng(seed)
    for part, count in PARTS.items():
        classes = np.arange(count, dtype=np.uint8) % 10
        images = rng.integers(60, size=(count, 16, 16), dtype=np.uint8)
        for image, number in zip(images, classes, strict=True):
            row, column = 5 * (number // 4), 4 * (number % 4)
            image[row : row + 4, column : column + 4] = 250
        for kind, array in (("images-idx3", images), ("labels-idx1", classes)):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(head + array.tobytes())


@pytest.fixture
def folder(tmp_path):
    write(tmp_path)
    return tmp_path


def test_classes_are_learned_before_the_mistakes_and_results_belong_to_the_files(folder):
    small = {"folder": str(folder), "n": 60, "fresh": 40, "width": 2, "batch_size": 16, "steps": 200}
    small |= {"step_size": 0.01, "flip_probability": 0.2}
    store = folder / "results.sqlite"
    run = unlazy.run("label-noise-images", set=small, seeds=2, store=store)
    shown = run.parts["main"].simulated.mean("seed").squeeze()
    assert float(shown.held_out_accuracy.isel(step=0)) == pytest.approx(0.1, abs=0.01)
    assert float(shown.held_out_accuracy.max()) > 0.5
    early = int(shown.held_out_accuracy.argmax("step"))
    assert float(shown.clean_fit[early]) > float(shown.flipped_fit[early]) + 0.3
    assert unlazy.run("label-noise-images", set=small, seeds=2, store=store).computed == 0
    write(folder, seed=1)
    assert unlazy.run("label-noise-images", set=small, seeds=2, store=store).computed == 6


def test_the_optimisers_see_the_same_images_and_start(folder):
    small = {"folder": str(folder), "n": 40, "held_out": 20, "fresh": 40, "width": 4, "steps": 60, "batch_size": 8}
    small["step_size"] = 0.003
    over = {"optimiser": ["sgd", "adam"]}
    data = unlazy.run("adam-vs-sgd-images", set=small, over=over, seeds=2, store=folder / "results.sqlite")
    data = data.parts["main"].simulated
    assert data.filters.sizes["row"] == data.filters.sizes["column"] == 16
    sgd, adam = (data.isel(optimiser=row) for row in (0, 1))
    np.testing.assert_array_equal(sgd.start_fine_share, adam.start_fine_share)
    assert (sgd.fine_share != adam.fine_share).all()


@pytest.mark.parametrize("study", ["label-noise-images", "adam-vs-sgd-images"])
def test_a_folder_without_images_is_refused_before_anything_runs(study, tmp_path):
    with pytest.raises(InputError, match=r"has no file data_batch_1\.bin or data_batch_1"):
        unlazy.run(study, set={"dataset": "cifar10", "folder": str(tmp_path)}, seeds=1)


def test_wrong_sizes_are_refused():
    with pytest.raises(InputError, match="flip_probability must be at least 1/n"):
        unlazy.run("label-noise-images", set={"n": 20, "flip_probability": 0.01}, seeds=1)
    with pytest.raises(InputError, match="filter_size must be odd"):
        unlazy.run("adam-vs-sgd-images", set={"filter_size": 4}, seeds=1)
