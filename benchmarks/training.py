"""Training many small networks: the laboratory against the same computation in plain JAX and in eager PyTorch.

The study is `lazy-vs-feature` at one width: 3 output scales x 16 seeds = 48 networks, 500 steps of full-batch gradient
descent in float32. All contestants train the same networks on the same data, which the agreement of their results shows.

- The laboratory runs as for a user, with an empty store each time, but its program is compiled before the clock starts.
- Plain JAX jits one instance of the study, all its steps in one program, and calls it for one network after the other.
- PyTorch is given data and initial weights, and does not compute the kernels that the study also measures, so it does
  less work than the other two. `one by one` trains a single network per Python loop, on 3 networks only, scaled up;
  `in one batch` trains all 48 in the same loop by batched products. Its threads are its own default.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Benchmark, Row, interleaved, ratios

WIDTHS = (128, 512)
SEEDS = 16
ALONE = 3
"""How many networks PyTorch trains one by one."""


def training() -> Benchmark:
    rows, notes = [], []
    for width in WIDTHS:
        found = _at_width(width)
        rows += found.rows
        notes += found.notes
    return Benchmark(rows, list(dict.fromkeys(notes)))


def _at_width(width: int) -> Benchmark:
    import jax
    import numpy as np

    from unlazy.lab.grid import preset_grids
    from unlazy.lab.plan import entropy
    from unlazy.lab.run import Laboratory
    from unlazy.studies.one_step.lazy_vs_feature import LazyVsFeature

    grids = preset_grids(LazyVsFeature, "quick", set={"width": width}, seeds=SEEDS)
    points = [point for point in grids["main"].points() for _ in range(SEEDS)]
    words = [
        np.frombuffer(entropy(LazyVsFeature, point, index % SEEDS)[:8], ">u4").astype(np.uint32)
        for index, point in enumerate(points)
    ]

    def laboratory() -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder) / "store", memory=2) as lab:
            return lab.run(LazyVsFeature, grids).simulated.displacement.values.ravel()

    @jax.jit
    def one(words: Any, values: dict[str, Any]) -> dict[str, Any]:
        return LazyVsFeature(**{**points[0], **values}).simulate(jax.random.wrap_key_data(words))

    def plain() -> list[float]:
        return [
            float(one(w, {"exponent": point["exponent"]})["displacement"])
            for w, point in zip(words, points, strict=True)
        ]

    reference = laboratory()
    calls: dict[str, Any] = {"laboratory": laboratory, "plain JAX, one by one": plain}
    share = {name: 1.0 for name in calls}
    notes = [f"width {width}: displacement in plain JAX differs by at most {_difference(plain(), reference):.1e}"]
    try:
        import torch  # noqa: F401
    except ImportError:
        notes.append("PyTorch is not installed, so it is not compared: pip install 'unlazy[bench]'")
    else:
        start = _start(points, words)
        few = [tuple(array[i] for array in start) for i in np.linspace(0, len(points) - 1, ALONE, dtype=int)]
        calls["PyTorch, one by one"] = lambda: [_torch(*network, points[0]["steps"]) for network in few]
        calls["PyTorch, in one batch"] = lambda: _torch(*start, points[0]["steps"])
        share["PyTorch, one by one"], share["PyTorch, in one batch"] = ALONE / len(points), 1.0
        notes.append(
            f"width {width}: in PyTorch by at most {_difference(_torch(*start, points[0]['steps']), reference):.1e}"
        )
    seconds = interleaved(calls, rounds=5)
    speed = {name: [share[name] * len(points) / s for s in seconds[name]] for name in calls}
    rows = [Row(f"N = {width}: {name}", speed[name], "networks/s") for name in calls]
    for name in list(calls)[1:]:
        rows.append(Row(f"N = {width}: laboratory / {name}", ratios(speed["laboratory"], speed[name]), "x"))
    return Benchmark(rows, notes)


def _start(points: list[dict[str, Any]], words: list[Any]) -> tuple[Any, ...]:
    """Data, initial weights, output scale and rate of each network, drawn as the study draws them."""
    import jax
    import torch

    from unlazy.data.single_index import SingleIndex
    from unlazy.models.two_layer import TwoLayer

    def draw(words: Any, exponent: Any) -> tuple[Any, ...]:
        shared = points[0]
        data_key, network_key, _ = jax.random.split(jax.random.wrap_key_data(words), 3)
        x, y = SingleIndex(shared["dimension"], shared["link"], shared["noise_variance"]).sample(
            data_key, shared["samples"]
        )
        network = TwoLayer.antisymmetric(network_key, shared["dimension"], shared["width"])
        rate = shared["learning_rate"] * shared["width"] ** (2 * exponent - 1)
        return x, y, network.first_layer, network.second_layer, shared["width"] ** -exponent, rate

    import numpy as np

    drawn = jax.vmap(draw)(np.stack(words), np.array([point["exponent"] for point in points], np.float32))
    return tuple(torch.from_numpy(np.array(array)) for array in drawn)


def _torch(x: Any, y: Any, initial: Any, second: Any, scale: Any, rate: Any, steps: int) -> Any:
    """The displacement of one network, or of a batch of them, by gradient descent on |f - y|^2 / (2n)."""
    import torch

    first = initial.clone().requires_grad_()
    for _ in range(steps):
        outputs = scale[..., None] * (torch.tanh(x @ first) @ second[..., None])[..., 0]
        loss = ((outputs - y) ** 2).mean(-1).sum() / 2
        (gradient,) = torch.autograd.grad(loss, first)
        with torch.no_grad():
            first -= rate[..., None, None] * gradient
    return torch.linalg.norm(first.detach() - initial, dim=(-2, -1)).numpy()


def _difference(found: Any, reference: Any) -> float:
    import numpy as np

    return float(np.max(np.abs(np.asarray(found) / reference - 1)))
