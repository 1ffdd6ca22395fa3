import jax

from unlazy.studies.in_context.concepts_and_semantics import ConceptsAndSemantics


def test_the_outputs_have_one_shape_for_all_numbers_of_concepts():
    shapes = [
        jax.eval_shape(ConceptsAndSemantics(d=16, concepts=k).simulate, jax.eval_shape(lambda: jax.random.key(0)))
        for k in (1, 8)
    ]
    found = [{name: array.shape for name, array in one.items()} for one in shapes]
    assert found[0] == found[1]
    assert found[0]["concept_score"] == (8,)
