import pytest

from unlazy.checks import InputError
from unlazy.studies.in_context.in_context_single_index import InContextSingleIndex


@pytest.mark.parametrize("change", [{"rank": 3, "d": 2}, {"lowest": 4}, {"neurons": 1}])
def test_parameters_that_do_not_fit_together_are_refused(change):
    defaults = {name: p.default for name, p in InContextSingleIndex.parameters().items()}
    with pytest.raises(InputError, match="must be at most"):
        InContextSingleIndex(**{**defaults, **change}).validate()
