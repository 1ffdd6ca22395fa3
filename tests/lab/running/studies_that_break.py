"""Studies that do what a worker must survive; `test_reproduce.py` loads them as a user's file is loaded."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from unlazy.lab import Output, Study, at_least, value
from unlazy.lab.claims import Claim

ONE = {"quick": {"seeds": 4}, "full": {"seeds": 8}}


@dataclass(frozen=True)
class Fine(Study):
    name = "test-fine"
    topic = "quiet"
    question = "Is a sleeping process a process?"
    sources = ()
    outputs = {"result": Output("result")}
    presets = ONE
    claims = (
        Claim("above", "It is.", at_least(0), lambda part: part.simulated.result, source="nowhere"),
        Claim("below", "It is.", at_least(3), lambda part: part.simulated.result, source="nowhere"),
        Claim(
            "known", "It is.", at_least(3), lambda part: part.simulated.result, source="nowhere", known_negative="no"
        ),
    )

    scale: float = value(1.0, "scale")

    def simulate(self, rng):
        return {"result": 1 + rng.uniform() / 10}


@dataclass(frozen=True)
class Compiling(Fine):
    """A hosted study that compiles something by itself."""

    name = "test-compiling"

    def simulate(self, rng):
        import jax

        def kept_for_others(x):
            return x + 1

        return {"result": jax.jit(kept_for_others)(rng.uniform() / 10)}


@dataclass(frozen=True)
class Killed(Fine):
    name = "test-killed"
    topic = "loud"

    def simulate(self, rng):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Raising(Fine):
    name = "test-raising"
    topic = "loud"

    def simulate(self, rng):
        raise ZeroDivisionError("nothing left to divide")


@dataclass(frozen=True)
class Large(Fine):
    """More than half a gibibyte, less than one."""

    name = "test-large"

    def memory(self):
        return 600 * 2**20


@dataclass(frozen=True)
class TooLarge(Fine):
    name = "test-too-large"
    topic = "loud"

    def memory(self):
        return 2**31


@dataclass(frozen=True)
class Endless(Fine):
    """The first of many chunks is quick."""

    name = "test-endless"
    presets = {"quick": {"seeds": 20}}
    chunk_width = 1

    def simulate(self, rng):
        time.sleep(0.3)
        return {"result": rng.uniform()}
