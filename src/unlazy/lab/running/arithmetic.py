"""Whether this JAX computes right: a second of work is compared with NumPy before anything is believed.

jaxlib 0.10.2 is why: on CPU it sums products from memory that nobody wrote, silently and differently in every process.
Each (jaxlib, platform, kind of device) is tried once, by the first process that computes with it, and the outcome is
remembered in the cache folder. A version that fails is refused wherever it would compute.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from unlazy.checks import InputError
from unlazy.lab.running import trials

TESTED = "0.10.1"
"""The version of constraints.txt, which a refusal recommends."""
WRONG = {"0.10.2": "sums of products are read from memory that nobody wrote"}
"""Versions of jaxlib that are known to compute wrong numbers; its maintainers call it jax issue 39103."""


class WrongNumbers(InputError):
    """This JAX computes wrong numbers: nothing that it gives can be a result."""


LAPACK = threading.Lock()
"""Two threads inside compiled LAPACK calls (Cholesky, solve, eigh) can deadlock on the CPU."""
_TRYING = threading.Lock()


class Device(NamedTuple):
    """What the programs run on, and how: on one thread, or not optimised, other things go wrong."""

    jaxlib: str
    platform: str
    kind: str
    threads: int
    optimised: bool


def cache_folder() -> Path:
    """Where unlazy remembers what can be found out again: compiled programs, and which of them are right."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("unlazy"))


def device() -> Device:
    """The device of this process; it loads JAX."""
    import jax

    first = jax.devices()[0]
    optimised = not jax.config.read("jax_disable_most_optimizations")
    threads = int(os.environ.get("NPROC") or cores())
    return Device(version("jaxlib"), first.platform, first.device_kind, threads, optimised)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_arithmetic() -> None:
    """Raise WrongNumbers if the JAX of this process computes wrong numbers; it is tried once, then remembered."""
    if (jaxlib := version("jaxlib")) in WRONG:
        raise _refusal(jaxlib, WRONG[jaxlib])
    tried = device()
    with _TRYING:
        fault = _fault(tried)
    if fault:
        raise _refusal(jaxlib, f"{fault} on {tried.platform} ({tried.kind})")


@cache
def _fault(tried: Device) -> str:
    memory = _memory(tried)
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(memory.read_text())["fault"])
    with LAPACK:
        fault = trials.first_fault(coarse=tried.platform != "cpu")
    _remember(memory, {**tried._asdict(), "trials": _code(), "fault": fault})
    return fault


@cache
def made_wrong(versions: str) -> str:
    """The refused jaxlib by which a stored row was made; empty if it was none.

    A version is refused that is known to be wrong, or was found to be on this machine with the row's kind of device. A
    row that names jax alone is of the first round, in which jax and jaxlib had the same number.
    """
    try:
        found = json.loads(versions)
        jaxlib, kind = str(found.get("jaxlib", found.get("jax", ""))), found.get("device")
    except (ValueError, AttributeError):
        return ""
    return jaxlib if jaxlib in WRONG or (jaxlib, kind) in _found_wrong() else ""


@cache
def _found_wrong() -> frozenset[tuple[str, str]]:
    """The (jaxlib, kind of device) that the trials, as they are now, found to be wrong on this machine."""
    wrong = set()
    for file in (cache_folder() / "arithmetic").glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(file.read_text())
            if found["fault"] and found["trials"] == _code():
                wrong.add((str(found["jaxlib"]), str(found["kind"])))
    return frozenset(wrong)


def _refusal(jaxlib: str, fault: str) -> WrongNumbers:
    remedy = f"another version: pip install jax=={TESTED} jaxlib=={TESTED}" if jaxlib != TESTED else "another version"
    return WrongNumbers(f"jaxlib {jaxlib} computes wrong numbers: {fault}; install {remedy}")


def _memory(tried: Device) -> Path:
    """The file that remembers how the trials, as they are now, came out."""
    name = hashlib.sha256(json.dumps([*tried, _code()]).encode()).hexdigest()[:24]
    return cache_folder() / "arithmetic" / f"{name}.json"


@cache
def _code() -> str:
    return hashlib.sha256(Path(trials.__file__).read_bytes()).hexdigest()[:24]


def _remember(file: Path, outcome: Mapping[str, Any]) -> None:
    # A cache that cannot be written costs some seconds in the next process.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(outcome))
        fresh.replace(file)
