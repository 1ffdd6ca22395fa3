"""Whether this JAX computes right: a second of work is compared with NumPy before anything is believed.

jaxlib 0.10.2 is why: on CPU it sums products from memory that nobody wrote, silently and differently in every process.
Each (jaxlib, platform, kind of device) is tried once, by the first process that computes with it, and the outcome is
remembered in the cache folder. A version that fails is refused wherever it would compute.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from unlazy.errors import InputError
from unlazy.lab import trials

TESTED = "0.10.1"
"""The version of constraints.txt, which a refusal recommends."""
WRONG = {"0.10.2": "sums of products are read from memory that nobody wrote"}
"""Versions of jaxlib that are known to compute wrong numbers; its maintainers call it jax issue 39103."""


class WrongNumbers(InputError):
    """This JAX computes wrong numbers: nothing that it gives can be a result."""


class Device(NamedTuple):
    """What the programs run on."""

    jaxlib: str
    platform: str
    kind: str


def cache_folder() -> Path:
    """Where unlazy remembers what can be found out again: compiled programs, and which of them are right."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("unlazy"))


@cache
def device() -> Device:
    """The device of this process; it loads JAX."""
    import jax

    first = jax.devices()[0]
    return Device(version("jaxlib"), first.platform, first.device_kind)


@cache
def check_arithmetic() -> None:
    """Raise WrongNumbers if the JAX of this process computes wrong numbers; it is tried once, then remembered."""
    if (jaxlib := version("jaxlib")) in WRONG:
        raise _refusal(jaxlib, WRONG[jaxlib])
    tried = _memory(device())
    try:
        fault = json.loads(tried.read_text())["fault"]
    except (OSError, ValueError, KeyError, TypeError):
        fault = trials.first_fault(coarse=device().platform != "cpu")
        _remember(tried, {**device()._asdict(), "fault": fault})
    if fault:
        raise _refusal(jaxlib, f"{fault} on {device().platform} ({device().kind})")


def is_refused(jaxlib: str) -> bool:
    """Whether a version of jaxlib is known to compute wrong numbers, or was found to on this machine."""
    return jaxlib in WRONG or jaxlib in _found_wrong()


@cache
def made_wrong(versions: str) -> str:
    """The refused jaxlib by which a stored row was made; empty if it was none, or the row needed no JAX.

    Where a row names jax alone, its jaxlib had the same number.
    """
    try:
        found = json.loads(versions)
        jaxlib = str(found.get("jaxlib", found.get("jax", "")))
    except (ValueError, AttributeError):
        return ""
    return jaxlib if is_refused(jaxlib) else ""


@cache
def _found_wrong() -> frozenset[str]:
    wrong = set()
    for file in (cache_folder() / "arithmetic").glob("*.json"):
        try:
            found = json.loads(file.read_text())
            if found["fault"]:
                wrong.add(str(found["jaxlib"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return frozenset(wrong)


def _refusal(jaxlib: str, fault: str) -> WrongNumbers:
    return WrongNumbers(
        f"jaxlib {jaxlib} computes wrong numbers: {fault}; install another version: "
        f"pip install jax=={TESTED} jaxlib=={TESTED}"
    )


@cache
def _memory(tried: Device) -> Path:
    """The file that remembers how the trials, as they are now, came out."""
    code = hashlib.sha256(Path(trials.__file__).read_bytes()).hexdigest()
    name = hashlib.sha256(json.dumps([*tried, code]).encode()).hexdigest()[:24]
    return cache_folder() / "arithmetic" / f"{name}.json"


def _remember(file: Path, outcome: Mapping[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(outcome))
        fresh.replace(file)
    except OSError:
        # A cache that cannot be written costs a second in the next process.
        return
