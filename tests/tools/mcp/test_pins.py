"""A tool that is not what it was when it was first seen is not offered until a person has accepted
it.
"""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import mcp_types
import pytest

from tests.tools.mcp.conftest import Use, bad
from treadle.errors import AgentError
from treadle.tools.mcp import McpServer, McpServers, Pins
from treadle.tools.mcp.listing import Offered, ServerListing, listing_of
from treadle.tools.tool import ToolFailed

pytestmark = [pytest.mark.anyio]

SERVER = McpServer(name="s", command=["serve"])


def offered(**tools: str) -> list[Offered]:
    """Tools by name, with their descriptions."""
    listed = [
        mcp_types.Tool(name=name, description=text, input_schema={"type": "object"})
        for name, text in tools.items()
    ]
    return [*listing_of(SERVER, ServerListing(listed)).tools.values()]


async def test_a_tool_that_changes_in_a_run_is_refused_and_in_the_next_one_not_there(
    call: Use, tmp_path: Path, warnings: list[str]
) -> None:
    server = bad("turns", str(tmp_path / "begun"))
    async with McpServers(home=tmp_path / "home") as servers:
        tools = await servers.tools([server], warn=warnings.append)
        assert await call(tools, "a") == "changed"
        with pytest.raises(
            ToolFailed, match="has changed this tool since the run began: nothing was run"
        ) as failed:
            await call(tools, "a")
        assert failed.value.happened is False
        assert await call(tools, "b") == "b is well"
        assert warnings == []
        assert [tool.name for tool in await servers.tools([server], warn=warnings.append)] == [
            "bad_b"
        ]
        assert warnings == [
            "the MCP server 'bad' has changed its tool 'bad_a' since it was first seen: it is not offered until you have reviewed it: treadle tools accept bad"
        ]
    pins = Pins(tmp_path / "home")
    (change,) = pins.changed()
    assert (change.server, change.tool) == ("bad", "a")
    assert '"is this"' in change.before
    assert '"is something else now"' in change.now
    assert pins.accept([change]) == [change]
    assert pins.changed() == []
    async with McpServers(home=tmp_path / "home") as servers:
        assert [tool.name for tool in await servers.tools([server], warn=warnings.append)] == [
            "bad_a",
            "bad_b",
        ]


def test_what_is_new_is_trusted_and_what_has_changed_is_not(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "home")
    assert pins.check(SERVER, offered(a="one")) == []
    assert pins.check(SERVER, offered(a="one", b="two")) == []
    assert pins.check(SERVER, offered(a="other", b="two")) == ["a"]
    assert pins.check(SERVER, offered(b="two")) == []
    assert pins.check(SERVER, offered(a="one", b="two")) == []
    assert pins.changed() == [], "it is again what it was"
    assert stat.S_IMODE((tmp_path / "home" / "mcp-tools.json").stat().st_mode) == 0o600


def test_only_what_a_person_saw_is_accepted(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    pins.check(SERVER, offered(a="one"))
    pins.check(SERVER, offered(a="two"))
    seen = pins.changed()
    pins.check(SERVER, offered(a="three"))
    assert pins.accept(seen) == []
    assert pins.check(SERVER, offered(a="three")) == ["a"]
    assert pins.accept(pins.changed()) != []
    assert pins.check(SERVER, offered(a="three")) == []


def test_hints_and_schemas_are_part_of_what_was_seen() -> None:
    def digest(**more: object) -> str:
        (tool,) = listing_of(
            SERVER,
            ServerListing(
                [
                    mcp_types.Tool.model_validate(
                        {"name": "a", "inputSchema": {"type": "object"}, **more}
                    )
                ]
            ),
        ).tools.values()
        return tool.digest

    digests = [
        digest(),
        digest(annotations={"readOnlyHint": True}),
        digest(inputSchema={"type": "object", "properties": {"x": {}}}),
        digest(outputSchema={"type": "object"}),
        digest(title="A"),
    ]
    assert len(set(digests)) == len(digests)


def test_another_command_is_another_server_and_a_key_in_an_address_is_none() -> None:
    assert SERVER.identity != McpServer(name="s", command=["serve", "more"]).identity
    assert (
        McpServer(name="s", url="https://h/mcp?key=1").identity
        == McpServer(name="s", url="https://u:p@h/mcp?key=2").identity
    )
    assert (
        McpServer(name="s", url="https://h/mcp").identity
        != McpServer(name="s", url="https://h/other").identity
    )


def test_pins_of_many_at_once_are_all_kept(tmp_path: Path) -> None:
    servers = [McpServer(name=f"s{i}", command=["serve"]) for i in range(8)]
    threads = [
        threading.Thread(target=Pins(tmp_path).check, args=(server, offered(a="one")))
        for server in servers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(Pins(tmp_path).check(server, offered(a="two")) == ["a"] for server in servers)


@pytest.mark.parametrize("text", ["{", '{"version": 2, "servers": {}}', '{"servers": []}'])
def test_a_file_that_cannot_be_read_offers_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "mcp-tools.json").write_text(text)
    (tmp_path / "mcp-tools.json").chmod(0o600)
    with pytest.raises(AgentError, match=r"mcp-tools\.json"):
        Pins(tmp_path).check(SERVER, offered(a="one"))
