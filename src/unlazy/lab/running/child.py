"""A process of the package's own: requests go in and answers come out, as lines of JSON; it ends with its parent.

It is started anew and not forked, because JAX does not survive a fork. What it serves is a function of the requests,
of `tell`, which answers, and of the arguments that it was started with; it tells "ready" when it is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

END_SECONDS = 10
"""How long a process that was told to end may take before it is killed."""
_LOST = 3
"""The exit code of one whose parent has ended."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Child:
    """A process that serves `module:function`, on the given cores and in so many bytes, where the system can do both.

    One with a limit of bytes has one thread: buffers per thread would count. What a `quiet` one writes to
    standard error is lost.
    """

    def __init__(
        self, serve: str, *, cores: Sequence[int] = (), address_space: int = 0, quiet: bool = False, **arguments: Any
    ) -> None:
        # Not the folder it is started in, where anything may have the name of a library.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "unlazy.lab.running.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            encoding="utf-8",
            env={**environment, **(_ONE_THREAD if address_space else {})},
        )
        self.ready = False
        self.send({"serve": serve, "cores": list(cores), "address_space": address_space, "arguments": arguments})

    def send(self, request: Any) -> None:
        """Ask for something; one that has ended meanwhile shows when it is heard."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def hear(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next answer; None if the process has ended, or is ended for it said nothing in so many seconds."""
        assert self._process.stdout is not None
        watch = threading.Timer(seconds, self.kill) if seconds is not None else None
        if watch is not None:
            watch.daemon = True
            watch.start()
        try:
            line = self._process.stdout.readline()
        finally:
            if watch is not None:
                watch.cancel()
        if line.endswith("\n"):
            return json.loads(line)
        self._process.wait()
        return None

    @property
    def code(self) -> int | None:
        """The exit code, or None while it lives."""
        return self._process.poll()

    @property
    def death(self) -> str:
        """How it ended, in words."""
        code = self.code
        if code is None or code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else str(-code)
        hint = ", as the system does where memory is short" if -code == 9 else ""
        return f"its process was ended by signal {name}{hint}"

    def stop(self) -> None:
        """Have it end at once; what it has stored is stored."""
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def finish(self) -> None:
        """Let it end, when it has answered, and see that it does."""
        if self.code is None:
            self.send(None)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # What was not sent is sent to nobody.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                pipe.close()  # type: ignore[union-attr]


def main() -> None:
    # Ctrl-C reaches every process of a terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What studies print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Nor may they read the requests; and on Windows no library can be loaded while a thread waits for standard input.
    stream = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    start = json.loads(stream.readline())
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(stream, requests), daemon=True).start()
    if start["cores"]:
        # XLA counts these when it is loaded and starts as many threads.
        os.sched_setaffinity(0, start["cores"])
    if start["address_space"]:
        limit_memory(start["address_space"])
    lock = threading.Lock()

    def tell(answer: dict[str, Any]) -> None:
        with lock:
            answers.write(json.dumps(answer) + "\n")

    module, _, name = start["serve"].partition(":")
    getattr(importlib.import_module(module), name)(iter(requests.get, None), tell, **start["arguments"])


def _read(stream: Iterable[str], requests: queue.SimpleQueue) -> None:
    """Hand on requests, and end with the process that sends them, also while one is at work."""
    for line in stream:
        requests.put(json.loads(line))
    os._exit(_LOST)


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
