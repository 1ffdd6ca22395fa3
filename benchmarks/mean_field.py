"""Speed of mean-field Langevin steps of a tanh network, their memory, and the accuracy of `MeanFieldClassifier`.

- Steps: N = 500 particles, n = 500 rows, squared loss, full gradient, float32, against the same in eager PyTorch with
  autograd, on one thread each where a thread can be chosen. `one` is the step of the estimators, `batch` are eight
  networks in one vmapped program, `engine` is the step of `training.langevin`. One step is 4 N n (d + 1) operations in
  two matrix products, N n tanh and N (d + 1) normal numbers. PyTorch calls a handful of kernels on arrays of a megabyte
  here, so that little but those kernels can be saved. What could be had at most is measured: PyTorch over a loop of the
  two products alone, and of the products with tanh. No program in single precision beats the first; 20 times is not
  there to be had.
- Share of the products: the time of the two products alone over that of a step, next to what could be had at most: the
  products over the sum of products, tanh and normal numbers, each measured alone in the same rounds. A step also takes
  the mean of the neurons and multiplies by their slopes, one more pass each over N n numbers, which the sum leaves out.
  At d = 100 the products rule and 0.6 is there; at d = 10 they take as long as tanh does, so that it is not.
- Share of the peak: the two products of a step over their time if nothing else were done at the measured rate of a
  product of 1500 x 1500 matrices.
- Memory: of the compiled steps without arguments, per N n numbers: O(N n), not O(N^2 n).
- Theory: the rates of a problem of one dimension on 401 points.
- Accuracy: test accuracy on rotated XOR (d = 20, n = 600), 2-sparse parity (d = 30, n = 400) and six real sets; every
  contestant is tuned on the training rows only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contest import Comparison, against_others, errors_table, times_table
from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

PARTICLES, ROWS, STEPS, BATCH = 500, 500, 100, 8
DIMENSIONS = (10, 100)
LARGE = 1500
SEED = 20_261
REAL = ("breast_cancer", "wine", "iris", "digit_classes", "diabetes", "jacksboro")
REAL_ROWS = 300
NETWORK = "mean field"


def mean_field() -> Benchmark:
    rows, notes = [], []
    for d in DIMENSIONS:
        more, note = speed(d)
        rows += more
        notes += note
    rows += [*memory(), theory()]
    more, tables = accuracy()
    return Benchmark([*rows, *more], [*notes, *tables])


NUMBERS = {"temperature": 0.003, "confinement": 0.01, "step_size": 0.03}


def _steps(key: Any, particles: Any, inputs: Any, labels: Any) -> Any:
    """The steps that the estimators make."""
    import jax

    from unlazy.models.mean_field import named_loss, network_functional
    from unlazy.training.mean_field.langevin import noisy_step, variation_gradient

    functional = network_functional(named_loss("square"), 3.0)

    def one(number: Any, particles: Any) -> Any:
        gradient = variation_gradient(functional, particles, (inputs, labels))
        return noisy_step(key, number, particles, gradient, **NUMBERS)

    return jax.lax.fori_loop(0, STEPS, one, particles)


def _engine_steps(key: Any, particles: Any, inputs: Any, labels: Any) -> Any:
    import jax

    from unlazy.models.mean_field import named_loss, network_functional
    from unlazy.training.mean_field.langevin import build_step, init

    step = build_step(network_functional(named_loss("square"), 3.0), **NUMBERS)
    keys = jax.random.split(key, STEPS)
    state, _ = jax.lax.scan(lambda s, k: (step(k, s, (inputs, labels)), None), init(particles), keys)
    return state.particles


def _products(activation: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """The two matrix products of every step, with the activation between them and nothing else."""
    import jax

    def loop(particles: Any, inputs: Any) -> Any:
        def one(_: Any, particles: Any) -> Any:
            return particles - 1e-6 * (activation(particles @ inputs.T) @ inputs)

        return jax.lax.fori_loop(0, STEPS, one, particles)

    return jax.jit(loop)


def _tanh() -> Callable[[Any], Any]:
    """N n tanh of every step, and nothing else."""
    import jax

    return jax.jit(lambda x: jax.lax.fori_loop(0, STEPS, lambda _, x: jax.numpy.tanh(1.01 * x), x))


def _noise() -> Callable[[Any, Any], Any]:
    """The normal numbers of every step, and nothing else."""
    import jax

    from unlazy.random import normals_at

    def loop(key: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, STEPS, lambda i, x: x + normals_at(key, i, x.shape, x.dtype), x)

    return jax.jit(loop)


def _arrays(d: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(SEED)
    inputs = np.column_stack([rng.standard_normal((ROWS, d)), np.ones(ROWS)]).astype(np.float32)
    labels = np.sign(inputs[:, 0] * inputs[:, 1]).astype(np.float32)
    return 0.2 * rng.standard_normal((PARTICLES, d + 1)).astype(np.float32), inputs, labels


def speed(d: int) -> tuple[list[Row], list[str]]:
    import jax

    particles, inputs, labels = map(jax.numpy.asarray, _arrays(d))
    single, engine = jax.jit(_steps), jax.jit(_engine_steps)
    batched = jax.jit(jax.vmap(_steps, (0, 0, None, None)))
    products, with_tanh = _products(lambda x: x), _products(jax.numpy.tanh)
    tanh, noise, hidden = _tanh(), _noise(), particles @ inputs.T
    key, keys = jax.random.key(0), jax.random.split(jax.random.key(0), BATCH)
    many = jax.numpy.broadcast_to(particles, (BATCH, *particles.shape))
    calls: dict[str, Callable[[], Any]] = {
        "one": lambda: single(key, particles, inputs, labels).block_until_ready(),
        "batch": lambda: batched(keys, many, inputs, labels).block_until_ready(),
        "engine": lambda: engine(key, particles, inputs, labels).block_until_ready(),
        "products alone": lambda: products(particles, inputs).block_until_ready(),
        "products and tanh": lambda: with_tanh(particles, inputs).block_until_ready(),
        "tanh alone": lambda: tanh(hidden).block_until_ready(),
        "normal numbers alone": lambda: noise(key, particles).block_until_ready(),
        "peak": _large_product(),
    }
    notes = []
    try:
        import torch
    except ImportError:
        notes.append("PyTorch is not installed and is left out: pip install 'unlazy[bench]'")
    else:
        torch.set_num_threads(1)
        calls["PyTorch"] = lambda: _torch(*map(torch.from_numpy, _arrays(d)))
    seconds = interleaved(calls, rounds=5)
    seconds["batch"] = [second / BATCH for second in seconds["batch"]]
    work = 4 * PARTICLES * ROWS * (d + 1) * STEPS
    peak = [2 * LARGE**3 / second for second in seconds.pop("peak")]
    title = f"N = n = 500, d = {d}"
    rows = [
        Row(f"million particle-steps per second, {name}, {title}", [PARTICLES * STEPS / s / 1e6 for s in times], "")
        for name, times in seconds.items()
    ]
    shares = [work / s / most for s, most in zip(seconds["one"], peak, strict=True)]
    rows.append(Row(f"share of the peak of matrix products, {title}", shares, ""))
    parts = zip(*(seconds[f"{name} alone"] for name in ("products", "tanh", "normal numbers")), strict=True)
    most = ratios(seconds["products alone"], [sum(part) for part in parts])
    share = ratios(seconds["products alone"], seconds["one"])
    rows.append(Row(f"share of the products in a step, {title}", share, "", at_least=0.6 if d == 100 else None))
    rows.append(Row(f"share of the products in a step at most, {title}", most, ""))
    if "PyTorch" in seconds:
        rows += [
            against("PyTorch", f"{title}, {what}", ratios(seconds["PyTorch"], seconds[name]), at_least=least)
            for name, what, least in (("one", "one network", 20), ("batch", "batch", 20), ("engine", "engine", None))
        ]
        rows += [
            Row(f"{title}, time of PyTorch over {name}", ratios(seconds["PyTorch"], seconds[name]), "")
            for name in ("products and tanh", "products alone")
        ]
        times = Row("", ratios(seconds["PyTorch"], seconds["products alone"]), "").median
        notes.append(f"{title}: at most {times:.1f} times PyTorch is possible, with nothing but the matrix products")
    return rows, notes


def _torch(particles: Any, inputs: Any, labels: Any) -> Any:
    import torch

    temperature, confinement, step = NUMBERS.values()
    particles = particles.clone().requires_grad_()
    for _ in range(STEPS):
        outputs = 3.0 * torch.tanh(inputs @ particles.T).mean(1)
        energy = 0.5 * ((outputs - labels) ** 2).mean()
        (gradient,) = torch.autograd.grad(energy, particles)
        with torch.no_grad():
            particles -= step * (PARTICLES * gradient + 2 * confinement * particles)
            particles += (2 * temperature * step) ** 0.5 * torch.randn_like(particles)
    return particles


def _large_product() -> Callable[[], Any]:
    import jax

    matrix = jax.numpy.ones((LARGE, LARGE), np.float32)
    product = jax.jit(lambda a: a @ a)
    return lambda: product(matrix).block_until_ready()


def memory() -> list[Row]:
    """Temporary memory of compiled steps over that of one N x n array, at two numbers of particles."""
    import jax

    rows = []
    _, inputs, labels = _arrays(10)
    for count in (500, 4000):
        particles = np.zeros((count, 11), np.float32)
        compiled = jax.jit(_steps).lower(jax.random.key(0), particles, inputs, labels).compile()
        used = compiled.memory_analysis().temp_size_in_bytes
        what = f"temporary memory of the steps over N n numbers, N = {count}, n = 500"
        rows.append(Row(what, [used / (4 * count * ROWS)], "", at_most=8))
    return rows


def _rotated_xor() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng([SEED, 0])
    directions = np.linalg.qr(rng.standard_normal((20, 2)))[0]
    x = rng.standard_normal((600 + 2000, 20))
    y = np.sign((x @ directions).prod(axis=1))
    return x[:600], y[:600], x[600:], y[600:]


def _parity() -> tuple[np.ndarray, ...]:
    x = np.random.default_rng([SEED, 1, 0]).choice([-1.0, 1.0], (400 + 2000, 30))
    y = x[:, 0] * x[:, 1]
    return x[:400], y[:400], x[400:], y[400:]


def _real(name: str) -> tuple[np.ndarray, ...]:
    """Classes of the set, or whether its target is above the median."""
    from unlazy.data import real

    data = real.load(name)
    targets = data.targets
    y = targets.argmax(axis=1) if targets.shape[1] > 1 else (targets[:, 0] > np.median(targets)).astype(int)
    order = np.random.default_rng([SEED, 2, 0]).permutation(len(y))
    n = min(REAL_ROWS, 2 * len(y) // 3)
    train, test = order[:n], order[n : n + 1000]
    return data.inputs[train], y[train], data.inputs[test], y[test]


def contestants() -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.model_selection import GridSearchCV
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from unlazy.estimators import MeanFieldClassifier

    def tuned(step: Any, **grid: Any) -> Any:
        return GridSearchCV(make_pipeline(StandardScaler(), step), grid, cv=3)

    return {
        NETWORK: MeanFieldClassifier(certificate=False, random_state=0),
        "SVC": tuned(SVC(), svc__C=[0.1, 1, 10, 100], svc__gamma=["scale", 0.003, 0.01, 0.1]),
        "MLP": tuned(MLPClassifier((256,), max_iter=300, random_state=0), mlpclassifier__alpha=[1e-3, 0.1, 1.0]),
        "forest": RandomForestClassifier(300, random_state=0),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }


def theory() -> Row:
    from unlazy.theory import decay_rates, scalar_problem

    settings = {"interaction": 2, "target_mean": 0.3, "confinement": 0.2, "temperature": 0.3, "grid_points": 401}
    problem = scalar_problem(lambda x: np.exp(-2 * x**2), np.tanh, **settings)
    seconds = interleaved({"rates": lambda: decay_rates(problem)}, rounds=9, clock=time.process_time)["rates"]
    return Row("theory, rates on 401 points", [1e3 * s for s in seconds], "CPU ms", at_most=50)


def accuracy() -> tuple[list[Row], list[str]]:
    import warnings

    problems: dict[str, Callable[[], tuple[np.ndarray, ...]]] = {
        "rotated XOR, d = 20, n = 600": _rotated_xor,
        "parity of 2 of 30, n = 400": _parity,
        **{name: partial(_real, name) for name in REAL},
    }
    compared = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problem, draw in problems.items():
            x, y, x_test, y_test = draw()
            one = Comparison(problem, x.shape, {})

            def wrong(model: Any, x: Any = x_test, y: Any = y_test) -> float:
                return 1 - model.score(x, y) + 0.5 / len(y)

            one.race(contestants(), x, y, wrong)
            compared.append(one)
    drawn, real = compared[:2], compared[2:]
    rows = [
        *against_others("2 drawn problems", drawn, NETWORK, clock="wall"),
        *against_others(f"{len(real)} real sets", real, NETWORK, clock="wall"),
    ]
    for one in drawn:
        gain = min(one.mean("SVC"), one.mean("forest")) - one.mean(NETWORK)
        rows.append(Row(f"accuracy above the better of SVC and forest, {one.label}", [gain], "", at_least=0.03))
    return rows, [
        "share of wrong labels of new rows, with half an error more for everybody: some make none"
        + errors_table(compared, NETWORK),
        "seconds of a fit with its tuning, wall / CPU" + times_table(compared),
    ]
