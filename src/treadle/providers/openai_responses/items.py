"""The items of an answer while they come: each kind turns its pieces into deltas, and knows what goes back with its parts.

An item says at its end all that it is. What came before it is checked against that: what is missing is added, and where something else was
said, `finish` tells. In which order items come is stream.py's. Entry: `open_item`.
"""

from __future__ import annotations

import json

import msgspec
from typing_extensions import override

from treadle.message import ProviderPart
from treadle.model import ArgumentsDelta, Delta, PartEnd, ReasoningDelta, ReasoningStart, TextDelta, TextStart, ToolCallStart, WholePart
from treadle.providers.decoding import text_of, verbatim
from treadle.providers.encoding import Fields
from treadle.providers.openai_responses.events import (
    ArgumentsPiece,
    InputPiece,
    Piece,
    ReasoningPiece,
    RefusalPiece,
    SummaryPiece,
    TextPiece,
    objects_of,
)
from treadle.providers.surrogates import mended

PROVIDER = "openai"
CUSTOM = "custom_tool_call"

_PLAIN_END = PartEnd()
_NULL = b"null"
_NONE = b"[]"
_MESSAGE: Fields = {"type": msgspec.Raw(b'"message"')}
_REASONING: Fields = {"type": msgspec.Raw(b'"reasoning"')}


class Item:
    """One item. Pieces are added until it is closed; `finish` may come before that, after it, or never."""

    __slots__ = ("closed", "id", "index", "settled")

    def __init__(self, fields: Fields, index: int | None) -> None:
        self.index = index
        self.id = text_of(fields, "id")
        self.closed = False
        self.settled = False
        """Its end has come."""

    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        """Not after it was closed."""

    def part_done(self, fields: Fields) -> None:
        """All that its open part is."""

    def close(self, deltas: list[Delta]) -> None:
        """Something else begins: its end has not come yet, or never will."""
        self.closed = True

    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        """This is all that it is. False where that can no longer be said in deltas."""
        raise NotImplementedError

    @property
    def is_call(self) -> bool:
        return False

    @property
    def refused(self) -> bool:
        return False


def open_item(fields: Fields, index: int | None, deltas: list[Delta]) -> Item:
    """The item that begins so; it may hold all of its content already."""
    match text_of(fields, "type"):
        case "message":
            return _Message(fields, index)
        case "reasoning":
            return _Reasoning(fields, index, deltas)
        case "function_call":
            return _Call(fields, index, deltas)
        case "custom_tool_call":
            return _CustomCall(fields, index, deltas)
        case _:
            return _Other(fields, index)


def implied_item(piece: Piece, item_id: str, deltas: list[Delta]) -> Item | None:
    """The item of a piece that came without its item having been announced; None where more than a piece is needed to know it."""
    if isinstance(piece, TextPiece | RefusalPiece):
        item = open_item(_MESSAGE, piece.output_index, deltas)
    elif isinstance(piece, SummaryPiece | ReasoningPiece):
        item = open_item(_REASONING, piece.output_index, deltas)
    else:
        return None
    item.id = item_id
    return item


def _present(fields: Fields, *but: str) -> Fields:
    return {name: raw for name, raw in fields.items() if name not in but and bytes(raw) != _NULL}


def _same(a: str, b: str) -> bool:
    """But for what is white around it, which some servers do not tell twice alike."""
    return a == b or mended(a).strip() == mended(b).strip()


# ---------------------------------------------------------------- what is said


class _Message(Item):
    __slots__ = ("_content_index", "_done", "_open", "_phase", "_pieces", "_refused", "_refusing", "_said")

    def __init__(self, fields: Fields, index: int | None) -> None:
        super().__init__(fields, index)
        self._phase = _present({"phase": fields.get("phase", msgspec.Raw(_NULL))})
        self._said: list[str] = []
        """The parts before the open one."""
        self._open = False
        self._content_index: int | None = None
        self._pieces: list[str] = []
        self._done: Fields = {}
        self._refusing = self._refused = False

    @override
    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        if not self._open or piece.content_index != self._content_index:
            self._begin(piece, deltas)
        self._pieces.append(piece.delta)
        deltas.append(TextDelta(piece.delta))

    def _begin(self, piece: Piece, deltas: list[Delta]) -> None:
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
        if bytes(content.get("annotations", _NONE)) not in (_NONE, _NULL):
            data["annotations"] = content["annotations"]
        if refusal:
            data["type"] = "refusal"
        return PartEnd(PROVIDER, verbatim(data)) if data else _PLAIN_END

    @override
    def close(self, deltas: list[Delta]) -> None:
        if not self.closed:
            self._end_part(self._done, deltas)
            self.closed = True

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        contents = objects_of(fields, "content")
        if not self.closed and (phase := _present({"phase": fields.get("phase", msgspec.Raw(_NULL))})):
            self._phase = phase
        fits = all(_same(said, _words(content)) for said, content in zip(self._said, contents, strict=False))
        rest = contents[len(self._said) :]
        if self._open and rest:
            said, whole = "".join(self._pieces), _words(rest[0])
            if whole.startswith(said):
                if missing := whole[len(said) :]:
                    deltas.append(TextDelta(missing))
                    self._pieces.append(missing)
            else:
                fits = fits and _same(said, whole)
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


# ---------------------------------------------------------------- what is thought


class _Reasoning(Item):
    """Its text is the summary where there is one, else the reasoning itself."""

    __slots__ = ("_kind", "_part", "_pieces")

    def __init__(self, fields: Fields, index: int | None, deltas: list[Delta]) -> None:
        super().__init__(fields, index)
        self._kind: type[Piece] | None = None
        self._part: int | None = None
        self._pieces: list[str] = []
        deltas.append(ReasoningStart())

    @override
    def add(self, piece: Piece, deltas: list[Delta]) -> None:
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
            known = {"summary": [], "content": [{"type": "reasoning_text", "text": mended("".join(self._pieces))}]}
            deltas.append(PartEnd(PROVIDER, verbatim(known)))
        else:
            deltas.append(_PLAIN_END)

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        said, whole = "".join(self._pieces), self._whole(fields)
        if self.closed:
            return _same(said, whole) and not text_of(fields, "encrypted_content")
        fits = whole.startswith(said) or _same(said, whole)
        if whole.startswith(said) and (missing := whole[len(said) :]):
            deltas.append(ReasoningDelta(missing))
        self.closed = True
        deltas.append(PartEnd(PROVIDER, verbatim(_present(fields, "type", "status"))))
        return fits

    def _whole(self, fields: Fields) -> str:
        summary, content = ("\n\n".join(text for part in objects_of(fields, name) if (text := text_of(part, "text"))) for name in ("summary", "content"))
        return (content or summary) if self._kind is ReasoningPiece else (summary or content)


# ---------------------------------------------------------------- what is to be done


class _Call(Item):
    __slots__ = ("_begun", "_call_id", "_name", "_pieces")

    def __init__(self, fields: Fields, index: int | None, deltas: list[Delta]) -> None:
        super().__init__(fields, index)
        self._pieces: list[str] = []
        self._begun = False
        self._begin(fields, deltas)

    def _begin(self, fields: Fields, deltas: list[Delta]) -> None:
        """Once it has a name."""
        self._call_id, self._name = text_of(fields, "call_id"), text_of(fields, "name")
        if self._name:
            self._begun = True
            deltas.append(ToolCallStart(self._call_id, self._name))
            deltas += [ArgumentsDelta(text) for text in self._pieces]

    @property
    @override
    def is_call(self) -> bool:
        return True

    @override
    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        if isinstance(piece, ArgumentsPiece):
            self._add(piece.delta, deltas)

    def _add(self, text: str, deltas: list[Delta]) -> None:
        self._pieces.append(text)
        if self._begun:
            deltas.append(ArgumentsDelta(text))

    @override
    def close(self, deltas: list[Delta]) -> None:
        if not self.closed:
            self.closed = True
            if self._begun:
                deltas.append(_PLAIN_END)

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        whole, extra = self._whole(fields), self._extra(fields)
        if self.closed:
            same = (text_of(fields, "call_id"), text_of(fields, "name")) == (self._call_id, self._name)
            return same and not extra and _same("".join(self._pieces), whole)
        if not self._begun:
            self._begin({"name": msgspec.Raw(b'""'), **fields}, deltas)
        fits = self._begun and text_of(fields, "name") == self._name
        said = "".join(self._pieces)
        if whole.startswith(said) and (missing := whole[len(said) :]):
            self._add(missing, deltas)
        self.closed = True
        if self._begun:
            deltas.append(PartEnd(PROVIDER, verbatim(extra)) if extra else _PLAIN_END)
        return fits and (whole.startswith(said) or _same(said, whole))

    def _whole(self, fields: Fields) -> str:
        """The arguments; a server may have sent them as the object itself."""
        raw = bytes(fields.get("arguments", b'""'))
        return text_of(fields, "arguments") if raw.startswith(b'"') else "" if raw == _NULL else raw.decode("utf-8", "replace")

    def _extra(self, fields: Fields) -> dict[str, object]:
        return {**_present(fields, "type", "id", "call_id", "name", "arguments", "status")}


class _CustomCall(_Call):
    """Of a tool that takes any text: the text becomes the argument `input`, so that a tool of ours can be it."""

    __slots__ = ()

    @override
    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        if isinstance(piece, InputPiece):
            self._add(('{"input":"' if not self._pieces else "") + json.dumps(piece.delta, ensure_ascii=False)[1:-1], deltas)

    @override
    def _whole(self, fields: Fields) -> str:
        return f'{{"input":{json.dumps(text_of(fields, "input"), ensure_ascii=False)}}}'

    @override
    def _extra(self, fields: Fields) -> dict[str, object]:
        return {"type": CUSTOM, **_present(fields, "type", "id", "call_id", "name", "input", "status")}


class _Other(Item):
    """Anything that goes back as it came, and nobody here looks into."""

    __slots__ = ()

    def __init__(self, fields: Fields, index: int | None) -> None:
        super().__init__(fields, index)

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        if self.closed:
            return False
        self.closed = True
        deltas.append(WholePart(ProviderPart(provider=PROVIDER, data=verbatim(fields))))
        return True
