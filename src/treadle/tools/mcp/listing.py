"""Tools of a server that can be offered to a model: bounded, in plain text, with a valid schema.

pins.py compares them with earlier ones; tool.py calls them. Entry points: `listing_of`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from treadle.errors import AgentError
from treadle.tools.function.given import GivenArguments
from treadle.tools.mcp.server import McpServer
from treadle.tools.mcp.words import one_line, plain
from treadle.tools.tool import InvalidArguments

if TYPE_CHECKING:
    import mcp_types


LONGEST = 64
"""Maximum length of a tool name that all providers accept."""
_MARK_CHARS = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str) -> str:
    """Return the name of a tool for the model. It does not depend on the server's other tools, so a
    call of an old run can never refer to another tool.

    If a character had to be replaced, or the name was too long, it ends with 8 hexadecimal digits
    of a hash.
    """
    whole = f"{server}_{tool}"
    name = _OTHER.sub("_", whole)
    if name == whole and len(name) <= LONGEST and tool:
        return name
    mark = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{name[: LONGEST - _MARK_CHARS - 1]}_{mark}"


TOOLS_MOST = 256
"""Maximum number of tools of one server, after `tools=` is applied. Limited because each takes
space in every request.
"""
DEFERRED_MOST = 4_000
"""Maximum number of tools of one server whose tools are deferred."""
PAGES_MOST = 100
SEEN_MOST = 20_000
"""Maximum number of tools that are read."""
DEFINITION_BYTES = 64 << 10
DEFINITIONS_BYTES = 1 << 20
"""Maximum size of all definitions of one server; eight times that if they are deferred."""
STATES_MOST = 100_000
"""Maximum number of states in the patterns of all tools of one server."""
_DESCRIPTION = 8_000
_NAME = 256
_TOLD = 5


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server currently describes it."""

    theirs: str
    """Name on the server."""
    name: str
    """Name for the model."""
    definition: str
    """Complete description by the server, as JSON text. pins.py compares it."""
    arguments: GivenArguments
    reads_only: bool = False
    is_idempotent: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.definition.encode("utf-8", "surrogatepass")).hexdigest()


class ServerListing(NamedTuple):
    """Tools as a server lists them."""

    tools: Sequence[mcp_types.Tool]
    unfit: Mapping[str, str] = {}
    """Entries that are not valid tools, by name, with the reason."""


class Listing(msgspec.Struct, frozen=True):
    tools: Mapping[str, Offered]
    """Tools by their name on the server, in its order."""
    notes: tuple[str, ...]
    """Tools that are not offered, with the reasons, for people."""


def listing_of(server: McpServer, told: ServerListing) -> Listing:
    """Select the tools that can be offered. Compiles each schema, which may take a second for
    hundreds of tools.
    """
    room, found, left_out = _Room(server), dict[str, Offered](), dict[str, list[str]]()
    for name, why in told.unfit.items():
        if server.tools is None or name in [one_line(wanted, 60) for wanted in server.tools]:
            left_out.setdefault(one_line(why, 200), []).append(name)
    for tool in told.tools:
        if server.tools is not None and tool.name not in server.tools:
            continue
        offered = _offered(server, tool)
        if isinstance(offered, Offered):
            offered = room.fault(offered) or offered
        if isinstance(offered, str):
            left_out.setdefault(offered, []).append(one_line(tool.name, 60))
            continue
        found[tool.name] = offered
    missing = [
        name
        for name in server.tools or ()
        if name not in found and all(one_line(name, 60) not in names for names in left_out.values())
    ]
    if missing:
        left_out["it has no tool of this name, which tools= lists"] = missing
    return Listing(found, tuple(_notes(server, left_out)))


class _Room:
    """Space for the tools of a server, which each fitting one takes up."""

    def __init__(self, server: McpServer) -> None:
        self._deferred = server.deferred
        self._most = DEFERRED_MOST if server.deferred else TOOLS_MOST
        self._bytes = DEFINITIONS_BYTES << (3 if server.deferred else 0)
        self._names, self._theirs = set[str](), set[str]()
        self._size = self._states = 0

    def fault(self, offered: Offered) -> str | None:
        """Return the reason why a tool does not fit; None if it does."""
        size, states = self._size + len(offered.definition), self._states
        if offered.name in self._names or offered.theirs in self._theirs:
            return "it offers two tools of this name; the first one is used"
        if len(self._names) >= self._most:
            return f"it offers more than {self._most:,} tools: {self._advice}"
        if size > self._bytes:
            return (
                f"its tools' descriptions are longer than {self._bytes >> 20} MiB: {self._advice}"
            )
        if (own := offered.arguments.states()) and states + own > STATES_MOST:
            return (
                f"the patterns of its tools unfold to more than {STATES_MOST:,} states: choose "
                "with tools="
            )
        self._names.add(offered.name)
        self._theirs.add(offered.theirs)
        self._size, self._states = size, states + own
        return None

    @property
    def _advice(self) -> str:
        search = "" if self._deferred else ", or let the model search them with deferred=True"
        return f"choose with tools={search}"


def _offered(server: McpServer, tool: mcp_types.Tool) -> Offered | str:
    """Return the tool, or the reason why it cannot be offered."""
    hints = tool.annotations
    definition = _definition(tool)
    if not tool.name or len(tool.name) > _NAME or len(definition) > DEFINITION_BYTES:
        return (
            f"its name is empty or longer than {_NAME} characters, or what is said of it longer "
            f"than {DEFINITION_BYTES >> 10} KiB"
        )
    if _is_hiding(tool.name):
        return "its name contains invisible characters"
    name = tool_name(server.name, tool.name)
    try:
        arguments = GivenArguments(
            name,
            plain(tool.description or tool.title or "", _DESCRIPTION),
            {"type": "object", **_plain_schema(tool.input_schema)},
        )
        _compile(arguments)
    except (AgentError, RecursionError, UnicodeError) as e:
        return f"its schema cannot be used ({one_line(str(e), 200)})"
    destroys = hints is not None and hints.destructive_hint is True
    return Offered(
        theirs=tool.name,
        name=name,
        definition=definition,
        arguments=arguments,
        reads_only=hints is not None and hints.read_only_hint is True and not destroys,
        is_idempotent=hints is not None and hints.idempotent_hint is True and not destroys,
    )


_PROSE = frozenset({"title", "description", "$comment"})
_VALUES = frozenset({"const", "enum", "default", "examples"})


def _plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with its descriptions as plain text, for the model.

    Names, values and everything else that validation depends on are unchanged. Raises
    AgentError(invalid) if they contain invisible characters.
    """
    found: dict[str, Any] = {}
    for key, value in schema.items():
        _refuse_unseen(key)
        if key in _PROSE and isinstance(value, str):
            found[key] = plain(value, _DESCRIPTION)
        elif key in _VALUES:
            _refuse_unseen(json.dumps(value, ensure_ascii=False))
            found[key] = value
        else:
            found[key] = _plain_part(value)
    return found


def _plain_part(part: object) -> object:
    if isinstance(part, dict):
        return _plain_schema(cast("dict[str, Any]", part))
    if isinstance(part, list):
        return [_plain_part(each) for each in cast("list[object]", part)]
    if isinstance(part, str):
        _refuse_unseen(part)
    return part


def _is_hiding(text: str) -> bool:
    return plain(text, len(text)) != text


def _refuse_unseen(text: str) -> None:
    if _is_hiding(text):
        raise AgentError("invalid", "a name or a value in it contains invisible characters")


def _definition(tool: mcp_types.Tool) -> str:
    said: dict[str, Any] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": None
        if tool.annotations is None
        else tool.annotations.model_dump(by_alias=True, exclude_none=True),
    }
    return json.dumps(
        {key: value for key, value in said.items() if value is not None},
        sort_keys=True,
        separators=(",", ":"),
    )


def _compile(arguments: GivenArguments) -> None:
    """Compile the schema. A provider rejects the whole request for an invalid one."""
    with contextlib.suppress(InvalidArguments):
        arguments.parse("{}")


def _notes(server: McpServer, left_out: Mapping[str, list[str]]) -> Iterator[str]:
    for why, names in left_out.items():
        more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
        yield server.redactor.exact(
            f"the MCP server {server.name!r}: {', '.join(map(repr, names[:_TOLD]))}{more} not "
            f"offered: {why}"
        )
