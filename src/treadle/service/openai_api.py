"""`/v1/models` and `/v1/chat/completions`: an OpenAI-compatible API to the served agents. Each
model is an agent.

Such a client keeps the conversation itself and sends all of it. Earlier messages reach the agent as
text only: tool calls, tool results and system prompts from the client are not accepted. Fields that
would change the answer are rejected, fields that only tune a model are ignored. See also: driving
the agent (completing.py). Entry point: `router`.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Request
from pydantic import AfterValidator, Field
from starlette.responses import Response

from treadle.service.bodies import RequestModel
from treadle.service.completing import CompletionOptions, completed, completed_stream
from treadle.service.forms import Line, Whole, Words, problems
from treadle.service.problems import HttpProblem, unavailable
from treadle.service.running import served_agent
from treadle.service.signed_in import SignedIn, TheService
from treadle.service.sse import MEDIA_TYPE
from treadle.service.state import Service

router = APIRouter(prefix="/v1", tags=["openai"])


def _no(value: bool) -> bool:
    if value:
        raise ValueError("completions are not stored: use false")
    return value


Count: TypeAlias = Annotated[int, Field(ge=1), Whole]


class TextContent(RequestModel):
    type: Literal["text"]
    text: Words


Content: TypeAlias = Words | Annotated[list[TextContent], Field(min_length=1)]


class UserMessage(RequestModel):
    role: Literal["user"]
    content: Content
    name: Line | None = None


class AssistantMessage(RequestModel):
    role: Literal["assistant"]
    content: Content
    name: Line | None = None
    refusal: None = None


class SystemMessage(RequestModel):
    """System message. Accepted because some clients always send one; ignored because an agent has
    its own instructions.
    """

    role: Literal["system", "developer"]
    content: Content
    name: Line | None = None


ChatMessage: TypeAlias = Annotated[
    UserMessage | AssistantMessage | SystemMessage, Field(discriminator="role")
]


class StreamOptions(RequestModel):
    include_usage: bool = False
    include_obfuscation: bool | None = None


class TextFormat(RequestModel):
    type: Literal["text"]


class CompletionRequest(RequestModel):
    """Supported OpenAI fields, and fields that only tune a model, which are ignored."""

    model: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\u0000]*$")]
    """Name of an agent."""
    messages: Annotated[
        list[ChatMessage],
        Field(
            min_length=1,
            json_schema_extra={
                "contains": {"required": ["role"], "properties": {"role": {"const": "user"}}}
            },
        ),
    ]
    """Conversation so far. The last user message is answered; later messages are dropped."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1), Whole] | None = None
    response_format: TextFormat | None = None
    user: Line | None = None
    """Ignored: the token identifies the user."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Whole] | None = None
    store: (
        Annotated[bool, AfterValidator(_no), Field(json_schema_extra={"const": False})] | None
    ) = None
    metadata: (
        Annotated[dict[Annotated[str, Field(max_length=64)], Line], Field(max_length=16)] | None
    ) = None


class ModelOfList(RequestModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "treadle"


class ModelList(RequestModel):
    object: Literal["list"] = "list"
    data: list[ModelOfList]


@router.get("/models", responses=problems())
async def models(scope: SignedIn, service: TheService) -> ModelList:
    """List the served agents."""
    return ModelList(data=[ModelOfList(id=name) for name in _served(service)])


@router.get("/models/{name}", responses=problems(404))
async def model(name: str, scope: SignedIn, service: TheService) -> ModelOfList:
    """Return one served agent."""
    if name not in _served(service):
        raise _unknown(name, service)
    return ModelOfList(id=name)


@router.post(
    "/chat/completions",
    response_model=dict[str, Any],
    responses={
        200: {
            "description": "A chat.completion; with `stream`, its chunks as server-sent events.",
            "content": {MEDIA_TYPE: {}},
        },
        **problems(404, 504),
    },
)
async def completions(
    body: CompletionRequest, request: Request, scope: SignedIn, service: TheService
) -> Response:
    """Return a completion by an agent. Disconnecting cancels it."""
    if service.stopping.is_set():
        raise unavailable()
    if body.model not in _served(service):
        raise _unknown(body.model, service)
    said = [one for one in body.messages if not isinstance(one, SystemMessage)]
    while said and not isinstance(said[-1], UserMessage):
        said.pop()
    if not said:
        raise HttpProblem(422, "At least one message must have the role user.")
    asked = CompletionOptions(
        agent=body.model,
        text=_text(said[-1]),
        earlier=tuple((one.role, _text(one)) for one in said[:-1]),
        conversation_id=_conversation(said),
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
    )
    return await (
        completed_stream(service, scope, asked)
        if body.stream
        else completed(service, scope, asked, request.receive)
    )


def _served(service: Service) -> list[str]:
    agents = (name for name in service.agents if served_agent(service, name) is not None)
    return [service.application.name, *agents]


def _unknown(name: str, service: Service) -> HttpProblem:
    return HttpProblem(
        404, f"There is no model with this name. Available: {', '.join(_served(service))}."
    )


def _text(message: UserMessage | AssistantMessage) -> str:
    return (
        message.content
        if isinstance(message.content, str)
        else "\n".join(part.text for part in message.content)
    )


def _conversation(messages: list[UserMessage | AssistantMessage]) -> str:
    """Return an id that is stable across the requests of one conversation, each of which contains
    its beginning.
    """
    return "v1-" + hashlib.sha256(_text(messages[0]).encode()).hexdigest()[:40]
