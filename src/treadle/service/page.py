"""The web page: a few files that stand in `page/`, read once, served as they are. No template, no
build, nothing of a user in them.

What the page does stands in page/app.js. Entry: `router`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request, Response

CONTENT_POLICY = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
        "require-trusted-types-for 'script'",
        # text can become neither HTML nor a script, whatever the page's own code does
        "trusted-types 'none'",
    )
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
ASSETS = (
    "account.js",
    "app.js",
    "chat.js",
    "conversations.js",
    "document.js",
    "events.js",
    "icon.svg",
    "notices.js",
    "reply.js",
    "session.js",
    "style.css",
    "task_row.js",
    "tasks.js",
    "words.js",
)
"""All that is served under `/assets/`; any other name is not found."""
PATHS = frozenset({"/", *(f"/assets/{name}" for name in ASSETS)})

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    headers: Mapping[str, str]


@cache
def page_file(name: str) -> PageFile:
    """One of `ASSETS`, or `index.html`."""
    content = files("treadle.service").joinpath("page", name).read_bytes()
    headers = {
        "Content-Type": _TYPES[name.rpartition(".")[2]],
        "Cache-Control": "no-cache",  # kept, and asked for each time: an update is whole at once
        "ETag": f'"{sha256(content).hexdigest()[:32]}"',
        "Content-Security-Policy": CONTENT_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return PageFile(content, headers)


def _answer(request: Request, file: PageFile) -> Response:
    known = (
        tag.strip().removeprefix("W/")
        for tag in request.headers.get("if-none-match", "").split(",")
    )
    if file.headers["ETag"] in known:
        return Response(
            status_code=304,
            headers={name: value for name, value in file.headers.items() if name != "Content-Type"},
        )
    return Response(file.content, headers=dict(file.headers))


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    return _answer(request, page_file("index.html"))


@router.api_route("/assets/{name}", methods=["GET", "HEAD"])
async def asset(request: Request, name: str) -> Response:
    if name not in ASSETS:
        raise HTTPException(404)
    return _answer(request, page_file(name))
