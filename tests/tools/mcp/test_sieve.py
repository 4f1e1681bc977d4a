"""A list of tools without those that are none, whatever else a server says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCRequest, JSONRPCResponse, methods
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS

from treadle.tools.mcp.sieve import Sieve

OBJECT: dict[str, Any] = {"type": "object"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
WORDS = st.sampled_from(
    [
        "name",
        "inputSchema",
        "outputSchema",
        "annotations",
        "icons",
        "_meta",
        "description",
        "execution",
    ]
)
TOOLS = st.lists(
    st.just({"name": "good", "inputSchema": OBJECT})
    | st.dictionaries(WORDS, JSON | st.just(OBJECT))
    | JSON
)


def sifted(version: str, tools: Any, *, method: str = "tools/list") -> tuple[Any, dict[str, str]]:
    sieve = Sieve()
    sieve.version = version
    sieve.asks(JSONRPCRequest(jsonrpc="2.0", id=1, method=method))
    response = JSONRPCResponse(
        jsonrpc="2.0",
        id=1,
        result={"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
    )
    sieve.answers(response)
    return response.result["tools"], sieve.unfit


@given(st.sampled_from(SUPPORTED_PROTOCOL_VERSIONS), TOOLS)
def test_what_is_left_is_a_list_that_the_sdk_takes(version: str, tools: list[Any]) -> None:
    left, unfit = sifted(version, tools)
    methods.validate_server_result(
        "tools/list",
        version,
        {"tools": left, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
    )
    assert [tool for tool in left if tool == {"name": "good", "inputSchema": OBJECT}] == [
        tool for tool in tools if tool == {"name": "good", "inputSchema": OBJECT}
    ]
    assert bool(unfit) == (len(left) < len(tools))


def test_a_header_that_cannot_be_one_costs_its_tool_where_the_protocol_knows_headers() -> None:
    tools = [
        {"name": "good", "inputSchema": OBJECT},
        {
            "name": "bad",
            "inputSchema": {
                **OBJECT,
                "properties": {"a": {"type": "string", "x-mcp-header": "a b"}},
            },
        },
    ]
    assert sifted("2025-11-25", tools) == (tools, {})
    left, unfit = sifted("2026-07-28", tools)
    assert left == tools[:1]
    assert unfit == {
        "bad": "a header that it wants cannot be one (property 'a': x-mcp-header 'a b' is not an RFC 9110 token)"
    }


@pytest.mark.parametrize("tools", ["no list", None, {"name": "x"}])
def test_what_is_no_list_is_left_to_the_sdk(tools: Any) -> None:
    assert sifted("2026-07-28", tools) == (tools, {})


def test_other_answers_are_left_alone() -> None:
    assert sifted("2026-07-28", ["not ours"], method="tools/call") == (["not ours"], {})
