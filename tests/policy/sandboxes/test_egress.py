"""Confined commands that reach listed hosts through the proxy, and nothing else; with real programs
in a real sandbox.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from typing_extensions import override

from tests.policy.sandboxes.conftest import BWRAP, Weakened, needs_bubblewrap, needs_root
from tests.policy.sandboxes.test_bash_confined import bash
from tests.tools.conftest import MakeContext, make_context, spill  # noqa: F401  fixtures
from treadle.config.hosts import HostList
from treadle.policy.sandboxes import egress as egress_module
from treadle.policy.sandboxes.egress import Egress, isolated
from treadle.runtime.sandboxing import own_python
from treadle.tools.builtin.jobs import Jobs
from treadle.tools.confinement import CommandRoom, Confinement, Opening

pytestmark = needs_bubblewrap
PUBLIC = "93.184.216.34"
Run = Callable[..., Awaitable[str]]


class _Hello(SimpleHTTPRequestHandler):
    @override
    def do_GET(self) -> None:
        if self.path.startswith("/repo"):
            super().do_GET()
            return
        body = f"hello from {self.headers['Host']}{self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(base: Path) -> Iterator[ThreadingHTTPServer]:
    """On this machine; all public addresses lead to it."""
    (base / "served").mkdir()
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *args: _Hello(*args, directory=str(base / "served"))
    ) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


async def resolve(host: str, port: int) -> list[str]:
    return {"example.org": [PUBLIC], "private.example.org": ["10.0.0.1"]}[host]


class Place:
    """Commands of one session, and the network that they share."""

    def __init__(
        self, network: Egress, warned: list[str], run: Run, context: Callable[[], Any]
    ) -> None:
        self.network, self.warned, self.run, self.context = network, warned, run, context


@pytest.fixture
async def place(
    sandbox: Weakened,
    base: Path,
    server: ThreadingHTTPServer,
    make_context: MakeContext,  # noqa: F811
) -> AsyncIterator[Place]:
    for folder in ("work", "scratch", "quarantine"):
        (base / folder).mkdir()
    to = server.server_address[1]
    network = Egress(
        HostList.of(["example.org", "private.example.org"], {}),
        {},
        resolve=resolve,
        route=lambda address, port: ("127.0.0.1", to),
    )
    room = CommandRoom(
        workspace=base / "work",
        scratch=lambda: base / "scratch",
        quarantine=lambda: base / "quarantine",
        shown=own_python(base),
        is_open=True,
        network=network,
    )
    kept: dict[Any, Any] = {}
    warned: list[str] = []

    def context() -> Any:
        environment = {
            **os.environ,
            "HTTPS_PROXY": "http://elsewhere:1",
            "PIP_PROXY": "http://elsewhere:1",
        }
        return make_context(
            base / "work",
            sandbox=Confinement(sandbox, room),
            environment=environment,
            kept=kept,
            tell=warned.append,
        )

    async def run(command: str, **arguments: Any) -> str:
        return await bash(context(), command, **arguments)

    yield Place(network, warned, run, context)
    if Jobs in kept:
        await kept[Jobs].aclose()
    await network.aclose()


# ---------------------------------------------------------------- what is reached


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
async def test_curl_reaches_a_listed_host_and_no_other(place: Place) -> None:
    assert (
        await place.run("curl -sS http://example.org/a http://example.org/b")
        == "hello from example.org/a\nhello from example.org/b"
    )
    said = await place.run("curl -sS http://evil.net/")
    assert said.startswith(
        "treadle: commands cannot reach evil.net:80: the setting permissions.network does not list it. "
    )
    assert "[commands cannot reach evil.net:80: " in said
    assert "403" in await place.run("curl -sS https://evil.net/; curl -sS https://example.org:22/")


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
async def test_git_clones_from_a_listed_host(place: Place, base: Path) -> None:
    made = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git update-server-info"
    (base / "served/repo").mkdir()
    subprocess.run(["sh", "-c", made], cwd=base / "served/repo", check=True)
    assert (
        await place.run(
            "git clone -q http://example.org/repo/.git copy && git -C copy log --format=%s"
        )
    ).endswith("one")


async def test_python_opens_tls_to_the_host_itself(
    place: Place, base: Path, server: ThreadingHTTPServer
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("example.org").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    authority.cert_pem.write_to_path(str(base / "work/ca.crt"))
    program = "import urllib.request; print(urllib.request.urlopen('https://example.org/tls').read().decode())"
    assert (
        await place.run(f'SSL_CERT_FILE=ca.crt {sys.executable} -I -c "{program}"')
        == "hello from example.org/tls"
    )


async def test_a_name_that_leads_to_a_private_address_is_refused(place: Place) -> None:
    said = await place.run(f"{ASK} private.example.org")
    assert "403" in said
    assert "private.example.org: it is 10.0.0.1, a private network" in said


ASK = r"""ask() { exec 9<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"; printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n' $1 $1 >&9; cat <&9; }; ask"""


async def test_nothing_is_reached_around_the_proxy(
    place: Place, server: ThreadingHTTPServer
) -> None:
    port = server.server_address[1]
    said = await place.run(
        f"exec 2>/dev/null; for to in 127.0.0.1/{port} {PUBLIC}/80 10.0.0.1/80; do (exec 3<>/dev/tcp/$to) && echo reached $to; done; echo done"
    )
    assert said == "done"
    assert (
        await place.run("grep -c : /proc/net/dev; readlink /proc/self/ns/net")
        != f"1\n{os.readlink('/proc/self/ns/net')}"
    )


async def test_unix_sockets_of_the_machine_are_not_reached(place: Place, base: Path) -> None:
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as filed:
        abstract.bind(f"\0{base.name}")
        filed.bind(str(base / "work/socket"))
        abstract.listen()
        filed.listen()
        program = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1].replace('@', chr(0)))"
        for address in (f"@{base.name}", "socket"):
            assert "Address family not supported" in await place.run(
                f'{sys.executable} -I -c "{program}" {address}'
            )


# ---------------------------------------------------------------- what commands share


async def test_what_one_command_serves_in_the_background_another_reaches(place: Place) -> None:
    serve = "import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 8123), h.SimpleHTTPRequestHandler); open('up', 'w').close(); s.serve_forever()"
    await place.run(f'{sys.executable} -I -c "{serve}"', background=True)
    fetch = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8123/mark').read().decode())"
    said = await place.run(
        f'while [ ! -e up ]; do :; done; echo shared > mark; {sys.executable} -I -c "{fetch}"'
    )
    assert said.strip() == "shared"


async def test_it_still_is_one_user_namespace_and_has_no_capability(place: Place) -> None:
    said = await place.run(
        "grep -h CapEff /proc/self/status; unshare -U true; echo $?; readlink /proc/self/ns/user"
    )
    assert said.split()[:2] == ["CapEff:", "0000000000000000"]
    assert "\n0\n" not in said
    assert os.readlink("/proc/self/ns/user") not in said


async def test_no_descriptor_of_the_network_stays_open_in_a_command(place: Place) -> None:
    said = await place.run("for fd in /proc/self/fd/*; do readlink $fd; done")
    assert not {line for line in said.split("\n") if line.startswith(("net:", "user:", "socket:"))}


async def test_a_cancelled_command_ends_and_the_network_goes_on(place: Place) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as running:
            running.start_soon(place.run, "touch begun; sleep 100")
            while not (Path(place.context().cwd) / "begun").exists():
                await anyio.sleep(0.01)
            running.cancel_scope.cancel()
    assert "200 OK" in await place.run(f"{ASK} example.org")


async def test_variables_name_our_proxy_and_none_of_the_users(place: Place) -> None:
    said = await place.run("env | grep -i proxy")
    assert "elsewhere" not in said
    assert {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} <= {
        line.partition("=")[0] for line in said.split("\n")
    }


async def test_people_are_warned_once_of_each_host(place: Place) -> None:
    for host in ("evil.net", "evil.net", "other.net"):
        assert "commands cannot reach" in await place.run(f"{ASK} {host}")
    assert [text.partition(":80")[0] for text in place.warned] == [
        "bash: commands cannot reach evil.net",
        "bash: commands cannot reach other.net",
    ]


# ---------------------------------------------------------------- how it begins and ends


async def test_it_is_made_with_the_first_command_and_leaves_nothing(place: Place) -> None:
    before = set(os.listdir("/proc/self/fd"))
    await anyio.to_thread.run_sync(lambda: None)
    assert not [thread for thread in threading.enumerate() if "portal" in thread.name.lower()]
    await place.run("true")
    await place.network.aclose()
    assert set(os.listdir("/proc/self/fd")) == before


async def test_many_commands_at_once_have_one_network(place: Place) -> None:
    found: list[str] = []

    async def look() -> None:
        found.append(await place.run("readlink /proc/self/ns/net"))

    async with anyio.create_task_group() as running:
        for _ in range(4):
            running.start_soon(look)
    assert len(found) == 4
    assert len(set(found)) == 1


@pytest.mark.parametrize("why", ["refused", "missing", "broken"])
async def test_where_it_cannot_be_made_commands_have_no_network(
    place: Place, monkeypatch: pytest.MonkeyPatch, server: ThreadingHTTPServer, why: str
) -> None:
    def fail(_: str) -> Opening:
        raise OSError("refused")

    if why == "refused":
        monkeypatch.setattr("treadle.policy.sandboxes.bubblewrap.isolated", fail)
    elif why == "missing":
        monkeypatch.setattr(egress_module.shutil, "which", lambda *_, **__: None)
    else:
        monkeypatch.setattr(egress_module.shutil, "which", lambda *_, **__: "/bin/false")
    port = server.server_address[1]
    said = await place.run(
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo held; readlink /proc/self/ns/net; echo $HTTP_PROXY"
    )
    assert said.startswith("held\n")
    assert os.readlink("/proc/self/ns/net") not in said
    assert "commands have no network, because theirs could not be created: " in said
    await place.run("true")
    assert len(place.warned) == 1


async def test_a_failure_that_passes_is_tried_again_with_the_next_command() -> None:
    network = Egress(HostList.of(["example.org"], {}), {})

    def fail() -> Opening:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(OSError, match="Too many open files"):
        await network.open(fail)
    assert (await network.open(lambda: isolated(BWRAP))).port
    await network.aclose()
    with pytest.raises(OSError, match="closed"):
        await network.open(lambda: isolated(BWRAP))


AS_NOBODY = """
import ctypes, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534); os.chdir("/var")
ctypes.CDLL(None).prctl(4, 1)  # as a program that nobody started: its own files in /proc are its own
sys.executable = "/usr/bin/python3"
opening = isolated(sys.argv[1])
import subprocess
command = [*opening.enter, sys.argv[1], "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "--", "id", "-u"]
print(subprocess.run(command, capture_output=True, text=True))
"""


@needs_root
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="nobody has no Python")
def test_an_unprivileged_user_has_it_too() -> None:
    program = f"from treadle.policy.sandboxes.egress import isolated\n{AS_NOBODY}"
    said = subprocess.run(
        [sys.executable, "-c", program, BWRAP],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert "stdout='65534\\n'" in said.stdout, said


def test_the_namespace_has_a_loopback_and_nothing_else() -> None:
    opening = isolated(BWRAP)
    with opening.listening:
        said = subprocess.run(
            [*opening.enter, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True
        ).stdout
    for descriptor in opening.descriptors:
        os.close(descriptor)
    assert [line.split(":")[0].strip() for line in said.split("\n") if ":" in line] == ["lo"]
