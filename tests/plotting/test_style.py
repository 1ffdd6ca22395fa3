"""The figure style."""

import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.plotting import style


def test_intervals_shrink_with_the_square_root_of_the_seeds():
    rng = np.random.default_rng(0)
    many = xr.DataArray(rng.standard_normal(6400), dims="seed")
    (_, wide), (_, narrow) = style.interval(many[:400]), style.interval(many)
    assert wide / narrow == pytest.approx(4, rel=0.15)
    # 2.576 is the two-sided 99% quantile of the normal distribution.
    assert narrow == pytest.approx(2.576 / 80, rel=0.05)


def test_a_single_seed_has_a_point_and_no_interval():
    center, reach = style.interval(xr.DataArray([2.0], dims="seed"))
    assert (center, reach) == (2.0, 0.0)


@pytest.mark.parametrize("name", ["figure.bmp", "figure", "figure.jpeg", ".png"])
def test_unknown_formats_are_refused(name):
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        style.format_of(name)


def test_the_settings_of_matplotlib_are_left_as_they_were():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure, axes = style.panels()
    style.theory(axes, [1, 2], [1, 2], color=style.colour(0))
    style.svg(figure, salt="salt")
    assert dict(matplotlib.rcParams) == before


def test_figures_are_the_same_bytes_when_drawn_again(tmp_path):
    def draw():
        figure, axes = style.panels()
        style.theory(axes, [1, 2], [1, 2], color=style.colour(1), label="theory")
        axes.legend()
        return style.svg(figure, salt="salt")

    assert draw() == draw()


def test_shades_are_distinct_and_ordered_in_lightness():
    from matplotlib.colors import to_rgb

    lightness = [sum(np.array(to_rgb(c)) * [0.3, 0.6, 0.1]) for c in style.shades(5)]
    assert lightness == sorted(lightness, reverse=True)
    assert len(set(lightness)) == 5


def test_short_log_axes_get_readable_ticks():
    figure, axes = style.panels()
    style.theory(axes, [1, 2, 3], [0.2, 0.5, 0.9], color=style.colour(0))
    style.log_scale(axes, "y")
    figure.canvas.draw()
    assert "0.5" in [text.get_text() for text in axes.get_yticklabels()]
