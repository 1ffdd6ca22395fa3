"""Rows to train a network on and fresh ones, drawn from any images or tables that the house has."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError, check_choice, check_whole
from unlazy.data import real
from unlazy.data.images import CLASSES, DATASETS, draw_images, image_files, load_images

TASKS = ("parity", "classes")


class Rows(NamedTuple):
    """Inputs (n, ...) with targets (n, k), to train on and fresh."""

    inputs: np.ndarray
    targets: np.ndarray
    fresh_inputs: np.ndarray
    fresh_targets: np.ndarray


def row_sets() -> tuple[str, ...]:
    """The names that `draw_rows` knows: images, then tables."""
    return (*DATASETS, *real.names())


def row_files(dataset: str, folder: str = "") -> tuple[Path, ...]:
    """The files in a folder that `draw_rows` reads."""
    return image_files(dataset, folder) if dataset in DATASETS else ()


def draw_rows(
    rng: np.random.Generator,
    dataset: str,
    n: int,
    fresh: int,
    *,
    folder: str = "",
    shrink: int = 1,
    task: str = "parity",
) -> Rows:
    """n random rows and as many fresh ones, of images ("mnist", "cifar10") or of a table of `unlazy.data.real`.

    The targets of images are 1 for odd and -1 for even classes (`task` "parity"), or one column for each class, 0.9 in
    that of the class and -0.1 elsewhere ("classes"). Squares of `shrink` x `shrink` pixels are averaged. Tables have
    their own targets, standardised like their inputs.
    """
    check_choice("dataset", dataset, row_sets())
    check_choice("task", task, TASKS)
    if dataset in DATASETS:
        drawn = draw_images(rng, load_images(dataset, folder), n, 0, fresh, shrink)
        return Rows(
            drawn.images, _targets(drawn.classes, task), drawn.fresh_images, _targets(drawn.fresh_classes, task)
        )
    n, fresh = check_whole("n", n, 1), check_whole("fresh", fresh, 1)
    inputs, targets = real.load(dataset).standardised()
    if n + fresh > len(inputs):
        raise InputError(f"n and fresh must be at most the {len(inputs)} rows of {dataset} together, got {n + fresh}")
    chosen = rng.permutation(len(inputs))[: n + fresh]
    return Rows(*(part[rows] for rows in (chosen[:n], chosen[n:]) for part in (inputs, targets)))


def _targets(classes: np.ndarray, task: str) -> np.ndarray:
    if task == "parity":
        return np.where(classes % 2 == 1, 1.0, -1.0)[:, None]
    return (np.arange(CLASSES) == classes[:, None]) - 1 / CLASSES
