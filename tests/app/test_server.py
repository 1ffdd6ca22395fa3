"""The explorer's server: who may ask it, what it answers, and that no visitor can run code through it."""

import asyncio
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from multiprocessing.shared_memory import SharedMemory

import pytest

pytest.importorskip("marimo", reason="the extra app is not installed")
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from unlazy.app.server import POSTS, Gate, application, is_local, listen, reachable
from unlazy.app.visits import Visits
from unlazy.checks import InputError

HOST = {"host": "127.0.0.1:2718"}
MOVES = {"/api/kernel/set_ui_element_value", "/api/kernel/function_call", "/api/kernel/set_model_value"}
READS = {"/api/files/read_code", "/api/export/html", "/api/home/workspace_files", "/auth/login"}


def refusal(kind="http", method="GET", path="/", **headers):
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Gate(None).refusal(kind, method, path, HOST | given)


def test_the_page_itself_passes_the_gate():
    assert refusal() == ""
    assert refusal(path="/assets/index.js", origin="http://127.0.0.1:2718") == ""
    assert refusal("websocket", path="/ws", origin="http://127.0.0.1:2718") == ""
    for path in POSTS:
        assert refusal(method="POST", path=path, origin="http://127.0.0.1:2718", sec_fetch_site="same-origin") == ""


def test_a_link_on_another_page_can_be_followed():
    assert refusal(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document") == ""


@pytest.mark.parametrize(
    "request_",
    [
        {"host": "evil.example:2718"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:2718"},
        {"host": ""},
        {"host": "[::1"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"kind": "websocket", "path": "/ws", "origin": "http://evil.example"},
        {"kind": "websocket", "path": "/ws", "sec_fetch_site": "cross-site"},
        {"kind": "websocket", "path": "/terminal/ws"},
        {"kind": "websocket", "path": "/ws_sync"},
        {"sec_fetch_site": "cross-site", "sec_fetch_dest": "iframe"},
        {"sec_fetch_site": "cross-site", "sec_fetch_dest": "image", "path": "/assets/a.png"},
        {"sec_fetch_site": "same-site", "method": "POST", "path": "/api/kernel/function_call"},
        {"path": "/sse"},
        {"path": "/api/version"},
        {"path": "/@file/28-name"},
        {"path": "//@file/28-name"},
        {"path": "/assets/../@file/28-name"},
        {"path": "/public/page.py"},
        {"path": "/page.py"},
        {"method": "POST", "path": "/api/kernel/run"},
        {"method": "PUT", "path": "/api/kernel/function_call"},
        {"method": "OPTIONS", "path": "/api/kernel/function_call"},
    ],
)
def test_the_gate_refuses(request_):
    assert refusal(**request_)


def test_names_pass_the_gate_only_if_they_were_given():
    assert Gate(None, frozenset({"lab.example"})).refusal("http", "GET", "/", {"host": "lab.example:80"}) == ""
    assert Gate(None).refusal("http", "GET", "/", {"host": "lab.example:80"})


def ask(app, method, path, body=b"{}"):
    """The status of an answer of an ASGI application, without a network."""
    found = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            found.append(message["status"])

    headers = [(b"host", b"127.0.0.1:2718"), (b"content-type", b"application/json"), (b"marimo-session-id", b"s")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2718),
    }  # fmt: skip
    # Starlette answers with 500 and raises as well.
    with contextlib.suppress(Exception):
        asyncio.run(app(scope, receive, send))
    return found[0]


def test_more_pages_than_the_server_serves_are_refused():
    visits = Visits(lambda visit: None, most=1)
    gate = Gate(None, visits=visits)
    assert visits.enter("first")
    assert ask(gate, "GET", "/") == 503
    assert not visits.enter("second")


def test_what_marimo_cannot_read_is_wrong():
    async def fails(scope, receive, send):
        raise KeyError("objectIds")

    assert ask(Gate(fails), "POST", min(POSTS)) == 400


def posts(routes, prefix=""):
    for route in routes:
        path = prefix + getattr(route, "path", "")
        inner = getattr(route, "routes", None)
        if inner:
            yield from posts(inner, path.rstrip("/"))
        elif "POST" in (getattr(route, "methods", None) or ()):
            yield re.sub(r"\{[^}]*\}", "x", path)


def test_marimo_itself_refuses_every_call_that_runs_or_writes_code():
    """Behind the gate there is a second wall: in run mode a visitor has no right to edit."""
    bare = application()._app
    found = sorted(set(posts(bare.routes)))
    assert {"/api/kernel/run", "/api/kernel/scratchpad/run", "/api/kernel/save", "/api/files/create"} <= set(found)
    allowed = {path for path in found if ask(bare, "POST", path) not in (401, 403)}
    assert allowed <= MOVES | READS


def test_without_marimo_one_line_says_what_to_install():
    code = "import sys; sys.modules['marimo'] = None; sys.argv = ['unlazy', 'explore']\n"
    code += "from unlazy.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "error: the explorer needs marimo; install it with: pip install 'unlazy[app]'\n"


def test_an_unknown_study_is_refused_with_the_nearest_name():
    done = subprocess.run(
        [sys.executable, "-m", "unlazy", "explore", "spyke"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "did you mean spike" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_refused_and_the_default_is_the_next_free_one():
    with listen("127.0.0.1", None) as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port}"):
            listen("127.0.0.1", port)
        with listen("127.0.0.1", None) as second:
            assert second.getsockname()[1] != port
    for host, port in (("no.such.host.invalid", None), ("127.0.0.1", 70000)):
        with pytest.raises(InputError):
            listen(host, port)


def test_only_loopback_addresses_are_local():
    assert all(map(is_local, ("127.0.0.1", "localhost", "::1", "127.0.0.7")))
    assert not any(map(is_local, ("0.0.0.0", "::", "192.168.1.2", "example.org")))


def test_the_printed_address_can_be_opened():
    assert reachable("127.0.0.1") == "127.0.0.1"
    assert reachable("::1") == "[::1]"
    assert reachable("0.0.0.0") not in ("0.0.0.0", "")


@contextlib.contextmanager
def explorer(folder):
    store = folder / "store.sqlite"
    command = [sys.executable, "-m", "unlazy", "explore", "spike", "--no-browser", "--port", "0", "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?study=spike", process.stdout.readline())
    assert found, process.stderr.read()
    yield process, int(found[1])
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with explorer(tmp_path_factory.mktemp("explorer")) as (process, port):
        yield process, port
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=30)[1]


def call(port, method, path, body=None, **headers):
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), given)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace"), dict(answer.getheaders())


def test_no_shared_memory_of_this_machine_is_given_away(served):
    """Under /@file/ marimo opens shared memory by name, most of all before the first page is open."""
    _, port = served
    secret = b"what another program keeps there"
    kept = SharedMemory(create=True, size=len(secret))
    try:
        kept.buf[: len(secret)] = secret
        for path in ("/@file/", "/%40file/", "//@file/", "/assets/%2e%2e/@file/"):
            status, text, _ = call(port, "GET", f"{path}{len(secret)}-{kept.name}")
            assert status == 403, path
            assert secret.decode() not in text
    finally:
        kept.close()
        kept.unlink()


def test_a_request_that_cannot_be_read_is_refused(served):
    """The end of the server shows that none of these left a traceback in the terminal."""
    _, port = served
    for path in POSTS:
        for body in (b"", b"{", b"{}", b"[1]", b"\xff\xfe", b'{"objectIds": 1, "values": {}}'):
            headers = {"Content-Type": "application/json", "Marimo-Session-Id": "none"}
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
                connection.request("POST", path, body, headers)
                assert connection.getresponse().status in (400, 422), body
    with pytest.raises(WebSocketException):
        connect(f"ws://127.0.0.1:{port}/ws").close()
    with connect(f"ws://127.0.0.1:{port}/ws?session_id=strange") as visit:
        visit.send(b"\xff\xfe")
        visit.send("{")


def test_a_visitor_cannot_run_code(served, tmp_path):
    _, port = served
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w').close()"
    with connect(f"ws://127.0.0.1:{port}/ws?session_id=attacker") as visit:
        ready = json.loads(visit.recv(timeout=60))
        assert ready["op"] == "kernel-ready"
        assert "settings.default_setting" not in json.dumps(ready), "the page's code is not sent to visitors"
        cell = ready["data"]["cell_ids"][0]
        headers = {"Marimo_Session_Id": "attacker", "Content_Type": "application/json"}
        for path, body in (
            ("/api/kernel/run", {"cellIds": [cell], "codes": [code]}),
            ("/api/kernel/execute", {"code": code}),
            ("/api/kernel/scratchpad/run", {"code": code}),
            ("/api/kernel/instantiate", {"objectIds": [], "values": [], "autoRun": True}),
            (
                "/api/kernel/save",
                {"cellIds": [cell], "codes": [code], "names": ["_"], "configs": [{}], "filename": "x.py"},
            ),
            ("/api/kernel/pdb/pm", {"cellId": cell}),
            ("/api/kernel/shutdown", {}),
            ("/api/files/create", {"path": str(tmp_path), "type": "file", "name": "mark", "contents": ""}),
            ("/api/files/update", {"path": str(mark), "contents": ""}),
            ("/api/packages/add", {"package": "x"}),
            ("/api/kernel/save_user_config", {"config": {}}),
        ):
            assert call(port, "POST", path, body, **headers)[0] == 403, path
        visit.send(json.dumps({"op": "run", "cellIds": [cell], "codes": [code]}))
        # What a control may send is read by its own type: a function that does not exist, a value that is code.
        for path, body in (
            (
                "/api/kernel/function_call",
                {"functionCallId": "1", "namespace": "os", "functionName": "system", "args": {"command": code}},
            ),
            ("/api/kernel/set_ui_element_value", {"objectIds": [f"{cell}-0"], "values": [code]}),
        ):  # fmt: skip
            assert call(port, "POST", path, body, **headers)[0] in (200, 400, 422)
        assert call(port, "GET", "/")[0] == 200
    assert not mark.exists()


def test_pages_of_other_sites_cannot_use_it(served):
    _, port = served
    assert call(port, "GET", "/", Host="evil.example")[0] == 403
    status, _, headers = call(port, "GET", "/", Origin="http://evil.example")
    assert status == 403
    assert not any(name.lower().startswith("access-control") for name in headers)
    with pytest.raises(WebSocketException):
        connect(f"ws://127.0.0.1:{port}/ws?session_id=other", origin="http://evil.example").close()
    status, _, headers = call(port, "GET", "/")
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_it_listens_on_one_address_alone(served):
    _, port = served
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_control_c_and_sigterm_end_it_while_a_page_is_open(tmp_path, number):
    with explorer(tmp_path) as (process, port), connect(f"ws://127.0.0.1:{port}/ws?session_id=open"):
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode in (0, 3)
    assert "Traceback" not in errors


def test_visitors_that_parse_at_once_do_not_spoil_each_others_trees():
    """On Python before 3.11.8 a collection in the middle of one tree lets another thread begin the next."""
    program = """
import ast, gc, threading, time
from unlazy.app.server import parse_one_at_a_time

class Knot:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(1e-4)

def parse():
    try:
        for _ in range(20):
            knots = [Knot() for _ in range(3)]
            del knots
            ast.parse(source)
    except SystemError as error:
        spoilt.append(error)

parse_one_at_a_time()
source, spoilt = "\\n".join(f"x{i} = f(a + {i} * (b - c[{i}]))" for i in range(300)), []
gc.set_threshold(50)
threads = [threading.Thread(target=parse) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(spoilt))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "0\n"
