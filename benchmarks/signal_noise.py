"""A phase diagram of benign overfitting: the token-Gram engine against explicit vectors in JAX and in eager PyTorch.

20 numbers of samples x 20 signal lengths x 5 seeds = 2000 networks with 20 neurons and ReLU^2, 500 steps of full-batch
gradient descent in d = 1000, in float32. Every contestant draws its problems and trains; test errors are left out.

- The engine and the direct simulation run as in the laboratory: vmapped chunks, one thread per core, samples masked
  inside two compiled shapes (at most 20 and at most 40). The direct one trains every 40th network, scaled up.
- PyTorch trains one network after the other in one thread, on a few points of the diagram, scaled up; more threads
  do not help at this size. It has neither masks nor chunks: its networks have just the samples that they need.
- The last rows are the cost of the engine in higher dimensions, by the same compiled program.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

WIDTH, STEPS, DIMENSION, SEEDS, CHUNK = 10, 500, 1000, 5, 32
SHAPES = (20, 40)
"""Most samples in the compiled programs."""
SCALE = 3e-4
DIMENSIONS = (1e3, 1e4, 1e5, 1e6)
SPARSE = 40
"""The direct simulation trains one network of so many."""


def signal_noise() -> Benchmark:
    import jax
    import numpy as np

    counts, ratio = np.meshgrid(np.arange(2, 41, 2), np.geomspace(0.1, 10, 20), indexing="ij")
    counts, ratio = (np.repeat(values.ravel(), SEEDS) for values in (counts, ratio))
    signal = np.sqrt(ratio * DIMENSION / counts)
    points = np.stack([counts, signal, _rate(counts, signal)], axis=1).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), len(points))
    engine, direct = (
        jax.jit(jax.vmap(_engine, (0, 0, None, None)), static_argnums=3),
        jax.jit(jax.vmap(_direct, (0, 0, None)), static_argnums=2),
    )

    def all_of(call: Callable[..., Any], points: Any, keys: Any) -> Any:
        """The training losses, in chunks of networks that fit one of the shapes, several chunks at a time."""
        losses = np.empty(len(points))
        chunks = []
        for shape, least in zip(SHAPES, (0, *SHAPES), strict=False):
            places = np.flatnonzero((points[:, 0] <= shape) & (points[:, 0] > least))
            chunks += [(places[start : start + CHUNK], shape) for start in range(0, len(places), CHUNK)]

        def run(chunk: tuple[Any, int]) -> None:
            # The last chunk repeats its first network, for the sake of one shape.
            places = np.resize(chunk[0], CHUNK)
            losses[chunk[0]] = np.asarray(call(keys[places], points[places], chunk[1]))[: len(chunk[0])]

        with ThreadPoolExecutor() as pool:
            list(pool.map(run, chunks))
        return losses

    def by_engine(keys: Any, points: Any, shape: int) -> Any:
        return engine(keys, points, DIMENSION, shape)

    calls: dict[str, Callable[[], Any]] = {
        "engine": partial(all_of, by_engine, points, keys),
        "direct": partial(all_of, direct, points[::SPARSE], keys[::SPARSE]),
    }
    scaled = {"engine": 1.0, "direct": SPARSE}
    notes = [_agreement(points)]
    try:
        import torch
    except ImportError:
        notes.append("PyTorch is not installed and is left out: pip install 'unlazy[bench]'")
    else:
        torch.set_num_threads(1)
        few = points[np.linspace(0, len(points) - 1, 6).astype(int)]
        calls["PyTorch"] = lambda: [_torch(*_torch_start(point), float(point[2])) for point in few]
        scaled["PyTorch"] = len(points) / len(few)
    seconds = interleaved(calls, rounds=5)
    whole = {name: [scaled[name] * second for second in times] for name, times in seconds.items()}
    targets = {"direct": 5.0, "PyTorch": 100.0}
    rows = [
        Row(f"phase diagram, {name}" + " (scaled)" * (scaled[name] > 1), times, "s") for name, times in whole.items()
    ]
    rows += [
        against(peer, "phase diagram", ratios(whole[name], whole["engine"]), at_least=targets[name])
        for name, peer in (("direct", "explicit vectors in JAX"), ("PyTorch", "PyTorch, one by one"))
        if name in whole
    ]
    some = np.flatnonzero(points[:, 0] == SHAPES[-1])[:CHUNK]
    rows += _in_dimensions({d: partial(engine, keys[some], points[some], d, SHAPES[-1]) for d in DIMENSIONS})
    return Benchmark(rows, notes)


def _rate(counts: Any, signal: Any) -> Any:
    """A step that is small for signal and noise alike."""
    import numpy as np

    return 0.2 * WIDTH / np.maximum(signal**2 / 2, DIMENSION / counts)


def _in_dimensions(calls: dict[float, Callable[[], Any]]) -> list[Row]:
    """Microseconds for a step of one network in a chunk of the larger shape, on one thread."""
    seconds = interleaved({f"{d:g}": lambda call=call: call().block_until_ready() for d, call in calls.items()}, 7)
    steps = CHUNK * STEPS
    rows = [
        Row(f"engine, network-step in d = {name}", [1e6 * second / steps for second in times], "us")
        for name, times in seconds.items()
    ]
    first, *_, last = seconds.values()
    return [*rows, Row("engine, time in d = 1e+06 over d = 1000", ratios(last, first), "", at_most=1.25)]


def _engine(key: Any, point: Any, dimension: Any, shape: int) -> Any:
    from unlazy.training.signal_noise.token_gram import Network, draw_signal_noise, gradient_descent, relu_power, train

    problem = draw_signal_noise(
        key,
        n=point[0],
        d=dimension,
        width=WIDTH,
        signal_norm=point[1],
        initial_deviation=SCALE,
        largest_n=shape,
    )
    # In higher dimensions the noise is longer and the step shorter: the same dynamics.
    rate = point[2] * DIMENSION / dimension
    return train(key, problem, Network(relu_power(2)), gradient_descent(rate), STEPS).state.loss


def _vectors(key: Any, point: Any, shape: int) -> tuple[Any, ...]:
    """Design, feature, noises, initial weights and second layer of one network."""
    import jax
    import jax.numpy as jnp

    from unlazy.random import normal
    from unlazy.training.signal_noise.token_gram import paired_second_layer, signal_noise_design

    noise_key, weight_key = jax.random.split(key)
    noises = normal(noise_key, (shape, 1, DIMENSION)).at[:, :, 0].set(0.0)
    feature = jnp.zeros((1, DIMENSION)).at[0, 0].set(point[1])
    weights = SCALE * normal(weight_key, (2 * WIDTH, DIMENSION))
    return signal_noise_design(point[0], largest_n=shape), feature, noises, weights, paired_second_layer(WIDTH)


def _direct(key: Any, point: Any, shape: int) -> Any:
    """The same network with explicit weights, by automatic differentiation."""
    import jax
    import jax.numpy as jnp
    import optax

    from unlazy.training.loop import train

    design, feature, noises, weights, second = _vectors(key, point, shape)
    patches = jnp.stack([design.classes[:, None] * feature, noises[:, 0]])

    def loss(first: Any) -> Any:
        outputs = (jax.nn.relu(patches @ first.T) ** 2).sum(0) @ second
        return jnp.sum(design.weights * jax.nn.softplus(-design.labels * outputs))

    return loss(train(weights, loss, optax.sgd(point[2]), STEPS, trained=lambda first: first).model)


def _torch_start(point: Any) -> tuple[Any, ...]:
    """Patches, labels, first and second layer of one network, drawn by PyTorch."""
    import torch

    samples = int(point[0])
    labels = torch.tensor([1.0, -1.0] * (samples // 2))
    feature = torch.zeros(DIMENSION)
    feature[0] = float(point[1])
    noises = torch.randn(samples, DIMENSION)
    noises[:, 0] = 0
    second = torch.tensor([1.0] * WIDTH + [-1.0] * WIDTH) / WIDTH
    return torch.stack([labels[:, None] * feature, noises]), labels, SCALE * torch.randn(2 * WIDTH, DIMENSION), second


def _torch(patches: Any, labels: Any, first: Any, second: Any, rate: float) -> float:
    import torch

    first = first.clone().requires_grad_()

    def loss() -> Any:
        outputs = (torch.relu(patches @ first.T) ** 2).sum(0) @ second
        return torch.nn.functional.softplus(-labels * outputs).mean()

    for _ in range(STEPS):
        (gradient,) = torch.autograd.grad(loss(), first)
        with torch.no_grad():
            first -= rate * gradient
    return float(loss().detach())


def _agreement(points: Any) -> str:
    """How far apart the losses of all contestants are on the same vectors, at a point in the middle."""
    import jax
    import numpy as np

    from unlazy.training.signal_noise.token_gram import Network, from_vectors, gradient_descent, relu_power, train

    key, point = jax.random.key(1), points[len(points) // 2]
    samples = int(point[0])
    design, *arrays = _vectors(key, point, samples)
    rule = gradient_descent(point[2])
    losses = {
        "engine": train(key, from_vectors(design, *arrays), Network(relu_power(2)), rule, STEPS).state.loss,
        "direct": jax.jit(_direct, static_argnums=2)(key, point, samples),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        labels, feature, noises, weights, second = (np.array(x) for x in (design.labels, *arrays))
        patches = np.stack([labels[:, None] * feature, noises[:, 0]])
        losses["PyTorch"] = _torch(*map(torch.from_numpy, (patches, labels, weights, second)), float(point[2]))
    found = {name: float(loss) for name, loss in losses.items()}
    listed = ", ".join(f"{name} {loss:.6f}" for name, loss in found.items())
    return f"training loss on the same vectors, n = {samples}, |mu| = {point[1]:.3g}: {listed}"
