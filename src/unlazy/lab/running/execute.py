"""Running chunks: a compiled, vmapped call for a traced study, plain calls for a hosted one, several at a time."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.running.arithmetic import LAPACK, cache_folder, check_arithmetic, cores, device
from unlazy.lab.running.outputs import as_arrays, as_outputs, check_finite, check_outputs, check_same, diverged
from unlazy.lab.running.plan import Chunk, canonical
from unlazy.lab.running.proof import Proof
from unlazy.lab.running.saved import saved_state
from unlazy.lab.study import Study

_MOST_PROGRAMS = 8
"""Groups run one after the other, so that few programs are in use at a time; each holds some megabytes."""


class Computed(NamedTuple):
    """The outputs of a chunk, instances first, the seconds that it took without compilation, and what made it."""

    arrays: dict[str, np.ndarray]
    seconds: float
    versions: str


class Task(NamedTuple):
    """A chunk ready to run: what it needs, and whether it must run alone."""

    run: Callable[[], Computed]
    bytes: int
    alone: bool


class Program(NamedTuple):
    """A compiled chunk function, its width, what it needs, and whether it is right."""

    call: Callable[..., Any]
    width: int
    bytes: int
    lapack: bool
    proof: Proof


def memory_budget(share: float = 0.25) -> int:
    """A quarter of the memory that is free now, in bytes."""
    import psutil

    return int(psutil.virtual_memory().available * share)


class InProcess:
    """Runs chunks in this process, one per core at a time and no more than fit into the budget together."""

    def __init__(self, budget: int | None = None) -> None:
        self.budget = memory_budget() if budget is None else budget

    def map(self, chunks: Iterable[tuple[Any, Chunk]]) -> Iterator[tuple[Any, Computed]]:
        """Yield (tag, result) as chunks of one study finish, in any order; chunks are drawn only as they are needed.

        If one fails, those that run beside it are still yielded before its exception is raised.
        """
        running: dict[Future, tuple[Any, Task]] = {}
        failed: list[BaseException] = []

        def finished() -> Iterator[tuple[Any, Computed]]:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                tag, _ = running.pop(future)
                if future.exception() is None:
                    yield tag, future.result()
                else:
                    failed.append(future.exception())  # type: ignore[arg-type]

        with ExitStack() as settings, ThreadPoolExecutor(cores()) as pool:
            for number, (tag, chunk) in enumerate(chunks):
                if number == 0:
                    settings.enter_context(_threads_set(chunk.study))
                try:
                    task = prepare(chunk, self.budget)
                except Exception as error:
                    failed.append(error)
                    break
                while running and not failed and not self._fits(task, [t for _, t in running.values()]):
                    yield from finished()
                if failed:
                    break
                running[pool.submit(task.run)] = tag, task
            while running:
                yield from finished()
        if failed:
            raise failed[0]

    def _fits(self, task: Task, running: list[Task]) -> bool:
        # One more than there are threads: a thread that ends need not wait until its result is stored.
        if task.alone or any(t.alone for t in running) or len(running) > cores():
            return False
        return task.bytes + sum(t.bytes for t in running) <= self.budget

    def close(self) -> None:
        pass


def run_chunk(chunk: Chunk, budget: int) -> Computed:
    """Compute a chunk here and now."""
    with _threads_set(chunk.study):
        return prepare(chunk, budget).run()


def prepare(chunk: Chunk, budget: int) -> Task:
    """Make a chunk ready to run within the budget, or refuse it with its size; this is where programs are compiled."""
    share_compilations()
    if chunk.study.is_hosted():
        values = {name: column[0] for name, column in chunk.values.items()}
        needed = chunk.study(**chunk.shared, **values).memory()
        if needed > budget:
            raise too_large(chunk.study, needed, budget)
        return Task(lambda: _run_hosted(chunk), needed, False)
    check_arithmetic()
    program = compiled(chunk, budget)
    return Task(lambda: _run_traced(chunk, program), program.bytes, program.lapack)


class TooLarge(InputError):
    """One instance does not fit into the memory budget."""


def too_large(study: type[Study], needed: int, budget: int) -> TooLarge:
    """The refusal of an instance that needs so many bytes."""
    return TooLarge(
        f"one instance of {study.name} needs about {needed / 2**30:.2g} GiB, more than the budget of "
        f"{budget / 2**30:.2g} GiB; choose smaller sizes or raise --memory"
    )


def _run_hosted(chunk: Chunk) -> Computed:
    def one(index: int) -> dict[str, np.ndarray]:
        values = {name: column[index] for name, column in chunk.values.items()}
        rng = np.random.default_rng(int.from_bytes(chunk.entropy[index], "big"))
        study = chunk.study(**chunk.shared, **values)
        if not chunk.study.saves():
            return as_arrays(chunk.study, study.simulate(rng))
        saved = saved_state(
            canonical([chunk.study.name, chunk.fingerprint, study.as_dict(), chunk.entropy[index].hex()])
        )
        outputs = as_arrays(chunk.study, study.simulate(rng, saved))  # type: ignore[call-arg]
        saved.remove()
        return outputs

    start = time.perf_counter()
    found = [one(index) for index in range(len(chunk.entropy))]
    seconds = time.perf_counter() - start
    for result in found:
        check_same(chunk.study, found[0], result)
    arrays = {name: np.stack([r[name] for r in found]) for name in found[0]}
    check_outputs(chunk, arrays)
    if "jax" in sys.modules:
        # Only now can it be told whether the study uses it.
        check_arithmetic()
    check_finite(chunk, arrays)
    return Computed(arrays, seconds, versions())


def _threads_set(study: type[Study]) -> Any:
    """One BLAS thread for each of the instances of a hosted study; the limit holds for the whole process."""
    if not study.is_hosted():
        return nullcontext()
    # Limits hold only for libraries that are loaded, and SciPy has a BLAS of its own.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def _run_traced(chunk: Chunk, program: Program) -> Computed:
    import jax

    count = len(chunk.entropy)
    words, values, paths = _arguments(chunk)
    pieces = []
    start = time.perf_counter()
    with _precision(chunk.study), LAPACK if program.lapack else nullcontext():
        for first in range(0, count, program.width):
            # The last call is padded with copies of the last instance: one shape, one program.
            index = np.minimum(np.arange(first, first + program.width), count - 1)
            out = program.call(words[index], {n: v[index] for n, v in values.items()}, paths)
            pieces.append(jax.tree.map(np.asarray, out))
        seconds = time.perf_counter() - start
        arrays = {name: np.concatenate([p[name] for p in pieces])[:count] for name in pieces[0]}
        check_outputs(chunk, arrays)
        # What a diverged instance leaves behind is no number to compare.
        sound = np.flatnonzero(~diverged(arrays, count))
        if sound.size:
            seen = chunk.witness if chunk.witness is not None and chunk.witness.number in sound else None
            one = int(sound[-1]) if seen is None else seen.number
            elsewhere = None if seen is None else seen.outputs
            program.proof.give({name: a[one] for name, a in arrays.items()}, lambda: _alone(chunk, one), elsewhere)
    check_finite(chunk, arrays)
    return Computed(arrays, seconds, versions())


_PROGRAMS: dict[tuple[str, int], Program] = {}
_COMPILING = threading.Lock()
"""The threads of a Dask worker compile one after the other: the second finds the first one's program."""


def compiled(chunk: Chunk, budget: int) -> Program:
    """The program of a chunk at the largest width, halved from the chunk's, whose memory is within the budget.

    Memory is twice the temporary, output and argument bytes that the compiler reports.
    """
    with _COMPILING:
        return _compiled(chunk, budget)


def _compiled(chunk: Chunk, budget: int) -> Program:
    width = chunk.width
    while True:
        # The budget follows free memory and is no part of the key: it would compile everything anew.
        key = (chunk.program, width)
        if key not in _PROGRAMS:
            while len(_PROGRAMS) >= _MOST_PROGRAMS:
                del _PROGRAMS[next(iter(_PROGRAMS))]
            _PROGRAMS[key] = _compile(chunk, width)
        program = _PROGRAMS[key]
        if program.bytes <= budget:
            return program
        if width == 1:
            raise too_large(chunk.study, program.bytes, budget)
        width = max(1, min(width // 2, 2 ** int(np.log2(max(1, width * budget // program.bytes)))))


def _compile(chunk: Chunk, width: int) -> Program:
    with _precision(chunk.study):
        lowered = _lowered(chunk, width)
        program = lowered.compile()
        memory = program.memory_analysis()
    needed = 2 * sum(getattr(memory, f"{kind}_size_in_bytes", 0) for kind in ("temp", "output", "argument"))
    proof = Proof(chunk.study, canonical([chunk.program, width]))
    return Program(program, width, needed, "lapack" in lowered.as_text(), proof)


def _alone(chunk: Chunk, index: int) -> dict[str, np.ndarray]:
    """The outputs of one instance of a chunk, by a program of its own."""
    words, values, paths = _arguments(chunk)
    found = _lowered(chunk).compile()(words[index], {n: v[index] for n, v in values.items()}, paths)
    return {name: np.asarray(array) for name, array in found.items()}


def _lowered(chunk: Chunk, width: int | None = None) -> Any:
    """The program of `width` instances, or of one alone, before it is compiled."""
    import jax

    one, (words, values, vectors) = _function(chunk), _arguments(chunk)
    if width is None:
        return jax.jit(one).lower(words[0], {n: v[0] for n, v in values.items()}, vectors)
    index = np.zeros(width, int)
    batched = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
    return batched.lower(words[index], {n: v[index] for n, v in values.items()}, vectors)


def traced(chunk: Chunk) -> Any:
    """The jaxpr of a chunk's first instance."""
    import jax

    words, values, vectors = _arguments(chunk)
    with _precision(chunk.study):
        return jax.make_jaxpr(_function(chunk))(words[0], {n: v[0] for n, v in values.items()}, vectors).jaxpr


def _function(chunk: Chunk) -> Callable[..., Mapping[str, Any]]:
    """One instance as a function of its key, its values and its paths."""
    import jax

    study = chunk.study
    paths = {n for n, p in study.parameters().items() if p.kind == "path"}
    statics = {n: v for n, v in chunk.shared.items() if n not in paths}

    def one(words: Any, values: Mapping[str, Any], vectors: Mapping[str, Any]) -> Mapping[str, Any]:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        return as_outputs(study, study(**statics, **values, **vectors).simulate(key))

    return one


def _arguments(chunk: Chunk) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The arguments of a program as arrays of the study's precision."""
    kinds = chunk.study.parameters()
    real = np.dtype(chunk.study.precision)
    whole = np.dtype("int64" if real == np.float64 else "int32")

    def array(name: str, values: Any) -> np.ndarray:
        return np.asarray(values, dtype=whole if kinds[name].type is int else real)

    words = np.array([np.frombuffer(e[:8], dtype=">u4") for e in chunk.entropy], dtype=np.uint32)
    values = {n: array(n, v) for n, v in chunk.values.items()}
    paths = {n: array(n, v) for n, v in chunk.shared.items() if kinds[n].kind == "path"}
    return words, values, paths


def _precision(study: type[Study]) -> Any:
    import jax

    return jax.enable_x64(study.precision == "float64")


@cache
def share_compilations() -> None:
    """Have JAX keep its programs for other processes, however little they took, also those of hosted studies.

    It saves most of a second run's start. JAX reads the variables when it is imported. An entry that another process is
    just writing, or was killed while it wrote, is one that JAX cannot read: it warns and compiles.
    """
    settings = {
        "jax_compilation_cache_dir": str(cache_folder() / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, setting in settings.items():
        if name.upper() in os.environ:
            continue
        if "jax" in sys.modules:
            sys.modules["jax"].config.update(name, setting)
        else:
            os.environ[name.upper()] = str(setting)


def versions() -> str:
    """What computes in this process, for the rows of the store; without JAX where it is not loaded."""
    return _versions("jax" in sys.modules)


@cache
def _versions(with_jax: bool) -> str:
    import platform
    from importlib.metadata import version

    found = {"python": platform.python_version(), **{name: version(name) for name in ("unlazy", "numpy", "scipy")}}
    if with_jax:
        found |= {"jax": version("jax"), "jaxlib": version("jaxlib"), "device": device().kind}
    return canonical(found)
