"""What holds for every study of the package."""

import os
import subprocess
import sys

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import default_grid, preset_grids
from unlazy.lab.running.dataset import _predicted_together, inner_coordinates, predict_points, predicted
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.run import predicted_points
from unlazy.reporting.terminal import show

NAMES = list(registry.names())


@pytest.mark.parametrize("name", NAMES)
def test_a_study_is_whole_and_in_the_folder_of_its_topic(name):
    study = registry.find(name)
    assert study.topic == registry.names()[name].split(".")[-2]
    assert study.question.endswith("?")
    assert study.sources
    assert study.claims
    assert all(claim.statement.endswith(".") and claim.source for claim in study.claims)
    assert {"quick", "full"} <= set(study.presets)
    assert all(p.label for p in study.parameters().values())


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_valid_and_claims_name_their_parts(name):
    study = registry.find(name)
    for preset in study.presets:
        grids = preset_grids(study, preset)
        for grid in grids.values():
            grid.validate()
        assert set(study.lines) <= set(grids)
    # what is too dear for one preset is asked in another
    for claim in study.claims:
        assert any(set(claim.parts) <= set(preset_grids(study, preset)) for preset in study.presets)


@pytest.mark.parametrize("name", NAMES)
def test_coordinates_are_the_same_within_a_part_of_a_preset(name):
    study = registry.find(name)
    for preset in study.presets:
        for grid in preset_grids(study, preset).values():
            inner_coordinates(grid)


@pytest.mark.parametrize("name", [name for name in NAMES if registry.find(name).broadcasts])
def test_theory_that_takes_arrays_is_the_theory_of_each_point(name, monkeypatch):
    study = registry.find(name)
    base = default_grid(study).point(0)
    each = 2 if len(study.broadcasts) > 2 else 5
    over = {}
    for field in study.broadcasts:
        parameter = study.parameter(field)
        near = [parameter.type(parameter.default * factor) for factor in (0.6, 1.1, 0.8, 1.3, 0.9)]
        over[field] = list(dict.fromkeys(v for v in near if study.accepts({**base, field: v})))[:each]
    grid = default_grid(study, over=over)
    assert grid.size >= 4
    together = _predicted_together(grid)
    assert together is not None
    monkeypatch.setattr(study, "broadcasts", ())
    alone = predict_points(grid)
    assert together.keys() == alone.keys()
    assert alone
    for output, rows in alone.items():
        np.testing.assert_allclose(together[output], rows, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_quick_needs_few_programs(name):
    study = registry.find(name)
    if study.is_hosted():
        pytest.skip("hosted studies compile nothing")
    kinds = study.parameters()
    programs = [
        {tuple(str(v) for n, v in point.items() if kinds[n].kind != "value") for point in grid.points()}
        for grid in preset_grids(study, "quick").values()
    ]
    assert max(map(len, programs)) <= 4
    assert len(set.union(*programs)) <= 8  # Parts share them.


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_shows_a_part_of_some_preset(name):
    study = registry.find(name)
    assert {panel.part for panel in study.figure.panels} <= {
        part for p in study.presets for part in preset_grids(study, p)
    }


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_numbers_with_the_declared_dimensions(name):
    study = registry.find(name)
    if not study.defines("predict"):
        pytest.skip("no prediction without simulation")
    grids = [default_grid(study), *preset_grids(study, "quick").values()]
    assert study.theory_for or predicted(grids[0]) is not None
    data = next(found for found in map(predicted, grids) if found is not None)
    assert data.data_vars
    for output in data.data_vars:
        assert (
            data[output].dims[-len(study.outputs[output].dims) or len(data[output].dims) :]
            == study.outputs[output].dims
        )
        declared = study.outputs[output]
        assert declared.unpredicted or not np.isnan(data[output]).any()
        assert not np.isnan(data[output]).all()
        assert declared.infinite or declared.undefined == np.inf or not np.isinf(data[output]).any()


NO_NUMBERS = {
    "label-noise-gradient-descent": ("relative_step_size=10", "no theory for relative_step_size > 0.5"),
    "sharpness-aware-minimisation": ("batch_size=1", "no theory for batch_size < n"),
    "additive-scaling": ("noise_variance=10000", "no neurons arrive"),
    "sign-gradient-descent-transformer": ("n=20", "no theory for the rule gradient"),
    "mixup": ("mixing_weight=1", "no theory without mixup"),
    "ridge-regimes": ("n=2", "inf: without a ridge the variance is infinite"),
    "smoothed-landscape": ("degree=6", "inf: it never comes there (n)"),
    "contrastive-modalities": ("initial_deviation=1", "inf: no gain is enough"),
    "large-learning-rate": ("weak_samples=40", "inf: every step size is stable"),
    "spectral-thresholds": ("link=sign", "inf: the estimator finds nothing"),
    "concepts-and-semantics": ("context=1", "inf: it never comes there (learning_time and linear_learning_time)"),
}


@pytest.mark.parametrize(("name", "setting", "said"), [(name, *case) for name, case in NO_NUMBERS.items()])
def test_what_is_no_number_in_a_table_of_predictions_is_explained_below_it(name, setting, said, capsys):
    found = predicted_points(name, [setting])
    show.prediction(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert said in printed
    assert "nan" not in printed.replace(",", " ").split()
    assert show.prediction_json(found, 0.0)["notes"] == found.notes
    for output in found.points:
        declared = found.grid.study.outputs[output]
        assert declared.unpredicted or not np.isnan(found.points[output]).any()


@pytest.mark.parametrize("name", [name for name in NAMES if registry.find(name).theory_for])
def test_theory_is_there_for_the_values_that_the_study_names_and_for_no_others(name):
    study = registry.find(name)
    ((parameter, values),) = study.theory_for.items()
    assert f"{parameter} = " in study.theory_in_words()
    choices = study.parameters()[parameter].choices or (1, 2)
    for value in choices:
        if value in values:
            assert predicted_points(study, {parameter: value}).points
        else:
            with pytest.raises(InputError, match=rf"no theory at these parameters; it has one for {parameter} = "):
                predicted_points(study, {parameter: value})


def test_every_study_has_its_own_fingerprint():
    assert len({fingerprint(registry.find(name)) for name in NAMES}) == len(NAMES)


def test_fingerprints_do_not_depend_on_the_process():
    """In another process sets and dictionaries of strings have another order."""
    some = NAMES[:: len(NAMES) // 3]
    code = "import sys; from unlazy.lab import registry; from unlazy.lab.running import fingerprint; "
    code += "print(*(fingerprint.fingerprint(registry.find(name)) for name in sys.argv[1:]))"
    other = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code, *some], capture_output=True, text=True, check=True, env=other)
    assert done.stdout.split() == [fingerprint(registry.find(name)) for name in some]
