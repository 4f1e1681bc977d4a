"""The OpenAPI document: FastAPI's own, completed with every response of the border and the error
handlers, as problem+json. Entry point: `document_of`.
"""

from __future__ import annotations

from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from treadle.service.application import Application, Link
from treadle.service.forms import DATA
from treadle.service.problems import MEDIA_TYPE

PROBLEM: Final = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence about the error."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "message": {"type": "string"}},
                "required": ["at", "message"],
            },
        },
    },
}

EVERYWHERE: Final = {
    400: "The request cannot be read.",
    403: "The request comes from a page of another site, or is not allowed.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not plain JSON.",
    421: "The service does not answer to that host name.",
    422: "The request is invalid.",
    429: "A limit is reached: see Retry-After.",
    431: "The request headers are too large.",
    500: "Something went wrong on our side.",
    503: "Temporarily unavailable: see Retry-After.",
}
CONVERSATION, RUN = "/conversations/{conversation_id}", "/runs/{run_id}"
LINKS: Final = (
    Link(
        "post /chat 200",
        "conversation_id",
        "conversation_id",
        (f"get {CONVERSATION}", f"delete {CONVERSATION}"),
    ),
    Link(
        "post /runs 201",
        "run_id",
        "run_id",
        (
            f"get {RUN}",
            f"get {RUN}/events",
            f"post {RUN}/cancel",
            f"post {RUN}/approvals/{{call_id}}",
        ),
    ),
    Link("get /v1/models 200", "name", "data/0/id", ("get /v1/models/{name}",)),
)
"""Links from response fields to the parameters of other operations."""
SIGNED_IN: Final = "Not signed in, or no longer."


def document_of(app: FastAPI) -> dict[str, Any]:
    """Build the document for all routes currently in the application."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"], schemas["Data"] = PROBLEM, DATA
    application: Application = app.state.service.application
    for path in document["paths"].values():
        for operation in cast("dict[str, Any]", path).values():
            _complete(operation)
            _name(operation, application)
    for link in (*LINKS, *application.links):
        _link(document["paths"], link)
    _describe_chat(schemas, application.name)
    if app.state.service.is_open:
        document["paths"]["/metrics"]["get"]["security"].append({})  # with or without a token
    return document


def _name(operation: dict[str, Any], application: Application) -> None:
    """Insert the application's names into the descriptions of our routes."""
    said = operation.get("description", "")
    words = {
        "{title}": application.title,
        "{agent}": application.name,
        "{keeps}": application.keeps,
    }
    for placeholder, name in words.items():
        if placeholder in said:
            operation["description"] = said.replace(placeholder, name).strip()


def _describe_chat(schemas: dict[str, Any], name: str) -> None:
    """Declare that the chat's agent takes no inputs, tags and metadata. Other agents validate their
    own inputs.
    """
    least = {"inputs": "minProperties", "tags": "minItems", "metadata": "minProperties"}
    schemas["RunRequest"]["not"] = {
        "required": ["agent"],
        "properties": {"agent": {"const": name}},
        "anyOf": [
            {"required": [field], "properties": {field: {size: 1}}} for field, size in least.items()
        ],
    }
    schemas["RunRequest"]["properties"]["agent"]["examples"] = [name]
    schemas["CompletionRequest"]["properties"]["model"]["examples"] = [name]


def _link(paths: dict[str, Any], link: Link) -> None:
    method, path, status = link.answer.split()
    links: dict[str, Any] = paths[path][method]["responses"][status].setdefault("links", {})
    for other in link.operations:
        its_method, its_path = other.split()
        operation_id = paths[its_path][its_method]["operationId"]
        links[operation_id] = {
            "operationId": operation_id,
            "parameters": {link.parameter: f"$response.body#/{link.pointer}"},
        }


def _complete(operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation.setdefault("responses", {})
    for status, description in (
        EVERYWHERE | ({401: SIGNED_IN} if operation.get("security") else {})
    ).items():
        responses.setdefault(str(status), {"description": description})
    responses["422"] = {
        "description": responses["422"]["description"].replace("Validation Error", EVERYWHERE[422])
    }
    for status, response in responses.items():
        if status >= "400":
            response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        _with_headers(status, response)
    operation["responses"] = dict(sorted(responses.items()))


def _with_headers(status: str, response: dict[str, Any]) -> None:
    headers = {"429": "Retry-After", "503": "Retry-After", "401": "WWW-Authenticate"}
    if (name := headers.get(status)) is not None:
        response.setdefault("headers", {})[name] = {"schema": {"type": "string"}}
