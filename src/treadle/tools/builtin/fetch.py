"""The `fetch` tool: returns a public web page as text.

See also: connecting (web.py), HTML as text (page.py). Entry point: `Fetch`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from typing_extensions import override

from treadle.tools.builtin import web
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.text import SNIFF_BYTES, binary_kind, image_type
from treadle.tools.tool import ToolContext, ToolFailed, Touched

if TYPE_CHECKING:
    import ssl

MAX_SECONDS = 30.0
_ERROR_CHARS = 1_000
_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-yaml",
    "application/yaml",
    "application/toml",
)


class FetchArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str


class Fetch(Builtin[FetchArguments]):
    name = "fetch"
    effect = "pure"
    arguments = FetchArguments
    example = '{"url": "https://docs.python.org/3/library/os.html"}'
    parameters = closed_object(
        {"url": {"type": "string", "description": "Address of a page: https://… or http://…"}},
        required=["url"],
    )

    def __init__(
        self,
        *,
        resolve: web.Resolve = web.resolve,
        route: web.Route = web.straight,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Create the tool. The parameters are hooks for tests: name resolution, routing and trusted
        certificates.
        """
        super().__init__()
        self._resolve, self._route, self._tls = resolve, route, tls

    @override
    def check(self, arguments: FetchArguments) -> None:
        web.parse_url(arguments.url)

    @override
    def touches(self, arguments: FetchArguments, cwd: Path) -> Touched:
        return Touched(hosts=(web.parse_url(arguments.url).host,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: FetchArguments) -> str:
        """Fetch the page. Cancellation closes the connection."""
        url, answer = web.parse_url(arguments.url), None
        with anyio.move_on_after(MAX_SECONDS):
            answer = await web.get(url, resolve=self._resolve, route=self._route, tls=self._tls)
        if answer is None:
            raise ToolFailed(f"{url} did not send a complete response within {MAX_SECONDS:.0f} s.")
        if isinstance(answer, web.OtherHost):
            return (
                f"{url} redirects to another host, which was not contacted: {answer.url}\nFetch "
                "that address if you want it."
            )
        text = await to_thread.run_sync(_shown, answer)
        if answer.status >= 400:
            raise ToolFailed(
                (
                    f"{answer.url} answered with status {answer.status}. "
                    f"{text[:_ERROR_CHARS].strip()}"
                ).strip()
            )
        return text


def _shown(answer: web.PageResponse) -> str:
    """Render the page. Raises ToolFailed for binary content."""
    from treadle.tools.builtin.page import decoded, is_html, readable  # noqa: PLC0415  a parser of HTML, for the first page

    media_type = answer.media_type
    if is_html(media_type, answer.body):
        page = readable(decoded(answer.body, answer.charset), answer.url)
        head, body, notes = (
            [page.title, answer.url] if page.title else [answer.url],
            page.text,
            page.notes,
        )
    else:
        _must_be_text(answer)
        head, body, notes = (
            [f"{answer.url} ({media_type})" if media_type else answer.url],
            decoded(answer.body, answer.charset),
            [],
        )
    if answer.is_cut:
        notes = [*notes, f"(only the first {web.MAX_BYTES // 1024 // 1024} MiB were read)"]
    return "\n".join([*head, "", body.strip() or "(the page has no text)", *notes])


def _must_be_text(answer: web.PageResponse) -> None:
    media_type, head = answer.media_type, answer.body[:SNIFF_BYTES]
    said = (
        media_type.startswith(_TEXT_TYPES)
        or media_type.endswith(("+json", "+xml"))
        or media_type in ("", "application/octet-stream")
    )
    kind = image_type(head) or binary_kind(head)
    if not said or kind is not None:
        what = kind or media_type
        raise ToolFailed(
            f"{answer.url} is {what} of {'over ' if answer.is_cut else ''}{len(answer.body):,} "
            "bytes, not text, and is not shown."
        )
