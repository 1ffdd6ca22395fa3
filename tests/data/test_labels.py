import numpy as np
import pytest

from unlazy.data.labels import draw_labels, fixed_count, softmax_rows
from unlazy.theory.message_passing.teachers import (
    LinearTeacher,
    LogitTeacher,
    ProbitTeacher,
    SignTeacher,
    teacher_error,
)


@pytest.mark.parametrize("teacher", [LinearTeacher(0.09), SignTeacher(0.1), ProbitTeacher(0.25), LogitTeacher(3.0)])
def test_errors_given_the_overlaps_are_averages_over_a_large_sample(teacher):
    rng = np.random.default_rng(0)
    fields, other = rng.standard_normal((2, 400_000))
    scores = 1.2 * fields + 0.7 * other
    y = draw_labels(rng, teacher, fields, (400_000,))
    sample = (y - scores) ** 2 if isinstance(teacher, LinearTeacher) else (y * scores < 0)
    error = teacher_error(teacher, 1.2, 1.2**2 + 0.7**2)
    assert abs(sample.mean() - error) < 4 * sample.std() / np.sqrt(400_000)


def test_nested_training_sets_have_the_same_number_of_chosen_samples_in_every_draw():
    for seed in range(3):
        chosen = fixed_count(np.random.default_rng(seed).random(200), 0.1, (200, 50))
        assert (chosen[:50].sum(), chosen.sum()) == (5, 20)


def test_a_softmax_teacher_that_is_stronger_is_easier_to_read_off_its_labels():
    """A strong teacher decides all labels: fields of any deviation leave the noise of order one."""
    spectrum = np.linspace(0.5, 1.5, 20) / 20
    shares = []
    for deviation in (0.0, 50.0):
        rows, labels = softmax_rows(np.random.default_rng(1), 4000, spectrum, 3, deviation)
        np.testing.assert_allclose(rows.var(axis=0), spectrum, rtol=0.2)
        centres = np.stack([rows[labels == k].mean(axis=0) for k in range(3)])
        shares.append(np.mean((rows @ (centres / spectrum).T).argmax(axis=1) == labels))
    assert shares[0] < 0.5
    assert shares[1] > 0.9
