"""Web page of an application: a few files of its package, read once and served unchanged. No
template, no build, no user data.

Entry points: `PageFiles`, `page_router`.
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
        # Text can become neither HTML nor a script, whatever the page's own code does.
        "trusted-types 'none'",
    )
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFiles:
    """`index.html`, served as `/`, and its assets, served under `/assets/`."""

    package: str
    """Package that contains the files."""
    folder: str
    assets: tuple[str, ...]
    """Files served under `/assets/`; other names return 404."""

    @property
    def paths(self) -> frozenset[str]:
        return frozenset({"/", *(f"/assets/{name}" for name in self.assets)})


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    headers: Mapping[str, str]


@cache
def page_file(page: PageFiles, name: str) -> PageFile:
    """Read one of the assets, or `index.html`."""
    content = files(page.package).joinpath(page.folder, name).read_bytes()
    headers = {
        "Content-Type": _TYPES[name.rpartition(".")[2]],
        "Cache-Control": "no-cache",  # revalidated, so that an update applies to all files together
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


@cache  # building the two routes takes 5 ms
def page_router(page: PageFiles) -> APIRouter:
    """Return the routes of a page, which applications may share."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return _answer(request, page_file(page, "index.html"))

    @router.api_route("/assets/{name}", methods=["GET", "HEAD"])
    async def asset(request: Request, name: str) -> Response:
        if name not in page.assets:
            raise HTTPException(404)
        return _answer(request, page_file(page, name))

    del index, asset  # registered by the router
    return router
