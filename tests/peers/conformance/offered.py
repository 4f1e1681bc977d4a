"""What of the suite's reference server is no tool: prompts, resources, completion, log levels and
changes, on the SDK's server. Entry: `offer_the_rest`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import MCPError, types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from treadle.apps.mcp_server.server import Context

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
TEXT, BINARY, WATCHED, TEMPLATE = (
    "test://static-text",
    "test://static-binary",
    "test://watched-resource",
    "test://template/{id}/data",
)
BUS = InMemorySubscriptionBus()
Params = Any


def offer_the_rest(server: Server[Any]) -> None:
    handlers: dict[str, tuple[type[Any], Callable[[Context, Params], Awaitable[Any]]]] = {
        "prompts/list": (types.PaginatedRequestParams, _list_prompts),
        "prompts/get": (types.GetPromptRequestParams, _get_prompt),
        "resources/list": (types.PaginatedRequestParams, _list_resources),
        "resources/templates/list": (types.PaginatedRequestParams, _list_templates),
        "resources/read": (types.ReadResourceRequestParams, _read),
        "resources/subscribe": (types.SubscribeRequestParams, _nothing),
        "resources/unsubscribe": (types.UnsubscribeRequestParams, _nothing),
        "completion/complete": (types.CompleteRequestParams, _complete),
        "logging/setLevel": (types.SetLevelRequestParams, _nothing),
        "subscriptions/listen": (types.SubscriptionsListenRequestParams, ListenHandler(BUS)),
    }
    for method, (params, handler) in handlers.items():
        server.add_request_handler(method, params, handler)


async def _nothing(context: Context, params: Params) -> types.EmptyResult:
    return types.EmptyResult()


async def _complete(context: Context, params: Params) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


# ---------------------------------------------------------------- resources


async def _list_resources(context: Context, params: Params) -> types.ListResourcesResult:
    kinds = {TEXT: "text/plain", BINARY: "image/png", WATCHED: "text/plain"}
    return types.ListResourcesResult(
        resources=[types.Resource(name=uri, uri=uri, mime_type=kind) for uri, kind in kinds.items()]
    )


async def _list_templates(context: Context, params: Params) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[types.ResourceTemplate(name="template", uri_template=TEMPLATE)]
    )


async def _read(
    context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    before, after = TEMPLATE.split("{id}")
    uri = params.uri
    if uri == BINARY:
        return types.ReadResourceResult(
            contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)]
        )
    if uri.startswith(before) and uri.endswith(after):
        number = uri.removeprefix(before).removesuffix(after)
        return _text(
            uri,
            "application/json",
            json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"}),
        )
    if uri not in (TEXT, WATCHED):
        code = types.INVALID_PARAMS if context.protocol_version >= "2026" else -32002
        raise MCPError(code=code, message=f"there is no resource {uri!r}", data={"uri": uri})
    return _text(
        uri,
        "text/plain",
        "This is the content of the static text resource."
        if uri == TEXT
        else "Watched resource content",
    )


def _text(uri: str, kind: str, text: str) -> types.ReadResourceResult:
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text)]
    )


# ---------------------------------------------------------------- prompts

ARGUMENTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def _list_prompts(context: Context, params: Params) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(
            name=name,
            description=name,
            arguments=[types.PromptArgument(name=one, required=True) for one in arguments],
        )
        for name, arguments in ARGUMENTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def _get_prompt(
    context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _said("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            return _said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
        case "test_prompt_with_embedded_resource":
            content = types.TextResourceContents(
                uri=given["resourceUri"],
                mime_type="text/plain",
                text="Embedded resource content for testing.",
            )
            return _said(
                types.EmbeddedResource(resource=content),
                "Please process the embedded resource above.",
            )
        case "test_prompt_with_image":
            return _said(
                types.ImageContent(data=PIXEL, mime_type="image/png"),
                "Please analyze the image above.",
            )
        case "test_input_required_result_prompt":
            return _with_context(params)
        case name:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is no prompt {name!r}")


def _with_context(
    params: types.GetPromptRequestParams,
) -> types.GetPromptResult | types.InputRequiredResult:
    answer = (params.input_responses or {}).get("user_context")
    if isinstance(answer, types.ElicitResult) and answer.content:
        return _said(f"Use the following context: {answer.content.get('context')}")
    schema = {
        "type": "object",
        "properties": {"context": {"type": "string"}},
        "required": ["context"],
    }
    question = types.ElicitRequestFormParams(
        message="What context should the prompt use?", requested_schema=schema
    )
    return types.InputRequiredResult(
        input_requests={"user_context": types.ElicitRequest(params=question)}
    )


def _said(*parts: Any) -> types.GetPromptResult:
    contents = [types.TextContent(text=part) if isinstance(part, str) else part for part in parts]
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=content) for content in contents]
    )
