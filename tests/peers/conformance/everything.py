"""The fixtures of the conformance suite's reference server, on our `McpToolServer`: `python -m
tests.peers.conformance.everything`.

Its tools are served by our class. Prompts, resources, completion and logging are no features of it:
their handlers stand on the SDK's server beneath, so that the scenarios about them show that ours
leaves the rest of the protocol whole. What each fixture is called and gives is the suite's.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import anyio
from mcp import MCPError, types
from mcp.shared import subscriptions as changes

from tests.peers.conformance.carried import carry
from tests.peers.conformance.offered import BUS, PIXEL, offer_the_rest
from treadle.apps.mcp_server.server import Context, McpToolServer, Reply

SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
Params = types.CallToolRequestParams
Body = Callable[[Context, Params], Awaitable[Any]]
TOOLS: list[Fixture] = []


@dataclass(frozen=True)
class Fixture:
    """A tool whose body gives text, one part, several, or a whole reply."""

    definition: types.Tool
    body: Body

    async def call(self, context: Context, params: Params) -> Reply:
        given = await self.body(context, params)
        if isinstance(given, types.CallToolResult | types.InputRequiredResult):
            return given
        parts: list[Any] = given if isinstance(given, list) else [given]
        return types.CallToolResult(
            content=[
                types.TextContent(text=part) if isinstance(part, str) else part for part in parts
            ]
        )


def fixture(schema: dict[str, Any] | None = None) -> Callable[[Body], Body]:
    def add(body: Body) -> Body:
        definition = types.Tool(
            name=body.__name__,
            description=body.__doc__,
            input_schema=schema or {"type": "object", "properties": {}},
        )
        TOOLS.append(Fixture(definition, body))
        return body

    return add


def texts(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


def told(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    )


# ---------------------------------------------------------------- what a tool gives


@fixture()
async def test_simple_text(context: Context, params: Params) -> Any:
    """Gives text."""
    return "This is a simple text response for testing."


@fixture()
async def test_image_content(context: Context, params: Params) -> Any:
    """Gives an image."""
    return types.ImageContent(data=PIXEL, mime_type="image/png")


@fixture()
async def test_audio_content(context: Context, params: Params) -> Any:
    """Gives a sound."""
    return types.AudioContent(data=SILENCE, mime_type="audio/wav")


@fixture()
async def test_embedded_resource(context: Context, params: Params) -> Any:
    """Gives a resource."""
    return told("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@fixture()
async def test_multiple_content_types(context: Context, params: Params) -> Any:
    """Gives a text, an image and a resource."""
    image = types.ImageContent(data=PIXEL, mime_type="image/png")
    return [
        "Multiple content types test:",
        image,
        told("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'),
    ]


@fixture()
async def test_error_handling(context: Context, params: Params) -> Any:
    """Fails, as a bug would."""
    raise RuntimeError("this tool fails on purpose")


@fixture()
async def test_tool_with_progress(context: Context, params: Params) -> Any:
    """Tells how far it is."""
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"Completed step {done} of 100")
    return str((context.meta or {}).get("progress_token", 0))


@fixture()
async def test_tool_with_logging(context: Context, params: Params) -> Any:
    """Logs to the client."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(context, text)
    return "Tool with logging executed successfully"


@fixture()
async def test_logging_tool(context: Context, params: Params) -> Any:
    """Logs, also to a client that did not ask for it."""
    await log(context, "A word")
    return "logged"


@fixture()
async def test_reconnection(context: Context, params: Params) -> Any:
    """Closes the stream of its own answer, which comes after the client is back."""
    await log(context, "Before disconnect")
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await anyio.sleep(0.2)
    await log(context, "After reconnect")
    return "Reconnection test completed"


async def log(context: Context, text: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # of the era that has no logging any more
        await context.session.send_log_message("info", text, related_request_id=context.request_id)


@fixture({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
async def test_x_mcp_header(context: Context, params: Params) -> Any:
    """Has an argument that is a header too."""
    return f"region={(params.arguments or {}).get('region', '<none>')}"


@fixture(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(context: Context, params: Params) -> Any:
    """Has a schema of many words."""
    return "json_schema_2020_12_tool"


@fixture()
async def test_missing_capability(context: Context, params: Params) -> Any:
    """Needs a client that samples."""
    offered = context.session.client_capabilities
    if offered is None or offered.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="this tool needs a client that samples",
            data=data,
        )
    return "the client samples"


@fixture()
async def test_trigger_tool_change(context: Context, params: Params) -> Any:
    """Says that the tools have changed."""
    await BUS.publish(changes.ToolsListChanged())
    return "tool list changed"


@fixture()
async def test_trigger_prompt_change(context: Context, params: Params) -> Any:
    """Says that the prompts have changed."""
    await BUS.publish(changes.PromptsListChanged())
    return "prompt list changed"


# ---------------------------------------------------------------- asking while the request is open


@fixture(texts("prompt"))
async def test_sampling(context: Context, params: Params) -> Any:
    """Has the client's model answer."""
    message = types.SamplingMessage(
        role="user", content=types.TextContent(text=(params.arguments or {})["prompt"])
    )
    with warnings.catch_warnings(action="ignore"):  # likewise
        given = await context.session.create_message(
            [message], max_tokens=100, related_request_id=context.request_id
        )
    return f"LLM response: {given.content.text if isinstance(given.content, types.TextContent) else ''}"


@fixture(texts("message"))
async def test_elicitation(context: Context, params: Params) -> Any:
    """Asks a person."""
    return await asked(
        context,
        (params.arguments or {})["message"],
        {"response": {"type": "string", "description": "User's response"}},
        ["response"],
    )


@fixture()
async def test_elicitation_sep1034_defaults(context: Context, params: Params) -> Any:
    """Asks with defaults of each kind."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return await asked(context, "Please provide user information", properties)


@fixture()
async def test_elicitation_sep1330_enums(context: Context, params: Params) -> Any:
    """Asks with choices of each kind."""
    levels, features = (
        {"low": "Low Priority", "medium": "Medium Priority", "high": "High Priority"},
        {"feature": "New Feature", "bug": "Bug Fix"},
    )
    properties = {
        "untitledSingle": {"type": "string", "enum": ["active", "inactive", "pending"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [{"const": value, "title": title} for value, title in levels.items()],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["read", "write", "execute"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [{"const": value, "title": title} for value, title in features.items()]
            },
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["small", "large"],
            "enumNames": ["Small Size", "Large Size"],
        },
    }
    return await asked(context, "Please select", properties, list(properties))


async def asked(
    context: Context, message: str, properties: dict[str, Any], required: list[str] | None = None
) -> str:
    schema = {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }
    answer = await context.session.elicit_form(
        message, schema, related_request_id=context.request_id
    )
    return f"action={answer.action}, content={json.dumps(answer.content or {})}"


# ---------------------------------------------------------------- asking by having the request sent again

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def question(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sample(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def wants(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def said(params: Params, key: str, name: str) -> Any:
    """What the person put into the field `name`; None where there is no such answer."""
    answer = (params.input_responses or {}).get(key)
    return (answer.content or {}).get(name) if isinstance(answer, types.ElicitResult) else None


def has(params: Params, *keys: str) -> bool:
    return set(keys) <= set(params.input_responses or {})


@fixture()
async def test_input_required_result_elicitation(context: Context, params: Params) -> Any:
    """Asks for a name."""
    name = said(params, "user_name", "name")
    return (
        wants(user_name=question("What is your name?", NAME)) if name is None else f"Hello, {name}!"
    )


@fixture()
async def test_streaming_elicitation(context: Context, params: Params) -> Any:
    """Asks for a name after some progress."""
    await context.session.report_progress(1, 2)
    return await test_input_required_result_elicitation(context, params)


@fixture()
async def test_input_required_result_sampling(context: Context, params: Params) -> Any:
    """Asks the client's model."""
    return (
        "Model said something"
        if has(params, "capital_question")
        else wants(capital_question=sample("What is the capital of France?"))
    )


@fixture()
async def test_input_required_result_list_roots(context: Context, params: Params) -> Any:
    """Asks for the client's roots."""
    return (
        "Client exposed roots"
        if has(params, "client_roots")
        else wants(client_roots=types.ListRootsRequest())
    )


@fixture()
async def test_input_required_result_request_state(context: Context, params: Params) -> Any:
    """Hands out a state, and wants it back."""
    if has(params, "confirm") and params.request_state == "nonce":
        return "state-ok: confirmation received"
    return wants("nonce", confirm=question("Please confirm", OK))


@fixture()
async def test_input_required_result_tampered_state(context: Context, params: Params) -> Any:
    """Hands out a state that nobody else can make."""
    return (
        wants("round-1", confirm=question("Please confirm", OK))
        if params.request_state is None
        else f"state-ok: {params.request_state}"
    )


@fixture()
async def test_input_required_result_multiple_inputs(context: Context, params: Params) -> Any:
    """Asks for three things at once."""
    if has(params, "user_name", "greeting", "client_roots"):
        return "All inputs received."
    return wants(
        "multiple",
        user_name=question("What is your name?", NAME),
        greeting=sample("Generate a greeting"),
        client_roots=types.ListRootsRequest(),
    )


@fixture()
async def test_input_required_result_multi_round(context: Context, params: Params) -> Any:
    """Asks twice, and remembers in between."""
    state: Mapping[str, Any] = json.loads(params.request_state or "{}")
    if (name := said(params, "step1", "name")) is not None:
        colour = {
            "type": "object",
            "properties": {"color": {"type": "string"}},
            "required": ["color"],
        }
        return wants(
            json.dumps({"name": name}),
            step2=question("Step 2: What is your favorite color?", colour),
        )
    if "name" in state and (colour := said(params, "step2", "color")) is not None:
        return f"{state['name']} likes {colour}."
    return wants(json.dumps({"round": 1}), step1=question("Step 1: What is your name?", NAME))


@fixture()
async def test_input_required_result_capabilities(context: Context, params: Params) -> Any:
    """Asks only what the client can answer."""
    offered = context.session.client_capabilities
    can: dict[str, Any] = (
        {"sample": sample("Say hello")} if offered is None or offered.sampling else {}
    )
    return wants(
        "gated",
        **can,
        **(
            {"ask": question("What is your name?", NAME)}
            if offered is None or offered.elicitation
            else {}
        ),
    )


if __name__ == "__main__":
    server = McpToolServer(cast("Any", TOOLS))
    offer_the_rest(server.sdk)
    anyio.run(carry, server)
