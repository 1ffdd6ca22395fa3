"""Links that are chosen by a traced number, so that one compiled program serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from unlazy.functions.elementwise import LINKS, Link

MOST_DEGREE = 4


def chosen_link(choices: Sequence[Link], place: Any) -> Link:
    """The link at a traced place among a few, which the compiler fuses into the step of a chain."""

    def chosen(kind: str) -> Callable[[Any], Any]:
        def evaluate(z: Any) -> Any:
            found = getattr(choices[0], kind)(z)
            for k, choice in enumerate(choices[1:], 1):
                found = jnp.where(place == k, getattr(choice, kind)(z), found)
            return found

        return evaluate

    return Link("chosen", chosen("value"), chosen("slope"))


def hermite_link(degree: Any) -> Link:
    """h_k = He_k / sqrt(k!) for a traced degree k from 2 to 4."""
    return chosen_link([LINKS[f"He{k}"] for k in range(2, MOST_DEGREE + 1)], degree - 2)
