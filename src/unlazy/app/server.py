"""Serving the explorer: on this machine alone, to pages of its own alone, and without code from visitors.

The page runs in marimo's run mode, in which visitors move controls and nothing else. The gate before it refuses
requests of other sites' pages (a foreign Origin, or a name of this machine that an attacker chose), lets through only
the calls that the page makes, and forbids the page to load anything from elsewhere. It also counts the visitors, and
tells when one has left. There is no token: a visitor can
only evaluate studies, and a link to share must work as it is.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import ipaddress
import logging
import os
import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from unlazy.app.job import cancel_all, cancel_visit
from unlazy.app.visits import GRACE, MOST_VISITS, Visits
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.study import Study

FIRST_PORT = 2718
OWN_STUDY = "UNLAZY_EXPLORE_STUDY"
OWN_STORE = "UNLAZY_EXPLORE_STORE"
POSTS = frozenset({"/api/kernel/set_ui_element_value", "/api/kernel/function_call"})
"""The calls with which the page moves controls and fetches files; a test looks at what marimo does with all others."""
SOCKETS = frozenset({"/ws"})
FILES = re.compile(r"/(?:health|assets/[\w./-]+|[\w-]+\.(?:css|ico|js|json|png|svg|webmanifest|woff2?))?")
"""The page and what marimo's package has beside it. Not `/@file/`: under it marimo opens any shared memory by name. The
page needs none of that: figures stand in it, and what it saves comes as data."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
        "object-src 'none'; frame-ancestors 'none'; base-uri 'self'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Gate:
    """The ASGI application before marimo's: what it refuses never reaches it."""

    def __init__(self, app: Any, names: frozenset[str] = frozenset(), visits: Visits | None = None) -> None:
        self._app, self._names = app, names | {"localhost"}
        self._visits = Visits(cancel_visit) if visits is None else visits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        reason = self.refusal(scope["type"], scope.get("method", "GET"), scope["path"], headers)
        if reason:
            await _refuse(scope, receive, send, reason)
            return
        visit = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        if scope["type"] == "http":
            if scope["path"] == "/" and self._visits.full():
                await _refuse(scope, receive, send, _FULL, 503)
                return
            await self._answer(scope, receive, send)
        elif not visit or not self._visits.enter(visit):
            await _refuse(scope, receive, send, _FULL if visit else "a socket needs a session_id")
        else:
            try:
                await self._answer(scope, receive, send)
            finally:
                self._visits.leave(visit)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Marimo's answer, with headers of our own; what it cannot read is wrong, and no reason for a traceback."""
        begun = False

        async def send_guarded(message: Any) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                if message["status"] == 500 and scope["method"] == "POST":
                    message = {**message, "status": 400}
                ours = [(n.encode(), v.encode()) for n, v in _HEADERS.items()]
                theirs = message.get("headers", ())
                kept = [(n, v) for n, v in theirs if not n.lower().startswith(b"access-control-")]
                message = {**message, "headers": [*kept, *ours]}
            await send(message)

        try:
            await self._app(scope, receive, send_guarded)
        except Exception:
            if not begun:
                await _refuse(scope, receive, send, "the request cannot be read", 400)

    def refusal(self, kind: str, method: str, path: str, headers: dict[str, str]) -> str:
        """Why a request is refused; '' if it is not."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return f"the host {host!r} is not a name of this server"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "pages of other sites may not use this server"
        foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        # A link that is followed is no use of this server by another page.
        followed = kind == "http" and method == "GET" and path == "/" and headers.get("sec-fetch-dest") == "document"
        if foreign and not followed:
            return "pages of other sites may not use this server"
        if kind == "websocket":
            return "" if path in SOCKETS else f"there is no socket {path!r}"
        if method in ("GET", "HEAD"):
            return "" if FILES.fullmatch(path) and ".." not in path else f"{path!r} is not served"
        return "" if method == "POST" and path in POSTS else f"{method} {path!r} is not served"

    def _is_ours(self, host: str) -> bool:
        """An address, which no attacker can make a name of, or a name that this server was given."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


_FULL = f"{MOST_VISITS} pages are open already, the most that this server serves; close one or come back later"


async def _refuse(scope: Any, receive: Any, send: Any, reason: str, status: int = 403) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
        return
    body = f"refused: {reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def application(names: frozenset[str] = frozenset()) -> Any:
    """The page behind its gate, as an ASGI application."""
    try:
        import marimo
    except ImportError:
        raise InputError("the explorer needs marimo; install it with: pip install 'unlazy[app]'") from None
    parse_one_at_a_time()
    page = str(Path(__file__).with_name("page.py"))
    bare = marimo.create_asgi_app(quiet=True, include_code=False, session_ttl=round(GRACE))
    return Gate(bare.with_app(path="/", root=page).build(), names)


def parse_one_at_a_time() -> None:
    """Let one thread at a time make a syntax tree where two spoil each other's: Python before 3.11.8 (CPython 106905).

    Marimo parses the page anew for each visitor, in the visitor's thread; without this a visit fails now and then with
    "AST constructor recursion depth mismatch".
    """
    if sys.version_info >= (3, 11, 8) or hasattr(builtins.compile, "__wrapped__"):
        return
    lock, compile_ = threading.RLock(), builtins.compile

    @functools.wraps(compile_)
    def alone(*arguments: Any, **options: Any) -> Any:
        with lock:
            return compile_(*arguments, **options)

    builtins.compile = alone


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket on the given port, or on a free one from 2718 on."""
    if port is not None and not 0 <= port <= 65535:
        raise InputError(f"port must be an integer >= 0 and <= 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host must be an address or a name of this machine, got {host!r}") from None
    tried = (port,) if port is not None else (*range(FIRST_PORT, FIRST_PORT + 20), 0)
    for number in tried:
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((address[0], number))
            opened.listen(128)
            return opened
        except OSError as error:
            opened.close()
            reason = error.strerror or str(error)
    where = f"{host}:{port}" if port is not None else host
    raise InputError(f"cannot listen on {where}: {reason}; choose another with --port or --host")


def is_local(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reachable(host: str) -> str:
    """The name in an address that others can open: for all addresses of this machine, the one it goes out by."""
    if host not in ("0.0.0.0", "::"):
        return f"[{host}]" if ":" in host else host
    try:
        # No packet is sent: connecting a datagram socket only chooses the way. The address is reserved for examples.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect(("192.0.2.1", 9))
            return way.getsockname()[0]
    except OSError:
        return socket.gethostname().lower()


def serve(study: str | None, host: str, port: int | None, browser: bool, store: Path | None) -> None:
    """Serve the explorer until Ctrl-C."""
    found: type[Study] | None = None if study is None else registry.find(study)
    app = application(frozenset() if is_local(host) else frozenset({host.lower(), socket.gethostname().lower()}))
    os.environ[OWN_STUDY] = "" if found is None else registry.reference(found)
    os.environ[OWN_STORE] = "" if store is None else str(store.resolve())
    opened = listen(host, port)
    number = opened.getsockname()[1]
    address = f"http://{reachable(host)}:{number}/" + (
        f"?{urlencode({'study': found.name})}" if found is not None else ""
    )
    if not is_local(host):
        print(
            f"warning: the explorer is open to everyone who can reach {host}:{number}, and has no password",
            file=sys.stderr,
        )
    print(f"explorer: {address}", flush=True)
    print("Ctrl-C ends it.", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(address)
    _run(app, opened)


def _warm() -> None:
    """Load, while nobody waits, what the first page would wait for."""
    from unlazy.app.evaluator import EVALUATOR

    with contextlib.suppress(InputError, OSError):
        EVALUATOR.warm()
    for module in ("xarray", "matplotlib.figure", "matplotlib.backends.backend_svg", "unlazy.app.words"):
        importlib.import_module(module)


def _run(app: Any, opened: socket.socket) -> None:
    import uvicorn

    from unlazy.app.evaluator import EVALUATOR

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            # What a second Ctrl-C cuts off is not an error to tell.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
            super().handle_exit(sig, frame)

    threading.Thread(target=_warm, daemon=True).start()
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, server_header=False)
    try:
        Server(config).run(sockets=[opened])
    except KeyboardInterrupt:
        pass
    finally:
        cancel_all()
        EVALUATOR.close()
        opened.close()
    print("\nexplorer ended", flush=True)
    sys.stderr.flush()
    # The threads of open pages wait for their visitors for ever; they only read, and there is nothing left to finish.
    os._exit(0)
