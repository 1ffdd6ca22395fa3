"""A JAX function of (params, X) as the probe asks it: plain, Equinox's or Flax's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.probing.inputs import as_numpy
from unlazy.diagnostics.probing.jax_kernel import Question, tangent_kernel
from unlazy.diagnostics.probing.networks import Seen, blocks

_LARGEST_FILTER = 11
"""Sides of a convolution's filter, by which Flax's order (rows, columns, inputs, outputs) is known."""


class JaxNetwork:
    """network(params, X) gives outputs (n,) or (n, classes), or a pair (outputs, what the readout sees)."""

    def __init__(self, network: Callable[[Any, Any], Any], initial: Any) -> None:
        import equinox as eqx
        import jax

        self.network = network
        self.notes: list[str] = []
        self.structure: Any = jax.tree.structure(initial)
        self.shapes = _shapes(initial)

        def call(params: Any, rows: Any) -> Any:
            found = network(params, rows)
            return found if isinstance(found, tuple) else (found, None)

        def single(params: Any, row: Any) -> Any:
            return call(params, row[None])[0].reshape(-1)

        self._call = eqx.filter_jit(call)

        def input_gradients(params: Any, rows: Any) -> Any:
            return jax.vmap(jax.jacrev(single, argnums=1), in_axes=(None, 0))(params, rows)

        self._input_gradients = eqx.filter_jit(input_gradients)

        def outputs(leaves: Any, others: Any, row: Any) -> Any:
            structure, rest = others
            return single(eqx.combine(jax.tree.unflatten(structure, leaves), rest), row)

        self._outputs = outputs

    def read(self, state: Any, name: str) -> Any:
        import jax

        if jax.tree.structure(state) != self.structure or _shapes(state) != self.shapes:
            raise InputError(f"checkpoints must have the structure and shapes of the first one, got others in {name}")
        for leaf in _arrays(state):
            if not np.isfinite(np.asarray(leaf)).all():
                raise InputError(f"checkpoints must be finite, got NaN or infinity in {name}: leave it out")
        return state

    def seen(self, state: Any, part: str, rows: np.ndarray | None, chosen: np.ndarray) -> Seen:
        import jax.numpy as jnp

        assert rows is not None
        outputs, features = [], []
        for block, here in blocks(rows, chosen):
            with _explained():
                found, hidden = self._call(state, jnp.asarray(block))
            if np.ndim(found) not in (1, 2) or len(found) != len(block):
                raise InputError(f"model must give outputs (n, classes) for {len(block)} rows, got {np.shape(found)}")
            outputs.append(np.asarray(found, np.float64).reshape(len(block), -1))
            if hidden is not None and len(here):
                features.append(as_numpy("features", hidden)[here].astype(np.float64).reshape(len(here), -1))
        return Seen(np.concatenate(outputs), np.concatenate(features) if features else None)

    def input_gradients(self, state: Any, rows: np.ndarray) -> np.ndarray | None:
        import jax.numpy as jnp

        if rows.dtype.kind in "iu":
            return None
        parts = []
        for block, _ in blocks(rows, np.array([], int)):
            found = np.asarray(self._input_gradients(state, jnp.asarray(block)), np.float64)
            parts.append(found.reshape(*found.shape[:2], -1).transpose(1, 0, 2))
        return np.concatenate(parts, axis=1)

    def kernel(
        self, state: Any, rows: np.ndarray, left: int, budget: float, progress: Callable[[str], None]
    ) -> tuple[np.ndarray, tuple[str, ...]]:
        """`jax_kernel`."""
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        trained, rest = eqx.partition(state, eqx.is_inexact_array_like)
        leaves, structure = jax.tree.flatten(trained)
        count = self.seen(state, "", rows[:2], np.array([], int)).outputs.shape[1]
        # NumPy's float64 are float32 to JAX unless it is told otherwise
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        asked = Question(self._outputs, leaves, (structure, rest), jnp.asarray(rows), count)
        return tangent_kernel(asked, left, budget, progress) / count, ()

    def weights(self, state: Any) -> dict[str, np.ndarray]:
        import jax

        found = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(state):
            if hasattr(leaf, "ndim") and leaf.ndim >= 2:
                value = np.asarray(leaf, np.float64)
                spatial = value.shape[: value.ndim - 2]
                last = value.ndim > 2 and max(spatial) <= _LARGEST_FILTER
                matrix = value.reshape(-1, value.shape[-1]).T if last else value.reshape(len(value), -1)
                found[jax.tree_util.keystr(path).strip(".'[]")] = matrix
        return found


def _arrays(tree: Any) -> list[Any]:
    import jax

    return [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "shape") and leaf.dtype.kind in "fV"]


def _shapes(tree: Any) -> list[tuple[int, ...]]:
    import jax

    return [np.shape(leaf) for leaf in jax.tree.leaves(tree) if not callable(leaf)]


@contextmanager
def _explained() -> Iterator[None]:
    """Turns JAX's complaint about a function that it cannot trace, or that does not take the rows, into one line."""
    import jax

    try:
        yield
    except (jax.errors.JAXTypeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        text = str(error).partition("\n")[0]
        raise InputError(
            f"model must be a PyTorch module or a JAX function of (params, X): {type(error).__name__}: {text}"
        ) from None
