"""Links h_k = He_k / sqrt(k!) whose degree is traced, so that one compiled program serves all degrees."""

from __future__ import annotations

from typing import Any

from unlazy.functions.links import LINKS, Link

MOST_DEGREE = 4


def hermite_link(degree: Any) -> Link:
    """h_degree for a traced degree from 2 to 4, a choice of three that the compiler fuses into the step of a chain."""
    choices = [LINKS[f"He{k}"] for k in range(2, MOST_DEGREE + 1)]

    def chosen(kind: str) -> Any:
        def evaluate(z: Any) -> Any:
            import jax.numpy as jnp

            found = getattr(choices[0], kind)(z)
            for k, choice in enumerate(choices[1:], 3):
                found = jnp.where(degree == k, getattr(choice, kind)(z), found)
            return found

        return evaluate

    return Link("h_k", chosen("value"), chosen("derivative"))


def student(degree: Any, matched: Any) -> Link:
    """ReLU, or where `matched` is not 0 the link h_degree."""
    polynomial, relu = hermite_link(degree), LINKS["relu"]

    def chosen(kind: str) -> Any:
        def evaluate(z: Any) -> Any:
            import jax.numpy as jnp

            return jnp.where(matched != 0, getattr(polynomial, kind)(z), getattr(relu, kind)(z))

        return evaluate

    return Link("student", chosen("value"), chosen("derivative"))
