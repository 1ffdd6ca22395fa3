"""A second of products, reductions, solves, loops and draws, with constants and without, next to what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_ROUNDING = {"float64": 1e-9, "float32": 1e-4}
_COARSE = 2e-2


def first_fault(coarse: bool = False) -> str:
    """What this JAX computes wrongly, in words; empty if nothing was found.

    `coarse` is for accelerators, which round products in single precision to some ten bits.
    """
    import jax

    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for trial, precisions in _TRIALS.items():
            for real in precisions:
                rounding = _COARSE if coarse and real == "float32" else _ROUNDING[real]
                found, wanted = trial(rng, np.dtype(real))
                for what, value in found.items():
                    got, right = np.asarray(value, float), np.asarray(wanted[what], float)
                    with np.errstate(over="ignore"):
                        off = ~(np.abs(got - right) <= rounding * (np.abs(right).max() + 1.0))
                    if off.any():
                        return f"{what} in {real} is {got[off][0]:g} instead of {right[off][0]:g}"
    return ""


def _many_rows(rng: np.random.Generator, real: np.dtype) -> tuple[dict, dict]:
    """A small matrix times more rows than one thread takes at a time."""
    import jax
    import jax.numpy as jnp

    rows, drawn = rng.standard_normal((40_001, 3)).astype(real), rng.standard_normal((3, 3)).astype(real)
    matrices = {"eye": np.eye(3, dtype=real), "constant": drawn}

    def lengths(matrix: Any) -> Any:
        return jax.vmap(lambda row: jnp.sum((jnp.asarray(matrix) @ row) ** 2))

    program = jax.jit(
        lambda rows, drawn: {
            **{f"a sum of squares of products with {n}": lengths(m)(rows) for n, m in matrices.items()},
            "a sum of squares of products": lengths(drawn)(rows),
        }
    )
    right = {f"a sum of squares of products with {n}": ((rows @ m.T) ** 2).sum(1) for n, m in matrices.items()}
    return program(rows, drawn), {**right, "a sum of squares of products": ((rows @ drawn.T) ** 2).sum(1)}


def _products(rng: np.random.Generator, real: np.dtype) -> tuple[dict, dict]:
    """Vectors times constant and drawn matrices, a program for each product: beside others less goes wrong.

    A hundred at a time: a small product runs in one thread.
    """
    import jax
    import jax.numpy as jnp

    inner, outer = 64, 101
    vectors = rng.standard_normal((100, inner)).astype(real) / 8
    drawn = rng.standard_normal((inner, outer)).astype(real)
    matrices: dict[str, Callable[[Any], Any]] = {
        "zeros": lambda lib: lib.zeros((inner, outer), real),
        "ones": lambda lib: lib.ones((inner, outer), real),
        "a filled matrix": lambda lib: lib.full((inner, outer), 0.25, real),
        "eye": lambda lib: lib.eye(inner, outer, dtype=real),
        "a range": lambda lib: lib.arange(inner * outer, dtype=real).reshape(inner, outer) / (inner * outer),
        "a drawn matrix": lambda lib: lib.asarray(drawn),
    }
    consumers: dict[str, Callable[[Any, Any], Any]] = {
        "a sum": lambda lib, product: product.sum(),
        "a maximum": lambda lib, product: product.max(),
        "a count": lambda lib, product: (product > 0).sum(),
    }
    found, right = {}, {}
    for consumer, reduce in consumers.items():
        # Of a count only zeros are sure: nothing else is on the right side of 0 after rounding.
        for name, make in matrices.items() if consumer == "a sum" else [("zeros", matrices["zeros"])]:
            one = f"{consumer} of products with {name}"
            found[one] = jax.jit(jax.vmap(lambda v: reduce(jnp, v @ make(jnp))))(vectors)  # noqa: B023
            right[one] = np.stack([reduce(np, v @ make(np)) for v in vectors])
    return found, right


def _reductions(rng: np.random.Generator, real: np.dtype) -> tuple[dict, dict]:
    import jax
    import jax.numpy as jnp

    numbers = rng.standard_normal((8, 37, 53)).astype(real)

    def evaluate(lib: Any, x: Any) -> dict[str, Any]:
        return {
            "a sum": x.sum(0),
            "the place of a maximum": x.argmax(1),
            "a running sum": lib.cumsum(x, 1),
            "a logarithm of a sum": lib.log(lib.exp(x).sum(1)),
            "a count": (x > 0).sum(0),
        }

    return jax.jit(jax.vmap(lambda x: evaluate(jnp, x)))(numbers), _stacked(evaluate(np, x) for x in numbers)


def _solves(rng: np.random.Generator, real: np.dtype) -> tuple[dict, dict]:
    import jax
    import jax.numpy as jnp

    factors, right = rng.standard_normal((4, 24, 48)).astype(real), rng.standard_normal((4, 24)).astype(real)

    def evaluate(lib: Any, factor: Any, right: Any) -> dict[str, Any]:
        matrix = factor @ factor.T / 48 + lib.eye(24, dtype=real)
        return {
            "a solution": lib.linalg.solve(matrix, right),
            "an eigenvalue": lib.linalg.eigvalsh(matrix),
        }

    program = jax.jit(jax.vmap(lambda factor, right: evaluate(jnp, factor, right)))
    return program(factors, right), _stacked(evaluate(np, f, r) for f, r in zip(factors, right, strict=True))


def _loops(rng: np.random.Generator, real: np.dtype) -> tuple[dict, dict]:
    """Gradient descent from zeros by a scan, and powers of a matrix by a loop that stops when they are small."""
    import jax
    import jax.numpy as jnp

    factors, target = rng.standard_normal((8, 12, 30)).astype(real) / 6, rng.standard_normal((8, 12)).astype(real)

    def one(factor: Any, target: Any) -> dict[str, Any]:
        def step(weights: Any, _: Any) -> tuple[Any, Any]:
            residual = factor @ weights - target
            return weights - 0.3 * factor.T @ residual, (residual**2).sum()

        last, losses = jax.lax.scan(step, jnp.zeros(30, real), length=20)
        shrink = 0.5 * factor @ factor.T / jnp.trace(factor @ factor.T)
        start = (0, jnp.ones(12, real))
        count, small = jax.lax.while_loop(
            lambda s: (s[1] ** 2).sum() > 1e-3, lambda s: (s[0] + 1, shrink @ s[1]), start
        )
        return {"the end of a scan": last, "a loss in a scan": losses, "a count of loops": count, "a loop": small}

    def right(factor: np.ndarray, target: np.ndarray) -> dict[str, Any]:
        weights, losses = np.zeros(30, real), list[float]()
        for _ in range(20):
            residual = factor @ weights - target
            weights, losses = weights - 0.3 * factor.T @ residual, [*losses, (residual**2).sum()]
        shrink, small, count = 0.5 * factor @ factor.T / np.trace(factor @ factor.T), np.ones(12, real), 0
        while (small**2).sum() > 1e-3:
            count, small = count + 1, shrink @ small
        return {"the end of a scan": weights, "a loss in a scan": losses, "a count of loops": count, "a loop": small}

    return jax.jit(jax.vmap(one))(factors, target), _stacked(right(f, t) for f, t in zip(factors, target, strict=True))


def _draws(rng: np.random.Generator, real: np.dtype) -> tuple[dict, dict]:
    """Random bits are threefry's, and what is made of them is what NumPy makes of them."""
    import jax
    from scipy.special import erfinv

    words = rng.integers(2**32, size=(4, 2), dtype=np.uint32)
    count, size = 300, np.dtype(real).itemsize * 8

    def one(word: Any) -> dict[str, Any]:
        key = jax.random.wrap_key_data(word, impl="threefry2x32")
        uniform = jax.random.uniform(key, (count,), real)
        return {"a uniform draw": uniform, "a normal draw": jax.random.normal(key, (count,), real)}

    def right(word: np.ndarray) -> dict[str, Any]:
        high, low = _threefry(word, np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32))
        bits = high ^ low if size == 32 else high.astype(np.uint64) << np.uint64(32) | low
        mantissa = np.finfo(real).nmant
        one = np.array(1, real).view(bits.dtype)
        uniform = (bits >> bits.dtype.type(size - mantissa) | one).view(real) - real.type(1)
        least = np.nextafter(real.type(-1), real.type(0))
        return {
            "a uniform draw": uniform,
            "a normal draw": np.sqrt(2) * erfinv(np.maximum(least, uniform * (1 - least) + least)),
        }

    with jax.threefry_partitionable(True):
        return jax.jit(jax.vmap(one))(words), _stacked(map(right, words))


def _threefry(key: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 with twenty rounds (Salmon et al. 2011)."""
    keys = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        first, second = first + keys[0], second + keys[1]
        for block in range(5):
            for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
                first = first + second
                second = (second << np.uint32(turn) | second >> np.uint32(32 - turn)) ^ first
            first, second = first + keys[(block + 1) % 3], second + keys[(block + 2) % 3] + np.uint32(block + 1)
    return first, second


def _stacked(results: Any) -> dict[str, np.ndarray]:
    found = list(results)
    return {name: np.stack([np.asarray(one[name]) for one in found]) for name in found[0]}


_TRIALS: Mapping[Callable[..., tuple[Mapping, Mapping]], tuple[str, ...]] = {
    _many_rows: ("float64", "float32"),
    _products: ("float64",),
    _loops: ("float32",),
    _reductions: ("float32",),
    _solves: ("float64",),
    _draws: ("float32",),
}
"""What JAX gives and what NumPy gives, by name, and the precisions in which it is tried."""
