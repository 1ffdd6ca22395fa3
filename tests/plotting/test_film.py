"""Films: what has time on its horizontal axis appears as time goes on."""

from dataclasses import replace

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.lab.registry import find
from unlazy.plotting import film
from unlazy.plotting.film import moving, save_film
from unlazy.plotting.panels import Map, Panel, panels
from unlazy.plotting.style import panels as axes_of


def test_only_panels_along_time_move():
    along, across, map_ = Panel("y", x="step"), Panel("y", x="n"), Map("y", "step", "n")
    assert moving(panels(along, across, map_)).panels == (along,)
    assert moving(panels(across, map_)) is None
    assert moving(None) is None
    assert moving(panels(across, time="n")).panels == (across,)
    assert moving(find("reuse-dynamics").figure) is not None


def ink(frame):
    """The share of each vertical third of a picture that is red, the colour of the curve."""
    red = (frame[:, :, 0] > 150) & (frame[:, :, 1] < 100)
    return [float(part.mean()) for part in np.array_split(red, 3, axis=1)]


def test_a_curve_appears_from_left_to_right_and_is_whole_in_the_end(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr(film, "_FRAMES", 7)
    monkeypatch.setattr(film, "_LAST", 1)

    figure, axes = axes_of()
    axes.plot([0, 1, 2], [0.2, 0.3, 0.2], color="red", linewidth=6)
    axes.axhline(0.1, color="blue")
    save_film(figure, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as pictures:
        frames = []
        for number in (0, 3, 6):
            pictures.seek(number)
            frames.append(np.asarray(pictures.convert("RGB")).astype(int))
    first, middle, last = map(ink, frames)
    assert sum(first) < 0.2 * sum(last)
    assert middle[0] == pytest.approx(last[0], rel=0.1)
    assert middle[2] == 0 < last[2]
    # the line across is there from the start, and nothing moves
    blue = [(frame[:, :, 2] > 150) & (frame[:, :, 0] < 100) for frame in frames]
    assert blue[0].sum() > 100
    np.testing.assert_array_equal(blue[0], blue[2])


def test_what_cannot_be_written_is_refused_in_one_line(tmp_path):
    figure, _ = axes_of()
    with pytest.raises(InputError, match=r"figure must end in one of \.gif, \.mp4, got 'x\.png'"):
        save_film(figure, "x.png")
    with pytest.raises(InputError, match="cannot be written"):
        save_film(figure, tmp_path / "none" / "x.gif")


def test_a_run_without_time_has_no_film(tmp_path):
    import unlazy

    run = unlazy.run("mixture-classification", set={"d": 20}, seeds=2, store=tmp_path / "s.sqlite")
    still = replace(run.study.figure, time="") if run.study.figure else None
    assert moving(still) is None
    with pytest.raises(InputError, match="mixture-classification has no panel along time"):
        run.film()
