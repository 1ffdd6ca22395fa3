"""Figures as data: what panels draw, and what they say of it."""

from dataclasses import dataclass

import numpy as np
import pytest

import unlazy
from unlazy.lab import Output, Study, path, static
from unlazy.plotting.drawing import draw_panels, plain_panel
from unlazy.plotting.panels import Guide, Level, Map, Panel, Tiles, panels
from unlazy.plotting.picture import Picture, said


@dataclass(frozen=True)
class Laws(Study):
    question = "Is it a power law?"
    sources = ()
    power: float = static(1.0, "power", symbol="p")
    d: int = static(2, "dimension", symbol="d")
    n: tuple = path((1.0, 10.0, 100.0), "samples", symbol="n", scale="log", short="rows")
    outputs = {
        "law": Output("a law of the samples", "L", ("n",), scale="log"),
        "floor": Output("floor", dims=("n",)),
        "drawn": Output("law of the instance", dims=("n",), predicts="law"),
    }
    presets = {"quick": {"power": [0.5, 1.0], "d": [2, 4], "seeds": 3}}
    lines = {"main": "n"}

    def simulate(self, rng):
        law = np.array(self.n) ** self.power
        return {"law": law * (1 + 0.1 * rng.standard_normal()), "floor": np.full(3, float(self.d)), "drawn": 2 * law}

    def predict(self):
        return {"law": np.array(self.n) ** self.power, "floor": np.full(len(self.n), 3.0)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return unlazy.run(Laws, store=tmp_path_factory.mktemp("drawn") / "s.sqlite")


@pytest.fixture(scope="module")
def drawn(run):
    """The axes of a figure of given panels."""

    def draw(*shown):
        Laws.figure = panels(*shown)
        try:
            return run.figure().axes
        finally:
            del Laws.figure

    return draw


def texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_family_has_a_colour_each_and_its_theory_the_same(drawn):
    (axes,) = drawn(Panel("law", x="n", by="power"))
    assert texts(axes) == ["$p = 0.5$", "$p = 1$"]
    lines = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert len({line.get_color() for line in lines}) == 2
    np.testing.assert_allclose(lines[1].get_ydata(), lines[1].get_xdata())


def test_what_all_curves_have_in_common_is_said_once_in_the_title(drawn):
    (axes,) = drawn(Panel("law", x="n", by=("power", "d"), most=2))
    assert texts(axes) == ["$d = 2$", "$d = 4$"]
    assert axes.get_title(loc="left") == "$p = 0.5$"


def test_powers_of_ten_are_written_as_such():
    assert said(Laws, "power", 1e-5) == "$p = 10^{-5}$"
    assert said(Laws, "power", 2.5e-7) == r"$p = 2.5 \times 10^{-7}$"
    assert said(Laws, "power", 0.25) == "$p = 0.25$"


def test_the_plain_figure_is_along_the_longest_of_the_axes_that_were_asked_for(run):
    part = Picture(run.simulated, None, None)
    assert plain_panel(part, ("d", "n"), "main", "law").x == "n"
    assert plain_panel(part, ("d",), "main", "law").x == "d"


def test_a_panel_without_a_legend_gets_one_if_no_other_explains_its_curves(drawn):
    same = drawn(Panel("law", x="n", by="power"), Panel("floor", x="n", by="power", legend=False))
    assert same[1].get_legend() is None
    other = drawn(Panel("law", x="n", by="power"), Panel("floor", x="n", by="d", legend=False))
    assert texts(other[1]) == ["$d = 2$", "$d = 4$"]


def test_axes_are_named_scaled_and_those_not_shown_are_in_the_title(drawn):
    (axes,) = drawn(Panel("law", x="n", by="power"))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rows $n$", "a law of the samples $L$")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_title(loc="left") == "$d = 4$"
    (chosen,) = drawn(Panel("law", x="n", by="power", at={"d": 2}, title="two"))
    assert chosen.get_title(loc="left") == "two; $d = 2$"


def test_theory_that_is_the_same_for_all_is_drawn_once_in_black(drawn):
    (axes,) = drawn(Panel("floor", x="n", by="d", at={"power": 1.0}))
    lines = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert [line.get_color() for line in lines] == ["black"]


def test_several_outputs_have_the_names_of_outputs_or_given_ones(drawn):
    (axes,) = drawn(Panel(("law", "floor"), x="n", log="xy"))
    assert texts(axes) == ["a law of the samples", "floor"]
    (named,) = drawn(Panel(("law", "floor"), x="n", labels=("one", "two")))
    assert texts(named) == ["one", "two"]


def test_a_function_is_drawn_of_the_simulation_and_of_the_theory(drawn):
    (axes,) = drawn(Panel(lambda data: data.law / data.floor, x="n", ylabel="ratio", by="power"))
    theory = next(line for line in axes.lines if line.get_linestyle() == "-")
    np.testing.assert_allclose(theory.get_ydata(), theory.get_xdata() ** 0.5 / 3)
    assert axes.get_ylabel() == "ratio"


def test_marks_stand_where_they_are_told(drawn):
    marks = (Level(0.5, "half"), Level(lambda data: float(data.d[0]), vertical=True), Guide(-1.0, "falls"))
    (axes,) = drawn(Panel("law", x="n", marks=marks))
    assert {"half", "falls"} <= set(texts(axes))
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert any(np.all(np.asarray(line.get_ydata()) == 0.5) for line in dotted)
    assert any(np.all(np.asarray(line.get_xdata()) == 2.0) for line in dotted)
    law = next(line for line in dotted if line.get_label() == "falls")
    assert np.ptp(np.log(np.asarray(law.get_ydata()) * np.asarray(law.get_xdata()))) == pytest.approx(0, abs=1e-12)


def test_a_map_shows_means_over_two_axes(drawn):
    axes = drawn(Map("floor", x="d", y="power", at={"n": 1.0}))[0]
    (mesh,) = axes.collections
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(2, 2), [[2, 4], [2, 4]])
    # Cells end in the middle between their values, on a logarithmic axis in the geometric one.
    np.testing.assert_allclose(mesh.get_coordinates()[0, :, 0], [1, 3, 5])
    (mesh,) = drawn(Map("law", x="n", y="power"))[0].collections
    np.testing.assert_allclose(mesh.get_coordinates()[0, :, 0], 10 ** np.array([-0.5, 0.5, 1.5, 2.5]))


def test_a_contour_of_a_map_is_where_the_theory_has_the_height(drawn):
    axes = drawn(Map("law", x="n", y="power", at={"d": 2}, contour=5.0))[0]
    theory, means = axes.collections[1:]
    assert theory.get_linestyle() != means.get_linestyle()
    # between the values of n, and of power, a contour is straight
    ends = theory.get_paths()[0].vertices
    assert ends[ends[:, 1] == 1.0][0, 0] == pytest.approx(5.0)
    assert len(drawn(Map("law", x="n", y="power", contour=1e9))[0].collections) == 1


def test_the_caption_says_what_is_drawn_and_nothing_else(run):
    def caption(*shown, **options):
        pictures = {name: run._picture(name) for name in run.parts}
        return draw_panels(Laws, panels(*shown, **options), pictures).caption

    assert caption(Panel("law", x="n"), caption="More.") == (
        "Lines: theory; dashes: theory for the drawn instances; points: means over seeds with 99% intervals. More."
    )
    assert caption(Panel("floor", x="n", points=False)) == "Lines: theory."
    assert caption(Panel("floor", x="n", theory=False, line=True, points=False)) == ""
    assert caption(Panel("law", x="n", runs=True, theory=False)) == "Thin lines: runs, thick lines: their medians."
    assert caption(Map("floor", x="d", y="power")) == "Colours: means over seeds."
    assert caption(Map("law", x="n", y="power", contour=5.0)) == (
        "Colours: means over seeds; white lines: one height of the theory, dashed of the means."
    )


def test_more_curves_stand_on_the_same_axes_in_other_colours(drawn):
    (axes,) = drawn(Panel("law", x="n", theory=False, also=(Panel("floor", x="n", points=False, labels=("floor",)),)))
    assert texts(axes) == ["floor"]
    assert len({line.get_color() for line in axes.lines}) == 2


def test_a_family_over_two_axes_has_a_curve_for_every_case(drawn):
    (axes,) = drawn(Panel("law", x="n", by=("power", "d"), theory=False))
    assert texts(axes) == [f"$p = {p}$, $d = {d}$" for p in ("0.5", "1") for d in (2, 4)]


def test_panels_of_parts_that_a_run_lacks_are_left_out(drawn):
    assert len(drawn(Panel("law", x="n"), Panel("law", x="n", part="other"))) == 1


def test_pictures_stand_side_by_side_each_in_greys_of_its_own(drawn):
    import xarray as xr

    def pictures(data):
        values = np.arange(1.0, 4)[:, None, None] * np.array([[1.0, -2.0], [0.0, 1.0]])
        return xr.DataArray(values[None], dims=("seed", "tile", "row", "column"))

    (axes,) = drawn(Tiles(pictures, x="column", y="row", tile="tile", title="three"))
    (image,) = axes.images
    shown = np.ma.filled(image.get_array(), np.nan)
    assert shown.shape == (6, 6)
    for top, left in ((0, 0), (0, 3), (3, 0)):
        np.testing.assert_allclose(shown[top : top + 2, left : left + 2], [[0.5, -1.0], [0.0, 0.5]])
    assert np.isnan(shown[3:, 3:]).all()
    assert np.isnan(shown[2]).all()
    assert axes.get_title(loc="left") == "three"
