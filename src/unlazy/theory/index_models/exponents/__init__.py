"""Information, generative and monomial exponents of links of any kind."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.index_models.exponents.conditional import conditional_means, flat_moments, squares
    from unlazy.theory.index_models.exponents.expansion import cuts_of
    from unlazy.theory.index_models.exponents.exponents import (
        GenerativeExponent,
        InformationExponent,
        MonomialExponents,
        SampleComplexity,
        generative_exponent,
        information_exponent,
        label_transform,
        monomial_exponents,
        sample_complexity,
    )
    from unlazy.theory.index_models.exponents.noisy import Channel, noisy_squares
    from unlazy.theory.index_models.exponents.pieces import Pieces, as_function, find_pieces, inverse, reach
    from unlazy.theory.index_models.exponents.transforms import clean_transform, noisy_transform

lazily(__name__)
