"""Your own network as a study: a file of a few lines says what the network is, and the laboratory does the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unlazy.data.rows import TASKS, Rows, row_files
from unlazy.lab import DIVERGED_AT, Output, Study, path, static, value
from unlazy.lab.sources import Source
from unlazy.plotting.panels import Panel, panels

SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ALONG = ("output_scale",)


def _along(show: str, **options: Any) -> Panel:
    return Panel(show, x="output_scale", by="width", line=True, **{"log": "x", "runs": True, **options})


@dataclass(frozen=True)
class OwnNetwork(Study):
    """The study of a network that its subclass builds in `network`.

    The network is trained at every output scale from the same start; with it come the widths, depths, step sizes and
    data of the fields below, and the observables of `outputs`. `rows` may be replaced, to train on data of one's own.
    Parameters that a subclass adds are seen by `network` as `self.name`.
    """

    sources: ClassVar[tuple[Source, ...]] = ()
    precision = "float32"

    dataset: str = static("mnist", "images or table", paired=True)
    folder: str = static("", "folder of the images' files; without one 5,000 digits", paired=True)
    shrink: int = static(4, "pixels a side that are averaged into one", low=1, high=28)
    task: str = static("parity", "targets of images: odd against even, or a column for each class", choices=TASKS)
    n: int = static(64, "training rows", symbol="n", low=4, high=50_000, scale="log")
    fresh: int = static(128, "fresh rows", low=8, high=10_000, paired=True)
    width: int = static(64, "width", symbol="N", low=1, high=65_536, scale="log", paired=True)
    depth: int = static(2, "hidden layers", symbol="L", low=1, high=100, paired=True)
    output_scale: tuple = path(SCALES, "output scale", symbol=r"\alpha", above=0, scale="log")
    optimiser: str = static("sgd", "optimiser", choices=("sgd", "adam"), paired=True)
    step_size: float = value(
        0.1, "step size; of SGD in units of n over the kernel's largest eigenvalue", symbol=r"\eta", above=0, high=4,
        scale="log", paired=True, short="step size",
    )  # fmt: skip
    batch_size: int = static(0, "rows of a step; 0 for all", low=0, high=50_000, paired=True)
    steps: int = static(60, "steps", low=1, high=10_000_000, scale="log", paired=True)
    segment: int = static(1000, "steps after which the state is saved", low=1, high=10_000_000, paired=True)
    kernel_rows: int = static(32, "fresh rows on which tangent kernels are compared", low=2, high=5000, paired=True)
    permutations: int = static(
        19, "shuffled copies of a layer that outliers stand out of; 0: none are sought", low=0, high=1000, paired=True,
        short="shuffled copies",
    )  # fmt: skip

    outputs = {
        "feature_change": Output("relative change of the last features", "", ALONG, scale="log"),
        "tangent_kernel_change": Output("relative change of the tangent kernel", "", ALONG, scale="log"),
        "conjugate_kernel_change": Output("relative change of the last features' kernel", "", ALONG, scale="log"),
        "kernel_alignment": Output(
            "centred alignment of the last features' kernel with that at the start", "", ALONG, undefined=np.nan
        ),
        "outlier_share": Output("largest share of a layer's change along outliers", "", ALONG, undefined=np.nan),
        "readout_gain": Output("errors that a fresh readout loses by training", "", ALONG, undefined=np.nan),
        "linearised_distance": Output(
            "distance from the linearised network's answers, relative", "", ALONG, scale="log", undefined=np.nan
        ),
        "training_error": Output("training error, relative to that of 0", "", ALONG, scale="log"),
        "test_error": Output("squared error on fresh rows, relative to that of 0", "", ALONG),
        "wrong_class_share": Output("fresh rows given a wrong class", "", ALONG),
        "diverged_at": DIVERGED_AT,
    }
    presets = {"quick": {"seeds": 2}}
    figure = panels(
        _along("feature_change", log="xy"),
        _along("tangent_kernel_change", log="xy", legend=False),
        _along("outlier_share", runs=False, legend=False),
        _along("wrong_class_share", legend=False),
        columns=2,
        caption="Every run, and medians; of outliers the mean.",
    )

    def network(self, seed: int, shape: tuple[int, ...], outputs: int) -> Any:
        """A new network for rows of a shape: a module of Equinox, called on one row, or of PyTorch, called on many.

        All randomness comes from the seed; PyTorch's generator has been set to it.
        """
        raise NotImplementedError

    def rows(self, rng: np.random.Generator) -> Rows:
        """The rows to train on and fresh ones, drawn anew for every seed."""
        from unlazy.data.rows import draw_rows

        return draw_rows(rng, self.dataset, self.n, self.fresh, **self.as_dict("folder", "shrink", "task"))

    def validate(self) -> None:
        from unlazy.checks import check_choice
        from unlazy.data.rows import row_sets

        check_choice("dataset", self.dataset, row_sets())
        self.check_at_most(("batch_size", "n"), ("kernel_rows", "fresh"))
        self.files()

    def files(self) -> tuple[Path, ...]:
        return row_files(self.dataset, self.folder)

    def simulate(self, rng: np.random.Generator, saved: Any) -> dict[str, Any]:  # type: ignore[override]
        from unlazy.training.one_step.own_network import train_network

        schedule = self.as_dict("output_scale", "step_size", "steps", "optimiser", "batch_size", "segment")
        measured = self.as_dict("kernel_rows", "permutations")
        return train_network(rng, saved, self.network, self.rows(rng), **schedule, **measured)
