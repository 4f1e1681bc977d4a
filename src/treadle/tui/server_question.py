"""A question that an MCP server asks the person in the middle of a call. It has a look of its own:
every line of the server's stands behind a mark, and nothing about it resembles an approval. Entry:
`answered`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from treadle._internal.terminal_text import revealed, revealed_line
from treadle.tools.approval import ApprovalRequest, Approve, Deny
from treadle.tui.confirm import confirm

if TYPE_CHECKING:
    from treadle.tui.chat import Chat


async def answered(chat: Chat, request: ApprovalRequest, server: str) -> Approve | Deny:
    """The person's answer. A form is declined and shown, since it cannot be filled in here."""
    arguments = request.arguments
    said = cast("Mapping[str, object]", arguments if isinstance(arguments, dict) else {})
    name = revealed_line(server)
    words = [f"  | {line}" for line in _words(chat.runtime.redact(str(said.get("message", ""))))]
    if fields := _fields(said.get("schema")):
        head = f"MCP server {name!r} wants these fields filled in: {', '.join(fields)}."
        end = "Forms cannot be filled in here: it was declined."
        chat.tell("\n".join([head, *words, end]), "warning")
        return Deny()
    page = said.get("url")
    about = "asks you to open a page" if page else "asks you a question"
    lines = [
        f"MCP server {name!r} {about}, in its own words, which are not checked:",
        *words,
        *([f"  | {revealed_line(str(page))}"] if page else []),
        "Your answer goes to the server. It allows no call, and no command.",
    ]
    yes, no = ("I have opened it", "Decline") if page else ("Accept", "Decline")
    question = "\n".join(lines)
    agrees = await confirm(chat.screen, question, yes=yes, no=no, danger=True, complete=True)
    return Approve() if agrees else Deny()


def _words(message: str) -> Iterator[str]:
    yield from revealed(message).split("\n")


def _fields(schema: object) -> list[str]:
    """Of the form, as they are shown: required ones, or all where none is."""
    if not isinstance(schema, Mapping):
        return []
    form = cast("Mapping[str, object]", schema)
    names = form.get("required") or form.get("properties")
    return (
        [revealed_line(str(name)) for name in cast("list[object]", [*names])]
        if isinstance(names, list | Mapping)
        else []
    )
