"""A model that replays a script, entry by entry, for tests, demos and work without a key. Entry
points: `ScriptedModel`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import anyio
import msgspec

from treadle._internal.json_text import met
from treadle.errors import AgentError
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelRequest,
    PartEnd,
    ReasoningDelta,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.types import StopReason, Usage, new_id

_WORDS_PER_DELTA = 3


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: Any = {}
    """Arguments as an object. A string is sent verbatim, so that a script can contain malformed
    JSON.
    """
    id: str = ""


class _Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal[
        "agent",
        "tool",
        "timeout",
        "rate_limit",
        "network",
        "invalid",
        "auth",
        "cancelled",
        "limit",
        "context_overflow",
        "busy",
    ]
    status: int | None = None
    retry_after_s: float | None = None


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Usage(Usage, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Usage that rejects unknown fields and negative counts."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_read_tokens: _Count = 0
    cache_write_tokens: _Count = 0
    reasoning_tokens: _Count = 0
    cache_write_1h_tokens: _Count = 0
    web_searches: _Count = 0


class ScriptEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A single response of the model.

    Every field is optional. An `error` is raised after the rest of the entry.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[_Call, ...] = ()
    stop: StopReason | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Delay before each delta, in milliseconds."""
    usage: _Usage | None = None
    error: _Error | None = None


class ScriptedModel:
    """Model that responds with the entries of a script in order, regardless of the request.

    Stateful: use one instance per conversation.
    """

    def __init__(
        self,
        entries: Sequence[ScriptEntry | dict[str, Any]],
        *,
        name: str = "script:inline",
        place: int = 0,
    ) -> None:
        """Create a scripted model. `place`: number of entries already used. Raises
        AgentError(invalid) for an invalid entry.
        """
        if isinstance(entries, str):
            raise AgentError(
                "invalid", f'{name}: pass a list of entries, like [{{"text": "{entries:.40}"}}]'
            )
        self._entries = tuple(script_entry(e, i, name) for i, e in enumerate(entries))
        self._name = name
        self.place = place

    @classmethod
    def from_file(cls, path: Path) -> ScriptedModel:
        """Load a script. Raises AgentError(invalid), naming the file, if it cannot be read or is
        not a valid script.
        """
        return cls(_read_script(path), name=f"script:{path}")

    @property
    def name(self) -> str:
        return self._name

    @property
    def refuses(self) -> frozenset[str]:
        return frozenset()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        entry, number = self._take(request)
        whole = False
        try:
            for delta in _deltas(entry):
                if entry.delay_ms:
                    await anyio.sleep(entry.delay_ms / 1000)
                yield delta
            whole = True
            if entry.error is not None:
                text = (
                    f"{self._name}: its entry {number} is an error of the kind {entry.error.kind}"
                )
                raise AgentError(
                    entry.error.kind,
                    text,
                    status=entry.error.status,
                    retry_after_s=entry.error.retry_after_s,
                )
            yield _end(entry, request)
        finally:
            # interrupted before a response or an error: the next request uses the entry again
            if not whole:
                self.place -= 1

    @property
    def unused(self) -> tuple[ScriptEntry, ...]:
        """Entries of the script that no request has used."""
        return self._entries[self.place :]

    def _take(self, request: ModelRequest) -> tuple[ScriptEntry, int]:
        """Return the next entry and its number. Raises AgentError(agent) if none is left."""
        if (place := self.place) >= (count := len(self._entries)):
            entries = f"{count} {'entry' if count == 1 else 'entries'}"
            raise AgentError(
                "agent",
                (
                    f"{self._name} is exhausted: it has {entries}, and another response was "
                    "requested. Add an entry to it"
                ),
            )
        self.place += 1
        return self._entries[place], self.place


def _deltas(entry: ScriptEntry) -> list[Delta]:
    deltas: list[Delta] = [ReasoningDelta(piece) for piece in _pieces(entry.reasoning)]
    deltas += [TextDelta(piece) for piece in _pieces(entry.text)]
    for call in entry.tool_calls:
        arguments = (
            call.arguments
            if isinstance(call.arguments, str)
            else json.dumps(call.arguments, ensure_ascii=False)
        )
        half = len(arguments) // 2
        deltas += [
            ToolCallStart(call.id or new_id("call"), call.name),
            ArgumentsDelta(arguments[:half]),
            ArgumentsDelta(arguments[half:]),
            PartEnd(),
        ]
    return deltas


def _pieces(text: str) -> list[str]:
    """Split a text into pieces of a few words. Joined, they are the text."""
    words = text.split(" ")
    pieces = [
        " ".join(words[i : i + _WORDS_PER_DELTA]) for i in range(0, len(words), _WORDS_PER_DELTA)
    ]
    return [piece + " " * (i < len(pieces) - 1) for i, piece in enumerate(pieces)] if text else []


def _end(entry: ScriptEntry, request: ModelRequest) -> ResponseEnd:
    stop = entry.stop or (StopReason.TOOL_USE if entry.tool_calls else StopReason.COMPLETE)
    usage = Usage() + entry.usage if entry.usage is not None else None
    # about four characters per token, so that summaries and limits have counts to work with
    if usage is None:
        said = (
            len(entry.text)
            + len(entry.reasoning)
            + sum(len(str(c.arguments)) + 20 for c in entry.tool_calls)
        )
        heard = sum(len(m.text) + 40 for m in request.messages)
        usage = Usage(
            input_tokens=heard // 4,
            output_tokens=said // 4 + 1,
            reasoning_tokens=len(entry.reasoning) // 4,
        )
    return ResponseEnd(
        stop_reason=stop, usage=usage, raw_stop_reason=stop.value, id=new_id("resp"), model="script"
    )


def script_entry(value: object, index: int, name: str) -> ScriptEntry:
    """Read an entry. Raises AgentError(invalid), naming the script, for one that is not valid."""
    if isinstance(value, ScriptEntry):
        return value
    try:
        return msgspec.convert(value, met(ScriptEntry))
    except msgspec.ValidationError as e:
        instead = (
            f'. Write {{"text": {json.dumps(value, ensure_ascii=False)}}}'
            if isinstance(value, str) and len(value) < 60
            else ""
        )
        raise AgentError(
            "invalid", f"{name}: entry {index + 1} is not a script entry: {e}{instead}"
        ) from e


def _read_script(path: Path) -> list[dict[str, Any]]:
    try:
        document: object = json.loads(path.read_bytes())
    except OSError as e:
        raise AgentError(
            "invalid", f"cannot read the script {str(path)!r}: {e.strerror or e}"
        ) from e
    except (ValueError, RecursionError) as e:
        raise AgentError("invalid", f"the script {str(path)!r} is not JSON: {e}") from e
    if not isinstance(document, list):
        raise AgentError(
            "invalid",
            (
                f"the script {str(path)!r} must be a JSON list of entries, not "
                f"{type(document).__name__}"
            ),
        )
    return document  # pyright: ignore[reportUnknownVariableType]  each entry is validated by its reader


if TYPE_CHECKING:
    _: type[Model] = ScriptedModel
