"""Single-index data: Gaussian inputs, labels that see one direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.functions.elementwise import Link, as_link
from unlazy.random import normal

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True)
class SingleIndex:
    """Pairs y = link(x . beta) + noise with x ~ N(0, I_d), |beta| = 1 and noise ~ N(0, noise_variance).

    The direction beta is the first coordinate axis. As the inputs are isotropic this loses nothing for
    networks whose initialisation and training commute with rotations, as Gaussian weights and gradient
    descent do. `noise_variance` may be a traced number.
    """

    d: int
    link: str | Link | Callable[[Any], Any] = "tanh"
    noise_variance: float | Array = 0.0

    @property
    def direction(self) -> Array:
        """The unit vector beta."""
        import jax.numpy as jnp

        return jnp.zeros(self.d).at[0].set(1.0)

    def inputs(self, key: Array, n: int) -> Array:
        """n fresh inputs, (n, d)."""
        if self.d < 1 or n < 1:
            raise InputError(f"d and n must be >= 1, got d={self.d} and n={n}")
        return normal(key, (n, self.d))

    def target(self, x: Array) -> Array:
        """The noiseless label link(x . beta) of each row of x."""
        return as_link(self.link)(x[:, 0])

    def sample(self, key: Array, n: int) -> tuple[Array, Array]:
        """n fresh pairs: inputs (n, d) and labels (n,)."""
        import jax
        import jax.numpy as jnp

        input_key, noise_key = jax.random.split(key)
        x = self.inputs(input_key, n)
        return x, self.target(x) + jnp.sqrt(self.noise_variance) * normal(noise_key, (n,))
