import jax
import pytest

from unlazy.checks import InputError
from unlazy.studies.in_context.concepts_and_semantics import ConceptsAndSemantics


def test_room_for_concepts_and_even_width_are_required():
    defaults = {name: p.default for name, p in ConceptsAndSemantics.parameters().items()}
    with pytest.raises(InputError, match="d must be at least 2 concepts = 18"):
        ConceptsAndSemantics(**{**defaults, "concepts": 9}).validate()
    with pytest.raises(InputError, match="width must be even"):
        ConceptsAndSemantics(**{**defaults, "width": 7}).validate()


def test_the_outputs_have_one_shape_for_all_numbers_of_concepts():
    shapes = [
        jax.eval_shape(ConceptsAndSemantics(d=16, concepts=k).simulate, jax.eval_shape(lambda: jax.random.key(0)))
        for k in (1, 8)
    ]
    found = [{name: array.shape for name, array in one.items()} for one in shapes]
    assert found[0] == found[1]
    assert found[0]["score"] == (8,)
