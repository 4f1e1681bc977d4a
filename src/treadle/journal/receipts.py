"""Compaction receipts: the removed and remaining parts of a conversation, from which the shortened
conversation can be computed again.

context/shortening.py selects the removed parts, context/compaction.py requests summaries, window.py
is the view of a session between its runs. Entry points: `Cleared`, `Summary`, `Withdrawn`,
`read_receipt`, `folded`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from treadle._internal.json_text import JsonText, decode_json
from treadle.budget.spending import Reserved
from treadle.errors import AgentError
from treadle.journal.window import KeptMessages, WindowReceipt, kept_of
from treadle.messages.message import PDF, MediaPart, Message, Part, TextPart, ToolResult
from treadle.types import Usage, Value

IMAGE = "image/"
LINE_CHARS = 500
"""Maximum length of a line that replaces removed content."""

AGAIN, RAN, TOO_LONG = range(3)
LINES = (
    "[Result of {name} removed to save context, {size}. Repeat the call if you need it.]",
    (
        "[Rest of the result of {name} removed to save context, {size} in total. The call has "
        "run: repeat it only if it should happen again.]"
    ),
    ("[Result of {name} truncated to save context: {size} did not fit. Request less at a time.]"),
)
UNSEEN = "[{name} ({kind}) is not shown: the provider rejected it or a file sent with it.]"


class SummaryCost(Value, frozen=True, kw_only=True):
    """Cost of a summary, whether it was used or not."""

    model: str
    usage: Usage
    cost_usd: float | None = None
    """Cost, or None if its price is unknown."""


class Cut(Value, frozen=True, kw_only=True):
    """Replacement of one result."""

    call_id: str
    line: int = AGAIN
    """Number of the receipt's line that replaces the removed part."""
    kept: int = 0
    """Number of characters at its beginning that are kept before the line."""

    def of(self, result: ToolResult, lines: Sequence[str]) -> ToolResult:
        line = lines[self.line] if 0 <= self.line < len(lines) else ""
        line = _filled(line, size=_shown_size(result), name=result.name)
        head = result.text[: max(self.kept, 0)]
        return msgspec.structs.replace(result, content=f"{head}…\n{line}" if head else line)


def _filled(line: str, **values: str) -> str:
    """Return a line with its placeholders filled, truncated to `LINE_CHARS` because a file may
    contain any line.
    """
    for name, value in values.items():
        line = line[:LINE_CHARS].replace(f"{{{name}}}", value[:LINE_CHARS])
    return line[:LINE_CHARS]


def _shown_size(result: ToolResult) -> str:
    pictures = (
        sum(isinstance(part, MediaPart) for part in result.content)
        if not isinstance(result.content, str)
        else 0
    )
    chars = f"{len(result.text):,} character{'' if len(result.text) == 1 else 's'}"
    images = "1 image or file" if pictures == 1 else f"{pictures} images or files"
    return chars if not pictures else f"{chars} and {images}" if result.text else images


class Cleared(Value, frozen=True, kw_only=True, tag_field="kind", tag="cleared"):
    """Receipt of results that were each replaced by a line.

    Their calls, the result messages and the number of messages stay.
    """

    cuts: tuple[Cut, ...] = ()
    lines: tuple[str, ...] = msgspec.field(default_factory=lambda: LINES)
    """Lines that `cuts` refer to, stored as written.

    `{name}` is the tool's name, `{size}` the size of the result.
    """
    tokens_before: int = 0
    tokens_after: int = 0
    """Estimated tokens of the next request."""
    failed: str = ""
    """Reason why an attempt at a summary failed."""
    spent: SummaryCost | None = None
    """Cost of the attempts."""
    unseen: tuple[str, ...] = ()
    """Ids of messages whose images a line replaces, because the provider refused one of them. In
    messages without images, the line replaces PDF documents.
    """
    unseen_line: str = msgspec.field(default_factory=lambda: UNSEEN)
    """Line for removed images, stored as written. `{name}` is the image's name, `{kind}` its media
    type.
    """
    reserved: Reserved | None = None
    """Reservation for an attempt at a summary that begins with this entry."""
    ended: Literal["", "lost", "free"] = ""
    """End of the attempt at a summary in progress: its cost may be the whole reservation ("lost"),
    or is exactly `spent` ("free").
    """

    @property
    def is_note(self) -> bool:
        """True if the entry only records an attempt at a summary and changes no messages."""
        return self.reserved is not None or self.ended != ""

    def kept(self, messages: Sequence[Message]) -> KeptMessages | None:
        """Return the ids of the messages that remain; None if all do."""
        return None

    def of(self, messages: Sequence[Message]) -> list[Message]:
        cuts = {cut.call_id: cut for cut in self.cuts}
        unseen = frozenset(self.unseen)
        shown = [self._blind(each) if each.id in unseen else each for each in messages]
        return [self._short(each, cuts) if each.role == "tool" else each for each in shown]

    def _blind(self, message: Message) -> Message:
        goes = IMAGE if any(has_media(part, IMAGE) for part in message.parts) else PDF
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult) and not isinstance(part.content, str):
                content = tuple([self._described(inner, goes) for inner in part.content])
                parts.append(msgspec.structs.replace(part, content=content))
            else:
                parts.append(self._described(part, goes) if isinstance(part, MediaPart) else part)
        return message.with_parts(parts)

    def _described(self, part: TextPart | MediaPart, goes: str) -> TextPart | MediaPart:
        if not isinstance(part, MediaPart) or not part.media_type.startswith(goes):
            return part
        name = part.name or ("an image" if part.is_image else "a document")
        return TextPart(text=_filled(self.unseen_line, kind=part.media_type, name=name))

    def _short(self, message: Message, cuts: Mapping[str, Cut]) -> Message:
        changed = {
            part.call_id: cuts[part.call_id].of(part, self.lines)
            for part in message.parts
            if isinstance(part, ToolResult) and part.call_id in cuts
        }
        if not changed:
            return message
        return message.with_parts(
            [
                changed.get(part.call_id, part) if isinstance(part, ToolResult) else part
                for part in message.parts
            ]
        )


class Summary(Value, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """Receipt of messages that were replaced by a summary."""

    pinned: tuple[str, ...]
    """Ids of the messages kept before it: the first words and the run's prompt."""
    kept_from: str
    """Id of the oldest message kept after it."""
    dropped: int
    """Number of removed messages."""
    message: Message
    spent: SummaryCost
    native: bool = False
    """True if the run's model provider wrote it, in its own format."""
    tokens_before: int = 0
    tokens_after: int = 0

    def kept(self, messages: Sequence[Message]) -> KeptMessages | None:
        """Return the remaining messages, or None if the receipt was made for other messages."""
        return kept_of(messages, self.pinned, self.kept_from, self.message)

    def of(self, messages: Sequence[Message]) -> list[Message]:
        return [*messages] if (kept := self.kept(messages)) is None else kept.of(messages)


class Withdrawn(Value, frozen=True, kw_only=True, tag_field="kind", tag="withdrawn"):
    """Receipt for the withdrawn end of a conversation, which the provider refused to continue and
    would refuse in all further requests.
    """

    since: str
    """Id of the first withdrawn message."""
    dropped: int
    message: Message
    """Message that replaces the withdrawn ones."""

    def kept(self, messages: Sequence[Message]) -> KeptMessages | None:
        """Return the remaining messages, or None if the receipt was made for other messages."""
        at = next((i for i, message in enumerate(messages) if message.id == self.since), None)
        return None if at is None else KeptMessages(range(at), at + self.dropped, self.message)

    def of(self, messages: Sequence[Message]) -> list[Message]:
        return [*messages] if (kept := self.kept(messages)) is None else kept.of(messages)


Receipt: TypeAlias = WindowReceipt | Cleared | Summary | Withdrawn


class _Kind(Value, frozen=True, kw_only=True):
    kind: str = "window"


_KINDS: Mapping[str, type[Receipt]] = {
    "window": WindowReceipt,
    "cleared": Cleared,
    "summary": Summary,
    "withdrawn": Withdrawn,
}


def read_receipt(text: JsonText) -> Receipt:
    """Decode a receipt. Raises AgentError(invalid) if it is invalid or of a kind unknown to this
    version.
    """
    try:
        kind = decode_json(text.encode(), _Kind).kind
        if kind in _KINDS:
            return decode_json(text.encode(), _KINDS[kind])
    except ValueError as e:
        raise AgentError("invalid", f"this receipt of a compaction cannot be read: {e}") from e
    raise AgentError(
        "invalid",
        (
            f"a compaction of the kind {kind!r} is unknown: if a newer Treadle wrote it, "
            "upgrade to read it"
        ),
    )


Said: TypeAlias = Message | Receipt
"""Contributions of a run to its conversation, in order: unchanged messages, and compactions of
everything before.
"""


def folded(messages: Sequence[Message], said: Iterable[Said]) -> list[Message]:
    """Return the messages in view after these additions."""
    view = [*messages]
    for one in said:
        if isinstance(one, Message):
            view.append(one)
        else:
            view = one.of(view)
    return view


def has_media(part: Part, kind: str) -> bool:
    """Return True if the part, or a part of its result, has a media type that begins with `kind`."""
    if isinstance(part, ToolResult) and not isinstance(part.content, str):
        return any(has_media(inner, kind) for inner in part.content)
    return isinstance(part, MediaPart) and part.media_type.startswith(kind)
