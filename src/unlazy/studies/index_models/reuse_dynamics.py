"""The overlap of a neuron under online SGD: network, exact chain and its ODE, with and without reuse of examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Study, at_least, between, parameter, static, value
from unlazy.studies.index_models.shared.sources import BEN_AROUS, DANDI, LEE, TALK
from unlazy.studies.index_models.shared.traced_links import MOST_DEGREE, hermite_link

if TYPE_CHECKING:
    import xarray as xr

TIMES = (5, 10, 20, 30, 40, 50, 60)
"""Examples over the dimension at which overlaps are recorded."""
PLACES = tuple(np.linspace(-0.9, 0.9, 13).round(2).tolist())
"""Overlaps at which the drift is measured."""
CELLS = 64
"""Of the ranks of each of the two numbers that a drift is averaged over."""
LEE_TEXT = "Lee et al. 2024, SGD with reused batches implements a label transformation"
THE_CHAIN = "the project's reduction to one dimension"


def _arm(data: xr.Dataset | xr.DataArray, *, drop: bool = True, **wanted: float) -> Any:
    """The points of a zipped axis with the given parameters, which must be one."""
    axis = data.reuse.dims[0]
    found = np.all([data[name].values == number for name, number in wanted.items()], axis=0)
    return data.isel({axis: int(np.flatnonzero(found)[0])}, drop=drop)


ARMS = [(3, 0, -1.0, 0.0), (4, 1, -1.0, 0.1), (4, 1, 1.0, 0.1), (4, 0, -1.0, 0.1)]
"""Degree, reuse, sign and start beside (3, 1, -1, 0), which is the part `limit`."""


def _limit(data: xr.Dataset) -> Any:
    """The chains in d = 400, where a preset has several dimensions."""
    return data.sel(d=400.0) if "d" in data.dims else data


@dataclass(frozen=True)
class ReuseDynamics(Study):
    """One ReLU neuron without bias on h_3 or h_4, s = 1, gamma = 0.1, from the overlap m = 0 (h_4: 0.1).

    An instance is a group of independent chains, or a network whose neurons all see the same examples: its mean overlap
    is recorded. h_3 is odd, so that the sign +1 only turns m into -m; for h_4 the signs differ. Criteria were written
    before the first run, that of the ODE after a prototype had been seen; the numbers of seeds were raised afterwards,
    where intervals were too wide.
    """

    name = "reuse-dynamics"
    topic = "index_models"
    question = "Does using each example twice move a neuron towards a direction that one use does not see?"
    sources = (LEE, DANDI, BEN_AROUS, TALK)
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
    claims = (
        Claim(
            "equation",
            THE_CHAIN,
            "At d = 400 the mean overlap of the chains is within 0.02 of the ODE for n <= 60 d (h_3, reuse).",
            between(-0.02, 0.02),
            check=lambda part: _limit(part.simulated).overlap - _limit(part.predicted).overlap,
            parts=("limit",),
        ),
        Claim(
            "network-is-chain",
            THE_CHAIN,
            "In d = 100 the mean overlap of a network whose neurons share their examples is that of the chain within "
            "0.05 at all times (h_3, reuse).",
            between(-0.05, 0.05),
            check=lambda part: (
                part.simulated.overlap.sel(engine="network") - part.simulated.overlap.sel(engine="chain")
            ),
            parts=("network",),
            needs={"engine": ("chain", "network")},
        ),
        Claim(
            "signal",
            "the project's equation",
            "The measured drift is S(m) within 0.03 for both links, both signs, with and without reuse.",
            between(-0.03, 0.03),
            check=lambda *parts: [part.simulated.signal - part.predicted.signal for part in parts],
            parts=("limit", "arms"),
        ),
        Claim(
            "odd-link",
            LEE_TEXT,
            "With reuse h_3 is seen at the overlap 0 already (generative exponent 1): after 60 d examples the mean "
            "overlap is at least 0.25.",
            at_least(0.25),
            check=lambda part: _limit(part.simulated).overlap.sel(time=60),
            parts=("limit",),
        ),
        Claim(
            "no-reuse",
            "Ben Arous et al. 2021: no drift where the Hermite coefficients of link and student have no common degree",
            "Without reuse the mean overlap stays 0 within 0.02.",
            between(-0.02, 0.02),
            check=lambda part: _arm(part.simulated, degree=3, reuse=0).overlap,
            parts=("arms",),
        ),
        Claim(
            "even-link",
            LEE_TEXT,
            "For h_4 (generative exponent 2) from m = 0.1 the neuron with sign -1 gets ahead of the one with sign +1, "
            "which stalls, by at least 0.1 after 60 d examples.",
            at_least(0.1),
            check=lambda part: (
                _arm(part.simulated, degree=4, reuse=1, sign=-1.0).overlap
                - _arm(part.simulated, degree=4, reuse=1, sign=1.0).overlap
            ).sel(time=60),
            parts=("arms",),
        ),
    )

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

    def figure(self, limit: Part, arms: Part, network: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(2, 2, width=3.8, height=2.8)
        texts = {(1, -1.0): "reuse, $a = -1$", (1, 1.0): "reuse, $a = 1$", (0, -1.0): "no reuse, $a = -1$"}
        for (path, portrait), degree in zip(panels, (3, 4), strict=True):
            kinds = [(reuse, sign) for k, reuse, sign, _ in ((3, 1, -1.0, 0.0), *ARMS) if k == degree]
            for index, (reuse, sign) in enumerate(kinds):
                wanted = {"degree": degree, "reuse": reuse, "sign": sign}
                options: Any = {"color": style.colour(index), "marker": style.marker(index)}
                points = (
                    _limit(limit.simulated) if (degree, reuse) == (3, 1) else _arm(arms.simulated, drop=False, **wanted)
                )
                self._draw_theory(path, portrait, points, degree, options["color"])
                d = f", chain $d = {float(parameter(points, 'd')):g}$" if degree == 3 else ""
                style.simulation(path, points.time, points.overlap, label=texts[reuse, sign] + d, **options)
                style.simulation(portrait, points.place, points.signal, **options)
            path.set(xlabel=style.label("examples per dimension", "n/d"), ylabel=style.label("overlap", "m"))
            path.set_title(f"$h_{degree}$, ReLU; lines: ODE")
            portrait.axhline(0, color="#000000", linewidth=0.8)
            portrait.set(xlabel=style.label("overlap", "m"), ylabel=style.label("drift", "S(m)"))
            portrait.set_title(f"$h_{degree}$; lines: theory")
        for index, engine in enumerate(("chain", "network"), 3):
            points = network.simulated.overlap.sel(engine=engine)
            text = f"reuse, {engine} $d = {float(parameter(network.simulated, 'd')):g}$"
            shift = -0.6 if engine == "chain" else 0.6
            style.simulation(
                panels[0, 0],
                points.time + shift,
                points,
                color=style.colour(index),
                marker=style.marker(index),
                label=text,
            )
        for path in panels[:, 0]:
            path.legend(loc="upper left")
        return figure

    @staticmethod
    def _draw_theory(path: Any, portrait: Any, points: xr.Dataset, degree: int, color: str) -> None:
        from unlazy.plotting import style
        from unlazy.theory.index_models.online_sgd import overlap_drift, overlap_path

        names = ("sign", "bias", "strength", "reuse", "start", "step")
        neuron: Any = {name: float(parameter(points, name)) for name in names}
        neuron["reuse"] = bool(neuron["reuse"])
        start, step = neuron.pop("start"), neuron.pop("step")
        times, places = np.linspace(0, TIMES[-1], 121), np.linspace(-0.99, 0.99, 199)
        style.theory(path, times, overlap_path(f"He{degree}", times, step, start=start, **neuron), color=color)
        style.theory(portrait, places, overlap_drift(f"He{degree}", places, **neuron).signal, color=color)
