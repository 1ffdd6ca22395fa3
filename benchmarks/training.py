"""Training many small networks: the laboratory against the same computation in plain JAX and in eager PyTorch.

The study is `lazy-vs-feature` at one width: 3 output scales x 16 seeds = 48 networks, 500 steps of full-batch gradient
descent in float32. All contestants train the same networks on the same data, as the agreement of their results shows.

- The laboratory runs as for a user, with an empty store each time; its program is compiled before the clock starts.
- Plain JAX jits one instance of the study, all its steps in one program, and calls it for one network after the other.
- PyTorch is given data and initial weights, and does not compute the kernels that the study also measures, so it does
  less work than the other two. `one by one` trains a single network per Python loop, on 3 networks only, scaled up;
  `in one batch` trains all 48 in the same loop by batched products. It has one thread: with two, the batch was up to
  1.6 times faster on a quiet machine, but many times slower as soon as other work competed for the two cores.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

WIDTHS = (128, 512)
SEEDS = 16
ALONE = 3
"""How many networks PyTorch trains one by one."""


def training() -> Benchmark:
    found = [_at_width(width) for width in WIDTHS]
    return Benchmark([r for f in found for r in f.rows], list(dict.fromkeys(n for f in found for n in f.notes)))


def _at_width(width: int) -> Benchmark:
    import jax
    import numpy as np

    from unlazy.lab.grid import preset_grids
    from unlazy.lab.running.laboratory import Laboratory
    from unlazy.lab.running.plan import entropy
    from unlazy.studies.one_step.lazy_vs_feature import LazyVsFeature

    grids = {"main": preset_grids(LazyVsFeature, "quick", set={"width": width}, seeds=SEEDS)["main"]}
    networks = [(point, seed) for point in grids["main"].points() for seed in range(SEEDS)]
    shared = networks[0][0]
    exponents = np.array([point["output_exponent"] for point, _ in networks], np.float32)
    bits = [np.frombuffer(entropy(LazyVsFeature, *network)[:8], ">u4").astype(np.uint32) for network in networks]

    def laboratory() -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder) / "store", memory=2) as lab:
            return lab.run(LazyVsFeature, grids).parts["main"].simulated.displacement.values.ravel()

    @jax.jit
    def one(bits: Any, exponent: Any) -> dict[str, Any]:
        return LazyVsFeature(**{**shared, "output_exponent": exponent}).simulate(jax.random.wrap_key_data(bits))

    def plain() -> list[float]:
        return [float(one(b, e)["displacement"]) for b, e in zip(bits, exponents, strict=True)]

    def apart(displacement: Any) -> str:
        return f"{np.max(np.abs(np.asarray(displacement) / reference - 1)):.0e}"

    reference = laboratory()
    calls: dict[str, Any] = {"laboratory": laboratory, "plain JAX, one by one": plain}
    notes = [f"N = {width}: displacements of laboratory and plain JAX agree to {apart(plain())}"]
    try:
        import torch
    except ImportError:
        notes.append("PyTorch is not installed and is left out: pip install 'unlazy[bench]'")
    else:
        torch.set_num_threads(1)
        start, steps = _start(shared, np.stack(bits), exponents), shared["steps"]
        few = [[array[i] for array in start] for i in np.linspace(0, len(networks) - 1, ALONE, dtype=int)]
        calls["PyTorch, one by one"] = lambda: [_torch(*network, steps) for network in few]
        calls["PyTorch, in one batch"] = lambda: _torch(*start, steps)
        notes.append(f"N = {width}: of laboratory and PyTorch to {apart(_torch(*start, steps))}")
    seconds = interleaved(calls, rounds=5)
    trained = {"PyTorch, one by one": ALONE}
    speed = {name: [trained.get(name, len(networks)) / s for s in times] for name, times in seconds.items()}
    rows = [Row(f"N = {width}: {name}", values, "networks/s") for name, values in speed.items()]
    for name in list(calls)[1:]:
        rows.append(against(name, f"{len(networks)} networks of N = {width}", ratios(speed["laboratory"], speed[name])))
    return Benchmark(rows, notes)


def _start(shared: dict[str, Any], bits: Any, exponents: Any) -> list[Any]:
    """Data, initial weights, output scale and rate of each network, drawn as the study draws them."""
    import jax
    import numpy as np
    import torch

    from unlazy.data.single_index import SingleIndex
    from unlazy.models.two_layer import TwoLayer

    def draw(bits: Any, exponent: Any) -> tuple[Any, ...]:
        data_key, network_key, _ = jax.random.split(jax.random.wrap_key_data(bits), 3)
        data = SingleIndex(shared["d"], shared["link"], shared["noise_variance"])
        network = TwoLayer.antisymmetric(network_key, shared["d"], shared["width"])
        rate = shared["relative_step_size"] * shared["width"] ** (2 * exponent - 1)
        scale = shared["width"] ** -exponent
        return *data.sample(data_key, shared["n"]), network.first_layer, network.second_layer, scale, rate

    return [torch.from_numpy(np.array(array)) for array in jax.vmap(draw)(bits, exponents)]


def _torch(x: Any, y: Any, initial: Any, second: Any, scale: Any, rate: Any, steps: int) -> Any:
    """The displacement of one network, or of each of a batch, by gradient descent on |f - y|^2 / (2n)."""
    import torch

    first = initial.clone().requires_grad_()
    for _ in range(steps):
        outputs = scale[..., None] * (torch.tanh(x @ first) @ second[..., None])[..., 0]
        loss = ((outputs - y) ** 2).mean(-1).sum() / 2
        (gradient,) = torch.autograd.grad(loss, first)
        with torch.no_grad():
            first -= rate[..., None, None] * gradient
    return torch.linalg.norm(first.detach() - initial, dim=(-2, -1)).numpy()
