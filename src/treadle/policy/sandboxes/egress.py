"""Network namespace that confined commands share, and the proxy on its loopback through which they
reach listed hosts.

The namespace is created once, by a process that passes its descriptors and exits; it lasts as long
as these are open. The proxy runs in this process, in a thread with its own event loop, so that
blocking code elsewhere does not delay it. Entry: `Egress`.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.from_thread import BlockingPortal, BlockingPortalProvider
from msgspec import structs

from treadle._internal.environment import path_outside
from treadle.config.hosts import HostList
from treadle.policy.sandboxes.lookups import Resolve, resolve
from treadle.policy.sandboxes.parent_proxy import ParentProxies
from treadle.policy.sandboxes.proxy import Proxy, Route, straight
from treadle.tools.confinement import CommandRoom, NetworkGate, Opening

WITHIN_S = 10.0
AGAIN_S = 30.0
"""Seconds after which a failed attempt is repeated."""
_PASSING = frozenset((errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM))
"""Failures that do not depend on the machine, so that the next command retries."""
_HELPER = """import os, socket, sys
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen(128)
spaces = [os.open("/proc/self/ns/" + name, os.O_RDONLY) for name in ("user", "net")]
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"."], [listening.fileno(), *spaces])
"""
"""Program that runs in the namespace, where bubblewrap has brought up the loopback."""

_portals = BlockingPortalProvider()
"""Thread for all proxies of the process. It ends with the last of them."""


class Egress:
    """Implementation of `Network`. The owner closes it when it is no longer used."""

    def __init__(
        self,
        hosts: HostList,
        environment: Mapping[str, str],
        *,
        resolve: Resolve = resolve,
        route: Route = straight,
    ) -> None:
        """Create a network exit. `environment` has the addresses of the user's proxies. `resolve`
        and `route`: as for `Proxy`.
        """
        self._hosts, self._environment = hosts, environment
        self._resolve, self._route = resolve, route
        self._serving: tuple[Opening, Proxy, BlockingPortal, Future[None]] | None = None
        self._gate: NetworkGate | None = None
        self._failure = OSError("it is closed")
        self._again_at = 0.0
        """Earliest time of the next attempt to open it."""
        self._holding: list[Callable[[], bool]] = []
        self._refused: dict[str, str] = {}
        self._lock = anyio.Lock()
        """Serialises opening and closing, so that there is only one namespace."""

    async def open(self, listen: Callable[[], Opening]) -> NetworkGate:
        """Open the network. Cancellation takes effect once it is open.

        A failure is cached for a while, so that it is not repeated for every command.
        """
        gate: NetworkGate | None = None
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self._gate is None and time.monotonic() >= self._again_at:
                    self._gate = await to_thread.run_sync(self._opened, listen)
                gate = self._gate
        if gate is None:
            raise self._failure
        return gate

    def hold(self, is_over: Callable[[], bool]) -> None:
        self._holding = [*(held for held in self._holding if not held()), is_over]

    @property
    def is_idle(self) -> bool:
        """True if it is open, and no command uses it."""
        return self._gate is not None and all(is_over() for is_over in self._holding)

    async def rest(self) -> None:
        """Release the resources of an idle network; the next command opens it again."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self.is_idle:
                    self._gate = None
                    await to_thread.run_sync(self._close)

    def take_refused(self) -> Sequence[str]:
        found = list(self._refused)
        return [self._refused.pop(host) for host in found]

    async def aclose(self) -> None:
        """Close the network. Idempotent."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                self._gate, self._failure, self._again_at = None, OSError("it is closed"), math.inf
                await to_thread.run_sync(self._close)

    # ------------------------------------------------------------ in a thread

    def _opened(self, listen: Callable[[], Opening]) -> NetworkGate | None:
        try:
            parents = ParentProxies(self._environment)
            opening = listen()
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            self._refused[""] = (
                f"commands have no network, because theirs could not be created: {e}"
            )
            self._failure = OSError(str(e))
            self._again_at = (
                0.0 if getattr(e, "errno", None) in _PASSING else time.monotonic() + AGAIN_S
            )
            return None
        proxy = Proxy(
            self._hosts.allows,
            self._note_refused,
            parents=parents,
            resolve=self._resolve,
            route=self._route,
        )
        portal = _portals.__enter__()
        self._serving = (
            opening,
            proxy,
            portal,
            portal.start_task_soon(proxy.serve, opening.listening),
        )
        return NetworkGate(port=opening.listening.getsockname()[1], enter=opening.enter)

    def _close(self) -> None:
        if self._serving is None:
            return
        opening, proxy, portal, ended = self._serving
        self._serving = None
        portal.call(proxy.stop)
        ended.exception()
        _portals.__exit__(None, None, None)
        _close_all(opening.descriptors)

    def _note_refused(self, host: str, why: str) -> None:
        """Record a refused host. Called in the proxy's thread; the number of recorded hosts is
        limited.
        """
        if len(self._refused) < 20:
            self._refused[host] = why


def isolated(bwrap: str) -> Opening:
    """Create a user and a network namespace, and listen on the latter's loopback. Blocks for about
    20 ms. Raises OSError.

    This process opens the descriptors itself: inherited ones would stay open in the command.
    """
    program = shutil.which("nsenter", path=path_outside(os.environ.get("PATH"), Path.cwd()))
    if program is None or not sys.executable:
        raise OSError(
            "nsenter is missing: install util-linux"
            if program is None
            else "the Python interpreter is not known"
        )
    listening, user, net = _descriptors(bwrap)
    named = (
        f"--{kind}=/proc/{os.getpid()}/fd/{descriptor}"
        for kind, descriptor in (("user", user), ("net", net))
    )
    opening = Opening(
        listening=socket.socket(fileno=listening),
        enter=[program, *named, "--preserve-credentials", "--"],
        descriptors=(user, net),
    )
    try:
        _check(opening, bwrap)
    except BaseException:
        opening.listening.close()
        _close_all(opening.descriptors)
        raise
    return opening


def _descriptors(bwrap: str) -> Sequence[int]:
    """Create the namespaces. Return the descriptors of the listening socket, the user namespace and
    the network namespace. Raises OSError.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(WITHIN_S)
        helper = [sys.executable, "-I", "-S", "-c", _HELPER, str(theirs.fileno())]
        unshared = ["--unshare-user", "--unshare-net", "--die-with-parent"]
        made = _run([bwrap, *unshared, "--dev-bind", "/", "/", "--", *helper], theirs.fileno())
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 3, socket.MSG_CMSG_CLOEXEC)
    if len(descriptors) != 3:
        _close_all(descriptors)
        raise OSError(
            made.stderr.strip()[-300:] or f"the process that makes it ended with {made.returncode}"
        )
    return descriptors


def _check(opening: Opening, bwrap: str) -> None:
    """Check that bubblewrap works in the namespaces. Raises OSError if not: otherwise, every
    command would fail instead of running without a network.
    """
    jailed = [bwrap, "--unshare-user", "--ro-bind", "/", "/", "--", "/bin/sh", "-c", ":"]
    tried = _run([*opening.enter, *jailed])
    if tried.returncode:
        raise OSError(tried.stderr.strip()[-300:] or f"entering it ended with {tried.returncode}")


def _run(command: Sequence[str], *inherited: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        pass_fds=inherited,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def on_loopback() -> Opening:
    """Listen on the machine's own loopback, if there are no namespaces. Raises OSError."""
    return Opening(listening=socket.create_server(("127.0.0.1", 0)))


_OTHER_PROXIES = frozenset(
    (
        "pip_proxy",
        "npm_config_proxy",
        "npm_config_http_proxy",
        "npm_config_https_proxy",
        "yarn_http_proxy",
        "yarn_https_proxy",
        "cargo_http_proxy",
        "ftp_proxy",
    )
)


async def through_gate(room: CommandRoom, listen: Callable[[], Opening]) -> CommandRoom:
    """Return a copy of the room with its network open. If opening fails, the room has no network,
    and the network lists the reason among its refusals.
    """
    if isinstance(room.network, str | NetworkGate):
        return room
    try:
        return structs.replace(room, network=await room.network.open(listen))
    except OSError:
        return structs.replace(room, network="none")


def with_proxy(environment: Mapping[str, str], room: CommandRoom) -> Mapping[str, str]:
    """Return an environment that points programs to this proxy, in upper and lower case, and to no
    other one, because the user's proxies are unreachable.
    """
    if not isinstance(room.network, NetworkGate):
        return environment
    url, direct = f"http://127.0.0.1:{room.network.port}", "localhost,127.0.0.1,::1"
    ours = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": direct}
    kept = {
        name: value for name, value in environment.items() if name.lower() not in _OTHER_PROXIES
    }
    return {
        **kept,
        **ours,
        **{name.lower(): value for name, value in ours.items()},
        "NODE_USE_ENV_PROXY": "1",
    }
