"""Recording of model traffic to a tape, and offline replay.

A tape is JSON lines: a header, then one exchange per line, with the request and the resulting
deltas or error. Requests are stored as differences from the previous one, so that a tape grows
linearly with the conversation. Ids and times are ignored in comparisons. Entry points:
`RecordingModel`, `TapeModel`.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle._internal.safe_open import open_in_place
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Part, ToolCall, ToolResult
from treadle.models.model import Delta, Model, ModelRequest

TAPE_SCHEMA = 2
"""Version of the format. Version 1 stored complete requests."""
DIFFERENCE_LINES = 24


class _Head(msgspec.Struct, frozen=True):
    treadle_tape: int
    model: str
    refuses: tuple[str, ...] = ()


class _Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: ErrorKind
    message: str
    status: int | None = None
    request_id: str | None = None
    retry_after_s: float | None = None


class _Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    request: dict[str, Any]
    """Difference from the previous request, which also provides the first `kept` messages."""
    deltas: list[Delta]
    error: _Failure | None = None
    kept: int = 0


def _news(request: dict[str, Any], before: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the changes since the previous request, and how many messages they share."""
    messages, older = request["messages"], before.get("messages", [])
    kept = next(
        (i for i, (new, old) in enumerate(zip(messages, older, strict=False)) if new != old),
        min(len(messages), len(older)),
    )
    changed = {
        name: value
        for name, value in request.items()
        if name not in before or before[name] != value
    }
    return {**changed, "messages": messages[kept:]}, kept


def _whole(news: dict[str, Any], kept: int, before: dict[str, Any]) -> dict[str, Any]:
    return {
        **before,
        **news,
        "messages": [*before.get("messages", [])[:kept], *news.get("messages", [])],
    }


def _comparable(request: ModelRequest, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return a request without values that always change (volatile system blocks, message ids and
    times, call ids), and without secrets.
    """
    numbers: dict[str, str] = {}
    messages = [
        {"role": m.role, "parts": [_numbered(part, numbers) for part in m.parts]}
        for m in request.messages
    ]
    system = [block for block in request.system if not block.passing]
    whole = {
        "system": system,
        "tools": request.tools,
        "settings": request.settings,
        "messages": messages,
    }
    return json.loads(clean(encode_json(whole).decode()))


def _numbered(part: Part, numbers: dict[str, str]) -> Part:
    """Replace the ids of calls and results by numbers."""
    match part:
        case ToolCall():
            return msgspec.structs.replace(
                part, id=numbers.setdefault(part.id, f"call {len(numbers) + 1}")
            )
        case ToolResult():
            return msgspec.structs.replace(
                part, call_id=numbers.setdefault(part.call_id, f"call {len(numbers) + 1}")
            )
        case _:
            return part


class RecordingModel:
    """Model wrapper that appends every exchange to a tape.

    `clean` redacts secrets from the tape.
    """

    def __init__(
        self, model: Model, path: Path, *, clean: Callable[[str], str] = lambda text: text
    ) -> None:
        """Create or truncate the tape. Raises AgentError(invalid) if the file cannot be written."""
        self._model = model
        self._path = Path(os.path.realpath(path))
        self._clean = clean
        self._before: dict[str, Any] = {}
        """The last request on the tape."""
        self._write(
            _Head(treadle_tape=TAPE_SCHEMA, model=model.name, refuses=tuple(sorted(model.refuses))),
            "w",
        )

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def refuses(self) -> frozenset[str]:
        return self._model.refuses

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        asked, deltas = _comparable(request, self._clean), list[Delta]()
        try:
            async with aclosing(self._model.stream(request)) as source:
                async for delta in source:
                    deltas.append(delta)
                    yield delta
        except AgentError as e:
            error = _Failure(
                kind=e.kind,
                message=e.message,
                status=e.status,
                request_id=e.request_id,
                retry_after_s=e.retry_after_s,
            )
            self._keep(asked, deltas, error)
            raise
        self._keep(asked, deltas)

    def _keep(
        self, asked: dict[str, Any], deltas: list[Delta], error: _Failure | None = None
    ) -> None:
        request, kept = _news(asked, self._before)
        self._write(_Exchange(request=request, deltas=deltas, error=error, kept=kept), "a")
        self._before = asked

    def _write(self, line: object, how: str) -> None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if how == "w" else os.O_APPEND)
            with open(open_in_place(self._path, flags), how, encoding="utf-8") as tape:
                tape.write(self._clean(encode_json(line).decode()) + "\n")
        except OSError as e:
            raise AgentError(
                "invalid", f"the tape {str(self._path)!r} cannot be written: {e.strerror or e}"
            ) from e


class TapeModel:
    """Model that replays a tape in order. A request that differs from the recording is an error
    that shows the difference.
    """

    def __init__(self, path: Path, *, clean: Callable[[str], str] = lambda text: text) -> None:
        """Open a tape. Raises AgentError(invalid) if it cannot be read.

        `clean`: the redaction used in the recording.
        """
        self._path = path
        self._clean = clean
        self._head, self._exchanges = _read_tape(path)
        self.place = 0
        """Number of exchanges replayed."""

    @property
    def name(self) -> str:
        return self._head.model

    @property
    def refuses(self) -> frozenset[str]:
        return frozenset(self._head.refuses)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        if self.place >= len(self._exchanges):
            exchanges = f"{self.place} exchange{'' if self.place == 1 else 's'}"
            raise AgentError(
                "agent",
                (
                    f"the tape {str(self._path)!r} is exhausted after {exchanges}, and another "
                    "response was requested"
                ),
            )
        exchange = self._exchanges[self.place]
        self.place += 1
        asked = _comparable(request, self._clean)
        if asked != exchange.request:
            difference = _difference(exchange.request, asked)
            raise AgentError(
                "agent",
                (
                    f"request {self.place} differs from the tape {str(self._path)!r} (- tape, + "
                    f"now):\n{difference}"
                ),
            )
        for delta in exchange.deltas:
            yield delta
        if (error := exchange.error) is not None:
            raise AgentError(
                error.kind,
                error.message,
                status=error.status,
                request_id=error.request_id,
                retry_after_s=error.retry_after_s,
            )


def _difference(recorded: object, asked: object) -> str:
    was, is_ = (
        json.dumps(side, indent=1, ensure_ascii=False, sort_keys=True).splitlines()
        for side in (recorded, asked)
    )
    lines = [line[:200] for line in difflib.unified_diff(was, is_, lineterm="", n=2)][2:]
    more = (
        f"\n… and {len(lines) - DIFFERENCE_LINES} more lines"
        if len(lines) > DIFFERENCE_LINES
        else ""
    )
    return "\n".join(lines[:DIFFERENCE_LINES]) + more


def _read_tape(path: Path) -> tuple[_Head, list[_Exchange]]:
    try:
        head, *lines = path.read_bytes().splitlines() or [b""]
    except OSError as e:
        raise AgentError("invalid", f"cannot read the tape {str(path)!r}: {e.strerror or e}") from e
    try:
        parsed = decode_json(head, _Head)
    except ValueError as e:
        raise AgentError("invalid", f"{str(path)!r} is not a tape: {e}") from e
    if parsed.treadle_tape > TAPE_SCHEMA:
        raise AgentError(
            "invalid",
            f"the tape {str(path)!r} was recorded by a newer Treadle: upgrade, or record it again",
        )
    exchanges = list[_Exchange]()
    before: dict[str, Any] = {}
    for number, line in enumerate(lines, 2):
        exchange = _read_exchange(path, number, line)
        if parsed.treadle_tape > 1:
            exchange = msgspec.structs.replace(
                exchange, request=_whole(exchange.request, exchange.kept, before), kept=0
            )
        before = exchange.request
        exchanges.append(exchange)
    return parsed, exchanges


def _read_exchange(path: Path, number: int, line: bytes) -> _Exchange:
    try:
        return decode_json(line, _Exchange)
    except ValueError as e:
        raise AgentError(
            "invalid",
            (
                f"the tape {str(path)!r} is broken at line {number}: {e}. Record it again with "
                "record:FILE=MODEL"
            ),
        ) from e


if TYPE_CHECKING:
    _r: type[Model] = RecordingModel
    _t: type[Model] = TapeModel
