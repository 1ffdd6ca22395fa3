"""Tiny studies that the tests of the laboratory share; `conftest.py` loads them as a user's file is loaded."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from unlazy.lab import DIVERGED_AT, OWN, Output, Study, at_least, at_most, claim, path, static, value
from unlazy.lab.claims import Claim

QUICK = {"quick": {"scale": [0.5, 1.0, 2.0], "seeds": 3}}
OUTPUTS = {
    "risk": Output("risk along the path", dims=("ridge",)),
    "draw": Output("a random number"),
    "sign": Output("whether it is positive"),
    "count": Output("a whole number"),
    "bad": Output("nan, inf and -0", dims=("kind",), only={"d": (-1,)}),
}


@dataclass(frozen=True)
class Promises(Study):
    """What the traced and the hosted study have in common."""

    question = "Does the laboratory keep its promises?"
    sources = ()
    outputs = OUTPUTS
    presets = QUICK

    d: int = static(5, "dimension", low=1)
    arm: str = static("plain", "arm of a comparison", choices=("plain", "shifted"), paired=True)
    scale: float = value(1.0, "scale")
    shift: float = value(0.0, "shift", paired=True)
    label: int = value(3, "a whole number")
    ridge: tuple = path((0.1, 1.0, 10.0), "ridge", above=0)


@dataclass(frozen=True)
class Traced(Promises):
    """Odd sizes, so that no shape is a multiple of a vector register."""

    name = "test-traced"

    def simulate(self, key):
        import jax
        import jax.numpy as jnp

        draws = jax.random.normal(key, (2 * self.d + 1, self.d))
        design = jnp.tanh(self.scale * draws) + self.shift + (self.arm == "shifted")
        target = jnp.exp(design @ jnp.linspace(-1, 1, self.d) / self.d)

        def error(ridge):
            factor = jax.scipy.linalg.cho_factor(design.T @ design + ridge * jnp.eye(self.d))
            return jnp.mean((target - design @ jax.scipy.linalg.cho_solve(factor, design.T @ target)) ** 2)

        draw = draws[0, 0]
        return {
            "risk": jax.vmap(error)(self.ridge),
            "draw": draw,
            "sign": draw > 0,
            "count": self.label * self.d,
            "bad": jnp.array([jnp.nan, jnp.inf, -0.0]),
        }


@dataclass(frozen=True)
class TracedSingle(Traced):
    name = "test-traced-single"
    precision = "float32"


@dataclass(frozen=True)
class Hosted(Promises):
    name = "test-hosted"

    def simulate(self, rng):
        draws = rng.standard_normal((2 * self.d + 1, self.d))
        design = np.tanh(self.scale * draws) + self.shift + (self.arm == "shifted")
        target = np.exp(design @ np.linspace(-1, 1, self.d) / self.d)
        fits = [np.linalg.solve(design.T @ design + r * np.eye(self.d), design.T @ target) for r in self.ridge]
        return {
            "risk": [np.mean((target - design @ fit) ** 2) for fit in fits],
            "draw": draws[0, 0],
            "sign": draws[0, 0] > 0,
            "count": self.label * self.d,
            "bad": np.array([np.nan, np.inf, -0.0]),
        }


@dataclass(frozen=True)
class Claiming(Hosted):
    name = "test-claiming"

    @claim(OWN, "", at_most(10))
    def risk(main):
        """The risk is {criterion}."""
        return main.simulated.risk

    @claim(OWN, "", at_least(0.9), known_negative="a normal number is as often negative as positive")
    def sign(main):
        """Numbers are positive with probability {criterion}."""
        return main.simulated.sign


@dataclass(frozen=True)
class Slow(Study):
    """Some ten milliseconds for each chunk."""

    question = "Can a run be interrupted at any moment?"
    sources = ()
    outputs = {"result": Output("result", dims=("entry",))}
    presets = {"quick": {"scale": np.linspace(0.5, 1.5, 9).tolist(), "seeds": 5}}
    chunk_width = 1

    scale: float = value(1.0, "scale")


@dataclass(frozen=True)
class SlowTraced(Slow):
    name = "test-slow-traced"

    def simulate(self, key):
        import jax
        import jax.numpy as jnp

        start = self.scale * jax.random.normal(key, (51, 51)) / 8
        return {"result": jax.lax.fori_loop(0, 1000, lambda _, a: jnp.tanh(a @ start), start)[0]}


@dataclass(frozen=True)
class SlowHosted(Slow):
    name = "test-slow-hosted"

    def simulate(self, rng):
        time.sleep(0.02)
        return {"result": self.scale * rng.standard_normal(7)}


@dataclass(frozen=True)
class Company(Study):
    """Another number in a chunk than alone, as a wrong compiler gives."""

    name = "test-company"
    question = "Does an instance depend on its neighbours?"
    sources = ()
    outputs = {"x": Output("a number")}
    presets = {"quick": {"seeds": 3}}

    error: float = value(1.0, "what is added in company")

    def simulate(self, key):
        import jax

        @jax.custom_batching.custom_vmap
        def number(error):
            return 1 + 0 * error

        @number.def_vmap
        def _(size, batched, error):
            return 1 + error, True

        return {"x": number(self.error)}


def _arm(part):
    return part.simulated.sel(arm="one") if "arm" in part.simulated.dims else part.simulated


@dataclass(frozen=True)
class Diverging(Study):
    """Training that overflows at large steps: with `told` it says so."""

    name = "test-diverging"
    question = "Is a run that diverged a result?"
    sources = ()
    outputs = {"loss": Output("loss"), "hits": Output("a count"), "diverged_at": DIVERGED_AT}
    presets = {"quick": {"step": [0.5, 1.0], "arm": ["one", "other"], "seeds": 4}}
    claims = (
        Claim("mean", "The loss is small.", at_most(1), lambda part: part.simulated.loss, source=""),
        Claim("share", "It is small always.", at_least(0.2), lambda part: part.simulated.loss < 1, source=""),
        Claim(
            "median",
            "Half are small.",
            at_most(1),
            lambda part: part.simulated.loss.median("seed"),
            source="",
            kind="resampled",
        ),
        Claim("one-arm", "It is in one arm.", at_most(1), lambda part: _arm(part).loss, source=""),
        Claim("one-share", "It is so always.", at_least(0.2), lambda part: _arm(part).loss < 1, source=""),
    )

    arm: str = static("one", "where it diverges", choices=("one", "other"))
    step: float = value(1.0, "step size", low=0)
    worst: float = value(0.0, "how often it diverges in the other arm", paired=True)

    def simulate(self, key):
        import jax
        import jax.numpy as jnp

        lost = (self.arm == "other") & (jax.random.uniform(key) < self.worst) & (self.step >= 1)
        return {
            "loss": jnp.where(lost, 0.5, 0.25),
            "hits": jnp.int32(3),
            "diverged_at": jnp.where(lost, 7, -1),
        }


@dataclass(frozen=True)
class Untold(Diverging):
    """The same without a word."""

    name = "test-untold"
    outputs = {"loss": Output("loss"), "hits": Output("a count")}
    claims = ()

    def simulate(self, key):
        import jax.numpy as jnp

        found = Diverging.simulate(self, key)
        return {"loss": jnp.where(found["diverged_at"] >= 0, jnp.nan, found["loss"]), "hits": found["hits"]}
