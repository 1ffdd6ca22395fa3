import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.studies.in_context.mean_field_attention import MeanFieldAttention
from unlazy.studies.in_context.saddle_escape import SaddleEscape
from unlazy.studies.in_context.shared import mean_field


@pytest.mark.parametrize(("features", "missing"), [(1, 1), (2, 1), (4, 3)])
def test_differences_of_the_loss_confirm_the_closed_form_of_the_saddle(features, missing):
    found = SaddleEscape(features=features, missing=missing).predict()
    np.testing.assert_allclose(found["numerical_eigenvalue"], found["eigenvalue"], rtol=1e-5)
    np.testing.assert_allclose(found["numerical_curvature"], found["curvature"], rtol=1e-5)
    assert found["numerical_multiplicity"] == found["multiplicity"] == missing**2


def test_the_floor_is_the_number_of_features_that_do_not_fit():
    floors = [MeanFieldAttention(true_features=true).predict()["floor"] for true in (3, 5, 7)]
    assert floors == [0, 0, 2]


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (SaddleEscape(features=2, missing=3), "missing must be at most features = 2, got 3"),
        (MeanFieldAttention(steps=75), "steps must be a multiple of 50, got 75"),
        (MeanFieldAttention(width=4), "width must be at least features = 5, got 4"),
        (MeanFieldAttention(batch=41), "batch must be a multiple of 8 and at least 4 features = 20, got 41"),
    ],
)
def test_parameters_that_do_not_fit_together_are_named(study, message):
    with pytest.raises(InputError, match=message):
        study.validate()


def test_landscapes_from_factored_moments_are_those_of_the_tokens(monkeypatch):
    """The derivative by a difference of least squares on the tokens, nearly dependent features included."""
    rng = np.random.default_rng(0)
    n, k, true = 200, 3, 2
    monkeypatch.setattr(mean_field, "HELD_OUT", n)
    f = np.linalg.qr(rng.standard_normal((n, true)))[0] * np.sqrt(n)
    targets = np.concatenate([f, np.zeros((n, 1))], axis=1)
    h = 0.3 * f @ rng.standard_normal((true, k)) + rng.standard_normal((n, k))
    h[:, 2] = h[:, 1] + 0.01 * h[:, 2]
    found = mean_field.factored_moments(h, type("Tokens", (), {"targets": targets}))
    dims = {"basis_cross": ("draw", "teacher_feature", "basis"), "basis_root": ("draw", "basis", "feature")}
    data = {
        name: (("seed", *dims.get(name, ("draw",))), np.asarray(value)[None, None]) for name, value in found.items()
    }
    longest = np.linalg.norm(f, axis=1).max()
    data = xr.Dataset({**data, "longest_target": ("seed", [longest])}, attrs={"true_features": true})
    result = mean_field.landscapes(data)

    def loss(features):
        return np.sum((f - features @ np.linalg.lstsq(features, f, rcond=None)[0]) ** 2) / n

    np.testing.assert_allclose(result.loss, loss(h), rtol=1e-4)
    g = np.linalg.lstsq(h, f, rcond=None)[0].T
    z = f.T @ (f - h @ g.T) / n
    left, singular, right = np.linalg.svd(z @ g, full_matrices=False)
    ends = [loss((1 - s) * h + s * f @ (left @ right)) for s in (1e-7, -1e-7)]
    np.testing.assert_allclose(result.derivative, (ends[0] - ends[1]) / 2e-7, rtol=2e-3)
    np.testing.assert_allclose(result.formula, -2 * singular.sum(), rtol=2e-3)
    share = loss(h) - np.floor(loss(h))
    c_squared = longest * np.linalg.norm(h, axis=1).max()
    np.testing.assert_allclose(result.bound, -2 / c_squared * share * (1 - share), rtol=1e-3)
