"""Theory in processes of its own, which a deadline and a limit of memory end: a link may ask for anything.

Run as a program this module is such a process: it reads tasks and writes answers, both pickled, and ends with the
process that started it.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from typing import Any, BinaryIO

from unlazy.app.setting import Setting, from_query, grouped
from unlazy.app.theory import PATIENCE, Lines, lines
from unlazy.checks import InputError
from unlazy.lab import registry

DEADLINE = 6.0
"""Seconds of the clock for a redrawing's theory."""
LONG_DEADLINE = 60.0
"""The same where the visitor asked for slow theory."""
MEMORY = 3 << 30
"""Bytes of address space of such a process; about a tenth is its libraries."""
_PROCESSES = 2
_STARTING = 30.0
_START = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""One thread each: buffers per thread would count as memory."""


class Evaluator:
    """A few processes that evaluate theory, each started when it is first needed."""

    def __init__(self, processes: int = _PROCESSES, memory: int = MEMORY) -> None:
        self._memory = memory
        self._idle: queue.LifoQueue[subprocess.Popen | None] = queue.LifoQueue()
        self._running: set[subprocess.Popen] = set()
        for _ in range(processes):
            self._idle.put(None)

    def lines(self, setting: Setting, slow: bool = False, deadline: float | None = None) -> Lines:
        """The theory's lines, as `theory.lines` has them; `waits` if they take longer than the deadline."""
        if not setting.study.defines("predict"):
            return Lines(None, 0.0, True)
        allowed = deadline if deadline is not None else LONG_DEADLINE if slow else DEADLINE
        task = {
            "own": "" if setting.study.name in registry.names() else registry.reference(setting.study),
            "query": grouped(setting.query),
            "patience": allowed if slow else PATIENCE,
        }
        process = self._idle.get()
        try:
            if process is None or process.poll() is not None:
                process = self._start()
            answer = self._ask(process, task, allowed)
        except BaseException:
            self._end(process)
            process = None
            raise
        finally:
            self._idle.put(process)
        if answer is None:
            return Lines(None, allowed, False, waits=True, stopped=True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the processes."""
        for process in list(self._running):
            process.kill()

    def _start(self) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "unlazy.app.evaluator", str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **_START},
        )
        self._running.add(process)
        # The deadline is for theory; the libraries are loaded before it begins.
        if self._answer(process, _STARTING) != "ready":
            raise InputError("the process for theory did not start")
        return process

    def _ask(self, process: subprocess.Popen, task: dict[str, Any], deadline: float) -> Any:
        assert process.stdin is not None
        try:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
        except OSError:
            return None
        return self._answer(process, deadline)

    def _answer(self, process: subprocess.Popen, deadline: float) -> Any:
        """What the process says; None if it was ended before it said anything."""
        assert process.stdout is not None
        watch = threading.Timer(deadline, process.kill)
        watch.daemon = True
        watch.start()
        try:
            return pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self._end(process)
            return None
        finally:
            watch.cancel()

    def _end(self, process: subprocess.Popen | None) -> None:
        if process is not None:
            process.kill()
            process.wait()
            self._running.discard(process)


EVALUATOR = Evaluator()


def _answer_to(task: dict[str, Any]) -> Lines | Exception:
    try:
        own = registry.find(task["own"]) if task["own"] else None
        setting = from_query(task["query"], own)
        assert setting is not None
        return lines(setting, patience=task["patience"])
    except MemoryError:
        return InputError(
            "the theory needs more memory here than the explorer gives it; choose smaller sizes or fewer points"
        )
    except InputError as error:
        return error
    except Exception as error:
        # Exceptions of libraries need not survive a pickle.
        return RuntimeError(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def _read(stream: BinaryIO, tasks: queue.Queue) -> None:
    """Hand on tasks, and end with the process that sends them, also while one is at work."""
    while True:
        try:
            tasks.put(pickle.load(stream))
        except EOFError:
            os._exit(3)


def main() -> None:
    # What studies print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import xarray  # noqa: F401 (loaded before the first deadline)

    limit_memory(int(sys.argv[1]))
    tasks: queue.Queue = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, tasks), daemon=True).start()
    answer: Any = "ready"
    while True:
        pickle.dump(answer, answers)
        answers.flush()
        answer = _answer_to(tasks.get())


def limit_memory(size: int) -> None:
    """Let this process have at most so many bytes of address space, where the system can."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


if __name__ == "__main__":
    main()
