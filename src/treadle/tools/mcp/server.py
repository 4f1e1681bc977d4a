"""Definition of an MCP server: its address, the wanted tools, and how far it is trusted.

upkeep.py connects. Entry points: `McpServer`; `RunServer`, which has the headers of one run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import cached_property
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from typing_extensions import override

from treadle._internal.other_names import FieldHints
from treadle._internal.redaction import Redactor, Secret
from treadle._internal.secret_patterns import MASK, keys_in_path, names_a_secret
from treadle.errors import AgentError
from treadle.tools.run_context import RunContext

if TYPE_CHECKING:
    import httpx2

TIMEOUT_S = 60.0
WAIT_S = 10.0
START_TIMEOUT_S = 30.0
"""Default start timeout in seconds. Long enough for `npx -y`, which downloads a server before it
starts it.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_USER = re.compile(r"^[^/@]*@")

SecretText: TypeAlias = "str | Secret"
HeaderSource: TypeAlias = Callable[[RunContext[Any]], Awaitable[Mapping[str, SecretText]]]
"""Async function that returns the headers of one run."""


class ServerSettings(Protocol):
    """Settings of a server in the configuration (`config.McpServer`)."""

    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def env(self) -> dict[str, Secret]: ...
    @property
    def url(self) -> str | None: ...
    @property
    def headers(self) -> dict[str, Secret]: ...
    @property
    def tools(self) -> tuple[str, ...] | None: ...
    @property
    def trust_hints(self) -> bool: ...
    @property
    def deferred(self) -> bool: ...
    @property
    def timeout_s(self) -> float: ...
    @property
    def wait_s(self) -> float: ...


class McpServer(
    msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True, metaclass=FieldHints
):
    """MCP server, with either a `command` or a `url`. Its tools are named NAME_TOOL. It is started
    on first use.

    The constructor raises AgentError(invalid) if the definition is invalid.

    Attributes:
        name: Prefix of its tools' names: at most 64 letters, digits, `_` and `-`.
        command: Program and arguments of a server on stdio.
        env: Variables added to its environment, which contains no provider's key. The values are
            secrets.
        cwd: Working directory of the program. None: that of this process.
        url: URL of a server on streamable HTTP.
        headers: HTTP headers, sent only to that host. The values are secrets. Or an async function
            of the run's context that returns them, for example with the token of its user. It is
            called when a run begins or resumes.
        auth: One of the SDK's OAuth providers (`mcp.client.auth`).
        tools: The only tools to offer, by the server's own names. None: all.
        timeout_s: Timeout of one call in seconds, excluding the time for questions to the user.
        start_timeout_s: Timeout in seconds for the start, including the handshake.
        wait_s: Seconds for which a run waits for its tools before the first request. If they arrive
            later, they join the run in progress. Counts against the run's time limit.
        trust_hints: True: rely on readOnlyHint and idempotentHint, so that such calls run without
            approval, or are repeated after a crash.
        deferred: True: the model searches the tools and sees only those that it has found. The
            server may then have up to 4,000 tools, otherwise 256.
        protocol: legacy: the handshake of 2025 and before, for a server that fails on version
            negotiation.
    """

    name: str
    command: Sequence[str] = ()
    env: Mapping[str, SecretText] = {}
    cwd: Path | str | None = None
    url: str | None = None
    headers: Mapping[str, SecretText] | HeaderSource = {}
    auth: httpx2.Auth | None = None
    tools: Sequence[str] | None = None
    timeout_s: float = TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S
    wait_s: float = WAIT_S
    trust_hints: bool = False
    deferred: bool = False
    protocol: Literal["auto", "legacy"] = "auto"

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise AgentError("invalid", f"the MCP server {self.name!r}: {fault}")

    @classmethod
    def of(cls, name: str, settings: ServerSettings, *, cwd: Path | None = None) -> McpServer:
        """Return the server that the settings describe. Raises AgentError(invalid)."""
        return cls(
            name=name,
            command=settings.command,
            env=settings.env,
            cwd=cwd if settings.command else None,
            url=settings.url,
            headers=settings.headers,
            tools=settings.tools,
            timeout_s=settings.timeout_s,
            wait_s=settings.wait_s,
            trust_hints=settings.trust_hints,
            deferred=settings.deferred,
        )

    async def for_run(self, ctx: RunContext[Any]) -> McpServer:
        """Return this server with the headers that its function returns for a run.

        Raises AgentError: auth if the function fails, timeout after `start_timeout_s`, invalid for
        a wrong result.
        """
        source = self.headers
        if not callable(source):
            return self
        whose, so = f"headers= of the MCP server {self.name!r}", "so the run does not start"
        given: object = None
        try:
            with anyio.move_on_after(self.start_timeout_s) as limit:
                found: object = source(ctx)
                given = await found if isawaitable(found) else found
        except AgentError:
            raise
        except Exception as e:
            # its text may contain a secret
            text = f"{whose} raised {type(e).__name__}, {so}: check the function"
            raise AgentError("auth", text, sent=False) from e
        if limit.cancelled_caught:
            text = f"{whose} returned nothing within start_timeout_s, {self.start_timeout_s:g} s"
            raise AgentError("timeout", f"{text}, {so}", sent=False)
        if not isinstance(given, Mapping):
            text = f"{whose} returned {type(given).__name__}, {so}: return headers by name"
            raise AgentError("auth", f"{text}, like {{'Authorization': 'Bearer …'}}", sent=False)
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["headers"] = given
        return RunServer(**fields)

    @property
    def fixed_headers(self) -> Mapping[str, SecretText]:
        """Headers of every run; empty if a function returns those of each."""
        return {} if callable(self.headers) else self.headers

    def _fault(self) -> str | None:
        if not _NAME.fullmatch(self.name):
            return (
                "its name is letters, digits, '_' and '-', at most 64, since its tools' names "
                "begin with it"
            )
        if (mixed_up := self._mixed_up()) is not None:
            return mixed_up
        if bool(self.command) == (self.url is not None):
            return "pass either a command or a url"
        if self.url is not None and (
            urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname
        ):
            return "its url must be one of http or https, with a host"
        if self.url is None and (self.headers or self.auth):
            return "headers and auth are for a server with a url"
        if callable(self.headers) and self.auth is not None:
            return "pass either auth= or a function as headers="
        if self.url is not None and (self.env or self.cwd):
            return "env and cwd are for a server with a command"
        if any("\0" in word for word in (*self.command, *self.env, *revealed(self.env).values())):
            return "no program takes a NUL character in its arguments or environment"
        return (
            None
            if min(self.timeout_s, self.start_timeout_s, self.wait_s) > 0
            else "timeout_s, start_timeout_s and wait_s must be more than 0"
        )

    def _mixed_up(self) -> str | None:
        """Return the type error that a type checker would report. Without the check, the mistake
        would surface much later with a misleading error.
        """
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, like in (("command", "['npx', '-y', 'some-server']"), ("tools", "['search']")):
            if not _are_texts(fields[name] or ()):
                return f"{name}= takes a list of texts, like {name}={like}"
        fields["headers"] = headers = self.fixed_headers
        for name in ("env", "headers"):
            if not isinstance(fields[name], Mapping) or not _are_texts(
                [*fields[name], *_plain(fields[name])]
            ):
                return f"{name}= takes texts by name, like {name}={{'NAME': 'value'}}"
        if any(mark in text for text in (*headers, *_plain(headers)) for mark in "\r\n\0"):
            return "a header cannot contain a line break"
        return None

    @cached_property
    def redactor(self) -> Redactor:
        """Redactor of this server's secrets."""
        return Redactor(self.secrets)

    @cached_property
    def process(self) -> Hashable:
        """Key of the connection. Servers that differ only in `tools`, `timeout_s`, `trust_hints` or
        `deferred` share one.
        """
        env, headers = revealed(self.env), revealed(self.fixed_headers)
        where = (
            tuple(self.command),
            str(self.cwd or ""),
            self.url,
            id(self.auth),
            self.protocol,
            self.start_timeout_s,
        )
        return (self.name, *where, frozenset(env.items()), frozenset(headers.items()))

    @property
    def secrets(self) -> frozenset[str]:
        """Secrets of the server: values of `env` and `headers`, and everything in its URL except
        the host and path.

        A variable that is passed on unchanged (`env={**os.environ, …}`) is a secret only if its
        name indicates one.
        """
        handed_on = {
            name
            for name, value in self.env.items()
            if value == os.environ.get(name) and not names_a_secret(name)
        }
        variables = [value for name, value in revealed(self.env).items() if name not in handed_on]
        sent = revealed(self.fixed_headers).values()
        bare = [value.partition(" ")[2] for value in sent]  # the x in "Bearer x"
        return frozenset(
            [*variables, *sent, *bare, *([] if self.url is None else _secrets_in(self.url))]
        )

    @property
    def place(self) -> str:
        """Program or address for display, without possible secrets."""
        return _place(self.url) if self.url is not None else self.command[0]

    @property
    def identity(self) -> str:
        """Key under which the server's tools are stored: another command or address under the same
        name is another server.
        """
        where: list[Any] = (
            [self.name, _place(self.url)]
            if self.url is not None
            else [self.name, *self.command, str(self.cwd or "")]
        )
        return hashlib.sha256(json.dumps(where).encode("utf-8", "surrogatepass")).hexdigest()

    @override
    def __repr__(self) -> str:
        return f"<McpServer {self.name!r} at {self.redactor.text(self.place)}>"


class RunServer(McpServer, frozen=True, kw_only=True, eq=False, dict=True):
    """MCP server with the headers of one run. Runs share a connection only if their headers are
    equal; it is closed some time after the last of them.
    """


def _are_texts(values: object) -> bool:
    return isinstance(values, list | tuple) and all(
        isinstance(value, str) for value in cast("Sequence[object]", values)
    )


def _plain(values: Mapping[str, Any]) -> list[Any]:
    return [value.reveal() if isinstance(value, Secret) else value for value in values.values()]


def revealed(values: Mapping[str, SecretText]) -> dict[str, str]:
    """Return the values as plain text."""
    return {
        key: value.reveal() if isinstance(value, Secret) else value for key, value in values.items()
    }


def _place(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path
    for key in keys_in_path(path):
        path = path.replace(key, MASK)
    return urlunsplit((parts.scheme, _USER.sub("", parts.netloc), path, "", ""))


def _secrets_in(url: str) -> list[str]:
    parts = urlsplit(url)
    values = [pair.partition("=")[2] for pair in parts.query.split("&")]
    return [text for text in (parts.password, *values, *keys_in_path(parts.path)) if text]
