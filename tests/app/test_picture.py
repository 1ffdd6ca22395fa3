"""The explorer's figures and files."""

import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from unlazy.app import picture
from unlazy.app.setting import make_setting
from unlazy.app.theory import TheoryLines, found
from unlazy.app.words import theory_note
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.running import pack, packing
from unlazy.lab.running.laboratory import Laboratory

STUDY = "ridge-equivalent"


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """A setting, its theory and its simulation from a store."""
    study = registry.find(STUDY)
    store = str(tmp_path_factory.mktemp("picture") / "store.sqlite")
    setting = make_setting(study, "sizes", "n", [], ["n=20,40,60"], 3)
    assert picture.stored(setting, store) is None
    with Laboratory(store) as laboratory:
        laboratory.simulate(study, {setting.part: setting.grid})
    return setting, found(setting).lines(setting), picture.stored(setting, store), store


def marks(drawing):
    return drawing.count("<use")


def test_the_store_is_read_without_computing(explored):
    setting, _, points, store = explored
    assert dict(points.sizes)["n"] == 3
    assert points.attrs["missing"] == 0
    none = make_setting(setting.study, "sizes", "n", [], ["n=80"], 3)
    assert picture.stored(none, store) is None


def test_what_the_store_has_of_the_points_is_drawn(explored):
    setting, _, points, store = explored
    more = make_setting(setting.study, "sizes", "n", [], ["n=20,40,60,80"], 5)
    some = picture.stored(more, store)
    assert some.attrs["missing"] == 4 * 5 - 3 * 3
    assert (some.risk.count(("n", "seed")) == 3 * 3).all()
    np.testing.assert_array_equal(some.risk.isel(seed=slice(3)).sel(n=points.n), points.risk)
    theory = found(more).lines(more)
    assert marks(picture.panel(more, theory, some, "risk")) >= marks(picture.panel(more, theory, None, "risk")) + 3
    assert "9 of these 20 instances" in theory_note(more, theory, some)


def test_shipped_results_are_shown_where_the_store_has_nothing(explored, tmp_path, monkeypatch):
    setting, _, points, store = explored
    file = tmp_path / "quick.pack"
    # The quick preset, as if it were these points.
    monkeypatch.setattr(packing, "preset_grids", lambda *_: {setting.part: setting.grid})
    assert [packed.how for packed in packing.write(file, [setting.study], store)] == ["rounded"]
    nowhere = str(tmp_path / "no.sqlite")
    assert picture.stored(setting, nowhere) is None
    monkeypatch.setattr(pack, "default_file", lambda: file)
    np.testing.assert_allclose(picture.stored(setting, nowhere).risk, points.risk, rtol=1e-7)
    assert not (tmp_path / "no.sqlite").exists()


def test_powers_of_ten_are_plain_text():
    assert [picture.power(v) for v in (1e-5, 0.1, 1.0, 1000.0, 1e12)] == ["10⁻⁵", "0.1", "1", "1000", "10¹²"]
    assert [picture.power(v) for v in (0.0, -10.0, 20.0)] == ["", "", ""]


def test_points_are_drawn_on_the_lines(explored):
    setting, theory, points, _ = explored
    for output in setting.outputs:
        alone = picture.panel(setting, theory, None, output)
        both = picture.panel(setting, theory, points, output)
        assert "<svg" in alone
        assert "<script" not in both
        assert marks(both) >= marks(alone) + 3


def test_a_pole_leaves_a_linear_panel_at_its_top():
    from matplotlib.figure import Figure

    x = np.linspace(0, 4, 401)
    for y, cut in ((1 / abs(x - 1.501), True), (x**2, False), (np.exp(-x), False)):
        axes = Figure().subplots()
        axes.plot(x, y)
        picture._cut_poles(axes)
        assert (axes.get_ylim()[1] < y.max()) == cut
        # Nine tenths of the curve stay.
        assert (y < axes.get_ylim()[1]).mean() > 0.9


def test_long_labels_are_cut_and_short_ones_are_not():
    study = registry.find(STUDY)
    assert picture.short_label(study, "n").startswith(study.parameter("n").label)
    for cls in registry.all_studies(["one_step", "regression"]):
        for name in (*cls.parameters(), *cls.outputs):
            assert picture.short_label(cls, name).count("\n") <= 1


def test_another_setting_gives_another_line(explored):
    setting, theory, _, _ = explored
    other = make_setting(setting.study, "sizes", "n", ["noise_variance=0.7"], ["n=20,40,60"], 3)
    assert picture.panel(other, found(other).lines(other), None, "risk") != picture.panel(setting, theory, None, "risk")


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_figure_is_a_file_of_its_kind(explored, kind, start):
    setting, theory, points, _ = explored
    assert picture.figure_bytes(setting, theory, points, kind).startswith(start)


def test_the_table_has_every_number(explored):
    _, theory, points, _ = explored
    table = pd.read_csv(io.BytesIO(picture.table(theory, points)))
    simulated = table[(table.source == "simulation") & (table.output == "risk")]
    assert len(simulated) == points.risk.size
    for _, row in simulated.iterrows():
        where = {dim: row[dim] for dim in points.risk.dims}
        assert row.value == pytest.approx(points.risk.sel(where).item())
    assert set(table.source) == {"theory", "simulation"}


def test_the_table_has_numbers_that_stand_nowhere():
    table = pd.read_csv(io.BytesIO(picture.table(TheoryLines(xr.Dataset({"floor": 0.25}), 0.0, True), None)))
    assert table.to_dict("records") == [{"source": "theory", "output": "floor", "value": 0.25}]


def test_netcdf_has_a_group_each(explored, tmp_path):
    _, theory, points, _ = explored
    file = tmp_path / "data.nc"
    file.write_bytes(picture.netcdf(theory, points))
    with xr.open_dataset(file, group="simulation", engine="h5netcdf") as read:
        np.testing.assert_array_equal(read.risk, points.risk)
    with xr.open_dataset(file, group="theory", engine="h5netcdf") as read:
        np.testing.assert_array_equal(read.risk, theory.dataset.risk)


def test_nothing_to_export_is_said():
    for export in (picture.table, picture.netcdf):
        with pytest.raises(InputError, match="nothing to export"):
            export(TheoryLines(None, 0.0, True), None)


def test_the_note_tells_where_lines_and_points_come_from(explored):
    setting, theory, points, _ = explored
    assert "9 instances" in theory_note(setting, theory, None)
    assert "99% intervals" in theory_note(setting, theory, points)
    assert "would take about" in theory_note(setting, TheoryLines(None, 200.0, False, True), None)
    cutmix = registry.find("cutmix")
    other = make_setting(cutmix, "main", "weak_noise", [], ["weak_noise=0.4,0.5"], 1)
    assert "no theory without simulation" in theory_note(other, TheoryLines(None, 0.0, True), None)
