"""Online SGD on single-index models: the exact chain of one overlap, and the network of Algorithm 1.

- Chain: 1024 chains of one ReLU neuron on He_3 in d = 1000, in float32, two groups of them in two threads as in the
  laboratory. The d-dimensional simulation is the program of the network with one neuron in each of 1024 networks, on
  fewer steps, scaled up.
- Network: d = 1000, 64 neurons, 50,000 examples, 16 seeds, float32, whole, draws included, and compiled before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

CHAINS, DIMENSION, STEPS, FEW = 1024, 1000, 10_000, 64
NEURONS, SAMPLES, SEEDS = 64, 50_000, 16


def index_models() -> Benchmark:
    import jax

    chain, direct, network = jax.jit(_chain), jax.jit(jax.vmap(_neuron)), jax.jit(jax.vmap(_network))
    keys = jax.random.split(jax.random.key(0), CHAINS)

    def all_of(call: Callable[[Any], Any], parts: list[Any]) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda part: jax.block_until_ready(call(part)), parts))

    seconds = interleaved(
        {
            "chain": lambda: all_of(chain, [keys[0], keys[1]]),
            "direct": lambda: all_of(direct, [keys[: CHAINS // 2], keys[CHAINS // 2 :]]),
        },
        rounds=3,
    )
    per_minute = [60 * CHAINS * STEPS / second / 1e8 for second in seconds["chain"]]
    slower = [60 * CHAINS * FEW / second / 1e8 for second in seconds["direct"]]
    halves = [keys[: SEEDS // 2], keys[SEEDS // 2 : SEEDS]]
    program = network.lower(halves[0]).compile()
    whole = interleaved({"network": lambda: all_of(program, halves)}, rounds=1, warm=False)
    return Benchmark(
        [
            Row("chain, 1e8 chain-steps per minute", per_minute, "", at_least=1.0),
            Row(f"vectors in d = {DIMENSION}, the same", slower, ""),
            against(f"vectors in d = {DIMENSION}", "chain of one overlap", ratios(per_minute, slower)),
            Row(f"network, d = {DIMENSION}, {SEEDS} seeds", whole["network"], "s", at_most=120.0),
        ],
        ["the chain's cost does not depend on the dimension; most of it is drawing random numbers"],
    )


def _chain(key: Any) -> Any:
    import jax.numpy as jnp

    from unlazy.functions.elementwise import as_link
    from unlazy.training.index_models.overlap_chain import Rule, train

    return train(key, jnp.zeros(CHAINS // 2), DIMENSION, Rule(0.1, sign=-1.0), [STEPS], link=as_link("He3"))


def _neuron(key: Any) -> Any:
    import jax.numpy as jnp

    from unlazy.functions.elementwise import as_link
    from unlazy.training.index_models.online_index import init, train
    from unlazy.training.index_models.overlap_chain import Rule

    weights = init(key, 1, DIMENSION, jnp.float32)
    return train(key, weights, Rule(0.1, sign=-1.0), FEW, link=as_link("He3")).overlaps


def _network(key: Any) -> Any:
    import jax
    import jax.numpy as jnp

    from unlazy.functions.elementwise import as_link
    from unlazy.random import normal
    from unlazy.training.index_models.online_index import init, train
    from unlazy.training.index_models.overlap_chain import Rule

    start_key, neuron_key, train_key = jax.random.split(key, 3)
    signs, biases = normal(neuron_key, (2, NEURONS))
    rule = Rule(0.1, sign=jnp.sign(signs), bias=0.5 * biases, noise_variance=0.01)
    weights = init(start_key, NEURONS, DIMENSION, jnp.float32)
    return train(train_key, weights, rule, SAMPLES, link=as_link("He3")).overlaps
