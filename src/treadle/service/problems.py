"""Errors as problem+json (RFC 9457), without internal names or tracebacks.

Entry points: `HttpProblem`, raised anywhere below a route; `problem_response`; `HANDLERS`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from treadle._internal.terminal_text import one_line
from treadle.errors import AgentError, ErrorKind

logger = logging.getLogger("treadle.service")

MEDIA_TYPE = "application/problem+json"
TROUBLE = "I'm having a bit of trouble right now. Please try again."
OUR_FAULT = (
    "Something went wrong on our side. Please try again; if it persists, give the "
    "request's id to the operator of this service."
)

_SAID = {
    401: "Sign in, and send the token as `Authorization: Bearer …`.",
    404: "There is nothing here.",
    405: "This method is not allowed here.",
    500: OUR_FAULT,
    503: TROUBLE,
}


class HttpProblem(HTTPException):
    """An error response of the service, as a problem document."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Create an HTTP problem. `detail`: one sentence for the client. `title`: None for the
        status phrase. `more`: extension members.
        """
        super().__init__(status, detail, headers)
        self.title = title or HTTPStatus(status).phrase
        self.more = more


def not_found() -> HttpProblem:
    """Return a 404 problem, the same for a missing object and for one of another user."""
    return HttpProblem(404, _SAID[404])


def unauthorized(detail: str = _SAID[401]) -> HttpProblem:
    return HttpProblem(401, detail, headers={"WWW-Authenticate": "Bearer"})


def too_many(detail: str, retry_after_s: float) -> HttpProblem:
    """Return a 429 problem. `detail`: one sentence that names the limit."""
    return HttpProblem(
        429, detail, headers={"Retry-After": str(max(1, round(retry_after_s + 0.5)))}
    )


def unavailable(detail: str = TROUBLE, retry_after_s: float = 5) -> HttpProblem:
    return HttpProblem(
        503, detail, headers={"Retry-After": str(max(1, round(retry_after_s + 0.5)))}
    )


def problem_response(problem: HttpProblem, request: Request | None = None) -> Response:
    """Render a problem. Under `/v1`, the body also has the member that OpenAI clients read."""
    body = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status_code,
        "detail": problem.detail,
        **problem.more,
    }
    if request is not None and request.url.path.startswith("/v1/"):
        body["error"] = {"message": problem.detail, "type": problem.title, "code": None}
    return Response(
        msgspec.json.encode(body),
        problem.status_code,
        headers=problem.headers,
        media_type=MEDIA_TYPE,
    )


async def _http(request: Request, error: Exception) -> Response:
    if isinstance(error, HttpProblem):
        return problem_response(error, request)
    assert isinstance(error, HTTPException)
    status = error.status_code
    headers = {"Allow": _methods_of(request)} if status == 405 else error.headers
    return problem_response(
        HttpProblem(status, _SAID.get(status) or f"{HTTPStatus(status).phrase}.", headers=headers),
        request,
    )


def _methods_of(request: Request) -> str:
    """Return all methods of this path; the route that refused the request knows only its own."""
    path = request.scope["path"]
    routes = [
        route
        for route in iter_route_contexts(request.app.routes)
        if route.methods and route.path_regex.match(path)
    ]
    exact = [route for route in routes if route.path == path] or routes
    return ", ".join(sorted({method for route in exact for method in route.methods or ()}))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors: Sequence[Any] = error.errors()
    found = [
        {
            "at": ".".join(str(step) for step in one["loc"]),
            "message": str(one["msg"]).removeprefix("Value error, "),
        }
        for one in errors[:20]
    ]
    said = "; ".join(f"{one['at']}: {one['message']}" for one in found[:3])
    return problem_response(
        HttpProblem(422, f"The request is invalid: {said}"[:500], errors=found), request
    )


async def _ours(request: Request, error: Exception) -> Response:
    """Convert an AgentError. Client errors keep their message, internal errors do not."""
    assert isinstance(error, AgentError)
    match error.kind:
        case ErrorKind.BUSY:
            return problem_response(
                HttpProblem(409, "This is in progress: wait until it ends."), request
            )
        case ErrorKind.RATE_LIMIT | ErrorKind.NETWORK | ErrorKind.TIMEOUT:
            logger.warning("a request failed for now: %s: %s", error.kind, one_line(error.message))
            return problem_response(unavailable(), request)
        case _:
            logger.error("a request failed", exc_info=error)
            return problem_response(HttpProblem(500, OUR_FAULT), request)


HANDLERS: dict[Any, Any] = {
    HTTPException: _http,
    RequestValidationError: _invalid,
    AgentError: _ours,
}
