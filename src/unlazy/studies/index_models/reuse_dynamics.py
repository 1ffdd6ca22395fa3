"""The overlap of a neuron under online SGD: network, exact chain and its ODE, with and without reuse of examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, at_least, cite, claim, difference, parameter, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.index_models.shared.traced_links import MOST_DEGREE, hermite_link

TIMES = (5, 10, 20, 30, 40, 50, 60)
"""Examples over the dimension at which overlaps are recorded."""
PLACES = tuple(np.linspace(-0.9, 0.9, 13).round(2).tolist())
"""Overlaps at which the drift is measured."""
CELLS = 64
"""Of the ranks of each of the two numbers that a drift is averaged over."""
TRANSFORMATION = "SGD with reused batches implements a label transformation"
ARMS = [(3, 0, -1.0, 0.0), (4, 1, -1.0, 0.1), (4, 1, 1.0, 0.1), (4, 0, -1.0, 0.1)]
"""Degree, reuse, sign and start beside (3, 1, -1, 0), which is the part `limit`."""
TEXTS = tuple(f"$h_{degree}$, {'' if reuse else 'no '}reuse, $a = {sign:g}$" for degree, reuse, sign, _ in ARMS)


def _arm(data: Any, **wanted: float) -> Any:
    """The points of a zipped axis with the given parameters, which must be one."""
    axis = data.reuse.dims[0]
    found = np.all([data[name].values == number for name, number in wanted.items()], axis=0)
    return data.isel({axis: int(np.flatnonzero(found)[0])}, drop=True)


def _limit(data: Any) -> Any:
    """The chains in d = 400, where a preset has several dimensions."""
    return data.sel(d=400.0) if "d" in data.dims else data


def _of_arms(name: str) -> tuple:
    """An output of every arm, for a panel."""

    def of(arm: tuple, data: Any) -> Any:
        return _arm(data, **dict(zip(("degree", "reuse", "sign"), arm, strict=False)))[name]

    return tuple(partial(of, arm[:3]) for arm in ARMS)


def _draw_limit(axes: Any, limit: Any, **_: Any) -> None:
    from unlazy.plotting import style

    points = _limit(limit.simulated)
    label = f"chain, $d = {float(parameter(points, 'd')):g}$"
    style.simulation(axes, points.time, points.overlap, color=style.colour(2), marker=style.marker(2), label=label)


def _draw_drifts(part: str, axes: Any, **parts: Any) -> None:
    """The theory on more places than were measured."""
    from unlazy.plotting import style
    from unlazy.theory.index_models.online_sgd import overlap_drift

    data, places = parts[part].simulated, np.linspace(-0.99, 0.99, 199)
    neurons = [data.isel({data.reuse.dims[0]: i}) for i in range(data.reuse.size)] if "reuse" in data.coords else [data]
    for index, neuron in enumerate(neurons):
        given: Any = {name: float(parameter(neuron, name)) for name in ("sign", "bias", "strength", "reuse")}
        given["reuse"] = bool(given["reuse"])
        drift = overlap_drift(f"He{int(parameter(neuron, 'degree'))}", places, **given)
        style.theory(axes, places, drift.signal, color=style.colour(index))


@dataclass(frozen=True)
class ReuseDynamics(Study):
    """One ReLU neuron without bias on h_3 or h_4, s = 1, gamma = 0.1, from the overlap m = 0 (h_4: 0.1).

    An instance is a group of independent chains, or a network whose neurons all see the same examples: its mean overlap
    is recorded. h_3 is odd, so that the sign +1 only turns m into -m; for h_4 the signs differ.
    """

    question = "Does using each example twice move a neuron towards a direction that one use does not see?"
    sources = cite("lee2024", "dandi2024reuse", "benarous2021", "wu2024talk")
    precision = "float32"
    chunk_width = 16

    engine: str = static("chain", "how the overlap is followed", choices=("chain", "network"))
    degree: int = value(3, "degree of the link", symbol="k", low=2, high=MOST_DEGREE)
    reuse: int = value(1, "whether each example is used twice", low=0, high=1)
    sign: float = value(-1.0, "output sign of the neuron", symbol="a", low=-1, high=1)
    start: float = value(0.0, "overlap at the start", symbol="m_0", low=-0.99, high=0.99)
    bias: float = value(0.0, "bias of the neuron", symbol="b", low=-10, high=10)
    step: float = value(0.1, "step", symbol=r"\gamma", above=0, high=100)
    strength: float = value(1.0, "strength of the first of two steps", symbol="s", low=0, high=100)
    d: float = value(400.0, "dimension of the chain", symbol="d", low=3, high=1e6, scale="log")
    size: int = static(100, "dimension of the network", low=3, high=100_000, scale="log")
    group: int = static(16, "chains, or neurons of the network", low=1, high=65_536)

    outputs = {
        "overlap": Output("mean overlap", "m", dims=("time",)),
        "signal": Output("drift towards the direction", "S(m)", dims=("place",)),
    }
    presets = {
        "quick": {
            "limit": {"d": 400.0, "seeds": 64},
            "arms": {("degree", "reuse", "sign", "start"): ARMS, "d": 200.0, "seeds": 32},
            "network": {"engine": ["chain", "network"], "size": 100, "d": 100.0, "seeds": 256},
        },
        "full": {
            "limit": {"d": [100.0, 400.0, 1600.0], "seeds": 256},
            "arms": {("degree", "reuse", "sign", "start"): ARMS, "d": 400.0, "seeds": 128},
            "network": {"engine": ["chain", "network"], "size": 100, "d": 100.0, "seeds": 512},
        },
    }
    history = (
        Change("equation", "criterion", "set after a prototype had been seen"),
        Change("", "more seeds", "intervals were too wide"),
    )
    figure = panels(
        Panel(
            "overlap",
            x="time",
            by="engine",
            part="network",
            title="$h_3$, reuse, $a = -1$",
            xlabel="examples per dimension $n/d$",
            legend="upper left",
            draw=_draw_limit,
        ),
        Panel(
            "signal",
            x="place",
            part="limit",
            at={"d": 400.0},
            title="$h_3$, reuse, $a = -1$",
            theory=False,
            xlabel="overlap $m$",
            marks=(Level(0.0),),
            draw=partial(_draw_drifts, "limit"),
        ),
        Panel(
            _of_arms("overlap"),
            x="time",
            part="arms",
            labels=TEXTS,
            xlabel="examples per dimension $n/d$",
            ylabel="mean overlap $m$",
            legend="upper left",
        ),
        Panel(
            _of_arms("signal"),
            x="place",
            part="arms",
            labels=TEXTS,
            xlabel="overlap $m$",
            ylabel="drift towards the direction $S(m)$",
            theory=False,
            legend=False,
            marks=(Level(0.0),),
            draw=partial(_draw_drifts, "arms"),
        ),
        columns=2,
        width=3.8,
        height=2.8,
        caption="Upper left: chain and network of the same dimension, and a chain of a larger one.",
    )

    @claim(OWN, "reduction of a neuron to its overlap", within(0.02, absolute=True))
    def equation(limit):
        """At d = 400 the mean overlap of the chains is that of the ODE {criterion}, for n <= 60 d (h_3, reuse)."""
        return _limit(limit.simulated).overlap - _limit(limit.predicted).overlap

    @claim(OWN, "reduction of a neuron to its overlap", within(0.05, absolute=True))
    def network_is_chain(network):
        """In d = 100 the mean overlap of a network whose neurons share their examples is that of the chain {criterion}
        at all times (h_3, reuse)."""
        overlap = network.simulated.overlap
        return overlap.sel(engine="network") - overlap.sel(engine="chain")

    @claim(OWN, "drift of the overlap, an integral over two normal variables", within(0.03, absolute=True))
    def signal(limit, arms):
        """The measured drift is S(m) {criterion} for both links, both signs, with and without reuse."""
        return [difference(part, "signal") for part in (limit, arms)]

    @claim("lee2024", TRANSFORMATION, at_least(0.25))
    def odd_link(limit):
        """With reuse h_3 is seen at the overlap 0 already (generative exponent 1): after 60 d examples the mean overlap
        is {criterion}."""
        return _limit(limit.simulated).overlap.sel(time=60)

    @claim(
        "benarous2021",
        "no drift where the Hermite coefficients of link and student have no common degree",
        within(0.02, absolute=True),
    )
    def no_reuse(arms):
        """Without reuse the mean overlap stays 0 {criterion}."""
        return _arm(arms.simulated, degree=3, reuse=0).overlap

    @claim("lee2024", TRANSFORMATION, at_least(0.1))
    def even_link(arms):
        """For h_4 (generative exponent 2) from m = 0.1 the neuron with sign -1 gets ahead of the one with sign +1,
        which stalls: after 60 d examples by {criterion}."""
        towards, away = (_arm(arms.simulated, degree=4, reuse=1, sign=sign).overlap for sign in (-1.0, 1.0))
        return (towards - away).sel(time=60)

    def validate(self) -> None:
        if self.sign not in (-1.0, 1.0):
            raise InputError(f"sign must be 1 or -1, got {self.sign:g}")
        if self.engine == "network" and self.d != self.size:
            raise InputError(f"d must be size = {self.size} for a network, got {self.d:g}")

    def coordinates(self) -> dict[str, Any]:
        return {"time": list(TIMES), "place": list(PLACES)}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.index_models import online_index, overlap_chain

        link = hermite_link(self.degree)
        rule = overlap_chain.Rule(self.step, self.strength, self.reuse, self.sign, self.bias)
        train_key, start_key, drift_key = jax.random.split(key, 3)
        if self.engine == "chain":
            start = jnp.full(self.group, 1.0) * self.start
            ends = (jnp.asarray(TIMES) * self.d).astype(jnp.int32)
            overlaps = overlap_chain.train(train_key, start, self.d, rule, ends, teacher=link)
        else:
            rest = online_index.init(start_key, self.group, self.size).at[:, 0].set(0.0)
            rest = rest / jnp.linalg.norm(rest, axis=1, keepdims=True)
            weights = (jnp.sqrt(1 - self.start**2) * rest).at[:, 0].set(self.start)
            stops = [time * self.size for time in TIMES]
            overlaps = online_index.train(train_key, weights, rule, stops[-1], teacher=link, record_at=stops).overlaps
        return {"overlap": overlaps.mean(1), "signal": self._measured_drift(drift_key, rule, link)}

    def _measured_drift(self, key: Any, rule: Any, link: Any) -> Any:
        """The mean of psi (z - m u) over drawn examples with |x|^2 = d, the same u and v for all overlaps m.

        The ranks of (u, v) are uniform in each cell of a grid: the mean is as unbiased as that of independent ones, and
        varies about as much as that of four times as many.
        """
        import jax.numpy as jnp

        from unlazy.functions.links import LINKS
        from unlazy.training.index_models.chain_draws import symmetric, to_normal
        from unlazy.training.index_models.overlap_chain import push

        cells = jnp.arange(CELLS)
        inside = [(1 + uniform) / 2 for uniform in symmetric(key, 2, (CELLS, CELLS))]
        ranks = 2 * (cells + inside[0]) / CELLS - 1, 2 * (cells[:, None] + inside[1]) / CELLS - 1
        most = 1 - jnp.finfo(inside[0].dtype).epsneg
        u, v = (to_normal(jnp.clip(rank, -most, most)).reshape(-1) for rank in ranks)
        place = jnp.asarray(PLACES, u.dtype)[:, None]
        across = jnp.sqrt(1 - place**2) * v
        psi = push(rule, LINKS["relu"].derivative, u, link(place * u + across), jnp.ones_like(u))
        return (psi * across).mean(1)

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.index_models.online_sgd import overlap_drift, overlap_path

        neuron: Any = {
            "sign": self.sign, "bias": self.bias, "strength": self.strength, "reuse": bool(self.reuse)
        }  # fmt: skip
        link = f"He{self.degree}"
        return {
            "overlap": overlap_path(link, TIMES, self.step, start=self.start, **neuron),
            "signal": overlap_drift(link, PLACES, **neuron).signal,
        }
