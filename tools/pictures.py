"""The pictures of the README, from the store or simulated now: a figure in two widths, and three films.

python tools/pictures.py [FOLDER]          # docs/images
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import unlazy
from unlazy.plotting.film import save_film
from unlazy.plotting.style import COLOURS, panels, save, style


def figures(folder: Path) -> None:
    """Ridge regression in two columns, and in one for a telephone."""
    run = unlazy.run("ridge-equivalent")
    save(run.figure(), folder / "ridge-equivalent.png")
    narrow = replace(run.study.figure, columns=1)
    study = type(run.study.__name__, (run.study,), {"figure": narrow})
    save(replace(run, study=study).figure(), folder / "ridge-equivalent-narrow.png")


def films(folder: Path) -> None:
    """A neuron that finds its direction, and labels that are memorised."""
    for name in ("reuse-dynamics", "label-noise-stages"):
        save_film(unlazy.run(name).film(), folder / f"{name}.gif")


def particles(file: Path, frames: int = 48) -> None:
    """Particles of mean-field Langevin dynamics that flow from a blob to the law of the data, two arcs."""
    from matplotlib.animation import FuncAnimation, PillowWriter
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from unlazy.models.functionals import mmd_functional
    from unlazy.training.mean_field.langevin import sample_mean_field

    rng = np.random.default_rng(0)
    angle, side = np.pi * rng.random(400), np.where(np.arange(400) < 200, 1.0, -1.0)
    data = np.stack([np.cos(angle) * side + 0.5 * side, (np.sin(angle) - 0.3) * side], axis=1)
    data += 0.07 * rng.standard_normal(data.shape)
    functional = mmd_functional(data, bandwidth=0.35, smoothing=0.1)
    clouds = [0.1 * rng.standard_normal((150, 2))]
    options = {"temperature": 2e-5, "confinement": 1e-5, "step_size": 0.2, "discard": 0.0}
    with warnings.catch_warnings():
        # a film of the way needs no run that has forgotten its start
        warnings.filterwarnings("ignore", "the run lasted")
        for number in range(frames - 1):
            found = sample_mean_field(functional, clouds[-1], steps=1 + number // 3, seed=number, **options)
            clouds.append(found.cloud)
    with style():
        figure, axes = panels(width=4.2, height=2.6)
        axes.plot(*data.T, ".", color="#bbbbbb", markersize=3, label="data")
        (dots,) = axes.plot(*clouds[0].T, "o", color=COLOURS[0], markersize=3.5, label="particles")
        axes.set(xlim=(-1.9, 1.9), ylim=(-1.1, 1.1), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
        axes.legend(loc="upper left")
        FigureCanvasAgg(figure).draw()
        figure.set_layout_engine("none")

        def frame(number: int) -> list:
            dots.set_data(*clouds[min(number, frames - 1)].T)
            return [dots]

        film = FuncAnimation(figure, frame, frames=frames + 20, blit=False)
        film.save(str(file), writer=PillowWriter(fps=16), dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images")
    figures(target)
    films(target)
    particles(target / "particles.gif")
