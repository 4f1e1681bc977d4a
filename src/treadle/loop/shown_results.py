"""Results as the model sees them: truncated, with secrets masked, with scaled images or none, and
with notes.

Entry points: `shown_text`, `shown_parts`, `with_note`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
from msgspec import structs

from treadle.loop.call_values import Ready, changed_by
from treadle.messages.images import fitted_parts
from treadle.messages.message import (
    MediaPart,
    Part,
    TextPart,
    ToolResult,
)
from treadle.tools.tool import Tool, ToolContext, ToolFailed
from treadle.tools.truncate import cap_output

P = TypeVar("P", bound=Part)


async def shown_parts(
    output: Sequence[TextPart | MediaPart],
    tool: Tool[Any],
    ctx: ToolContext[Any],
    clean: Callable[[str], str],
    *,
    takes_images: bool,
) -> tuple[TextPart | MediaPart, ...]:
    """Return the parts with their texts as `shown_text` returns them, and with images scaled, or
    replaced if the model does not accept them.

    Raises ToolFailed for any other output.
    """
    is_sequence = isinstance(output, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]  a tool is user code
    if not is_sequence or not all(isinstance(part, (TextPart, MediaPart)) for part in output):  # pyright: ignore[reportUnnecessaryIsInstance]
        text = (
            f"The tool ran, but it returned {output!r:.200}: a tool returns text, or a "
            "sequence of TextPart and MediaPart."
        )
        raise ToolFailed(text, happened=True)
    parts = await fitted_parts(output) if takes_images else without_images(output)
    return tuple(
        [
            TextPart(text=await shown_text(part.text, tool, ctx, clean))
            if isinstance(part, TextPart)
            else part
            for part in parts
        ]
    )


async def shown_text(
    text: str, tool: Tool[Any], ctx: ToolContext[Any], clean: Callable[[str], str]
) -> str:
    """Return the text with secrets masked, truncated to `tool.max_output`, in a thread if it is
    long. Spills the rest.
    """
    text = clean(text)
    if len(text) <= tool.max_output and text.count("\n") < 200 and len(text) < 2_000:
        return text
    cap = partial(cap_output, text, max_chars=tool.max_output, spill=ctx.spill)
    with anyio.CancelScope(shield=True):  # a known result must be kept
        try:
            return await anyio.to_thread.run_sync(cap)
        except RuntimeError:  # cannot start a thread
            return cap()
    raise AssertionError("a shielded scope that is never cancelled returns or raises")


def without_images(parts: Sequence[P]) -> list[P | TextPart]:
    """Replace each image with a line of text, for a model that does not accept images."""
    return [_described(p) if isinstance(p, MediaPart) and p.is_image else p for p in parts]


def _described(image: MediaPart) -> TextPart:
    where = image.url or f"{len(image.data or '') * 3 // 4:,} bytes"
    return TextPart(
        text=(
            f"[{image.name or 'an image'}, {image.media_type}, {where}: not shown, because this "
            "model takes no images]"
        )
    )


def with_note(result: ToolResult, ready: Ready) -> ToolResult:
    """Add a note that names who changed the call's arguments."""
    content, whom, arguments = result.content, ready.changed, ready.call.arguments_json
    if isinstance(content, str):
        return structs.replace(result, content=changed_by(whom, arguments, content))
    return structs.replace(
        result, content=(TextPart(text=changed_by(whom, arguments, "").strip()), *content)
    )
