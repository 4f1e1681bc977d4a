"""Items of a streamed response: each kind turns its fragments into deltas, and keeps the data that
is sent back with its parts.

The end of an item contains its whole content. Earlier fragments are checked against it: missing
content is added, and `finish` reports contradictions. calls.py handles calls, stream.py the order
of items. Entry points: `open_item`.
"""

from __future__ import annotations

import re

import msgspec
from typing_extensions import override

from treadle.messages.message import MediaPart, ProviderPart
from treadle.models.model import (
    Delta,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    TextStart,
    WholePart,
)
from treadle.models.providers.decoding import text_of, verbatim
from treadle.models.providers.encoding import Fields
from treadle.models.providers.hosted import shown_call
from treadle.models.providers.openai_responses.calls import (
    CUSTOM,
    PATCH,
    CallItem,
    CustomCall,
    PatchCall,
)
from treadle.models.providers.openai_responses.events import (
    ItemDelta,
    ReasoningPiece,
    RefusalPiece,
    SummaryPiece,
    TextPiece,
    objects_of,
)
from treadle.models.providers.openai_responses.item import (
    NULL,
    PLAIN_END,
    PROVIDER,
    OutputItem,
    present,
    same,
)
from treadle.models.providers.surrogates import mended

_HOSTED = {
    "web_search_call": "web_search",
    "code_interpreter_call": "code_execution",
    "file_search_call": "file_search",
}
IMAGE = "image_generation_call"
_ASKED = ("action", "code", "queries")
"""Fields of a hosted tool call that describe what it did."""
_NONE = b"[]"
_MESSAGE: Fields = {"type": msgspec.Raw(b'"message"')}
_REASONING: Fields = {"type": msgspec.Raw(b'"reasoning"')}


def open_item(fields: Fields, index: int | None, deltas: list[Delta]) -> OutputItem:
    """Return the item that begins with these fields, which may contain all of its content."""
    match text_of(fields, "type"):
        case "message":
            return _Message(fields, index)
        case "reasoning":
            return _Reasoning(fields, index, deltas)
        case "function_call":
            return CallItem(fields, index, deltas)
        case kind if kind == CUSTOM:
            return CustomCall(fields, index, deltas)
        case kind if kind == PATCH:
            return PatchCall(fields, index, deltas)
        case _:
            return _Other(fields, index)


def implied_item(piece: ItemDelta, item_id: str, deltas: list[Delta]) -> OutputItem | None:
    """Return the item of a fragment whose item was not announced; None if the fragment does not
    identify it.
    """
    if isinstance(piece, TextPiece | RefusalPiece):
        item = open_item(_MESSAGE, piece.output_index, deltas)
    elif isinstance(piece, SummaryPiece | ReasoningPiece):
        item = open_item(_REASONING, piece.output_index, deltas)
    else:
        return None
    item.id = item_id
    return item


# ---------------------------------------------------------------- text


class _Message(OutputItem):
    __slots__ = (
        "_content_index",
        "_done",
        "_open",
        "_phase",
        "_pieces",
        "_refused",
        "_refusing",
        "_said",
    )

    def __init__(self, fields: Fields, index: int | None) -> None:
        super().__init__(fields, index)
        self._phase = present({"phase": fields.get("phase", msgspec.Raw(NULL))})
        self._said: list[str] = []
        """Texts of the parts before the open one."""
        self._open = False
        self._content_index: int | None = None
        self._pieces: list[str] = []
        self._done: Fields = {}
        self._refusing = self._refused = False

    @override
    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        if not self._open or piece.content_index != self._content_index:
            self._begin(piece, deltas)
        self._pieces.append(piece.delta)
        deltas.append(TextDelta(piece.delta))

    def _begin(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        self._end_part(self._done, deltas)
        self._open, self._content_index = True, piece.content_index
        self._refusing = type(piece) is RefusalPiece
        deltas.append(TextStart())

    @override
    def part_done(self, fields: Fields) -> None:
        self._done = fields

    def _end_part(self, content: Fields, deltas: list[Delta]) -> None:
        if self._open:
            refusal = self._refusing or text_of(content, "type") == "refusal"
            self._refused |= refusal
            deltas.append(self._end(content, refusal))
            self._said.append("".join(self._pieces))
            self._pieces, self._done, self._open = [], {}, False

    def _end(self, content: Fields, refusal: bool) -> PartEnd:
        data: dict[str, object] = {**self._phase}
        if bytes(content.get("annotations", _NONE)) not in (_NONE, NULL):
            data["annotations"] = content["annotations"]
        if refusal:
            data["type"] = "refusal"
        return PartEnd(PROVIDER, verbatim(data)) if data else PLAIN_END

    @override
    def close(self, deltas: list[Delta]) -> None:
        if not self.closed:
            self._end_part(self._done, deltas)
            self.closed = True

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        contents = objects_of(fields, "content")
        if not self.closed and (
            phase := present({"phase": fields.get("phase", msgspec.Raw(NULL))})
        ):
            self._phase = phase
        fits = all(
            same(said, _words(content)) for said, content in zip(self._said, contents, strict=False)
        )
        rest = contents[len(self._said) :]
        if self._open and rest:
            said, whole = "".join(self._pieces), _words(rest[0])
            if whole.startswith(said):
                if missing := whole[len(said) :]:
                    deltas.append(TextDelta(missing))
                    self._pieces.append(missing)
            else:
                fits = fits and same(said, whole)
            self._end_part(rest.pop(0), deltas)
        elif self._open or len(self._said) > len(contents):
            fits = fits and not contents
        if self.closed:
            return fits and not rest
        self.close(deltas)
        for content in rest:
            self._say(content, deltas)
        return fits

    def _say(self, content: Fields, deltas: list[Delta]) -> None:
        refusal = text_of(content, "type") == "refusal"
        if not refusal and text_of(content, "type") != "output_text":
            item = {"type": "message", "role": "assistant", "content": [content], **self._phase}
            deltas.append(WholePart(ProviderPart(provider=PROVIDER, data=verbatim(item))))
            return
        self._refused |= refusal
        deltas += [TextStart(), TextDelta(_words(content)), self._end(content, refusal)]

    @property
    @override
    def refused(self) -> bool:
        return self._refused


def _words(content: Fields) -> str:
    return text_of(content, "refusal" if text_of(content, "type") == "refusal" else "text")


# ---------------------------------------------------------------- reasoning


class _Reasoning(OutputItem):
    """A reasoning item. Its text is the summary if there is one, else the reasoning itself."""

    __slots__ = ("_kind", "_part", "_pieces")

    def __init__(self, fields: Fields, index: int | None, deltas: list[Delta]) -> None:
        super().__init__(fields, index)
        self._kind: type[ItemDelta] | None = None
        self._part: int | None = None
        self._pieces: list[str] = []
        deltas.append(ReasoningStart())

    @override
    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        part = piece.summary_index if isinstance(piece, SummaryPiece) else piece.content_index
        if self._kind is None:
            self._kind, self._part = type(piece), part
        if type(piece) is not self._kind:
            return
        text = piece.delta
        if part != self._part:
            self._part = part
            text = "\n\n" + text
        self._pieces.append(text)
        deltas.append(ReasoningDelta(text))

    @override
    def close(self, deltas: list[Delta]) -> None:
        if self.closed:
            return
        self.closed = True
        if self._kind is ReasoningPiece:
            known = {
                "summary": [],
                "content": [{"type": "reasoning_text", "text": mended("".join(self._pieces))}],
            }
            deltas.append(PartEnd(PROVIDER, verbatim(known)))
        else:
            deltas.append(PLAIN_END)

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        said, whole = "".join(self._pieces), self._whole(fields)
        if self.closed:
            return same(said, whole) and not text_of(fields, "encrypted_content")
        fits = whole.startswith(said) or same(said, whole)
        if whole.startswith(said) and (missing := whole[len(said) :]):
            deltas.append(ReasoningDelta(missing))
        self.closed = True
        deltas.append(PartEnd(PROVIDER, verbatim(present(fields, "type", "status"))))
        return fits

    def _whole(self, fields: Fields) -> str:
        summary, content = (
            "\n\n".join(
                text for part in objects_of(fields, name) if (text := text_of(part, "text"))
            )
            for name in ("summary", "content")
        )
        return (content or summary) if self._kind is ReasoningPiece else (summary or content)


# ---------------------------------------------------------------- anything else


_READS_A_PAGE = re.compile(rb'"type"\s*:\s*"(open_page|find_in_page)"')
"""Actions of a web search call that are not billed.

Source: developers.openai.com, "Web search"; read 2026-11-22.
"""


def _fee_of(fields: Fields) -> str:
    match text_of(fields, "type"):
        case "web_search_call" if not _READS_A_PAGE.search(bytes(fields.get("action", b""))):
            return "web_search"
        case "file_search_call":
            return "file_search"
        case "code_interpreter_call":
            return text_of(fields, "container_id")
        case _:
            return ""


class _Other(OutputItem):
    """An item that is returned verbatim and not interpreted."""

    __slots__ = ("_fee",)

    def __init__(self, fields: Fields, index: int | None) -> None:
        super().__init__(fields, index)
        self._fee = ""

    @property
    @override
    def fee(self) -> str:
        return self._fee

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        self._fee = _fee_of(fields)
        if self.closed:
            return False
        self.closed = True
        kind = text_of(fields, "type")
        shown = (
            shown_call(
                _HOSTED[kind],
                msgspec.json.encode(
                    next((fields[name] for name in _ASKED if name in fields), None)
                ),
            )
            if kind in _HOSTED
            else ""
        )
        deltas.append(
            WholePart(
                _image(fields)
                if kind == IMAGE and text_of(fields, "result")
                else ProviderPart(provider=PROVIDER, data=verbatim(fields), shown=shown)
            )
        )
        return True


def _image(fields: Fields) -> MediaPart:
    """Return the image of an `image_generation_call`. Its other fields are sent back with it."""
    return MediaPart(
        media_type=f"image/{text_of(fields, 'output_format') or 'png'}",
        data=text_of(fields, "result"),
        provider=PROVIDER,
        provider_data=verbatim({name: raw for name, raw in fields.items() if name != "result"}),
    )
