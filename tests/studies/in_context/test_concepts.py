import jax
import numpy as np
import pytest

from unlazy.studies.in_context.concepts_and_semantics import ConceptsAndSemantics


def test_the_outputs_have_one_shape_for_all_numbers_of_concepts():
    shapes = [
        jax.eval_shape(ConceptsAndSemantics(d=16, concepts=k).simulate, jax.eval_shape(lambda: jax.random.key(0)))
        for k in (1, 8)
    ]
    found = [{name: array.shape for name, array in one.items()} for one in shapes]
    assert found[0] == found[1]
    assert found[0]["concept_score"] == (8,)


@pytest.mark.parametrize(
    ("setting", "time"),
    [({"steps": 25}, np.inf), ({"context": 1}, np.inf), ({"step_size": 1e-8}, np.inf), ({"steps": 1200}, 950)],
)
def test_the_learning_time_is_infinite_where_no_concept_is_learned(setting, time):
    found = ConceptsAndSemantics(**setting).predict()
    assert found["learning_time"] == pytest.approx(time, rel=0.3)
    assert all(np.isfinite(found[name]).all() for name in found if not name.endswith("learning_time"))


def test_what_is_learned_at_the_start_takes_no_time():
    found = ConceptsAndSemantics(initial_attention_scale=10.0, steps=25).predict()
    assert found["query_semantics"][0] * found["key_semantics"][0] > 1
    assert found["learning_time"] == 0
