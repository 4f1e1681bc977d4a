"""Decoder of Gemini response chunks into deltas. Does no I/O.

exchange.py reads the network; request.py encodes requests. Entry points: `ContentDecoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from treadle.errors import AgentError
from treadle.messages.message import JsonText, ProviderPart
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    ResponseEnd,
    TextDelta,
    TextStart,
    ToolCallStart,
    WholePart,
)
from treadle.models.providers.decoding import Decoder, verbatim
from treadle.models.providers.encoding import Fields
from treadle.models.providers.gemini.chunks import (
    NOTHING,
    Candidate,
    ContentPart,
    FunctionCall,
    GeminiChunk,
    PromptFeedback,
    call_of,
    chunks_of,
    decode_bare,
    decode_chunk,
    decode_rare,
    is_said,
    media_of,
    searches_of,
    text_of,
)
from treadle.models.providers.gemini.endings import (
    CUT,
    GARBLED,
    GOES_ON,
    REFUSALS,
    refused,
    shown_of,
    usage_of,
)
from treadle.models.providers.gemini.naming import GENERATION_OF_LEVELS, is_older
from treadle.models.providers.gemini.partial import PartialArguments
from treadle.models.providers.sse import EventSplitter
from treadle.types import StopReason, Usage

PROVIDER = "gemini"
SIGNATURE = "thoughtSignature"
MODEL, PREFIX = "model", "prefix"
"""Our own fields among the stored fields of a part: the model that signed it, and the number of
characters before the signed ones.
"""


_PLAIN_END = PartEnd()
Kept: TypeAlias = Mapping[str, object]
"""Fields of a part that are sent back with it."""
_NOTHING_KEPT: Kept = {}


class ContentDecoder(Decoder):
    """Decoder of one response.

    The end is known only when the stream is over, because content and counts may follow the finish
    reason.
    """

    def __init__(
        self, reported: Callable[[bytes], AgentError], model_id: str, requests_max: int = 1
    ) -> None:
        """Create a content decoder. `model_id`: the requested model. `requests_max`: maximum number
        of requests for this answer.
        """
        super().__init__(reported)
        self._model_id = model_id
        self._requests_left = requests_max - 1
        self._open: type[TextDelta | ReasoningDelta | ToolCallStart] | None = None
        """Kind of the open part: text, reasoning, or an unfinished call."""
        self._length = 0
        """Number of characters in the open text so far."""
        self._call_kept: Kept = _NOTHING_KEPT
        self._arguments: PartialArguments | None = None
        self._called = False
        self._finish: Candidate[ContentPart] | Candidate[Fields] | None = None
        """The candidate with the finish reason."""
        self._blocked: PromptFeedback | None = None
        self._usage = self._usage_passing = NOTHING
        """The last counts, and newer ones within a text that continues."""
        self._usage_before = Usage()
        """Usage of the requests that this answer continues."""
        self._beside: dict[str, msgspec.Raw] = {}
        """Metadata of the content, such as search sources; the last of each kind counts."""
        self._id = self._model = ""
        self._continued = ""
        self.continuation: str | None = None
        """Set together with `end`, a pause, if the provider continues after this token is sent with
        the same request.
        """

    @override
    def _take(self, events: list[tuple[bytes, bytes]]) -> list[Delta]:
        deltas = list[Delta]()
        self.heard = False
        for _, data in events:
            try:
                bare = decode_bare(data)
            except (ValueError, RecursionError):
                self._take_data(data, deltas)
                continue
            piece = bare.candidates[0].content.parts[0]
            kind = ReasoningDelta if piece.thought else TextDelta
            if self._open is kind and piece.text and self.failure is None:
                deltas.append(kind(piece.text))
                self._length += len(piece.text)
                self._usage_passing = bare.usage_metadata
                self.heard = True
            else:
                self._take_data(data, deltas)
        return deltas

    @override
    def take_body(self, body: bytes) -> list[Delta]:
        deltas = list[Delta]()
        try:
            for data in chunks_of(body):
                self._take_data(data, deltas)
        except (ValueError, RecursionError) as e:
            self._break(f"the response cannot be read: {e}")
        if self.failure is None:
            self._conclude(deltas)
        return deltas

    def go_on(self) -> None:
        """Continue this answer with the data that is fed from now on."""
        self._continued, self.continuation = self.continuation or "", None
        self._usage_before = self._usage_before + self._spent()
        self._usage = self._usage_passing = NOTHING
        self._splitter = EventSplitter()
        self._requests_left -= 1
        self._finish = self.end = None

    # ------------------------------------------------------------ chunks

    def _take_data(self, data: bytes, deltas: list[Delta]) -> None:
        if self.failure is not None:
            return
        try:
            try:
                chunk = decode_chunk(data)
            except (ValueError, RecursionError):
                chunk = decode_rare(data)
            self._take_chunk(chunk, deltas)
            if is_said(chunk.error):
                self.failure = self._reported(data)
        except (ValueError, RecursionError) as e:
            self._break(f"the response contains a chunk that cannot be read: {e}")

    def _take_chunk(
        self, chunk: GeminiChunk[ContentPart] | GeminiChunk[Fields], deltas: list[Delta]
    ) -> None:
        self._id = chunk.response_id or self._id
        self._model = chunk.model_version or self._model
        # the first chunks may contain empty usage
        if b"TokenCount" in bytes(chunk.usage_metadata):
            self._usage, self._usage_passing = chunk.usage_metadata, NOTHING
            self.heard = True
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._blocked = chunk.prompt_feedback
            self.heard = True
        for candidate in chunk.candidates or ():
            if candidate.index:  # another candidate; only one was requested
                continue
            self.heard = True
            if candidate.content is not None:
                for part in candidate.content.parts or ():
                    if isinstance(part, ContentPart):
                        self._take_piece(part, deltas)
                    else:
                        self._take_fields(part, deltas)
            if candidate.finish_reason not in GOES_ON:
                self._finish = candidate
            self.continuation = candidate.continuation_token or self.continuation
            self._keep("groundingMetadata", candidate.grounding_metadata)
            self._keep("citationMetadata", candidate.citation_metadata)
            self._keep("urlContextMetadata", candidate.url_context_metadata)

    def _keep(self, name: str, said: msgspec.Raw) -> None:
        if said is not NOTHING and is_said(said):
            self._beside[name] = said

    # ------------------------------------------------------------ parts

    def _take_piece(self, piece: ContentPart, deltas: list[Delta]) -> None:
        kept = {SIGNATURE: piece.thought_signature} if piece.thought_signature else _NOTHING_KEPT
        if piece.function_call is not None:
            self._take_call(piece.function_call, kept, deltas)
        else:
            self._take_text(
                piece.text or "", ReasoningDelta if piece.thought else TextDelta, kept, deltas
            )

    def _take_fields(self, part: Fields, deltas: list[Delta]) -> None:
        fields = {name: raw for name, raw in part.items() if is_said(raw)}
        text = text_of(fields, "text")
        if "functionCall" in fields:
            self._take_call(
                call_of(fields),
                {name: raw for name, raw in fields.items() if name != "functionCall"},
                deltas,
            )
        elif text is not None or not fields.keys() - {"thought", SIGNATURE}:
            kept = (
                {name: raw for name, raw in fields.items() if name not in ("text", "thought")}
                if SIGNATURE in fields
                else _NOTHING_KEPT
            )
            self._take_text(
                text or "",
                ReasoningDelta if bytes(fields.get("thought", b"")) == b"true" else TextDelta,
                kept,
                deltas,
            )
        else:
            self._take_other(fields, deltas)

    def _take_text(
        self, text: str, kind: type[TextDelta | ReasoningDelta], kept: Kept, deltas: list[Delta]
    ) -> None:
        if self._open is not kind:
            if not text and not kept:
                return
            self._close(deltas)
            if not text and kind is TextDelta:
                # text parts of ours are never empty
                self._take_other({"text": "", **kept}, deltas)
                return
            deltas.append(TextStart() if kind is TextDelta else ReasoningStart())
            self._open, self._length = kind, 0
        if text:
            deltas.append(kind(text))
        if kept:
            before = {PREFIX: self._length} if self._length else _NOTHING_KEPT
            deltas.append(PartEnd(PROVIDER, self._signed({**kept, **before})))
            self._open = None
        else:
            self._length += len(text)

    def _take_other(self, fields: Kept, deltas: list[Delta]) -> None:
        self._close(deltas)
        if (media := media_of(fields)) is not None:
            rest = {name: value for name, value in fields.items() if name != "inlineData"}
            part = replace(media, provider=PROVIDER, provider_data=self._signed(rest))
        else:
            data = self._signed(fields)
            part = ProviderPart(provider=PROVIDER, data=data, shown=shown_of(fields))
        deltas.append(WholePart(part))

    def _signed(self, fields: Kept) -> JsonText:
        return verbatim({**fields, MODEL: self._model_id} if SIGNATURE in fields else fields)

    # ------------------------------------------------------------ calls

    def _take_call(self, call: FunctionCall, kept: Kept, deltas: list[Delta]) -> None:
        whole = bytes(call.args) if is_said(call.args) else b""
        if self._open is not ToolCallStart or call.name:
            # the end of a completed call
            if not (call.name or call.id or whole or call.partial_args):
                return
            self._close(deltas)
            deltas.append(ToolCallStart(call.id or "", call.name or ""))
            self._open, self._call_kept, self._called = ToolCallStart, _NOTHING_KEPT, True
        self._call_kept = {**self._call_kept, **kept}
        if call.partial_args:
            self._arguments = self._arguments or PartialArguments()
            self._arguments.add(call.partial_args)
        if whole and whole != b"{}":
            self._arguments = None
            deltas.append(ArgumentsDelta(whole.decode("utf-8", "replace")))
        if not call.will_continue:
            self._close(deltas)

    def _close(self, deltas: list[Delta]) -> None:
        if self._open is ToolCallStart:
            arguments, self._arguments = self._arguments, None
            if arguments is not None and (text := arguments.text()):
                deltas.append(ArgumentsDelta(text))
            deltas.append(
                PartEnd(PROVIDER, self._signed(self._call_kept)) if self._call_kept else _PLAIN_END
            )
        elif self._open is not None:
            deltas.append(_PLAIN_END)
        self._open = None

    # ------------------------------------------------------------ the end

    @override
    def _conclude(self, deltas: list[Delta]) -> None:
        finish, blocked = self._finish, self._blocked
        raw = (
            finish.finish_reason
            if finish is not None
            else blocked.block_reason
            if blocked is not None
            else None
        ) or ""
        goes_on = raw == "CONTINUATION" and self.continuation not in (None, self._continued)
        if goes_on and (self._requests_left or self._open is not ToolCallStart):
            self.continuation = self.continuation if self._requests_left else None
            self.end = self._ended(StopReason.PAUSE, raw)
            return
        self.continuation = None
        try:
            self._close(deltas)
        except ValueError as e:
            self._break(f"the response contains a call that cannot be read: {e}")
            return
        if not raw:
            super()._conclude(deltas)
        elif blocked is not None:
            deltas.append(
                refused(
                    "the prompt",
                    blocked.block_reason,
                    blocked.safety_ratings,
                    blocked.block_reason_message,
                )
            )
            self.end = self._ended(StopReason.REFUSAL, raw)
        elif finish is not None:
            self._end(finish, raw, deltas)

    def _end(
        self, finish: Candidate[ContentPart] | Candidate[Fields], raw: str, deltas: list[Delta]
    ) -> None:
        if self._beside:
            deltas.append(WholePart(ProviderPart(provider=PROVIDER, data=verbatim(self._beside))))
        said = f": {finish.finish_message}" if finish.finish_message else ""
        if raw in REFUSALS:
            deltas.append(refused("to continue", raw, finish.safety_ratings, finish.finish_message))
            stop = StopReason.REFUSAL
        elif raw == "MISSING_THOUGHT_SIGNATURE":
            self.failure = AgentError(
                "invalid",
                f"the provider requires the signature of an earlier call ({raw}){said}. Begin "
                "a new conversation",
            )
            return
        elif raw in GARBLED and not self._called:
            self._break(f"the model made {GARBLED[raw]} ({raw}){said}")
            return
        else:
            stop = CUT.get(raw) or (StopReason.TOOL_USE if self._called else StopReason.COMPLETE)
        self.end = self._ended(stop, raw)

    def _ended(self, stop: StopReason, raw: str) -> ResponseEnd:
        usage = self._usage_before + self._spent()
        if "groundingMetadata" in self._beside:
            usage += Usage(
                web_searches=searches_of(
                    self._beside["groundingMetadata"],
                    by_query=not is_older(self._model_id, GENERATION_OF_LEVELS),
                )
            )
        return ResponseEnd(
            stop_reason=stop, usage=usage, raw_stop_reason=raw, id=self._id, model=self._model
        )

    def _spent(self) -> Usage:
        return usage_of(
            self._usage_passing if b"TokenCount" in bytes(self._usage_passing) else self._usage
        )
